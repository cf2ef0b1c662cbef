"""Graphs in XML: GEXF, the format of Gephi, and GraphML, also as yEd draws it."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, fromstring

import networkx as nx

from kernelswarm.graphs.given.drawing import TIMES, Drawing

# Networks in XML: the one element that holds a network, and values of the types that XML names.

NUMBERS = {"int": int, "integer": int, "long": int, "float": float, "double": float, "real": float}
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def graph_element(text: str) -> tuple[Element, Element]:
    """Return the outermost element of a file, and in it the element of its network.

    Raises
    ------
    ValueError
        There is none, or there are several.
    """
    root = fromstring(text)
    graphs = root.findall("{*}graph")
    if len(graphs) != 1:
        raise ValueError(f"it holds {len(graphs)} networks: write each into a file of its own")
    return root, graphs[0]


def typed(text: str | None, kind: str | None) -> Any:
    """Convert a text to the type declared in the file; types other than numbers and booleans stay text.

    Raises
    ------
    ValueError
        The text is none of its type.
    """
    plain = "" if text is None else text
    if kind == "boolean":
        if plain.strip().lower() not in TRUTHS:
            raise ValueError(f"{plain!r} is no boolean")
        return TRUTHS[plain.strip().lower()]
    return NUMBERS[kind](plain) if kind in NUMBERS else plain


def required(element: Element, name: str) -> str:
    """Return an attribute without which an element means nothing. ValueError when it has none."""
    found = element.get(name)
    if found is None:
        raise ValueError(f"one of its elements {element.tag.rpartition('}')[2]} has no {name}")
    return found


# Graphs in GEXF, the format of Gephi.
#
# References
# ----------
# .. [1] S. Heymann, "GEXF 1.2draft primer", 2012, and "GEXF 1.3", 2022.

WAYS = {"directed": True, "undirected": False, "mutual": False}
TIMED = {"start", "end", "startopen", "endopen", "timestamp", "timestamps", "interval", "intervals"}
"""Attributes that say when a node or an edge is there; elements ``spells`` and ``slices`` do so too."""

Declared = dict[str, tuple[str, str | None, str | None, bool]]
"""Attributes by their ids: the title, the type, the text of the default, and whether values change."""


def read_gexf(text: str) -> nx.Graph[Any]:
    """Return the graph of a file in GEXF.

    Nodes inside nodes are nodes too. The direction of an edge is its ``type``, by default the ``defaultedgetype``;
    mutual edges have both directions. Positions are taken from ``viz:position``. Times are ignored, with a warning.

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
        attributes, changes = _gexf_attributes(node, declared["node"])
        timed |= changes
        place = node.find("{*}position")
        if place is not None:
            axes = "xyz" if float(place.get("z", 0.0)) else "xy"
            attributes |= {axis: float(place.get(axis, 0.0)) for axis in axes}
        drawing.node(required(node, "id"), attributes)
    for edge in graph.iterfind(".//{*}edges/{*}edge"):
        attributes, changes = _gexf_attributes(edge, declared["edge"])
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


def _gexf_attributes(element: Element, declared: Declared) -> tuple[dict[str, Any], bool]:
    """Return the static attributes of a node or an edge, and whether time-dependent ones were left out."""
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


# Graphs in GraphML, yEd's included.
#
# References
# ----------
# .. [1] U. Brandes, M. Eiglsperger, J. Lerner and C. Pich, "Graph Markup Language (GraphML)", in Handbook of Graph
#    Drawing and Visualization, CRC Press, 2013.


class Key(NamedTuple):
    """An attribute that a file declares."""

    name: str
    kind: str | None
    default: Any


def read_graphml(text: str) -> nx.Graph[Any]:
    """Return the graph of a file in GraphML.

    Nodes inside nodes are nodes too. Whether an edge is directed is set by its ``directed``, or else by its arrows in
    yEd, or else by the ``edgedefault`` of its graph. A key's default applies to nodes or edges without data for the
    key. Ports are ignored.

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
            drawing.node(required(node, "id"), _graphml_attributes(node, keys["node"]))
        for edge in graph.iterfind("{*}edge"):
            source, target, one_way = required(edge, "source"), required(edge, "target"), edge.get("directed")
            arrows = edge.find("{*}data/*/{*}Arrows")
            if one_way is None and arrows is not None:
                at_source, at_target = (arrows.get(end, "none") != "none" for end in ("source", "target"))
                by_arrows = at_source != at_target
                source, target = (target, source) if by_arrows and at_source else (source, target)
            else:
                by_arrows = by_default if one_way is None else typed(one_way, "boolean")
            drawing.edge(source, target, _graphml_attributes(edge, keys["edge"]), one_way=by_arrows)
    found = drawing.graph()
    found.graph.update(_graphml_attributes(outer, keys["graph"]))
    return found


def _key(key: Element) -> Key:
    default = key.find("{*}default")
    kind = key.get("attr.type")
    return Key(key.get("attr.name", ""), kind, None if default is None else typed(default.text, kind))


def _graphml_attributes(element: Element, keys: dict[str, Key]) -> dict[str, Any]:
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
