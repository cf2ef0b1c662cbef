"""Elementary networks, lattices and groups: ring, path, star, complete, tree, grid, torus, caveman and barbell."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

import networkx as nx
import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.graphs.layout import circle, fit
from kernelswarm.graphs.topology import DEFAULT_NODES, LARGEST_NODES, require_edges, require_nodes
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

# Elementary networks: ring, path, star, complete and balanced tree.


@dataclass(frozen=True)
class Ring:
    """Nodes on a circle, each adjacent to its predecessor and its successor.

    Two nodes share one edge, and a single node has none, so that there are no loops and no parallel edges.

    Parameters
    ----------
    nodes : int
        At least 1.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)

    def build(self, generator: np.random.Generator) -> Adjacency:
        nodes = self.nodes
        each = np.arange(nodes if nodes > 1 else 0)
        return from_edges(nodes, np.column_stack([each, (each + 1) % nodes]), circle(nodes))


@dataclass(frozen=True)
class Exponential:
    """Nodes on a circle, each adjacent to the nodes 1, 2, 4, ... places away, up to half the circle.

    The diameter is about ``log2(nodes) / 2``, and each node has about ``2 log2(nodes)`` neighbours.

    Parameters
    ----------
    nodes : int
        At least 1.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the network; the generator is not used."""
        nodes = self.nodes
        each = np.arange(nodes)
        hops = [2**power for power in range(nodes.bit_length()) if 2 * 2**power <= nodes]
        pairs = [np.column_stack([each, (each + hop) % nodes]) for hop in hops]
        return from_edges(nodes, np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs]), circle(nodes))


@dataclass(frozen=True)
class Path:
    """Nodes in a line, each adjacent to the next.

    Parameters
    ----------
    nodes : int
        At least 1.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)

    def build(self, generator: np.random.Generator) -> Adjacency:
        x = np.linspace(0.0, 1.0, self.nodes) if self.nodes > 1 else np.array([0.5])
        each = np.arange(self.nodes - 1)
        return from_edges(self.nodes, np.column_stack([each, each + 1]), np.column_stack([x, np.full(self.nodes, 0.5)]))


@dataclass(frozen=True)
class Star:
    """Node 0 in the middle, adjacent to every other node; there are no other edges.

    Parameters
    ----------
    nodes : int
        At least 1, the middle included.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)

    def build(self, generator: np.random.Generator) -> Adjacency:
        positions = np.array([[0.5, 0.5]])
        if self.nodes > 1:
            angles = np.pi / 2 + 2 * np.pi * np.arange(self.nodes - 1) / (self.nodes - 1)
            positions = np.vstack([positions, 0.5 + 0.5 * np.column_stack([np.cos(angles), np.sin(angles)])])
        others = np.arange(1, self.nodes)
        return from_edges(self.nodes, np.column_stack([np.zeros_like(others), others]), positions)


@dataclass(frozen=True)
class Complete:
    """Every node adjacent to every other.

    Parameters
    ----------
    nodes : int
        At least 1.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)
        require_edges("nodes", self.nodes, self.nodes * (self.nodes - 1) / 2)

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the complete graph; the generator is not used."""
        return from_edges(self.nodes, np.column_stack(np.triu_indices(self.nodes, 1)), circle(self.nodes))


