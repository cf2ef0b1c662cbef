"""Schedules in which edges come and go by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.graphs.schedules.contract import HAPPENS, Booleans, Integers
from kernelswarm.kept_code import kept
from kernelswarm.ranges import Range, check_ranges

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Always:
    """Every edge is there in every round."""

    constant: ClassVar[bool] = True

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        while True:
            yield np.ones(len(edges), dtype=np.bool_)


@dataclass(frozen=True)
class Activation:
    """Every edge is there in each round with the same probability, independently of all others.

    Parameters
    ----------
    probability : float
        Above 0, at most 1.
    """

    probability: float = 0.5

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"probability": HAPPENS}

    def __post_init__(self) -> None:
        check_ranges(self)

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        while True:
            yield generator.random(len(edges)) < self.probability


@dataclass(frozen=True)
class Failures:
    """Edges fail and are repaired by chance; an edge is there with the share ``repairs / (fails + repairs)``.

    Parameters
    ----------
    fails : float
        The probability that an edge that is there fails in a round, above 0.
    repairs : float
        The probability that an edge that has failed is repaired in a round, above 0.
    """

    fails: float = 0.02
    repairs: float = 0.2

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"fails": HAPPENS, "repairs": HAPPENS}

    def __post_init__(self) -> None:
        check_ranges(self)

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield the states of independent Markov chains that begin in equilibrium."""
        there = generator.random(len(edges)) * (self.fails + self.repairs) < self.repairs
        while True:
            yield there
            drawn = generator.random(len(edges))
            there = np.where(there, drawn >= self.fails, drawn < self.repairs)


@dataclass(frozen=True)
class Gossip:
    """Nodes talk in pairs: in each round the edges of a random maximal matching are there."""

    constant: ClassVar[bool] = False

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield matchings, each by taking edges in a random order as long as both ends are free."""
        while True:
            yield matching(len(labels), edges, generator.permutation(len(edges)))


@kept
def matching(nodes: int, edges: Integers, order: Integers) -> Booleans:
    """Return which edges are taken, (E,), where each in turn is whose ends are both free."""
    taken, busy = np.zeros(len(edges), dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    for e in order:
        if not busy[edges[e, 0]] and not busy[edges[e, 1]]:
            taken[e] = busy[edges[e, 0]] = busy[edges[e, 1]] = True
    return taken


@dataclass(frozen=True)
class Mobile:
    """Nodes walk about the unit square, and those within reach of one another can talk (random waypoint).

    Each goes straight to a random place, at its speed, and from there to the next. The topology holds the pairs that
    may ever meet: ``complete`` for all.

    Parameters
    ----------
    radius : float
        How far a message goes, above 0.
    speed : float
        The way of a node in a round, not negative.
    """

    radius: float = 0.3
    speed: float = 0.02

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"radius": Range("(0, inf)"), "speed": Range("[0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        for places in self.walk(len(labels), generator):
            apart = places[edges[:, 0]] - places[edges[:, 1]]
            yield np.einsum("ed,ed->e", apart, apart) <= self.radius**2

    def walk(self, nodes: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield where so many nodes are in each round, (V, 2), whichever of them may meet."""
        places, aims = generator.random((nodes, 2)), generator.random((nodes, 2))
        while True:
            yield places
            way = aims - places
            lengths = np.sqrt(np.einsum("nd,nd->n", way, way))
            there = lengths <= self.speed
            steps = np.where(there, 1.0, self.speed / np.maximum(lengths, 1e-300))
            places = np.where(there[:, np.newaxis], aims, places + steps[:, np.newaxis] * way)
            fresh = generator.random((nodes, 2))
            aims = np.where(there[:, np.newaxis], fresh, aims)
