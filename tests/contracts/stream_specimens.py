"""Streams of every kind, endless ones and finite ones of rows."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernelswarm.simulations.data.array_files import Idx, OpenML
from kernelswarm.simulations.data.curves import Drifting, MarkovReward, SineRegression
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity, GaussianMixture
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.data.sensor_field import SensorField
from tests.contracts.specimen import Specimen

NODES = 4
ENDLESS: list[Any] = [
    GaussianMixture(),
    GaussianMixture(split="label_skew", concentration=0.3),
    GaussianMixture(split="patches", inputs=3),
    GaussianMixture(inputs=1, modes=1, classes=2),
    SineRegression(outlier_fraction=0.2),
    SineRegression(split="patches"),
    SineRegression(split="target_shift"),
    SensorField(),
    SensorField(split="patches"),
    GaussianDensity(),
    GaussianDensity(((0.0, 0.5), (1.0, 1.0)), 0.3, 0.2, (-1.0, 0.0), (2.0, 1.0)),
    Drifting(period=500.0),
    Drifting(period=500.0, split="patches"),
    MarkovReward(),
    Drifting(period=500.0, split="target_shift"),
]


def rows() -> tuple[np.ndarray, np.ndarray]:
    """400 points of three inputs with labels of three classes."""
    random = np.random.default_rng(0)
    return random.normal(size=(400, 3)), random.integers(3, size=400)


def labelled(folder: Path) -> Path:
    points, labels = rows()
    np.savez(folder / "labels.npz", x=points, y=labels)
    return folder / "labels.npz"


def valued(folder: Path) -> Path:
    random = np.random.default_rng(1)
    test = random.normal(size=(90, 3))
    np.savez(folder / "values.npz", x=rows()[0], y=random.normal(size=(400, 2)), x_test=test, y_test=test[:, :2])
    return folder / "values.npz"


def table(folder: Path) -> Path:
    owners = np.random.default_rng(2).integers(NODES, size=400)
    columns = np.column_stack([rows()[0], np.arange(400), owners])
    style = ["%.6f"] * 4 + ["%d"]
    np.savetxt(folder / "t.csv", columns, delimiter=",", header="a,b,c,y,node", comments="", fmt=style)
    return folder / "t.csv"


def write_idx(path: Path, values: np.ndarray) -> Path:
    """Write an array of bytes in the format of MNIST."""
    path.write_bytes(
        gzip.compress(struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes())
    )
    return path


def images(folder: Path) -> Idx:
    pixels = np.random.default_rng(3).integers(256, size=(400, 2, 3), dtype=np.uint8)
    return Idx(
        write_idx(folder / "images.gz", pixels), write_idx(folder / "labels.gz", rows()[1].astype(np.uint8)), epochs=2
    )


def in_memory(folder: Path) -> File:
    """The rows of a table, in memory."""
    columns = np.genfromtxt(table(folder), delimiter=",", names=True)
    held, keys = from_python({name: columns[name] for name in ("a", "b", "c", "y")})
    return File("", **keys, epochs=2).holding(held)


def fetched(**_: Any) -> SimpleNamespace:
    """What scikit-learn fetches of OpenML, without a network."""
    points, labels = rows()
    names = ["a", "b", "c"]
    return SimpleNamespace(data=points, target=labels.astype(str), feature_names=names, target_names=["class"])


FINITE = [
    Specimen("file npz", lambda folder: File(valued(folder), epochs=2)),
    Specimen("file csv node", lambda folder: File(table(folder), epochs=3, standardize=True, standardize_targets=True)),
    Specimen("file label_skew", lambda folder: File(labelled(folder), split="label_skew")),
    Specimen("file patches", lambda folder: File(valued(folder), split="patches", split_columns=(0, 2))),
    Specimen("file target_shift", lambda folder: File(valued(folder), split="target_shift")),
    Specimen("file events", lambda folder: File(table(folder), task="events", features=("a", "b"), node_column="")),
    Specimen("file in memory", in_memory),
    Specimen("file sorted", lambda folder: File(labelled(folder), split="sorted")),
    Specimen("idx", images, {"repeats": True}),  # six random bytes
    Specimen("openml", lambda _: OpenML("something")),
]
