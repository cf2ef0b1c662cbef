"""The contract of a stream: a frozen description that opens one source for each node. Draws are checked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.graphs.given.names import is_number
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError, number_of, shown
from kernelswarm.simulations.core.own_code import OwnCode, is_own

if TYPE_CHECKING:
    from kernelswarm.protocols.links.realization import Absences

# The rounds in which nodes have samples, if the nodes' data share steps and lack some samples.


class Calendar(NamedTuple):
    """The steps of an epoch in which a node has a sample.

    Parameters
    ----------
    steps
        The step of each sample, (n,), increasing, from 0.
    length
        Number of steps of an epoch, including steps without a sample.
    """

    steps: Integers
    length: int

    def rounds(self, epochs: int, batch_size: int, most: int) -> Integers:
        """Return the rounds in which a node learns from its mini-batches, (m,), at least up to the round ``most``.

        The round of a mini-batch is the round of its last sample, so that no sample is used before its time. If every
        step has a sample, the rounds are 0, 1, 2, ...

        Examples
        --------
        >>> Calendar(np.array([0, 1, 4, 5]), 6).rounds(1, 1, 10), Calendar(np.array([0, 1, 4, 5]), 6).rounds(2, 3, 10)
        (array([0, 1, 4, 5]), array([1, 2, 3]))
        """
        epochs = min(epochs, most * batch_size // self.length + 2)
        steps = (self.steps + self.length * np.arange(epochs)[:, None]).ravel()
        last = np.arange(batch_size - 1, len(steps) + batch_size - 1, batch_size)
        found = steps[np.minimum(last, len(steps) - 1)] // batch_size
        if len(found) > 1:
            found[-1] = max(found[-1], found[-2] + 1)  # the last mini-batch may be smaller and fall into the same round
        return found


def absences(
    calendars: Sequence[Calendar], labels: Sequence[int], epochs: int, batch_sizes: Sequence[int], most: int
) -> tuple[Absences, list[int]]:
    """Return the rounds without a sample, at least up to ``most``, and the last rounds with a sample plus 1.

    Parameters
    ----------
    calendars, labels, batch_sizes
        The calendar, label and batch size of each node.
    epochs
        Number of passes over the data.
    most
        Number of rounds of the run.
    """
    # Imported here, since readers of data need no compiled functions.
    from kernelswarm.protocols.links.realization import Absences

    found, ends = [], []
    for calendar, size in zip(calendars, batch_sizes, strict=True):
        rounds = calendar.rounds(epochs, size, most)
        ends.append(int(rounds[-1]) + 1 if len(rounds) else 0)
        there = np.zeros(ends[-1], dtype=np.bool_)
        there[rounds] = True
        found.append(np.flatnonzero(~there))
    starts = np.cumsum([0, *map(len, found)])
    return Absences(np.array(labels, dtype=np.int64), starts, np.concatenate(found)), ends


def freeze(array: Array) -> Array:
    """Make an array read-only, and thus every later slice of it."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False, slots=True)
class HeldOut:
    """Held-out samples of a node, on which its risk is measured.

    Parameters
    ----------
    points
        Inputs, (n, p).
    targets
        Observed targets with noise, (n, q); for classification, q = 1 and the entry is the class 0..classes-1.
    truth
        The targets without noise, (n, q), if known. The error of a regression is measured against them.
    """

    points: Array
    targets: Array
    truth: Array | None = None


class Differences(Protocol):
    """Distances between the true targets of a node and of others; a function, since networks need few of all pairs."""

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        """Return the mean squared differences, (len(others),)."""


class NodeSource(Protocol):
    """One node's data, the only mutable part of a stream. It is pickled and sent to the node's actor.

    All returned arrays are float64, C-contiguous and read-only, like messages.
    """

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) and targets (b, q), b = count, or b < count if the data is used up.

        The sequence of samples does not depend on the sizes of the draws.
        """

    def held_out(self, samples: int) -> HeldOut:
        """Return test samples of the node's distribution after ``samples`` draws.

        The arrays are the same at each call, unless the distribution drifts: then only the targets move.
        """

    def state(self) -> dict[str, Any]:
        """Return plain numbers from which `restore` continues the sequence."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the sequence from a `state`."""


