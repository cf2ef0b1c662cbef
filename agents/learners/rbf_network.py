"""A radial basis function network: fixed centers on a grid, and stochastic compositional gradients of their weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import KERNEL, GradientArguments, StepArguments, kernel_at
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import KernelSum, combine_into
from kernelswarm.agents.learners import calling, linear_in_features
from kernelswarm.agents.learners.compositional import (
    WEIGHTS_ALLOWED,
    CompiledComposition,
    Composition,
    Joined,
    TrackedMean,
    Weight,
    check_pairs,
    check_tracking,
    learn_from_pairs,
    looks_back,
    of_samples,
    step_on_pairs,
    weight_strengths,
)
from kernelswarm.agents.learners.linear_in_features import (
    COUNT,
    FIRST,
    REGULARIZATION,
    SHRUNK,
    CompiledVector,
    FeatureState,
    LinearInFeatures,
)
from kernelswarm.agents.parts.dispersions import Dispersion, Variance
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.plain_parts import kernel_form
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

# The step of a radial basis function network in compiled code, with a tracked center.


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the kernel between points and centers, and from that the values."""
    count, size = int(numbers[COUNT]), int(numbers[FIRST])
    kernel = line(numbers, FIRST + 1, size)
    centers = table(numbers, FIRST + 1 + size, count, points.shape[1])
    kernel_at(tools[0])(kernel, points, centers, rows)
    combine_into(rows, table(storage, 0, count, values.shape[1]), count, values)


@cached_njit
def _paired(given: GradientArguments) -> tuple[float, Array]:
    """Return g for the next step, and the coefficients at the node's own samples."""
    count, outputs = int(given.numbers[COUNT]), given.values.shape[1]
    seconds = given.rows[1::2].copy()
    before = np.empty((len(seconds), outputs))
    combine_into(seconds, table(given.storage, count * outputs, count, outputs), count, before)
    return learn_from_pairs(given, given.storage[2 * count * outputs], before, given.values, given.targets)


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own samples."""
    found[:] = _paired(given)[1]


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step of the weights on the samples' pairs."""
    own, size = len(given.values), int(given.numbers[COUNT]) * given.values.shape[1]
    given.storage[2 * size] = _paired(of_samples(given))[0]
    if own and looks_back(given.numbers):
        copy_vector(line(given.storage, 0, size), line(given.storage, size, size))
    joined = Joined(given.points, given.rows, given.gradients, given.rates, given.stiffness.copy())
    return step_on_pairs(given, joined, own)


