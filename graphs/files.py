"""Networks in files, GraphML and edge lists."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from kernelswarm.graphs.adjacency import Graph
from kernelswarm.graphs.validation import LARGEST_LABEL, listed, validate
from kernelswarm.refused_key import RefusedKey

FORMATS = {
    ".graphml": "GraphML",
    ".xml": "GraphML",
    ".edgelist": "edge list",
    ".edges": "edge list",
    ".txt": "edge list",
    ".csv": "edge list",
    ".tsv": "edge list",
}
INTEGER = re.compile(r"[+-]?[0-9]+")
SEPARATOR = re.compile(r"\s*[,;\s]\s*")


@dataclass(frozen=True)
class File:
    """A network from a file, GraphML or an edge list.

    The suffix gives the format: ``.graphml`` or ``.xml``; ``.edgelist``, ``.edges``, ``.txt``, ``.csv`` or ``.tsv``. An
    edge list has one edge per line, two node labels separated by blanks, a tab, a comma or a semicolon. Further columns
    are ignored, as are blank lines, ``#`` comments and a first line of column names; an edge may stand in both
    directions; a line with a single label is a node without edges. Labels are integers in either format.

    Parameters
    ----------
    path : path
        The file; a relative path in an experiment file starts at that file's folder.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # text is welcome too
        _format(self.path)

    def build(self, generator: np.random.Generator) -> Graph:
        """Read the network; the generator is not used. ValueError when the file does not hold one."""
        return read_graph(self.path)


def read_graph(path: str | os.PathLike[str], whole: bool = True) -> Graph:
    """Read a network from a GraphML file or an edge list, told apart by the suffix.

    Parameters
    ----------
    path : str or path
        The file. Numeric node attributes ``x`` and ``y`` of a GraphML file become ``pos``.
    whole : bool
        Whether it is a network by itself, which is connected.

    Returns
    -------
    networkx.Graph
        The validated network.

    Raises
    ------
    ValueError
        When the file cannot be read, is not in its format, has labels that are not integers or is no valid network.
    """
    file = Path(path)
    read = _read_graphml if _format(file) == "GraphML" else _read_edges
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedKey(
            "path", f"= {str(path)!r} is not a text file in UTF-8 ({error.reason}): save it as UTF-8"
        ) from error
    except OSError as error:
        raise RefusedKey(
            "path", f"= {str(path)!r} cannot be read, {error.strerror or error}{_nearest(file)}"
        ) from error
    try:
        return validate(read(text), fresh=True, connected=whole)
    except ValueError as error:
        raise RefusedKey("path", f"= {str(path)!r}: {error}") from error


def _format(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise RefusedKey(
            "path", f"= {str(path)!r} has the suffix {suffix!r}, which names no format: use one of {known}"
        )
    return FORMATS[suffix]


def _nearest(path: Path) -> str:
    """Return a hint at the file with the most similar name in the same folder."""
    if not os.path.isdir(path.parent):
        return f": there is no folder {str(path.parent)!r}"
    close = get_close_matches(path.name, [file.name for file in path.parent.iterdir()], n=1)
    return f": did you mean {close[0]!r}?" if close else ": check the name"


def _read_graphml(text: str) -> Graph:
    try:
        graph: nx.Graph[str] = nx.parse_graphml(text)
    except (ParseError, nx.NetworkXError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not readable as GraphML ({error}): write it with networkx.write_graphml") from error
    for _, attributes in graph.nodes(data=True):
        x, y = attributes.get("x"), attributes.get("y")
        if isinstance(x, int | float) and isinstance(y, int | float):
            attributes["pos"] = (attributes.pop("x"), attributes.pop("y"))
    numbered: Graph = nx.relabel_nodes(cast("Any", graph), cast("Any", _integers(graph)))
    return numbered


def _read_edges(text: str) -> Graph:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        kept = line.partition("#")[0].strip()
        fields = SEPARATOR.split(kept) if "," in kept or ";" in kept else kept.split()
        if fields:
            rows.append((number, fields))
    if len(rows) > 1 and _is_header(rows[0][1]) and not _is_header(rows[1][1]):
        del rows[0]
    for number, fields in rows:
        if "" in fields[:2]:
            raise ValueError(f"line {number} has an empty label: write two integers, such as 0 1")
    numbers = _integers(dict.fromkeys(label for _, fields in rows for label in fields[:2]))
    edges = np.array([(numbers[fields[0]], numbers[fields[1]]) for _, fields in rows if len(fields) > 1], np.int64)
    graph: Graph = nx.Graph()
    graph.add_nodes_from(sorted(numbers.values()))
    graph.add_edges_from(np.unique(np.sort(edges.reshape(-1, 2), axis=1), axis=0).tolist())
    return graph


def _is_header(fields: list[str]) -> bool:
    return not any(INTEGER.fullmatch(field) for field in fields[:2])


def _integers(labels: Iterable[str]) -> dict[str, int]:
    """Return the integer that each label is."""
    wrong = sorted(label for label in labels if not INTEGER.fullmatch(label))
    if wrong:
        raise ValueError(
            f"node labels are integers here, not {listed(wrong)}: renumber them, in Python with "
            "networkx.convert_node_labels_to_integers(graph, ordering='sorted', label_attribute='label')"
        )
    numbers: dict[str, int] = {}
    texts: dict[int, str] = {}
    for label in labels:
        number = numbers[label] = int(label)
        if number in texts:
            raise ValueError(f"the labels {texts[number]!r} and {label!r} are the same integer: rename one of them")
        texts[number] = label
    outside = sorted(number for number in texts if not 0 <= number <= LARGEST_LABEL)
    if outside:
        raise ValueError(f"graph has node labels outside 0 to {LARGEST_LABEL}, {listed(outside)}: renumber them")
    return numbers
