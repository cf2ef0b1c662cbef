"""The defaults as they are on inputs of many kinds: error, processor time and vectors.

Simulated are wide and heavy-tailed inputs (log-normal ones; counts, most of them 0, or over five decades), a constant
and a nearly constant input, an outlier of 10^9, inputs whose units differ by 10^6, and idle inputs; Friedman's
functions and four small sets come with scikit-learn, two are read from the files named. Inputs of the estimators are as
they stand, or standardised; a fifth of the rows is kept for testing. Errors are mean square errors over the variance,
or shares of misclassified samples, averaged over five splits of the sets under a thousand rows. Times are processor
seconds of `fit`.

    python benchmarks/bandwidths.py --housing cal_housing.data.gz --air-quality air_quality.mat
    python benchmarks/bandwidths.py --networks --housing cal_housing.data.gz --air-quality air_quality.mat

``--networks`` runs eight nodes on a ring instead, polk and newton under consensus, on standardised data of which every
node sees its share once, or ten times where rows are few; ``--bandwidth median`` takes another word than "auto".
``--only NAME`` takes one set.
"""

import argparse
import gzip
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
    make_friedman2,
    make_friedman3,
)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from kernelswarm import KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor, simulate
from kernelswarm.arrays import AnyArray

Data = tuple[AnyArray, AnyArray]
SMALL, NODES = 1000, 8


class Task(NamedTuple):
    """A data set."""

    name: str
    load: Callable[[], Data]
    classes: bool = False


def log_normal() -> Data:
    """Simulate 100 correlated log-normal inputs in units of 0.01 to 100, of which three matter."""
    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(6, 100)) / np.sqrt(6.0)
    logarithms = generator.normal(size=(8000, 6)) @ mixing + 0.3 * generator.normal(size=(8000, 100))
    targets = np.tanh(logarithms[:, 0]) + 0.5 * logarithms[:, 1] + 0.5 * np.sin(logarithms[:, 2])
    points = np.exp(logarithms) * 10.0 ** generator.uniform(-2.0, 2.0, 100)
    return points, targets + 0.1 * generator.normal(size=8000)


def heavy_tailed() -> Data:
    """Simulate 96 inputs, sinh of combinations of three numbers, on which the target depends."""
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=(8000, 3))
    points = np.sinh(1.2 * hidden @ generator.normal(size=(3, 96))) + 0.05 * generator.standard_t(3, size=(8000, 96))
    targets = np.sin(1.5 * hidden[:, 0]) + hidden[:, 1] * hidden[:, 2]
    return points, targets + 0.1 * generator.normal(size=8000)


def counts() -> Data:
    """Simulate 40 counts, half of them 0, whose rates have three numbers in common."""
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.normal(-1.0, 1.5, 40))
    hidden = np.exp(0.7 * generator.normal(size=(6000, 3)))
    points = generator.poisson(hidden @ np.abs(generator.normal(size=(3, 40))) * sizes).astype(float)
    return points, np.log(hidden[:, 0]) + 0.5 * np.log(hidden[:, 1]) + 0.2 * generator.normal(size=6000)


def decades() -> Data:
    """Simulate twelve counts at eight times, over five decades, whose rates and target follow one size that drifts."""
    generator = np.random.default_rng(0)
    size = 1.6 * generator.normal(size=(4000, 1)) + np.cumsum(0.35 * generator.normal(size=(4000, 8)), axis=1)
    levels, slopes = generator.uniform(-1.5, 5.5, (12, 1)), generator.uniform(0.5, 1.3, (12, 1))
    own = 0.6 * generator.normal(size=(4000, 12, 1))
    rates = levels + slopes * size[:, np.newaxis] + own + 0.3 * generator.normal(size=(4000, 12, 8))
    points = generator.poisson(np.exp(np.minimum(rates, 16.0))).reshape(4000, 96).astype(float)
    return points, size[:, -1] + np.tanh(own[:, 0, 0]) + 0.5 * generator.normal(size=4000)


def surface(inputs: int, count: int = 3000) -> Data:
    """Simulate y = sin(2 x_1) x_2 + x_3 / 2 + noise, and inputs that say nothing."""
    generator = np.random.default_rng(0)
    points = generator.normal(size=(count, inputs))
    targets = np.sin(2.0 * points[:, 0]) * points[:, 1] + 0.5 * points[:, 2]
    return points, targets + 0.1 * generator.normal(size=count)


def constants() -> Data:
    """Add a constant input of 370,000, and one that differs from 1 by 10^-9."""
    points, targets = surface(6)
    points[:, 4] = 3.7e5
    points[:, 5] = 1.0 + 1e-9 * points[:, 5]
    return points, targets


def outlier() -> Data:
    """Put 10^9 into an input that matters."""
    points, targets = surface(5)
    points[0, 1] = 1e9
    return points, targets


def units() -> Data:
    """Take units of .001, 1,000, 1 and 100."""
    points, targets = surface(4)
    return points * np.array([1e-3, 1e3, 1.0, 1e2]), targets


