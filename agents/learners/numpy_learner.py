"""Learners whose step is one numpy function, a "page": numba compiles it if possible, otherwise Python calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple, get_type_hints

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    DIAGONAL,
    GRADIENT,
    LOSS_DERIVATIVES,
    ORDER,
    ROOM,
    STEP,
    GradientArguments,
    StepArguments,
    diagonal_at,
    kernel_at,
    loss_derivatives_at,
)
from kernelswarm.agents.arithmetic.copying import copy_stretch
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import OWN, KernelSum, is_zero
from kernelswarm.agents.learners import calling
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import (
    CAPACITY,
    CROSS,
    STEP_RANGES,
    CompiledExpansion,
    DescentInSpace,
    LearnerState,
    Weighing,
    check_step,
    kernel_numbers,
    own_numbers,
    weigh,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import kernel_form, loss_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.core.addresses import NONE, Compiled, address, ready
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.core.pages import numbers_of, shapes_of, taking, where_refused, with_helpers

# A page receives and returns contiguous numpy arrays without spare capacity. The code around it, common to all pages,
# stores the state's arrays in one vector for compiled rounds, in the layout of `KernelSum.parts`.

DERIVATIVES, DIAGONALS = 1, 2
"""Indices, among the addresses that a step calls, of the loss's derivatives and of kappa(x, x)."""


class Kappa(NamedTuple):
    """The kernel of a step, as an argument of :func:`between` and :func:`squares`."""

    cross: int
    diagonal: int  # NONE if kappa(x, x) = 1
    numbers: Array


class At(NamedTuple):
    """The arguments of a step: N points, the first n of them the node's own samples."""

    points: Array
    """The points, (N, p); read-only."""
    rows: Array
    """The kernel between the points and the dictionary, (N, M)."""
    gram: Array
    """The kernel between the points, (N, N)."""
    weights: Array
    """The points' weights in a gradient step on loss and coupling, (N, C)."""
    pulls: Array
    """The coupling's part of these weights, (N, C): 0 without neighbours."""
    values: Array
    """f at the node's own samples, (n, C); read-only."""
    targets: Array
    """The targets of the own samples, (n, q); read-only."""
    eta: float
    """The step size."""
    shrink: float
    """1 - eta lambda; the state's weights are already multiplied by it."""
    lost: Array
    """(1,), initially 0: the Hilbert norm of the compression error, which ``move`` may increase."""
    constants: Array
    """Further numbers of the learner, (T,)."""
    kappa: Kappa
    """The kernel."""
    weighing: Weighing
    """What the weights are computed from, for a page that computes its own: gradients (N, C), rates, curvatures (N,)
    and whether the step is implicit."""


@cached_njit
def between(kappa: Kappa, points: Array, centers: Array) -> Array:
    """Return the kernel between points (n, p) and centers (m, p), (n, m)."""
    found = np.empty((len(points), len(centers)))
    kernel_at(kappa.cross)(kappa.numbers, points, centers, found)
    return found


@cached_njit
def squares(kappa: Kappa, points: Array) -> Array:
    """Return kappa(x, x) at points (n, p), (n,)."""
    found = np.ones(len(points))
    if kappa.diagonal != NONE:
        diagonal_at(kappa.diagonal)(kappa.numbers, points, found)
    return found


class Sum(NamedTuple):
    """The state of a page that consists of its function alone."""

    points: Array
    weights: Array


Move = Callable[[tuple[float, ...], Any, At], Any]
"""``move(keys, state, at) -> state`` of a page: its own keys in order, and the arrays of its dictionary."""


class PageSum(KernelSum):
    """A kernel sum with the arrays declared by a page's state."""

    def __init__(self, kernel: Kernel, inputs: int, outputs: int, parts: dict[str, str]) -> None:
        self.parts = parts  # type: ignore[misc]  # per instance; other sums have it per class
        super().__init__(kernel, inputs, outputs)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the contents for a copy."""
        return *super().__getstate__(), self.parts

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Restore the contents of a copy."""
        self.parts = state[-1]  # type: ignore[misc]
        super().__setstate__(state[:-1])


