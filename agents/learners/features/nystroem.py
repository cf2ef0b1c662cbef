"""Nystroem features: gradient descent in the span of a fixed number of landmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, DescentInSpace, Weighing, check_step, joined
from kernelswarm.agents.learners.features.nystroem_steps import CompiledNystroem, Landmarks, project, scratch
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.agents.plain.kernels import kernel_rows
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]


class NystroemState:
    """Everything a Nystroem learner changes: the function, and the number of steps taken."""

    __slots__ = ("function", "steps")

    def __init__(self, function: Expansion) -> None:
        self.function = function
        self.steps = 0


@dataclass(frozen=True)
class Nystroem(DescentInSpace):
    """Functional stochastic gradient descent in the span of the first points that come in.

    The first ``landmarks`` points that have a gradient and are not, nearly, in the span of those before them make the
    dictionary D, for good. All steps are projected on the span of D,

        f <- (1 - eta lambda) f - (eta / b) sum_k g_k P kappa(x_k, .)        P kappa(x, .) = sum_m a_m kappa(d_m, .)

    with ``a = inv(K_DD) kappa(D, x)`` and g_k the derivative of the loss plus the coupling's. This is gradient descent
    on the weights of the features ``U kappa(D, x)``, U'U = inv(K_DD): the Nystroem method (Williams and Seeger, NIPS
    2000). With a ``rank``, P projects on so many leading eigenvectors of K_DD once D is full, and f with it. Without
    regularization, and where the landmarks are the first B points with a gradient, this is NOGD, Nystroem online
    gradient descent (Lu, Hoi, Wang, Zhao and Liu, JMLR 2016, algorithm 2). Of the implicit step, P K P is the Gram
    matrix.

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
    landmarks : int
        The points of the dictionary, at least 1.
    rank : int or "all"
        k, the eigenvectors that steps are projected on, at most the landmarks; the paper takes a fifth of them.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    landmarks: int = 50
    rank: int | Literal["all"] = "all"

    ranges: ClassVar = STEP_RANGES | {"landmarks": Range("[1, inf)", "20 to 500 are usual")}

    def __post_init__(self) -> None:
        check_step(self)
        if self.rank != "all" and not 1 <= self.rank <= self.landmarks:
            raise RefusedKey(
                "rank", f'= {self.rank!r} must be "all", or from 1 to landmarks = {self.landmarks}: a fifth is usual'
            )

    def init(self, inputs: int, outputs: int) -> NystroemState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return NystroemState(Expansion(self.kernel, inputs, outputs))

    def step(
        self,
        state: NystroemState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] P kappa(points_k[n], .)``.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm of what the projection took from the step.
        """
        eta = self.eta(state) if eta is None else eta
        state.steps += 1
        function = state.function
        points, rows = evaluations[0].points, evaluations[0].rows
        if len(evaluations) > 1:
            points = np.concatenate([evaluation.points for evaluation in evaluations])
            rows = np.concatenate([evaluation.rows for evaluation in evaluations])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        room = max(self.landmarks - function.order, 0)
        function.reserve(min(room, len(points)))
        capacity, size = len(function.points_buffer), len(points)
        wide = np.empty((size, capacity))  # new landmarks have columns of their own
        wide[:, : function.order] = rows
        function.order, error = project(
            function.tables,
            function.order,
            Landmarks(self.landmarks, self.directions),
            np.empty(scratch(capacity, size, function.outputs)),
            points,
            wide,
            kernel_rows(self.kernel, points, points),
            Weighing(weights, rates, stiffness, curvatures is not None),
            1.0 - eta * self.regularization,
        )
        return Info(error, eta)

    @property
    def directions(self) -> int:
        """The rank as a number."""
        return self.landmarks if self.rank == "all" else self.rank

    def function(self, state: NystroemState) -> Expansion:
        return state.function

    def snapshot(self, state: NystroemState) -> dict[str, Array]:
        """Return the function with its factor, and the number of ``steps``."""
        return {**state.function.snapshot(), "steps": np.array(float(state.steps))}

    def restore(self, state: NystroemState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> CompiledNystroem:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledNystroem(self)
