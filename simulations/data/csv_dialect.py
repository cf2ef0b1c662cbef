"""How a csv file is written: what stands between its fields, and before the fraction of a number."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from kernelswarm.simulations.data.text import WRITTEN, way_of
from kernelswarm.simulations.data.times import SHARE

# Lines between the header of a csv file and its rows, in which loggers write the units of the columns.

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
    """Describe lines of units by column, without empty ones."""
    each = [f"{name.strip()} {unit}" for name, unit in zip(names, units, strict=True) if unit.strip(" -")]
    return f"{', '.join(each)}: a line below the header is no row"


# Where the header of a csv file is: below comments and other lines, or in a comment itself.

AUTO = "auto"

LOOKED_AT = 2**20
"""Bytes that a file is judged by, from its beginning."""

RECORDS, MOST_ABOVE = 1000, 50
"""Lines that are looked at, and lines that may stand above a header that is not named by its line, at most."""

COMMENT = "#"
SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""A first line that says for Excel what stands between fields."""

GAPS = {"?", "NA", "nan", "NaN"}
"""What stands in a first row in place of a number; an empty field may be the name of an index."""

TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?")
"""What looks as dates and times do; in a header they stand above something else."""

LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Head(NamedTuple):
    """What stands above the rows of a csv file.

    Parameters
    ----------
    skipped : int
        Lines above the header, or, where the columns have names here, above the first row.
    names : tuple of str
        The columns, where no line holds them as it stands, or none just above the rows; empty where the header does.
    units : tuple of str
        What lines between the header and the rows say of each column; empty without such lines.
    """

    skipped: int
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()


class Record(NamedTuple):
    """The fields of a row, and the line that it begins in."""

    line: int
    fields: list[str]


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines that a file begins with, each with its end."""
    found = LINE.findall(content[:LOOKED_AT])
    return found[:-1] if len(content) > LOOKED_AT and len(found) > 1 else found  # the last may be cut


def texts_of(lines: Sequence[bytes]) -> list[str]:
    """Return lines as text, without their ends."""
    return [
        line.decode("utf-8-sig" if not place else "utf-8", "replace").rstrip("\r\n") for place, line in enumerate(lines)
    ]


def separator_of(lines: Sequence[str]) -> str:
    """Return the delimiter declared in the first line, or an empty text without a declaration."""
    found = SEPARATOR.fullmatch(lines[0].strip(" ")) if lines else None
    return found.group(1) if found else ""


def head_of(lines: Sequence[str], delimiter: str, skip: int | str = AUTO) -> Head:
    """Find the header of a csv file.

    Nothing but what cannot be meant otherwise is taken for something else than the header: a first line that names
    the separator; lines that begin with "#", the last of which is the header where it has as many fields as the line
    below it, which holds a number; at most 50 lines with fewer or more fields than the table below them, or fields
    that are mostly empty, whose first line holds no number. A header with one field less than all rows, whose first
    fields count them or are words that differ, lacks the name of the index, as R writes tables. A first line of
    numbers, in which all words come again below, or are times as those below, is a row: there is no header, and the
    columns are x1, x2, ... Whole numbers at equal distances, such as 0, 1, 2 of pandas or years, are a header. Words
    below the header, above columns of numbers, are :func:`units
    <kernelswarm.simulations.data.csv_dialect.lines_of_units>`.

    Parameters
    ----------
    lines : sequence of str
        The lines that the file begins with.
    delimiter : str
        What stands between fields.
    skip : int or "auto"
        The number of lines above the header, where given.
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
    """Find the header where there is one."""
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
    """Return the rows of at most so many lines, without empty ones; none where the csv module refuses one."""
    reader = csv.reader(lines[start : start + most], delimiter=delimiter)
    found, line = [], start
    try:
        for fields in reader:
            if fields:
                found.append(Record(line, fields))
            line = start + reader.line_num
    except csv.Error:  # the reader of the file says so
        return []
    return found


def is_number(field: str) -> bool:
    """Whether a field is a number, with a point or a comma before its fraction."""
    try:
        float(field.replace(",", ".", 1))
    except ValueError:
        return False
    return True


def numbered(count: int) -> tuple[str, ...]:
    """Return names for columns that have none."""
    return tuple(f"x{place}" for place in range(1, count + 1))


def _are_rows(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some lines holds numbers, and besides only times, gaps, and words that come again below."""
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
    """Whether fields are whole numbers that rise in equal steps."""
    if len(fields) < 2 or not all(field.strip().isdecimal() for field in fields):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(fields)}
    return len(steps) == 1 and steps.pop() > 0


def _holds_number(fields: Sequence[str]) -> bool:
    return any(map(is_number, fields))


def _is_full(fields: Sequence[str]) -> bool:
    """Whether at most one field of some is empty: the name of an index may be."""
    empty = sum(not field.strip() for field in fields)
    return empty <= (1 if len(fields) > 2 else 0)


def _are_indexed(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first fields count rows or are words that differ, and no row ends in an empty field."""
    first = [row[0].strip() for row in rows]
    if len(rows) < 2 or any(not row[-1].strip() for row in rows):
        return False
    if any(map(is_number, first)):
        return first in ([str(at + begin) for at in range(len(first))] for begin in (0, 1))
    return len(set(first)) == len(first) and "" not in first


DELIMITERS = ",;\t|"
"""The delimiters that are tried if none is given; of equally good ones the first is taken."""

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
