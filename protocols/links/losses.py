"""How often messages are lost.

A loss describes each directed edge by a Gilbert-Elliott channel, which is in a good or in a bad state: four
probabilities, so that the round knows no loss by name.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.ranges import SHARE, Range, check_ranges

Array = npt.NDArray[np.float64]


LEAVES = Range("(0, 1]", "at 0 an edge keeps its state for ever: take a loss of name uniform for that")


class Channels(NamedTuple):
    """Gilbert-Elliott channels, each (E,): probabilities for a round.

    Attributes
    ----------
    worsens, recovers : Array
        Of leaving the good state, and the bad one; where the first is 0 the channel is always good.
    good, bad : Array
        Of losing a message in the good state, and in the bad one.
    """

    worsens: Array
    recovers: Array
    good: Array
    bad: Array


class Loss(Protocol):
    """A loss of messages."""

    def channels(self, edges: EdgeFacts) -> Channels:
        """Return the channel of every edge; raises ValueError where edges lack an attribute or a distance."""
        ...


def constant(loss: Array) -> Channels:
    """Return channels that are always good and lose with these probabilities, (E,)."""
    return Channels(np.zeros(len(loss)), np.ones(len(loss)), loss, loss)


@dataclass(frozen=True)
class Uniform:
    """Every message is lost with the same probability, independently of all others.

    Parameters
    ----------
    probability : float
        From 0 to 1.
    """

    probability: float = 0.0

    ranges: ClassVar = {"probability": SHARE}

    def __post_init__(self) -> None:
        check_ranges(self)

    def channels(self, edges: EdgeFacts) -> Channels:
        return constant(np.full(len(edges.senders), self.probability))


@dataclass(frozen=True)
class Bursts:
    """Each directed edge is in a good or in a bad state, and changes at random (Gilbert 1960, Elliott 1963).

    Messages are lost with the share ``(recovers good + worsens bad) / (worsens + recovers)``, in bursts of
    ``1 / recovers`` rounds on average where bad = 1.

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

    def __post_init__(self) -> None:
        check_ranges(self)

    def channels(self, edges: EdgeFacts) -> Channels:
        rates = (self.worsens, self.recovers, self.good, self.bad)
        return Channels(*[np.full(len(edges.senders), rate) for rate in rates])


@dataclass(frozen=True)
class EdgeLoss:
    """Messages are lost with a probability that is an attribute of the graph's edge.

    Parameters
    ----------
    attribute : str
        The attribute's name; every edge has it, a probability.
    """

    attribute: str = "loss"

    def channels(self, edges: EdgeFacts) -> Channels:
        found = edges.attribute(self.attribute, "loss")
        for value in found:
            SHARE.check(f"the edge attribute {self.attribute!r}", float(value))
        return constant(found)


@dataclass(frozen=True)
class DistanceLoss:
    """Messages are lost the more often the farther they go: ``1 - exp(-(d / range)^exponent)`` at the distance d.

    Parameters
    ----------
    range : float
        The distance at which 63% are lost, above 0, in units of the locations.
    exponent : float
        Above 0; the larger, the sharper the end of the range.
    """

    range: float = 1.0
    exponent: float = 2.0

    ranges: ClassVar = {"range": Range("(0, inf)"), "exponent": Range("(0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)

    def channels(self, edges: EdgeFacts) -> Channels:
        return constant(-np.expm1(-((edges.located("loss") / self.range) ** self.exponent)))
