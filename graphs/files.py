"""Networks in files of any format, compressed or not."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from kernelswarm.graphs.adjacency import Graph
from kernelswarm.graphs.given.formats import SUFFIXES, read_format
from kernelswarm.graphs.validation import validate
from kernelswarm.refused_key import RefusedKey

Format = Literal[
    "auto",
    "edge list",
    "adjacency list",
    "multiline adjacency list",
    "matrix",
    "GraphML",
    "GML",
    "GEXF",
    "node-link JSON",
    "Matrix Market",
    "npz",
    "npy",
    "MATLAB",
    "Pajek",
    "graph6",
    "DOT",
]


TABLES = {".xlsx": "Excel", ".xls": "Excel", ".parquet": "parquet", ".feather": "Arrow", ".arrow": "Arrow"}
"""Suffixes of files that hold edges as tables, and what such a file is."""


@dataclass(frozen=True)
class File:
    """A network from a file, such as GraphML, GML, GEXF, JSON, a matrix or a list of edges or of neighbours.

    The suffix gives the format, before a possible ``.gz``: ``.graphml`` or ``.xml``; ``.gml``; ``.gexf``; ``.json``,
    node-link data; ``.mtx``, Matrix Market; ``.npz``, ``.npy`` or ``.mat``, an adjacency
    matrix; ``.net``, Pajek; ``.g6`` or ``.s6``; ``.dot`` or ``.gv``, Graphviz; ``.adjlist``. Files ending in
    ``.edgelist``, ``.edges``, ``.txt``, ``.csv`` or ``.tsv`` are edge lists, adjacency lists or matrices by what their
    lines hold, and refused where that could be either. An edge list has one edge per line, two labels separated by
    blanks, a tab, a comma or a semicolon, in quotes where they hold blanks. Its further columns are ignored, as are
    blank lines, ``#`` comments and a first line of column names; an edge may stand in both directions; a line with a
    single label is a node without edges.

    Parameters
    ----------
    path : path
        The file; a relative path in an experiment file starts at that file's folder.
    format : str
        "auto" goes by the suffix and the lines. Otherwise "edge list", "adjacency list", "multiline adjacency list",
        "matrix", "GraphML", "GML", "GEXF", "node-link JSON", "Matrix Market", "npz", "npy", "MATLAB",
        "Pajek", "graph6" or "DOT".
    """

    path: Path
    format: Format = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # text is welcome too
        if self.format not in get_args(Format):
            raise RefusedKey("format", f"= {self.format!r} must be one of {', '.join(get_args(Format))}")
        _kind(self.path, self.format)

    def build(self, generator: np.random.Generator) -> Graph:
        """Read the network; the generator is not used. ValueError when the file does not hold one."""
        return read_graph(self.path, self.format)


def read_graph(path: str | os.PathLike[str], format: Format = "auto", strict: bool = False) -> Graph:
    """Read a network from a file.

    Parameters
    ----------
    path : str or path
        The file. Coordinates of nodes, such as numeric attributes ``x`` and ``y`` in GraphML, become ``pos``.
    format : str
        As of :class:`File`.
    strict : bool
        As of :func:`~kernelswarm.graphs.validation.validate`.

    Returns
    -------
    networkx.Graph
        The validated network.

    Raises
    ------
    ValueError
        When the file cannot be read, is not in its format or holds no network.
    """
    file = Path(path)
    kind = _kind(file, format)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RefusedKey(
            "path", f"= {str(path)!r} cannot be read, {error.strerror or error}{_nearest(file)}"
        ) from error
    try:
        if file.suffix.lower() == ".gz":
            content = gzip.decompress(content)
        return validate(read_format(content, kind), fresh=True, strict=strict)
    except (OSError, EOFError, zlib.error) as error:
        raise RefusedKey("path", f"= {str(path)!r} is not compressed with gzip ({error}): leave out .gz") from error
    except UnicodeDecodeError as error:
        raise RefusedKey(
            "path", f"= {str(path)!r} is not a text file ({error.reason}): save it as text in UTF-8"
        ) from error
    except ValueError as error:
        raise RefusedKey("path", f"= {str(path)!r}: {error}") from error


def _kind(path: Path, format: Format) -> str:
    if format != "auto":
        return format
    named = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = named.suffix.lower()
    if suffix in TABLES:
        raise RefusedKey(
            "path",
            f"= {str(path)!r} is a table of {TABLES[suffix]}: save its edges as .csv, with the columns source and "
            "target",
        )
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise RefusedKey(
            "path",
            f"= {str(path)!r} has the suffix {suffix!r}, which names no format: use one of {known} (.txt for lines of "
            "edges, as in KONECT's out.NAME), or set format",
        )
    return SUFFIXES[suffix]


def _nearest(path: Path) -> str:
    """Return a hint at the file with the most similar name in the same folder."""
    if any(part in ("http:", "https:") for part in path.parts):
        return ": download the file, and give its path"
    if os.path.isdir(path):
        return ": name a file in it"
    if not os.path.isdir(path.parent):
        return f": there is no folder {str(path.parent)!r}"
    close = get_close_matches(path.name, [file.name for file in path.parent.iterdir()], n=1)
    return f": did you mean {close[0]!r}?" if close else ": check the name"
