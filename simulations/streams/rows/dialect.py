"""How a csv file is written: what stands between its fields, and before the fraction of a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from kernelswarm.simulations.streams.rows.encoding.few import SHARE
from kernelswarm.simulations.streams.rows.encoding.numerals import way_of
from kernelswarm.simulations.streams.written.head import (
    head_of,
    is_number,
    lines_of,
    numbered,
    records,
    separator_of,
    texts_of,
)

AUTO = "auto"
DELIMITERS = ",;\t|"
"""The delimiters that are tried where none is given; the first of those that suit equally."""

BLANK = " "
"""Any blanks and tabs together, as they part what programs print in columns."""

BLANKS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
ENDS = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)|(?<=^#)[ \t]+", re.MULTILINE)

FRACTION = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """A character between fields, "." or "," before fractions, and whether tabs stand for blanks in the file."""

    delimiter: str
    decimal: str
    blanks: bool = False


def dialect_of(content: bytes, delimiter: str, decimal: str, skip: int | str = AUTO) -> Dialect:
    """Return how a csv file is written, as far as it is left "auto".

    The delimiter is the one that a first line such as sep=; names, or else the one that splits the header and the line
    below it into equally many fields, and into most. A comma stands before fractions where some number shows that it
    does, such as 0,5 or 12,25: not 1,234, which may be a thousand, and not beside numbers with points. Whatever else
    the file holds is left to those that read it, and refuse it.

    Parameters
    ----------
    content : bytes
        What the file begins with, in UTF-8.
    delimiter, decimal : str
        The given keys.
    skip : int or "auto"
        The number of lines above its header, where given.
    """
    if AUTO not in (delimiter, decimal):
        return Dialect(delimiter, decimal)
    lines = texts_of(lines_of(content))
    if delimiter == AUTO:
        possible = [mark for mark in DELIMITERS if mark != decimal]
        delimiter = separator_of(lines) or max(possible, key=lambda mark: _suits(lines, mark, skip))
    if decimal == AUTO:
        decimal = "," if delimiter != "," and _has_commas(lines, delimiter, skip) else "."
    return Dialect(delimiter, decimal)


def is_parted_by_blanks(content: bytes, delimiter: str, skip: int | str = AUTO) -> bool:
    """Tell whether fields are parted by blanks, as given, or since nothing else parts them and blanks do.

    A comma may stand before all fractions then.
    """
    if delimiter != AUTO:
        return delimiter == BLANK
    lines = texts_of(lines_of(content))
    others = [mark for mark in DELIMITERS if _suits(lines, mark, skip)[0]]
    if separator_of(lines) or others not in ([], [","], ["\t"]) or (others == ["\t"] and not _holds_numbers(lines)):
        return False
    parted = texts_of(lines_of(with_tabs(content)))
    suits, _, mixed, count = _suits(parted, "\t", skip)
    same = {len(one.fields) for one in records(parted, 0, "\t")} == {count}
    return suits and (not others or (same and not mixed))


def _holds_numbers(lines: Sequence[str]) -> bool:
    """Whether a field between tabs of the first row is several numbers with blanks between them."""
    for row in records(lines, head_of(lines, "\t").skipped, "\t")[:1]:
        return any(len(words) > 2 and all(map(is_number, words)) for words in map(str.split, row.fields))
    return False


def with_tabs(content: bytes) -> bytes:
    """Return text with one tab in place of blanks and tabs between fields, but in quotes, and none at ends of lines."""
    return BLANKS.sub(lambda found: found[1] or b"\t", ENDS.sub(b"", content))


def _suits(lines: Sequence[str], delimiter: str, skip: int | str) -> tuple[bool, bool, int, int]:
    """Say whether a delimiter makes as many fields of the header as of the line below it, and how well it does."""
    head = head_of(lines, delimiter, skip)
    rows = [one.fields for one in records(lines, head.skipped, delimiter)[:2]]
    named = bool(head.names) and head.names != numbered(len(head.names))
    if named:
        rows = [list(head.names), *rows[:1]]
    counts = [len(fields) for fields in rows]
    others = DELIMITERS.replace(delimiter, "")
    mixed = sum(
        any(mark in field for mark in others) and not FRACTION.fullmatch(field.strip())
        for fields in rows
        for field in fields
    )
    return len(set(counts)) == 1 and counts[0] > 1, not named, -mixed, max(counts, default=0)


def _has_commas(lines: Sequence[str], delimiter: str, skip: int | str) -> bool:
    """Tell whether a comma stands before fractions: more than few numbers of a column say so, and of none a point."""
    head = head_of(lines, delimiter, skip)
    rows = records(lines, head.skipped, delimiter, most=len(lines))[0 if head.names else 1 :]
    commas = False
    for column in zip_longest(*(row.fields for row in rows), fillvalue=""):
        fields = [field.strip() for field in column if field.strip()]
        points = sum("." in field and (POINT.fullmatch(field) is not None or way_of(field) == ".") for field in fields)
        if SHARE * points > len(fields):
            return False
        shown = sum(FRACTION.fullmatch(field) is not None and not THOUSANDS.fullmatch(field) for field in fields)
        commas |= SHARE * shown > len(fields)
    return commas
