"""Checks of streams of a user's own: each draw is compared with the stream's declarations.

Compiled rounds trust the shapes of the arrays that they get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.graphs.given.names import is_number
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import number_of, shown
from kernelswarm.simulations.core.own_code import OwnCode, is_own
from kernelswarm.simulations.data.contract import Calendar, Differences, HeldOut, NodeSource, Source, Stream, twin


def opened(stream: Stream, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
    """Open a stream; draws of a user's own stream are checked against its declarations.

    Parameters
    ----------
    stream : Stream
        Any.
    nodes, seed, held_out, locations
        As of :class:`~kernelswarm.simulations.data.contract.Stream`.

    Raises
    ------
    InputError
        What it declares is no description of data of so many nodes.
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
    """Refuse an opened stream whose counts of inputs, targets, classes or nodes are inconsistent."""

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
    """Return whether something is a real array of a shape, in which None is any length."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype.kind in "biuf"
        and array.ndim == len(shape)
        and all(wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True))
    )


class NoState(AttributeError, InputError):
    """A source of a user's own cannot be put back to where it was; ``hasattr`` says so too."""


@dataclass(frozen=True)
class Declared:
    """What a stream says of every sample: the dimensions, and the number of classes."""

    name: str
    inputs: int
    targets: int
    classes: int | None

    def points(self, found: object, count: int | None, where: str) -> Array:
        """Return points, (count, p), as float64, C-contiguous; None for any count. Raises InputError otherwise."""
        return self._array(found, (count, self.inputs), f"{where} returned points", f"inputs = {self.inputs}")

    def observed(self, found: object, count: int | None, where: str) -> Array:
        """Return targets, (count, q), in the same way; classes are whole numbers from 0."""
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
        """Return a function of true targets whose answers are checked."""

        def checked(position: int, points: Array, drawn: Any) -> Array:
            return self.observed(asked(position, points, drawn), len(points), f"{self.name}'s {method}")

        return checked

    def of_others(self, asked: Differences) -> Differences:
        """Return the differences of true targets, checked."""

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
    """A node's samples of a user's own, each held to what the stream declares.

    Parameters
    ----------
    given : NodeSource
        The node's own source.
    place : int
        Its place among the nodes.
    declared : Declared
        What the stream declares.
    """

    def __init__(self, given: NodeSource, place: int, declared: Declared) -> None:
        self.given, self._declared = given, declared
        self._called = f"{type(given).__name__} of node {place}"

    def __copy__(self) -> CheckedSource:
        """Return a copy that draws by itself."""
        found = CheckedSource(twin(self.given), 0, self._declared)
        found._called = self._called
        return found

    def __getattr__(self, name: str) -> Any:
        """Return the checkpoint methods of a source; sources of a user's own may lack them."""
        if name not in ("state", "restore"):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        if not hasattr(self.given, name):
            raise NoState(
                f"stream: {type(self.given).__name__} has no {name}, by which samples are drawn again here: give it "
                "state() and restore(state), see docs/contributing.md"
            )
        return getattr(self.given, name)

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) and targets (b, q); InputError where they are others than declared."""
        found, where = self.given.draw(count), f"draw({count}) of {self._called}"
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise InputError(f"stream: {where} returned {_called(found)}: return points and targets")
        points = self._declared.points(found[0], None, where)
        if len(points) > count:
            raise InputError(f"stream: {where} returned {len(points):,} samples: return no more than asked for")
        return points, self._declared.observed(found[1], len(points), where)

    def held_out(self, samples: int) -> HeldOut:
        """Return test samples; InputError where they are others than declared."""
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
