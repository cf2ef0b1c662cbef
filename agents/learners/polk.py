"""Parsimonious online learning with kernels: compressed functional stochastic gradient descent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, DescentInSpace, check_step, explicit_or_implicit
from kernelswarm.agents.learners.polk_steps import CompiledPolk, RepackedPolk, inspection_due
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun, bound_at, bound_of_step
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule

Array = npt.NDArray[np.float64]


class PolkState:
    """Everything a POLK learner changes: the function, the steps taken, the budget's state, the factor's history."""

    __slots__ = ("changes", "function", "rebuilds", "steps")

    def __init__(self, function: Expansion, budget: float) -> None:
        self.function = function
        self.steps = 0
        self.changes = 0
        self.rebuilds = 0
        self.budget = budget

    @property
    def budget(self) -> float:
        """The budget's state, which lies before the function's numbers, where compiled steps keep it."""
        return float(self.function.storage[0])

    @budget.setter
    def budget(self, budget: float) -> None:
        self.function.storage[0] = budget


@dataclass(frozen=True)
class Polk(DescentInSpace):
    """Functional stochastic gradient descent with destructive KOMP after every step (POLK algorithm 2).

    The step on a mini-batch of b samples (POLK eq. 17-18; SURVEY eq. 17 and 19 with a coupling) is

        f~ = (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .)

    where g_k is the derivative of the loss plus the coupling's, both at f; f is then the sparsest function that KOMP
    finds within ``eps`` of f~. The implicit step takes the coupling, and a quadratic loss, at the new function instead:
    with r the curvatures it solves ``(I + diag(r) K diag(eta / b)) g = g_explicit`` over all points of the step.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. "auto" takes what the data and the batch size suggest.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget : Budget
        The rule for eps: ``{ per_sample = a }``, ``{ parsimony = K }``, ``{ epsilon = e }``, ``{ quadratic = K }``,
        ``{ proportional = a }`` or ``{ target_order = d, alpha = a }``.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    budget: Budget = field(default=PerSample(), metadata={"part": "budget"})

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    def init(self, inputs: int, outputs: int) -> PolkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return PolkState(Expansion(self.kernel, inputs, outputs), begun(self.budget))

    def step(
        self,
        state: PolkState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)`` and compress."""
        eta = self.eta(state) if eta is None else eta
        points, rows, weights = explicit_or_implicit(self.kernel, eta, evaluations, gradients, curvatures)
        return self.move(state, eta, points, weights, rows)

    def move(self, state: PolkState, eta: float, points: Array, weights: Array, rows: Array) -> Info:
        """Add ``sum_n weights[n] kappa(points[n], .)`` to ``(1 - eta lambda) f`` and compress; counts as a step."""
        function = state.function
        epsilon = bound_of_step(self.budget, eta, self.eta(state), state.budget, self.batch_size)
        error, changes = function.step(points, weights, rows, 1.0 - eta * self.regularization, epsilon)
        state.budget = self.budget.next(state.budget, function.order)
        state.steps += 1
        state.changes += changes
        if state.changes >= inspection_due(function.order):
            self.inspect(state)
        return Info(error, eta)

    def compression_budget(self, state: PolkState) -> float:
        """Return eps of the next step, a Hilbert norm; 0 while the budget steers to more points than there are."""
        return bound_at(self.budget, state.function.order, self.eta(state), state.budget)

    def inspect(self, state: PolkState) -> None:
        """Look at the factor's accuracy, and compute it afresh where it is lost and that is better."""
        state.changes = 0
        state.rebuilds += state.function.inspect()

    def function(self, state: PolkState) -> Expansion:
        return state.function

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return the function with its factor, and ``progress``: steps, changes, rebuilds and the budget's state."""
        progress = np.array([state.steps, state.changes, state.rebuilds, state.budget])
        return {**state.function.snapshot(), "progress": progress}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        steps, changes, rebuilds, budget = arrays["progress"].tolist()
        state.steps, state.changes, state.rebuilds, state.budget = int(steps), int(changes), int(rebuilds), budget

    @property
    def compiled(self) -> CompiledPolk:
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When the budget hands nothing over.
        """
        return RepackedPolk(self)
