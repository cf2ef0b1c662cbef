"""A learner whose step is one page of numpy: what compiles runs in compiled rounds, what does not is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple, get_type_hints

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    ORDER,
    ROOM,
    STEP,
    StepArguments,
    kernel_at,
    loss_derivatives_at,
)
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum
from kernelswarm.agents.learners.contract import Evaluated, Info, together
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    joined,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import kernel_rows, loss_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.core.addresses import Compiled, address, ready
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.protocols.core.pages import numbers_of, shapes_of, taking, where_refused, with_helpers
from kernelswarm.ranges import Range, check_ranges

# What a page is given, and what it returns, is numpy's: arrays of its own, in memory of their own. Around it lies what
# compiled rounds need, once for all pages: the state's arrays lie in one vector as `KernelSum.parts` says.

DERIVATIVES = 1
"""Among the addresses that a step calls, that of the loss's derivatives."""


class At(NamedTuple):
    """What a step takes place at: N points, of which the first n are the node's own samples."""

    points: Array
    """The points, (N, p)."""
    rows: Array
    """The kernel between them and the dictionary, (N, M)."""
    gram: Array
    """The kernel between them, (N, N)."""
    weights: Array
    """What a step of gradient descent would give them, (N, C): the loss's part and the coupling's."""
    pulls: Array
    """The coupling's part of these weights, (N, C): 0 where the node is alone."""
    values: Array
    """f at the node's own samples, (n, C)."""
    targets: Array
    """Their targets, (n, q)."""
    eta: float
    """The size of the step."""


Move = Callable[[tuple[float, ...], Any, At], Any]
"""``move(keys, state, at) -> state`` of a page: its own keys in their order, and the arrays of its dictionary."""


