"""Graphs in text files: edge lists, adjacency lists and matrices, found by the contents of the lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from kernelswarm.graphs.given.drawing import joined
from kernelswarm.graphs.given.matrices import from_matrix
from kernelswarm.graphs.given.names import as_written

# The columns of a table with the ends of edges, by the columns' names.

ENDS = (
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("start", "end"),
    ("origin", "destination"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("node a", "node b"),
    ("u", "v"),
    ("i", "j"),
    ("von", "nach"),
    ("fnode", "tnode"),
    ("upstream", "downstream"),
)
"""The names of columns with the ends of edges."""

LETTERS = {("u", "v"), ("i", "j")}
"""Names too short to be looked for among other words, as in ``wind u``."""

NODES = {"node", "nodes", "station", "site", "gauge", "gage", "pegel", "robot", "agent", "sensor", "city", "stop"}
MARKS = {"point", "vertex", "junction", "id", "fid", "nr", "no", "name", "code", "key", "label"}
ENTITIES = NODES | MARKS
"""Words that may stand beside those, as in ``FROM_NODE``: any others, as in ``from km``, say something else."""

COUNTERS = frozenset({"", "fid", "objectid", "oid", "gid", "id", "index", "no", "nr", "row", "edge", "edge id"})
"""The names of a first column that counts the lines."""

WAYS: dict[str, dict[str, bool]] = {
    "type": {"directed": True, "undirected": False, "mutual": False},
    "directed": {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False},
}
"""Columns that say which edges go one way, the first as Gephi writes it, and the words in them."""

PLACES = ("x y", "lat lon", "lat lng", "latitude longitude", "east north", "easting northing")
NODE_TABLES = ("id label", "id name")
"""Columns of tables that hold nodes and no edges."""

PLACES_REMEDY = 'give places as the positions of [topology] name = "nearest_neighbors", or two nodes for each edge'

WORD = re.compile(r"[^\W\d_]+\d*|\d+")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def ends_of(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the indices of the two columns with the ends of edges, or None if no names match.

    Exact names of ``ENDS`` are tried first, then names with a word for the entity, such as ``from_station``.

    Parameters
    ----------
    names : sequence of str
        The names of all columns.

    Examples
    --------
    >>> ends_of(["km", "from", "to"])
    (1, 2)
    >>> ends_of(["FID", "FROM_NODE", "TO_NODE", "from_km", "to_km"])
    (1, 2)
    >>> ends_of(["a", "b", "from_km", "to_km"]) is None
    True
    """
    plain = [name.strip().strip("_").lower() for name in names]
    for pair in ENDS:
        if set(pair) <= set(plain):
            return plain.index(pair[0]), plain.index(pair[1])
    words = [frozenset(word.lower() for word in WORD.findall(CAMEL.sub(" ", name))) for name in names]
    for first, second in ENDS:
        if (first, second) in LETTERS:
            continue
        for place, found in enumerate(words):
            beside = found - {first}
            if first in found and beside <= ENTITIES and beside | {second} in words:
                return place, words.index(beside | {second})
    return None


def refuse_nodes(names: Sequence[str]) -> None:
    """Refuse tables of nodes, recognized by the names of two columns: labels or coordinates would become nodes.

    Raises
    ------
    ValueError
        Two columns hold places, or the first two what nodes are called.
    """
    plain = [name.strip().lower() for name in names]
    for columns in PLACES:
        if set(columns.split()) <= set(plain):
            raise ValueError(f"the columns {columns.replace(' ', ' and ')} are of places and no edges: {PLACES_REMEDY}")
    if " ".join(plain[:2]) in NODE_TABLES:
        raise ValueError(
            f"the columns {' and '.join(names[:2])} are of nodes and no edges: give the table of edges instead"
        )


