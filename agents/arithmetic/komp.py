"""Destructive kernel orthogonal matching pursuit on the inverse Cholesky factor of the Gram matrix.

Everything here works in place on the buffers of one :class:`~kernelswarm.agents.functions.expansion.Expansion`: the
dictionary points (capacity, p), the weights (capacity, C), the factor U (capacity, capacity) with ``U.T @ U =
inv(K_DD)``, and the precision (capacity,), the diagonal of ``inv(K_DD)``. Only the leading ``order`` rows and columns
are in use. The dictionary keeps the order of arrival of its points, so that ties are decided for the oldest element.

Operations on U are in :mod:`~kernelswarm.agents.arithmetic.inverse_factor`; decisions are here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.augmented_matrix import cheapest, count_above, rotate, subtract_from, take_out
from kernelswarm.agents.arithmetic.copying import transpose
from kernelswarm.agents.arithmetic.elimination import take_pivot, take_two
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables, append, remove, split
from kernelswarm.agents.arithmetic.simd import ROWS, SIMD_WIDTH, any_within, dot, sum_rows, whole
from kernelswarm.agents.arithmetic.views import line, nearby
from kernelswarm.agents.arithmetic.weights import add_and_square, scale, square
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, force_inline, inline_always, njit_no_refcount

# Destructive KOMP on the points of a step before they enter the dictionary.
#
# Most points of a step would be removed at once. While the next element to remove is one of them, the factor U of the
# dictionary does not change. The rows that the points would add to it, ``L^-1 [-A', I]`` with their projections A on
# the dictionary and the Cholesky factor L of the rest of their Gram matrix, are kept separately and rotated there. The
# remaining points enter, with their weights after the removals, and KOMP continues.
#
# Rows are formed in the order of the cost of removing their points, the largest first: points that are removed first
# are then last, and their rows are dropped without rotations. If points are nearly in the span of others, the order
# decides which of them count as dependent, and is not changed.


NEAR = 1e-6
"""The multiple of kappa(x, x) below which a Schur complement is nearly 0."""

SLACK = 1e-6
"""The relative safety margin by which a computed error is increased before a decision that follows from a bound."""

POINTS, NUMBERS = 32, 2**12
"""Preallocated room for integers and for numbers: 32 kB, enough for 15 points with 20 dictionary points."""


class Tableau(NamedTuple):
    """The points' rows of the factor, and the offsets of all related arrays in one vector."""

    memory: Array
    entering: Integers  # (size,) the step's points that may enter
    turn: Integers  # (size,) the order in which their rows are formed; remaining points come first
    size: int  # the number of points
    order: int
    outputs: int
    long: int  # the length of a row: entries at the points, then at the dictionary
    augmented: int  # the start of the rows, (size, long)
    values: int  # the weights, (C, long)
    sums: int  # sums of squares of U's columns and of the rows before each place, (size + 1, long)
    kept: int  # 0 while a column contains the remainder of the Gram matrix, (long,)
    sides: int  # room for a whole number of lanes, (size,)


