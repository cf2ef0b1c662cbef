"""Read tables with named columns, and select targets, nodes and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import HELD, CodedColumn
from kernelswarm.simulations.core.errors import choices, shown, some
from kernelswarm.simulations.data.columns import (
    NoTarget,
    by_pandas,
    categories,
    clock_beside,
    inputs,
    labels,
    may_name_classes,
    names_of_nodes,
    numbers,
    read_input,
    with_labels,
    with_nodes,
)
from kernelswarm.simulations.data.csv_dialect import (
    AUTO,
    COMMENT,
    LOOKED_AT,
    Dialect,
    head_of,
    in_words,
    lines_of,
    records,
    texts_of,
    with_tabs,
)
from kernelswarm.simulations.data.gaps import Found, NaValues, named_in, table_without, with_codes, words_in
from kernelswarm.simulations.data.odd_entries import COUNTING
from kernelswarm.simulations.data.reading import binary, call, check_names, copy_in_utf8, shorten
from kernelswarm.simulations.data.rows import Rows, Task, check_size
from kernelswarm.simulations.data.text import WRITTEN, Mark, is_text, ranking
from kernelswarm.simulations.data.times import SHARE
from kernelswarm.simulations.data.typed_tables import TypedFormat, as_csv, has_zones, read_table, texts_in_json

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import csv


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns from the experiment file; empty for roles that the file leaves open.

    If ``target`` is empty for events, each row is one event. The columns ``texts`` of a csv file are text, even if all
    entries read as numbers. ``mark`` is the decimal mark in text, and ``kinds`` are the required contents of the
    inputs, if known. Rows are ordered by the column ``time``: None means no such column, and an empty text means the
    only column of times. If it is None, ``seeks_time`` takes the only input of times if there is one. The columns
    ``drop`` are not inputs. ``na_values`` are codes for gaps. Types of columns may be ``guessed`` from their text.
    """

    target: tuple[str, ...]
    features: tuple[str, ...]
    node: str
    split: tuple[str | int, ...]
    task: Task = "auto"
    texts: tuple[str, ...] = ()
    mark: Mark = ""
    kinds: tuple[CodedColumn, ...] = ()
    time: str | None = None
    drop: tuple[str, ...] = ()
    na_values: NaValues = ()
    guessed: bool = False
    seeks_time: bool = False

    def labelled(self, table: pyarrow.Table) -> str:
        """Return the target if its numbers may be class labels, else an empty text."""
        target = self.target or (() if self.task == "events" else ("y",))
        if len(target) != 1 or target[0] not in table.column_names or self.task not in ("auto", "classification"):
            return ""
        return target[0] if may_name_classes(table, target[0], self.task == "classification") else ""

    def of_test(self, rows: Rows) -> Columns:
        """Return the column roles of a table with test rows, which are the same as in the training table.

        The test table may have its columns in another order, and fewer distinct labels or nodes.
        """
        texts = rows.target_columns if rows.labelled else ()
        if rows.ids is not None and rows.ids.dtype.kind == "U":
            texts = (*texts, self.node)
        texts += tuple(column.name for column in rows.kinds if column.kind in ("words", "ranks"))
        target = self.target if self.task == "events" else rows.target_columns
        return replace(
            self,
            target=target,
            features=rows.columns,
            drop=(),
            texts=texts,
            kinds=rows.held,
            time=rows.time,
            seeks_time=False,
        )


def read_csv(key: str, path: Path, dialect: Dialect, columns: Columns) -> Rows:
    """Read a csv file in UTF-8, with or without gzip compression, that has a header.

    Raises
    ------
    ValueError
        The file is not a csv file, lacks a column, or has other contents than numbers, or text for labels and nodes.
    """
    name = call(key, path)
    return rows_of(name, text_of(name, path, AUTO), dialect, AUTO, columns)


def text_of(name: str, path: Path, encoding: str) -> pyarrow.Buffer:
    """Return the text of a csv file, with or without gzip, in UTF-8; raises ValueError for wrong encodings."""
    import pyarrow

    # Arrow's threads get memory owned by Arrow: a thread with a Python object at the end of the process aborts it.
    content = pyarrow.BufferOutputStream()
    with binary(name, path) as file:
        copy_in_utf8(name, file, content, encoding)
    return content.getvalue()


def parted_by_tabs(content: pyarrow.Buffer) -> pyarrow.Buffer:
    """Replace blanks between the fields of a csv file by a tab."""
    import pyarrow

    return pyarrow.py_buffer(with_tabs(content.to_pybytes()))


