"""Data frames of pandas, polars and pyarrow, and dicts of columns: columns by name, rows by index."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.core.data_description import Coding
from kernelswarm.simulations.core.errors import nearest, shown, some
from kernelswarm.simulations.data.columns import inputs, numbers
from kernelswarm.simulations.data.gaps import filled_forward, table_without, together, unmasked
from kernelswarm.simulations.data.odd_entries import COUNTING
from kernelswarm.simulations.data.reading import shorten

if TYPE_CHECKING:
    import pyarrow

# Columns of Python objects, and entries of an odd kind.

KINDS: tuple[tuple[Any, str], ...] = (
    (bool | np.bool, "truth values"),
    (str | bytes, "text"),
    (timedelta | np.timedelta64, "lengths of time"),
    (Number | np.number | Decimal, "numbers"),
    (date | np.datetime64, "dates or times"),
    (time, "times of day"),
)


def kind_of(value: Any) -> str:
    """Return the kind of an entry; empty for a gap.

    Examples
    --------
    >>> kind_of(1.5), kind_of("1.5"), kind_of(float("nan")), kind_of([1])
    ('numbers', 'text', '', 'list')
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and value != value:
        return ""
    found = next((name for types, name in KINDS if isinstance(value, types)), type(value).__name__)
    return f"{found} of a time zone" if isinstance(value, datetime) and value.tzinfo is not None else found


def odd_object(values: Iterable[Any]) -> str:
    """Return a sentence on the row whose entry differs in kind from most, or an empty text if all are of one kind.

    Examples
    --------
    >>> odd_object([1.5, None, "soon", 2.5])
    'row 3 holds "soon" (text), where the other 2 entries are numbers'
    >>> odd_object([1, 2.5, None])
    ''
    """
    values = list(values)
    if len({*map(type, values)} - {type(None)}) < 2 and not isinstance(next(iter(values), None), datetime):
        return ""  # the usual case
    kinds = [kind_of(value) for value in values]
    shares = Counter(filter(None, kinds))
    if len(shares) < 2:
        return ""
    most = max(shares, key=lambda kind: (shares[kind], kind))
    row = next(place for place, kind in enumerate(kinds) if kind not in ("", most))
    others = shares[most]
    return (
        f"row {row + 1} holds {shown(values[row])} ({kinds[row]}), where the other {others:,} entr"
        f"{'y is' if others == 1 else 'ies are'} {most}"
    )


def alike(values: AnyArray) -> AnyArray:
    """Normalize an array of objects: dates among moments become midnights, and mixtures with text become text.

    Examples
    --------
    >>> alike(np.array([1.5, None, "soon"], object)).tolist()
    ['1.5', None, 'soon']
    """
    types = {*map(type, values)}
    if str in types and len(types) > 1 and bytes not in types:
        return np.array([str(value) if kind_of(value) else None for value in values], object)
    if {date, datetime} <= types:
        days = (datetime(*value.timetuple()[:3]) if type(value) is date else value for value in values)
        return np.array(list(days), object)
    return values


def same_names(values: Iterable[Any]) -> str:
    """Return a sentence on two entries that an array would merge, such as 1 and "1", or an empty text without any.

    Examples
    --------
    >>> same_names([1, "a", "1"]), same_names([1, 2]), same_names(["1", "1"])
    ('row 1 holds 1 and row 3 "1"', '', '')
    """
    texts = {value: place for place, value in reversed(list(enumerate(values))) if isinstance(value, str)}
    for place, value in enumerate(values if texts else ()):
        if not isinstance(value, str) and str(value) in texts:
            return f"row {place + 1} holds {shown(value)} and row {texts[str(value)] + 1} {shown(str(value))}"
    return ""


CURE = "give what the model was trained with"

UNITS = ("s", "ms", "us", "ns")
"""Arrow's units of time."""

#: Names of unnamed columns of arrays in messages.
PLACES = re.compile(r"x\[:, \d+\]|(feature|pixel) \d+")


def is_frame(data: Any) -> bool:
    """Tell whether the data have named columns."""
    return isinstance(data, Mapping) or any(hasattr(data, name) for name in ("column_names", "collect", "columns"))


def are_names(columns: Sequence[str]) -> bool:
    """Tell whether columns have names rather than indices of an array.

    Examples
    --------
    >>> are_names(["age", "bmi"]), are_names(["x[:, 0]", "x[:, 1]"]), are_names([])
    (True, False, False)
    """
    return bool(columns) and not all(map(PLACES.fullmatch, columns))


