"""Dates that differ from numbers and codes by the name of their column only: 20211231, 05/01/22."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import Kind, Written
from kernelswarm.simulations.streams.rows.encoding.times import Times, WhichIsTheDay, of_arrow, of_text

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

TURN = 69
"""The first of the years of two digits that are of the last century, as in POSIX."""

SHORT = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{1,2})(?:[ T,]+(\S.*))?")


def is_called_by_time(column: str) -> bool:
    """Tell whether a column is called as dates are.

    Examples
    --------
    >>> [is_called_by_time(column) for column in ("DATE", "validDate", "MESS_DATUM", "update", "y")]
    [True, True, True, False, False]
    """
    return any(CALLED.fullmatch(word.lower()) for word in [*WORD.findall(column), column])


def of_column(values: pyarrow.ChunkedArray, column: str, wanted: Kind | None = None) -> Times | None:
    """Return the times of a column of one of Arrow's types of times, or of whole numbers that are dates; else None."""
    from pyarrow import types

    if types.is_temporal(values.type):
        return of_arrow(values)
    named = wanted == "time" or (wanted is None and is_called_by_time(column))
    if not named or not (types.is_integer(values.type) or types.is_floating(values.type)):
        return None
    numbers = np.asarray(values.to_numpy()).astype(np.float64)
    known = ~np.isnan(numbers)
    found = of_numbers(numbers[known])
    if found is None:
        return None
    spread = np.full(len(numbers), np.nan)
    spread[known] = found.values
    return found._replace(values=spread)


def of_digits(texts: Sequence[str]) -> Times | None:
    """Return the times of text of digits such as 20211231, (n,); None where some is no date."""
    whole = all(text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= 14 for text in texts)
    return of_numbers(np.array([float(text) for text in texts])) if whole else None


def of_numbers(numbers: npt.NDArray[np.float64]) -> Times | None:
    """Return the times of whole numbers, (n,): year, month and day, and perhaps hour, minute and second.

    All have 8, 10, 12 or 14 digits, and years are 1800 to 2100.

    Returns
    -------
    Times
        Moments; None where some number is no date, and where there is none.

    Examples
    --------
    >>> of_numbers(np.array([20211231.0, 20220101.0])).values / 86_400e6
    array([18992., 18993.])
    >>> of_numbers(np.array([202112311830.0])).values / 3_600e6
    array([455826.5])
    >>> of_numbers(np.array([20211231.0, 20220230.0])) is None
    True
    """
    if not len(numbers) or not ((numbers > 0.0) & (numbers < 1e14) & (numbers == np.round(numbers))).all():
        return None
    whole = numbers.astype(np.int64)
    digits = len(str(whole.min()))
    if digits not in (8, 10, 12, 14) or len(str(whole.max())) != digits:
        return None
    clock: list[Whole] = []
    for _ in range((digits - 8) // 2):
        whole, last = np.divmod(whole, 100)
        clock.insert(0, last)
    years, rest = np.divmod(whole, 10_000)
    found = _midnights(years, *np.divmod(rest, 100))
    if found is None or not ((years >= FIRST) & (years <= LAST)).all():
        return None
    clock += [np.zeros_like(whole)] * (3 - len(clock))
    hours, minutes, seconds = clock
    past = (hours * 60 + minutes) * 60 + seconds
    if not ((past <= 86_400) & (minutes < 60) & (seconds < 60)).all():
        return None
    return Times((found * 86_400 + past) * 1e6, "time")


def with_whole_years(texts: Sequence[str], written: Written) -> tuple[Sequence[str], Written]:
    """Write dates with years of two digits, such as 05/31/22, as ISO 8601 does, and say what came first.

    Those with points have the day first. Others have the order in which all are dates, where there is only one, unless
    ``written`` says it. Years are 1969 to 2068.

    Returns
    -------
    sequence of str, Written
        The texts as they are, and nothing, where some is no such date.

    Raises
    ------
    WhichIsTheDay
        All are dates in several orders.
    """
    found = [one for one in map(SHORT.fullmatch, texts) if one]
    if not texts or len(found) < len(texts):
        return texts, ""
    numbers = [np.array([int(one[place]) for one in found], dtype=np.int64) for place in (1, 3, 4)]
    two = [all(len(one[place]) == 2 for one in found) for place in (1, 3, 4)]
    orders: dict[Written, tuple[int, int, int]] = {"day": (2, 1, 0), "month": (2, 0, 1), "year": (0, 1, 2)}
    fitting = [
        order
        for order, (year, month, day) in orders.items()
        if two[year] and _midnights(_whole(numbers[year]), numbers[month], numbers[day]) is not None
    ]
    if not fitting:
        return texts, ""
    if written in fitting:
        first = written
    elif "day" in fitting and all(one[2] == "." for one in found):
        first = "day"
    elif len(fitting) == 1:
        first = fitting[0]
    else:
        raise WhichIsTheDay(texts[0], "the day, the month or the year")
    year, month, day = (numbers[place] for place in orders[first])
    return [
        f"{_whole(year[k])}/{month[k]}/{day[k]}" + (f" {one[5]}" if one[5] else "") for k, one in enumerate(found)
    ], first


def is_time(word: str) -> bool:
    """Tell whether text alone is a date or a time, though not one of a whole column perhaps."""
    orders: tuple[Written, ...] = ("day", "month", "year")
    try:
        return of_digits([word]) is not None or any(
            of_text(with_whole_years([word], order)[0], order) is not None for order in orders
        )
    except WhichIsTheDay:
        return True


def _whole(years: Whole) -> Whole:
    return np.asarray(years + np.where(years < TURN, 2000, 1900))


def _midnights(years: Whole, months: Whole, days: Whole) -> Whole | None:
    """Return days since 1970, (n,); None where some is no date."""
    if not ((months >= 1) & (months <= 12) & (days >= 1)).all():
        return None
    begun = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    first = begun.astype("datetime64[D]").astype(np.int64)
    after = (begun + 1).astype("datetime64[D]").astype(np.int64)
    return None if (days > after - first).any() else first + days - 1
