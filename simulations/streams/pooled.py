"""The stream of the centralized learner: every node's samples, round after round in the order of the nodes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.streams.contract import HeldOut, NodeSource, Source, freeze

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class PooledSource:
    """The samples of several sources in one sequence: a mini-batch of each source in turn, round after round.

    A source whose data is used up is passed over, so that the sequence has no gaps.

    Parameters
    ----------
    sources : sequence of NodeSource
        The nodes' own sources.
    batch_size : int
        b, the samples of each in a round.
    """

    def __init__(self, sources: Sequence[NodeSource], batch_size: int) -> None:
        self.sources = list(sources)
        self.batch_size = batch_size
        self._begin()

    def _begin(self) -> None:
        """Start a round of which nothing has been handed out."""
        saved = all(hasattr(source, "state") for source in self.sources)  # one of a user's own may have none
        self._before: dict[str, Any] | None = self._states() if saved else None
        self._waiting: tuple[Array, Array] | None = None
        self._handed_out = 0  # of the samples that wait

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next ``count`` samples, (count, p) and (count, q); fewer when all data is used up."""
        pieces: list[tuple[Array, Array]] = []
        while True:
            points, targets = self._round()
            taken = slice(self._handed_out, self._handed_out + count)
            pieces.append((points[taken], targets[taken]))
            self._handed_out += len(pieces[-1][0])
            count -= len(pieces[-1][0])
            if not count or not len(points):
                break
            self._begin()
        if len(pieces) == 1:
            return pieces[0]
        return freeze(np.concatenate([x for x, _ in pieces])), freeze(np.concatenate([y for _, y in pieces]))

    def _round(self) -> tuple[Array, Array]:
        """Return the samples of the round that is being handed out; none where all data is used up."""
        if self._waiting is None:
            drawn = [source.draw(self.batch_size) for source in self.sources]
            points, targets = (np.concatenate(arrays) for arrays in zip(*drawn, strict=True))
            self._waiting = freeze(points), freeze(targets)
        return self._waiting

    def _states(self) -> dict[str, Any]:
        return {str(place): source.state() for place, source in enumerate(self.sources)}

    def held_out(self, samples: int) -> HeldOut:
        """Return every node's held-out data after ``samples`` draws each."""
        return pool([source.held_out(samples) for source in self.sources], None)

    def state(self) -> dict[str, Any]:
        """Return the states of the nodes' sources before the round, and how much of it has been handed out."""
        before = self._states() if self._before is None else self._before
        return {**before, "handed_out": self._handed_out}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state` was taken."""
        for place, source in enumerate(self.sources):
            source.restore(state[str(place)])
        self._begin()
        self._handed_out = int(state["handed_out"])


def members(nodes: int, limit: int) -> list[int]:
    """Return the places of the nodes whose held-out data is pooled: all, or ``limit`` evenly spaced ones."""
    return list(range(nodes)) if nodes <= limit else [nodes * place // limit for place in range(limit)]


def pooled_samples(source: Source, samples: int, limit: int) -> HeldOut:
    """Return the held-out data of the nodes together, after ``samples`` draws of each that has so many."""
    sets = []
    for place in members(len(source.nodes), limit):
        drawn = samples if source.lengths is None else min(samples, source.lengths[place])
        sets.append(source.nodes[place].held_out(drawn))
    return pool(sets, limit)


def pool(sets: Sequence[HeldOut], limit: int | None) -> HeldOut:
    """Join held-out sets into one; over ``limit`` rows, an even and evenly spaced share of each that has some."""
    sets = [held_out for held_out in sets if len(held_out.points)] or sets[:1]
    total = sum(len(held_out.points) for held_out in sets)
    if limit is not None and total > limit:
        share = max(1, limit // len(sets))
        sets = [_thin(held_out, share) for held_out in sets]
    truths = [held_out.truth for held_out in sets if held_out.truth is not None]
    return HeldOut(
        np.concatenate([held_out.points for held_out in sets]),
        np.concatenate([held_out.targets for held_out in sets]),
        np.concatenate(truths) if len(truths) == len(sets) else None,
    )


def _thin(held_out: HeldOut, share: int) -> HeldOut:
    size = len(held_out.points)
    if size <= share:
        return held_out
    kept = _even(size, share)
    truth = None if held_out.truth is None else held_out.truth[kept]
    return HeldOut(held_out.points[kept], held_out.targets[kept], truth)


@lru_cache(maxsize=64)
def _even(size: int, share: int) -> Places:
    """Return the places of ``share`` rows among so many: the same ones for most of thousands of nodes."""
    kept: Places = np.linspace(0, size - 1, share).round().astype(np.int64)
    return kept
