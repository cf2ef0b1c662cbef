"""The awake nodes, and the delay or loss of the message of every directed edge, in every round.

All of them depend only on the seed, the labels of the nodes and the round, not on learning: all protocols, backends,
blocks and resumed runs have the same link conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.chance import threefry, uniform
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.arrivals import Channels, Delay, EdgeFacts, Loss
from kernelswarm.protocols.links.clocks import Clock, JoiningClock
from kernelswarm.protocols.links.faults import Fault, silenced
from kernelswarm.protocols.links.links import Links

# The edges that are present in each round of a changing network.


SPAN = 256
"""The number of rounds that are computed together."""


class Changing(Protocol):
    """A changing network; see ``graphs/schedules.py``."""

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield for each round whether each edge is present."""
        ...


class Timetable:
    """The rounds of a changing network; they do not depend on the order of use.

    Parameters
    ----------
    schedule : Changing
        The schedule of the edges.
    labels : Integers
        The nodes' labels, (V,), sorted.
    edges : Integers
        The ends of every edge, (E, 2): indices among the labels, the smaller first, sorted.
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
        self._pages: list[Booleans] = []  # the last two computed

    def rounds(self, first: int, count: int, edges: Integers) -> Booleans:
        """Return whether each of some edges is present in some rounds, (n, count)."""
        found = np.empty((len(edges), count), dtype=np.bool_)
        for t in range(count):
            found[:, t] = self._page(first + t)[(first + t) % SPAN][edges]
        return found

    def places(self, senders: Integers, receivers: Integers) -> Integers:
        """Return the indices of directed edges, (n,), from the labels of their ends."""
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
        """Return whether each edge is on in the next round; raises ValueError if the schedule yields anything else."""
        found = next(self._rounds, None)
        if not isinstance(found, np.ndarray) or found.dtype != np.bool_ or found.shape != (len(self._edges),):
            given = f"{found.dtype} of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
            raise ValueError(
                f"{type(self._schedule).__name__}.begin yielded {'nothing more' if found is None else given}: yield "
                f"truth values of each edge, ({len(self._edges)},), for each round and without end"
            )
        return found


# Results of links and clocks, checked for the shapes and ranges that compiled rounds require.


ROUNDING = 1e-6
"""The tolerance for sums of probabilities."""


def channels_of(loss: Loss, edges: EdgeFacts) -> Channels:
    """Return the channel of every edge; raises ValueError unless its entries are probabilities."""
    found, method = loss.channels(edges), f"{type(loss).__name__}.channels"
    if not isinstance(found, Channels):
        raise ValueError(f"{method} returned a {type(found).__name__}: return Channels(worsens, recovers, good, bad)")
    return Channels(*(_shares(each, method, (len(edges.senders),)) for each in found))


def delays_of(delay: Delay, edges: EdgeFacts) -> Array:
    """Return the distributions of delays, (E, L) or (1, L); raises ValueError for rows that are not distributions."""
    return _distributions(delay.distribution(edges), f"{type(delay).__name__}.distribution", len(edges.senders))


def gaps_of(clock: Clock, places: Array) -> Array:
    """Return the distributions of gaps between rounds, (V, G) or (1, G); raises ValueError for other arrays."""
    return _distributions(clock.gaps(places), f"{type(clock).__name__}.gaps", len(places))


def starts_of(clock: JoiningClock, nodes: Integers, places: Array) -> Integers:
    """Return the first round of each node, (V,); raises ValueError for other arrays."""
    starts = np.asarray(clock.starts(nodes, places))
    if starts.shape != nodes.shape or starts.dtype.kind not in "iu" or (starts < 0).any():
        raise ValueError(
            f"{type(clock).__name__}.starts returned {starts.dtype} of shape {starts.shape} from "
            f"{starts.min(initial=0)}: return a round from 0 for each node, {nodes.shape}"
        )
    return starts


def _numbers(found: object, method: str) -> Array:
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned what holds no numbers ({error}): return an array of them") from error


def _shares(found: object, method: str, shape: tuple[int, ...], wanted: str = "") -> Array:
    shares = _numbers(found, method)
    if shares.shape != shape or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise ValueError(
            f"{method} returned an array of shape {shares.shape} from {shares.min(initial=np.inf):g} to "
            f"{shares.max(initial=-np.inf):g}: return probabilities {wanted or shape}"
        )
    return shares


def _distributions(found: object, method: str, count: int) -> Array:
    """Return distributions over whole numbers, ``count`` of them or a single one for all."""
    rows = _numbers(found, method)
    several, width = rows.ndim == 2 and len(rows) == count, rows.shape[1] if rows.ndim == 2 else 1
    rows = _shares(rows, method, (count if several else 1, max(1, width)), f"({count}, n) or (1, n)")
    if not (np.abs(rows.sum(axis=1) - 1.0) < ROUNDING).all():
        raise ValueError(f"{method} returned a row that does not add up to 1: return probabilities that do")
    return rows


# Rounds in which a node has no sample because of its data: it does nothing, like a sleeping node.


@dataclass(frozen=True, eq=False)
class Absences:
    """The rounds in which nodes are awake by their clocks but have no sample.

    Parameters
    ----------
    labels : Integers
        The labels of these nodes, (n,), sorted.
    starts : Integers
        The start of each node's rounds, and the end of the last, (n + 1,).
    rounds : Integers
        The rounds, in increasing order for each node; the first awake round of a node is 0.
    """

    labels: Integers
    starts: Integers
    rounds: Integers

    def of(self, nodes: Integers) -> tuple[Integers, Integers]:
        """Return the start and the end of each node's rounds, (V,) each."""
        places = np.minimum(np.searchsorted(self.labels, nodes), max(len(self.labels) - 1, 0))
        known = self.labels[places] == nodes if len(self.labels) else np.zeros(len(nodes), dtype=np.bool_)
        begin, end = (np.where(known, self.starts[places + shift], 0) for shift in (0, 1))
        return begin.astype(np.int64), end.astype(np.int64)

    def share(self, rounds: int) -> float:
        """Return the fraction of rounds with a sample, averaged over the nodes."""
        return 1.0 - float(np.count_nonzero(self.rounds < rounds)) / (len(self.labels) * rounds)


