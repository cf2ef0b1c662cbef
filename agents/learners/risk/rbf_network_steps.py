"""The step of a radial basis function network in compiled code, with a tracked center."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import KERNEL, GradientArguments, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.learners.features import feature_steps
from kernelswarm.agents.learners.features.feature_steps import COUNT, FIRST, REGULARIZATION, SHRUNK, CompiledVector
from kernelswarm.agents.learners.risk.compositional_steps import (
    CompiledComposition,
    coefficients,
    looks_back,
    next_center,
    of_samples,
    step_on_pairs,
)
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.protocols.compiling import cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers, address

Array = npt.NDArray[np.float64]


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel between points and centers, and from that the values."""
    count, size = int(numbers[COUNT]), int(numbers[FIRST])
    kernel = line(numbers, FIRST + 1, size)
    centers = table(numbers, FIRST + 1 + size, count, points.shape[1])
    kernel_at(tools[0])(kernel, points, centers, rows)
    combine(rows, table(storage, 0, count, values.shape[1]), count, values)


@inline_always
def _center(given: GradientArguments, losses: Array) -> float:
    """Return g in the step to come, and fill in the losses (n,)."""
    numbers, storage, rows, values = given.numbers, given.storage, given.rows, given.values
    count, outputs, columns = int(numbers[COUNT]), values.shape[1], rows.shape[1]
    center = storage[2 * count * outputs]
    before = np.empty((len(values) // 2, outputs))
    if looks_back(numbers) and not math.isnan(center):
        weights = table(storage, count * outputs, count, outputs)
        for k in range(len(before)):
            row = table(rows, (2 * k + 1) * columns, 1, columns)
            combine(row, weights, count, table(before, k * outputs, 1, outputs))
    return next_center(given.tools, numbers, given.sizes, center, before, values, given.targets, losses)


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    losses = np.empty(len(given.values))
    center = _center(given, losses)
    coefficients(given.tools, given.numbers, center, given.values, given.targets, losses, found)


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.risk.rbf_network.RbfNetwork.step` does."""
    numbers, storage, own = given.numbers, given.storage, len(given.values)
    taken, size = len(given.points), int(numbers[COUNT]) * given.values.shape[1]
    storage[2 * size] = _center(of_samples(given), np.empty(own))
    if own and looks_back(numbers):
        copy_vector(line(storage, 0, size), line(storage, size, size))
    return step_on_pairs(given, taken * taken)  # behind what the base works with


class CompiledNetwork(CompiledVector):
    """The functions and numbers of a radial basis function network for compiled rounds."""

    evaluate = staticmethod(evaluate)
    gradient = staticmethod(gradient)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._kernel = kernel_form(learner.kernel)
        self._composition = CompiledComposition(learner, [address(self._kernel.cross, KERNEL)], feature_steps.step)
        self.tools = self._composition.tools

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner, its kernel, its centers and its composition."""
        count = float(len(state.function.coefficients))
        own = {REGULARIZATION: self._learner.regularization, SHRUNK: count, COUNT: count}
        return np.concatenate(
            [
                [own[place] for place in range(FIRST)],
                [float(len(self._kernel.numbers))],
                self._kernel.numbers,
                state.function.points.reshape(-1),
                self._composition.numbers,
            ]
        )

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of the Gram matrix of a step's points, and of the points kept."""
        return points * (points + int(state.function.inputs) + 2)

    def step_sizes(self, first: int, steps: int) -> Array:
        return self._composition.step_sizes(first, steps)
