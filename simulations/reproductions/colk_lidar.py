"""COLK section V, figure 3: the LIDAR data with added outliers, learned with and without a dispersion of the loss."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.risk_methods import (
    METHODS,
    Fit,
    is_least,
    lead,
    learn,
    mean_square,
    prepared,
    rows_of,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

SHARE, SIZE = 0.1, 0.5
"""A training target is an outlier with this probability, and gets N(0, SIZE^2); targets lie in [-0.95, 0.03]."""

DATA = (
    'lidar.csv: 221 rows range,logratio, published by Ruppert, Wand and Carroll, "Semiparametric Regression" (lidar in '
    "the R package SemiPar)"
)
FILES = ("lidar.csv",)

CLEAN = "POLK, COLK's step"


def reproduce(request: Request) -> Reproduction:
    """Compare COLK with learners of the mean loss alone on the LIDAR data with added outliers (COLK figure 3)."""
    points, targets = _read(request.data)
    sets, epochs = (3, 5) if request.quick else (20, 60)
    grid = np.linspace(0.0, 1.0, 300)[:, None]
    errors: dict[str, list[float]] = {}
    runs: dict[str, list[Fit]] = {}
    settings: dict[str, str] = {}
    drawn = [_set(request.seed, which, points, targets, epochs) for which in range(sets)]
    tuning = _set(request.seed, sets, points, targets, epochs)
    for place, (name, method) in enumerate(METHODS.items()):
        request.tell(name, place / len(METHODS))
        learner, settings[name] = prepared(method, tuning[0], tuning[1])
        runs[name] = [learn(learner, *training) for training, _, _ in drawn]
        errors[name] = [
            float("nan") if run.function is None else mean_square(run.function, *test)
            for run, (_, test, _) in zip(runs[name], drawn, strict=True)
        ]
    clean = [_error_without_outliers(request.seed, which, points, targets, epochs) for which in range(sets)]
    return Reproduction(
        _claims(errors, runs, settings, clean),
        _notes(sets, epochs, len(points)),
        {"colk_lidar_functions": _figure(runs, grid, drawn[0], errors)},
        {f"errors: {name}": np.array(found) for name, found in errors.items()},
    )


def _read(path: Path | None) -> tuple[Array, Array]:
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


def _set(
    seed: int, which: int, points: Array, targets: Array, epochs: int, share: float = SHARE
) -> tuple[tuple[Array, Array], tuple[Array, Array], npt.NDArray[np.bool_]]:
    """Draw a split: training samples in a new order for each epoch, clean test samples, and which are outliers."""
    random = generator(seed, Role.SPLIT, 0, which)
    order = random.permutation(len(points))
    cut = len(points) - len(points) // 5
    learned, tested = order[:cut], order[cut:]
    hit = random.random(cut) < share
    noisy = targets[learned] + (hit * SIZE * random.standard_normal(cut))[:, None]
    rows = np.concatenate([random.permutation(cut) for _ in range(epochs)])
    return (points[learned][rows], noisy[rows]), (points[tested], targets[tested]), hit


def _error_without_outliers(seed: int, which: int, points: Array, targets: Array, epochs: int) -> float:
    training, test, _ = _set(seed, which, points, targets, epochs, share=0.0)
    learner, _ = prepared(METHODS[CLEAN], training, test)
    function = learn(learner, *training).function
    return float("nan") if function is None else mean_square(function, *test)


def _claims(
    errors: Mapping[str, list[float]],
    runs: Mapping[str, list[Fit]],
    settings: Mapping[str, str],
    clean: list[float],
) -> list[Claim]:
    printed = [name for name in METHODS if METHODS[name].printed]
    claims = rows_of(errors, runs, settings, "clean test error", "")
    claims.append(Claim(f"clean test error without outliers, {CLEAN}", "", spread(clean), METHODS[CLEAN].settings))
    for quantity, published, names, words in (
        ("least test error", "COLK is robust where others overfit (figure 3)", printed, "the methods as printed"),
        ("least test error, POLK with COLK's step", "COLK (figure 3)", ["COLK", CLEAN], "the same step size for both"),
    ):
        measured, holds = lead(errors, names, "mean", "COLK"), is_least(errors, names, "mean", "COLK")
        claims.append(Claim(quantity, published, measured, words, holds))
    return claims


def _notes(sets: int, epochs: int, rows: int) -> list[str]:
    return [
        f"The paper says neither how many outliers it adds nor how large. Here {SHARE:.0%} of the training targets get "
        f"N(0, {SIZE:g}^2); {sets} times a fifth of the {rows} rows is set aside as it is. The rest is learned in "
        f"{epochs} passes of new order each. The settings are those of the regression with outliers, since no others "
        "are printed; the range is scaled to [0, 1], the targets are as published.",
        "Pairs are consecutive samples of a pass over finite data; they are independent only given the data.",
        "COLK errs least where every other method errs more on the same splits, by more than two standard errors of "
        "the difference.",
        "Tried where COLK does not err least: its step without a dispersion, with the variance alone, with sliding "
        "pairs, and POLK with its step. The less dispersion, the smaller the error, as in colk-outliers.",
    ]


def _figure(
    runs: Mapping[str, list[Fit]],
    grid: Array,
    drawn: tuple[tuple[Array, Array], tuple[Array, Array], npt.NDArray[np.bool_]],
    errors: Mapping[str, list[float]],
) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelswarm.simulations.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, RC

    (points, targets), (test_points, test_targets), hit = drawn
    with rc_context(RC):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        unique = np.unique(np.hstack([points, targets]), axis=0)
        axes.plot(unique[:, 0], unique[:, 1], ".", color=GREY, markersize=4, label=f"training, {hit.sum()} outliers")
        axes.plot(test_points[:, 0], test_targets[:, 0], "x", color=BLACK, markersize=4, label="test")
        for name, color, dash in (
            ("POLK", ORANGE, "-"),
            ("RBF network", GREEN, "--"),
            ("COLK", BLUE, "-"),
            (CLEAN, BLACK, ":"),
        ):
            run = runs[name][0]
            if run.function is not None:
                label = f"{name}, error {errors[name][0]:.4f}"
                axes.plot(grid[:, 0], run.function.values(grid)[:, 0], dash, color=color, label=label)
        axes.set_xlabel("range, scaled")
        axes.set_ylabel("log ratio")
        axes.set_ylim(-1.8, 1.0)
        axes.legend(loc="lower left", ncols=2, fontsize=8)
    return figure
