"""Formats of graph files, found by suffix or by name, each read by its library."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any, cast
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from kernelswarm.graphs.given.characters import as_utf8
from kernelswarm.graphs.given.dot import read_dot
from kernelswarm.graphs.given.ends import ends_of
from kernelswarm.graphs.given.from_python import graph_of
from kernelswarm.graphs.given.matlab import matlab_arrays
from kernelswarm.graphs.given.matrices import from_matrix
from kernelswarm.graphs.given.names import own_names
from kernelswarm.graphs.given.places import gather
from kernelswarm.graphs.given.text_lists import ADJACENCY, EDGES, INTEGER, MATRIX, MULTILINE, meant, read_text

TEXT = "text"
GRAPHML, GML, GEXF, JSON = "GraphML", "GML", "GEXF", "node-link JSON"
MARKET, NPZ, NPY, MATLAB = "Matrix Market", "npz", "npy", "MATLAB"
PAJEK, GRAPH6, DOT = "Pajek", "graph6", "DOT"

SUFFIXES = {  # before a possible .gz
    ".graphml": GRAPHML,
    ".xml": GRAPHML,
    ".gml": GML,
    ".gexf": GEXF,
    ".json": JSON,
    ".mtx": MARKET,
    ".npz": NPZ,
    ".npy": NPY,
    ".mat": MATLAB,
    ".net": PAJEK,
    ".paj": PAJEK,
    ".g6": GRAPH6,
    ".s6": GRAPH6,
    ".dot": DOT,
    ".gv": DOT,
    ".adjlist": ADJACENCY,
    ".edgelist": TEXT,
    ".edges": TEXT,
    ".txt": TEXT,
    ".csv": TEXT,
    ".tsv": TEXT,
}
"""The format of each; ``TEXT`` where the lines say which it is."""

PAIRS = ("edge_index", "edges")
"""What arrays of edges are called, (2, E), as in PyTorch Geometric, or (E, 2)."""

SECTION = re.compile(r"(?im)^(?=\*(?:network|partition|vector|permutation|cluster|hierarchy)\b)")
"""Where another thing begins in a project of Pajek's."""

GENERATED = re.compile(r"n\d+")  # identifiers of nodes that yEd and igraph make up
GEXF_1_3 = re.compile(r"http://(?:www\.)?gexf\.net/1\.3")

Broken = (
    ParseError,
    nx.NetworkXException,
    zipfile.BadZipFile,
    AttributeError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    EOFError,
    StopIteration,
)
"""The libraries' exceptions for a file that is not in their format."""


def read_format(content: bytes, kind: str) -> nx.Graph[Any]:
    """Read a graph that is in a format.

    Parameters
    ----------
    content : bytes
        What the file holds, not compressed.
    kind : str
        A value of ``SUFFIXES``, or ``EDGES``, ``ADJACENCY``, ``MULTILINE`` or ``MATRIX``.

    Raises
    ------
    ValueError
        It is not in the format, or no text where the format is.
    """
    if kind not in (NPZ, NPY, MATLAB):
        content = as_utf8(content)
    if kind in (TEXT, EDGES, ADJACENCY, MULTILINE, MATRIX):
        return read_text(content.decode("utf-8-sig"), "" if kind == TEXT else kind)
    reader, remedy = READERS[kind]
    try:
        return reader(content)
    except Broken as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"not readable as {kind} ({reason}): write it with {remedy}") from error


def _graphml(content: bytes) -> nx.Graph[Any]:
    graph: nx.Graph[Any] = nx.parse_graphml(content.decode("utf-8-sig"))
    for _, attributes in graph.nodes(data=True):
        for axis in "xy":  # of yEd's they are text
            if "shape_type" in attributes and _is_number(attributes.get(axis)):
                attributes[axis] = float(attributes[axis])
    return _identified(gather(graph))


def _gml(content: bytes) -> nx.Graph[Any]:
    lines = content.decode("utf-8-sig").splitlines()
    labelled = any(re.match(r"\s*label\b", line) for line in lines)
    graph: nx.Graph[Any] = nx.parse_gml(lines, label="label" if labelled else "id")
    for _, attributes in graph.nodes(data=True):
        drawn = attributes.get("graphics")
        if isinstance(drawn, dict) and {"x", "y"} <= set(drawn):
            attributes.update({axis: drawn[axis] for axis in "xy"})
    return _identified(gather(graph))


def _gexf(content: bytes) -> nx.Graph[Any]:
    known = GEXF_1_3.sub("http://www.gexf.net/1.2draft", content.decode("utf-8-sig"))
    graph: nx.Graph[Any] = nx.read_gexf(io.BytesIO(known.encode("utf-8")))
    for _, attributes in graph.nodes(data=True):
        place = attributes.get("viz", {}).get("position")
        if place is not None:
            attributes.update(place if place.get("z") else {axis: place[axis] for axis in "xy"})
    return _identified(gather(graph))


def _json(content: bytes) -> nx.Graph[Any]:
    table = json.loads(content.decode("utf-8-sig"))
    if isinstance(table, list) and table and all(isinstance(record, dict) for record in table):
        return _records(table)
    if not isinstance(table, dict):
        raise ValueError("it holds no table")
    if "adjacency" in table:
        graph: nx.Graph[Any] = nx.adjacency_graph(table)
    elif "elements" in table:
        graph = nx.cytoscape_graph(table)
    elif "nodes" in table:
        edges = "edges" if "edges" in table else "links"
        single, read = {"multigraph": False, **table}, cast("Any", nx.node_link_graph)
        try:
            graph = read(single, edges=edges)
        except TypeError:  # networkx before 3.4
            graph = read(single, link=edges)
    else:
        raise ValueError(
            f"it holds neither nodes nor adjacency but {', '.join(map(str, list(table)[:4])) or 'nothing'}"
        )
    return gather(graph)


