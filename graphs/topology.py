"""What every topology is: a frozen description that builds a connected, undirected, simple graph of integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import networkx as nx
import numpy as np
import numpy.typing as npt

from kernelswarm.refused_key import RefusedKey

if TYPE_CHECKING:
    Graph = nx.Graph[int]
else:  # at run time networkx's class takes no parameters
    Graph = nx.Graph

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DEFAULT_NODES = 20  # of every family, so that topologies compared by name alone have the same size

# A larger network does not fit the memory of the machine that simulates it; refusing beats a killed process.
LARGEST_NODES = 1_000_000
LARGEST_EDGES = 10_000_000


class Topology(Protocol):
    """A network to be built: its fields are the keys of the experiment file."""

    def build(self, generator: np.random.Generator) -> Graph:
        """Build the network.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of all randomness; a topology without randomness leaves it untouched.

        Returns
        -------
        networkx.Graph
            Undirected, simple and connected, with integer labels; each node has ``pos = (x, y)`` in the unit square
            where the family has natural positions.

        Raises
        ------
        ValueError
            When no such network can be built.
        """
        ...


def require_nodes(nodes: int, smallest: int = 1, reason: str = "one node is the smallest network") -> None:
    """Refuse a number of nodes outside ``smallest`` to ``LARGEST_NODES``."""
    if nodes < smallest:
        raise RefusedKey("nodes", f"= {nodes!r} must be at least {smallest}: {reason}")
    if nodes > LARGEST_NODES:
        raise RefusedKey("nodes", f"= {nodes!r} must be at most {LARGEST_NODES:,}: simulate a smaller network")


def require_edges(field: str, value: float, edges: float) -> None:
    """Refuse a field whose value asks for more than ``LARGEST_EDGES`` edges."""
    if edges > LARGEST_EDGES:
        raise RefusedKey(
            field,
            f"= {value!r} gives about {edges:.2g} edges, more than the {LARGEST_EDGES:,} a simulation holds: "
            "use fewer nodes or a sparser topology",
        )


def from_edges(nodes: int, edges: Iterable[tuple[int, int]] | Integers, positions: Array | None = None) -> Graph:
    """Build the graph on ``0 .. nodes - 1`` whose nodes and edges are stored in sorted order.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    edges : iterable of pairs, or array, shape (E, 2)
        Edges in any order and either direction; a repeated edge counts once.
    positions : array, shape (nodes, 2), optional
        Becomes the node attribute ``pos``.

    Returns
    -------
    networkx.Graph
        The same object content whatever order the edges came in, so that files written from it are equal too.
    """
    graph: Graph = nx.Graph()
    if positions is None:
        graph.add_nodes_from(range(nodes))
    else:
        graph.add_nodes_from((node, {"pos": place}) for node, place in enumerate(map(tuple, positions.tolist())))
    pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64).reshape(-1, 2)
    low, high = np.divmod(np.unique(pairs.min(axis=1) * nodes + pairs.max(axis=1)), nodes)
    label = list(range(nodes)).__getitem__  # one integer for all edges of a node: those of a million take 0.5 GB
    graph.add_edges_from(zip(map(label, low.tolist()), map(label, high.tolist()), strict=True))
    return graph
