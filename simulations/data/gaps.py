"""Missing values: how they are written, how they are treated, and the last value before them."""

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
"""The words of messages for each treatment of gaps."""


WITHOUT = "their nodes have no sample in these rounds"
"""The text about rows that are left out of nodes that go on in step."""


def check_missing(missing: Missing) -> None:
    """Refuse unknown treatments of gaps."""
    if missing not in get_args(Missing):
        raise RefusedKey("missing", f'= {shown(missing)} must be "refuse", "drop", "mean" or "last"')


def are_gaps(values: npt.NDArray[np.generic]) -> Booleans:
    """Tell which entries of an array of any shape are gaps: nan of numbers, nothing of text."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.zeros(values.shape, dtype=np.bool_)


def together(values: Any) -> Any:
    """Return a list of rows with masked arrays among them as one masked array, and other values as they are."""
    if isinstance(values, list | tuple) and any(map(np.ma.isMaskedArray, values)):
        return np.ma.array(values)
    return values


def unmasked(values: Any) -> Any:
    """Return values with gaps in place of masked entries: nan, nothing of text, no object, no time.

    ``numpy.asarray`` hands over the values under the mask.
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
    """Replace each gap of an array (n, k) by the last value above it; those with none above stay.

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
    """Say how many of so many gaps are written as which values, and which of these occur nowhere.

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

    Of nodes that go on ``in_step``, rows that are left out are rounds without a sample; ``coded`` and ``unused`` say
    what `written` does.

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
"""Columns that a message names at most."""


# Values that seem to stand for gaps: -200, -999 or 1900-01-01, far from the rest and again and again.

FEWEST = 3
"""Times that a value occurs, at least, to be taken for a code."""

NINES = re.compile(r"-?9{2,}(\.9+)?")
"""Numbers of nothing but nines, such as -999, 9999 or -99.9, which loggers write for what they do not know."""

APART = 0.5
"""How far from all others such a number lies, in units of how far these are spread; others twice as far."""


MOMENTS = tuple(
    float(np.datetime64(day, "us").astype(np.int64)) for day in ("0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31")
)
"""Days that programs write for none, in microseconds since 1970."""

DAY = 86_400e6


class Suspected(NamedTuple):
    """A value that seems to stand for a gap.

    Parameters
    ----------
    value : float
        The value; of a moment, microseconds since 1970.
    columns : tuple of str
        Where it seems to.
    occurs : int
        How often it occurs there.
    everywhere : bool
        Whether it occurs in no other column.
    is_moment : bool
        Whether it is a moment.
    """

    value: float
    columns: tuple[str, ...]
    occurs: int
    everywhere: bool
    is_moment: bool = False

    @property
    def written(self) -> str:
        """The value as it would be written."""
        if not self.is_moment:
            return f"{self.value:.15g}"
        return str(np.datetime64(int(self.value), "us").astype("datetime64[s]")).removesuffix("T00:00:00")

    def words(self) -> str:
        """Say so in a sentence."""
        more = f" and {len(self.columns) - 3} more columns" if len(self.columns) > 3 else ""
        listed = ", ".join(map(shown, self.columns[:3])) + more
        return (
            f"{self.written} occurs {self.occurs:,} times in {listed}, far from other values, as if it stood for gaps"
        )


def gap_codes(columns: Sequence[str], values: Sequence[AnyArray], moments: bool = False) -> tuple[Suspected, ...]:
    """Find values that seem to stand for gaps: a column's least or largest, far from the rest, that comes again.

    A value that is one in some column is one too where it is the least or largest of another, and comes again there:
    -200 is far from what a sensor of carbon monoxide says, and within the range of others.

    Parameters
    ----------
    columns : sequence of str
        What columns of numbers, or of moments, are called.
    values : sequence of array
        Their values, (n,) each.
    moments : bool
        Whether these are microseconds since 1970; codes are then the days of ``MOMENTS``.

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
    """Return the least and the largest value where they come again, how often, and whether they are far from others."""
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
        odd = end < 0.0 <= low  # a sign that no other value has
        if NINES.fullmatch(f"{end:.15g}"):
            far = apart > APART * (high - low) or odd
        else:
            far = odd and end <= -10.0 and apart > 2.0 * (high - low)
        found.append((float(end), count, far))
    return found


# Values that stand for gaps though they look like others: numbers such as -200 or -999, words such as "missing".

Code = float | str
"""A value that stands for a gap."""

Codes = Code | tuple[Code, ...]

NaValues = Codes | dict[str, Codes]
"""Values that stand for gaps, in all columns or by column."""

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
    """Return an array (n, columns), or (n,) for one column, with codes for gaps replaced by nan or empty text."""
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
    """Return columns with their codes for gaps; empty if no column has such codes and all hold numbers."""
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


def _are(values: npt.NDArray[np.generic], code: Code) -> Booleans:
    """Tell which values of an array (n,) a code is; of narrow fractions, after it was written as one."""
    if values.dtype.kind == "U":
        return np.asarray(np.char.strip(values.astype(np.str_)) == str(code).strip())
    number = _number(code)
    if number is None or values.dtype.kind not in "iuf":
        return np.zeros(values.shape, dtype=np.bool_)
    with np.errstate(over="ignore"):  # of values beyond half precision
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
    """Return a column's values as times, or None if it holds anything else or is refused."""
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
    """Return a column of text, or of categories, with the codes for gaps removed."""
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
    """Return the values at given indices; the index -1 stands for the last value."""
    import pyarrow

    return pyarrow.chunked_array([values.take(pyarrow.array(places % len(values)))])
