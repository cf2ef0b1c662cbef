"""One column of a csv or parquet table: inputs of any kind, numbers, labels of classes, or names of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.graphs.given.names import POINTED, WHOLE, Name, SameNumber, as_written
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import (
    ALIKE,
    CYCLES,
    DAY,
    HELD,
    POSSIBLE,
    CodedColumn,
    Coding,
    Missing,
)
from kernelswarm.simulations.core.errors import shown, some, toml
from kernelswarm.simulations.data.csv_dialect import THOUSANDS
from kernelswarm.simulations.data.gaps import are_gaps
from kernelswarm.simulations.data.odd_entries import (
    COUNTING,
    DECIMAL_COMMA,
    LEAVE_OUT,
    NO_NUMBER,
    OddWords,
    first_word,
    is_dressed,
    is_number,
    odd_in,
    refusal,
    remedy,
)
from kernelswarm.simulations.data.reading import shorten
from kernelswarm.simulations.data.rows import are_classes, check_exact, no_label, odd_fraction
from kernelswarm.simulations.data.text import (
    WRITTEN,
    Entries,
    Mark,
    entries,
    is_text,
    parsed,
    ranking,
    read_text,
    spelled,
    without_words,
)
from kernelswarm.simulations.data.times import MOST_WORDS, NoDate, WhichIsTheDay, are_too_many, of_column

if TYPE_CHECKING:
    import pyarrow

CATEGORIES, ORDERED = b"categories", b"ordered"
"""Key and value of the metadata of a column of numbers that are categories; files have no such type."""

#: Text of digits with more distinct values than this is a column of numbers.
MOST_CODES = 100


class ManyWords(ValueError):
    """Raised if the columns ``words`` have too many distinct words; ``others`` are the other inputs."""

    def __init__(self, text: str, words: tuple[str, ...], others: tuple[str, ...]) -> None:
        super().__init__(text)
        self.words, self.others = words, others


class NoTarget(RefusedKey):
    """Raised if no target is named and the table ``name`` lacks the column y; ``columns`` are candidates."""

    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        super().__init__(
            "target",
            f'= "" means the column "y", which {name} does not have: set target to one or more of {some(columns)}',
        )
        self.name, self.columns = name, columns


def inputs(
    name: str,
    table: pyarrow.Table,
    columns: Sequence[str],
    mark: Mark = "",
    wanted: Sequence[CodedColumn] = (),
    cure: str = "",
    has_codes: bool = True,
) -> tuple[list[AnyArray], tuple[CodedColumn, ...]]:
    """Return input columns as arrays of numbers in their own types, with a description of each column.

    Parameters
    ----------
    name
        The name of the table in messages.
    table, columns
        The table, and the names of the columns.
    mark
        The decimal mark in text; empty if unknown.
    wanted
        The required content of each column, if known.
    cure
        The remedy in messages about columns with other content.
    has_codes
        Whether text such as 007 is a code and not a number.

    Raises
    ------
    ManyWords
        Columns have too many distinct words for a one-hot coding.
    ValueError
        A column cannot be coded as numbers; the message names row and column.
    """
    held = {column.name: column for column in wanted}
    found = [read_input(name, table, column, mark, held.get(column), cure, has_codes) for column in columns]
    kinds = tuple(kind for _, kind in found)
    many = [kind.name for kind in kinds if kind.kind == "words" and are_too_many(len(kind.words), table.num_rows)]
    if many and not wanted:
        first = next(kind for kind in kinds if kind.name == many[0])
        raise ManyWords(
            f"{name}: column {shown(first.name)} has {len(first.words):,} different words in {table.num_rows:,} rows, "
            f"such as {shown(first.words[0])}; each would become a column of 0 and 1, and at most {MOST_WORDS} do, "
            "that occur twice on average: join rare words to one, or leave the column out with stream.drop",
            tuple(many),
            tuple(column for column in columns if column not in many),
        )
    return [values for values, _ in found], kinds


def read_input(
    name: str,
    table: pyarrow.Table,
    column: str,
    mark: Mark,
    wanted: CodedColumn | None,
    cure: str = "",
    has_codes: bool = True,
) -> tuple[AnyArray, CodedColumn]:
    """Return one input column as an array (n,), NaN for missing values, with its description; see :func:`inputs`."""
    import pyarrow

    values = table.column(column)
    kind = None if wanted is None else wanted.kind
    order = ranking(values)
    if is_text(values):
        found = entries(values, order)
        if order and kind in (None, "ranks"):
            return found.spread(np.arange(len(found.words), dtype=np.float64)), CodedColumn(
                column, "ranks", tuple(found.words)
            )
        if kind == "ranks":
            kind = "words"
        try:
            read = read_text(found, column, mark, kind, "" if wanted is None else wanted.written, has_codes)
        except WhichIsTheDay as error:
            row = found.rows[found.words.index(str(error))]
            raise ValueError(
                f"{name}: row {row}, column {shown(column)} holds dates such as {shown(str(error))}, none of which "
                f"shows whether {error.choices} comes first ({COUNTING}): write them as 2021-12-31"
            ) from error
        if read is None:
            raise _unreadable(name, column, found, mark, cure, wanted)
        if wanted is not None and found.words:
            _check_kind(name, wanted, read[1], cure)
        return read
    unordered = not categories(name, table).get(column, True)
    if unordered or (wanted is not None and any(map(is_number, wanted.words))):
        coded = _numbers_as_words(name, table, column)
        if wanted is not None:
            _check_kind(name, wanted, coded[1], cure)
        return coded
    try:
        times = of_column(values, column, kind)
    except NoDate as error:
        raise _no_date(name, column, error, cure) from error
    if times is None:
        kind = "truth" if pyarrow.types.is_boolean(values.type) else "number"
        found_kind = CodedColumn(column, kind)
    else:
        found_kind = CodedColumn(column, times.kind, zoned=times.zoned)
    if wanted is not None and values.null_count < len(values):
        _check_kind(name, wanted, found_kind, cure)
    return numbers(name, table, column, cure=cure) if times is None else times.values, found_kind


def _check_kind(name: str, wanted: CodedColumn, found: CodedColumn, cure: str) -> None:
    """Raise an error if the kind of a column differs from the training data."""
    if ALIKE.get(found.kind, found.kind) == ALIKE.get(wanted.kind, wanted.kind) and found.zoned == wanted.zoned:
        return
    kinds = [f"{HELD[one.kind]}{' of a time zone' * one.zoned}" for one in (found, wanted)]
    raise ValueError(
        f"{name}: column {shown(found.name)} holds {kinds[0]}, and the training data hold {kinds[1]}: "
        + (cure or "write both in the same way")
    )


def _numbers_as_words(name: str, table: pyarrow.Table, column: str) -> tuple[AnyArray, CodedColumn]:
    """Return a column of numbers that are unordered categories as words, in increasing order."""
    values = numbers(name, table, column).astype(np.float64)
    gaps = np.isnan(values)
    found, places = np.unique(values[~gaps], return_inverse=True)
    spread = np.full(len(values), np.nan)
    spread[~gaps] = places
    words = tuple(str(int(value)) if value == int(value) else repr(float(value)) for value in found)
    return spread, CodedColumn(column, "words", words)


def _unreadable(
    name: str, column: str, found: Entries, mark: Mark, cure: str, wanted: CodedColumn | None
) -> ValueError:
    """Return the error for text that mixes numbers, times and words, or that has an unwanted kind."""
    odd = odd_in(found, mark, wanted, column)
    return refusal(name, column, odd, found, is_target=False, cure=cure)


def _no_date(name: str, column: str, odd: NoDate, cure: str) -> OddWords:
    """Return the error for a number that is not a date in a column of dates."""
    codes = toml({column: int(odd.number) if odd.number.isdecimal() else float(odd.number)})
    return OddWords(
        f"{name}: row {odd.row}, column {shown(column)} holds {odd.number}, where the other {odd.others:,} "
        f"entries are dates or times ({COUNTING}): "
        + (cure or f"{LEAVE_OUT}, or name it in stream.na_values = {codes} if it stands for a gap"),
        column,
        (odd.number,),
        odd.others,
    )


def numbers(
    name: str, table: pyarrow.Table, column: str, *, is_target: bool = False, cure: str = "", mark: Mark = ""
) -> AnyArray:
    """Return one column as an array of its own type, NaN for missing values; ``cure`` is the remedy in messages.

    Text raises an error unless all entries are numbers with thousands separators or percent signs.

    Raises
    ------
    ValueError
        If a value is not a number, naming row and column.
    """
    import pyarrow

    values = without_words(table.column(column))
    if values.null_count == len(values):
        return np.full(len(values), np.nan)
    if pyarrow.types.is_boolean(values.type):
        values = values.cast(pyarrow.int64())
    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    if pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type):
        return np.asarray(values.to_numpy())
    if is_text(values):
        read = _numbers_in(values, mark)
        if read is not None:
            return read
        found = entries(values)
        odd = odd_in(found, mark, CodedColumn(column))
        if not is_number(odd.word):
            raise refusal(name, column, odd, found, is_target, cure)
    if pyarrow.types.is_temporal(values.type) and is_target:
        cure = "give a number in its place, such as the days since the first"
    row, value = first_word(values.to_pylist())
    other = "text" if is_number(value) else NO_NUMBER
    raise ValueError(
        f"{name}: row {row}, column {shown(column)} holds {shown(value)}, which is {other} ({COUNTING}): "
        + (cure or remedy(value, is_target))
    )


def labels(name: str, table: pyarrow.Table, column: str, *, asked: bool, mark: Mark = "") -> AnyArray:
    """Return a column of text as class labels, (n,), stripped of blanks; empty for missing values.

    Unless a classification is requested, text that reads as a number raises an error, since a column of numbers with
    one mistyped entry arrives as text too. Text of digits only, such as 007, is a label if there are few enough
    classes. Text with thousands separators or a percent sign is a number.

    Raises
    ------
    ValueError
        If a value is a number though no classification is asked for, naming row and column.
    """
    texts = words(table, column)
    if asked:
        return texts
    found = entries(table.column(column), names=True)
    read = None if are_digits(found.words) else _numbers_in(table.column(column), mark)
    if read is not None:
        return read
    if not any(is_number(text) or DECIMAL_COMMA.fullmatch(text) or THOUSANDS.fullmatch(text) for text in found.words):
        return texts
    if are_digits(found.words) and len(found.words) <= MOST_CODES:
        return texts  # a csv reader would have made numbers of them, so the column is text on purpose
    if all(map(is_number, found.words)):
        raise ValueError(
            f"{name}: column {shown(column)} holds numbers as text, such as {shown(texts[0])} in row 1 ({COUNTING}): "
            'write them as numbers, or set stream.task = "classification" if they are the labels of classes'
        )
    odd = odd_in(found, mark)
    raise refusal(name, column, odd, found, is_target=True)


def may_name_classes(table: pyarrow.Table, column: str, asked: bool) -> bool:
    """Tell whether a numeric target is read as class labels: on request, or by the rule of the auto task."""
    from pyarrow import types

    values = table.column(column)
    if not (types.is_integer(values.type) or types.is_floating(values.type)):
        return asked and types.is_temporal(values.type)
    known = values.drop_null().to_numpy()
    return asked or are_classes(known, types.is_integer(values.type)) or odd_fraction(known, True) is not None


def with_labels(
    name: str, table: pyarrow.Table, column: str, texts: pyarrow.ChunkedArray, decimal: str, asked: bool
) -> pyarrow.Table:
    """Return a table with its target as text if the target has class codes, such as 007 or 1E2.

    Parameters
    ----------
    name
        The name of the table in messages.
    table, column
        The table, and the name of its target, which was read as numbers or times.
    texts
        The target as text, as written in the file.
    decimal
        The decimal mark.
    asked
        Whether a classification is requested.

    Raises
    ------
    ValueError
        A label is written in two ways, such as 1 and 1.0, or a fraction occurs among labels; the message names rows.
    """
    import pyarrow

    place = table.column_names.index(column)
    if pyarrow.types.is_temporal(table.column(column).type):
        return table.set_column(place, column, texts)
    found = entries(texts)
    pointed = [text.replace(decimal, ".") for text in found.words]
    values = np.asarray(table.column(column).to_numpy())
    whole = all(WHOLE.fullmatch(text) for text in pointed if not is_number(text) or float(text).is_integer())
    odd = None if asked else odd_fraction(values, whole)
    if odd is not None:
        raise ValueError(no_label(name, odd + 1, shown(column), values[odd], COUNTING))
    named = _as_written(name, column, found._replace(words=pointed))
    if _are_plain(pointed) or all(isinstance(label, int) for label in named):
        return table
    return table.set_column(place, column, texts)


def _are_plain(texts: Sequence[str]) -> bool:
    """Tell whether texts are plainly written numbers, not codes such as 007 and 1E2."""
    return all(WHOLE.fullmatch(text) or POINTED.fullmatch(text) for text in texts)


def _as_written(name: str, column: str, found: Entries) -> list[Name]:
    """Return words as names; raises ValueError if two are the same number, naming a row of each."""
    try:
        named = as_written(found.words)
    except SameNumber as error:
        rows = sorted((int(found.rows[found.words.index(text)]), text) for text in error.texts)
        both = " and ".join(f"row {row} {shown(text)}" for row, text in rows)
        raise ValueError(
            f"{name}: column {shown(column)} has in {both}, which are the same number ({COUNTING}): what names classes "
            "or nodes is taken as it is written, write it in one way"
        ) from error
    except ValueError as error:
        raise ValueError(f"{name}: in column {shown(column)} {error}") from error
    return [named[word] for word in found.words]


def _numbers_in(values: pyarrow.ChunkedArray, mark: Mark) -> AnyArray | None:
    """Return the numbers in a column that is text because of thousands separators, percent signs or gaps."""
    found = entries(values)
    gaps = int((found.places < 0).sum()) > values.null_count
    read = parsed(found.words, mark, found.counts) if gaps or any(map(is_dressed, found.words)) else None
    return None if read is None else found.spread(read.values)


def names_of_nodes(name: str, table: pyarrow.Table, column: str) -> AnyArray:
    """Return the node of each row, (n,): whole numbers as int64, or text; NaN or empty for missing values.

    Raises
    ------
    ValueError
        A number is not whole; the message names row and column.
    """
    if is_text(table.column(column)):
        return words(table, column)
    values = numbers(name, table, column, cure="give the nodes whole numbers or text as names")
    gaps = are_gaps(values)
    known = values[~gaps]
    rows = np.flatnonzero(~gaps) + 1
    check_exact(
        name,
        known,
        lambda place: int(rows[place]),
        f"in column {shown(column)} node",
        "write the names of the nodes as text",
    )
    if not np.issubdtype(values.dtype, np.integer):
        wrong = np.flatnonzero((values != np.round(values)) & ~gaps)
        if len(wrong):
            raise ValueError(
                f"{name}: row {wrong[0] + 1} names node {values[wrong[0]]} in column {shown(column)} ({COUNTING}); "
                'nodes are whole numbers or text: correct it, or set stream.node_column = "" to ignore the column'
            )
    return values if gaps.any() else values.astype(np.int64)


def with_nodes(name: str, table: pyarrow.Table, column: str, decimal: str) -> pyarrow.Table:
    """Convert the nodes of a csv table from text to numbers if all are plain numbers; 007 remains text.

    Parameters
    ----------
    name
        The name of the table in messages.
    table, column
        The table, and the column with the nodes' names.
    decimal
        The decimal mark.

    Raises
    ------
    ValueError
        A node is written in two ways, such as 1 and 1.0; the message names a row of each.
    """
    import pyarrow

    if not is_text(table.column(column)):
        return table
    found = entries(table.column(column), names=True)
    pointed = [text.replace(decimal, ".") for text in found.words]
    numbers: list[Any] = _as_written(name, column, found._replace(words=pointed))
    if not all(isinstance(number, int) for number in numbers):
        if not _are_plain(pointed) or all(map(WHOLE.fullmatch, pointed)):
            return table
        numbers = list(map(float, pointed))  # fractions, which raise an error later
    if not numbers:
        return table
    kind = pyarrow.int64() if isinstance(numbers[0], int) else pyarrow.float64()
    values = pyarrow.array([*numbers, None], kind).take(pyarrow.array(found.places % (len(numbers) + 1)))
    return table.set_column(table.column_names.index(column), column, values)


def words(table: pyarrow.Table, column: str) -> AnyArray:
    """Return a column of text as an array (n,) of fixed width, stripped of blanks; empty for missing values."""
    values = without_words(table.column(column))
    texts = np.char.strip(np.array(values.fill_null("").to_pylist(), dtype=np.str_).reshape(len(values)))
    return spelled(np.where(np.isin(texts, WRITTEN), "", texts))


def by_pandas(name: str, table: pyarrow.Table) -> dict[str, Any]:
    """Return pandas' metadata in a table; raises ValueError if it cannot be read."""
    try:
        metadata: dict[str, Any] = table.schema.pandas_metadata or {}
    except ValueError as error:
        raise ValueError(f"{name}: its entry of pandas is no JSON ({shorten(error)}): write the file again") from error
    return metadata


