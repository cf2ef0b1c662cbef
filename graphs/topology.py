"""The contract of topologies: frozen descriptions that build a connected, undirected, simple graph of integers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.refused_key import RefusedKey

DEFAULT_NODES = 20  # of every family, so that topologies compared by name alone have the same size

# A larger network does not fit the memory of the machine that simulates it; refusing beats a killed process.
LARGEST_NODES = 1_000_000
LARGEST_EDGES = 10_000_000


class Topology(Protocol):
    """A network to be built: its fields are the keys of the experiment file."""

    def build(self, generator: np.random.Generator) -> Graph | Adjacency:
        """Build the network.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of all randomness; a topology without randomness leaves it untouched.

        Returns
        -------
        networkx.Graph or Adjacency
            Undirected, simple and connected, with integer labels; each node has ``pos = (x, y)`` in the unit square
            where the family has natural positions. Arrays of a large network take a hundredth of the time.

        Raises
        ------
        ValueError
            If no such network can be built.
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
