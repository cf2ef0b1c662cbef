"""Second-order steps beside gradient descent and batch solvers: error and processor time at equal sizes.

Inputs and regression targets are standardised, a fifth is kept for testing; MNIST has its own test images, and
pixels in [0, 1]. All learners see the same rows in the same order, once unless a row says otherwise. Errors are mean
square errors over the targets' variance, or shares of misclassified samples; times are processor seconds of one thread.

    python benchmarks/second_order.py --housing cal_housing.data.gz --air-quality air_quality.mat [--mnist FOLDER]
"""

import argparse
import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment, KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.data.array_files import read_idx
from kernelswarm.simulations.running.network import open_network

SIZES = 100, 500, 1000
SHARE = 0.6
"""Bandwidth of all kernels over the median distance of two points, but for those that choose their own."""


class Data(NamedTuple):
    """A data set, split."""

    name: str
    x: AnyArray
    x_test: AnyArray
    y: AnyArray
    y_test: AnyArray
    classes: bool


def table(name: str, points: AnyArray, targets: AnyArray, classes: bool = False) -> Data:
    """Split a table, and standardise it."""
    x, x_test, y, y_test = train_test_split(points, targets, test_size=0.2, random_state=0)
    scaler = StandardScaler().fit(x)
    if not classes:
        center, deviation = y.mean(), y.std()
        y, y_test = (y - center) / deviation, (y_test - center) / deviation
    return Data(name, scaler.transform(x), scaler.transform(x_test), y, y_test, classes)


def drawn(name: str, stream: dict[str, Any], count: int) -> tuple[AnyArray, AnyArray]:
    """Draw samples of one node of a stream."""
    loss = "multiclass_logistic" if stream["name"] == "gaussian_mixture" else "squared"
    tables = {"topology": {"name": "ring", "nodes": 1}, "stream": stream, "protocol": "isolated"}
    experiment = Experiment.from_dict({**tables, "learner": {"name": "newton", "loss": loss}, "rounds": 1})
    points, targets = open_network(experiment).source.nodes[0].draw(count)
    return points, targets[:, 0]


def digits(folder: Path, part: str) -> tuple[AnyArray, AnyArray]:
    """Read images, a row each with pixels in [0, 1], and labels."""
    files = [folder / f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx("FOLDER", file) for file in files)
    return images.reshape(len(images), -1) / 255.0, labels


def read(options: argparse.Namespace) -> Iterator[Data]:
    """Yield the data sets that are at hand."""
    if options.housing:
        with gzip.open(options.housing, "rt", encoding="utf-8") as file:
            rows = np.loadtxt(file, delimiter=",", skiprows=1)
        yield table("housing", rows[:, :-1], rows[:, -1])
    if options.air_quality:
        matrix = loadmat(options.air_quality)
        yield table("air quality", matrix["X"].astype(np.float64), matrix["Y"].ravel().astype(np.float64))
    yield table("gaussian mixture", *drawn("mixture", {"name": "gaussian_mixture"}, 7500), classes=True)
    if options.mnist:
        x, y = digits(options.mnist, "train")
        x_test, y_test = digits(options.mnist, "t10k")
        chosen = slice(0, options.images)
        yield Data(f"MNIST, {len(x[chosen]):,}", x[chosen], x_test, y[chosen], y_test, classes=True)


def rivals(data: Data, size: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is compared at a size."""
    bandwidth = 4.0 if data.x.shape[1] == 784 else SHARE * float(np.median(pdist(data.x[:1000])))
    gamma = 0.5 / bandwidth**2
    last = LogisticRegression(C=10.0, max_iter=200) if data.classes else Ridge(0.1)
    newton = KernelClassifier if data.classes else KernelRegressor
    polk = PolkClassifier if data.classes else PolkRegressor
    steered = {"target_order": size, "alpha": 0.1, "gain": 0.3 / size, "smallest": 1e-3}
    for epochs in (1, 3):
        yield f"newton, {epochs} passes", lambda epochs=epochs: newton(size, epochs=epochs, random_state=0)
    if not data.classes:
        yield "newton, one length", lambda: newton(size, bandwidth="median", random_state=0)
    yield "newton, same bandwidth", lambda: newton(size, bandwidth=bandwidth, epochs=1, random_state=0)
    yield "POLK, 3 passes", lambda: polk(budget=steered, random_state=0)
    for step in (0.1, 0.5) if not data.classes else (2.0, 10.0):
        keys = {"step_size": step, "budget": steered, "batch_size": 1, "bandwidth": bandwidth}
        yield f"POLK, step {step:g}, 3 passes", lambda keys=keys: polk(**keys, random_state=0)
    yield "Nystroem + batch", lambda: make_pipeline(Nystroem(gamma=gamma, n_components=size, random_state=0), last)
    # One pass of recursive least squares and a ridge solved at once are the same on features that do not change.
    yield (
        "random features + batch",
        lambda: make_pipeline(RBFSampler(gamma=gamma, n_components=size, random_state=0), last),
    )
    if size == SIZES[-1]:
        support = SVC(C=10.0, gamma=gamma) if data.classes else SVR(gamma=gamma)
        yield "support vectors", lambda: support


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("housing", "air-quality", "mnist"):
        options.add_argument(f"--{name}", type=Path)
    options.add_argument("--images", type=int, default=10_000, help="how many of MNIST's training images")
    chosen = options.parse_args()
    warm = np.random.default_rng(0).normal(size=(300, 2))
    for each in (KernelRegressor, PolkRegressor):  # what is compiled at first use
        each(epochs=1).fit(warm, warm[:, 0])
    with threadpool_limits(1):
        for data in read(chosen):
            print(f"\n**{data.name}**, {len(data.x):,} x {data.x.shape[1]}\n")
            print("| | size | error | CPU s |\n|---|---:|---:|---:|")
            for size in SIZES:
                for name, make in rivals(data, size):
                    model = make()
                    start = time.process_time()
                    model.fit(data.x, data.y)
                    seconds = time.process_time() - start
                    found = model.predict(data.x_test)
                    error = np.mean(found != data.y_test) if data.classes else np.mean((found - data.y_test) ** 2)
                    if not data.classes:
                        error /= data.y_test.var()
                    order = getattr(model, "model_order_", len(getattr(model, "support_", [])) or size)
                    print(f"| {name} | {order:,} | {error:.4f} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
