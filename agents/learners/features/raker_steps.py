"""The step of several kernels' random features that are mixed by their losses, in compiled code.

A state is one vector: the weights (E L, C) of the function, those of the members (E, L, C), their losses (E,), their
shares (E,), and the samples that the losses are of.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    StepArguments,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import cube, line, read_only, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.learners.descent import Weighing
from kernelswarm.agents.learners.features.feature_steps import FEATURES, CompiledVector, descend, features_at
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.first_class import Compiled, Integers, address
from kernelswarm.protocols.parameters.hedge import log_weights, shares_of

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

EVALUATES, VALUES, DERIVATIVES = range(3)
"""Among the addresses that a step calls."""

REGULARIZATION, BATCH_SIZE, RATE, FORGETTING, MEMBERS, FEATURES_EACH, LOSS_NUMBERS, FIRST = range(8)
"""The learner's numbers; from the last on those of the loss, and then of the features."""


@inline_always
def in_their_unit(rows: Array, members: int) -> None:
    """Turn the features of the mean of all kernels (n, E L) into those of each kernel."""
    scale = math.sqrt(members)
    for n in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[n, k] *= scale


@cached_njit
def member_features(rows: Array, e: int, count: int, features: Array) -> None:
    """Copy the features (n, L) of one member out of all rows (n or more, E L)."""
    for n in range(count):
        for k in range(features.shape[1]):
            features[n, k] = rows[n, e * features.shape[1] + k]


@cached_njit
def values_of(rows: Array, members: Array, features: Array, values: Array) -> None:
    """Fill ``values`` (E, n, C) with those of members (E, L, C) at the first n points; ``features`` is worked with."""
    _, size, outputs = values.shape
    count, width = members.shape[0], members.shape[1]
    features = table(features, 0, size, width)
    for e in range(count):
        member_features(rows, e, size, features)
        weights = table(members, e * width * outputs, width, outputs)
        combine(features, weights, width, table(values, e * size * outputs, size, outputs))


class Members(NamedTuple):
    """The members of a mixture of functions."""

    weights: Array  # (E, L, C)
    losses: Array  # (E,)
    shares: Array  # (E,)


class Work(NamedTuple):
    """Memory to step with one member after the other."""

    features: Array  # (N, L)
    gram: Array  # (N, N)
    pulled: Array  # (N, C)


class Slopes(NamedTuple):
    """What the loss says at a step's own samples."""

    own: Array  # (n, C) its derivatives at the function that the gradients are of
    theirs: Array  # (E, n, C) and at each member
    lost: Array  # (E, n) what each member loses
    part: float  # what part of a batch the samples are


class Hedging(NamedTuple):
    """How members are weighed by their losses."""

    forgetting: float
    rate: float


@cached_njit
def learn(
    coefficients: Array,  # (E L, C)
    members: Members,
    samples: float,
    work: Work,
    rows: Array,  # (N, E L)
    slopes: Slopes,
    weighing: Weighing,
    shrink: float,
    hedging: Hedging,
) -> float:
    """Step with every member, weigh them anew, and mix the function; returns the samples."""
    samples = learn_members(members, samples, work, rows, slopes, weighing, shrink, hedging)
    mix(coefficients, members.weights, members.shares)
    return samples


@cached_njit
def learn_members(
    members: Members,
    samples: float,
    work: Work,
    rows: Array,  # (N, E L)
    slopes: Slopes,
    weighing: Weighing,
    shrink: float,
    hedging: Hedging,
) -> float:
    """Step with every member along its own loss and the coupling, then weigh them anew; returns the samples."""
    count, width, outputs = members.weights.shape
    gradients, rates, stiffness, implicit = weighing
    features, gram, pulled = work
    size, seen, losses = len(gradients), len(slopes.own), members.losses
    left = hedging.forgetting**seen
    for e in range(count):
        losses[e] *= left
        for n in range(seen):
            losses[e] += slopes.lost[e, n]
        for n in range(size):
            for c in range(outputs):
                pulled[n, c] = gradients[n, c]
                if n < seen:
                    pulled[n, c] += slopes.part * (slopes.theirs[e, n, c] - slopes.own[n, c])
        member_features(rows, e, size, features)
        weights = table(members.weights, e * width * outputs, width, outputs)
        descend(weights, gram, features, pulled, rates, stiffness, implicit, shrink, width)
    samples = left * samples + seen
    found = shares_of(log_weights(losses, samples, hedging.rate))
    for e in range(count):
        members.shares[e] = found[e]
    return samples


@cached_njit
def mix(coefficients: Array, members: Array, shares: Array) -> None:
    """Fill the weights (E L, C) of ``sum_e q_e f_e``, in the features of the mean of all kernels."""
    count, width, outputs = members.shape
    scale = math.sqrt(count)
    for e in range(count):
        for k in range(width):
            for c in range(outputs):
                coefficients[e * width + k, c] = scale * shares[e] * members[e, k, c]


