"""One column of a csv or parquet table: inputs of any kind, numbers, labels of classes, or names of nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.coding import ALIKE, HELD, CodedColumn, Kind
from kernelswarm.simulations.core.messages import shown, some
from kernelswarm.simulations.streams.rows.dialect import THOUSANDS
from kernelswarm.simulations.streams.rows.encoding.gaps import are_gaps
from kernelswarm.simulations.streams.rows.encoding.named_dates import is_time, of_column
from kernelswarm.simulations.streams.rows.encoding.numerals import CODE, Mark, parsed
from kernelswarm.simulations.streams.rows.encoding.text import (
    MOST_WORDS,
    Entries,
    are_too_many,
    entries,
    is_text,
    ranking,
    read_text,
    without_words,
)
from kernelswarm.simulations.streams.rows.encoding.times import WhichIsTheDay
from kernelswarm.simulations.streams.rows.odd_words import (
    DECIMAL_COMMA,
    NO_NUMBER,
    first_word,
    is_dressed,
    is_number,
    odd_in,
    refusal,
    remedy,
)
from kernelswarm.simulations.streams.rows.rows import Numbers, check_exact
from kernelswarm.simulations.streams.written.gap_words import WRITTEN
from kernelswarm.simulations.streams.written.reading import shorten

if TYPE_CHECKING:
    import pyarrow

CATEGORIES, ORDERED = b"categories", b"ordered"
"""The mark of a column of numbers that stand for categories, which no file holds as such, and its value."""

COUNTING = "the first row of data is row 1"

WHOLE = re.compile(r"[+-]?\d+")

#: Text of digits with more different values than this is a column of numbers that was written as text.
MOST_CODES = 100


class ManyWords(ValueError):
    """The refusal of inputs of which some, ``words``, hold too many different words; ``others`` are the rest."""

    def __init__(self, text: str, words: tuple[str, ...], others: tuple[str, ...]) -> None:
        super().__init__(text)
        self.words, self.others = words, others


class NoTarget(RefusedKey):
    """The refusal of a table ``name`` without the column y, where no target is named; ``columns`` might be one."""

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
) -> tuple[list[Numbers], tuple[CodedColumn, ...]]:
    """Columns of inputs as arrays, numbers of their own types, and what they hold.

    Parameters
    ----------
    name
        What messages call the table.
    table, columns
        The table, and the names of the columns.
    mark
        What stands before fractions in text; empty where nothing says so.
    wanted
        What each column has to hold, where that is known.
    cure
        What messages say to do about columns that hold something else.

    Raises
    ------
    ManyWords
        If columns have more different words than become columns of 0 and 1.
    ValueError
        If a column is of no kind that becomes numbers, naming row and column.
    """
    held = {column.name: column for column in wanted}
    found = [read_input(name, table, column, mark, held.get(column), cure) for column in columns]
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
    name: str, table: pyarrow.Table, column: str, mark: Mark, wanted: CodedColumn | None, cure: str = ""
) -> tuple[Numbers, CodedColumn]:
    """One column of inputs as an array (n,), nan where a value is missing, and what it holds; see :func:`inputs`."""
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
            read = read_text(found, column, mark, kind, "" if wanted is None else wanted.written)
        except WhichIsTheDay as error:
            raise ValueError(
                f"{name}: column {shown(column)} holds dates such as {shown(str(error))}, none of which shows whether "
                f"{error.choices} comes first: write them as 2021-12-31"
            ) from error
        if read is None:
            raise _unreadable(name, column, found, mark, cure, kind)
        if wanted is not None and found.words:
            _check_kind(name, wanted, read[1], cure)
        return read
    unordered = not categories(name, table).get(column, True)
    if unordered or (wanted is not None and any(map(is_number, wanted.words))):
        coded = _numbers_as_words(name, table, column)
        if wanted is not None:
            _check_kind(name, wanted, coded[1], cure)
        return coded
    times = of_column(values, column, kind)
    if times is None:
        kind = "truth" if pyarrow.types.is_boolean(values.type) else "number"
        found_kind = CodedColumn(column, kind)
    else:
        found_kind = CodedColumn(column, times.kind, zoned=times.zoned)
    if wanted is not None and values.null_count < len(values):
        _check_kind(name, wanted, found_kind, cure)
    return numbers(name, table, column, cure=cure) if times is None else times.values, found_kind


def _check_kind(name: str, wanted: CodedColumn, found: CodedColumn, cure: str) -> None:
    """Refuse a column that holds something else than what was learned from."""
    if ALIKE.get(found.kind, found.kind) == ALIKE.get(wanted.kind, wanted.kind) and found.zoned == wanted.zoned:
        return
    kinds = [f"{HELD[one.kind]}{' of a time zone' * one.zoned}" for one in (found, wanted)]
    raise ValueError(
        f"{name}: column {shown(found.name)} holds {kinds[0]}, and what was learned from holds {kinds[1]}: "
        + (cure or "write both in the same way")
    )


def _numbers_as_words(name: str, table: pyarrow.Table, column: str) -> tuple[Numbers, CodedColumn]:
    """Numbers that stand for categories without an order, in increasing order, as words."""
    values = numbers(name, table, column).astype(np.float64)
    gaps = np.isnan(values)
    found, places = np.unique(values[~gaps], return_inverse=True)
    spread = np.full(len(values), np.nan)
    spread[~gaps] = places
    words = tuple(str(int(value)) if value == int(value) else repr(float(value)) for value in found)
    return spread, CodedColumn(column, "words", words)


def _unreadable(name: str, column: str, found: Entries, mark: Mark, cure: str, wanted: Kind | None) -> ValueError:
    """The refusal of text that is neither all numbers nor all times nor all words, or not what is wanted."""
    if wanted in ("time", "clock"):
        untimed = [place for place, word in enumerate(found.words) if not is_time(word)]
        row, place = min((found.row(place), place) for place in untimed or range(len(found.words)))
        return ValueError(
            f"{name}: row {row}, column {shown(column)} holds {shown(found.words[place])}, and what was learned from "
            f"holds {HELD[wanted]} ({COUNTING}): {cure or 'write all of them in one way, such as 2021-12-31 18:30'}"
        )
    rows = {word: found.row(place) for place, word in enumerate(found.words)}
    odd = odd_in(rows, mark)
    both = "" if len(odd.words) in (0, len(rows)) else ", beside numbers"
    text = f"{name}: row {odd.row}, column {shown(column)} holds {shown(odd.word)}, which is {NO_NUMBER}{both}"
    return refusal(f"{text} ({COUNTING})", column, odd, rows, cure or remedy(odd.word, is_target=False))


def numbers(
    name: str, table: pyarrow.Table, column: str, *, is_target: bool = False, cure: str = "", mark: Mark = ""
) -> Numbers:
    """One column as a NumPy array of its own type, nan where one is missing; ``cure`` is what to do about no number.

    Text is refused, unless all of it are numbers with marks between thousands or percent signs.

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
        rows = {word: found.row(place) for place, word in enumerate(found.words)}
        odd = odd_in(rows, mark)
        if not is_number(odd.word):
            text = f"{name}: row {odd.row}, column {shown(column)} holds {shown(odd.word)}, which is {NO_NUMBER}"
            raise refusal(f"{text} ({COUNTING})", column, odd, rows, cure or remedy(odd.word, is_target))
    if pyarrow.types.is_temporal(values.type) and is_target:
        cure = "give a number in its place, such as the days since the first"
    row, value = first_word(values.to_pylist())
    other = "text" if is_number(value) else NO_NUMBER
    raise ValueError(
        f"{name}: row {row}, column {shown(column)} holds {shown(value)}, which is {other} ({COUNTING}): "
        + (cure or remedy(value, is_target))
    )


