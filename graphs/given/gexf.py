"""Graphs in GEXF, the format of Gephi.

References
----------
.. [1] S. Heymann, "GEXF 1.2draft primer", 2012, and "GEXF 1.3", 2022.
"""

from __future__ import annotations

import warnings
from typing import Any
from xml.etree.ElementTree import Element

import networkx as nx

from kernelswarm.graphs.given.drawing import TIMES, Drawing
from kernelswarm.graphs.given.xml_elements import graph_element, required, typed

WAYS = {"directed": True, "undirected": False, "mutual": False}
TIMED = {"start", "end", "startopen", "endopen", "timestamp", "timestamps", "interval", "intervals"}
"""Attributes that say when a node or an edge is there; elements ``spells`` and ``slices`` do so too."""

Declared = dict[str, tuple[str, str | None, str | None, bool]]
"""Attributes by their ids: the title, the type, the text of the default, and whether values change."""


def read_gexf(text: str) -> nx.Graph[Any]:
    """Return the graph of a file in GEXF.

    Nodes inside nodes are nodes too. An edge is of its ``type``, otherwise of the ``defaultedgetype``; mutual ones go
    both ways. Places are those of ``viz:position``. Times are left out, with a warning.

    Parameters
    ----------
    text : str
        What the file holds.

    Raises
    ------
    ValueError
        It holds no network, or several of them, or an edge of another type.
    """
    _, graph = graph_element(text)
    default = graph.get("defaultedgetype", "undirected")
    declared = {scope: _declared(graph, scope) for scope in ("node", "edge")}
    drawing, timed = Drawing(), False
    for node in graph.iterfind(".//{*}nodes/{*}node"):
        attributes, changes = _attributes(node, declared["node"])
        timed |= changes
        place = node.find("{*}position")
        if place is not None:
            axes = "xyz" if float(place.get("z", 0.0)) else "xy"
            attributes |= {axis: float(place.get(axis, 0.0)) for axis in axes}
        drawing.node(required(node, "id"), attributes)
    for edge in graph.iterfind(".//{*}edges/{*}edge"):
        attributes, changes = _attributes(edge, declared["edge"])
        timed |= changes
        if edge.get("weight") is not None:
            attributes["weight"] = float(required(edge, "weight"))
        kind = edge.get("type", default)
        if kind not in WAYS:
            raise ValueError(f"it has an edge of the type {kind!r}, which is none of {', '.join(WAYS)}")
        drawing.edge(required(edge, "source"), required(edge, "target"), attributes, one_way=WAYS[kind])
    if timed:
        warnings.warn(f"the network {TIMES}", stacklevel=2)
    return drawing.graph()


def _declared(graph: Element, scope: str) -> Declared:
    found: Declared = {}
    for group in graph.iterfind("{*}attributes"):
        if group.get("class") != scope:
            continue
        for each in group.iterfind("{*}attribute"):
            default = each.find("{*}default")
            name = required(each, "id")
            text = None if default is None else default.text
            found[name] = each.get("title", name), each.get("type"), text, group.get("mode") == "dynamic"
    return found


def _attributes(element: Element, declared: Declared) -> tuple[dict[str, Any], bool]:
    """Return what a node or an edge has that does not change, and whether there is more."""
    found = {title: typed(text, kind) for title, kind, text, changes in declared.values() if text and not changes}
    timed = bool(TIMED & set(element.keys())) or any(
        element.find(f"{{*}}{name}") is not None for name in ("spells", "slices")
    )
    for value in element.iterfind("{*}attvalues/{*}attvalue"):
        name = value.get("id") or required(value, "for")
        if name not in declared:
            raise ValueError(f"it has a value of the attribute {name!r}, which it does not declare")
        title, kind, _, changes = declared[name]
        if changes:
            timed = True
        else:
            found[title] = typed(required(value, "value"), kind)
    if element.get("label") is not None:
        found["label"] = element.get("label")
    return found, timed
