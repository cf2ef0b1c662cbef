"""Dual space gradient descent: what leaves a full dictionary goes on in random features."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, kernel_at
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.cosines import CosineFunction, DualSum, add_combination, coefficients_of, cosines
from kernelswarm.agents.functions.kernel_sum import close_up, combine_into, enter, find, is_zero, scale, squared_length
from kernelswarm.agents.learners.descent import CAPACITY, CROSS, kernel_numbers, own_numbers
from kernelswarm.agents.learners.kernel_descent import (
    BUDGET_SIZE,
    DONE,
    ERROR,
    FIRST,
    HEADER,
    CompiledDescent,
    DictionaryRule,
    KernelDescent,
    SumState,
    budget_from,
    sum_of,
)
from kernelswarm.agents.learners.random_features import RandomFeatures, ShiftInvariant
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import SEED
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True

LEAVING, COUNT, FEATURES = FIRST, FIRST + 1, FIRST + 2
"""Of the rule's numbers: k, L, and from there on the features' phases, and behind them their frequencies."""


@dataclass(frozen=True)
class DualSgd(KernelDescent):
    """Dual space gradient descent (Le, Nguyen, Nguyen and Phung, NIPS 2016).

    The function is a kernel sum on a budget beside L random features of the same kernel,

        f(x) = sum_m W[m] kappa(d_m, x) + V' z(x)      z(x) . z(y) about kappa(x, y)

    Both shrink in a step, and the step's points enter the sum. Before a point enters that would be one more than
    ``budget_size``, the k = ``leaving`` elements of least norm ||W[m]|| leave it for the features,

        V <- V + sum_m z(d_m) W[m]'

    which changes f(x) by ``W[m] (z(d_m) . z(x) - kappa(d_m, x))``, of about ||W[m]|| / sqrt(L). Every frequency has a
    cosine and a sine among the features, which are the same at all nodes.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel: gaussian, laplacian, matern or student_t.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget_size : int
        The most points of the dictionary, at least 1.
    leaving : int
        k, the elements that leave a full dictionary together, from 1 to ``budget_size``; the authors' code takes 10.
    features : int
        L, even and at least 2.
    seed : int
        Seed of the features, not negative; nodes with equal seeds have the same features.
    """

    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    budget_size: int = 50
    leaving: int = 1
    features: int = 100
    seed: int = 0

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

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        maker = RandomFeatures(kernel=self.kernel, features=self.features, seed=self.seed, phases="paired")
        drawn = maker.init(inputs, outputs).function
        assert isinstance(drawn, CosineFunction)
        function = DualSum(self.kernel, inputs, outputs, drawn.frequencies, drawn.phases)
        return SumState(function, np.concatenate([self.own_numbers(), drawn.phases, drawn.frequencies.reshape(-1)]))

    @property
    def rule(self) -> DictionaryRule:
        """Let the smallest elements go on in the features."""
        return DictionaryRule(leave_for_features, numbers=self.features)

    def rule_numbers(self) -> list[float]:
        """Return the budget, how many elements leave together, and the number of features."""
        return [float(self.budget_size), 0.0, 0.0, float(self.leaving), float(self.features)]

    def function_from(self, arrays: Mapping[str, Array]) -> DualSum:
        return DualSum.from_arrays(self.kernel, arrays)

    @property
    def compiled(self) -> "CompiledDual":
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDual(self)


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the values from kernel rows, then from features, which the rows hold in the end; no step reads them."""
    order, capacity = counts[ORDER], counts[CAPACITY]
    inputs, outputs = points.shape[1], values.shape[1]
    own = own_numbers(numbers)
    count = int(own[COUNT])
    dictionary, weights = sum_of(storage, capacity, inputs, outputs)
    kernel_at(tools[CROSS])(kernel_numbers(numbers), points, table(dictionary, 0, order, inputs), rows)
    combine_into(rows, weights, order, values)
    cosines(line(own, FEATURES, count * (1 + inputs)), points, rows)
    add_combination(rows, coefficients_of(storage, capacity, inputs, outputs, count), count, values)


@cached_njit
def leave_for_features(
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
    """Let the points in one by one, and make room for each where there is none.

    The step's error is the sum of the norms of the elements that leave: what were lost without the features.
    """
    inputs, outputs, count = points.shape[1], weights.shape[1], int(own[COUNT])
    dictionary, old = sum_of(storage, counts[CAPACITY], inputs, outputs)
    beyond = coefficients_of(storage, counts[CAPACITY], inputs, outputs, count)
    features = table(work, HEADER, 1, count)
    scale(old, counts[ORDER], shrink)
    scale(beyond, count, shrink)
    for n in range(len(points)):
        if is_zero(weights, n):
            continue
        order = counts[ORDER]
        place = find(dictionary, order, points, n)
        if place == order == int(own[BUDGET_SIZE]):
            for _ in range(int(own[LEAVING])):
                leaves = _lightest(old, order)
                leaver = table(dictionary, leaves * inputs, 1, inputs)
                cosines(line(own, FEATURES, count * (1 + inputs)), leaver, features)
                for m in range(count):
                    for c in range(outputs):
                        beyond[m, c] += features[0, m] * old[leaves, c]
                work[ERROR] += math.sqrt(squared_length(old, leaves))  # kappa(x, x) = 1
                close_up(dictionary, order, leaves, 1)
                close_up(old, order, leaves, 1)
                order -= 1
            place = order
        counts[ORDER] = enter(dictionary, old, order, place, points, weights, n)
    return DONE


@inline_always
def _lightest(weights: Array, order: int) -> int:
    """Find the element of least ||W_m||, the oldest of equal ones."""
    place, least = 0, math.inf
    for m in range(order):
        squared = squared_length(weights, m)
        if squared < least:
            place, least = m, squared
    return place


class CompiledDual(CompiledDescent):
    """The learner's functions and numbers for compiled rounds: values have a second part, features are numbers."""

    evaluate = staticmethod(evaluate)

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the kernel, and those of the learner with its features."""
        size = 1 + int(self._numbers[0])
        return np.concatenate([self._numbers[:size], state.own])

    def columns(self, state: Any, capacity: int) -> int:
        """Return the columns of kernel rows or features, whichever are more."""
        return max(capacity, len(state.function.beyond.phases))
