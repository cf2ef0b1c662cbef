"""The step of :mod:`kernelswarm.agents.arithmetic.komp` with matrix-matrix products, for large mini-batches.

All decisions are the same. The whole batch is projected on the span of the dictionary in one pass over the factor U.
The batch adds rows ``L^-1 [-A', I]`` to the factor, with the projections A and the Cholesky factor L of the batch's
Schur complement. These few rows are kept separately while elements are removed one by one, as in KOMP. Points of the
batch that would be removed at once, by far the most frequent case, are removed first
(:mod:`~kernelswarm.agents.arithmetic.blocked_removal`). The removal of an old element needs its column of the inverse,
which is computed for several likely elements together; at the end all removed elements are rotated out of U together.

Notation: M old elements, n entering points; "total" is M + n. Columns keep their indices until the end.
"""

from __future__ import annotations

import math

import numpy as np

from kernelswarm.agents.arithmetic import blocked_removal, komp
from kernelswarm.agents.arithmetic.blocked_removal import FINISHED, Candidates
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.products import multiply
from kernelswarm.agents.arithmetic.routines import inner_products
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

# The projections of a batch's points on the span of a dictionary, by matrix products in one pass over its factor.


TILE, STRIP = 32, 128
"""The numbers of rows and columns of a block of the factor that is multiplied at once and fits into the cache."""


@cached_njit
def offered(
    factor: Array, order: int, cross: ReadOnly, gram: ReadOnly, new_weights: Array
) -> tuple[Integers, Array, Array]:
    """Return the points with nonzero weights, and their projections on the span of a dictionary of M points.

    Parameters
    ----------
    factor : Array
        The storage of the factor U.
    order : int
        M.
    cross : Array
        B', the kernel between the points and the dictionary, (N, M or more).
    gram : Array
        G, the kernel between the points, (N, N).
    new_weights : Array
        (N, C).

    Returns
    -------
    entering : Array
        The indices of these points among all, (n,).
    projections : Array
        ``A' = B'U'U``, (n, M).
    rest : Array
        The Schur complement ``G - B'U'UB``, (n, n).
    """
    places, size = np.empty(len(new_weights), np.int64), 0
    for n in range(len(new_weights)):
        for c in range(new_weights.shape[1]):
            if new_weights[n, c] != 0.0:
                places[size] = n
                size += 1
                break
    entering, rows = places[:size], np.empty((size, order))
    for i in range(size):
        for k in range(order):
            rows[i, k] = cross[entering[i], k]
    images, projections, rest = np.empty((size, order)), np.zeros((size, order)), np.empty((size, size))
    if not size:
        return entering, projections, rest
    _project(factor, rows, images, projections)
    known = inner_products(images)
    for i in range(size):
        for k in range(size):
            rest[i, k] = gram[entering[i], entering[k]] - known[i, k]
    return entering, projections, rest


@cached_njit
def _project(factor: Array, cross: Array, images: Array, projections: Array) -> None:
    """Fill in ``B'U'`` and ``B'U'U``, in one pass over the factor; the projections must contain zeros."""
    (size, order), pitch = cross.shape, factor.shape[1]
    for start in range(0, order, TILE):
        rows = min(TILE, order - start)
        for left in range(0, start + rows, STRIP):
            width, share = min(STRIP, start + rows - left), 0.0 if left == 0 else 1.0
            tile = start * pitch + left
            multiply(
                images,
                start,
                order,
                cross,
                left,
                order,
                False,
                factor,
                tile,
                pitch,
                True,
                size,
                width,
                rows,
                1.0,
                share,
            )
        for left in range(0, start + rows, STRIP):
            width = min(STRIP, start + rows - left)
            tile = start * pitch + left
            multiply(
                projections,
                left,
                order,
                images,
                start,
                order,
                False,
                factor,
                tile,
                pitch,
                False,
                size,
                rows,
                width,
                1.0,
                1.0,
            )


PANEL = 128
"""The number of columns of the inverse that are computed together."""

FETCHED = 8
"""The maximum number of columns of the inverse that are computed in advance."""


def project(
    tables: Tables, order: int, added: Added, shrink: float, epsilon: float, limit: float
) -> tuple[int, float, int]:
    """Take one functional step and compress it, like :func:`kernelswarm.agents.arithmetic.komp.project`.

    Points that are removed at once do not count as changes of the factor.
    """
    left, error, changes, done = try_to_project(tables, order, added, shrink, epsilon, limit)
    if done:
        return left, error, changes
    # Elements in the span of the others must leave between two insertions, which is done point by point.
    return komp.project(tables, order, added, shrink, epsilon, limit, 0)


