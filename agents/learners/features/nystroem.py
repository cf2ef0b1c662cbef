"""Nystroem features: gradient descent in the span of a fixed number of landmarks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.contract import Evaluation, Info
from kernelswarm.agents.learners.descent import DescentInSpace, check_step, implicit_weights
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Constant, Schedule

Array = npt.NDArray[np.float64]

INDEPENDENT = 1e-6
"""The share of kappa(x, x) that a landmark must have outside the span of those before it. With less, the landmarks'
Gram matrix becomes so ill-conditioned that projections lose their digits; what is left out is a thousandth of the norm
of kappa(x, .)."""


class NystroemState:
    """Everything a Nystroem learner changes: the function, and the number of steps taken."""

    __slots__ = ("_factor", "function", "steps")

    def __init__(self, function: Expansion) -> None:
        self.function = function
        self.steps = 0
        self._factor: Array | None = None

    @property
    def factor(self) -> Array:
        """U, (M, M), with U'U = inv(K_DD), in one piece, as products of matrices want it."""
        if self._factor is None:
            self._factor = np.ascontiguousarray(self.function.factor)
        return self._factor

    def enlarge(self, points: Array, weights: Array, rows: Array) -> None:
        """Add ``sum_n weights[n] kappa(points[n], .)`` to the function, and the points to the landmarks."""
        self.function.step(points, weights, rows, 1.0, 0.0)
        self._factor = None

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become the state that was saved."""
        self.function.restore(arrays)
        self.steps = int(arrays["steps"])
        self._factor = None


@dataclass(frozen=True)
class Nystroem(DescentInSpace):
    """Functional stochastic gradient descent in the span of the first points that come in.

    The first ``landmarks`` points that have a gradient and are not, nearly, in the span of those before them make the
    dictionary D, for good. All steps are projected on the span of D,

        f <- (1 - eta lambda) f - (eta / b) sum_k g_k P kappa(x_k, .)        P kappa(x, .) = sum_m a_m kappa(d_m, .)

    with ``a = inv(K_DD) kappa(D, x)`` and g_k the derivative of the loss plus the coupling's. This is gradient descent
    on the weights of the features ``U kappa(D, x)``, U'U = inv(K_DD): the Nystroem method (Williams and Seeger, NIPS
    2000), online as NOGD (Lu, Hoi, Wang, Zhao and Liu, JMLR 2016). Of the implicit step, P K P is the Gram matrix.

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
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Constant(0.1), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    landmarks: int = 50

    def __post_init__(self) -> None:
        check_step(self.step_size, self.regularization, self.batch_size)
        if self.landmarks < 1:
            raise ValueError(f"landmarks = {self.landmarks!r} must be at least 1: 20 to 500 are usual")

    def init(self, inputs: int, outputs: int) -> NystroemState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return NystroemState(Expansion(self.kernel, inputs, outputs))

    def step(
        self,
        state: NystroemState,
        evaluations: Sequence[Evaluation],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] P kappa(points_k[n], .)``.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm of what the projection took from the step.
        """
        eta = self.step_size.at(state.steps)
        state.steps += 1
        function = state.function
        if len(evaluations) == 1:
            points, rows, _ = evaluations[0]
            weights = gradients[0] * (-eta / len(points))
        else:
            points = np.concatenate([evaluation.points for evaluation in evaluations])
            rows = np.concatenate([evaluation.rows for evaluation in evaluations])
            weights = np.concatenate([gradient * (-eta / max(len(gradient), 1)) for gradient in gradients])
        shrink = 1.0 - eta * self.regularization
        entered: npt.NDArray[np.bool_] | None = None
        if function.order < self.landmarks:
            function.weights[:] *= shrink
            shrink = 1.0
            rows, entered = self._enter(state, points, weights, rows)
        factor = state.factor
        images = np.zeros((0, len(factor)))
        if curvatures is not None:
            images = np.dot(rows, factor.T)
            implicit = implicit_weights(eta, gradients, curvatures, np.dot(images, images.T))
            if entered is not None:  # some points brought their explicit weights with them
                implicit[entered] -= weights[entered]
            weights = implicit
        elif entered is not None:
            points, rows, weights = points[~entered], rows[~entered], weights[~entered]
        error = _project(function.weights, factor, rows, images, weights, self.kernel.cross(points, points), shrink)
        return Info(error, eta)

    def _enter(
        self, state: NystroemState, points: Array, weights: Array, rows: Array
    ) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Let points become landmarks while there is room; returns the new kernel rows, and which points did, (n,).

        A landmark brings its weight with it. A point in the span of the landmarks, or without a weight, becomes none.
        """
        entered = np.zeros(len(points), dtype=np.bool_)
        diagonal = self.kernel.diagonal(points)
        moves = np.any(weights != 0.0, axis=1)
        while state.function.order < self.landmarks:
            images = np.dot(rows, state.factor.T)
            eligible = moves & (diagonal - np.sum(images * images, axis=1) > INDEPENDENT * diagonal)
            if not eligible.any():
                break
            first = int(eligible.argmax())
            one = slice(first, first + 1)
            state.enlarge(points[one], weights[one], rows[one])
            entered[first], moves[first] = True, False
            rows = state.function.rows(points)
        return rows, entered

    def function(self, state: NystroemState) -> Expansion:
        """Return the current function."""
        return state.function

    def snapshot(self, state: NystroemState) -> dict[str, Array]:
        """Return the function with its factor, and the number of ``steps``."""
        return {**state.function.snapshot(), "steps": np.array(float(state.steps))}

    def restore(self, state: NystroemState, arrays: Mapping[str, Array]) -> None:
        """Put the state where :meth:`snapshot` was taken."""
        state.restore(arrays)


@njit(cache=True)
def _project(
    weights: Array, factor: Array, rows: Array, images: Array, added: Array, gram: Array, shrink: float
) -> float:
    """Scale the weights (M, C), add ``P sum_n added[n] kappa(x_n, .)``, and return the norm of what P takes from it.

    ``rows`` (n, M) is the kernel K between the points and the landmarks, ``images`` (n, M) is K U', or has no rows as
    long as that is not known, and ``gram`` (n, n) is the kernel between the points.
    """
    whole = 0.0
    for c in range(added.shape[1]):
        for i in range(added.shape[0]):
            for j in range(added.shape[0]):
                whole += added[i, c] * gram[i, j] * added[j, c]
    fewer = added.shape[0] < added.shape[1]  # points than outputs: a product with U costs M^2 for each of either
    if fewer and len(images) < len(rows):
        images = np.dot(rows, factor.T)
    image = np.dot(images.T, added) if len(images) else np.dot(factor, np.dot(rows.T, added))
    change = np.dot(np.dot(images, factor).T, added) if fewer else np.dot(factor.T, image)
    kept = 0.0
    for m in range(weights.shape[0]):
        for c in range(weights.shape[1]):
            weights[m, c] = shrink * weights[m, c] + change[m, c]
            kept += image[m, c] * image[m, c]
    return math.sqrt(max(whole - kept, 0.0))  # what is lost is at right angles to what is kept
