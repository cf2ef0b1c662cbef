"""Read tables whose columns have types of their own: parquet, Arrow and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelswarm.simulations.streams.written.character_encoding import AUTO, copy_in_utf8
from kernelswarm.simulations.streams.written.reading import binary, shorten

if TYPE_CHECKING:
    import pyarrow

TypedFormat = Literal["parquet", "arrow", "json"]

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
    except (pyarrow.ArrowException, OSError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{name} cannot be read as {kind} ({shorten(error)}): check the file, or set format"
        ) from error
    return table


def _parquet(name: str, path: Path) -> pyarrow.Table:
    from pyarrow import parquet

    return parquet.read_table(path)


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

    text = pyarrow.BufferOutputStream()
    with binary(name, path) as file:
        copy_in_utf8(name, file, text, AUTO)
    content = text.getvalue()
    beginning = content.slice(0, min(content.size, LONGEST_RECORD)).to_pybytes().lstrip()
    if beginning.startswith(b"["):
        records = json.loads(content.to_pybytes())
        if not records or not all(isinstance(record, dict) for record in records):
            raise ValueError(f'{name} holds a list, and not one of records such as {{"x": 1, "y": 2}}: write these')
        content = pyarrow.py_buffer("\n".join(map(json.dumps, records)).encode())
    options = arrow_json.ReadOptions(block_size=LONGEST_RECORD)
    return arrow_json.read_json(pyarrow.BufferReader(content), read_options=options)