@dataclass(frozen=True)
class BalancedTree:
    """A tree whose levels are filled one after the other: node i > 0 hangs below node (i - 1) // branching.

    Give ``height`` for a tree with all levels full, or ``nodes`` for a tree whose last level may be partly filled. The
    other field is computed; without both there are 20 nodes.

    Parameters
    ----------
    branching : int
        Children of every inner node, at least 1 (which makes a path).
    height : int, optional
        Edges between the root and the last level, at least 0.
    nodes : int, optional
        At least 1; ``sum_(k <= height) branching^k`` if only the height is given.
    """

    branching: int = 2
    height: int | None = None
    nodes: int | None = None

    ranges: ClassVar = {
        "branching": Range("[1, inf)", "every inner node needs a child"),
        "height": Range("[0, inf)", "0 is the root alone", None),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.nodes is self.height is None:
            object.__setattr__(self, "nodes", DEFAULT_NODES)
        self._resolve()

    def _resolve(self) -> tuple[int, int]:
        """Return nodes and height; a missing one is computed from the other."""
        if self.nodes is None:
            height = self.height or 0
            nodes = self._full(height)
            if nodes > LARGEST_NODES:
                raise RefusedKey(
                    "height",
                    f"= {height!r} makes a tree of more than {LARGEST_NODES:,} nodes with branching = "
                    f"{self.branching!r}: lower one of them",
                )
            return nodes, height
        require_nodes(self.nodes)
        height = self._height(self.nodes)
        if self.height is not None and self.height != height:
            raise RefusedKey(
                "nodes",
                f"= {self.nodes!r} makes a tree of height {height} with branching = {self.branching!r}, not of "
                f"height = {self.height!r}: leave one of the two out",
            )
        return self.nodes, height

    def _full(self, height: int) -> int:
        """Return the number of nodes of the levels 0 to ``height``, or any number above LARGEST_NODES."""
        nodes = width = 1
        for _ in range(height):
            width *= self.branching
            nodes += width
            if nodes > LARGEST_NODES:
                break
        return nodes

    def _height(self, nodes: int) -> int:
        """Return the level of the last node."""
        height, last = 0, nodes - 1
        while last > 0:
            height, last = height + 1, (last - 1) // self.branching
        return height

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the tree with its root in the middle; the generator is not used."""
        nodes, height = self._resolve()
        each = np.arange(1, nodes)
        edges = np.column_stack([each, (each - 1) // self.branching])
        return from_edges(nodes, edges, self._positions(nodes, height))

    def _positions(self, nodes: int, height: int) -> Array:
        """Return positions (nodes, 2): a level is a circle around the root, a child lies within its parent's angle."""
        depth, angle, width = np.zeros(nodes), np.zeros(nodes), np.full(nodes, 2 * np.pi)
        for node in range(1, nodes):
            parent, child = divmod(node - 1, self.branching)
            depth[node] = depth[parent] + 1
            width[node] = width[parent] / self.branching
            angle[node] = angle[parent] + (child - (self.branching - 1) / 2) * width[node]
        radius = 0.5 * depth / max(height, 1)
        return 0.5 + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


# The two sides of a network that is a product, rows by columns or cliques by members, from the user's numbers.


def factor_pair(
    nodes: int | None, first: int | None, second: int | None, names: tuple[str, str], smallest: int = 1
) -> tuple[int, int, int]:
    """Return ``(nodes, first, second)`` with ``nodes = first * second``; missing numbers are computed from the others.

    With ``nodes`` alone the two sides are as equal as its divisors allow, and the first is not above the second.

    Parameters
    ----------
    nodes, first, second : int or None
        The user's numbers; 20 nodes if all are None.
    names : pair of str
        The fields that hold the two sides, for the messages.
    smallest : int
        The smallest second side.

    Raises
    ------
    ValueError
        If the numbers contradict each other or make no rectangle.
    """
    for name, side, least in ((names[0], first, 1), (names[1], second, smallest)):
        if side is not None and side < least:
            raise RefusedKey(name, f"= {side!r} must be at least {least}")
    if nodes is None and first is not None and second is not None:
        nodes = first * second
        if nodes >= 1:
            require_nodes(nodes)
    if nodes is None:
        for name, side, other in ((names[0], first, names[1]), (names[1], second, names[0])):
            if side is not None:
                raise RefusedKey(name, f"= {side!r} is one side only: give {other} or nodes too")
        nodes = DEFAULT_NODES
    require_nodes(nodes, smallest, f"{names[1]} is at least {smallest}")
    if first is None and second is None:
        first = next(side for side in range(isqrt(nodes), 0, -1) if nodes % side == 0 and nodes // side >= smallest)
        if first == 1 and nodes > 4:
            raise RefusedKey(
                "nodes",
                f"= {nodes!r} is a prime number and has no two sides: use {nodes - 1} or {nodes + 1}, or give "
                f"{names[0]} and {names[1]}",
            )
    first = first if first is not None else nodes // (second or 1)
    second = second if second is not None else nodes // first
    if first * second != nodes:
        raise RefusedKey(
            "nodes",
            f"= {nodes!r} is not {names[0]} * {names[1]} = {first} * {second}: leave nodes out or make them agree",
        )
    if second < smallest:
        raise RefusedKey(names[1], f"= {second!r} must be at least {smallest}: lower {names[0]} or raise nodes")
    return nodes, first, second


# Lattices: grid and torus, given by their sides or by their number of nodes.


@dataclass(frozen=True)
class Grid:
    """A rectangle of nodes, each adjacent to its neighbors in row and column; node = row * columns + column.

    Give ``rows`` and ``columns``, or ``nodes`` for the most square rectangle, or ``nodes`` and one side.

    Parameters
    ----------
    rows, columns : int, optional
        At least 1.
    nodes : int, optional
        ``rows * columns``; 20 when nothing is given.
    """

    rows: int | None = None
    columns: int | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.rows is self.columns is self.nodes is None:
            object.__setattr__(self, "nodes", DEFAULT_NODES)
        factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))

    def build(self, generator: np.random.Generator) -> Adjacency:
        nodes, rows, columns = factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))
        column, row = np.meshgrid(np.arange(columns), np.arange(rows))
        positions = fit(np.column_stack([column.ravel(), -row.ravel()]).astype(np.float64))
        return from_edges(nodes, _lattice(rows, columns, wrap=False), positions)


