"""Sources that join the samples of all nodes: for the centralized learner, over unreliable links, and for flooding."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.chance import uniform
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.distortion import EXACT, QUANTILE, distort
from kernelswarm.protocols.links.links import bytes_of
from kernelswarm.protocols.links.realization import LOST, Conditions, Realization, keys_of
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source, freeze, twin

# The stream of the centralized learner: every node's samples, round after round in the order of the nodes.


class PooledSource:
    """The samples of several sources in one sequence: a mini-batch of each source in turn, round after round.

    Sources whose data is used up are skipped, so that the sequence has no gaps.

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
        """Start a round in which no sample has been drawn yet."""
        saved = all(hasattr(source, "state") for source in self.sources)  # a user's source may have none
        self._before: dict[str, Any] | None = self._states() if saved else None
        self._waiting: tuple[Array, Array] | None = None
        self._handed_out = 0  # number of returned samples of this round

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
        """Return the samples of the current round; empty if all data is used up."""
        if self._waiting is None:
            drawn = [source.draw(self.batch_size) for source in self.sources]
            self._waiting = _joined(drawn)
        return self._waiting

    def _states(self) -> dict[str, Any]:
        return {str(place): source.state() for place, source in enumerate(self.sources)}

    def held_out(self, samples: int) -> HeldOut:
        """Return every node's held-out data after ``samples`` draws each."""
        return pool([source.held_out(samples) for source in self.sources], None)

    def state(self) -> dict[str, Any]:
        """Return the states of the nodes' sources before the round, and the number of returned samples of the round."""
        before = self._states() if self._before is None else self._before
        return {**before, "handed_out": self._handed_out}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        for place, source in enumerate(self.sources):
            source.restore(state[str(place)])
        self._begin()
        self._handed_out = int(state["handed_out"])


