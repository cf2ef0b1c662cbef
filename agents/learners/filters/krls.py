"""Kernel recursive least squares: the least-squares function on points that are not nearly dependent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from kernelswarm.agents.functions.solved_sum import Solved, SolvedSum
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import DescentInSpace
from kernelswarm.agents.learners.filters import krls_steps
from kernelswarm.agents.learners.filters.fading_sum import FadingSum, WindowedSum, fading_in
from kernelswarm.agents.learners.second_order.certainty import (
    CertainDescent,
    check_certain,
    check_forgetting,
)
from kernelswarm.agents.learners.second_order.posterior import Posterior
from kernelswarm.agents.learners.second_order.taking_in import Terms
from kernelswarm.agents.learners.second_order.taught import NOTHING
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.agents.plain.kernels import kernel_rows
from kernelswarm.protocols.solving.noise_variance import noise_of
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

LEAST_DEPENDENCY = 1e-8
"""Below this the features of points that enter are rounding."""


class KrlsState:
    """Everything the learner changes: the function with what is known of its weights, and the steps."""

    __slots__ = ("function", "steps")

    def __init__(self, function: SolvedSum) -> None:
        self.function = function
        self.steps = 0


@dataclass(frozen=True)
class Krls(CertainDescent, DescentInSpace):
    """Kernel recursive least squares (KRLS): least squares on all samples, in the span of those that are independent.

    A sample enters the dictionary D, for good, where the test of approximate linear dependency finds

        kappa(x, x) - k' inv(K_DD) k > dependency kappa(x, x)        k = kappa(D, x)

    The others only count as what their projections on D tell. After every sample f minimises

        sum_n r_n / 2 ||f(P x_n) - t_n||^2 + lambda / 2 ||f||^2

    over the span, P x_n the projection on the points that were there when sample n came. Of the squared loss t_n is
    the target. Of other losses, with slope g_n and curvature r_n when the sample came, ``t_n = f_n(x_n) - g_n / r_n``.

    With the squared loss, a ridge of 0 and kappa(x, x) = 1 this is table 1 of Engel, Mannor and Meir (IEEE Trans.
    Signal Processing 2004). It is computed otherwise: no inverse is carried, since that recursion loses all digits
    where D is nearly dependent.

    With ``forgetting`` beta a sample counts ``beta^(N - n)`` times when N have come. The ridge is not forgotten but
    renewed, in some coordinates of the features ``inv(L) k`` after each step, as `rls` does: they have the unit norm of
    the space. Points stay in the dictionary: what is forgotten is what was learned of them.

    There is no budget: the dictionary is as large as the inputs are rich. `newton` has one. In a network a pull moves f
    as for `newton`.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta of explicit couplings; implicit ones take as much of their Newton step as eta is of its largest. Own samples
        take no step size.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature: the weight of ``||f||^2`` in samples. 0, as in the paper,
        needs a quadratic loss. "auto" is the noise's variance over that of the function beneath it, from a sample of
        the data, at least 0.1; of classes a
        quarter of that, at least 0.005, with squared hinges 0.2.
    dependency : float
        The paper's nu, at least 1e-8 and below 1: the share of kappa(x, x) that a point must have outside the span.
    forgetting : float or "auto"
        beta, what a sample still counts when one more has come, in (0, 1]; 1 forgets nothing. "auto" finds it out, as
        `newton` does. Both need a ridge above 0.
    batch_size : int
        b, the samples that a node draws in a round.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    ridge: float | Literal["auto"] = "auto"
    dependency: float = 1e-3
    forgetting: float | Literal["auto"] = 1.0
    batch_size: int = 1

    ranges: ClassVar = {
        "dependency": Range(f"[{LEAST_DEPENDENCY:g}, 1)", "1e-4 to 1e-2 are usual"),
        "batch_size": Range("[1, inf)"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_certain(self.ridge, self.batch_size, self.loss, with_zero=True)
        check_forgetting(self.forgetting, self.loss)
        if self.ridge == 0.0 and self.share < 1.0:
            raise RefusedKey(
                "ridge",
                f"= 0 leaves no function where samples are forgotten: forgetting = {self.forgetting!r} needs one",
            )

    def inner(self, state: KrlsState, at: Evaluated) -> Array:
        """Return how far a weight of 1 at each point moves f at each other where steps are implicit, (n, n)."""
        function, gram = state.function, kernel_rows(self.kernel, at.points, at.points)
        rows, work = np.require(at.rows, requirements=["C", "W"]), np.empty((2, len(gram), function.order))
        krls_steps.products(
            function.lower_buffer, function.root_buffer, function.order, rows, self.penalty, self.reach, gram, work
        )
        return gram

    def init(self, inputs: int, outputs: int) -> KrlsState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        kind = WindowedSum if self.adaptive else FadingSum if self.share < 1.0 else SolvedSum
        return KrlsState(kind(self.kernel, inputs, outputs))

    def step(
        self,
        state: KrlsState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
        taught: Array = NOTHING,
    ) -> Info:
        """Take in own samples and taught observations, and move along their part of the gradients.

        Of the curvatures it only matters whether there are any: pulls come as far as they may go.
        """
        eta = self.eta(state) if eta is None else eta
        function, at = state.function, together(evaluations)
        coupled, _, pulls, bends, aims = self.terms(at, gradients, targets, eta)
        size = len(at.points)
        function.reserve(size)
        capacity = len(function.points_buffer)
        wide = np.empty((size, capacity))  # new points have columns of their own
        wide[:, : function.order] = at.rows
        known = Solved(
            function.points_buffer,
            function.weights_buffer,
            function.lower_buffer,
            function.root_buffer,
            function.moments_buffer,
            function.noise,
        )
        function.order = krls_steps.learn(
            np.empty(krls_steps.room(capacity, size, function.outputs)),
            known,
            function.order,
            np.require(at.points, requirements=["C", "W"]),
            wide,
            kernel_rows(self.kernel, at.points, at.points),
            Terms(coupled, pulls, 0.0 if curvatures is None else self.reach, bends, aims, taught),
            self.penalty,
            self.dependency,
            fading_in(function.storage, capacity, function.points_buffer.shape[1], function.outputs, self.share),
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: KrlsState) -> SolvedSum:
        return state.function

    def noise(self, state: KrlsState) -> Array:
        return state.function.noise

    def posterior(self, state: KrlsState) -> Posterior | None:
        """Return how certain the function is; None without a ridge, and for other losses than the squared one.

        What is carried is ``R inv(L')`` of the factor that a posterior has: with the inverse of L the image of a point
        is ``inv(L) k``.
        """
        if not self.gaussian:
            return None
        function, scale = state.function, self.loss.curvature
        order = function.order
        lower = np.ascontiguousarray(function.lower_buffer[:order, :order])
        root = function.root_buffer[:order, :order] @ lower.T
        inverse = solve_triangular(lower, np.eye(order), lower=True) if order else lower
        return Posterior(function, root, np.ascontiguousarray(inverse), self.penalty, scale, noise_of(function.noise))

    def snapshot(self, state: KrlsState) -> dict[str, Array]:
        """Return the function with what is known of its weights, and the number of ``steps``."""
        return {**state.function.snapshot(), "steps": np.array(float(state.steps))}

    def restore(self, state: KrlsState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> krls_steps.CompiledKrls:
        """The learner's functions and numbers for compiled rounds."""
        return krls_steps.CompiledKrls(self)
