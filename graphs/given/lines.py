"""Lines of a text file as fields: separated by semicolons, tabs, commas or blanks, in quotes or not, with comments."""

from __future__ import annotations

import csv
import re
from itertools import islice
from typing import NamedTuple

COMMENT = re.compile(r"(?:^\s*[%#]|(?<=[\s\d])#).*$")
ATTRIBUTES = re.compile(r"\{.*\}\s*$")  # as networkx writes those of an edge
NUMBERS = re.compile(r"[+-]?\d+\s+[+-]?\d+")
TABS = re.compile(r" *\t\s*")
LINES = re.compile(r"\r\n|\r|\n")
"""The ends of lines; some that Python takes for such may stand in names."""

MARKS = ";\t,"
"""What separates fields, other than blanks."""

LOOKED_AT = 1000
"""Lines by which it is found out what separates fields."""


class Line(NamedTuple):
    """A line of a file that holds something: its number and its fields."""

    number: int
    fields: list[str]


def lines_of(text: str) -> list[Line]:
    """Return the lines of a file that hold something, without comments.

    Examples
    --------
    >>> [line.fields for line in lines_of('# edges\\n"New York",Berlin\\nBonn, Rome # by air\\n')]
    [['New York', 'Berlin'], ['Bonn', 'Rome']]
    >>> [line.fields for line in lines_of('0 1 {"w": 1, "x": 2}\\n1\\t2')]
    [['0', '1'], ['1', '2']]
    """
    kept, cut = [], []
    for number, line in enumerate(LINES.split(text), start=1):
        whole = line
        if "#" in line or "%" in line:
            line = COMMENT.sub("", line) if '"' not in line or line.lstrip()[0] in "#%" else line
        if line.strip() and line != whole:
            cut.append((number, whole, whole[len(line) :]))
        if "{" in line:
            line = ATTRIBUTES.sub("", line)
        if line.strip():
            kept.append((number, line))
    mark = separator([line for _, line in islice(kept, LOOKED_AT)])
    for number, line, comment in cut:
        attached = not comment[1:2].isspace()
        if (attached and any(other in comment for other in MARKS)) or (mark != " " and (attached or mark in comment)):
            raise ValueError(
                f"line {number}, {line.strip()!r}, has a comment or a name with #: write names with # in double "
                "quotes, and comments in lines of their own"
            )
    return [Line(number, _fields(number, line, mark)) for number, line in kept]


def _fields(number: int, line: str, mark: str) -> list[str]:
    if '"' in line:
        plain = line.replace("\t", " ") if mark == " " else line
        try:
            (fields,) = csv.reader([plain.strip(" ")], delimiter=mark, skipinitialspace=True, strict=True)
        except csv.Error as error:
            raise ValueError(
                f"line {number}, {line.strip()[:60]!r}, is not readable ({error}): write each name in one line, and a "
                'double quote in it twice, as in "the ""old"" bridge"'
            ) from error
    elif mark == " " or (mark not in line and NUMBERS.fullmatch(line.strip())):
        return line.split()
    else:
        fields = TABS.split(line) if mark == "\t" else line.split(mark)
    fields = [field.strip() for field in fields]
    while len(fields) > 2 and not fields[-1]:  # of columns that other lines fill
        del fields[-1]
    return fields


def separator(lines: list[str]) -> str:
    """Return the delimiter of the fields of lines: the first of ``;``, tab and ``,`` that any has, blanks otherwise."""
    for mark in MARKS:
        parted = [line for line in lines if mark in re.sub(r'"[^"]*"', "", line)]
        if parted and not any(NUMBERS.match(line.partition(mark)[0].strip()) for line in parted):
            return mark
    return " "
