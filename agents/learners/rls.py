"""Recursive least squares on random Fourier features of a kernel, or on the inputs themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners import calling, random_walk, rls_steps
from kernelswarm.agents.learners.certainty import CertainDescent, Posterior, check_certain
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.linear import Linear as Affine
from kernelswarm.agents.learners.linear_in_features import FeatureFunction
from kernelswarm.agents.learners.observations import WINDOW
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Linear
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.least_squares import ROWS, noise_of
from kernelswarm.ranges import SEED, Range, Seed
from kernelswarm.refused_key import RefusedKey


class RlsState:
    """State of the learner, in one vector: coefficients, R, Q, the noise and the cursor; and the number of steps.

    If forgetting is adaptive, the vector also holds R, Q and the noise of recent samples, and their window. If the
    weights follow a random walk, their covariance P is stored in place of R.

    Parameters
    ----------
    function : FeatureFunction
        The function f = 0.
    ridges : Array
        The ridge of each feature, (L,).
    adaptive : bool
        Whether forgetting is adaptive.
    walking : bool
        Whether the weights follow a random walk.
    """

    __slots__ = (
        "adaptive",
        "cursor",
        "function",
        "moments",
        "noise",
        "recent_moments",
        "recent_noise",
        "recent_root",
        "root",
        "steps",
        "storage",
        "window",
    )

    def __init__(self, function: FeatureFunction, ridges: Array, adaptive: bool = False, walking: bool = False) -> None:
        self.function = function
        self.adaptive = adaptive
        self.steps = 0
        self.root: Array
        self.moments: Array
        self.noise: Array
        self.cursor: Array
        self.recent_root: Array
        self.recent_moments: Array
        self.recent_noise: Array
        self.window: Array
        self.storage: Array
        features, outputs = function.coefficients.shape
        known = features * (features + outputs) + ROWS * outputs
        self.move_to(np.zeros(features * outputs + known + 1 + (known + WINDOW if adaptive else 0)))
        for root in (self.root, self.recent_root) if adaptive else (self.root,):
            np.fill_diagonal(root, 1.0 / ridges if walking else np.sqrt(ridges))

    def __getstate__(self) -> tuple[FeatureFunction, Array, int, bool]:
        """Return the contents for a copy, whose parts must lie in its own vector."""
        return self.function, self.storage, self.steps, self.adaptive

    def __setstate__(self, state: tuple[FeatureFunction, Array, int, bool]) -> None:
        """Restore the contents of a copy."""
        self.function, storage, self.steps, self.adaptive = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Make all parts views of one vector: coefficients, R, Q, the sums of the noise (3, C), the cursor.

        With adaptive forgetting R, Q and the noise of recent samples and the window follow.
        """
        features, outputs = shape = self.function.coefficients.shape
        first, second = features * outputs, features * (features + outputs)
        self.storage = storage
        self.function.coefficients = storage[:first].reshape(shape)
        self.root = storage[first:second].reshape(features, features)
        self.moments = storage[second : second + first].reshape(shape)
        last = second + first + ROWS * outputs
        self.noise = storage[second + first : last].reshape(ROWS, outputs)
        self.cursor = storage[last : last + 1]
        if self.adaptive:
            cuts = np.cumsum([last + 1, features * features, first, ROWS * outputs, WINDOW])
            root, moments, noise, self.window = np.split(storage, cuts)[1:5]
            self.recent_root = root.reshape(features, features)
            self.recent_moments, self.recent_noise = moments.reshape(shape), noise.reshape(ROWS, outputs)