class CompiledNetwork(CompiledVector):
    """Functions and numbers of a radial basis function network for compiled rounds."""

    evaluate = staticmethod(evaluate)
    gradient = staticmethod(gradient)
    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._kernel = kernel_form(learner.kernel)
        self._composition = CompiledComposition(learner, [address(self._kernel.cross, KERNEL)], linear_in_features.step)
        self.tools = self._composition.tools

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner, its kernel, its centers and its composition."""
        count = float(len(state.function.coefficients))
        own = {REGULARIZATION: self._learner.regularization, SHRUNK: count, COUNT: count}
        return self._composition.numbers(
            np.concatenate(
                [
                    [own[place] for place in range(FIRST)],
                    [float(len(self._kernel.numbers))],
                    self._kernel.numbers,
                    state.function.points.reshape(-1),
                ]
            )
        )

    def step_sizes(self, first: int, steps: int) -> Array:
        return self._composition.step_sizes(first, steps)


End = float | Literal["auto"]
"""An end of the grid; "auto" is resolved from data."""

MOST_CENTERS = 100_000


class NetworkFunction(KernelSum):
    """The kernel expansion ``f(x) = sum_m W[m] kappa(c_m, x)`` over fixed centers.

    Parameters
    ----------
    kernel : Kernel
        The basis function.
    points : Array
        The centers c_m, (M, p).
    coefficients : Array
        The weights W, (M, C); the learner writes to them.
    """

    __slots__ = ("coefficients",)

    def __init__(self, kernel: Kernel, points: Array, coefficients: Array) -> None:
        super().__init__(kernel, points.shape[1], coefficients.shape[1])
        self.__setstate__((kernel, points, coefficients))

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return self.kernel, self.points_buffer, self.coefficients

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.kernel, points, coefficients = state
        self.inputs, self.outputs, self.order = points.shape[1], coefficients.shape[1], len(points)
        self.points_buffer = points
        self.hold(coefficients)

    def hold(self, coefficients: Array) -> None:
        """Make the weights a view of another array."""
        self.weights_buffer = self.coefficients = coefficients

    @property
    def shrunk(self) -> int:
        """All weights are regularised."""
        return self.order

    def features(self, points: Array) -> Array:
        """Compute the kernel between ``points`` (n, p) and the centers: (n, M)."""
        return self.rows(points)


class NetworkState(FeatureState):
    """The weights, the weights before the last step, both (M, C), and the center of the dispersion.

    One vector holds all of them in this order, as compiled steps require.
    """

    __slots__ = ("previous", "storage")
    function: NetworkFunction

    def __init__(self, function: NetworkFunction) -> None:
        super().__init__(function)
        storage = np.zeros(2 * function.coefficients.size + 1)
        storage[-1] = math.nan
        self.move_to(storage)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy, whose weights must lie in its own storage."""
        return self.function, self.steps, self.storage

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.function, self.steps, storage = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Make the weights views of a vector that already holds the state."""
        shape, size = self.function.coefficients.shape, self.function.coefficients.size
        self.storage = storage
        self.function.hold(storage[:size].reshape(shape))
        self.previous: Array = storage[size : 2 * size].reshape(shape)

    @property
    def center(self) -> float:
        """The center g of the last step; NaN before the first pair."""
        return float(self.storage[-1])

    @center.setter
    def center(self, center: float) -> None:
        self.storage[-1] = center


@dataclass(frozen=True)
class RbfNetwork(LinearInFeatures):
    """A network of fixed radial basis functions, learned by stochastic compositional gradients (COLK section V).

    The centers c_m are a regular grid on [low, high] in every input,

        f(x) = sum_m W[m] kappa(c_m, x)

    and the weights follow stochastic quasi-gradients of the mean loss plus nu times its dispersion (Wang, Fang and Liu,
    Math. Prog. 161, 2017), computed from disjoint pairs of samples as in
    :class:`~kernelswarm.agents.learners.colk.Colk`.

    Parameters
    ----------
    loss : Loss
        The loss l of a sample.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is half of "auto", as for
        ``colk``.
    regularization : float
        lambda, the Tikhonov coefficient of the weights, not negative.
    batch_size : int
        The number of samples that a node draws per round, two for each pair; even.
    kernel : Kernel
        The basis function; exp(-(x - c)^2 / r^2) is gaussian with bandwidth r / sqrt(2).
    centers : int
        The number of grid points along each input, at least 2. If the basis functions are much wider than the grid
        spacing, they overlap, and the step size must be smaller in proportion.
    low, high : float or "auto"
        The ends of the grid; "auto" is the smallest and the largest input value in the training data.
    dispersion, dispersion_weight, tracking, tracking_rate
        As for ``colk``; the published method tracks the average.
    """

    batch_size: int = 2
    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    centers: int = 50
    low: End = "auto"
    high: End = "auto"
    dispersion: Dispersion = field(default=Variance(), metadata={"part": "dispersion"})
    dispersion_weight: Weight = "auto"
    tracking: TrackedMean = "average"
    tracking_rate: Schedule = field(default=Constant(0.01), metadata={"part": "schedule", "scalar": "constant"})

    ranges: ClassVar = {
        "centers": Range("[2, inf)", "points of the grid along each input"),
        "dispersion_weight": WEIGHTS_ALLOWED,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pairs(self.batch_size)
        if not isinstance(self.low, str) and not isinstance(self.high, str) and not self.low < self.high:
            raise RefusedKey("low", f"= {self.low!r} must be below high = {self.high!r}: they are the ends of the grid")
        check_tracking(self.tracking_rate)

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that are "auto", to be resolved from data."""
        return tuple(key for key in ("low", "high", "dispersion_weight") if isinstance(getattr(self, key), str))

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the ends and the dispersion weight computed from a sample of the data."""
        low = float(sample.points.min()) if isinstance(self.low, str) else self.low
        high = max(float(sample.points.max()), low + 1e-6) if isinstance(self.high, str) else self.high
        return replace(self, low=low, high=high, dispersion_weight=self.composition.fitted_weight(sample))

    @property
    def strengths(self) -> dict[str, float]:
        """The key that scales the gradient of the dispersion, with its value."""
        return weight_strengths(self.dispersion_weight)

    @cached_property
    def composition(self) -> Composition:
        """The mean loss and its dispersion."""
        return Composition(self.loss, self.dispersion, self.dispersion_weight, self.tracking, self.tracking_rate)

    @property
    def gain(self) -> float | None:
        """None: the sum of kappa(c_m, x)^2 over the centers depends on the density of the grid."""
        return None

    def init(self, inputs: int, outputs: int) -> NetworkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.centers**inputs > MOST_CENTERS:
            raise RefusedKey(
                "centers",
                f"= {self.centers!r} are {self.centers}^{inputs} on a grid of {inputs} inputs: use fewer, or a "
                "learner that chooses its points",
            )
        if isinstance(self.low, str) or isinstance(self.high, str):
            raise RefusedKey(
                "low",
                '= "auto" and high = "auto" are words that training data turn into numbers before learning '
                "starts: take learner.resolved(sample), or give numbers",
            )
        axis = np.linspace(self.low, self.high, self.centers)
        grid = np.stack(np.meshgrid(*[axis] * inputs, indexing="ij"), axis=-1).reshape(-1, inputs)
        grid.flags.writeable = False
        return NetworkState(NetworkFunction(self.kernel, grid, np.zeros((len(grid), outputs))))

    gradient = calling.gradient
    step = calling.step

    def function_from(self, arrays: Mapping[str, Array]) -> NetworkFunction:
        return NetworkFunction(self.kernel, arrays["points"], arrays["weights"])

    def snapshot(self, state: FeatureState) -> dict[str, Array]:
        """Return the weights, the number of steps, the ``center`` g, and ``previous``: the weights one step before."""
        assert isinstance(state, NetworkState)
        return {**super().snapshot(state), "center": np.array(state.center), "previous": state.previous.copy()}

    def restore(self, state: FeatureState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        assert isinstance(state, NetworkState)
        super().restore(state, arrays)
        state.previous[:] = arrays["previous"]
        state.center = float(arrays["center"])

    @property
    def compiled(self) -> CompiledNetwork:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledNetwork(self)
