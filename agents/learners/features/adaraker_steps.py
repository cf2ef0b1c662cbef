"""The step of several mixtures of kernels' random features, one for each step size, in compiled code.

A state is one vector: the weights (E L, C) of the function, those of all members (J, E, L, C), their losses (J, E) and
shares (J, E), the samples (J,) that these losses are of, log h_j (J,), and what the mixture has lost, over how many
samples, in how many steps.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import StepArguments, loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.views import cube, line, read_only, table
from kernelswarm.agents.functions.combination import combine
from kernelswarm.agents.learners.descent import Weighing
from kernelswarm.agents.learners.features import raker_steps
from kernelswarm.agents.learners.features.feature_steps import CompiledVector, features_at
from kernelswarm.agents.learners.features.raker_steps import (
    DERIVATIVES,
    EVALUATES,
    VALUES,
    Hedging,
    Members,
    Slopes,
    Work,
    compare,
    learn_members,
    slopes_in,
    values_of,
    work_in,
)
from kernelswarm.agents.plain.losses import loss_form
from kernelswarm.protocols.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.first_class import Integers
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD, shares_of

Array = npt.NDArray[np.float64]

REGULARIZATION, BATCH_SIZE, RATE, FORGETTING, MEMBERS, WIDTH, INSTANCES, SHORTEST, RATIO, RESTART = range(10)
"""The learner's numbers: E is `MEMBERS`, L `WIDTH`, J `INSTANCES`."""

LOSS_NUMBERS, FIRST = 10, 11
"""How many numbers the loss has; from the second on these, and then those of the features."""

LOST, COUNT, SEEN = range(3)
"""What the mixture has lost, over how many samples, and the steps with samples."""


class Parts(NamedTuple):
    """The parts of a state's vector."""

    weights: Array  # (E L, C)
    members: Array  # (J E, L, C)
    losses: Array  # (J, E)
    shares: Array  # (J, E)
    samples: Array  # (J,)
    log_weights: Array  # (J,)
    progress: Array  # (3,)


def length(members: int, width: int, instances: int, outputs: int) -> int:
    """Return the numbers of a state."""
    return members * width * outputs * (1 + instances) + 2 * instances * (members + 1) + 3


def split(storage: Array, members: int, width: int, instances: int, outputs: int) -> Parts:
    """Return the parts of a state's vector, for use outside compiled code."""
    weights, members_of_all = members * width * outputs, instances * members
    sizes = [weights, instances * weights, members_of_all, members_of_all, instances, instances]
    function, weights_of_all, losses, shares, samples, log_weights, progress = np.split(storage, np.cumsum(sizes))
    return Parts(
        function.reshape(members * width, outputs),
        weights_of_all.reshape(members_of_all, width, outputs),
        losses.reshape(instances, members),
        shares.reshape(instances, members),
        samples,
        log_weights,
        progress,
    )


@inline_always
def parted(storage: Array, members: int, width: int, instances: int, outputs: int) -> Parts:
    """Return the same in compiled code."""
    weights = members * width * outputs
    losses = weights * (1 + instances)
    shares = losses + instances * members
    samples = shares + instances * members
    return Parts(
        table(storage, 0, members * width, outputs),
        cube(storage, weights, instances * members, width, outputs),
        table(storage, losses, instances, members),
        table(storage, shares, instances, members),
        line(storage, samples, instances),
        line(storage, samples + instances, instances),
        line(storage, samples + 2 * instances, 3),
    )


@cached_njit
def shrinking(ratio: float, place: int) -> float:
    """Compute rho_j, the step of instance j over that of the first."""
    return float(ratio ** (-0.5 * place))


@cached_njit
def instance_values(found: Array, shares: Array, values: Array) -> None:
    """Fill ``values`` (n, C) with an instance's, from those of its members (E, n, C) and their shares (E,)."""
    count, size, outputs = found.shape
    for n in range(size):
        for c in range(outputs):
            whole = 0.0
            for e in range(count):
                whole += shares[e] * found[e, n, c]
            values[n, c] = whole