def sheet_of(name: str, path: Path, sheet: str) -> pyarrow.Buffer:
    """Return a sheet of an Excel file as csv with commas; raises ValueError without such a sheet."""
    import pyarrow

    return pyarrow.py_buffer(as_csv(name, path, sheet))


def start_of(content: pyarrow.Buffer) -> bytes:
    """Return the examined first bytes of a file, and one more byte if there is one."""
    beginning: bytes = content.slice(0, min(content.size, LOOKED_AT + 1)).to_pybytes()
    return beginning


def rows_of(name: str, content: pyarrow.Buffer, dialect: Dialect, skip: int | str, columns: Columns) -> Rows:
    """Read the text of a csv file.

    Parameters
    ----------
    name
        The name of the file in messages.
    content
        The text of the file in UTF-8.
    dialect
        The delimiter and the decimal mark.
    skip
        The number of lines above the header, or "auto".
    columns
        The roles of the columns.

    Raises
    ------
    ValueError
        The file is not a csv file, lacks a column, or has other contents than numbers, or text for labels and nodes.
    """
    import pyarrow
    from pyarrow import csv

    lines = lines_of(start_of(content))
    head = head_of(texts_of(lines), dialect.delimiter, skip)
    held = records(texts_of(lines), head.skipped, dialect.delimiter)
    header = head.names or (held[0].fields if held else ())
    texts = [name for name in header if name.strip() in (*columns.texts, columns.node)]
    # Other words in a column of numbers appear in messages as in the file.
    gaps = [*WRITTEN, *words_in(columns.na_values)]
    convert = csv.ConvertOptions(
        null_values=[f"{before}{gap}{after}" for gap in gaps for before in ("", " ") for after in ("", " ")],
        strings_can_be_null=True,
        decimal_point=dialect.decimal,
        column_types=dict.fromkeys(texts, pyarrow.string()),
    )
    odd: list[csv.InvalidRow] = []

    def passed_over(row: csv.InvalidRow) -> str:
        if row.text.startswith(COMMENT):
            return "skip"
        odd.append(row)
        return "error"

    parse = csv.ParseOptions(delimiter=dialect.delimiter, invalid_row_handler=passed_over)
    below = content.slice(sum(map(len, lines[: head.skipped])))
    try:
        names = csv.ReadOptions(column_names=list(head.names) or None)
        table = csv.read_csv(pyarrow.BufferReader(below), names, parse_options=parse, convert_options=convert)
        raw = table.column_names
        table = _with_names(table)
        target = columns.labelled(table)
        if target:  # read again as text, since numbers lose their notation
            convert.include_columns = [next(name for name in raw if name.strip() == target)]
            convert.column_types = dict.fromkeys(convert.include_columns, pyarrow.string())
            again = csv.read_csv(pyarrow.BufferReader(below), names, parse_options=parse, convert_options=convert)
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        if dialect.blanks and odd:
            raise ValueError(
                f"{name} has {odd[0].expected_columns} fields with blanks between them, and {odd[0].actual_columns} "
                f"in another line{_where(odd, content)}: missing entries between blanks cannot be seen, write NA in "
                "its place, or leave such lines out"
            ) from error
        raise ValueError(
            f"{name} cannot be read as csv with delimiter {shown(dialect.delimiter)} ({shorten(error)}"
            f"{_where(odd, content)}): it must have as many fields in every line as in the header; stream.delimiter "
            "names another delimiter, and stream.skip_lines is how many lines stand above the header"
        ) from error
    if target:
        asked = columns.task == "classification"
        table = with_labels(name, table, target, again.column(0), dialect.decimal, asked)
    if columns.node in table.column_names and columns.node not in columns.texts:
        table = with_nodes(name, table, columns.node, dialect.decimal)
    rows = select(name, table, replace(columns, mark="," if dialect.decimal == "," else columns.mark, guessed=True))
    words = set(map(shown, words_in(columns.na_values)))  # already counted as gaps
    codes = {code: count for code, count in rows.codes.items() if code not in words}
    return replace(rows, codes=codes, units=in_words(head.names, head.units) if head.units else "")