@cached_njit
def leave_out(rounds: Integers, following: Integers, ends: Integers, woken: Integers, awake: Booleans) -> None:
    """Return whether nodes are awake and have a sample, (V, rounds).

    Parameters
    ----------
    rounds : Integers
        The rounds without a sample, of all nodes.
    following, ends : Integers
        The index of each node's next such round, and the index after its last, (V,).
    woken : Integers
        The number of rounds so far in which each node is awake by its clock, (V,).
    awake : Booleans
        Whether each node is awake by its clock, (V, rounds).
    """
    for i in range(len(woken)):
        for t in range(awake.shape[1]):
            if awake[i, t]:
                if following[i] < ends[i] and rounds[following[i]] == woken[i]:
                    awake[i, t] = False
                    following[i] += 1
                woken[i] += 1


LOST = -1
"""The value that replaces the delay of a message that does not arrive."""

AHEAD = 2**22
"""The maximum number of messages and nodes drawn ahead."""

NODE = 2**32 - 1
"""The value that replaces the receiver in the key of a node."""

TRANSITION, DELIVERY, DELAY, START, PLACE = range(5)
"""The uses of random numbers of an edge or a node in a round."""


@dataclass(frozen=True)
class Conditions:
    """The link conditions of an experiment.

    Parameters
    ----------
    links : Links
        The links.
    clock : Clock
        The clock of the nodes.
    key : tuple of int
        Two 32-bit words, from the experiment's seed.
    timetable : Timetable or None
        The rounds in which edges are present; None for a constant network.
    directed : bool
        Whether there are edges on which only one end asks.
    transit : int
        The rounds for which an edge is busy with a message.
    absences : Absences or None
        The rounds without a sample, or None.
    faults : tuple of Fault
        The faults of nodes, with resolved values and labels.
    every : int
        The rounds from one message of a protocol of vectors to the next.
    """

    links: Links
    clock: Clock
    key: tuple[int, int]
    timetable: Timetable | None = None
    directed: bool = False
    transit: int = 1
    absences: Absences | None = None
    faults: tuple[Fault, ...] = ()
    every: int = 1

    @property
    def ideal(self) -> bool:
        """Whether links, clock and edges are ideal in all rounds, and all rounds have messages."""
        alone = self.timetable is None and self.absences is None and not self.directed and not self.faults
        return self.links.ideal and self.clock.ideal and alone and self.every == 1


