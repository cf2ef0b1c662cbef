"""Functional gradient descent whose dictionary a rule keeps small: the common part of such learners."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import types

from kernelswarm.agents.arithmetic.abi import (
    DIAGONAL,
    LOOK,
    NOTHING,
    ORDER,
    ROOM,
    WANTS,
    StepArguments,
    diagonal_at,
    kernel_at,
)
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.late import found_at, is_missing
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES, Expansion
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    STEP_RANGES,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    check_step,
    explicit_or_implicit,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.learners.polk import BY_PRODUCTS, inspection_due, project_at
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_form, kernel_rows
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import (
    COUNTS_OUT,
    MATRIX,
    NONE,
    NUMBERS,
    VECTOR_OUT,
    Compiled,
    address,
    at,
    sole,
)
from kernelswarm.protocols.core.compiling import inline_always, njit_no_refcount
from kernelswarm.ranges import Range

# The step of functional gradient descent with a rule for the dictionary, in compiled code.
#
# A learner passes its rule, with the signature MOVE; what comes before is the same for all of them. A rule that needs
# kernel values returns what it wants to know, and is called again, to go on where it was, once that lies in the
# scratch. So one text serves compiled steps, which find the kernel by its address, and those of single agents with any
# kernel.

LONG_LOOPS = True

MOVE = types.int64(
    NUMBERS, VECTOR_OUT, COUNTS_OUT, VECTOR_OUT, MATRIX, MATRIX, MATRIX, MATRIX, types.float64, types.float64
)
"""``move(own, storage, counts, work, points (N, p), rows (N, R), gram (N, N), weights (N, C), shrink, eta) -> wanted``
adds the points to the shrunk function and keeps to the rule; it sets the order among the counts.

Wanted is DONE, or what the rule goes on with: a place of the dictionary, or one of the points, counted from the model
order on, for its kernel with the dictionary; NORMS for kappa(x, x) of the elements. The answer begins at
work[HEADER].
"""

DONE, NORMS, BLOCKED = -1, -2, -3
"""The results of a rule beside places; BLOCKED: the points are to be added by matrix-matrix products."""

HEADER = 4
ERROR, PHASE, POINT, MOVED = range(HEADER)
"""The begin of a rule's working memory: the step's compression error, and the phase of the rule; all are 0 at first."""

START, ENTERED, ASKED, SINGLY = range(4)
"""Phases that most rules have: nothing is done, the points are in the dictionary, the norms were asked for; or they are
to enter one at a time, where matrix products cannot take them in."""

CHANGES = 0
"""Among the numbers of a state with a factor: its changes since it was last inspected."""

MOVES, DIAGONALS, PRODUCTS = 1, 2, 3
"""Among the addresses that a step calls, those of the rule, of kappa(x, x), and of what takes the points in by matrix
products, for rules that want that."""

REGULARIZATION, GRAM, UNIT, BUDGET_SIZE, TASK, INSENSITIVITY, FIRST = range(7)
"""The learner's own numbers: lambda, whether an explicit step wants the Gram matrix, whether kappa(x, x) = 1, then
those of its rule, as many as it has."""

move_at = at(MOVE)


class DictionaryRule(NamedTuple):
    """The rule that keeps a learner's dictionary within its budget.

    Attributes
    ----------
    move : function
        With the signature MOVE.
    rows : int
        Rows of as many numbers as there is room for points, that it works with; the first holds what it asked for.
    gram : bool
        Whether it reads the inner products of a step's points.
    norms : bool
        Whether it asks for kappa(x, x) of the elements.
    blocks : bool
        Whether it leaves large mini-batches on large dictionaries to matrix-matrix products.
    numbers : int
        Further numbers that it works with, behind those rows.
    """

    move: Compiled
    rows: int = 0
    gram: bool = False
    norms: bool = False
    blocks: bool = False
    numbers: int = 0


@inline_always
def diagonal_of(tools: Integers, numbers: Array, points: Array) -> Array:
    """Return kappa(x, x) at the points, (N,)."""
    diagonal = np.ones(len(points))
    if own_numbers(numbers)[UNIT] == 0.0:
        diagonal_at(tools[DIAGONALS])(kernel_numbers(numbers), points, diagonal)
    return diagonal


@njit_no_refcount
def step(given: StepArguments) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.kernel_descent.KernelDescent.step` does."""
    scratch, points, gradients, size = given.scratch, given.points, given.gradients, len(given.gradients)
    own = own_numbers(given.numbers)
    gram = table(scratch, 0, size, size)
    work = line(scratch, size * size, len(scratch) - size * size)
    if given.implicit or own[GRAM] > 0.0:
        if size == 1 and own[UNIT] > 0.0:
            gram[0, 0] = 1.0
        else:
            kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), points, points, gram)
    weigh(gram, gradients, given.rates, given.stiffness, given.implicit)
    shrink = 1.0 - given.sizes[0] * own[REGULARIZATION]
    storage, counts, move = given.storage, given.counts, move_at(given.tools[MOVES])
    for k in range(HEADER):
        work[k] = 0.0
    wanted = move(own, storage, counts, work, points, given.rows, gram, gradients, shrink, given.sizes[0])
    while wanted != DONE:
        if wanted == BLOCKED:
            _take_in(given, gram, work, shrink)
        else:
            _answer(given, work, wanted)
        wanted = move(own, storage, counts, work, points, given.rows, gram, gradients, shrink, given.sizes[0])
    counts[ROOM] = counts[CAPACITY] - counts[ORDER]
    late = given.tools[PRODUCTS]
    if late != NONE and counts[ORDER] >= BLOCKED_FROM_ORDER and is_missing(late):
        counts[WANTS] = LOOK
    error: float = work[ERROR]
    return error