@dataclass(frozen=True)
class Rls(CertainDescent):
    """Recursive least squares with exponential forgetting, on random Fourier features or on the inputs themselves.

    The function is ``f(x) = W' phi(x)``. With the linear kernel phi(x) are the inputs, plus a constant if the kernel
    has an offset: the classical RLS adaptive filter. With gaussian, laplacian, matern and student_t kernels phi(x) are
    the random cosines of `random_features`. After every sample W minimises

        sum_n beta^(N - n) r_n / 2 ||W' phi(x_n) - t_n||^2 + lambda / 2 ||W||^2

    with the ``forgetting`` factor beta and the newest sample N. For the squared loss t_n is the target. For other
    losses ``t_n = f_n(x_n) - g_n / r_n``, with the slope g_n and the curvature r_n of the loss when sample n arrived.
    The ridge does not decay: it is renewed for some features after each step. Otherwise W would become unbounded in
    directions in which no inputs arrive for long.

    For targets that change all the time, ``process_noise`` is an alternative to forgetting. It models the weights as a
    random walk

        w_t = w_(t-1) + N(0, process_noise / lambda I)

    from one step with samples to the next; W is the mean of w_t given all samples (Kalman filter).

    Each sample is rotated into a triangular factor (QR-RLS; Haykin, Adaptive Filter Theory). A step takes O(L^2). For
    least squares on Nystroem features see `krls`.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        gaussian, laplacian, matern or student_t, which the random features approximate, or linear.
    step_size : Schedule
        eta, the step size of explicit couplings. Implicit couplings take the fraction eta / max(eta) of their Newton
        step. Own samples need no step size.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature, positive. "auto" is the ratio of noise variance to signal
        variance, estimated from a sample of the data, at least 0.1; for classes a quarter of that ratio, at least
        0.005; for squared hinges 0.2.
    forgetting : float or "auto"
        beta, the forgetting factor in (0, 1]; 1 forgets nothing. "auto" adapts it during the
        run, as `newton` does.
    process_noise : float
        Variance of each weight's random walk per step with samples, in units of its prior variance, nonnegative. 0, the
        default, means constant weights. It cannot be combined with ``forgetting``.
    batch_size : int
        b, the number of samples that a node draws per round.
    features : int
        L, the number of random features, at least 1; not used by the linear kernel, whose features are the inputs.
    seed : int or "auto"
        Seed of the features; see `random_features`.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    ridge: float | Literal["auto"] = "auto"
    forgetting: float | Literal["auto"] = 1.0
    batch_size: int = 1
    features: int = 100
    seed: Seed = "auto"
    process_noise: float = 0.0

    ranges: ClassVar = {"process_noise": Range("[0, inf)", "weights stay with 0"), "seed": SEED}

    def __post_init__(self) -> None:
        check_certain(self)
        if self.process_noise > 0.0 and self.forgetting != 1.0:
            raise RefusedKey(
                "forgetting",
                f"= {self.forgetting!r} beside process_noise = {self.process_noise!r} forgets twice: leave one out",
            )
        self._mapping()

    def _mapping(self) -> Affine | RandomFeatures:
        """Return the first-order learner with the same features; it never takes a step."""
        if isinstance(self.kernel, Linear):
            return Affine(self.loss, Constant(1.0), 0.0, 1, self.kernel.offset > 0.0)
        return RandomFeatures(self.loss, Constant(1.0), 0.0, 1, self.kernel, self.features, self.seed)

    @property
    def gain(self) -> float | None:
        """The mean of ``||phi(x)||^2``; None for the linear kernel, because it is unbounded."""
        return self.kernel.supremum

    def ridges(self, state: RlsState) -> Array:
        """Return the ridge of each feature, (L,); that of the constant feature 1 is divided by the kernel's offset."""
        found = np.full(len(state.root), self.penalty)
        return _with_offset(found, self.kernel)

    def walk(self, state: RlsState) -> Array:
        """Return the variance of each weight's random walk, (L,); empty if the weights are constant."""
        return self.process_noise / self.ridges(state) if self.process_noise > 0.0 else np.empty(0)

    def init(self, inputs: int, outputs: int) -> RlsState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        function = self._mapping().init(inputs, outputs).function
        ridges = _with_offset(np.full(len(function.coefficients), self.penalty), self.kernel)
        return RlsState(function, ridges, self.adaptive, self.process_noise > 0.0)

    def evaluate(self, state: RlsState, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p), and keep the features for the step."""
        features = state.function.features(points)
        return Evaluated(points, features, combine(features, state.function.coefficients))

    inner, step = calling.inner, calling.step

    def function(self, state: RlsState) -> FeatureFunction:
        """Return the current function."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> Any:
        """Rebuild a function from its saved arrays."""
        return self._mapping().function_from(arrays)

    def noise(self, state: RlsState) -> Array:
        """Return the state's estimate of the noise's variance."""
        return state.noise

    def posterior(self, state: RlsState) -> Posterior | None:
        """Return the posterior of the function; None for losses other than the squared loss."""
        if not self.gaussian:
            return None
        noise = noise_of(state.noise)
        root = random_walk.triangle(state.root) if self.process_noise > 0.0 else state.root.copy()
        return Posterior(state.function, root, None, self.penalty, self.loss.curvature, noise)

    def snapshot(self, state: RlsState) -> dict[str, Array]:
        """Return the arrays of the state.

        They are ``coefficients`` and ``moments`` (L, C), ``root`` (L, L), which is the covariance if the weights follow
        a random walk, ``noise`` (3, C) and ``progress``. With adaptive forgetting ``recent_root``, ``recent_moments``,
        ``recent_noise`` and ``window`` are included.
        """
        found = {
            "coefficients": state.function.coefficients.copy(),
            "root": state.root.copy(),
            "moments": state.moments.copy(),
            "noise": state.noise.copy(),
            "progress": np.array([float(state.steps), state.cursor[0]]),
        }
        if self.adaptive:
            found |= {
                "recent_root": state.recent_root.copy(),
                "recent_moments": state.recent_moments.copy(),
                "recent_noise": state.recent_noise.copy(),
                "window": state.window.copy(),
            }
        return found

    def restore(self, state: RlsState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.coefficients[:] = arrays["coefficients"]
        state.root[:] = arrays["root"]
        state.moments[:] = arrays["moments"]
        state.noise[:] = arrays["noise"]
        steps, cursor = arrays["progress"].tolist()
        state.steps, state.cursor[0] = int(steps), cursor
        if self.adaptive:
            state.recent_root[:] = arrays["recent_root"]
            state.recent_moments[:] = arrays["recent_moments"]
            state.recent_noise[:] = arrays["recent_noise"]
            state.window[:] = arrays["window"]

    @property
    def compiled(self) -> rls_steps.CompiledRls:
        """Functions and numbers of the learner for compiled rounds."""
        features, numbers = self._mapping().handed_features
        return rls_steps.CompiledRls(self, features, numbers)


def _with_offset(ridges: Array, kernel: Kernel) -> Array:
    if isinstance(kernel, Linear) and kernel.offset > 0.0:
        ridges[-1] /= kernel.offset
    return ridges
