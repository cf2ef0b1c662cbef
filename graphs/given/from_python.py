"""Graphs from the objects that Python has for them: matrices, edges in lists, arrays or frames, and neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.graphs.given.drawing import joined
from kernelswarm.graphs.given.matrices import from_matrix, is_sparse
from kernelswarm.graphs.given.text_lists import PLACES_REMEDY, ends_of, refuse_nodes, ways_of

FORMS = (
    "a networkx graph, an adjacency matrix of numpy or scipy, a list of edges [(0, 1), (1, 2)], a dict of each node's "
    "neighbours, or a frame with the columns source and target"
)


def graph_of(value: object) -> nx.Graph[Any] | None:
    """Convert a matrix, pairs, a dict of neighbours or a frame to a graph; return None for other objects.

    Parameters
    ----------
    value : object
        A square array or sparse matrix; pairs of nodes, as a list or as an array (E, 2); a dict of lists of neighbours;
        a frame of pandas, polars or pyarrow with columns ``source`` and ``target``, or with two columns.

    Raises
    ------
    ValueError
        It is one of these forms and holds no graph.

    Examples
    --------
    >>> graph_of({"a": ["b", "c"]}).edges
    EdgeView([('a', 'b'), ('a', 'c')])
    >>> graph_of([(0, 1), (1, 2)]).number_of_nodes()
    3
    """
    if isinstance(value, nx.Graph):
        return value
    if hasattr(value, "columns") or hasattr(value, "column_names"):
        return _from_frame(value)
    if is_sparse(value):
        return from_matrix(value)
    if isinstance(value, np.ndarray):
        return from_matrix(value) if value.ndim != 2 or value.shape[1] != 2 or len(value) == 2 else _from_pairs(value)
    if isinstance(value, Mapping):
        return _from_neighbors(value) if _are_neighbors(value) else None
    return _from_pairs(value) if isinstance(value, list | tuple | set | frozenset) else None


def _are_neighbors(table: Mapping[Any, Any]) -> bool:
    """Tell a dict of neighbours from a table with a part's keys."""
    return (
        bool(table)
        and "name" not in table
        and all(isinstance(around, list | tuple | set | frozenset | Mapping | np.ndarray) for around in table.values())
    )


def _from_neighbors(table: Mapping[Any, Any]) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(_plain(node) for node in table)
    for node, around in table.items():
        graph.add_edges_from((_plain(node), _plain(other)) for other in around)
    return graph


def _from_pairs(edges: Any) -> nx.Graph[Any]:
    """Build a graph from pairs of nodes; pairs of decimals are refused as coordinates."""
    graph: nx.Graph[Any] = nx.Graph()
    for edge in edges:
        size = len(edge) if isinstance(edge, tuple | list | np.ndarray) else 0
        weighted = size == 3 and isinstance(edge, tuple) and isinstance(edge[2], int | float | Mapping)
        if isinstance(edge, nx.Graph):
            raise ValueError(
                "holds graphs, and a network is one: for one that changes give the graph of all edges, and a schedule "
                "that says when they are there, as docs/topologies.md has it"
            )
        if size != 2 and not weighted:
            raise ValueError(
                f"holds {edge!r}, which is no edge: give pairs of nodes, such as [(0, 1), (1, 2)], or a matrix as "
                "numpy.array"
            )
        attributes = {}
        if weighted:
            attributes = dict(edge[2]) if isinstance(edge[2], Mapping) else {"weight": edge[2]}
        graph.add_edges_from([(_plain(edge[0]), _plain(edge[1]), attributes)])
    numbers = all(isinstance(node, int | float) for node in graph)
    decimal = next((node for node in graph if isinstance(node, float) and not node.is_integer()), None)
    if numbers and decimal is not None:
        raise ValueError(f"holds decimals such as {decimal!r}, which are places and no nodes: {PLACES_REMEDY}")
    return graph


def from_columns(names: Sequence[Any], column: Callable[[Any], Sequence[Any]]) -> nx.Graph[Any]:
    """Return the graph of a table of edges, whose column ``type`` or ``directed`` may say which go one way.

    Parameters
    ----------
    names : sequence
        The names of the columns.
    column : callable
        Returns what stands in a column, by its name.

    Raises
    ------
    ValueError
        No columns say where edges begin and end, or there are gaps in them.
    """
    texts = [str(name) for name in names]
    places = ends_of(texts)
    if places is None:
        refuse_nodes(texts)
        if len(names) != 2:
            raise ValueError(
                f"has the columns {', '.join(texts[:6])}, and none of them says where edges begin and end: call two of "
                "them source and target"
            )
    ends = [names[place] for place in places or (0, 1)]
    source, target = (column(name) for name in ends)
    if any(end is None or end != end for end in (*source, *target)):
        raise ValueError(f"has missing values in the columns {ends[0]} and {ends[1]}: leave their rows out")
    pairs = list(zip(map(_plain, source), map(_plain, target), strict=True))
    ways = ways_of(texts, lambda place: column(names[place]))
    return _from_pairs(pairs) if ways is None else joined(pairs, ways)


def _from_frame(frame: Any) -> nx.Graph[Any]:
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    return from_columns(names, lambda name: np.asarray(frame[name]).tolist())


def _plain(node: Any) -> Any:
    return node.item() if isinstance(node, np.generic) else tuple(node) if isinstance(node, list) else node
