"""How a csv file is written: what stands between its fields, and before the fraction of a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelswarm.simulations.streams.written.head import head_of, lines_of, records, separator_of, texts_of

AUTO = "auto"
DELIMITERS = ",;\t|"
"""What may stand between fields where it is not said; the first of those that suit equally."""

BLANK = " "
"""Any blanks and tabs together, as they part what programs print in columns."""

BLANKS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
ENDS = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)|(?<=^#)[ \t]+", re.MULTILINE)

FRACTION = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """A character between fields, and "." or "," before fractions."""

    delimiter: str
    decimal: str


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
        What is said of it.
    skip : int or "auto"
        How many lines stand above its header, where that is said.
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
    """Tell whether fields are parted by blanks, as is said, or since nothing else parts them and blanks do."""
    if delimiter != AUTO:
        return delimiter == BLANK
    lines = texts_of(lines_of(content))
    if separator_of(lines) or any(_suits(lines, mark, skip)[0] for mark in DELIMITERS):
        return False
    return _suits(texts_of(lines_of(with_tabs(content))), "\t", skip)[0]


def with_tabs(content: bytes) -> bytes:
    """Return text with one tab in place of blanks and tabs between fields, but in quotes, and none at ends of lines."""
    return BLANKS.sub(lambda found: found[1] or b"\t", ENDS.sub(b"", content))


def _suits(lines: Sequence[str], delimiter: str, skip: int | str) -> tuple[bool, bool, int]:
    head = head_of(lines, delimiter, skip)
    counts = [len(one.fields) for one in records(lines, head.skipped, delimiter)[:2]]
    if head.names:
        counts = [len(head.names), *counts[:1]]
    return len(set(counts)) == 1 and counts[0] > 1, not head.names, max(counts, default=0)


def _has_commas(lines: Sequence[str], delimiter: str, skip: int | str) -> bool:
    head = head_of(lines, delimiter, skip)
    rows = records(lines, head.skipped, delimiter, most=len(lines))[0 if head.names else 1 :]
    fields = [field.strip() for row in rows for field in row.fields]
    if any(POINT.fullmatch(field) for field in fields):
        return False
    return any(FRACTION.fullmatch(field) and not THOUSANDS.fullmatch(field) for field in fields)
