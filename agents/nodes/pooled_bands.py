"""Conformal bands that neighbours keep together, by messages of two numbers for each output and round.

Each node sends its s_i and u_i of :mod:`kernelswarm.agents.nodes.conformal_band`. With Metropolis weights w_ij, all
nodes at once, a round begins with

    s_i <- s_i + sum_j w_ij (s_j - s_i)        u_i <- u_i + sum_j w_ij (u_j - u_i)

and goes on with own scores as alone. The weights are the same in both directions, so that the mean of all u_i moves by
the nodes' errors only: as alone, and with as many samples as the network has. What nodes do not share stays their own:
the band is ``f(x) +- s_i r_i exp(u_i + d_i)``. r_i is the mean of own scores over s_i, and 1 while it differs from that
by less than two standard errors. Own scores count in s_i as ``score / r_i``. d_i takes a tenth of each step of u_i and
is never averaged, so that a node's own share outside differs from 1 - level by ``d_T / (g T / 10)``. Until a
neighbour's have been received r_i is 1 and d_i is 0: the band is the node's own.
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
"""The numbers that a node sends for each output: s_i and u_i, with s_i = 0 before its first sample."""


class PoolMember(NamedTuple):
    """A node that pools its band.

    Attributes
    ----------
    node : int
        Its label.
    neighbors : tuple of int
        Its neighbours' labels, sorted.
    weights : Array
        The weight of each neighbour, (deg,).
    distinct : float
        The number of its different samples.
    neighborhood : Neighborhood or None
        The attributes of its edges, on unreliable links or clocks.
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
        The share of targets that should lie inside.
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
        """Take the last messages of nodes in other processes, (C, 2) by label."""
        for node, message in messages.items():
            if node in self._places:
                self._messages[self._places[node]] = message

    def counted(self) -> list[int]:
        """Return how many numbers each node has sent since this was last asked."""
        found: list[int] = self._sent.tolist()
        self._sent[:] = 0
        return found

    def average(self) -> None:
        """Begin a round: average the s and u that all nodes have sent."""
        average(self.bands, self._messages, self._start, self._other, self._weights, self._sent)

    def arrays(self, node: int) -> dict[str, AnyArray]:
        """Return the messages of a node's neighbours, for a snapshot: none on ideal links."""
        return {}

    def take_over(self, node: int, arrays: Mapping[str, AnyArray]) -> None:
        """Set the messages of a node's neighbours to a result of :meth:`arrays`."""

    def follow(self, predicted: Array, targets: Array, samples: Integers, first: int, rounds: int) -> None:
        """Adapt the bands to some rounds.

        ``predicted`` and ``targets``, both (V, T, b, C), are predictions before the steps and targets, at
        ``samples`` (T, V) samples. In more than one round no node receives from another process.
        """
        network = self.bands, self._messages, self._start, self._other, self._weights, self._sent
        _follow(*network, predicted, targets, samples, self._level, self._new, first, rounds)


@cached_njit
def average(
    bands: Array, messages: Array, start: ReadOnlyIntegers, other: ReadOnlyIntegers, weights: ReadOnly, sent: Integers
) -> None:
    """Send all nodes' s and u, and average them.

    Parameters
    ----------
    bands : Array
        (V, C, 12), changed.
    messages : Array
        (V + outside, C, 2); the first V are filled here.
    start, other : Array
        (V + 1,) and (E,), the places of each node's neighbours in a row.
    weights : Array
        (E,).
    sent : Array
        (V,), the numbers that each node has sent to its neighbours; increased.
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
    """Average s and u with the neighbours', all nodes at once; ``messages``, (V + ..., C, 2), has the own first."""
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
                share = counted if silent else 1.0  # a node without samples takes the mean of those with some
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