def points_of(data: Any, names: Sequence[str], name: str = "points") -> Array:
    """Return inputs as an array (n, p); columns of a frame are selected by name, in any order.

    Parameters
    ----------
    data
        An array (n, p) with the columns in order; or a frame, a dict of columns, or a list of dicts with one per row.
        Additional columns of these are ignored.
    names
        The names of the inputs. If inputs are unnamed, a frame's columns are taken in order.
    name
        The name of the data in messages.

    Raises
    ------
    ValueError
        A column is missing, or is not numeric.

    Examples
    --------
    >>> points_of({"b": [3.0, 4.0], "note": ["-", "-"], "a": [1, 2]}, ["a", "b"])
    array([[1., 3.],
           [2., 4.]])
    >>> points_of([{"b": 3.0, "a": 1}], ["a", "b"])
    array([[1., 3.]])
    """
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        data = _columns_of_rows(data, names, name)
    if not is_frame(data):
        return np.ascontiguousarray(unmasked(data), dtype=np.float64)
    table, wanted = _picked(data, names, name)
    picked = [] if table is None else [numbers(name, table, column, cure=CURE) for column in wanted]
    return np.ascontiguousarray(np.column_stack(picked), dtype=np.float64) if picked else np.empty((0, 0))


def coded_points(data: Any, coding: Coding, name: str = "points") -> Array:
    """Return inputs as an array (n, p), with words, times and gaps coded as in the training data.

    Parameters
    ----------
    data
        As in `points_of`; the columns of an array, of any type, have the order of the training columns.
    coding
        The coding of the training data.
    name
        The name of the data in messages.

    Raises
    ------
    ValueError
        A column is missing or has another kind than in the training data, or a value is missing and the coding does not
        fill gaps.
    """
    names = [column.name for column in coding.columns]
    if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        data = _columns_of_rows(data, names, name)
    if not is_frame(data):
        data = together(data)
        array = np.ma.asarray(data) if np.ma.isMaskedArray(data) else np.asarray(data, dtype=_type_of(data))
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ValueError(
                f"{name} have shape {array.shape}: the model needs (n, {len(names)}), the columns {some(names)} as "
                "they stand in the data, or a frame with them"
            )
        data = dict(zip(names, array.T, strict=True))
    table, wanted = _picked(data, names, name)
    assert table is not None
    columns = [replace(column, name=text) for column, text in zip(coding.columns, wanted, strict=True)]
    table = table_without(table, wanted, {column.name: column.codes for column in columns}, kinds=columns)
    values, read = inputs(name, table, wanted, wanted=columns, cure=CURE)
    found = np.column_stack(values).astype(np.float64)
    if coding.missing == "last":
        found = filled_forward(found)
    for place, column in enumerate(coding.columns):
        gaps = np.flatnonzero(np.isnan(found[:, place]))
        if len(gaps) and column.fill is None:
            raise ValueError(
                f"{name}: row {gaps[0]}, column {shown(column.name)} is missing (rows count from 0): fill it in or "
                'leave the row out; a model that is trained with stream.missing = "mean" or "last" fills gaps'
            )
    try:
        return coding.coded(found, read)
    except ValueError as error:
        raise ValueError(f"{name}: {error}: {CURE}") from error


def _type_of(data: Any) -> type | None:
    """Return the type of an array of rows that are lists of numbers and text, or None for uniform types."""
    return object if isinstance(data, list | tuple) else None


def _picked(data: Any, names: Sequence[str], name: str) -> tuple[pyarrow.Table | None, list[str]]:
    """Return the requested columns of a frame as a table, and their names."""
    import pyarrow

    found = named(data, name)
    wanted = list(names) if are_names(names) or (names and set(names) <= set(found)) else list(found)
    lacking = [column for column in wanted if column not in found]
    if lacking:
        others = [column for column in found if column not in wanted]
        lack = f"no column {shown(lacking[0])}" if len(lacking) == 1 else f"no columns {some(lacking)}"
        raise ValueError(
            f"{name} have {lack}{_nearest(lacking, others)} They have {some(list(found)) or 'none'}, and need "
            f"{some(wanted)}, in any order: rename or add missing ones, or give an array with these columns in this "
            "order"
        )
    taken = in_step({column: found[column] for column in wanted}, name)
    return pyarrow.table(arrow(taken, name)) if taken else None, wanted


