"""Removal of several elements from a dictionary, with a few rows of the factor that are kept separately.

U is the triangular factor of M old elements, ``U'U = inv(K_DD)``; a mini-batch adds rows to it, with entries for its
own elements and all old ones. "total" is the number of all elements, and each keeps its index until the end. All of
this costs O(total) per removal and row, except rotating old elements out of U, in one sweep for many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.inverse_factor import Tables
from kernelswarm.agents.arithmetic.products import multiply
from kernelswarm.agents.arithmetic.simd import add_scaled, dot, whole
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

Positions = npt.NDArray[np.intp]

STRIP = 256
"""The number of columns that are rotated together, small enough for the fastest cache."""

SWEEP = 8
"""The maximum number of old elements that are rotated out of the factor together."""

CANCELLED = 1e-6
"""If less than this fraction of an element's precision in U is left, it must be summed again from U."""

FINISHED, INACCURATE = -1, -2


class Candidates(NamedTuple):
    """All elements that may be removed, as arrays that are written in place."""

    values: Array  # (C, total), the weights
    rows: Array  # (n, total), the batch's rows of the factor
    owners: Positions  # (n,), the element that each of these rows belongs to
    whole: Array  # (M,), the diagonal of U'U
    base: Array  # (total,), the remainder of this diagonal after the removals so far, 0 for the batch's elements
    scores: Array  # (total,), the squared error added by a removal, infinite for removed elements
    gone: Booleans  # (total,)


@cached_njit
def score(candidates: Candidates) -> None:
    """Fill in ``||W_j||^2 / inv(K)_jj`` with the sum of the precisions of U and of the batch's rows."""
    values, rows, base, scores = candidates.values, candidates.rows, candidates.base, candidates.scores
    total = scores.shape[0]
    added = np.zeros(total)
    for i in range(rows.shape[0]):
        line = rows[i]
        for k in range(total):
            added[k] += line[k] * line[k]
    scores[:] = 0.0
    for c in range(values.shape[0]):
        line = values[c]
        for k in range(total):
            scores[k] += line[k] * line[k]
    for k in range(total):
        scores[k] /= base[k] + added[k]


@cached_njit
def remove_while_known(
    candidates: Candidates,
    size: int,
    columns: Array,
    slots: Positions,
    removed: Array,
    count: int,
    spent: float,
    budget: float,
) -> tuple[float, int, int, int]:
    """Remove the element with the lowest score, as KOMP does, while the budget allows and its column is known.

    Parameters
    ----------
    candidates : Candidates
        The elements; their weights are refitted, their scores updated, the batch's rows rotated.
    size : int
        The number of remaining rows of the batch.
    columns, slots : Array
        Known columns of ``U'U`` as rows, (k, M), and the row of each old element's column, (M,), -1 for none.
    removed, count : Array, int
        The rows that left U with old elements, (k, M), and their number.
    spent, budget : float
        The squared error so far, and its bound.

    Returns
    -------
    tuple
        The new ``spent``, ``size`` and ``count``, and the element whose column is needed, or the reason for the end:
        ``FINISHED``, or ``INACCURATE`` if removed elements must leave U before the next choice.
    """
    rows, owners, scores = candidates.rows, candidates.owners, candidates.scores
    total, order, accurate = candidates.values.shape[1], slots.shape[0], True
    carried, cosines, sines = np.empty(total), np.empty(rows.shape[0]), np.empty(rows.shape[0])
    while accurate:
        j = -1
        least = np.inf
        for k in range(total):
            if scores[k] < least:
                least = scores[k]
                j = k
        if j < 0 or not spent + least <= budget:
            return spent, size, count, FINISHED
        if j >= order:
            above = 0  # rows that are not changed
            while owners[above] != j:
                above += 1
            copy_vector(rows[above], carried)
            first = above + 1
        else:
            if slots[j] < 0:
                return spent, size, count, j
            accurate = _leave(candidates, j, columns[slots[j]], removed, count, carried)
            count += 1
            above = first = 0
        pivot = carried[j]
        for i in range(first, size):
            radius = math.sqrt(pivot * pivot + rows[i, j] * rows[i, j])
            cosines[i] = pivot / radius
            sines[i] = rows[i, j] / radius
            pivot = radius
        candidates.gone[j] = True
        _refit(candidates, j, carried, pivot, cosines, sines, above, first, size)
        if first > above:
            for i in range(first, size):
                owners[i - 1] = owners[i]
            size -= 1
        spent += least
    return spent, size, count, INACCURATE


