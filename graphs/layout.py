"""The positions of nodes: natural ones of a family, and a drawing for every other network."""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from kernelswarm.arrays import Array
from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.diagnostics import laplacian_eigenpairs, tractable

# Kamada-Kawai draws best and takes 0.6 s for 100 nodes, 3 s for 200; springs take up to 5 s.
KAMADA_KAWAI_NODES = 100
SPRING_NODES = 2000


def circle(
    count: int, center: tuple[float, float] = (0.5, 0.5), radius: float = 0.5, start: float = np.pi / 2
) -> Array:
    """Return ``count`` points on a circle, counterclockwise from the angle ``start``; one point alone is the center.

    Returns
    -------
    array, shape (count, 2)
    """
    if count == 1:
        return np.array([center])
    angles = start + 2 * np.pi * np.arange(count) / count
    return np.array(center) + radius * np.column_stack([np.cos(angles), np.sin(angles)])


def fit(points: Array) -> Array:
    """Return points (V, 2) shifted and scaled into the middle of the unit square, with their proportions kept."""
    low, high = points.min(axis=0), points.max(axis=0)
    extent = float((high - low).max())
    fitted: Array = 0.5 + (points - (low + high) / 2) / (extent if extent > 0 else 1.0)
    return fitted


def positions(graph: Graph, seed: int = 0) -> dict[int, tuple[float, float]]:
    """Return where to draw every node.

    The first two coordinates of the nodes' own ``pos`` where all have one and no two coincide, otherwise a layout in
    the unit square: Kamada-Kawai's for up to 100 nodes, springs for up to 2,000, beyond that the two smoothest
    eigenvectors of the Laplacian, or where these would take minutes the distances from two nodes. Connected parts are
    laid out one by one, each in a square as large as its share of the nodes. The same graph and seed always give the
    same drawing.

    Parameters
    ----------
    graph : networkx.Graph
        A validated network.
    seed : int
        Starts the springs and the eigenvectors; the other layouts have no randomness.

    Returns
    -------
    dict of int to (x, y)

    References
    ----------
    T. Kamada and S. Kawai, An algorithm for drawing general undirected graphs, Inf. Process. Lett. 31, 1989.
    """
    nodes = sorted(graph.nodes)
    adjacency = Adjacency.of(graph)
    points = None if adjacency.positions is None else _in_the_plane(adjacency.positions)
    if points is None or len(np.unique(points, axis=0)) < len(nodes):
        apart = len(adjacency.parts) > 1
        points = _side_by_side(graph, seed) if apart else fit(_layout(graph, nodes, seed))
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, points, strict=True)}


def _in_the_plane(points: Array) -> Array:
    """Return the first two coordinates of points (V, d); those on a line lie on the first axis."""
    return np.column_stack([points, np.zeros(len(points))]) if points.shape[1] == 1 else points[:, :2]


def _side_by_side(graph: Graph, seed: int) -> Array:
    """Return a layout (V, 2) of a network of several parts: squares in rows, the largest part first."""
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=lambda part: (-len(part), part[0]))
    sides = [len(part) ** 0.5 for part in parts]
    width = max(sides[0], sum(side * side for side in sides) ** 0.5)
    found: dict[int, Array] = {}
    left = top = height = 0.0
    for part, side in zip(parts, sides, strict=True):
        if left and left + side > width * (1 + 1e-9):
            left, top, height = 0.0, top - height, 0.0
        drawn = fit(_layout(graph.subgraph(part), part, seed)) if len(part) > 1 else np.full((1, 2), 0.5)
        corner = np.array([left, top - side])
        found |= dict(zip(part, corner + side * (0.1 + 0.8 * drawn), strict=True))
        left, height = left + side, max(height, side)
    return fit(np.array([found[node] for node in sorted(found)]))


def _layout(graph: Graph, nodes: list[int], seed: int) -> Array:
    if len(nodes) <= 2:
        return np.column_stack([np.arange(float(len(nodes))), np.zeros(len(nodes))])
    if len(nodes) > SPRING_NODES:
        adjacency = Adjacency.of(graph).matrix
        smooth = fit(laplacian_eigenpairs(adjacency, 2, seed)[1] if tractable(adjacency) else _landmarks(adjacency))
        shift: Array = np.random.default_rng(seed).normal(scale=0.01, size=smooth.shape)
        return smooth + shift  # leaves of the same node would cover one another
    drawn: Graph = nx.Graph()  # a layout may depend on the order of nodes and edges: give it the sorted one
    drawn.add_nodes_from(nodes)
    drawn.add_edges_from(sorted((min(edge), max(edge)) for edge in graph.edges))
    if len(nodes) <= KAMADA_KAWAI_NODES:
        placed = nx.kamada_kawai_layout(drawn)
    else:
        placed = nx.spring_layout(drawn, seed=seed, iterations=50 if len(nodes) <= 500 else 25)
    return np.array([placed[node] for node in nodes], dtype=np.float64)


def _landmarks(adjacency: csr_array) -> Array:
    """Return every node's distances from one end of the network and from a node far from both ends, (V, 2)."""

    def distances(start: int) -> Array:
        return np.asarray(dijkstra(adjacency, indices=[start], unweighted=True)[0], dtype=np.float64)

    first = distances(int(distances(0).argmax()))
    second = distances(int(first.argmax()))
    return np.column_stack([first, distances(int(np.minimum(first, second).argmax()))])