def categories(name: str, table: pyarrow.Table) -> dict[str, bool]:
    """Return the declared categorical columns of a table, each with whether its categories are ordered."""
    columns = by_pandas(name, table).get("columns", [])
    found = {entry.get("field_name", entry.get("name")): entry for entry in columns if isinstance(entry, dict)}
    ordered = {
        column: bool((entry.get("metadata") or {}).get("ordered"))
        for column, entry in found.items()
        if entry.get("pandas_type") == "categorical"
    }
    marks = {field.name: (field.metadata or {}).get(CATEGORIES) for field in table.schema}
    return ordered | {column: mark == ORDERED for column, mark in marks.items() if mark is not None}


def are_digits(texts: Sequence[str]) -> bool:
    """Tell whether all texts consist of digits only, as codes and counts do.

    Examples
    --------
    >>> are_digits(["007", "12"]), are_digits(["1", "2.0"]), are_digits([])
    (True, False, False)
    """
    return bool(texts) and all(text.strip().isdecimal() for text in texts)


# The coding of columns, learned from the training rows: words, the origin of time, and values in place of gaps.


TimesAs = Literal["auto", "days", "cycles"]
"""The inputs made from times: days with the cycles found in the data, days alone, or days with all cycles."""

PARTS, SEEN, PERIODS = 12, 4, 3
"""A cycle has 12 equal parts. It becomes an input if at least 4 parts occur in at least 3 periods each."""