def housing(path: Path) -> Data:
    """Read the California housing data."""
    with gzip.open(path, "rt") as file:
        names = file.readline().replace('"', "").strip().lower().split(",")
        table = np.loadtxt(file, delimiter=",")
    target = next(place for place, name in enumerate(names) if "house" in name and "value" in name)
    return np.delete(table, target, axis=1), table[:, target]


def air_quality(path: Path) -> Data:
    """Read the UCI Air Quality data."""
    found = loadmat(path)
    return found["X"], found["Y"].ravel()


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """Yield what can be read."""
    yield Task("log-normal", log_normal)
    yield Task("heavy-tailed", heavy_tailed)
    yield Task("counts", counts)
    yield Task("decades", decades)
    yield Task("constant inputs", constants)
    yield Task("outlier", outlier)
    yield Task("units", units)
    yield Task("29 idle inputs", partial(surface, 32, 5000))
    yield Task("friedman1", partial(make_friedman1, 4000, noise=1.0, random_state=0))
    yield Task("friedman2", partial(make_friedman2, 4000, noise=100.0, random_state=0))
    yield Task("friedman3", partial(make_friedman3, 4000, noise=0.1, random_state=0))
    if arguments.housing:
        yield Task("California housing", partial(housing, arguments.housing))
    if arguments.air_quality:
        yield Task("air quality", partial(air_quality, arguments.air_quality))
    yield Task("diabetes", partial(load_diabetes, return_X_y=True))
    yield Task("digits", partial(load_digits, return_X_y=True), True)
    yield Task("breast cancer", partial(load_breast_cancer, return_X_y=True), True)
    yield Task("wine", partial(load_wine, return_X_y=True), True)


def splits(task: Task) -> Iterator[tuple[int, AnyArray, AnyArray, AnyArray, AnyArray]]:
    """Yield seeds with training points, test points, training targets and test targets."""
    points, targets = task.load()
    for seed in range(5 if len(points) < SMALL else 1):
        yield (seed, *train_test_split(points, targets, test_size=0.2, random_state=seed))


def estimated(task: Task, scaled: bool) -> list[str]:
    """Return error, seconds and vectors of POLK and of the second-order learner."""
    found = []
    for seed, x, x_test, y, y_test in splits(task):
        if scaled:
            scaler = StandardScaler().fit(x)
            x, x_test = scaler.transform(x), scaler.transform(x_test)
        row: list[float] = []
        for make in (PolkClassifier, KernelClassifier) if task.classes else (PolkRegressor, KernelRegressor):
            start = time.process_time()
            model: Any = make(random_state=seed).fit(x, y)
            row += [1.0 - model.score(x_test, y_test), time.process_time() - start, model.model_order_]
        found.append(row)
    return written(np.mean(found, axis=0).tolist())


def networked(task: Task, bandwidth: str) -> list[str]:
    """Return error, seconds and vectors of eight nodes with `polk` and with `newton`."""
    points, targets = task.load()
    if task.classes:
        targets = targets.astype(np.int64)
    epochs = 10 if len(points) < SMALL else 1
    batch_size = 4
    row: list[float] = []
    for name in ("polk", "newton"):
        loss = "multiclass_logistic" if task.classes else "squared"
        start = time.process_time()
        result = simulate(
            topology={"name": "ring", "nodes": NODES},
            data=(points, targets),
            stream={"standardize": True, "standardize_targets": not task.classes, "epochs": epochs},
            learner={"name": name, "loss": loss, "batch_size": batch_size, "kernel": {"bandwidth": bandwidth}},
            protocol="consensus",
            rounds=max(1, int(0.8 * len(points)) * epochs // (NODES * batch_size)),
            evaluate_every=10**9,
        )
        seconds = time.process_time() - start
        error = result.network["error" if task.classes else "risk"][-1]
        row += [float(error), seconds, float(result.network["model_order"][-1])]
    return written(row)


def written(row: list[float]) -> list[str]:
    """Return the cells of a row."""
    return [f"{value:,.0f}" if place % 3 == 2 else f"{value:.3g}" for place, value in enumerate(row)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("housing", "air-quality"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--bandwidth", default="auto")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warm = np.random.default_rng(0).normal(size=(100, 3))
    for make in (PolkRegressor, KernelRegressor):  # compiled before anything is timed
        make().fit(warm, warm[:, 0])
    first = "polk" if arguments.networks else "Polk"
    second = "newton" if arguments.networks else "Kernel"
    names = [f"{model} {what}" for model in (first, second) for what in ("error", "seconds", "vectors")]
    print("| data | inputs |", " | ".join(names), "|")
    print("|---|---|" + "---:|" * len(names))
    for task in tasks(arguments):
        if arguments.only not in ("", task.name):
            continue
        for scaled in (True,) if arguments.networks else (False, True):
            cells = networked(task, arguments.bandwidth) if arguments.networks else estimated(task, scaled)
            print(f"| {task.name} | {'standardised' if scaled else 'raw'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        main()
