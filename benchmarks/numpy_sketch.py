"""One pass of `KernelRegressor` over California housing beside the least that plain numpy can do, taking turns.

The sketch keeps points by their residual: with L the Cholesky factor of the dictionary's Gram matrix and the features
z = inv(L) k(x), a point enters while there is room and 1 - z'z exceeds a bound. Z Z' and Z y are summed up batch by
batch, and the weights solved for once, at the end: no removals, no function on the way, nothing that bears an endless
stream. It has one length for all inputs, 0.6 of the median distance; `KernelRegressor` is there with that one too.

Times are processor seconds of one thread, the least of all turns; errors are over the targets' variance.

    python benchmarks/numpy_sketch.py cal_housing.data.gz [--turns 5]
"""

import argparse
import gzip
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from kernelswarm import KernelRegressor
from kernelswarm.arrays import Array

Predictor = Callable[[Array], Array]

BOUNDS = {500: 0.012, 1000: 0.004}
"""By size: the largest residual that is left out. Of those tried these erred least."""

BATCH, RIDGE = 32, 0.1


def read(file: Path) -> list[Array]:
    """Return standardised inputs and targets to train on and to test on."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = np.loadtxt(lines, delimiter=",", skiprows=1)
    x, x_test, y, y_test = train_test_split(rows[:, :-1], rows[:, -1], test_size=0.2, random_state=0)
    scaler = StandardScaler().fit(x)
    return [scaler.transform(x), scaler.transform(x_test), (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()]


def kernel(points: Array, centers: Array, bandwidth: float) -> Array:
    """Return the Gaussian kernel of all pairs."""
    squares = np.sum(points**2, axis=1)[:, None] + np.sum(centers**2, axis=1) - 2.0 * points @ centers.T
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5 / bandwidth**2
    return np.exp(squares, out=squares)


def sketch(x: Array, y: Array, size: int) -> Predictor:
    """Fit the sketch."""
    bandwidth = 0.6 * float(np.median(pdist(x[:1000])))
    points, inverse, bound = np.empty((size, x.shape[1])), np.zeros((size, size)), BOUNDS[size]
    known, asked, order = np.zeros((size, size)), np.zeros(size), 0
    shuffled = np.random.default_rng(0).permutation(len(x))
    for start in range(0, len(x), BATCH):
        chosen = shuffled[start : start + BATCH]
        batch = x[chosen]
        features = inverse[:order, :order] @ kernel(points[:order], batch, bandwidth)
        for n in np.flatnonzero(1.0 - np.sum(features**2, axis=0) > bound):
            own = inverse[:order, :order] @ kernel(points[:order], batch[n : n + 1], bandwidth)[:, 0]
            rest = 1.0 - float(own @ own)
            if order == size:
                break
            if rest > bound:
                inverse[order, :order] = -(own @ inverse[:order, :order]) / np.sqrt(rest)
                inverse[order, order] = 1.0 / np.sqrt(rest)
                points[order] = batch[n]
                order += 1
        features = inverse[:order, :order] @ kernel(points[:order], batch, bandwidth)
        known[:order, :order] += features @ features.T
        asked[:order] += features @ y[chosen]
    weights = inverse[:order, :order].T @ np.linalg.solve(known[:order, :order] + RIDGE * np.eye(order), asked[:order])
    return lambda at: kernel(at, points[:order], bandwidth) @ weights


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("housing", type=Path)
    options.add_argument("--turns", type=int, default=5)
    chosen = options.parse_args()
    x, x_test, y, y_test = read(chosen.housing)
    print("| size | | error | CPU s | of the sketch's |\n|---:|---|---:|---:|---:|")
    with threadpool_limits(1):
        for size in BOUNDS:
            ways: dict[str, Callable[[], Predictor]] = {
                "numpy sketch": lambda size=size: sketch(x, y, size),  # type: ignore[misc]
                "newton": lambda size=size: KernelRegressor(size, random_state=0).fit(x, y).predict,  # type: ignore[misc]
                "newton, one length": lambda size=size: (  # type: ignore[misc]
                    KernelRegressor(size, bandwidth="median", random_state=0).fit(x, y).predict
                ),
            }
            for way in ways.values():
                way()  # what has to be compiled first
            least, errors = dict.fromkeys(ways, np.inf), {}
            for _ in range(chosen.turns):
                for name, way in ways.items():
                    start = time.process_time()
                    predict = way()
                    least[name] = min(least[name], time.process_time() - start)
                    errors[name] = float(np.mean((predict(x_test) - y_test) ** 2) / y_test.var())
            for name, seconds in least.items():
                ratio = seconds / least["numpy sketch"]
                print(f"| {size:,} | {name} | {errors[name]:.4f} | {seconds:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
