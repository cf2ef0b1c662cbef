"""The images of MNIST, and what a function that classifies them is measured by."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.streams.rows.idx import read_idx

Array = npt.NDArray[np.float64]

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

    def taken(self, chosen: npt.NDArray[np.int64]) -> Digits:
        """Return some of them, in this order."""
        return Digits(self.images[chosen], self.labels[chosen])


def read(name: str, folder: Path | None, part: str) -> Digits:
    """Read the images of ``part``, "train" or "t10k", for the reproduction ``name``.

    Raises
    ------
    InputError
        When the files are missing or are not what was published.
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
