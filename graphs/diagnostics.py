"""Size, degrees, diameter and algebraic connectivity of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg, eigsh, splu

from kernelswarm.arrays import Array
from kernelswarm.graphs.adjacency import Adjacency, Graph, distances_from

# The smooth end of the graph Laplacian's spectrum: its smallest nonzero eigenvalues and their eigenvectors.

DENSE_NODES = 500  # 0.1 s; the dense solver's time grows with the cube
FACTORED_NODES = 10_000  # with many neighbors each; sparse factors of 30,000 such nodes take minutes
FACTORED_DEGREE = 4.5  # mean of rings, trees and grids, whose factors stay small
LARGEST_NODES = 200_000  # beyond that either way takes minutes
ITERATIONS = 300  # of conjugate gradients; ring of 10,000 would need 5,000, a random graph of degree 10 needs 60


def laplacian_eigenpairs(adjacency: csr_array, count: int, seed: int = 0) -> tuple[Array, Array]:
    """Return the smallest nonzero eigenvalues of ``L = diag(degrees) - A`` of a connected graph, with eigenvectors.

    Networks of up to 500 nodes use a dense solver; larger ones use Lanczos iterations on the pseudoinverse of L. The
    linear systems are solved by conjugate gradients in networks that mix fast (most random networks), and otherwise by
    sparse factors, which stay small if few edges separate the network's halves (rings, grids, trees).

    Parameters
    ----------
    adjacency : csr_array, shape (V, V)
        Symmetric, of a connected graph with V > count.
    count : int
        The number of eigenvalues.
    seed : int
        Seed of the iterations; it affects only the vectors of equal eigenvalues.

    Returns
    -------
    values : array, shape (count,)
        Ascending.
    vectors : array, shape (V, count)
    """
    nodes = adjacency.shape[0]
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    if nodes <= DENSE_NODES:
        values, vectors = eigh(np.diag(degrees) - adjacency.toarray(), subset_by_index=(1, count))
        return np.asarray(values, dtype=np.float64), np.asarray(vectors, dtype=np.float64)
    solve = _pseudoinverse(csr_array(diags_array(degrees) - adjacency), degrees)
    start = np.random.default_rng(seed).standard_normal(nodes)
    operator = LinearOperator(adjacency.shape, matvec=solve, dtype=np.float64)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start - start.mean(), tol=1e-9)
    order = np.argsort(-values)
    return 1 / values[order], vectors[:, order]


def tractable(adjacency: csr_array) -> bool:
    """Return whether :func:`laplacian_eigenpairs` takes seconds.

    It does not for huge networks, and for large networks that are dense and mix slowly.
    """
    nodes = adjacency.shape[0]
    if nodes > LARGEST_NODES:
        return False
    if nodes <= FACTORED_NODES or adjacency.nnz <= FACTORED_DEGREE * nodes:
        return True
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    return _mixes_fast(csr_array(diags_array(degrees) - adjacency), degrees)


def _mixes_fast(laplacian: csr_array, degrees: Array) -> bool:
    trial = np.random.default_rng(0).standard_normal(len(degrees))
    return _iterate(laplacian, degrees, trial - trial.mean())[1] == 0


def _iterate(laplacian: csr_array, degrees: Array, centered: Array) -> tuple[Array, int]:
    return cg(laplacian, centered, rtol=1e-11, maxiter=ITERATIONS, M=diags_array(1 / degrees))


def _pseudoinverse(laplacian: csr_array, degrees: Array) -> Callable[[Array], Array]:
    """Return the map from b to the solution x of mean zero of ``L x = b - mean(b)``."""
    sparse = degrees.sum() <= 2 * len(degrees)  # a tree, or one cycle with trees: its factors are as sparse
    quick = not sparse and _mixes_fast(laplacian, degrees)
    # With node 0 held at zero, L is positive definite.
    factors = None if quick else splu(laplacian[1:, 1:].tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)

    def solve(vector: Array) -> Array:
        centered = vector.ravel() - vector.mean()
        if factors is None:
            solution = _iterate(laplacian, degrees, centered)[0]
        else:
            solution = np.append(0.0, factors.solve(centered[1:]))
        return np.asarray(solution - solution.mean(), dtype=np.float64)

    return solve


SEARCH_WORK = 30_000_000  # nodes and edges visited before the diameter is left at its bounds, one to three seconds

SHOWN = 6
"""The largest number of parts whose sizes are printed."""


@dataclass(frozen=True)
class Diagnostics:
    """Size, degrees, diameter and algebraic connectivity of one network.

    Parameters
    ----------
    nodes, edges : int
        The numbers of nodes and edges; an edge counts once, not once per direction.
    degree_min, degree_mean, degree_max : int, float, int
        The smallest, mean and largest number of neighbors of a node.
    diameter_lower, diameter_upper : int
        Bounds on the greatest distance between two nodes, in edges. They are equal, and exact, for up to about 1,000
        nodes and for many larger networks. For a network of several parts they refer to the largest part.
    algebraic_connectivity : float
        Second smallest eigenvalue of the graph Laplacian; agreement spreads faster if it is larger. It is 0 for one
        node and for several parts. It is NaN if the computation would take minutes: for more than 10,000 nodes with
        many neighbors that mix slowly, and for more than 200,000 nodes.
    """

    nodes: int
    edges: int
    degree_min: int
    degree_mean: float
    degree_max: int
    diameter_lower: int
    diameter_upper: int
    algebraic_connectivity: float
    parts: tuple[int, ...] = ()
    """The number of nodes of each connected part, the largest first."""

    @property
    def diameter(self) -> int | None:
        """The diameter, or None if only bounds are known."""
        return self.diameter_lower if self.diameter_lower == self.diameter_upper else None

    def describe(self) -> dict[str, str]:
        """Return each quantity's name and value as text, in the order to print them."""
        connectivity = self.algebraic_connectivity
        between = f"between {self.diameter_lower} and {self.diameter_upper}"
        apart = len(self.parts) > 1
        diameter = str(self.diameter) if self.diameter is not None else between
        return {
            "nodes": f"{self.nodes:,}",
            "edges": f"{self.edges:,}",
            **({"parts": in_parts(self.parts).replace(" parts", "", 1)} if apart else {}),
            "degree": f"min {self.degree_min}, mean {self.degree_mean:.2f}, max {self.degree_max}",
            "diameter": f"{diameter} in the largest part" if apart else diameter,
            "algebraic connectivity": "not computed" if isnan(connectivity) else f"{connectivity:.4g}",
        }


