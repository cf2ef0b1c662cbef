"""Functional gradient descent whose dictionary a rule keeps small: what such learners share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Evaluation, Info
from kernelswarm.agents.learners.descent import DescentInSpace, check_step, explicit_or_implicit
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Constant, Schedule

Array = npt.NDArray[np.float64]


class SumState:
    """Everything such a learner changes: the function, the number of steps, and the numbers of its own rule."""

    __slots__ = ("function", "numbers", "steps")

    def __init__(self, function: KernelSum, numbers: int = 0) -> None:
        self.function = function
        self.steps = 0
        self.numbers: Array = np.zeros(numbers)


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
    step_size: Schedule = field(default=Constant(0.1), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    def __post_init__(self) -> None:
        check_step(self.step_size, self.regularization, self.batch_size)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return SumState(KernelSum(self.kernel, inputs, outputs))

    def step(
        self,
        state: SumState,
        evaluations: Sequence[Evaluation],
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
        error = self.move(state, eta, points, rows, weights)
        state.steps += 1
        return Info(error, eta)

    @abstractmethod
    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the weighted points (N, p), (N, C) to the shrunk function, keep to the rule; returns its error.

        ``rows`` (N, M) is the kernel between the points and the dictionary.
        """

    def function(self, state: SumState) -> KernelSum:
        """Return the current function."""
        return state.function

    def snapshot(self, state: SumState) -> dict[str, Array]:
        """Return the function, the number of ``steps`` and the rule's own ``numbers``."""
        return {
            **state.function.snapshot(),
            "steps": np.array(float(state.steps)),
            "numbers": state.numbers.copy(),
        }

    def restore(self, state: SumState, arrays: Mapping[str, Array]) -> None:
        """Put the state where :meth:`snapshot` was taken."""
        state.function.restore(arrays)
        state.steps = int(arrays["steps"])
        state.numbers[:] = arrays["numbers"]


def check_budget_size(budget_size: int, least: int = 1) -> None:
    """Refuse a budget of too few points with a ValueError that starts with the key."""
    if budget_size < least:
        raise ValueError(f"budget_size = {budget_size!r} must be at least {least}: 20 to 500 points are usual")
