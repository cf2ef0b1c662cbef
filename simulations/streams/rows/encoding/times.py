"""Moments, times of day and lengths of time as numbers: microseconds, since 1970 or midnight or of the length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import Kind, Written

if TYPE_CHECKING:
    import pyarrow

Marks = npt.NDArray[np.bool_]

SHORT = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{1,2})", re.ASCII)
"""A date whose order has to be known: 31/12/2021, 12/31/21."""

POINTS = re.compile(r"\d{1,2}\.")

LONG = re.compile(r"(\d{4})([/.-])(\d{1,2})\2(\d{1,2})", re.ASCII)
"""A date that begins with its year: 2021-12-31."""

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)

COMPACT = re.compile(r"(18|19|20|21)(\d\d)(\d\d)(\d\d)", re.ASCII)
"""A date of digits alone, which the name of its column tells from numbers."""

NAMED = re.compile(
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[ -](?P<month>[a-z]{3,9})\.?,?[ -](?P<year>\d{4})"
    r"|(?P<month_>[a-z]{3,9})\.? (?P<day_>\d{1,2})(?:st|nd|rd|th)?,? (?P<year_>\d{4})",
    re.ASCII | re.IGNORECASE,
)
"""A date with the name of its month: 1 Feb 2023, February 1, 2023, 01-Feb-2023."""

BETWEEN = re.compile(r"[ T,]+")
"""What stands between a date and its time."""

CLOCK = re.compile(
    r"([01]?\d|2[0-4])(?:[:.]([0-5]\d)(?:[:.]([0-5]\d)(?:[.,](\d{1,9}))?)?)?(?:\s*([ap])\.?m\.?)?"
    r"(?:\s*(Z|UTC|GMT|CET|CEST|MEZ|MESZ|[+-]\d\d(?::?\d\d)?))?",
    re.ASCII | re.IGNORECASE,
)
"""A time of day, perhaps of half a day, and a zone by its hours or by letters that mean the same everywhere."""

HOURS = {"Z": 0, "UTC": 0, "GMT": 0, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2}

SECOND, DAY = 10**6, 86_400 * 10**6

BEGINNING = date(1970, 1, 1).toordinal()

TURN = 69
"""The first of the years of two digits that are of the last century, as in POSIX."""


class Times(NamedTuple):
    """Microseconds (n,), nan where there is none, and what they are."""

    values: npt.NDArray[np.float64]
    kind: Kind
    zoned: bool = False
    written: Written = ""


class WhichIsTheDay(ValueError):
    """The refusal of dates such as 03/04/2021, none of which says which of ``choices`` comes first."""

    def __init__(self, date: str, choices: str = "the day or the month") -> None:
        super().__init__(date)
        self.choices = choices


class Said(NamedTuple):
    """What a text says: microseconds by what comes first in its date, by "" where that leaves no doubt."""

    by_order: dict[Written, int]
    half: bool | None = None  # of half a day, with a.m. or p.m.; None where the hour is of the whole day beyond doubt


What = tuple[Kind, bool]
"""A kind of times, and whether they are of a zone."""


class Read(NamedTuple):
    """The times of texts, and which texts are none: none at all, or none of the kind and order of most."""

    times: Times  # nan of those that are odd
    odd: Marks
    untimed: Marks
    doubt: WhichIsTheDay | None = None


def of_arrow(values: pyarrow.ChunkedArray) -> Times | None:
    """Return the times of a column of one of Arrow's types of times; None of other types."""
    import pyarrow
    from pyarrow import types

    kind: Kind
    if types.is_timestamp(values.type) or types.is_date(values.type):
        kind, zone = "time", getattr(values.type, "tz", None)
        whole = values.cast(pyarrow.timestamp("us", zone), safe=False)
    elif types.is_time(values.type):
        kind, zone = "clock", None
        whole = values.cast(pyarrow.time64("us"), safe=False)
    elif types.is_duration(values.type):
        kind, zone = "duration", None
        whole = values.cast(pyarrow.duration("us"), safe=False)
    else:
        return None
    numbers = np.asarray(whole.cast(pyarrow.int64()).cast(pyarrow.float64(), safe=False).to_numpy())
    return Times(numbers, kind, zone is not None)


def of_text(
    texts: Sequence[str],
    counts: npt.NDArray[np.intp] | None = None,
    *,
    named: bool = False,
    written: Written = "",
    kind: Kind | None = None,
) -> Read:
    """Return the times that texts say, each by itself, and which texts say none or another than most.

    Dates are as ISO 8601 has them, with the name of the month, or with days, months and years in this order. Dates with
    points have the day first. Those with strokes or hyphens, such as 31/12/2021, have the order in which all exist,
    where there is only one, unless ``written`` says it. Times may count half days, as 5:30 PM, and end with a zone.

    Parameters
    ----------
    texts
        Different texts.
    counts
        How often each occurs, (n,); once when left out.
    named
        Whether their column is called as dates are: years may have two digits, 1969 to 2068, and 20211231 is a date.
    written
        What comes first in dates, where that is known.
    kind
        Which kind of times they have to be, where that is known; else the one of most.
    """
    said = [read_one(text, named) for text in texts]
    weights = [1] * len(texts) if counts is None else counts.tolist()
    shares: Counter[What] = Counter()
    for readings, weight in zip(said, weights, strict=True):
        for what in readings:
            if kind in (None, what[0]):
                shares[what] += weight
    most: What = max(shares, key=lambda what: (shares[what], what)) if shares else (kind or "time", False)
    alike = [readings.get(most) for readings in said]
    halves: Counter[bool | None] = Counter()
    for one, weight in zip(alike, weights, strict=True):
        if one is not None:
            halves[one.half] += weight
    if halves[True] > halves[False]:  # 5:30 among 5:30 PM may be either
        alike = [None if one is None or one.half is False else one for one in alike]
    first, doubt = _first(texts, alike, weights, written)
    found = [None if one is None else one.by_order.get("", one.by_order.get(first)) for one in alike]
    values = np.array([np.nan if value is None else float(value) for value in found])
    odd = np.array([one is None for one in (alike if doubt else found)], dtype=np.bool_)
    return Read(Times(values, *most, first), odd, np.array([not readings for readings in said], dtype=np.bool_), doubt)


