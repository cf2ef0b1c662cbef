"""The second-order step in compiled code, on a function that lies in a vector."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    BOUND,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    NEXT_BUDGET,
    ORDER,
    ROOM,
    TAUGHT_STEP,
    WANTS,
    StepArguments,
    kernel_at,
    loss_values_at,
    next_budget_at,
    taught_step_at,
)
from kernelswarm.agents.arithmetic.blocks.late import LateFunction, found_at
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_SAMPLES, tables
from kernelswarm.agents.functions.informed_expansion import information_in
from kernelswarm.agents.functions.windowed_expansion import recent_and_window
from kernelswarm.agents.learners.kernel_steps import CAPACITY, CROSS, kernel_numbers, own_numbers
from kernelswarm.agents.learners.polk_steps import (
    CHANGES,
    ByProducts,
    bound_of_step,
    inner_products,
    is_large,
    wanted,
)
from kernelswarm.agents.learners.second_order import blocked_moves, moves, sample_terms
from kernelswarm.agents.learners.second_order.adaptive_memory import Memory
from kernelswarm.agents.learners.second_order.blocked_moves import Numbers
from kernelswarm.agents.learners.second_order.sample_terms import Asked
from kernelswarm.agents.learners.second_order.taking_in import Moved, Terms
from kernelswarm.agents.learners.second_order.taught import offer_taught, without_taught
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.compiling import cached_njit, inline_always
from kernelswarm.protocols.first_class import NONE, Integers, address

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

BLOCKED_FROM_ORDER = 128
"""A step of several points on so large a dictionary is faster with matrix-matrix products. Its last digits are others,
so that the size alone decides."""

BUDGET_BOUND, BUDGET_NEXT, DERIVATIVES, CURVATURES, OFFERS, BLOCKED = range(1, 7)
"""Among the addresses that a step calls, after that of the kernel."""

RIDGE, LIMIT, UNIT, BATCH_SIZE, LARGE_BATCH, LARGE_ORDER, FORGETTING, ADAPTIVE = range(8)
CURVATURE, REACH, LOSS_NUMBERS, FIRST = range(8, 12)
"""The learner's own numbers, the first of them as POLK's, behind those of the kernel; the loss's numbers, so many of
them, and the budget's follow."""


