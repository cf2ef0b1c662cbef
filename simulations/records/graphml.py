"""Networks as GraphML, written line by line: an element tree would take more than 300 bytes per edge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, tostring

from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.given.drawing import axes

Keys = dict[tuple[str, type, str], str]
"""The ids of attributes, by owner (node, edge or graph), type and name."""


def graphml(network: Graph | Adjacency) -> str:
    """Return a network as GraphML: positions as ``x``, ``y``, ..., and attributes of types that GraphML has."""
    return "".join(lines(network))


UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that are invalid in XML, even if escaped."""


def write_graph(network: Graph | Adjacency, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines(network))


def lines(network: Graph | Adjacency) -> Iterator[str]:
    """Yield the lines of a network as GraphML in the form of networkx, with sorted nodes and edges."""
    from networkx.readwrite.graphml import GraphMLWriter

    writer: Any = GraphMLWriter()
    keys: Keys = {}
    adjacency = Adjacency.of(network)
    for scope, found in (("node", _nodes(adjacency)), ("edge", _edges(adjacency))):
        for _, attributes in found:
            for name, value in attributes.items():
                keys.setdefault((scope, type(value), name), f"d{len(keys)}")
    root = writer.xml
    yield f"{_text(root).removesuffix(' />')}>\n"
    for (scope, kind, name), key in reversed(keys.items()):
        written = {"id": key, "for": scope, "attr.name": name, "attr.type": writer.get_xml_type(kind)}
        yield f"  {_text(Element('key', written))}\n"
    yield '  <graph edgedefault="undirected">\n'
    for scope, found in (("node", _nodes(adjacency)), ("edge", _edges(adjacency))):
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


def _nodes(network: Adjacency) -> Iterator[tuple[str, dict[str, Any]]]:
    places = network.positions
    for place, node in enumerate(network.labels.tolist()):
        written = {} if network.held is None else _scalars(network.held.nodes[node])
        if places is not None:
            written |= dict(zip(axes(places.shape[1]), places[place].tolist(), strict=True))
        yield f'id="{node}"', written


def _edges(network: Adjacency) -> Iterator[tuple[str, dict[str, Any]]]:
    labels = network.labels.tolist()
    for place, node in enumerate(labels):
        known = network.attributes(node)
        for other in network.around(place):
            if other > place:
                yield f'source="{node}" target="{labels[other]}"', _scalars(known.get(labels[other], {}))


def _scalars(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in attributes.items() if isinstance(value, str | int | float)}


def _data(key: str, value: str | float) -> str:
    if not isinstance(value, str):
        return f'<data key="{key}">{value!s}</data>'
    element = Element("data", {"key": key})
    element.text = UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return "\n".join(_text(element).splitlines())


def _text(element: Element) -> str:
    return tostring(element).decode("ascii")


# A networkx graph built at the first access: for a million nodes it takes a minute and gigabytes.


class GraphOnDemand:
    """A dataclass field that is set to a network in either form, and read as a networkx graph."""

    def __get__(self, holder: Any, kind: type | None = None) -> Graph:
        if holder is None:
            raise AttributeError("the field has no default")  # dataclasses read the default
        given = holder.__dict__["graph"]
        return given.graph if isinstance(given, Adjacency) else given

    def __set__(self, holder: Any, given: Graph | Adjacency) -> None:
        holder.__dict__["graph"] = given


def adjacency_of(holder: Any) -> Adjacency:
    """Return the network of such a field as arrays."""
    return Adjacency.of(holder.__dict__["graph"])
