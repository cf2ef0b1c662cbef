"""Directed networks: who asks whom.

A network is kept as the undirected graph of those who exchange messages. On an edge where only one end asks, the
attribute ``asks`` says which: ``"lower"``, the end with the smaller label, or ``"higher"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Graph, from_edges
from kernelswarm.graphs.layout import circle
from kernelswarm.graphs.topology import DEFAULT_NODES, require_nodes
from kernelswarm.refused_key import RefusedKey

ASKS = "asks"
"""The edge attribute."""

LOWER, HIGHER = "lower", "higher"


def undirected(graph: nx.DiGraph[Any]) -> nx.Graph[Any]:
    """Return the undirected graph of a directed one, in which an edge from i to j says that i asks j.

    Attributes of an edge that is there both ways are those from the smaller label to the larger.
    """
    found: nx.Graph[Any] = nx.Graph()
    found.graph.update(graph.graph)
    found.add_nodes_from(graph.nodes(data=True))
    for i, j, attributes in graph.edges(data=True):
        both = graph.has_edge(j, i)
        if both and i > j:
            continue
        found.add_edges_from([(i, j, {**attributes, **({} if both else {ASKS: LOWER if i < j else HIGHER})})])
    return found


def renumbered(graph: Graph, numbers: Mapping[int, int]) -> Graph:
    """Return a network whose nodes have other numbers, with nodes and edges in their order; the same ends ask."""
    found: Graph = nx.Graph()
    found.graph.update(graph.graph)
    found.add_nodes_from((numbers[node], graph.nodes[node]) for node in sorted(graph.nodes, key=numbers.__getitem__))
    edges = []
    for i, j, attributes in graph.edges(data=True):
        low, high = sorted((numbers[i], numbers[j]))
        if attributes.get(ASKS) is not None:
            asker = numbers[min(i, j) if attributes[ASKS] == LOWER else max(i, j)]
            attributes = attributes | {ASKS: LOWER if asker == low else HIGHER}
        edges.append((low, high, attributes))
    found.add_edges_from(sorted(edges, key=lambda edge: edge[:2]))
    return found


def asks(node: int, other: int, attributes: Any) -> bool:
    """Return whether a node asks its neighbour, by the attributes of their edge."""
    return bool(attributes.get(ASKS) in (None, LOWER if node < other else HIGHER))


def is_directed(network: Graph | Adjacency) -> bool:
    """Return whether there is an edge on which only one end asks."""
    # Both directions of an edge: networkx takes much longer to leave one of them out.
    graph = network.held if isinstance(network, Adjacency) else network
    return graph is not None and any(ASKS in edge for _, known in graph.adjacency() for edge in known.values())


def who_asks(network: Graph | Adjacency, names: Mapping[int, object]) -> str:
    """Return a sentence with the number of one-way edges and an example, or an empty text without such edges.

    Parameters
    ----------
    network : networkx.Graph or Adjacency
        The network.
    names : mapping of int to name
        What each node is called.

    Examples
    --------
    >>> who_asks(undirected(nx.DiGraph([(0, 1), (1, 2), (2, 1)])), {0: "Worms", 1: "Mainz", 2: "Bonn"})
    'on 1 of 2 edges only one end asks: Worms -> Mainz means that Worms asks Mainz and learns from the answers'
    """
    if not is_directed(network):
        return ""
    graph = network.graph if isinstance(network, Adjacency) else network
    edges = sorted(((min(i, j), max(i, j), known[ASKS]) for i, j, known in graph.edges(data=True) if ASKS in known))
    low, high, asking = edges[0]
    one, other = (names[low], names[high]) if asking == LOWER else (names[high], names[low])
    return (
        f"on {len(edges):,} of {graph.number_of_edges():,} edges only one end asks: {one} -> {other} means that {one} "
        f"asks {other} and learns from the answers"
    )


@dataclass(frozen=True)
class DirectedRing:
    """Directed ring: each node asks the next node on a circle.

    Parameters
    ----------
    nodes : int
        At least 1.
    """

    nodes: int = DEFAULT_NODES

    def __post_init__(self) -> None:
        require_nodes(self.nodes)

    def build(self, generator: np.random.Generator) -> Graph:
        each = np.arange(self.nodes if self.nodes > 1 else 0)
        pairs = np.column_stack([each, (each + 1) % self.nodes])
        return _asking(self.nodes, pairs)


@dataclass(frozen=True)
class RandomAsking:
    """Each node asks the same number of others, drawn at random, besides the one after it on a circle.

    Parameters
    ----------
    nodes : int
        At least 1.
    asked : int
        How many others a node asks, at least 1 and below ``nodes``.
    """

    nodes: int = DEFAULT_NODES
    asked: int = 3

    def __post_init__(self) -> None:
        require_nodes(self.nodes)
        if not 1 <= self.asked < max(self.nodes, 2):
            raise RefusedKey(
                "asked", f"= {self.asked} must be from 1 to {max(self.nodes, 2) - 1}: nodes - 1 others are there"
            )

    def build(self, generator: np.random.Generator) -> Graph:
        pairs = []
        for node in range(self.nodes if self.nodes > 1 else 0):
            others = [other for other in range(self.nodes) if other not in (node, (node + 1) % self.nodes)]
            drawn = generator.permutation(len(others))[: self.asked - 1]
            pairs += [(node, (node + 1) % self.nodes), *((node, others[k]) for k in drawn)]
        return _asking(self.nodes, np.array(pairs, dtype=np.int64).reshape(-1, 2))


def _asking(nodes: int, pairs: Any) -> Graph:
    """Build the network in which the first of each pair asks the second."""
    asked = {(int(i), int(j)) for i, j in pairs}
    graph = from_edges(nodes, np.asarray(pairs, dtype=np.int64), circle(nodes)).graph
    for i, j, attributes in graph.edges(data=True):
        if not {(i, j), (j, i)} <= asked:
            attributes[ASKS] = LOWER if (min(i, j), max(i, j)) in asked else HIGHER
    return graph