@cached_njit
def place_members(storage: Array, count: int, weights: ReadOnly) -> None:
    """Put a state where its function has the weights ``q_e theta_e`` (E L C,): all E members count alike."""
    size, outputs = len(weights), 1
    for k in range(len(storage)):
        storage[k] = 0.0
    for e in range(count):
        storage[2 * size + count + e] = 1.0 / count
    for k in range(size):
        storage[size + k] = count * weights[k]
    # A member's outputs lie side by side, and count alike: as one column of so many features.
    shares = line(storage, 2 * size + count, count)
    mix(table(storage, 0, size, outputs), cube(storage, size, count, size // count, outputs), shares)


@cached_njit
def place(numbers: Array, storage: Array, weights: Array) -> None:
    """Put a state where its function has these weights."""
    place_members(storage, int(numbers[MEMBERS]), weights)


@cached_njit
def gram_of(rows: ReadOnly, shares: Array, width: int, gram: Array) -> None:
    """Fill ``gram`` (n, n) with ``sum_e q_e z_e(x) . z_e(y)`` from the rows (n, E L or more), L being the width."""
    size, columns = rows.shape
    for i in range(size):
        for j in range(i + 1):
            whole = 0.0
            for e in range(len(shares)):
                whole += shares[e] * dot(
                    rows, i * columns + e * width, line(rows, j * columns + e * width, width), width
                )
            gram[i, j] = gram[j, i] = whole


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points, and from them the values of the mixture."""
    first = FIRST + int(numbers[LOSS_NUMBERS])
    count = int(numbers[MEMBERS]) * int(numbers[FEATURES_EACH])
    features_at(tools[EVALUATES])(line(numbers, first, len(numbers) - first), points, rows)
    combine(rows, table(storage, 0, count, values.shape[1]), count, values)
    in_their_unit(rows, int(numbers[MEMBERS]))


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.features.raker.Raker.step` does."""
    numbers, storage, rows, size = given.numbers, given.storage, given.rows, len(given.points)
    seen, outputs = given.values.shape
    count, width = int(numbers[MEMBERS]), int(numbers[FEATURES_EACH])
    weights = count * width * outputs
    members = Members(
        cube(storage, weights, count, width, outputs),
        line(storage, 2 * weights, count),
        line(storage, 2 * weights + count, count),
    )
    work = work_in(given.scratch, size, width, outputs)
    place = size * (width + size + outputs)
    found = cube(given.scratch, place, count, seen, outputs)
    place += count * seen * outputs
    part = 1.0 if seen >= numbers[BATCH_SIZE] else seen / numbers[BATCH_SIZE]  # as descent.share
    slopes = slopes_in(given.scratch, place, count, seen, outputs, part)
    loss_numbers = line(numbers, FIRST, int(numbers[LOSS_NUMBERS]))
    loss_derivatives_at(given.tools[DERIVATIVES])(loss_numbers, given.values, given.targets, slopes.own)
    values_of(rows, members.weights, work.features, found)
    compare(given, loss_numbers, found, slopes, 0)
    last = 2 * (weights + count)
    storage[last] = learn(
        table(storage, 0, count * width, outputs),
        members,
        storage[last],
        work,
        rows,
        slopes,
        Weighing(given.gradients, given.rates, given.stiffness, given.implicit),
        1.0 - given.sizes[0] * numbers[REGULARIZATION],
        Hedging(numbers[FORGETTING], numbers[RATE]),
    )
    return 0.0


@inline_always
def work_in(scratch: Array, size: int, width: int, outputs: int) -> Work:
    """Return the memory that steps with members work with, at the begin of a scratch."""
    return Work(
        table(scratch, 0, size, width),
        table(scratch, size * width, size, size),
        table(scratch, size * (width + size), size, outputs),
    )


@inline_always
def slopes_in(scratch: Array, place: int, members: int, seen: int, outputs: int, part: float) -> Slopes:
    """Return where the loss is to say what it has to say, in a scratch from a place on."""
    theirs = place + seen * outputs
    return Slopes(
        table(scratch, place, seen, outputs),
        cube(scratch, theirs, members, seen, outputs),
        table(scratch, theirs + members * seen * outputs, members, seen),
        part,
    )


@inline_always
def compare(given: StepArguments, loss_numbers: Array, found: Array, slopes: Slopes, first: int) -> None:
    """Fill in what members lose and their losses' derivatives, from the ``first`` on, by their values (E, n, C)."""
    count, seen, outputs = found.shape
    for e in range(count):
        there, at = read_only(table(found, e * seen * outputs, seen, outputs)), first + e
        derivatives = table(slopes.theirs, at * seen * outputs, seen, outputs)
        loss_values_at(given.tools[VALUES])(loss_numbers, there, given.targets, line(slopes.lost, at * seen, seen))
        loss_derivatives_at(given.tools[DERIVATIVES])(loss_numbers, there, given.targets, derivatives)


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
    """Fill ``gram`` (N, N) with how far a weight at each point moves the mixture at each other."""
    count, width = int(numbers[MEMBERS]), int(numbers[FEATURES_EACH])
    first = 2 * count * width * values.shape[1] + count
    gram_of(rows, line(storage, first, count), width, gram)


class CompiledRaker(CompiledVector):
    """The learner's functions and numbers for compiled rounds.

    Parameters
    ----------
    learner : Raker
        The learner.
    features : function
        Computes the features of all members, with the signature FEATURES.
    numbers : callable
        Returns the numbers of the features from a state, (n,).
    """

    evaluate = staticmethod(evaluate)
    gradient = None
    inner = staticmethod(inner)
    place = staticmethod(place)
    step = staticmethod(step)

    def __init__(self, learner: Any, features: Compiled, numbers: Callable[[Any], Array]) -> None:
        super().__init__(learner)
        loss = loss_form(learner.loss)
        self.tools = (
            address(features, FEATURES),
            address(loss.values, LOSS_VALUES),
            address(loss.derivatives, LOSS_DERIVATIVES),
        )
        self.features_of = numbers

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner, the loss and the features."""
        learner, loss = self._learner, loss_form(self._learner.loss)
        members, features, _ = state.members.shape
        own = [learner.regularization, learner.batch_size, learner.hedge_rate, learner.forgetting, members, features]
        head = np.array([*own, len(loss.numbers)], dtype=np.float64)
        return np.concatenate([head, loss.numbers, self.features_of(state)])

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of one member's features, the Gram matrix, gradients, and all members' values."""
        members, features, outputs = state.members.shape
        return points * int(features + points + outputs * (2 + 2 * members) + members)
