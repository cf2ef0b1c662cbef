"""Classifiers as they are: errors, probabilities, processor time and size, by the loss, beside scikit-learn's.

    python benchmarks/classifiers.py [--mnist FOLDER] [--full] [--splits 5] [--sets digits letters]

Inputs are standardised, pixels divided by their largest value; a fifth is held out, on MNIST the 10,000 test images,
after the first 10,000 training images or, with --full, all 60,000. All rows see the same splits. Each cell is a mean
over them: the share of misclassified samples, the log loss, the calibration error (the mean distance between confidence
and accuracy in tenths of equal size by confidence), processor seconds of `fit` in one thread, also as a multiple of
SVC's, and vectors. What is compiled is compiled before. SVC has C = 1, its default, and no probabilities; those of the
row below come from Platt scaling on five folds (`CalibratedClassifierCV`).
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kernelswarm import KernelClassifier, PolkClassifier
from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.data.array_files import read_idx

Data = tuple[AnyArray, AnyArray, AnyArray, AnyArray]  # training points, test points, training labels, test labels

ROWS: dict[str, Callable[[], Any]] = {
    "SVC": SVC,
    "SVC, calibrated": lambda: CalibratedClassifierCV(SVC(), ensemble=False),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "MLP": lambda: MLPClassifier(random_state=0),
    "**KernelClassifier**": lambda: KernelClassifier(random_state=0),
    "three passes": lambda: KernelClassifier(epochs=3, random_state=0),
    "ridge 0.05": lambda: KernelClassifier(ridge=0.05, random_state=0),
    "logistic": lambda: KernelClassifier(loss="logistic", random_state=0),
    "logistic, ridge 0.08": lambda: KernelClassifier(loss="logistic", ridge=0.08, random_state=0),
    "logistic, three passes": lambda: KernelClassifier(loss="logistic", epochs=3, random_state=0),
    "**PolkClassifier**": lambda: PolkClassifier(random_state=0),
    "POLK, squared hinge": lambda: PolkClassifier("squared_hinge", random_state=0),
    "POLK, hinge": lambda: PolkClassifier("hinge", random_state=0),
}

IMAGES = {"name": "images", "shape": [28, 28]}


def letters() -> tuple[AnyArray, AnyArray]:
    """Simulate 26 letters in three hands each: 15,000 samples of 16 whole numbers from 0 to 15."""
    generator = np.random.default_rng(7)
    centers = generator.normal(7.5, 2.0, (26, 1, 16)) + generator.normal(0.0, 1.2, (26, 3, 16))
    labels, hands = generator.integers(26, size=15_000), generator.integers(3, size=15_000)
    slants = generator.normal(0.0, 0.6, (26, 16, 16))
    points = centers[labels, hands] + np.einsum("nij,nj->ni", slants[labels], generator.normal(size=(15_000, 16)))
    return np.clip(np.round(points), 0, 15), labels


def twin(**keys: Any) -> Callable[[], tuple[AnyArray, AnyArray]]:
    """Return what simulates 3,000 samples."""
    return lambda: make_classification(3000, random_state=11, **keys)


SETS: dict[str, Callable[[], tuple[AnyArray, AnyArray]]] = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "two classes": twin(n_features=20, n_informative=8, n_redundant=4, n_clusters_per_class=3, class_sep=1.2),
    "one in ten": twin(n_features=10, n_informative=6, weights=[0.9], flip_y=0.02),
    "three noisy classes": twin(n_features=10, n_informative=5, n_redundant=0, n_classes=3, flip_y=0.2),
    "letters": letters,
}
"""The last four are simulated."""


@cache
def read(name: str) -> tuple[AnyArray, AnyArray]:
    """Return the samples of a set."""
    return SETS[name]()


def split(name: str, seed: int) -> Data:
    """Split a set, and bring its inputs to size 1."""
    points, labels = read(name)
    x, x_test, y, y_test = train_test_split(points, labels, test_size=0.2, random_state=seed)
    if name == "digits":
        return x / 16.0, x_test / 16.0, y, y_test
    scaler = StandardScaler().fit(x)
    return scaler.transform(x), scaler.transform(x_test), y, y_test


def mnist(folder: Path, count: int) -> Data:
    """Read the first training images and all test images, pixels in [0, 1]."""
    found = []
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            found.append(read_idx("FOLDER", folder / f"{part}-{kind}-ubyte.gz"))
    x, y, x_test, y_test = found
    return x[:count].reshape(-1, 784) / 255.0, x_test.reshape(-1, 784) / 255.0, y[:count], y_test


def calibration_error(found: AnyArray, right: AnyArray) -> float:
    """Return the mean distance between confidence and accuracy in tenths by confidence."""
    confidence = found.max(axis=1)
    tenths = np.array_split(np.argsort(confidence, kind="stable"), 10)
    return float(sum(abs(np.sum(confidence[tenth] - right[tenth])) for tenth in tenths) / len(found))


def measured(make: Callable[[], Any], data: Data) -> list[float]:
    """Return error, log loss, calibration error, seconds and vectors on one split."""
    x, x_test, y, y_test = data
    start = time.process_time()
    model = make().fit(x, y)
    spent = time.process_time() - start
    found = model.predict(x_test)
    likely = model.predict_proba(x_test) if hasattr(model, "predict_proba") else np.full((1, 1), np.nan)
    known = len(likely) > 1
    loss = log_loss(y_test, likely, labels=model.classes_) if known else np.nan
    apart = calibration_error(likely, model.classes_[likely.argmax(axis=1)] == y_test) if known else np.nan
    vectors = getattr(model, "model_order_", len(getattr(model, "support_", [])) or np.nan)
    return [float(np.mean(found != y_test)), loss, apart, spent, vectors]


def table(name: str, splits: list[Data], rows: dict[str, Callable[[], Any]]) -> None:
    """Print a set's table."""
    shape = " x ".join(f"{size:,}" for size in splits[0][0].shape)
    print(f"\n**{name}**, {shape}, {len(np.unique(splits[0][2]))} classes, splits: {len(splits)}\n")
    print("| | error | log loss | calibration error | seconds | of SVC's | vectors |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    machine = np.nan
    for row, make in rows.items():
        error, loss, apart, seconds, vectors = np.mean([measured(make, data) for data in splits], axis=0).tolist()
        machine = seconds if row == "SVC" else machine
        cells = [f"{error:.4f}", f"{loss:.3f}", f"{apart:.3f}", f"{seconds:.3g}", f"{seconds / machine:.1f}"]
        print(f"| {row} | {' | '.join(cells)} | {vectors:,.0f} |".replace("nan", ""), flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, help="the folder with MNIST's four files")
    parser.add_argument("--full", action="store_true", help="all of MNIST, by KernelClassifier of 1,000 points alone")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    options = parser.parse_args()
    rows = {name: ROWS[name] for name in options.rows}
    warnings.simplefilter("ignore")  # of three classes, and of passes that were too few
    for count in (2, 3):
        x = np.random.default_rng(0).normal(size=(600, 40))
        for make in rows.values():
            make().fit(x[:, :5], np.argmax(x[:, :count], axis=1))
            make().fit(x, np.argmax(x[:, :count], axis=1))
    for name in options.sets:
        table(name, [split(name, seed) for seed in range(options.splits)], rows)
    if options.mnist and not options.full:
        table("MNIST, 10,000", [mnist(options.mnist, 10_000)], rows)
    if options.mnist and options.full:
        large: dict[str, Callable[[], Any]] = {
            "gaussian": lambda: KernelClassifier(1000, random_state=0),
            "images": lambda: KernelClassifier(1000, kernel=IMAGES, random_state=0),
        }
        table("MNIST, 60,000", [mnist(options.mnist, 60_000)], large)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
