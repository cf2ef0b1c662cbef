"""Schedules: frozen descriptions of the edges that are present in each round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import ClassVar, Protocol

import networkx as nx
import numpy as np

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.given.names import DIFFER, Name, as_key, pairs_alike
from kernelswarm.kept_code import kept
from kernelswarm.ranges import Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey


class Schedule(Protocol):
    """A changing network; its fields are the keys of the experiment file.

    The topology has all edges that ever exist; a schedule switches them on and off.
    """

    @property
    def constant(self) -> bool:
        """Whether every edge is present in every round."""
        ...

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield for each round, endlessly from the first one on, whether each edge is present, (E,).

        Parameters
        ----------
        labels : Integers
            The nodes' labels, (V,), sorted.
        edges : Integers
            The ends of every edge, (E, 2): places among the labels, the smaller first, sorted.
        generator : numpy.random.Generator
            Source of all randomness.

        Raises
        ------
        ValueError
            If the schedule cannot switch this network.
        """
        ...


HAPPENS = Range("(0, 1]", "it is a probability, and at 0 nothing ever happens")


# Schedules that are known beforehand.


@dataclass(frozen=True)
class OnePeer:
    """One distance per round: edges between nodes 1, then 2, then 4, ... places apart are present, in cyclic order.

    It is for ``topology.name = "exponential"``. Two rounds then cost every node as much as one round on a ring, and a
    cycle of all distances mixes the whole network (Ying et al. 2021).
    """

    constant: ClassVar[bool] = False

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield the edges of each distance in turn; raises ValueError if a distance is no power of 2."""
        hops = edges[:, 1] - edges[:, 0]
        hops = np.minimum(hops, len(labels) - hops)
        powers = {int(hop) for hop in hops if hop > 0 and hop & (hop - 1) == 0}
        odd = [(int(labels[i]), int(labels[j])) for (i, j), hop in zip(edges, hops, strict=True) if hop not in powers]
        if odd:
            raise ValueError(
                f"one_peer needs edges between nodes 1, 2, 4, ... places apart on a circle, and {odd[0]} is not: take "
                'topology.name = "exponential"'
            )
        for hop in cycle(sorted(powers)):
            yield hops == hop
        while True:  # a single node
            yield np.ones(len(edges), dtype=np.bool_)


@dataclass(frozen=True)
class Sequence:
    """Networks from files in cyclic order; the topology has all their edges.

    Parameters
    ----------
    paths : tuple of path
        Files as for ``topology.name = "file"``, at least one, each with nodes of the topology.
    rounds : int
        The number of rounds of each network, at least 1.

    Attributes
    ----------
    names : dict of str to int
        The labels of the topology's nodes by name, if nodes have names.
    """

    paths: tuple[Path, ...]
    rounds: int = 1
    names: Mapping[str, int] = field(init=False, default_factory=dict, compare=False, repr=False)

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"rounds": Range("[1, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.paths:
            raise RefusedKey("paths", "= [] must name at least one file")

    def called(self, names: Iterable[Name], labels: Iterable[int]) -> Sequence:
        """Return the schedule for a topology with named nodes, whose names the files may use."""
        found = replace(self)
        object.__setattr__(found, "names", dict(zip(map(as_key, names), labels, strict=True)))
        return found

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield each network's edges; raises ValueError if a network has an edge that the topology lacks."""
        places = {(int(labels[i]), int(labels[j])): e for e, (i, j) in enumerate(edges)}
        steps: list[Booleans] = []
        for path in self.paths:
            active = np.zeros(len(edges), dtype=np.bool_)
            network = Adjacency.of(read_graph(path))
            called = dict(zip(network.labels.tolist(), network.names or network.labels.tolist(), strict=True))
            lacking = [name for name in network.names or () if self.names and as_key(name) not in self.names]
            if lacking:  # its number in this file is not that of a node of the topology
                nearly = pairs_alike(self.names, lacking)
                beside = f"; {nearly[0][0]!r} and {nearly[0][1]!r} {DIFFER}" if nearly else ""
                raise ValueError(
                    f"{path} has the node {lacking[0]!r}, which the topology lacks{beside}: name it as there"
                )
            for i, j in network.graph.edges:
                one, other = (self.names.get(as_key(called[node]), node) for node in (i, j))
                ends = min(one, other), max(one, other)
                if ends not in places:
                    raise ValueError(
                        f"{path} has the edge {called[i], called[j]}, which the topology lacks: give it every edge "
                        "there is"
                    )
                active[places[ends]] = True
            steps.append(active)
        for active in cycle(steps):
            for _ in range(self.rounds):
                yield active


# Schedules in which edges come and go by chance.


@dataclass(frozen=True)
class Always:
    """Every edge is present in every round."""

    constant: ClassVar[bool] = True

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        while True:
            yield np.ones(len(edges), dtype=np.bool_)


