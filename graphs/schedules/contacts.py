"""The network of those who meet on their way, in place of one of all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TOGETHER = 2**22
"""Pairs that are held at a time, beside those found."""


class Walking(Protocol):
    """A schedule of nodes that move, and can talk within a radius."""

    @property
    def radius(self) -> float:
        """The range of a message."""
        ...

    def walk(self, nodes: int, generator: np.random.Generator) -> Iterator[Array]:
        """Yield where nodes are in each round, (V, 2)."""
        ...


def contact_graph(schedule: Walking, nodes: int, rounds: int, generator: np.random.Generator) -> nx.Graph[int]:
    """Return the network of all pairs that are within reach of one another in some of the first rounds.

    In so many rounds the schedule switches on the same edges of it as of the complete network, which holds all pairs.
    The two rounds that prime a network, in which all neighbours exchange messages, know fewer of them, and in longer
    runs those are missing that meet only later.

    Parameters
    ----------
    schedule : Walking
        Such as :class:`~kernelswarm.graphs.schedules.random_schedules.Mobile`.
    nodes : int
        V; they are labelled 0 to V - 1.
    rounds : int
        T.
    generator : numpy.random.Generator
        In the state of the one from which the schedule will begin.

    Examples
    --------
    >>> from kernelswarm.graphs.schedules.random_schedules import Mobile
    >>> graph = contact_graph(Mobile(radius=0.05, speed=0.005), 100, 50, np.random.default_rng(0))
    >>> graph.number_of_edges() < 100 * 99 / 2 / 10
    True
    """
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
