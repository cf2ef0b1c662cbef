"""The stream of the centralized learner where samples may be lost or late on their way to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.first_class import address
from kernelswarm.protocols.links.distortion import EXACT, distort
from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.protocols.links.links import bytes_of
from kernelswarm.protocols.links.noises import QUANTILE
from kernelswarm.protocols.unreliable.realization import LOST, Conditions, Realization, keys_of
from kernelswarm.simulations.streams.contract import HeldOut, Source, freeze
from kernelswarm.simulations.streams.pooled import pool

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

CENTRE = 2**32 - 2
"""In place of the label of the one learner in the keys of links."""

POINTS, TARGETS = 0, 2
"""The stages of the random numbers that distort a message."""


class Traffic(NamedTuple):
    """What became of the messages to the one learner since the first round."""

    messages: int
    delivered: int
    lost: int
    late: int
    scalars: int
    bytes: float


def links_of(labels: Sequence[int]) -> EdgeFacts:
    """Return what is known of the links of nodes to the one learner: neither distances nor attributes."""
    ends = np.array(labels, dtype=np.int64)
    return EdgeFacts(np.full(len(ends), CENTRE), ends, None, ({},) * len(ends))


def sample_bytes(inputs: int, targets: int, classes: bool, batch_size: int, bits: int) -> float:
    """Compute the bytes of a message of so many samples; classes are sent as they are."""
    if classes and bits != EXACT:
        return bytes_of(batch_size * inputs, 0, 0, 1, bits) + 8.0 * batch_size * targets
    return bytes_of(batch_size * inputs, batch_size * targets, 0, 2, bits)


class TravellingSamples:
    """The samples of several sources, each sent over a link of its own to the one learner.

    A node that is awake draws its mini-batch and sends it in one message. What is lost, or older than ``max_age``, is
    never learned from. In each round the learner takes, node by node, the mini-batch that arrived first and waits;
    where none does, it takes none. A node whose link is busy sends nothing, and that mini-batch is gone.

    Parameters
    ----------
    source : Source
        The nodes' stream.
    batch_size : int
        b, the samples of each node in a round.
    labels : sequence of int
        The nodes' labels, sorted.
    conditions : Conditions
        Links and clock. Edges that come and go, and triggers, concern neighbours alone.

    Raises
    ------
    ValueError
        The links need distances or attributes, or take too long for a message.
    """

    def __init__(self, source: Source, batch_size: int, labels: Sequence[int], conditions: Conditions) -> None:
        self.sources, self.batch_size = list(source.nodes), batch_size
        self._width, self._columns = source.inputs, source.targets
        self._classes, self._lengths = source.classes is not None, source.lengths
        links, size = conditions.links, self._bytes(conditions.links.bits)
        busy = links.transit(size) if np.isfinite(links.bandwidth) else 1
        self._conditions = replace(conditions, timetable=None, directed=False, transit=busy)
        self._labels = np.array(labels, dtype=np.int64)
        # The keys of the links' losses are those of (CENTRE, node); numbers are distorted by others.
        self._keys = keys_of(*conditions.key, self._labels, np.full(len(labels), CENTRE)).tolist()
        self._initial = [node.state() for node in self.sources]
        self._ahead: Realization | None = self._realization()  # which refuses links that need what there is not
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the realization out: its arrays change, and what travels between processes may arrive read-only."""
        return {**self.__dict__, "_ahead": None}

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return what arrives on so many links, in turn, as there are mini-batches in ``count``."""
        pieces = [self._next() for _ in range(count // self.batch_size)]
        points, targets = (freeze(np.concatenate(arrays)) for arrays in zip(*pieces, strict=True))
        return points, targets

    def draw_each(self, draws: int, count: int) -> tuple[Array, Array, Integers]:
        """Return what so many draws give, one behind the other, and how many samples each gave, (draws,)."""
        found = [self.draw(count) for _ in range(draws)]
        points, targets = (freeze(np.concatenate(arrays)) for arrays in zip(*found, strict=True))
        return points, targets, np.array([len(each) for each, _ in found], dtype=np.int64)

    def held_out(self, samples: int) -> HeldOut:
        """Return every node's held-out data after ``samples`` draws each."""
        return pool([source.held_out(samples) for source in self.sources], None)

    def state(self) -> dict[str, Any]:
        return {"asked": self._asked}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state` was taken, by drawing and sending all samples again."""
        for source, initial in zip(self.sources, self._initial, strict=True):
            source.restore(initial)
        self._begin()
        for _ in range(int(state["asked"])):
            self._next()

    def traffic(self, rounds: int) -> Traffic:
        """Count what was sent in the first ``rounds`` rounds, and what had become of it then."""
        realization, links = self._realization(), self._conditions.links
        nodes, size = len(self._labels), self.batch_size
        left = np.full(nodes, np.iinfo(np.int64).max) if self._lengths is None else np.array(self._lengths)
        counts, samples = np.zeros(4, dtype=np.int64), 0
        for now in range(rounds):
            place = realization.look(now)
            awake = realization.awake[:, place]
            drawn = np.where(awake, np.minimum(size, left), 0)
            left = left - drawn
            sent = awake & realization.active[:, place] & (drawn > 0)
            deliveries = realization.deliveries[sent, place]
            lost, late = deliveries == LOST, deliveries > links.max_age
            arrived = ~lost & ~late & (now + deliveries < rounds)
            counts += [sent.sum(), arrived.sum(), lost.sum(), late.sum()]
            samples += int(drawn[sent].sum())
        sent_, delivered, lost_, late_ = counts.tolist()
        each = self._bytes(links.bits) / size  # the last message of a node may have fewer samples
        return Traffic(sent_, delivered, lost_, late_, samples * (self._width + self._columns), each * samples)

    @property
    def conditions(self) -> Conditions:
        """Links and clock, as they are on the way to the one learner."""
        return self._conditions

    def _bytes(self, bits: int) -> float:
        return sample_bytes(self._width, self._columns, self._classes, self.batch_size, bits)

    def _realization(self) -> Realization:
        return Realization(self._conditions, self._labels, links_of(self._labels.tolist()))

    def _begin(self) -> None:
        self._asked = 0  # mini-batches, of the whole run
        # Of each link: the rounds in which messages arrive, those in which they were sent, and the samples.
        self._waiting: list[list[tuple[int, int, Array, Array]]] = [[] for _ in self.sources]

    def _next(self) -> tuple[Array, Array]:
        """Return what the learner takes from the next link."""
        now, place = divmod(self._asked, len(self.sources))
        if not place:
            self._send(now)
        self._asked += 1
        waiting = self._waiting[place]
        first = min(waiting, key=lambda message: message[:2], default=None)
        if first is None or first[0] > now:
            return np.zeros((0, self._width)), np.zeros((0, self._columns))
        del waiting[[message is first for message in waiting].index(True)]
        return first[2], first[3]

    def _send(self, now: int) -> None:
        """Let every node that is awake draw and send."""
        if self._ahead is None:
            self._ahead = self._realization()
        place = self._ahead.look(now)
        for i in np.flatnonzero(self._ahead.awake[:, place]).tolist():
            points, targets = self.sources[i].draw(self.batch_size)
            delivery = int(self._ahead.deliveries[i, place])
            known = delivery != LOST and delivery <= self._conditions.links.max_age
            if known and self._ahead.active[i, place] and len(points):
                self._waiting[i].append((now + delivery, now, *self._distorted(i, points, targets, now)))

    def _distorted(self, i: int, points: Array, targets: Array, now: int) -> tuple[Array, Array]:
        links, (first, second) = self._conditions.links, self._keys[i]
        quantile = address(links.noise.quantile, QUANTILE)
        points, targets = np.array(points, order="C"), np.array(targets, dtype=np.float64, order="C")
        noise, bound = links.noise_on("points"), links.clip.points
        called(distort, points, bound, noise, quantile, links.bits, first, second, now, POINTS)
        if not self._classes:
            noise, bound = links.noise_on("values"), links.clip.values
            called(distort, targets, bound, noise, quantile, links.bits, first, second, now, TARGETS)
        return points, targets
