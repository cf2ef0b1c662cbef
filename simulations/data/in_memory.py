"""In-memory data: arrays, data frames and dicts, treated like npz and parquet files."""

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

from kernelswarm.arrays import AnyArray
from kernelswarm.graphs.given.names import names_of
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.data.array_files import arrays_of, rows_of_arrays
from kernelswarm.simulations.data.columns import CATEGORIES, ORDERED
from kernelswarm.simulations.data.frames import arrow, has_categories, in_step, is_frame, named, same_names
from kernelswarm.simulations.data.gaps import together, unmasked
from kernelswarm.simulations.data.reading import call, check_names, shorten
from kernelswarm.simulations.data.rows import Rows
from kernelswarm.simulations.data.tables import Columns, select
from kernelswarm.simulations.data.typed_tables import read_table

if TYPE_CHECKING:
    import pyarrow

# In-memory data with a checksum of their content, and the files that they are written to.

NAME, TEST_NAME = "data", "test"
"""Names of in-memory rows and test rows in messages."""


class Held(Protocol):
    """In-memory data, in the form of a file."""

    @property
    def path(self) -> Path:
        """The name of the file for the data, in a folder."""
        ...

    @property
    def test_path(self) -> Path | None:
        """The name of a separate file for the test rows, or None."""
        ...

    @property
    def contents(self) -> str:
        """Describe the data by the numbers of rows and columns and the SHA-256."""
        ...

    def rows(self, columns: Columns) -> tuple[Rows, Rows | None]:
        """Return the rows, and the test rows if there are any; raises ValueError for invalid rows."""
        ...

    def write(self, folder: Path) -> None:
        """Write the data into a folder."""
        ...


class _Described(ABC):
    """Data that are compared by content."""

    @property
    @abstractmethod
    def contents(self) -> str:
        """Describe the data."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Described) and self.contents == other.contents

    def __hash__(self) -> int:
        return hash(self.contents)


@dataclass(frozen=True, eq=False)
class HeldArrays(_Described):
    """Arrays x (n, p), y (n,) or (n, q), and optionally node (n,), x_test, y_test and node_test, as in an npz file.

    Parameters
    ----------
    arrays
        The arrays by name, which must not be modified.
    name
        Their names in messages.
    """

    arrays: Mapping[str, AnyArray]
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
    """A table with named columns, and optionally a table of test rows, as in parquet files.

    Parameters
    ----------
    table, test
        Arrow tables.
    name, test_name
        Their names in messages.
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
    """Read all arrays of an npz file; raises ValueError for other files."""
    name = call(key, path)
    return HeldArrays(arrays_of(name, path), name)


def read_parquet_whole(files: Sequence[tuple[str, Path]]) -> HeldTable:
    """Read all columns of a parquet file, and optionally of a second file with test rows.

    Raises
    ------
    ValueError
        A file is not a parquet file.
    """
    names = [call(key, path) for key, path in files]
    tables = [read_table(name, path, "parquet") for name, (_, path) in zip(names, files, strict=True)]
    return HeldTable(tables[0], tables[1] if len(tables) > 1 else None, names[0], names[-1])


FILES = (HeldArrays.FILE, HeldTable.FILE)
"""The possible files for in-memory data."""


def read_held(folder: Path, file: str) -> Held:
    """Return the data in a run folder, from one of ``FILES``; raises ValueError for damaged files."""
    if file == HeldArrays.FILE:
        return replace(read_npz_whole("path", folder / file), name=NAME)
    files = [("path", folder / name) for name in (HeldTable.FILE, HeldTable.TEST_FILE)]
    found = read_parquet_whole([(key, path) for key, path in files if path.is_file()])
    return replace(found, name=NAME, test_name=TEST_NAME)


