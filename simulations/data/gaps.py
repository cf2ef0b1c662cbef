"""Missing values: their codes, their treatment, and filling with the last value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import CodedColumn, Missing
from kernelswarm.simulations.core.errors import number_of, shown
from kernelswarm.simulations.data.text import entries, is_text, no_truths, parsed, read_text
from kernelswarm.simulations.data.times import Times, of_column, read_one

if TYPE_CHECKING:
    import pyarrow

DONE = {
    "drop": "their rows are left out",
    "mean": "inputs are filled with the mean or most frequent word of the training rows",
    "last": "inputs are filled with the node's last known value",
}
"""The text of messages for each treatment of gaps."""


WITHOUT = "their nodes have no sample in these rounds"
"""The text about rows left out if nodes share steps."""


def check_missing(missing: Missing) -> None:
    """Raise an error for unknown treatments of gaps."""
    if missing not in get_args(Missing):
        raise RefusedKey("missing", f'= {shown(missing)} must be "refuse", "drop", "mean" or "last"')


def are_gaps(values: npt.NDArray[np.generic]) -> Booleans:
    """Tell which entries of an array of any shape are gaps: NaN or empty text."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.zeros(values.shape, dtype=np.bool_)


def together(values: Any) -> Any:
    """Return a list of rows with masked arrays as one masked array, and other values as they are."""
    if isinstance(values, list | tuple) and any(map(np.ma.isMaskedArray, values)):
        return np.ma.array(values)
    return values


def unmasked(values: Any) -> Any:
    """Replace masked entries by gaps: NaN, empty text, None or NaT.

    ``numpy.asarray`` would return the masked values.
    """
    values = together(values)
    if not np.ma.isMaskedArray(values):
        return values
    found, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    if not mask.any():
        return found
    found = found.copy() if found.dtype.kind in "fUOmM" else found.astype(np.float64)
    found[mask] = {"U": "", "O": None}.get(found.dtype.kind, np.nan if found.dtype.kind == "f" else "NaT")
    return found


def filled_forward(values: Array) -> Array:
    """Replace each gap of an array (n, k) by the last value above it; gaps without a value above remain.

    Examples
    --------
    >>> filled_forward(np.array([[np.nan], [2.0], [np.nan], [5.0]])).ravel()
    array([nan,  2.,  2.,  5.])
    """
    rows = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, rows), axis=0)
    found: Array = np.take_along_axis(values, last, axis=0)
    return found


def written(codes: Mapping[str, int], gaps: int = 0) -> tuple[str, str]:
    """Describe how many gaps have which codes, and name the codes that do not occur.

    Examples
    --------
    >>> written({"-200": 1200, "-99": 0}, 1500), written({"-200": 1500}, 1500)
    (('1,200 of them written as -200', 'no value is -99, which na_values names'), ('all of them written as -200', ''))
    """
    found = [
        f"{'all' if count == gaps else f'{count:,}'} of them written as {code}"
        for code, count in codes.items()
        if count
    ]
    unused = [code for code, count in codes.items() if not count]
    return ", ".join(found), f"no value is {' or '.join(unused)}, which na_values names" if unused else ""


def gaps_in_words(
    counts: Sequence[tuple[str, int]],
    rows: int,
    left_out: int,
    missing: Missing,
    in_step: bool = False,
    coded: str = "",
    unused: str = "",
) -> str:
    """Describe the numbers of missing values by column, and their treatment.

    If nodes go ``in_step``, rows left out are rounds without a sample; ``coded`` and ``unused`` are the texts of
    `written`.

    Examples
    --------
    >>> gaps_in_words([("temperature", 12), ("wind", 1)], 1000, 12, "drop")
    '13 values missing of 1,000 rows, in temperature 12 and wind 1: their rows are left out (12 rows)'
    >>> gaps_in_words([("ozone", 12)], 1000, 12, "drop", in_step=True)
    '12 values missing of 1,000 rows, in ozone 12: their nodes have no sample in these rounds (12 rows)'
    """
    total = sum(count for _, count in counts)
    named = [f"{column} {count:,}" for column, count in counts]
    if len(named) > MOST_NAMED:
        named = [*named[: MOST_NAMED - 1], f"{len(named) - MOST_NAMED + 1} more columns"]
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    out = f"{left_out:,} row{'s' * (left_out != 1)}"
    done = DONE[missing]
    if missing == "drop":
        done = f"{WITHOUT} ({out})" if in_step else f"{done} ({out})"
    elif left_out and in_step:
        done += f"; {out} without a target: {WITHOUT}"
    elif left_out:
        done += f"; {out} without a target or node {'is' if left_out == 1 else 'are'} left out"
    of = f"{number_of(total, 'value')} missing of {number_of(rows, 'row')}{coded and f', {coded}'}, in {listed}"
    return f"{of}: {done}{unused and f'; {unused}'}"


