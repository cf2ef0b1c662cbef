"""Kernel sums in the arrays of numpy pages: insertion, removal and projection of dictionary points."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.inverse_factor import Tables, remove, split
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.functions.kernel_sum import enter, find, is_zero, squared_length
from kernelswarm.agents.learners.numpy_learner import At, Kappa, between
from kernelswarm.agents.learners.polk import due
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.ranges import Range


def budget_from(least: int, *words: object) -> Range:
    """Return the range of a budget's size."""
    return Range(f"[{least}, inf)", "20 to 500 points are usual", *words)


@cached_njit
def added(points: ReadOnly, weights: ReadOnly, new_points: ReadOnly, new_weights: ReadOnly) -> tuple[Array, Array]:
    """Return the points and weights of ``f + sum_n new_weights[n] kappa(new_points[n], .)``.

    A point that is already in the dictionary adds to its weight; a point with the weight 0 is ignored.
    """
    order, all_points = len(points), np.concatenate((points, new_points))
    all_weights = np.concatenate((weights, new_weights))
    for n in range(len(new_points)):
        if not is_zero(new_weights, n):
            place = find(all_points, order, new_points, n)
            order = enter(all_points, all_weights, order, place, new_points, new_weights, n)
    return all_points[:order], all_weights[:order]


@cached_njit
def without(rows: ReadOnly, place: int) -> Array:
    """Return all rows but one."""
    return np.concatenate((rows[:place], rows[place + 1 :]))


@cached_njit
def squared_lengths(weights: ReadOnly) -> Array:
    """Return ``||W_m||^2`` of each row, (M,)."""
    found = np.empty(len(weights))
    for m in range(len(weights)):
        found[m] = squared_length(weights, m)
    return found


# Projections on the span of the dictionary, by the inverse factor U of its Gram matrix: U'U = inv(K).


class FactorState(NamedTuple):
    """A kernel sum with U, and the number of changes of U since it was last recomputed."""

    points: Array
    weights: Array
    factor: Annotated[Array, "MM"]
    changes: Annotated[Array, "1"]


@cached_njit
def projected(factor: Array, row: Array, itself: float) -> tuple[Array, float]:
    """Return the shares inv(K) k of a point's projection, and the squared norm of its remainder.

    ``row`` is k, the kernel between the point and the dictionary, (M,), and ``itself`` is kappa(x, x). The remainder is
    set to 0 if, within rounding, the point lies in the span of the elements, or an element in the span of the point and
    the others.
    """
    image, found = np.empty(len(row)), np.empty(len(row))
    left = split(factor, len(row), row, itself, image, found)
    largest = 1.0
    for m in range(len(found)):
        largest = max(largest, found[m] * found[m])
    return found, left if left > SPAN_THRESHOLD * itself * largest else 0.0


@cached_njit
def bordered(factor: ReadOnly, shares: ReadOnly, left: float) -> Array:
    """Return U with one more element, from the shares of its projection on the others and its squared remainder."""
    order = len(factor)
    found = np.zeros((order + 1, order + 1))
    found[:order, :order] = factor
    found[order, :order] = -shares / math.sqrt(left)
    found[order, order] = 1.0 / math.sqrt(left)
    return found


@cached_njit
def entered(points: Array, weights: Array, factor: Array, at: At, n: int) -> tuple[Array, Array, Array]:
    """Add point n of a step to points, weights and U; if it is in their span, add its projection to the weights."""
    shares, left = projected(factor, between(at.kappa, at.points[n : n + 1], points)[0], at.gram[n, n])
    if left == 0.0:
        for m in range(len(points)):
            for c in range(weights.shape[1]):
                weights[m, c] += shares[m] * at.weights[n, c]
        return points, weights, factor
    points = np.concatenate((points, at.points[n : n + 1]))
    weights = np.concatenate((weights, at.weights[n : n + 1]))
    return points, weights, bordered(factor, shares, left)


@cached_njit
def projected_out(points: Array, weights: Array, factor: Array, place: int) -> tuple[Array, Array, Array, float]:
    """Project an element on the others and remove it; returns points, weights, U, and the norm of the error."""
    order, precision = len(points), 0.0
    for m in range(place, order):
        precision += factor[m, place] * factor[m, place]
    lost = math.sqrt(squared_length(weights, place) / precision)
    remove(Tables(points, weights, factor, np.empty(order)), order, place, np.empty(order))
    return points[:-1], weights[:-1], factor[:-1, :-1].copy(), lost


@cached_njit
def precisions(factor: ReadOnly) -> Array:
    """Return the diagonal of inv(K), (M,): 1 over each element's squared distance to the span of the others."""
    found = np.zeros(len(factor))
    for m in range(len(factor)):
        for k in range(m + 1):
            found[k] += factor[m, k] * factor[m, k]
    return found


@cached_njit
def inspected(
    points: ReadOnly, weights: ReadOnly, factor: ReadOnly, changes: Array, kappa: Kappa
) -> tuple[Array, Array, Array, Array]:
    """Return the state; U is recomputed if it has changed so often that rounding errors may have accumulated."""
    if changes[0] < due(len(points)):
        return points, weights, factor, changes
    found, gram = np.zeros((0, 0)), between(kappa, points, points)
    for m in range(len(gram)):
        shares, left = projected(found, gram[m, :m], gram[m, m])
        if left == 0.0:
            return points, weights, factor, np.zeros(1)
        found = bordered(found, shares, left)
    return points, weights, found, np.zeros(1)
