"""COLK section V, figure 3: the LIDAR data with added outliers, learned with and without a dispersion of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Booleans
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.reproductions.colk_outliers import (
    METHODS,
    SAME,
    Runs,
    compared,
    first_of,
    learn,
    prepared,
    printed,
    rows_of,
    spread,
)
from kernelswarm.simulations.reproductions.contract import ByName, Claim, Reproduction, Request, Samples
from kernelswarm.simulations.reproductions.sheets import Sheet, tables

SHARE, SIZE = 0.1, 0.5
"""A training target is an outlier with this probability, and gets N(0, SIZE^2); targets lie in [-0.95, 0.03]."""

DATA = (
    'lidar.csv: 221 rows range,logratio, published by Ruppert, Wand and Carroll, "Semiparametric Regression" (lidar in '
    "the R package SemiPar)"
)

SHEET = Sheet("colk-lidar", globals())

FILES = ("lidar.csv",)

CLEAN = "POLK, COLK's step"


def reproduce(request: Request) -> Reproduction:
    """Compare COLK with learners of the mean loss alone on the LIDAR data with added outliers (COLK figure 3)."""
    points, targets = _read(request.data)
    sets, epochs = (3, 5) if request.quick else (20, 60)
    splits = [_set(request.seed, which, points, targets, epochs) for which in range(sets)]
    tuning = _set(request.seed, sets, points, targets, epochs)
    runs, settings = compared(request, (tuning.training, tuning.test), [split.training for split in splits])
    errors = {
        name: [run.error(*split.test) for run, split in zip(fits, splits, strict=True)] for name, fits in runs.items()
    }
    clean = [_error_without_outliers(request.seed, which, points, targets, epochs) for which in range(sets)]
    said = SHEET.given(
        _pictured(runs, splits[0], errors), settings=settings, sets=sets, rows=len(points), epochs=epochs
    )
    said = said.given(outliers=splits[0].hit.sum())
    arrays = {f"errors: {name}": np.array(found) for name, found in errors.items()}
    return said.found([*_claims(said, errors, runs, clean)], arrays)


class Split(NamedTuple):
    """Training samples in a new order for each epoch, clean test samples, and which are outliers."""

    training: Samples
    test: Samples
    hit: Booleans


def _read(path: Path | None) -> Samples:
    """Read the ranges, scaled to [0, 1], (N, 1), and the log ratios, (N, 1)."""
    if path is None:
        raise InputError(f"--data is missing: it must name {DATA}")
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except OSError as error:
        raise InputError(f"--data {path} cannot be read: {error.strerror or error}: give {DATA}") from error
    except ValueError as error:
        raise InputError(f"--data {path} is not a table of numbers under one line of names: give {DATA}") from error
    if table.shape[1] != 2 or len(table) < 50 or not np.isfinite(table).all() or np.ptp(table[:, 0]) == 0.0:
        raise InputError(f"--data {path} must have two columns and at least 50 rows of finite numbers: give {DATA}")
    ranges = table[:, :1]
    return (ranges - ranges.min()) / np.ptp(ranges), table[:, 1:].copy()


def _set(seed: int, which: int, points: Array, targets: Array, epochs: int, share: float = SHARE) -> Split:
    random = generator(seed, Role.SPLIT, 0, which)
    order = random.permutation(len(points))
    cut = len(points) - len(points) // 5
    learned, tested = order[:cut], order[cut:]
    hit = random.random(cut) < share
    noisy = targets[learned] + (hit * SIZE * random.standard_normal(cut))[:, None]
    rows = np.concatenate([random.permutation(cut) for _ in range(epochs)])
    return Split((points[learned][rows], noisy[rows]), (points[tested], targets[tested]), hit)


def _error_without_outliers(seed: int, which: int, points: Array, targets: Array, epochs: int) -> float:
    split = _set(seed, which, points, targets, epochs, share=0.0)
    learner, _ = prepared(METHODS[CLEAN], split.training, split.test)
    return learn(learner, *split.training).error(*split.test)


def _claims(said: Sheet, errors: ByName, runs: Runs, clean: list[float]) -> Iterator[Claim]:
    yield from rows_of(said, "error", errors, runs)
    yield said.claim("clean", error=spread(clean), name=CLEAN, setting=METHODS[CLEAN].settings)
    yield first_of(said, "least", errors, printed(errors))
    yield first_of(said, "least of both", errors, SAME)


def _pictured(runs: Runs, split: Split, errors: ByName) -> dict[str, object]:
    """Return what the sheet draws: the samples and the functions of a set."""
    grid = np.linspace(0.0, 1.0, 300)[:, None]
    samples = np.unique(np.hstack(split.training), axis=0)
    test = np.hstack(split.test)
    functions = {name: runs[name][0].function for name in tables(SHEET.name)["strokes"]}
    found = {name: function for name, function in functions.items() if function is not None}
    return {
        **{"x": samples[:, 0], "y": samples[:, 1], "test_x": test[:, 0], "test_y": test[:, 1], "grid": grid[:, 0]},
        **{f"fit: {name}": function.values(grid)[:, 0] for name, function in found.items()},
        "fits": {name: {**tables(SHEET.name)["strokes"][name], "error": errors[name][0]} for name in found},
    }
