"""Rows that come again as they are, and nodes that are called alike: what joined files leave behind."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import shown, some

LEAST = 0.01
"""The share of repeated rows from which on a line says so."""

DIFFERENT = 0.9
"""The share of different targets among different rows, at least: measured values hardly ever come again."""

FEWEST = 30
"""So many different targets, at least: fewer are steps of a scale."""

ODD = np.uint64(0x9E3779B97F4A7C15)
BLANKS = re.compile(r"[\s_]+")
ZEROS = re.compile(r"^0+(?=\d+$)")


def repeated_rows(columns: Iterable[npt.NDArray[np.generic]], targets: npt.NDArray[np.generic]) -> str:
    """Say how many rows repeat others in all columns, where targets are so different that measurements never do.

    Parameters
    ----------
    columns : iterable of array, shape (n,)
        All that is known of each row, the targets too.
    targets : array, shape (n, q)
        What is learned.

    Returns
    -------
    str
        A sentence; empty where hardly any row comes again, or where values are few.

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
        f"{again:,} of {count:,} rows repeat others in all columns: what is measured on may have been learned from, "
        "leave the copies out"
    )


def _marks(columns: Iterable[npt.NDArray[np.generic]], count: int) -> npt.NDArray[np.uint64]:
    """Return a number for each row, (n,), that is the same for equal rows, and hardly ever for others."""
    marks = np.zeros(count, dtype=np.uint64)
    for column in columns:
        if column.dtype.kind == "U":
            column = np.unique(column, return_inverse=True)[1].ravel()
        marks = (marks ^ (column.astype(np.float64) + 0.0).view(np.uint64)) * ODD
        marks ^= marks >> np.uint64(29)
    return marks


def alike_nodes(names: Iterable[object]) -> str:
    """Say which names of nodes differ in nothing but capital letters, blanks, underscores and zeros in front.

    Empty where none do.

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