@cached_njit
def screen(tables: Tables, order: int, added: Added, budget: float, span: float, fence: float, fixed: int) -> float:
    """Remove new points as long as KOMP would remove one of them next, and refit all other weights.

    Removed points get the weight 0. Nothing is done if a new point is nearly in the span of other points without being
    nearly in the span of the dictionary, or if an element's entry of diag(inv K) would exceed ``fence``. A point whose
    Schur complement is below ``span`` times kappa(x, x) is replaced by its projection on the dictionary and the points
    before it.

    Returns
    -------
    float
        The squared error of the removals, at most ``budget`` plus the error of points in the span.
    """
    weights, factor, precision = tables.weights, tables.factor, tables.precision
    _, new_weights, cross, gram = added
    size, outputs = new_weights.shape
    entering = nearby(np.int64, POINTS) if size <= POINTS else np.empty(size, np.int64)
    turn = nearby(np.int64, POINTS) if size <= POINTS else np.empty(size, np.int64)
    count = 0
    for n in range(size):
        magnitude = 0.0
        for c in range(outputs):
            magnitude += new_weights[n, c] * new_weights[n, c]
        if magnitude != 0.0:
            entering[count] = n
            count += 1
    if count == 0:
        return 0.0
    wide, long = whole(count), whole(count + order)  # of a row: its entries at the points, then at the dictionary
    augmented = 2 * order * wide
    values = augmented + (count + ROWS) * long
    sums = values + outputs * long
    kept = sums + (count + 1) * long
    sides = kept + long + wide
    memory = nearby(np.float64, NUMBERS) if sides + wide <= NUMBERS else np.empty(sides + wide)
    tableau = Tableau(memory, entering, turn, count, order, outputs, long, augmented, values, sums, kept, sides)
    form_rows(tableau, factor, cross)
    put_weights(tableau, weights, new_weights, gram)
    near = order_rows(tableau, gram)
    # The cost of removing all points, ||sum_q w_q r_q||^2 with the points' remainders r_q.
    cost = 0.0 if near == 0 else math.inf
    for c in range(outputs):
        place = values + c * long
        sum_rows(memory, sides, 0, memory, place, 0, 1, memory, augmented, long, 1, count, count)
        cost += dot(memory, sides, line(memory, place, count), count)
    cost *= 1.0 + SLACK
    rows, spent = eliminate(tableau, precision, gram, near, span)
    if rows < 0 or beyond(tableau, rows, fixed, fence):
        return 0.0
    spent = remove_points(tableau, rows, cost, spent, budget, fixed)
    for c in range(outputs):
        for j in range(order):
            weights[j, c] = memory[values + c * long + count + j]
        for q in range(count):
            new_weights[entering[q], c] = memory[values + c * long + q]
    return spent


@force_inline
def form_rows(tableau: Tableau, factor: Array, cross: ReadOnly) -> None:
    """Fill in the rows before elimination: ``A K A'`` at the points, ``-A`` at the dictionary.

    The images -V = -U B, one point per lane, and the projections -A = -U'V are computed for all points at once. They
    rely on zeros above the diagonal of U, because four rows are processed together in whole lanes. The points are
    padded with unit vectors, whose images are the columns of U that share the points' last lanes.
    """
    memory, count, order, long = tableau.memory, tableau.size, tableau.order, tableau.long
    capacity, columns, wide = factor.shape[1], cross.shape[1], whole(count)
    shared = min(wide - count, order)  # elements with entries in the points' last lanes
    crossed, images = 0, order * wide
    if count == cross.shape[0]:
        transpose(memory, crossed, wide, cross, 0, columns, count, order, -1.0)
    else:
        for j in range(order):
            for q in range(wide):
                memory[crossed + j * wide + q] = -cross[tableau.entering[q], j] if q < count else 0.0
    for j in range(shared):
        memory[crossed + j * wide + count + j] = 1.0
    for k in range(tableau.values, tableau.sums + long):
        memory[k] = 0.0
    for i in range(0, order, ROWS):
        into, rows = images + i * wide, min(ROWS, order - i)
        sum_rows(memory, into, wide, factor, i * capacity, capacity, 1, memory, crossed, wide, rows, i + rows, wide)
    for q in range(0, count, ROWS):
        row = tableau.augmented + q * long
        sum_rows(memory, row, long, memory, images + q, 1, wide, memory, images, wide, ROWS, order, wide)
        for j in range(shared, order, SIMD_WIDTH):
            into, place, start, below = row + count + j, images + j * wide + q, j * (capacity + 1), order - j
            sum_rows(
                memory, into, long, memory, place, 1, wide, factor, start, capacity, ROWS, below, min(SIMD_WIDTH, below)
            )


@force_inline
def put_weights(tableau: Tableau, weights: Array, new_weights: Array, gram: ReadOnly) -> None:
    """Subtract the dictionary's part from the points' Gram matrix, and store all weights after the rows."""
    memory, entering, count, long, values = tableau.memory, tableau.entering, tableau.size, tableau.long, tableau.values
    size, keys = new_weights.shape[0], tableau.sides - whole(count)
    for q in range(count):
        row = tableau.augmented + q * long
        if count == size:
            subtract_from(memory, row, gram, q * size, size)
        else:
            for p in range(count):
                memory[row + p] = gram[entering[q], entering[p]] - memory[row + p]
        magnitude = 0.0
        for c in range(tableau.outputs):
            weight = new_weights[entering[q], c]
            memory[values + c * long + q] = weight
            magnitude += weight * weight
        memory[keys + q] = magnitude * memory[row + q]
    for c in range(tableau.outputs):
        for j in range(tableau.order):
            memory[values + c * long + count + j] = weights[j, c]