MOST_NAMED = 6
"""Maximum number of columns named in a message."""


# Suspected codes for gaps: repeated values far from the rest, such as -200, -999 or 1900-01-01.

FEWEST = 3
"""Minimum number of occurrences of a suspected code."""

NINES = re.compile(r"-?9{2,}(\.9+)?")
"""Numbers of nines only, such as -999, 9999 or -99.9, which loggers write for missing values."""

APART = 0.5
"""Minimum distance of such a number from all other values, as a multiple of their range; twice this for other codes."""


MOMENTS = tuple(
    float(np.datetime64(day, "us").astype(np.int64)) for day in ("0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31")
)
"""Dates that programs write for missing dates, in microseconds since 1970."""

DAY = 86_400e6


class Suspected(NamedTuple):
    """A suspected code for gaps.

    Parameters
    ----------
    value : float
        The value; microseconds since 1970 for a moment.
    columns : tuple of str
        The columns in which it is suspected.
    occurs : int
        Number of its occurrences in these columns.
    everywhere : bool
        Whether the value occurs in these columns only.
    is_moment : bool
        Whether the value is a moment.
    """

    value: float
    columns: tuple[str, ...]
    occurs: int
    everywhere: bool
    is_moment: bool = False

    @property
    def written(self) -> str:
        """The value as text."""
        if not self.is_moment:
            return f"{self.value:.15g}"
        return str(np.datetime64(int(self.value), "us").astype("datetime64[s]")).removesuffix("T00:00:00")

    def words(self) -> str:
        """Return a sentence about the suspected code."""
        more = f" and {len(self.columns) - 3} more columns" if len(self.columns) > 3 else ""
        listed = ", ".join(map(shown, self.columns[:3])) + more
        return (
            f"{self.written} occurs {self.occurs:,} times in {listed}, far from other values, as if it stood for gaps"
        )


def gap_codes(columns: Sequence[str], values: Sequence[AnyArray], moments: bool = False) -> tuple[Suspected, ...]:
    """Find suspected codes for gaps: repeated minima or maxima of a column, far from its other values.

    A code of one column also counts as a code in other columns of which it is a repeated minimum or maximum: -200 is
    far from the values of a carbon monoxide sensor, but within the range of other sensors.

    Parameters
    ----------
    columns : sequence of str
        The names of the columns, which are numbers or moments.
    values : sequence of array
        Their values, (n,) each.
    moments : bool
        Whether the values are microseconds since 1970; possible codes are then ``MOMENTS``.

    Examples
    --------
    >>> gap_codes(["CO", "T"], [np.array([2.0, -200, 1, -200, 3, -200]), np.array([9.0, -200, -3, -200, 8, -200])])
    (Suspected(value=-200.0, columns=('CO', 'T'), occurs=6, everywhere=True, is_moment=False),)
    """
    ends = {column: _ends(own, moments) for column, own in zip(columns, values, strict=True) if own.dtype.kind in "iuf"}
    codes = sorted({value for found in ends.values() for value, _, is_code in found if is_code})
    suspected = []
    for code in codes:
        counts = {column: count for column, found in ends.items() for value, count, _ in found if value == code}
        others = [
            column
            for column, own in zip(columns, values, strict=True)
            if column not in counts and own.dtype.kind in "iuf" and (own == code).any()
        ]
        suspected.append(Suspected(code, tuple(counts), sum(counts.values()), not others, moments))
    return tuple(suspected)


def _ends(values: AnyArray, moments: bool) -> list[tuple[float, int, bool]]:
    """Return the minimum and the maximum if repeated, each with its count and whether it is far from other values."""
    known = values[np.isfinite(values)].astype(np.float64)
    found = []
    for end in (known.min(), known.max()) if len(known) else ():
        rest = known[known != end]
        count = len(known) - len(rest)
        if count < FEWEST or len(rest) < FEWEST or end != np.round(end, 2):
            continue
        low, high = rest.min(), rest.max()
        apart = low - end if end < low else end - high
        if moments:
            found.append((float(end), count, bool(end - end % DAY in MOMENTS and apart > APART * (high - low))))
            continue
        odd = end < 0.0 <= low  # the only negative value
        if NINES.fullmatch(f"{end:.15g}"):
            far = apart > APART * (high - low) or odd
        else:
            far = odd and end <= -10.0 and apart > 2.0 * (high - low)
        found.append((float(end), count, far))
    return found


# Codes for gaps: numbers such as -200 or -999, words such as "missing".

