"""Conformal bands that neighbours pool, with messages of two numbers per output and round.

Each node sends its s_i and u_i of :mod:`kernelswarm.agents.nodes.conformal_band`. With Metropolis weights w_ij, at all
nodes simultaneously, a round starts with

    s_i <- s_i + sum_j w_ij (s_j - s_i)        u_i <- u_i + sum_j w_ij (u_j - u_i)

and continues with own scores as for a single node. The weights are symmetric, so the mean of all u_i changes only by
the nodes' errors: as for a single node, but with as many samples as the network has. The band is
``f(x) +- s_i r_i exp(u_i + d_i)``, where r_i and d_i are not shared. r_i is the mean of own scores over s_i, or 1 while
this mean differs from 1 by less than two standard errors. Own scores enter s_i as ``score / r_i``. d_i takes a tenth of
each step of u_i and is never averaged, so a node's own share outside differs from 1 - level by ``d_T / (g T / 10)``.
Until a message of a neighbour arrives, r_i is 1 and d_i is 0: the band is the node's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.nodes import conformal_band
from kernelswarm.agents.nodes.conformal_band import AGREED_LOGARITHM, AGREED_SCALE, LOGARITHM, SCALE, follow
from kernelswarm.arrays import AnyArray, Array, Booleans, Integers
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, ReadOnlyIntegers, cached_njit
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.realization import LOST, Conditions, Realization

LONG_LOOPS = True

NUMBERS = 2
"""The number of values that a node sends per output: s_i and u_i, with s_i = 0 before its first sample."""


class PoolMember(NamedTuple):
    """A node that pools its band.

    Attributes
    ----------
    node : int
        The node's label.
    neighbors : tuple of int
        The neighbours' labels, sorted.
    weights : Array
        The weight of each neighbour, (deg,).
    distinct : float
        The number of the node's different samples.
    neighborhood : Neighborhood or None
        The attributes of the node's edges, on unreliable links or clocks.
    """

    node: int
    neighbors: tuple[int, ...]
    weights: Array
    distinct: float
    neighborhood: Neighborhood | None = None


class PooledBands:
    """The bands of the nodes of one process, in one array.

    Parameters
    ----------
    members : sequence of PoolMember
        The nodes.
    outputs : int
        C.
    level : float
        The nominal share of targets inside.
    """

    def __init__(self, members: Sequence[PoolMember], outputs: int, level: float) -> None:
        inside = [member.node for member in members]
        outside = sorted({other for member in members for other in member.neighbors} - set(inside))
        places = {node: place for place, node in enumerate([*inside, *outside])}
        self.bands = np.stack([conformal_band.empty_band(outputs, level, pooled=True) for _ in members])
        """(V, C, 12), with each node's band as a view."""
        self._sent = np.zeros(len(members), dtype=np.int64)
        self._places, self._level = places, level
        self._messages = np.zeros((len(places), outputs, NUMBERS))
        others = [places[other] for member in members for other in member.neighbors]
        self._start = np.cumsum([0, *(len(member.neighbors) for member in members)])
        self._other = np.array(others, dtype=np.int64)
        self._weights = np.concatenate([member.weights for member in members])
        self._new = np.array([member.distinct for member in members], dtype=np.float64)

    def sent_by(self, places: Sequence[int]) -> Array:
        """Return the messages of the nodes at given indices, (n, C, 2)."""
        return np.ascontiguousarray(self.bands[list(places), :, : LOGARITHM + 1])

    def receive(self, messages: Mapping[int, Array]) -> None:
        """Store the last messages of nodes in other processes, (C, 2) by label."""
        for node, message in messages.items():
            if node in self._places:
                self._messages[self._places[node]] = message

    def counted(self) -> list[int]:
        """Return how many numbers each node has sent since the last call."""
        found: list[int] = self._sent.tolist()
        self._sent[:] = 0
        return found

    def average(self) -> None:
        """Start a round by averaging the s and u sent by all nodes."""
        average(self.bands, self._messages, self._start, self._other, self._weights, self._sent)

    def arrays(self, node: int) -> dict[str, AnyArray]:
        """Return the messages of a node's neighbours for a snapshot; empty on ideal links."""
        return {}

    def take_over(self, node: int, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the messages of a node's neighbours from :meth:`arrays`."""

    def follow(self, predicted: Array, targets: Array, samples: Integers, first: int, rounds: int) -> None:
        """Adapt the bands to some rounds.

        ``predicted`` and ``targets``, both (V, T, b, C), are predictions before the steps and targets, for
        ``samples`` (T, V) samples. If ``rounds`` exceeds 1, no node receives from another process.
        """
        network = self.bands, self._messages, self._start, self._other, self._weights, self._sent
        _follow(*network, predicted, targets, samples, self._level, self._new, first, rounds)


@cached_njit
def average(
    bands: Array, messages: Array, start: ReadOnlyIntegers, other: ReadOnlyIntegers, weights: ReadOnly, sent: Integers
) -> None:
    """Send and average all nodes' s and u.

    Parameters
    ----------
    bands : Array
        (V, C, 12), changed.
    messages : Array
        (V + outside, C, 2); the first V are filled.
    start, other : Array
        (V + 1,) and (E,), the indices of each node's neighbours, concatenated.
    weights : Array
        (E,).
    sent : Array
        (V,), the numbers sent by each node to its neighbours; increased.
    """
    nodes, outputs, _ = bands.shape
    for i in range(nodes):
        for c in range(outputs):
            messages[i, c, 0], messages[i, c, 1] = bands[i, c, SCALE], bands[i, c, LOGARITHM]
            if messages[i, c, 0] > 0.0:
                sent[i] += NUMBERS * (start[i + 1] - start[i])
    mix(bands, messages, start, other, weights)


@cached_njit
def mix(bands: Array, messages: ReadOnly, start: ReadOnlyIntegers, other: ReadOnlyIntegers, weights: ReadOnly) -> None:
    """Average s and u with the neighbours' at all nodes simultaneously; ``messages``, (V + ..., C, 2), begins with own
    messages."""
    nodes, outputs, _ = bands.shape
    for i in range(nodes):
        for c in range(outputs):
            silent, counted, scale, logarithm = messages[i, c, 0] == 0.0, 0.0, 0.0, 0.0
            for e in range(start[i], start[i + 1]):
                if messages[other[e], c, 0] > 0.0:
                    counted += weights[e]
                    scale += weights[e] * (messages[other[e], c, 0] - messages[i, c, 0])
                    logarithm += weights[e] * (messages[other[e], c, 1] - messages[i, c, 1])
            if counted > 0.0:
                share = counted if silent else 1.0  # a node without samples takes its neighbours' weighted mean
                bands[i, c, SCALE] += scale / share
                bands[i, c, LOGARITHM] += logarithm / share
            if counted > 0.0 or bands[i, c, AGREED_SCALE] > 0.0:
                bands[i, c, AGREED_SCALE], bands[i, c, AGREED_LOGARITHM] = bands[i, c, SCALE], bands[i, c, LOGARITHM]


@cached_njit
def _follow(
    bands: Array,
    messages: Array,
    start: ReadOnlyIntegers,
    other: ReadOnlyIntegers,
    weights: ReadOnly,
    sent: Integers,
    predicted: ReadOnly,
    targets: ReadOnly,
    samples: ReadOnlyIntegers,
    level: float,
    new: ReadOnly,
    first: int,
    rounds: int,
) -> None:
    for t in range(first, first + rounds):
        average(bands, messages, start, other, weights, sent)
        for i in range(len(bands)):
            count = samples[t, i]
            if count:
                follow(bands[i], predicted[i, t, :count], targets[i, t, :count], level, new[i], 1)


# Pooled conformal bands on links and clocks that are not ideal.
#
# In each round in which it is awake, a node sends s_j and u_j of :mod:`kernelswarm.agents.nodes.pooled_bands` over each
# present edge, and links lose and delay them like the other message of that round. From each neighbour, an awake node
# uses the newest arrived message, once, if it is newer than the last used one and no older than ``max_age``:
#
#     s_i <- s_i + sum_j w_ij / (1 + a_j) (s_j - s_i)        u_i <- u_i + sum_j w_ij / (1 + a_j) (u_j - u_i)
#
# a_j is the number of rounds that node i has completed since the message was sent, minus the number on ideal links.
# Missing messages are left out, so without losses and delays these are the averages on ideal links. Late messages have
# smaller weights, since they hold a node to the past: if all have age a, common errors move u by a share of at least
# 1 / (1 + a / (1 + a)) of a step, and of 1 / (1 + a) with full weights.
#
# The mean of all u_i does not change only by the nodes' own errors, since one end of an edge may receive while the
# other does not. d_i does, independently of messages: a node's own share outside differs from 1 - level by
# ``d_T / (g T / 10)``. A node that has never received from a neighbour has its own band.


NOTHING = -1
"""In place of a round: no message arrives, or none was sent."""


class BandMail(NamedTuple):
    """Messages on E directed edges, on their way or arrived, in slots by the rounds in which they were sent."""

    messages: Array  # (slots, E, C, 2)
    due: Integers  # (slots, E) the round of arrival, or NOTHING
    rounds_before: Integers  # (slots, E) rounds that the receiver had completed when the message was sent
    used: Integers  # (E,) the round of the newest used message, or NOTHING
    rounds: Integers  # (V,) the rounds that each node has completed
    sending: Integers  # (V,) the number of neighbours to which each node sends at the end of the last round


class Edges(NamedTuple):
    """The directed edges on which V nodes receive, and the indices of their ends in the realization."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the senders' indices among the messages
    weights: Array  # (E,)
    asks: Booleans  # (E,) whether the receiver asks the sender
    asked: Booleans  # (E,) whether the sender asks the receiver
    back: Integers  # (E,) the index of the opposite edge in the realization
    senders: Integers  # (E,) the senders' indices in the realization
    own: Integers  # (V,) the receivers' indices in the realization


class Rounds(NamedTuple):
    """The realization of some rounds: the awake nodes, and the arrival of messages."""

    awake: Booleans  # (nodes, rounds)
    deliveries: Integers  # (edges, rounds)
    active: Booleans  # (edges, rounds)
    listens: bool  # whether messages to a sleeping node wait for it
    max_age: int


class Steps(NamedTuple):
    """The steps of awake nodes: predictions before each step, and targets."""

    predicted: ReadOnly  # (V, T, b, C)
    targets: ReadOnly  # (V, T, b, C)
    samples: ReadOnlyIntegers  # (T, V) the number of samples
    reached: Integers  # (V,) the next step of each node


class UnreliablePooledBands(PooledBands):
    """The bands of the nodes of one process, whose neighbours' messages may be late or lost.

    Parameters
    ----------
    members : sequence of PoolMember
        The nodes, in sorted order of their labels.
    outputs : int
        C.
    level : float
        The nominal share of targets inside.
    conditions : Conditions
        Links and clock.
    priming : int
        The rounds that prime the network, in which nothing is lost or late.
    """

    def __init__(
        self, members: Sequence[PoolMember], outputs: int, level: float, conditions: Conditions, priming: int
    ) -> None:
        super().__init__(members, outputs, level)
        self._now, self._priming = 0, priming
        self._listens, self._max_age = conditions.clock.listens, conditions.links.max_age
        known = [member.neighborhood for member in members if member.neighborhood is not None]
        labels = np.array(sorted(self._places), dtype=np.int64)
        facts = _facts(members, known)
        self._realization = Realization(conditions, labels, facts)
        count = int(self._start[-1])
        places = {ends: e for e, ends in enumerate(zip(facts.receivers.tolist(), facts.senders.tolist(), strict=True))}
        back = [places[sender, receiver] for receiver, sender in list(places)[:count]]
        self._edges = Edges(
            self._start,
            self._other,
            self._weights,
            _flags([(one.asks, member) for one, member in zip(known, members, strict=True)]),
            _flags([(one.asked, member) for one, member in zip(known, members, strict=True)]),
            np.array(back, dtype=np.int64),
            np.searchsorted(labels, facts.senders[:count]),
            np.searchsorted(labels, [member.node for member in members]),
        )
        slots = self._max_age + 2
        self._mail = BandMail(
            np.zeros((slots, count, outputs, NUMBERS)),
            np.full((slots, count), NOTHING),
            np.zeros((slots, count), dtype=np.int64),
            np.full(count, NOTHING),
            np.zeros(len(members), dtype=np.int64),
            np.zeros(len(members), dtype=np.int64),
        )
        self._received = np.zeros((len(members) + count, outputs, NUMBERS))
        self._apart = len(members) + np.arange(count)
        self._counts = np.zeros(count)
        self._inside = {member.node: i for i, member in enumerate(members)}
        nothing = np.zeros((len(members), 0, 1, outputs))
        counts = np.zeros((0, len(members)), dtype=np.int64)
        self._no_steps = Steps(nothing, nothing, counts, np.zeros(len(members), dtype=np.int64))

    def average(self) -> None:
        """Start a round: send the s and u of the end of the last round, and average the arrived ones."""
        self._run_rounds(1, self._no_steps, follows=False)

    def follow_steps(
        self, predicted: Array, targets: Array, samples: Integers, reached: ReadOnlyIntegers, rounds: int
    ) -> None:
        """Run some rounds, in each of which awake nodes take one step.

        ``predicted`` and ``targets``, (V, T, b, C), are predictions before the steps and targets, for ``samples`` (T,
        V) samples. The next step of each node is ``reached`` (V,).
        """
        self._run_rounds(rounds, Steps(predicted, targets, samples, np.array(reached)), follows=True)

    def arrays(self, node: int) -> dict[str, AnyArray]:
        """Return the messages that a node has received, and the messages on their way to it."""
        i, mail = self._inside[node], self._mail
        edges = slice(int(self._start[i]), int(self._start[i + 1]))
        return {
            "pooled.now": np.array([self._now, mail.rounds[i], mail.sending[i]]),
            "pooled.messages": mail.messages[:, edges].copy(),
            "pooled.due": mail.due[:, edges].copy(),
            "pooled.rounds_before": mail.rounds_before[:, edges].copy(),
            "pooled.used": mail.used[edges].copy(),
        }

    def take_over(self, node: int, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the messages to a node from :meth:`arrays`."""
        i, mail = self._inside[node], self._mail
        edges = slice(int(self._start[i]), int(self._start[i + 1]))
        self._now, mail.rounds[i], mail.sending[i] = arrays["pooled.now"].tolist()
        mail.messages[:, edges], mail.due[:, edges] = arrays["pooled.messages"], arrays["pooled.due"]
        mail.rounds_before[:, edges], mail.used[edges] = arrays["pooled.rounds_before"], arrays["pooled.used"]

    def _looked(self, now: int) -> tuple[Rounds, int]:
        """Return the realization from round ``now`` on, and the index of that round in it."""
        known, (nodes, edges) = self._realization, (len(self._places), len(self._realization.deliveries))
        if now < self._priming:
            there = np.ones((nodes, 1), dtype=np.bool_), np.zeros((edges, 1), dtype=np.int64)
            return Rounds(*there, np.ones((edges, 1), dtype=np.bool_), self._listens, self._max_age), 0
        place = known.look(now - self._priming)
        return Rounds(known.awake, known.deliveries, known.active, self._listens, self._max_age), place

    def _run_rounds(self, rounds: int, steps: Steps, follows: bool) -> None:
        while rounds:
            happened, place = self._looked(self._now)
            count = min(rounds, happened.awake.shape[1] - place)
            _run_rounds(
                self.bands,
                self._messages,
                self._received,
                self._apart,
                self._counts,
                self._sent,
                self._edges,
                self._mail,
                happened,
                place,
                self._now,
                count,
                steps,
                follows,
                self._level,
                self._new,
            )
            self._now += count
            rounds -= count


def _flags(each: Sequence[tuple[tuple[bool, ...], PoolMember]]) -> Booleans:
    """Return the flag of each edge, True by default."""
    found = [flag for flags, member in each for flag in flags or (True,) * len(member.neighbors)]
    return np.array(found, dtype=np.bool_)


def _facts(members: Sequence[PoolMember], known: Sequence[Neighborhood]) -> EdgeFacts:
    """Return the directed edges on which nodes receive, followed by the edges to other processes."""
    inside = {member.node for member in members}
    ends = [(other, member.node) for member in members for other in member.neighbors]
    attributes = [edge for one, member in zip(known, members, strict=True) for edge in one.edges[: _degree(member)]]
    located = [
        one.distances[: _degree(member)]
        for one, member in zip(known, members, strict=True)
        if one.distances is not None
    ]
    lengths = np.concatenate([np.zeros(0), *located])
    back = [e for e, (sender, _) in enumerate(ends) if sender not in inside]
    senders, receivers = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return EdgeFacts(
        np.concatenate([senders, receivers[back]]),
        np.concatenate([receivers, senders[back]]),
        np.concatenate([lengths, lengths[back]]) if len(located) == len(known) else None,
        (*attributes, *(attributes[e] for e in back)),
    )


def _degree(member: PoolMember) -> int:
    return len(member.neighbors)


@cached_njit
def _run_rounds(
    bands: Array,
    messages: Array,
    received: Array,
    apart: ReadOnlyIntegers,
    counts: Array,
    sent: Integers,
    edges: Edges,
    mail: BandMail,
    happened: Rounds,
    place: int,
    first: int,
    rounds: int,
    steps: Steps,
    follows: bool,
    level: float,
    new: ReadOnly,
) -> None:
    """Run some rounds: send, receive, average and, with ``follows``, adapt the bands of awake nodes to their steps."""
    predicted, targets, samples, reached = steps
    for t in range(rounds):
        _send(bands, messages, sent, edges, mail, first + t)
        _receive(bands, received, counts, edges, mail, happened, place + t, first + t)
        mix(bands, received, edges.start, apart, counts)
        _dispatch(edges, mail, happened, place + t, first + t)
        for i in range(len(bands) if follows else 0):
            if happened.awake[edges.own[i], place + t]:
                at = reached[i]
                count = samples[at, i]
                if count:
                    follow(bands[i], predicted[i, at, :count], targets[i, at, :count], level, new[i], 1)
                reached[i] += 1


@cached_njit
def _send(bands: ReadOnly, messages: Array, sent: Integers, edges: Edges, mail: BandMail, now: int) -> None:
    """Write the senders' s and u at the end of the last round into its messages, and count them."""
    nodes, outputs, _ = bands.shape
    slot = (now - 1) % len(mail.due)
    for i in range(nodes):
        for c in range(outputs):
            messages[i, c, 0], messages[i, c, 1] = bands[i, c, SCALE], bands[i, c, LOGARITHM]
            if messages[i, c, 0] > 0.0:
                sent[i] += NUMBERS * mail.sending[i]
    for i in range(nodes):
        for e in range(edges.start[i], edges.start[i + 1]):
            if mail.due[slot, e] != NOTHING:
                mail.messages[slot, e] = messages[edges.other[e]]
                mail.rounds_before[slot, e] = mail.rounds[i]


@cached_njit
def _receive(
    bands: ReadOnly,
    received: Array,
    counts: Array,
    edges: Edges,
    mail: BandMail,
    happened: Rounds,
    place: int,
    now: int,
) -> None:
    """Find the newest message of each neighbour of each awake node, and its weight."""
    nodes, slots = len(bands), len(mail.due)
    for i in range(nodes):
        received[i, :, 0], received[i, :, 1] = bands[i, :, SCALE], bands[i, :, LOGARITHM]
        awake = happened.awake[edges.own[i], place]
        for e in range(edges.start[i], edges.start[i + 1]):
            received[nodes + e] = 0.0
            counts[e] = 0.0
            if not awake:
                for slot in range(slots):
                    if mail.due[slot, e] == now and not happened.listens:
                        mail.due[slot, e] = NOTHING
                continue
            for sent in range(now - 1, max(now - 2 - happened.max_age, mail.used[e]), -1):
                slot = sent % slots
                if mail.due[slot, e] != NOTHING and mail.due[slot, e] <= now:
                    received[nodes + e] = mail.messages[slot, e]
                    counts[e] = edges.weights[e] / (1.0 + (mail.rounds[i] - mail.rounds_before[slot, e]))
                    mail.used[e] = sent
                    break
        mail.rounds[i] += awake


@cached_njit
def _dispatch(edges: Edges, mail: BandMail, happened: Rounds, place: int, now: int) -> None:
    """Compute the arrival of each message sent at the end of a round; NOTHING for lost messages."""
    slot = now % len(mail.due)
    for i in range(len(mail.rounds)):
        mail.sending[i] = 0
        for e in range(edges.start[i], edges.start[i + 1]):
            if happened.awake[edges.own[i], place] and happened.active[e, place] and edges.asked[e]:
                mail.sending[i] += 1
            there = happened.awake[edges.senders[e], place] and happened.active[edges.back[e], place]
            delay = happened.deliveries[e, place]
            mail.due[slot, e] = NOTHING
            if there and edges.asks[e] and delay != LOST and delay <= happened.max_age:
                mail.due[slot, e] = now + 1 + delay
