"""Values that stand for gaps though they look like others: numbers such as -200 or -999, words such as "missing"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.coding import CodedColumn
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.streams.rows.encoding.named_dates import of_column
from kernelswarm.simulations.streams.rows.encoding.numerals import parsed
from kernelswarm.simulations.streams.rows.encoding.odd_entries import no_truths
from kernelswarm.simulations.streams.rows.encoding.text import entries, is_text, read_text
from kernelswarm.simulations.streams.rows.encoding.times import Times, read_one
from kernelswarm.simulations.streams.written.gap_codes import Suspected

if TYPE_CHECKING:
    import pyarrow

Code = float | str
"""A value that stands for a gap."""

Codes = Code | tuple[Code, ...]

NaValues = Codes | dict[str, Codes]
"""Values that stand for gaps in all columns, or in those of their names."""

WHOLE = re.compile(r"\s*[+-]?(0|[1-9]\d{0,17})\s*")
"""Whole numbers that are text only since a word stood among them; codes such as 007 stay text."""

Found = dict[str, int]
"""How often each value occurred, by what messages call it."""


def as_key(suspected: Sequence[Suspected], words: Mapping[str, Codes] | None = None) -> NaValues:
    """Return what the key na_values says of such values, and of a word in some columns: by column where there are such
    words, or where some other column measures one of the values.

    Examples
    --------
    >>> as_key([Suspected(-200.0, ("CO", "T"), 6, True)]), as_key([Suspected(-99.0, ("CO",), 6, False)])
    ((-200,), {'CO': (-99,)})
    >>> as_key([Suspected(-200.0, ("CO",), 6, True)], {"CO": "broken"})
    {'CO': (-200, 'broken')}
    """
    written: dict[Suspected, Code] = {
        one: one.written if one.is_moment else int(one.value) if one.value == int(one.value) else one.value
        for one in suspected
    }
    words = words or {}
    if not words and all(one.everywhere for one in suspected):
        return tuple(written.values())
    columns = dict.fromkeys([*(column for one in suspected for column in one.columns), *words])
    found: dict[str, Codes] = {}
    for column in columns:
        own = [written[one] for one in suspected if column in one.columns]
        found[column] = (*own, *codes_in(words, column)) if column in words else tuple(own)
    return found


def codes_in(asked: NaValues | Mapping[str, Codes], column: str) -> tuple[Code, ...]:
    """Return the values that stand for gaps in a column.

    Examples
    --------
    >>> codes_in((-200.0, "none"), "CO"), codes_in({"CO": -200.0}, "CO"), codes_in({"CO": -200.0}, "NO")
    ((-200.0, 'none'), (-200.0,), ())
    """
    found = asked.get(column, ()) if isinstance(asked, Mapping) else asked
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def check_codes(asked: NaValues) -> None:
    """Refuse what stands for no gap: values that are neither finite numbers nor text."""
    for column in asked if isinstance(asked, Mapping) else ("",):
        for code in codes_in(asked, column):
            number = isinstance(code, int | float) and not isinstance(code, bool) and np.isfinite(code)
            if not (number or isinstance(code, str)):
                raise RefusedKey("na_values", f"= {shown(asked)}: {code!r} is neither a finite number nor text")


def named_in(asked: NaValues) -> list[str]:
    return list(asked) if isinstance(asked, Mapping) else []


def words_in(asked: NaValues) -> list[str]:
    """Return the text that stands for gaps in all columns."""
    return [] if isinstance(asked, Mapping) else [code for code in codes_in(asked, "") if isinstance(code, str)]


def table_without(
    table: pyarrow.Table,
    columns: Iterable[str],
    asked: NaValues,
    found: Found | None = None,
    kinds: Sequence[CodedColumn] = (),
    guessed: bool = False,
) -> pyarrow.Table:
    """Return a table with gaps in place of the values that stand for some, and count them in ``found``.

    A moment such as 1900-01-01 is found however a column of dates writes it; ``kinds`` say how, where that is known.
    With ``guessed``, a column is text for the codes alone where all others are truth values.
    """
    known = {kind.name: kind for kind in kinds}
    for column in dict.fromkeys(columns):
        codes = codes_in(asked, column)
        place = table.schema.get_field_index(column)
        if codes:
            found = {} if found is None else found
            changed = _without(table.column(place), codes, found, guessed)
            changed = _without_times(changed, known.get(column, CodedColumn(column)), codes, found)
            table = table.set_column(place, table.schema.field(place).with_type(changed.type), changed)
    return table


def array_without(
    values: npt.NDArray[np.generic], columns: Sequence[str], asked: NaValues, found: Found
) -> npt.NDArray[np.generic]:
    """Return an array (n, columns), or (n,) of one, with nan, or empty text, in place of what stands for a gap."""
    marked = np.zeros(values.shape, dtype=np.bool_)
    for place, column in enumerate(columns):
        part = (..., place) if values.ndim == 2 else ...
        for code in codes_in(asked, column):
            hits = _are(values[part], code)
            marked[part] |= hits
            found[_called(code)] = found.get(_called(code), 0) + int(hits.sum())
    if not marked.any():
        return values
    if values.dtype.kind == "U":
        return np.where(marked, "", values)
    return np.where(marked, np.nan, values.astype(np.result_type(values.dtype, np.float32)))


def with_codes(columns: Sequence[CodedColumn], asked: NaValues) -> tuple[CodedColumn, ...]:
    """Return columns that know what stands for gaps in them; empty where none has any and all hold numbers."""
    found = tuple(replace(column, codes=codes_in(asked, column.name)) for column in columns)
    return found if any(column.codes or column.kind != "number" for column in found) else ()


def _called(code: Code) -> str:
    return shown(code) if isinstance(code, str) else f"{code:.15g}"


def _number(code: Code) -> float | None:
    """Return the number that a value is, also where it is given as text."""
    if not isinstance(code, str):
        return float(code)
    read = parsed([code.strip()])
    return None if read is None else float(read.values[0])


def _are(values: npt.NDArray[np.generic], code: Code) -> npt.NDArray[np.bool_]:
    """Tell which values of an array (n,) a code is; of narrow fractions, after it was written as one."""
    if values.dtype.kind == "U":
        return np.asarray(np.char.strip(values.astype(np.str_)) == str(code).strip())
    number = _number(code)
    if number is None or values.dtype.kind not in "iuf":
        return np.zeros(values.shape, dtype=np.bool_)
    with np.errstate(over="ignore"):  # of what half precision cannot hold
        return np.asarray(values == (values.dtype.type(number) if values.dtype.kind == "f" else number))


def _without(values: pyarrow.ChunkedArray, codes: Sequence[Code], found: Found, guessed: bool) -> pyarrow.ChunkedArray:
    """Return a column with gaps in place of codes: empty text, or nothing."""
    import pyarrow
    from pyarrow import compute, types

    for code in codes:
        found.setdefault(_called(code), 0)
    if is_text(values):
        return _text_without(values, codes, found, guessed)
    marked = np.zeros(len(values), dtype=np.bool_)
    for code in codes:
        hits = np.zeros(len(values), dtype=np.bool_)
        if types.is_integer(values.type) or types.is_floating(values.type) or types.is_decimal(values.type):
            plain = values.cast(pyarrow.float64()) if types.is_decimal(values.type) else values
            hits = _are(np.asarray(plain.to_numpy()), code)
        found[_called(code)] += int(hits.sum())
        marked |= hits
    if not marked.any():
        return values
    return compute.if_else(pyarrow.array(marked), pyarrow.scalar(None, values.type), values)


def _without_times(
    values: pyarrow.ChunkedArray, column: CodedColumn, codes: Sequence[Code], found: Found
) -> pyarrow.ChunkedArray:
    """Return a column of times, of any type, with gaps in place of those among the codes."""
    import pyarrow
    from pyarrow import compute

    said = {code: read_one(code.strip(), named=True) for code in codes if isinstance(code, str)}
    times = _times_in(values, column) if any(said.values()) else None
    if times is None:
        return values
    marked = np.zeros(len(values), dtype=np.bool_)
    for code, readings in said.items():
        moments = [one.by_order[""] for (kind, _), one in readings.items() if kind == times.kind and "" in one.by_order]
        hits = np.isin(times.values, np.array(moments, dtype=np.float64))
        found[_called(code)] += int(hits.sum())
        marked |= hits
    if not marked.any():
        return values
    return compute.if_else(pyarrow.array(marked), pyarrow.scalar(None, values.type), values)


def _times_in(values: pyarrow.ChunkedArray, column: CodedColumn) -> Times | None:
    """Return the times that a column holds, as its reader finds them; None where it holds others or is refused."""
    wanted = column.kind if column.kind in ("time", "clock") else None
    try:
        if not is_text(values):
            return of_column(values, column.name, wanted)
        read = read_text(entries(values), column.name, "", wanted, column.written)
    except ValueError:
        return None
    return None if read is None else Times(read[0], read[1].kind)


def _text_without(
    values: pyarrow.ChunkedArray, codes: Sequence[Code], found: Found, guessed: bool
) -> pyarrow.ChunkedArray:
    """Return a column of text, or of categories, of which the codes are none any more."""
    import pyarrow

    encoded = values if pyarrow.types.is_dictionary(values.type) else values.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks) if whole.num_chunks else pyarrow.array([], encoded.type)
    written = whole.dictionary.to_pylist()
    places = np.asarray(whole.indices.cast(pyarrow.int64()).fill_null(-1))
    gaps = np.zeros(len(written) + 1, dtype=np.bool_)  # the last for nulls
    for code in codes:
        number = _number(code)
        hits = np.array(
            [
                word is not None
                and (word.strip() == str(code).strip() or (number is not None and number == _number(word)))
                for word in written
            ]
            + [False],
            dtype=np.bool_,
        )
        found[_called(code)] += int(hits[places].sum())
        gaps |= hits
    if not gaps.any():
        return values
    if not pyarrow.types.is_dictionary(values.type):
        others = {word for gap, word in zip(gaps, written, strict=False) if word is not None and not gap}
        if guessed and others and not no_truths([word.strip() for word in others]).any():
            truths = [word.strip().lower() == "true" if word in others else None for word in written]
            return _taken(pyarrow.array([*truths, None], pyarrow.bool_()), places)
        are_whole = all(map(WHOLE.fullmatch, others)) and len({*map(int, others)}) == len({*map(str.strip, others)})
        if are_whole and any(_number(written[place]) is None for place in np.flatnonzero(gaps)):
            numbers = [int(word) if word in others else None for word in written]
            return _taken(pyarrow.array([*numbers, None], pyarrow.int64()), places)
        texts = np.array([*("" if gap else word for gap, word in zip(gaps, written, strict=False)), None], object)
        return pyarrow.chunked_array([pyarrow.array(texts[places], values.type)])
    kept = np.flatnonzero(~gaps[:-1])
    moved = np.full(len(written) + 1, -1)
    moved[kept] = np.arange(len(kept))
    indices = pyarrow.array(moved[places], mask=moved[places] < 0).cast(values.type.index_type)
    dictionary = pyarrow.array([written[place] for place in kept], values.type.value_type)
    return pyarrow.chunked_array(
        [pyarrow.DictionaryArray.from_arrays(indices, dictionary, ordered=values.type.ordered)]
    )


def _taken(values: pyarrow.Array, places: npt.NDArray[np.intp]) -> pyarrow.ChunkedArray:
    """Return the values at some places, of which -1 is the last."""
    import pyarrow

    return pyarrow.chunked_array([values.take(pyarrow.array(places % len(values)))])
