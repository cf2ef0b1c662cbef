"""Protocols of vectors as numpy functions, a "page": numba compiles them if possible, otherwise Python calls them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError
from kernelswarm.protocols.contract import Step
from kernelswarm.protocols.core.addresses import Compiled, ready
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.core.fields import LETTERS, length, put, views
from kernelswarm.protocols.core.pages import keeping, numbers_of, shapes_of, taking, where_refused, with_helpers
from kernelswarm.protocols.parameters.contract import (
    PHASE,
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    Received,
    Samples,
    Vectors,
)

LONG_LOOPS = True

Move = Callable[..., Any]
"""A function of a page."""


class Seen(NamedTuple):
    """The samples of a node's round, as an argument of a page's functions."""

    stepped: Array
    """The weights after the learner's step on the samples, (L, C); (0, C) if the page needs no step."""
    features: ReadOnly
    """(n, L)."""
    targets: ReadOnly
    """(n, q)."""
    lambdas: ReadOnly
    """The learner's regularization of each feature, (L,)."""
    eta: float
    """The learner's step size."""
    batch_size: int
    """The number of samples in a full batch."""


class Page(NamedTuple):
    """A protocol as functions of arrays; each function may write to the arrays of its argument ``state``.

    Attributes
    ----------
    state : type
        A NamedTuple whose first field is the weights of the node's function. Arrays declare their dimensions by letters
        and digits, ``Annotated[Array, "LC"]``: L features, C outputs, d neighbours, M sums of least squares, n sent
        numbers. If d is not used, E stands for one further length. A float field is a number.
    sent : str
        The field that is sent to all neighbours.
    receive : callable
        ``receive(keys, state, received, samples) -> state`` ends a round. `Received` has flat vectors.
    adapt : callable, optional
        ``adapt(keys, state, samples) -> state`` is called before a node sends.
    adapt_steps, receive_steps : str
        The field from which the learner steps to ``samples.stepped`` in ``adapt`` or ``receive``; empty for no step.
    combine : callable, optional
        A function like ``receive`` that is called before the learner's step.
    """

    state: Any
    sent: str
    receive: Move
    adapt: Move | None = None
    adapt_steps: str = ""
    receive_steps: str = ""
    combine: Move | None = None


@dataclass(frozen=True)
class NumpyVectors(Vectors):
    """A protocol of vectors whose rounds are numpy functions, written as in its paper.

    A subclass is a frozen dataclass with ``begin``, which returns a node's first state, and a `Page`. The functions'
    ``keys`` are the subclass's own fields in order, as numbers; a subclass with words among them overrides ``keys``.

    If numba compiles the functions, they run in compiled rounds, and the compiled code is cached on disk. Otherwise
    they are called in Python.
    """

    step: ClassVar[Step] = "implicit"
    page: ClassVar[Any]
    """A `Page`, or a property with one."""

    def __init_subclass__(cls) -> None:
        """Give each class with a page its own property ``compiled``."""
        if "page" in vars(cls):
            cls.compiled = property(compiled_page)  # type: ignore[attr-defined]

    @property
    def keys(self) -> tuple[float, ...]:
        """The numbers passed to the page's functions."""
        return numbers_of(self, NumpyVectors)

    @property
    def moves(self) -> "Moves":
        """The page's functions, compiled if possible."""
        return _moves(self.page, len(self.keys))

    def adapt(self, state: Any, samples: Samples) -> Any:
        """Return a node's state after it has used its samples, before it sends."""
        adapt, steps = self.moves.adapt, self.page.adapt_steps
        return state if adapt is None else self._after(adapt, _copied(state), steps, samples)

    def send(self, state: Any) -> Array:
        """Return the vector that is sent to all neighbours."""
        sent: Array = getattr(state, self.page.sent).reshape(-1)
        return sent

    def receive(self, state: Any, received: Received, samples: Samples) -> Any:
        """Return a node's state at the end of the round."""
        moves, state = self.moves, _copied(state)
        received = Received(*map(np.ascontiguousarray, received))
        if moves.combine is not None:
            state = self._after(moves.combine, state, "", samples, received)
        return self._after(moves.receive, state, self.page.receive_steps, samples, received)

    def weights(self, state: Any) -> Array:
        """Return the weights of the node's function."""
        weights: Array = state.weights
        return weights

    def _after(self, move: Move, state: Any, steps: str, samples: Samples, *received: Received) -> Any:
        """Return the state after a function of the page, which may overwrite the given state."""
        shapes = [np.shape(each) for each in state]
        stepped = samples.descend(getattr(state, steps)) if steps else state.weights[:0]
        whole = np.ascontiguousarray
        seen = whole(stepped), whole(samples.features), whole(samples.targets), whole(samples.lambdas)
        after = move(self.keys, state, *received, Seen(*seen, samples.eta, samples.batch_size))
        if [np.shape(each) for each in after] != shapes:
            raise ValueError(OTHER_SHAPE)
        return after


def _copied(state: Any) -> Any:
    """Return a copy of a state."""
    return type(state)(*(np.array(each, order="C") if isinstance(each, np.ndarray) else each for each in state))


