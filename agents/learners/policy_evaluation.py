"""Policy evaluation: the value function of a Markov chain with rewards, as a compositional problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.arithmetic.abi import ROOM, STEP, WANTS, GradientArguments, StepArguments, step_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Expansion, length_of
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners import calling, descent, polk
from kernelswarm.agents.learners.compositional import CompiledPair, check_pairs, check_tracking
from kernelswarm.agents.learners.descent import CAPACITY, PLANNED
from kernelswarm.agents.learners.polk import CHANGES, POLK_TOOLS, CompiledPolk, Polk, PolkState
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Relative, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import ReadOnly, ReadOnlyIntegers, cached_njit, inline_always
from kernelswarm.ranges import Range

# The step of policy evaluation in compiled code: one POLK step on the tracked residual and one on the value function.


POLK = CHANGES + 1
"""The number of integers of a POLK learner; the residual's integers follow those of the value function."""

MOVE, RESIDUAL = POLK_TOOLS, POLK_TOOLS + 1
"""Indices among the addresses: POLK's step, and the first function that POLK calls for the residual. The functions that
POLK calls for the value function come first."""

TRACKING = PLANNED + 1
"""Index of beta among the sizes of a step, after eta; like eta it is stored twice."""

NUMBERS, DISCOUNT, CURVATURE, BATCH_SIZE, COUNT = range(5)
"""Indices among the last `COUNT` numbers. The first is the length of the residual's numbers, which precede them."""


@cached_njit
def coefficients_of(tracked: Array, discount: float, count: int) -> Array:
    """Return the coefficients (n, C) at n states, from g at the first state of each transition, (n // 2, C)."""
    found, end = np.zeros((count, tracked.shape[1])), 2 * len(tracked)
    found[0:end:2], found[1:end:2] = -2.0 * tracked, 2.0 * discount * tracked
    return found


@cached_njit
def errors_of(values: ReadOnly, targets: ReadOnly, tracked: Array, discount: float) -> Array:
    """Return ``g(x) - delta`` of each transition, (n // 2, C), from V (n, C) and the rewards (n, C)."""
    end = 2 * len(tracked)
    return tracked - (targets[0:end:2] + discount * values[1:end:2] - values[0:end:2])


@inline_always
def _own(numbers: Array) -> Array:
    return line(numbers, len(numbers) - COUNT, COUNT)


@inline_always
def _numbers(numbers: Array) -> Array:
    """Return the numbers of the residual's learner."""
    size = int(_own(numbers)[NUMBERS])
    return line(numbers, len(numbers) - COUNT - size, size)


@inline_always
def _residual(storage: Array, counts: Integers, inputs: int, outputs: int) -> tuple[Array, Integers]:
    """Return the vector and the integers of the residual's state."""
    size = length_of(counts[CAPACITY], inputs, outputs)
    return line(storage, size, size), line(counts, POLK, POLK)