def ways_of(names: Sequence[str], column: Callable[[int], Sequence[object]]) -> list[bool] | None:
    """Return for each edge whether a column of the table declares it directed, or None without such a column.

    Parameters
    ----------
    names : sequence of str
        The names of all columns.
    column : callable
        Returns what stands in a column for each edge, by its place among the names.

    Raises
    ------
    ValueError
        A column says so of some edges only.

    Examples
    --------
    >>> ways_of(["source", "target", "Type"], [["a", "b"], ["b", "c"], ["Directed", "Undirected"]].__getitem__)
    [True, False]
    >>> ways_of(["source", "target", "type"], [["a", "b"], ["b", "c"], ["road", "rail"]].__getitem__) is None
    True
    """
    for place, name in enumerate(names):
        known = WAYS.get(name.strip().lower())
        values = column(place) if known else []
        found = [known.get(str(value).strip().lower()) for value in values] if known else []
        if known and any(way is not None for way in found):
            if None in found:
                place = found.index(None)
                raise ValueError(
                    f"has {values[place]!r} in the column {name} for edge {place + 1}, and words such as "
                    f"{next(iter(known))} for others: write one of {', '.join(known)} for each"
                )
            return [bool(way) for way in found]
    return None


def after_numbers(rows: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Return the two columns after a column of line numbers, or None without such a column.

    So tables are exported, and frames with their index. A column that counts is one of nodes all the same where the
    next one holds its numbers, as that of the station below, or no such column as the one after it.

    Parameters
    ----------
    rows : sequence of sequences of str
        The names of columns, and the fields below them.

    Examples
    --------
    >>> after_numbers([["FID", "A", "B"], ["1", "Worms", "Mainz"], ["2", "Mainz", "Bonn"]])
    (1, 2)
    >>> after_numbers([["id", "below", "km"], ["1", "2", "5.5"], ["2", "3", "8"]]) is None
    True
    """
    called = " ".join(WORD.findall(CAMEL.sub(" ", rows[0][0]).lower()))
    if called not in COUNTERS or len(rows) < 3 or any(len(row) < 3 for row in rows):
        return None
    numbers, ones, others = ([row[column] for row in rows[1:]] for column in range(3))
    first = numbers[0]
    if first not in ("0", "1") or numbers != [str(int(first) + k) for k in range(len(numbers))]:
        return None
    if not set(ones) & set(others) or set(ones) <= set(numbers):
        return None
    return 1, 2


# Lines of a text file as fields: separated by semicolons, tabs, commas or blanks, in quotes or not, with comments.

COMMENT = re.compile(r"(?:^\s*[%#]|(?<=[\s\d])#).*$")
ATTRIBUTES = re.compile(r"\{.*\}\s*$")  # as networkx writes edge attributes
NUMBERS = re.compile(r"[+-]?\d+\s+[+-]?\d+")
TABS = re.compile(r" *\t\s*")
LINES = re.compile(r"\r\n|\r|\n")
"""The ends of lines; some that Python takes for such may stand in names."""

SEPARATORS = ";\t,"
"""What separates fields, other than blanks."""

LOOKED_AT = 1000
"""Lines by which it is found out what separates fields."""


class Line(NamedTuple):
    """A line of a file that holds something: its number and its fields."""

    number: int
    fields: list[str]


def lines_of(text: str) -> list[Line]:
    """Return the lines of a file that hold something, without comments.

    Examples
    --------
    >>> [line.fields for line in lines_of('# edges\\n"New York",Berlin\\nBonn, Rome # by air\\n')]
    [['New York', 'Berlin'], ['Bonn', 'Rome']]
    >>> [line.fields for line in lines_of('0 1 {"w": 1, "x": 2}\\n1\\t2')]
    [['0', '1'], ['1', '2']]
    """
    kept, cut = [], []
    for number, line in enumerate(LINES.split(text), start=1):
        whole = line
        if "#" in line or "%" in line:
            line = COMMENT.sub("", line) if '"' not in line or line.lstrip()[0] in "#%" else line
        if line.strip() and line != whole:
            cut.append((number, whole, whole[len(line) :]))
        if "{" in line:
            line = ATTRIBUTES.sub("", line)
        if line.strip():
            kept.append((number, line))
    mark = separator([line for _, line in islice(kept, LOOKED_AT)])
    for number, line, comment in cut:
        attached = not comment[1:2].isspace()
        if (attached and any(other in comment for other in SEPARATORS)) or (
            mark != " " and (attached or mark in comment)
        ):
            raise ValueError(
                f"line {number}, {line.strip()!r}, has a comment or a name with #: write names with # in double "
                "quotes, and comments in lines of their own"
            )
    return [Line(number, _fields(number, line, mark)) for number, line in kept]


def _fields(number: int, line: str, mark: str) -> list[str]:
    if '"' in line:
        plain = line.replace("\t", " ") if mark == " " else line
        try:
            (fields,) = csv.reader([plain.strip(" ")], delimiter=mark, skipinitialspace=True, strict=True)
        except csv.Error as error:
            raise ValueError(
                f"line {number}, {line.strip()[:60]!r}, is not readable ({error}): write each name in one line, and a "
                'double quote in it twice, as in "the ""old"" bridge"'
            ) from error
    elif mark == " " or (mark not in line and NUMBERS.fullmatch(line.strip())):
        return line.split()
    else:
        fields = TABS.split(line) if mark == "\t" else line.split(mark)
    fields = [field.strip() for field in fields]
    while len(fields) > 2 and not fields[-1]:  # of columns that other lines fill
        del fields[-1]
    return fields


def separator(lines: list[str]) -> str:
    """Return the delimiter of the fields of lines: the first of ``;``, tab and ``,`` that any has, blanks otherwise."""
    for mark in SEPARATORS:
        parted = [line for line in lines if mark in re.sub(r'"[^"]*"', "", line)]
        if parted and not any(NUMBERS.match(line.partition(mark)[0].strip()) for line in parted):
            return mark
    return " "


EDGES, ADJACENCY, MULTILINE, MATRIX = "edge list", "adjacency list", "multiline adjacency list", "matrix"

INTEGER = re.compile(r"[+-]?[0-9]+")
DIMACS = re.compile(r"p [a-z]+ \d+ \d+", re.IGNORECASE)


def read_text(text: str, kind: str = "") -> nx.Graph[Any]:
    """Read a graph from lines of text.

    An edge list has an edge in each line, two labels and perhaps more columns; an adjacency list a node and all its
    neighbours; a multiline one a node and how many neighbours follow, each in a line; a matrix a row of numbers, zero
    for missing edges. Labels are integers if all labels of a file are, and text otherwise.

    Parameters
    ----------
    text : str
        The content of the file.
    kind : str
        One of the four formats; recognized by content if left out.

    Raises
    ------
    ValueError
        The lines fit none of the formats, or more than one.
    """
    lines = lines_of(text)
    if not kind:
        _refuse_others(lines)
    kind = kind or kind_of(lines)
    if kind == MATRIX:
        return _matrix(lines)
    if kind == MULTILINE:
        return _multiline(lines)
    return _adjacency_list(lines) if kind == ADJACENCY else _edge_list(lines)


def kind_of(lines: Sequence[Line]) -> str:
    """Return the format of the lines: one of the four kinds, recognized by content.

    Raises
    ------
    ValueError
        They could be more than one.
    """
    rows = [line.fields for line in lines]
    wide = [row for row in rows if len(row) > 2]
    if rows and all(row[0].endswith(":") for row in rows):
        return ADJACENCY
    if not wide:
        return MULTILINE if _is_multiline(rows) else EDGES
    if _is_matrix(rows):
        return MATRIX
    if _header(lines) is not None:
        return EDGES
    even = len({len(row) for row in rows if len(row) > 1}) == 1
    if not _could_be_adjacency(rows, even):
        if even or not any(INTEGER.fullmatch(row[2]) for row in wide):
            return EDGES
    elif {field for row in rows for field in row} <= {row[0] for row in rows}:  # each node has a line
        ends = {field for row in rows if len(row) > 1 for field in row[:2]}
        if not even or _is_mutual(rows) or any(len(row) == 1 and row[0] in ends for row in rows):
            return ADJACENCY
    elif even and len(wide[0]) == 3 and all(_is_number(row[2]) for row in wide):
        return EDGES  # with a weight
    place = next(line for line in lines if len(line.fields) > 2)
    raise ValueError(
        f"line {place.number}, {' '.join(place.fields[:6])!r}, may be an edge with more columns or a node with all its "
        f'neighbours: say which with format = "{EDGES}" or format = "{ADJACENCY}"'
    )


def _could_be_adjacency(rows: Sequence[list[str]], even: bool) -> bool:
    """Return whether each line may be a node and its neighbours: every node once, and no neighbour twice.

    Where all lines are ``even``, numbers beside names stand for a column, such as a weight.
    """
    first = [row[0] for row in rows]
    if len(set(first)) < len(first) or any(len(set(row)) < len(row) for row in rows):
        return False
    if not even or {field for row in rows for field in row} <= set(first):
        return True  # no columns, or each node has a line: also one called 12 among names
    numbers = INTEGER.fullmatch(first[0]) is not None
    return all((INTEGER.fullmatch(field) is not None) == numbers for row in rows for field in row)


def _is_mutual(rows: Sequence[list[str]]) -> bool:
    """Return whether each node is a neighbour of its neighbours."""
    pairs = {(row[0], other) for row in rows for other in row[1:]}
    return all((other, node) in pairs for node, other in pairs)


def _is_multiline(rows: Sequence[list[str]]) -> bool:
    """Return whether each line of two fields has a node and the number of lines of one after it, for every node."""
    place, headed, others = 0, [], set()
    while place < len(rows):
        if len(rows[place]) != 2 or not rows[place][1].isdecimal():
            return False
        node, count = rows[place][0], int(rows[place][1])
        around = rows[place + 1 : place + 1 + count]
        if len(around) < count or any(len(row) != 1 for row in around):
            return False
        headed.append(node)
        others |= {row[0] for row in around}
        place += 1 + count
    return bool(others) and len(set(headed)) == len(headed) and others <= set(headed)


def _is_matrix(rows: Sequence[list[str]]) -> bool:
    """Return whether lines are a square of zeros and ones, a larger symmetric one of numbers, or one with names."""
    if len(rows) > 2 and rows[0][0] == "" and rows[0][1:] == [row[0] for row in rows[1:]]:
        return True
    count = len(rows)
    if count < 3 or any(len(row) != count for row in rows):
        return False
    if {field for row in rows for field in row} <= {"0", "1", "0.0", "1.0"}:
        return True
    if count < 4 or not all(_is_number(field) for row in rows for field in row):
        return False
    numbers = np.array(rows, dtype=np.float64)
    return bool(np.array_equal(numbers, numbers.T))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _header(lines: Sequence[Line]) -> tuple[int, int] | None:
    """Return the two columns of edge ends named in the first line, or None if that line is no header."""
    if len(lines) < 2:
        return None
    names = lines[0].fields
    named = ends_of(names) or after_numbers([line.fields for line in lines])
    if named is not None:
        return named
    if any(_is_title(lines, column) for column in range(2, len(names))):
        return 0, 1
    # Titles of numbers stand above numbers alone, and name no node.
    first, below = lines[0].fields[:2], [line.fields[:2] for line in lines[1:]]
    if len(first) < 2 or any(INTEGER.fullmatch(field) or any(field in row for row in below) for field in first):
        return None
    columns = ([row[k] for row in below if len(row) > k and row[k]] for k in range(2))
    return (0, 1) if any(column and all(map(_is_number, column)) for column in columns) else None


def _is_title(lines: Sequence[Line], column: int) -> bool:
    """Return whether a column holds numbers, also 55,2, below a first line that holds none, such as km."""
    first, *below = (line.fields[column].replace(",", ".") if column < len(line.fields) else "" for line in lines)
    return not _is_number(first) and all(map(_is_number, below))


def _edge_list(lines: Sequence[Line]) -> nx.Graph[Any]:
    columns = _header(lines)
    names = lines[0].fields if columns is not None else []
    kept = lines if columns is None else lines[1:]
    i, j = columns or (0, 1)
    if ends_of(names) is None:
        refuse_nodes(names)
        _refuse_places(columns is not None, kept, (i, j))
    pairs, alone, rows = [], [], []
    for number, fields in kept:
        ends = [fields[column] for column in (i, j) if column < len(fields)]
        if "" in ends or not ends:
            raise ValueError(f"line {number} has an empty label: write two labels, such as 0 1")
        if len(ends) == 2:
            pairs.append((ends[0], ends[1]))
            rows.append(fields)
        else:
            alone.append(ends[0])
    ways = ways_of(names, lambda place: [row[place] if place < len(row) else "" for row in rows])
    return _graph(pairs, alone, ways)


def _refuse_places(titled: bool, lines: Sequence[Line], ends: tuple[int, int]) -> None:
    """Refuse lines of a node with its coordinates, such as ``1 21.5 23``, which would be read as an edge."""
    found = [line for line in lines if len(line.fields) > max(ends)]
    below = found if titled else found[1:] or found  # the first line may be one of names all the same
    if below and any(_are_decimals([line.fields[end] for line in below]) for end in ends):
        number, fields = below[0]
        raise ValueError(
            f"line {number}, {' '.join(fields[:6])!r}, has a node and its place, and no edge: {PLACES_REMEDY}"
        )


def _are_decimals(fields: Sequence[str]) -> bool:
    """Return whether fields are numbers, and some of them have a fraction."""
    plain = [field.replace(",", ".") for field in fields]
    return all(map(_is_number, plain)) and any(float(field) % 1.0 for field in plain)


def _refuse_others(lines: Sequence[Line]) -> None:
    """Refuse the formats of DIMACS and METIS, whose lines could be edges of another network."""
    rows = [line.fields for line in lines]
    stated = next((line for line in lines if DIMACS.fullmatch(" ".join(line.fields))), None)
    if stated is not None:
        raise ValueError(
            f"line {stated.number}, {' '.join(stated.fields)!r}, is of DIMACS' format, which is not read: keep the two "
            "nodes of its lines of edges, as awk '$1 ~ /^[ea]$/ {print $2, $3}' does"
        )
    first = rows[0] if rows else []
    if not 2 <= len(first) <= 3 or not all(map(str.isdecimal, first)) or int(first[0]) != len(rows) - 1:
        return
    if len(rows) > 2 and sum(map(len, rows[1:])) == 2 * int(first[1]):
        raise ValueError(
            f"line {lines[0].number}, {' '.join(first)!r}, counts the nodes and edges of METIS' format, which is not "
            "read: write each node before its neighbours, as an adjacency list, without this line"
        )


def _adjacency_list(lines: Sequence[Line]) -> nx.Graph[Any]:
    pairs, alone = [], []
    for number, fields in lines:
        node, *others = [fields[0].removesuffix(":"), *(field for field in fields[1:] if field)]
        if not node:
            raise ValueError(f"line {number} has an empty label: write a node and its neighbours, such as 0 1 4")
        alone.append(node)
        pairs += [(node, other) for other in others]
    return _graph(pairs, alone)


def _multiline(lines: Sequence[Line]) -> nx.Graph[Any]:
    rows = [line.fields for line in lines]
    pairs, alone, place = [], [], 0
    while place < len(rows):
        node, *count = rows[place]
        if len(count) != 1 or not count[0].isdecimal():
            raise ValueError(f"line {lines[place].number} does not say how many neighbours a node has: write 0 2")
        around = rows[place + 1 : place + 1 + int(count[0])]
        alone.append(node)
        pairs += [(node, row[0]) for row in around]
        place += 1 + int(count[0])
    return _graph(pairs, alone)


def _graph(pairs: Sequence[tuple[str, str]], alone: Iterable[str], ways: Sequence[bool] | None = None) -> nx.Graph[Any]:
    """Return the graph of edges, a repeated edge once, with the labels that their texts stand for."""
    labels: dict[str, Any] = as_written(dict.fromkeys([label for pair in pairs for label in pair] + list(alone)))
    called = [(labels[one], labels[other]) for one, other in pairs]
    graph: nx.Graph[Any] = nx.Graph() if ways is None else joined(called, ways)
    graph.add_nodes_from(sorted(labels.values()))
    if ways is None:
        graph.add_edges_from(sorted({tuple(sorted(pair)) for pair in called}))
    return graph


def _matrix(lines: Sequence[Line]) -> nx.Graph[Any]:
    rows = [line.fields for line in lines]
    names = None
    if rows and rows[0][0] == "":
        names = rows[0][1:]
        rows = [row[1:] for row in rows[1:]]
    for line, row in zip(lines[-len(rows) :], rows, strict=True):
        if len(row) != len(rows) or not all(_is_number(field) for field in row):
            raise ValueError(
                f"line {line.number} is no row of a square matrix: write {len(rows)} numbers in each of {len(rows)} "
                "lines"
            )
    graph = from_matrix(np.array(rows, dtype=np.float64).reshape(len(rows), len(rows)))
    if names is None:
        return graph
    labels = as_written(names)
    if len(labels) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns are called {twice!r}: rename one of them")
    return nx.relabel_nodes(graph, dict(enumerate(labels.values())))
