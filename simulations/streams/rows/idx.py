"""Images and labels in the IDX format, the one MNIST is published in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.rows.dealing import Dealing
from kernelswarm.simulations.streams.rows.finite import open_rows
from kernelswarm.simulations.streams.rows.rows import Numbers, Rows
from kernelswarm.simulations.streams.splits import Split
from kernelswarm.simulations.streams.written.reading import binary, call, column_numbers, find

#: Type code in the third byte of the file: numbers are big-endian.
TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True)
class Idx:
    """Images and their labels in the IDX format, the one MNIST is published in.

    The files may be compressed with gzip; byte pixels are divided by 255, also by the models, which predict from images
    as they stand in the file. Rows are shuffled by the seed and dealt to
    the nodes by ``split``; labels in increasing order become classes 0, 1, 2, ...

    Parameters
    ----------
    images, labels
        Files with the images (rows, ...) and their labels (rows,).
    test_images, test_labels
        Files with the test rows, both or neither.
    split
        "iid", "label_skew", "patches" or "sorted", as in the stream "file".
    split_columns
        Numbers, from 0, of the pixels by which rows are cut into patches or sorted; empty means all pixels (patches)
        or the label (sorted).
    concentration
        With label_skew, the Dirichlet parameter > 0.
    epochs
        How often each node sees its rows, >= 1.
    test_fraction
        Share of each node's rows, in (0, 1), on which it is measured; unused where there are test files.
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
                object.__setattr__(self, key, Path(getattr(self, key)))  # a string from Python
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


def read_idx(key: str, path: Path) -> Numbers:
    """Read one IDX file: two zero bytes, a type, the number of dimensions, their sizes, the numbers.

    Raises
    ------
    ValueError
        If the file is not of this format or has more or fewer numbers than its sizes say.
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