def in_parts(parts: Sequence[int]) -> str:
    """Return a text on the connected parts of a network and their sizes.

    Parameters
    ----------
    parts : sequence of int
        The number of nodes of each part, the largest first.

    Examples
    --------
    >>> in_parts([5, 3, 1, 1]), in_parts([1, 1, 1])
    ('4 parts, of 5, 3, 1 and 1 nodes', '3 parts, of 1 node each')
    """
    if parts[0] == parts[-1]:
        return f"{len(parts):,} parts, of {parts[0]:,} node{'' if parts[0] == 1 else 's'} each"
    shown = [f"{size:,}" for size in parts[:SHOWN]]
    if len(parts) > SHOWN:
        return f"{len(parts):,} parts, of {', '.join(shown)}, ... nodes"
    return f"{len(parts)} parts, of {', '.join(shown[:-1])} and {shown[-1]} nodes"


def diagnose(network: Graph | Adjacency) -> Diagnostics:
    """Measure a validated network; 10,000 nodes take a second, a million up to five.

    Parameters
    ----------
    network : networkx.Graph or Adjacency
        As returned by ``validate``.

    References
    ----------
    M. Fiedler, Algebraic connectivity of graphs, Czechoslov. Math. J. 23, 1973.
    """
    network = Adjacency.of(network)
    adjacency, degrees, nodes, parts = network.matrix, network.degrees, network.number_of_nodes(), network.parts
    lower, upper = diameter_bounds(adjacency if len(parts) == 1 else _largest(adjacency))
    connectivity = 0.0 if nodes == 1 or len(parts) > 1 else nan
    if nodes > 1 and len(parts) == 1 and tractable(adjacency):
        connectivity = float(laplacian_eigenpairs(adjacency, 1)[0][0])
    return Diagnostics(
        nodes=nodes,
        edges=network.number_of_edges(),
        degree_min=int(degrees.min()),
        degree_mean=float(degrees.mean()),
        degree_max=int(degrees.max()),
        diameter_lower=lower,
        diameter_upper=upper,
        algebraic_connectivity=connectivity,
        parts=tuple(parts),
    )


def _largest(adjacency: csr_array) -> csr_array:
    """Return the adjacency matrix of the largest connected part; of equally large parts, the first."""
    _, part = connected_components(adjacency, directed=False)
    inside = np.flatnonzero(part == np.bincount(part).argmax())
    return csr_array(adjacency[inside][:, inside])


def diameter_bounds(adjacency: csr_array, work: int = SEARCH_WORK) -> tuple[int, int]:
    """Return bounds on the diameter of a connected graph, equal when it is found exactly.

    A breadth-first search from v gives its eccentricity e(v) and, for every w at distance d from v,
    ``max(d, e(v) - d) <= e(w) <= e(v) + d``. Searches start alternately where the upper bound is greatest and where the
    lower bound is smallest, until no bound exceeds the greatest eccentricity seen, or until ``work`` nodes and edges
    have been visited.

    Parameters
    ----------
    adjacency : csr_array, shape (V, V)
        Of a connected graph.
    work : int
        The largest number of nodes and edges to visit; two searches are always made.

    Returns
    -------
    lower, upper : int

    References
    ----------
    F. W. Takes and W. A. Kosters, Determining the diameter of small world networks, CIKM 2011.
    """
    nodes = adjacency.shape[0]
    degrees = np.diff(adjacency.indptr)
    if adjacency.nnz == nodes * (nodes - 1):  # complete: every node would have to be searched
        return min(1, nodes - 1), min(1, nodes - 1)
    is_tree = adjacency.nnz == 2 * (nodes - 1)
    lower, upper = np.zeros(nodes), np.full(nodes, np.inf)
    greatest, smallest = 0.0, np.inf  # eccentricities seen
    start = int(degrees.argmax())
    for search in range(max(2, work // (nodes + adjacency.nnz))):
        distances = distances_from(adjacency, start)
        eccentricity = float(distances.max())
        greatest, smallest = max(greatest, eccentricity), min(smallest, eccentricity)
        np.maximum(lower, np.maximum(distances, eccentricity - distances), out=lower)
        np.minimum(upper, eccentricity + distances, out=upper)
        upper[start] = eccentricity
        # Ties go to the node with most neighbors, whose search says most about the others.
        open_nodes = np.flatnonzero(upper > greatest)
        swept = is_tree and search == 1  # in a tree, a node furthest from any other is an end of a longest path
        if len(open_nodes) == 0 or 2 * smallest <= greatest or swept:
            return int(greatest), int(greatest)
        key = -upper[open_nodes] if search % 2 == 0 else lower[open_nodes]
        start = int(open_nodes[np.lexsort((-degrees[open_nodes], key))[0]])
    return int(greatest), int(min(upper.max(), 2 * smallest))
