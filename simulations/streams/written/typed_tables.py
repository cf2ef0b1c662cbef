"""Read tables whose columns have types of their own: parquet, Arrow and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelswarm.shallow_json import TooDeep, require_shallow
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.streams.written.character_encoding import AUTO, copy_in_utf8
from kernelswarm.simulations.streams.written.objects import odd_object
from kernelswarm.simulations.streams.written.reading import binary, shorten

if TYPE_CHECKING:
    import pyarrow

TypedFormat = Literal["parquet", "arrow", "json"]

ZONE = re.compile(rb'\d(Z|[+-]\d\d(:?\d\d)?)"')
"""The end of a time of a zone."""

LONGEST_RECORD = 2**24
"""Bytes of a record of JSON, at most."""


def read_table(name: str, path: Path, kind: TypedFormat) -> pyarrow.Table:
    """Read all columns of a file; raises ValueError where it is none of its kind.

    Records in one another become columns of their own, ``pose.x``.
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

    return parquet.read_table(path.absolute())  # a relative one may look like a URI, such as file:x


def _arrow(name: str, path: Path) -> pyarrow.Table:
    """Read what Arrow calls its file format, also known as Feather, or its stream format."""
    import pyarrow
    from pyarrow import ipc

    with binary(name, path) as file:
        content = pyarrow.py_buffer(file.read())
    try:
        return ipc.open_file(content).read_all()
    except pyarrow.ArrowInvalid:
        return ipc.open_stream(content).read_all()


def _json(name: str, path: Path) -> pyarrow.Table:
    """Read JSON of one record in each line, or one list of records."""
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
    """Tell whether times in JSON may be of a zone, which Arrow does not keep."""
    return ZONE.search(_content(name, path).to_pybytes()) is not None


def texts_in_json(name: str, path: Path, columns: Sequence[str]) -> dict[str, pyarrow.ChunkedArray]:
    """Return columns of JSON, of text and of numbers, as text: numbers as they are written, such as 1E2 and 1.0."""
    import pyarrow

    found = _columns(_records(_content(name, path), parse_float=str, parse_int=str))
    return {column: pyarrow.chunked_array([pyarrow.array(found[column], pyarrow.string())]) for column in columns}


def _content(name: str, path: Path) -> pyarrow.Buffer:
    import pyarrow

    text = pyarrow.BufferOutputStream()
    with binary(name, path) as file:
        copy_in_utf8(name, file, text, AUTO)
    content = text.getvalue()
    require_shallow(content.to_pybytes())  # Arrow's parser ends the process where lists are too deep
    return content


def _is_list(content: pyarrow.Buffer) -> bool:
    beginning: bytes = content.slice(0, min(content.size, LONGEST_RECORD)).to_pybytes()
    return beginning.lstrip().startswith(b"[")


def _records(content: pyarrow.Buffer, **keys: Any) -> list[Any]:
    """Return the records of JSON, of one in each line or of one list."""
    text: bytes = content.to_pybytes()
    if _is_list(content):
        found: list[Any] = json.loads(text, **keys)
        return found
    return [json.loads(line, **keys) for line in text.splitlines() if line.strip()]


def _columns(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the entries of records by their names, those of records in records as ``pose.x``."""
    rows = [_flat(record) if isinstance(record, dict) else {} for record in records]
    return {column: [row.get(column) for row in rows] for column in dict.fromkeys(name for row in rows for name in row)}


def _flat(record: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in record.items():
        found |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}
    return found