def twin(source: NodeSource) -> NodeSource:
    """Return a copy that draws independently; copies of kernelswarm's sources share their read-only data."""
    return copy.deepcopy(source) if is_own(type(source)) else copy.copy(source)


@dataclass(eq=False)
class Source:
    """An opened stream: its dimensions, its nodes' data and facts about their distribution.

    Parameters
    ----------
    inputs, targets
        The dimensions p and q of all points (b, p) and targets (b, q).
    classes
        Number of classes, None for regression.
    nodes
        One source for each node, aligned with ``sorted(graph.nodes)``.
    lengths
        Number of samples of each node in all epochs together, or None for endless streams.
    epochs
        Number of passes over finite data: the first 1 / epochs of a node's samples are the distinct ones.
    facts
        Facts about the data for reports: Bayes error, rows read, scales.
    description
        The meaning of the numbers in the user's data: columns, scaling, class labels, names of the nodes. Models store
        it.
    truth
        ``truth(position, points, samples)``: noise-free targets (n, q) of a node after ``samples`` draws, for
        classification, the class with the lowest probability of error. None if unknown.
    noise_free
        ``noise_free(position, points, ages)``: noise-free targets (n, q) of a node, each point drawn after ``ages``
        (n,) samples. Regret is measured against this function of lowest loss. None if unknown, and for classes.
    locations
        Positions of the nodes, (V, 2), or None without positions.
    calendars
        The calendar of each node, or None if every node has samples in each round.
    discount
        The discount, if targets are rewards and the truth is the value function of a Markov chain; else None.
    differences
        ``differences(i, others)``: the mean squared difference between the true targets of the node at position i and
        of each other node, over the inputs of node i. None if unknown, and for classes.
    in_order
        Whether the rows of finite data keep the order of their times or of their file, so that the first rows may
        differ from the rest.
    """

    inputs: int
    targets: int
    classes: int | None
    nodes: list[NodeSource]
    lengths: list[int] | None = None
    epochs: int = 1
    facts: dict[str, float | int | str] = field(default_factory=dict)
    description: DataDescription = field(default_factory=DataDescription)
    truth: Callable[[int, Array, int], Array] | None = None
    noise_free: Callable[[int, Array, Integers], Array] | None = None
    locations: Array | None = None
    differences: Differences | None = None
    discount: float | None = None
    calendars: list[Calendar] | None = None
    in_order: bool = False

    @property
    def fewest(self) -> int | None:
        """Smallest number of distinct samples over nodes with data; None for endless streams."""
        if self.lengths is None:
            return None
        return min(length for length in self.lengths if length) // self.epochs


class Stream(Protocol):
    """Description of the data: a frozen dataclass with the keys of the experiment file's [stream] as fields."""

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        """Open one source for each of ``nodes`` nodes.

        Parameters
        ----------
        nodes
            V >= 1.
        seed
            The experiment's seed: same seed, same samples.
        held_out
            Number of test samples of each node; an upper limit for finite data.
        locations
            Positions (V, 2) of the nodes in the graph, or None without positions.

        Raises
        ------
        ValueError
            The data or the combination of fields is invalid; the message starts with the field and ends with the
            remedy.
        """


# The boundary to users' streams: every draw is compared with the stream's declaration.  Compiled rounds rely on the
# shapes of their arrays.


