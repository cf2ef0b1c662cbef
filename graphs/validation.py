"""From a graph to a network of agents: undirected, simple, numbered, with positions for all nodes or none."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from math import isfinite
from numbers import Real
from typing import Any, cast

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import NAME, NUMBERED, Adjacency, Graph
from kernelswarm.graphs.directed import ASKS, HIGHER, LOWER, undirected
from kernelswarm.graphs.given.names import are_numbers, names_of, ordered

SHOWN = 8  # offenders named in a message; the rest are counted


def validate(graph: nx.Graph[Any], fresh: bool = False, strict: bool = False) -> Graph:
    """Make a network of a graph.

    Labels that are whole numbers from 0 stay as they are; any others become the names of nodes 0, 1, 2, ..., in their
    order, or in that of their text where they cannot be compared. Parallel edges are merged, self loops dropped and
    positions that not all nodes have left out, each with a warning.

    Parameters
    ----------
    graph : networkx.Graph
        Any, with at least one node. A directed edge from i to j says that i asks j. The node attribute ``pos`` is a
        place in space, of as many finite numbers on every node.
    fresh : bool
        Whether no other code holds the graph, so that a valid graph may be returned itself instead of a copy.
    strict : bool
        Whether everything except names is refused instead, and disconnected networks too.

    Returns
    -------
    networkx.Graph
        A copy with plain ``int`` labels, nodes and edges in sorted order and all attributes kept, names as the node
        attribute ``name``; undirected, with the attribute ``asks`` of :mod:`~kernelswarm.graphs.directed` on edges on
        which only one end asks.

    Raises
    ------
    TypeError
        When it is not a networkx graph.
    ValueError
        When it is none, naming the offending nodes and what to do.
    """
    if not isinstance(graph, nx.Graph):
        raise TypeError(f"expected a networkx graph, got {type(graph).__name__}: build one with networkx.Graph(edges)")
    if graph.number_of_nodes() == 0:
        raise ValueError("graph has no nodes; a network has at least one: add nodes")
    given = graph
    graph = _numbered(graph)
    _refuse_askers(graph)
    if graph.is_multigraph():
        graph = _merged(graph, strict)
    if graph.is_directed():
        graph = undirected(cast("Any", graph))
    fresh = fresh or graph is not given
    loops = sorted(nx.nodes_with_selfloops(graph))
    wrong = _misplaced(graph)
    if strict:
        _refuse_loops(graph, loops)
        _refuse_disconnected(graph)
        if wrong:
            raise ValueError(f"graph has {wrong}")
    elif loops or wrong:
        graph, fresh = _without(graph if fresh else graph.copy(), loops, wrong), True
    return graph if fresh and _is_in_order(graph) else _copy(graph)


def as_network(built: Graph | Adjacency, fresh: bool = False, strict: bool = False) -> Adjacency:
    """Make a network, as arrays, of a graph in whichever of its two forms.

    Parameters
    ----------
    built : networkx.Graph or Adjacency
        What a topology builds, or anybody's graph.
    fresh, strict : bool
        As of :func:`validate`.

    Raises
    ------
    TypeError, ValueError
        As :func:`validate`.
    """
    if not isinstance(built, Adjacency):
        return Adjacency.of(validate(built, fresh, strict))
    finite = built.positions is None or bool(np.isfinite(built.positions).all())
    good = len(built.labels) and finite and (not strict or built.is_connected)
    return built if good else Adjacency.of(validate(built.graph, fresh=True, strict=strict))


def require_sound(network: Adjacency) -> None:
    """Refuse arrays that are no simple undirected network, which compiled code would read beyond their ends.

    Raises
    ------
    ValueError
        An array breaks a rule; the message names the array and the rule.
    """
    labels, offsets, neighbors, places = network.labels, network.offsets, network.neighbors, network.positions
    for name, array in (("labels", labels), ("offsets", offsets), ("neighbors", neighbors)):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "i":
            raise ValueError(f"its {name} are no array of integers: make the network by graphs.adjacency.from_edges")
    nodes = len(labels)
    steps = np.diff(offsets)
    if (labels < 0).any() or (np.diff(labels) <= 0).any():
        raise ValueError("its labels do not ascend from 0 or more: sort them, each once")
    if len(offsets) != nodes + 1 or offsets[0] != 0 or (steps < 0).any() or offsets[-1] != len(neighbors):
        raise ValueError(f"its offsets do not lead from 0 to {len(neighbors)} in {nodes} steps: give (V + 1,)")
    if ((neighbors < 0) | (neighbors >= nodes)).any():
        raise ValueError(f"its neighbors are not all places from 0 to {nodes - 1}")
    keys = np.repeat(np.arange(nodes), steps) * nodes + neighbors
    turned = np.sort(neighbors.astype(np.int64) * nodes + np.repeat(np.arange(nodes), steps))
    if (np.diff(keys) <= 0).any() or not np.array_equal(keys, turned) or (keys % (nodes + 1) == 0).any():
        raise ValueError(
            "its neighbors are not those of a network: each node's ascend, without itself, and have the node among "
            "theirs"
        )
    if places is not None and (places.ndim != 2 or len(places) != nodes or places.dtype.kind not in "iuf"):
        raise ValueError(
            f"its positions have the shape {places.shape}: give a row of numbers for each of {nodes} nodes"
        )


def listed(items: Sequence[object]) -> str:
    """Return ``[0, 1, 2]``, with only the first few of many: ``[0, 1, ..., and 30 more]``."""
    shown = ", ".join(repr(item) for item in items[:SHOWN])
    return f"[{shown}]" if len(items) <= SHOWN else f"[{shown}, ... and {len(items) - SHOWN} more]"


def warn(text: str) -> None:
    """Warn once of the changes to a graph that is no network by itself."""
    warnings.warn(text, stacklevel=2)


def _numbered(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Return the graph itself where its labels are whole numbers, otherwise one that has them as names."""
    if are_numbers(graph):
        return graph
    order = ordered(list(graph))
    found = nx.relabel_nodes(graph, {label: place for place, label in enumerate(order)})
    nx.set_node_attributes(found, dict(enumerate(names_of(order))), NAME)
    found.graph[NUMBERED] = True
    return found


