"""Networks of tightly knit groups: caveman and barbell, where agreement must pass through few edges."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.graphs.factors import factor_pair
from kernelswarm.graphs.layout import circle
from kernelswarm.graphs.topology import DEFAULT_NODES, require_edges, require_nodes
from kernelswarm.refused_key import RefusedKey


@dataclass(frozen=True)
class Caveman:
    """Cliques on a ring: in each, the edge between its first two nodes goes to the clique before instead.

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
    """Two complete graphs of equal size joined by a path of ``bridge`` nodes, or by one edge when the bridge is 0.

    Parameters
    ----------
    nodes : int
        In all; ``(nodes - bridge) / 2`` in each complete graph, which must be a whole number and at least 2.
    bridge : int, optional
        Nodes of the path, at least 0. Left out: 0 for an even number of nodes, 1 for an odd one.
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