@cached_njit
def _track(
    tools: ReadOnlyIntegers,
    numbers: ReadOnly,
    storage: ReadOnly,
    counts: ReadOnlyIntegers,
    points: ReadOnly,  # (n, p)
    outputs: int,
) -> tuple[Array, Array, Array]:
    """Return the first states of the transitions, (n // 2, p), their kernel rows and g there, (n // 2, C)."""
    states = points[0 : len(points) // 2 * 2 : 2].copy()
    rows, tracked = np.empty((len(states), counts[CAPACITY])), np.empty((len(states), outputs))
    storage, counts = _residual(storage, counts, points.shape[1], outputs)
    descent.evaluate(line(tools, RESIDUAL, POLK_TOOLS), _numbers(numbers), storage, counts, states, rows, tracked)
    return states, rows, tracked


@cached_njit
def gradient(given: GradientArguments, found: Array) -> None:
    """Fill in the coefficients at the node's own states."""
    own, outputs = given.values.shape
    points = table(given.points, 0, own, given.points.shape[1])
    _, _, tracked = _track(given.tools, given.numbers, given.storage, given.counts, points, outputs)
    copy_matrix(coefficients_of(tracked, _own(given.numbers)[DISCOUNT], own), found)


@cached_njit
def step(given: StepArguments) -> float:
    """Take a step of the value function, and one of the tracked residual."""
    numbers, counts, (count, outputs) = given.numbers, given.counts, given.values.shape
    own = _own(numbers)
    part = 1.0 if count >= own[BATCH_SIZE] else count / own[BATCH_SIZE]
    vector, integers = _residual(given.storage, counts, given.points.shape[1], outputs)
    if count // 2:
        _follow_residual(given, vector, integers)
    stiff = line(given.stiffness, 0, len(given.points)).copy()
    stiff[:count] -= own[CURVATURE] * part  # the residual's part is explicit
    error: float = step_at(given.tools[MOVE])(
        StepArguments(
            given.tools,
            line(numbers, 0, len(numbers) - COUNT - int(own[NUMBERS])),
            given.storage,
            counts,
            given.scratch,
            given.points,
            given.rows,
            given.gradients,
            given.rates,
            stiff,
            given.implicit,
            given.sizes,
            given.values,
            given.targets,
            given.taught,
        )
    )
    counts[ROOM] = min(counts[ROOM], integers[ROOM])
    counts[WANTS] = max(counts[WANTS], integers[WANTS])
    return error


@inline_always
def _follow_residual(given: StepArguments, vector: Array, integers: Integers) -> None:
    """Take POLK's step on the tracked residual, whose state these are."""
    tools, numbers, sizes, values = given.tools, given.numbers, given.sizes, given.values
    own, pairs, outputs = _own(numbers), len(values) // 2, values.shape[1]
    points = table(given.points, 0, len(values), given.points.shape[1])
    states, known, tracked = _track(tools, numbers, given.storage, given.counts, points, outputs)
    few = 1.0 if 2 * pairs >= own[BATCH_SIZE] else pairs / (own[BATCH_SIZE] / 2.0)
    step_at(tools[MOVE])(
        StepArguments(
            line(tools, RESIDUAL, POLK_TOOLS),
            _numbers(numbers),
            vector,
            integers,
            given.scratch,
            states,
            known,
            few * errors_of(values, given.targets, tracked, own[DISCOUNT]),
            np.full(pairs, sizes[TRACKING] / pairs),
            np.zeros(pairs),
            False,
            line(sizes, TRACKING, 2),
            tracked,
            given.targets,
            given.taught,
        )
    )


class CompiledPolicy(CompiledPair):
    """Functions and numbers of policy evaluation for compiled rounds; the residual follows the value function."""

    step = staticmethod(step)

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._tracker = CompiledPolk(learner.tracker)
        self.tools = (*self.tools, address(polk.step, STEP), *self._tracker.tools)
        residual = self._tracker.numbers(None)
        own = {
            NUMBERS: len(residual),
            DISCOUNT: learner.discount,
            CURVATURE: learner.loss.curvature,
            BATCH_SIZE: learner.batch_size,
        }
        last = [float(own[place]) for place in range(COUNT)]
        self._numbers = np.concatenate([self._numbers, residual, last])

    @property
    def gradient(self) -> Any:
        return gradient

    def step_sizes(self, first: int, steps: int) -> Array:
        """Return the step sizes of the value function, eta, and of the residual, beta, each twice, (steps, 4)."""
        return np.column_stack([super().step_sizes(first, steps), self._tracker.step_sizes(first, steps)])

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        values = super().counts(state, capacity, points)
        residual = self._tracker.counts(state.residual, capacity, self._learner.batch_size // 2)
        values[ROOM] = min(values[ROOM], residual[ROOM])
        values[WANTS] = max(values[WANTS], residual[WANTS])
        return np.concatenate([values, residual])

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts[:POLK], steps)
        self._tracker.sync(state.residual, counts[POLK : 2 * POLK], steps)

    def maintain(self, state: Any) -> None:
        super().maintain(state)
        self._tracker.maintain(state.residual)


class PolicyState(PolkState):
    """A POLK learner's state for the value function, and another for the tracked residual."""

    __slots__ = ("residual", "vector")

    def __init__(self, function: Expansion, budget: float, residual: PolkState) -> None:
        super().__init__(function, budget)
        self.residual = residual
        self.vector: Array | None = None
        """The vector that holds both functions during compiled steps."""

    @property
    def sums(self) -> tuple[KernelSum, KernelSum]:
        """The functions in the order of storage."""
        return self.function, self.residual.function


@dataclass(frozen=True)
class PolicyEvaluation(Polk):
    """Learn the value function of a Markov chain from transitions, by minimising the Bellman residual (COLK example 2).

    With states x, next states y and rewards r the objective is (COLK eq. 15)

        J(V) = E_x 1/2 (E_y[r + gamma V(y) - V(x) | x])^2 + lambda / 2 ||V||^2

    Samples 2k and 2k + 1 of a round are x and y of a transition, and r is the target of x. The inner expectation
    depends on x, so a function g(x) tracks it: the mean residual at x. With the residuals
    delta = r + gamma V(y) - V(x) a step is the mean over the transitions of

        g~ = g - beta (g(x) - delta) kappa(x, .)
        V~ = (1 - eta lambda) V - eta g(x) (gamma kappa(y, .) - kappa(x, .))

    Both are compressed as in :class:`~kernelswarm.agents.learners.polk.Polk`. The step of V uses g before its own
    step, which does not depend on y: the product of the two means over y is then unbiased. With delta in place of g(x)
    it would be biased. Under a protocol the values are coupled at all states of the round; an implicit step takes the
    coupling at the new function.

    Parameters
    ----------
    kernel : Kernel
        The reproducing kernel of V and of g.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization, and well below ``tracking_rate``. The default is
        0.1, divided by the largest kappa(x, x) of the data if that is above 1.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        The number of samples that a node draws per round, two for each transition; even.
    budget : Budget
        The rule for the compression error of V.
    discount : float
        gamma, the discount factor, in (0, 1).
    tracking_rate : Schedule
        beta in (0, 1], a number or a schedule. The default is 0.2, divided like ``step_size``.
    tracking_budget : Budget
        The rule for the compression error of g, whose step size is beta.
    """

    loss: Loss = field(default=Squared(), init=False)
    step_size: Schedule = field(default=Relative(0.1), metadata={"part": "schedule", "scalar": "constant"})
    budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})
    batch_size: int = 2
    discount: float = 0.9
    tracking_rate: Schedule = field(default=Relative(0.2), metadata={"part": "schedule", "scalar": "constant"})
    tracking_budget: Budget = field(default=PerSample(0.02), metadata={"part": "budget"})
    on_trial: ClassVar[bool] = False  # targets are rewards, not values of the function

    ranges: ClassVar = {"discount": Range("(0, 1)", "0.9 looks about ten steps ahead")}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pairs(self.batch_size)
        check_tracking(self.tracking_rate)

    @cached_property
    def tracker(self) -> Polk:
        """The learner of g."""
        return Polk(self.loss, self.kernel, self.tracking_rate, 0.0, self.batch_size // 2, self.tracking_budget)

    @property
    def gain(self) -> float | None:
        """Twice the supremum of kappa(x, x), since a transition moves the function at x and at y."""
        return None if self.kernel.supremum is None else 2.0 * self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> PolicyState:
        """Return the state of V = 0 and g = 0 on ``inputs`` dimensions, with one V and one g for each reward."""
        function = Expansion(self.kernel, inputs, outputs)
        return PolicyState(function, begun(self.budget), self.tracker.init(inputs, outputs))

    gradient = calling.gradient
    step = calling.step

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return POLK's arrays of V, and g's as ``residual_<name>``."""
        assert isinstance(state, PolicyState)
        residual = self.tracker.snapshot(state.residual)
        return {**super().snapshot(state), **{f"residual_{name}": array for name, array in residual.items()}}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        assert isinstance(state, PolicyState)
        super().restore(state, arrays)
        prefix = "residual_"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        self.tracker.restore(state.residual, own)

    @property
    def compiled(self) -> CompiledPolicy:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledPolicy(self)
