"""Rules that keep all points, or let whole elements go, in compiled code."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import (
    add_points,
    close_up_numbers,
    drop_points,
    smallest,
)
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ERROR,
    HEADER,
    NORMS,
    PHASE,
    START,
    DictionaryRule,
    knows_norms,
    sum_of,
)
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.protocols.compiling import cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]
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
