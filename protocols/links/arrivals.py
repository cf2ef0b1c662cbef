"""Probabilities of message loss, and distributions of message delay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.ranges import SHARE, Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey

# The facts about directed edges that losses and delays may use.


@dataclass(frozen=True)
class EdgeFacts:
    """Directed edges, each from a sender to a receiver.

    Attributes
    ----------
    senders, receivers : Integers
        The labels of the edges' ends, (E,).
    distances : Array or None
        Euclidean distances between the ends, (E,), if nodes have locations.
    attributes : tuple of mapping
        The attributes of each edge in the graph, (E,).
    """

    senders: Integers
    receivers: Integers
    distances: Array | None
    attributes: tuple[Mapping[str, Any], ...]

    def located(self, key: str) -> Array:
        """Return the distances; raises ValueError, naming ``key``, if nodes have no locations."""
        if self.distances is None:
            raise RefusedKey(
                key,
                '= "distance" needs nodes with locations: take topology.name = "random_geometric" or a stream '
                "that has them, such as sensor_field",
            )
        return self.distances

    def attribute(self, name: str, key: str) -> Array:
        """Return a numeric attribute of all edges; raises ValueError, naming ``key``, if an edge lacks it."""
        found = np.empty(len(self.attributes))
        for place, attributes in enumerate(self.attributes):
            if not isinstance(attributes.get(name), Real):
                ends = f"{self.senders[place]} and {self.receivers[place]}"
                raise RefusedKey(
                    f"{key}.attribute",
                    f"= {name!r} is not a number on the edge between {ends}, which has "
                    f"{', '.join(attributes) or 'no attributes'}: every edge of the graph needs it",
                )
            found[place] = attributes[name]
        return found


# Losses.
#
# A loss describes each directed edge by a Gilbert-Elliott channel, which is in a good or a bad state. The channel has
# four probabilities, so that rounds need not distinguish the kinds of losses.

LEAVES = Range("(0, 1]", "at 0 an edge keeps its state for ever: take a loss of name uniform for that")


class Channels(NamedTuple):
    """Gilbert-Elliott channels: probabilities per round, each (E,).

    Attributes
    ----------
    worsens, recovers : Array
        The probabilities of leaving the good state, and of leaving the bad state. If the first is 0, the channel is
        always good.
    good, bad : Array
        The probabilities of losing a message in the good state, and in the bad state.
    """

    worsens: Array
    recovers: Array
    good: Array
    bad: Array


class Loss(Protocol):
    """A loss of messages."""

    def channels(self, edges: EdgeFacts) -> Channels:
        """Return the channel of every edge; raises ValueError if edges lack an attribute or a distance."""
        ...


def constant(loss: Array) -> Channels:
    """Return channels that are always good, with these loss probabilities, (E,)."""
    return Channels(np.zeros(len(loss)), np.ones(len(loss)), loss, loss)


@dataclass(frozen=True)
class Uniform(Ranged):
    """Every message is lost with the same probability, independently of all others.

    Parameters
    ----------
    probability : float
        From 0 to 1.
    """

    probability: float = 0.0

    ranges: ClassVar = {"probability": SHARE}

    def channels(self, edges: EdgeFacts) -> Channels:
        return constant(np.full(len(edges.senders), self.probability))


@dataclass(frozen=True)
class Bursts(Ranged):
    """Each directed edge is in a good or in a bad state, and changes at random (Gilbert 1960, Elliott 1963).

    The fraction of lost messages is ``(recovers good + worsens bad) / (worsens + recovers)``. With bad = 1 bursts of
    losses last ``1 / recovers`` rounds on average.

    Parameters
    ----------
    worsens : float
        The probability of leaving the good state in a round, above 0.
    recovers : float
        The probability of leaving the bad state in a round, above 0.
    good, bad : float
        The probabilities of losing a message in the two states.
    """

    worsens: float = 0.05
    recovers: float = 0.2
    good: float = 0.0
    bad: float = 1.0

    ranges: ClassVar = {
        "worsens": LEAVES,
        "recovers": LEAVES,
        "good": SHARE,
        "bad": SHARE,
    }

    def channels(self, edges: EdgeFacts) -> Channels:
        rates = (self.worsens, self.recovers, self.good, self.bad)
        return Channels(*[np.full(len(edges.senders), rate) for rate in rates])


@dataclass(frozen=True)
class EdgeLoss:
    """Messages are lost with a probability that is an attribute of the graph's edge.

    Parameters
    ----------
    attribute : str
        The attribute's name; every edge must have it, and it must be a probability.
    """

    attribute: str = "loss"

    def channels(self, edges: EdgeFacts) -> Channels:
        found = edges.attribute(self.attribute, "loss")
        for value in found:
            SHARE.check(f"the edge attribute {self.attribute!r}", float(value))
        return constant(found)


@dataclass(frozen=True)
class DistanceLoss(Ranged):
    """Messages are lost with a probability that increases with the distance d, ``1 - exp(-(d / range)^exponent)``.

    Parameters
    ----------
    range : float
        The distance at which 63% of messages are lost, above 0, in units of the locations.
    exponent : float
        Above 0; larger values have a sharper end of the range.
    """

    range: float = 1.0
    exponent: float = 2.0

    ranges: ClassVar = {"range": Range("(0, inf)"), "exponent": Range("(0, inf)")}

    def channels(self, edges: EdgeFacts) -> Channels:
        return constant(-np.expm1(-((edges.located("loss") / self.range) ** self.exponent)))


# Delays.
#
# A delay describes each directed edge by the probabilities of 0, 1, 2, ... rounds, so that rounds need not distinguish
# the kinds of delays. A message without delay is received in the next round, as on ideal links.

LONGEST = 1000
"""The largest delay, in rounds."""

ROUNDS = Range(f"[0, {LONGEST}]")

TAIL = 1e-9
"""Unbounded distributions are cut at the point where the tail has at most this probability, or at LONGEST."""


class Delay(Protocol):
    """A delay of messages."""

    def distribution(self, edges: EdgeFacts) -> Array:
        """Return the probabilities of 0, 1, ... rounds, (E, L), or (1, L) if all edges have the same.

        Raises ValueError if edges lack an attribute or a distance.
        """
        ...


@dataclass(frozen=True)
class Constant(Ranged):
    """Every message takes the same time.

    Parameters
    ----------
    rounds : int
        From 0 to 1000.
    """

    rounds: int = 0

    ranges: ClassVar = {"rounds": ROUNDS}

    def distribution(self, edges: EdgeFacts) -> Array:
        found = np.zeros((1, self.rounds + 1))
        found[0, -1] = 1.0
        return found


@dataclass(frozen=True)
class Between:
    """Every message takes a number of rounds between two bounds, each with the same probability.

    Parameters
    ----------
    shortest, longest : int
        The bounds, both included.
    """

    shortest: int = 0
    longest: int = 4

    ranges: ClassVar = {"shortest": ROUNDS, "longest": ROUNDS}

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.longest < self.shortest:
            raise RefusedKey("longest", f"= {self.longest} must not be below shortest = {self.shortest}")

    def distribution(self, edges: EdgeFacts) -> Array:
        found = np.zeros((1, self.longest + 1))
        found[0, self.shortest :] = 1.0 / (self.longest + 1 - self.shortest)
        return found


@dataclass(frozen=True)
class Geometric(Ranged):
    """A message on its way arrives in each round with the same probability, ``1 / (1 + mean)``.

    Parameters
    ----------
    mean : float
        The mean number of rounds, nonnegative.
    """

    mean: float = 2.0

    ranges: ClassVar = {"mean": ROUNDS}

    def distribution(self, edges: EdgeFacts) -> Array:
        """Return the geometric distribution; the last entry includes the tail."""
        stays = self.mean / (1.0 + self.mean)
        length = LONGEST if stays > TAIL ** (1.0 / LONGEST) else 1 + int(np.log(TAIL) / np.log(max(stays, 1e-300)))
        found = (1.0 - stays) * stays ** np.arange(length + 1.0)
        found[-1] = 1.0 - found[:-1].sum()
        return found[np.newaxis]


@dataclass(frozen=True)
class DistanceDelay(Ranged):
    """Messages take a number of rounds that increases with the distance: distance divided by speed, rounded down.

    Parameters
    ----------
    speed : float
        The distance covered by a message in a round, above 0, in units of the locations.
    """

    speed: float = 0.1

    ranges: ClassVar = {"speed": Range("(0, inf)")}

    def distribution(self, edges: EdgeFacts) -> Array:
        needed = np.floor(edges.located("delay") / self.speed).astype(np.int64)
        if len(needed) and needed.max() > LONGEST:
            raise RefusedKey(
                "delay.speed",
                f"= {self.speed} makes a message take {needed.max():,} rounds: raise it, until none takes "
                f"more than {LONGEST}",
            )
        found = np.zeros((len(needed), 1 + int(needed.max(initial=0))))
        found[np.arange(len(needed)), needed] = 1.0
        return found
