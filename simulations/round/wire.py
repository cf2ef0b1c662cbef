"""Messages between processes: the messages of a block's nodes as one string of bytes, and back, bit for bit."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.node import Outgoing

Array = npt.NDArray[np.float64]

ABSENT = -1
"""Stands for the length of something that a message does not hold."""


_FLOAT = np.dtype(np.float64)


def pack(messages: Sequence[tuple[int, Outgoing, Sequence[int]]]) -> bytes:
    """Write messages one after the other.

    Parameters
    ----------
    messages : sequence of (int, Outgoing, sequence of int)
        The sender's label, its message, and the places of the neighbours for which it is meant.

    Returns
    -------
    bytes
        Float64 numbers. First a header: its length; for each message the sender, its degree, the lengths of its points
        and of its own values, whether there are dual variables, and stamps, how many of the points are replayed, the
        number of addressees, and for each addressee its place and the length of its answer. Then, for each message,
        the points, own values, dual variables, stamps and answers.
        Nothing at all for no messages.
    """
    if not messages:
        return b""
    header: list[int] = []
    parts: list[Array] = []
    for sender, message, places in messages:
        points, own, duals, answers = message.points, message.own, message.duals, message.answers
        stamps = message.stamps
        header += sender, len(answers), len(points), ABSENT if own is None else len(own), duals is not None
        header += stamps is not None, message.replayed, len(places)
        parts.append(points)
        if own is not None:
            parts.append(own)
        if duals is not None:
            parts.append(duals[list(places)])
        if stamps is not None:
            parts.append(stamps[[0, *[1 + place for place in places]]])
        for place in places:
            answer = answers[place] if answers else None
            if answer is None:
                header += place, ABSENT
            else:
                header += place, len(answer)
                parts.append(answer)
    # Joining bytes takes a twentieth of the time of concatenating arrays; a user's learner may answer in other arrays.
    plain: list[Any] = [
        part if part.dtype is _FLOAT and part.flags.c_contiguous else np.ascontiguousarray(part, np.float64)
        for part in parts
    ]
    return b"".join([_header(tuple(header)), *plain])


def pack_ensemble(messages: Sequence[tuple[int, Outgoing, Sequence[int]]]) -> bytes:
    """Write messages of nodes with copies, as :func:`pack`: those of each copy behind the length of all that is there
    of it."""
    if not messages:
        return b""
    kinds = range(len(messages[0][1].ensemble))
    return joined(
        [pack([(sender, message.ensemble[k], places) for sender, message, places in messages]) for k in kinds]
    )


def joined(parts: Sequence[bytes]) -> bytes:
    """Write some strings of bytes behind the lengths of all of them."""
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return b"".join([lengths.tobytes(), *parts])


def parted(message: bytes, count: int) -> list[bytes]:
    """Undo :func:`joined` of so many strings."""
    found, begin = [], 8 * count
    for length in np.frombuffer(message[:begin], dtype=np.int64).tolist():
        found.append(message[begin : begin + length])
        begin += length
    return found


def with_bands(message: bytes, bands: Mapping[int, Array]) -> bytes:
    """Write behind a message what nodes say of their bands, (C, 2) by their labels, and last how many numbers that
    is."""
    rows = np.array([[node, *numbers.flat] for node, numbers in bands.items()], dtype=np.float64)
    return b"".join([message, rows.tobytes(), np.array([rows.size, len(rows)], dtype=np.float64).tobytes()])


def without_bands(message: bytes) -> tuple[bytes, dict[int, Array]]:
    """Undo :func:`with_bands`; nothing was written behind an empty message."""
    if not message:
        return b"", {}
    numbers = np.frombuffer(message)
    size, nodes = int(numbers[-2]), int(numbers[-1])
    rows = numbers[len(numbers) - 2 - size : -2].reshape(nodes, -1)
    rest = message[: len(message) - _FLOAT.itemsize * (2 + size)]
    return rest, {int(row[0]): row[1:].reshape(-1, 2) for row in rows}


@lru_cache(maxsize=1024)
def _header(numbers: tuple[int, ...]) -> bytes:
    # Nearly every round's header is that of the round before.
    return np.array([1 + len(numbers), *numbers], dtype=np.float64).tobytes()


def split(packed: bytes) -> tuple[bytes, Array]:
    """Return the header of packed messages, empty for none, and all their numbers, those of the header included."""
    numbers = np.frombuffer(packed)
    return packed[: _FLOAT.itemsize * int(numbers[0])] if len(numbers) else b"", numbers


class Layout(NamedTuple):
    """Where among the numbers the parts of one message stand."""

    sender: int
    degree: int
    points: tuple[slice, tuple[int, int]]
    own: tuple[slice, tuple[int, int]] | None
    duals: tuple[slice, list[int]] | None
    stamps: tuple[slice, list[int]] | None
    answers: list[tuple[int, slice, tuple[int, int]]]
    replayed: int


class Reader:
    """Reads what :func:`pack` wrote.

    Parameters
    ----------
    inputs, outputs : int
        p and C.
    wanted : mapping of int to collection of int
        The senders of interest, each with the places among its neighbours whose answers are read.
    """

    def __init__(self, inputs: int, outputs: int, wanted: Mapping[int, Collection[int]]) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._wanted = wanted
        self._layouts: dict[bytes, list[Layout]] = {}

    def read(self, message: bytes) -> dict[int, Outgoing]:
        """Return the messages by their senders, their arrays read-only; what is not wanted is left out."""
        if not message:
            return {}
        header, array = split(message)
        messages: dict[int, Outgoing] = {}
        for sender, degree, (where, shape), own, duals, stamps, answers, replayed in self.layouts(header):
            found: list[Array | None] = [None] * degree
            for place, there, size in answers:
                found[place] = array[there].reshape(size)
            outgoing = Outgoing(array[where].reshape(shape), None, found, None, replayed=replayed)
            if own is not None:
                outgoing.own = array[own[0]].reshape(own[1])
            if duals is not None:
                outgoing.duals = np.zeros(1 + max(duals[1]))
                outgoing.duals[duals[1]] = array[duals[0]]
            if stamps is not None:
                outgoing.stamps = np.zeros(1 + max(stamps[1]))
                outgoing.stamps[stamps[1]] = array[stamps[0]]
            messages[sender] = outgoing
        return messages

    def layouts(self, header: bytes) -> list[Layout]:
        """Return where the parts of each wanted message stand among the numbers."""
        found = self._layouts.get(header)
        if found is None:
            found = self._layouts[header] = self._parse(np.frombuffer(header))
        return found

    def _parse(self, header: Array) -> list[Layout]:
        numbers = iter(int(number) for number in header)
        at = next(numbers)
        layouts = []

        def take(rows: int, columns: int) -> tuple[slice, tuple[int, int]]:
            nonlocal at
            at += rows * columns
            return slice(at - rows * columns, at), (rows, columns)

        for sender in numbers:
            degree, points, own, duals, stamps, replayed, addressees = (next(numbers) for _ in range(7))
            lengths = {next(numbers): next(numbers) for _ in range(addressees)}
            where = take(points, self._inputs)
            values = None if own == ABSENT else take(own, self._outputs)
            multipliers = (take(addressees, 1)[0], list(lengths)) if duals else None
            stamped = [0, *[1 + place for place in lengths]]
            rounds = (take(len(stamped), 1)[0], stamped) if stamps else None
            answers = [(place, *take(length, self._outputs)) for place, length in lengths.items() if length != ABSENT]
            if sender in self._wanted:
                answers = [answer for answer in answers if answer[0] in self._wanted[sender]]
                layouts.append(Layout(sender, degree, where, values, multipliers, rounds, answers, replayed))
        return layouts


def read_ensemble(readers: Sequence[Reader], message: bytes) -> dict[int, Outgoing]:
    """Read what :func:`pack_ensemble` wrote, with a reader for each kind of copy."""
    if not message:
        return {}
    found = [reader.read(part) for reader, part in zip(readers, parted(message, len(readers)), strict=True)]
    return {
        sender: Outgoing(mixture_weights.points, None, (), None, ensemble=[part[sender] for part in found])
        for sender, mixture_weights in found[-1].items()
    }
