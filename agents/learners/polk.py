"""Parsimonious online learning with kernels: compressed functional stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numba import types

from kernelswarm.agents.arithmetic import blocked_komp, komp
from kernelswarm.agents.arithmetic.abi import (
    BOUND,
    LOOK,
    NEXT_BUDGET,
    NOTHING,
    ORDER,
    ROOM,
    WANTS,
    StepArguments,
    compiled_bound_at,
    kernel_at,
    next_budget_at,
)
from kernelswarm.agents.arithmetic.copying import copy_stretch
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.late import LateFunction, found_at, is_missing
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import (
    BLOCKED_FROM_ORDER,
    BLOCKED_FROM_SAMPLES,
    Expansion,
    length_of,
    tables,
)
from kernelswarm.agents.functions.kernel_sum import OWN
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    PLANNED,
    STEP_RANGES,
    CompiledExpansion,
    DescentInSpace,
    check_step,
    explicit_or_implicit,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.parts.budgets import Budget, PerSample, begun, bound_at, bound_of_step, held
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import budget_form, kernel_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import COUNTS_OUT, MATRIX, MATRIX_OUT, VECTOR_OUT, address, at
from kernelswarm.protocols.core.compiling import cached_njit, inline_always, njit_no_refcount
from kernelswarm.protocols.core.contiguous import PassedTuple

# POLK's step in compiled code, on a function that lies in a vector.


INSPECT_EVERY = 256
"""The least number of insertions and removals between two checks of the factor's accuracy."""

INSPECT_PER_POINT = 4
"""The same per dictionary point, for large dictionaries: a check computes a Gram matrix, O(M^2 p), and a change takes
about O(M^2)."""

CHANGES = 4
"""Index, among a state's integers, of the number of insertions and removals since the last check."""

BUDGET_BOUND, BUDGET_NEXT, KOMP, BLOCKED, POLK_TOOLS = range(1, 6)
"""Indices among the addresses that a step calls, after the kernel's; the last is the number of POLK's addresses."""

NOT_DONE = -1.0
"""Returned instead of an error if the points must enter one at a time."""

PROJECT = types.float64(
    VECTOR_OUT,
    VECTOR_OUT,
    COUNTS_OUT,
    PassedTuple([MATRIX, MATRIX_OUT, MATRIX, MATRIX], Added),
    types.float64,
    types.float64,
    types.float64,
    types.int64,
)
"""The signature of :func:`project` and :func:`project_blocked`; they write the number of changes to ``scratch[0]``."""

project_at = at(PROJECT)

REGULARIZATION, LIMIT, UNIT, BATCH_SIZE, LARGE_BATCH, LARGE_ORDER, FIRST = range(7)
"""POLK's own numbers, behind the kernel's and before the budget's."""


def inspection_due(order: int) -> int:
    """Return the number of changes after which the factor of ``order`` dictionary points is checked.

    Not compiled: Python first calls it thousands of samples into a stream, which must not wait for a compiler.
    """
    return max(INSPECT_EVERY, INSPECT_PER_POINT * order)


