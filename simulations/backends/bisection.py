"""Two halves of a network with few edges between them."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any
from warnings import catch_warnings, simplefilter

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import lobpcg

Adjacency = list[list[int]]
Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Sparse = Any

DENSE = 150
"""Nodes up to which all eigenvectors of the Laplacian are computed at once."""

DIRECTIONS = 4
"""Orders between those of the second and the third eigenvector."""

SHRINKING = 0.9
"""The most that may be left of a network when neighbours are paired, for its eigenvector to start from theirs."""

ITERATIONS = 15
PATIENCE = 60
"""Exchanges without a smaller cut after which a pass ends."""


def bisect(adjacency: Adjacency, first: int) -> list[bool]:
    """Choose which ``first`` of the nodes 0, 1, ... make up one half, so that few edges are cut.

    A sweep from the periphery and the order of the Laplacian's second eigenvector are each cut at ``first`` and
    improved by exchanging pairs of nodes; the better one counts.

    Parameters
    ----------
    adjacency : list of list of int
        The neighbours of each node.
    first : int
        Nodes of the first half.

    Returns
    -------
    list of bool
        For each node, whether it belongs to the first half.

    References
    ----------
    M. Fiedler, "Algebraic connectivity of graphs", Czechoslovak Mathematical Journal 23, 1973.
    B. W. Kernighan and S. Lin, "An efficient heuristic procedure for partitioning graphs", Bell System Technical
    Journal 49, 1970.
    """
    best: tuple[int, list[bool]] | None = None
    for order in (_sweep(adjacency), *_spectral(adjacency)):
        inside = [False] * len(adjacency)
        for node in order[:first]:
            inside[node] = True
        while _improve(adjacency, inside):
            pass
        cut = sum(inside[node] != inside[other] for node, others in enumerate(adjacency) for other in others)
        if best is None or cut < best[0]:
            best = cut, inside
    assert best is not None
    return best[1]


def _sweep(adjacency: Adjacency) -> list[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(adjacency)))
    graph.add_edges_from((node, other) for node, others in enumerate(adjacency) for other in others)
    return list(nx.utils.cuthill_mckee_ordering(graph))


def _spectral(adjacency: Adjacency) -> list[list[int]]:
    """Order the nodes by the Laplacian's second and third eigenvectors, and by what lies between them."""
    nodes = len(adjacency)
    columns = np.array([other for others in adjacency for other in others], dtype=np.int64)
    starts = np.array([0, *accumulate(map(len, adjacency))])
    weights: Sparse = csr_array((np.ones(len(columns)), columns, starts), shape=(nodes, nodes))
    vectors = _slowest(weights)
    # Where two directions are alike, as in a square, any mixture of them is an eigenvector, good or bad to cut along.
    angles = np.pi / DIRECTIONS * np.arange(DIRECTIONS)
    # Rounded, so that nodes of equal value keep their order whatever the last bits are.
    mixed = np.round(vectors @ [np.cos(angles), np.sin(angles)], 9)
    orders: list[list[int]] = np.argsort(mixed, axis=0, kind="stable").T.tolist()
    return orders


def _slowest(weights: Sparse) -> Array:
    """Compute about the second and third eigenvectors of the Laplacian: those of half the network, refined."""
    nodes = weights.shape[0]
    degrees = np.asarray(weights.sum(axis=1))
    laplacian = (diags_array(degrees) - weights).tocsr()
    if nodes <= DENSE:
        vectors: Array = np.linalg.eigh(laplacian.toarray())[1]
        return np.column_stack([vectors[:, min(1, nodes - 1)], vectors[:, min(2, nodes - 1)]])
    pairs = _matched(weights)
    count = int(pairs.max()) + 1
    if count > SHRINKING * nodes:
        start = np.column_stack([np.cos(np.arange(nodes)), np.sin(np.arange(nodes))])
    else:
        joined: Sparse = csr_array((np.ones(nodes), (np.arange(nodes), pairs)), shape=(nodes, count))
        coarse = (joined.T @ weights @ joined).tocsr()
        coarse.setdiag(0.0)
        start = joined @ _slowest(coarse)
    inverse = diags_array(1.0 / np.maximum(degrees, 1.0))
    with catch_warnings():
        simplefilter("ignore")  # what few iterations leave is for the exchanges
        found: Any = lobpcg(
            laplacian, start, Y=np.ones((nodes, 1)), M=inverse, largest=False, maxiter=ITERATIONS, tol=1e-6
        )
    refined: Array = found[1]
    return refined


def _matched(weights: Sparse) -> Integers:
    """Pair each node with the free neighbour it is tied to most, and number the pairs and those left over."""
    starts, others, ties = weights.indptr.tolist(), weights.indices.tolist(), weights.data.tolist()
    pairs = [-1] * (len(starts) - 1)
    count = 0
    for node in np.argsort(np.diff(weights.indptr), kind="stable").tolist():
        if pairs[node] >= 0:
            continue
        pairs[node] = count
        free = [(-ties[k], others[k]) for k in range(starts[node], starts[node + 1]) if pairs[others[k]] < 0]
        if free:
            pairs[min(free)[1]] = count
        count += 1
    return np.array(pairs, dtype=np.int64)


def _improve(adjacency: Adjacency, inside: list[bool]) -> bool:
    """Exchange nodes, pair by pair, as long as a smaller cut comes of it; False where none does."""
    gains = [_gain(adjacency, inside, node) for node in range(len(adjacency))]
    heaps: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for node, gain in enumerate(gains):
        heaps[inside[node]].append((-gain, node))
    for heap in heaps:
        heapify(heap)
    moved: list[int] = []
    free = [True] * len(adjacency)
    saved = most = kept = 0
    while len(moved) - kept < 2 * PATIENCE:
        pair = [_pop(heap, gains, free) for heap in heaps]
        if -1 in pair:
            break
        for node in pair:
            saved += gains[node]
            inside[node] = not inside[node]
            free[node] = False
            moved.append(node)
            for other in adjacency[node]:
                gains[other] += 2 if inside[other] != inside[node] else -2
                if free[other]:
                    heappush(heaps[inside[other]], (-gains[other], other))
            gains[node] = -gains[node]
        if saved > most:
            most, kept = saved, len(moved)
    for node in moved[kept:]:
        inside[node] = not inside[node]
    return most > 0


def _gain(adjacency: Adjacency, inside: Sequence[bool], node: int) -> int:
    """Count by how many edges the cut shrinks when a node changes sides."""
    return sum(1 if inside[other] != inside[node] else -1 for other in adjacency[node])


def _pop(heap: list[tuple[int, int]], gains: Sequence[int], free: Sequence[bool]) -> int:
    while heap:
        gain, node = heappop(heap)
        if free[node] and -gain == gains[node]:
            return node
    return -1
