"""The adjacency of nodes as arrays: of a million nodes they take a second where networkx takes a minute.

Rows are compressed as in a sparse matrix. A networkx graph is made of them when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from kernelswarm.arrays import Array, Integers
from kernelswarm.graphs.given.names import Name, own_names
from kernelswarm.kept_code import kept

if TYPE_CHECKING:
    Graph = nx.Graph[int]
else:  # at run time networkx's class takes no parameters
    Graph = nx.Graph

# The number of edges between one node and every other.

Hops = npt.NDArray[np.int32]


def distances_from(adjacency: csr_array, start: int) -> Hops:
    """Return the number of edges between node ``start`` and every node, (V,), by a breadth-first search.

    Unreachable nodes have the distance -1.

    Parameters
    ----------
    adjacency : csr_array, shape (V, V)
        Of a graph.
    start : int
        A row of it.
    """
    return _search(adjacency.indptr, adjacency.indices, start)


@kept
def _search(ends: Hops, neighbors: Hops, start: int) -> Hops:
    distances = np.full(len(ends) - 1, -1, dtype=np.int32)
    reached = np.empty(len(distances), dtype=np.int32)
    distances[start] = 0
    reached[0] = start
    count = 1
    k = 0
    while k < count:
        node = reached[k]
        k += 1
        for other in neighbors[ends[node] : ends[node + 1]]:
            if distances[other] < 0:
                distances[other] = distances[node] + 1
                reached[count] = other
                count += 1
    return distances


Places = npt.NDArray[np.int32]

NAME = "name"
"""The node attribute with a node's name."""

NUMBERED = "numbered"
"""The graph attribute that says that nodes had other labels, now their names, and numbers are only their places."""