@inline_always
def _leave(candidates: Candidates, j: int, column: Array, removed: Array, count: int, carried: Array) -> bool:
    """Store the row that leaves U with an old element; return whether the remainders of all precisions are accurate."""
    whole, base, gone = candidates.whole, candidates.base, candidates.gone
    order, accurate = whole.shape[0], True
    _carry_out(column, removed, count, order, j, carried)
    gone[j] = True
    for k in range(order):
        removed[count, k] = carried[k]
        base[k] -= carried[k] * carried[k]
        if base[k] < CANCELLED * whole[k] and not gone[k]:
            accurate = False
    carried[order:] = 0.0
    return accurate


@inline_always
def _refit(
    candidates: Candidates,
    j: int,
    carried: Array,
    pivot: float,
    cosines: Array,
    sines: Array,
    above: int,
    first: int,
    size: int,
) -> None:
    """Rotate the batch's rows from ``first`` on with the leaving row, refit the weights, and compute all scores.

    The first ``above`` rows are not changed.
    """
    values, rows, base, scores = candidates.values, candidates.rows, candidates.base, candidates.scores
    (outputs, total), shift = values.shape, first - above
    weight, added, norms = np.empty(outputs), np.empty(STRIP), np.empty(STRIP)
    for c in range(outputs):
        weight[c] = values[c, j]
    for start in range(0, total, STRIP):
        width = min(STRIP, total - start)
        strip = carried[start : start + width]
        for k in range(width):
            added[k] = 0.0
            norms[k] = 0.0
        for i in range(above):
            line = rows[i, start : start + width]
            for k in range(width):
                added[k] += line[k] * line[k]
        for i in range(first, size):
            cosine, sine = cosines[i], sines[i]
            line = rows[i, start : start + width]
            target = rows[i - shift, start : start + width]
            for k in range(width):
                x, y = strip[k], line[k]
                entry = cosine * y - sine * x
                strip[k] = cosine * x + sine * y
                target[k] = entry
                added[k] += entry * entry
        for k in range(width):
            strip[k] /= pivot  # inv(K)[j] / inv(K)_jj
        for c in range(outputs):
            factor = weight[c]
            line = values[c, start : start + width]
            for k in range(width):
                entry = line[k] - factor * strip[k]
                line[k] = entry
                norms[k] += entry * entry
        for k in range(width):
            scores[start + k] = np.inf if candidates.gone[start + k] else norms[k] / (base[start + k] + added[k])


@inline_always
def _carry_out(column: Array, removed: Array, count: int, order: int, j: int, carried: Array) -> None:
    """Fill in the row that leaves U with element j: its column of the inverse, minus earlier removed parts, scaled."""
    for k in range(order):
        carried[k] = column[k]
    for i in range(count):
        line = removed[i]
        share = line[j]
        for k in range(order):
            carried[k] -= share * line[k]
    scale = 1.0 / math.sqrt(carried[j])
    for k in range(order):
        carried[k] *= scale


