"""One column of a csv or parquet table: numbers, labels of classes, or names of nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.ground.wording import shown, some
from kernelswarm.simulations.streams.rows.dialect import THOUSANDS
from kernelswarm.simulations.streams.rows.reading import shorten
from kernelswarm.simulations.streams.rows.rows import Numbers, check_exact

if TYPE_CHECKING:
    import pyarrow

CATEGORIES, ORDERED = b"categories", b"ordered"
"""The mark of a column of numbers that stand for categories, which no file holds as such, and its value."""

COUNTING = "the first row of data is row 1"

#: A number such as 120,43 or -1,5e-3, as most of Europe writes it.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")

#: Text of digits with more different values than this is a column of numbers that was written as text.
MOST_CODES = 100


class OnlyWords(ValueError):
    """The refusal of inputs of which some, ``words``, hold no number at all; ``others`` are the rest."""

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


def inputs(name: str, table: pyarrow.Table, columns: Sequence[str]) -> list[Numbers]:
    """Columns of inputs as NumPy arrays of their own types.

    Raises
    ------
    OnlyWords
        If columns hold no number at all, and some do.
    ValueError
        If a value is missing or is not a number, naming row and column.
    """
    try:
        _refuse_categories(name, table, columns)
        return [numbers(name, table, column) for column in columns]
    except ValueError as error:
        worded = [column for column in columns if is_text(table.column(column))]
        worded = [column for column in worded if are_words(table.column(column).drop_null().to_pylist())]
        others = tuple(column for column in columns if column not in worded)
        if not worded or not others:
            raise
        raise OnlyWords(str(error), tuple(worded), others) from error


def numbers(name: str, table: pyarrow.Table, column: str, *, is_target: bool = False, cure: str = "") -> Numbers:
    """One column as a NumPy array of its own type; ``cure`` is what to do about what is no number.

    Raises
    ------
    ValueError
        If a value is missing or is not a number, naming row and column.
    """
    import pyarrow

    values = present(name, table, column)
    if pyarrow.types.is_boolean(values.type):
        return np.asarray(values.to_numpy()).astype(np.int64)
    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    if pyarrow.types.is_integer(values.type) or pyarrow.types.is_floating(values.type):
        return np.asarray(values.to_numpy())
    row, value = first_word(values.to_pylist())
    other = "text" if is_number(value) else "not a number"
    raise ValueError(
        f"{name}: row {row}, column {shown(column)} holds {shown(value)}, which is {other} ({COUNTING}): "
        + (cure or remedy(value, is_target))
    )


def labels(name: str, table: pyarrow.Table, column: str, *, asked: bool) -> Numbers:
    """A column of text as the labels of classes, (n,), without blanks around them.

    Unless a classification is asked for, text that reads as a number is refused: a column of numbers in which one is
    mistyped arrives as text too. Digits only, such as 007, are labels, as long as there may be so many classes.

    Raises
    ------
    ValueError
        If a value is missing, or is a number though no classification is asked for, naming row and column.
    """
    texts = words(name, table, column)
    if asked:
        return texts
    first = {str(text): int(row) + 1 for text, row in zip(*np.unique(texts, return_index=True), strict=True)}
    commas = [row for text, row in first.items() if DECIMAL_COMMA.fullmatch(text) or THOUSANDS.fullmatch(text)]
    decimal = min(commas, default=None)
    numeric = min((row for text, row in first.items() if is_number(text)), default=None)
    if decimal is None and numeric is None:
        return texts
    if are_digits(list(first)) and len(first) <= MOST_CODES:
        return texts  # a csv file would have made numbers of them: a column that is text all the same is meant so
    if all(is_number(text) for text in first):
        raise ValueError(
            f"{name}: column {shown(column)} holds numbers as text, such as {shown(texts[0])} in row 1 ({COUNTING}): "
            'write them as numbers, or set stream.task = "classification" if they are the labels of classes'
        )
    row, value = first_word(texts.tolist()) if decimal is None else (decimal, texts[decimal - 1])
    other = "" if numeric is None or decimal else f" and row {numeric} {shown(texts[numeric - 1])}, which is one"
    raise ValueError(
        f"{name}: row {row}, column {shown(column)} holds {shown(value)}, which is not a number{other} ({COUNTING}): "
        + remedy(str(value), True)
    )


def names_of_nodes(name: str, table: pyarrow.Table, column: str) -> Numbers:
    """The node of each row, (n,): whole numbers as int64, or text.

    Raises
    ------
    ValueError
        If a value is missing, or is a number that is not whole, naming row and column.
    """
    if is_text(table.column(column)):
        return words(name, table, column)
    values = numbers(name, table, column)
    check_exact(name, values, 1, f"in column {shown(column)} node", "write the names of the nodes as text")
    if not np.issubdtype(values.dtype, np.integer):
        wrong = np.flatnonzero(values != np.round(values))
        if len(wrong):
            raise ValueError(
                f"{name}: row {wrong[0] + 1} names node {values[wrong[0]]} in column {shown(column)} ({COUNTING}); "
                'nodes are whole numbers or text: correct it, or set stream.node_column = "" to ignore the column'
            )
    return values.astype(np.int64)


def words(name: str, table: pyarrow.Table, column: str) -> Numbers:
    """A column of text as an array (n,) of fixed width, without blanks around each entry."""
    values = present(name, table, column)
    texts = np.char.strip(np.array(values.to_pylist(), dtype=np.str_).reshape(len(values)))
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise missing(name, column, int(empty[0]) + 1)
    return texts


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


def by_pandas(name: str, table: pyarrow.Table) -> dict[str, Any]:
    """Return what pandas has written of a table into it; ValueError if that cannot be read."""
    try:
        said: dict[str, Any] = table.schema.pandas_metadata or {}
    except ValueError as error:
        raise ValueError(f"{name}: its entry of pandas is no JSON ({shorten(error)}): write the file again") from error
    return said


def categories(name: str, table: pyarrow.Table) -> dict[str, bool]:
    """Return whether categories have an order, by the columns of which the table says that they hold some."""
    columns = by_pandas(name, table).get("columns", [])
    found = {entry.get("field_name", entry.get("name")): entry for entry in columns if isinstance(entry, dict)}
    said = {
        column: bool((entry.get("metadata") or {}).get("ordered"))
        for column, entry in found.items()
        if entry.get("pandas_type") == "categorical"
    }
    marks = {field.name: (field.metadata or {}).get(CATEGORIES) for field in table.schema}
    return said | {column: mark == ORDERED for column, mark in marks.items() if mark is not None}


def are_words(texts: Sequence[str]) -> bool:
    """Whether text is none of numbers, one of which is mistyped: none of it is a number, or all are digits as codes."""
    return not any(map(is_number, texts)) or are_digits(texts)


def are_digits(texts: Sequence[str]) -> bool:
    """Whether text is of digits only, as codes and numbers of things are.

    Examples
    --------
    >>> are_digits(["007", "12"]), are_digits(["1", "2.0"]), are_digits([])
    (True, False, False)
    """
    return bool(texts) and all(text.strip().isdecimal() for text in texts)


def _refuse_categories(name: str, table: pyarrow.Table, columns: Sequence[str]) -> None:
    """Refuse numbers that stand for categories without an order as inputs: their differences mean nothing."""
    ordered = categories(name, table)
    for column in columns:
        if not ordered.get(column, True) and not is_text(table.column(column)):
            raise ValueError(
                f"{name}: column {shown(column)} holds categories without an order, such as "
                f"{shown(table.column(column)[0].as_py())} in row 1 ({COUNTING}): make a column of 0 and 1 for each of "
                "them, convert it to numbers if they are quantities, or leave the column out by naming the others in "
                "stream.features"
            )


def present(name: str, table: pyarrow.Table, column: str) -> pyarrow.ChunkedArray:
    """A column of which no value is missing, without a list of words."""
    import pyarrow

    values = table.column(column)
    if values.null_count:
        raise missing(name, column, int(values.is_null().to_numpy().argmax()) + 1)
    return values.cast(values.type.value_type) if pyarrow.types.is_dictionary(values.type) else values


def missing(name: str, column: str, row: int) -> ValueError:
    """The refusal of a value that is not there."""
    return ValueError(
        f"{name}: row {row}, column {shown(column)} is missing ({COUNTING}); every value must be a finite number, and "
        "every label or node have a name: fill in or remove the rows without one"
    )


def remedy(value: Any, is_target: bool) -> str:
    """What to do about a value that is not a number."""
    if isinstance(value, str) and THOUSANDS.fullmatch(value.strip()):
        return (
            "leave out the commas if they part thousands, as in 1,234 for 1234, or set "
            'stream.decimal = "," if they stand before fractions'
        )
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return 'set stream.decimal = "," for a csv file whose numbers have decimal commas, or write a point'
    if is_target:
        return 'correct it, or set stream.task = "classification" if it is the label of a class'
    return "correct it, or leave the column out by naming the others in stream.features"


def first_word(values: Sequence[Any]) -> tuple[int, Any]:
    """Row, from 1, and value of the first entry that is not a number; the first of all where every one is."""
    for row, value in enumerate(values, start=1):
        if not is_number(value):
            return row, value
    return 1, values[0]


def is_number(value: Any) -> bool:
    """Whether a field of a table can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
