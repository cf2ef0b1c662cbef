"""Errors for a few entries in a column of text that do not fit the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.core.data_description import HELD, CodedColumn
from kernelswarm.simulations.core.errors import shown, toml
from kernelswarm.simulations.data.csv_dialect import THOUSANDS
from kernelswarm.simulations.data.text import Entries, Mark, Unlike, looks_numeric, no_truths, odd_among, odd_ones
from kernelswarm.simulations.data.times import is_called_by_time, of_text

#: A number with a decimal comma, such as 120,43 or -1,5e-3.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")

#: A number with points between thousands, such as 1.234.567.
POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3}){2,}(,\d*)?")

NO_NUMBER = "not a number"

COUNTING = "the first row of data is row 1"

LEAVE_OUT = "correct it, or leave the column out with stream.drop"
"""The remedy for an input."""

FEW = 5
"""Maximum number of words named in a remedy."""


class OddWords(ValueError):
    """Raised for odd ``words`` of a ``column`` with ``others`` other distinct entries."""

    def __init__(self, text: str, column: str, words: tuple[str, ...], others: int) -> None:
        super().__init__(text)
        self.column, self.words, self.others = column, words, others


class Odd(NamedTuple):
    """The distinct odd words of a column, the first of them, and a sentence about them."""

    words: tuple[str, ...]
    row: int
    word: str
    what: str


def odd_in(found: Entries, mark: Mark = "", wanted: CodedColumn | None = None, name: str = "") -> Odd:
    """Return the words of a column that differ in kind from most others or from the required kind.

    Without a majority, the odd words are the non-numbers; if there are none, all words.

    Parameters
    ----------
    found : Entries
        All words of the column.
    mark : {"", ".", ","}
        The decimal mark, if known.
    wanted
        The required kind, if known.
    name
        The name of the column.
    """
    words, counts = found.words, found.counts
    kind = None if wanted is None else wanted.kind
    unlike = odd_among(words, counts, is_called_by_time(name), mark) if wanted is None else None
    if wanted is not None and kind in ("time", "clock"):
        read = of_text(words, counts, named=kind == "time", written=wanted.written, kind=kind)
        unlike = Unlike(read.odd, HELD[kind])
    elif kind == "truth":
        unlike = Unlike(no_truths(words), HELD[kind])
    elif unlike is None:
        unlike = Unlike(odd_ones(words, mark, counts), HELD["number"])
    odd = unlike.odd
    if not odd.any():  # 1,234 may be one of two numbers
        odd = np.array([not is_number(word) for word in words], dtype=np.bool_)
    odd = odd if odd.any() else ~odd
    row, place = min((int(found.rows[place]), int(place)) for place in np.flatnonzero(odd))
    others = int(counts[~odd].sum())
    beside = f", where the other {others:,} entries are {unlike.others}"
    if unlike.others == HELD["number"] and not looks_numeric(words[place]):
        beside = f", which is {NO_NUMBER}{', beside numbers' * bool(others)}"
    elif others:
        beside += f", such as {shown(words[int(np.argmax(~odd))])}"
    else:
        beside = f", which is {NO_NUMBER}" if unlike.others == HELD["number"] else f", and not {unlike.others}"
    return Odd(tuple(word for word, is_odd in zip(words, odd, strict=True) if is_odd), row, words[place], beside)


def refusal(name: str, column: str, odd: Odd, found: Entries, is_target: bool, cure: str = "") -> OddWords:
    """Return the error for a few words of a column, with remedies, or with the ``cure`` alone."""
    text = f"{name}: row {odd.row}, column {shown(column)} holds {shown(odd.word)}{odd.what} ({COUNTING})"
    usual = remedy(odd.word, is_target)
    others = len(found.words) - len(odd.words)
    words = odd.words if len(odd.words) <= FEW and not any(map(str.isdigit, "".join(odd.words))) else (odd.word,)
    named = ", ".join(map(shown, words))
    them, stand = ("it", "it stands") if len(words) == 1 else ("them", "they stand")
    # A number may be an ordinary value of another column.
    codes = toml({column: list(words)}) if any(map(looks_numeric, words)) else f"[{named}]"
    gap = f", or name {them} in stream.na_values = {codes} if {stand} for a gap" if others else ""
    may_name = gap and usual == LEAVE_OUT and len(odd.words) > 1
    gap += f", or set stream.node_column = {shown(column)} if they name nodes" if may_name else ""
    return OddWords(f"{text}: {cure or usual + gap}", column, odd.words if others else (), others)


def remedy(value: Any, is_target: bool) -> str:
    """Return the remedy for a value that is not a number."""
    if isinstance(value, str) and THOUSANDS.fullmatch(value.strip()):
        return (
            'set stream.decimal = "." if the commas part thousands, as in 1,234 for 1234, or "," if they stand before '
            "fractions"
        )
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return 'set stream.decimal = "," for a csv file whose numbers have decimal commas, or write a point'
    if isinstance(value, str) and POINTS.fullmatch(value.strip()):
        return 'correct it, or set stream.decimal = "," for a csv file in which points part thousands'
    if is_target:
        return 'correct it, or set stream.task = "classification" if it is the label of a class'
    return LEAVE_OUT


def first_word(values: Sequence[Any]) -> tuple[int, Any]:
    """Return row, from 1, and value of the first entry that is not a number, or of the first entry if all are."""
    for row, value in enumerate(values, start=1):
        if value is not None and not is_number(value):
            return row, value
    return next((row, value) for row, value in enumerate(values, start=1) if value is not None)


def is_dressed(text: str) -> bool:
    """Tell whether text is a number with thousands separators or a percent sign."""
    return looks_numeric(text) and not is_number(text)


def is_number(value: Any) -> bool:
    """Tell whether a field of a table can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
