"""Rules that keep a dictionary small, in compiled code: points are projected on what stays, removed, or all kept."""

from __future__ import annotations

import math

from kernelswarm.agents.arithmetic import inverse_factor, komp
from kernelswarm.agents.arithmetic.abi import LOOK, NOTHING, ORDER, WANTS
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES, tables
from kernelswarm.agents.functions.kernel_sum import (
    add_points,
    close_up_numbers,
    drop_points,
    is_zero,
    scale,
    smallest,
    squared_length,
)
from kernelswarm.agents.learners.descent import CAPACITY
from kernelswarm.agents.learners.kernel_descent import (
    ASKED,
    BLOCKED,
    BUDGET_SIZE,
    CHANGES,
    DONE,
    ENTERED,
    ERROR,
    FIRST,
    HEADER,
    MOVED,
    NEXT,
    NORMS,
    PHASE,
    POINT,
    SINGLY,
    START,
    DictionaryRule,
    knows_norms,
    row_wanted,
    sum_of,
)
from kernelswarm.agents.learners.polk import due
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit, inline_always, njit_no_refcount

# Rules that project what leaves the dictionary on what stays, in compiled code.
#
# The function is an expansion with its factor; how often that has changed since it was inspected is the state's number.


LIMIT = FIRST
"""Among the rule's numbers, the entry of diag(inv K) beyond which an element lies in the span of the others."""


def span_limit(kernel: Kernel) -> float:
    return math.inf if kernel.supremum is None else komp.DEPENDENT / kernel.supremum


@njit_no_refcount
def project_smallest(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Add the points, and while there are too many project on all but the smallest."""
    (size, inputs), outputs, capacity = points.shape, weights.shape[1], counts[CAPACITY]
    known = tables(storage, capacity, inputs, outputs)
    most = int(own[BUDGET_SIZE])
    if work[PHASE] == START and size >= BLOCKED_FROM_SAMPLES and counts[ORDER] >= BLOCKED_FROM_ORDER:
        work[PHASE] = ENTERED
        return BLOCKED
    if work[PHASE] == START or work[PHASE] == SINGLY:
        work[PHASE] = ENTERED
        counts[ORDER], work[ERROR], changes = komp.project_in(
            table(work, HEADER + capacity, 5, capacity),
            known,
            counts[ORDER],
            Added(
                points,
                table(weights, 0, size, outputs),
                table(rows, 0, size, rows.shape[1]),
                table(gram, 0, size, size),
            ),
            shrink,
            0.0,
            own[LIMIT],
        )
        storage[CHANGES] += changes
    if counts[ORDER] > most:
        if work[PHASE] != ASKED and not knows_norms(own, work, counts[ORDER]):
            work[PHASE] = ASKED
            return NORMS
        diagonal, carried = line(work, HEADER, capacity), line(work, HEADER + capacity, capacity)
        while counts[ORDER] > most:
            place = smallest(known.weights, diagonal, counts[ORDER])
            close_up_numbers(diagonal, counts[ORDER], place)
            _take_out(known, storage, counts, work, place, carried)
    inspect_in_time(storage, counts)
    return DONE


@njit_no_refcount
def project_least(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Let the points in one by one, and project the older element that loses least where there are too many."""
    (size, inputs), outputs, capacity = points.shape, weights.shape[1], counts[CAPACITY]
    known = tables(storage, capacity, inputs, outputs)
    if work[PHASE] == START:
        scale(known.weights, counts[ORDER], shrink)
        work[PHASE] = NEXT
    for n in range(int(work[POINT]), size):
        if is_zero(weights, n):
            continue
        wanted = row_wanted(work, capacity, rows, counts[ORDER], n)
        if wanted != DONE:
            return wanted
        left, error, changes = komp.project_in(
            table(work, HEADER + 2 * capacity, 5, capacity),
            known,
            counts[ORDER],
            Added(
                points[n : n + 1],
                table(weights, n * outputs, 1, outputs),
                table(work, HEADER + capacity, 1, counts[ORDER]),
                table(gram, n * (size + 1), 1, 1),
            ),
            1.0,
            0.0,
            own[LIMIT],
        )
        counts[ORDER] = left
        work[ERROR] += error
        storage[CHANGES] += changes
        if left > int(own[BUDGET_SIZE]):
            place = _least_lost(known.weights, known.precision, max(left - 1, 1))
            carried = line(work, HEADER, capacity)
            _take_out(known, storage, counts, work, place, carried)
        work[PHASE] = NEXT
        work[MOVED] = 1.0
    inspect_in_time(storage, counts)
    return DONE


@inline_always
def _least_lost(weights: Array, precision: Array, order: int) -> int:
    """Find the element whose projection on the others loses least, the oldest of equal ones."""
    place, least = 0, math.inf
    for m in range(order):
        squared = squared_length(weights, m) / precision[m]
        if squared < least:
            place, least = m, squared
    return place


@njit_no_refcount
def _take_out(known: Tables, storage: Array, counts: Integers, work: Array, place: int, carried: Array) -> None:
    """Project an element on the others."""
    work[ERROR] += math.sqrt(squared_length(known.weights, place) / known.precision[place])
    inverse_factor.remove(known, counts[ORDER], place, carried)
    counts[ORDER] -= 1
    storage[CHANGES] += 1.0


@inline_always
def inspect_in_time(storage: Array, counts: Integers) -> None:
    """Have the factor inspected after many changes, which may have cost it its accuracy."""
    counts[WANTS] = LOOK if storage[CHANGES] >= due(counts[ORDER]) else NOTHING


PROJECT_SMALLEST = DictionaryRule(project_smallest, rows=6, gram=True, norms=True, blocks=True)
PROJECT_LEAST = DictionaryRule(project_least, rows=7, gram=True)


# Rules that keep all points, or let whole elements go, in compiled code.

LONG_LOOPS = True


@cached_njit
def keep_all(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
    return DONE


@cached_njit
def keep_newest(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Add the points, and let the oldest go."""
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
    excess = counts[ORDER] - int(own[BUDGET_SIZE])
    if excess <= 0:
        return DONE
    if work[PHASE] == START and not knows_norms(own, work, excess):
        work[PHASE] = ASKED
        return NORMS
    work[ERROR] += drop_points(dictionary, old, counts[ORDER], 0, excess, line(work, HEADER, excess))
    counts[ORDER] -= excess
    return DONE


@cached_njit
def keep_largest(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Add the points, and let the smallest go, one by one."""
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
        if counts[ORDER] > int(own[BUDGET_SIZE]) and not knows_norms(own, work, counts[ORDER]):
            work[PHASE] = ASKED
            return NORMS
    while counts[ORDER] > int(own[BUDGET_SIZE]):
        drop_smallest(dictionary, old, counts, work)
    return DONE


@inline_always
def drop_smallest(dictionary: Array, weights: Array, counts: Integers, work: Array) -> None:
    """Let the element of least norm go; the work holds kappa(x, x) of the elements."""
    order = counts[ORDER]
    diagonal = line(work, HEADER, order)
    place = smallest(weights, diagonal, order)
    work[ERROR] += drop_points(dictionary, weights, order, place, 1, line(diagonal, place, 1))
    close_up_numbers(diagonal, order, place)
    counts[ORDER] = order - 1


KEEP_ALL = DictionaryRule(keep_all)
KEEP_NEWEST = DictionaryRule(keep_newest, rows=1, norms=True)
KEEP_LARGEST = DictionaryRule(keep_largest, rows=1, norms=True)