@dataclass(frozen=True)
class NumpyLearner(DescentInSpace):
    """A learner of kernel sums whose step is one numpy function, ``move``, written as in its paper.

    A subclass is a frozen dataclass. It defines ``State``, a NamedTuple of arrays that begins with ``points`` (M, p)
    and ``weights`` (M, C). Further arrays declare their dimensions, such as ``Annotated[Array, "MM"]``, by the letters
    M, p, C, L and digits. All arrays are initially 0, with M = 0. The function ``move(keys, state, at)`` returns the
    next state. ``keys`` are the subclass's own fields in order, and `At` describes the step. The weights in ``state``
    are already multiplied by ``1 - eta regularization``. The returned state has at most N more points.

    If the coefficients g of the samples are not the loss's derivatives, the subclass defines ``slopes(keys, at)``, or
    ``slopes(keys, state, at)``, which returns them, (n, C); there ``gram``, ``weights`` and ``pulls`` of ``at`` are
    empty. If ``rests`` is True, ``move`` is skipped in steps in which all points have the weight 0, and f only shrinks.

    If numba compiles ``move`` and ``slopes``, they run in compiled rounds, and the compiled code is cached on disk.
    Otherwise they are called in Python.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES
    State: ClassVar[Any] = Sum
    move: ClassVar[Any]
    slopes: ClassVar[Any] = None
    rests: ClassVar[bool] = False
    form: ClassVar[Any] = property(lambda self: CompiledPage)

    def __init_subclass__(cls) -> None:
        """Give each page its own property ``compiled``."""
        if "compiled" not in vars(cls):
            cls.compiled = property(_compiled)  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        check_step(self)

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers of the subclass's own fields."""
        return numbers_of(self, NumpyLearner)

    @property
    def extent(self) -> int:
        """L, a dimension of the state's arrays."""
        return 0

    def constants(self, state: Any) -> Array:
        """Return further numbers for the step, (T,)."""
        return np.zeros(0)

    @property
    def functions(self) -> Any:
        return self.form(self)

    @property
    def page(self) -> _Page:
        """The step and gradient built around ``move`` and ``slopes``."""
        return _page(self.move, self.slopes, self.State, len(self.keys), self.rests)

    def init(self, inputs: int, outputs: int) -> LearnerState[Any]:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        tuple(self.keys)  # refuses unresolved words before the first step
        return LearnerState(PageSum(self.kernel, inputs, outputs, _parts(self.State)))

    def gradient(self, state: LearnerState[PageSum], own: Evaluated, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C)."""
        if self.slopes is None:
            return super().gradient(state, own, targets)
        return calling.gradient(self, state, own, targets)

    step = calling.step


@cache
def _parts(state: Any) -> dict[str, str]:
    """Return the names of a state's arrays with their dimensions."""
    hints = get_type_hints(state)
    if [*hints][:2] != [*KernelSum.parts]:
        raise TypeError(f"{state.__name__} begins with {[*hints][:2]}: a state begins with points and weights")
    return shapes_of(state, "MpCL", KernelSum.parts)


# A page in compiled rounds.

_LETTERS = {"M": -1, "p": -2, "C": -3, "L": -4}


Sizes = tuple[int, int, int]
"""p, C and L."""


@inline_always
def _length(dimension: int, order: int, sizes: Sizes) -> int:
    """Return the length of a dimension: nonnegative numbers are lengths, negative ones stand for letters."""
    if dimension >= 0:
        return dimension
    return order if dimension == -1 else sizes[-2 - dimension]


@cache
def _reading(shapes: tuple[tuple[int, ...], ...]) -> Compiled:
    """Return ``read(storage, first, memory, free, order, capacity, sizes)``, copies of a state's arrays."""
    if not shapes:

        @cached_njit
        def nothing(
            storage: Array, first: int, memory: Array, free: int, order: int, capacity: int, sizes: Sizes
        ) -> tuple[()]:
            return ()

        return nothing
    rows, columns, rest = shapes[0][0], shapes[0][-1], _reading(shapes[1:])
    if len(shapes[0]) == 1:

        @cached_njit
        def read_vector(
            storage: Array, first: int, memory: Array, free: int, order: int, capacity: int, sizes: Sizes
        ) -> Any:
            found = line(memory, free, _length(rows, order, sizes))
            for i in range(len(found)):
                found[i] = storage[first + i]
            behind = first + _length(rows, capacity, sizes)
            return (found, *rest(storage, behind, memory, free + len(found), order, capacity, sizes))

        return read_vector

    @cached_njit
    def read_matrix(
        storage: Array, first: int, memory: Array, free: int, order: int, capacity: int, sizes: Sizes
    ) -> Any:
        height, width = _length(rows, capacity, sizes), _length(columns, capacity, sizes)
        size = _length(columns, order, sizes)
        found = table(memory, free, _length(rows, order, sizes), size)
        for i in range(len(found)):
            copy_stretch(found, i * size, storage, first + i * width, size, size)
        behind, free = first + height * width, free + len(found) * size
        return (found, *rest(storage, behind, memory, free, order, capacity, sizes))

    return read_matrix


