"""Messages on links and by clocks of all kinds, in plain Python: who is awake, what arrives when, what is counted.

What becomes of a message, who is awake and what faulty nodes say is read from the product's realization, and random
numbers from its sequence; all else is written anew from the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.chance import pair, uniform
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.clocks import Synchronous
from kernelswarm.protocols.links.faults import SpokenFaults, misreport_in
from kernelswarm.protocols.links.links import Links
from kernelswarm.protocols.links.realization import LOST, NODE, Conditions, Realization, keys_of
from kernelswarm.simulations.engine.block import AgentPlan

Edge = tuple[int, int]
"""Who sends, and who receives."""

PRIMING = 2
"""Rounds before the first: in the first of them all send what they know, in the second what they have seen."""

SENT, DELIVERED, LOST_ON_THE_WAY, TOO_LATE = range(4)
"""The columns of the counts of an edge."""


class Messages:
    """The messages of a network, and its clock.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The nodes, in sorted order.
    """

    def __init__(self, plans: Sequence[AgentPlan]) -> None:
        self.conditions = plans[0].conditions or Conditions(Links(), Synchronous(), (0, 0))
        self.forgets: bool = getattr(self.conditions.clock, "forgets", False)
        self.labels = [plan.neighborhood.node for plan in plans]
        self.neighbors = {plan.neighborhood.node: plan.neighborhood.neighbors for plan in plans}
        edges: list[Edge] = [(j, i) for i in self.labels for j in self.neighbors[i]]
        attributes = tuple(each for plan in plans for each in plan.neighborhood.edges)
        senders, receivers = np.array(edges).T
        self._realization = Realization(
            self.conditions, np.array(self.labels), EdgeFacts(senders, receivers, None, attributes)
        )
        self._places = {edge: place for place, edge in enumerate(edges)}
        keys = keys_of(*self.conditions.key, np.array(self.labels), np.full(len(self.labels), NODE))
        self._keys = dict(zip(self.labels, keys.tolist(), strict=True))
        self._faults = SpokenFaults(self.conditions.faults, self.labels)
        self.arrived: dict[Edge, dict[int, Array]] = {edge: {} for edge in edges}
        """What has arrived on each edge, by the rounds in which it was sent."""
        self._flying: list[tuple[int, Edge, int, Array]] = []
        """What is on its way: when it is due, on which edge, when it was sent, and the vector."""
        self._gone: list[tuple[Edge, int]] = []
        """What was sent in the last round and does not arrive: on which edge, and the column of its count."""
        self.counts = {edge: np.zeros(4, dtype=np.int64) for edge in edges}

    def _found(self, what: str, place: int, now: int) -> Any:
        column = self._realization.look(now - PRIMING)
        return getattr(self._realization, what)[place, column]

    def awake(self, label: int, now: int) -> bool:
        """Return whether a node is awake in a round."""
        return now < PRIMING or bool(self._found("awake", self.labels.index(label), now))

    def arrive(self, now: int, awake: Sequence[int]) -> None:
        """Let what is due arrive; where nobody is there it waits, or is lost."""
        for edge, column in self._gone:
            self.counts[edge][column] += 1
        due = [message for message in self._flying if message[0] == now]
        self._gone, self._flying = [], [message for message in self._flying if message[0] > now]
        for _, edge, sent, vector in due:
            there = edge[1] in awake or self.conditions.clock.listens
            self.counts[edge][DELIVERED if there else LOST_ON_THE_WAY] += sent >= PRIMING
            if there:
                self.arrived[edge][sent] = vector

    def send(self, label: int, now: int, vector: Array) -> int:
        """Send a vector to all neighbours whose edge is there, and return how many these are."""
        count = 0
        for i in self.neighbors[label]:
            edge, back, primes = (label, i), self._places[i, label], now < PRIMING
            if not (self.conditions.every == 1 if primes else self._found("active", back, now)):
                continue
            delay = 0 if primes else int(self._found("deliveries", self._places[edge], now))
            self.counts[edge][SENT] += not primes
            count += not primes
            if delay == LOST or delay > self.conditions.links.max_age:
                self._gone.append((edge, LOST_ON_THE_WAY if delay == LOST else TOO_LATE))
            else:
                self._flying.append((now + 1 + delay, edge, now, vector))
        return count

    def forget(self, label: int) -> None:
        """Drop what has arrived at a node; what is on its way still comes."""
        for edge in self.arrived:
            if edge[1] == label:
                self.arrived[edge] = {}

    def seen_by(self, label: int, other: int) -> list[int]:
        """Return what a node has sent to a neighbour, and what became of the messages from there."""
        return [int(self.counts[label, other][SENT]), *self.counts[other, label][1:].tolist()]

    def changed(self, label: int, now: int, vector: Array) -> Array:
        """Return a vector as the node's faults misreport it, and as links clip, blur and round it: for all alike."""
        links, (first, second), place = self.conditions.links, self._keys[label], self.labels.index(label)
        begin, end = self._faults.start[place : place + 2]
        misreported = np.array([vector])
        misreport_in(misreported, self._faults.rows[begin:end], first, second, now, 0)
        bound = min(links.clip.points, links.clip.values)
        found = np.clip(misreported[0], -bound, bound)
        if links.noise.scale:
            draws = [pair(first, second, now + (2**26 + k) * 2**32) for k in range(len(found))]
            found = found + links.noise.scale * np.array([links.noise.quantile(u, v) for u, v in draws])
        return rounded(found, links.bits, (first, second), now) if links.bits < 64 else found


def rounded(vector: Array, bits: int, key: tuple[int, int], sent: int) -> Array:
    """Return a vector rounded to so many bits: ``A (2 k / L - 1)`` with ``L = 2^bits - 1``."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not largest:
        return vector
    scale = 2.0 ** (math.ceil(512.0 * math.log2(largest) - 1e-9) / 512.0)  # A in 16 bits
    unit = largest
    if bits > 12:
        unit = scale
    else:
        below = scale * 2.0 ** (-1.0 / 512.0)
        if uniform(*key, sent + (2**31 - 1) * 2**32) * (scale - below) >= largest - below:
            scale = below
    draws = [pair(*key, sent + (2 * 2**26 + k) * 2**32) for k in range((len(vector) + 1) // 2)]
    levels, chance = 2.0**bits - 1.0, np.array(draws).reshape(-1)[: len(vector)]
    whole = np.floor(levels * (vector / unit + 1.0) / 2.0 + chance)
    return np.asarray(scale * (2.0 * np.minimum(whole, levels) / levels - 1.0))