@inline_always
def _take_in(given: StepArguments, gram: Array, work: Array, shrink: float) -> None:
    """Add the points to the shrunk function by matrix products, and count the changes of its factor; or have the
    rule take them in one at a time."""
    limit, added = own_numbers(given.numbers)[FIRST], Added(given.points, given.gradients, given.rows, gram)
    rest = line(work, HEADER, len(work) - HEADER)
    error = project_at(found_at(given.tools[PRODUCTS]))(rest, given.storage, given.counts, added, shrink, 0.0, limit, 0)
    if error < 0.0:
        work[PHASE] = SINGLY
    else:
        work[ERROR] = error
        given.storage[CHANGES] += rest[0]


@inline_always
def _answer(given: StepArguments, work: Array, wanted: int) -> None:
    """Fill in the kernel entries that a rule has asked for."""
    order, inputs, numbers = given.counts[ORDER], given.points.shape[1], kernel_numbers(given.numbers)
    dictionary = table(given.storage, OWN, order, inputs)
    if wanted == NORMS:
        diagonal_at(given.tools[DIAGONALS])(numbers, dictionary, line(work, HEADER, order))
        return
    if wanted < order:
        asked = table(given.storage, OWN + wanted * inputs, 1, inputs)
    else:
        asked = table(given.points, (wanted - order) * inputs, 1, inputs)
    kernel_at(given.tools[CROSS])(numbers, asked, dictionary, table(work, HEADER, 1, order))


@inline_always
def sum_of(storage: Array, capacity: int, inputs: int, outputs: int) -> tuple[Array, Array]:
    """Return the points and the weights of a kernel sum in its storage, as its shapes lay them out."""
    return table(storage, OWN, capacity, inputs), table(storage, OWN + capacity * inputs, capacity, outputs)


@inline_always
def knows_norms(own: Array, work: Array, order: int) -> bool:
    """Fill in kappa(x, x) of the elements if it is 1; returns whether it is."""
    if own[UNIT] > 0.0:
        for m in range(order):
            work[HEADER + m] = 1.0
        return True
    return False


