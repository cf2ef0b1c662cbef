"""Steps of learners that are linear in a fixed number of features, in compiled code.

A learner passes the function of its features; evaluation and step are the same for all of them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING, StepArguments
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.parts.schedules import step_sizes
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.first_class import MATRIX, MATRIX_OUT, NUMBERS, Compiled, Integers, address, at

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

FEATURES = types.void(NUMBERS, MATRIX, MATRIX_OUT)
"""``features(numbers, points (n, p), rows (n, L or more))`` fills the first L columns."""

features_at = at(FEATURES)

HandedFeatures = tuple[Compiled, Callable[[Any], Array]]
"""A function with the signature FEATURES, and what returns its numbers from a state."""

REGULARIZATION, SHRUNK, COUNT, FIRST = range(4)
"""The numbers before those of the features, of which there are `COUNT`, the first `SHRUNK` of them regularised."""


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points, and from them the values."""
    count = int(numbers[COUNT])
    features_at(tools[0])(line(numbers, FIRST, len(numbers) - FIRST), points, rows)
    combine(rows, table(storage, 0, count, values.shape[1]), count, values)


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step, in which nothing is compressed."""
    coefficients = table(given.storage, 0, int(given.numbers[COUNT]), given.gradients.shape[1])
    shrink, shrunk = 1.0 - given.sizes[0] * given.numbers[REGULARIZATION], int(given.numbers[SHRUNK])
    descend_by(given, coefficients, shrink, shrunk)
    return 0.0


@inline_always
def descend_by(given: StepArguments, coefficients: Array, shrink: float, shrunk: int) -> None:
    """Do as :func:`descend` on what a step is given; the Gram matrix lies at the begin of its scratch."""
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

    The weights are ``-rates g``, or in the implicit step, with K the features' inner products,
    ``-rates inv(I + diag(stiffness) K diag(rates)) g``.
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
    """Put a state where its function has these weights: they are all of it."""
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
    """What learners that are linear in features have in common, whatever the features: the layout of their states.

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
        """Return the numbers of the Gram matrix of a step's points."""
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
        """Return that there is always room, and nothing to want; the order stays."""
        return np.array([ALWAYS, NOTHING, state.function.order], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        state.steps += steps

    def maintain(self, state: Any) -> None:
        """Do nothing."""


class CompiledVector(CompiledLinear):
    """The same of learners whose states lie in one vector, ``state.storage``, and can ``move_to`` another."""

    def length(self, state: Any, capacity: int) -> int:
        return len(state.storage)

    def storage(self, state: Any) -> Array:
        vector: Array = state.storage
        return vector

    def move(self, state: Any, storage: Array, capacity: int) -> None:
        storage[:] = state.storage
        state.move_to(storage)


class CompiledFeatures(CompiledLinear):
    """The functions and numbers of a learner with constant features for compiled rounds.

    Parameters
    ----------
    learner : LinearInFeatures
        The learner.
    features : function
        Computes the features, with the signature FEATURES.
    numbers : callable
        Returns the numbers of the features from a state, (n,).
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