@cache
def _writing(shapes: tuple[tuple[int, ...], ...], place: int = 0) -> Compiled:
    """Return ``write(storage, first, order, capacity, sizes, arrays)``, which stores a state's arrays."""
    if place == len(shapes):

        @cached_njit
        def nothing(storage: Array, first: int, order: int, capacity: int, sizes: Sizes, arrays: Any) -> None:
            pass

        return nothing
    rows, columns, rest = shapes[place][0], shapes[place][-1], _writing(shapes, place + 1)
    if len(shapes[place]) == 1:

        @cached_njit
        def write_vector(storage: Array, first: int, order: int, capacity: int, sizes: Sizes, arrays: Any) -> None:
            if len(arrays[place]) != _length(rows, order, sizes):
                raise ValueError(OTHER_SHAPE)
            for i in range(len(arrays[place])):
                storage[first + i] = arrays[place][i]
            rest(storage, first + _length(rows, capacity, sizes), order, capacity, sizes, arrays)

        return write_vector

    @cached_njit
    def write_matrix(storage: Array, first: int, order: int, capacity: int, sizes: Sizes, arrays: Any) -> None:
        height, width = _length(rows, capacity, sizes), _length(columns, capacity, sizes)
        wanted = _length(rows, order, sizes), _length(columns, order, sizes)
        if arrays[place].shape != wanted:
            raise ValueError(OTHER_SHAPE)
        (many, size), found = wanted, np.ascontiguousarray(arrays[place])
        for i in range(many):
            copy_stretch(storage, first + i * width, found, i * size, size, size)
        rest(storage, first + height * width, order, capacity, sizes, arrays)

    return write_matrix


COUNT, CONSTANTS, EXTENT, REGULARIZATION, KEYS = range(5)
"""Indices among a page's numbers: the counts of keys and constants, L, lambda, and the first key. The constants and the
loss's numbers follow the keys."""


@cached_njit
def _copied(rows: ReadOnly, memory: Array, free: int, order: int) -> Array:
    """Return the first columns of kernel rows, copied."""
    found = table(memory, free, len(rows), order)
    for n in range(len(rows)):
        for m in range(order):
            found[n, m] = rows[n, m]
    return found


@inline_always
def _free(size: int, capacity: int, outputs: int) -> int:
    """Return the offset of free memory after the arguments of a step on ``size`` points."""
    return 1 + size * (capacity + size + 3 * outputs)


@cached_njit
def _samples(given: StepArguments) -> GradientArguments:
    """Return the arguments of a gradient at the node's own samples, from the arguments of a step."""
    size = len(given.values)
    points, rows = table(given.points, 0, size, given.points.shape[1]), table(given.rows, 0, size, given.rows.shape[1])
    return GradientArguments(
        given.tools,
        given.numbers,
        given.storage,
        given.counts,
        given.scratch,
        points,
        rows,
        given.values,
        given.targets,
        given.sizes,
    )


@cached_njit
def _asked(given: GradientArguments) -> At:
    """Return the arguments of ``slopes``: those of a step without its gradients."""
    # Replayed points may follow the node's own samples.
    (size, outputs), inputs = given.values.shape, given.points.shape[1]
    own, nothing, none = own_numbers(given.numbers), table(given.scratch, 0, 0, 0), line(given.scratch, 0, 0)
    lost = line(given.scratch, 0, 1)
    lost[0] = 0.0
    return At(
        table(given.points, 0, size, inputs),
        _copied(given.rows, given.scratch, 1, given.counts[ORDER]),
        nothing,
        nothing,
        nothing,
        table(given.values, 0, size, outputs),
        table(given.targets, 0, size, given.targets.shape[1]),
        given.sizes[0],
        1.0 - given.sizes[0] * own[REGULARIZATION],
        lost,
        line(own, KEYS + int(own[COUNT]), int(own[CONSTANTS])),
        Kappa(given.tools[CROSS], given.tools[DIAGONALS], kernel_numbers(given.numbers)),
        Weighing(nothing, none, none, False),
    )


