"""Removal of dictionary points within a Hellinger distance of the posterior, as in parsimonious online processes.

The weights of a second-order learner have the posterior ``N(W, s inv(H))``, with a unit s for each output: the noise
variance times the loss's curvature. Without point j, the posterior of the other weights is that of H without row and
column j, and f(x_j) given the values at the other points follows the prior. Given the values at the dictionary, both
processes follow the prior elsewhere. The distance between the two processes is therefore their distance on the
dictionary, and their distance on any other points is not larger.

With ``G = inv(H)``, ``P = inv(K_DD)`` and its column p, and C outputs whose covariances differ only by s,

    rho = P_jj / (lambda G_jj)        tau = p'H p / (lambda P_jj)
    H^2 = 1 - (rho^(1/4) / ((2 + tau + rho) / 4)^(1/2))^C exp(-z / 4)
    z = (2 + tau - rho) / (2 + tau + rho) sum_c W_jc^2 / (s_c G_jj)

because the two covariances of the weights differ by two terms of rank one, ``p p' / (lambda P_jj) - g g' / G_jj``.
"""

from __future__ import annotations

import math

from kernelswarm.agents.arithmetic import inverse_factor
from kernelswarm.agents.arithmetic.inverse_factor import Tables
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.learners import information
from kernelswarm.agents.learners.observations import Memory
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.protocols.parameters.least_squares import MEAN, STEPS

LONG_LOOPS = True


@cached_njit
def compress(
    tables: Tables,
    memory: Memory,
    order: int,
    epsilon: float,
    ridge: float,
    scale: float,
    work: Array,  # (5, capacity)
) -> tuple[int, float, int]:
    """Remove the points of smallest distance while the sum of distances is at most ``epsilon``; one point stays.

    By the triangle inequality the sum bounds the distance of all removals together.

    Returns
    -------
    order : int
        The number of remaining points.
    spent : float
        The sum of the distances.
    removed : int
        The number of removed points.
    """
    before, spent = order, 0.0
    if not epsilon > 0.0:
        return order, spent, 0
    root, moments, _ = memory.known
    while order > 1:
        place, distance = least_distance(tables, memory.known, order, ridge, scale, epsilon - spent, work)
        if distance > epsilon - spent:
            break
        spent += distance
        kept = work[0]
        for k in range(order - 1):
            kept[k] = k if k < place else k + 1
        information.keep(root, moments, order, kept, order - 1, work[1])
        if len(memory.window):
            information.keep(memory.recent.root, memory.recent.moments, order, kept, order - 1, work[1])
        inverse_factor.remove(tables, order, place, work[2])
        order -= 1
        information.solve(root, moments, order, tables.weights)
    return order, spent, before - order


@cached_njit
def fill_variances(root: Array, order: int, variances: Array, row: Array) -> None:
    """Fill in the diagonal of ``inv(H)``, the squared norms of the rows of inv(R), without subtractions."""
    for j in range(order):
        for k in range(j, order):
            row[k] = 0.0
        row[j], variances[j] = 1.0, 0.0
        for i in range(j, order):
            upper = root[i]
            entry = row[i] / upper[i]
            variances[j] += entry * entry
            for k in range(i + 1, order):
                row[k] -= entry * upper[k]


@cached_njit
def bend(tables: Tables, root: Array, order: int, j: int, column: Array) -> float:
    """Return ``p'H p``, the squared norm of R p, for the column p = j of ``inv(K_DD)``."""
    factor, width, total = tables.factor, root.shape[1], 0.0
    for k in range(order):
        column[k] = 0.0
    for i in range(j, order):
        below, entry = factor[i], factor[i, j]
        for k in range(i + 1):
            column[k] += entry * below[k]
    for i in range(order):
        image = dot(root, i * width + i, line(column, i, order - i), order - i)
        total += image * image
    return total


@cached_njit
def fill_moves(known: Information, weights: Array, order: int, scale: float, moved: Array) -> None:
    """Fill in the sums ``sum_c W_jc^2 / s_c``.

    For a node without samples s_c is the maximum-likelihood unit under the prior, ``||f||^2 lambda / M``.
    """
    moments, noise = known.moments, known.noise
    for j in range(order):
        moved[j] = 0.0
    for c in range(noise.shape[1]):
        unit = scale * noise[MEAN, c]
        if not noise[STEPS, 0] > 0.0:
            unit = 0.0
            for i in range(order):
                unit += moments[i, c] * moments[i, c] / order
        for j in range(order):
            square = weights[j, c] * weights[j, c]
            if square > 0.0:
                moved[j] += square / unit if unit > 0.0 else math.inf


@inline_always
def squared_distance(gain: float, bend: float, moved: float, outputs: int) -> float:
    """Return H^2, computed from rho, tau, ``sum_c W_jc^2 / (s_c G_jj)`` and C."""
    wide = 0.25 * math.log(gain) - 0.5 * math.log1p(0.25 * (gain - 1.0 + bend - 1.0))
    return -math.expm1(min(outputs * wide - 0.25 * (2.0 + bend - gain) / (2.0 + bend + gain) * moved, 0.0))


@cached_njit
def least_distance(
    tables: Tables, known: Information, order: int, ridge: float, scale: float, most: float, work: Array
) -> tuple[int, float]:
    """Return the index of the point whose removal changes the posterior least, and the distance; ties go to the oldest.

    tau is at least rho, and the distance increases with tau, so that the distance with tau = rho is a lower bound. tau
    is computed only for points whose bound is at most the smallest distance so far and at most ``most``. If there are
    none, the distance is infinite.
    """
    precision, outputs = tables.precision, known.moments.shape[1]
    variances, bounds, moved, column = work[0], work[1], work[2], work[3]
    fill_variances(known.root, order, variances, column)
    fill_moves(known, tables.weights, order, scale, moved)
    for j in range(order):
        gain = precision[j] / (ridge * variances[j])
        moved[j] /= variances[j]
        bounds[j] = squared_distance(gain, gain, moved[j], outputs)
    place, least = 0, math.inf
    while True:
        j = 0
        for k in range(1, order):
            if bounds[k] < bounds[j]:
                j = k
        if bounds[j] > least or not math.sqrt(bounds[j]) <= most:
            return place, math.sqrt(least)
        gain = precision[j] / (ridge * variances[j])
        wide = max(bend(tables, known.root, order, j, column) / (ridge * precision[j]), gain)
        square, bounds[j] = squared_distance(gain, wide, moved[j], outputs), math.inf
        if square < least or (square == least and j < place):
            place, least = j, square