def opened(stream: Stream, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
    """Open a stream; the draws of users' streams are checked against the declaration.

    Parameters
    ----------
    stream : Stream
        Any.
    nodes, seed, held_out, locations
        As in :class:`~kernelswarm.simulations.data.contract.Stream`.

    Raises
    ------
    InputError
        The declaration is inconsistent, or has another number of nodes.
    """
    source = stream.open(nodes, seed, held_out, locations)
    if not is_own(type(stream)):
        return source
    name = type(stream).__name__
    if not isinstance(source, Source):
        raise InputError(f"stream: {name}.open returned a {type(source).__name__}: return a Source")
    _refuse_declared(source, nodes, name)
    kind = Declared(name, int(source.inputs), int(source.targets), source.classes)
    return replace(
        source,
        nodes=[CheckedSource(node, place, kind) for place, node in enumerate(source.nodes)],
        truth=None if source.truth is None else kind.function("truth", source.truth),
        noise_free=None if source.noise_free is None else kind.function("noise_free", source.noise_free),
        differences=None if source.differences is None else kind.of_others(source.differences),
    )


def _refuse_declared(source: Source, nodes: int, name: str) -> None:
    """Raise an error if the numbers of inputs, targets, classes or nodes of an opened stream are inconsistent."""

    def require(holds: bool, key: str, rule: str) -> None:
        if not holds:
            raise InputError(f"stream: {name}.open returned {key} = {shown(getattr(source, key))}: {rule}")

    require(_is_whole(source.inputs, 1), "inputs", "p is a whole number from 1")
    require(_is_whole(source.targets, 1), "targets", "q is a whole number from 1")
    classes = source.classes is None or (_is_whole(source.classes, 2) and source.targets == 1)
    require(classes, "classes", "give None for regression, or K from 2 with targets = 1, the class")
    require(_is_whole(source.epochs, 1), "epochs", "it is a whole number from 1")
    if len(source.nodes) != nodes:
        raise InputError(f"stream: open({nodes}, ...) returned {len(source.nodes)} nodes: return one for each")
    lengths = source.lengths
    counted = lengths is None or (
        len(lengths) == nodes and all(_is_whole(each, 0) for each in lengths) and any(lengths)
    )
    require(counted, "lengths", f"give None where samples are endless, or how many each of {nodes} nodes has")
    places = source.locations
    placed = places is None or (_is_of(places, (nodes, None)) and bool(np.isfinite(places).all()))
    require(placed, "locations", f"give None, or finite numbers (V, d) of {nodes} nodes")
    calendars = source.calendars
    timed = calendars is None or (len(calendars) == nodes and all(isinstance(each, Calendar) for each in calendars))
    require(timed, "calendars", f"give None, or a Calendar for each of {nodes} nodes")


def _is_whole(value: object, least: int) -> bool:
    return is_number(value) and int(value) >= least  # type: ignore[call-overload]


def _is_of(array: object, shape: tuple[int | None, ...]) -> bool:
    """Tell whether an object is a real array of the given shape; None stands for any length."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype.kind in "biuf"
        and array.ndim == len(shape)
        and all(wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True))
    )


class NoState(AttributeError, InputError):
    """Raised if a user's source lacks ``state`` or ``restore``; as an AttributeError it makes ``hasattr`` False."""


@dataclass(frozen=True)
class Declared:
    """The declaration of a stream: the dimensions of each sample, and the number of classes."""

    name: str
    inputs: int
    targets: int
    classes: int | None

    def points(self, found: object, count: int | None, where: str) -> Array:
        """Return points (count, p) as C-contiguous float64; None is any count. Raises InputError for other arrays."""
        return self._array(found, (count, self.inputs), f"{where} returned points", f"inputs = {self.inputs}")

    def observed(self, found: object, count: int | None, where: str) -> Array:
        """Return targets (count, q) in the same way; classes are whole numbers from 0."""
        array = self._array(found, (count, self.targets), f"{where} returned targets", f"targets = {self.targets}")
        if self.classes is not None and not ((array >= 0) & (array < self.classes) & (array == np.floor(array))).all():
            wrong = array[(array < 0) | (array >= self.classes) | (array != np.floor(array))]
            raise InputError(
                f"stream: {where} returned the target {wrong[0]:g}, and open declared classes = {self.classes}: "
                f"return whole numbers from 0 to {self.classes - 1}"
            )
        return array

    def _array(self, found: object, shape: tuple[int | None, int], what: str, declared: str) -> Array:
        size = f"({'n' if shape[0] is None else shape[0]}, {shape[1]})"
        if not _is_of(found, shape):
            kind = type(found).__name__
            if isinstance(found, np.ndarray):
                kind = f"an array {found.shape} of {found.dtype}"
            raise InputError(f"stream: {what}: {kind}, and open declared {declared}: return a real array {size}")
        if np.ma.is_masked(found):
            raise InputError(f"stream: {what} with masked values: return finite numbers, or no such sample")
        array = np.ascontiguousarray(found, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"stream: {what} with {array[~np.isfinite(array)][0]}: return finite numbers")
        return array

    def function(self, method: str, asked: Callable[[int, Array, Any], Array]) -> Callable[[int, Array, Any], Array]:
        """Wrap a function of true targets, and check its return values."""

        def checked(position: int, points: Array, drawn: Any) -> Array:
            return self.observed(asked(position, points, drawn), len(points), f"{self.name}'s {method}")

        return checked

    def of_others(self, asked: Differences) -> Differences:
        """Wrap the function of differences between true targets, and check its return values."""

        def checked(position: int, others: Sequence[int]) -> Array:
            found = asked(position, others)
            if not _is_of(found, (len(others),)) or not (np.isfinite(found).all() and (found >= 0).all()):
                raise InputError(
                    f"stream: {self.name}'s differences returned {shown(found)}: return one number from 0 for each of "
                    f"{number_of(len(others), 'node')}"
                )
            return np.ascontiguousarray(found, dtype=np.float64)

        return checked


class CheckedSource:
    """A node's samples from a user's stream, each checked against the stream's declaration.

    Parameters
    ----------
    given : NodeSource
        The node's own source.
    place : int
        Its place among the nodes.
    declared : Declared
        The declaration of the stream.
    """

    def __init__(self, given: NodeSource, place: int, declared: Declared) -> None:
        self.given, self._declared = given, declared
        self._called = f"{type(given).__name__} of node {place}"

    def __copy__(self) -> CheckedSource:
        """Return a copy that draws independently."""
        found = CheckedSource(twin(self.given), 0, self._declared)
        found._called = self._called
        return found

    def __getattr__(self, name: str) -> Any:
        """Return the checkpoint methods of a source; users' sources may lack them."""
        if name not in ("state", "restore"):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        if not hasattr(self.given, name):
            raise NoState(
                f"stream: {type(self.given).__name__} has no {name}, by which samples are drawn again here: give it "
                "state() and restore(state), see docs/contributing.md"
            )
        return getattr(self.given, name)

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) and targets (b, q); raises InputError if they differ from the declaration."""
        found, where = self.given.draw(count), f"draw({count}) of {self._called}"
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise InputError(f"stream: {where} returned {_called(found)}: return points and targets")
        points = self._declared.points(found[0], None, where)
        if len(points) > count:
            raise InputError(f"stream: {where} returned {len(points):,} samples: return no more than asked for")
        return points, self._declared.observed(found[1], len(points), where)

    def held_out(self, samples: int) -> HeldOut:
        """Return test samples; raises InputError if they differ from the declaration."""
        where = f"held_out({samples}) of {self._called}"
        with OwnCode(f"stream: {where}", MemoryError):
            found = self.given.held_out(samples)
        if not isinstance(found, HeldOut):
            raise InputError(f"stream: {where} returned {_called(found)}: return HeldOut(points, targets, truth)")
        points = self._declared.points(found.points, None, where)
        targets = self._declared.observed(found.targets, len(points), where)
        truth = None if found.truth is None else self._declared.observed(found.truth, len(points), f"{where} as truth")
        return HeldOut(points, targets, truth)


def _called(found: object) -> str:
    return f"{len(found)} values" if isinstance(found, tuple | list) else f"a {type(found).__name__}"
