"""Clocks: the rounds in which nodes are awake.

A clock describes each node by a renewal process: the probabilities that the node is awake again after 1, 2, 3, ...
rounds. Rounds therefore need not distinguish the kinds of clocks. The initial state of the process is drawn from its
equilibrium, so that all rounds have the same distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.contract import fulfils
from kernelswarm.ranges import SHARE, Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey

LONGEST = 100_000
"""The largest number of rounds that a node sleeps."""

TAIL = 1e-12
"""Unbounded distributions are cut at the point where the tail has at most this probability, or at LONGEST."""


AWAKE = Range("[0.001, 1]", "a node that never wakes takes no part")


class Clock(Protocol):
    """A clock of every node."""

    @property
    def ideal(self) -> bool:
        """Whether every node is awake in every round."""
        ...

    @property
    def listens(self) -> bool:
        """Whether messages wait for a sleeping node; otherwise they are lost."""
        ...

    def gaps(self, places: Array) -> Array:
        """Return the probabilities that a node wakes again after 1, 2, ... rounds: (V, G), or (1, G) for equal nodes.

        ``places`` (V,) are independent uniform numbers in [0, 1), one for each node: its quantile among all nodes.
        """
        ...


def geometric(chance: float) -> Array:
    """Return the gaps of a node that is awake in each round with the same probability, (G,)."""
    stays = 1.0 - chance
    length = 1 + int(np.ceil(np.log(TAIL) / np.log(stays))) if stays > 0.0 else 1
    found = chance * stays ** np.arange(float(min(length, LONGEST)))
    found[-1] += 1.0 - found.sum()
    return found


@dataclass(frozen=True)
class Synchronous:
    """Every node is awake in every round."""

    ideal: ClassVar[bool] = True
    listens: ClassVar[bool] = True

    def gaps(self, places: Array) -> Array:
        return np.ones((1, 1))


@dataclass(frozen=True)
class Bernoulli(Ranged):
    """Every node is awake in each round with the same probability, independently of all others.

    Parameters
    ----------
    probability : float
        From .001 to 1.
    """

    probability: float = 0.5

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = True

    ranges: ClassVar = {"probability": AWAKE}

    def gaps(self, places: Array) -> Array:
        return geometric(self.probability)[np.newaxis]


@dataclass(frozen=True)
class Poisson:
    """Nodes wake at the events of Poisson processes, whose rates are drawn log-uniformly for each node.

    A node is awake in a round with at least one event, which has the probability ``1 - exp(-rate)``.

    Parameters
    ----------
    slowest, fastest : float
        The bounds of the rates, in events per round, above 0.
    """

    slowest: float = 0.25
    fastest: float = 1.0

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = True

    ranges: ClassVar = {"slowest": Range("[0.001, inf)"), "fastest": Range("[0.001, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.fastest < self.slowest:
            raise RefusedKey("fastest", f"= {self.fastest!r} must not be below slowest = {self.slowest!r}")

    def gaps(self, places: Array) -> Array:
        rates = self.slowest * (self.fastest / self.slowest) ** places
        rows = [geometric(float(-np.expm1(-rate))) for rate in rates]
        found = np.zeros((len(rows), max(map(len, rows), default=1)))
        for entry, row in zip(found, rows, strict=True):
            entry[: len(row)] = row
        return found


@dataclass(frozen=True)
class Cyclic(Ranged):
    """Every node is awake once in a period, in a round that is random for each node.

    Parameters
    ----------
    period : int
        The number of rounds of a period, at least 1.
    """

    period: int = 4

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = True

    ranges: ClassVar = {"period": Range(f"[1, {LONGEST:,}]")}

    def gaps(self, places: Array) -> Array:
        found = np.zeros((1, self.period))
        found[0, -1] = 1.0
        return found


@dataclass(frozen=True)
class Stragglers(Ranged):
    """Most rounds of a node take one round; more than g rounds have the probability ``share g^-tail``.

    Parameters
    ----------
    share : float
        The probability of taking more than one round.
    tail : float
        The exponent, above 0; smaller values have heavier tails.
    longest : int
        The largest number of rounds, at least 2.
    """

    share: float = 0.1
    tail: float = 1.5
    longest: int = 100

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = True

    ranges: ClassVar = {
        "share": SHARE,
        "tail": Range("(0, inf)"),
        "longest": Range(f"[2, {LONGEST:,}]"),
    }

    def gaps(self, places: Array) -> Array:
        """Return the distribution; the last entry includes the tail."""
        more = self.share * np.arange(1.0, self.longest) ** -self.tail  # the probabilities of more than 1, 2, ...
        return -np.diff(np.concatenate([[1.0], more, [0.0]]))[np.newaxis]


# Clocks of nodes that are not always in the network: they leave and return, or join late.
#
# Messages to a node that is not in the network are lost.


@runtime_checkable
class ForgettingClock(Clock, Protocol):
    """A clock that may reset nodes after an absence."""

    @property
    def forgets(self) -> bool:
        """Whether a node that slept in the previous round has forgotten its function."""
        ...


@runtime_checkable
class JoiningClock(Clock, Protocol):
    """A clock with the first round of each node."""

    @property
    def nodes(self) -> tuple[int | str, ...]:
        """The nodes with a given first round, by label or by name; in a run all are labels of the network."""
        ...

    def starts(self, nodes: Integers, places: Array) -> Integers:
        """Return the first round in which each node is awake, (V,).

        ``nodes`` (V,) are the nodes' labels; ``places`` (V,) are as in :meth:`Clock.gaps`.
        """
        ...


def forgets(clock: Clock) -> bool:
    """Return whether nodes forget their functions while they sleep."""
    return fulfils(clock, ForgettingClock) and clock.forgets


@dataclass(frozen=True)
class Churn(Ranged):
    """Nodes leave the network and return; messages to them meanwhile are lost.

    A node is present in a fraction ``returns / (leaves + returns)`` of the rounds.

    Parameters
    ----------
    leaves : float
        The probability that a present node leaves in the next round.
    returns : float
        The probability that an absent node returns in the next round, from .001 to 1.
    memory : bool
        Whether a node keeps its function during an absence. Without memory a returning node restarts with the learner's
        initial function, and with the initial dual variables and tolerances.
    """

    leaves: float = 0.01
    returns: float = 0.05
    memory: bool = True

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = False

    ranges: ClassVar = {"leaves": SHARE, "returns": AWAKE}

    @property
    def forgets(self) -> bool:
        return not self.memory

    def gaps(self, places: Array) -> Array:
        """Return the gaps: 1 if a node stays, and 1 plus a geometric number of rounds if it leaves."""
        return np.concatenate([[1.0 - self.leaves], self.leaves * geometric(self.returns)])[np.newaxis]


@dataclass(frozen=True)
class Joining:
    """Nodes join the network late and then stay; before they join they are silent and learn nothing.

    Parameters
    ----------
    within : int
        The last round in which nodes join: each joins in a round from 0 to this one, with equal probabilities. With 0
        all nodes are present from the start.
    nodes : tuple of int or str
        Nodes with a given first round, by their labels in the network (numbers) or by their names (text).
    rounds : tuple of int
        The first rounds, one for each of ``nodes``; 0 means present from the start.
    """

    within: int = 100
    nodes: tuple[int | str, ...] = ()
    rounds: tuple[int, ...] = ()

    listens: ClassVar[bool] = False

    ranges: ClassVar = {"within": Range(f"[0, {LONGEST:,}]")}

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(self.nodes) != len(self.rounds):
            raise RefusedKey(
                "nodes", f"names {len(self.nodes)} nodes and rounds {len(self.rounds)} of them: give one round for each"
            )
        if len(set(self.nodes)) != len(self.nodes):
            raise RefusedKey("nodes", f"= {list(self.nodes)} names a node twice: name each once")
        for joins in self.rounds:
            if not 0 <= joins <= LONGEST:
                raise RefusedKey("rounds", f"holds {joins}: a node joins in a round from 0 to {LONGEST:,}")

    @property
    def ideal(self) -> bool:
        return not self.within and not any(self.rounds)

    def gaps(self, places: Array) -> Array:
        return np.ones((1, 1))

    def starts(self, nodes: Integers, places: Array) -> Integers:
        """Return the starting round of each node: given for named nodes, drawn by place for others."""
        found = np.floor(places * (self.within + 1)).astype(np.int64)
        own = dict(zip(self.nodes, self.rounds, strict=True))
        for place, node in enumerate(nodes.tolist()):
            found[place] = own.get(node, found[place])
        return found
