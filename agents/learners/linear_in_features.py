"""Learners whose functions are linear in a fixed number of features: ``f(x) = W' phi(x)``.

This module has their common parts, evaluation from the features and gradient descent on the weights. A learner adds its
features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numba import types

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING, StepArguments
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.functions.kernel_sum import combine, combine_into
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, LearnerState, check_step, joined, weigh
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule, step_sizes
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import MATRIX, MATRIX_OUT, NUMBERS, Compiled, address, at
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount

# Steps of learners that are linear in a fixed number of features, in compiled code.
#
# A learner passes the function of its features; evaluation and step are the same for all of them.

LONG_LOOPS = True

FEATURES = types.void(NUMBERS, MATRIX, MATRIX_OUT)
"""``features(numbers, points (n, p), rows (n, L or more))`` fills the first L columns."""

features_at = at(FEATURES)

HandedFeatures = tuple[Compiled, Callable[[Any], Array]]
"""A function with the signature FEATURES, and a callable that returns its numbers from a state."""

REGULARIZATION, SHRUNK, COUNT, FIRST = range(4)
"""Indices among the numbers before those of the features; `SHRUNK` features, the first ones, of `COUNT` are
regularised."""


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points and the values of f."""
    count = int(numbers[COUNT])
    features_at(tools[0])(line(numbers, FIRST, len(numbers) - FIRST), points, rows)
    combine_into(rows, table(storage, 0, count, values.shape[1]), count, values)


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step on the weights, without compression."""
    coefficients = table(given.storage, 0, int(given.numbers[COUNT]), given.gradients.shape[1])
    shrink, shrunk = 1.0 - given.sizes[0] * given.numbers[REGULARIZATION], int(given.numbers[SHRUNK])
    descend_by(given, coefficients, shrink, shrunk)
    return 0.0


@inline_always
def descend_by(given: StepArguments, coefficients: Array, shrink: float, shrunk: int) -> None:
    """Do :func:`descend` with a step's arguments; the Gram matrix is at the start of the scratch."""
    size = len(given.gradients)
    gram = table(given.scratch, 0, size, size)
    rows, gradients, rates, stiffness = given.rows, given.gradients, given.rates, given.stiffness
    descend(coefficients, gram, rows, gradients, rates, stiffness, given.implicit, shrink, shrunk)


@cached_njit
def descend(
    coefficients: Array,  # (L, C)
    gram: Array,  # (N, N), to work with
    features: Array,  # (N, L or more)
    gradients: Array,  # (N, C), turned into weights
    rates: ReadOnly,  # (N,)
    stiffness: ReadOnly,  # (N,)
    implicit: bool,
    shrink: float,
    shrunk: int,
) -> None:
    """Scale the first ``shrunk`` rows of the coefficients, then add ``sum_n phi(x_n) w_n'`` with the step's weights.

    The weights are ``-rates g``. In the implicit step they are ``-rates inv(I + diag(stiffness) K diag(rates)) g``,
    with the inner products K of the features.
    """
    count, outputs = coefficients.shape
    size = len(features)
    if implicit:
        gram_of(features, count, gram)
    weigh(gram, gradients, rates, stiffness, implicit)
    for m in range(shrunk):
        for c in range(outputs):
            coefficients[m, c] *= shrink
    if outputs == 1:  # a loop without an inner one goes into vector registers
        for n in range(size):
            weight = gradients[n, 0]
            for m in range(count):
                coefficients[m, 0] += features[n, m] * weight
        return
    for n in range(size):
        for m in range(count):
            feature = features[n, m]
            for c in range(outputs):
                coefficients[m, c] += feature * gradients[n, c]


@inline_always
def gram_of(features: Array, count: int, gram: Array) -> None:
    """Fill ``gram`` (N, N) with the inner products of the first ``count`` features of each point, (N, L or more)."""
    size, width = features.shape
    for i in range(size):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = dot(features, i * width, features[j], count)


@cached_njit
def place(numbers: Array, storage: Array, weights: Array) -> None:
    """Set the weights, which are the whole state."""
    for k in range(len(weights)):
        storage[k] = weights[k]


@cached_njit
def inner(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    points: Array,
    rows: Array,
    values: Array,
    gram: Array,
) -> None:
    """Fill ``gram`` (N, N) with the inner products of the points' features."""
    gram_of(rows, int(numbers[COUNT]), gram)