def repeated(moments: Array) -> tuple[str, ...]:
    """Return the cycles that repeat in the moments.

    A cycle is divided into twelve parts, such as two hours of a day. It repeats if at least four parts contain moments
    in three periods each, and if most moments follow their predecessor within less than a third of a period. The mean,
    sine and cosine of a cycle are three parameters, which three samples a period cannot test; three periods distinguish
    a repetition from a single event. The first days of months fall on all weekdays, and do not show a weekly cycle.

    Parameters
    ----------
    moments
        Microseconds since 1970, (n,), NaN for missing moments.

    Examples
    --------
    >>> hours = 3_600e6 * np.arange(7 * 24)
    >>> repeated(hours), repeated(hours[:49]), repeated(24.0 * hours), repeated(np.array([]))
    (('hour',), (), ('weekday',), ())
    """
    moments = np.unique(moments[~np.isnan(moments)])
    if len(moments) < SEEN * PERIODS:
        return ()
    step = np.median(np.diff(moments))
    found = []
    for cycle, length, _ in CYCLES:
        parts = np.unique(np.floor((moments - moments[0]) * PARTS / (length * DAY)))
        periods = np.bincount((parts % PARTS).astype(np.intp), minlength=PARTS)
        if (SEEN - 1) * step < length * DAY and np.count_nonzero(periods >= PERIODS) >= SEEN:
            found.append(cycle)
    return tuple(found)


