"""Functional gradient descent whose dictionary a rule keeps small: the common part of such learners."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import LOOK, NOTHING, ORDER, WANTS
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    BLOCKED,
    CHANGES,
    DONE,
    ERROR,
    HEADER,
    MOVE,
    NORMS,
    REGULARIZATION,
    UNIT,
    DictionaryRule,
    is_unit,
)
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, DescentInSpace, check_step, explicit_or_implicit
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.agents.plain.kernels import kernel_diagonal, kernel_rows
from kernelswarm.protocols.first_class import Integers, sole
from kernelswarm.ranges import Range

Array = npt.NDArray[np.float64]

_NO_GRAM, _ONE = np.zeros((0, 0)), np.ones((1, 1))


class SumState:
    """Everything such a learner changes: the function, the number of steps, and the numbers of its own rule.

    Parameters
    ----------
    function : KernelSum
        The function.
    own : Array
        What the rule is given of the learner.
    numbers : int
        How many numbers of its own the rule has; they lie in front of the function's.
    """

    __slots__ = ("_count", "counts", "function", "own", "steps")

    def __init__(self, function: KernelSum, own: Array, numbers: int = 0) -> None:
        self.function = function
        self.own = own
        self.counts: Integers = np.zeros(4, dtype=np.int64)
        self.steps = 0
        self._count = numbers

    @property
    def numbers(self) -> Array:
        return self.function.storage[: self._count]


@dataclass(frozen=True)
class KernelDescent(DescentInSpace):
    """Functional stochastic gradient descent, followed by a rule that keeps the dictionary small.

    The step on a mini-batch of b samples is

        f~ = (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .)

    where g_k is the local coefficient, for most learners the derivative of the loss, plus the coupling's. The rule
    makes f of f~. The implicit step takes the coupling, and a quadratic loss, at f~.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    @property
    @abstractmethod
    def rule(self) -> DictionaryRule:
        """The rule for the dictionary, in compiled code."""

    def rule_numbers(self) -> Sequence[float]:
        """Return the numbers that the rule is given, from `BUDGET_SIZE` on."""
        return ()

    def own_numbers(self) -> Array:
        """Return all the numbers that steps are given of the learner."""
        own = [self.regularization, float(self.rule.gram), float(is_unit(self.kernel)), *self.rule_numbers()]
        return np.array(own, dtype=np.float64)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return SumState(KernelSum(self.kernel, inputs, outputs), self.own_numbers())

    def step(
        self,
        state: SumState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``, then keep to the rule.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm of what the rule changed, or a bound on it.
        """
        eta = self.eta(state) if eta is None else eta
        points, rows, weights = explicit_or_implicit(self.kernel, eta, evaluations, gradients, curvatures)
        error = self._move(state, eta, points, rows, weights)
        state.steps += 1
        return Info(error, eta)

    def _move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the weighted points (N, p), (N, C) to the shrunk function, keep to the rule; returns its error."""
        rule, function, own, counts = self.rule, state.function, state.own, state.counts
        function.reserve(len(points))
        capacity = len(function.points_buffer)
        counts[WANTS], counts[ORDER], counts[CAPACITY] = NOTHING, function.order, capacity
        work = np.zeros(HEADER + rule.rows * capacity + rule.numbers)
        gram = _NO_GRAM
        if rule.gram:
            gram = _ONE if len(points) == 1 and own[UNIT] > 0.0 else kernel_rows(self.kernel, points, points)
        shrink = 1.0 - eta * float(own[REGULARIZATION])
        move = sole(rule.move, MOVE)
        try:
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        except TypeError:  # rows of other strides are rare: asking each time would cost more
            points, rows, weights = map(np.ascontiguousarray, (points, rows, weights))
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        while wanted != DONE:
            function.order = int(counts[ORDER])
            answer = work[HEADER : HEADER + function.order]
            if wanted == NORMS:
                answer[:] = kernel_diagonal(self.kernel, function.points)
            elif wanted == BLOCKED:
                assert isinstance(function, Expansion)
                work[ERROR], changes = function.step(points, weights, rows, shrink, 0.0)
                state.numbers[CHANGES] += changes
                counts[ORDER] = function.order
            else:
                among, place = (function.points, wanted) if wanted < len(answer) else (points, wanted - len(answer))
                answer[:] = kernel_rows(self.kernel, among[place : place + 1], function.points)[0]
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        function.order = int(counts[ORDER])
        if counts[WANTS] == LOOK:
            self.inspect(state)
        return float(work[ERROR])

    def inspect(self, state: SumState) -> None:
        """Look at the accuracy of the factor, and compute it afresh where that is lost."""
        assert isinstance(state.function, Expansion)
        state.numbers[CHANGES] = 0.0
        state.function.inspect()

    def function(self, state: SumState) -> KernelSum:
        return state.function

    def snapshot(self, state: SumState) -> dict[str, Array]:
        """Return the function, the number of ``steps`` and the rule's own ``numbers``."""
        return {
            **state.function.snapshot(),
            "steps": np.array(float(state.steps)),
            "numbers": state.numbers.copy(),
        }

    def restore(self, state: SumState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        state.steps = int(arrays["steps"])
        state.numbers[:] = arrays["numbers"]


def budget_from(least: int, *words: object) -> Range:
    """Return the range of a budget's size."""
    return Range(f"[{least}, inf)", "20 to 500 points are usual", *words)
