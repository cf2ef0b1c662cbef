"""The common part of compiled learners of kernel expansions: evaluation, and the layout of states."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import KERNEL, NOTHING, ORDER, kernel_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.functions.kernel_sum import OWN
from kernelswarm.agents.parts.schedules import step_sizes
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.protocols.compiling import ReadOnly, ReadOnlyIntegers, inline_always, njit_no_refcount
from kernelswarm.protocols.first_class import Compiled, Integers, address

Array = npt.NDArray[np.float64]

CAPACITY = 3
"""Among a state's integers, after those that all have, the dictionary points for which there is room in all."""

CROSS = 0
"""Among the addresses that a step calls, that of the kernel."""

PLANNED = 1
"""Among the sizes of a step, behind that which is taken: what the schedule says, of which a node may take a part."""


@inline_always
def kernel_numbers(numbers: Array) -> Array:
    """Return the kernel's numbers: those behind the first, which says how many they are."""
    return line(numbers, 1, int(numbers[0]))


@inline_always
def own_numbers(numbers: Array) -> Array:
    """Return the learner's own numbers: those behind the kernel's."""
    first = 1 + int(numbers[0])
    return line(numbers, first, len(numbers) - first)


@njit_no_refcount
def evaluate(
    tools: ReadOnlyIntegers,
    numbers: ReadOnly,
    storage: Array,
    counts: Integers,
    points: ReadOnly,
    rows: Array,
    values: Array,
) -> None:
    """Compute the kernel rows of points, and from them the values."""
    order, capacity = counts[ORDER], counts[CAPACITY]
    inputs, outputs = points.shape[1], values.shape[1]
    dictionary = table(storage, OWN, order, inputs)
    weights = table(storage, OWN + capacity * inputs, capacity, outputs)
    kernel_at(tools[CROSS])(line(numbers, 1, int(numbers[0])), points, dictionary, rows)
    combine(rows, weights, order, values)


@njit_no_refcount
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
    """Fill ``gram`` (N, N) with the kernel between all points."""
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)


class CompiledExpansion:
    """The functions and numbers of such a learner for compiled rounds, and how its states lie in vectors.

    Parameters
    ----------
    learner : object
        The learner.
    numbers : sequence of float
        Its own numbers.
    tools : sequence of int
        The addresses that its step calls besides the kernel's.
    """

    evaluate = staticmethod(evaluate)
    inner = staticmethod(inner)

    def __init__(self, learner: Any, numbers: Sequence[float] | Array, tools: Sequence[int] = ()) -> None:
        kernel = kernel_form(learner.kernel)
        self._learner = learner
        self.tools = (address(kernel.cross, KERNEL), *tools)
        self._numbers = np.concatenate([[float(len(kernel.numbers))], kernel.numbers, numbers])

    @property
    def gradient(self) -> Compiled | None:
        """None: the loss's derivatives are the gradient."""
        return None

    def numbers(self, state: Any) -> Array:
        return self._numbers

    def columns(self, state: Any, capacity: int) -> int:
        return capacity

    def length(self, state: Any, capacity: int) -> int:
        return int(state.function.length(capacity))

    def steps(self, state: Any) -> int:
        return int(state.steps)

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return the step sizes of the schedule, which a node may damp, and once more as they are, (steps, 2)."""
        return step_sizes(self._learner.step_size, first, steps)[:, np.newaxis].repeat(2, axis=1)

    def order(self, state: Any) -> int:
        return int(state.function.order)

    def reserve(self, state: Any, points: int) -> int:
        """Make room for more points; returns the capacity."""
        state.function.reserve(points)
        return len(state.function.points_buffer)

    def storage(self, state: Any) -> Array:
        vector: Array = state.function.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        state.function.move(storage, capacity)

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        order = state.function.order
        return np.array([capacity - order, NOTHING, order, capacity], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        state.function.order = int(counts[ORDER])
        state.steps += steps

    def maintain(self, state: Any) -> None:
        """Do nothing: there is nothing to want."""
