"""The step of policy evaluation in compiled code: one of POLK on the tracked residual, and one on the values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ROOM, STEP, WANTS, GradientArguments, StepArguments, step_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import length_of
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners import kernel_steps, polk_steps
from kernelswarm.agents.learners.kernel_steps import CAPACITY, PLANNED
from kernelswarm.agents.learners.polk_steps import CHANGES, POLK_TOOLS, CompiledPolk
from kernelswarm.agents.learners.risk.joint_storage import length, put_together, together
from kernelswarm.protocols.compiling import ReadOnly, ReadOnlyIntegers, cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]

POLK = CHANGES + 1
"""The integers of a POLK learner; those of the residual follow those of the values."""

MOVE, RESIDUAL = POLK_TOOLS, POLK_TOOLS + 1
"""Among the addresses, POLK's step and, from `RESIDUAL` on, those that it calls on the residual; those that it calls
on the values come first."""

TRACKING = PLANNED + 1
"""Among the sizes of a step, behind eta: beta, twice as eta."""

NUMBERS, DISCOUNT, CURVATURE, BATCH_SIZE, COUNT = range(5)
"""The last numbers, of which there are `COUNT`: how many the residual's learner has, which stand before these."""


@cached_njit
def coefficients_in(tracked: Array, discount: float, coefficients: Array) -> None:
    """Fill in the coefficients (n, C) at the two states of each transition, from g at the first ones, (n // 2, C)."""
    for k in range(len(tracked)):
        for c in range(tracked.shape[1]):
            coefficients[2 * k, c] = -2.0 * tracked[k, c]
            coefficients[2 * k + 1, c] = 2.0 * discount * tracked[k, c]


@cached_njit
def errors_in(values: ReadOnly, targets: ReadOnly, tracked: Array, discount: float, errors: Array) -> None:
    """Fill in ``g(x) - delta`` of each transition, (n // 2, C), from V (n, C) and the rewards (n, C)."""
    for k in range(len(tracked)):
        for c in range(tracked.shape[1]):
            delta = targets[2 * k, c] + discount * values[2 * k + 1, c] - values[2 * k, c]
            errors[k, c] = tracked[k, c] - delta


@inline_always
def _own(numbers: Array) -> Array:
    return line(numbers, len(numbers) - COUNT, COUNT)


@inline_always
def _numbers(numbers: Array) -> Array:
    """Return the numbers of the residual's learner."""
    size = int(_own(numbers)[NUMBERS])
    return line(numbers, len(numbers) - COUNT - size, size)


@inline_always
def _residual(storage: Array, counts: Integers, inputs: int, outputs: int) -> tuple[Array, Integers]:
    """Return the vector and the integers of the residual's state."""
    size = length_of(counts[CAPACITY], inputs, outputs)
    return line(storage, size, size), line(counts, POLK, POLK)


@cached_njit
def _track(
    tools: ReadOnlyIntegers,
    numbers: ReadOnly,
    storage: ReadOnly,
    counts: ReadOnlyIntegers,
    points: ReadOnly,  # (n, p)
    states: Array,  # (n // 2, p), the first of each transition, filled in
    rows: Array,  # (n // 2, capacity), filled in
    tracked: Array,  # (n // 2, C), filled in
) -> None:
    """Evaluate g at the first states of the transitions."""
    for k in range(len(states)):
        for i in range(points.shape[1]):
            states[k, i] = points[2 * k, i]
    storage, counts = _residual(storage, counts, points.shape[1], tracked.shape[1])
    kernel_steps.evaluate(line(tools, RESIDUAL, POLK_TOOLS), _numbers(numbers), storage, counts, states, rows, tracked)


@cached_njit
def _memory(scratch: Array, first: int, pairs: int, inputs: int, capacity: int, outputs: int) -> Any:
    """Return room for the first states, their kernel rows, and two numbers for each output."""
    rows = first + pairs * inputs
    tracked = rows + pairs * capacity
    return (
        table(scratch, first, pairs, inputs),
        table(scratch, rows, pairs, capacity),
        table(scratch, tracked, pairs, outputs),
        table(scratch, tracked + pairs * outputs, pairs, outputs),
    )


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own states."""
    (own, outputs), inputs = given.values.shape, given.points.shape[1]
    states, known, tracked, _ = _memory(given.scratch, 0, own // 2, inputs, given.counts[CAPACITY], outputs)
    _track(given.tools, given.numbers, given.storage, given.counts, given.points, states, known, tracked)
    for c in range(outputs):
        found[own - 1, c] = 0.0  # stays where no transition begins there
    coefficients_in(tracked, _own(given.numbers)[DISCOUNT], found)


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`PolicyEvaluation.step` does."""
    numbers, counts, scratch = given.numbers, given.counts, given.scratch
    (taken, inputs), (count, outputs) = given.points.shape, given.values.shape
    own = _own(numbers)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]
    behind = 5 * counts[CAPACITY] + taken * taken  # what POLK works with
    stiff = line(scratch, behind, taken)
    vector, integers = _residual(given.storage, counts, inputs, outputs)
    if count // 2:
        _follow_residual(given, vector, integers, behind + taken)
    for k in range(taken):
        stiff[k] = given.stiffness[k]
        if k < count:  # the residual's part is explicit
            stiff[k] -= own[CURVATURE] * part
    error: float = step_at(given.tools[MOVE])(
        StepArguments(
            given.tools,
            line(numbers, 0, len(numbers) - COUNT - int(own[NUMBERS])),
            given.storage,
            counts,
            scratch,
            given.points,
            given.rows,
            given.gradients,
            given.rates,
            stiff,
            given.implicit,
            given.sizes,
            given.values,
            given.targets,
        )
    )
    counts[ROOM] = min(counts[ROOM], integers[ROOM])
    counts[WANTS] = max(counts[WANTS], integers[WANTS])
    return error


