"""A table in a file, read in pieces: a parquet file, or a stream of Arrow batches that is still being written."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.records.measured_table import MeasuredTable
from kernelswarm.simulations.records.result import Table

if TYPE_CHECKING:
    import pyarrow

GROUP_ROWS = 2**17
"""Rows of a parquet file that are read or written at a time, at least."""


class StoredTable(MeasuredTable):
    """The columns of a table in a file; each is read when it is asked for, and not kept.

    Parameters
    ----------
    path : Path
        A ``.parquet`` file, or an ``.arrows`` file, which holds an Arrow IPC stream with checksums beside it; a stream
        may end anywhere, also in the middle of a batch, as a killed process leaves it. Without the file there are no
        columns.

    Raises
    ------
    ValueError
        A column is asked for, and a batch of the stream is not what was written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        pieces = [as_array(batch.column(name)) for batch in batches(self.path, [name])]
        return np.concatenate(pieces) if pieces else self._nothing(name)

    def __iter__(self) -> Iterator[str]:
        schema = _schema(self.path)
        return iter(() if schema is None else schema.names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def _nothing(self, name: str) -> npt.NDArray[Any]:
        schema = _schema(self.path)
        if schema is None or name not in schema.names:
            raise KeyError(name)
        return np.empty(0, dtype=schema.field(name).type.to_pandas_dtype())


def as_array(column: pyarrow.Array | pyarrow.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column of numbers, or of text of a fixed width, as it was written."""
    import pyarrow

    chunked = isinstance(column, pyarrow.ChunkedArray)
    values: npt.NDArray[Any] = column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False)
    return values.astype(np.str_) if pyarrow.types.is_string(column.type) else values


def batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a table, some at a time; of a stream those batches that are whole."""
    import pyarrow
    from pyarrow import ipc, parquet

    if not path.exists():
        return
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path.absolute()) as file:
            yield from file.iter_batches(GROUP_ROWS, columns=columns)
        return
    schema = None
    for piece in _whole_pieces(path):
        if schema is None:
            reader = ipc.open_stream(piece)
            schema, batch = reader.schema, reader.read_next_batch()
        else:
            batch = ipc.read_record_batch(pyarrow.py_buffer(piece), schema)
        yield batch if columns is None else batch.select(list(columns))


def sums_of(path: Path) -> Path:
    """Return where the checksums of a stream are: one line for each batch, where it ends and its CRC-32."""
    return path.with_name(f"{path.name}.crc32")


def checksum_line(end: int, piece: bytes) -> bytes:
    """Return the line about the bytes of a batch that ends at ``end``."""
    return f"{end} {zlib.crc32(piece):08x}\n".encode()


def _whole_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of each batch of a stream that was written whole, the schema with those of the first."""
    sums = sums_of(path)
    if not path.exists() or not sums.exists():
        return
    start = 0
    with path.open("rb") as stream:
        for line in sums.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                return  # its writer was killed
            number = line.split(b" ")[0]
            end = int(number) if number.isdigit() else -1
            piece = stream.read(max(end - start, 0))
            if len(piece) < end - start:
                return  # the machine went down
            if line != checksum_line(end, piece):
                raise ValueError(f"the checksum of its bytes {start} to {end} is not the one in {sums.name}")
            yield piece
            start = end


def write_table(table: Table, path: Path) -> None:
    """Write a table as a parquet file; of a stored one no more than a group of rows is in memory."""
    import pyarrow
    from pyarrow import parquet

    schema = _schema(table.path) if isinstance(table, StoredTable) else None
    if not isinstance(table, StoredTable) or schema is None:
        parquet.write_table(pyarrow.table(dict(table)), path.absolute(), compression="zstd")
        return
    with parquet.ParquetWriter(path.absolute(), schema, compression="zstd") as writer:
        for group in _groups(batches(table.path)):
            writer.write_table(pyarrow.Table.from_batches(group))


def _schema(path: Path) -> pyarrow.Schema | None:
    from pyarrow import ipc, parquet

    if not path.exists():
        return None
    if path.suffix == ".parquet":
        return parquet.read_schema(path.absolute())
    first = next(_whole_pieces(path), None)
    return None if first is None else ipc.open_stream(first).schema  # None: nothing has been measured yet


def _groups(pieces: Iterable[pyarrow.RecordBatch]) -> Iterator[list[pyarrow.RecordBatch]]:
    group: list[pyarrow.RecordBatch] = []
    for piece in pieces:
        group.append(piece)
        if sum(part.num_rows for part in group) >= GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group