@dataclass(frozen=True)
class Torus(Grid):
    """A grid whose rows and columns close into rings, so that no node is at a border.

    A side of two nodes has one edge, not two parallel ones. The fields are the same as for ``Grid``. The positions are
    a ring of small rings, so that neighbors are near each other.

    Parameters
    ----------
    rows, columns : int, optional
        At least 1.
    nodes : int, optional
        ``rows * columns``; 20 when nothing is given.
    """

    def build(self, generator: np.random.Generator) -> Adjacency:
        nodes, rows, columns = factor_pair(self.nodes, self.rows, self.columns, ("rows", "columns"))
        return from_edges(nodes, _lattice(rows, columns, wrap=True), _rings(rows, columns))


def _lattice(rows: int, columns: int, wrap: bool) -> Integers:
    """Return the edges along the rows and the columns, (E, 2); a closed side of two nodes gives its edge twice."""
    node = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    if wrap:
        pairs += [(node[:, -1], node[:, 0])] * (columns > 1) + [(node[-1], node[0])] * (rows > 1)
    return np.concatenate([np.column_stack([here.ravel(), there.ravel()]) for here, there in pairs])


def _rings(rows: int, columns: int) -> Array:
    """Return positions (rows * columns, 2): the longer side is a ring; at each of its places is a small ring."""
    long, short = max(rows, columns), min(rows, columns)
    radius = float(np.clip(0.8 * np.sin(np.pi / long), 0.25, 0.45)) if short > 1 else 0.0
    large = 2 * np.pi * np.arange(long) / long
    small = 2 * np.pi * np.arange(short) / short + 0.3  # turned, so that edges do not cover one another
    x = np.cos(large) + radius * np.cos(small)[:, np.newaxis]
    y = np.sin(large) + radius * np.sin(small)[:, np.newaxis]
    if rows > columns:
        x, y = x.T, y.T
    return fit(np.column_stack([x.ravel(), y.ravel()]))


# Networks of tightly knit groups: caveman and barbell, where agreement must pass through few edges.