class CompiledLinear:
    """The common part of compiled learners that are linear in any features: the layout of their states.

    Parameters
    ----------
    learner : LinearInFeatures
        The learner.
    """

    inner = staticmethod(inner)

    def __init__(self, learner: Any) -> None:
        self._learner = learner

    def columns(self, state: Any, capacity: int) -> int:
        return len(state.function.coefficients)

    def length(self, state: Any, capacity: int) -> int:
        return int(state.function.coefficients.size)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of the Gram matrix of a step's points."""
        return points * points

    def steps(self, state: Any) -> int:
        return int(state.steps)

    def step_sizes(self, first: int, steps: int) -> Array:
        return step_sizes(self._learner.step_size, first, steps)[:, np.newaxis]

    def order(self, state: Any) -> int:
        """Return 0: features do not grow."""
        return 0

    def reserve(self, state: Any, points: int) -> int:
        """Do nothing; returns 0."""
        return 0

    def storage(self, state: Any) -> Array:
        vector: Array = state.function.coefficients.reshape(-1)
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        function = state.function
        coefficients = storage.reshape(function.coefficients.shape)
        coefficients[:] = function.coefficients
        function.coefficients = coefficients

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        """Return the state's integers: unlimited room, no maintenance, and the constant order."""
        return np.array([ALWAYS, NOTHING, state.function.order], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        state.steps += steps

    def maintain(self, state: Any) -> None:
        """Do nothing."""


class CompiledVector(CompiledLinear):
    """The same for learners whose states are stored in one vector, ``state.storage``, and can ``move_to`` another."""

    def length(self, state: Any, capacity: int) -> int:
        return len(state.storage)

    def storage(self, state: Any) -> Array:
        vector: Array = state.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        storage[:] = state.storage
        state.move_to(storage)


class CompiledFeatures(CompiledLinear):
    """Functions and numbers of a learner with constant features for compiled rounds.

    Parameters
    ----------
    learner : LinearInFeatures
        The learner.
    features : function
        The compiled function that computes the features, with the signature FEATURES.
    numbers : callable
        Returns the function's numbers from a state, (n,).
    """

    evaluate = staticmethod(evaluate)
    gradient = None
    place = staticmethod(place)
    step = staticmethod(step)

    def __init__(self, learner: Any, features: Compiled, numbers: Callable[[Any], Array]) -> None:
        super().__init__(learner)
        self.tools = (address(features, FEATURES),)
        self._features = numbers

    def numbers(self, state: Any) -> Array:
        function = state.function
        own = [self._learner.regularization, float(function.shrunk), float(len(function.coefficients))]
        return np.concatenate([own, self._features(state)])


class FeatureFunction(Function, Protocol):
    """A function that is linear in its features."""

    coefficients: Array
    """The weights of all features, (L, C); the learner writes to them."""

    @property
    def shrunk(self) -> int:
        """The number of regularised features; they come first."""
        ...

    def features(self, points: Array) -> Array:
        """Compute ``phi`` at ``points`` (n, p): (n, L)."""
        ...


class FeatureState(LearnerState[FeatureFunction]):
    """The state of such a learner: the weights of its function, and the number of steps taken."""

    __slots__ = ()


@dataclass(frozen=True)
class LinearInFeatures(Descent):
    """Stochastic gradient descent on the weights of fixed features, with Tikhonov regularization.

    One step on sets of b points each is

        W <- (1 - eta lambda) W - sum_sets (eta / b) sum_k phi(x_k) g_k'

    where g_k is the derivative of the loss plus that of the coupling at x_k. The implicit step takes the coupling, and
    a quadratic loss, at the new function, with the Gram matrix ``Phi Phi'``.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    def evaluate(self, state: FeatureState, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p), and keep the features for the step."""
        features = state.function.features(points)
        return Evaluated(points, features, combine(features, state.function.coefficients))

    def inner(self, state: FeatureState, at: Evaluated) -> Array:
        """Return the inner products of the points' features, (n, n)."""
        gram = np.empty((len(at.rows), len(at.rows)))
        gram_of(np.ascontiguousarray(at.rows), at.rows.shape[1], gram)
        return gram

    def step(
        self,
        state: FeatureState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] phi(points_k[n])``."""
        eta = self.eta(state) if eta is None else eta
        function = state.function
        features = evaluations[0].rows if len(evaluations) == 1 else np.concatenate([each.rows for each in evaluations])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        size = len(weights)
        descend(
            function.coefficients,
            np.empty((size, size)),
            np.require(features, requirements=["C", "W"]),
            weights,
            rates,
            stiffness,
            curvatures is not None,
            1.0 - eta * self.regularization,
            function.shrunk,
        )
        state.steps += 1
        return Info(0.0, eta)

    def coefficients(self, state: FeatureState) -> Array:
        """Return the weights of all features, (L, C)."""
        return state.function.coefficients

    def regularized(self, state: FeatureState) -> int:
        """Return the number of regularised features; they come first."""
        return state.function.shrunk

    def place(self, state: FeatureState, coefficients: Array, steps: int) -> None:
        """Set a state to the function with these weights (L, C), after ``steps`` steps."""
        state.function.coefficients[:] = coefficients
        state.steps = steps

    def snapshot(self, state: FeatureState) -> dict[str, Array]:
        """Return the weights of all ``coefficients`` (L, C), and the number of ``steps``; features do not change."""
        return {"coefficients": state.function.coefficients.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: FeatureState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        self.place(state, arrays["coefficients"], int(arrays["steps"]))