class PageSum(KernelSum):
    """A kernel sum with the arrays that a page's state names."""

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, parts: dict[str, str]) -> None:
        self.parts = parts  # type: ignore[misc]  # its own, where those of other sums are their class's
        super().__init__(kernel, inputs, outputs)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.parts

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over the contents of a copy."""
        self.parts = state[-1]  # type: ignore[misc]
        super().__setstate__(state[:-1])


@dataclass(frozen=True)
class NumpyLearner(DescentInSpace):
    """A learner of kernel sums whose step is one function of arrays, ``move``, as its paper writes it.

    A subclass is a frozen dataclass. It names its ``State``, a NamedTuple of arrays that begins with ``points`` (M, p)
    and ``weights`` (M, C); further ones say their dimensions, ``Annotated[Array, "MM"]``, of M, p, C and digits. All
    are 0 at first, with M = 0. Its ``move(keys, state, at)`` returns the next state: ``keys`` are the subclass's own
    fields in their order, `At` says what the step is given. At most one point enters for each that is given.

    What numba compiles runs in compiled rounds, and is kept on the disk. What it does not compile is called in Python.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    batch_size: int = 1

    ranges: ClassVar = {"batch_size": Range("[1, inf)")}
    State: ClassVar[Any]
    move: ClassVar[Move]

    def __init_subclass__(cls) -> None:
        """Let each page have the property ``compiled`` of its own: what it computes is its own."""
        cls.compiled = property(_compiled)  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers of the subclass's own fields."""
        return numbers_of(self, NumpyLearner)

    @property
    def page(self) -> _Page:
        """The functions of ``move``."""
        return _page(type(self).move, self.State, len(self.keys))

    def init(self, inputs: int, outputs: int) -> LearnerState[PageSum]:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return LearnerState(PageSum(self.kernel, inputs, outputs, _parts(self.State)))

    def step(
        self,
        state: LearnerState[PageSum],
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take one step, as ``move`` says."""
        eta = self.eta(state) if eta is None else eta
        function, own = state.function, together(evaluations)
        gram = np.ascontiguousarray(kernel_rows(self.kernel, own.points, own.points))
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        values = np.array(own.values[: len(targets)])
        pulls = weights.copy()
        if len(targets):
            pulls[: len(targets)] -= self.loss.derivatives(values, targets)
        weigh(gram, weights, rates, stiffness, curvatures is not None)
        weigh(gram, pulls, rates, stiffness, curvatures is not None)
        at = At(np.array(own.points), np.array(own.rows), gram, weights, pulls, values, np.array(targets), eta)
        before = self.State(*(np.array(part) for part in function.used()))
        after = self.page.move(self.keys, before, at)
        if len(after[0]) > function.order + len(own.points):
            raise ValueError(TOO_MANY)
        function.reserve(len(own.points))
        function.order = len(after[0])
        if any(part.shape != np.shape(values) for part, values in zip(function.used(), after, strict=True)):
            raise ValueError(OTHER_SHAPE)
        for part, values in zip(function.used(), after, strict=True):
            part[:] = values
        state.steps += 1
        return Info(0.0, eta)


@cache
def _parts(state: Any) -> dict[str, str]:
    """Return the names of a state's arrays with their dimensions."""
    hints = get_type_hints(state)
    if [*hints][:2] != [*KernelSum.parts]:
        raise TypeError(f"{state.__name__} begins with {[*hints][:2]}: a state begins with points and weights")
    return shapes_of(state, "MpC", KernelSum.parts)


# A page in compiled rounds.

_LETTERS = {"M": -1, "p": -2, "C": -3}


@inline_always
def _length(dimension: int, order: int, inputs: int, outputs: int) -> int:
    """Return the length of a dimension, which is a number or stands for a letter."""
    if dimension >= 0:
        return dimension
    return order if dimension == -1 else inputs if dimension == -2 else outputs


def _reading(shapes: tuple[tuple[int, ...], ...]) -> Compiled:
    """Return ``read(storage, first, order, capacity, inputs, outputs)``, copies of a state's arrays as a tuple."""
    if not shapes:

        @cached_njit
        def nothing(storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int) -> tuple[()]:
            return ()

        return nothing
    rows, columns, rest = shapes[0][0], shapes[0][-1], _reading(shapes[1:])
    if len(shapes[0]) == 1:

        @cached_njit
        def read_vector(storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int) -> Any:
            found = line(storage, first, _length(rows, order, inputs, outputs)).copy()
            behind = first + _length(rows, capacity, inputs, outputs)
            return (found, *rest(storage, behind, order, capacity, inputs, outputs))

        return read_vector

    @cached_njit
    def read_matrix(storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int) -> Any:
        height, width = _length(rows, capacity, inputs, outputs), _length(columns, capacity, inputs, outputs)
        found = np.empty((_length(rows, order, inputs, outputs), _length(columns, order, inputs, outputs)))
        for i in range(len(found)):
            for k in range(found.shape[1]):
                found[i, k] = storage[first + i * width + k]
        return (found, *rest(storage, first + height * width, order, capacity, inputs, outputs))

    return read_matrix


def _writing(shapes: tuple[tuple[int, ...], ...], place: int = 0) -> Compiled:
    """Return ``write(storage, first, order, capacity, inputs, outputs, arrays)``, which puts a state's arrays back."""
    if place == len(shapes):

        @cached_njit
        def nothing(
            storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int, arrays: Any
        ) -> None:
            pass

        return nothing
    rows, columns, rest = shapes[place][0], shapes[place][-1], _writing(shapes, place + 1)
    if len(shapes[place]) == 1:

        @cached_njit
        def write_vector(
            storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int, arrays: Any
        ) -> None:
            if len(arrays[place]) != _length(rows, order, inputs, outputs):
                raise ValueError(OTHER_SHAPE)
            for i in range(len(arrays[place])):
                storage[first + i] = arrays[place][i]
            rest(storage, first + _length(rows, capacity, inputs, outputs), order, capacity, inputs, outputs, arrays)

        return write_vector

    @cached_njit
    def write_matrix(
        storage: Array, first: int, order: int, capacity: int, inputs: int, outputs: int, arrays: Any
    ) -> None:
        height, width = _length(rows, capacity, inputs, outputs), _length(columns, capacity, inputs, outputs)
        wanted = _length(rows, order, inputs, outputs), _length(columns, order, inputs, outputs)
        if arrays[place].shape != wanted:
            raise ValueError(OTHER_SHAPE)
        for i in range(arrays[place].shape[0]):
            for k in range(arrays[place].shape[1]):
                storage[first + i * width + k] = arrays[place][i, k]
        rest(storage, first + height * width, order, capacity, inputs, outputs, arrays)

    return write_matrix


@cached_njit
def _copied(matrix: Array, columns: int) -> Array:
    """Return the first columns of a matrix in memory of their own."""
    found = np.empty((len(matrix), columns))
    for i in range(len(matrix)):
        for k in range(columns):
            found[i, k] = matrix[i, k]
    return found


@cached_njit
def _at(given: StepArguments, loss_numbers: Array) -> At:
    """Return what a step is given, as a page wants it."""
    size, outputs = given.gradients.shape
    points = _copied(given.points, given.points.shape[1])
    weights, pulls = _copied(given.gradients, outputs), _copied(given.gradients, outputs)
    values, targets = _copied(given.values, outputs), _copied(given.targets, given.targets.shape[1])
    gram, slopes = np.empty((size, size)), np.empty((len(values), outputs))
    kernel_at(given.tools[CROSS])(kernel_numbers(given.numbers), points, points, gram)
    loss_derivatives_at(given.tools[DERIVATIVES])(loss_numbers, values, targets, slopes)
    for n in range(len(slopes)):
        for c in range(outputs):
            pulls[n, c] -= slopes[n, c]
    weigh(gram, weights, given.rates, given.stiffness, given.implicit)
    weigh(gram, pulls, given.rates, given.stiffness, given.implicit)
    rows = _copied(given.rows, given.counts[ORDER])
    return At(points, rows, gram, weights, pulls, values, targets, given.sizes[0])


class _Page(NamedTuple):
    """A page's functions: ``move``, compiled where that can be, and the step around it or why there is none."""

    move: Move
    step: Compiled | None
    obstacle: str


@cache
def _page(move: Move, state: Any, keys: int) -> _Page:
    """Compile a page with so many keys."""
    parts = _parts(state)
    shapes = tuple(
        tuple(_LETTERS[each] if each in _LETTERS else int(each) for each in shape) for shape in parts.values()
    )
    read, write, take = _reading(shapes), _writing(shapes), taking(keys)
    compiled = cached_njit(with_helpers(move))

    @cached_njit
    def step(given: StepArguments) -> float:
        storage, counts, own = given.storage, given.counts, own_numbers(given.numbers)
        order, capacity = counts[ORDER], counts[CAPACITY]
        inputs, outputs = given.points.shape[1], given.gradients.shape[1]
        before = state(*read(storage, OWN, order, capacity, inputs, outputs))
        after = compiled(take(own), before, _at(given, line(own, 1 + keys, len(own) - 1 - keys)))
        if len(after[0]) > order + len(given.points):
            raise ValueError(TOO_MANY)
        write(storage, OWN, len(after[0]), capacity, inputs, outputs, after)
        counts[ORDER], counts[ROOM] = len(after[0]), capacity - len(after[0])
        return 0.0

    try:
        ready(step, STEP)
    except ValueError as refusal:
        return _Page(move, None, where_refused(str(refusal.__cause__), move))
    return _Page(compiled, step, "")


OTHER_SHAPE = "move returned an array of another shape than State says, with M the number of points that it returned"
TOO_MANY = "move returned more points than there were with the new ones: at most one enters for each that is given"


class CompiledPage(CompiledExpansion):
    """A page's functions and numbers for compiled rounds."""

    def __init__(self, learner: NumpyLearner, step: Compiled) -> None:
        loss = loss_form(learner.loss)
        numbers = np.concatenate([[float(len(learner.keys))], learner.keys, loss.numbers])
        super().__init__(learner, numbers, (address(loss.derivatives, LOSS_DERIVATIVES),))
        self.step = step

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return 1: a page's arrays have memory of their own."""
        return 1


def _compiled(learner: NumpyLearner) -> CompiledPage:
    """Return the page's functions for compiled rounds.

    Raises
    ------
    NotCompiledError
        numba does not compile it; the text has the line.
    """
    page = learner.page
    if page.step is None:
        raise NotCompiledError(f"the learner {type(learner).__name__} ({page.obstacle})")
    return CompiledPage(learner, page.step)