@force_inline
def order_rows(tableau: Tableau, gram: ReadOnly) -> int:
    """Sort points by decreasing cost unless some are nearly in the span of others; returns the number of the latter."""
    memory, entering, count, near = tableau.memory, tableau.entering, tableau.size, 0
    for q in range(count):
        near += not memory[tableau.augmented + q * tableau.long + q] > NEAR * gram[entering[q], entering[q]]
    for q in range(count):
        tableau.turn[q] = q
    if near == 0:
        for q in range(count):
            tableau.turn[count_above(memory, tableau.sides - whole(count), q, count)] = q
    return near


@force_inline
def eliminate(tableau: Tableau, precision: Array, gram: ReadOnly, near: int, span: float) -> tuple[int, float]:
    """Form the rows by elimination; returns their number, and the squared error of points in the span of others.

    The number is negative if a point comes close to the span of the points before it without being ``near`` at first.
    Elimination produces the rows up to their scale. Before a point is eliminated, its column holds the remainder of the
    Gram matrix; afterwards it holds entries of the rows.
    """
    memory, entering, turn, count, long = tableau.memory, tableau.entering, tableau.turn, tableau.size, tableau.long
    augmented, values, sums, kept = tableau.augmented, tableau.values, tableau.sums, tableau.kept
    spent, first = 0.0, 0
    for j in range(tableau.order):
        memory[sums + count + j] = precision[j]
    for k in range(long):
        memory[kept + k] = 0.0 if k < count else 1.0
    while near == 0 and first + 1 < count:
        upper, lower = turn[first], turn[first + 1]
        schur = memory[augmented + upper * long + upper]
        rest = take_two(memory, augmented, long, turn, first, count, kept, sums + first * long)
        if not (
            schur > NEAR * gram[entering[upper], entering[upper]]
            and rest > NEAR * gram[entering[lower], entering[lower]]
        ):
            return -1, 0.0
        memory[kept + upper] = memory[kept + lower] = 1.0
        first += 2
    rows = first
    for place in range(first, count):
        q = turn[place]
        row = augmented + q * long
        schur = memory[row + q]
        if near == 0 and not schur > NEAR * gram[entering[q], entering[q]]:
            return -1, 0.0
        if schur <= span * gram[entering[q], entering[q]]:
            for c in range(tableau.outputs):
                start = values + c * long
                weight = memory[start + q]
                spent += weight * weight * max(schur, 0.0)
                for k in range(long):
                    if memory[kept + k] != 0.0:
                        memory[start + k] -= weight * memory[row + k]
                memory[start + q] = 0.0
            continue
        take_pivot(memory, augmented, long, turn, place, count, kept, sums + rows * long)
        memory[kept + q] = 1.0
        turn[rows] = q
        rows += 1
    return rows, spent


@force_inline
def beyond(tableau: Tableau, rows: int, fixed: int, fence: float) -> bool:
    """Return whether an entry of diag(inv K) would be beyond the fence."""
    memory, found, left = tableau.memory, 0, tableau.sums + rows * tableau.long
    for q in range(tableau.size):
        found += memory[left + q] > fence
    for j in range(fixed, tableau.order):
        found += memory[left + tableau.size + j] > fence
    return found > 0


@force_inline
def remove_points(tableau: Tableau, rows: int, cost: float, spent: float, budget: float, fixed: int) -> float:
    """Remove the cheapest point while it is cheaper than all elements and the budget allows; returns the spent budget.

    All points are removed without comparisons if this costs less than half of the cheapest element's removal.
    """
    memory, turn, count, long = tableau.memory, tableau.turn, tableau.size, tableau.long
    augmented, values, sums, outputs = tableau.augmented, tableau.values, tableau.sums, tableau.outputs
    score, all_go = 0.0, False
    while rows > 0:
        place = rows - 1
        if not all_go:
            left = sums + rows * long
            _, threat = cheapest(memory, values + count, long, outputs, left + count, fixed, tableau.order)
            rest = cost - spent
            all_go = spent + rest <= budget and 2.0 * rest < threat
            if not all_go:
                best, score = cheapest(memory, values, long, outputs, left, 0, count)
                if not (score < threat and spent + score <= budget):
                    break
                while turn[place] != best:
                    place -= 1
        best = turn[place]
        row = augmented + best * long
        for after in range(place + 1, rows):
            rotate(memory, row, augmented + turn[after] * long, best, sums + (after - 1) * long, long)
            turn[after - 1] = turn[after]
        lost = take_out(memory, values, outputs, row, best, long)
        if all_go:
            score = lost
        rows -= 1
        spent += score
    return spent


