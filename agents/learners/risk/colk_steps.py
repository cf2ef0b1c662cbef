"""COLK's step in compiled code: POLK's along other coefficients, with a tracked center."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER, GradientArguments, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.functions.expansion import length_of, tables
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.learners import polk_steps
from kernelswarm.agents.learners.kernel_steps import CAPACITY, CROSS, kernel_numbers
from kernelswarm.agents.learners.polk_steps import CompiledPolk
from kernelswarm.agents.learners.risk.compositional_steps import (
    CompiledComposition,
    coefficients,
    looks_back,
    next_center,
    of_samples,
    seconds_in,
    step_on_pairs,
)
from kernelswarm.agents.learners.risk.joint_storage import length, put_together, together
from kernelswarm.protocols.compiling import cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]

PREVIOUS = 5
"""Among a state's integers, after those of POLK, the points of the function before the last step."""


@cached_njit
def _center(given: GradientArguments, losses: Array) -> float:
    """Return g in the step to come, and fill in the losses (n,)."""
    numbers, storage, scratch, values = given.numbers, given.storage, given.scratch, given.values
    capacity, inputs, (own, outputs) = given.counts[CAPACITY], given.points.shape[1], values.shape
    first, order, seconds = length_of(capacity, inputs, outputs), given.counts[PREVIOUS], own // 2
    center = storage[first]
    before = table(scratch, 0, seconds, outputs)
    if looks_back(numbers) and not math.isnan(center):
        second_points = table(scratch, seconds * outputs, seconds, inputs)
        rows = table(scratch, seconds * (outputs + inputs), seconds, order)
        dictionary = table(storage, first + OWN, order, inputs)
        weights = table(storage, first + OWN + capacity * inputs, order, outputs)
        seconds_in(given.points, 2, second_points)
        kernel_at(given.tools[CROSS])(kernel_numbers(numbers), second_points, dictionary, rows)
        combine(rows, weights, order, before)
    return next_center(given.tools, numbers, given.sizes, center, before, values, given.targets, losses)


@cached_njit
def _next_center(given: GradientArguments) -> float:
    """Return g in the step to come; apart from the step, which counts no references since it makes no array."""
    return _center(given, np.empty(len(given.values)))


@inline_always
def look_back(storage: Array, counts: Integers, inputs: int, outputs: int) -> None:
    """Make of the function the one before the last step."""
    capacity, order = counts[CAPACITY], counts[ORDER]
    first = length_of(capacity, inputs, outputs)
    dictionary, weights, _, _ = tables(storage, capacity, inputs, outputs)
    before = table(storage, first + OWN, capacity, inputs)
    copy_matrix(table(dictionary, 0, order, inputs), before)
    before = table(storage, first + OWN + capacity * inputs, capacity, outputs)
    copy_matrix(table(weights, 0, order, outputs), before)
    counts[PREVIOUS] = order


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    losses = np.empty(len(given.values))
    center = _center(given, losses)
    coefficients(given.tools, given.numbers, center, given.values, given.targets, losses, found)


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.risk.colk.Colk.step` does."""
    numbers, storage, counts = given.numbers, given.storage, given.counts
    (taken, inputs), (own, outputs) = given.points.shape, given.values.shape
    capacity = counts[CAPACITY]
    storage[length_of(capacity, inputs, outputs)] = _next_center(of_samples(given))
    if own and looks_back(numbers):
        look_back(storage, counts, inputs, outputs)
    return step_on_pairs(given, 5 * capacity + taken * taken)  # behind what POLK works with


class CompiledColk(CompiledPolk):
    """The functions and numbers of COLK for compiled rounds: the last function, with g, lies behind the present."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._composition = CompiledComposition(learner, self.tools, polk_steps.step)
        self.tools = self._composition.tools
        self._numbers = np.concatenate([self._numbers, self._composition.numbers])

    @property
    def gradient(self) -> Any:
        return gradient

    def length(self, state: Any, capacity: int) -> int:
        return length(sums_of(state), capacity)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that POLK works with, those of the points kept, and those of the earlier values."""
        kept = points * (state.function.inputs + 2)
        earlier = points * (state.function.inputs + state.function.outputs + capacity)
        polk = super().scratch(state, capacity, points)
        return int(polk + max(kept, earlier))

    def step_sizes(self, first: int, steps: int) -> Array:
        return self._composition.step_sizes(first, steps)

    def order(self, state: Any) -> int:
        """Return the number of dictionary points of the larger function."""
        return max(each.order for each in sums_of(state))

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        state.vector = together(sums_of(state), state.vector, points)
        return len(state.function.points_buffer)

    def storage(self, state: Any) -> Array:
        vector: Array = state.vector
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        put_together(sums_of(state), storage, capacity)
        state.vector = storage

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        return np.append(super().counts(state, capacity, points), state.previous.order)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts, steps)
        state.previous.order = int(counts[PREVIOUS])


def sums_of(state: Any) -> tuple[KernelSum, KernelSum]:
    """Return the functions of a state in the order in which they lie."""
    return state.function, state.previous
