"""Which nodes are awake, and what becomes of the message of every directed edge, in every round.

All of it is a function of the seed, the labels of the nodes and the round, whatever is learned: protocols, backends and
blocks meet the same link conditions, and so does a run that is resumed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.chance import threefry, uniform
from kernelswarm.protocols.clocks.clocks import Clock
from kernelswarm.protocols.clocks.presence import JoiningClock
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.protocols.links.links import Links
from kernelswarm.protocols.unreliable.absences import Absences, leave_out
from kernelswarm.protocols.unreliable.distributions import channels_of, delays_of, gaps_of, starts_of
from kernelswarm.protocols.unreliable.faults import Fault, silenced
from kernelswarm.protocols.unreliable.timetable import Timetable

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

LOST = -1
"""In place of the delay of a message that does not arrive."""

AHEAD = 2**22
"""The largest number of messages and nodes drawn ahead."""

NODE = 2**32 - 1
"""In place of the receiving node in the key of a node."""

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
        The rounds in which edges are there; None for a constant network.
    directed : bool
        Whether there are edges on which only one end asks.
    transit : int
        The rounds for which an edge is busy with a message.
    absences : Absences or None
        The rounds without a sample, if there are any.
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
        The experiment's.
    nodes : Integers
        The labels of the nodes of interest, (V,), sorted.
    edges : EdgeFacts
        The directed edges on which these nodes receive.

    Raises
    ------
    ValueError
        The edges lack what the links need.
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
        # The equilibrium of a renewal process: the first is w rounds ahead with a probability that goes as P(gap > w).
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
        """The rounds from one message to the next."""
        # Here the node of interest is the sender; where messages take long, edges begin one after the other.
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
        """Whether each edge is there at all, and free for a message of the node of interest, (E, rounds)."""

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
        """Draw ahead from a round on; returns its place among the rounds drawn."""
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
            # A message that is sent after t rounds is received in the one behind the next, and rounds count from 1.
            self.active = self.active & ((self.first + 2 + np.arange(self._span)) % self.every == 0)
            carry(self._edge_keys, self._channels, self._delays, self._bad, self.first, self.deliveries)
            if self._transit > 1:
                self.active = np.array(self.active)
                occupy(self._sending, self.awake, self._transit, self.first, self._free, self.active)
                self.deliveries[self.deliveries != LOST] += self._transit - 1
            self._known += self._span
        return round - self.first


def rounds_ahead(nodes: int, edges: int) -> int:
    """Return the number of rounds that are drawn at a time for so many nodes and directed edges.

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