def compiled_page(rule: NumpyVectors) -> CompiledParameterRule:
    """Return the page's functions and numbers for compiled rounds.

    Raises
    ------
    NotCompiledError
        If numba does not compile it; the message names the line.
    """
    moves = rule.moves
    if moves.phases is None:
        raise NotCompiledError(f"the protocol {type(rule).__name__} ({moves.obstacle})")
    adapt, receive = moves.phases
    return CompiledParameterRule(receive, rule.page.sent, np.array(rule.keys), adapt)


# The vector of a node's state: the arrays of the page's state, one behind the other.

OTHER_SHAPE = "a page returned an array of another shape than its state says"
OTHER_LENGTH = "begin returned arrays of other shapes than the page's state says"


class Moves(NamedTuple):
    """A page's functions, compiled if possible, and the phases around them, or the reason why there are none."""

    adapt: Move | None
    combine: Move | None
    receive: Move
    phases: tuple[CompiledPhase | None, CompiledPhase] | None
    obstacle: str


@cache
def _moves(page: Page, keys: int) -> Moves:
    """Compile a page with ``keys`` keys."""
    parts = _fields(page)
    layout, take = ",".join(parts.values()), taking(keys, 0)
    compiled: dict[Any, Move] = {
        move: cached_njit(with_helpers(move)) for move in (page.adapt, page.combine, page.receive) if move
    }
    phases: dict[Any, Compiled] = {
        move: _phase(page.state, layout, take, compiled[move], move is not page.adapt, bool(steps))
        for move, steps in ((page.adapt, page.adapt_steps), (page.combine, ""), (page.receive, page.receive_steps))
        if move
    }
    for move, phase in phases.items():
        try:
            ready(phase, PHASE)
        except ValueError as refusal:
            obstacle = where_refused(str(refusal.__cause__), move)
            return Moves(page.adapt, page.combine, page.receive, None, obstacle)
    names = [*parts]
    starts = [
        _start(layout, names.index(steps), phases.get(before)) if steps else None
        for steps, before in ((page.adapt_steps, None), (page.receive_steps, page.combine))
    ]
    adapt = CompiledPhase(phases[page.adapt], starts[0]) if page.adapt else None
    both = adapt, CompiledPhase(phases[page.receive], starts[1])
    return Moves(compiled.get(page.adapt), compiled.get(page.combine), compiled[page.receive], both, "")


def _fields(page: Page) -> dict[str, str]:
    """Return the names of a page's arrays with their dimensions.

    Raises
    ------
    TypeError
        If the weights are not the first field, or the page names a missing field.
    """
    state, found = page.state.__name__, shapes_of(page.state, LETTERS, {}, numbers=True)
    if next(iter(found.items())) != ("weights", "LC"):
        raise TypeError(f'{state} begins with {next(iter(found))}: a state begins with weights: Annotated[Array, "LC"]')
    for name in (page.sent, page.adapt_steps or page.sent, page.receive_steps or page.sent):
        if name not in found:
            raise TypeError(f"{state} has no field {name}: name one of {', '.join(found)}")
    if page.combine and not page.receive_steps:
        raise TypeError("combine comes before a step: name receive_steps, or let receive do it")
    return found


@inline_always
def _measure(given: PhaseArguments, layout: str) -> tuple[int, int, int, int, int, int]:
    """Return the lengths of a layout's letters; they are divided as floats, which is faster than integer division."""
    features, width = len(given.lambdas), given.vectors.shape[1]
    outputs = int(len(given.weights) / features)
    sums = features * (features + 1) // 2 + features * outputs + 1
    fixed = length((0, features, outputs, sums, width, 0), layout)
    each = max(length((1, features, outputs, sums, width, 1), layout) - fixed, 1)
    rest = int((len(given.state) - fixed) / each)
    return rest, features, outputs, sums, width, rest


def _phase(state: Any, layout: str, take: Compiled, move: Compiled, receives: bool, steps: bool) -> Compiled:
    """Return the phase with the signature PHASE around a page's function."""
    step, counted, keep = "LC" if steps else "0C", receives and "d" in layout, keeping(layout, OTHER_SHAPE)
    if receives:

        @inline_always
        def moved(given: PhaseArguments, before: Any, samples: Seen) -> Any:
            received = Received(given.last_sent, given.vectors, given.counts)
            return move(take(given.numbers), before, received, samples)
    else:

        @inline_always
        def moved(given: PhaseArguments, before: Any, samples: Seen) -> Any:
            return move(take(given.numbers), before, samples)

    @cached_njit
    def phase(given: PhaseArguments) -> None:
        vector, sizes = given.state, _measure(given, layout)
        if length(sizes, layout) != len(vector) or (counted and sizes[0] != len(given.vectors)):
            raise ValueError(OTHER_LENGTH)
        (stepped,) = views(given.weights, sizes, step)
        samples = Seen(stepped, given.features, given.targets, given.lambdas, given.eta, given.batch_size)
        keep(vector, sizes, moved(given, state(*views(vector, sizes, layout)), samples))

    return phase


def _start(layout: str, field: int, before: Compiled | None) -> Compiled:
    """Return the phase that fills in the weights from which the learner steps, after the phase ``before`` if given."""

    @cached_njit
    def start(given: PhaseArguments) -> None:
        sizes = _measure(given, layout)
        put(given.weights, sizes, "LC", (views(given.state, sizes, layout)[field],))

    if before is None:
        return start

    @cached_njit
    def start_behind(given: PhaseArguments) -> None:
        before(given)
        start(given)

    return start_behind