@cached_njit
def _take_out(factor: Array, precision: Array, order: int, elders: Positions) -> None:
    """Rotate the old elements' columns of U into the same number of rows, remove these rows, and close the gaps.

    For all elements in one sweep, these are the rotations of :func:`kernelswarm.agents.arithmetic.komp.project` for one
    element: a row below the first element is rotated with each row carried past it. The rotations follow from the
    elements' columns alone, and are then applied to all other columns strip by strip.
    """
    count, top = elders.shape[0], elders[0]
    cosines, sines = np.zeros((order - top, count)), np.zeros((order - top, count))
    _rotations(factor, order, elders, cosines, sines)
    carried = np.empty((count, STRIP))
    line = np.empty(STRIP)
    summed = np.empty(STRIP)
    passed = 0  # elements whose columns are to the left
    start = 0
    while start < order:
        if passed < count and elders[passed] == start:
            passed += 1
            start += 1
            continue
        end = min(start + STRIP, order)
        if passed < count:
            end = min(end, elders[passed])
        width = end - start
        active = 0
        carried[:] = 0.0
        summed[:] = 0.0
        while active < count and elders[active] < start:
            active += 1  # their rows are zero in this strip when they are passed
        for i in range(max(top, start), order):
            source = factor[i, start:end]
            for k in range(width):
                line[k] = source[k]
            for q in range(active):
                cosine, sine = cosines[i - top, q], sines[i - top, q]
                strip = carried[q]
                for k in range(width):
                    x, y = strip[k], line[k]
                    strip[k] = cosine * x + sine * y
                    line[k] = cosine * y - sine * x
            if active < count and elders[active] == i:
                for k in range(width):
                    carried[active, k] = line[k]
                active += 1
            else:
                target = factor[i - active, start - passed : end - passed]
                for k in range(width):
                    target[k] = line[k]
                    summed[k] += line[k] * line[k]
        for k in range(width):
            column = start + k
            if column < top:
                lost = 0.0
                for q in range(count):
                    lost += carried[q, k] * carried[q, k]
                if 2.0 * lost <= precision[column]:
                    precision[column] -= lost
                    continue
                for i in range(column, top):
                    summed[k] += factor[i, column] * factor[i, column]
            precision[column - passed] = summed[k]
        start = end
    factor[order - count : order, :order] = 0.0
    factor[:order, order - count : order] = 0.0


@inline_always
def _rotations(factor: Array, order: int, elders: Positions, cosines: Array, sines: Array) -> None:
    """Fill in the rotations of each row from the first element on with the rows carried past it."""
    count, top = elders.shape[0], elders[0]
    pivots = np.zeros((count, count))  # the carried rows' entries in the elements' columns
    entries = np.empty(count)
    active = 0
    for i in range(top, order):
        for q in range(count):
            entries[q] = factor[i, elders[q]]
        for q in range(active):
            radius = math.sqrt(pivots[q, q] * pivots[q, q] + entries[q] * entries[q])
            cosine, sine = pivots[q, q] / radius, entries[q] / radius
            cosines[i - top, q] = cosine
            sines[i - top, q] = sine
            for other in range(q, count):
                x, y = pivots[q, other], entries[other]
                pivots[q, other] = cosine * x + sine * y
                entries[other] = cosine * y - sine * x
        if active < count and elders[active] == i:
            copy_vector(entries, pivots[active])
            active += 1


@cached_njit
def sync(tables: Tables, order: int, entering: Array, candidates: Candidates) -> int:
    """Remove the chosen elements from the dictionary and the factor, append the rest of the batch, return the order.

    ``order`` is the previous number of old elements, ``entering`` (n, p) the batch's points.
    """
    points, weights, factor, precision = tables
    values, rows, gone = candidates.values, candidates.rows, candidates.gone
    elders = np.flatnonzero(gone[:order])
    staying = order
    for end in range(elders.shape[0], 0, -SWEEP):
        group = elders[max(end - SWEEP, 0) : end]
        _take_out(factor, precision, staying, group)
        staying -= group.shape[0]
    kept = np.flatnonzero(~gone)
    for place in range(kept.shape[0]):
        k = kept[place]
        if k >= order:
            copy_vector(entering[k - order], points[place])
        elif place < k:
            copy_vector(points[k], points[place])
        for c in range(values.shape[0]):
            weights[place, c] = values[c, k]
    precision[staying : kept.shape[0]] = 0.0
    for i in range(kept.shape[0] - staying):
        line = factor[staying + i]
        for place in range(kept.shape[0]):
            entry = rows[i, kept[place]]
            line[place] = entry
            precision[place] += entry * entry
    return kept.shape[0]


