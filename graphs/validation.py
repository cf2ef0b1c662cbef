"""Whether a graph can be a network of agents: undirected, simple, connected, labelled by integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import isfinite
from numbers import Integral, Real
from typing import Any, cast

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.directed import ASKS, HIGHER, LOWER, undirected

SHOWN = 8  # offenders named in a message; the rest are counted
LARGEST_LABEL = 2**63 - 1  # labels become columns of 64-bit integers


def validate(graph: nx.Graph[Any], fresh: bool = False, connected: bool = True) -> Graph:
    """Check a graph and return it as a network.

    Parameters
    ----------
    graph : networkx.Graph
        Without parallel edges or self loops, connected; labels are integers from 0 (not necessarily without gaps). A
        directed edge from i to j says that i asks j. One node without edges is a network. The node attribute ``pos``,
        if any node has it, is a pair of finite numbers on every node.
    fresh : bool
        Whether nobody else holds the graph: it is then returned itself where it is in order.
    connected : bool
        Whether it must be connected; not where it is one of several that take turns.

    Returns
    -------
    networkx.Graph
        A copy with plain ``int`` labels, nodes and edges in sorted order and all attributes kept; undirected, with the
        attribute ``asks`` of :mod:`~kernelswarm.graphs.directed` on edges on which only one end asks.

    Raises
    ------
    TypeError
        When it is not a networkx graph.
    ValueError
        When a rule is broken, naming the offending nodes and what to do.
    """
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"expected a networkx graph, got {type(graph).__name__}: build one with networkx.Graph(edges)")
    if graph.number_of_nodes() == 0:
        raise ValueError("graph has no nodes; a network has at least one: add nodes")
    _refuse_kind(graph)
    _refuse_labels(graph)
    if graph.is_directed():
        graph, fresh = undirected(cast("Any", graph)), True
    loops = sorted(int(node) for node in nx.nodes_with_selfloops(graph))
    if loops:
        raise ValueError(
            f"graph has self loops at nodes {listed(loops)}; an agent is not its own neighbor: remove them with "
            "graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
        )
    if connected:
        _refuse_disconnected(graph)
    _refuse_positions(graph)
    return graph if fresh and _is_in_order(graph) else _copy(graph)


def as_network(built: Graph | Adjacency, fresh: bool = False) -> Adjacency:
    """Check a network, in whichever of its two forms, and return it as arrays.

    Parameters
    ----------
    built : networkx.Graph or Adjacency
        What a topology builds, or anybody's graph.
    fresh : bool
        Whether nobody else holds the graph.

    Raises
    ------
    TypeError, ValueError
        As :func:`validate`.
    """
    if not isinstance(built, Adjacency):
        return Adjacency.of(validate(built, fresh))
    finite = built.positions is None or bool(np.isfinite(built.positions).all())
    return built if finite and built.is_connected else Adjacency.of(validate(built.graph, fresh=True))


def listed(items: Sequence[object]) -> str:
    """Return ``[0, 1, 2]``, with only the first few of many: ``[0, 1, ..., and 30 more]``."""
    shown = ", ".join(repr(item) for item in items[:SHOWN])
    return f"[{shown}]" if len(items) <= SHOWN else f"[{shown}, ... and {len(items) - SHOWN} more]"


def _refuse_kind(graph: nx.Graph[Any]) -> None:
    if graph.is_multigraph():
        counts: dict[frozenset[Any], int] = {}
        for edge in graph.edges():
            counts[frozenset(edge)] = counts.get(frozenset(edge), 0) + 1
        parallel = _pairs(edge for edge, count in counts.items() if count > 1)
        found = f" and has parallel edges between {parallel}" if parallel else ""
        kind = "a directed multigraph" if graph.is_directed() else "a multigraph"
        raise ValueError(f"graph is {kind}{found}; two agents share at most one edge: pass networkx.Graph(graph)")
    if not any(chain.from_iterable(neighbors.values() for _, neighbors in graph.adjacency())):
        return  # no edge has attributes: to look at those of a million takes seconds
    known = (None, LOWER, HIGHER)
    wrong = [(i, j) for i, j, attributes in graph.edges(data=True) if attributes.get(ASKS) not in known]
    if wrong:
        raise ValueError(
            f'graph has an attribute "{ASKS}" on edges {listed(_sorted(wrong))} that says neither "{LOWER}" nor '
            f'"{HIGHER}", the end that asks: leave it out where both do'
        )


def _pairs(edges: Iterable[frozenset[Any]]) -> str:
    ends = [tuple(_sorted(edge)) for edge in edges]
    return listed(_sorted([pair * 2 if len(pair) == 1 else pair for pair in ends])) if ends else ""


def _sorted(items: Iterable[Any]) -> list[Any]:
    """Return the items sorted, by their text where they cannot be compared."""
    items = list(items)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _refuse_labels(graph: nx.Graph[Any]) -> None:
    renumber = (
        "renumber them with networkx.convert_node_labels_to_integers(graph, ordering='sorted', label_attribute='label')"
    )
    labels: list[Any] = list(graph)
    other = [label for label in labels if type(label) is not int]
    wrong = [label for label in other if isinstance(label, bool) or not isinstance(label, Integral)]
    if wrong:
        raise ValueError(f"graph has node labels that are not integers, {listed(_sorted(wrong))}: {renumber}")
    if min(labels) < 0 or max(labels) > LARGEST_LABEL:
        outside = sorted(int(node) for node in graph if not 0 <= int(node) <= LARGEST_LABEL)
        raise ValueError(f"graph has node labels outside 0 to {LARGEST_LABEL}, {listed(outside)}: {renumber}")


def _refuse_disconnected(graph: Graph) -> None:
    if graph.number_of_nodes() == 1:
        return
    isolated = sorted(int(node) for node in nx.isolates(graph))
    if isolated:
        raise ValueError(
            f"graph has isolated nodes {listed(isolated)}; every agent needs a neighbor: join them to others or drop "
            "them with graph.remove_nodes_from(list(networkx.isolates(graph)))"
        )
    if Adjacency.of(graph).is_connected:
        return
    parts = sorted((sorted(int(node) for node in part) for part in nx.connected_components(graph)), key=_largest_first)
    shown = "; ".join(f"{listed(part)} ({len(part)} nodes)" for part in parts[:3])
    more = f"; and {len(parts) - 3} smaller ones" if len(parts) > 3 else ""
    raise ValueError(
        f"graph is disconnected, it falls into {len(parts)} parts, {shown}{more}; what one part learns stays in "
        "it: add edges between them, or keep the largest part with "
        "graph.subgraph(max(networkx.connected_components(graph), key=len)).copy()"
    )


def _largest_first(part: list[int]) -> tuple[int, int]:
    return -len(part), part[0]


def _refuse_positions(graph: Graph) -> None:
    places = {node: attributes.get("pos") for node, attributes in graph.nodes(data=True)}
    missing = sorted(int(node) for node, place in places.items() if place is None)
    if len(missing) == len(places):
        return
    if missing:
        raise ValueError(
            f"graph has no pos at nodes {listed(missing)} but at others; places are known for all nodes or for none: "
            "set graph.nodes[node]['pos'] = (x, y) for the missing ones or delete the attribute"
        )
    wrong = sorted(int(node) for node, place in places.items() if not _is_place(place))
    if wrong:
        node = wrong[0]
        raise ValueError(
            f"graph has a pos that is not a pair of finite numbers at nodes {listed(wrong)}, {places[node]!r} at node "
            f"{node}: set graph.nodes[{node}]['pos'] = (x, y)"
        )


def _is_place(place: object) -> bool:
    if _is_plain_place(place):
        return True
    if not isinstance(place, Sequence | np.ndarray) or len(place) != 2:
        return False
    return all(isinstance(value, Real) and isfinite(value) for value in place)


def _is_plain_place(place: Any) -> bool:
    return type(place) is tuple and [*map(type, place)] == [float, float] and isfinite(place[0]) and isfinite(place[1])


def _is_in_order(graph: Graph) -> bool:
    """Tell whether a valid graph is what :func:`_copy` makes of it: a million nodes take a second instead of six."""
    labels = list(graph)
    if type(graph) is not nx.Graph or any(type(label) is not int for label in labels) or labels != sorted(labels):
        return False
    places = (attributes.get("pos", (0.0, 0.0)) for _, attributes in graph.nodes(data=True))
    ascending = ([*neighbors] == sorted(neighbors) for _, neighbors in graph.adjacency())
    return all(map(_is_plain_place, places)) and all(ascending)


def _copy(graph: Graph) -> Graph:
    network: Graph = nx.Graph()
    network.graph.update(graph.graph)
    for node in sorted(graph.nodes):
        attributes = dict(graph.nodes[node])
        if attributes.get("pos") is not None:
            x, y = attributes["pos"]
            attributes["pos"] = (float(x), float(y))
        network.add_node(int(node), **attributes)
    edges = [(min(i, j), max(i, j), attributes) for i, j, attributes in graph.edges(data=True)]
    network.add_edges_from((int(i), int(j), dict(attributes)) for i, j, attributes in sorted(edges, key=_ends))
    return network


def _ends(edge: tuple[int, int, dict[str, Any]]) -> tuple[int, int]:
    return edge[0], edge[1]