def members(nodes: int, limit: int) -> list[int]:
    """Return the places of all nodes, or of ``limit`` evenly spaced nodes."""
    return list(range(nodes)) if nodes <= limit else [nodes * place // limit for place in range(limit)]


def pooled_samples(source: Source, samples: int, limit: int) -> HeldOut:
    """Return the pooled held-out data of the nodes after ``samples`` draws each."""
    sets = []
    for place in members(len(source.nodes), limit):
        drawn = samples if source.lengths is None else min(samples, source.lengths[place])
        sets.append(source.nodes[place].held_out(drawn))
    return pool(sets, limit)


def pool(sets: Sequence[HeldOut], limit: int | None) -> HeldOut:
    """Join held-out sets; beyond ``limit`` rows, take the same number of evenly spaced rows from each non-empty set."""
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
def _even(size: int, share: int) -> Integers:
    """Return ``share`` evenly spaced places among ``size`` rows; cached, since most nodes have equal sizes."""
    kept: Integers = np.linspace(0, size - 1, share).round().astype(np.int64)
    return kept


# The stream of the centralized learner if samples may be lost or late.


CENTRE = 2**32 - 2
"""The label of the one learner in the keys of links."""

POINTS, TARGETS = 0, 2
"""Stages of the random numbers that distort messages."""


class Traffic(NamedTuple):
    """Numbers of sent, delivered, lost and late messages to the one learner since the first round."""

    messages: int
    delivered: int
    lost: int
    late: int
    scalars: int
    bytes: float


def links_of(labels: Sequence[int]) -> EdgeFacts:
    """Return the nodes' links to the one learner, without distances and attributes."""
    ends = np.array(labels, dtype=np.int64)
    return EdgeFacts(np.full(len(ends), CENTRE), ends, None, ({},) * len(ends))


def sample_bytes(inputs: int, targets: int, classes: bool, batch_size: int, bits: int) -> float:
    """Compute the bytes of a message with ``batch_size`` samples; classes are sent exactly."""
    if classes and bits != EXACT:
        return bytes_of(batch_size * inputs, 0, 0, 1, bits) + 8.0 * batch_size * targets
    return bytes_of(batch_size * inputs, batch_size * targets, 0, 2, bits)


class TravellingSamples:
    """The samples of several sources, each of which sends them over its own link to the one learner.

    An awake node draws its mini-batch and sends it in one message. The learner never learns from lost messages and from
    messages older than ``max_age``. In each round it takes from each node the waiting mini-batch that arrived first, if
    there is one. If a node's link is busy, its mini-batch is discarded.

    Parameters
    ----------
    source : Source
        The nodes' stream.
    batch_size : int
        b, the samples of each node in a round.
    labels : sequence of int
        The nodes' labels, sorted.
    conditions : Conditions
        Links and clock. Changing edges and triggers have no effect here.

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
        # Keys of the links' losses are (CENTRE, node); distortions of numbers have other keys.
        self._keys = keys_of(*conditions.key, self._labels, np.full(len(labels), CENTRE)).tolist()
        self._initial = [node.state() for node in self.sources]
        self._ahead: Realization | None = self._realization()  # an error for unsuited links
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the realization: its arrays change, and arrays sent between processes may be read-only."""
        return {**self.__dict__, "_ahead": None}

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the arrivals from the next ``count`` / batch_size links, in turn."""
        pieces = [self._next() for _ in range(count // self.batch_size)]
        return _joined(pieces)

    def draw_each(self, draws: int, count: int) -> tuple[Array, Array, Integers]:
        """Return the concatenated samples of several draws, and the number of samples of each draw, (draws,)."""
        found = [self.draw(count) for _ in range(draws)]
        return *_joined(found), np.array([len(each) for each, _ in found], dtype=np.int64)

    def held_out(self, samples: int) -> HeldOut:
        """Return every node's held-out data after ``samples`` draws each."""
        return pool([source.held_out(samples) for source in self.sources], None)

    def state(self) -> dict[str, Any]:
        return {"asked": self._asked}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`, by drawing and sending all samples again."""
        for source, initial in zip(self.sources, self._initial, strict=True):
            source.restore(initial)
        self._begin()
        for _ in range(int(state["asked"])):
            self._next()

    def traffic(self, rounds: int) -> Traffic:
        """Count the messages that were sent, delivered, lost and late in the first ``rounds`` rounds."""
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
        """The links and the clock between the nodes and the one learner."""
        return self._conditions

    def _bytes(self, bits: int) -> float:
        return sample_bytes(self._width, self._columns, self._classes, self.batch_size, bits)

    def _realization(self) -> Realization:
        return Realization(self._conditions, self._labels, links_of(self._labels.tolist()))

    def _begin(self) -> None:
        self._asked = 0  # number of mini-batches drawn in the run
        # For each link, the messages under way: round of arrival, round of sending, samples.
        self._waiting: list[list[tuple[int, int, Array, Array]]] = [[] for _ in self.sources]

    def _next(self) -> tuple[Array, Array]:
        """Return the samples that the learner takes from the next link."""
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
        """Draw and send the mini-batch of every awake node."""
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


# The stream of a node that receives the samples of all nodes, hop by hop over a tree.

ENDLESS = 2**62
"""The length of an endless stream."""


class FloodedSource:
    """A node's own samples and arriving samples of others: in each round one mini-batch of each node in turn.

    A sample drawn h hops away arrives h rounds later. If nothing arrives from a node, its mini-batch is empty.

    Parameters
    ----------
    source : Source
        The nodes' stream.
    origins : sequence of int
        The places of the nodes whose samples arrive, the node itself first.
    hops : sequence of int
        The distance of each origin, in hops.
    batch_size : int
        b, the samples of each node in a round.
    steps : int
        Number of mini-batches in a round, at least the number of origins; the surplus mini-batches are empty.
    degree : int
        The node's degree in the tree.
    share : float
        The share of samples that are forwarded.
    keys : Array
        Two 32-bit words (n, 2) of each origin, which determine its forwarded samples.
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
        self._asked = 0  # number of mini-batches drawn

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the samples of the next ``count`` / batch_size mini-batches."""
        points, targets, _ = self.draw_each(count // self.batch_size, self.batch_size)
        return points, targets

    def draw_each(self, draws: int, count: int) -> tuple[Array, Array, Integers]:
        """Return the concatenated samples of several draws, and the number of samples of each, (draws,)."""
        pieces = [self._nothing, *(self._next() for _ in range(draws))]
        return *_joined(pieces), np.array([len(each) for each, _ in pieces[1:]], dtype=np.int64)

    def held_out(self, samples: int) -> HeldOut:
        """Return the node's own held-out data after ``samples`` draws from all nodes."""
        most = min(self._lengths[0], samples)
        rounds = bisect_left(range(-(-most // self.batch_size)), samples, key=lambda t: sum(self._learned(t)))
        return self._sources[0].held_out(min(most, rounds * self.batch_size))

    def scalars_sent(self, rounds: int) -> int:
        """Count the numbers that the node has sent in the first ``rounds`` rounds.

        The node sends its own samples over all edges, and other samples over all edges except the edge of their
        arrival.
        """
        own, *others = (self._kept(k, 0, count) for k, count in enumerate(self._drawn(rounds)))
        samples = own * self._degree + sum(others) * (self._degree - 1)
        return samples * sum(each.shape[1] for each in self._nothing)

    def state(self) -> dict[str, Any]:
        """Return the states of the sources, and the number of drawn mini-batches."""
        return {"asked": self._asked, **{str(k): source.state() for k, source in enumerate(self._sources)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
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
        """Return the number of samples of each origin that can have arrived after ``rounds`` rounds."""
        each = zip(self._hops, self._lengths, strict=True)
        return [min(max(rounds - hops, 0) * self.batch_size, length) for hops, length in each]

    def _learned(self, rounds: int) -> list[int]:
        """Return the number of samples of each origin that the node has learned from after ``rounds`` rounds."""
        own, *others = self._drawn(rounds)
        return [own, *(self._kept(k, 0, count) for k, count in enumerate(others, 1))]

    def _kept(self, k: int, first: int, end: int) -> int:
        """Return the number of forwarded samples among the samples ``first`` to ``end`` of an origin."""
        return end - first if self._share == 1.0 else int(self._chosen(k, first, end).sum())

    def _chosen(self, k: int, first: int, end: int) -> Booleans:
        """Tell which of these samples are forwarded."""
        one, other = self._keys[k].tolist()
        return _below(self._share, one, other, first, end)


@cached_njit
def _below(share: float, one: int, other: int, first: int, end: int) -> Booleans:
    """Tell which uniform numbers of a key, at the places ``first`` to ``end``, are below a share, (end - first,)."""
    found = np.empty(end - first, dtype=np.bool_)
    for place in range(first, end):
        found[place - first] = uniform(one, other, place) < share
    return found


def _joined(pieces: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Concatenate samples, points with points and targets with targets."""
    points, targets = (freeze(np.concatenate(arrays)) for arrays in zip(*pieces, strict=True))
    return points, targets
