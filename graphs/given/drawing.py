"""Nodes and edges as a file draws them, one after another, each edge with its own direction."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import networkx as nx

TIMES = (
    'has times, which are left out, so that all its nodes and edges are there in every round: write a file for each \
time, and name them as the paths of [topology.schedule] name = "sequence"'
)
"""What is said of a network that changes within its file."""


class Drawing:
    """A graph that is being read. Directed and undirected edges may stand side by side.

    Examples
    --------
    >>> drawing = Drawing()
    >>> for name in "abc":
    ...     drawing.node(name)
    >>> drawing.edge("a", "b", one_way=True)
    >>> drawing.edge("b", "c", one_way=False)
    >>> sorted(drawing.graph().edges)
    [('a', 'b'), ('b', 'c'), ('c', 'b')]
    """

    def __init__(self) -> None:
        self.nodes: dict[Hashable, dict[str, Any]] = {}
        """The attributes of each node."""
        self._edges: list[tuple[Hashable, Hashable, dict[str, Any]]] = []
        self._ways: list[bool] = []

    def node(self, name: Hashable, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a node. ValueError when there is one of that name."""
        if name in self.nodes:
            raise ValueError(f"two of its nodes are called {name!r}: rename one of them")
        self.nodes[name] = dict(attributes or {})

    def edge(
        self, source: Hashable, target: Hashable, attributes: Mapping[str, Any] | None = None, *, one_way: bool
    ) -> None:
        """Add an edge, also between nodes that come later."""
        self._edges.append((source, target, dict(attributes or {})))
        self._ways.append(one_way)

    def graph(self, merged: bool = False) -> nx.Graph[Any]:
        """Return the graph: directed where an edge goes one way only, and then with the others in both directions.

        Parameters
        ----------
        merged : bool
            Whether parallel edges are one; otherwise they make it a multigraph.

        Raises
        ------
        ValueError
            An edge ends at a node that is not there.
        """
        for source, target, _ in self._edges:
            if source not in self.nodes or target not in self.nodes:
                missing = target if source in self.nodes else source
                raise ValueError(
                    f"its edge from {source!r} to {target!r} ends at {missing!r}, which is none of its nodes: add the "
                    "node, or leave the edge out"
                )
        directed = any(self._ways)
        found: nx.Graph[Any] = nx.DiGraph() if directed else nx.Graph()
        found.add_nodes_from(self.nodes.items())
        parallel = []
        for edge, one_way in zip(self._edges, self._ways, strict=True):
            source, target, attributes = edge
            back = [(target, source, attributes)] if directed and not one_way and source != target else []
            for each in (edge, *back):
                if found.has_edge(*each[:2]):
                    parallel.append(each)
                else:
                    found.add_edges_from([each])
        if merged or not parallel:
            return found
        several: nx.Graph[Any] = nx.MultiDiGraph(found) if directed else nx.MultiGraph(found)
        several.add_edges_from(parallel)
        return several


def joined(pairs: Iterable[tuple[Hashable, Hashable]], ways: Iterable[bool]) -> nx.Graph[Any]:
    """Build a graph from pairs of nodes and a flag for each pair that is directed; repeated pairs are merged."""
    drawing = Drawing()
    for (source, target), one_way in zip(pairs, ways, strict=True):
        drawing.nodes.setdefault(source, {})
        drawing.nodes.setdefault(target, {})
        drawing.edge(source, target, one_way=one_way)
    return drawing.graph(merged=True)


# The locations of nodes in files: one attribute for each coordinate.

AXES = ("x", "y", "z")
ALONE = "pos"


def axes(count: int) -> list[str]:
    """Return the attributes that hold positions of so many coordinates.

    Examples
    --------
    >>> axes(1), axes(2), axes(5)
    (['pos'], ['x', 'y'], ['x', 'y', 'z', 'x4', 'x5'])
    """
    return [ALONE] if count == 1 else [*AXES[:count], *(f"x{axis}" for axis in range(4, count + 1))]


def gather(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Make ``pos`` of the coordinates that nodes have as numbers; returns the graph, which is changed."""
    every = [attributes for _, attributes in graph.nodes(data=True)]
    count = 2
    while every and all(map(_numbers(count + 1), every)):
        count += 1
    placed = [attributes for attributes in every if _numbers(count)(attributes)]
    if not placed:
        count, placed = 1, [attributes for attributes in every if _numbers(1)(attributes)]
    for attributes in placed:
        attributes["pos"] = tuple(attributes.pop(axis) for axis in axes(count))
    return graph


def _numbers(count: int) -> Any:
    """Return whether attributes hold so many coordinates, as a function of them."""
    known = axes(count)
    return lambda attributes: all(_is_number(attributes.get(axis)) for axis in known)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
