"""A trend beside the kernel: `KernelRegressor` with one where the evidence asks for it, without, and ridge regression.

Inputs are standardised, a fifth of the rows is held out; means over five splits. Errors are shares of the variance of y
on the held-out rows, so that a constant errs 1; seconds are those of one thread's `fit`.

    python benchmarks/trends.py --housing cal_housing.data.gz --air-quality air_quality.mat
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from kernelswarm import KernelRegressor
from kernelswarm.arrays import Array

ROWS, SPLITS = 500, 5


def simulated() -> Iterator[tuple[str, Array, Array]]:
    """Yield a name, inputs and targets."""
    random = np.random.default_rng(0)
    yield "friedman1", *make_friedman1(ROWS, 10, noise=1.0, random_state=0)
    yield "friedman2", *make_friedman2(ROWS, noise=50.0, random_state=0)
    yield "friedman3", *make_friedman3(ROWS, noise=0.1, random_state=0)
    x = random.normal(size=(ROWS, 40))
    yield "sparse linear", x, x[:, :4] @ [3.0, -2.0, 1.5, 1.0] + random.normal(size=ROWS)
    x = random.uniform(-np.pi / 2, np.pi / 2, size=(2 * ROWS, 8))
    angles, links = np.cumsum(x, axis=1), 1.0 - 0.1 * np.arange(8)
    reach = np.hypot(np.cos(angles) @ links, np.sin(angles) @ links)
    yield "robot arm", x, reach + 0.05 * random.normal(size=2 * ROWS)
    x = random.standard_t(2.5, size=(ROWS, 6))
    noise = 0.5 * random.standard_t(3, size=ROWS)
    yield "heavy tails", x, x[:, :4] @ [1.0, 0.5, -0.5, 0.2] + 0.5 * np.abs(x[:, 0]) + noise
    x = random.uniform(size=(ROWS, 3))
    yield "steps", x, np.floor(4.0 * x[:, 0]) + np.sign(x[:, 1] - 0.5) + 0.2 * random.normal(size=ROWS)
    x = random.normal(size=(120, 300))
    yield "more columns than rows", x, x[:, :20] @ random.normal(size=20) + random.normal(size=120)
    t = np.sort(random.uniform(0.0, 10.0, ROWS))
    season = 2.0 * t + 1.5 * np.sin(np.pi * t) + 0.3 * random.normal(size=ROWS)
    yield "trend and season", np.column_stack([t, random.normal(size=ROWS)]), season
    x = random.normal(size=(ROWS, 5))
    pieces = np.where(x[:, 0] > 0.0, 2.0 * x[:, 1], -x[:, 2]) + x[:, 3]
    yield "piecewise linear", x, pieces + 0.3 * random.normal(size=ROWS)
    x = random.normal(size=(ROWS, 8))
    yield "linear", x, x @ random.normal(size=8) + 0.5 * random.normal(size=ROWS)
    x = random.uniform(-1.0, 1.0, size=(ROWS, 6))
    yield "no trend", x, np.sin(4.0 * x[:, 0]) * np.cos(3.0 * x[:, 1]) + 0.1 * random.normal(size=ROWS)
    yield "noise", random.normal(size=(ROWS, 4)), random.normal(size=ROWS)
    choices: list[list[float]] = [list(np.linspace(0.6, 1.0, 12)), [110.0, 122.0, 147.0, 220.0], [3.5, 7.0]]
    choices += [[2.0, 3.0, 4.0, 5.0], [0.0, 0.1, 0.25, 0.4], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]
    x = np.column_stack([random.choice(levels, ROWS) for levels in choices])
    load = 5.0 * x[:, 2] * (1.0 + x[:, 4]) * x[:, 0] ** -1.5 + 0.01 * x[:, 1] + 15.0 * x[:, 4] * np.sqrt(x[:, 0])
    yield "few levels", x, load + np.where(x[:, 2] > 5.0, 5.0 * x[:, 0] ** 2, 0.0) + 0.4 * random.normal(size=ROWS)


def measured(options: argparse.Namespace) -> Iterator[tuple[str, Array, Array]]:
    """Yield the sets of measurements that are at hand."""
    random = np.random.default_rng(1)
    yield "diabetes", *load_diabetes(return_X_y=True)
    if options.air_quality:
        found = loadmat(options.air_quality)
        x, y = found["X"].astype(np.float64), found["Y"][:, 0].astype(np.float64)
        whole = (x > -200.0).all(axis=1) & (y > -200.0)  # -200 stands for missing
        x, y = x[whole], y[whole]
        yield "air quality, whole rows", x, y
        for place, name in ((6, "NOx"), (1, "CO"), (8, "NO2")):
            rows = random.permutation(len(x))[:167]
            yield f"air quality, {name} of 167 rows", np.delete(x, place, axis=1)[rows], x[rows, place]
    if options.housing:
        with gzip.open(options.housing, "rt", encoding="utf-8") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1)
        rows = random.permutation(len(table))[:3000]
        yield "California housing, 3,000 rows", table[rows, :-1], table[rows, -1]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("housing", "air-quality"):
        options.add_argument(f"--{name}", type=Path)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    rivals: dict[str, Any] = {
        "ridge regression": lambda: RidgeCV(np.logspace(-3.0, 4.0, 30)),
        "SVR": SVR,
        "no trend": lambda: KernelRegressor(random_state=0, trend=False),
        "auto": lambda: KernelRegressor(random_state=0),
    }
    for trend in (False, True):  # what is compiled at first use
        KernelRegressor(trend=trend).fit(np.eye(60)[:, :3], np.arange(60.0))
    print("| data | samples x inputs | " + " | ".join(rivals) + " | trends | left out | seconds |")
    print("|---|---|" + "---:|" * (len(rivals) + 3))
    for name, x, y in (*measured(chosen), *simulated()):
        errors, trends, left_out, seconds = [], [], [], []
        for seed in range(SPLITS):
            known, new, wanted, held = train_test_split(x, y, test_size=0.2, random_state=seed)
            scaler = StandardScaler().fit(known)
            known, new, center, unit = scaler.transform(known), scaler.transform(new), wanted.mean(), wanted.std()
            row = []
            for rival, make in rivals.items():
                model, start = make(), time.process_time()
                model.fit(known, (wanted - center) / unit)
                if rival in ("no trend", "auto"):
                    seconds.append(time.process_time() - start)
                row.append(np.mean((center + unit * model.predict(new) - held) ** 2) / np.var(held))
            errors.append(row)
            trends.append(getattr(model.learner_.kernel, "trend", 0.0) > 0.0)
            left_out.append(model.leave_one_out_error_)
        cells = " | ".join(f"{error:.3f}" for error in np.mean(errors, axis=0))
        times = " / ".join(f"{np.mean(seconds[k::2]):.2f}" for k in range(2))
        size = f"{len(known):,} x {x.shape[1]}"
        print(
            f"| {name} | {size} | {cells} | {sum(trends)} of {SPLITS} | {np.mean(left_out):.3f} | {times} |", flush=True
        )


if __name__ == "__main__":
    main()
