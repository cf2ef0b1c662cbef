"""Graphs in JSON: node-link data, adjacency data, Cytoscape's elements, and records of edges."""

from __future__ import annotations

from typing import Any

import networkx as nx

from kernelswarm.graphs.given.drawing import Drawing
from kernelswarm.graphs.given.from_python import from_columns

Record = dict[str, Any]


def read_json(table: object) -> nx.Graph[Any]:
    """Return the graph that the contents of a file in JSON stand for.

    A file says for the whole network whether it is ``directed``, and an edge may have a ``directed`` of its own.

    Parameters
    ----------
    table : object
        Node-link data as of networkx and d3, adjacency data of networkx, elements of Cytoscape, or records with the
        ends of an edge each.

    Raises
    ------
    ValueError
        It is none of these, or an edge ends at no node.
    """
    if isinstance(table, list) and table and all(isinstance(record, dict) for record in table):
        return _records(table)
    if not isinstance(table, dict):
        raise ValueError("it holds no table")
    drawing = Drawing()
    directed = _truth(table.get("directed", False))
    if "adjacency" in table:
        _adjacency(drawing, table, directed)
    elif "elements" in table:
        _elements(drawing, table["elements"], directed)
    elif "nodes" in table:
        _node_link(drawing, table, directed)
    else:
        raise ValueError(
            f"it holds neither nodes nor adjacency but {', '.join(map(str, list(table)[:4])) or 'nothing'}"
        )
    graph = drawing.graph()
    graph.graph.update(table.get("graph") or {})
    return graph


def _node_link(drawing: Drawing, table: Record, directed: bool) -> None:
    for place, node in enumerate(table["nodes"]):
        drawing.node(_name(node.get("id", place)), _others(node, "id"))
    for edge in table["edges" if "edges" in table else "links"]:
        one_way = _truth(edge.get("directed", directed))
        drawing.edge(
            _end(edge, "source"), _end(edge, "target"), _others(edge, "source", "target", "key"), one_way=one_way
        )


def _adjacency(drawing: Drawing, table: Record, directed: bool) -> None:
    names = [_name(node["id"]) for node in table["nodes"]]
    for name, node in zip(names, table["nodes"], strict=True):
        drawing.node(name, _others(node, "id"))
    if len(table["adjacency"]) != len(names):
        raise ValueError(f"it has the neighbours of {len(table['adjacency'])} nodes, and {len(names)} nodes")
    known = set()
    for name, around in zip(names, table["adjacency"], strict=True):
        for other in around:
            end, key = _name(other["id"]), other.get("key")
            if directed or (end, name, key) not in known:  # else an edge is there from either end
                drawing.edge(name, end, _others(other, "id", "key"), one_way=directed)
            known.add((name, end, key))


def _elements(drawing: Drawing, elements: Any, directed: bool) -> None:
    if isinstance(elements, list):
        edges = [element["data"] for element in elements if "source" in element["data"]]
        nodes = [element["data"] for element in elements if "source" not in element["data"]]
    else:
        nodes, edges = ([each["data"] for each in elements.get(kind, [])] for kind in ("nodes", "edges"))
    valued = all("value" in node for node in nodes)  # as networkx writes them, whose ends are values
    for node in nodes:
        drawing.node(_name(node["value" if valued else "id"]), node)
    for edge in edges:
        drawing.edge(
            _end(edge, "source"), _end(edge, "target"), _others(edge, "id", "source", "target"), one_way=directed
        )


def _records(records: list[Record]) -> nx.Graph[Any]:
    """Read edges from records, as frames are written: each says where its edge begins and ends."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return from_columns(names, lambda name: [record.get(name) for record in records])


def _name(value: Any) -> Any:
    return tuple(map(_name, value)) if isinstance(value, list) else value


def _end(edge: Record, name: str) -> Any:
    if name not in edge:
        raise ValueError(f"its edge {edge!r} has no {name}")
    return _name(edge[name])


def _others(record: Record, *left_out: str) -> Record:
    return {name: value for name, value in record.items() if name not in left_out}


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"directed is {value!r}, neither true nor false")
    return value
