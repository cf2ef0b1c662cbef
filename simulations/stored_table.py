"""A table in a file, read in pieces: a parquet file, or a stream of Arrow batches that is still being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.result import Table

if TYPE_CHECKING:
    import pyarrow

GROUP_ROWS = 2**17
"""Rows of a parquet file that are read or written at a time, at least."""


class StoredTable(Mapping[str, npt.NDArray[Any]]):
    """The columns of a table in a file; each is read when it is asked for, and not kept.

    Parameters
    ----------
    path : Path
        A ``.parquet`` file, or an ``.arrows`` file, which holds an Arrow IPC stream; a stream may end anywhere, also
        in the middle of a batch, as a killed process leaves it. Without the file there are no columns.
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
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(GROUP_ROWS, columns=columns)
        return
    with path.open("rb") as stream:
        try:
            reader = ipc.open_stream(stream)
            while True:
                batch = reader.read_next_batch()
                yield batch if columns is None else batch.select(list(columns))
        except (StopIteration, pyarrow.ArrowInvalid, OSError):
            return


def write_table(table: Table, path: Path) -> None:
    """Write a table as a parquet file; of a stored one no more than a group of rows is in memory."""
    import pyarrow
    from pyarrow import parquet

    schema = _schema(table.path) if isinstance(table, StoredTable) else None
    if not isinstance(table, StoredTable) or schema is None:
        parquet.write_table(pyarrow.table(dict(table)), path, compression="zstd")
        return
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(batches(table.path)):
            writer.write_table(pyarrow.Table.from_batches(group))


def _schema(path: Path) -> pyarrow.Schema | None:
    import pyarrow
    from pyarrow import ipc, parquet

    if not path.exists():
        return None
    if path.suffix == ".parquet":
        return parquet.read_schema(path)
    with path.open("rb") as stream:
        try:
            return ipc.open_stream(stream).schema
        except pyarrow.ArrowInvalid:  # nothing has been measured yet
            return None


def _groups(pieces: Iterable[pyarrow.RecordBatch]) -> Iterator[list[pyarrow.RecordBatch]]:
    group: list[pyarrow.RecordBatch] = []
    for piece in pieces:
        group.append(piece)
        if sum(part.num_rows for part in group) >= GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group