@cached_njit
def kernel_shares(log_weights: Array, shares: Array, mixed: Array) -> None:
    """Fill ``mixed`` (E,) with how much each kernel counts in the function, ``sum_j h_j q_je``."""
    instances, count = shares.shape
    whole = shares_of(log_weights)
    for e in range(count):
        mixed[e] = 0.0
        for j in range(instances):
            mixed[e] += whole[j] * shares[j, e]


@cached_njit
def mix(parts: Parts) -> None:
    """Bring the weights of ``sum_j h_j sum_e q_je f_je`` up to date, in the features of the mean of all kernels."""
    instances, count = parts.shares.shape
    width, outputs = parts.members.shape[1], parts.members.shape[2]
    whole, scale = shares_of(parts.log_weights), math.sqrt(count)
    for e in range(count):
        for k in range(width):
            for c in range(outputs):
                parts.weights[e * width + k, c] = 0.0
        for j in range(instances):
            part = scale * whole[j] * parts.shares[j, e]
            for k in range(width):
                for c in range(outputs):
                    parts.weights[e * width + k, c] += part * parts.members[j * count + e, k, c]


@cached_njit
def learn(
    numbers: ReadOnly,
    parts: Parts,
    work: Work,
    rows: Array,  # (N, E L)
    slopes: Slopes,  # at the mixture, and at all members (J E)
    mixed: Array,  # (n,) what the mixture loses
    instances: Array,  # (J, n) and each instance
    weighing: Weighing,
    shortened: Array,  # (N,), to work with
    eta: float,
) -> None:
    """Step with every instance, weigh all anew, and begin the intervals of the step to come."""
    count, width, size = int(numbers[MEMBERS]), parts.members.shape[1], len(weighing.gradients)
    seen, outputs = slopes.own.shape
    _weigh(numbers, parts, mixed, instances)
    for j in range(len(parts.samples)):
        shorter, first = shrinking(numbers[RATIO], j), j * count
        for n in range(size):
            shortened[n] = shorter * weighing.rates[n]
        members = Members(
            cube(parts.members, first * width * outputs, count, width, outputs),
            line(parts.losses, first, count),
            line(parts.shares, first, count),
        )
        theirs = cube(slopes.theirs, first * seen * outputs, count, seen, outputs)
        lost = table(slopes.lost, first * seen, count, seen)
        parts.samples[j] = learn_members(
            members,
            parts.samples[j],
            work,
            rows,
            Slopes(slopes.own, theirs, lost, slopes.part),
            Weighing(weighing.gradients, shortened, weighing.stiffness, weighing.implicit),
            1.0 - shorter * eta * numbers[REGULARIZATION],
            Hedging(numbers[FORGETTING], numbers[RATE]),
        )
    if seen:
        parts.progress[SEEN] += 1.0
        _begin(numbers, parts)
    mix(parts)


@inline_always
def _weigh(numbers: Array, parts: Parts, mixed: Array, instances: Array) -> None:
    """Change log h_j by what the mixture and the instances lose."""
    seen = len(mixed)
    if not seen:
        return
    progress, left, lost = parts.progress, numbers[FORGETTING] ** seen, total(mixed)
    progress[LOST] = left * progress[LOST] + lost
    progress[COUNT] = left * progress[COUNT] + seen
    rate = numbers[RATE]
    if rate == LIKELIHOOD:
        rate = 0.5 * progress[COUNT] / progress[LOST] if progress[LOST] > 0.0 else 0.0
    for j in range(len(instances)):
        parts.log_weights[j] += rate * (lost - total(line(instances, j * seen, seen)))


