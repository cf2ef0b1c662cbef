"""Public data sets from the files that they are published in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.array_files import read_idx
from kernelswarm.simulations.reproductions.contract import Samples

HOUSING_FILE = "cal_housing.data.gz"
HOUSING = (
    f"{HOUSING_FILE} (California housing, Pace and Barry 1997: lib.stat.cmu.edu or the LIBSVM data sets as "
    '"cadata"; CSV with a first line of names, target last)'
)
SLICES_FILE = "slice_localization_data.csv"
SLICES = (
    f"{SLICES_FILE} (UCI Relative location of CT slices on axial axis, Graf et al.: archive.ics.uci.edu; CSV with a "
    "first line of names patientId, value0, ..., value383, reference)"
)
YEARS_FILE = "YearPredictionMSD.txt"
YEARS = (
    f"{YEARS_FILE} (UCI YearPredictionMSD, Bertin-Mahieux: archive.ics.uci.edu; CSV without names, the year first, 90 "
    "inputs)"
)
ADULT_FILE = "a9a"
ADULT = (
    f"{ADULT_FILE} (UCI Adult as the LIBSVM data sets have it: csie.ntu.edu.tw/~cjlin/libsvmtools/datasets; svmlight, "
    "123 inputs of 0 and 1, classes -1 and 1)"
)
MOTIONS_FILE = "subject101.dat"
MOTIONS = (
    f"{MOTIONS_FILE} (UCI PAMAP2 Physical Activity Monitoring, Reiss and Stricker 2012, folder Protocol: "
    "archive.ics.uci.edu; rows of 54 numbers with NaN where one is missing: time, activity, heart rate, and 17 of each "
    "of three units)"
)
"""What the files are; a reader refuses any other with an InputError that names it."""


def housing(file: Path) -> Samples:
    """Read :data:`HOUSING`: longitude, latitude and six more inputs (n, 8), and a block's median value (n, 1)."""
    rows = _numbers(file, 9, HOUSING, named=True)
    return rows[:, :-1], rows[:, -1:]


def slices(file: Path) -> Samples:
    """Read :data:`SLICES`: histograms of bone and of air (n, 384), and where along the body a slice lies (n, 1)."""
    rows = _numbers(file, 386, SLICES, named=True)
    return rows[:, 1:-1], rows[:, -1:]


def years(file: Path) -> Samples:
    """Read :data:`YEARS`: means and covariances of songs' timbre (n, 90), and the years they appeared in (n, 1)."""
    rows = _numbers(file, 91, YEARS, named=False)
    return rows[:, 1:], rows[:, :1]


def adult(file: Path) -> Samples:
    """Read :data:`ADULT`: census attributes of people (n, 123), and whether they earn more than 50,000 (n, 1)."""
    from sklearn.datasets import load_svmlight_file

    _check_there(file, ADULT)
    try:
        inputs, classes = load_svmlight_file(str(file), n_features=123, zero_based=False)
    except (ValueError, OSError) as error:
        raise InputError(f"--data {file}: not the data that was published: {error}") from error
    if set(np.unique(classes)) != {-1.0, 1.0}:
        raise InputError(f"--data {file}: its classes are not -1 and 1: it must be {ADULT}")
    return np.ascontiguousarray(inputs.toarray()), np.where(classes > 0.0, 1.0, 0.0)[:, np.newaxis]


def motions(file: Path) -> tuple[Array, Array]:
    """Read how a person moved: 13 quantities of each of three units, on hand, chest and ankle, 100 times a second.

    A unit measures its temperature, two accelerations, angular velocity and magnetic field; its orientation, which the
    publishers call invalid, is left out. Returns inputs (n, 39), NaN where one is missing, and activities (n,).
    """
    rows = _numbers(file, 54, MOTIONS, named=False, delimiter=None)
    units = [first + quantity for first in (3, 20, 37) for quantity in range(13)]
    return np.ascontiguousarray(rows[:, units]), rows[:, 1]


def _check_there(file: Path, published: str) -> None:
    if not file.is_file():
        raise InputError(f"--data: there is no file {file}: it must be {published}")


def _numbers(file: Path, columns: int, published: str, named: bool, delimiter: str | None = ",") -> Array:
    """Read rows of so many numbers, below a line of names where there is one."""
    _check_there(file, published)
    try:
        rows = np.loadtxt(file, delimiter=delimiter, skiprows=int(named), dtype=np.float64, ndmin=2)
    except (ValueError, OSError) as error:
        raise InputError(f"--data {file}: not the data that was published: {error}") from error
    if rows.shape[1] != columns:
        raise InputError(
            f"--data {file}: rows of {rows.shape[1]} numbers, and {columns} are published: it must be {published}"
        )
    return rows


# The images of MNIST, and the measures of a function that classifies them.

MNIST = (
    "a folder with the four files of MNIST by LeCun, Cortes and Burges (train-images-idx3-ubyte.gz, ...), published at "
    "yann.lecun.com/exdb/mnist"
)
CLASSES, BANDWIDTH = 10, 4.0
ROWS = 1000
"""Test images evaluated at a time."""


class Digits(NamedTuple):
    """Images as rows of pixels in [0, 1], with their classes."""

    images: Array  # (n, 784)
    labels: Array  # (n, 1)

    def taken(self, chosen: Integers) -> Digits:
        """Return some of them, in this order."""
        return Digits(self.images[chosen], self.labels[chosen])


def read(name: str, folder: Path | None, part: str) -> Digits:
    """Read the images of ``part``, "train" or "t10k", for the reproduction ``name``.

    Raises
    ------
    InputError
        The files are missing or differ from the published ones.
    """
    if folder is None:
        raise InputError(f"{name} needs {MNIST}: give it as --data FOLDER")
    names = [f"{part}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
    paths = [folder / name if (folder / name).exists() else folder / f"{name}.gz" for name in names]
    for path in paths:
        if not path.is_file():
            raise InputError(f"--data {folder} has no {path.name}: it must be {MNIST}")
    try:
        images, labels = (read_idx("--data", path) for path in paths)
    except ValueError as refusal:
        raise InputError(str(refusal)) from refusal
    return Digits(images.reshape(len(images), -1) / 255.0, labels.astype(np.float64)[:, np.newaxis])


def both(name: str, folder: Path | None, few: bool) -> tuple[Digits, Digits]:
    """Read the images for training, and all or a few of those for tests."""
    training, test = (read(name, folder, part) for part in ("train", "t10k"))
    return training, test.taken(np.arange(min(ROWS, len(test.images)))) if few else test


def libsvm(training: Digits, test: Digits) -> tuple[float, int]:
    """Train LIBSVM with C = 10 and the same kernel; returns its test error and the number of support vectors."""
    from sklearn.svm import SVC

    machine = SVC(C=10.0, gamma=1.0 / (2.0 * BANDWIDTH**2), cache_size=1000).fit(training.images, training.labels[:, 0])
    error = float(np.mean(machine.predict(test.images) != test.labels[:, 0]))
    return error, int(machine.n_support_.sum())
