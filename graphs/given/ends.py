"""The columns of a table with the ends of edges, by the columns' names."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
