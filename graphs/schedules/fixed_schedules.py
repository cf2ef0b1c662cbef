"""Schedules that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import ClassVar

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.given.names import Name, key
from kernelswarm.graphs.schedules.contract import Booleans, Integers
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey


@dataclass(frozen=True)
class OnePeer:
    """One distance a round: nodes talk to those 1, then 2, then 4, ... places away, and from the start again.

    It is for ``topology.name = "exponential"``, where each pair of rounds then costs every node as much as a ring does,
    and as many rounds as there are distances mix the whole network (Ying et al. 2021).
    """

    constant: ClassVar[bool] = False

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield the edges of each distance in turn; raises ValueError where one is no power of 2."""
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
    """Networks from files, one after the other, and from the first again; the topology holds all their edges.

    Parameters
    ----------
    paths : tuple of path
        Files as of ``topology.name = "file"``, at least one, each with nodes of the topology.
    rounds : int
        For how many rounds each holds, at least 1.

    Attributes
    ----------
    names : dict of str to int
        The labels of the topology's nodes by their names, where they have some.
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
        """Return the schedule of a topology whose nodes have names, by which the files may name them."""
        found = replace(self)
        object.__setattr__(found, "names", dict(zip(map(key, names), labels, strict=True)))
        return found

    def begin(self, labels: Integers, edges: Integers, generator: np.random.Generator) -> Iterator[Booleans]:
        """Yield each network's edges; raises ValueError where one has an edge that the topology lacks."""
        places = {(int(labels[i]), int(labels[j])): e for e, (i, j) in enumerate(edges)}
        steps: list[Booleans] = []
        for path in self.paths:
            active = np.zeros(len(edges), dtype=np.bool_)
            network = Adjacency.of(read_graph(path))
            called = dict(zip(network.labels.tolist(), network.names or network.labels.tolist(), strict=True))
            for i, j in network.graph.edges:
                one, other = (self.names.get(key(called[node]), node) for node in (i, j))
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
