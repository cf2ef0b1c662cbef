"""Moments, times of day and lengths of time as numbers: microseconds, since 1970 or midnight or of the length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import Kind, Written

if TYPE_CHECKING:
    import pyarrow

CLOCK = re.compile(r"([01]?\d|2[0-4])[:.]([0-5]\d)(?:[:.]([0-5]\d)(?:[.,](\d{1,6}))?)?")
DAY = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?:[ T,]+(\S.*))?")
YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d{1,2})\2(\d{1,2})(?:[ T,]+(\S.*))?")

HALF_DAYS = re.compile(r"(.*?)(0?[1-9]|1[0-2])((?::[0-5]\d){1,2}(?:[.,]\d{1,6})?)\s*([ap])\.?m\.?", re.IGNORECASE)
"""Times such as 5:30 PM, perhaps after a date."""

ZONED = re.compile(r"(.*:\d\d(?:\.\d{1,6})?)\s*(UTC|GMT|CET|CEST|MEZ|MESZ)", re.IGNORECASE)
"""Times with a zone by its letters, of those that mean the same everywhere."""

SINGLE = re.compile(r"(?<=[ T])(?=\d:)")
"""Where an hour of one digit begins."""

HOURS = {"UTC": "Z", "GMT": "Z", "CET": "+01:00", "MEZ": "+01:00", "CEST": "+02:00", "MESZ": "+02:00"}


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


def of_text(texts: Sequence[str], written: Written = "") -> Times | None:
    """Return the times that text says, (n,): as ISO 8601 has them, or with days, months and years in this order.

    Times may count half days, as 5:30 PM, and end with UTC, GMT, CET, CEST, MEZ or MESZ. Dates with points have the day
    first. Of those with strokes or hyphens, such as 31/12/2021, one of the column has
    to show which number is the day, one beyond 12, unless ``written`` says it.

    Returns
    -------
    Times
        Moments, or times of day such as 18:30 or 18.30.00; None where some text is neither.

    Raises
    ------
    WhichIsTheDay
        None of the dates shows it.
    """
    import pyarrow

    texts = _whole_days(texts)
    clocks = [CLOCK.fullmatch(text) for text in texts]
    if all(clocks):
        return Times(np.array([_microseconds(found) for found in clocks if found]), "clock")
    texts, first = _year_first(texts, written)
    texts = _by_hours(texts)
    for zone in (None, "UTC"):
        try:
            found = of_arrow(pyarrow.chunked_array([pyarrow.array(texts).cast(pyarrow.timestamp("us", zone))]))
        except pyarrow.ArrowInvalid:
            continue
        return None if found is None else found._replace(written=first)
    return None


def _whole_days(texts: Sequence[str]) -> Sequence[str]:
    """Write times that count half days as others do, 17:30 for 5:30 PM, all of them or none."""
    found = [HALF_DAYS.fullmatch(text) for text in texts]
    if not all(found):
        return texts
    return [f"{one[1]}{int(one[2]) % 12 + 12 * (one[4] in 'pP'):02}{one[3]}" for one in found if one]


def _by_hours(texts: list[str]) -> list[str]:
    """Write the letters of zones as hours from UTC, in all texts or in none."""
    found = [ZONED.fullmatch(text) for text in texts]
    if not all(found):
        return texts
    return [SINGLE.sub("0", one[1]) + HOURS[one[2].upper()] for one in found if one]


def _year_first(texts: Sequence[str], written: Written) -> tuple[list[str], Written]:
    """Write dates that have another order as ISO 8601 does, all of them or none, and say what came first."""
    found = [YEAR_FIRST.fullmatch(text) for text in texts]
    if all(found):
        return [_iso(one[1], one[3], one[4], one[5]) for one in found if one], ""
    days = [one for one in map(DAY.fullmatch, texts) if one]
    if len(days) < len(texts):
        return list(texts), ""
    firsts, seconds = (max(int(one[place]) for one in days) for place in (1, 3))
    if seconds <= 12 and (firsts > 12 or written == "day" or all(one[2] == "." for one in days)):
        return [_iso(one[4], one[3], one[1], one[5]) for one in days], "day"
    if firsts <= 12 and (seconds > 12 or written == "month"):
        return [_iso(one[4], one[1], one[3], one[5]) for one in days], "month"
    if firsts <= 12:
        raise WhichIsTheDay(texts[0])
    return list(texts), ""


def _iso(year: str, month: str, day: str, rest: str | None) -> str:
    date = f"{year}-{int(month):02}-{int(day):02}"
    clock = None if rest is None else CLOCK.fullmatch(rest.strip())
    if clock is None:
        return date if rest is None else f"{date} {rest}"
    hour, minute, second, fraction = clock.groups()
    return f"{date} {int(hour):02}:{minute}:{second or '00'}" + ("" if fraction is None else f".{fraction}")


def _microseconds(clock: re.Match[str]) -> float:
    hour, minute, second, fraction = clock.groups()
    whole = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    return whole * 1e6 + float((fraction or "").ljust(6, "0"))
