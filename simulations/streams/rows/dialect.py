"""How a csv file is written: what stands between its fields, and before the fraction of a number."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

from kernelswarm.simulations.streams.rows.reading import binary

AUTO = "auto"
DELIMITERS = ",;\t|"
"""What may stand between fields where it is not said; the first of those that suit equally."""

LOOKED_AT = 2**20
"""Bytes that a file is judged by, from its beginning."""

FRACTION = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


class Dialect(NamedTuple):
    """A character between fields, and "." or "," before fractions."""

    delimiter: str
    decimal: str


def dialect_of(name: str, path: Path, delimiter: str, decimal: str) -> Dialect:
    """Return how a csv file is written, as far as it is left "auto".

    The delimiter is the one that splits the first two lines into equally many fields, and into most. A comma stands
    before fractions where some number shows that it does, such as 0,5 or 12,25: not 1,234, which may be a thousand, and
    not beside numbers with points. Whatever else the file holds is left to those that read it, and refuse it.

    Parameters
    ----------
    name : str
        How messages name the file.
    path : Path
        The file, compressed with gzip or not.
    delimiter, decimal : str
        What is said of it.

    Raises
    ------
    ValueError
        The compressed data turns out to be damaged.
    """
    if AUTO not in (delimiter, decimal):
        return Dialect(delimiter, decimal)
    with binary(name, path) as file:
        start = file.read(LOOKED_AT)
    lines = start.decode("utf-8-sig", errors="replace").splitlines()
    if len(start) == LOOKED_AT and len(lines) > 1:
        del lines[-1]  # which may be cut
    if delimiter == AUTO:
        possible = [mark for mark in DELIMITERS if mark != decimal]
        delimiter = max(possible, key=lambda mark: _suits(lines[:2], mark))
    if decimal == AUTO:
        decimal = "," if delimiter != "," and _has_commas(lines[1:], delimiter) else "."
    return Dialect(delimiter, decimal)


def _suits(lines: list[str], delimiter: str) -> tuple[bool, int]:
    counts = [len(fields) for fields in _fields(lines, delimiter)]
    return len(set(counts)) == 1 and counts[0] > 1, max(counts, default=0)


def _has_commas(lines: list[str], delimiter: str) -> bool:
    fields = [field.strip() for row in _fields(lines, delimiter) for field in row]
    if any(POINT.fullmatch(field) for field in fields):
        return False
    return any(FRACTION.fullmatch(field) and not THOUSANDS.fullmatch(field) for field in fields)


def _fields(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:  # a field of a hundred thousand characters, a null byte: the reader of the file says so
        return []