@dataclass(frozen=True)
class Activation(Ranged):
    """Every edge is there in each round with the same probability, independently of all others.

    Parameters
    ----------
    probability : float
        Above 0, at most 1.
    """

    probability: float = 0.5

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"probability": HAPPENS}

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        while True:
            yield generator.random(len(edges)) < self.probability


@dataclass(frozen=True)
class Failures(Ranged):
    """Edges fail and are repaired by chance; an edge is there with the share ``repairs / (fails + repairs)``.

    Parameters
    ----------
    fails : float
        The probability that a present edge fails in a round, above 0.
    repairs : float
        The probability that a failed edge is repaired in a round, above 0.
    """

    fails: float = 0.02
    repairs: float = 0.2

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"fails": HAPPENS, "repairs": HAPPENS}

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield the states of independent Markov chains that begin in equilibrium."""
        there = generator.random(len(edges)) * (self.fails + self.repairs) < self.repairs
        while True:
            yield there
            drawn = generator.random(len(edges))
            there = np.where(there, drawn >= self.fails, drawn < self.repairs)


@dataclass(frozen=True)
class Gossip:
    """Nodes communicate in pairs: in each round the edges of a random maximal matching are present."""

    constant: ClassVar[bool] = False

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield matchings, each by taking edges in a random order as long as both ends are free."""
        while True:
            yield matching(len(labels), edges, generator.permutation(len(edges)))


@kept
def matching(nodes: int, edges: Integers, order: Integers) -> Booleans:
    """Return whether each edge is taken, (E,); edges are taken in ``order`` if both ends are still free."""
    taken, busy = np.zeros(len(edges), dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    for e in order:
        if not busy[edges[e, 0]] and not busy[edges[e, 1]]:
            taken[e] = busy[edges[e, 0]] = busy[edges[e, 1]] = True
    return taken


@dataclass(frozen=True)
class Mobile(Ranged):
    """Nodes walk about the unit square, and those within reach of one another can talk (random waypoint).

    Each node moves straight to a random place, at constant speed, and then to the next place. The topology has the
    pairs that may ever meet: ``complete`` for all pairs.

    Parameters
    ----------
    radius : float
        The range of a message, above 0.
    speed : float
        The distance that a node moves per round, nonnegative.
    """

    radius: float = 0.3
    speed: float = 0.02

    constant: ClassVar[bool] = False

    ranges: ClassVar = {"radius": Range("(0, inf)"), "speed": Range("[0, inf)")}

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        for places in self.walk(len(labels), generator):
            apart = places[edges[:, 0]] - places[edges[:, 1]]
            yield np.einsum("ed,ed->e", apart, apart) <= self.radius**2

    def walk(self, nodes: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield the places of ``nodes`` nodes in each round, (V, 2)."""
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


# The network of the nodes that meet while moving, instead of all pairs.

TOGETHER = 2**22
"""The largest number of pairs held before they are merged with the found pairs."""


class Walking(Protocol):
    """A schedule of moving nodes that can communicate within a radius."""

    @property
    def radius(self) -> float:
        """The range of a message."""
        ...

    def walk(self, nodes: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield the places of the nodes in each round, (V, 2)."""
        ...


def contact_graph(schedule: Walking, nodes: int, rounds: int, generator: np.random.Generator) -> nx.Graph[int]:
    """Return the network of all pairs that are within reach of each other in at least one of the first rounds.

    During these rounds the schedule switches on the same edges of it as of the complete network. In the two rounds that
    prime a network all neighbours exchange messages; with this network there are fewer neighbours. In longer runs,
    pairs that meet only later are missing.

    Parameters
    ----------
    schedule : Walking
        A schedule such as :class:`~kernelswarm.graphs.schedules.Mobile`.
    nodes : int
        V, the number of nodes, which are labelled 0 to V - 1.
    rounds : int
        T, the number of rounds.
    generator : numpy.random.Generator
        A generator in the same state as the one for the schedule.

    Examples
    --------
    >>> from kernelswarm.graphs.schedules import Mobile
    >>> graph = contact_graph(Mobile(radius=0.05, speed=0.005), 100, 50, np.random.default_rng(0))
    >>> graph.number_of_edges() < 100 * 99 / 2 / 10
    True
    """
    from scipy.spatial import KDTree

    found, fresh, held = np.zeros(0, dtype=np.int64), [np.zeros(0, dtype=np.int64)], 0
    for places in islice(schedule.walk(nodes, generator), rounds):
        pairs = KDTree(places).query_pairs(schedule.radius, output_type="ndarray").astype(np.int64)
        fresh.append(pairs[:, 0] * nodes + pairs[:, 1])
        held += len(pairs)
        if held > TOGETHER:
            found, fresh, held = np.unique(np.concatenate([found, *fresh])), [], 0
    found = np.unique(np.concatenate([found, *fresh]))
    graph: nx.Graph[int] = nx.empty_graph(nodes)
    graph.add_edges_from(zip((found // nodes).tolist(), (found % nodes).tolist(), strict=True))
    return graph