class Adjacency:
    """A simple undirected network as arrays; its networkx graph is made once, when it is first asked for.

    Nodes have places 0 to V - 1, in the order of their labels. What edges and nodes have of attributes, positions
    aside, is in the networkx graph: networks that have any are made of one.

    Parameters
    ----------
    labels : array, shape (V,)
        The nodes' integers, ascending.
    offsets : array of int32, shape (V + 1,)
        Where each node's neighbours begin and end.
    neighbors : array of int32, shape (2 E,)
        Places of the first node's neighbours, of the second's, ...; ascending for each.
    positions : array, shape (V, d), optional
        The nodes' own positions, or None unless every node has one.
    graph : networkx.Graph, optional
        The same network, in order: nodes and neighbours ascending.

    Examples
    --------
    >>> triangle = from_edges(4, [(1, 0), (1, 2), (2, 0), (2, 3)])
    >>> triangle.degrees.tolist(), triangle.edges.tolist()
    ([2, 2, 3, 1], [[0, 1], [0, 2], [1, 2], [2, 3]])
    >>> triangle.graph.number_of_edges()
    4
    """

    def __init__(
        self,
        labels: Integers,
        offsets: Places,
        neighbors: Places,
        positions: Array | None = None,
        graph: Graph | None = None,
    ) -> None:
        self.labels, self.offsets, self.neighbors, self._positions = labels, offsets, neighbors, positions
        self.held = graph
        """The networkx graph, where there is one already."""

    def __repr__(self) -> str:
        """Return a text with its size."""
        return f"Adjacency({self.number_of_nodes():,} nodes, {self.number_of_edges():,} edges)"

    @classmethod
    def of(cls, network: Graph | Adjacency) -> Adjacency:
        """Return the arrays of a simple undirected graph with integer labels, which keeps it; arrays as they are."""
        if isinstance(network, Adjacency):
            return network
        around = dict(network.adjacency())
        order = sorted(around)
        labels = np.array(order, dtype=np.int64)
        offsets = np.cumsum([0, *(len(around[node]) for node in order)], dtype=np.int32)
        others = np.fromiter(chain.from_iterable(around[node] for node in order), np.int64, offsets[-1])
        matrix = csr_array(
            (np.ones(len(others), np.int8), np.searchsorted(labels, others).astype(np.int32), offsets),
            shape=(len(order), len(order)),
        )
        matrix.sort_indices()
        return cls(labels, offsets, matrix.indices, graph=network)

    @property
    def graph(self) -> Graph:
        """The networkx graph: nodes and edges in sorted order, with ``pos`` where nodes have positions."""
        if self.held is None:
            self.held = self._as_networkx()
        return self.held

    def number_of_nodes(self) -> int:
        """Return V."""
        return len(self.labels)

    def number_of_edges(self) -> int:
        """Return E."""
        return len(self.neighbors) // 2

    @cached_property
    def degrees(self) -> Integers:
        """The degree of each node, (V,)."""
        return np.diff(self.offsets).astype(np.int64)

    @property
    def edges(self) -> Integers:
        """The places of the ends of each edge, (E, 2): the smaller first, in sorted order."""
        rows = np.repeat(np.arange(self.number_of_nodes()), np.diff(self.offsets))
        once = rows < self.neighbors
        return np.column_stack([rows[once], self.neighbors[once]]).astype(np.int64)

    @property
    def labelled_edges(self) -> Integers:
        """The labels of the ends of each edge, (E, 2), in the order of :attr:`edges`."""
        return self.labels[self.edges]

    @property
    def matrix(self) -> csr_array:
        """The adjacency matrix (V, V) of zeros and ones."""
        nodes = self.number_of_nodes()
        return csr_array((np.ones(len(self.neighbors)), self.neighbors, self.offsets), shape=(nodes, nodes))

    @cached_property
    def positions(self) -> Array | None:
        """The nodes' own positions, (V, d), of any dimension d, or None unless every node has one."""
        if self._positions is not None or self.held is None:
            return self._positions
        found = [self.held.nodes[node].get("pos") for node in self.labels.tolist()]
        return None if any(place is None for place in found) else np.array(found, dtype=np.float64)

    @cached_property
    def names(self) -> list[Name] | None:
        """The unique names of the nodes beside their labels, or None for nodes without names.

        These are their attributes ``name``, or ``label`` where this is text.
        """
        if self.held is None:
            return None
        attributes = [self.held.nodes[label] for label in self.labels[:1].tolist()]
        for key, kinds in ((NAME, int | str), ("label", str)):
            if attributes and isinstance(attributes[0].get(key), kinds):
                found = own_names(self.held.nodes[node].get(key) for node in self.labels.tolist())
                if found is not None:
                    return found
        return None

    @property
    def is_connected(self) -> bool:
        """Whether there are nodes, with a path between any two of them."""
        return len(self.parts) == 1

    @cached_property
    def parts(self) -> list[int]:
        """The numbers of nodes of the connected parts, the largest first."""
        return sorted(np.bincount(self.part).tolist(), reverse=True)

    @cached_property
    def part(self) -> Integers:
        """The number of the connected part that each node is in, (V,)."""
        return np.asarray(connected_components(self.matrix, directed=False)[1], dtype=np.int64)

    def cut_off(self, places: Sequence[int]) -> list[int]:
        """Return the given places in ascending order whose connected part has no other places.

        Examples
        --------
        >>> from_edges(5, [(0, 1), (2, 3), (3, 4)]).cut_off([0, 1, 2])
        [0, 1]
        """
        others = np.ones(self.number_of_nodes(), dtype=bool)
        others[list(places)] = False
        joined = np.bincount(self.part, weights=others) > 0
        return [place for place in sorted(places) if not joined[self.part[place]]]

    def around(self, place: int) -> list[int]:
        """Return the places of a node's neighbours, ascending."""
        found: list[int] = self.neighbors[self.offsets[place] : self.offsets[place + 1]].tolist()
        return found

    def slots(self, labels: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Return at which place among the neighbours of each of its neighbours, in sorted order, a node stands."""
        matrix = self.matrix
        matrix.data = np.arange(matrix.nnz) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        turned = matrix.T.tocsr().data
        starts = np.searchsorted(self.labels, labels)
        ends = zip(labels, self.offsets[starts].tolist(), self.offsets[starts + 1].tolist(), strict=True)
        return {label: tuple(turned[start:end].tolist()) for label, start, end in ends}

    def attributes(self, label: int) -> Mapping[int, Mapping[str, Any]]:
        """Return the attributes of a node's edges by the label of the other end; empty if no edge has attributes."""
        return {} if self.held is None else self.held[label]

    def _as_networkx(self) -> Graph:
        graph: Graph = nx.Graph()
        label = self.labels.tolist()  # one integer for all edges of a node saves 0.5 GB of a million nodes
        if self._positions is None:
            graph.add_nodes_from(label)
        else:
            places = map(tuple, self._positions.tolist())
            graph.add_nodes_from((node, {"pos": place}) for node, place in zip(label, places, strict=True))
        low, high = (map(label.__getitem__, ends.tolist()) for ends in self.edges.T)
        graph.add_edges_from(zip(low, high, strict=True))
        return graph


def from_edges(nodes: int, edges: Iterable[tuple[int, int]] | Integers, positions: Array | None = None) -> Adjacency:
    """Make the network on ``0 .. nodes - 1`` that has some edges.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    edges : iterable of pairs, or array, shape (E, 2)
        Edges in any order and either direction; a repeated edge counts once.
    positions : array, shape (nodes, 2), optional
        The nodes' own.

    Returns
    -------
    Adjacency
        The same whatever order the edges came in, so that files written of it are equal too.

    Raises
    ------
    ValueError
        An edge names another node, or joins one with itself; or positions are not one for each node.
    """
    pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64).reshape(-1, 2)
    wrong = (pairs < 0).any() or (pairs >= nodes).any() or (pairs[:, 0] == pairs[:, 1]).any()
    if wrong:
        raise ValueError(f"every edge joins two different nodes of 0 to {nodes - 1}: leave the others out")
    if positions is not None and (np.ndim(positions) != 2 or len(positions) != nodes):
        raise ValueError(f"positions have the shape {np.shape(positions)}: give a row for each of the {nodes} nodes")
    pairs = pairs.astype(np.int32)
    ends = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    both = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(nodes, nodes)).tocsr()
    both.sort_indices()
    return Adjacency(np.arange(nodes), both.indptr, both.indices, positions)


