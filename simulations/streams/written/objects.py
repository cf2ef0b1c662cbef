"""Columns of Python's objects: which entry is of another kind than the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import shown

KINDS: tuple[tuple[Any, str], ...] = (
    (bool | np.bool, "truth values"),
    (str | bytes, "text"),
    (timedelta | np.timedelta64, "lengths of time"),
    (Number | np.number | Decimal, "numbers"),
    (date | np.datetime64, "dates or times"),
    (time, "times of day"),
)


def kind_of(value: Any) -> str:
    """Return what an entry is; empty of a gap.

    Examples
    --------
    >>> kind_of(1.5), kind_of("1.5"), kind_of(float("nan")), kind_of([1])
    ('numbers', 'text', '', 'list')
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and value != value:
        return ""
    found = next((name for types, name in KINDS if isinstance(value, types)), type(value).__name__)
    return f"{found} of a time zone" if isinstance(value, datetime) and value.tzinfo is not None else found


def odd_object(values: Iterable[Any]) -> str:
    """Say which row holds an entry of another kind than most; empty where all are of one.

    Examples
    --------
    >>> odd_object([1.5, None, "soon", 2.5])
    'row 3 holds "soon" (text), where the other 2 entries are numbers'
    >>> odd_object([1, 2.5, None])
    ''
    """
    values = list(values)
    if len({*map(type, values)} - {type(None)}) < 2 and not isinstance(next(iter(values), None), datetime):
        return ""  # as most columns are
    kinds = [kind_of(value) for value in values]
    shares = Counter(filter(None, kinds))
    if len(shares) < 2:
        return ""
    most = max(shares, key=lambda kind: (shares[kind], kind))
    row = next(place for place, kind in enumerate(kinds) if kind not in ("", most))
    others = shares[most]
    return (
        f"row {row + 1} holds {shown(values[row])} ({kinds[row]}), where the other {others:,} entr"
        f"{'y is' if others == 1 else 'ies are'} {most}"
    )


def alike(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of objects, of which dates among moments are their midnights, and all is text where some is.

    Examples
    --------
    >>> alike(np.array([1.5, None, "soon"], object)).tolist()
    ['1.5', None, 'soon']
    """
    types = {*map(type, values)}
    if str in types and len(types) > 1 and bytes not in types:
        return np.array([str(value) if kind_of(value) else None for value in values], object)
    if {date, datetime} <= types:
        days = (datetime(*value.timetuple()[:3]) if type(value) is date else value for value in values)
        return np.array(list(days), object)
    return values


def same_names(values: Iterable[Any]) -> str:
    """Say which two entries of several kinds an array would make one of, such as 1 and "1"; empty where none are.

    Examples
    --------
    >>> same_names([1, "a", "1"]), same_names([1, 2]), same_names(["1", "1"])
    ('row 1 holds 1 and row 3 "1"', '', '')
    """
    texts = {value: place for place, value in reversed(list(enumerate(values))) if isinstance(value, str)}
    for place, value in enumerate(values if texts else ()):
        if not isinstance(value, str) and str(value) in texts:
            return f"row {place + 1} holds {shown(value)} and row {texts[str(value)] + 1} {shown(str(value))}"
    return ""
