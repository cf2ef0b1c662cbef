"""Random features of several kernels, by instances whose intervals begin anew: for targets that change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import StepArguments, loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.views import cube, line, read_only, table
from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.kernel_sum import combine, combine_into
from kernelswarm.agents.learners import raker
from kernelswarm.agents.learners import raker as raker_steps
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import Descent, Weighing, joined, share
from kernelswarm.agents.learners.linear_in_features import CompiledVector, features_at
from kernelswarm.agents.learners.multi_kernel import Rate
from kernelswarm.agents.learners.raker import (
    DERIVATIVES,
    EVALUATES,
    VALUES,
    Hedging,
    Members,
    Raker,
    Slopes,
    Work,
    compare,
    learn_members,
    slopes_in,
    values_of,
    work_in,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD, shares_of
from kernelswarm.ranges import Range, check_ranges

# The step of several mixtures of kernels' random features, one for each step size, in compiled code.
#
# A state is one vector: the weights (E L, C) of the function, those of all members (J, E, L, C), their losses (J, E)
# and shares (J, E), the samples (J,) that these losses are of, log h_j (J,), and what the mixture has lost, over how
# many samples, in how many steps.


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
    combine_into(rows, table(storage, 0, count, values.shape[1]), count, values)
    raker_steps.in_their_unit(rows, int(numbers[MEMBERS]))


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.adaraker.AdaRaker.step` does."""
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