@cached_njit
def _at(given: StepArguments, asked: At, slopes: Array) -> At:
    """Return the arguments of a step from its gradients and the loss's part of them."""
    size, outputs = given.gradients.shape
    points, first = table(given.points, 0, size, given.points.shape[1]), 1 + size * given.counts[CAPACITY]
    gram, pulls = table(given.scratch, first, size, size), table(given.scratch, first + size * size, size, outputs)
    gradients = table(given.scratch, first + size * (size + outputs), size, outputs)
    rates, stiffness = line(given.rates, 0, size), line(given.stiffness, 0, size)
    kernel_at(asked.kappa.cross)(asked.kappa.numbers, points, points, gram)
    for n in range(size):
        for c in range(outputs):
            gradients[n, c] = given.gradients[n, c]
            pulls[n, c] = given.gradients[n, c] - (slopes[n, c] if n < len(slopes) else 0.0)
    weights = table(given.gradients, 0, size, outputs)
    weigh(gram, weights, given.rates, given.stiffness, given.implicit)
    weigh(gram, pulls, given.rates, given.stiffness, given.implicit)
    rows = _copied(given.rows, given.scratch, 1, given.counts[ORDER])
    return At(
        points,
        rows,
        gram,
        weights,
        pulls,
        asked.values,
        asked.targets,
        asked.eta,
        asked.shrink,
        asked.lost,
        asked.constants,
        asked.kappa,
        Weighing(gradients, rates, stiffness, given.implicit),
    )


@cached_njit
def _derivatives(keys: Any, before: Any, asked: At, given: StepArguments) -> Array:
    """Return the loss's derivatives at the samples."""
    size, outputs = given.gradients.shape
    own, first = own_numbers(given.numbers), _free(size, given.counts[CAPACITY], outputs) - size * outputs
    found, loss = table(given.scratch, first, len(given.values), outputs), KEYS + int(own[COUNT] + own[CONSTANTS])
    numbers = line(own, loss, len(own) - loss)
    loss_derivatives_at(given.tools[DERIVATIVES])(numbers, asked.values, asked.targets, found)
    return found


@cached_njit
def _shrunk(before: Any, at: At) -> Any:
    """Shrink the weights of a state, in place."""
    for m in range(len(before.weights)):
        for c in range(before.weights.shape[1]):
            before.weights[m, c] *= at.shrink
    return before


@cached_njit
def _fill(answer: Array, found: Array) -> None:
    """Copy the result of ``slopes``, after a check of its shape."""
    if answer.shape != found.shape:
        raise ValueError(OTHER_SLOPES)
    for n in range(len(found)):
        for c in range(found.shape[1]):
            found[n, c] = answer[n, c]


class _Page(NamedTuple):
    """Step and gradient around ``move`` and ``slopes``; if they are not compiled, ``obstacle`` is the reason."""

    step: Callable[[StepArguments], float]
    gradient: Any
    obstacle: str


@cache
def _page(move: Move, slopes: Any, state: Any, keys: int, rests: bool) -> _Page:
    """Compile a page with ``keys`` keys."""
    shapes = tuple(
        tuple(_LETTERS[each] if each in _LETTERS else int(each) for each in shape) for shape in _parts(state).values()
    )
    read, write, take = _reading(shapes), _writing(shapes), taking(keys, KEYS)

    @cached_njit
    def begin(given: GradientArguments, size: int) -> tuple[Any, Any, At]:
        order, capacity = given.counts[ORDER], given.counts[CAPACITY]
        own, outputs = own_numbers(given.numbers), given.values.shape[1]
        sizes, free = (given.points.shape[1], outputs, int(own[EXTENT])), _free(size, capacity, outputs)
        arrays = read(given.storage, OWN, given.scratch, free, order, capacity, sizes)
        return take(own), state(*arrays), _asked(given)

    @cached_njit
    def end(given: StepArguments, at: At, after: Any) -> float:
        counts, own = given.counts, own_numbers(given.numbers)
        if len(after[0]) > counts[ORDER] + len(given.points):
            raise ValueError(TOO_MANY)
        sizes = given.points.shape[1], given.gradients.shape[1], int(own[EXTENT])
        write(given.storage, OWN, len(after[0]), counts[CAPACITY], sizes, after)
        counts[ORDER], counts[ROOM] = len(after[0]), counts[CAPACITY] - len(after[0])
        lost: float = at.lost[0]
        return lost

    stateful = slopes is not None and len(inspect.signature(slopes).parameters) > SLOPES
    known = begin if stateful else take

    def around(move: Any, slopes: Any, finish: Callable[..., Any]) -> tuple[Any, Any]:
        """Return the step around ``move``, and the gradient around ``slopes``."""
        if slopes is None:
            return finish(_stepping(begin, end, move, _derivatives, rests)), None
        ask, gradient = _asking(slopes, known, stateful)
        return finish(_stepping(begin, end, move, finish(ask), rests)), finish(gradient)

    asked = None if slopes is None else cached_njit(with_helpers(slopes))
    step, gradient = around(cached_njit(with_helpers(move)), asked, cached_njit)
    try:
        ready(step, STEP)
        if gradient is not None:
            ready(gradient, GRADIENT)
    except ValueError as refusal:
        return _Page(*around(move, slopes, lambda function: function), where_refused(str(refusal.__cause__), move))
    return _Page(step, gradient, "")