def _where(odd: Sequence[csv.InvalidRow], content: pyarrow.Buffer) -> str:
    """Name the line whose number of fields differs from the header's, if it can be found again."""
    if not odd:
        return ""
    text: bytes = b"\n" + content.to_pybytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\n"
    places = [text.find(b"\n" + row.text.encode().strip(b"\r\n") + b"\n") for row in odd]
    found = [place for place in places if place >= 0]
    return f", line {text.count(10, 0, min(found) + 1):,} of the file" if found else ""


def _with_names(table: pyarrow.Table) -> pyarrow.Table:
    """Drop the unnamed columns of a text table if there are several, and make all names unique.

    Repeated names get a number, as in pandas: Sales, Sales.1, Sales.2.
    """
    names = [column.strip() for column in table.column_names]
    if names.count("") > 1:  # delimiters at line ends; a single unnamed column may be row numbers
        table = table.select([place for place, name in enumerate(names) if name])
        names = [name for name in names if name]
    known: set[str] = set()
    for place, name in enumerate(names):
        again = 0
        while names[place] in known or (again and names[place] in names[:place] + names[place + 1 :]):
            again += 1
            names[place] = f"{name}.{again}"
        known.add(names[place])
    return table.rename_columns(names)


def read_typed(key: str, path: Path, kind: TypedFormat, columns: Columns) -> Rows:
    """Read a parquet file, a folder of parquet files in the order of their names, an Arrow file or a JSON file.

    Raises
    ------
    ValueError
        The file has another format, lacks a column, or has other contents than numbers, or text for labels and nodes.
    """
    name = call(key, path)
    table = read_table(name, path, kind)
    if kind == "json":
        table = _as_in_json(name, path, table, columns)
    return select(name, table, columns)


def _as_in_json(name: str, path: Path, table: pyarrow.Table, columns: Columns) -> pyarrow.Table:
    """Return a JSON table with details that Arrow drops: the notation of names, and the zones of times."""
    from pyarrow import types

    labels, target = columns.labelled(table), columns.target or ("y",)
    kinds = {field.name: field.type for field in table.schema if not types.is_integer(field.type)}
    times = [column for column, kind in kinds.items() if types.is_timestamp(kind) and column not in target]
    times = times if times and has_zones(name, path) else []
    named = [column for column in (columns.node,) if column in kinds and types.is_floating(kinds[column])]
    wanted = [*times, *named, *([labels] if labels in kinds else [])]
    texts = texts_in_json(name, path, wanted) if wanted else {}
    for column in (*times, *named):
        table = table.set_column(table.column_names.index(column), column, texts[column])
    if labels in kinds:
        table = with_labels(name, table, labels, texts[labels], ".", columns.task == "classification")
    return with_nodes(name, table, columns.node, ".") if named else table


def select(name: str, table: pyarrow.Table, columns: Columns) -> Rows:
    """Select the columns by the experiment's keys or by default: numbers, and text for labels and nodes.

    By default, the target is the column y, the node is the column "node" if there is one, and the features are all
    other named columns except an index written by pandas.
    """
    known = list(table.column_names)
    twice = sorted({column for column in known if known.count(column) > 1})
    if twice:
        raise ValueError(f"{name}: the column name {shown(twice[0])} occurs more than once: rename one of the columns")
    # The index; a plain range is only described in the metadata and has no column.
    index = [column for column in by_pandas(name, table).get("index_columns", []) if isinstance(column, str)]
    counted = columns.task != "events" or bool(columns.target)
    if counted and not columns.target and "y" not in known:
        raise NoTarget(name, tuple(column for column in known if column not in ("", columns.node, *index)))
    target = columns.target or (("y",) if counted else ())
    check_names(name, "target", target, known)
    node = columns.node
    if node and node != "node":
        check_names(name, "node_column", [node], known)
    ids = node if node in known else ""
    left_out = {"", *target, ids, *index}
    check_names(name, "drop", columns.drop, known)
    features = columns.features or tuple(column for column in known if column not in {*left_out, *columns.drop})
    check_names(name, "features", features, known)
    check_size(name, table.num_rows, len(features))
    both = sorted(set(features) & {*target, ids})
    if both:
        raise RefusedKey(
            "features",
            f"= {shown(both[0])} is also the target or the node of {name}: leave it out, a column has one meaning",
        )
    for column in columns.split:
        if not isinstance(column, str):
            raise RefusedKey(
                "split_columns", f"= {shown(column)}: the columns of {name} have names{choices(str(column), known)}"
            )
    split = [str(column) for column in columns.split]
    check_names(name, "split_columns", split, known)
    check_names(name, "na_values", named_in(columns.na_values), known)
    codes: Found = {}
    used = [column for column in (*features, *target, *split, ids, columns.time or "") if column in known]
    table = table_without(table, used, columns.na_values, codes, guessed=columns.guessed)
    single = table.column(target[0]) if len(target) == 1 else None
    if single is not None and columns.task in ("auto", "classification") and is_text(single):
        targets = [labels(name, table, target[0], asked=columns.task == "classification", mark=columns.mark)]
    else:
        targets = [numbers(name, table, column, is_target=True, mark=columns.mark) for column in target]
    if not counted:
        targets, target = [np.ones(table.num_rows)], ("events",)
    points, kinds = inputs(name, table, features, columns.mark, columns.kinds, has_codes=not columns.guessed)
    time, times = _order_of(name, columns, kinds, points), None
    if time is not None:
        times, clock = _moments(name, table, time, columns), clock_beside(kinds, points, time)
        times = times if clock is None else times + points[clock]
    return Rows(
        name=name,
        points=stack(points),
        targets=stack(targets),
        columns=features,
        target_columns=target,
        counting=COUNTING,
        first=1,
        ids=names_of_nodes(name, table, ids) if ids else None,
        places=stack([_places(name, table, column, columns) for column in split]) if split else None,
        whole=all(np.issubdtype(values.dtype, np.integer) for values in targets)
        or (counted and all(_are_whole(table.column(column)) for column in target))
        or (single is not None and target[0] in categories(name, table)),
        ranking=() if single is None else ranking(single),
        kinds=with_codes(kinds, columns.na_values),
        index=_left_out([column for column in index if column in left_out - {*features, *target, ids, time}]),
        codes=codes,
        times=times,
        time=time,
    )


