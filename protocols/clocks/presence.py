"""Clocks of nodes that are not always in the network: they leave and come back, or join late.

What is sent to a node that is not in the network is lost.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.clocks.clocks import AWAKE, LONGEST, Clock, geometric
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.ranges import SHARE, Range, check_ranges
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@runtime_checkable
class ForgettingClock(Clock, Protocol):
    """A clock after whose absences nodes may be reset."""

    @property
    def forgets(self) -> bool:
        """Whether a node that was not awake in the round before has forgotten its function."""
        ...


@runtime_checkable
class JoiningClock(Clock, Protocol):
    """A clock with the first round of each node."""

    @property
    def nodes(self) -> tuple[int | str, ...]:
        """The nodes that it names, by label or own name; in a run all are labels of the network."""
        ...

    def starts(self, nodes: Integers, places: Array) -> Integers:
        """Return the first round in which each node is awake, (V,).

        ``nodes`` (V,) are the nodes' labels, ``places`` (V,) as of :meth:`Clock.gaps`.
        """
        ...


def forgets(clock: Clock) -> bool:
    """Tell whether nodes forget their functions while they are not awake."""
    return fulfils(clock, ForgettingClock) and clock.forgets


@dataclass(frozen=True)
class Churn:
    """Nodes leave the network and come back; messages to them meanwhile are lost.

    They are there with the share ``returns / (leaves + returns)``.

    Parameters
    ----------
    leaves : float
        The probability that a node that is there has left in the next round.
    returns : float
        The probability that a node that has left is back in the next round, from .001 to 1.
    memory : bool
        Whether a node that comes back has kept its function. Without memory it begins as before the first round:
        with the learner's initial function, and with dual variables and tolerances as at first.
    """

    leaves: float = 0.01
    returns: float = 0.05
    memory: bool = True

    ideal: ClassVar[bool] = False
    listens: ClassVar[bool] = False

    ranges: ClassVar = {"leaves": SHARE, "returns": AWAKE}

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def forgets(self) -> bool:
        return not self.memory

    def gaps(self, places: Array) -> Array:
        """Return the gaps: 1 where a node stays, and 1 more than a geometric distribution where it leaves."""
        return np.concatenate([[1.0 - self.leaves], self.leaves * geometric(self.returns)])[np.newaxis]


@dataclass(frozen=True)
class Joining:
    """Nodes join the network late, and stay: before, they are silent and learn nothing.

    Parameters
    ----------
    within : int
        Nodes join in rounds from 0 to this, all with the same probability; 0 has them there from the start.
    nodes : tuple of int or str
        Nodes that join in rounds of their own, by their labels in the network, numbers, or by their own names, text.
    rounds : tuple of int
        These rounds, one for each of ``nodes``; 0 is there from the start.
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
        """Return the rounds of the named nodes, and those of the others by their places."""
        found = np.floor(places * (self.within + 1)).astype(np.int64)
        own = dict(zip(self.nodes, self.rounds, strict=True))
        for place, node in enumerate(nodes.tolist()):
            found[place] = own.get(node, found[place])
        return found
