"""Each node adjacent to those nearest to it, at places that are given or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from kernelswarm.arrays import Array, Integers
from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.graphs.layout import fit
from kernelswarm.graphs.topology import DEFAULT_NODES, require_edges, require_nodes
from kernelswarm.last_bits import drop_last_bits
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey


@dataclass(frozen=True)
class NearestNeighbors:
    """Each node adjacent to the ``neighbors`` nearest ones, and to those to which it is one of the nearest.

    Where this leaves the network in parts, the shortest edges that connect them are added.

    Parameters
    ----------
    nodes : int, optional
        At least 1; by default the number of positions, or 20 without positions.
    neighbors : int
        At least 1; small networks take all other nodes.
    positions : list of pairs of numbers
        Where nodes 0, 1, 2, ... are, in any unit; the network has them in the unit square, in the same proportions, or
        none where two nodes are at one place. Empty means uniform places in the unit square.

    References
    ----------
    D. Eppstein, M. S. Paterson and F. F. Yao, On nearest-neighbor graphs, Discrete Comput. Geom. 17, 1997.
    """

    nodes: int | None = None
    neighbors: int = 4
    positions: tuple[tuple[float, float], ...] = ()

    ranges: ClassVar = {"neighbors": Range("[1, inf)", "4 is usual")}

    def __post_init__(self) -> None:
        places = tuple((float(x), float(y)) for x, y in self.positions)
        object.__setattr__(self, "positions", places)
        if self.nodes is None:
            object.__setattr__(self, "nodes", len(places) or DEFAULT_NODES)
        assert self.nodes is not None
        require_nodes(self.nodes)
        if places and len(places) != self.nodes:
            raise RefusedKey("nodes", f"= {self.nodes} and there are {len(places)} positions: leave nodes out")
        for node, place in enumerate(places):
            if not all(map(isfinite, place)):
                raise RefusedKey("positions", f"has {place} for node {node}: both numbers must be finite")
        check_ranges(self)
        require_edges("neighbors", self.neighbors, float(self.nodes) * min(self.neighbors, self.nodes))

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the network; the generator draws the places where none are given."""
        assert self.nodes is not None
        if self.positions:
            places = fit(np.array(self.positions))
            drop_last_bits([places])
        else:
            places = generator.random((self.nodes, 2))
        near = min(self.neighbors, self.nodes - 1)
        edges = nearest_pairs(places, near)
        reach, wider = near, edges
        while not _connects(self.nodes, wider):
            reach = min(2 * reach, self.nodes - 1)
            wider = nearest_pairs(places, reach)
        if reach > near:
            edges = np.concatenate([edges, _shortest(places, wider)])
        return from_edges(self.nodes, edges, places if len(np.unique(places, axis=0)) == self.nodes else None)


def nearest_pairs(places: Array, count: int) -> Integers:
    """Return each node with each of its nearest others, the smaller first and once; of equally near ones those first.

    Parameters
    ----------
    places : array, shape (V, 2)
    count : int
        0 to V - 1.

    Returns
    -------
    array, shape (E, 2)
    """
    from scipy.spatial import cKDTree

    nodes = len(places)
    if not count:
        return np.zeros((0, 2), dtype=np.int64)
    found = np.asarray(cKDTree(places).query(places, count + 1)[1])
    own = np.arange(nodes)[:, None]
    # A node is the nearest to itself, except among others at the same place: then it may not be found at all.
    others = found[np.arange(nodes)[:, None], np.argsort(found == own, axis=1, kind="stable")[:, :count]]
    pairs = np.column_stack([np.repeat(own, count), others.ravel()]).astype(np.int64)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _connects(nodes: int, edges: Integers) -> bool:
    return nodes == 1 or int(connected_components(_matrix(nodes, edges, np.ones(len(edges))), directed=False)[0]) == 1


def _shortest(places: Array, edges: Integers) -> Integers:
    """Return the edges of the shortest tree; of equally long ones the first, by their places in the list."""
    lengths = np.linalg.norm(places[edges[:, 0]] - places[edges[:, 1]], axis=1)
    ranks = np.empty(len(edges))
    ranks[np.argsort(lengths, kind="stable")] = np.arange(1, len(edges) + 1)  # no length 0, which is no edge to scipy
    tree = minimum_spanning_tree(_matrix(len(places), edges, ranks)).tocoo()
    return np.column_stack([tree.row, tree.col]).astype(np.int64)


def _matrix(nodes: int, edges: Integers, weights: Array) -> csr_array:
    return csr_array((weights, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
