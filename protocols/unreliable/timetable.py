"""Which edges of a network are there in which round, looked up by whoever lives at one."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

SPAN = 256
"""Rounds that are computed together."""


class Changing(Protocol):
    """A network that changes, as ``graphs/schedules/contract.py`` has it."""

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield for each round whether each edge is there."""
        ...


class Timetable:
    """The rounds of a network that changes: the same in whatever order they are used.

    Parameters
    ----------
    schedule : Changing
        The schedule of the edges.
    labels : Integers
        The nodes' labels, (V,), sorted.
    edges : Integers
        The ends of every edge, (E, 2): places among the labels, the smaller first, sorted.
    key : tuple of int
        Two 32-bit words, from the experiment's seed.
    """

    def __init__(self, schedule: Changing, labels: Integers, edges: Integers, key: tuple[int, int]) -> None:
        self._schedule, self._labels, self._edges, self._key = schedule, labels, edges, key
        self._begin()

    def __getstate__(self) -> tuple[Changing, Integers, Integers, tuple[int, int]]:
        return self._schedule, self._labels, self._edges, self._key

    def __setstate__(self, state: tuple[Changing, Integers, Integers, tuple[int, int]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def _begin(self) -> None:
        generator = np.random.default_rng(self._key)
        self._rounds = self._schedule.begin(self._labels, self._edges, generator)
        self._first = 0
        self._pages: list[Booleans] = []  # the last two used

    def rounds(self, first: int, count: int, edges: Integers) -> Booleans:
        """Return whether each of some edges is there in some rounds, (n, count)."""
        found = np.empty((len(edges), count), dtype=np.bool_)
        for t in range(count):
            found[:, t] = self._page(first + t)[(first + t) % SPAN][edges]
        return found

    def places(self, senders: Integers, receivers: Integers) -> Integers:
        """Return the places of directed edges, (n,), by the labels of their ends."""
        ends = np.searchsorted(self._labels, np.stack([senders, receivers], axis=1)).reshape(-1, 2)
        ends = np.sort(ends, axis=1)
        width = len(self._labels)
        return np.searchsorted(self._edges[:, 0] * width + self._edges[:, 1], ends[:, 0] * width + ends[:, 1])

    def _page(self, round: int) -> Booleans:
        if round // SPAN < self._first - len(self._pages):
            self._begin()
        while round // SPAN >= self._first:
            self._pages = [*self._pages[-1:], np.array([self._next() for _ in range(SPAN)]).reshape(SPAN, -1)]
            self._first += 1
        return self._pages[round // SPAN - self._first]

    def _next(self) -> Booleans:
        """Return whether each edge is there in the next round, as the schedule says; ValueError where it does not."""
        found = next(self._rounds, None)
        if not isinstance(found, np.ndarray) or found.dtype != np.bool_ or found.shape != (len(self._edges),):
            given = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
            raise ValueError(
                f"{type(self._schedule).__name__}.begin yielded {'nothing more' if found is None else given}: yield "
                f"truth values of each edge, ({len(self._edges)},), for each round and without end"
            )
        return found
