"""Moments, times of day and durations as microseconds: since 1970, since midnight, or in total."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.simulations.core.data_description import Kind, Written

if TYPE_CHECKING:
    import pyarrow


SHORT = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{1,2})", re.ASCII)
"""A date with an order to be determined: 31/12/2021, 12/31/21."""

POINTS = re.compile(r"\d{1,2}\.")

LONG = re.compile(r"(\d{4})([/.-])(\d{1,2})\2(\d{1,2})", re.ASCII)
"""A date that begins with its year: 2021-12-31."""

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)

COMPACT = re.compile(r"(18|19|20|21)(\d\d)(\d\d)(\d\d)", re.ASCII)
"""A date of digits only, which only the name of its column distinguishes from a number."""

NAMED = re.compile(
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?[ -](?P<month>[a-z]{3,9})\.?,?[ -](?P<year>\d{4})"
    r"|(?P<month_>[a-z]{3,9})\.? (?P<day_>\d{1,2})(?:st|nd|rd|th)?,? (?P<year_>\d{4})",
    re.ASCII | re.IGNORECASE,
)
"""A date with the name of its month: 1 Feb 2023, February 1, 2023, 01-Feb-2023."""

BETWEEN = re.compile(r"[ T,]+")
"""Separators between date and time."""

CLOCK = re.compile(
    r"([01]?\d|2[0-4])(?:[:.]([0-5]\d)(?:[:.]([0-5]\d)(?:[.,](\d{1,9}))?)?)?(?:\s*([ap])\.?m\.?)?"
    r"(?:\s*(Z|UTC|GMT|CET|CEST|MEZ|MESZ|[+-]\d\d(?::?\d\d)?))?",
    re.ASCII | re.IGNORECASE,
)
"""A time of day, with optional a.m. or p.m. and an optional zone, as an offset or an unambiguous abbreviation."""

HOURS = {"Z": 0, "UTC": 0, "GMT": 0, "CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2}

SECOND, DAY = 10**6, 86_400 * 10**6

BEGINNING = date(1970, 1, 1).toordinal()

TURN = 69
"""Two-digit years from this one on are of the 20th century, as in POSIX."""


class Times(NamedTuple):
    """Microseconds (n,), nan for missing times, and the kind of times."""

    values: Array
    kind: Kind
    zoned: bool = False
    written: Written = ""


class WhichIsTheDay(ValueError):
    """Raised for dates such as 03/04/2021 if no entry shows which of ``choices`` comes first."""

    def __init__(self, date: str, choices: str = "the day or the month") -> None:
        super().__init__(date)
        self.choices = choices


class Said(NamedTuple):
    """The readings of a text: microseconds by the first element of its date, or by "" if unambiguous."""

    by_order: dict[Written, int]
    half: bool | None = None  # whether the time has a.m. or p.m.; None if the hour is 0 or above 12


What = tuple[Kind, bool]
"""A kind of times, and whether they have a zone."""


class Read(NamedTuple):
    """The times of texts, and which texts are odd: not times, or not of the kind and order of most."""

    times: Times  # NaN for odd entries
    odd: Booleans
    untimed: Booleans
    doubt: WhichIsTheDay | None = None


def of_arrow(values: pyarrow.ChunkedArray) -> Times | None:
    """Return the times of a column with an Arrow type of times; None for other types."""
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
    """Parse times, and tell which texts are not times or differ in kind or order from most.

    Dates are in ISO 8601, have the name of the month, or consist of day, month and year. Dates with points begin with
    the day. The order of dates with slashes or hyphens, such as 31/12/2021, is given by ``written``, or is the only
    order in which all dates exist. Times may have a.m. or p.m., as in 5:30 PM, and a zone.

    Parameters
    ----------
    texts
        Distinct texts.
    counts
        The number of occurrences of each, (n,); by default 1.
    named
        Whether the column is named like a date. Then years may have two digits (1969 to 2068), and 20211231 is a date.
    written
        The first element of dates, if known.
    kind
        The required kind of times, if known; by default the most frequent kind.
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
    if halves[True] > halves[False]:  # 5:30 among 5:30 PM is ambiguous
        alike = [None if one is None or one.half is False else one for one in alike]
    first, doubt = _first(texts, alike, weights, written)
    found = [None if one is None else one.by_order.get("", one.by_order.get(first)) for one in alike]
    values = np.array([np.nan if value is None else float(value) for value in found])
    odd = np.array([one is None for one in (alike if doubt else found)], dtype=np.bool_)
    return Read(Times(values, *most, first), odd, np.array([not readings for readings in said], dtype=np.bool_), doubt)


