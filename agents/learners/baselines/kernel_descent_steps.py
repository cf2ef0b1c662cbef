"""The step of functional gradient descent with a rule for the dictionary, in compiled code.

A learner passes its rule, with the signature MOVE; what comes before is the same for all of them. A rule that needs
kernel values returns what it wants to know, and is called again, to go on where it was, once that lies in the scratch.
So one text serves compiled steps, which find the kernel by its address, and those of single agents with any kernel.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.agents.arithmetic.abi import (
    DIAGONAL,
    LOOK,
    ORDER,
    ROOM,
    WANTS,
    StepArguments,
    diagonal_at,
    kernel_at,
)
from kernelswarm.agents.arithmetic.blocks.late import found_at, is_missing
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import BLOCKED_FROM_ORDER, BLOCKED_FROM_SAMPLES
from kernelswarm.agents.functions.kernel_sum import OWN
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.learners.kernel_steps import CAPACITY, CROSS, CompiledExpansion, kernel_numbers, own_numbers
from kernelswarm.agents.learners.polk_steps import BY_PRODUCTS, inspection_due, project_at
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.plain.kernels import kernel_form
from kernelswarm.protocols.compiling import inline_always, njit_no_refcount
from kernelswarm.protocols.first_class import (
    COUNTS_OUT,
    MATRIX,
    NONE,
    NUMBERS,
    VECTOR_OUT,
    Compiled,
    Integers,
    address,
    at,
)

Array = npt.NDArray[np.float64]
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
    """Take a step, as :meth:`~kernelswarm.agents.learners.baselines.kernel_descent.KernelDescent.step` does."""
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
