"""Stores of a run's measurements, in memory or in files."""

from __future__ import annotations

import os
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.records.result import Columns, MeasuredTable, Table

if TYPE_CHECKING:
    import pyarrow

# A table in a file, read in pieces: a parquet file, or a growing stream of Arrow batches.

GROUP_ROWS = 2**17
"""Minimum number of rows of a parquet file that are read or written at a time."""


class StoredTable(MeasuredTable):
    """The columns of a table in a file; each access reads the column from the file.

    Parameters
    ----------
    path : Path
        A ``.parquet`` file, or an ``.arrows`` file with an Arrow IPC stream and a separate file of checksums. A stream
        may end in the middle of a batch if its process was killed. If the file is missing, there are no columns.

    Raises
    ------
    ValueError
        On access to a column: a batch of the stream is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> AnyArray:
        pieces = [as_array(batch.column(name)) for batch in batches(self.path, [name])]
        return np.concatenate(pieces) if pieces else self._nothing(name)

    def __iter__(self) -> Iterator[str]:
        schema = _schema(self.path)
        return iter(() if schema is None else schema.names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in list(iter(self))

    def _nothing(self, name: str) -> AnyArray:
        schema = _schema(self.path)
        if schema is None or name not in schema.names:
            raise KeyError(name)
        return np.empty(0, dtype=schema.field(name).type.to_pandas_dtype())


def as_array(column: pyarrow.Array | pyarrow.ChunkedArray) -> AnyArray:
    """Return a column as an array of numbers or of fixed-width text.

    The methods of pyarrow for this import pandas where it is installed, which takes longer than all else here.
    """
    import pyarrow

    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    kind = np.dtype(np.str_ if pyarrow.types.is_string(column.type) else column.type.to_pandas_dtype())
    if column.null_count or kind.kind not in "iuf":
        return np.array(column.to_pylist(), dtype=np.float64 if kind.kind in "iu" else kind)
    return np.concatenate([np.empty(0, kind), *map(np.from_dlpack, chunks)])


def batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a table in batches; incomplete batches of a stream are left out."""
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
    """Return the path of a stream's checksums: one line per batch with its end and its CRC-32."""
    return path.with_name(f"{path.name}.crc32")


def checksum_line(end: int, piece: bytes) -> bytes:
    """Return the checksum line of a batch that ends at ``end``."""
    return f"{end} {zlib.crc32(piece):08x}\n".encode()


def _whole_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of each complete batch of a stream; the first includes the schema."""
    sums = sums_of(path)
    if not path.exists() or not sums.exists():
        return
    start = 0
    with path.open("rb") as stream:
        for line in sums.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                return  # the writing process was killed
            number = line.split(b" ")[0]
            end = int(number) if number.isdigit() else -1
            piece = stream.read(max(end - start, 0))
            if len(piece) < end - start:
                return  # the machine failed
            if line != checksum_line(end, piece):
                raise ValueError(f"the checksum of its bytes {start} to {end} is not the one in {sums.name}")
            yield piece
            start = end


def write_table(table: Table, path: Path) -> None:
    """Write a table as a parquet file; stored tables are copied one group of rows at a time."""
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
    return None if first is None else ipc.open_stream(first).schema  # None before the first evaluation


def _groups(pieces: Iterable[pyarrow.RecordBatch]) -> Iterator[list[pyarrow.RecordBatch]]:
    group: list[pyarrow.RecordBatch] = []
    for piece in pieces:
        group.append(piece)
        if sum(part.num_rows for part in group) >= GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


TABLES = ("nodes", "edges", "network")
"""The tables of a run. The network's row is written last, so that it implies the other rows."""

FOLDER = "measured"
"""The folder of the measurements in the run folder of an unfinished run."""

FLUSH_SECONDS = 0.5
FLUSH_ROWS = 50_000
"""Maximum age in seconds and number of the rows that a killed process can lose."""


BATCH_ROWS = 500_000
"""Maximum number of rows written together, since writing needs three more copies of them."""


class Measurements(Protocol):
    """The three growing tables of a run."""

    def add(self, rows: Mapping[str, Columns]) -> None:
        """Append the rows of one evaluation to each table; a table without rows has no columns."""
        ...

    def tables(self) -> dict[str, MeasuredTable]:
        """Return the present tables."""
        ...


