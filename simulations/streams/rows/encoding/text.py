"""A column of text: its different entries, and whether they are numbers, times or words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import CodedColumn, Kind, Written
from kernelswarm.simulations.streams.rows.encoding.few import are_few
from kernelswarm.simulations.streams.rows.encoding.named_dates import are_digits, is_called_by_time, of_numbers
from kernelswarm.simulations.streams.rows.encoding.numerals import CODE, Mark, looks_numeric, parsed
from kernelswarm.simulations.streams.rows.encoding.odd_entries import no_truths, odd_among
from kernelswarm.simulations.streams.rows.encoding.times import of_text
from kernelswarm.simulations.streams.written.gap_words import WRITTEN

if TYPE_CHECKING:
    import pyarrow

Array = npt.NDArray[np.float64]

DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212._*"
"""What stands in tables in place of a number that is not there."""


class Entries(NamedTuple):
    """Different words of a column, without blanks around them, and the place of each row's among them, -1 of gaps."""

    words: list[str]
    places: npt.NDArray[np.intp]

    def spread(self, values: Array) -> Array:
        """Return the values (words,) of all rows, (n,), nan of gaps."""
        return np.append(values, np.nan)[self.places]

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The first row, from 1, that has each word, (words,)."""
        first = np.zeros(len(self.words) + 1, dtype=np.intp)
        first[self.places[::-1]] = np.arange(len(self.places), 0, -1)
        return first[:-1]

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """How many rows have each word, (words,)."""
        return np.bincount(self.places[self.places >= 0], minlength=len(self.words))


def entries(values: pyarrow.ChunkedArray, order: Sequence[str] = (), names: bool = False) -> Entries:
    """Return the words of a column of text, in alphabetical order or in the given one, which may have more.

    Dashes among numbers are gaps, unless the words are ``names``.
    """
    import pyarrow

    if not pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    whole = values.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks) if whole.num_chunks else pyarrow.array([], values.type)
    written = [normalize("NFC", word or "").strip() for word in whole.dictionary.to_pylist()]
    indices = np.asarray(whole.indices.cast(pyarrow.int64()).fill_null(-1))
    used = set(np.unique(indices).tolist())
    there = {word for place, word in enumerate(written) if place in used}
    words = [*order, *sorted(there.difference(WRITTEN, () if order or names else _dashes(there), order))]
    known = {word: place for place, word in enumerate(words)}
    places = np.array([known.get(word, -1) for word in written] + [-1], dtype=np.intp)  # the last for nulls
    return Entries(words, places[indices])


def spelled(texts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return text in which letters with marks are one character, as some programs write two; other arrays as they are.

    Examples
    --------
    >>> np.char.str_len(spelled(np.array(["u\u0308", "u"]))).tolist()
    [1, 1]
    """
    if texts.dtype.kind != "U":
        return texts
    return np.array([normalize("NFC", text) for text in texts.ravel().tolist()], dtype=np.str_).reshape(texts.shape)


def _dashes(words: Collection[str]) -> set[str]:
    """Return the words of dashes, dots or asterisks alone where all others are numbers: gaps, and not signs."""
    found = {word for word in words if word and not word.strip(DASHES)}
    others = [word for word in words if word not in found and word not in WRITTEN]
    return found if found and others and all(map(looks_numeric, others)) else set()


def read_text(
    found: Entries,
    name: str,
    mark: Mark = "",
    wanted: Kind | None = None,
    written: Written = "",
    has_codes: bool = True,
) -> tuple[Array, CodedColumn] | None:
    """Return what a column of text stands for, and its values, (n,); None where it is no one thing.

    Parameters
    ----------
    found
        Its different entries.
    name
        What it is called, by which dates such as 20211231 and 05/31/22 are known.
    mark
        What stands before fractions, where that is known.
    wanted, written
        What it has to be and how that is written, where it is known; left out, numbers where all entries are, unless
        some are codes such as 007; times where all are; and words where none is a number, and no few entries are odd.
    has_codes
        Whether 007 is a code; in a csv file it is the number 7.

    Raises
    ------
    WhichIsTheDay
        Dates do not show which number is the day.
    """
    words, counts = found.words, found.counts
    if not words:
        return np.full(len(found.places), np.nan), CodedColumn(name, wanted or "number")
    named = wanted == "time" or (wanted is None and is_called_by_time(name))
    if named and are_digits(words):
        moments = of_numbers(np.array(list(map(float, words))), counts)
        odd = np.isnan(moments)
        if are_few(odd, counts):
            return None
        if not odd.any():
            return found.spread(moments), CodedColumn(name, "time")
    read = of_text(words, counts, named=True) if named and wanted is None and not are_digits(words) else None
    if read is not None and read.times.kind == "time" and are_few(read.untimed, counts):
        return None
    if wanted in (None, "number") and not (wanted is None and has_codes and any(map(CODE.fullmatch, words))):
        numbers = parsed(words, mark or (written if written in (".", ",") else ""), counts)
        if numbers is not None:
            return found.spread(numbers.values), CodedColumn(name, written=numbers.mark)
    if wanted in (None, "time", "clock"):
        read = read or of_text(words, counts, named=named, written=written, kind=wanted)
        if not read.odd.any():
            if read.doubt is not None:
                raise read.doubt
            times = read.times
            return found.spread(times.values), CodedColumn(name, times.kind, zoned=times.zoned, written=times.written)
    if wanted == "truth" and not no_truths(words).any():
        return found.spread(np.array([float(word.lower() == "true") for word in words])), CodedColumn(name, "truth")
    if wanted == "words" or (wanted is None and are_words(words) and odd_among(words, counts, named) is None):
        places = found.spread(np.arange(len(words), dtype=np.float64))
        return places, CodedColumn(name, "words", tuple(words))
    return None


def are_words(words: Sequence[str]) -> bool:
    """Tell whether text is none of numbers, one of which is mistyped: none of it is a number, or all are digits."""
    return not any(map(looks_numeric, words)) or all(word.isdecimal() for word in words)


def is_text(values: pyarrow.ChunkedArray) -> bool:
    """Whether a column holds text, as it is or by the number of its entry in a list of words."""
    import pyarrow

    kind = values.type.value_type if pyarrow.types.is_dictionary(values.type) else values.type
    return bool(
        pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_string_view(kind)
    )


def ranking(values: pyarrow.ChunkedArray) -> tuple[str, ...]:
    """Return the categories of a column of text in the order that the table gives them; empty where it gives none."""
    import pyarrow

    if not pyarrow.types.is_dictionary(values.type) or not values.type.ordered or not values.num_chunks:
        return ()
    return tuple(word.strip() for word in values.unify_dictionaries().chunk(0).dictionary.to_pylist() if word)


def without_words(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a column without a list of its words."""
    import pyarrow

    return values.cast(values.type.value_type) if pyarrow.types.is_dictionary(values.type) else values
