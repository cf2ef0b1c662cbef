"""Random features of several kernels, mixed by how well each has predicted: the bandwidth is found online."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    StepArguments,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import cube, line, read_only, table
from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.kernel_sum import combine, combine_into
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, Weighing, check_step, joined, share
from kernelswarm.agents.learners.linear_in_features import FEATURES, CompiledVector, descend, features_at
from kernelswarm.agents.learners.multi_kernel import MIXTURE_RANGES, Rate, check_mixture, rate_for, scaled_kernels
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.agents.parts.schedules import Auto, Constant, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import Compiled, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.parameters.hedge import log_weights, shares_of

# The step of several kernels' random features that are mixed by their losses, in compiled code.
#
# A state is one vector: the weights (E L, C) of the function, those of the members (E, L, C), their losses (E,), their
# shares (E,), and the samples that the losses are of.

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
        combine_into(features, weights, width, table(values, e * size * outputs, size, outputs))


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
    combine_into(rows, table(storage, 0, count, values.shape[1]), count, values)
    in_their_unit(rows, int(numbers[MEMBERS]))


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.raker.Raker.step` does."""
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


class RakerState:
    """Everything the learner changes, in one vector: the function's weights, the members', their losses and shares.

    Parameters
    ----------
    function : CosineFunction
        The function f = 0 in the features of all members.
    count : int
        E, the number of members.
    """

    __slots__ = ("count", "function", "losses", "members", "shares", "steps", "storage")

    def __init__(self, function: CosineFunction, count: int) -> None:
        self.function = function
        self.count = count
        self.steps = 0
        self.members: Array
        self.losses: Array
        self.shares: Array
        self.storage: Array
        self.move_to(np.zeros(2 * (function.coefficients.size + count) + 1))
        self.shares[:] = 1.0 / count

    def __getstate__(self) -> tuple[CosineFunction, int, Array, int]:
        """Return the contents for a copy: its parts must lie in its own vector."""
        return self.function, self.count, self.storage, self.steps

    def __setstate__(self, state: tuple[CosineFunction, int, Array, int]) -> None:
        """Take over the contents of a copy."""
        self.function, self.count, storage, self.steps = state
        self.move_to(storage)

    def move_to(self, storage: Array) -> None:
        """Lie in a vector."""
        features, outputs = shape = self.function.coefficients.shape
        size, count = features * outputs, self.count
        self.storage = storage
        self.function.coefficients = storage[:size].reshape(shape)
        self.members = storage[size : 2 * size].reshape(count, features // count, outputs)
        self.losses = storage[2 * size : 2 * size + count]
        self.shares = storage[2 * size + count : 2 * (size + count)]


@dataclass(frozen=True)
class Raker(Descent):
    """Random features of several bandwidths, mixed by their losses on samples that they had not seen yet (Hedge).

    Raker (Shen, Chen and Giannakis, JMLR 2019): member e is linear in L random features z_e of the kernel
    with the bandwidth ``factors[e]`` times that of ``kernel``, and steps along its own loss,

        f = sum_e q_e theta_e' z_e(x)      theta_e <- (1 - eta lambda) theta_e - (eta / b) sum_k z_e(x_k) g_k'

    With L_e the sum of its losses before each step, of which a sample leaves ``forgetting``, ``q_e ~ exp(-rate L_e)``.
    What neighbours add to g_k is their pull on the mixture. `multi_kernel` mixes compressed members in the same way;
    the protocol `domkl` sends the weights of such members.

    Parameters
    ----------
    loss, step_size, regularization, batch_size
        As of `random_features`, the same for every member.
    kernel : Kernel
        The kernel with the bandwidth 1 in ``factors``: gaussian, laplacian, matern or student_t.
    factors : sequence of float
        The bandwidths, as multiples of the kernel's, positive.
    features : int
        L, the random features of each member, at least 1.
    seed : int
        Seed of the features, not negative: member e has those of `random_features` with the seed ``seed + e``.
    phases : {"random", "paired"}
        As of `random_features`; the paper's are paired.
    rate : float or "auto"
        The rate of Hedge, positive. "auto" is the likelihood's: 1 where classes are learned, and for numbers 1 over
        twice the mean loss of the best member, which is a Gaussian likelihood for the squared loss in every unit.
    forgetting : float
        What a sample leaves of the losses before its batch, above 0, at most 1; those of a batch count alike. The
        paper's is 1.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    features: int = 50
    seed: int = 0
    phases: Literal["random", "paired"] = "random"
    rate: Rate = "auto"
    forgetting: float = 0.999
    weighs_widths: ClassVar[bool] = True  # bandwidths, by their losses: the data say which form their lengths have

    ranges: ClassVar = STEP_RANGES | MIXTURE_RANGES

    def __post_init__(self) -> None:
        check_step(self)
        self._mapping(0, self.kernel)
        check_mixture(self.kernel, self.factors)

    def _mapping(self, place: int, kernel: Kernel) -> RandomFeatures:
        """Return the learner whose features a member has; its steps are never taken."""
        seed = self.seed + place
        return RandomFeatures(self.loss, Constant(1.0), 0.0, 1, kernel, self.features, seed, self.phases)

    @property
    def gain(self) -> float | None:
        """The mean of ``||z_e(x)||^2``, the same for all members."""
        return self.kernel.supremum

    @property
    def linear(self) -> bool:
        """False: a step changes the members' shares too."""
        return False

    @property
    def hedge_rate(self) -> float:
        return rate_for(self.rate, self.loss)

    def init(self, inputs: int, outputs: int) -> RakerState:
        """Return the state of members that are all 0 and count alike."""
        members = [
            self._mapping(place, kernel).init(inputs, outputs).function
            for place, kernel in enumerate(scaled_kernels(self.kernel, self.factors))
        ]
        arrays = [member.arrays() for member in members]
        stacked = {name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]}
        return RakerState(self.function_from(stacked), len(members))

    def shares(self, state: RakerState) -> Array:
        """Return how much each member counts, q_e, (E,)."""
        return state.shares

    def evaluate(self, state: RakerState, points: Array) -> Evaluated:
        """Evaluate the mixture at ``points`` (n, p): the rows are the features of all members, (n, E L)."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        in_their_unit(rows, state.count)
        return Evaluated(points, rows, values)

    def inner(self, state: RakerState, at: Evaluated) -> Array:
        """Return the mean of the members' inner products, by their shares, (n, n)."""
        gram = np.empty((len(at.rows), len(at.rows)))
        gram_of(np.require(at.rows, requirements=["C", "W"]), state.shares, self.features, gram)
        return gram

    def step(
        self,
        state: RakerState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take a step with every member: its own loss's derivatives and the coupling's; then weigh them anew."""
        eta = self.eta(state) if eta is None else eta
        rows = np.require(together(evaluations).rows, requirements=["C", "W"])
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        (count, width, outputs), size, seen = state.members.shape, len(rows), len(targets)
        features, found = np.empty((size, width)), np.empty((count, seen, outputs))
        own, theirs, lost = np.empty((seen, outputs)), np.empty_like(found), np.empty((count, seen))
        if seen:
            values_of(rows, state.members, features, found)
            own = np.ascontiguousarray(self.loss.derivatives(evaluations[0].values, targets))
            for place, values in enumerate(found):
                lost[place] = self.loss.values(values, targets)
                theirs[place] = self.loss.derivatives(values, targets)
        state.storage[-1] = learn(
            state.function.coefficients,
            Members(state.members, state.losses, state.shares),
            float(state.storage[-1]),
            Work(features, np.empty((size, size)), np.empty((size, outputs))),
            rows,
            Slopes(own, theirs, lost, share(seen, self.batch_size)),
            Weighing(weights, rates, stiffness, curvatures is not None),
            1.0 - eta * self.regularization,
            Hedging(float(self.forgetting), self.hedge_rate),
        )
        state.steps += 1
        return Info(0.0, eta)

    def function(self, state: RakerState) -> CosineFunction:
        """Return the current function: in features of the mean of all kernels, its weights ``sqrt(E) q_e theta_e``."""
        return state.function

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return CosineFunction(arrays["frequencies"], arrays["phases"], arrays["weights"])

    def coefficients(self, state: RakerState) -> Array:
        """Return the weights ``q_e theta_e`` of the function in the members' features, (E, L, C)."""
        return state.shares[:, np.newaxis, np.newaxis] * state.members

    def regularized(self, state: RakerState) -> int:
        """Return that all features are regularised, E L."""
        return len(state.function.coefficients)

    def place(self, state: RakerState, coefficients: Array, steps: int) -> None:
        """Put a state where its function has these weights (E, L, C), after so many steps: all members count alike."""
        place_members(state.storage, state.count, np.ascontiguousarray(coefficients).reshape(-1))
        state.steps = steps

    def snapshot(self, state: RakerState) -> dict[str, Array]:
        """Return ``state``, the vector of the state, and the number of ``steps``."""
        return {"state": state.storage.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: RakerState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.storage[:] = arrays["state"]
        state.steps = int(arrays["steps"])

    @property
    def compiled(self) -> CompiledRaker:
        """The learner's functions and numbers for compiled rounds."""
        features, numbers = self._mapping(0, self.kernel).handed_features
        return CompiledRaker(self, features, numbers)