due = inline_always(inspection_due)
"""The same in compiled code."""


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step and compress, as :meth:`~kernelswarm.agents.learners.polk.Polk.step` does."""
    gram = inner_products(given, given.numbers)
    weigh(gram, given.gradients, given.rates, given.stiffness, given.implicit)
    return compress(given, given.numbers, gram, 0)


@inline_always
def inner_products(given: StepArguments, numbers: Array) -> Array:
    """Return the inner products of a step's points, (N, N), in the scratch after KOMP's working memory.

    ``numbers`` are POLK's numbers only, without the further numbers of other learners.
    """
    points, taken = given.points, len(given.points)
    gram = table(given.scratch, 5 * given.counts[CAPACITY], taken, taken)
    if taken == 1 and own_numbers(numbers)[UNIT] > 0.0:
        gram[0, 0] = 1.0
    else:
        kernel_at(given.tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    return gram


@inline_always
def compress(given: StepArguments, numbers: Array, gram: Array, fixed: int) -> float:
    """Add weighted points to the shrunk function and compress, as :meth:`~kernelswarm.agents.learners.polk.Polk.move`
    does.

    The weights have replaced ``given.gradients``. The first ``fixed`` dictionary points are never removed.
    """
    tools, storage, counts, sizes = given.tools, given.storage, given.counts, given.sizes
    own = own_numbers(numbers)
    budget = line(own, FIRST, len(own) - FIRST)
    epsilon = compiled_bound_of_step(tools[BUDGET_BOUND], budget, sizes, storage[0], int(own[BATCH_SIZE]))
    added, shrink = Added(given.points, given.gradients, given.rows, gram), 1.0 - sizes[0] * own[REGULARIZATION]
    error = NOT_DONE
    # Called by address: compiled into every learner's step, it would take half of a first run's compilation time.
    if is_large(own, counts[ORDER], len(given.points)):
        error = project_at(found_at(tools[BLOCKED]))(
            given.scratch, storage, counts, added, shrink, epsilon, own[LIMIT], fixed
        )
    if error < 0.0:
        error = project_at(tools[KOMP])(given.scratch, storage, counts, added, shrink, epsilon, own[LIMIT], fixed)
    counts[ROOM] = counts[CAPACITY] - counts[ORDER]
    counts[CHANGES] += int(given.scratch[0])
    storage[0] = next_budget_at(tools[BUDGET_NEXT])(budget, storage[0], counts[ORDER])
    counts[WANTS] = wanted(own, counts[ORDER], counts[CHANGES], tools[BLOCKED])
    return error


@inline_always
def compiled_bound_of_step(bound: int, budget: Array, sizes: Array, state: float, batch_size: int) -> float:
    """Return eps of a step, as :func:`~kernelswarm.agents.parts.budgets.bound_of_step` does."""
    epsilon: float = compiled_bound_at(bound)(budget, sizes[0], state, batch_size)
    if not sizes[0] < sizes[PLANNED]:
        return epsilon
    whole = compiled_bound_at(bound)(budget, sizes[PLANNED], state, batch_size)
    return float(held(epsilon, whole, sizes[0], sizes[PLANNED]))


@njit_no_refcount
def project(
    scratch: Array,
    storage: Array,
    counts: Integers,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int,
) -> float:
    """Add points to a function in its storage and compress, as :func:`~kernelswarm.agents.arithmetic.komp.project`."""
    capacity = counts[CAPACITY]
    order, error, changes = komp.project_in(
        table(scratch, 0, 5, capacity),
        tables(storage, capacity, added.points.shape[1], added.weights.shape[1]),
        counts[ORDER],
        added,
        shrink,
        epsilon,
        limit,
        fixed,
    )
    counts[ORDER], scratch[0] = order, changes
    return error


@cached_njit
def project_blocked(
    scratch: Array,
    storage: Array,
    counts: Integers,
    added: Added,
    shrink: float,
    epsilon: float,
    limit: float,
    fixed: int,
) -> float:
    """Do the same with matrix products, if no points are fixed.

    Returns NOT_DONE, and changes nothing, if an element may lie in the span of the others.
    """
    known = tables(storage, counts[CAPACITY], added.points.shape[1], added.weights.shape[1])
    order, error, changes, done = blocked_komp.try_to_project(known, counts[ORDER], added, shrink, epsilon, limit)
    if not done:
        return NOT_DONE
    counts[ORDER], scratch[0] = order, changes
    return error


BY_PRODUCTS = LateFunction(project_blocked, PROJECT)


@cached_njit
def repack(storage: Array, counts: Integers, other: Array, inputs: int, outputs: int, capacity: int) -> int:
    """Copy the state of an expansion into another vector if that is long enough; returns the required length."""
    length = length_of(capacity, inputs, outputs)
    if length > len(other):
        return length
    order = counts[ORDER]
    points, weights, factor, precision = tables(storage, counts[CAPACITY], inputs, outputs)
    to_points, to_weights, to_factor, to_precision = tables(other, capacity, inputs, outputs)
    for k in range(OWN):
        other[k] = storage[k]
    copy_stretch(to_points, 0, points, 0, order * inputs, order * inputs)
    copy_stretch(to_weights, 0, weights, 0, order * outputs, order * outputs)
    copy_stretch(to_precision, 0, precision, 0, order, order)
    before = counts[CAPACITY]
    for m in range(order):
        copy_stretch(to_factor, m * capacity, factor, m * before, order, capacity)
    # The factor's users rely on zeros above its diagonal, also in rows that are not yet in use.
    copy_stretch(to_factor, order * capacity, factor, 0, 0, (capacity - order) * capacity)
    counts[CAPACITY], counts[ROOM] = capacity, capacity - order
    return length


@inline_always
def is_large(own: Array, order: int, points: int) -> bool:
    """Return whether a step on this many points uses matrix products."""
    return bool(points >= own[LARGE_BATCH] and order >= own[LARGE_ORDER])


@inline_always
def wanted(own: Array, order: int, changes: int, late: int) -> int:
    """Return LOOK if the state needs maintenance (a factor check, or a function to compile), otherwise NOTHING."""
    if changes >= due(order) or (order >= own[LARGE_ORDER] and is_missing(late)):
        return LOOK
    return NOTHING


def prepare(late: LateFunction, own: Array, order: int, points: int) -> None:
    """Prepare the compiled functions for steps on up to this many points."""
    if points >= own[LARGE_BATCH]:
        late.expect()
        if order >= own[LARGE_ORDER]:
            late.prepare()


def maintain(state: Any, learner: Any, late: LateFunction, own: Array) -> None:
    """Check a state's factor if a check is due, and compile the function for steps on many points if needed."""
    if state.function.order >= own[LARGE_ORDER]:
        late.prepare()
    if state.changes >= inspection_due(state.function.order):
        learner.inspect(state)