def _left_out(index: list[str]) -> str:
    """Return a sentence on named index columns, which are not inputs; unnamed indices are dropped silently."""
    named = [column for column in index if not column.startswith("__index_level_")]
    many = len(named) > 1
    return (
        f"{', '.join(map(shown, named))} {'are' if many else 'is'} the index of the table and no "
        f"input{'s' * many}: stream.features names {'them' if many else 'it'} among the inputs"
        if named
        else ""
    )


def _places(name: str, table: pyarrow.Table, column: str, columns: Columns) -> AnyArray:
    """Return the numbers or times by which rows are cut or sorted."""
    values, held = read_input(name, table, column, columns.mark, None, has_codes=not columns.guessed)
    return numbers(name, table, column) if held.kind in ("words", "ranks") else values


def _order_of(name: str, columns: Columns, kinds: tuple[CodedColumn, ...], points: Sequence[AnyArray]) -> str | None:
    """Return the column of times for the order of rows, or None."""
    if columns.time or (columns.time is None and not columns.seeks_time):
        return columns.time
    found = [column.name for column in kinds if column.kind == "time"]
    if columns.time is None:
        known = [values[~np.isnan(values)] for values, kind in zip(points, kinds, strict=True) if kind.kind == "time"]
        clear = (
            len(found) == 1 and SHARE * len(known[0]) >= (SHARE - 1) * len(points[0]) and len(np.unique(known[0])) > 1
        )
        return found[0] if clear else None
    if len(found) != 1:
        has = f"{len(found)} such inputs, {some(found)}" if found else "no such input"
        raise RefusedKey(
            "order", f'= "time" needs a column of dates or times, and {name} has {has}: name one as stream.time_column'
        )
    return found[0]


def _moments(name: str, table: pyarrow.Table, column: str, columns: Columns) -> AnyArray:
    """Return the values by which rows are ordered; raises RefusedKey if they are neither times nor numbers."""
    check_names(name, "time_column", [column], list(table.column_names))
    values, held = read_input(name, table, column, columns.mark, None, has_codes=not columns.guessed)
    if held.kind in ("words", "ranks", "truth"):
        raise RefusedKey("time_column", f"= {shown(column)} holds {HELD[held.kind]}, and no times: name another")
    return values.astype(np.float64)


def _are_whole(values: pyarrow.ChunkedArray) -> bool:
    """Tell whether the type of a column, with or without gaps, is integer or boolean."""
    import pyarrow

    return bool(pyarrow.types.is_integer(values.type) or pyarrow.types.is_boolean(values.type))


def stack(columns: list[AnyArray]) -> AnyArray:
    """Stack columns (n,) into an array (n, columns)."""
    return np.column_stack(columns)
