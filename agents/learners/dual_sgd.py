"""Dual space gradient descent: elements that leave a full dictionary are kept in random features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, kernel_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.cosines import CosineFunction, DualSum, add_combination, coefficients_of, cosines
from kernelswarm.agents.functions.kernel_sum import OWN, combine_into, find, is_zero
from kernelswarm.agents.learners.descent import CAPACITY, CROSS, LearnerState, kernel_numbers, own_numbers
from kernelswarm.agents.learners.numpy_learner import (
    CONSTANTS,
    COUNT,
    EXTENT,
    KEYS,
    At,
    CompiledPage,
    NumpyLearner,
)
from kernelswarm.agents.learners.page_sums import added, budget_from, squared_lengths, without
from kernelswarm.agents.learners.random_features import RandomFeatures, ShiftInvariant
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import SEED, Seed
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True


class State(NamedTuple):
    """A kernel sum, and V, the weights of the features."""

    points: Array
    weights: Array
    coefficients: Annotated[Array, "LC"]


def leave_for_features(keys: tuple[float, ...], state: Any, at: At) -> State:
    """Add the points one by one; if the dictionary is full, first move elements to the features.

    The reported error is the sum of the norms of the moved elements, as if they were dropped.
    """
    budget, leaving = keys
    points, weights, beyond = state
    beyond *= at.shrink
    features = np.empty((1, len(beyond)))
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        if find(points, len(points), at.points, n) == len(points) == budget:
            for _ in range(int(leaving)):
                norms = squared_lengths(weights)  # kappa(x, x) = 1
                m = int(np.argmin(norms))
                cosines(at.constants, points[m : m + 1], features)
                beyond += np.outer(features[0], weights[m])
                at.lost[0] += math.sqrt(norms[m])
                points, weights = without(points, m), without(weights, m)
        points, weights = added(points, weights, at.points[n : n + 1], at.weights[n : n + 1])
    return State(points, weights, beyond)


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the values from kernel rows plus features; ``rows`` finally holds the features, which no step reads."""
    order, capacity = counts[ORDER], counts[CAPACITY]
    inputs, outputs, own = points.shape[1], values.shape[1], own_numbers(numbers)
    dictionary, weights = table(storage, OWN, order, inputs), table(storage, OWN + capacity * inputs, order, outputs)
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, dictionary, rows)
    combine_into(rows, weights, order, values)
    count = int(own[EXTENT])
    cosines(line(own, KEYS + int(own[COUNT]), int(own[CONSTANTS])), points, rows)
    add_combination(rows, coefficients_of(storage, capacity, inputs, outputs, count), count, values)


class CompiledDual(CompiledPage):
    """Functions and numbers of the learner for compiled rounds; values include the part from features."""

    evaluate = staticmethod(evaluate)

    def columns(self, state: Any, capacity: int) -> int:
        """Return the larger of the numbers of columns of kernel rows and of features."""
        return max(capacity, int(self._learner.features))


@dataclass(frozen=True)
class DualSgd(NumpyLearner):
    """Dual space gradient descent (Le, Nguyen, Nguyen and Phung, NIPS 2016).

    The function is the sum of a kernel sum on a budget and a linear function of L random features of the same kernel,

        f(x) = sum_m W[m] kappa(d_m, x) + V' z(x)      z(x) . z(y) ~ kappa(x, y)

    A step shrinks both parts, and adds its points to the kernel sum. Before a new point would exceed ``budget_size``,
    the k = ``leaving`` elements of smallest norm ||W[m]|| move from the kernel sum to the features,

        V <- V + sum_m z(d_m) W[m]'

    Each moved element changes f(x) by ``W[m] (z(d_m) . z(x) - kappa(d_m, x))``, which is about ||W[m]|| / sqrt(L). The
    features contain a cosine and a sine of every frequency, and are the same at all nodes.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel: gaussian, laplacian, matern or student_t.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget_size : int
        The largest number of dictionary points, at least 1.
    leaving : int
        k, the number of elements that leave a full dictionary together, from 1 to ``budget_size``; 10 in the authors'
        code.
    features : int
        L, the number of features, even and at least 2.
    seed : int or "auto"
        Seed of the features; see `random_features`.
    """

    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    budget_size: int = 50
    leaving: int = 1
    features: int = 100
    seed: Seed = "auto"

    ranges: ClassVar = {
        "budget_size": budget_from(1),
        "seed": SEED,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.leaving <= self.budget_size:
            raise RefusedKey(
                "leaving", f"= {self.leaving!r} must be from 1 to budget_size = {self.budget_size}: 1 is usual here"
            )
        if self.features < 2 or self.features % 2:
            raise RefusedKey(
                "features",
                f"= {self.features!r} must be even and at least 2, a cosine and a sine of each frequency: "
                "100 to 1000 are usual",
            )
        if not isinstance(self.kernel, ShiftInvariant):
            raise RefusedKey(
                "kernel",
                "has no random Fourier features here: take gaussian, laplacian, matern or student_t, or the learner "
                "bsgd, which works with any kernel",
                self.kernel,
            )

    State: ClassVar = State
    move: ClassVar = staticmethod(leave_for_features)
    form: ClassVar = CompiledDual

    @property
    def keys(self) -> tuple[float, ...]:
        """The budget, and the number of elements that leave together."""
        return float(self.budget_size), float(self.leaving)

    @property
    def extent(self) -> int:
        """The number of features."""
        return self.features

    def constants(self, state: LearnerState[DualSum]) -> Array:
        """Return the phases of the features, followed by their frequencies."""
        beyond = state.function.beyond
        return np.concatenate([beyond.phases, beyond.frequencies.reshape(-1)])

    def init(self, inputs: int, outputs: int) -> LearnerState[DualSum]:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        maker = RandomFeatures(kernel=self.kernel, features=self.features, seed=self.seed, phases="paired")
        drawn = maker.init(inputs, outputs).function
        assert isinstance(drawn, CosineFunction)
        return LearnerState(DualSum(self.kernel, inputs, outputs, drawn.frequencies, drawn.phases))

    def function_from(self, arrays: Mapping[str, Array]) -> DualSum:
        return DualSum.from_arrays(self.kernel, arrays)
