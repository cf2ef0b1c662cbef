"""The distances between neighbours' functions at common points, with the values of few nodes in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from kernelswarm.arrays import Array, Booleans, Integers

AT_ONCE = 64
"""Number of nodes evaluated together, so that their values stay in the processor's cache."""

COMPARED = 2**16
"""Number of values compared at a time, so that they stay in the processor's cache."""


class Comparison:
    """The order in which a block's nodes are evaluated, neighbours soon after each other, and the edges to compare.

    A node's values are kept until all its neighbours have been evaluated, or to the end if a neighbour is in another
    block. The order of Cuthill and McKee keeps the values of few nodes: of a ring, `AT_ONCE` nodes and 3 more.

    Parameters
    ----------
    labels : Integers
        The labels of the block's nodes, (V,).
    edges : Integers
        The labels of the ends of each edge with an end in the block, (E, 2).
    """

    def __init__(self, labels: Integers, edges: Integers) -> None:
        count, known, order = len(labels), np.isin(edges, labels), np.argsort(labels)
        places = order[np.searchsorted(labels, edges, sorter=order) % count]  # of ends in other blocks: any
        self.inside: Booleans = np.all(known, axis=1)
        """Whether both ends of an edge are in the block, (E,)."""
        ends = places[self.inside]
        graph = coo_array((np.ones(len(ends)), ends.T), shape=(count, count))
        self.order: Integers = reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True).astype(np.int64)
        """The places of the nodes as they are evaluated, (V,)."""
        turns = np.empty(count, dtype=np.int64)
        turns[self.order] = np.arange(count) // AT_ONCE
        of_edges, last = turns[ends].max(axis=1), turns.copy()
        np.maximum.at(last, ends, of_edges[:, np.newaxis])
        last[places[known & ~self.inside[:, np.newaxis]]] = count  # after all turns
        self._labels, self._edges = labels, edges[self.inside]
        self._compared, self._forgotten = by_turn(of_edges, count), by_turn(last, count)
        self.values: dict[int, Array] = {}
        """The kept values of nodes, (n, C) by label; at the end, of the nodes with neighbours in other blocks."""
        self.squares: Array = np.zeros(len(ends))
        """The result of :func:`squares_between` for each edge inside the block, once both ends have been evaluated."""

    @property
    def most(self) -> int:
        """The maximum number of nodes whose values are kept at a time."""
        forgotten = np.cumsum([0, *map(len, self._forgotten[:-2])])
        evaluated = np.minimum(AT_ONCE * np.arange(1, len(forgotten) + 1), len(self._labels))
        return int(np.max(evaluated - forgotten))

    def add(self, turn: int, values: Iterable[Array]) -> None:
        """Add the values of the nodes of a turn, in their order, and compare them with their neighbours' values."""
        those = self.order[turn * AT_ONCE : (turn + 1) * AT_ONCE]
        self.values.update(zip(self._labels[those].tolist(), values, strict=True))
        some = self._compared[turn]
        self.squares[some] = squares_between(self.values, self._edges[some])
        for label in self._labels[self._forgotten[turn]].tolist():
            del self.values[label]


def by_turn(turns: Integers, count: int) -> list[Integers]:
    """Return the indices of each value 0, 1, ... in ``turns``, for the turns of ``count`` nodes."""
    order = np.argsort(turns, kind="stable")
    return np.split(order, np.searchsorted(turns[order], np.arange(1, -(-count // AT_ONCE) + 1)))


def squares_between(values: Mapping[int, Array], edges: Integers) -> Array:
    """Average ``||f_i(x) - f_j(x)||^2`` over the points for each edge (i, j), (E,), with values (n, C) by label."""
    found = np.empty(len(edges))
    if not len(edges):
        return found
    labels, places = np.unique(edges, return_inverse=True)
    known, ends = np.array([values[label] for label in labels.tolist()]), places.reshape(-1, 2)
    together = max(1, COMPARED // max(known[0].size, 1))
    for start in range(0, len(ends), together):
        some = slice(start, start + together)
        apart = known[ends[some, 0]] - known[ends[some, 1]]
        found[some] = np.sum((apart**2).reshape(len(apart), -1), axis=1) / max(apart.shape[1], 1)
    return found