# A spanning tree of each connected part of a network, found by breadth-first searches.

SEARCHES = 32
"""Searches for the root of each part, at most."""


class SpanningTree(NamedTuple):
    """A tree of each part, with paths to the root that are shortest paths of the network."""

    parents: Integers  # (V,) the place of each node's parent; -1 at a root
    depths: Integers  # (V,) the edges between each node and its root
    deepest: Integers  # (V,) the largest depth in each node's part

    @property
    def edges(self) -> Integers:
        """The ends of each edge, parent and child, (V - parts, 2)."""
        children = np.flatnonzero(self.parents >= 0)
        return np.column_stack([self.parents[children], children])


def spanning_tree(network: Adjacency) -> SpanningTree:
    """Return a spanning tree of each part; a root is a node whose farthest node is as near as the searches find.

    Of several parents at the same depth a node takes that of the smallest label.

    Examples
    --------
    >>> from kernelswarm.graphs.adjacency import from_edges
    >>> tree = spanning_tree(from_edges(5, [(0, 1), (1, 2), (2, 3), (3, 4)]))
    >>> tree.parents.tolist(), tree.depths.tolist()
    ([1, 2, -1, 2, 3], [2, 1, 0, 1, 2])
    """
    matrix, nodes = network.matrix, network.number_of_nodes()
    depths, deepest, lower = np.full(nodes, nodes), np.full(nodes, nodes), np.zeros(nodes)
    for part in range(len(network.parts)):
        inside = np.flatnonzero(network.part == part)
        for _ in range(SEARCHES):
            root = int(inside[lower[inside].argmin()])
            hops = distances_from(matrix, root)[inside]
            if hops.max() < deepest[root]:
                depths[inside], deepest[inside] = hops, hops.max()
            if hops.max() <= lower[root]:
                break  # no other node has a nearer farthest one
            lower[inside] = np.maximum(lower[inside], np.maximum(hops, hops.max() - hops))
    children, parents = np.repeat(np.arange(nodes), network.degrees), np.full(nodes, nodes)
    above = depths[network.neighbors] == depths[children] - 1
    np.minimum.at(parents, children[above], network.neighbors[above])
    return SpanningTree(np.where(depths > 0, parents, -1), depths, deepest)