def named(frame: Any, name: str) -> dict[str, Any]:
    """Return the columns of a frame, by name as text.

    Raises
    ------
    ValueError
        The frame has no rows yet, or a name occurs twice.
    """
    if hasattr(frame, "collect"):
        raise ValueError(f"{name} is a {type(frame).__name__}, which holds no rows yet: give its collect()")
    if isinstance(frame, Mapping):
        known = list(frame)
    else:
        known = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)  # column_names in pyarrow
    called = list(map(column_name, known))
    twice = sorted({column for column in called if called.count(column) > 1})
    if twice:
        raise ValueError(f"{name}: the column name {shown(twice[0])} occurs more than once: rename one of the columns")
    return {text: frame[column] for text, column in zip(called, known, strict=True)}


def column_name(column: Any) -> str:
    """Return a column's name as text; the non-empty levels of a multi-level name are joined by points.

    Examples
    --------
    >>> column_name("a"), column_name(7), column_name(("pose", "x")), column_name(("y", ""))
    ('a', '7', 'pose.x', 'y')
    """
    return ".".join(str(level) for level in column if level != "") if isinstance(column, tuple) else str(column)


def arrow(columns: Mapping[str, Any], name: str) -> dict[str, pyarrow.ChunkedArray]:
    """Copy columns of one length into Arrow's memory.

    Raises
    ------
    ValueError
        There are no columns, their lengths differ, or a column mixes numbers and text.
    """
    if not columns:
        raise ValueError(f"{name} has no columns: give some")
    found = {column: _in_files(_arrow(name, column, values)) for column, values in columns.items()}
    first, length = next((column, len(values)) for column, values in found.items())
    for column, values in found.items():
        if len(values) != length:
            raise ValueError(
                f"{name}: column {shown(column)} has {len(values):,} rows and {shown(first)} {length:,}: give all "
                "columns the same rows"
            )
    return found


def has_categories(values: Any) -> bool:
    """Tell whether a column has a categorical type of pandas or polars."""
    return getattr(getattr(values, "dtype", None), "categories", None) is not None


