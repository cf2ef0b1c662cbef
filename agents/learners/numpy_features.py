"""Learners on fixed features whose step is one numpy function, a "page", which numba compiles for compiled rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple, get_type_hints

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    INNER,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    PLACE,
    STEP,
    StepArguments,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.cosines import CosineFunction, cosines
from kernelswarm.agents.functions.kernel_sum import combine, combine_into
from kernelswarm.agents.learners import calling
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, LearnerState, check_step
from kernelswarm.agents.learners.linear_in_features import FEATURES, CompiledVector, descend, features_at, gram_of
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.core.addresses import Compiled, address, ready
from kernelswarm.protocols.core.callbacks import array_of
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.core.fields import LETTERS, views
from kernelswarm.protocols.core.pages import keeping, taking, where_refused, with_helpers
from kernelswarm.protocols.parameters.contract import in_vector, packed

# The counterpart of `numpy_learner`: there the dictionary grows; here the arrays of a state have fixed sizes.

EVALUATES, VALUES, DERIVATIVES = range(3)
"""Indices among the addresses that a page calls: the features, the loss and its derivatives."""

UNIT, BATCH_SIZE, COUNT, LOSS, MAPPING, FIRST = range(6)
"""Indices among the numbers: the unit of the rows, the batch size, the number of features, the indices of the first
number of the loss and of the features, and the page's first key. The lengths of the dimensions follow the keys."""


class At(NamedTuple):
    """The arguments of a step: N points, the first n of them the node's own samples."""

    features: Array
    """The features of the points, (N, F)."""
    gradients: Array
    """The derivatives of loss plus coupling at the points, (N, C)."""
    rates: Array
    """The step size divided by the number of points in each point's set, (N,)."""
    stiffness: Array
    """The curvatures, (N,)."""
    implicit: bool
    """Whether the terms with curvatures are taken at the new function."""
    slopes: Array
    """The loss's derivatives at the node's own samples, (n, C)."""
    values: Array
    """f at the node's own samples, (n, C)."""
    targets: Array
    """The targets of the own samples, (n, q)."""
    part: float
    """The own samples' share of a full batch, at most 1."""
    eta: float
    """The step size."""
    tools: Integers
    """Addresses, used by `losses` and `derivatives`."""
    loss: Array
    """The loss's numbers, used by `losses` and `derivatives`."""


@cached_njit
def losses(at: At, values: Array) -> Array:
    """Compute the losses, (n,), of a function with these values at the own samples, (n, C)."""
    found = np.empty(len(values))
    loss_values_at(at.tools[VALUES])(at.loss, values, at.targets, found)
    return found


@cached_njit
def derivatives(at: At, values: Array) -> Array:
    """Compute the loss's derivatives at these values, (n, C)."""
    found = np.empty(values.shape)
    loss_derivatives_at(at.tools[DERIVATIVES])(at.loss, values, at.targets, found)
    return found


@cached_njit
def combined(features: Array, weights: Array) -> Array:
    """Compute ``Z theta``, the values (n, C) of a function with weights (L, C) at points with features (n, L)."""
    found = np.empty((len(features), weights.shape[1]))
    combine_into(features, weights, len(weights), found)
    return found


@cached_njit
def products(features: Array) -> Array:
    """Compute ``Z Z'`` of features (n, L)."""
    gram = np.empty((len(features), len(features)))
    gram_of(features, features.shape[1], gram)
    return gram


@cached_njit
def descended(at: At, weights: Array, features: Array, gradients: Array, regularization: float, scale: float) -> Array:
    """Return the weights (L, C) of features (N, L) after a step of size ``scale eta`` along gradients (N, C)."""
    found, size, shrink = weights.copy(), len(features), 1.0 - scale * at.eta * regularization
    rates = scale * at.rates
    pulled = gradients.copy()
    descend(found, np.empty((size, size)), features, pulled, rates, at.stiffness, at.implicit, shrink, len(found))
    return found