@inline_always
def _follow_residual(given: StepArguments, vector: Array, integers: Integers, behind: int) -> None:
    """Take POLK's step on the tracked residual, whose state these are, in the scratch from ``behind`` on."""
    tools, numbers, counts, sizes, values = given.tools, given.numbers, given.counts, given.sizes, given.values
    own, pairs, inputs, outputs = _own(numbers), len(values) // 2, given.points.shape[1], values.shape[1]
    memory = _memory(given.scratch, behind + 2 * pairs, pairs, inputs, counts[CAPACITY], outputs)
    states, known, tracked, errors = memory
    each, none = line(given.scratch, behind, pairs), line(given.scratch, behind + pairs, pairs)
    _track(tools, numbers, given.storage, counts, given.points, states, known, tracked)
    errors_in(values, given.targets, tracked, own[DISCOUNT], errors)
    few = 1.0 if 2 * pairs >= own[BATCH_SIZE] else pairs / (own[BATCH_SIZE] / 2.0)
    for k in range(pairs):
        each[k], none[k] = sizes[TRACKING] / pairs, 0.0
        for c in range(outputs):
            errors[k, c] *= few
    step_at(tools[MOVE])(
        StepArguments(
            line(tools, RESIDUAL, POLK_TOOLS),
            _numbers(numbers),
            vector,
            integers,
            given.scratch,
            states,
            known,
            errors,
            each,
            none,
            False,
            line(sizes, TRACKING, 2),
            tracked,
            given.targets,
        )
    )


class CompiledPolicy(CompiledPolk):
    """The functions and numbers of policy evaluation for compiled rounds: the residual lies behind the values."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._tracker = CompiledPolk(learner.tracker)
        self.tools = (*self.tools, address(polk_steps.step, STEP), *self._tracker.tools)
        residual = self._tracker.numbers(None)
        own = {
            NUMBERS: len(residual),
            DISCOUNT: learner.discount,
            CURVATURE: learner.loss.curvature,
            BATCH_SIZE: learner.batch_size,
        }
        last = [float(own[place]) for place in range(COUNT)]
        self._numbers = np.concatenate([self._numbers, residual, last])

    @property
    def gradient(self) -> Any:
        return gradient

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return eta and beta, each as its learner has it, (steps, 4)."""
        return np.column_stack([super().step_sizes(first, steps), self._tracker.step_sizes(first, steps)])

    def length(self, state: Any, capacity: int) -> int:
        return length(_sums(state), capacity)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that POLK works with, and those of g at the transitions."""
        own = 2 + state.function.inputs + capacity + 2 * state.function.outputs
        return int(super().scratch(state, capacity, points) + points * (1 + own))

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of the larger function."""
        return max(each.order for each in _sums(state))

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points in both; returns the capacity."""
        state.vector = together(_sums(state), state.vector, points)
        return len(state.function.points_buffer)

    def storage(self, state: Any) -> Array:
        vector: Array = state.vector
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        put_together(_sums(state), storage, capacity)
        state.vector = storage

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        values = super().counts(state, capacity, points)
        residual = self._tracker.counts(state.residual, capacity, self._learner.batch_size // 2)
        values[ROOM] = min(values[ROOM], residual[ROOM])
        values[WANTS] = max(values[WANTS], residual[WANTS])
        return np.concatenate([values, residual])

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts[:POLK], steps)
        self._tracker.sync(state.residual, counts[POLK : 2 * POLK], steps)

    def maintain(self, state: Any) -> None:
        super().maintain(state)
        self._tracker.maintain(state.residual)


def _sums(state: Any) -> tuple[KernelSum, KernelSum]:
    return state.function, state.residual.function
