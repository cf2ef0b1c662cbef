"""SPPPOT section V-A.2: the density of the distances of a basketball player's shots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.densities import (
    FINE,
    RIDGES,
    STROKES,
    DensityCurve,
    Squares,
    batch,
    chosen_batch,
    learned,
    loss_of,
)
from kernelswarm.simulations.streams.rows.dialect import Dialect
from kernelswarm.simulations.streams.rows.tables import Columns, read_csv
from kernelswarm.simulations.streams.written.reading import find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

FARTHEST = 40.0
"""Shots from so many feet or more are left out, and distances divided by it."""

COLUMN = "shot_distance"
DATA = (
    "a csv file of shots with the column shot_distance in feet, such as stephen_curry_shots.csv.gz, made from NBA "
    "play-by-play data (stats.nba.com publishes it)"
)
FILES = ("stephen_curry_shots.csv.gz",)

PUBLISHED_TRAINING, PUBLISHED_TEST, PUBLISHED_EPOCHS = 8298, 1000, 10
LOSS, KERNEL = PoissonProcess(cells=(100,)), Gaussian(0.05)
SPPPOT = Spppot(loss=LOSS, kernel=KERNEL, batch_size=30, step_size=Constant(0.03), budget=Epsilon(1e-5))
LEARNERS: dict[str, Spppot] = {
    "SPPPOT constant": SPPPOT,
    "SPPPOT adaptive": replace(SPPPOT, budget=TargetOrder(100, alpha=2e-6)),
    "PMD": replace(SPPPOT, step_size=Constant(0.1), grid_only=True),
}
SETTINGS = {
    "SPPPOT constant": "eta = 0.03, eps = 1e-5",
    "SPPPOT adaptive": "eta = 0.03, target order 100, alpha(0) = 2e-6",
    "PMD": "eta = 0.1",
}


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, figure 2: the density of Stephen Curry's shot distances, beside PMD and a batch solver."""
    distances = read_distances(request.data)
    generator = np.random.default_rng([request.seed, 0])
    order = generator.permutation(len(distances))
    count = round(len(distances) * PUBLISHED_TEST / (PUBLISHED_TRAINING + PUBLISHED_TEST))
    test, training = distances[order[:count]], distances[order[count:]]
    epochs = PUBLISHED_EPOCHS if request.quick else round(PUBLISHED_EPOCHS * PUBLISHED_TRAINING / len(training))
    learning_curves: dict[str, DensityCurve] = {}
    for place, (name, learner) in enumerate(LEARNERS.items()):
        request.tell(name, place / (len(LEARNERS) + 1))
        # The paper's figure 2a is of the training loss.
        learning_curves[name] = learned(learner, training, training, epochs, np.random.default_rng([request.seed, 1]))
    request.tell("batch", len(LEARNERS) / (len(LEARNERS) + 1))
    estimate, ridge = chosen_batch(LOSS, KERNEL, training)
    curve = estimate.values(FINE)[:, 0]
    batch_loss = loss_of(LOSS, estimate, training)
    ridges = {ridge: batch(LOSS, KERNEL, training, ridge) for ridge in RIDGES}
    arrays = {"x": FINE[:, 0], "batch": curve}
    for name, learning_curve in learning_curves.items():
        key = name.lower().replace(" ", "_")
        arrays |= {
            f"{key}_samples": learning_curve.samples,
            f"{key}_loss": learning_curve.losses,
            f"{key}_order": learning_curve.orders,
        }
        arrays[f"{key}_density"] = learning_curve.densities[-1]
    tests = {name: loss_of(LOSS, learning_curve.function, test) for name, learning_curve in learning_curves.items()}
    tests["batch"] = loss_of(LOSS, estimate, test)
    return Reproduction(
        claims=[
            *_claims(learning_curves, curve, batch_loss, tests),
            *_by_ridge(learning_curves, ridges, training, test),
        ],
        notes=[
            f"One season: {len(distances):,} shots from less than 40 feet, {len(training):,} to train and "
            f"{len(test):,} to test, where the paper has several seasons, {PUBLISHED_TRAINING:,} and "
            f"{PUBLISHED_TEST:,}. {epochs} epochs"
            + ("." if request.quick else " in place of 10 make about as many steps."),
            "Distances are whole feet, divided by 40; s^2 = 0.0025, which is two feet. As in the Gaussian "
            "example most grid points lie in the span of the others to working precision and leave their weight "
            "to them. So M is smaller.",
            f"Batch: f = g^2 by L-BFGS with the ridge {ridge:g} ||g||^2 in place of the paper's scale a. The ridge is "
            "the one of five with the least loss on shots left out, by cross-validation. It minimises the training "
            "loss itself, and only its ridge keeps it from going lower. To be below it is to fit the training shots "
            "more closely, no merit in itself. Distances are whole feet, so that shots left out lie on the same feet "
            "as the others, and no ridge smooths too little. The rows of all ridges show what the claims come to: with "
            "0.01 both hold, with 0.0001 and less neither.",
        ],
        figures={"spppot_shots": _figure(learning_curves, curve, batch_loss)},
        arrays=arrays,
    )