def with_cycles(columns: Sequence[CodedColumn], points: AnyArray, times: TimesAs) -> tuple[CodedColumn, ...]:
    """Return descriptions of columns with the cycles of times added; points (n, columns) are all rows of the data."""
    everything = times == "cycles"
    found = [tuple(name for name, _, _ in POSSIBLE.get(column.kind, ()) if everything) for column in columns]
    for place, column in enumerate(columns if times == "auto" else ()):
        if column.kind != "time":
            continue
        moments, clock = np.asarray(points[:, place], dtype=np.float64), clock_beside(columns, points.T, column.name)
        found[place] = repeated(moments if clock is None else moments + points[:, clock])
        if clock is not None:  # the clock column gives the hour
            found[clock] = tuple(name for name in found[place] if name == "hour")
            found[place] = tuple(name for name in found[place] if name != "hour")
    return tuple(replace(column, cycles=cycles) for column, cycles in zip(columns, found, strict=True))


def clock_beside(columns: Sequence[CodedColumn], points: Sequence[AnyArray] | AnyArray, date: str) -> int | None:
    """Return the index of the only clock column if the only dates are all at midnight, else None."""
    clocks = [place for place, column in enumerate(columns) if column.kind == "clock"]
    dates = [place for place, column in enumerate(columns) if column.kind == "time"]
    if len(clocks) != 1 or len(dates) != 1 or columns[dates[0]].name != date:
        return None
    return None if np.nanmax(np.mod(points[dates[0]], DAY), initial=0.0) else clocks[0]


