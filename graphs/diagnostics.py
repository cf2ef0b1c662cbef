"""A network in numbers: size, degrees, diameter and algebraic connectivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.distances import distances_from
from kernelswarm.graphs.spectrum import laplacian_eigenpairs, tractable

SEARCH_WORK = 30_000_000  # nodes and edges visited before the diameter is left at its bounds, one to three seconds

SHOWN = 6
"""Parts whose sizes are named."""


@dataclass(frozen=True)
class Diagnostics:
    """Numbers of one network.

    Parameters
    ----------
    nodes, edges : int
        How many; an edge counts once, not once per direction.
    degree_min, degree_mean, degree_max : int, float, int
        Neighbors of a node.
    diameter_lower, diameter_upper : int
        Bounds on the greatest distance between two nodes, in edges. They are equal, and exact, up to about 1,000 nodes
        and for many larger networks. Of a network of several parts, those of the largest.
    algebraic_connectivity : float
        Second smallest eigenvalue of the graph Laplacian: the larger, the faster agreement spreads. 0 for one node and
        for several parts; NaN where it would take minutes, of more than 10,000 nodes with many neighbors that mix
        slowly and of more than 200,000.
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
        """The diameter, or None where only its bounds are known."""
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
        Nodes of each, the largest first.

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
    """Return the adjacency matrix of the largest connected part, of the first of equally large ones."""
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
        Nodes and edges to visit at most; two searches are always made.

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
