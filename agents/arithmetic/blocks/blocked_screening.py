"""Which points of a large mini-batch KOMP removes before it comes to an old element, by matrix products.

Most points of a batch go straight out again. What they lose and how the others make up for it depends on the Schur
complement of their Gram matrix alone, n x n; the old elements matter only in that none of them may cost less. So
removals are first chosen as if there were no old elements, and then all old elements are compared with all of these
removals at once. The first removal that comes too late, and all after it, are taken back.

With the projections A (n, M) of the points on the dictionary and the weights w of those that are left, the weights of
the old elements are ``V - A'w``, V those of the function's projection on the dictionary. Their precisions are those in
the factor and the sums of squares of the rows that are left, ``-B A`` with the rows B (n, n) of the batch's own part:
those that leave with each later removal, and those that stay.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.blocks.products import multiply
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.simd import add_scaled, dot, whole
from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

NEAR = 1e-6
"""The share of kappa(x, x) below which a point is nearly in the span of others: then order matters, and none goes."""

STRIP = 128
"""Old elements that are compared together: few enough for the fast caches."""


@cached_njit
def screen(
    values: ReadOnly,  # (C, M), V
    precision: ReadOnly,  # (M,)
    new_weights: Array,  # (n, C); 0 for those that are gone
    projections: ReadOnly,  # (n, M)
    rest: ReadOnly,  # (n, n), the Schur complement
    diagonal: ReadOnly,  # (n,), kappa(x, x)
    budget: float,
    fence: float,
) -> tuple[float, Indices]:
    """Remove points of the batch as long as KOMP would remove one of them next, and refit the others.

    Nothing is done where points are nearly in the span of others, or the precision of one would be beyond ``fence``.

    Returns
    -------
    float
        The squared error of the removals.
    Array
        The points that are left, in their order.
    """
    size, outputs = new_weights.shape
    everyone = np.arange(size)
    rows, weights = np.zeros((size, whole(size))), np.zeros((outputs, whole(size)))
    turn = _dearest_first(new_weights, rest)
    if size == 0 or not _invert(rest, diagonal, turn, fence, rows):
        return 0.0, everyone
    for place in range(size):
        for c in range(outputs):
            weights[c, place] = new_weights[turn[place], c]
    gone, costs = np.empty(size, np.int64), np.empty(size)
    leaving = np.zeros((size, size))  # the rows that leave, the last of them first, below those that stay
    history = np.empty((size, outputs, size))  # the weights before each removal
    count = _remove(rows, weights, turn, budget, gone, costs, leaving, history)
    right = _compare(values, precision, projections, leaving, history, costs, count, fence) if count else 0
    if right == 0:
        return 0.0, everyone
    stays, spent = np.ones(size, np.bool_), 0.0
    for q in range(right):
        stays[gone[q]] = False
        spent += costs[q]
    for place in range(size):
        for c in range(outputs):
            new_weights[turn[place], c] = weights[c, place] if right == count else history[right, c, turn[place]]
    return spent, everyone[stays]


@cached_njit
def _dearest_first(new_weights: ReadOnly, rest: ReadOnly) -> Indices:
    """Order points by what they would cost if they were alone: the cheap ones go first, from the end, without
    rotations.
    """
    cost = np.empty(len(new_weights))
    for n in range(len(new_weights)):
        cost[n] = 0.0
        for c in range(new_weights.shape[1]):
            cost[n] -= new_weights[n, c] * new_weights[n, c] * rest[n, n]
    turn = np.empty(len(cost), dtype=np.int64)
    for n in range(len(cost)):  # np.argsort takes seconds to compile
        place = n
        while place and cost[turn[place - 1]] > cost[n]:
            turn[place] = turn[place - 1]
            place -= 1
        turn[place] = n
    return turn


@cached_njit
def _invert(rest: ReadOnly, diagonal: ReadOnly, turn: Indices, fence: float, rows: Array) -> bool:
    """Fill in the inverse Cholesky factor (n, n) of the Schur complement, the points in turn; False where it is near
    to singular.
    """
    size, pitch = rows.shape
    lower = np.zeros(rows.shape)
    for i in range(size):
        own, row = lower[i], rows[i]
        for k in range(i):
            entry = rest[turn[i], turn[k]] - dot(lower, k * pitch, own, k)
            own[k] = entry * rows[k, k]
        schur = rest[turn[i], turn[i]] - dot(lower, i * pitch, own, i)
        if not schur > NEAR * diagonal[turn[i]]:
            return False
        root = math.sqrt(schur)
        for k in range(i):
            add_scaled(row, 0, rows, k * pitch, -own[k] / root, whole(k + 1))
        own[i] = root
        row[i] = 1.0 / root
    for k in range(size):
        total = 0.0
        for i in range(k, size):
            total += rows[i, k] * rows[i, k]
        if total > fence:
            return False
    return True


@cached_njit
def _remove(
    rows: Array,
    weights: Array,
    turn: Indices,
    budget: float,
    gone: Indices,
    costs: Array,
    leaving: Array,
    history: Array,
) -> int:
    """Choose removals as if there were no old elements, and return their number.

    Rows and weights are by turn, what is written down about each removal by the points' places in the batch.
    """
    size, pitch = rows.shape
    outputs, left = len(weights), size
    owners, out = np.arange(size), np.zeros(size, np.bool_)
    norms, sums = np.zeros(pitch), np.zeros(pitch)
    carried = np.empty(pitch)
    count, spent = 0, 0.0
    while left > 0:
        norms[:] = 0.0
        sums[:] = 0.0
        for c in range(outputs):
            for k in range(size):
                norms[k] += weights[c, k] * weights[c, k]
        for i in range(left):
            row = rows[i]
            for k in range(size):
                sums[k] += row[k] * row[k]
        best, least = -1, np.inf
        for k in range(size):
            if not out[k] and norms[k] / sums[k] < least:
                best, least = k, norms[k] / sums[k]
        if best < 0 or not spent + least <= budget:
            break
        place = 0
        while owners[place] != best:
            place += 1
        copy_vector(rows[place], carried)
        for i in range(place + 1, left):
            row, target = rows[i], rows[i - 1]
            x, y = carried[best], row[best]
            radius = math.sqrt(x * x + y * y)
            cosine, sine = x / radius, y / radius
            for k in range(size):
                u, v = carried[k], row[k]
                carried[k] = cosine * u + sine * v
                target[k] = cosine * v - sine * u
            target[best] = 0.0
            owners[i - 1] = owners[i]
        left -= 1
        for c in range(outputs):
            for k in range(size):
                history[count, c, turn[k]] = weights[c, k]
            add_scaled(weights, c * pitch, carried, 0, -weights[c, best] / carried[best], pitch)
            weights[c, best] = 0.0
        for k in range(size):
            leaving[left, turn[k]] = carried[k]
        gone[count], costs[count], out[best] = turn[best], least, True
        spent += least
        count += 1
    for i in range(left):
        for k in range(size):
            leaving[i, turn[k]] = rows[i, k]
    return count


@cached_njit
def _compare(
    values: ReadOnly,
    precision: ReadOnly,
    projections: ReadOnly,
    leaving: Array,
    history: Array,
    costs: Array,
    count: int,
    fence: float,
) -> int:
    """Return the first removal before which an old element would have cost no more, or their number.

    0 where an old element's precision would be beyond ``fence`` with all points of the batch.
    """
    (outputs, order), size = values.shape, len(projections)
    left, first = size - count, count
    changes, rows = np.empty((count * outputs, STRIP)), np.empty((size, STRIP))
    sums, norms = np.empty(STRIP), np.empty(STRIP)
    for start in range(0, order, STRIP):
        columns = min(STRIP, order - start)
        multiply(
            rows, 0, STRIP, leaving, 0, size, False, projections, start, order, False, size, size, columns, 1.0, 0.0
        )
        asked = first * outputs
        multiply(
            changes, 0, STRIP, history, 0, size, False, projections, start, order, False, asked, size, columns, 1.0, 0.0
        )
        for k in range(columns):
            sums[k] = precision[start + k]
        for i in range(left):
            row = rows[i]
            for k in range(columns):
                sums[k] += row[k] * row[k]
        for q in range(count - 1, -1, -1):
            row = rows[size - 1 - q]
            for k in range(columns):
                sums[k] += row[k] * row[k]
            if q >= first:
                continue
            norms[:] = 0.0
            for c in range(outputs):
                change = changes[q * outputs + c]
                for k in range(columns):
                    weight = values[c, start + k] - change[k]
                    norms[k] += weight * weight
            cheaper = 0
            for k in range(columns):
                cheaper += norms[k] <= costs[q] * sums[k]
            if cheaper:
                first = q
        for k in range(columns):
            if sums[k] > fence:
                return 0
    return first
