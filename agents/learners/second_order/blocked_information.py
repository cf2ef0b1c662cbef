"""Large steps of :mod:`~kernelswarm.agents.learners.second_order.information`, by matrix-matrix products.

The products sum in another order, so that the last digits differ; which form a step takes depends on its size alone.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.learners.second_order import information
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]
LONG_LOOPS = True
Indices = npt.NDArray[np.int64]

STRIP = 128
"""Columns, or rows, that are multiplied together: few enough for the fast caches."""

ROWS = 64
"""Weights that are solved for one after the other."""


@cached_njit
def append(
    root: Array, moments: Array, order: int, projections: Array, rest: Array, diagonal: Array, ridge: float
) -> None:
    """Put points behind ``order`` others, of which the samples so far tell what their projections on these tell.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    order : int
        M.
    projections : Array
        The points' projections on the others, (n, M): their features are as much of the others'.
    rest : Array
        What these leave of the points' Gram matrix, (n, n). Of its directions only the ridge is known.
    diagonal : Array
        kappa(x, x) at the points, (n,).
    ridge : float
        lambda.
    """
    size, width = len(projections), root.shape[1]
    for start in range(0, order, STRIP):
        rows, left = min(STRIP, order - start), order - start
        target, triangle = start * width + order, start * width + start
        multiply(
            root,
            target,
            width,
            root,
            triangle,
            width,
            False,
            projections,
            start,
            order,
            True,
            rows,
            left,
            size,
            1.0,
            0.0,
        )
    lower = _triangle(rest, diagonal)
    for i in range(size):
        row = root[order + i]
        for k in range(order):
            row[k] = 0.0
        for k in range(size):
            row[order + k] = math.sqrt(ridge) * lower[k, i]
        for c in range(moments.shape[1]):
            moments[order + i, c] = 0.0


@cached_njit
def _triangle(gram: Array, diagonal: Array) -> Array:
    """Return the Cholesky factor of what is left of a Gram matrix of points in the span of others, to rounding."""
    lower = np.zeros(gram.shape)
    for x in range(len(gram)):
        for y in range(x + 1):
            entry = gram[x, y]
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * diagonal[x]))
    return lower


@cached_njit
def take_out(root: Array, moments: Array, places: Indices, total: int, rows: Array, aims: Array) -> None:
    """Leave only the points at ``places`` (M,) of ``total``.

    The rows and columns of those that stay are a triangle as they are. What is left in the rows of the others, (r, M),
    with their right-hand sides (r, C), is put down in ``rows`` and ``aims``: rotated in as samples are, it makes R what
    :func:`information.keep` does.
    """
    order = len(places)
    going = np.empty(total - order, np.int64)
    count = 0
    for j in range(total):
        if j - count < order and places[j - count] == j:
            continue
        going[count] = j
        source, target = root[j], rows[count]
        for k in range(order):
            target[k] = source[places[k]]
        copy_vector(moments[j], aims[count])
        count += 1
    _close_up(root, moments, going, total)


@cached_njit
def _close_up(root: Array, moments: Array, going: Indices, total: int) -> None:
    """Take the rows and columns at the places ``going`` out; nothing stays behind the others."""
    passed = 0
    for i in range(total):
        if passed < len(going) and going[passed] == i:
            passed += 1
            continue
        source, target = root[i], root[i - passed]
        if passed > 0:
            copy_vector(moments[i], moments[i - passed])
        for shift in range(passed, len(going) + 1):
            first = i if shift == passed else going[shift - 1] + 1
            last = going[shift] if shift < len(going) else total
            for k in range(first, last):
                target[k - shift] = source[k]
        for k in range(total - len(going), total):
            target[k] = 0.0
    for i in range(total - len(going), total):
        for k in range(total):
            root[i, k] = 0.0
        for c in range(moments.shape[1]):
            moments[i, c] = 0.0


@cached_njit
def follow(
    root: Array,
    moments: Array,
    places: Indices,
    before: int,
    entering: Indices,
    projections: Array,
    rest: Array,
    gram: Array,
    cross: Array,
    ridge: float,
) -> tuple[Array, Array, int]:
    """Update the information after changes of the dictionary.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    places : Array
        The places before of the points that are there now, (M,), of new ones ``before`` plus those in the step, (N).
    before : int
        The points before.
    entering : Array
        The new points that were offered, (n,).
    projections, rest : Array
        Their projections on the points before, (n, before), and what these leave of their Gram matrix, (n, n).
    gram, cross : Array
        The kernel between the step's points, (N, N), and between them and the points before, (N, before).
    ridge : float
        lambda.

    Returns
    -------
    features, sums : Array
        First what is left of the points that have gone, (r, M) and (r, C), to be rotated in as samples are; then
        the kernel between the step's points and the dictionary as it is now, (N, M), and room for what they ask for.
    gone : int
        r.
    """
    order, size, outputs = len(places), len(cross), moments.shape[1]
    kept = 0
    while kept < order and places[kept] < before:
        kept += 1
    coming, gone = order - kept, before - kept
    features, sums = np.empty((gone + size, order)), np.empty((gone + size, outputs))
    if coming:
        chosen = np.searchsorted(entering, places[kept:] - before)
        own, left, diagonal = np.empty((coming, before)), np.empty((coming, coming)), np.empty(coming)
        for i in range(coming):
            copy_vector(projections[chosen[i]], own[i])
            for k in range(coming):
                left[i, k] = rest[chosen[i], chosen[k]]
            new = places[kept + i] - before
            diagonal[i] = gram[new, new]
        append(root, moments, before, own, left, diagonal, ridge)
    if gone:
        stays = np.empty(order, np.int64)
        for k in range(order):
            stays[k] = places[k] if k < kept else before + k - kept
        take_out(root, moments, stays, before + coming, features, sums)
    for n in range(size):
        row, source = features[gone + n], cross[n]
        for k in range(kept):
            row[k] = source[places[k]]
        for k in range(kept, order):
            row[k] = gram[n, places[k] - before]
    return features, sums, gone


@cached_njit
def weigh(features: Array, sums: Array, first: int, curvatures: Array, aims: Array) -> None:
    """Give the rows from ``first`` on the weights of their samples, and put down what these ask for."""
    for n in range(len(aims)):
        row, scale = features[first + n], math.sqrt(curvatures[n])
        for k in range(len(row)):
            row[k] *= scale
        for c in range(aims.shape[1]):
            sums[first + n, c] = scale * aims[n, c]


@cached_njit
def shift(root: Array, moments: Array, order: int, change: Array) -> None:
    """Move the solution by ``change`` (M, C)."""
    width, outputs = root.shape[1], moments.shape[1]
    for start in range(0, order, STRIP):
        rows, left = min(STRIP, order - start), order - start
        triangle, target, below = start * (width + 1), start * outputs, start * outputs
        multiply(
            moments,
            target,
            outputs,
            root,
            triangle,
            width,
            False,
            change,
            below,
            outputs,
            False,
            rows,
            left,
            outputs,
            1.0,
            1.0,
        )


@cached_njit
def solve(root: Array, moments: Array, order: int, weights: Array) -> None:
    """Fill in the weights (M, C) of ``R W = Q``."""
    width, outputs = root.shape[1], moments.shape[1]
    if outputs == 1:
        information.solve(root, moments, order, weights)
        return
    block, right = np.empty((ROWS, ROWS)), np.empty((ROWS, outputs))
    end = order
    while end > 0:
        start = max(end - ROWS, 0)
        rows = end - start
        for i in range(rows):
            copy_vector(moments[start + i], right[i])
            for k in range(i, rows):
                block[i, k] = root[start + i, start + k]
        beside, below = start * width + end, end * outputs
        multiply(
            right,
            0,
            outputs,
            root,
            beside,
            width,
            False,
            weights,
            below,
            outputs,
            False,
            rows,
            order - end,
            outputs,
            -1.0,
            1.0,
        )
        information.solve(block, right, rows, table(weights, start * outputs, rows, outputs))
        end = start
