"""Numbers that are written as text: with comma or point, marks between thousands, a sign of percent or money."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.streams.rows.encoding.few import are_few

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


def parsed(texts: Sequence[str], mark: Mark = "", counts: npt.NDArray[np.intp] | None = None) -> Parsed | None:
    """Read the numbers of a column; None where some is none, or where a comma may be one of two things.

    All of them are written in one way: with a point before fractions and perhaps commas between thousands, or the other
    way round. Which one is clear where one way alone suits all, such as that of 1,234,567 or 0,5; 1,234 alone is not,
    nor is 1.234 where hardly any other number says that the point parts thousands. A sign of percent, degrees or
    money, or a unit, stands beside all or none, and is dropped: 12.5% is 12.5.

    Parameters
    ----------
    texts
        The different numbers.
    mark
        What stands before fractions, where that is known.
    counts
        How often each occurs, (n,); once when left out.

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
    if point == comma or (comma and not mark and _turning(plain, counts).any()):
        return None
    thousands: Mark
    found: Mark
    thousands, found = (",", ".") if point else (".", ",")
    return Parsed(np.array([float(text.replace(thousands, "").replace(found, ".")) for text in plain]), found)


def odd_ones(texts: Sequence[str], mark: Mark, counts: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Tell which texts are no numbers, or are written in another way than most: with another sign, mark, or zeros.

    Examples
    --------
    >>> odd_ones(["12%", "3%", "5"], "", np.ones(3, int)), odd_ones(["1,5", "2,5", "3.5"], "", np.ones(3, int))
    (array([False, False,  True]), array([False, False,  True]))
    """
    odd = np.array([not looks_numeric(text) for text in texts], dtype=np.bool_)
    bare = [_bare(text) for text in texts]
    plain = [text for text, _ in bare]
    left = np.where(odd, 0, counts)
    odd |= _others([signs for _, signs in bare], left)
    ways = list(map(way_of, texts))
    odd |= _others(ways, np.where(odd, 0, left), "", mark)
    odd |= _turning(plain, counts) if not mark else False
    coded = np.array([CODE.fullmatch(text) is not None for text in texts], dtype=np.bool_)
    fixed = all(map(str.isdecimal, texts)) and len({*map(len, texts)}) == 1
    return odd | (coded if not fixed and are_few(coded[~odd], counts[~odd]) else False)


def _others(
    kinds: Sequence[str], counts: npt.NDArray[np.intp], neutral: str | None = None, known: str = ""
) -> npt.NDArray[np.bool_]:
    """Tell which entries are of another kind than the known one, or than most of those that are of one."""
    shares: Counter[str] = Counter()
    for kind, count in zip(kinds, counts.tolist(), strict=True):
        shares.update({} if kind == neutral else {kind: count})
    most = known or max(shares, key=lambda kind: (shares[kind], kind), default="")
    return np.array([kind not in (most, neutral) for kind in kinds], dtype=np.bool_)


def way_of(text: str) -> str:
    """Return the mark that stands before fractions in a number; empty where both may, and where it is none."""
    plain, _ = _bare(text)
    point, comma = PLAIN.fullmatch(plain) or POINT.fullmatch(plain), COMMA.fullmatch(plain)
    return "" if bool(point) == bool(comma) else "." if point else ","


def _turning(plain: Sequence[str], counts: npt.NDArray[np.intp] | None) -> npt.NDArray[np.bool_]:
    """Tell which few numbers alone say that the points of all others part thousands: 1.234.567 among 1.234 and 2.5."""
    turning = np.array([PLAIN.fullmatch(text) is None for text in plain], dtype=np.bool_)
    turned = np.array(["." in text for text in plain], dtype=np.bool_) & ~turning
    either = turning | turned
    if not turning.any() or not turned.any() or not all(COMMA.fullmatch(text) for text in plain):
        return np.zeros(len(plain), dtype=np.bool_)
    rows = np.ones(len(plain), np.intp) if counts is None else counts
    return turning & are_few(turning[either], rows[either])


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
