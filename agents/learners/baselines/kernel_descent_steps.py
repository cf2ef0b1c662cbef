"""The step of functional gradient descent with a rule for the dictionary, in compiled code.

A learner hands over its rule, with the signature MOVE; what comes before is the same for all of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from kernelswarm.agents.arithmetic.signatures import ORDER, ROOM, kernel_at
from kernelswarm.agents.arithmetic.tables import line, table
from kernelswarm.agents.functions.kernel_sum import OWN, add_points, drop_points, squared_norms_in
from kernelswarm.agents.learners.descent import weigh
from kernelswarm.agents.learners.kernel_steps import (
    CAPACITY,
    CROSS,
    CompiledExpansion,
    kernel_numbers,
    own_numbers,
)
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.first_class import (
    COUNTS_OUT,
    MATRIX,
    NUMBERS,
    VECTOR_OUT,
    Compiled,
    Integers,
    address,
    at,
)

Array = npt.NDArray[np.float64]

MOVE = types.float64(NUMBERS, VECTOR_OUT, COUNTS_OUT, VECTOR_OUT, MATRIX, MATRIX, MATRIX, MATRIX, types.float64)
"""``move(own, storage, counts, scratch (capacity,), points (N, p), rows (N, R), gram (N, N), weights (N, C), shrink) ->
error`` adds the points to the shrunk function and keeps to the rule; it sets the order among the counts."""

move_at = at(MOVE)

MOVES = 1
"""Among the addresses that a step calls, that of the rule."""

REGULARIZATION, GRAM, BUDGET_SIZE, TASK, INSENSITIVITY = range(5)
"""The learner's own numbers: lambda, whether an explicit step wants the Gram matrix, and those of its rule."""


@njit(cache=True)
def step(
    tools: Integers,
    numbers: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gradients: Array,
    rates: Array,
    stiffness: Array,
    implicit: bool,
    sizes: Array,
    values: Array,
    targets: Array,
) -> float:
    """Take a step, as :meth:`~kernelswarm.agents.learners.baselines.kernel_descent.KernelDescent.step` does."""
    size, capacity = len(gradients), counts[CAPACITY]
    own = own_numbers(numbers)
    gram = table(scratch, capacity, size, size)
    if implicit or own[GRAM] > 0.0:
        kernel_at(tools[CROSS])(kernel_numbers(numbers), points, points, gram)
    weigh(gram, gradients, rates, stiffness, implicit)
    shrink = 1.0 - sizes[0] * own[REGULARIZATION]
    error: float = move_at(tools[MOVES])(own, storage, counts, scratch, points, rows, gram, gradients, shrink)
    counts[ROOM] = capacity - counts[ORDER]
    return error


@njit(cache=True)
def keep_all(
    own: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
) -> float:
    """Add the points."""
    inputs, outputs, capacity = points.shape[1], weights.shape[1], counts[CAPACITY]
    dictionary = table(storage, OWN, capacity, inputs)
    old = table(storage, OWN + capacity * inputs, capacity, outputs)
    counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
    return 0.0


@njit(cache=True)
def keep_newest(
    own: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
) -> float:
    """Add the points, and let the oldest go."""
    keep_all(own, storage, counts, scratch, points, rows, gram, weights, shrink)
    excess = counts[ORDER] - int(own[BUDGET_SIZE])
    return _let_go(storage, counts, scratch, points.shape[1], weights.shape[1], 0, excess) if excess > 0 else 0.0


@njit(cache=True)
def keep_largest(
    own: Array,
    storage: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
) -> float:
    """Add the points, and let the smallest go, one by one."""
    keep_all(own, storage, counts, scratch, points, rows, gram, weights, shrink)
    inputs, outputs, capacity = points.shape[1], weights.shape[1], counts[CAPACITY]
    old = table(storage, OWN + capacity * inputs, capacity, outputs)
    error = 0.0
    while counts[ORDER] > int(own[BUDGET_SIZE]):
        squares = line(scratch, 0, counts[ORDER])
        _ones(squares)
        squared_norms_in(old, squares, squares)
        error += _let_go(storage, counts, scratch, inputs, outputs, int(squares.argmin()), 1)
    return error


@njit(cache=True)
def _let_go(
    storage: Array, counts: Integers, scratch: Array, inputs: int, outputs: int, place: int, count: int
) -> float:
    capacity = counts[CAPACITY]
    dictionary = table(storage, OWN, capacity, inputs)
    old = table(storage, OWN + capacity * inputs, capacity, outputs)
    diagonal = line(scratch, 0, count)
    _ones(diagonal)
    error = drop_points(dictionary, old, counts[ORDER], place, count, diagonal)
    counts[ORDER] -= count
    return error


@njit(cache=True)
def _ones(values: Array) -> None:
    for k in range(len(values)):
        values[k] = 1.0


class CompiledDescent(CompiledExpansion):
    """What such a learner hands over to compiled rounds.

    Parameters
    ----------
    learner : KernelDescent
        The learner.
    move : function
        Its rule, with the signature MOVE.
    numbers : sequence of float
        The numbers of the rule, from `BUDGET_SIZE` on.
    gradient : function, optional
        The gradient, with the signature GRADIENT, where it is not the loss's derivatives.
    wants_gram : bool
        Whether the rule reads the Gram matrix of a step's points; it then works with any kernel.

    Raises
    ------
    NotCompiledError
        When the kernel hands nothing over, or kappa(x, x) is not 1 where the rule takes it for 1.
    """

    step = staticmethod(step)

    def __init__(
        self,
        learner: Any,
        move: Compiled,
        numbers: Sequence[float] = (),
        gradient: Compiled | None = None,
        wants_gram: bool = False,
    ) -> None:
        if not (wants_gram or handed_over(learner.kernel, "kernel").unit):
            raise NotCompiledError(f"the kernel {type(learner.kernel).__name__}, whose kappa(x, x) is not 1")
        own = [learner.regularization, float(wants_gram), *numbers]
        super().__init__(learner, own, (address(move, MOVE),))
        self._gradient = gradient

    @property
    def gradient(self) -> Compiled | None:
        """The gradient of the learner."""
        return self._gradient

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers that the rule works with, and those of the Gram matrix of a step's points."""
        return capacity + points * points