@cached_njit
def try_to_project(
    tables: Tables, order: int, added: Added, shrink: float, epsilon: float, limit: float
) -> tuple[int, float, int, bool]:
    """Do the same, but change nothing and return False if an element may lie in the span of the others."""
    entering, projections, rest = offered(tables.factor, order, added.cross, added.gram, added.weights)
    return compress(tables, order, added, entering, projections, rest, shrink, epsilon, limit)


@inline_always
def compress(
    tables: Tables,
    order: int,
    added: Added,
    entering: Integers,
    projections: Array,
    rest: Array,
    shrink: float,
    epsilon: float,
    limit: float,
) -> tuple[int, float, int, bool]:
    """Do the same as :func:`try_to_project`, from the results of
    :func:`~kernelswarm.agents.arithmetic.blocked_komp.offered`."""
    points, weights, factor, precision = tables
    new_points, new_weights, _, gram = added
    size, outputs, fence = len(entering), weights.shape[1], komp.TRANSIENT * limit
    bare, whole = np.empty((outputs, order)), np.empty((outputs, order))
    pending, diagonal = np.empty((size, outputs)), np.empty(size)
    for n in range(size):
        copy_vector(new_weights[entering[n]], pending[n])
        diagonal[n] = gram[entering[n], entering[n]]
    for c in range(outputs):
        for k in range(order):
            bare[c, k] = whole[c, k] = shrink * weights[k, c]
        _add_projections(whole[c], pending, c, 1.0, projections)
    spent, stays = blocked_removal.screen(
        whole, precision[:order], pending, projections, rest, diagonal, epsilon * epsilon, fence
    )
    left = len(stays)
    if left < size:
        for c in range(outputs):
            copy_vector(whole[c], bare[c])
            _add_projections(bare[c], pending, c, -1.0, projections)
    values, rows = np.empty((outputs, order + left)), np.zeros((left, order + left))
    for c in range(outputs):
        copy_vector(bare[c], values[c])
    accepted, lost = _append(values, rows, pending, projections, rest, diagonal, stays)
    spent += lost
    entered = int(np.count_nonzero(accepted))
    if entered < left:
        values = np.ascontiguousarray(values[:, : order + entered])
        rows = np.ascontiguousarray(rows[:entered, : order + entered])
    if _beyond(rows, precision, order, fence):
        return order, 0.0, 0, False
    arriving = np.empty((entered, points.shape[1]))
    place = 0
    for i in range(left):
        if accepted[i]:
            copy_vector(new_points[entering[stays[i]]], arriving[place])
            place += 1
    changes = 0
    while True:
        candidates = _candidates(values, rows, precision[:order])
        spent, finished = _choose(candidates, factor, spent, epsilon * epsilon)
        staying = blocked_removal.sync(tables, order, arriving, candidates)
        changes += staying - order + 2 * int(np.count_nonzero(candidates.gone[:order]))
        order = staying
        if finished:
            row, norms, nothing = np.empty(order), np.empty(order), np.empty(0)
            staying, squared = komp.drop_dependent(row, norms, tables, order, limit, nothing, 0)
            return staying, math.sqrt(spent + squared), changes + order - staying, True
        # From here on, the rest of the batch are old elements.
        values, rows, arriving = np.empty((outputs, order)), np.empty((0, order)), np.empty((0, points.shape[1]))
        for c in range(outputs):
            for k in range(order):
                values[c, k] = weights[k, c]


@cached_njit
def _add_projections(values: Array, pending: Array, c: int, factor: float, projections: Array) -> None:
    """Add ``factor`` times the pending projections."""
    for n in range(len(pending)):
        share, row = factor * pending[n, c], projections[n]
        if share != 0.0:
            for k in range(len(row)):
                values[k] += share * row[k]


@cached_njit
def _beyond(rows: Array, precision: Array, order: int, fence: float) -> bool:
    """Return whether an element's entry of diag(inv K) is beyond ``fence`` with the batch's rows."""
    sums = np.zeros(rows.shape[1])
    for k in range(order):
        sums[k] = precision[k]
    for i in range(len(rows)):
        row = rows[i]
        for k in range(len(sums)):
            sums[k] += row[k] * row[k]
    return bool(np.any(sums > fence))