class ByProducts(CompiledExpansion):
    """A compiled learner whose steps on many points use matrix products, compiled on first need."""

    late: ClassVar[LateFunction]
    _own: Array

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        counts, order = super().counts(state, capacity, points), state.function.order
        prepare(self.late, self._own, order, points)
        counts[WANTS] = wanted(self._own, order, state.changes, self.late.place)
        return np.array([*counts.tolist(), state.changes], dtype=np.int64)

    def sync(self, state: Any, counts: Integers, steps: int) -> None:
        super().sync(state, counts, steps)
        state.changes = int(counts[CHANGES])

    def maintain(self, state: Any) -> None:
        """Check the factor's accuracy if due, and compile the function for steps on many points if needed."""
        maintain(state, self._learner, self.late, self._own)


class CompiledPolk(ByProducts):
    """Functions and numbers of POLK for compiled rounds; the first number in the storage is the budget's state.

    Parameters
    ----------
    learner : Polk
        The learner, or another learner with POLK's kernel, budget, step size, regularization and batch size.
    one_by_one : bool
        Whether the points of a step are always compressed one by one.
    """

    step = staticmethod(step)
    late = BY_PRODUCTS

    def __init__(self, learner: Any, one_by_one: bool = False) -> None:
        kernel, budget = kernel_form(learner.kernel), budget_form(learner.budget)
        supremum = learner.kernel.supremum
        limit = np.inf if supremum is None else komp.DEPENDENT / supremum
        own = {
            REGULARIZATION: learner.regularization,
            LIMIT: limit,
            UNIT: kernel.unit,
            BATCH_SIZE: learner.batch_size,
            LARGE_BATCH: np.inf if one_by_one else BLOCKED_FROM_SAMPLES,
            LARGE_ORDER: BLOCKED_FROM_ORDER,
        }
        self._own = np.array([own[place] for place in range(FIRST)], dtype=np.float64)
        tools = address(budget.bound, BOUND), address(budget.next, NEXT_BUDGET), address(project, PROJECT)
        super().__init__(learner, np.concatenate([self._own, budget.numbers]), (*tools, BY_PRODUCTS.place))

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of KOMP's working memory and the Gram matrix of a step's points."""
        return 5 * capacity + points * points


class RepackedPolk(CompiledPolk):
    """The same for POLK itself, whose states between steps need memory only for their own points."""

    repack = staticmethod(repack)

    def lay_out(self, state: Any, storage: Array, capacity: int) -> None:
        """Make the state refer to a vector that already holds it."""
        state.function.lay_out(storage, capacity)


class PolkState:
    """State of a POLK learner: the function, the number of steps, the budget's state, the factor's history."""

    __slots__ = ("changes", "function", "rebuilds", "steps")

    def __init__(self, function: Expansion, budget: float) -> None:
        self.function = function
        self.steps = 0
        self.changes = 0
        self.rebuilds = 0
        self.budget = budget

    @property
    def budget(self) -> float:
        """The budget's state; it is stored before the function's numbers, as compiled steps require."""
        return float(self.function.storage[0])

    @budget.setter
    def budget(self, budget: float) -> None:
        self.function.storage[0] = budget


@dataclass(frozen=True)
class Polk(DescentInSpace):
    """Functional stochastic gradient descent with destructive KOMP after every step (POLK algorithm 2).

    The step on a mini-batch of b samples (POLK eq. 17-18; SURVEY eq. 17 and 19 with a coupling) is

        f~ = (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .)

    where g_k is the derivative of the loss plus that of the coupling, both at f. The new f is the sparsest function
    that KOMP finds within ``eps`` of f~. The implicit step takes the coupling, and a quadratic loss, at the new
    function instead: with the curvatures r it solves ``(I + diag(r) K diag(eta / b)) g = g_explicit`` over all points
    of the step.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. "auto" is computed from the data and the
        batch size.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget : Budget
        The rule for eps: ``{ per_sample = a }``, ``{ parsimony = K }``, ``{ epsilon = e }``, ``{ quadratic = K }``,
        ``{ proportional = a }`` or ``{ target_order = d, alpha = a }``.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    budget: Budget = field(default=PerSample(), metadata={"part": "budget"})

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    def init(self, inputs: int, outputs: int) -> PolkState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return PolkState(Expansion(self.kernel, inputs, outputs), begun(self.budget))

    def step(
        self,
        state: PolkState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)`` and compress."""
        eta = self.eta(state) if eta is None else eta
        points, rows, weights = explicit_or_implicit(self.kernel, eta, evaluations, gradients, curvatures)
        return self.move(state, eta, points, weights, rows)

    def move(self, state: PolkState, eta: float, points: Array, weights: Array, rows: Array) -> Info:
        """Add ``sum_n weights[n] kappa(points[n], .)`` to ``(1 - eta lambda) f``, compress, and count a step."""
        function = state.function
        epsilon = bound_of_step(self.budget, eta, self.eta(state), state.budget, self.batch_size)
        error, changes = function.step(points, weights, rows, 1.0 - eta * self.regularization, epsilon)
        state.budget = self.budget.next(state.budget, function.order)
        state.steps += 1
        state.changes += changes
        if state.changes >= inspection_due(function.order):
            self.inspect(state)
        return Info(error, eta)

    def compression_budget(self, state: PolkState) -> float:
        """Return eps of the next step, a Hilbert norm; 0 if the budget aims at more points than the dictionary has."""
        return bound_at(self.budget, state.function.order, self.eta(state), state.budget)

    def inspect(self, state: PolkState) -> None:
        """Check the factor's accuracy; recompute the factor if it is inaccurate and the new one is better."""
        state.changes = 0
        state.rebuilds += state.function.inspect()

    def snapshot(self, state: PolkState) -> dict[str, Array]:
        """Return the function with its factor, and ``progress``: steps, changes, rebuilds and the budget's state."""
        progress = np.array([state.steps, state.changes, state.rebuilds, state.budget])
        return {**state.function.snapshot(), "progress": progress}

    def restore(self, state: PolkState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.function.restore(arrays)
        steps, changes, rebuilds, budget = arrays["progress"].tolist()
        state.steps, state.changes, state.rebuilds, state.budget = int(steps), int(changes), int(rebuilds), budget

    @property
    def compiled(self) -> CompiledPolk:
        """Functions and numbers of the learner for compiled rounds."""
        return RepackedPolk(self)