def _first(
    texts: Sequence[str], said: Sequence[Said | None], weights: Sequence[int], written: Written
) -> tuple[Written, WhichIsTheDay | None]:
    """Return the first element of ambiguous dates, or the error for dates in several orders."""
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
    """Return the possible readings of one text by kind of time; empty for other texts.

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
    """Return the possible dates at the start of a text, in days since 1970 by first element, and the date's end."""
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
    """Return the days since 1970 of the existing dates, by order."""
    found = {}
    for order, (year, month, day) in orders.items():
        number = int(year) + (0 if len(year) == 4 else 2000 if int(year) < TURN else 1900)
        try:
            found[order] = date(number, int(month), int(day)).toordinal() - BEGINNING
        except ValueError:  # no such day
            continue
    return found


def _past(clock: re.Match[str]) -> tuple[bool, int | None, bool | None]:
    """Return whether a time has a zone, its microseconds since midnight (local or UTC), and its half of the day."""
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


# Limits between few odd entries and mixed content, and between categories and free text.

SHARE = 10
"""At most one in this many entries is odd, of the distinct entries or of all."""


MOST_WORDS = 50
"""Maximum number of distinct words of an input column; each becomes an input."""


def are_few(odd: Booleans, counts: npt.NDArray[np.intp]) -> bool:
    """Tell whether odd entries are so few that the column has one kind of content with mistakes.

    Parameters
    ----------
    odd : array of bool, shape (n,)
        Whether each distinct entry differs in kind from the others.
    counts : array of int, shape (n,)
        How often each occurs.

    Examples
    --------
    >>> odd = np.arange(10) == 0
    >>> are_few(odd, np.ones(10, int)), are_few(odd[:9], np.ones(9, int)), are_few(odd[:2], np.array([1, 9]))
    (True, False, True)
    """
    strange = int(odd.sum())
    few = SHARE * strange <= len(odd) or SHARE * int(counts[odd].sum()) <= int(counts.sum())
    return 0 < strange < len(odd) and few