def learn(name: str, parts: Sequence[Array], columns: Sequence[CodedColumn], missing: Missing) -> Coding:
    """Learn the coding of columns as numbers.

    Parameters
    ----------
    name
        The name of the data in messages.
    parts
        The training rows, (n_i, columns) each, with NaN for gaps.
    columns
        The descriptions of the columns, with all of their words.
    missing
        The treatment of gaps.

    Raises
    ------
    ValueError
        A column has no value in any row.
    """
    found = []
    for place, column in enumerate(columns):
        values = np.concatenate([part[:, place] for part in parts])
        known = values[~np.isnan(values)]
        if not len(known):
            raise ValueError(
                f"{name}: column {shown(column.name)} has no value in any row that is learned from: leave it out "
                "with stream.drop"
            )
        found.append(_learned(column, values, known, missing))
    return Coding(tuple(found), missing)


def _learned(column: CodedColumn, values: Array, known: Array, missing: Missing) -> CodedColumn:
    if column.kind == "words":
        kept = np.unique(known).astype(np.intp)
        values = np.where(np.isnan(values), np.nan, np.searchsorted(kept, values))
        column = replace(column, words=tuple(column.words[place] for place in kept))
    if column.kind == "time":
        column = replace(column, origin=float(known.min()))
    if missing in ("mean", "last"):
        from sklearn.impute import SimpleImputer

        average = "mean" if column.kind in ("number", "time", "clock", "duration") else "most_frequent"
        filling = SimpleImputer(strategy=average).fit(values[:, None])
        column = replace(column, fill=float(filling.statistics_[0]))
    return column
