"""Removal of dictionary points within a Hellinger distance of the posterior, as parsimonious online processes do it.

The weights of a second-order learner have the posterior ``N(W, s inv(H))``, with the unit s of each output: the noise's
variance times the loss's curvature. Without point j it is what the samples' features at the other points say: H without
row and column j, and the prior between f(x_j) and the values at the others. Elsewhere both are the prior given the
values at the dictionary, so that their distance there is that of the two processes, and no smaller one at any points.

With ``G = inv(H)``, ``P = inv(K_DD)`` and its column p, and C outputs, all of one covariance but for s,

    rho = P_jj / (lambda G_jj)        tau = p'H p / (lambda P_jj)
    H^2 = 1 - (rho^(1/4) / ((2 + tau + rho) / 4)^(1/2))^C exp(-z / 4)
    z = (2 + tau - rho) / (2 + tau + rho) sum_c W_jc^2 / (s_c G_jj)

since the two covariances differ by two terms of rank one, ``p p' / (lambda P_jj) - g g' / G_jj`` in weights.
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
from kernelswarm.protocols.core.compiling import cached_njit
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
    """Remove points, the least distance first, while the distances sum up to at most ``epsilon``; the last one stays.

    The sum bounds the distance of all removals together, by the triangle inequality.

    Returns
    -------
    order : int
        The points that are left.
    spent : float
        The sum of the distances.
    removed : int
        The points that have gone.
    """
    before, spent = order, 0.0
    if not epsilon > 0.0:
        return order, spent, 0
    root, moments, _ = memory.known
    while order > 1:
        fill_spreads(tables, root, order, work)
        place, distance = least_distance(tables, memory.known, order, ridge, scale, work)
        if spent + distance > epsilon:
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
def fill_spreads(tables: Tables, root: Array, order: int, work: Array) -> None:
    """Fill the first two rows of ``work`` with the diagonals of ``inv(H)`` and of ``inv(K_DD) H inv(K_DD)``.

    The first has the squared rows of inv(R), the second the squared columns of ``R U'U``; nothing is subtracted.
    """
    factor, width = tables.factor, root.shape[1]
    variances, bends, row, image = work[0], work[1], work[2], work[3]
    for j in range(order):
        row[j], bends[j], total = 1.0, 0.0, 0.0
        for k in range(j + 1, order):
            row[k] = 0.0
        for i in range(j, order):
            upper = root[i]
            entry = row[i] / upper[i]
            total += entry * entry
            for k in range(i + 1, order):
                row[k] -= entry * upper[k]
        variances[j] = total
    for i in range(order):
        for k in range(order):
            image[k] = 0.0
        for k in range(i, order):
            size, below = k - i + 1, factor[k]
            entry = dot(root, i * width + i, line(factor, k * width + i, size), size)
            for m in range(k + 1):
                image[m] += entry * below[m]
        for k in range(order):
            bends[k] += image[k] * image[k]


@cached_njit
def least_distance(
    tables: Tables, known: Information, order: int, ridge: float, scale: float, work: Array
) -> tuple[int, float]:
    """Return the place of the point whose removal moves the posterior least, the oldest of equal ones, and how far."""
    moments, noise, weights, outputs = known.moments, known.noise, tables.weights, known.noise.shape[1]
    variances, bends, units = work[0], work[1], work[2]
    for j in range(order):
        units[j] = 0.0
    for c in range(outputs):
        unit = scale * noise[MEAN, c]
        if not noise[STEPS, 0] > 0.0:
            # Of a node without samples: the prior's scale under which f is most likely.
            for i in range(order):
                unit += moments[i, c] * moments[i, c] / order
        for j in range(order):
            square = weights[j, c] * weights[j, c]
            if square > 0.0:
                units[j] += square / unit if unit > 0.0 else math.inf
    place, least = 0, math.inf
    for j in range(order):
        gain = tables.precision[j] / (ridge * variances[j])
        bend = max(bends[j] / (ridge * tables.precision[j]), gain)
        wide = 0.25 * math.log(gain) - 0.5 * math.log1p(0.25 * (gain - 1.0 + bend - 1.0))
        moved = 0.25 * (2.0 + bend - gain) / (2.0 + bend + gain) * units[j] / variances[j]
        square = -math.expm1(min(outputs * wide - moved, 0.0))
        if square < least:
            place, least = j, square
    return place, math.sqrt(least)
