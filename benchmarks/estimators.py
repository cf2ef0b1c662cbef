"""The estimators as they are beside scikit-learn's as they are: error, processor time and vectors.

Inputs are standardised, pixels divided by their largest value, regression targets standardised too, since SVR's own
defaults suit targets of size 1; a fifth is kept for testing, MNIST learns the first 10,000 training images. Errors are
shares of misclassified samples, or mean square errors over the targets' variance, averaged over five splits of the
small sets. "rows" are the same estimators that are given the training rows one at a time, by `partial_fit`. Three sets
come with scikit-learn, two are simulated; the others are read from the files named:

    python benchmarks/estimators.py --housing cal_housing.data.gz --air-quality air_quality.mat --lidar lidar.csv \\
                                    --mnist FOLDER --large

``--large`` adds 32,561 simulated samples of 123 indicators. With it and with ``--mnist`` all take minutes.
"""

import argparse
import gzip
import itertools
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from kernelswarm import KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.arrays import AnyArray

Data = tuple[AnyArray, AnyArray, AnyArray, AnyArray]  # training points, test points, training targets, test targets


class Task(NamedTuple):
    """A data set: how to split it, by seed, and how often."""

    name: str
    split: Callable[[int], Data]
    classes: bool
    seeds: int


def tables(points: AnyArray, targets: AnyArray, classes: bool, seed: int) -> Data:
    """Split and standardise a table."""
    x, x_test, y, y_test = train_test_split(points, targets, test_size=0.2, random_state=seed)
    scaler = StandardScaler().fit(x)
    x, x_test = scaler.transform(x), scaler.transform(x_test)
    if not classes:
        center, deviation = y.mean(), y.std()
        y, y_test = (y - center) / deviation, (y_test - center) / deviation
    return x, x_test, y, y_test


def digits(seed: int) -> Data:
    """Split the 8 x 8 digits, with pixels in [0, 1]."""
    points, labels = load_digits(return_X_y=True)
    split: Data = tuple(train_test_split(points / 16.0, labels, test_size=0.2, random_state=seed))  # type: ignore[assignment]
    return split


def relevant(seed: int) -> Data:
    """Simulate y = sin(2 x_1) x_2 + x_3 / 2 + noise in 32 inputs, of which 29 say nothing."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(5000, 32))
    targets = np.sin(2.0 * points[:, 0]) * points[:, 1] + 0.5 * points[:, 2] + 0.2 * generator.normal(size=5000)
    return tables(points, targets, False, seed)


def indicators(seed: int) -> Data:
    """Simulate 14 categorical columns as 123 indicators with two interactions and a quarter of positive labels."""
    generator = np.random.default_rng(7)
    weights = 0.7 * generator.normal(size=123)
    columns = np.array_split(np.arange(123), 14)
    shares = [generator.dirichlet(np.full(len(column), 0.7)) for column in columns]
    generator = np.random.default_rng(seed)
    points = np.zeros((40_700, 123))
    for column, share in zip(columns, shares, strict=True):
        points[np.arange(len(points)), generator.choice(column, len(points), p=share)] = 1.0
    scores = points @ weights + 2.0 * (points[:, 0] * points[:, 12] - points[:, 9] * points[:, 20])
    scores = 2.0 * (scores - np.quantile(scores, 0.76))
    labels = (generator.random(len(points)) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
    return points[:32_561], points[32_561:], labels[:32_561], labels[32_561:]


def idx(path: Path) -> AnyArray:
    """Read an IDX file."""
    with gzip.open(path) as file:
        content = file.read()
    shape = struct.unpack(">" + "I" * content[3], content[4 : 4 + 4 * content[3]])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def mnist(folder: Path, seed: int) -> Data:
    """Read the first 10,000 training images and all test images."""

    def read(name: str) -> AnyArray:
        return idx(next(iter(sorted(folder.glob(f"{name}*.gz")))))

    x, x_test = (read(f"{part}-images").reshape(-1, 784) / 255.0 for part in ("train", "t10k"))
    return x[:10_000], x_test, read("train-labels")[:10_000], read("t10k-labels")


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield what can be read."""
    if arguments.lidar:
        table = np.loadtxt(arguments.lidar, delimiter=",", skiprows=1, usecols=(-2, -1))
        yield Task("lidar", partial(tables, table[:, :1], table[:, 1], False), False, 5)
    yield Task("diabetes", partial(tables, *load_diabetes(return_X_y=True), False), False, 5)
    yield Task("breast cancer", partial(tables, *load_breast_cancer(return_X_y=True), True), True, 5)
    yield Task("digits", digits, True, 5)
    if arguments.air_quality:
        found = loadmat(arguments.air_quality)
        yield Task("air quality", partial(tables, found["X"], found["Y"].ravel(), False), False, 1)
    if arguments.housing:
        with gzip.open(arguments.housing, "rt") as file:
            names = file.readline().replace('"', "").strip().lower().split(",")
            table = np.loadtxt(file, delimiter=",")
        target = next(place for place, name in enumerate(names) if "house" in name and "value" in name)
        points = np.delete(table, target, axis=1)
        yield Task("California housing", partial(tables, points, table[:, target], False), False, 1)
    if arguments.mnist:
        yield Task("MNIST, 10,000", partial(mnist, arguments.mnist), True, 1)
    yield Task("29 idle inputs", relevant, False, 1)
    points, targets = make_friedman1(3000, noise=1.0, random_state=0)
    yield Task("friedman1", partial(tables, points, targets, False), False, 1)
    if arguments.large:
        yield Task("123 indicators", indicators, True, 1)