class Realization:
    """The random sleep, losses and delays of some nodes and directed edges.

    The rounds that prime the network are ideal and not counted: round 0 is the first after them.

    Parameters
    ----------
    conditions : Conditions
        The link conditions of the experiment.
    nodes : Integers
        The labels of the nodes of interest, (V,), sorted.
    edges : EdgeFacts
        The directed edges on which these nodes receive.

    Raises
    ------
    ValueError
        Edges lack an attribute or a distance required by the links.
    """

    def __init__(self, conditions: Conditions, nodes: Integers, edges: EdgeFacts) -> None:
        key = conditions.key
        self._node_keys = keys_of(*key, nodes, np.full(len(nodes), NODE, dtype=np.int64))
        self._edge_keys = keys_of(*key, edges.senders, edges.receivers)
        channels, clock = channels_of(conditions.links.loss, edges), conditions.clock
        self._channels = np.ascontiguousarray(np.stack(channels, axis=1).reshape(-1, 4), dtype=np.float64)
        self._delays = np.cumsum(delays_of(conditions.links.delay, edges), axis=1)
        places = np.array([uniform(first, second, PLACE * 2**32) for first, second in self._node_keys.tolist()])
        gaps = gaps_of(clock, places)
        self._gaps = np.cumsum(gaps, axis=1)
        # The equilibrium of a renewal process: the first event is w rounds ahead with probability prop. to P(gap > w).
        longer = np.maximum(1.0 - np.concatenate([np.zeros((len(gaps), 1)), self._gaps[:, :-1]], axis=1), 0.0)
        self._first = np.cumsum(longer, axis=1) / longer.sum(axis=1, keepdims=True)
        self._joins = starts_of(clock, nodes, places) if fulfils(clock, JoiningClock) else None
        self._timetable = conditions.timetable
        self._edges = np.zeros(0, dtype=np.int64)
        if self._timetable is not None:
            self._edges = self._timetable.places(edges.senders, edges.receivers)
        self._absences, self._faults = conditions.absences, conditions.faults
        self._senders = edges.receivers  # of the messages from the nodes of interest
        self._nodes = nodes
        self._transit = conditions.transit
        self.every = conditions.every
        """The number of rounds from one message to the next."""
        # Here the node of interest is the sender; if messages take several rounds, edges start one after the other.
        self._sending = np.searchsorted(nodes, edges.receivers)
        self._begins = (edges.senders + edges.receivers) % conditions.transit
        self._begin()
        self._span = rounds_ahead(len(nodes), len(edges.senders))
        self.first = 0
        """The first round of :attr:`awake` and :attr:`deliveries`."""
        self.awake: Booleans = np.zeros((len(nodes), 0), dtype=np.bool_)
        """Whether each node is awake, (V, rounds)."""
        self.deliveries: Integers = np.zeros((len(edges.senders), 0), dtype=np.int64)
        """The delay of the message that each edge carries if one is sent, (E, rounds), or LOST."""
        self.active: Booleans = np.zeros((len(edges.senders), 0), dtype=np.bool_)
        """Whether each edge is present and free for a message of the node of interest, (E, rounds)."""

    def _begin(self) -> None:
        self._known = 0  # rounds
        self._free = self._begins.copy()
        self._bad = np.zeros(len(self._edge_keys), dtype=np.bool_)
        self._draws = np.zeros(len(self._node_keys), dtype=np.int64)
        self._next = np.zeros(len(self._node_keys), dtype=np.int64)
        start(self._node_keys, self._first, self._next, self._edge_keys, self._channels, self._bad)
        if self._joins is not None:
            self._next[:] = self._joins
        if self._absences is not None:
            self._woken = np.zeros(len(self._nodes), dtype=np.int64)
            self._absent, self._present = self._absences.of(self._nodes)

    def look(self, round: int) -> int:
        """Draw ahead from a round on; returns the round's index among the drawn rounds."""
        if round < self.first:
            self._begin()
            self.first, self.awake = 0, self.awake[:, :0]
        while round >= self.first + self.awake.shape[1]:
            self.first = self._known
            self.awake = np.zeros((len(self._node_keys), self._span), dtype=np.bool_)
            self.deliveries = np.zeros((len(self._edge_keys), self._span), dtype=np.int64)
            wake(self._node_keys, self._gaps, self._next, self._draws, self.first, self.awake)
            if self._absences is not None:
                leave_out(self._absences.rounds, self._absent, self._present, self._woken, self.awake)
            self.active = np.ones((len(self._edge_keys), self._span), dtype=np.bool_)
            if self._timetable is not None:
                self.active = self._timetable.rounds(self.first, self._span, self._edges)
            self.active = silenced(self._faults, self._senders, self.first, self.active)
            # A message sent after t rounds is received in round t + 2, counted from 1.
            self.active = self.active & ((self.first + 2 + np.arange(self._span)) % self.every == 0)
            carry(self._edge_keys, self._channels, self._delays, self._bad, self.first, self.deliveries)
            if self._transit > 1:
                self.active = np.array(self.active)
                occupy(self._sending, self.awake, self._transit, self.first, self._free, self.active)
                self.deliveries[self.deliveries != LOST] += self._transit - 1
            self._known += self._span
        return round - self.first


