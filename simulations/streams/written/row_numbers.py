"""Columns that number the rows: in them a learner sees which row it is, and nothing of rows to come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import shown

FEWEST = 10
"""Rows that a column numbers by chance no more."""

IDENTIFIERS = re.compile(
    r"ids?|identifier|uu?id|guid|index|idx|ix|rows?|rowid|row_?number|no|nr|num|number|nummer|key|serial|records?|recordid"
    r"|observations?|obs|samples?|sampleid|case|unnamed"
)
"""Words by which columns are called that tell rows from one another."""

TIMES = re.compile(
    r"t|times?|timestamp|date|datetime|days?|hours?|minutes?|seconds?|weeks?|months?|quarters?|years?|epochs?|steps?|ticks?"
    r"|zeit|tag|stunde|woche|monat|jahr"
)
"""Words by which columns are called in which a trend is meant."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Numbered(NamedTuple):
    """The inputs that number the rows.

    Parameters
    ----------
    by_name : tuple of str
        Called as such columns are, and different in every row, or counting those of each node.
    by_values : tuple of str
        Called otherwise, and counting the rows one by one.
    """

    by_name: tuple[str, ...]
    by_values: tuple[str, ...]

    def words(self) -> str:
        """Say so in a sentence; empty where there is none."""
        names = [*self.by_name, *self.by_values]
        if not names:
            return ""
        called = ", ".join(map(shown, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        one = len(names) == 1
        return (
            f"{'input' if one else 'inputs'} {called} {'numbers' if one else 'number'} the rows and "
            f"{'tells' if one else 'tell'} nothing of others: leave {'it' if one else 'them'} out with stream.drop"
        )


def row_numbers(columns: Sequence[str], points: npt.NDArray[Any], nodes: npt.NDArray[Any] | None) -> Numbered:
    """Find the inputs that number the rows.

    Parameters
    ----------
    columns : sequence of str
        What the inputs are called.
    points : array, shape (n, p)
        Their values, in the order of the file.
    nodes : array, shape (n,), or None
        The node of each row, where the file says it.

    Examples
    --------
    >>> rows = np.column_stack([np.arange(40) * 3 % 41, np.arange(40), np.arange(40) % 5])
    >>> row_numbers(["sample_id", "a", "row"], rows, None)
    Numbered(by_name=('sample_id',), by_values=('a',))
    """
    by_name, by_values = [], []
    for column, values in zip(columns, points.T, strict=True):
        words = {word.lower() for word in WORD.findall(column)} | {column.lower()}
        if len(values) < FEWEST or any(map(TIMES.fullmatch, words)) or not _are_whole(values):
            continue
        counts = _count(values)
        named = any(map(IDENTIFIERS.fullmatch, words))
        if named and (counts or len(np.unique(values)) == len(values) or _count_each(values, nodes)):
            by_name.append(column)
        elif counts:
            by_values.append(column)
    return Numbered(tuple(by_name), tuple(by_values))


def _are_whole(values: npt.NDArray[Any]) -> bool:
    return bool(values.dtype.kind in "iu" or (values.dtype.kind == "f" and (values == np.round(values)).all()))


def _count(values: npt.NDArray[Any]) -> bool:
    """Whether values go up one by one."""
    return bool((values[1:] == values[:-1] + 1).all())


def _count_each(values: npt.NDArray[Any], nodes: npt.NDArray[Any] | None) -> bool:
    """Whether the values of each node go up one by one, and most nodes have several."""
    if nodes is None or len(np.unique(nodes)) * 3 > len(nodes):
        return False
    order = np.argsort(nodes, kind="stable")
    same = nodes[order][1:] == nodes[order][:-1]
    return bool((values[order][1:] == values[order][:-1] + 1)[same].all())
