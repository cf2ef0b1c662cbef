"""How long messages take.

A delay describes each directed edge by the probabilities of 0, 1, 2, ... rounds, so that the round knows no delay by
name. A message without delay is received in the next round, as on ideal links.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

LONGEST = 1000
"""The largest delay, in rounds."""

ROUNDS = Range(f"[0, {LONGEST}]")

TAIL = 1e-9
"""Unbounded distributions are cut where their tail has at most this probability, or at LONGEST."""


class Delay(Protocol):
    """A delay of messages."""

    def distribution(self, edges: EdgeFacts) -> Array:
        """Return the probabilities of 0, 1, ... rounds, (E, L), or (1, L) where all edges have the same.

        Raises ValueError where edges lack an attribute or a distance.
        """
        ...


@dataclass(frozen=True)
class Constant:
    """Every message takes the same time.

    Parameters
    ----------
    rounds : int
        From 0 to 1000.
    """

    rounds: int = 0

    ranges: ClassVar = {"rounds": ROUNDS}

    def __post_init__(self) -> None:
        check_ranges(self)

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
class Geometric:
    """A message that is on its way arrives in each round with the same probability, ``1 / (1 + mean)``.

    Parameters
    ----------
    mean : float
        The mean number of rounds, not negative.
    """

    mean: float = 2.0

    ranges: ClassVar = {"mean": ROUNDS}

    def __post_init__(self) -> None:
        check_ranges(self)

    def distribution(self, edges: EdgeFacts) -> Array:
        """Return the geometric distribution, its tail in the last place."""
        stays = self.mean / (1.0 + self.mean)
        length = LONGEST if stays > TAIL ** (1.0 / LONGEST) else 1 + int(np.log(TAIL) / np.log(max(stays, 1e-300)))
        found = (1.0 - stays) * stays ** np.arange(length + 1.0)
        found[-1] = 1.0 - found[:-1].sum()
        return found[np.newaxis]


@dataclass(frozen=True)
class DistanceDelay:
    """A message takes the longer the farther it goes: the distance divided by a speed, rounded down.

    Parameters
    ----------
    speed : float
        The distance that a message covers in a round, above 0, in units of the locations.
    """

    speed: float = 0.1

    ranges: ClassVar = {"speed": Range("(0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)

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
