"""Coverage of KernelRegressor's bands of level .95 beside those of scikit-learn's Gaussian process.

    python benchmarks/gaussian_process.py FOLDER

FOLDER holds lidar.csv, cal_housing.data.gz and air_quality.mat. Each set is split three times, three tenths held out;
inputs are standardised. The Gaussian process has one length for each input, a scale and a noise by maximum likelihood.
"""

import gzip
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from kernelswarm import KernelRegressor
from kernelswarm.arrays import Array

MOST, SPLITS, LEVEL, HALF_WIDTH = 450, 3, 0.95, 1.959964


def sets(folder: Path, seed: int) -> Iterator[tuple[str, Array, Array]]:
    """Yield the name, inputs (n, p) and targets (n,) of each set."""
    generator = np.random.default_rng(seed)
    yield "diabetes", *load_diabetes(return_X_y=True)
    yield "friedman", *make_friedman1(MOST, noise=1.0, random_state=seed)
    lidar = np.loadtxt(folder / "lidar.csv", delimiter=",", skiprows=1)
    yield "lidar", lidar[:, :1], lidar[:, 1]
    with gzip.open(folder / "cal_housing.data.gz", "rt") as file:
        housing = generator.permutation(np.loadtxt(file, delimiter=",", skiprows=1))[:MOST]
    yield "housing", housing[:, :8], housing[:, 8]
    air = loadmat(folder / "air_quality.mat")
    rows = np.column_stack([air["X"], air["Y"]])
    rows = generator.permutation(rows[np.isfinite(rows).all(axis=1)])[:MOST]
    yield "air quality", rows[:, :-1], rows[:, -1]
    x = generator.uniform(-3.0, 3.0, (MOST, 1))
    noise = np.where(x[:, 0] > 0.0, 0.5, 0.05) * generator.normal(size=MOST)
    yield "a step in the noise", x, np.sin(2.0 * x[:, 0]) + noise


def coverages(x: Array, y: Array, seed: int) -> tuple[float, float]:
    """Return the shares of held-out targets within the bands of the Gaussian process and of KernelRegressor."""
    order = np.random.default_rng(seed + 100).permutation(len(y))
    train, test = np.split(order, [int(0.7 * len(y))])
    scaler = StandardScaler().fit(x[train])
    inputs, others = scaler.transform(x[train]), scaler.transform(x[test])
    kernel = ConstantKernel(1.0) * RBF(np.ones(x.shape[1])) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(inputs, y[train])
    ours = KernelRegressor(random_state=0).fit(inputs, y[train])
    bands = [model.predict(others, return_std=True) for model in (process, ours)]
    first, second = (float(np.mean(np.abs(y[test] - mean) <= HALF_WIDTH * std)) for mean, std in bands)
    return first, second


def main() -> None:
    warnings.simplefilter("ignore")
    folder, found = Path(sys.argv[1]), dict[str, list[tuple[float, float]]]()
    for seed in range(SPLITS):
        for name, x, y in sets(folder, seed):
            found.setdefault(name, []).append(coverages(x, y, seed))
    print("| data | Gaussian process | KernelRegressor | off by | off by |\n|---|---:|---:|---:|---:|")
    for name, pairs in found.items():
        each = np.array(pairs)
        figures = [*each.mean(axis=0), *np.abs(each - LEVEL).mean(axis=0)]
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |")


if __name__ == "__main__":
    main()