class PageState(LearnerState[CosineFunction]):
    """A function, the arrays of a page, which begin with the function's weights, and the number of steps.

    Parameters
    ----------
    function : CosineFunction
        The function.
    arrays : NamedTuple
        The page's State, copied.
    """

    __slots__ = ("arrays", "storage")

    def __init__(self, function: CosineFunction, arrays: Any) -> None:
        super().__init__(function)
        self.arrays = arrays
        self.move_to(packed(arrays))

    def __getstate__(self) -> tuple[CosineFunction, Any, int]:
        """Return the contents for a copy, whose arrays must lie in its own vector."""
        return self.function, self.arrays, self.steps

    def __setstate__(self, state: tuple[CosineFunction, Any, int]) -> None:
        """Restore the contents of a copy."""
        function, arrays, steps = state
        self.__init__(function, arrays)  # type: ignore[misc]
        self.steps = steps

    def move_to(self, storage: Array) -> None:
        """Make the arrays views of a vector that already holds their numbers."""
        self.storage = storage
        self.arrays = in_vector(self.arrays, storage)
        self.function.coefficients = self.arrays[0]


@dataclass(frozen=True)
class NumpyFeatures(Descent):
    """A learner on random features whose step is one numpy function, ``move``, written as in its paper.

    A subclass is a frozen dataclass. It defines ``State``, a NamedTuple of arrays of fixed sizes that declare their
    dimensions by letters, such as ``Annotated[Array, "EL"]``, and begin with the function's weights, "FC". ``init``
    returns the `PageState` of the initial arrays. ``move(keys, state, at)`` returns the next state; `At` describes the
    step. ``felt(keys, state, features)`` returns the change of f at each point for a weight of 1 at each point, (n, n).
    ``move`` may fill the state's arrays in place. For protocols that exchange weights, the subclass also defines
    ``placed(keys, state, weights)``, which returns the state of the function with these weights, given as a vector.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1

    ranges: ClassVar = STEP_RANGES
    State: ClassVar[Any]
    move: ClassVar[Callable[..., Any]]
    felt: ClassVar[Callable[..., Array]]
    placed: ClassVar[Callable[..., Any] | None] = None

    def __init_subclass__(cls) -> None:
        """Give each page its own property ``compiled``."""
        cls.compiled = property(_compiled)  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        check_step(self)

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers passed to the page's functions."""
        return ()

    @property
    def unit(self) -> float:
        """The factor by which the function's features are multiplied for the page."""
        return 1.0

    @property
    def linear(self) -> bool:
        """False, because a step may change more than the weights of features."""
        return False

    @property
    def functions(self) -> CompiledPage:
        return CompiledPage(self)

    @property
    def page(self) -> _Page:
        """The functions of the page."""
        kind = type(self)
        return _page((kind.move, kind.felt, kind.placed), self.State, len(self.keys))

    def evaluate(self, state: PageState, points: Array) -> Evaluated:
        """Evaluate the current function at ``points`` (n, p); the rows are the features times ``unit``."""
        rows = state.function.features(points)
        values = combine(rows, state.function.coefficients)
        rows *= self.unit
        return Evaluated(points, rows, values)

    def inner(self, state: PageState, at: Evaluated) -> Array:
        """Return the change of f at each point for a weight of 1 at each point, computed by ``felt``, (n, n)."""
        tools, numbers = self._handed(state)
        rows, gram = np.require(at.rows, requirements=["C", "W"]), np.empty((len(at.rows), len(at.rows)))
        self.page.inner(tools, numbers, state.storage, tools, at.points, rows, at.values, gram)
        return gram

    step = calling.step

    def put(self, state: PageState, weights: Array) -> None:
        """Set a state to the function with these weights, by ``placed``."""
        place = self.page.place
        assert place is not None
        place(self.numbers(state), state.storage, np.ascontiguousarray(weights).reshape(-1))

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return CosineFunction(arrays["frequencies"], arrays["phases"], arrays["weights"])

    def snapshot(self, state: PageState) -> dict[str, Array]:
        """Return ``state``, the vector of the state, and the number of ``steps``."""
        return {"state": state.storage.copy(), "steps": np.array(float(state.steps))}

    def restore(self, state: PageState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.storage[:] = arrays["state"]
        state.steps = int(arrays["steps"])

    def numbers(self, state: PageState) -> Array:
        """Return the numbers of the page, its loss and its features, for compiled steps."""
        keys, lengths, loss = self.keys, _lengths(state.arrays), loss_form(self.loss).numbers
        behind = FIRST + len(keys) + len(lengths)
        own = [self.unit, self.batch_size, state.function.order, behind, behind + len(loss), *keys, *lengths]
        features = state.function.phases, state.function.frequencies.reshape(-1)
        return np.concatenate([np.array(own, dtype=np.float64), loss, *features])

    def _handed(self, state: PageState) -> tuple[Integers, Array]:
        return array_of(_tools(self.loss)), self.numbers(state)


def _tools(loss: Loss) -> tuple[int, ...]:
    """Return the addresses that a page calls."""
    form = loss_form(loss)
    return (
        address(cosines, FEATURES),
        address(form.values, LOSS_VALUES),
        address(form.derivatives, LOSS_DERIVATIVES),
    )


def _letters(state: Any) -> tuple[list[tuple[int, ...]], list[str]]:
    """Return the dimensions of a state's arrays as indices into the list of all letters, and that list."""
    hints = get_type_hints(state, include_extras=True)
    shapes = ["".join(getattr(hint, "__metadata__", ())) for hint in hints.values()]
    letters = sorted(set("".join(shapes)))
    if not all(shapes) or shapes[0] != "FC" or len(letters) > len(LETTERS):
        raise TypeError(
            f"{state.__name__} has the dimensions {shapes}: say them by letters and digits, six at most, such as "
            'Annotated[Array, "EL"], and begin with the weights of the function, "FC"'
        )
    return [tuple(map(letters.index, shape)) for shape in shapes], letters


def _lengths(arrays: Any) -> list[int]:
    """Return the lengths of the dimensions of a state's arrays, in the order of their letters, then zeros."""
    shapes, letters = _letters(type(arrays))
    found = [int(letter) if letter.isdigit() else 0 for letter in letters]
    for shape, array in zip(shapes, arrays, strict=True):
        for place, length in zip(shape, array.shape, strict=True):
            if found[place] not in (0, length):
                raise ValueError(
                    f"{type(arrays).__name__} has {letters[place]} = {found[place]} in one array, {length} in another"
                )
            found[place] = length
    return found + [0] * (len(LETTERS) - len(found))


# A page in compiled rounds.


@cached_njit
def evaluate(
    tools: Integers, numbers: Array, storage: Array, counts: Integers, points: Array, rows: Array, values: Array
) -> None:
    """Compute the features of points and the values of f; the features are then multiplied by the page's unit."""
    first = int(numbers[MAPPING])
    features_at(tools[EVALUATES])(line(numbers, first, len(numbers) - first), points, rows)
    combine_into(rows, table(storage, 0, int(numbers[COUNT]), values.shape[1]), int(numbers[COUNT]), values)
    for n in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[n, k] *= numbers[UNIT]


OTHER_SHAPE = "the page returned an array of another shape than that of its state"


@cached_njit
def copied(rows: ReadOnly, columns: int) -> Array:
    """Return a copy of the first columns of a matrix."""
    found = np.empty((len(rows), columns))
    for n in range(len(rows)):
        for k in range(columns):
            found[n, k] = rows[n, k]
    return found


@cached_njit
def _at(given: StepArguments) -> At:
    """Return a step's arguments in the form for pages."""
    numbers, size, (seen, outputs) = given.numbers, len(given.points), given.values.shape
    first, batch_size = int(numbers[LOSS]), numbers[BATCH_SIZE]
    loss = line(numbers, first, int(numbers[MAPPING]) - first).copy()
    values, targets = copied(given.values, outputs), copied(given.targets, given.targets.shape[1])
    slopes = np.empty((seen, outputs))
    loss_derivatives_at(given.tools[DERIVATIVES])(loss, values, targets, slopes)
    return At(
        copied(given.rows, int(numbers[COUNT])),
        copied(given.gradients, outputs),
        line(given.rates, 0, size).copy(),
        line(given.stiffness, 0, size).copy(),
        given.implicit,
        slopes,
        values,
        targets,
        1.0 if seen >= batch_size else seen / batch_size,
        given.sizes[0],
        line(given.tools, 0, len(given.tools)).copy(),
        loss,
    )


class _Page(NamedTuple):
    """The functions around a page's own; if they are not compiled, ``obstacle`` is the reason."""

    obstacle: str
    step: Compiled
    inner: Compiled
    place: Compiled | None


@cache
def _page(page: tuple[Any, ...], state: Any, keys: int) -> _Page:
    """Compile a page with ``keys`` keys."""
    compiled = [each and cached_njit(with_helpers(each)) for each in page]
    found = [each and cached_njit(each) for each in _around(compiled, state, keys)]
    try:
        for function, signature in zip(found, (STEP, INNER, PLACE), strict=True):
            if function is not None:
                ready(function, signature)
    except ValueError as refusal:
        return _Page(where_refused(str(refusal.__cause__), page[0]), *_around(page, state, keys))
    return _Page("", *found)


def _around(page: Sequence[Any], state: Any, keys: int) -> list[Any]:
    """Return a page's step, inner and place functions with the signatures of compiled rounds."""
    move, felt, placed = page
    shapes, _ = _letters(state)
    layout = ",".join("".join(LETTERS[place] for place in shape) for shape in shapes)
    keep, take = keeping(layout, OTHER_SHAPE), taking(keys, 0)

    @cached_njit
    def keys_and_state(numbers: Array, storage: Array) -> Any:
        n = line(numbers, FIRST + keys, len(LETTERS))
        sizes = int(n[0]), int(n[1]), int(n[2]), int(n[3]), int(n[4]), int(n[5])
        return take(line(numbers, FIRST, keys)), sizes, state(*views(storage, sizes, layout))

    @inline_always
    def all_of(numbers: Array) -> Array:  # gives numba the same type in all functions
        return line(numbers, 0, len(numbers))

    def step(given: StepArguments) -> float:
        storage = all_of(given.storage)
        own, sizes, before = keys_and_state(all_of(given.numbers), storage)
        keep(storage, sizes, move(own, before, _at(given)))
        return 0.0

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
        own, _, now = keys_and_state(all_of(numbers), all_of(storage))
        gram[:] = felt(own, now, copied(rows, int(numbers[COUNT])))

    def place(numbers: Array, storage: Array, weights: Array) -> None:
        own, sizes, before = keys_and_state(all_of(numbers), all_of(storage))
        keep(all_of(storage), sizes, placed(own, before, line(weights, 0, len(weights)).copy()))

    return [step, inner, placed and place]


class CompiledPage(CompiledVector):
    """Functions and numbers of a page for compiled rounds."""

    evaluate = staticmethod(evaluate)
    gradient = None

    def __init__(self, learner: NumpyFeatures) -> None:
        super().__init__(learner)
        self.tools = _tools(learner.loss)
        self.step, self.inner = learner.page.step, learner.page.inner

    def numbers(self, state: Any) -> Array:
        found: Array = self._learner.numbers(state)
        return found

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return 1: a page allocates its own arrays."""
        return 1


class PlacedPage(CompiledPage):
    """The same for pages whose weights are set by protocols that exchange weights."""

    @property
    def place(self) -> Compiled:
        found: Compiled = self._learner.page.place
        return found


def _compiled(learner: NumpyFeatures) -> CompiledPage:
    """Return the page's functions and numbers for compiled rounds.

    Raises
    ------
    NotCompiledError
        If numba does not compile the page; the message names the line.
    """
    if learner.page.obstacle:
        raise NotCompiledError(f"the learner {type(learner).__name__} ({learner.page.obstacle})")
    return CompiledPage(learner) if learner.placed is None else PlacedPage(learner)
