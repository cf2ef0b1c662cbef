"""Read tables with typed columns (parquet, Arrow, JSON), and Excel sheets."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelswarm.refused_key import RefusedKey
from kernelswarm.shallow_json import TooDeep, require_shallow
from kernelswarm.simulations.core.errors import InputError, choices, shown
from kernelswarm.simulations.data.frames import odd_object
from kernelswarm.simulations.data.reading import AUTO, binary, copy_in_utf8, shorten

if TYPE_CHECKING:
    import pyarrow

TypedFormat = Literal["parquet", "arrow", "json"]

ZONE = re.compile(rb'\d(Z|[+-]\d\d(:?\d\d)?)"')
"""The end of a time with a zone."""

LONGEST_RECORD = 2**24
"""Maximum bytes of a JSON record."""


def read_table(name: str, path: Path, kind: TypedFormat) -> pyarrow.Table:
    """Read all columns of a file; raises ValueError for files of another kind.

    Nested records become separate columns, such as ``pose.x``.
    """
    import pyarrow

    readers = {"parquet": _parquet, "arrow": _arrow, "json": _json}
    try:
        table = readers[kind](name, path)
        while any(pyarrow.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
    except (pyarrow.ArrowException, OSError, json.JSONDecodeError, TooDeep) as error:
        raise ValueError(
            f"{name} cannot be read as {kind} ({shorten(error)}): check the file, or set format"
        ) from error
    return table


def _parquet(name: str, path: Path) -> pyarrow.Table:
    from pyarrow import parquet

    return parquet.read_table(path.absolute())  # a relative path may look like a URI, such as file:x


def _arrow(name: str, path: Path) -> pyarrow.Table:
    """Read Arrow's file format, also known as Feather, or its stream format."""
    import pyarrow
    from pyarrow import ipc

    with binary(name, path) as file:
        content = pyarrow.py_buffer(file.read())
    try:
        return ipc.open_file(content).read_all()
    except pyarrow.ArrowInvalid:
        return ipc.open_stream(content).read_all()


def _json(name: str, path: Path) -> pyarrow.Table:
    """Read JSON with one record per line, or with one list of records."""
    import pyarrow
    from pyarrow import json as arrow_json

    content = _content(name, path)
    if _is_list(content):
        records = _records(content)
        if not records or not all(isinstance(record, dict) for record in records):
            raise ValueError(f'{name} holds a list, and not one of records such as {{"x": 1, "y": 2}}: write these')
        content = pyarrow.py_buffer("\n".join(map(json.dumps, records)).encode())
    options = arrow_json.ReadOptions(block_size=LONGEST_RECORD)
    try:
        return arrow_json.read_json(pyarrow.BufferReader(content), read_options=options)
    except pyarrow.ArrowInvalid as error:
        for column, values in _columns(_records(content)).items():
            odd = odd_object(values)
            if odd:
                raise ValueError(
                    f"{name}: in column {shown(column)} {odd} (the first record is row 1): write all of them in one way"
                ) from error
        raise


def has_zones(name: str, path: Path) -> bool:
    """Tell whether times in JSON may have a zone, which Arrow would drop."""
    return ZONE.search(_content(name, path).to_pybytes()) is not None


def texts_in_json(name: str, path: Path, columns: Sequence[str]) -> dict[str, pyarrow.ChunkedArray]:
    """Return columns of JSON as text, with numbers in their original notation, such as 1E2 and 1.0."""
    import pyarrow

    found = _columns(_records(_content(name, path), parse_float=str, parse_int=str))
    return {column: pyarrow.chunked_array([pyarrow.array(found[column], pyarrow.string())]) for column in columns}


def _content(name: str, path: Path) -> pyarrow.Buffer:
    import pyarrow

    text = pyarrow.BufferOutputStream()
    with binary(name, path) as file:
        copy_in_utf8(name, file, text, AUTO)
    content = text.getvalue()
    require_shallow(content.to_pybytes())  # too deep lists would abort the process in Arrow's parser
    return content


def _is_list(content: pyarrow.Buffer) -> bool:
    beginning: bytes = content.slice(0, min(content.size, LONGEST_RECORD)).to_pybytes()
    return beginning.lstrip().startswith(b"[")


def _records(content: pyarrow.Buffer, **keys: Any) -> list[Any]:
    """Return the records of JSON with one record per line, or with one list of records."""
    text: bytes = content.to_pybytes()
    if _is_list(content):
        found: list[Any] = json.loads(text, **keys)
        return found
    return [json.loads(line, **keys) for line in text.splitlines() if line.strip()]


def _columns(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the entries of records by name; nested records get names such as ``pose.x``."""
    rows = [_flat(record) if isinstance(record, dict) else {} for record in records]
    return {column: [row.get(column) for row in rows] for column in dict.fromkeys(name for row in rows for name in row)}


def _flat(record: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in record.items():
        found |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}
    return found


# Excel files as csv: one sheet, with the computed values.


def as_csv(name: str, path: Path, sheet: str) -> bytes:
    """Return a sheet as csv in UTF-8, with commas between fields and points before fractions.

    Numbers keep all digits, dates are in ISO 8601, and empty rows are left out.

    Parameters
    ----------
    name : str
        The name of the file in messages.
    path : Path
        The file, in the format of Excel 2007 and later.
    sheet : str
        The name of the sheet; empty for the only sheet with content.

    Raises
    ------
    InputError
        openpyxl is not installed.
    ValueError
        The file is not an Excel file, or has several sheets and the key ``sheet`` is missing.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise InputError(
            f'{name} is read by openpyxl: pip install "kernelswarm[excel]", or save the sheet as csv'
        ) from error
    try:
        with path.open("rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            titles = [one.title for one in book.worksheets]
            if sheet and sheet not in titles:
                raise RefusedKey("sheet", f"= {shown(sheet)} is not a sheet of {name}{choices(sheet, titles)}")
            filled = {
                one.title: _written(one.iter_rows(values_only=True))
                for one in book.worksheets
                if sheet in ("", one.title)
            }
    except (OSError, KeyError, zipfile.BadZipFile, InvalidFileException) as error:
        raise ValueError(
            f"{name} cannot be read as Excel ({error}): save it as .xlsx (Excel 2007 and later), or as csv"
        ) from error
    filled = {title: text for title, text in filled.items() if text}
    if len(filled) > 1:
        raise RefusedKey("sheet", f'= "" means the only one, and {name} has several{choices("", list(filled))}')
    return next(iter(filled.values()), "").encode()


def _written(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of values as csv, without empty rows, and without empty columns on the right."""
    kept = [["" if value is None else _as_text(value) for value in row] for row in rows]
    kept = [row for row in kept if any(row)]
    wide = max((place + 1 for row in kept for place, text in enumerate(row) if text), default=0)
    text = io.StringIO()
    csv.writer(text).writerows([[*row, *[""] * (wide - len(row))][:wide] for row in kept])
    return text.getvalue()


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