def contents_of_arrays(arrays: Mapping[str, AnyArray]) -> str:
    """Describe arrays by their rows, columns, and the SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.newbyteorder('=').str} {array.shape};".encode())
        digest.update(_bytes(array.astype(array.dtype.newbyteorder("="), copy=False)))
    rows = sum(array.shape[0] for name, array in arrays.items() if name in ("x", "x_test") and array.ndim)
    columns = sum(array.shape[1] if array.ndim == 2 else 1 for name, array in arrays.items() if not _is_test(name))
    return _identity(rows, columns, digest)


def contents_of_tables(tables: list[pyarrow.Table]) -> str:
    """Describe tables, test rows last, by their rows, columns, and the SHA-256 of names and values."""
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
    """Raise a ValueError if the content of data differs from the required one."""
    if wanted and wanted != found:
        raise RefusedKey(
            "contents",
            f"= {shown(wanted)} is not what {name} holds, {shown(found)}: give the former data, or leave contents out",
        )


def _bytes(array: AnyArray) -> Any:
    """Return the bytes of a contiguous array without a copy, or the text of objects, which raise an error later."""
    return repr(array).encode() if array.dtype.hasobject else array.reshape(-1).view(np.uint8).data


def _is_test(name: str) -> bool:
    return name.endswith("_test")


def _identity(rows: int, columns: int, digest: Any) -> str:
    return f"{rows:,} rows, {columns:,} columns, SHA-256 {digest.hexdigest()[:32]}"


KINDS = (
    "arrays (X, y) or (X, y, node), a dict with a pair (X, y) or a frame for each node, a data frame with the name of "
    "its target, or a dict of arrays x and y or of columns"
)

Names = str | Sequence[str]


def from_python(
    data: Any, test: Any = None, target: Names | None = None, node: str | None = None
) -> tuple[Held, dict[str, Any]]:
    """Convert arrays, frames or dicts to in-memory data of a stream.

    Parameters
    ----------
    data
        One of: arrays (X, y) or (X, y, node), where X may also be a frame; a dict from nodes' names to pairs (X, y) or
        frames; a list of pairs, one for each node; a dict of arrays x, y and optionally node, x_test, y_test,
        node_test, such as ``numpy.load`` returns; a frame of pandas, polars or pyarrow; a dict of columns.
    test
        Test rows, of the same kind.
    target, node
        Names of the columns of a frame with the targets, and with the node of each row.

    Returns
    -------
    Held
        A copy of the data. The rows of frames and series are aligned by index.
    dict
        The keys target and node_column for the stream "file".

    Raises
    ------
    ValueError
        The data have an unknown form; the message describes the data and gives the remedy.
    """
    target, node = _text(target), _text(node)
    if target is not None and not isinstance(target, str | Sequence):
        raise ValueError(f"target is a {type(target).__name__} and must be the name of a column, or a list of names")
    data, test = (_with_levels(rows, target, node) for rows in (data, test))
    data, test = _by_column(_of_all_nodes(data, NAME)), _by_column(_of_all_nodes(test, TEST_NAME))
    pieces = _pieces(data, NAME)
    if pieces is not None and not is_frame(pieces[0]):
        _refuse_names(target, node)
        arrays = _arrays(pieces, "")
        if test is not None:
            others = _pieces(test, TEST_NAME)
            if others is None or is_frame(others[0]) or len(others) != len(pieces):
                raise ValueError(f"test must be of the kind of data: {len(pieces)} arrays")
            arrays |= _arrays(others, "_test")
        return HeldArrays(arrays), {}
    if isinstance(data, Mapping) and np.ndim(data.get("x", 0)) == 2:
        _refuse_names(target, node)
        if test is not None:
            raise ValueError('test stands beside a dict of arrays: put them in as "x_test" and "y_test"')
        return HeldArrays({str(name): _array(str(name), values) for name, values in data.items()}), {}
    table, target, node = _table(data, NAME, target, node)
    other = None if test is None else _table(test, TEST_NAME, target, node)[0]
    wanted = () if target is None else (target,) if isinstance(target, str) else tuple(map(str, target))
    check_names(NAME, "target", wanted, table.column_names)
    if node is not None:
        check_names(NAME, "node", [node], table.column_names)
    return HeldTable(table, other), {"target": wanted, "node_column": "node" if node is None else node}


def _text(name: Any) -> Any:
    """Return the name of a column, as text if it is a number of pandas."""
    return str(name) if isinstance(name, int | np.integer) and not isinstance(name, bool) else name


def _pieces(data: Any, name: str) -> Sequence[Any] | None:
    """Return X, y and optionally the nodes if data is a tuple or list of these, else None."""
    if not isinstance(data, tuple | list):
        return None
    if len(data) not in (2, 3):
        raise ValueError(f"{name} has {len(data)} entries and must be {KINDS}")
    return data


def _of_all_nodes(data: Any, name: str) -> Any:
    """Concatenate the nodes' own rows, (X, y) or frames; other data are returned as they are."""
    own = dict(enumerate(data)) if isinstance(data, list) and len(data) > 1 else data
    if not isinstance(own, Mapping) or not own:
        return data
    if all(isinstance(rows, tuple | list) and len(rows) == 2 and np.ndim(_first(rows)) == 2 for rows in own.values()):
        inputs, targets = zip(
            *((np.asarray(unmasked(x)), np.asarray(unmasked(y))) for x, y in own.values()), strict=True
        )
        for place, pieces in enumerate((inputs, targets)):
            widths = {called: piece.shape[1:] for called, piece in zip(own, pieces, strict=True)}
            if len(set(widths.values())) > 1:
                (one, first), (other, second) = _two_that_differ(widths)
                raise ValueError(
                    f"{name}: {'Xy'[place]} of node {shown(one)} has {_columns(first)} and that of {shown(other)} "
                    f"{_columns(second)}: give all nodes the same"
                )
        for called, x, y in zip(own, inputs, targets, strict=True):
            if len(x) != len(y):
                raise ValueError(f"{name}: node {shown(called)} has {len(x)} rows of X and {len(y)} of y: give as many")
        return np.concatenate(inputs), np.concatenate(targets), np.repeat(_names(own), list(map(len, inputs)))
    if isinstance(data, Mapping) and all(map(is_frame, own.values())):
        return _stacked(own, name)
    return data