def _called(graph: nx.Graph[Any], nodes: Iterable[Any]) -> list[Any]:
    """Return nodes as their graph's owner calls them."""
    named = graph.graph.get(NUMBERED)
    return [graph.nodes[node][NAME] if named else int(node) for node in nodes]


def _refuse_askers(graph: nx.Graph[Any]) -> None:
    if not graph.is_multigraph() and not any(chain.from_iterable(around.values() for _, around in graph.adjacency())):
        return  # no edge has attributes: a loop over a million edges would take seconds
    known = (None, LOWER, HIGHER)
    wrong = [(i, j) for i, j, attributes in graph.edges(data=True) if attributes.get(ASKS) not in known]
    if wrong:
        ends = [tuple(_called(graph, edge)) for edge in sorted(wrong)]
        raise ValueError(
            f'graph has an attribute "{ASKS}" on edges {listed(ends)} that says neither "{LOWER}" nor '
            f'"{HIGHER}", the end that asks: leave it out where both do'
        )


def _merged(graph: nx.Graph[Any], strict: bool) -> nx.Graph[Any]:
    """Return a multigraph with one edge of each that are parallel, with the attributes of the first."""
    kind = "a directed multigraph" if graph.is_directed() else "a multigraph"
    merged: nx.Graph[Any] = nx.DiGraph() if graph.is_directed() else nx.Graph()
    merged.graph.update(graph.graph)
    merged.add_nodes_from(graph.nodes(data=True))
    parallel: set[tuple[Any, Any]] = set()
    for i, j, attributes in graph.edges(data=True):
        if merged.has_edge(i, j):
            parallel.add((i, j) if graph.is_directed() else (min(i, j), max(i, j)))
        else:
            merged.add_edges_from([(i, j, attributes)])
    if not strict:
        parallel = {(i, j) for i, j in parallel if i != j}  # loops are reported as dropped
    pairs = listed([tuple(_called(graph, edge)) for edge in sorted(parallel)])
    if strict:
        found = f" and has parallel edges between {pairs}" if parallel else ""
        raise ValueError(f"graph is {kind}{found}; two agents share at most one edge: pass networkx.Graph(graph)")
    if parallel:
        warn(f"the network is {kind} with parallel edges between {pairs}: merged, as two agents share one edge at most")
    return merged