Code = float | str
"""A code for gaps."""

Codes = Code | tuple[Code, ...]

NaValues = Codes | dict[str, Codes]
"""Codes for gaps, in all columns or by column."""

WHOLE = re.compile(r"\s*[+-]?(0|[1-9]\d{0,17})\s*")
"""Whole numbers that are text only because of a word in their column; codes such as 007 remain text."""

Found = dict[str, int]
"""Number of occurrences of each code, by its name in messages."""


def as_key(suspected: Sequence[Suspected], words: Mapping[str, Codes] | None = None) -> NaValues:
    """Return suspected codes as a value of the key na_values.

    The result is by column if there are ``words`` for some columns, or if a code is an ordinary value of another
    column.

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
    """Return the codes for gaps in a column.

    Examples
    --------
    >>> codes_in((-200.0, "none"), "CO"), codes_in({"CO": -200.0}, "CO"), codes_in({"CO": -200.0}, "NO")
    ((-200.0, 'none'), (-200.0,), ())
    """
    found = asked.get(column, ()) if isinstance(asked, Mapping) else asked
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def check_codes(asked: NaValues) -> None:
    """Raise an error for codes that are neither finite numbers nor text."""
    for column in asked if isinstance(asked, Mapping) else ("",):
        for code in codes_in(asked, column):
            number = isinstance(code, int | float) and not isinstance(code, bool) and np.isfinite(code)
            if not (number or isinstance(code, str)):
                raise RefusedKey("na_values", f"= {shown(asked)}: {code!r} is neither a finite number nor text")


def named_in(asked: NaValues) -> list[str]:
    return list(asked) if isinstance(asked, Mapping) else []


def words_in(asked: NaValues) -> list[str]:
    """Return the words among the codes for gaps of all columns."""
    return [] if isinstance(asked, Mapping) else [code for code in codes_in(asked, "") if isinstance(code, str)]


def table_without(
    table: pyarrow.Table,
    columns: Iterable[str],
    asked: NaValues,
    found: Found | None = None,
    kinds: Sequence[CodedColumn] = (),
    guessed: bool = False,
) -> pyarrow.Table:
    """Replace codes for gaps in a table by gaps, and count them in ``found``.

    A moment such as 1900-01-01 is found in any notation of dates; ``kinds`` give the columns' notation, if known. With
    ``guessed``, a column of text that consists of truth values and codes becomes a column of truth values.
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
    """Replace codes for gaps in an array (n, columns), or (n,) for one column, by NaN or empty text."""
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
    """Add the codes for gaps to descriptions of columns; empty if there are only numbers without codes."""
    found = tuple(replace(column, codes=codes_in(asked, column.name)) for column in columns)
    return found if any(column.codes or column.kind != "number" for column in found) else ()


def _called(code: Code) -> str:
    return shown(code) if isinstance(code, str) else f"{code:.15g}"


def _number(code: Code) -> float | None:
    """Return a code as a number, also if it is given as text; None for words."""
    if not isinstance(code, str):
        return float(code)
    read = parsed([code.strip()])
    return None if read is None else float(read.values[0])


def _are(values: npt.NDArray[np.generic], code: Code) -> Booleans:
    """Tell which values of an array (n,) equal a code, which is first rounded to the array's precision."""
    if values.dtype.kind == "U":
        return np.asarray(np.char.strip(values.astype(np.str_)) == str(code).strip())
    number = _number(code)
    if number is None or values.dtype.kind not in "iuf":
        return np.zeros(values.shape, dtype=np.bool_)
    with np.errstate(over="ignore"):  # codes may exceed half precision
        return np.asarray(values == (values.dtype.type(number) if values.dtype.kind == "f" else number))


def _without(values: pyarrow.ChunkedArray, codes: Sequence[Code], found: Found, guessed: bool) -> pyarrow.ChunkedArray:
    """Replace codes in a column by gaps: empty text or null."""
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
    """Replace codes in a column of times, of any type, by gaps."""
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
    """Return the values of a column as times; None for other or invalid columns."""
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
    """Remove codes for gaps from a column of text or categories."""
    import pyarrow

    encoded = values if pyarrow.types.is_dictionary(values.type) else values.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks) if whole.num_chunks else pyarrow.array([], encoded.type)
    written = whole.dictionary.to_pylist()
    places = np.asarray(whole.indices.cast(pyarrow.int64()).fill_null(-1))
    gaps = np.zeros(len(written) + 1, dtype=np.bool_)  # the last entry is for nulls
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
    """Return the values at indices; -1 is the last value."""
    import pyarrow

    return pyarrow.chunked_array([values.take(pyarrow.array(places % len(values)))])