def is_unit(kernel: Kernel) -> bool:
    """Tell whether a kernel declares that kappa(x, x) = 1 for all x."""
    return bool(kernel_form(kernel).unit)


class CompiledDescent(CompiledExpansion):
    """The functions and numbers of such a learner for compiled rounds.

    Parameters
    ----------
    learner : KernelDescent
        The learner.
    gradient : function, optional
        The gradient, with the signature GRADIENT, where it is not the loss's derivatives.
    """

    step = staticmethod(step)

    def __init__(self, learner: Any, gradient: Compiled | None = None) -> None:
        kernel = kernel_form(learner.kernel)
        self._rule: DictionaryRule = learner.rule
        diagonal = NONE if kernel.diagonal is None else address(kernel.diagonal, DIAGONAL)
        late = BY_PRODUCTS.place if self._rule.blocks else NONE
        super().__init__(learner, learner.own_numbers(), (address(self._rule.move, MOVE), diagonal, late))
        self._gradient = gradient

    @property
    def gradient(self) -> Compiled | None:
        return self._gradient

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of the Gram matrix of a step's points, and those that the rule works with."""
        return points * points + HEADER + self._rule.rows * capacity + self._rule.numbers

    def counts(self, state: Any, capacity: int, points: int) -> Integers:
        if self._rule.blocks and points >= BLOCKED_FROM_SAMPLES:
            BY_PRODUCTS.expect()
            if state.function.order >= BLOCKED_FROM_ORDER:
                BY_PRODUCTS.prepare()
        return super().counts(state, capacity, points)

    def maintain(self, state: Any) -> None:
        """Look at the accuracy of the factor where that is due, and prepare what steps on many points need."""
        if self._rule.blocks and state.function.order >= BLOCKED_FROM_ORDER:
            BY_PRODUCTS.prepare()
        if state.numbers[CHANGES] >= inspection_due(state.function.order):
            self._learner.inspect(state)


_NO_GRAM, _ONE = np.zeros((0, 0)), np.ones((1, 1))


class SumState(LearnerState[KernelSum]):
    """Everything such a learner changes: the function, the number of steps, and the numbers of its own rule.

    Parameters
    ----------
    function : KernelSum
        The function.
    own : Array
        What the rule is given of the learner.
    numbers : int
        How many numbers of its own the rule has; they lie in front of the function's.
    """

    __slots__ = ("_count", "counts", "own")

    def __init__(self, function: KernelSum, own: Array, numbers: int = 0) -> None:
        super().__init__(function)
        self.own = own
        self.counts: Integers = np.zeros(4, dtype=np.int64)
        self._count = numbers

    @property
    def numbers(self) -> Array:
        return self.function.storage[: self._count]


