"""Whole numbers that are dates by the name of their column only: 20211231."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import Kind
from kernelswarm.simulations.streams.rows.encoding.few import are_few
from kernelswarm.simulations.streams.rows.encoding.times import Times, of_arrow

if TYPE_CHECKING:
    import pyarrow

Whole = npt.NDArray[np.int64]

CALLED = re.compile(
    r"times?|timestamps?|dates?|datetime|datestamp|days?|when|utc|moments?|ymd|yyyymmdd(hh(mm(ss)?)?)?|zeit|zeitpunkt"
    r"|zeitstempel|datum|tag|fecha|jour|heure"
)
"""Words by which columns of dates are called."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

FIRST, LAST = 1800, 2100
"""The years in which whole numbers are dates."""

FEWEST, MOST = 8, 14
"""The digits of such numbers."""


class NoDate(ValueError):
    """The refusal of a number that is no date in a ``row``, where ``others`` are some."""

    def __init__(self, row: int, number: str, others: int) -> None:
        super().__init__(number)
        self.row, self.number, self.others = row, number, others


def is_called_by_time(column: str) -> bool:
    """Tell whether a column is called as dates are.

    Examples
    --------
    >>> [is_called_by_time(column) for column in ("DATE", "validDate", "MESS_DATUM", "update", "y")]
    [True, True, True, False, False]
    """
    return any(CALLED.fullmatch(word.lower()) for word in [*WORD.findall(column), column])


def of_column(values: pyarrow.ChunkedArray, column: str, wanted: Kind | None = None) -> Times | None:
    """Return the times of a column of one of Arrow's types of times, or of whole numbers that are dates; else None.

    Raises
    ------
    NoDate
        Few of the numbers are no dates.
    """
    from pyarrow import types

    if types.is_temporal(values.type):
        return of_arrow(values)
    named = wanted == "time" or (wanted is None and is_called_by_time(column))
    if not named or not (types.is_integer(values.type) or types.is_floating(values.type)):
        return None
    numbers = np.asarray(values.to_numpy()).astype(np.float64)
    known = np.flatnonzero(~np.isnan(numbers))
    different, first, places, counts = np.unique(
        numbers[known], return_index=True, return_inverse=True, return_counts=True
    )
    found = of_numbers(different, counts)
    odd = np.isnan(found)
    if are_few(odd, counts):
        place = int(first[odd].min())
        raise NoDate(int(known[place]) + 1, f"{numbers[known[place]]:.15g}", len(known) - int(counts[odd].sum()))
    if odd.any() or not len(known):
        return None
    spread = np.full(len(numbers), np.nan)
    spread[known] = found[places]
    return Times(spread, "time")


def are_digits(texts: Sequence[str]) -> bool:
    """Tell whether texts are whole numbers as dates are: 20211231."""
    return all(text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= MOST for text in texts)


def of_numbers(numbers: npt.NDArray[np.float64], counts: npt.NDArray[np.intp] | None = None) -> npt.NDArray[np.float64]:
    """Return the moments of whole numbers, (n,): year, month and day, and perhaps hour, minute and second.

    They have 8, 10, 12 or 14 digits, as many as most have, and years are 1800 to 2100, or the last day of 9999.

    Returns
    -------
    array
        Microseconds since 1970; nan of numbers that are no dates.

    Examples
    --------
    >>> of_numbers(np.array([20211231.0, 20220101.0, 20220230.0])) / 86_400e6
    array([18992., 18993.,    nan])
    >>> of_numbers(np.array([202112311830.0])) / 3_600e6
    array([455826.5])
    """
    possible = (numbers >= 10.0 ** (FEWEST - 1)) & (numbers < 10.0**MOST) & (numbers == np.round(numbers))
    whole = np.where(possible, numbers, 0.0).astype(np.int64)
    digits = np.char.str_len(whole.astype(np.str_))
    best, most = np.full(len(numbers), np.nan), 0
    for width in range(FEWEST, MOST + 1, 2):
        found = np.where(possible & (digits == width), _moments(whole, width), np.nan)
        there = ~np.isnan(found)
        weight = int(there.sum() if counts is None else counts[there].sum())
        if weight > most:
            best, most = found, weight
    return best


def _moments(whole: Whole, digits: int) -> npt.NDArray[np.float64]:
    """Return the moments of numbers of so many digits, (n,), nan where there is no such one."""
    clock: list[Whole] = []
    for _ in range((digits - FEWEST) // 2):
        whole, last = np.divmod(whole, 100)
        clock.insert(0, last)
    years, rest = np.divmod(whole, 10_000)
    months, days = np.divmod(rest, 100)
    there = (months >= 1) & (months <= 12) & (days >= 1)
    begun = (np.where(there, (years - 1970) * 12 + months - 1, 0)).astype("datetime64[M]")
    first, after = (month.astype("datetime64[D]").astype(np.int64) for month in (begun, begun + 1))
    there &= days <= after - first
    there &= ((years >= FIRST) & (years <= LAST)) | ((years == 9999) & (rest == 1231))
    hours, minutes, seconds = clock + [np.zeros_like(whole)] * (3 - len(clock))
    past = (hours * 60 + minutes) * 60 + seconds
    there &= (past <= 86_400) & (minutes < 60) & (seconds < 60)
    return np.where(there, ((first + days - 1) * 86_400 + past) * 1e6, np.nan)