SPAN_THRESHOLD = 1e-10
"""A point whose Schur complement s is below this share of kappa(x, x) is, up to rounding, in the dictionary's span."""

DEPENDENT = 1e10
"""An element whose entry of diag(inv K), 1 over its Schur complement, exceeds this over kappa(x, x) is in the span of
the others, and is removed. This happens only for budgets near 0: KOMP removes such elements first, since that costs
almost nothing (docs/decisions/0001)."""


TRANSIENT = 1e3
"""The factor of this limit while a mini-batch enters, before KOMP."""


@njit_no_refcount
def _cheapest(norms: Array, precision: Array, order: int, fixed: int) -> int:
    """Find the element whose removal adds the least error after refitting: argmin ||W_j||^2 / inv(K)_jj."""
    best = fixed
    for j in range(fixed + 1, order):
        if norms[j] * precision[best] < norms[best] * precision[j]:  # compares quotients without divisions
            best = j
    return best


@inline_always
def _may_remove(norms: Array, precision: Array, order: int, fixed: int, budget: float) -> bool:
    """Tell, up to rounding, whether the removal of any element adds at most ``budget``."""
    return any_within(norms, precision, norms, budget, 0.0, fixed, order)


@njit_no_refcount
def _count_beyond(precision: Array, order: int, fixed: int, limit: float) -> int:
    beyond = 0
    for j in range(fixed, order):
        beyond += precision[j] > limit
    return beyond


@njit_no_refcount
def _cheapest_beyond(norms: Array, precision: Array, order: int, fixed: int, limit: float) -> int:
    """Find the cheapest element to remove among those in the span of the others."""
    best = -1
    for j in range(fixed, order):
        if precision[j] > limit and (best < 0 or norms[j] * precision[best] < norms[best] * precision[j]):
            best = j
    return best


@inline_always
def _is_cheapest(
    magnitude: float, schur: float, norms: Array, precision: Array, projection: Array, order: int, fixed: int
) -> bool:
    """Return whether a new point would be removed first, ``||w||^2 s < ||W_j||^2 / (inv(K)_jj + a_j^2 / s)`` for all j;
    ties are decided for the older element."""
    return not any_within(norms, precision, projection, magnitude * schur, magnitude, fixed, order)


@cached_njit
def project(
    tables: Tables,
    order: int,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int = 0,
) -> tuple[int, float, int]:
    """Take one functional step and compress it: scale the old weights, add the new points, remove elements.

    The removals are exactly those of destructive KOMP with pre-fitting (POLK algorithm 1), except for ties: while the
    smallest ``gamma_j = min_w ||f~ - sum_{k != j} w_k kappa(d_k, .)||_H`` is at most ``epsilon``, element j is removed
    and the others are refitted to f~. The capacity must be at least ``order + n``. Elements in the span of the others,
    whose entry of diag(inv K) exceeds ``limit``, are removed at once. The first ``fixed`` elements are never removed.

    Returns
    -------
    order : int
        The new model order.
    error : float
        The compression error ``||f - f~||_H``, at most ``epsilon`` plus up to ``1e-5 ||w|| sqrt(kappa(x, x))`` for
        elements in the span of the others within rounding.
    changes : int
        The number of insertions and removals in the factor.
    """
    scratch = np.empty((5, len(tables.points)))
    own = Added(added.points, added.weights.copy(), added.cross, added.gram)
    return project_in(scratch, tables, order, own, shrink, epsilon, limit, fixed)