def read_distances(path: Path | None) -> Array:
    """Read the column shot_distance of a csv file, in feet, and return distances below 40 feet as shares of it, (n, 1).

    Raises
    ------
    InputError
        When there is no such file or column.
    """
    if path is None:
        raise InputError(f"spppot-shots needs {DATA}: give it as --data stephen_curry_shots.csv.gz")
    try:
        columns = Columns((), (COLUMN,), "", (), task="events")
        points = np.asarray(
            read_csv("--data", find("--data", path), Dialect(",", "."), columns).points, dtype=np.float64
        )
    except ValueError as refusal:
        raise InputError(f"{refusal}; spppot-shots needs {DATA}") from refusal
    near = points[(points[:, 0] >= 0.0) & (points[:, 0] < FARTHEST)] / FARTHEST
    if len(near) < 100:
        raise InputError(f"--data {path} has {len(near)} shots from less than 40 feet: spppot-shots needs 100 or more")
    return np.ascontiguousarray(near)


def _claims(
    learning_curves: Mapping[str, DensityCurve], curve: Array, batch_loss: float, tests: Mapping[str, float]
) -> list[Claim]:
    claims = []
    ends = {name: learning_curve.settled(learning_curve.losses) for name, learning_curve in learning_curves.items()}
    for name, learning_curve in learning_curves.items():
        beats = ends[name] < batch_loss if name.startswith("SPPPOT") else None
        published = "below the batch solver's after a few epochs (figure 2a)" if beats is not None else ""
        measured = f"{ends[name]:.4f}, batch {batch_loss:.4f}"
        claims.append(Claim(f"training loss, {name}", published, measured, SETTINGS[name], beats))
        least, total = (
            float(learning_curve.densities[-1].min()),
            learning_curve.settled(learning_curve.densities.mean(axis=1)),
        )
        measured = f"least value {least:.2g}, integral {total:.4f}"
        holds = least > 0.0 and abs(total - 1.0) < 0.05
        claims.append(Claim(f"a density, {name}", "positive, integrates to one", measured, SETTINGS[name], holds))
        order = learning_curve.settled(learning_curve.orders)
        published = "100 (figure 2c)"
        claims.append(Claim(f"model order, {name}", published, f"{order:.0f}", SETTINGS[name], abs(order - 100) <= 2))
    gaps = {
        name: learning_curve.settled(learning_curve.squared_errors(curve))
        for name, learning_curve in learning_curves.items()
    }
    for name in ("SPPPOT constant", "SPPPOT adaptive"):
        measured = f"{gaps[name]:.4f}, PMD {gaps['PMD']:.4f}"
        claims.append(
            Claim(
                f"integrated squared distance to the batch density, {name}",
                "much closer than PMD (figure 2b)",
                measured,
                SETTINGS[name],
                gaps[name] < 0.5 * gaps["PMD"],
            )
        )
    measured = ", ".join(f"{name} {value:.4f}" for name, value in tests.items())
    claims.append(Claim("test loss", "", measured, "last functions"))
    return claims


def _by_ridge(
    learning_curves: Mapping[str, DensityCurve], ridges: Mapping[float, Squares], training: Array, test: Array
) -> list[Claim]:
    """Write both claims as they would be with each ridge of the batch solver."""
    learning_curve = learning_curves["SPPPOT constant"]
    loss, gaps = learning_curve.settled(learning_curve.losses), {}
    for ridge, estimate in ridges.items():
        curve = estimate.values(FINE)[:, 0]
        gaps[ridge] = [
            learning_curves[name].settled(learning_curves[name].squared_errors(curve))
            for name in ("SPPPOT constant", "PMD")
        ]
    return [
        Claim(
            f"with the ridge {ridge:g}",
            "",
            f"training loss {loss_of(LOSS, estimate, training):.4f} beside {loss:.4f}, test loss "
            f"{loss_of(LOSS, estimate, test):.4f}; squared distance {gaps[ridge][0]:.4f}, PMD {gaps[ridge][1]:.4f}",
            "batch solver beside SPPPOT constant",
        )
        for ridge, estimate in ridges.items()
    ]


def _figure(learning_curves: Mapping[str, DensityCurve], curve: Array, batch_loss: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    loss, density, order = figure.subplots(1, 3)
    for name, learning_curve in learning_curves.items():
        stroke = STROKES[name]
        look = {"color": stroke.color, "linestyle": stroke.dash, "linewidth": 1.5}
        loss.plot(learning_curve.samples, learning_curve.losses, **look)
        density.plot(FARTHEST * FINE[:, 0], learning_curve.densities[-1] / FARTHEST, label=name, **look)
        order.plot(learning_curve.samples, learning_curve.orders, **look)
    stroke = STROKES["batch"]
    look = {"color": stroke.color, "linestyle": stroke.dash, "linewidth": 1.5}
    loss.axhline(batch_loss, **look)
    density.plot(FARTHEST * FINE[:, 0], curve / FARTHEST, label="batch L-BFGS", **look)
    loss.set_title("training loss")
    density.set_title("density of the distance in feet")
    order.set_title("model order")
    order.set_ylim(0.0, None)
    for axes in (loss, order):
        axes.set_xlabel("samples processed")
        axes.locator_params(axis="x", nbins=5)
    density.set_xlabel("feet")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
