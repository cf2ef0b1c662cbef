"""POLK's step in compiled code, on a function that lies in a vector."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.signatures import (
    BOUND,
    KERNEL,
    LOOK,
    NEXT_BUDGET,
    NOTHING,
    ROOM,
    SINGLE_STEPS,
    WANTS,
    bound_at,
    kernel_at,
    next_budget_at,
)
from kernelswarm.agents.arithmetic.tables import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES, OWN, length, tables
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.parts.schedules import step_sizes
from kernelswarm.protocols.compiled import handed_over
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]

INSPECT_EVERY = 256
"""Insertions and removals, at least, between two looks at the factor's accuracy."""

INSPECT_PER_POINT = 4
"""The same for each point of a large dictionary: a look costs a Gram matrix, O(M^2 p), a change about O(M^2)."""

ORDER, CHANGES, COUNTS = 2, 3, 4
"""A state's integers after those that all have."""

CROSS, BUDGET_BOUND, BUDGET_NEXT = range(3)
"""The addresses that a step calls."""

REGULARIZATION, LIMIT, UNIT, BATCH_SIZE, LARGE_BATCH, LARGE_ORDER, KERNEL_NUMBERS, FIRST = range(8)
"""The numbers before those of the kernel, of which there are `KERNEL_NUMBERS`; the budget's come last."""


@njit(cache=True)
def inspection_due(order: int) -> int:
    """Return the number of changes after which the factor of ``order`` dictionary points is looked at."""
    return max(INSPECT_EVERY, INSPECT_PER_POINT * order)


@njit(cache=True)
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel rows of points, and from them the values."""
    order = counts[ORDER]
    inputs, outputs = points.shape[1], values.shape[1]
    capacity = counts[ROOM] + order
    dictionary = table(storage, OWN, order, inputs)
    weights = table(storage, OWN + capacity * inputs, capacity, outputs)
    kernel_at(tools[CROSS])(line(numbers, FIRST, int(numbers[KERNEL_NUMBERS])), points, dictionary, rows)
    komp.combine(rows, weights, order, values)


@njit(cache=True)
def step(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    eta: float,
) -> float:
    """Take a step and compress, as :meth:`~kernelswarm.agents.learners.polk.Polk.step` does."""
    taken, outputs = gradients.shape
    order = counts[ORDER]
    capacity = counts[ROOM] + order
    dictionary, weights, factor, precision = tables(storage, capacity, points.shape[1], outputs)
    budget = FIRST + int(numbers[KERNEL_NUMBERS])
    gram = table(scratch, 5 * capacity, taken, taken)
    if taken == 1 and numbers[UNIT] > 0.0:
        gram[0, 0] = 1.0
    else:
        kernel_at(tools[CROSS])(line(numbers, FIRST, budget - FIRST), points, points, gram)
    weigh(gram, gradients, rates, stiffness, implicit)
    budget_numbers = line(numbers, budget, len(numbers) - budget)
    order, error, changes = komp.project_in(
        table(scratch, 0, 5, capacity),
        dictionary,
        weights,
        factor,
        precision,
        order,
        points,
        gradients,
        rows,
        gram,
        1.0 - eta * numbers[REGULARIZATION],
        bound_at(tools[BUDGET_BOUND])(budget_numbers, eta, storage[0], int(numbers[BATCH_SIZE])),
        numbers[LIMIT],
    )
    storage[0] = next_budget_at(tools[BUDGET_NEXT])(budget_numbers, storage[0], order)
    counts[ORDER], counts[ROOM] = order, capacity - order
    counts[CHANGES] += changes
    counts[WANTS] = wanted(numbers, order, counts[CHANGES], taken)
    return error


@njit(cache=True)
def wanted(numbers: Array, order: int, changes: int, points: int) -> int:
    """Say what a state wants before its next step, on so many points."""
    if changes >= inspection_due(order):
        return LOOK
    if points >= numbers[LARGE_BATCH] and order >= numbers[LARGE_ORDER]:
        return SINGLE_STEPS
    return NOTHING


class CompiledPolk:
    """What POLK hands over to compiled rounds, and how its states lie in vectors."""

    evaluate = staticmethod(evaluate)
    gradient = None
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        kernel, budget = handed_over(learner.kernel, "kernel"), handed_over(learner.budget, "budget")
        self._learner = learner
        self.tools = address(kernel.cross, KERNEL), address(budget.bound, BOUND), address(budget.next, NEXT_BUDGET)
        supremum = learner.kernel.supremum
        limit = np.inf if supremum is None else komp.DEPENDENT / supremum
        own = {
            REGULARIZATION: learner.regularization,
            LIMIT: limit,
            UNIT: kernel.unit,
            BATCH_SIZE: learner.batch_size,
            LARGE_BATCH: BLOCKED_FROM_SAMPLES,
            LARGE_ORDER: BLOCKED_FROM_ORDER,
            KERNEL_NUMBERS: len(kernel.numbers),
        }
        first = np.array([own[place] for place in range(FIRST)], dtype=np.float64)
        self._numbers = np.concatenate([first, kernel.numbers, budget.numbers])

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner and its parts."""
        return self._numbers

    def columns(self, state: Any, capacity: int) -> int:
        """Return the columns of kernel rows."""
        return capacity

    def length(self, state: Any, capacity: int) -> int:
        """Return the numbers of a state."""
        return length(capacity, state.function.inputs, state.function.outputs)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that KOMP works with, and those of the Gram matrix of a step's points."""
        return 5 * capacity + points * points

    def steps(self, state: Any) -> int:
        """Return the number of steps taken."""
        return int(state.steps)

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return the step sizes of the schedule."""
        return step_sizes(self._learner.step_size, first, steps)

    def order(self, state: Any) -> int:
        """Return the number of dictionary points."""
        return int(state.function.order)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        state.function.reserve(points)
        return len(state.function.points_buffer)

    def storage(self, state: Any) -> Array:
        """Return the vector of the state, the budget's state in it."""
        vector: Array = state.function.storage
        vector[0] = state.budget
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        """Have the state live in another vector."""
        state.function.move(storage, capacity)
        storage[0] = state.budget

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers."""
        order, changes = state.function.order, state.changes
        wants = wanted(self._numbers, order, changes, points)
        return np.array([capacity - order, wants, order, changes], dtype=np.int64)

    def settle(self, state: Any, counts: Integers, steps: int) -> None:
        """Bring a state up to date."""
        state.function.order, state.changes = int(counts[ORDER]), int(counts[CHANGES])
        state.budget = float(state.function.storage[0])
        state.steps += steps

    def attend(self, state: Any) -> None:
        """Look at the accuracy of the factor."""
        self._learner.inspect(state)