# The points of a large mini-batch that KOMP removes before the first old element, found with matrix products.
#
# Most points of a batch are removed at once. The error of their removal and the refit of the others depend only on the
# Schur complement of their Gram matrix, n x n; old elements matter only because none of them may cost less. So removals
# are first chosen as if there were no old elements, and then all old elements are compared with all of these removals
# at once. The first removal that comes too late, and all later ones, are reverted.
#
# With the projections A (n, M) of the points on the dictionary and the weights w of the remaining points, the weights
# of the old elements are ``V - A'w``, with V the weights of the function's projection on the dictionary. Their
# precisions are the precisions in the factor plus the sums of squares of the remaining rows, ``-B A`` with the rows B
# (n, n) of the batch's own part: rows that leave with later removals, and rows that stay.


NEAR = 1e-6
"""A point with a Schur complement below this multiple of kappa(x, x) is nearly in the span of the others. The order of
removals then matters, and no point is removed here."""

SCREENED_STRIP = 128
"""The number of old elements that are compared together, small enough for the fast caches."""


@cached_njit
def screen(
    values: ReadOnly,  # (C, M), V
    precision: ReadOnly,  # (M,)
    new_weights: Array,  # (n, C); 0 for removed points
    projections: ReadOnly,  # (n, M)
    rest: ReadOnly,  # (n, n), the Schur complement
    diagonal: ReadOnly,  # (n,), kappa(x, x)
    budget: float,
    fence: float,
) -> tuple[float, Integers]:
    """Remove points of the batch as long as KOMP would remove one of them next, and refit the others.

    Nothing is done if points are nearly in the span of others, or if the precision of a point would exceed ``fence``.

    Returns
    -------
    float
        The squared error of the removals.
    Array
        The remaining points, in their order.
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
    leaving = np.zeros((size, size))  # the leaving rows, the last of them first, after the staying ones
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
def _dearest_first(new_weights: ReadOnly, rest: ReadOnly) -> Integers:
    """Order points by the cost of their single removal: cheap ones leave first, from the end, without rotations."""
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
def _invert(rest: ReadOnly, diagonal: ReadOnly, turn: Integers, fence: float, rows: Array) -> bool:
    """Fill in the inverse Cholesky factor (n, n) of the Schur complement, with reordered points.

    Returns False if the Schur complement is nearly singular.
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
    turn: Integers,
    budget: float,
    gone: Integers,
    costs: Array,
    leaving: Array,
    history: Array,
) -> int:
    """Choose removals as if there were no old elements, and return their number.

    Rows and weights are in the order of ``turn``; the record of each removal uses the points' indices in the batch.
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
def _project(
    target: Array, left: Array, rows: int, projections: ReadOnly, start: int, order: int, columns: int
) -> None:
    """Multiply rows by a strip of the projections (size, order): its columns from ``start`` on."""
    size, pitch = len(projections), SCREENED_STRIP
    multiply(target, 0, pitch, left, 0, size, False, projections, start, order, False, rows, size, columns, 1.0, 0.0)


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

    The result is 0 if an old element's precision would exceed ``fence`` with all points of the batch.
    """
    (outputs, order), size = values.shape, len(projections)
    left, first = size - count, count
    changes, rows = np.empty((count * outputs, SCREENED_STRIP)), np.empty((size, SCREENED_STRIP))
    sums, norms = np.empty(SCREENED_STRIP), np.empty(SCREENED_STRIP)
    for start in range(0, order, SCREENED_STRIP):
        columns = min(SCREENED_STRIP, order - start)
        _project(rows, leaving, size, projections, start, order, columns)
        _project(changes, history, first * outputs, projections, start, order, columns)
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