def _records(records: list[dict[str, Any]]) -> nx.Graph[Any]:
    """Read edges from records, as frames are written: each says where its edge begins and ends."""
    names = list(records[0])
    places = ends_of(names) or ((0, 1) if len(names) == 2 else None)
    if places is None:
        raise ValueError(f"none of {', '.join(names[:6])} says where edges begin and end: call two source and target")
    source, target = (names[place] for place in places)
    pairs = [(record[source], record[target]) for record in records]
    if any(end is None for pair in pairs for end in pair):
        raise ValueError(f"{source} or {target} is missing in a record: leave it out")
    graph: nx.Graph[Any] = nx.Graph(pairs)
    return graph


def _market(content: bytes) -> nx.Graph[Any]:
    from scipy.io import mmread

    return from_matrix(mmread(io.BytesIO(content)))


def _npz(content: bytes) -> nx.Graph[Any]:
    from scipy.sparse import load_npz

    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        if "format" in arrays:
            return from_matrix(load_npz(io.BytesIO(content)))
        pairs = [name for name in arrays if name in PAIRS and arrays[name].ndim == 2 and 2 in arrays[name].shape]
        if len(pairs) == 1:
            found = arrays[pairs[0]]
            rows = found.shape[1] == 2 and (found.shape[0] != 2 or pairs[0] != "edge_index")
            return _known([tuple(pair) for pair in (found if rows else found.T).tolist()])
        square = [name for name in arrays if arrays[name].ndim == 2 and len(set(arrays[name].shape)) == 1]
        if len(square) != 1:
            raise ValueError(f"it holds {len(square)} square arrays of {', '.join(arrays)}")
        return from_matrix(arrays[square[0]])


def _npy(content: bytes) -> nx.Graph[Any]:
    return _known(np.load(io.BytesIO(content), allow_pickle=False))  # also of pairs


def _known(form: Any) -> nx.Graph[Any]:
    graph = graph_of(form)
    assert graph is not None  # arrays and lists of pairs are forms of one
    return graph


def _matlab(content: bytes) -> nx.Graph[Any]:
    held = matlab_arrays(content)
    square = [name for name, value in held.items() if len(set(value.shape)) == 1 and value.shape > (1, 1)]
    if len(square) != 1:
        raise ValueError(f"it holds {len(square)} square arrays of {', '.join(held)}")
    return from_matrix(held[square[0]])


def _pajek(content: bytes) -> nx.Graph[Any]:
    sections = [section.strip() for section in SECTION.split(content.decode("utf-8-sig"))]
    networks = [section for section in sections if section.lower().startswith("*network")]
    if len(networks) > 1:
        raise ValueError(f"it holds {len(networks)} networks")
    graph: nx.Graph[Any] = nx.parse_pajek((networks or sections)[0].splitlines())
    drawn = [attributes for _, attributes in graph.nodes(data=True)]
    if len({(attributes.get("x"), attributes.get("y")) for attributes in drawn}) == 1:  # networkx writes 0 for none
        for attributes in drawn:
            attributes.pop("x", None), attributes.pop("y", None)
    return _identified(gather(graph))


def _graph6(content: bytes) -> nx.Graph[Any]:
    """Read a graph in the format graph6, or in sparse6, whose lines begin with a colon."""
    line = content.strip().removeprefix(b">>graph6<<").removeprefix(b">>sparse6<<")
    reader = cast("Any", nx.from_sparse6_bytes if line.startswith(b":") else nx.from_graph6_bytes)
    graph: nx.Graph[Any] = reader(line)
    return graph


def _dot(content: bytes) -> nx.Graph[Any]:
    return _identified(gather(read_dot(content.decode("utf-8-sig"))))


READERS: dict[str, tuple[Callable[[bytes], nx.Graph[Any]], str]] = {
    GRAPHML: (_graphml, "networkx.write_graphml"),
    GML: (_gml, "networkx.write_gml"),
    GEXF: (_gexf, "networkx.write_gexf"),
    JSON: (_json, "json.dump(networkx.node_link_data(graph), file)"),
    MARKET: (_market, "scipy.io.mmwrite"),
    NPZ: (_npz, "scipy.sparse.save_npz, or numpy.savez with one adjacency matrix"),
    NPY: (_npy, "numpy.save of an adjacency matrix, or of edges, (E, 2)"),
    MATLAB: (_matlab, "save -v7 and one adjacency matrix"),
    PAJEK: (_pajek, "networkx.write_pajek"),
    GRAPH6: (_graph6, "networkx.write_graph6"),
    DOT: (_dot, "networkx.nx_pydot.write_dot, or as GraphML with networkx.write_graphml"),
}


def _identified(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """Return a graph whose nodes have the labels that their identifiers in a file stand for.

    That is their own labels where a program has made up the identifiers.
    """
    labels = list(graph)
    texts = [label for label in labels if isinstance(label, str)]
    if len(texts) < len(labels):
        return graph
    if not all(INTEGER.fullmatch(label) for label in texts):
        for key in ("label", "name"):
            given = [attributes.get(key) for _, attributes in graph.nodes(data=True)]
            names = [" ".join(value.split()) if isinstance(value, str) else value for value in given]
            if all(map(GENERATED.fullmatch, texts)) and own_names(names) is not None:
                return nx.relabel_nodes(graph, dict(zip(texts, meant(map(str, names)).values(), strict=True)))
        return graph
    return nx.relabel_nodes(graph, meant(texts))


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
