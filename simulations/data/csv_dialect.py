"""The dialect of a csv file: delimiter, decimal mark, header and lines of units."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from kernelswarm.simulations.data.text import WRITTEN, way_of
from kernelswarm.simulations.data.times import SHARE

# Lines of units, which loggers write between the header and the rows of a csv file.

MOST = 2
"""Maximum number of such lines: units, and aggregations such as "Avg"."""

LEAST_ROWS, LEAST_COLUMNS = 3, 2
"""Minimum number of rows below, and of columns of numbers with a word in the line."""

NUMERIC = re.compile(r"[+-]?\.?\d")
"""The beginning of values and dates, but never of units."""


FORMAT = re.compile(r"\d+[snd]", re.IGNORECASE)
"""Width and type of a column, such as 14n, below the header of USGS tables (RDB)."""

UNIT = re.compile(r"[^\W\d_]|[%°‰]")
"""Characters of units; dashes mean no unit."""


def lines_of_units(
    below: Sequence[Sequence[str]], is_number: Callable[[str], bool], gaps: Collection[str]
) -> list[Sequence[str]]:
    """Return the lines of units below a header, which have words above columns of numbers.

    All fields of such a line are words or empty. At least two columns of numbers have a word that is not a code for
    gaps, and in columns of text the word does not occur in later rows. A line of column widths and types also counts.

    Parameters
    ----------
    below : sequence of sequence of str
        The fields of the lines below the header.
    is_number : callable
        Returns whether a field is a number.
    gaps : collection of str
        The codes for gaps.
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
    """Describe the lines of units by column, without empty entries."""
    each = [f"{name.strip()} {unit}" for name, unit in zip(names, units, strict=True) if unit.strip(" -")]
    return f"{', '.join(each)}: a line below the header is no row"


# The header of a csv file: below comments and other lines, or in a comment.

AUTO = "auto"

LOOKED_AT = 2**20
"""Number of bytes at the beginning of a file that are examined."""

RECORDS, MOST_ABOVE = 1000, 50
"""Maximum number of examined lines, and of lines above a header that is found automatically."""

COMMENT = "#"
SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""A first line that declares the delimiter for Excel."""

GAPS = {"?", "NA", "nan", "NaN"}
"""Codes for gaps in a first row of numbers; an empty field may be the name of an index instead."""

TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?")
"""Dates and times; a header may contain them, but not above columns of dates and times."""

LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Head(NamedTuple):
    """The lines above the rows of a csv file.

    Parameters
    ----------
    skipped : int
        Number of lines above the header, or above the first row if ``names`` is not empty.
    names : tuple of str
        The columns' names if the file has no plain header just above the rows; empty if it has one.
    units : tuple of str
        The content of lines of units for each column; empty without such lines.
    """

    skipped: int
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()


class Record(NamedTuple):
    """The fields of a row, and the number of its first line."""

    line: int
    fields: list[str]


def lines_of(content: bytes) -> list[bytes]:
    """Return the first lines of a file, with line ends."""
    found = LINE.findall(content[:LOOKED_AT])
    return found[:-1] if len(content) > LOOKED_AT and len(found) > 1 else found  # the last line may be incomplete


def texts_of(lines: Sequence[bytes]) -> list[str]:
    """Return lines as text without line ends."""
    return [
        line.decode("utf-8-sig" if not place else "utf-8", "replace").rstrip("\r\n") for place, line in enumerate(lines)
    ]


def separator_of(lines: Sequence[str]) -> str:
    """Return the delimiter declared in the first line; empty without a declaration."""
    found = SEPARATOR.fullmatch(lines[0].strip(" ")) if lines else None
    return found.group(1) if found else ""


def head_of(lines: Sequence[str], delimiter: str, skip: int | str = AUTO) -> Head:
    """Find the header of a csv file.

    The first line is the header, with the following exceptions. A first line may declare the delimiter. Lines may begin
    with "#": the last of them is the header if it has as many fields as the line below it, which has a number. At most
    50 lines may precede the header; they have fewer or more fields than the table or mostly empty fields, and the first
    of them has no number. If the header has one field less than all rows, and the rows' first fields are a count or
    distinct words, the header lacks the name of the index, as in R's tables. If the first line has numbers, and each of
    its words occurs again below or is a time like the ones below, it is a row: there is no header, and the columns are
    named x1, x2, ... Equally spaced whole numbers, such as 0, 1, 2 of pandas or years, are a header. Words below the
    header, above columns of numbers, are :func:`units <kernelswarm.simulations.data.csv_dialect.lines_of_units>`.

    Parameters
    ----------
    lines : sequence of str
        The first lines of the file.
    delimiter : str
        The delimiter.
    skip : int or "auto"
        The number of lines above the header, or "auto".
    """
    head = _head_of(lines, delimiter, skip)
    if head.names:
        return head
    found = records(lines, head.skipped, delimiter)
    rows = [one.fields for one in found]
    if _are_rows(rows):
        return Head(head.skipped, numbered(len(rows[0])))
    above = lines_of_units(rows[1:], is_number, GAPS.union(WRITTEN))
    if not above:
        return head
    units = (" ".join(filter(None, map(str.strip, column))) for column in zip(*above, strict=True))
    return Head(found[1 + len(above)].line, tuple(rows[0]), tuple(units))


def _head_of(lines: Sequence[str], delimiter: str, skip: int | str) -> Head:
    """Find the header, without the lines of units."""
    if skip != AUTO:
        return Head(int(skip))
    start = 1 if separator_of(lines) else 0
    first = next((at for at in range(start, len(lines)) if not lines[at].lstrip().startswith(COMMENT)), len(lines))
    found = [one for one in records(lines, first, delimiter) if not one.fields[0].lstrip().startswith(COMMENT)]
    if len(found) < 1:
        return Head(start)
    if first > start and _holds_number(found[0].fields):
        names = records(lines[:first], first - 1, delimiter)
        if names and len(names[0].fields) == len(found[0].fields) > 1:
            return Head(first, (names[0].fields[0].lstrip(f" {COMMENT}"), *names[0].fields[1:]))
    wide = Counter(len(one.fields) for one in found).most_common(1)[0][0]
    at = next((at for at, one in enumerate(found) if len(one.fields) == wide and _is_full(one.fields)), 0)
    if not at or wide == 1:
        return Head(first)
    if not _holds_number(found[at].fields):
        return Head(found[at].line) if at <= MOST_ABOVE else Head(first)
    if at == 1 and len(found[0].fields) == wide - 1 and _are_indexed([one.fields for one in found[1:]]):
        return Head(found[1].line, ("", *found[0].fields))
    return Head(first)


def records(lines: Sequence[str], start: int, delimiter: str, most: int = RECORDS) -> list[Record]:
    """Return the non-empty rows of at most ``most`` lines; an empty list if the csv module raises an error."""
    reader = csv.reader(lines[start : start + most], delimiter=delimiter)
    found, line = [], start
    try:
        for fields in reader:
            if fields:
                found.append(Record(line, fields))
            line = start + reader.line_num
    except csv.Error:  # the reader of the file raises an error
        return []
    return found


def is_number(field: str) -> bool:
    """Tell whether a field is a number with a decimal point or comma."""
    try:
        float(field.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def numbered(count: int) -> tuple[str, ...]:
    """Return the names x1, x2, ... of unnamed columns."""
    return tuple(f"x{place}" for place in range(1, count + 1))


def _are_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first line has numbers, and otherwise only times, gaps and words that occur again below."""
    if not rows or not _holds_number(rows[0]) or _count(rows[0]):
        return False
    return all(
        is_number(field)
        or field.strip() in GAPS
        or any(
            field == row[place] or (TIME.fullmatch(field) and TIME.fullmatch(row[place]))
            for row in rows[1:]
            if len(row) == len(rows[0])
        )
        for place, field in enumerate(rows[0])
    )