@dataclass(frozen=True)
class Caveman:
    """Cliques on a ring; in each, the edge between the first two nodes is rewired to the previous clique.

    Give ``cliques`` and ``clique_size``, or ``nodes`` for the most even division. A single clique keeps all its edges.

    Parameters
    ----------
    cliques : int, optional
        At least 1.
    clique_size : int, optional
        At least 3; with 2 the rewired edges would leave the network in pieces.
    nodes : int, optional
        ``cliques * clique_size``; 20 when nothing is given.

    References
    ----------
    D. J. Watts, Networks, dynamics, and the small-world phenomenon, Am. J. Sociol. 105, 1999.
    """

    cliques: int | None = None
    clique_size: int | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.cliques is self.clique_size is self.nodes is None:
            object.__setattr__(self, "nodes", DEFAULT_NODES)
        nodes, _, size = factor_pair(self.nodes, self.cliques, self.clique_size, ("cliques", "clique_size"), 3)
        require_edges("clique_size", size, nodes * (size - 1) / 2)

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the cliques; the generator is not used."""
        nodes, cliques, size = factor_pair(self.nodes, self.cliques, self.clique_size, ("cliques", "clique_size"), 3)
        if cliques == 1:
            return from_edges(nodes, nx.complete_graph(nodes).edges, circle(nodes))
        reach = 0.7 * np.sin(np.pi / cliques)  # a clique's radius against the ring's; 1 would let the cliques touch
        ring = 0.5 / (1 + reach)
        facing = np.pi + np.pi / size  # inwards face the first and last node of a clique, those with edges out of it
        angles = np.pi / 2 + 2 * np.pi * np.arange(cliques) / cliques
        places = [
            circle(size, (0.5 + ring * np.cos(angle), 0.5 + ring * np.sin(angle)), reach * ring, angle + facing)
            for angle in angles
        ]
        return from_edges(nodes, nx.connected_caveman_graph(cliques, size).edges, np.vstack(places))


@dataclass(frozen=True)
class Barbell:
    """Two complete graphs of equal size, joined by a path of ``bridge`` nodes, or by one edge if the bridge is 0.

    Parameters
    ----------
    nodes : int
        The total number. Each complete graph has ``(nodes - bridge) / 2`` nodes, an integer of at least 2.
    bridge : int, optional
        The number of nodes of the path, at least 0. By default 0 for an even number of nodes, 1 for an odd number.
    """

    nodes: int = DEFAULT_NODES
    bridge: int | None = None

    def __post_init__(self) -> None:
        require_nodes(self.nodes, 4, "each of the two complete graphs needs two nodes")
        bridge, ends = self._resolve()
        if bridge < 0:
            raise RefusedKey("bridge", f"= {bridge!r} must be at least 0: 0 joins the two complete graphs by one edge")
        if 2 * ends + bridge != self.nodes:
            raise RefusedKey(
                "bridge",
                f"= {bridge!r} leaves {self.nodes - bridge} of {self.nodes} nodes, which two complete graphs "
                f"cannot share evenly: use {bridge + 1} or leave bridge out",
            )
        if ends < 2:
            raise RefusedKey(
                "bridge",
                f"= {bridge!r} leaves fewer than two nodes for each complete graph: use at most {self.nodes - 4}",
            )
        require_edges("nodes", self.nodes, float(ends) * ends)

    def _resolve(self) -> tuple[int, int]:
        bridge = self.nodes % 2 if self.bridge is None else self.bridge
        return bridge, (self.nodes - bridge) // 2

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Build the barbell from left to right; the generator is not used."""
        bridge, ends = self._resolve()
        radius = 0.5 * ends / (2 * ends + bridge + 2)
        path = np.linspace(2 * radius, 1 - 2 * radius, bridge + 2)[1:-1]
        places = [
            circle(ends, (radius, 0.5), radius, 2 * np.pi / ends),  # its last node faces right
            np.column_stack([path, np.full(bridge, 0.5)]),
            circle(ends, (1 - radius, 0.5), radius, np.pi),  # its first node faces left
        ]
        return from_edges(self.nodes, nx.barbell_graph(ends, bridge).edges, np.vstack(places))
