"""The stores of a run's measurements, one evaluation after the other: in memory, or in files."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.records.measured_table import MeasuredTable
from kernelswarm.simulations.records.result import Columns, Table
from kernelswarm.simulations.records.stored_table import StoredTable, as_array, batches, checksum_line, sums_of

TABLES = ("nodes", "edges", "network")
"""The network's row of an evaluation is written last: where it is, the others are."""

FOLDER = "measured"
"""The folder of the measurements in the run folder of a run that has not ended."""

FLUSH_SECONDS = 0.5
FLUSH_ROWS = 50_000
"""The largest age and number of measurements that a killed process can lose."""


BATCH_ROWS = 500_000
"""Rows that are written together, at most: on their way to the disk there are three more copies of them."""


class Measurements(Protocol):
    """Three tables that grow."""

    def add(self, rows: Mapping[str, Columns]) -> None:
        """Append the rows of one evaluation to each table; a table without rows has no columns."""
        ...

    def tables(self) -> dict[str, MeasuredTable]:
        """Return the tables as they are now."""
        ...


class InMemory:
    """Measurements that are kept in memory."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[Columns]] = {name: [] for name in TABLES}

    def add(self, rows: Mapping[str, Columns]) -> None:
        for name, columns in rows.items():
            if columns:
                self._pieces[name].append(columns)

    def tables(self) -> dict[str, MeasuredTable]:
        return {name: MeasuredTable(joined(pieces)) for name, pieces in self._pieces.items()}


class OnDisk:
    """Measurements that go to ``measured/<table>.arrows`` in a run folder, as Arrow IPC streams.

    Parameters
    ----------
    folder : Path
        The run folder.
    before : int
        Rows of rounds before this one are kept, of an earlier part of the run; they come from its streams, or when it
        had ended from its final tables.

    Raises
    ------
    OSError
        The disk is full or the folder may not be written.
    """

    def __init__(self, folder: Path, before: int = 0) -> None:
        (folder / FOLDER).mkdir(exist_ok=True)
        self._paths = {name: stream(folder, name) for name in TABLES}
        self._ends = dict.fromkeys(TABLES, 0)  # of what has been written whole
        self._noted = dict.fromkeys(TABLES, 0)  # and of its checksums
        self._waiting: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._flushed = time.monotonic()
        for name, path in self._paths.items():
            self._take_up(name, path if path.exists() else folder / f"{name}.parquet", before)

    def add(self, rows: Mapping[str, Columns]) -> None:
        """Append the rows of one evaluation; while the disk is full they wait in memory, and a warning says so."""
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
            warnings.warn(f"what was measured stays in memory, it could not be written: {cause}", stacklevel=2)

    def sync(self) -> None:
        """Write all that was added to the disk; raises OSError where that fails."""
        self._flush()
        for path in self._paths.values():
            for part in (path, sums_of(path)):
                with part.open("rb") as file:
                    os.fsync(file.fileno())

    def tables(self) -> dict[str, MeasuredTable]:
        """Write what is waiting, and return the tables in the files."""
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
            file.truncate(self._ends[name])  # an attempt before this one may have ended in the middle
            file.seek(self._ends[name])
            file.write(written)
            file.flush()  # before anything says that it is there
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
    """Return where a table of a run folder is while the run goes on."""
    return folder / FOLDER / f"{table}.arrows"


def joined(pieces: list[Columns]) -> Columns:
    """Put the rows of tables with the same columns under one another."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in (pieces[0] if pieces else ())}
