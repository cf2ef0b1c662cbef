"""Recursive least squares on random Fourier features of a kernel, or on the inputs themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners import random_walk, rls_steps
from kernelswarm.agents.learners.certainty import CertainDescent, Posterior, check_certain
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.linear import Linear as Affine
from kernelswarm.agents.learners.linear_in_features import FeatureFunction
from kernelswarm.agents.learners.observations import NOTHING, WINDOW, Memory, Terms
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Linear
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.least_squares import ROWS, noise_of
from kernelswarm.ranges import SEED, Range, Seed
from kernelswarm.refused_key import RefusedKey


class RlsState:
    """Everything the learner changes, in one vector: coefficients, R, Q, the noise and the cursor; and the steps.

    Where the learner finds what to forget, R, Q and the noise of recent samples are there too, and their window. Where
    its weights walk, their covariance P stands in the place of R.

    Parameters
    ----------
    function : FeatureFunction
        The function f = 0.
    ridges : Array
        The ridge of each feature, (L,).
    adaptive : bool
        Whether the learner finds what to forget.
    walking : bool
        Whether its weights walk.
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
        """Return the contents for a copy: its parts must lie in its own vector."""
        return self.function, self.storage, self.steps, self.adaptive

    def __setstate__(self, state: tuple[FeatureFunction, Array, int, bool]) -> None:
        """Take over the contents of a copy."""
        self.function, storage, self.steps, self.adaptive = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Lie in one vector: coefficients, R, Q, the sums of the noise (3, C), the cursor; with a window, the same of
        recent samples, and the window."""
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

    The function is ``f(x) = W' phi(x)``. With the linear kernel phi are the inputs, and a constant where the kernel has
    an offset: the adaptive filter of that name. With gaussian, laplacian, matern and student_t kernels phi are the
    random cosines of `random_features`. After every sample W minimises

        sum_n beta^(N - n) r_n / 2 ||W' phi(x_n) - t_n||^2 + lambda / 2 ||W||^2

    with ``forgetting`` beta and the newest sample N. Of the squared loss t_n is the target; of other losses, with slope
    g_n and curvature r_n when the sample came, ``t_n = f_n(x_n) - g_n / r_n``. The ridge is not forgotten but renewed,
    some features after each step: inputs that stay away for long would else leave nothing that holds W.

    Where the target moves all the time, ``process_noise`` is the other way to forget: weights that walk at random,

        w_t = w_(t-1) + N(0, process_noise / lambda I)

    from one step with samples to the next, and W is their mean given all samples (Kalman filter).

    A triangular factor is carried, into which samples are rotated (Haykin, Adaptive Filter Theory, QR-RLS). A step
    takes O(L^2). Least squares on Nystroem features is `krls`.

    Parameters
    ----------
    loss : Loss
        The loss of a sample; its curvature must not be 0.
    kernel : Kernel
        gaussian, laplacian, matern or student_t, which the random features approximate, or linear.
    step_size : Schedule
        eta of explicit couplings; implicit ones take as much of their Newton step as eta is of its largest. Own samples
        take no step size.
    ridge : float or "auto"
        lambda as a multiple of the loss's largest curvature, positive. "auto" is the noise's variance over that of the
        function beneath it, from a sample of the data, at least 0.1; of classes a
        quarter of that, at least 0.005, with squared hinges 0.2.
    forgetting : float or "auto"
        beta, what a sample still counts when one more has come, in (0, 1]; 1 forgets nothing. "auto" finds it out, as
        `newton` does.
    process_noise : float
        Variance by which each weight walks from one step with samples to the next, over that of its prior; 0 or above.
        0, the default, is the model of weights that stay. It takes the place of ``forgetting``.
    batch_size : int
        b, the samples that a node draws in a round.
    features : int
        L, the number of random features, at least 1; the linear kernel has as many as inputs.
    seed : int or "auto"
        Seed of the features, as of `random_features`.
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
        """Return the learner whose features these are; its steps are never taken."""
        if isinstance(self.kernel, Linear):
            return Affine(self.loss, Constant(1.0), 0.0, 1, self.kernel.offset > 0.0)
        return RandomFeatures(self.loss, Constant(1.0), 0.0, 1, self.kernel, self.features, self.seed)

    @property
    def gain(self) -> float | None:
        """The mean of ``||phi(x)||^2``; None for the linear kernel, where it has no bound."""
        return self.kernel.supremum

    def ridges(self, state: RlsState) -> Array:
        """Return the ridge of each feature, (L,); the constant 1 stands for the root of the kernel's offset."""
        found = np.full(len(state.root), self.penalty)
        return _with_offset(found, self.kernel)

    def walk(self, state: RlsState) -> Array:
        """Return the variance by which each weight walks, (L,), or of none where weights stay."""
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

    def inner(self, state: RlsState, at: Evaluated) -> Array:
        """Return how far a weight of 1 at each point moves f at each other where steps are implicit, (n, n)."""
        gram = np.empty((len(at.rows), len(at.rows)))
        rows = np.require(at.rows, requirements=["C", "W"])
        if self.process_noise > 0.0:
            random_walk.products(state.root, rows, self.reach, gram)
            return gram
        rls_steps.products(state.root, rows, self.reach, gram, np.empty((len(gram), len(state.root))))
        return gram

    def step(
        self,
        state: RlsState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
        taught: Array = NOTHING,
    ) -> Info:
        """Take in own samples and values taught by neighbours, and move along their sums in the gradients.

        Of the curvatures it only matters whether there are any: pulls come as far as they may go.
        """
        eta = self.eta(state) if eta is None else eta
        at = together(evaluations)
        coupled, _, pulls, bends, aims = self.terms(at, gradients, targets, eta)
        features, outputs = state.function.coefficients.shape
        work = np.empty(rls_steps.room(features, len(pulls), outputs))
        rows, unit = np.require(at.rows, requirements=["C", "W"]), 0.0 if curvatures is None else self.reach
        terms = Terms(coupled, pulls, unit, bends, self.of_weight_one, aims, taught)
        known, coefficients = Information(state.root, state.moments, state.noise), state.function.coefficients
        cursor, ridges = float(state.cursor[0]), self.ridges(state)
        if self.process_noise > 0.0:
            random_walk.learn(work, coefficients, state.root, state.noise, rows, terms, self.walk(state))
        elif self.adaptive:
            recent = Information(state.recent_root, state.recent_moments, state.recent_noise)
            memory = Memory(known, recent, state.window)
            state.cursor[0] = rls_steps.learn_adaptively(work, coefficients, memory, cursor, rows, terms, ridges)
        else:
            state.cursor[0] = rls_steps.learn(work, coefficients, known, cursor, rows, terms, ridges, self.share)
        state.steps += 1
        return Info(0.0, eta)

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
        """Return how certain the function is; None for other losses than the squared one."""
        if not self.gaussian:
            return None
        noise = noise_of(state.noise)
        root = random_walk.triangle(state.root) if self.process_noise > 0.0 else state.root.copy()
        return Posterior(state.function, root, None, self.penalty, self.loss.curvature, noise)

    def snapshot(self, state: RlsState) -> dict[str, Array]:
        """Return ``coefficients`` and ``moments`` (L, C), ``root`` (L, L), the covariance where weights walk, ``noise``
        (3, C), ``progress``, and where the learner finds what to forget, the same of recent samples and their
        ``window``."""
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
        """The learner's functions and numbers for compiled rounds."""
        features, numbers = self._mapping().handed_features
        return rls_steps.CompiledRls(self, features, numbers)


def _with_offset(ridges: Array, kernel: Kernel) -> Array:
    if isinstance(kernel, Linear) and kernel.offset > 0.0:
        ridges[-1] /= kernel.offset
    return ridges
