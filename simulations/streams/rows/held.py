"""Data that lie in memory, and what tells them from others: the rows of a file that need not be there yet."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.streams.rows.arrays import arrays_of, rows_of_arrays
from kernelswarm.simulations.streams.rows.rows import Numbers, Rows
from kernelswarm.simulations.streams.rows.tables import Columns, select
from kernelswarm.simulations.streams.written.reading import call
from kernelswarm.simulations.streams.written.typed_tables import read_table

if TYPE_CHECKING:
    import pyarrow

NAME, TEST_NAME = "data", "test"
"""What messages call rows in memory, and those to be measured on."""


class Held(Protocol):
    """Data in memory, as files would hold them."""

    @property
    def path(self) -> Path:
        """The file that they are written to, in a folder."""
        ...

    @property
    def test_path(self) -> Path | None:
        """The file with the test rows, where they have one of their own."""
        ...

    @property
    def contents(self) -> str:
        """How many rows and columns there are, with their SHA-256."""
        ...

    def rows(self, columns: Columns) -> tuple[Rows, Rows | None]:
        """Return the rows and, where there are some, the test rows; ValueError where they are refused."""
        ...

    def write(self, folder: Path) -> None:
        """Write them into a folder."""
        ...


class _Described(ABC):
    """What is equal where its contents are."""

    @property
    @abstractmethod
    def contents(self) -> str:
        """Say what is held."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Described) and self.contents == other.contents

    def __hash__(self) -> int:
        return hash(self.contents)


@dataclass(frozen=True, eq=False)
class HeldArrays(_Described):
    """Arrays x (n, p) and y (n,) or (n, q), perhaps node (n,), x_test, y_test and node_test, as in an npz file.

    Parameters
    ----------
    arrays
        By name; nobody writes to them any more.
    name
        What messages call them.
    """

    arrays: Mapping[str, Numbers]
    name: str = NAME
    FILE: ClassVar[str] = "rows.npz"

    @property
    def path(self) -> Path:
        return Path(self.FILE)

    @property
    def test_path(self) -> Path | None:
        return None

    @cached_property
    def contents(self) -> str:
        return contents_of_arrays(self.arrays)

    def rows(self, columns: Columns) -> tuple[Rows, Rows | None]:
        return rows_of_arrays(self.name, self.arrays, columns.node, columns.split, columns.na_values)

    def write(self, folder: Path) -> None:
        np.savez(folder / self.FILE, allow_pickle=False, **self.arrays)


@dataclass(frozen=True, eq=False)
class HeldTable(_Described):
    """A table with named columns, and perhaps one with test rows, as in parquet files.

    Parameters
    ----------
    table, test
        Arrow tables.
    name, test_name
        What messages call them.
    """

    table: pyarrow.Table
    test: pyarrow.Table | None = None
    name: str = NAME
    test_name: str = TEST_NAME
    FILE: ClassVar[str] = "rows.parquet"
    TEST_FILE: ClassVar[str] = "test_rows.parquet"

    @property
    def path(self) -> Path:
        return Path(self.FILE)

    @property
    def test_path(self) -> Path | None:
        return None if self.test is None else Path(self.TEST_FILE)

    @cached_property
    def contents(self) -> str:
        return contents_of_tables([self.table, *([] if self.test is None else [self.test])])

    def rows(self, columns: Columns) -> tuple[Rows, Rows | None]:
        rows = select(self.name, self.table, columns)
        return rows, None if self.test is None else select(self.test_name, self.test, columns.of_test(rows))

    def write(self, folder: Path) -> None:
        from pyarrow import parquet

        for table, name in ((self.table, self.FILE), (self.test, self.TEST_FILE)):
            if table is not None:
                parquet.write_table(table, folder / name)


def read_npz_whole(key: str, path: Path) -> HeldArrays:
    """Read all arrays of an npz file; raises ValueError where it is none."""
    name = call(key, path)
    return HeldArrays(arrays_of(name, path), name)


def read_parquet_whole(files: Sequence[tuple[str, Path]]) -> HeldTable:
    """Read all columns of one parquet file, or of two of which the second has the test rows.

    Raises
    ------
    ValueError
        One is none.
    """
    names = [call(key, path) for key, path in files]
    tables = [read_table(name, path, "parquet") for name, (_, path) in zip(names, files, strict=True)]
    return HeldTable(tables[0], tables[1] if len(tables) > 1 else None, names[0], names[-1])


FILES = (HeldArrays.FILE, HeldTable.FILE)
"""The files that data in memory are written to, one or the other."""


def read_held(folder: Path, file: str) -> Held:
    """Return the data that a run has left in its folder, in one of ``FILES``; ValueError where they are damaged."""
    if file == HeldArrays.FILE:
        return replace(read_npz_whole("path", folder / file), name=NAME)
    files = [("path", folder / name) for name in (HeldTable.FILE, HeldTable.TEST_FILE)]
    found = read_parquet_whole([(key, path) for key, path in files if path.is_file()])
    return replace(found, name=NAME, test_name=TEST_NAME)


def contents_of_arrays(arrays: Mapping[str, Numbers]) -> str:
    """Say what arrays hold: how many rows and columns, and the SHA-256 of their names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.newbyteorder('=').str} {array.shape};".encode())
        digest.update(_bytes(array.astype(array.dtype.newbyteorder("="), copy=False)))
    rows = sum(array.shape[0] for name, array in arrays.items() if name in ("x", "x_test") and array.ndim)
    columns = sum(array.shape[1] if array.ndim == 2 else 1 for name, array in arrays.items() if not _is_test(name))
    return _identity(rows, columns, digest)


def contents_of_tables(tables: list[pyarrow.Table]) -> str:
    """Say what tables hold, the test rows after the others: rows, columns, and the SHA-256 of names and values."""
    digest = hashlib.sha256()
    for table in tables:
        for name, column in zip(table.column_names, table.columns, strict=True):
            values = column.to_numpy()
            digest.update(f"{name} {values.dtype.str if values.dtype.kind != 'O' else 'text'} {len(values)};".encode())
            if values.dtype.kind in "biufMm":
                digest.update(_bytes(np.ascontiguousarray(values)))
            else:
                digest.update(json.dumps(column.to_pylist(), default=str, ensure_ascii=True).encode())
    return _identity(sum(table.num_rows for table in tables), tables[0].num_columns, digest)


def require_contents(wanted: str, found: str, name: str) -> None:
    """Refuse data that are not those asked for; raises ValueError."""
    if wanted and wanted != found:
        raise RefusedKey(
            "contents",
            f"= {shown(wanted)} is not what {name} holds, {shown(found)}: give the former data, or leave contents out",
        )


def _bytes(array: Numbers) -> Any:
    """Return the bytes of a contiguous array without a copy; of objects, which are refused later, their words."""
    return repr(array).encode() if array.dtype.hasobject else array.reshape(-1).view(np.uint8).data


def _is_test(name: str) -> bool:
    return name.endswith("_test")


def _identity(rows: int, columns: int, digest: Any) -> str:
    return f"{rows:,} rows, {columns:,} columns, SHA-256 {digest.hexdigest()[:32]}"