@cached_njit
def taught_step(given: StepArguments, taught: Array) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.second_order.newton.Newton.step` does.

    What neighbours taught is (N, 2 C + 1), or of no rows.
    """
    tools, storage, counts = given.tools, given.storage, given.counts
    (taken, outputs), inputs, own = given.gradients.shape, given.points.shape[1], own_numbers(given.numbers)
    order, capacity, first = counts[ORDER], counts[CAPACITY], 5 * counts[CAPACITY] + taken * taken
    if is_large(own, order, taken):
        # By its address: few runs need it, and it is most of what there is to compile.
        error: float = taught_step_at(found_at(tools[BLOCKED]))(given, taught)
        return error
    gram = inner_products(given, given.numbers)
    terms = _terms(given, taught, first)
    first += sample_terms.room(taken, outputs) + taken
    komp_work, work = table(given.scratch, 0, 5, capacity), line(given.scratch, first, len(given.scratch) - first)
    known = tables(storage, capacity, inputs, outputs)
    moved, error, changes = moves.choose(
        komp_work, work, known, order, given.gradients, given.rows, gram, _epsilon(given), own[LIMIT]
    )
    recent, window = recent_and_window(storage, capacity, inputs, outputs, own[ADAPTIVE] > 0.0)
    memory = Memory(information_in(storage, capacity, inputs, outputs), recent, window)
    leaving = _leaving(given, moved, known.points)
    storage[1] = moves.apply_moves(
        known, memory, moved, changes, given.points, leaving, terms, own[RIDGE], own[FORGETTING], storage[1]
    )
    _count(given, moved.order, changes)
    return error


@cached_njit
def large_step(given: StepArguments, taught: Array) -> float:
    """Do the same with matrix products."""
    storage, counts, own, outputs = given.storage, given.counts, own_numbers(given.numbers), given.gradients.shape[1]
    capacity, taken, inputs = counts[CAPACITY], len(given.points), given.points.shape[1]
    gram = inner_products(given, given.numbers)
    terms = _terms(given, taught, 5 * capacity + taken * taken)
    order, error, changes, storage[1] = blocked_moves.move(
        tables(storage, capacity, inputs, outputs),
        information_in(storage, capacity, inputs, outputs),
        counts[ORDER],
        Added(given.points, given.gradients, given.rows, gram),
        given.values,
        terms,
        Numbers(_epsilon(given), own[LIMIT], own[RIDGE], own[FORGETTING]),
        storage[1],
    )
    _count(given, order, changes)
    return error


BY_PRODUCTS = LateFunction(large_step, TAUGHT_STEP)


@inline_always
def _epsilon(given: StepArguments) -> float:
    own = own_numbers(given.numbers)
    return bound_of_step(given.tools[BUDGET_BOUND], _budget(own), given.sizes, given.storage[0], int(own[BATCH_SIZE]))


@inline_always
def _budget(own: Array) -> Array:
    first = FIRST + int(own[LOSS_NUMBERS])
    return line(own, first, len(own) - first)


@inline_always
def _count(given: StepArguments, order: int, changes: int) -> None:
    """Write the order after a step and the integers that depend on it."""
    storage, counts, own, late = given.storage, given.counts, own_numbers(given.numbers), given.tools[BLOCKED]
    storage[0] = next_budget_at(given.tools[BUDGET_NEXT])(_budget(own), storage[0], order)
    counts[ORDER], counts[ROOM] = order, counts[CAPACITY] - order
    counts[CHANGES] += changes
    counts[WANTS] = wanted(own, order, counts[CHANGES], late)


@inline_always
def _terms(given: StepArguments, taught: Array, first: int) -> Terms:
    """Return the terms of own samples and of the neighbours' pulls, in the scratch from ``first`` on.

    The gradients become the weights of the first-order step that offers points to the dictionary.
    """
    own, (count, outputs), taken = own_numbers(given.numbers), given.values.shape, len(given.gradients)
    asked = Asked(line(own, FIRST, int(own[LOSS_NUMBERS])), own[CURVATURE], own[BATCH_SIZE], own[REACH])
    room = sample_terms.room(taken, outputs)
    terms = sample_terms.terms(given, taught, asked, line(given.scratch, first, room), DERIVATIVES)
    if given.tools[OFFERS] != NONE:
        offered = line(given.scratch, first + room, count)
        loss_values_at(given.tools[OFFERS])(asked.loss_numbers, given.values, given.targets, offered)
        moves.withhold(given.gradients, terms.pulls, offered)
    if len(taught):
        offer_taught(given.gradients, given.rates, own[CURVATURE], taught)
    return terms


@inline_always
def _leaving(given: StepArguments, moved: Moved, points: Array) -> Array:
    """Return the kernel between the points that leave and all before, (r, before), where others come."""
    leaving = np.empty((0, moved.before))
    if moved.kept < moved.before and moved.kept < moved.order:
        gone, all_before = moves.leaving_points(moved, points), table(points, 0, moved.before, points.shape[1])
        leaving = np.empty((moved.before - moved.kept, moved.before))
        kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), gone, all_before, leaving)
    return leaving


step = without_taught(taught_step)


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) with how far a weight at each point moves f at each other."""
    own, order, capacity, outputs = own_numbers(numbers), counts[ORDER], counts[CAPACITY], values.shape[1]
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    factor = tables(storage, capacity, points.shape[1], outputs).factor
    root = information_in(storage, capacity, points.shape[1], outputs).root
    moves.products(root, factor, order, rows, own[RIDGE], own[REACH], gram)


class CompiledNewton(ByProducts):
    """The learner's functions and numbers for compiled rounds; in the storage lie the budget's state and the
    coordinate whose ridge is renewed next.

    Parameters
    ----------
    learner : Newton
        The learner.
    """

    inner = staticmethod(inner)
    step = staticmethod(step)
    late = BY_PRODUCTS
    taught_step = staticmethod(taught_step)

    def __init__(self, learner: Any) -> None:
        kernel, budget = kernel_form(learner.kernel), handed_over(learner.budget, "budget")
        loss = loss_form(learner.loss)
        own = {
            RIDGE: learner.penalty,
            LIMIT: learner.limit,
            UNIT: kernel.unit,
            BATCH_SIZE: learner.batch_size,
            LARGE_BATCH: BLOCKED_FROM_SAMPLES,
            LARGE_ORDER: np.inf if learner.adaptive else BLOCKED_FROM_ORDER,
            FORGETTING: learner.share,
            ADAPTIVE: learner.adaptive,
            CURVATURE: learner.loss.curvature,
            REACH: learner.reach,
            LOSS_NUMBERS: len(loss.numbers),
        }
        self._own = np.array([own[place] for place in range(FIRST)], dtype=np.float64)
        tools = (
            address(budget.bound, BOUND),
            address(budget.next, NEXT_BUDGET),
            address(loss.derivatives, LOSS_DERIVATIVES),
            NONE if loss.curvatures is None else address(loss.curvatures, LOSS_VALUES),
            NONE if loss.offers is None else address(loss.offers, LOSS_VALUES),
        )
        numbers = np.concatenate([self._own, loss.numbers, budget.numbers])
        super().__init__(learner, numbers, (*tools, BY_PRODUCTS.place))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that KOMP, the step's own sums and the information work with."""
        outputs = state.function.outputs
        own = points * (points + 3 * outputs + 2)
        return int(5 * capacity + own + moves.room(capacity, points, outputs))