class InMemory:
    """Measurements in memory."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Columns]] = {name: [] for name in TABLES}

    def add(self, rows: Mapping[str, Columns]) -> None:
        for name, columns in rows.items():
            if columns:
                self._pieces[name].append(columns)

    def tables(self) -> dict[str, MeasuredTable]:
        return {name: MeasuredTable(joined(pieces)) for name, pieces in self._pieces.items()}


class OnDisk:
    """Measurements in ``measured/<table>.arrows`` of a run folder, as Arrow IPC streams.

    Parameters
    ----------
    folder : Path
        The run folder.
    before : int
        Rows of rounds before this number are kept from an earlier part of the run. They are read from its streams, or
        from its final tables if the run had ended.

    Raises
    ------
    OSError
        The disk is full or the folder is not writable.
    """

    def __init__(self, folder: Path, before: int = 0) -> None:
        (folder / FOLDER).mkdir(exist_ok=True)
        self._paths = {name: stream(folder, name) for name in TABLES}
        self._ends = dict.fromkeys(TABLES, 0)  # bytes of complete batches
        self._noted = dict.fromkeys(TABLES, 0)  # bytes of their checksums
        self._waiting: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._flushed = time.monotonic()
        for name, path in self._paths.items():
            self._take_up(name, path if path.exists() else folder / f"{name}.parquet", before)

    def add(self, rows: Mapping[str, Columns]) -> None:
        """Append the rows of one evaluation. If the disk is full, warn and keep the rows in memory."""
        for name, columns in rows.items():
            if columns:
                self._waiting[name].append(columns)
        count = sum(len(columns["round"]) for pieces in self._waiting.values() for columns in pieces)
        if count < FLUSH_ROWS and time.monotonic() - self._flushed < FLUSH_SECONDS:
            return
        try:
            self._flush()
        except OSError as error:
            cause = error.strerror or error
            warnings.warn(f"measurements stay in memory, they could not be written: {cause}", stacklevel=2)

    def sync(self) -> None:
        """Write all added rows to the disk; raises OSError if that fails."""
        self._flush()
        for path in self._paths.values():
            for part in (path, sums_of(path)):
                with part.open("rb") as file:
                    os.fsync(file.fileno())

    def tables(self) -> dict[str, MeasuredTable]:
        """Write waiting measurements, and return the tables in the files."""
        try:
            self._flush()
        except OSError as error:
            folder = self._paths["nodes"].parent
            raise SimulationError(f"{folder} could not be written: {error.strerror or error}") from error
        return {name: StoredTable(path) for name, path in self._paths.items()}

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        for name, pieces in self._waiting.items():
            while pieces:
                table = joined(pieces)
                self._append(name, self._paths[name], {key: column[:BATCH_ROWS] for key, column in table.items()})
                left = {key: column[BATCH_ROWS:] for key, column in table.items()}
                pieces[:] = [left] if len(left["round"]) else []

    def _append(self, name: str, path: Path, columns: Table) -> None:
        import pyarrow

        batch = pyarrow.record_batch(dict(columns))
        written = batch.serialize().to_pybytes()
        if not self._ends[name]:
            written = batch.schema.serialize().to_pybytes() + written
        end = self._ends[name] + len(written)
        sums = sums_of(path)
        with path.open("r+b") as file, sums.open("r+b") as notes:
            file.truncate(self._ends[name])  # an earlier attempt may have been interrupted
            file.seek(self._ends[name])
            file.write(written)
            file.flush()  # before the checksum confirms it
            notes.truncate(self._noted[name])
            notes.seek(self._noted[name])
            line = checksum_line(end, written)
            notes.write(line)
        self._ends[name] = end
        self._noted[name] += len(line)

    def _take_up(self, name: str, source: Path, before: int) -> None:
        unfinished = self._paths[name].with_suffix(".part")
        unfinished.write_bytes(b"")
        sums_of(unfinished).write_bytes(b"")
        for batch in batches(source) if before else ():
            kept = batch.column("round").to_numpy() < before
            if kept.any():
                columns = zip(batch.schema.names, batch.columns, strict=True)
                self._append(name, unfinished, {key: as_array(column)[kept] for key, column in columns})
        sums_of(unfinished).replace(sums_of(self._paths[name]))
        unfinished.replace(self._paths[name])


def stream(folder: Path, table: str) -> Path:
    """Return the path of a table in the folder of an unfinished run."""
    return folder / FOLDER / f"{table}.arrows"


def joined(pieces: list[Columns]) -> Columns:
    """Concatenate the rows of tables with the same columns."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in (pieces[0] if pieces else ())}