def _with_levels(data: Any, target: Names | None, node: str | None) -> Any:
    """Return a pandas frame in which index levels requested by name are columns."""
    levels = getattr(getattr(data, "index", None), "names", None)
    if levels is None or not hasattr(data, "reset_index") or not hasattr(data, "columns"):
        return data
    wanted = {node, *([target] if isinstance(target, str) else target or ())} - {None, *data.columns}
    asked = [level for level in levels if level in wanted]
    return data.reset_index(level=asked) if asked else data


def _first(rows: Sequence[Any]) -> Any:
    """Return X of a pair if it is an array or a list."""
    return rows[0] if isinstance(rows[0], np.ndarray) else np.array(rows[0], object) if isinstance(rows[0], list) else 0


def _names(own: Mapping[Any, Any]) -> AnyArray:
    """Return the nodes' names as an array of whole numbers if all are, else of text."""
    called = names_of(list(own))
    if len(set(called)) < len(own):
        raise ValueError(f"{NAME}: {same_names(list(own))}, and they are nodes of the same name: rename one of them")
    return np.array(called)


def _two_that_differ(widths: Mapping[Any, tuple[int, ...]]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    first = next(iter(widths.items()))
    return first, next(item for item in widths.items() if item[1] != first[1])


def _columns(shape: tuple[int, ...]) -> str:
    count = shape[0] if shape else 1
    return f"{count} column{'s' * (count != 1)}"


def _stacked(own: Mapping[Any, Any], name: str) -> pyarrow.Table:
    """Concatenate the frames of all nodes into one table with the column ``node``."""
    import pyarrow

    tables = []
    for called, frame in zip(_names(own).tolist(), own.values(), strict=True):
        where = f"{name}[{shown(called)}]"
        columns = named(frame, where)
        if "node" in columns:
            raise ValueError(f"{where} has a column node, and the dict names the nodes: leave one of them out")
        tables.append(_joined({**columns, "node": np.repeat(called, len(next(iter(columns.values()))))}, where, frame))
        if set(tables[0].column_names) != set(tables[-1].column_names):
            lacking = sorted(set(tables[0].column_names) ^ set(tables[-1].column_names))[0]
            raise ValueError(f"{name}: only some nodes have the column {shown(lacking)}: give all the same columns")
    return pyarrow.concat_tables(tables, promote_options="permissive")


def _refuse_names(target: Names | None, node: str | None) -> None:
    for key, name in (("target", target), ("node", node)):
        if name is not None:
            raise RefusedKey(key, f"= {shown(name)} names a column, and arrays have none: give (X, y) or (X, y, node)")


def _arrays(pieces: Sequence[Any], ending: str) -> dict[str, AnyArray]:
    names = [name + ending for name in ("x", "y", "node")]
    together = in_step(dict(zip(names, pieces, strict=False)), TEST_NAME if ending else NAME)
    return {name: _array(name, piece) for name, piece in together.items()}


def _array(name: str, values: Any) -> AnyArray:
    """Copy an array, so that the caller's later changes do not affect the training data."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{NAME}: {name} is a sparse matrix: give {name}.toarray()")
    same = same_names(values) if isinstance(values, list | tuple) else ""
    if same:
        raise ValueError(f"{NAME}: {name} holds names that are the same as text, {same}: write both in one way")
    try:
        found = np.array(unmasked(values))
    except ValueError as error:
        raise ValueError(f"{NAME}: {name} is no array ({shorten(error)}): give all its rows the same length") from error
    if found.dtype.kind == "O" and all(isinstance(value, str) for value in found.flat):
        found = found.astype(np.str_)
    found.flags.writeable = False
    return found


def _by_column(data: Any) -> Any:
    """Split arrays (X, y) or (X, y, node) into columns if X has text, times or objects."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3) or is_frame(data[0]):
        return data
    x = together(data[0])
    x = np.array(x, object) if isinstance(x, list | tuple) else x
    if getattr(x, "ndim", 0) != 2 or x.dtype.kind not in "OUMm":
        return data
    return ({f"x[:, {place}]": x[:, place] for place in range(x.shape[1])}, *data[1:])


def _table(
    data: Any, name: str, target: Names | None, node: str | None
) -> tuple[pyarrow.Table, Names | None, str | None]:
    """Return a frame, with targets and nodes if given, as an Arrow table, with the target and node columns."""
    pieces = _pieces(data, name)
    if pieces is None:
        if not is_frame(data):
            raise ValueError(f"{name} is a {type(data).__name__} and must be {KINDS}")
        return _joined(named(data, name), name, data), target, node
    columns = named(pieces[0], name)
    for key, given in (("target", target), ("node", node)):
        if given is not None and name == NAME:
            raise RefusedKey(key, f"= {shown(given)} stands beside {name} = (X, y): name columns of one frame, or none")
    added = named(pieces[1], name) if is_frame(pieces[1]) else {_called(pieces[1], "y"): pieces[1]}
    if len(pieces) == 3:
        node = _called(pieces[2], "node")
        added[node] = pieces[2]
    twice = sorted(set(columns) & set(added))
    if twice:
        raise ValueError(f"{name}: X has a column {shown(twice[0])} too: rename it, or leave it out of X")
    target = [column for column in added if column != node]
    return _joined({**columns, **added}, name, pieces[0]), target, node


def _joined(columns: Mapping[str, Any], name: str, frame: Any) -> pyarrow.Table:
    """Make a table of aligned columns, with the metadata of an Arrow table."""
    import pyarrow

    table = pyarrow.table(arrow(in_step(columns, name), name))
    marks = {column: values.dtype for column, values in columns.items() if has_categories(values)}
    fields = [
        field.with_metadata({CATEGORIES: ORDERED if getattr(marks[field.name], "ordered", False) else b"unordered"})
        if field.name in marks
        else field
        for field in table.schema
    ]
    metadata = frame.schema.metadata if isinstance(frame, pyarrow.Table) else None
    return table.cast(pyarrow.schema(fields, metadata))


def _called(values: Any, default: str) -> str:
    """Return the name of a series, or the default for arrays."""
    name = getattr(values, "name", None)
    return default if name is None else str(name)
