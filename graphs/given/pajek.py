"""Graphs in the files of Pajek.

References
----------
.. [1] A. Mrvar and V. Batagelj, "Pajek and Pajek-XXL: programs for analysis and visualization of very large networks",
   reference manual, list of file formats.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import networkx as nx

from kernelswarm.graphs.given.drawing import TIMES, Drawing
from kernelswarm.graphs.given.text_lists import LINES

SECTION = re.compile(r"(?im)^(?=\*(?:network|partition|vector|permutation|cluster|hierarchy)\b)")
"""Where another thing begins in a project."""

FIELD = re.compile(r'"([^"]*)"|(\S+)')
INTERVAL = re.compile(r"\[[\d,*-]+\]")
RELATION = re.compile(r"\d+:")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
NETWORK, VERTICES, MATRIX = "*network", "*vertices", "*matrix"
EDGES = {"*arcs": True, "*edges": False, "*arcslist": True, "*edgeslist": False}
"""The sections of edges, and whether theirs go one way."""


def read_pajek(text: str) -> nx.Graph[Any]:
    """Return the graph of a network or of a project with one network.

    Arcs go one way, edges both; a file may have either, in several relations, as pairs, lists or a matrix. Vertices
    are called by their labels where these are all different, otherwise by their numbers. Times are left out, with a
    warning.

    Parameters
    ----------
    text : str
        What the file holds.

    Raises
    ------
    ValueError
        It holds several networks, or lines that are none of its sections.
    """
    sections = SECTION.split(text)
    networks = [place for place, section in enumerate(sections) if section.lower().startswith(NETWORK)]
    if len(networks) > 1:
        raise ValueError(f"it holds {len(networks)} networks: write each into a file of its own")
    place = networks[0] if networks else 0
    return _Reader().graph(sections[place], 1 + sum(section.count("\n") for section in sections[:place]))


class _Reader:
    """The vertices and edges of a network, as its lines have them."""

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._attributes: list[dict[str, Any]] = []
        self._first_mode = 0
        self._rows = 0
        self._edges: list[tuple[int, int, dict[str, Any], bool]] = []

    def graph(self, text: str, first_line: int) -> nx.Graph[Any]:
        section, timed = "", False
        for number, line in enumerate(LINES.split(text), start=first_line):
            found = [(quoted, plain) for quoted, plain in FIELD.findall(line) if not INTERVAL.fullmatch(plain)]
            fields = [quoted or plain for quoted, plain in found]
            if not fields or line.lstrip().startswith("%"):
                continue
            timed |= len(found) < len(FIELD.findall(line))
            try:
                if fields[0].startswith("*"):
                    section = fields[0].lower()
                    self._begin(section, fields[1:])
                elif section == VERTICES:
                    self._vertex(fields)
                elif section == MATRIX:
                    self._row(fields)
                else:
                    self._edge(section, fields)
            except (ValueError, IndexError) as error:
                raise ValueError(f"line {number}, {' '.join(fields[:6])!r}: {error}") from error
        if timed:
            warnings.warn(f"the network {TIMES}", stacklevel=2)
        return self._drawn()

    def _begin(self, section: str, fields: list[str]) -> None:
        if section == VERTICES:
            if self._labels:
                raise ValueError("a second network begins here: write each into a file of its own")
            count = int(fields[0])
            self._labels = [str(number) for number in range(1, count + 1)]
            self._attributes = [{} for _ in range(count)]
            self._first_mode = int(fields[1]) if len(fields) > 1 else 0
        elif section not in (MATRIX, NETWORK, *EDGES):
            raise ValueError(f"it is none of the sections {', '.join((NETWORK, VERTICES, *EDGES, MATRIX))}")

    def _place(self, field: str) -> int:
        number = int(field)
        if not 1 <= number <= len(self._labels):
            raise ValueError(f"vertex {number} is none of 1 to {len(self._labels)}, which *Vertices counts")
        return number - 1

    def _vertex(self, fields: list[str]) -> None:
        place = self._place(fields[0])
        if len(fields) > 1:
            self._labels[place] = fields[1]
        if len(fields) > 3 and all(map(NUMBER.fullmatch, fields[2:4])):
            self._attributes[place] = {"x": float(fields[2]), "y": float(fields[3])}

    def _edge(self, section: str, fields: list[str]) -> None:
        if section not in EDGES:
            raise ValueError("it stands in none of the sections of vertices and edges")
        fields = fields[1:] if RELATION.fullmatch(fields[0]) else fields
        source = self._place(fields[0])
        listed = section.endswith("list")
        weighted = not listed and len(fields) > 2 and NUMBER.fullmatch(fields[2])
        attributes = {"weight": float(fields[2])} if weighted else {}
        for field in fields[1:] if listed else [fields[1]]:
            self._edges.append((source, self._place(field), attributes, EDGES[section]))

    def _row(self, fields: list[str]) -> None:
        rows = self._first_mode or len(self._labels)  # in two-mode networks rows and columns are different nodes
        columns = range(self._first_mode, len(self._labels))
        if self._rows == rows or len(fields) != len(columns):
            raise ValueError(f"a matrix has {rows} rows of {len(columns)} numbers here")
        for column, weight in zip(columns, map(float, fields), strict=True):
            if weight:
                self._edges.append((self._rows, column, {"weight": weight}, not self._first_mode))
        self._rows += 1

    def _drawn(self) -> nx.Graph[Any]:
        named = len(set(self._labels)) == len(self._labels)
        names = self._labels if named else [str(number) for number in range(1, len(self._labels) + 1)]
        drawing = Drawing()
        for name, attributes in zip(names, self._attributes, strict=True):
            drawing.node(name, attributes)
        for source, target, attributes, one_way in self._edges:
            drawing.edge(names[source], names[target], attributes, one_way=one_way)
        return drawing.graph()