def _refuse_loops(graph: Graph, loops: list[int]) -> None:
    if loops:
        raise ValueError(
            f"graph has self loops at nodes {listed(_called(graph, loops))}; an agent is not its own neighbor: remove "
            "them with graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
        )


def _without(graph: Graph, loops: list[int], wrong: str) -> Graph:
    """Return the graph without self loops and without positions that are none."""
    if loops:
        warn(
            f"the network has self loops at nodes {listed(_called(graph, loops))}: dropped, as an agent is not its own "
            "neighbor"
        )
        graph.remove_edges_from([(node, node) for node in loops])
    if wrong:
        warn(f"positions are left out, as the network has {wrong}")
        for attributes in graph.nodes.values():
            attributes.pop("pos", None)
    return graph


def _refuse_disconnected(graph: Graph) -> None:
    if graph.number_of_nodes() == 1:
        return
    isolated = sorted(nx.isolates(graph))
    if isolated:
        raise ValueError(
            f"graph has isolated nodes {listed(_called(graph, isolated))}; every agent needs a neighbor: join them to "
            "others or drop them with graph.remove_nodes_from(list(networkx.isolates(graph)))"
        )
    if Adjacency.of(graph).is_connected:
        return
    parts = sorted((sorted(part) for part in nx.connected_components(graph)), key=_largest_first)
    shown = "; ".join(f"{listed(_called(graph, part))} ({len(part)} nodes)" for part in parts[:3])
    more = f"; and {len(parts) - 3} smaller ones" if len(parts) > 3 else ""
    raise ValueError(
        f"graph is disconnected, it falls into {len(parts)} parts, {shown}{more}; what one part learns stays in "
        "it: add edges between them, or keep the largest part with "
        "graph.subgraph(max(networkx.connected_components(graph), key=len)).copy()"
    )


def _largest_first(part: list[int]) -> tuple[int, int]:
    return -len(part), part[0]


def _misplaced(graph: Graph) -> str:
    """Return a sentence on invalid or missing positions, or an empty text if all or no nodes have valid ones."""
    places = {node: attributes.get("pos") for node, attributes in graph.nodes(data=True)}
    missing = sorted(node for node, place in places.items() if place is None)
    if len(missing) == len(places):
        return ""
    if missing:
        return (
            f"no pos at nodes {listed(_called(graph, missing))} but at others; places are known for all nodes or for "
            "none: set graph.nodes[node]['pos'] = (x, y) for the missing ones or delete the attribute"
        )
    wrong = sorted(node for node, place in places.items() if not _is_place(place))
    if wrong:
        (node,) = _called(graph, wrong[:1])
        return (
            f"a pos that is not of finite numbers at nodes {listed(_called(graph, wrong))}, {places[wrong[0]]!r} at "
            f"node {node!r}: set graph.nodes[{node!r}]['pos'] = (x, y)"
        )
    sizes = {len(cast("Any", place)) for place in places.values()}
    return "" if len(sizes) == 1 else f"a pos of {sorted(sizes)} numbers: give all nodes as many"


def _is_place(place: object) -> bool:
    if _is_plain_place(place):
        return True
    if isinstance(place, str) or not isinstance(place, Sequence | np.ndarray):
        return False
    if isinstance(place, np.ndarray) and place.ndim != 1:
        return False
    return len(place) > 0 and all(isinstance(value, Real) and isfinite(value) for value in place)


def _is_plain_place(place: Any) -> bool:
    if type(place) is not tuple or not place:
        return False
    return {*map(type, place)} == {float} and all(map(isfinite, place))


def _is_in_order(graph: Graph) -> bool:
    """Return whether a valid graph is what :func:`_copy` makes of it: a million nodes take a second instead of six."""
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
            attributes["pos"] = tuple(map(float, attributes["pos"]))
        network.add_nodes_from([(int(node), attributes)])  # attributes may be called as its parameters are
    edges = [(min(i, j), max(i, j), attributes) for i, j, attributes in graph.edges(data=True)]
    network.add_edges_from((int(i), int(j), dict(attributes)) for i, j, attributes in sorted(edges, key=_ends))
    return network


def _ends(edge: tuple[int, int, dict[str, Any]]) -> tuple[int, int]:
    return edge[0], edge[1]
