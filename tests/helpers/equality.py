"""numpy's assertions of equality, which look at bytes first: tests of the same bits ask a hundred thousand times."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = frozenset("biufc")


def bytes_first(assertion: Callable[..., None]) -> Callable[..., None]:
    """Return an assertion that holds at once where everything has the same bytes, and elsewhere asks numpy's."""

    @functools.wraps(assertion)
    def asserted(*given: Any, **named: Any) -> None:
        if len(given) < 2 or not same(given[0], given[1]):
            assertion(*given, **named)

    return asserted


def same(one: Any, other: Any) -> bool:
    """Return True only where numpy's assertions hold whatever else they are given, False also where it takes them."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is np.ndarray:
        return bool(
            one.dtype == other.dtype
            and one.dtype.kind in NUMBERS
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    if kind is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if kind in (list, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if kind in (float, np.float64):
        return bool(one.hex() == other.hex())  # which tells 0 from -0, as numpy does, and takes NaN for itself
    return kind in (bool, int, str, type(None)) and bool(one == other)