def in_step(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Align the rows of columns by index, if more than one column is a pandas series.

    A series whose index has the same unique labels in another order is reordered like the first series. Columns without
    an index are aligned by position.

    Raises
    ------
    ValueError
        An index has other labels than the first, or repeated labels.
    """
    indexed = [(column, index_of(values)) for column, values in columns.items() if index_of(values) is not None]
    found = dict(columns)
    for column, index in indexed[1:]:
        first, wanted = indexed[0]
        if index.equals(wanted):
            continue
        if not is_reordered(wanted, index):
            raise ValueError(
                f"{name}: the indices of {shown(first)} and {shown(column)} differ, {_difference(wanted, index)}: give "
                f"both the same labels, each once, by which rows are paired; or {shown(column)} as an array, with "
                "to_numpy(), which pairs them by position"
            )
        found[column] = columns[column].loc[wanted]
    return found


def index_of(values: Any) -> Any:
    """Return the index of a series or frame of pandas, or None for other data."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "get_indexer") else None


def is_reordered(first: Any, second: Any) -> bool:
    """Tell whether two indices have the same unique labels in different orders."""
    if first.equals(second) or len(first) != len(second) or not (first.is_unique and second.is_unique):
        return False
    return bool((second.get_indexer(first) >= 0).all())


def _difference(first: Any, second: Any) -> str:
    """Describe why the rows of two indices cannot be aligned."""
    for here, there, which in ((first, second, "former"), (second, first, "latter")):
        labels = set(there)
        alone = next((label for label in here if label not in labels), None)
        if alone is not None:
            return f"{len(first):,} labels and {len(second):,}, of which only the {which} has {alone}"
    return f"{len(first):,} labels and {len(second):,}, some of which occur more than once"


def _nearest(lacking: Sequence[str], others: Sequence[str]) -> str:
    """Return the end of a message about missing columns: an existing column with a name similar to the first."""
    same = {other.strip().lower(): other for other in others}
    for column in lacking:
        found = f"; did you mean {shown(same[column.lower()])}?" if column.lower() in same else nearest(column, others)
        if found:
            return found
    return "."


def _columns_of_rows(rows: Sequence[Mapping[Any, Any]], names: Sequence[str], name: str) -> dict[str, list[Any]]:
    """Return the columns of rows that are dicts: the requested ones, or the first row's."""
    called = list(names) if are_names(names) else list(dict.fromkeys(str(key) for key in rows[0]))
    texts = [{str(key): value for key, value in row.items()} for row in rows]
    for place, row in enumerate(texts):
        for column in called:
            if column not in row:
                raise ValueError(
                    f"{name}: row {place} has no {shown(column)}{nearest(column, row)} (rows count from 0): every row "
                    f"needs {some(called)}"
                )
    return {column: [row[column] for row in texts] for column in called}


def _arrow(name: str, column: str, values: Any) -> pyarrow.ChunkedArray:
    """Copy a column into Arrow's memory; gaps in a column of objects remain gaps."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray):  # immutable
        return values
    if isinstance(values, pyarrow.Array):
        return pyarrow.chunked_array([values])
    values = _without_spans(values)
    if has_categories(values) and np.asarray(values.dtype.categories).dtype.kind not in "biuf":
        made = values.to_arrow() if hasattr(values, "to_arrow") else pyarrow.array(values)  # keeps an order
        return pyarrow.chunked_array([made])
    if np.ma.isMaskedArray(values):
        return pyarrow.chunked_array([pyarrow.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))])
    if _needs_own_way(values):
        made = values.to_arrow() if hasattr(values, "to_arrow") else pyarrow.array(values, from_pandas=True)
        return made if isinstance(made, pyarrow.ChunkedArray) else pyarrow.chunked_array([made])
    found: AnyArray = np.array(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if found.dtype.kind in "mM" and np.datetime_data(found.dtype)[0] not in UNITS:
        found = found.astype(f"{found.dtype.kind}8[us]")
    if found.ndim != 1:
        raise ValueError(f"{name}: column {shown(column)} has shape {found.shape} and must be (rows,): take it apart")
    where = f"{name}: column {shown(column)}"
    same = same_names(values if isinstance(values, list | tuple) else found if found.dtype.kind == "O" else ())
    if same:
        raise ValueError(f"{where}: {same}, which are the same as text ({COUNTING}): write both in one way")
    found = alike(found) if found.dtype.kind == "O" else found
    odd = odd_object(found) if found.dtype.kind == "O" else ""
    if odd:
        raise ValueError(f"{where}: {odd} ({COUNTING}): correct it, or leave the column out")
    try:
        return pyarrow.chunked_array([pyarrow.array(found, from_pandas=found.dtype.kind == "O")])
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise ValueError(
            f"{where} holds neither numbers only nor text only ({shorten(error)}): convert it, or leave it out"
        ) from error


def _without_spans(values: Any) -> Any:
    """Convert periods of a pandas series to their first moments, and its categories to text or numbers."""
    kind = getattr(values, "dtype", None)
    if hasattr(kind, "freq") and hasattr(values, "dt"):
        return values.dt.to_timestamp()
    categories: Any = getattr(kind, "categories", None)
    if hasattr(getattr(categories, "dtype", None), "closed"):  # of pandas.cut
        return values.cat.rename_categories(list(map(str, categories)))
    if hasattr(kind, "fill_value"):  # sparse
        return np.asarray(values)
    return values


def _in_files(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Convert a column to a type of parquet files: times in seconds become microseconds, and bytes become text."""
    from pyarrow import ArrowInvalid, string, timestamp, types

    if types.is_binary(values.type) or types.is_large_binary(values.type):  # as from scipy or h5py
        with suppress(ArrowInvalid):  # not UTF-8: the reader of the column raises an error
            return values.cast(string())
    in_seconds = types.is_timestamp(values.type) and values.type.unit == "s"
    return values.cast(timestamp("us", values.type.tz)) if in_seconds else values


def _needs_own_way(values: Any) -> bool:
    """Tell whether a series has values without a NumPy type: time zones, and gaps in whole numbers."""
    kind = getattr(values, "dtype", None)
    if kind is None or isinstance(kind, np.dtype) or has_categories(values):
        return False
    temporal = getattr(kind, "is_temporal", None)  # of polars
    if temporal is not None:
        return bool(temporal() or values.null_count())
    return getattr(kind, "tz", None) is not None or hasattr(kind, "na_value")  # of pandas
