"""How a file is read when only its path is given: target, encoding, gaps, and columns that are no inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.data.columns import ManyWords, NoTarget
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.frames import are_names
from kernelswarm.simulations.data.gaps import are_gaps, as_key
from kernelswarm.simulations.data.odd_entries import OddWords
from kernelswarm.simulations.data.reading import AUTO, WINDOWS, NotUTF8
from kernelswarm.simulations.data.rows import Rows, numbering, suspected_gaps

TARGETS = {"y", "target", "label", "class"}
"""What targets are called, in any case: the only column of such a name is one."""

MOST_CLASSES = 10
"""Among so few different numbers a word may be one more class."""

MOST_WORDS = 3
"""Different words for gaps in a column of numbers, at most: "Ice" and "Eqp" of a frozen and of a broken gauge."""


NUMERIC = re.compile(r"(?!0+([-/.]0+)+( 0+(:0+)*)?$).*\d")
"""Text with a digit, which is mistyped rather; 0000-00-00 is no day."""


class Guess(NamedTuple):
    """A file with its reading options, its content, and the columns left out by content."""

    file: File
    rows: Rows
    test: Rows | None
    words: tuple[str, ...] = ()  # columns that hold too many words
    empty: tuple[str, ...] = ()  # columns without a value
    counters: tuple[str, ...] = ()  # columns that count the rows

    def without(self, names: Sequence[str]) -> Guess:
        """Leave inputs out."""
        if not names:
            return self
        rows, file = self.rows, self.file
        kept = [place for place, column in enumerate(rows.columns) if column not in names]
        held = tuple(rows.held[place] for place in kept) if rows.kinds else ()
        columns = tuple(rows.columns[place] for place in kept)
        rows = replace(rows, points=rows.points[:, kept], columns=columns, kinds=held)
        return self._replace(rows=rows, file=replace(file, drop=(*file.drop, *names)))


def guess(file: File) -> Guess:
    """Read a file, and find what its keys leave open.

    Raises
    ------
    ValueError
        Rows cannot be read, and nothing tells how they would be.
    """
    words: tuple[str, ...] = ()
    odd = dict(file.na_values) if isinstance(file.na_values, dict) else {}
    try:
        rows, test = file.read()
    except OddWords as error:
        gaps = error.words
        if not 1 <= len(gaps) <= MOST_WORDS or error.column in odd or any(NUMERIC.match(gap) for gap in gaps):
            raise
        if error.others <= MOST_CLASSES:
            raise  # a class, as in 1, X, 2, rather
        found = guess(replace(file, na_values=odd | {error.column: gaps[0] if len(gaps) == 1 else gaps}))
        if any(found.rows.codes[shown(word)] < 2 for word in gaps):
            raise  # mistyped, rather
        return found
    except NoTarget as error:
        usual = [column for column in error.columns if column.lower() in TARGETS]
        if len(usual) != 1:
            raise
        return guess(replace(file, target=usual[0]))
    except NotUTF8 as error:
        if file.encoding != AUTO or "null byte" in str(error):
            raise
        return guess(replace(file, encoding=WINDOWS))
    except ManyWords as error:
        if file.features or not error.others:
            raise
        words = tuple(error.words)
        file = replace(file, drop=(*file.drop, *words))
        rows, test = file.read()
    codes = as_key(suspected_gaps(rows), odd)
    if codes != file.na_values and (odd or not file.na_values):  # others are as the user says
        file = replace(file, na_values=codes)
        rows, test = file.read()
    found = Guess(file, rows, test, words)
    empty = _unasked(found, _empty(rows))
    found = found.without(empty)
    counters = _unasked(found, numbering(found.rows).by_name)
    return found.without(counters)._replace(empty=empty, counters=counters)


def _unasked(found: Guess, names: Sequence[str]) -> tuple[str, ...]:
    """Return inputs that may be left out: columns that were not asked for, or none if no input would remain."""
    return () if found.file.features or len(names) == len(found.rows.columns) else tuple(names)


def _empty(rows: Rows) -> list[str]:
    """Return the inputs with names that have no value in any row."""
    if not are_names(rows.columns):
        return []
    gaps = are_gaps(rows.points)
    return [column for k, column in enumerate(rows.columns) if gaps[:, k].all()]