SLOPES = 2
"""The number of parameters of ``slopes`` without the state."""


def _asking(slopes: Any, begin: Compiled, stateful: bool) -> tuple[Callable[..., Array], Callable[..., None]]:
    """Return the function that computes a page's own coefficients in a step, and the gradient around ``slopes``."""
    if stateful:

        def ask(keys: Any, before: Any, asked: At, given: StepArguments) -> Array:
            return slopes(keys, before, asked)  # type: ignore[no-any-return]

        def gradient(given: GradientArguments, found: Array) -> None:
            keys, before, asked = begin(given, len(given.points))
            _fill(slopes(keys, before, asked), found)

        return ask, gradient

    def ask_alone(keys: Any, before: Any, asked: At, given: StepArguments) -> Array:
        return slopes(keys, asked)  # type: ignore[no-any-return]

    def gradient_alone(given: GradientArguments, found: Array) -> None:
        _fill(slopes(begin(own_numbers(given.numbers)), _asked(given)), found)

    return ask_alone, gradient_alone


@cached_njit
def _has_rested(given: StepArguments) -> bool:
    """Shrink f and return True if all points have the weight 0; otherwise return False."""
    for n in range(len(given.gradients)):
        if not is_zero(given.gradients, n):
            return False
    inputs, outputs = given.points.shape[1], given.gradients.shape[1]
    weights = table(given.storage, OWN + given.counts[CAPACITY] * inputs, given.counts[ORDER], outputs)
    for m in range(len(weights)):
        for c in range(outputs):
            weights[m, c] *= 1.0 - given.sizes[0] * own_numbers(given.numbers)[REGULARIZATION]
    return True


def _stepping(begin: Compiled, end: Compiled, move: Any, asked: Any, rests: bool) -> Callable[[StepArguments], float]:
    """Return the step around ``move``."""

    def step(given: StepArguments) -> float:
        if rests and _has_rested(given):
            return 0.0
        keys, before, samples = begin(_samples(given), len(given.points))
        at = _at(given, samples, asked(keys, before, samples, given))
        return end(given, at, move(keys, _shrunk(before, at), at))  # type: ignore[no-any-return]

    return step


OTHER_SHAPE = "move returned an array of another shape than State says, with M the number of points that it returned"
OTHER_SLOPES = "slopes returned an array of another shape than that of the values: return a number for each of them"
TOO_MANY = "move returned more points than there were with the new ones: at most one enters for each that is given"


class CompiledPage(CompiledExpansion):
    """Functions and numbers of a page for compiled rounds."""

    def __init__(self, learner: NumpyLearner) -> None:
        loss, kernel, keys = loss_form(learner.loss), kernel_form(learner.kernel), learner.keys
        diagonal = NONE if kernel.diagonal is None else address(kernel.diagonal, DIAGONAL)
        super().__init__(learner, (), (address(loss.derivatives, LOSS_DERIVATIVES), diagonal))
        self._own, self._loss = np.array([len(keys), 0.0, learner.extent, learner.regularization, *keys]), loss.numbers

    @property
    def step(self) -> Compiled:
        """The function with the signature STEP."""
        return self._learner.page.step  # type: ignore[no-any-return]

    @property
    def gradient(self) -> Compiled | None:
        """The function with the signature GRADIENT; None if the page has no ``slopes``."""
        return None if self._learner.slopes is None else self._learner.page.gradient

    def numbers(self, state: Any) -> Array:
        """Return the numbers of the kernel, of the page and of its loss."""
        constants = self._learner.constants(state)
        self._own[CONSTANTS] = len(constants)
        return np.concatenate([self._numbers, self._own, constants, self._loss])

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the size, in numbers, of a step's arguments and a copy of the state."""
        return _free(points, capacity, state.function.outputs) + self.length(state, capacity)


def _compiled(learner: NumpyLearner) -> CompiledPage:
    """Return the page's functions for compiled rounds.

    Raises
    ------
    NotCompiledError
        If numba does not compile the page; the message names the line.
    """
    if learner.page.obstacle:
        raise NotCompiledError(f"the learner {type(learner).__name__} ({learner.page.obstacle})")
    return learner.form(learner)  # type: ignore[no-any-return]
