"""Numbers for a page: few digits, few rows, null for missing ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Integers

EXACT = 17
"""Significant digits that give a float64 back."""

TABLE = 6
"""Significant digits in the rows of tables and in curves of the whole network."""

MANY = 4
"""Significant digits of the large tables of numbers."""

COLOR = 3
"""Significant digits of numbers that are seen as a colour or as a place in a small plot only."""


def number(value: Any, digits: int = EXACT) -> float | int | str | None:
    """Round a number to some significant digits, integers as such; text is returned as it is, None if not finite.

    Examples
    --------
    >>> number(0.123456, 3), number(16.0), number(float("nan")), number("north")
    (0.123, 16, None, 'north')
    """
    if isinstance(value, str):
        return value
    value = float(value)
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def numbers(values: npt.ArrayLike, digits: int = TABLE) -> list[Any]:
    """Return an array of any shape as nested lists of :func:`number`."""
    found = np.asarray(values)
    if found.ndim > 1:
        return [numbers(row, digits) for row in found]
    return [number(value, digits) for value in found.tolist()]


def some(count: int, most: int) -> Integers:
    """Return the places of all of ``count`` things, or of ``most`` evenly spaced ones, the first and the last among
    them.

    Examples
    --------
    >>> some(3, 5), some(9, 3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, max(most, 2)).round().astype(np.int64))


def finite(values: Sequence[Any] | AnyArray) -> bool:
    """Tell whether there is a finite number among the values."""
    return bool(np.isfinite(np.asarray(values, dtype=np.float64)).any())