def rounds_ahead(nodes: int, edges: int) -> int:
    """Return the number of rounds to draw at a time for the given numbers of nodes and directed edges.

    Examples
    --------
    >>> rounds_ahead(20, 40), rounds_ahead(10**6, 10**7)
    (256, 1)
    """
    return max(1, min(256, AHEAD // max(1, nodes + edges)))


@cached_njit
def keys_of(first: int, second: int, left: Integers, right: Integers) -> Integers:
    """Return the keys of edges or nodes, two 32-bit words each, (n, 2)."""
    found = np.empty((len(left), 2), dtype=np.int64)
    for n in range(len(left)):
        found[n, 0], found[n, 1] = threefry(first, second, left[n] & 0xFFFFFFFF, right[n] & 0xFFFFFFFF)
    return found


@cached_njit
def start(
    node_keys: Integers, first: Array, following: Integers, edge_keys: Integers, channels: Array, bad: Booleans
) -> None:
    """Draw the first waking round of each node and the state of each channel before round 0, from the equilibrium."""
    for i in range(len(node_keys)):
        drawn = uniform(node_keys[i, 0], node_keys[i, 1], START * 2**32)
        following[i] = np.searchsorted(first[min(i, len(first) - 1)], drawn, side="right")
    for e in range(len(edge_keys)):
        drawn = uniform(edge_keys[e, 0], edge_keys[e, 1], START * 2**32)
        worsens, recovers = channels[e, 0], channels[e, 1]
        bad[e] = worsens > 0.0 and drawn * (worsens + recovers) < worsens


@cached_njit
def wake(keys: Integers, gaps: Array, following: Integers, draws: Integers, first: int, awake: Booleans) -> None:
    """Fill in whether each node is awake in the rounds from ``first`` on."""
    rounds = awake.shape[1]
    for i in range(len(keys)):
        row = gaps[min(i, len(gaps) - 1)]
        while following[i] < first + rounds:
            awake[i, following[i] - first] = True
            draws[i] += 1
            drawn = uniform(keys[i, 0], keys[i, 1], TRANSITION * 2**32 + draws[i])
            following[i] += 1 + min(int(np.searchsorted(row, drawn, side="right")), len(row) - 1)


@cached_njit
def carry(keys: Integers, channels: Array, delays: Array, bad: Booleans, first: int, deliveries: Integers) -> None:
    """Fill in the delays of the messages sent in the rounds from ``first`` on, or LOST."""
    rounds = deliveries.shape[1]
    for e in range(len(keys)):
        row = delays[min(e, len(delays) - 1)]
        for t in range(rounds):
            round = first + t
            if channels[e, 0] > 0.0:
                drawn = uniform(keys[e, 0], keys[e, 1], TRANSITION * 2**32 + round)
                bad[e] = drawn >= channels[e, 1] if bad[e] else drawn < channels[e, 0]
            loss = channels[e, 3] if bad[e] else channels[e, 2]
            if loss > 0.0 and uniform(keys[e, 0], keys[e, 1], DELIVERY * 2**32 + round) < loss:
                deliveries[e, t] = LOST
            elif len(row) > 1:
                drawn = uniform(keys[e, 0], keys[e, 1], DELAY * 2**32 + round)
                deliveries[e, t] = min(int(np.searchsorted(row, drawn, side="right")), len(row) - 1)


@cached_njit
def occupy(sending: Integers, awake: Booleans, transit: int, first: int, free: Integers, active: Booleans) -> None:
    """Keep the rounds of an edge in which its sender is awake and the edge is free.

    It then carries a message for ``transit`` rounds; ``free`` (E,) is the round from which it may carry the next.
    """
    for e in range(len(sending)):
        for t in range(active.shape[1]):
            active[e, t] = active[e, t] and awake[sending[e], t] and first + t >= free[e]
            if active[e, t]:
                free[e] = first + t + transit