def labels(name: str, table: pyarrow.Table, column: str, *, asked: bool, mark: Mark = "") -> Numbers:
    """A column of text as the labels of classes, (n,), without blanks around them; empty where one is missing.

    Unless a classification is asked for, text that reads as a number is refused: a column of numbers in which one is
    mistyped arrives as text too. Digits only, such as 007, are labels, as long as there may be so many classes; numbers
    with marks between thousands or a percent sign are numbers.

    Raises
    ------
    ValueError
        If a value is a number though no classification is asked for, naming row and column.
    """
    texts = words(table, column)
    if asked:
        return texts
    first = {str(text): int(row) + 1 for text, row in zip(*np.unique(texts, return_index=True), strict=True) if text}
    read = None if are_digits(list(first)) else _numbers_in(table.column(column), mark)
    if read is not None:
        return read
    if not any(is_number(text) or DECIMAL_COMMA.fullmatch(text) or THOUSANDS.fullmatch(text) for text in first):
        return texts
    if are_digits(list(first)) and len(first) <= MOST_CODES:
        return texts  # a csv file would have made numbers of them: a column that is text all the same is meant so
    if all(is_number(text) for text in first):
        raise ValueError(
            f"{name}: column {shown(column)} holds numbers as text, such as {shown(texts[0])} in row 1 ({COUNTING}): "
            'write them as numbers, or set stream.task = "classification" if they are the labels of classes'
        )
    odd = odd_in(first, mark)
    row = min((row for text, row in first.items() if text not in odd.words), default=None)
    other = "" if row is None else f" and row {row} {shown(str(texts[row - 1]))}, which is one"
    text = f"{name}: row {odd.row}, column {shown(column)} holds {shown(odd.word)}, which is {NO_NUMBER}{other}"
    raise refusal(f"{text} ({COUNTING})", column, odd, first, remedy(odd.word, is_target=True))


