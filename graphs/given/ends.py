"""The columns of a table with the ends of edges, by the columns' names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

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
    """Return the places of the two columns that hold the ends of edges; None where no names say so.

    Columns called as one of ``ENDS`` come first, then those that say besides what stands at an end.

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
    """Refuse the table of nodes that two columns say it is, of which labels or places would become nodes.

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
    """Return for each edge whether it goes one way, as a column of a table says; None where no column does.

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
    """Return the two columns after one that does nothing but count the lines; None where there is none.

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
