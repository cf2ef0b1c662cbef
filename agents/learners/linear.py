"""Affine functions of the inputs: the baseline without a kernel."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelswarm.agents.functions.derived import combined
from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners.linear_in_features import (
    FEATURES,
    CompiledFeatures,
    FeatureState,
    HandedFeatures,
    LinearInFeatures,
)
from kernelswarm.agents.parts.kernels import Linear as LinearKernel
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import sole
from kernelswarm.protocols.core.compiling import cached_njit

LONG_LOOPS = True


class AffineFunction:
    """The function ``f(x) = W' x + v``.

    Parameters
    ----------
    coefficients : Array
        W above the row v', (p + 1, C); W alone, (p, C), without an intercept.
    intercept : bool
        Whether v is learned; otherwise v = 0.
    """

    __slots__ = ("coefficients", "inputs", "intercept", "outputs")

    def __init__(self, coefficients: Array, intercept: bool) -> None:
        self.coefficients = coefficients
        self.intercept = intercept
        self.inputs = len(coefficients) - intercept
        self.outputs = int(coefficients.shape[1])

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "AffineFunction":
        """Build the function from ``weights`` (p, C) and, if present, ``intercept`` (C,)."""
        intercept = arrays.get("intercept")
        if intercept is None:
            return cls(arrays["weights"], intercept=False)
        return cls(np.concatenate([arrays["weights"], intercept[None, :]]), intercept=True)

    @property
    def order(self) -> int:
        """The number p of weighted inputs."""
        return self.inputs

    @property
    def shrunk(self) -> int:
        """p, the number of regularised rows: the weights are regularised, the intercept is not."""
        return self.inputs

    @property
    def weights(self) -> Array:
        """The weights W, (p, C)."""
        return self.coefficients[: self.inputs]

    def features(self, points: Array) -> Array:
        """Return ``points`` (n, p); with an intercept, a column of ones is appended, (n, p + 1)."""
        if not self.intercept:
            return points
        features = np.empty((len(points), self.inputs + 1))
        sole(_features, FEATURES)(_WITH_ONES, np.ascontiguousarray(points), features)
        return features

    def shares_features(self, other: object) -> bool:
        """Return whether another function is affine too, and both or neither have an intercept."""
        return isinstance(other, AffineFunction) and other.intercept == self.intercept

    def combined(self, features: Array) -> Array:
        """Compute the values (n, C) of points with these features, (n, L)."""
        values: Array = combine(features, self.coefficients)
        return values

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return self.combined(self.features(points))

    def averaged(self, others: "Sequence[AffineFunction]", shares: Array) -> "AffineFunction":
        """Return ``q_0 f + sum_k q_k g_k`` of functions of the same features."""
        weights = combined([each.coefficients for each in (self, *others)], shares)
        return AffineFunction(weights, self.intercept)

    def arrays(self) -> dict[str, Array]:
        """Return ``weights`` (p, C) and, if an intercept is learned, ``intercept`` (C,)."""
        if not self.intercept:
            return {"weights": self.coefficients.copy()}
        return {"weights": self.weights.copy(), "intercept": self.coefficients[-1].copy()}

    def distance(self, other: object) -> float:
        """Compute the norm of the difference of all coefficients; NaN if the other function is not affine."""
        if not isinstance(other, AffineFunction):
            return math.nan
        intercepts = [f.coefficients[-1] if f.intercept else np.zeros(f.outputs) for f in (self, other)]
        return math.hypot(
            float(np.linalg.norm(self.weights - other.weights)), float(np.linalg.norm(intercepts[0] - intercepts[1]))
        )


@dataclass(frozen=True)
class Linear(LinearInFeatures):
    """Stochastic gradient descent on an affine function ``f(x) = W' x + v`` of the inputs.

    One step is ``W <- (1 - eta lambda) W - (eta / b) sum_k x_k g_k'`` and ``v <- v - (eta / b) sum_k g_k`` where g_k is
    the derivative of the loss plus the coupling's.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is half of "auto": an affine
        function has few parameters, and the nonlinear part of the targets acts as noise, which small steps average.
    regularization : float
        lambda, the Tikhonov coefficient of the weights, nonnegative; the intercept is not regularised.
    batch_size : int
        b, the number of samples that a node draws per round.
    intercept : bool
        Whether there is an intercept v.
    """

    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    intercept: bool = True

    @property
    def gain(self) -> float | None:
        """None: ``||x||^2`` has no bound."""
        return None

    @property
    def kernel(self) -> LinearKernel:
        """The kernel of the space of affine functions, for solvers that fit a kernel expansion."""
        return LinearKernel(offset=float(self.intercept))

    def init(self, inputs: int, outputs: int) -> FeatureState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return FeatureState(AffineFunction(np.zeros((inputs + self.intercept, outputs)), self.intercept))

    def function_from(self, arrays: Mapping[str, Array]) -> AffineFunction:
        return AffineFunction.from_arrays(arrays)

    @property
    def handed_features(self) -> HandedFeatures:
        """The compiled function that computes the features, and a callable that returns its numbers from a state."""
        numbers = _WITH_ONES if self.intercept else np.zeros(1)
        return _features, lambda state: numbers

    @property
    def compiled(self) -> CompiledFeatures:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledFeatures(self, *self.handed_features)


_WITH_ONES: Array = np.ones(1)


@cached_njit
def _features(numbers: Array, points: Array, rows: Array) -> None:
    """Copy the points, and append a one to each if ``numbers[0]`` is 1."""
    size, inputs = points.shape
    for i in range(size):
        for k in range(inputs):
            rows[i, k] = points[i, k]
        if numbers[0] > 0.0:
            rows[i, inputs] = 1.0