@dataclass(frozen=True)
class KernelDescent(DescentInSpace):
    """Functional stochastic gradient descent, followed by a rule that keeps the dictionary small.

    The step on a mini-batch of b samples is

        f~ = (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .)

    where g_k is the local coefficient, for most learners the derivative of the loss, plus the coupling's. The rule
    makes f of f~. The implicit step takes the coupling, and a quadratic loss, at f~.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES

    def __post_init__(self) -> None:
        check_step(self)

    @property
    @abstractmethod
    def rule(self) -> DictionaryRule:
        """The rule for the dictionary, in compiled code."""

    def rule_numbers(self) -> Sequence[float]:
        """Return the numbers that the rule is given, from `BUDGET_SIZE` on."""
        return ()

    def own_numbers(self) -> Array:
        """Return all the numbers that steps are given of the learner."""
        own = [self.regularization, float(self.rule.gram), float(is_unit(self.kernel)), *self.rule_numbers()]
        return np.array(own, dtype=np.float64)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return SumState(KernelSum(self.kernel, inputs, outputs), self.own_numbers())

    def step(
        self,
        state: SumState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step along ``sum_k mean_n gradients[k][n] kappa(points_k[n], .)``, then keep to the rule.

        Returns
        -------
        Info
            Its compression error is the Hilbert norm of what the rule changed, or a bound on it.
        """
        eta = self.eta(state) if eta is None else eta
        points, rows, weights = explicit_or_implicit(self.kernel, eta, evaluations, gradients, curvatures)
        error = self._move(state, eta, points, rows, weights)
        state.steps += 1
        return Info(error, eta)

    def _move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the weighted points (N, p), (N, C) to the shrunk function, keep to the rule; returns its error."""
        rule, function, own, counts = self.rule, state.function, state.own, state.counts
        function.reserve(len(points))
        capacity = len(function.points_buffer)
        counts[WANTS], counts[ORDER], counts[CAPACITY] = NOTHING, function.order, capacity
        work = np.zeros(HEADER + rule.rows * capacity + rule.numbers)
        gram = _NO_GRAM
        if rule.gram:
            gram = _ONE if len(points) == 1 and own[UNIT] > 0.0 else kernel_rows(self.kernel, points, points)
        shrink = 1.0 - eta * float(own[REGULARIZATION])
        move = sole(rule.move, MOVE)
        try:
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        except TypeError:  # rows of other strides are rare: asking each time would cost more
            points, rows, weights = map(np.ascontiguousarray, (points, rows, weights))
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        while wanted != DONE:
            function.order = int(counts[ORDER])
            answer = work[HEADER : HEADER + function.order]
            if wanted == NORMS:
                answer[:] = kernel_diagonal(self.kernel, function.points)
            elif wanted == BLOCKED:
                assert isinstance(function, Expansion)
                work[ERROR], changes = function.step(points, weights, rows, shrink, 0.0)
                state.numbers[CHANGES] += changes
                counts[ORDER] = function.order
            else:
                among, place = (function.points, wanted) if wanted < len(answer) else (points, wanted - len(answer))
                answer[:] = kernel_rows(self.kernel, among[place : place + 1], function.points)[0]
            wanted = move(own, function.storage, counts, work, points, rows, gram, weights, shrink, eta)
        function.order = int(counts[ORDER])
        if counts[WANTS] == LOOK:
            self.inspect(state)
        return float(work[ERROR])

    def inspect(self, state: SumState) -> None:
        """Look at the accuracy of the factor, and compute it afresh where that is lost."""
        assert isinstance(state.function, Expansion)
        state.numbers[CHANGES] = 0.0
        state.function.inspect()

    def snapshot(self, state: SumState) -> dict[str, Array]:
        """Return the function, the number of ``steps`` and the rule's own ``numbers``."""
        return {**super().snapshot(state), "numbers": state.numbers.copy()}

    def restore(self, state: SumState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        super().restore(state, arrays)
        state.numbers[:] = arrays["numbers"]


def budget_from(least: int, *words: object) -> Range:
    """Return the range of a budget's size."""
    return Range(f"[{least}, inf)", "20 to 500 points are usual", *words)


# The kernel rows of a step's points, one after the other, while the dictionary changes under them.

NEXT, WAITS, KNOWN, MEASURED = range(1, 5)
"""Phases of a rule that takes the points one by one: before the next, waiting for its row, with it, with norms too."""


@inline_always
def row_wanted(work: Array, capacity: int, rows: Array, order: int, n: int) -> int:
    """Have the kernel between point n and the dictionary in the second row of the work; returns DONE once it is there.

    The rows that a step begins with serve until the dictionary has changed, which work[MOVED] says.
    """
    if work[PHASE] == NEXT:
        if work[MOVED] > 0.0:
            work[POINT], work[PHASE] = n, WAITS
            return order + n
        for m in range(order):
            work[HEADER + capacity + m] = rows[n, m]
        work[PHASE] = KNOWN
    elif work[PHASE] == WAITS:
        for m in range(order):
            work[HEADER + capacity + m] = work[HEADER + m]
        work[PHASE] = KNOWN
    return DONE
