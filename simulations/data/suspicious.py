"""Suspicious contents of data: repeated rows, outliers among targets, row numbers, columns of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.core.errors import shown, some

# Repeated rows and nodes with similar names, as in carelessly joined files.

LEAST = 0.01
"""Minimum share of repeated rows for a warning."""

DIFFERENT = 0.9
"""Minimum share of distinct targets among distinct rows: measured values are hardly ever repeated."""

FEWEST = 30
"""Minimum number of distinct targets: fewer are steps of a scale."""

ODD = np.uint64(0x9E3779B97F4A7C15)
BLANKS = re.compile(r"[\s_]+")
ZEROS = re.compile(r"^0+(?=\d+$)")


def repeated_rows(columns: Iterable[npt.NDArray[np.generic]], targets: npt.NDArray[np.generic]) -> str:
    """Describe rows that repeat others in all columns, if the targets are measurements, which hardly ever repeat.

    Parameters
    ----------
    columns : iterable of array, shape (n,)
        All columns of the rows, including targets.
    targets : array, shape (n, q)
        The targets.

    Returns
    -------
    str
        A sentence; empty if hardly any row is repeated, or if targets have few distinct values.

    Examples
    --------
    >>> y = np.arange(100) % 90 + 0.5
    >>> repeated_rows([y], y[:, None]).partition(":")[0]
    '10 of 100 rows repeat others in all columns'
    >>> repeated_rows([y % 3], y[:, None] % 3)
    ''
    """
    count, different = len(targets), len(np.unique(_marks(columns, len(targets))))
    again = count - different
    values = len(np.unique(_marks(targets.T, count)))
    if again < LEAST * count or values < max(FEWEST, DIFFERENT * different):
        return ""
    return (
        f"{again:,} of {count:,} rows repeat others in all columns: held-out rows may have been learned from, "
        "leave the copies out"
    )


def _marks(columns: Iterable[npt.NDArray[np.generic]], count: int) -> npt.NDArray[np.uint64]:
    """Return a hash of each row, (n,)."""
    marks = np.zeros(count, dtype=np.uint64)
    for column in columns:
        if column.dtype.kind == "U":
            column = np.unique(column, return_inverse=True)[1].ravel()
        marks = (marks ^ (column.astype(np.float64) + 0.0).view(np.uint64)) * ODD
        marks ^= marks >> np.uint64(29)
    return marks


def alike_nodes(names: Iterable[object]) -> str:
    """List names of nodes that differ only in case, blanks, underscores and leading zeros.

    Empty without such names.

    Examples
    --------
    >>> alike_nodes(["Bonn", "BONN", "bonn ", "Trier"])
    'nodes "BONN", "Bonn", "bonn " are called alike: where they are one, write its name in one way'
    >>> alike_nodes([1, 2]), alike_nodes(["a", "b"])
    ('', '')
    """
    groups: dict[str, list[str]] = {}
    for name in sorted({name for name in names if isinstance(name, str)}):
        groups.setdefault(ZEROS.sub("", BLANKS.sub(" ", name).strip().casefold()), []).append(name)
    alike = [group for group in groups.values() if len(group) > 1]
    listed = "; ".join(some(list(map(shown, group))) for group in alike[:3])
    more = f"; and {len(alike) - 3} more" if len(alike) > 3 else ""
    return f"nodes {listed}{more} are called alike: where they are one, write its name in one way" if alike else ""


# Targets whose variance is dominated by few values far from the others: outliers, or heavy tails.

FEWEST_TARGETS = 50
"""Minimum number of values for a judgement."""

NINE_TENTHS = 2.0 * 1.6449
"""Width of the central 90% interval of a normal distribution, in standard deviations."""

FAR = 10.0
"""A value is far if its distance from the median exceeds this many standard deviations of a normal distribution with
the same central 90% interval.
"""

HALF = 0.5
"""Minimum share of the variance in far values for a warning, since a squared loss then follows these values. In a
log-normal distribution with sigma = 1 they have a quarter of the variance, with sigma = 2 nearly all.
"""


def far_targets(columns: Sequence[str], targets: Array) -> str:
    """Return a sentence on targets whose variance is dominated by few values; empty without such targets.

    Parameters
    ----------
    columns : sequence of str
        The names of the targets.
    targets : array, shape (n, q)
        Their values.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=(1000, 1))
    >>> far_targets(["y"], y)
    ''
    >>> y[:20] *= 100.0
    >>> far_targets(["y"], y).partition(":")[0]
    '1.9% of the values of "y" are far from all others and make up 99% of its variance'
    """
    for name, values in zip(columns, targets.T, strict=True):
        if len(values) < FEWEST_TARGETS:
            continue
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        squares = (values - values.mean()) ** 2
        far = np.abs(values - middle) > FAR * (high - low) / NINE_TENTHS
        if not high > low or not squares[far].sum() >= HALF * squares.sum():
            continue
        share, held = far.mean(), squares[far].sum() / squares.sum()
        return (
            f"{share:.1%} of the values of {shown(name)} are far from all others and make up {held:.0%} of its "
            'variance: where they are errors, learner.loss = "absolute" or "huber" follows the others; where '
            f"{shown(name)} is skewed, give its logarithm"
        )
    return ""


# Columns that number the rows, which identify training rows and tell nothing of new rows.

FEWEST_NUMBERED = 10
"""Minimum number of rows, so that a column does not count them by chance."""

IDENTIFIERS = re.compile(
    r"ids?|identifier|uu?id|guid|index|idx|ix|rows?|rowid|row_?number|no|nr|num|number|nummer|key|serial|records?|recordid"
    r"|observations?|obs|samples?|sampleid|case|unnamed"
)
"""Words in the names of columns that identify rows."""

TIMES = re.compile(
    r"t|times?|timestamp|date|datetime|days?|hours?|minutes?|seconds?|weeks?|months?|quarters?|years?|epochs?|steps?|ticks?"
    r"|zeit|tag|stunde|woche|monat|jahr"
)
"""Words in the names of columns with an intended trend."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Numbered(NamedTuple):
    """The inputs that number the rows.

    Parameters
    ----------
    by_name : tuple of str
        Columns named as identifiers that differ in every row, or count the rows of each node.
    by_values : tuple of str
        Columns with other names that count the rows.
    """

    by_name: tuple[str, ...]
    by_values: tuple[str, ...]

    def words(self) -> str:
        """Return the warning, or an empty text without such columns."""
        names = [*self.by_name, *self.by_values]
        if not names:
            return ""
        called = ", ".join(map(shown, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        one = len(names) == 1
        return (
            f"{'input' if one else 'inputs'} {called} {'numbers' if one else 'number'} the rows and "
            f"{'tells' if one else 'tell'} nothing of others: leave {'it' if one else 'them'} out with stream.drop"
        )


def row_numbers(columns: Sequence[str], points: AnyArray, nodes: AnyArray | None) -> Numbered:
    """Find the inputs that number the rows.

    Parameters
    ----------
    columns : sequence of str
        The names of the inputs.
    points : array, shape (n, p)
        Their values, in the order of the file.
    nodes : array, shape (n,), or None
        The node of each row, if given by the file.

    Examples
    --------
    >>> rows = np.column_stack([np.arange(40) * 3 % 41, np.arange(40), np.arange(40) % 5])
    >>> row_numbers(["sample_id", "a", "row"], rows, None)
    Numbered(by_name=('sample_id',), by_values=('a',))
    """
    by_name, by_values = [], []
    for column, values in zip(columns, points.T, strict=True):
        words = {word.lower() for word in WORD.findall(column)} | {column.lower()}
        if len(values) < FEWEST_NUMBERED or any(map(TIMES.fullmatch, words)) or not _are_whole(values):
            continue
        counts = _count(values)
        named = any(map(IDENTIFIERS.fullmatch, words))
        if named and (counts or len(np.unique(values)) == len(values) or _count_each(values, nodes)):
            by_name.append(column)
        elif counts:
            by_values.append(column)
    return Numbered(tuple(by_name), tuple(by_values))


def _are_whole(values: AnyArray) -> bool:
    return bool(values.dtype.kind in "iu" or (values.dtype.kind == "f" and (values == np.round(values)).all()))


def _count(values: AnyArray) -> bool:
    """Tell whether values increase by 1."""
    return bool((values[1:] == values[:-1] + 1).all())


def _count_each(values: AnyArray, nodes: AnyArray | None) -> bool:
    """Tell whether the values of each node increase by 1, and most nodes have several rows."""
    if nodes is None or len(np.unique(nodes)) * 3 > len(nodes):
        return False
    order = np.argsort(nodes, kind="stable")
    same = nodes[order][1:] == nodes[order][:-1]
    return bool((values[order][1:] == values[order][:-1] + 1)[same].all())


# Columns that seem to name the node of each row: sensors, stations, clients.

NODES = re.compile(
    r"(nodes?|agents?|sensors?|stations?|sites?|locations?|devices?|motes?|clients?|robots?|drones?|vehicles?|gateways?|buoys?|probes?"
    r"|households?|patients?|subjects?|hospitals?|clinics?|stationen|stationsname)(id|name|no)?"
)
"""Words in the names of columns with the origin of a row."""

COUNT = re.compile(r"(?<!id)s$", re.IGNORECASE)
"""Plural endings, in the names of columns with counts."""

ROWS_EACH = 5
"""Minimum mean number of rows of a node."""


def is_called_so(column: str) -> bool:
    """Tell whether a column's name is usual for names of nodes.

    Examples
    --------
    >>> [column for column in ("Sensor", "station_id", "moteid", "StationName", "sensitivity") if is_called_so(column)]
    ['Sensor', 'station_id', 'moteid', 'StationName']
    """
    words = {word.lower() for word in WORD.findall(column)} | {column.lower()}
    return any(map(NODES.fullmatch, words))


def node_columns(columns: Sequence[str], points: AnyArray) -> tuple[str, ...]:
    """Find columns that are named like nodes and have few enough distinct whole numbers or words.

    Numbers in a column with a plural name, such as ``households``, are counts.

    Parameters
    ----------
    columns : sequence of str
        The names of the columns.
    points : array, shape (n, p)
        Their values.

    Examples
    --------
    >>> node_columns(["sensor", "client"], np.column_stack([np.arange(40) % 4, np.arange(40) + 0.5]))
    ('sensor',)
    >>> node_columns(["households", "household"], np.column_stack([np.arange(40) % 4, np.arange(40) % 4]))
    ('household',)
    """
    found = []
    for column, values in zip(columns, points.T, strict=True):
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        kinds = len(np.unique(known))
        if COUNT.search(column.strip()):
            continue
        if is_called_so(column) and kinds >= 2 and kinds * ROWS_EACH <= len(known) and (known == np.round(known)).all():
            found.append(column)
    return tuple(found)