# Conformal bands that neighbours keep together over links, and by clocks, that are not ideal.
#
# A node sends s_j and u_j of :mod:`kernelswarm.agents.nodes.pooled_bands` in each round in which it is awake, over
# each edge
# that is there, and links lose and delay them as the message of that round. A node that is awake takes of each
# neighbour the newest that has come, once, where it is newer than the last it took and no older than ``max_age``:
#
#     s_i <- s_i + sum_j w_ij / (1 + a_j) (s_j - s_i)        u_i <- u_i + sum_j w_ij / (1 + a_j) (u_j - u_i)
#
# a_j counts the rounds that node i has completed since it was sent, beyond that of ideal links. What is missing is left
# out, so that with nothing lost or late these are the averages of ideal links. What is late counts less, since it holds
# a node to the past: at an age of a for all, common errors move u by a share of 1 / (1 + a / (1 + a)) of a step at
# least, and by 1 / (1 + a) where late ones count as others.
#
# The mean of all u_i does not only move by the nodes' own errors any more: one end of an edge may receive where the
# other does not. d_i does, whatever is received: a node's own share outside differs from 1 - level by ``d_T / (g T /
# 10)``. A node that has never received from a neighbour has its own band.


NOTHING = -1
"""In place of a round: nothing arrives, or nothing was sent."""


class BandMail(NamedTuple):
    """Messages on E directed edges, on their way or arrived, in slots of the rounds in which they were sent."""

    messages: Array  # (slots, E, C, 2)
    due: Integers  # (slots, E) the round in which it arrives, or NOTHING
    rounds_before: Integers  # (slots, E) rounds that the receiver had completed when it was sent
    used: Integers  # (E,) the round of the newest that has counted, or NOTHING
    rounds: Integers  # (V,) the rounds that each node has completed
    sending: Integers  # (V,) the neighbours to which each sends at the end of the last round


class Edges(NamedTuple):
    """The directed edges on which V nodes receive, and the places of their ends in the realization."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the senders' places among the messages
    weights: Array  # (E,)
    asks: Booleans  # (E,) whether the receiver asks the sender
    asked: Booleans  # (E,) whether the sender asks the receiver
    back: Integers  # (E,) the place of the opposite edge in the realization
    senders: Integers  # (E,) the senders' places in the realization
    own: Integers  # (V,) the receivers' places in the realization


class Rounds(NamedTuple):
    """The realization of some rounds: the nodes awake, and the arrival of messages."""

    awake: Booleans  # (nodes, rounds)
    deliveries: Integers  # (edges, rounds)
    active: Booleans  # (edges, rounds)
    listens: bool  # whether messages to a sleeping node wait for it
    max_age: int


class Steps(NamedTuple):
    """The steps of nodes that are awake: predictions before each step, and targets."""

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
        The share of targets that should lie inside.
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
        """Begin a round: send the s and u of the end of the last one, and average the arrived ones."""
        self._run_rounds(1, self._no_steps, follows=False)

    def follow_steps(
        self, predicted: Array, targets: Array, samples: Integers, reached: ReadOnlyIntegers, rounds: int
    ) -> None:
        """Run some rounds, in which nodes that are awake take one step each.

        ``predicted`` and ``targets``, (V, T, b, C), are predictions before the steps and targets, at ``samples`` (T, V)
        samples. The next step of each node is ``reached`` (V,).
        """
        self._run_rounds(rounds, Steps(predicted, targets, samples, np.array(reached)), follows=True)

    def arrays(self, node: int) -> dict[str, AnyArray]:
        """Return the messages that a node has received, and those on their way to it."""
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
        """Set the messages to a node to a result of :meth:`arrays`."""
        i, mail = self._inside[node], self._mail
        edges = slice(int(self._start[i]), int(self._start[i + 1]))
        self._now, mail.rounds[i], mail.sending[i] = arrays["pooled.now"].tolist()
        mail.messages[:, edges], mail.due[:, edges] = arrays["pooled.messages"], arrays["pooled.due"]
        mail.rounds_before[:, edges], mail.used[edges] = arrays["pooled.rounds_before"], arrays["pooled.used"]

    def _looked(self, now: int) -> tuple[Rounds, int]:
        """Return the realization from round ``now`` on, and the place of that round in it."""
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
    """Return the directed edges on which nodes receive, and behind them those on which others receive from them."""
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
    """Run some rounds: send, receive, average and, with ``follows``, adapt the bands of nodes awake to their steps."""
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
    """Put what the senders knew at the end of the last round into its messages, and count them."""
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
    """Find the newest message of each neighbour for each node that is awake, and its weight."""
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
    """Find the arrival of each message sent at the end of a round; NOTHING for lost ones."""
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
