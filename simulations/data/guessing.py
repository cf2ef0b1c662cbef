"""Guess how to read a file from its path: target, encoding, gaps, and columns that are not inputs."""

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
"""Usual names of targets, in lower case: the only column with such a name is the target."""

MOST_CLASSES = 10
"""With at most this many distinct numbers in a column, a word may be a further class."""

MOST_WORDS = 3
"""Maximum number of words for gaps in a column of numbers, such as "Ice" and "Eqp" for frozen and broken gauges."""


NUMERIC = re.compile(r"(?!0+([-/.]0+)+( 0+(:0+)*)?$).*\d")
"""Text with a digit, probably a mistyped number; 0000-00-00 is not a date."""


class Guess(NamedTuple):
    """A file with its reading options, its content, and the columns left out by content."""

    file: File
    rows: Rows
    test: Rows | None
    words: tuple[str, ...] = ()  # columns with too many words
    empty: tuple[str, ...] = ()  # columns without values
    counters: tuple[str, ...] = ()  # columns that count the rows

    def without(self, names: Sequence[str]) -> Guess:
        """Return the guess without some inputs."""
        if not names:
            return self
        rows, file = self.rows, self.file
        kept = [place for place, column in enumerate(rows.columns) if column not in names]
        held = tuple(rows.held[place] for place in kept) if rows.kinds else ()
        columns = tuple(rows.columns[place] for place in kept)
        rows = replace(rows, points=rows.points[:, kept], columns=columns, kinds=held)
        return self._replace(rows=rows, file=replace(file, drop=(*file.drop, *names)))


def guess(file: File) -> Guess:
    """Read a file, and guess the keys that are left open.

    Raises
    ------
    ValueError
        The rows cannot be read with any guess.
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
            raise  # probably a class, as in 1, X, 2
        found = guess(replace(file, na_values=odd | {error.column: gaps[0] if len(gaps) == 1 else gaps}))
        if any(found.rows.codes[shown(word)] < 2 for word in gaps):
            raise  # probably mistyped
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
    if codes != file.na_values and (odd or not file.na_values):  # other codes are the user's
        file = replace(file, na_values=codes)
        rows, test = file.read()
    found = Guess(file, rows, test, words)
    empty = _unasked(found, _empty(rows))
    found = found.without(empty)
    counters = _unasked(found, numbering(found.rows).by_name)
    return found.without(counters)._replace(empty=empty, counters=counters)


def _unasked(found: Guess, names: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs that may be left out: those not named by the user, or none if no input would remain."""
    return () if found.file.features or len(names) == len(found.rows.columns) else tuple(names)


def _empty(rows: Rows) -> list[str]:
    """Return the named inputs without a value in any row."""
    if not are_names(rows.columns):
        return []
    gaps = are_gaps(rows.points)
    return [column for k, column in enumerate(rows.columns) if gaps[:, k].all()]
