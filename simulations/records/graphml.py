"""Networks as GraphML, written line by line: a tree of elements takes 300 bytes and more for each edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, tostring

if TYPE_CHECKING:
    from kernelswarm.graphs.topology import Graph

Keys = dict[tuple[str, type, str], str]
"""The ids of attributes, by what they are of, their types and their names."""


def graphml(graph: Graph) -> str:
    """Return a network as GraphML: positions as ``x`` and ``y``, other attributes where GraphML has a type for them."""
    return "".join(lines(graph))


def write_graph(graph: Graph, path: Path) -> None:
    """Write a network as GraphML."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines(graph))


def lines(graph: Graph) -> Iterator[str]:
    """Yield the lines of a network as GraphML, as networkx writes them; nodes and edges are sorted."""
    from networkx.readwrite.graphml import GraphMLWriter

    writer: Any = GraphMLWriter()
    keys: Keys = {}
    for scope, found in (("node", _nodes(graph)), ("edge", _edges(graph))):
        for _, attributes in found:
            for name, value in attributes.items():
                keys.setdefault((scope, type(value), name), f"d{len(keys)}")
    root = writer.xml
    yield f"{_text(root).removesuffix(' />')}>\n"
    for (scope, kind, name), key in reversed(keys.items()):
        written = {"id": key, "for": scope, "attr.name": name, "attr.type": writer.get_xml_type(kind)}
        yield f"  {_text(Element('key', written))}\n"
    yield '  <graph edgedefault="undirected">\n'
    for scope, found in (("node", _nodes(graph)), ("edge", _edges(graph))):
        for ends, attributes in found:
            if not attributes:
                yield f"    <{scope} {ends} />\n"
                continue
            yield f"    <{scope} {ends}>\n"
            for name, value in attributes.items():
                yield f"      {_data(keys[scope, type(value), name], value)}\n"
            yield f"    </{scope}>\n"
    yield "  </graph>\n"
    yield "</graphml>\n"


def _nodes(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in sorted(graph.nodes):
        attributes = graph.nodes[node]
        written = _scalars(attributes)
        if "pos" in attributes:
            x, y = attributes["pos"]
            written |= {"x": float(x), "y": float(y)}
        yield f'id="{node}"', written


def _edges(graph: Graph) -> Iterator[tuple[str, dict[str, Any]]]:
    neighbors = dict(graph.adjacency())
    for node in sorted(neighbors):
        known = neighbors[node]
        for other in sorted(other for other in known if other >= node):
            yield f'source="{node}" target="{other}"', _scalars(known[other])


def _scalars(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in attributes.items() if isinstance(value, str | int | float)}


def _data(key: str, value: str | float) -> str:
    if not isinstance(value, str):
        return f'<data key="{key}">{value!s}</data>'
    element = Element("data", {"key": key})
    element.text = str(value)
    return "\n".join(_text(element).splitlines())


def _text(element: Element) -> str:
    return tostring(element).decode("ascii")