@inline_always
def _begin(numbers: Array, parts: Parts) -> None:
    """Begin the intervals of the step to come."""
    count, (_, width, outputs) = int(numbers[MEMBERS]), parts.members.shape
    interval = int(numbers[SHORTEST])
    for j in range(len(parts.samples)):
        if int(parts.progress[SEEN]) % interval == 0:
            parts.log_weights[j] = math.log(shrinking(numbers[RATIO], j))
            if numbers[RESTART] != 0.0:
                parts.samples[j] = 0.0
                for e in range(count):
                    parts.losses[j, e], parts.shares[j, e] = 0.0, 1.0 / count
                    for k in range(width):
                        for c in range(outputs):
                            parts.members[j * count + e, k, c] = 0.0
        interval *= int(numbers[RATIO])


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points, and from them the values of the mixture."""
    first = FIRST + int(numbers[LOSS_NUMBERS])
    count = int(numbers[MEMBERS]) * int(numbers[WIDTH])
    features_at(tools[EVALUATES])(line(numbers, first, len(numbers) - first), points, rows)
    combine(rows, table(storage, 0, count, values.shape[1]), count, values)
    raker_steps.in_their_unit(rows, int(numbers[MEMBERS]))


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.features.adaraker.AdaRaker.step` does."""
    numbers, scratch, rows, size = given.numbers, given.scratch, given.rows, len(given.points)
    seen, outputs = given.values.shape
    count, width, instances = int(numbers[MEMBERS]), int(numbers[WIDTH]), int(numbers[INSTANCES])
    parts = parted(given.storage, count, width, instances, outputs)
    loss_numbers, values_at = line(numbers, FIRST, int(numbers[LOSS_NUMBERS])), loss_values_at(given.tools[VALUES])
    work = work_in(scratch, size, width, outputs)
    place = size * (width + size + outputs)
    shortened = line(scratch, place, size)
    place += size
    whole = table(scratch, place, seen, outputs)
    place += seen * outputs
    mixed = line(scratch, place, seen)
    place += seen
    instance_losses = table(scratch, place, instances, seen)
    place += instances * seen
    found = cube(scratch, place, count, seen, outputs)
    place += count * seen * outputs
    part = 1.0 if seen >= numbers[BATCH_SIZE] else seen / numbers[BATCH_SIZE]  # as descent.share
    slopes = slopes_in(scratch, place, instances * count, seen, outputs, part)
    loss_derivatives_at(given.tools[DERIVATIVES])(loss_numbers, given.values, given.targets, slopes.own)
    values_at(loss_numbers, given.values, given.targets, mixed)
    for j in range(instances):
        members = cube(parts.members, j * count * width * outputs, count, width, outputs)
        values_of(rows, members, work.features, found)
        instance_values(found, line(parts.shares, j * count, count), whole)
        values_at(loss_numbers, read_only(whole), given.targets, line(instance_losses, j * seen, seen))
        compare(given, loss_numbers, found, slopes, j * count)
    weighing = Weighing(given.gradients, given.rates, given.stiffness, given.implicit)
    learn(numbers, parts, work, rows, slopes, mixed, instance_losses, weighing, shortened, given.sizes[0])
    return 0.0


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
    count, width = int(numbers[MEMBERS]), int(numbers[WIDTH])
    parts = parted(storage, count, width, int(numbers[INSTANCES]), values.shape[1])
    mixed = np.empty(count)
    kernel_shares(parts.log_weights, parts.shares, mixed)
    raker_steps.gram_of(rows, mixed, width, gram)


class CompiledAdaRaker(CompiledVector):
    """The learner's functions and numbers for compiled rounds.

    Parameters
    ----------
    learner : AdaRaker
        The learner.
    raker : CompiledRaker
        The functions of the learner of one instance: the features of all members are the same.
    """

    evaluate = staticmethod(evaluate)
    gradient = None
    inner = staticmethod(inner)
    step = staticmethod(step)

    def __init__(self, learner: Any, raker: raker_steps.CompiledRaker) -> None:
        super().__init__(learner)
        self.tools = raker.tools
        self._features = raker.features_of

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the learner, the loss and the features."""
        loss = loss_form(self._learner.loss)
        return np.concatenate([state.numbers, [len(loss.numbers)], loss.numbers, self._features(state)])

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of a step's features and Gram matrix, and of what all members predict and lose."""
        count, width, instances = state.sizes
        outputs = state.parts.members.shape[2]
        members = count * instances
        return points * int(width + points + outputs * (3 + count + members) + 2 + instances + members)