def _count(fields: Sequence[str]) -> bool:
    """Tell whether fields are equally spaced increasing whole numbers."""
    if len(fields) < 2 or not all(field.strip().isdecimal() for field in fields):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(fields)}
    return len(steps) == 1 and steps.pop() > 0


def _holds_number(fields: Sequence[str]) -> bool:
    return any(map(is_number, fields))


def _is_full(fields: Sequence[str]) -> bool:
    """Tell whether at most one field is empty, as the name of an index may be."""
    empty = sum(not field.strip() for field in fields)
    return empty <= (1 if len(fields) > 2 else 0)


def _are_indexed(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the rows' first fields are a count or distinct words, and no row ends with an empty field."""
    first = [row[0].strip() for row in rows]
    if len(rows) < 2 or any(not row[-1].strip() for row in rows):
        return False
    if any(map(is_number, first)):
        return first in ([str(at + begin) for at in range(len(first))] for begin in (0, 1))
    return len(set(first)) == len(first) and "" not in first


DELIMITERS = ",;\t|"
"""The delimiters that are tried by default; the first of equally good ones is taken."""

BLANK = " "
"""The delimiter of columns that are aligned by blanks and tabs."""

BLANKS = re.compile(rb'("[^"\r\n]*")|[ \t]+')
ENDS = re.compile(rb"^[ \t]+|[ \t]+(?=\r?$)|(?<=^#)[ \t]+", re.MULTILINE)

FRACTION = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """Delimiter, decimal mark ("." or ","), and whether blanks were replaced by tabs."""

    delimiter: str
    decimal: str
    blanks: bool = False


def dialect_of(content: bytes, delimiter: str, decimal: str, skip: int | str = AUTO) -> Dialect:
    """Detect the parts of a csv file's dialect that are "auto".

    The delimiter is declared by a first line such as sep=;, or else is the one that splits the header and the line
    below it into the same largest number of fields. The decimal mark is a comma if some number shows it, such as 0,5 or
    12,25. The number 1,234 does not show it, since the comma may separate thousands; nor is the mark a comma if more
    than a few numbers have points. Other errors are left to the reader of the file.

    Parameters
    ----------
    content : bytes
        The beginning of the file, in UTF-8.
    delimiter, decimal : str
        The given keys.
    skip : int or "auto"
        The number of lines above the header, or "auto".
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
    """Tell whether blanks separate the fields, by the given key or because no other delimiter does.

    The decimal mark may then be a comma.
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
    """Tell whether a tab-separated field of the first row has several numbers separated by blanks."""
    for row in records(lines, head_of(lines, "\t").skipped, "\t")[:1]:
        return any(len(words) > 2 and all(map(is_number, words)) for words in map(str.split, row.fields))
    return False


def with_tabs(content: bytes) -> bytes:
    """Replace blanks and tabs between unquoted fields by one tab, and remove them at line ends."""
    return BLANKS.sub(lambda found: found[1] or b"\t", ENDS.sub(b"", content))


def _suits(lines: Sequence[str], delimiter: str, skip: int | str) -> tuple[bool, bool, int, int]:
    """Score a delimiter; it suits if the header and the line below have the same number of fields."""
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
    """Tell whether the decimal mark is a comma: several numbers of a column show it, and at most few have points."""
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