@inline_always
def project_in(
    scratch: Array,  # (5, capacity)
    tables: Tables,
    order: int,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int = 0,
    known: bool = False,
) -> tuple[int, float, int]:
    """Do the same as :func:`project` in the caller's memory; the new weights are overwritten.

    With ``known`` the image and projection of the first point are already in the scratch's second and third row, as
    :func:`~kernelswarm.agents.arithmetic.inverse_factor.split` fills them in; it must be the only point.
    """
    weights, precision = tables.weights, tables.precision
    row, norms, origin = scratch[0], scratch[3], scratch[4]
    scale(weights, order, shrink)
    budget = epsilon * epsilon
    order, spent, changes, squared = _enter(scratch, tables, order, added, budget, limit, fixed, known)
    while order > fixed:
        if not squared:
            square(weights, order, norms)
        squared = False
        if not _may_remove(norms, precision, order, fixed, (budget - spent) * (1.0 + 1e-9)):
            break
        j = _cheapest(norms, precision, order, fixed)
        score = norms[j] / precision[j]
        if not spent + score <= budget:
            break
        remove(tables, order, j, row)
        order -= 1
        changes += 1
        spent += score
    if changes:
        left, lost = drop_dependent(row, norms, tables, order, limit, origin, fixed)
        changes += order - left
        spent += lost
        order = left
    return order, math.sqrt(spent), changes


@inline_always
def _enter(
    scratch: Array, tables: Tables, order: int, added: Added, budget: float, limit: float, fixed: int, known: bool
) -> tuple[int, float, int, bool]:
    """Add the points that KOMP would not remove at once.

    Returns the order, the squared error so far, the number of changes of the factor, and whether the norms in the
    scratch belong to the current weights.
    """
    _, weights, factor, precision = tables
    new_points, new_weights, cross, gram = added
    row, image, projection, norms, origin = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    outputs, before, size = weights.shape[1], order, new_points.shape[0]
    spent, changes, squared = 0.0, 0, False
    if size > 1 and budget > 0.0:
        spent = screen(tables, order, added, budget, SPAN_THRESHOLD, TRANSIENT * limit, fixed)
    # The origin of elements, the dictionary or, beyond it, the batch; needed from the batch's second point on.
    if size > 1:
        for j in range(order):
            origin[j] = j
    for n in range(size):
        magnitude = 0.0
        for c in range(outputs):
            magnitude += new_weights[n, c] * new_weights[n, c]
        if magnitude == 0.0:
            continue  # it would be removed first, at no cost
        if known:
            schur = gram[n, n] - dot(image, 0, image, order)
        elif size == 1:
            schur = split(factor, order, line(cross, 0, order), gram[0, 0], image, projection)
        else:
            for j in range(order):
                place = int(origin[j]) if n > 0 else j
                row[j] = cross[n, place] if place < before else gram[n, place - before]
            schur = split(factor, order, row, gram[n, n], image, projection)
        cost = magnitude * max(schur, 0.0)
        leaves = schur <= SPAN_THRESHOLD * gram[n, n]
        if not leaves and n == size - 1 and spent + cost <= budget:
            # The last point is added only if KOMP would not remove it at once.
            square(weights, order, norms)
            leaves = _is_cheapest(magnitude, schur, norms, precision, projection, order, fixed)
        if leaves:
            add_and_square(weights, order, projection, new_weights, n, norms)
            squared = n == size - 1
            spent += cost
        else:
            append(tables, order, new_points[n], new_weights[n], projection, schur)
            if size > 1:
                origin[order] = before + n
            order += 1
            changes += 1
            if size > 1:
                left, lost = drop_dependent(row, norms, tables, order, TRANSIENT * limit, origin, fixed)
                changes += order - left
                spent += lost
                order = left
    return order, spent, changes, squared


@njit_no_refcount
def drop_dependent(
    row: Array,  # (capacity,), working memory
    norms: Array,  # (capacity,), working memory
    tables: Tables,
    order: int,
    limit: float,
    origin: Array,  # a number that moves with each element, or an empty array
    fixed: int,  # without default, for which numba would compile the function again
) -> tuple[int, float]:
    """Remove elements whose entry of diag(inv K) is beyond ``limit``, the cheapest first; the first ``fixed`` stay.

    Returns
    -------
    order : int
        The new model order.
    squared : float
        The squared error added by the removals.
    """
    weights, precision, squared = tables.weights, tables.precision, 0.0
    while _count_beyond(precision, order, fixed, limit) > 0:
        square(weights, order, norms)
        j = _cheapest_beyond(norms, precision, order, fixed, limit)
        squared += norms[j] / precision[j]
        remove(tables, order, j, row)
        for k in range(j, min(order, len(origin)) - 1):
            origin[k] = origin[k + 1]
        order -= 1
    return order, squared
