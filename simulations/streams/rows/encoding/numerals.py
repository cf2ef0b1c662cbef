"""Numbers that are written as text: with comma or point, marks between thousands, a sign of percent or money."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Mark = Literal["", ".", ","]
"""What stands before fractions; empty where that is not known."""

SPACES = re.compile(r"(?<=\d)[ '\u00a0\u2009\u202f\u2019](?=\d{3}(?!\d))")
"""Blanks and apostrophes between thousands, which nothing else looks like."""

CURRENCIES = "$€£¥₹₩₽"
_ONE = (
    r"(?:[kMGhdcmµμn]?(?:m|g|s|l|L|A|V|W|J|N|Pa|Hz|K|S|Wh|Ah|bar|mol|eq)|°?[CF]|min|h|d|t|ha|ft|in|mi|lbs?|gal|cfs|cms|"
    r"mgd|ppm|ppb|psi|mph|kn|kts?|rpm|dBm?|deg|rad|NTU|FNU|PSU|EUR|USD|GBP|CHF)(?:[²³]|\^?[23]|⁻[¹²³])?"
)
UNIT = rf"{_ONE}(?:[/·*]{_ONE})*"
"""Units that are known, such as m³/s; any other word may name a class, as in ``2 doors``."""

SIGNED = re.compile(rf"([+-]?)(?:([{CURRENCIES}]) *)?(.*?)(?: *([%‰°{CURRENCIES}]|°[CF])|[ \u00a0\u202f]+({UNIT}))?")
"""A sign, a currency, the number itself, and percent, a currency or a unit after a blank."""

EXPONENT = r"([eE][+-]?\d+)?"
PLAIN = re.compile(rf"[+-]?(\d+\.?\d*|\.\d+){EXPONENT}|[+-]?(nan|inf|infinity)", re.IGNORECASE)
POINT = re.compile(rf"[+-]?((\d+|[1-9]\d{{0,2}}(,\d{{3}})+)(\.\d*)?|\.\d+){EXPONENT}")
COMMA = re.compile(rf"[+-]?((\d+|[1-9]\d{{0,2}}(\.\d{{3}})+)(,\d*)?|,\d+){EXPONENT}")

CODE = re.compile(r"0\d+")
"""Digits with a zero in front, such as 007: a code, and no number of things."""


def looks_numeric(text: str) -> bool:
    """Tell whether text is a number in one of the ways in which one is written.

    Examples
    --------
    >>> [looks_numeric(text) for text in ("1.5", "1,234,567", "12 %", "-$100.25", "NNE", "3.O")]
    [True, True, True, True, False, False]
    """
    plain, _ = _bare(text)
    return any(written.fullmatch(plain) for written in (PLAIN, POINT, COMMA))


class Parsed(NamedTuple):
    """Numbers, (n,), and what stands before their fractions, where one of them shows it or it was known."""

    values: npt.NDArray[np.float64]
    mark: Mark


def parsed(texts: Sequence[str], mark: Mark = "") -> Parsed | None:
    """Read the numbers of a column; None where some is none, or where a comma may be one of two things.

    All of them are written in one way: with a point before fractions and perhaps commas between thousands, or the other
    way round. Which one is clear where one way alone suits all, such as that of 1,234,567 or 0,5; 1,234 alone is not.
    A sign of percent, degrees or money, or a unit, stands beside all or none, and is dropped: 12.5% is 12.5.

    Examples
    --------
    >>> for texts in (["1,234,567", "12"], ["1.234,5"], ["12.5%", "3 %"], ["$1,234.50", "-$2"], ["1 234,5 m³/s"]):
    ...     print(parsed(texts).values.tolist())
    [1234567.0, 12.0]
    [1234.5]
    [12.5, 3.0]
    [1234.5, -2.0]
    [1234.5]
    >>> parsed(["1,234", "5"]), parsed(["1,234", "5"], ".").values.tolist(), parsed(["5%", "5"])
    (None, [1234.0, 5.0], None)
    """
    bare = [_bare(text) for text in texts]
    if len({signs for _, signs in bare}) > 1:
        return None
    plain = [text for text, _ in bare]
    if all(PLAIN.fullmatch(text) for text in plain) and (mark != "," or not _in_thousands(plain)):
        return Parsed(np.array([float(text) for text in plain]), mark)
    point = mark != "," and all(POINT.fullmatch(text) for text in plain)
    comma = mark != "." and all(COMMA.fullmatch(text) for text in plain)
    if point == comma:
        return None
    thousands: Mark
    found: Mark
    thousands, found = (",", ".") if point else (".", ",")
    return Parsed(np.array([float(text.replace(thousands, "").replace(found, ".")) for text in plain]), found)


def _bare(text: str) -> tuple[str, str]:
    """Return a number without what stands beside it and between its thousands, and what stands beside it."""
    found = SIGNED.fullmatch(text)
    if found is None:  # more than one line
        return text, ""
    sign, before, number, behind, unit = found.groups()
    return SPACES.sub("", sign + number), (before or "") + (behind or unit or "")


def _in_thousands(texts: Sequence[str]) -> bool:
    """Tell whether points stand between thousands, where commas stand before fractions."""
    return any("." in text for text in texts) and all(COMMA.fullmatch(text) for text in texts)
