"""Columns that seem to say which node each row is of: sensors, stations, clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.streams.written.row_numbers import WORD

NODES = re.compile(
    r"(nodes?|agents?|sensors?|stations?|sites?|locations?|devices?|motes?|clients?|robots?|drones?|vehicles?|gateways?|buoys?|probes?"
    r"|households?|patients?|subjects?|hospitals?|clinics?|stationen|stationsname)(id|name|no)?"
)
"""Words by which columns are called that say where a row comes from."""

COUNT = re.compile(r"(?<!id)s$", re.IGNORECASE)
"""How the plural of something ends, of which a number says how many there are."""

LEAST = 5
"""Rows of each node, on average, at least."""


def is_called_so(column: str) -> bool:
    """Tell whether a column is called as those that name nodes are.

    Examples
    --------
    >>> [column for column in ("Sensor", "station_id", "moteid", "StationName", "sensitivity") if is_called_so(column)]
    ['Sensor', 'station_id', 'moteid', 'StationName']
    """
    words = {word.lower() for word in WORD.findall(column)} | {column.lower()}
    return any(map(NODES.fullmatch, words))


def node_columns(columns: Sequence[str], points: npt.NDArray[Any]) -> tuple[str, ...]:
    """Find columns that are called so, and hold few enough whole numbers or words, by their places.

    Numbers of what is called in the plural, as ``households``, are how many there are.

    Parameters
    ----------
    columns : sequence of str
        What they are called.
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
        if is_called_so(column) and kinds >= 2 and kinds * LEAST <= len(known) and (known == np.round(known)).all():
            found.append(column)
    return tuple(found)
