"""The number of edges between one node and every other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from kernelswarm.kept_code import kept

Integers = npt.NDArray[np.int32]


def distances_from(adjacency: csr_array, start: int) -> Integers:
    """Return the number of edges between node ``start`` and every node, (V,), by a breadth-first search.

    It is -1 where there is no path.

    Parameters
    ----------
    adjacency : csr_array, shape (V, V)
        Of a graph.
    start : int
        A row of it.
    """
    return _search(adjacency.indptr, adjacency.indices, start)


@kept
def _search(ends: Integers, neighbors: Integers, start: int) -> Integers:
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
