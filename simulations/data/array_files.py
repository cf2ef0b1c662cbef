"""Read npz, MATLAB, svmlight and IDX files and data sets of openml.org: inputs and targets as arrays."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.graphs.given.matrices import REMEDY, is_sparse, matlab_arrays
from kernelswarm.graphs.given.names import EXACT
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.archives import ArchiveError, read_arrays
from kernelswarm.simulations.core.data_description import CodedColumn, Missing
from kernelswarm.simulations.core.errors import choices, shown
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.dealing import Dealing, Split
from kernelswarm.simulations.data.finite import open_rows
from kernelswarm.simulations.data.gaps import Found, NaValues, array_without, named_in, with_codes
from kernelswarm.simulations.data.reading import binary, call, check_names, column_numbers, find, shorten
from kernelswarm.simulations.data.rows import Rows, Scaling, Task, check_exact, plain_labels
from kernelswarm.simulations.data.text import spelled

#: Maximum bytes of a sparse file as a dense array.
MOST_BYTES = 2 * 2**30

#: Maximum number of features of a sparse file: a single mistyped number can mean billions.
MOST_FEATURES = 10**6


def read_npz(
    key: str, path: Path, node_array: str, split_columns: tuple[str | int, ...], na_values: NaValues = ()
) -> tuple[Rows, Rows | None]:
    """Read arrays x (n, p) and y (n,) or (n, q), optionally x_test, y_test and the nodes of both kinds of rows.

    Raises
    ------
    ValueError
        The file is not an npz file of numbers and labels, lacks an array, or the arrays do not fit together.
    """
    name = call(key, path)
    arrays = arrays_of(name, path, lambda known: needed(name, known, node_array))
    return rows_of_arrays(name, arrays, node_array, split_columns, na_values)


def read_mat(
    key: str, path: Path, node_array: str, split_columns: tuple[str | int, ...], na_values: NaValues = ()
) -> tuple[Rows, Rows | None]:
    """Read the same arrays from a MATLAB file; x and y may also be named X and Y.

    Raises
    ------
    ValueError
        The file is not of MATLAB up to version 7, lacks an array, or the arrays do not fit together.
    """
    name = call(key, path)
    try:
        held = matlab_arrays(path)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as a MATLAB file ({shorten(error)}): {REMEDY}") from error
    found = {array: _full(f"{name}: {array}", value) for array, value in held.items()}
    usual = {array: array.lower() for array in ("X", "Y", "X_test", "Y_test") if array.lower() not in found}
    arrays = {usual.get(array, array): _plain(value, array.lower().startswith("x")) for array, value in found.items()}
    return rows_of_arrays(name, arrays, node_array, split_columns, na_values)


def _full(name: str, array: Any) -> AnyArray:
    """Return a sparse matrix as a dense array, and other arrays as they are."""
    if not is_sparse(array):
        return np.asarray(array)
    refuse_large(name, "columns", array.shape)
    full: AnyArray = array.toarray()
    return full


def refuse_large(name: str, columns: str, shape: tuple[int, int]) -> None:
    """Raise a ValueError if a sparse matrix (rows, columns) needs too much memory as a dense array."""
    size = 8 * shape[0] * shape[1]
    if size > MOST_BYTES:
        raise ValueError(
            f"{name}: {shape[0]} rows of {shape[1]} {columns} take {size / 2**30:.0f} GiB as a full array, more than "
            f"{MOST_BYTES / 2**30:.0f}: choose fewer {columns} or rows"
        )


def _plain(array: AnyArray, is_matrix: bool) -> AnyArray:
    """Convert a MATLAB array: drop axes of length 1 unless it is a matrix, and unpack cells with text.

    In MATLAB all arrays have two axes, and text in a cell is an array itself.
    """
    if array.dtype.kind == "O" and all(np.asarray(cell).dtype.kind == "U" for cell in array.flat):
        array = np.array(["".join(np.asarray(cell).ravel()) for cell in array.flat]).reshape(array.shape)
    return array if is_matrix or 1 not in array.shape else array.ravel()


def arrays_of(name: str, path: Path, wanted: Callable[[list[str]], list[str]] | None = None) -> dict[str, AnyArray]:
    """Read the arrays of an npz file whose names ``wanted`` accepts; raises ValueError for other files."""
    with path.open("rb") as file:
        if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
            raise ValueError(f"{name} holds a single array: save x and y together with numpy.savez")
    try:
        return read_arrays(path, wanted)
    except ArchiveError as error:
        if error.name:
            raise ValueError(
                f"{name}: the array {shown(error.name)} cannot be read ({shorten(error)}): save plain arrays of "
                "numbers or of text with astype(str)"
            ) from error
        raise ValueError(
            f"{name} is not an npz file that can be read ({shorten(error)}): write it with numpy.savez, or set format "
            "to what it is"
        ) from error


def needed(name: str, known: list[str], node_array: str) -> list[str]:
    """Return the names of the arrays that form the rows; raises ValueError if an array is missing."""
    arrays = ["x", "y"] + (["x_test", "y_test"] if {"x_test", "y_test"} & set(known) else [])
    if node_array and (node_array in known or node_array != "node"):
        arrays.append(node_array)
        if f"{node_array}_test" in known:
            arrays.append(f"{node_array}_test")
    for array in arrays:
        if array not in known:
            raise ValueError(f"{name} has no array {shown(array)}{choices(array, known)}")
    return list(dict.fromkeys(arrays))


def rows_of_arrays(
    name: str,
    arrays: Mapping[str, AnyArray],
    node_array: str,
    split_columns: tuple[str | int, ...],
    na_values: NaValues = (),
) -> tuple[Rows, Rows | None]:
    """Make rows, and test rows if there are any, from arrays with the names of an npz file.

    Raises
    ------
    ValueError
        An array is missing, or the shapes do not match.
    """
    chosen = {array: arrays[array] for array in needed(name, list(arrays), node_array)}
    training = npz_rows(name, chosen, "", node_array, split_columns, na_values)
    if "x_test" not in chosen:
        return training, None
    return training, npz_rows(name, chosen, "_test", node_array, split_columns, na_values)


def npz_rows(
    name: str,
    arrays: Mapping[str, AnyArray],
    ending: str,
    node: str,
    split_columns: tuple[str | int, ...],
    na_values: NaValues,
) -> Rows:
    """Check the shapes of the arrays whose names have the given ending, and make rows from them."""
    x, y, node = (f"{array}{ending}" for array in ("x", "y", node))
    for array, kinds, rule in ((x, "biuf", "real numbers"), (y, "biufU", "real numbers, or labels as text")):
        if arrays[array].dtype.kind not in kinds:
            raise ValueError(f"{name}: {array} has type {arrays[array].dtype}; it must hold {rule}: convert it")
    points, targets = arrays[x], spelled(arrays[y])
    if points.ndim != 2:
        raise ValueError(
            f"{name}: {x} has shape {points.shape}; it must be (rows, inputs): "
            + ("save x[:, None] for one input" if points.ndim == 1 else "reshape it")
        )
    if targets.ndim not in (1, 2) or len(targets) != len(points):
        raise ValueError(
            f"{name}: {y} has shape {targets.shape}; with {x} of shape {points.shape} it must be ({len(points)},) or "
            f"({len(points)}, targets): save one target row for each row of {x}"
        )
    ids = None
    if node in arrays:
        ids = arrays[node]
        if ids.shape != (len(points),) or ids.dtype.kind not in "iuU":
            raise ValueError(
                f"{name}: {node} has shape {ids.shape} and type {ids.dtype}; it must be integers or text "
                f'({len(points)},), the node of each row of {x}: correct it, or set stream.node_column = "" to '
                "ignore it"
            )
        check_exact(name, ids, int, f"in {node} node", "save the names of the nodes as text")
        ids = spelled(plain_labels(ids))
    places = column_numbers(name, split_columns, points.shape[1])
    if targets.ndim == 1:
        targets = targets[:, None]
    columns = tuple(f"{x}[:, {column}]" for column in range(points.shape[1]))
    rows = Rows(
        name=name,
        points=points,
        targets=targets,
        columns=columns,
        target_columns=(y,) if targets.shape[1] == 1 else tuple(f"{y}[:, {k}]" for k in range(targets.shape[1])),
        counting="rows count from 0",
        ids=ids,
        places=points[:, places] if places else None,
        whole=targets.dtype.kind in "biu",
    )
    return rows if na_values == () else without_codes(rows, na_values, places, ending)


def without_codes(rows: Rows, na_values: NaValues, places: Sequence[int], ending: str = "") -> Rows:
    """Replace the codes for gaps in the rows by gaps; ``ending`` ends the names of the arrays."""
    columns, targets = (
        [name.replace(ending, "", 1) if ending else name for name in names]
        for names in (rows.columns, rows.target_columns)
    )
    check_names(rows.name, "na_values", named_in(na_values), [*columns, *targets])
    found: Found = {}
    points = array_without(rows.points, columns, na_values, found)
    kinds = with_codes([CodedColumn(column) for column in columns], na_values)
    return replace(
        rows,
        points=points,
        targets=array_without(rows.targets, targets, na_values, found),
        places=points[:, places] if places else None,
        kinds=kinds,
        codes=found,
    )


def read_svmlight(
    files: list[tuple[str, Path]], split_columns: tuple[str | int, ...], na_values: NaValues = ()
) -> tuple[Rows, Rows | None]:
    """Read one svmlight file, or two with the same features: lines "label feature:value ...", gzipped or not.

    Raises
    ------
    ValueError
        If a file is not of this format, or too large as a full array.
    """
    from sklearn.datasets import load_svmlight_files

    names = [call(key, path) for key, path in files]
    try:
        loaded = load_svmlight_files([str(path.expanduser()) for _, path in files])
    except (ValueError, OSError, OverflowError, EOFError, zlib.error) as error:  # OverflowError: a feature beyond 2^31
        raise ValueError(
            f"{' and '.join(names)} cannot be read as svmlight ({shorten(error)}): every line is "
            "'label feature:value ...' with features as whole numbers in increasing order"
        ) from error
    rows = []
    for name, sparse, labels in zip(names, loaded[::2], loaded[1::2], strict=True):
        if sparse.shape[1] > MOST_FEATURES:
            raise ValueError(
                f"{name} has features up to {sparse.shape[1]}, and at most {MOST_FEATURES:,} are read: correct the "
                "largest numbers of features"
            )
        refuse_large(name, "features", sparse.shape)
        points = sparse.toarray()
        # the format has no types: labels without fractions count as whole numbers
        whole = bool(np.all((labels == np.round(labels)) & (np.abs(labels) <= EXACT)))
        places = column_numbers(name, split_columns, points.shape[1])
        rows.append(
            Rows(
                name=name,
                points=points,
                targets=(labels.astype(np.int64) if whole else labels)[:, None],
                columns=tuple(f"feature {column}" for column in range(points.shape[1])),
                target_columns=("label",),
                counting="rows count from 1, features from 0",
                first=1,
                places=points[:, places] if places else None,
                whole=whole,
            )
        )
    if na_values != ():
        rows = [without_codes(part, na_values, places) for part in rows]
    return rows[0], rows[1] if len(rows) > 1 else None


# Images and labels in the IDX format, the one MNIST is published in.

#: Type code in the third byte of the file: numbers are big-endian.
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True)
class Idx:
    """Images and their labels in the IDX format, the one MNIST is published in.

    The files may be compressed with gzip. Byte pixels are divided by 255; models do the same, and predict from images
    as in the file. Rows are shuffled by the seed and dealt to the nodes by ``split``; labels in increasing order become
    classes 0, 1, 2, ...

    Parameters
    ----------
    images, labels
        Files with the images (rows, ...) and their labels (rows,).
    test_images, test_labels
        Files with the test rows, both or neither.
    split
        "iid", "label_skew", "patches" or "sorted", as for the stream "file".
    split_columns
        Numbers, from 0, of the pixels by which rows are cut into patches or sorted; empty means all pixels (patches)
        or the label (sorted).
    concentration
        With label_skew, the Dirichlet parameter > 0.
    epochs
        Number >= 1 of passes of each node over its rows.
    test_fraction
        Share of each node's rows, in (0, 1), that are held out for its evaluation; unused if there are test files.
    """

    images: Path
    labels: Path
    test_images: Path | None = None
    test_labels: Path | None = None
    split: Split = "iid"
    split_columns: tuple[int, ...] = ()
    concentration: float = 1.0
    epochs: int = 1
    test_fraction: float = 0.2

    def __post_init__(self) -> None:
        self._dealing()
        for key in ("images", "labels", "test_images", "test_labels"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, Path(getattr(self, key)))  # may be a string
        if self.split == "target_shift":
            raise RefusedKey("split", '= "target_shift" adds an offset, which a class does not have: use "label_skew"')
        if (self.test_images is None) != (self.test_labels is None):
            given, missing = (
                ("test_labels", "test_images") if self.test_images is None else ("test_images", "test_labels")
            )
            raise RefusedKey(missing, f"is missing, and {given} is given: give both or neither")

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        rows = self._read("images", self.images, "labels", self.labels)
        test = None
        if self.test_images is not None and self.test_labels is not None:
            test = self._read("test_images", self.test_images, "test_labels", self.test_labels)
        return open_rows(rows, test, "classification", self._dealing(), nodes, seed, held_out, locations)

    def _dealing(self) -> Dealing:
        return Dealing(self.split, self.concentration, 0.0, self.epochs, self.test_fraction)

    def _read(self, images_key: str, images_path: Path, labels_key: str, labels_path: Path) -> Rows:
        images = read_idx(images_key, images_path)
        labels = read_idx(labels_key, labels_path)
        name = call(images_key, images_path)
        if images.ndim < 2 or labels.ndim != 1:
            raise ValueError(
                f"{name} has shape {images.shape} and {call(labels_key, labels_path)} has shape {labels.shape}; they "
                "must be (rows, height, width) and (rows,): "
                + ("exchange the two" if images.ndim == 1 and labels.ndim > 1 else "check which files they are")
            )
        if len(images) != len(labels):
            raise ValueError(
                f"{name} has {len(images)} images and {call(labels_key, labels_path)} has {len(labels)} labels: give "
                "two files that belong together"
            )
        points = images.reshape(len(images), math.prod(images.shape[1:]))
        places = column_numbers(name, self.split_columns, points.shape[1])
        return Rows(
            name=name,
            points=points,
            targets=labels[:, None],
            columns=tuple(f"pixel {column}" for column in range(points.shape[1])),
            target_columns=("label",),
            counting="rows count from 0",
            places=points[:, places] if places else None,
            divisor=255.0 if images.dtype == np.uint8 else 1.0,
            whole=labels.dtype.kind in "iu",
        )


def read_idx(key: str, path: Path) -> AnyArray:
    """Read one IDX file: two zero bytes, a type, the number of dimensions, their sizes, the numbers.

    Raises
    ------
    ValueError
        The file has another format, or the number of its values differs from the declared sizes.
    """
    name = call(key, path)
    with binary(name, find(key, path)) as file:
        content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES or not content[3]:
        raise ValueError(
            f"{name} is not an IDX file (it begins with the bytes {content[:4].hex(' ')}): give a file such as "
            'train-images-idx3-ubyte.gz, or use the stream "file" for other formats'
        )
    dtype = np.dtype(TYPES[content[2]])
    start = 4 + 4 * content[3]
    shape = tuple(int(size) for size in np.frombuffer(content[4 : min(start, len(content) // 4 * 4)], dtype=">u4"))
    expected = start + dtype.itemsize * math.prod(shape)
    if len(shape) != content[3] or len(content) != expected:
        raise ValueError(
            f"{name} is damaged: its header announces an array {shape}, which takes {expected} bytes, and the file has "
            f"{len(content)}: fetch it again"
        )
    array = np.frombuffer(content, dtype=dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


# Data sets of openml.org, fetched and cached by scikit-learn.


@dataclass(frozen=True)
class OpenML:
    """A data set of openml.org, fetched by scikit-learn.

    The first use needs a network connection; later uses read the cache. Rows are shuffled by the seed and dealt to the
    nodes by ``split``. A target of names becomes classes in alphabetical order, and a nominal input becomes the number
    of its category.

    Parameters
    ----------
    dataset
        Name ("mnist_784") or number (554) of the data set.
    version
        Version of a data set given by its name; 0 means the newest active one.
    task, split, concentration, shift, epochs, test_fraction, standardize, standardize_targets, missing
        As for the stream "file".
    target
        Target column, empty for the data set's own.
    features
        Input columns, empty for all.
    split_columns
        Names of the input columns by which rows are cut into patches or sorted.
    cache
        Folder of the cache, None for scikit-learn's.
    """

    dataset: str | int
    version: int = 0
    task: Task = "auto"
    target: str = ""
    features: tuple[str, ...] = ()
    split: Split = "iid"
    split_columns: tuple[str, ...] = ()
    concentration: float = 1.0
    shift: float = 1.0
    epochs: int = 1
    test_fraction: float = 0.2
    standardize: Scaling = "auto"
    standardize_targets: Scaling = "auto"
    missing: Missing = "refuse"
    cache: Path | None = None

    ranges: ClassVar = {"version": Range("[0, inf)", "use 0 for the newest active version")}

    def __post_init__(self) -> None:
        check_ranges(self)
        Dealing.of(self)
        if self.cache is not None:
            object.__setattr__(self, "cache", Path(self.cache))

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        return open_rows(self._read(), None, self.task, Dealing.of(self), nodes, seed, held_out, locations)

    def _read(self) -> Rows:
        name = f"dataset = {shown(self.dataset)}"
        bunch = self._fetch(name)
        known = [str(column) for column in bunch.feature_names]
        check_names(name, "features", self.features, known)
        check_names(name, "split_columns", self.split_columns, known)
        data = bunch.data.toarray() if hasattr(bunch.data, "toarray") else np.asarray(bunch.data)
        if data.dtype.kind not in "biuf":
            raise ValueError(f"{name}: its inputs are not all numbers or categories: choose some with features")
        features = self.features or tuple(known)
        target = np.asarray(bunch.target)
        if target.ndim != 1:
            raise ValueError(f"{name} has {target.ndim and target.shape[-1]} targets: choose one with target")
        if target.dtype.kind not in "biuf":
            target = target.astype(np.str_)
        return Rows(
            name=name,
            points=data if not self.features else data[:, [known.index(column) for column in features]],
            targets=target[:, None],
            columns=features,
            target_columns=(", ".join(bunch.target_names) or "target",),
            counting="rows count from 0",
            places=data[:, [known.index(column) for column in self.split_columns]] if self.split_columns else None,
            whole=target.dtype.kind in "iu",
        )

    def _fetch(self, name: str) -> Any:
        from sklearn.datasets import fetch_openml

        by_name = isinstance(self.dataset, str)
        try:
            return fetch_openml(
                name=self.dataset if by_name else None,
                version=(self.version or "active") if by_name else "active",
                data_id=None if by_name else self.dataset,
                data_home=None if self.cache is None else str(self.cache.expanduser()),
                target_column=self.target or "default-target",
                as_frame=False,
                parser="liac-arff",
                n_retries=1,
            )
        except OSError as error:  # includes all connection errors
            raise ValueError(
                f"{name} could not be fetched from openml.org ({shorten(error)}): this needs a network connection the "
                'first time; connect, or save the data to a file and use the stream "file"'
            ) from error
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{name} is refused by openml.org or cannot be read ({shorten(error)}): check dataset, version "
                "and target"
            ) from error
