"""The stream of a node to which the samples of all nodes travel, hop by hop over a tree."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.chance import uniform
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.simulations.streams.contract import HeldOut, Source, freeze, twin

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

ENDLESS = 2**62
"""In place of the length of a stream without an end."""


class FloodedSource:
    """A node's own samples and those that arrive from others: in each round a mini-batch of each node in turn.

    A sample drawn h hops away arrives h rounds later. A node from which nothing arrives has an empty mini-batch.

    Parameters
    ----------
    source : Source
        The nodes' stream.
    origins : sequence of int
        The places of the nodes whose samples arrive, the node itself first.
    hops : sequence of int
        How far away each is.
    batch_size : int
        b, the samples of each node in a round.
    steps : int
        The mini-batches in a round, at least as many as origins: behind those there are empty ones.
    degree : int
        The edges of the tree at the node.
    share : float
        The share of samples that travel.
    keys : Array
        (n, 2) two 32-bit words of each origin, which decide on its samples.
    """

    def __init__(
        self,
        source: Source,
        origins: Sequence[int],
        hops: Sequence[int],
        batch_size: int,
        steps: int,
        degree: int,
        share: float,
        keys: Integers,
    ) -> None:
        self.batch_size = batch_size
        self._sources = [twin(source.nodes[place]) for place in origins]
        self._hops, self._steps, self._degree = list(hops), steps, degree
        self._lengths = [ENDLESS if source.lengths is None else source.lengths[place] for place in origins]
        self._share, self._keys = share, keys
        self._nothing = np.zeros((0, source.inputs)), np.zeros((0, source.targets))
        self._asked = 0  # mini-batches

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return as many mini-batches as there are in ``count``."""
        points, targets, _ = self.draw_each(count // self.batch_size, self.batch_size)
        return points, targets

    def draw_each(self, draws: int, count: int) -> tuple[Array, Array, Integers]:
        """Return so many mini-batches, one behind the other, and how many samples each has, (draws,)."""
        pieces = [self._nothing, *(self._next() for _ in range(draws))]
        points, targets = (freeze(np.concatenate(arrays)) for arrays in zip(*pieces, strict=True))
        return points, targets, np.array([len(each) for each, _ in pieces[1:]], dtype=np.int64)

    def held_out(self, samples: int) -> HeldOut:
        """Return the node's own held-out data when it has learned from so many samples of all nodes."""
        most = min(self._lengths[0], samples)
        rounds = bisect_left(range(-(-most // self.batch_size)), samples, key=lambda t: sum(self._learned(t)))
        return self._sources[0].held_out(min(most, rounds * self.batch_size))

    def scalars_sent(self, rounds: int) -> int:
        """Count the numbers that the node has sent in so many rounds: samples go over all edges but that they came by.

        Its own go over all.
        """
        own, *others = (self._kept(k, 0, count) for k, count in enumerate(self._drawn(rounds)))
        samples = own * self._degree + sum(others) * (self._degree - 1)
        return samples * sum(each.shape[1] for each in self._nothing)

    def state(self) -> dict[str, Any]:
        """Return the states of the sources, and how many mini-batches have been asked for."""
        return {"asked": self._asked, **{str(k): source.state() for k, source in enumerate(self._sources)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state` was taken."""
        self._asked = int(state["asked"])
        for k, source in enumerate(self._sources):
            source.restore(state[str(k)])

    def _next(self) -> tuple[Array, Array]:
        now, k = divmod(self._asked, self._steps)
        self._asked += 1
        if k >= len(self._hops) or now < self._hops[k]:
            return self._nothing
        points, targets = self._sources[k].draw(self.batch_size)
        if k and self._share < 1.0:
            first = (now - self._hops[k]) * self.batch_size
            kept = self._chosen(k, first, first + len(points))
            points, targets = points[kept], targets[kept]
        return points, targets

    def _drawn(self, rounds: int) -> list[int]:
        """Return how many samples each origin had drawn when those left that have arrived after so many rounds."""
        each = zip(self._hops, self._lengths, strict=True)
        return [min(max(rounds - hops, 0) * self.batch_size, length) for hops, length in each]

    def _learned(self, rounds: int) -> list[int]:
        """Return how many samples of each origin the node has learned from after so many rounds."""
        own, *others = self._drawn(rounds)
        return [own, *(self._kept(k, 0, count) for k, count in enumerate(others, 1))]

    def _kept(self, k: int, first: int, end: int) -> int:
        """Return how many of some samples of an origin travel."""
        return end - first if self._share == 1.0 else int(self._chosen(k, first, end).sum())

    def _chosen(self, k: int, first: int, end: int) -> Booleans:
        """Return which of them do."""
        one, other = self._keys[k].tolist()
        return _below(self._share, one, other, first, end)


@cached_njit
def _below(share: float, one: int, other: int, first: int, end: int) -> Booleans:
    """Return whether the numbers of a key at some places are below a share, (end - first,)."""
    found = np.empty(end - first, dtype=np.bool_)
    for place in range(first, end):
        found[place - first] = uniform(one, other, place) < share
    return found