ESTIMATORS: list[tuple[str, Callable[[bool, int], Any]]] = [
    ("Polk", lambda classes, seed: (PolkClassifier if classes else PolkRegressor)(random_state=seed)),
    ("Kernel", lambda classes, seed: (KernelClassifier if classes else KernelRegressor)(random_state=seed)),
    ("SVR, SVC", lambda classes, seed: SVC() if classes else SVR()),
    (
        "HistGradientBoosting",
        lambda classes, seed: (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(
            random_state=seed
        ),
    ),
    ("MLP", lambda classes, seed: (MLPClassifier if classes else MLPRegressor)(random_state=seed)),
]


def whole(model: Any, x: AnyArray, y: AnyArray, classes: bool) -> None:
    """Learn from all rows at once."""
    model.fit(x, y)


def rows(model: Any, x: AnyArray, y: AnyArray, classes: bool) -> None:
    """Learn from one row after the other."""
    known: dict[str, Any] = {"classes": np.unique(y)} if classes else {}
    for place in range(len(x)):
        model.partial_fit(x[place : place + 1], y[place : place + 1], **known)


def measured(make: Callable[[bool, int], Any], learn: Callable[..., None], task: Task) -> str:
    """Return the error, the processor seconds of training and the vectors, averaged over the splits."""
    found = []
    for seed in range(task.seeds):
        x, x_test, y, y_test = task.split(seed)
        model = make(task.classes, seed)
        start = time.process_time()
        learn(model, x, y, task.classes)
        spent = time.process_time() - start
        vectors = getattr(model, "model_order_", len(getattr(model, "support_", ())))
        found.append((1.0 - model.score(x_test, y_test), spent, vectors))
    error, seconds, count = np.mean(found, axis=0).tolist()
    return f"{error:.4f}, {seconds:.3g} s" + (f", {count:,.0f}" if count else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("housing", "air-quality", "lidar", "mnist"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP's default number of passes is the default
    warm = np.random.default_rng(0).normal(size=(300, 40))
    for _, make in ESTIMATORS:  # compiled before anything is timed
        for classes, inputs in itertools.product((False, True), (2, 40)):
            make(classes, 0).fit(warm[:, :inputs], warm[:, 0] > 0 if classes else warm[:, 0])
    columns = [(name, make, whole) for name, make in ESTIMATORS]
    columns += [(f"{name}, rows", make, rows) for name, make in ESTIMATORS[:2]]
    print(f"| data | samples x inputs | {' | '.join(name for name, *_ in columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    for task in tasks(arguments):
        shape = " x ".join(f"{size:,}" for size in task.split(0)[0].shape)
        cells = [measured(make, learn, task) for _, make, learn in columns]
        print(f"| {task.name} | {shape} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
