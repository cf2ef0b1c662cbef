"""Rows one at a time against chunks of a hundred and the whole: error and processor time of the estimators.

California housing in a random order, standardised, is predicted progressively: each row, or chunk, is first predicted
and then learned from by `partial_fit`. Errors are mean square errors over the targets' variance, or shares of wrong
labels (is the value above the median?), from the second hundred on. "whole" is one `partial_fit` with four fifths of
the rows, predicted is the last fifth. A row is a call of `predict` and one of `partial_fit`. Seconds are processor
seconds, without the compilation of the first call.

    python benchmarks/single_rows.py cal_housing.data.gz
"""

import argparse
import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from kernelswarm import KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.arrays import AnyArray

ESTIMATORS: list[Any] = [PolkRegressor(), KernelRegressor(), PolkClassifier(), KernelClassifier()]


def housing(path: Path) -> tuple[AnyArray, AnyArray]:
    """Read the inputs and the value of a house, shuffled and standardised."""
    with gzip.open(path, "rt") as file:
        names = file.readline().replace('"', "").strip().lower().split(",")
        table = np.loadtxt(file, delimiter=",")
    target = next(place for place, name in enumerate(names) if "house" in name and "value" in name)
    table = np.random.default_rng(0).permutation(table)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    return np.delete(table, target, axis=1), table[:, target]


def losses(found: AnyArray, wanted: AnyArray) -> AnyArray:
    """Return the squared errors, or where labels are wrong."""
    return (found - wanted) ** 2 if wanted.dtype.kind == "f" else (found != wanted).astype(np.float64)


def progressively(estimator: Any, x: AnyArray, y: AnyArray, size: int) -> tuple[float, float]:
    """Return the error from the second hundred on, over that of a constant for numbers, and the processor seconds."""
    model, found = clone(estimator), []
    keys = {} if y.dtype.kind == "f" else {"classes": np.unique(y)}
    start = time.process_time()
    for place in range(0, len(x), size):
        rows = slice(place, place + size)
        if place:
            found.append(model.predict(x[rows]))
        model.partial_fit(x[rows], y[rows], **keys)
    spent = time.process_time() - start
    predicted = np.concatenate(found)[-(len(x) - 100) :]
    return float(losses(predicted, y[100:]).mean()), spent


def at_once(estimator: Any, x: AnyArray, y: AnyArray) -> tuple[float, float]:
    """Return the error on the last fifth after one pass over the others, and the processor seconds of both."""
    model, kept = clone(estimator), len(x) * 4 // 5
    keys = {} if y.dtype.kind == "f" else {"classes": np.unique(y)}
    start = time.process_time()
    found = model.partial_fit(x[:kept], y[:kept], **keys).predict(x[kept:])
    return float(losses(found, y[kept:]).mean()), time.process_time() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    x, values = housing(parser.parse_args().file)
    print("| estimator | whole | chunks | rows | whole, s | chunks, s | rows, s | a row over one in chunks |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for estimator in ESTIMATORS:
        y = np.where(values > np.median(values), 1, 0) if hasattr(estimator, "decision_function") else values
        for size in (1, 100):  # compiled before anything is timed
            progressively(estimator, x[:300], y[:300], size)
        whole, chunks, rows = at_once(estimator, x, y), *(progressively(estimator, x, y, size) for size in (100, 1))
        errors = " | ".join(f"{found[0]:.3f}" for found in (whole, chunks, rows))
        seconds = " | ".join(f"{found[1]:.1f}" for found in (whole, chunks, rows))
        print(f"| {type(estimator).__name__} | {errors} | {seconds} | {rows[1] / chunks[1]:.1f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