class AdaRakerState:
    """Everything the learner changes, in one vector: the function's weights, and those of all instances' members.

    Parameters
    ----------
    function : CosineFunction
        The function f = 0 in the features of all members.
    numbers : Array
        The learner's, as :mod:`~kernelswarm.agents.learners.adaraker` reads them.
    """

    __slots__ = ("function", "numbers", "parts", "steps", "storage")

    def __init__(self, function: CosineFunction, numbers: Array) -> None:
        self.function = function
        self.numbers = numbers
        self.steps = 0
        self.parts: Parts
        self.storage: Array
        self.move_to(np.zeros(length(*self.sizes, function.coefficients.shape[1])))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """E, L and J."""
        members, width, instances = (int(self.numbers[place]) for place in (MEMBERS, WIDTH, INSTANCES))
        return members, width, instances

    def __getstate__(self) -> tuple[CosineFunction, Array, Array, int]:
        """Return the contents for a copy: its parts must lie in its own vector."""
        return self.function, self.numbers, self.storage, self.steps

    def __setstate__(self, state: tuple[CosineFunction, Array, Array, int]) -> None:
        """Take over the contents of a copy."""
        self.function, self.numbers, storage, self.steps = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Lie in a vector."""
        self.storage = storage
        self.parts = split(storage, *self.sizes, self.function.coefficients.shape[1])
        self.function.coefficients = self.parts.weights


@dataclass(frozen=True)
class AdaRaker(Descent):
    """Raker with steps of several sizes, mixed by what each has lost in its present interval (a second Hedge).

    AdaRaker (Shen, Chen and Giannakis, JMLR 2019): instance j is `raker` with steps of ``eta_j = rho_j eta``, ``rho_j =
    ratio^(-j/2)``. Its intervals have ``shortest ratio^j`` steps each; where one begins, what it lost before counts no
    longer, and ``log h_j = log rho_j``. A step in which the mixture loses L and the instance L_j changes it,

        log h_j <- log h_j + rate (L - L_j)        f = sum_j h_j f_j / sum_j h_j

    Short intervals with large steps follow what changes, long ones with small steps average noise.

    Parameters
    ----------
    loss, kernel, regularization, batch_size, factors, features, seed, phases, rate, forgetting
        As of `raker`. The rate is that of both Hedges; "auto" takes here the mean loss of the mixture. The paper's is
        eta_j, for losses between 0 and 1.
    step_size : Schedule
        eta, the steps of the shortest intervals; the default is four times "auto", as far as that is stable.
    intervals : int
        J, the number of instances, at least 1.
    shortest : int
        The steps of the shortest intervals, at least 1, which is the paper's.
    ratio : int
        The ratio of one length to the next, at least 2, which is the paper's.
    restart : bool
        Whether an instance is 0 where its interval begins, as in the paper; otherwise it goes on from where it was,
        with what its kernels have lost, as in the authors' code.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(4.0, reach=1.0), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    features: int = 50
    seed: int = 0
    phases: Literal["random", "paired"] = "random"
    rate: Rate = "auto"
    forgetting: float = 0.999
    intervals: int = 5
    shortest: int = 16
    ratio: int = 4
    restart: bool = False
    weighs_widths: ClassVar[bool] = True  # bandwidths, by their losses: the data say which form their lengths have

    ranges: ClassVar = {
        "intervals": Range("[1, inf)"),
        "shortest": Range("[1, inf)"),
        "ratio": Range("[2, inf)"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        self._raker.gain  # noqa: B018

    @cached_property
    def _raker(self) -> Raker:
        return Raker(**{key.name: getattr(self, key.name) for key in fields(Raker)})

    @property
    def gain(self) -> float | None:
        """The mean of ``||z_e(x)||^2``, the same for all members of all instances."""
        return self._raker.gain

    @property
    def linear(self) -> bool:
        """False: a step changes the instances' shares too."""
        return False

    @property
    def rates(self) -> Array:
        """The rho_j, (J,)."""
        return np.array([shrinking(float(self.ratio), place) for place in range(self.intervals)])

    @cached_property
    def _numbers(self) -> Array:
        own = [self.regularization, self.batch_size, self._raker.hedge_rate, self.forgetting, len(self.factors)]
        intervals = [self.features, self.intervals, self.shortest, self.ratio, self.restart]
        return np.array([*own, *intervals], dtype=np.float64)

    def init(self, inputs: int, outputs: int) -> AdaRakerState:
        """Return the state of instances that are all 0, each at the beginning of an interval."""
        state = AdaRakerState(self._raker.init(inputs, outputs).function, self._numbers)
        state.parts.shares[:] = 1.0 / len(self.factors)
        state.parts.log_weights[:] = np.log(self.rates)
        return state

    def shares(self, state: AdaRakerState) -> Array:
        """Return how much each instance counts, h_j over their sum, (J,)."""
        found: Array = shares_of(state.parts.log_weights)
        return found

    def evaluate(self, state: AdaRakerState, points: Array) -> Evaluated:
        """Evaluate the mixture at ``points`` (n, p): the rows are the features of all kernels, (n, E L)."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        raker.in_their_unit(rows, len(self.factors))
        return Evaluated(points, rows, values)

    def inner(self, state: AdaRakerState, at: Evaluated) -> Array:
        """Return the mean of the instances' inner products, by their shares, (n, n)."""
        kernels, gram = np.empty(len(self.factors)), np.empty((len(at.rows), len(at.rows)))
        kernel_shares(state.parts.log_weights, state.parts.shares, kernels)
        raker.gram_of(np.require(at.rows, requirements=["C", "W"]), kernels, self.features, gram)
        return gram

    def step(
        self,
        state: AdaRakerState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take a step with every instance: its own loss's derivatives and the coupling's; then weigh them anew."""
        eta = self.eta(state) if eta is None else eta
        rows = np.require(together(evaluations).rows, requirements=["C", "W"])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        (count, width, instances), outputs = state.sizes, weights.shape[1]
        size, seen, parts = len(rows), len(targets), state.parts
        features, found = np.empty((size, width)), np.empty((count, seen, outputs))
        own, mixed, whole = np.empty((seen, outputs)), np.empty(seen), np.empty((seen, outputs))
        theirs, lost = np.empty((instances * count, seen, outputs)), np.empty((instances * count, seen))
        instance_losses = np.empty((instances, seen))
        if seen:
            own = np.ascontiguousarray(self.loss.derivatives(evaluations[0].values, targets))
            mixed[:] = self.loss.values(evaluations[0].values, targets)
            for place in range(instances):
                members = slice(place * count, (place + 1) * count)
                raker.values_of(rows, parts.members[members], features, found)
                instance_values(found, parts.shares[place], whole)
                instance_losses[place] = self.loss.values(whole, targets)
                lost[members] = [self.loss.values(values, targets) for values in found]
                theirs[members] = [self.loss.derivatives(values, targets) for values in found]
        learn(
            state.numbers,
            parts,
            raker.Work(features, np.empty((size, size)), np.empty((size, outputs))),
            rows,
            raker.Slopes(own, theirs, lost, share(seen, self.batch_size)),
            mixed,
            instance_losses,
            Weighing(weights, rates, stiffness, curvatures is not None),
            np.empty(size),
            eta,
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: AdaRakerState) -> CosineFunction:
        """Return the current function, in the features that those of `raker` have."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return self._raker.function_from(arrays)

    def snapshot(self, state: AdaRakerState) -> dict[str, Array]:
        """Return ``state``, the vector of the state, and the number of ``steps``."""
        return {"state": state.storage.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: AdaRakerState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.storage[:] = arrays["state"]
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> CompiledAdaRaker:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledAdaRaker(self, self._raker.compiled)
