"""Graphs in GraphML, also those that yEd draws.

References
----------
.. [1] U. Brandes, M. Eiglsperger, J. Lerner and C. Pich, "Graph Markup Language (GraphML)", in Handbook of Graph
   Drawing and Visualization, CRC Press, 2013.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import networkx as nx

from kernelswarm.graphs.given.drawing import Drawing
from kernelswarm.graphs.given.xml_elements import graph_element, required, typed


class Key(NamedTuple):
    """An attribute that a file declares."""

    name: str
    kind: str | None
    default: Any


def read_graphml(text: str) -> nx.Graph[Any]:
    """Return the graph of a file in GraphML.

    Nodes inside nodes are nodes too. An edge goes one way where its ``directed`` says so, otherwise its arrows in yEd,
    otherwise the ``edgedefault`` of the graph that it stands in. Where a key has a default, nodes or edges without
    data of it have that. Ports are left out.

    Parameters
    ----------
    text : str
        What the file holds.

    Raises
    ------
    ValueError
        It holds no network, several of them, or an edge between more than two nodes.
    """
    root, outer = graph_element(text)
    if outer.find(".//{*}hyperedge") is not None:
        raise ValueError("it has a hyperedge, and an edge joins two nodes: write an edge for each two that it joins")
    keys = {
        scope: {
            required(key, "id"): _key(key) for key in root.iterfind("{*}key") if key.get("for", "all") in (scope, "all")
        }
        for scope in ("graph", "node", "edge")
    }
    drawing = Drawing()
    for graph in [outer, *outer.iterfind(".//{*}graph")]:
        by_default = graph.get("edgedefault") == "directed"
        for node in graph.iterfind("{*}node"):
            drawing.node(required(node, "id"), _attributes(node, keys["node"]))
        for edge in graph.iterfind("{*}edge"):
            source, target, one_way = required(edge, "source"), required(edge, "target"), edge.get("directed")
            arrows = edge.find("{*}data/*/{*}Arrows")
            if one_way is None and arrows is not None:
                at_source, at_target = (arrows.get(end, "none") != "none" for end in ("source", "target"))
                by_arrows = at_source != at_target
                source, target = (target, source) if by_arrows and at_source else (source, target)
            else:
                by_arrows = by_default if one_way is None else typed(one_way, "boolean")
            drawing.edge(source, target, _attributes(edge, keys["edge"]), one_way=by_arrows)
    found = drawing.graph()
    found.graph.update(_attributes(outer, keys["graph"]))
    return found


def _key(key: Element) -> Key:
    default = key.find("{*}default")
    kind = key.get("attr.type")
    return Key(key.get("attr.name", ""), kind, None if default is None else typed(default.text, kind))


def _attributes(element: Element, keys: dict[str, Key]) -> dict[str, Any]:
    found = {key.name: key.default for key in keys.values() if key.default is not None}
    for data in element.iterfind("{*}data"):
        key = keys.get(required(data, "key"))
        if key is None:
            raise ValueError(f"it has data of the key {data.get('key')!r}, which it does not declare")
        if len(data):
            found |= _drawn(data)
        elif key.name:
            found[key.name] = typed(data.text, key.kind)
    return found


def _drawn(data: Element) -> dict[str, Any]:
    """Return what yEd says of a node or an edge: its label, and the place of a node."""
    found: dict[str, Any] = {}
    for name in ("NodeLabel", "EdgeLabel"):
        label = data.find(f".//{{*}}{name}")
        if label is not None and label.text:
            found["label"] = label.text
    place = data.find(".//{*}Geometry")
    if place is not None and None not in (place.get("x"), place.get("y")):
        found |= {axis: float(required(place, axis)) for axis in "xy"}
    return found
