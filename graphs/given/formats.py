"""Formats of graph files, found by suffix or by name, each read by its library."""

from __future__ import annotations

import codecs
import io
import re
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, cast
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from kernelswarm.graphs.given.dot import read_dot
from kernelswarm.graphs.given.drawing import Drawing, gather
from kernelswarm.graphs.given.from_python import graph_of
from kernelswarm.graphs.given.json_graphs import read_json
from kernelswarm.graphs.given.matrices import from_matrix, matlab_arrays
from kernelswarm.graphs.given.names import as_written, own_names
from kernelswarm.graphs.given.pajek import read_pajek
from kernelswarm.graphs.given.text_lists import ADJACENCY, EDGES, INTEGER, LINES, MATRIX, MULTILINE, read_text
from kernelswarm.graphs.given.xml_formats import read_gexf, read_graphml
from kernelswarm.shallow_json import parse

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

GENERATED = re.compile(r"n\d+(?:::n\d+)*")  # identifiers of nodes that yEd and igraph make up
GRAPH = re.compile(r"(?m)^[^\"#\n]*?\bgraph\s*\[")
"""Where the network of a file in GML begins."""

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
    RecursionError,  # records of GML, DOT in one another
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
    return _identified(gather(read_graphml(content.decode("utf-8-sig"))))


def _gml(content: bytes) -> nx.Graph[Any]:
    text = content.decode("utf-8-sig")
    several = GRAPH.sub(r"\g<0> multigraph 1 ", text, count=1)  # networkx refuses parallel edges otherwise
    graph: nx.Graph[Any] = nx.parse_gml(LINES.split(several), label="id")
    drawing, labels = Drawing(), dict[Any, Any]()
    for node, attributes in graph.nodes(data=True):
        if "graph" in attributes:
            raise ValueError(f"its node {node!r} holds a network: write the nodes in it beside it")
        if "label" in attributes:
            labels[node] = attributes.pop("label")
        drawn = attributes.get("graphics")
        if isinstance(drawn, dict) and {"x", "y"} <= set(drawn):
            attributes.update({axis: drawn[axis] for axis in "xy"})
    if 0 < len(labels) < len(graph):
        raise ValueError(
            f"its node {next(node for node in graph if node not in labels)!r} has no label, and others have"
        )
    for node, attributes in graph.nodes(data=True):
        drawing.node(labels.get(node, node), attributes)
    for source, target, attributes in graph.edges(data=True):
        ends = labels.get(source, source), labels.get(target, target)
        drawing.edge(*ends, attributes, one_way=graph.is_directed())
    return _identified(gather(drawing.graph()))


def _gexf(content: bytes) -> nx.Graph[Any]:
    return _identified(gather(read_gexf(content.decode("utf-8-sig"))))


def _json(content: bytes) -> nx.Graph[Any]:
    table = parse(content.decode("utf-8-sig"))
    graph = gather(read_json(table))
    return _identified(graph) if isinstance(table, dict) and "elements" in table else graph


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
            graph = _known([tuple(pair) for pair in (found if rows else found.T).tolist()])
            graph.add_nodes_from(range(int(arrays["num_nodes"]) if "num_nodes" in arrays else 0))
            return graph
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
    graph = read_pajek(content.decode("utf-8-sig"))
    drawn = [attributes for _, attributes in graph.nodes(data=True)]
    if len({(attributes.get("x"), attributes.get("y")) for attributes in drawn}) == 1:  # networkx writes 0 for none
        for attributes in drawn:
            attributes.pop("x", None), attributes.pop("y", None)
    return _identified(gather(graph))


def _graph6(content: bytes) -> nx.Graph[Any]:
    """Read a graph in the format graph6, or in sparse6, whose lines begin with a colon."""
    line = content.strip().removeprefix(b">>graph6<<").removeprefix(b">>sparse6<<")
    if b"\n" in line:
        raise ValueError(f"it holds {len(line.split())} networks: write each into a file of its own")
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
                return nx.relabel_nodes(graph, dict(zip(texts, as_written(map(str, names)).values(), strict=True)))
    return nx.relabel_nodes(graph, as_written(texts))


# Text of files as UTF-8, whatever encoding a program wrote it in.

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DECLARED = re.compile(rb"""(<\?xml[^>]*encoding=["'])([\w.-]+)(["'])""")
WESTERN = "cp1252"
"""The default encoding of Windows in western Europe."""


def as_utf8(content: bytes) -> bytes:
    """Return text in UTF-8: from UTF-16 and UTF-32 by the mark at its beginning, from what XML declares, or cp1252.

    Of the last a warning says so, since no mark tells it from other encodings.

    Parameters
    ----------
    content : bytes
        What the file holds.

    Raises
    ------
    UnicodeDecodeError
        It is no text in any of these.

    Examples
    --------
    >>> as_utf8("Köln Bonn".encode("utf-16")).decode()
    'Köln Bonn'
    """
    marked = next((encoding for mark, encoding in MARKS if content.startswith(mark)), None)
    declared = DECLARED.match(content)
    if marked is not None:
        return _undeclared(content.decode(marked).encode())
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise
        if declared is not None and declared[2].lower() not in (b"utf-8", b"utf8"):
            return _undeclared(content.decode(_encoding(declared[2].decode(), error)).encode())
        text = content.decode(WESTERN)
        warnings.warn(f"the network's file is not in UTF-8: read as {WESTERN}", stacklevel=2)
        return text.encode()
    return content


def _encoding(name: str, error: UnicodeDecodeError) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise error from None


def _undeclared(content: bytes) -> bytes:
    """Return XML whose declaration names its present encoding."""
    return DECLARED.sub(rb"\1UTF-8\3", content, count=1)
