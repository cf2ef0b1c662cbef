"""Parsimonious online learning with kernels: compressed functional stochastic gradient descent."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.budgets import Budget, Parsimony
from kernelswarm.agents.expansion import Expansion
from kernelswarm.agents.kernels import Gaussian, Kernel
from kernelswarm.agents.learner import Evaluation, Info
from kernelswarm.agents.losses import Loss, Squared
from kernelswarm.agents.schedules import Constant, Schedule

Array = npt.NDArray[np.float64]

INSPECT_EVERY = 512
"""Insertions and removals between two looks at the factor's accuracy."""

DEFECT_LIMIT = 1e-4
"""The estimate of ``max |U K U' - I|`` above which the factor is computed afresh."""


class PolkState:
    """Everything a POLK learner changes: the function, the steps taken, the budget's state, the factor's history."""

    __slots__ = ("budget", "changes", "function", "rebuilds", "steps")

    def __init__(self, function: Expansion, budget: float) -> None:
        self.function = function
        self.steps = 0
        self.budget = budget
        self.changes = 0
        self.rebuilds = 0


@dataclass(frozen=True)
class Polk:
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
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget : Budget
        The rule for eps: ``{ parsimony = K }``, ``{ epsilon = e }``, ``{ quadratic = K }``, ``{ proportional = a }`` or
        ``{ target_order = d, alpha = a }``.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Constant(0.1), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    budget: Budget = field(default=Parsimony(0.01), metadata={"part": "budget"})

    def __post_init__(self) -> None:
        if not self.regularization >= 0.0:
            raise ValueError(f"regularization = {self.regularization!r} must not be negative")
        if self.batch_size < 1:
            raise ValueError(f"batch_size = {self.batch_size!r} must be at least 1")
        if self.step_size.largest * self.regularization >= 1.0:
            raise ValueError(
                f"step_size = {self.step_size.largest!r} must be below 1 / regularization, "
                f"{1.0 / self.regularization:g}: lower the step size or the regularization"
            )

    def init(self, inputs: int, outputs: int) -> PolkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return PolkState(Expansion(self.kernel, inputs, outputs), self.budget.start())

    def eta(self, state: PolkState) -> float:
        """Return the step size of the step to come."""
        return self.step_size.at(state.steps)

    def evaluate(self, state: PolkState, points: Array) -> Evaluation:
        """Evaluate the current function at ``points`` (n, p), and keep the kernel rows for the step."""
        rows, values = state.function.rows_and_values(points)
        return Evaluation(points, rows, values)

    def gradient(self, state: PolkState, own: Evaluation, targets: Array) -> Array:
        """Return the loss's derivatives at the samples, (n, C)."""
        return self.loss.derivatives(own.values, targets)

    def step(
        self,
        state: PolkState,
        evaluations: Sequence[Evaluation],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)`` and compress.

        Parameters
        ----------
        state : PolkState
            Advanced in place; the evaluations must be of its present function.
        evaluations : sequence of Evaluation
            The node's own samples and, in the symmetric form, each neighbour's.
        gradients : sequence of Array
            The coefficients g at the points of each evaluation, (n_k, C).
        curvatures : sequence of float, optional
            The second derivative of the terms at each evaluation's points; given, the step is implicit.
        """
        eta = self.step_size.at(state.steps)
        function = state.function
        if len(evaluations) == 1 and curvatures is None:
            points, rows = evaluations[0].points, evaluations[0].rows
            weights = gradients[0] * (-eta / len(points))
        else:
            points, rows, weights = self._joined(eta, evaluations, gradients, curvatures)
        epsilon = self.budget.bound(eta, state.budget)
        error, changes = function.step(points, weights, rows, 1.0 - eta * self.regularization, epsilon)
        state.budget = self.budget.next(state.budget, function.order)
        state.steps += 1
        state.changes += changes
        if state.changes >= INSPECT_EVERY:
            state.changes = 0
            if not function.defect() <= DEFECT_LIMIT:
                function.rebuild()
                state.rebuilds += 1
        return Info(error, eta)

    def expansion(self, state: PolkState) -> Expansion:
        """Return the current function."""
        return state.function

    def _joined(
        self,
        eta: float,
        evaluations: Sequence[Evaluation],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
    ) -> tuple[Array, Array, Array]:
        """Put all points of the step together; returns them with their kernel rows and their weights."""
        if len(evaluations) == 1 and len(evaluations[0].points) == 1 and curvatures is not None:
            points, rows, _ = evaluations[0]
            rate = eta / (1.0 + curvatures[0] * eta * self.kernel.diagonal(points)[0])
            return points, rows, gradients[0] * -rate
        points = np.concatenate([evaluation.points for evaluation in evaluations])
        rows = np.concatenate([evaluation.rows for evaluation in evaluations])
        if curvatures is None:
            weights = [gradient * (-eta / max(len(gradient), 1)) for gradient in gradients]
            return points, rows, np.concatenate(weights)
        gradient = np.concatenate(gradients)
        sizes = [len(evaluation.points) for evaluation in evaluations]
        rates = np.repeat([eta / max(size, 1) for size in sizes], sizes)
        curvature = np.repeat(np.asarray(curvatures, dtype=np.float64), sizes)
        system = curvature[:, None] * self.kernel.cross(points, points) * rates
        system[np.diag_indices_from(system)] += 1.0
        gradient = np.linalg.solve(system, gradient)
        return points, rows, gradient * -rates[:, None]
