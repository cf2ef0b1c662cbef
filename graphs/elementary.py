"""Elementary networks: ring, path, star, complete and balanced tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Array, from_edges
from kernelswarm.graphs.layout import circle
from kernelswarm.graphs.topology import DEFAULT_NODES, LARGEST_NODES, require_edges, require_nodes
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey


@dataclass(frozen=True)
class Ring:
    """Nodes on a circle, each adjacent to the one before and the one after.

    Two nodes share one edge and one node has none, so there are no loops and no parallel edges.

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
    """Nodes on a circle, each adjacent to those 1, 2, 4, ... places away, up to half the circle.

    Any two are at most about ``log2(nodes) / 2`` steps apart, at about ``2 log2(nodes)`` neighbours each.

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
    """Node 0 in the middle, adjacent to every other node; the others are adjacent to nothing else.

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

    Give ``height`` for a tree with all levels full, or ``nodes`` for one whose last level may be filled in part. The
    field left out is worked out from the other; with neither, there are 20 nodes.

    Parameters
    ----------
    branching : int
        Children of every inner node, at least 1 (which makes a path).
    height : int, optional
        Edges between the root and the last level, at least 0.
    nodes : int, optional
        At least 1; ``sum_(k <= height) branching^k`` when only the height is given.
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
        """Return nodes and height, each worked out from the other where it was left out."""
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
        """Return how many nodes the levels 0 to ``height`` hold, or any number above LARGEST_NODES."""
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
