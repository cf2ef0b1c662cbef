"""A spanning tree of each connected part of a network, found by breadth-first searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.distances import distances_from

Integers = npt.NDArray[np.int64]

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