def are_too_many(words: int, rows: int) -> bool:
    """Tell whether words are too many for a one-hot coding, since they name rows rather than categories."""
    return words > min(MOST_WORDS, max(2, rows // 2))


# Numbers that are dates only because of their column's name: 20211231, or seconds since 1970.


CALLED = re.compile(
    r"t|ts|times?|timestamps?|stamps?|epoch|unix|dates?|datetime|datestamp|days?|when|utc|moments?"
    r"|ymd|yyyymmdd(hh(mm(ss)?)?)?|zeit|zeitpunkt|zeitstempel|datum|tag|fecha|jour|heure"
)
"""Words in the names of columns of dates."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

FIRST, LAST = 1800, 2100
"""The range of years in which whole numbers count as dates."""

FEWEST, MOST = 8, 14
"""The range of the numbers of digits of such dates."""

UNITS = (1e6, 1e3, 1.0, 1e-3)
"""Microseconds of the possible units of counts since 1970: seconds to nanoseconds."""

BETWEEN_1990_AND_2100 = (631_152_000e6, 4_102_444_800e6)
"""The range of moments given as counts, chosen so that a count is a moment in at most one unit."""


class NoDate(ValueError):
    """Raised for a number in a ``row`` that is not a date although ``others`` are."""

    def __init__(self, row: int, number: str, others: int) -> None:
        super().__init__(number)
        self.row, self.number, self.others = row, number, others


def is_called_by_time(column: str) -> bool:
    """Tell whether a column is named like a date.

    Examples
    --------
    >>> [is_called_by_time(column) for column in ("DATE", "validDate", "MESS_DATUM", "update", "y")]
    [True, True, True, False, False]
    """
    return any(CALLED.fullmatch(word.lower()) for word in [*WORD.findall(column), column])


def of_column(values: pyarrow.ChunkedArray, column: str, wanted: Kind | None = None) -> Times | None:
    """Return the times of a column with an Arrow type of times, or with numbers that are dates; else None.

    Raises
    ------
    NoDate
        A few of the numbers are not dates.
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
    odd = np.isnan(found.values)
    if are_few(odd, counts):
        place = int(first[odd].min())
        raise NoDate(int(known[place]) + 1, f"{numbers[known[place]]:.15g}", len(known) - int(counts[odd].sum()))
    if odd.any() or not len(known):
        return None
    spread = np.full(len(numbers), np.nan)
    spread[known] = found.values[places]
    return found._replace(values=spread)


def are_digits(texts: Sequence[str]) -> bool:
    """Tell whether texts are whole numbers with digits of dates: 20211231."""
    most = len(str(round(BETWEEN_1990_AND_2100[1] / UNITS[-1])))
    return all(text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= most for text in texts)


def of_numbers(numbers: Array, counts: npt.NDArray[np.intp] | None = None) -> Times:
    """Convert numbers that spell dates, or that count seconds or fractions of seconds since 1970 in UTC, to moments.

    Numbers that spell dates are whole: year, month and day, and optionally hour, minute and second. They have 8, 10, 12
    or 14 digits, with years from 1800 to 2100, or the last day of 9999. Counts have one unit, from seconds to
    nanoseconds, and lie between 1990 and 2100. The most frequent form is required of all numbers.

    Parameters
    ----------
    numbers : array, shape (n,)
        Distinct numbers.
    counts : array of int, shape (n,), optional
        Number of occurrences of each; by default 1.

    Returns
    -------
    Times
        Microseconds since 1970; NaN for numbers that are not dates.

    Examples
    --------
    >>> of_numbers(np.array([20211231.0, 20220101.0, 20220230.0])).values / 86_400e6
    array([18992., 18993.,    nan])
    >>> of_numbers(np.array([202112311830.0])).values / 3_600e6
    array([455826.5])
    >>> of_numbers(np.array([1640975400.0, 1640975400.5])).values / 3_600e6
    array([455826.5       , 455826.50013889])
    """
    possible = (numbers >= 10.0 ** (FEWEST - 1)) & (numbers < 10.0**MOST) & (numbers == np.round(numbers))
    whole = np.where(possible, numbers, 0.0).astype(np.int64)
    digits = np.char.str_len(whole.astype(np.str_))
    written = [
        np.where(possible & (digits == width), _moments(whole, width), np.nan) for width in range(FEWEST, MOST + 1, 2)
    ]
    first, last = BETWEEN_1990_AND_2100
    moments = [np.round(numbers * unit) for unit in UNITS]
    counted = [np.where((first <= found) & (found <= last), found, np.nan) for found in moments]
    weights = np.ones(len(numbers)) if counts is None else counts
    said = [float(weights[~np.isnan(found)].sum()) for found in written + counted]
    best = int(np.argmax(said))
    return Times((written + counted)[best], "time", zoned=best >= len(written))


def _moments(whole: Integers, digits: int) -> Array:
    """Convert numbers with ``digits`` digits to moments, (n,); NaN for invalid dates."""
    clock: list[Integers] = []
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