def _numbers_in(values: pyarrow.ChunkedArray, mark: Mark) -> Numbers | None:
    """Return the numbers of a column of text that is one for a reason: marks between thousands, percent signs, gaps."""
    found = entries(values)
    gaps = int((found.places < 0).sum()) > values.null_count
    read = parsed(found.words, mark) if gaps or any(map(is_dressed, found.words)) else None
    return None if read is None else found.spread(read.values)


def names_of_nodes(name: str, table: pyarrow.Table, column: str) -> Numbers:
    """The node of each row, (n,): whole numbers as int64, or text; nan or empty where one is missing.

    Raises
    ------
    ValueError
        If a value is a number that is not whole, naming row and column.
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


def with_nodes(table: pyarrow.Table, column: str, decimal: str) -> pyarrow.Table:
    """Return a csv file's table with its nodes, which are text, as numbers where all are: 007 is the name as it stands.

    Parameters
    ----------
    table, column
        The table, and the column that names nodes.
    decimal
        What stands before fractions in it.
    """
    import pyarrow
    from pyarrow import compute

    if not is_text(table.column(column)):
        return table
    values = compute.utf8_trim_whitespace(table.column(column))
    known = [text for text in compute.unique(values).to_pylist() if text is not None]
    if any(map(CODE.fullmatch, known)):
        return table
    whole = all(map(WHOLE.fullmatch, known))
    try:
        numbered = (values if whole else compute.replace_substring(values, decimal, ".")).cast(
            pyarrow.int64() if whole else pyarrow.float64()
        )
    except pyarrow.ArrowInvalid:
        return table
    return table.set_column(table.column_names.index(column), column, numbered)


def words(table: pyarrow.Table, column: str) -> Numbers:
    """A column of text as an array (n,) of fixed width, without blanks around each entry; empty for what is missing."""
    values = without_words(table.column(column))
    texts = np.char.strip(np.array(values.fill_null("").to_pylist(), dtype=np.str_).reshape(len(values)))
    return np.where(np.isin(texts, WRITTEN), "", texts)


def by_pandas(name: str, table: pyarrow.Table) -> dict[str, Any]:
    """Return what pandas has written of a table into it; ValueError if that cannot be read."""
    try:
        metadata: dict[str, Any] = table.schema.pandas_metadata or {}
    except ValueError as error:
        raise ValueError(f"{name}: its entry of pandas is no JSON ({shorten(error)}): write the file again") from error
    return metadata


def categories(name: str, table: pyarrow.Table) -> dict[str, bool]:
    """Return whether categories have an order, by the columns of which the table says that they hold some."""
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
    """Whether text is of digits only, as codes and numbers of things are.

    Examples
    --------
    >>> are_digits(["007", "12"]), are_digits(["1", "2.0"]), are_digits([])
    (True, False, False)
    """
    return bool(texts) and all(text.strip().isdecimal() for text in texts)