@cached_njit
def _append(
    values: Array,  # (C, M + r)
    rows: Array,  # (r, M + r)
    new_weights: Array,  # (n, C)
    projections: Array,  # (n, M)
    gram: Array,  # (n, n), the Schur complement of the complete batch
    diagonal: Array,  # (n,), kappa(x, x)
    stays: Integers,  # (r,), the remaining points of the batch
) -> tuple[Booleans, float]:
    """Fill in the batch's rows and weights point by point, each projected on all earlier ones. A point in their span
    transfers its weight to its projection. Returns the entering points, and the squared error of the others."""
    size, order = len(stays), projections.shape[1]
    lower = np.zeros((size, size))  # the Cholesky factor, with a row for each point, a column for each entered one
    accepted = np.zeros(size, np.bool_)
    places = np.zeros(size, np.int64)
    entered = 0
    spent = 0.0
    for i in range(size):
        share = lower[i]
        schur = gram[stays[i], stays[i]]
        for k in range(i):
            if accepted[k]:
                place = places[k]
                entry = gram[stays[i], stays[k]]
                for q in range(place):
                    entry -= share[q] * lower[k, q]
                share[place] = entry / lower[k, place]
                schur -= share[place] * share[place]
        line = rows[entered]
        copy_vector(projections[stays[i]], line)
        for k in range(order, len(line)):
            line[k] = 0.0
        for place in range(entered):
            entry = share[place]
            above = rows[place]
            for k in range(order + place + 1):
                line[k] += entry * above[k]
        if schur <= SPAN_THRESHOLD * diagonal[stays[i]]:
            for c in range(values.shape[0]):
                weight = new_weights[stays[i], c]
                spent += weight * weight * max(schur, 0.0)
                for k in range(order + entered):
                    values[c, k] += weight * line[k]
            continue
        accepted[i] = True
        places[i] = entered
        share[entered] = math.sqrt(schur)
        for k in range(order + entered):
            line[k] /= -share[entered]
        line[order + entered] = 1.0 / share[entered]
        for c in range(values.shape[0]):
            values[c, order + entered] = new_weights[stays[i], c]
        entered += 1
    return accepted, spent


@cached_njit
def _candidates(values: Array, rows: Array, precision: Array) -> Candidates:
    """Return the arrays for the choice of removals, with initial scores."""
    order, total = len(precision), values.shape[1]
    base = np.zeros(total)
    copy_vector(precision, base)
    owners = np.arange(order, total)
    gone = np.zeros(total, np.bool_)
    candidates = Candidates(values, rows, owners, precision.copy(), base, np.empty(total), gone)
    blocked_removal.score(candidates)
    return candidates


@cached_njit
def _choose(candidates: Candidates, factor: Array, spent: float, budget: float) -> tuple[float, bool]:
    """Mark the elements that KOMP removes as gone, refit the weights, and remove the elements from the batch's rows.

    Returns the squared error, and whether the choice is complete.
    """
    order, size = len(candidates.whole), len(candidates.rows)
    slots = np.full(order, -1)
    columns, removed = np.empty((FETCHED, order)), np.empty((FETCHED, order))
    fetched = count = 0
    while True:
        spent, size, count, wanted = blocked_removal.remove_while_known(
            candidates, size, columns, slots, removed, count, spent, budget
        )
        if wanted < 0:
            return spent, wanted == FINISHED
        likely = _likely(candidates.scores, slots, wanted, budget - spent)
        if fetched + len(likely) > len(columns):
            columns = np.concatenate((columns, np.empty_like(columns)))
            removed = np.concatenate((removed, np.empty_like(removed)))
        for element in likely:
            slots[element] = fetched
            fetched += 1
        _columns_of_inverse(factor, order, likely, columns, fetched - len(likely))


@cached_njit
def _likely(scores: Array, slots: Integers, wanted: int, budget: float) -> Integers:
    """Guess the next removals of old elements: ``wanted``, and the cheapest elements within the budget."""
    found, taken = np.empty(FETCHED, np.int64), np.zeros(len(slots), np.bool_)
    found[0] = wanted
    count, total = 1, 0.0
    for _ in range(FETCHED):
        best, least = -1, np.inf
        for k in range(len(slots)):
            if not taken[k] and scores[k] < least:
                best, least = k, scores[k]
        total += least
        if best < 0 or not total <= budget:
            break
        taken[best] = True
        if slots[best] < 0 and best != wanted and count < FETCHED:
            found[count] = best
            count += 1
    return found[:count]


@cached_njit
def _columns_of_inverse(factor: Array, order: int, elements: Integers, columns: Array, row: int) -> None:
    """Write columns of ``inv(K_DD) = U'U`` as rows, from the rows of U with nonzero entries in them."""
    top, size, pitch = int(elements.min()), len(elements), factor.shape[1]
    images = np.empty((size, order - top))
    for i in range(top, order):
        for q in range(size):
            images[q, i - top] = factor[i, elements[q]]
    for start in range(0, order, PANEL):
        columns_here, first = min(PANEL, order - start), max(start, top)
        target, tile, inner = row * order + start, first * pitch + start, order - first
        multiply(
            columns,
            target,
            order,
            images,
            first - top,
            order - top,
            False,
            factor,
            tile,
            pitch,
            False,
            size,
            inner,
            columns_here,
            1.0,
            0.0,
        )
