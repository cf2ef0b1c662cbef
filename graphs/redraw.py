"""Random networks drawn again until they are connected, a bounded number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kernelswarm.graphs.topology import Graph, Integers, from_edges
from kernelswarm.refused_key import RefusedKey


class Drawn(NamedTuple):
    """A network that was drawn and not built yet: of a large one that takes a hundred times as long.

    Attributes
    ----------
    nodes : int
        How many.
    edges : Integers
        Their ends, (E, 2).
    places : Array
        Those of the nodes, (nodes, 2).
    """

    nodes: int
    edges: Integers
    places: npt.NDArray[np.float64]

    @property
    def connected(self) -> bool:
        """Whether there is a path between any two nodes."""
        ends = self.edges[:, 0], self.edges[:, 1]
        adjacency = coo_array((np.ones(len(self.edges), np.int8), ends), shape=(self.nodes, self.nodes))
        parts, _ = connected_components(adjacency, directed=False)
        return parts == 1

    def graph(self) -> Graph:
        """Build it."""
        return from_edges(self.nodes, self.edges, self.places)


def require_attempts(attempts: int) -> None:
    """Refuse fewer than one draw."""
    if attempts < 1:
        raise RefusedKey("attempts", f"= {attempts!r} must be at least 1: a network is drawn at least once")


def draw_until_connected(
    draw: Callable[[], Graph | Drawn], attempts: int, setting: str, remedy: Callable[[Graph], str]
) -> Graph:
    """Return the first connected draw.

    Parameters
    ----------
    draw : callable
        Draws one graph; each call continues the same generator.
    attempts : int
        How many draws at most.
    setting : str
        The field and value to name when all fail, such as ``radius = 0.1``.
    remedy : callable
        Given the last draw, says what to change.

    Raises
    ------
    ValueError
        When no draw was connected.
    """
    for _ in range(attempts):
        drawn = draw()
        connected = drawn.connected if isinstance(drawn, Drawn) else nx.is_connected(drawn)
        if connected:
            break
    graph = drawn.graph() if isinstance(drawn, Drawn) else drawn
    if connected:
        return graph
    parts = sorted((len(part) for part in nx.connected_components(graph)), reverse=True)
    draws = "the only draw" if attempts == 1 else f"{attempts} draws"
    raise ValueError(
        f"{setting} gave no connected network of {len(graph)} nodes in {draws} (the last one fell into {len(parts)} "
        f"parts, the largest with {parts[0]} nodes): {remedy(graph)}"
    )
