"""Lines between the header of a csv file and its rows, in which loggers write the units of the columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

MOST = 2
"""Lines of the kind, at most: units, and how values were made of others, such as "Avg"."""

LEAST_ROWS, LEAST_COLUMNS = 3, 2
"""Rows below them, and columns of numbers that have words in them, at least."""

NUMERIC = re.compile(r"[+-]?\.?\d")
"""What a value begins with, a date too, and a unit never does."""


FORMAT = re.compile(r"\d+[snd]", re.IGNORECASE)
"""Width and type of a column, such as 14n, as tables of the USGS (RDB) have them below the header."""

UNIT = re.compile(r"[^\W\d_]|[%°‰]")
"""What a unit holds; dashes stand for none."""


def lines_of_units(
    below: Sequence[Sequence[str]], is_number: Callable[[str], bool], gaps: Collection[str]
) -> list[Sequence[str]]:
    """Return the lines below a header that are no rows: they hold words above columns of nothing but numbers.

    All their fields are words or empty, in two columns of numbers at least they are words that stand for no gap, and
    none comes again below, where the column holds text. A line of nothing but widths and types is one, too.

    Parameters
    ----------
    below : sequence of sequence of str
        The fields of the lines below the header.
    is_number : callable
        Whether a field is a number.
    gaps : collection of str
        What stands for a gap.
    """
    if below and len(below[0]) > 1 and all(FORMAT.fullmatch(field.strip()) for field in below[0]):
        return [below[0]]
    for count in range(1, MOST + 1):
        lines, rows = below[:count], below[count:]
        if len(rows) >= LEAST_ROWS and all(_is_of_units(line, rows, is_number, gaps) for line in lines):
            return list(lines)
    return []


def _is_of_units(
    line: Sequence[str], rows: Sequence[Sequence[str]], is_number: Callable[[str], bool], gaps: Collection[str]
) -> bool:
    if any(NUMERIC.match(field.strip()) for field in line) or any(len(row) != len(line) for row in rows):
        return False
    words = 0
    for field, *column in zip(line, *rows, strict=True):
        word, values = field.strip(), {value.strip() for value in column}
        known = {value for value in values if value and value not in gaps}
        if known and all(map(is_number, known)):
            words += word not in gaps and UNIT.search(word) is not None
        elif word and word in values:
            return False
    return words >= LEAST_COLUMNS


def in_words(names: Sequence[str], units: Sequence[str]) -> str:
    """Say what the lines hold, for the columns in which they hold something."""
    each = [f"{name.strip()} {unit}" for name, unit in zip(names, units, strict=True) if unit.strip(" -")]
    return f"{', '.join(each)}: a line below the header is no row"