def _first(
    texts: Sequence[str], said: Sequence[Said | None], weights: Sequence[int], written: Written
) -> tuple[Written, WhichIsTheDay | None]:
    """Return what comes first in the dates that do not say it, or the refusal of dates in several orders."""
    asking = [
        (text, one.by_order.keys(), weight)
        for text, one, weight in zip(texts, said, weights, strict=True)
        if one is not None and "" not in one.by_order
    ]
    if not asking:
        return "", None
    fitting: set[Written] = set(asking[0][1])
    for _, orders, _ in asking:
        fitting &= orders
    if written in fitting:
        return written, None
    if "day" in fitting and all(POINTS.match(text) for text, _, _ in asking):
        return "day", None
    if len(fitting) > 1:
        choices = "the day, the month or the year" if "year" in fitting else "the day or the month"
        return "", WhichIsTheDay(asking[0][0], choices)
    shares: Counter[Written] = Counter()
    for _, orders, weight in asking:
        shares.update(dict.fromkeys(orders, weight))
    return max(shares, key=lambda order: (shares[order], order)), None


def read_one(text: str, named: bool = False) -> dict[What, Said]:
    """Return what one text may say, by the kind of time; empty where it is none.

    Examples
    --------
    >>> list(read_one("18:30")), list(read_one("2021-12-31 18:30 CET")), read_one("31/02/2021"), read_one("soon")
    ([('clock', False)], [('time', True)], {}, {})
    >>> [list(said.by_order) for said in read_one("03/04/2021").values()], read_one("5:30")["clock", False].half
    ([['day', 'month']], False)
    """
    found: dict[What, Said] = {}
    clock = CLOCK.fullmatch(text)
    if clock is not None and clock[2] and not clock[6]:
        _, past, half = _past(clock)
        if past is not None:
            found["clock", False] = Said({"": past}, half)
    days, end = _days(text, named)
    if not days:
        return found
    if end == len(text):
        found["time", False] = Said({order: day * DAY for order, day in days.items()})
        return found
    between = BETWEEN.match(text, end)
    clock = None if between is None else CLOCK.fullmatch(text, between.end())
    if clock is not None:
        zoned, past, half = _past(clock)
        if past is not None:
            found["time", zoned] = Said({order: day * DAY + past for order, day in days.items()}, half)
    return found


def _days(text: str, named: bool) -> tuple[dict[Written, int], int]:
    """Return the days since 1970 with which a text may begin, by what comes first, and where the date ends."""
    whole = LONG.match(text)
    if whole is not None:
        return _existing({"": (whole[1], whole[3], whole[4])}), whole.end()
    compact = COMPACT.match(text) if named else None
    if compact is not None:
        return _existing({"": (compact[1] + compact[2], compact[3], compact[4])}), compact.end()
    spelled = NAMED.match(text)
    if spelled is not None:
        day, name, year = (spelled[key] or spelled[f"{key}_"] for key in ("day", "month", "year"))
        month = next((place for place, month in enumerate(MONTHS, 1) if month.startswith(name.lower())), 0)
        return _existing({"": (year, str(month), day)}), spelled.end()
    short = SHORT.match(text)
    if short is None:
        return {}, 0
    one, _, two, three = short.groups()
    orders: dict[Written, tuple[str, str, str]] = {}
    if len(three) == 4 or (named and len(three) == 2):
        orders = {"day": (three, two, one), "month": (three, one, two)}
    if named and len(one) == 2 and len(three) < 3:
        orders["year"] = (one, two, three)
    return _existing(orders), short.end()


def _existing(orders: dict[Written, tuple[str, str, str]]) -> dict[Written, int]:
    """Return the days since 1970 of the years, months and days that there are, by their order."""
    found = {}
    for order, (year, month, day) in orders.items():
        number = int(year) + (0 if len(year) == 4 else 2000 if int(year) < TURN else 1900)
        try:
            found[order] = date(number, int(month), int(day)).toordinal() - BEGINNING
        except ValueError:  # no such day
            continue
    return found


def _past(clock: re.Match[str]) -> tuple[bool, int | None, bool | None]:
    """Return whether a time is of a zone, its microseconds since midnight there or in UTC, and its half of the day."""
    hour, minute, second, fraction, half, zone = clock.groups()
    hours = int(hour)
    if half and not 1 <= hours <= 12:
        return False, None, None
    whole = hours % 12 + 12 * (half in "pP") if half else hours
    past = ((whole * 60 + int(minute or 0)) * 60 + int(second or 0)) * SECOND + int((fraction or "").ljust(6, "0")[:6])
    said = True if half else False if 1 <= hours <= 12 else None
    if past > DAY:
        return False, None, said
    if not zone:
        return False, past, said
    if zone.upper() in HOURS:
        return True, past - HOURS[zone.upper()] * 3600 * SECOND, said
    ahead = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    if ahead >= 24 * 60 or int(zone[3:].lstrip(":") or 0) >= 60:
        return True, None, said
    return True, past + (-ahead if zone[0] == "+" else ahead) * 60 * SECOND, said
