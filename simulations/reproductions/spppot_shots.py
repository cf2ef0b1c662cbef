"""SPPPOT section V-A.2: the density of the distances of a basketball player's shots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.csv_dialect import Dialect
from kernelswarm.simulations.data.reading import find
from kernelswarm.simulations.data.tables import Columns, read_csv
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Figure,
    Panel,
    Reproduction,
    Request,
    drawn,
    notes,
    rows,
)
from kernelswarm.simulations.reproductions.densities import (
    FINE,
    RIDGES,
    DensityCurve,
    batch,
    chosen_batch,
    learned,
    loss_of,
    named,
    stroke,
)

FARTHEST = 40.0
"""Shots from so many feet or more are left out, and distances divided by it."""

COLUMN = "shot_distance"
DATA = (
    "a csv file of shots with the column shot_distance in feet, such as stephen_curry_shots.csv.gz, made from NBA "
    "play-by-play data (stats.nba.com publishes it)"
)
FILES = ("stephen_curry_shots.csv.gz",)

PUBLISHED_TRAINING, PUBLISHED_TEST, PUBLISHED_EPOCHS = 8298, 1000, 10
ROWS = {row.label: row for row in rows("spppot-shots")}
LOSS, KERNEL = ROWS["PMD"].learner.loss, ROWS["PMD"].learner.kernel


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, figure 2: the density of Stephen Curry's shot distances, beside PMD and a batch solver."""
    distances = read_distances(request.data)
    generator = np.random.default_rng([request.seed, 0])
    order = generator.permutation(len(distances))
    count = round(len(distances) * PUBLISHED_TEST / (PUBLISHED_TRAINING + PUBLISHED_TEST))
    test, training = distances[order[:count]], distances[order[count:]]
    epochs = PUBLISHED_EPOCHS if request.quick else round(PUBLISHED_EPOCHS * PUBLISHED_TRAINING / len(training))
    curves: dict[str, DensityCurve] = {}
    for name in request.each(ROWS):
        # The paper's figure 2a is of the training loss.
        curves[name] = learned(ROWS[name].learner, training, training, epochs, np.random.default_rng([request.seed, 1]))
    estimate, ridge = chosen_batch(LOSS, KERNEL, training)
    batch_loss, batch_density = loss_of(LOSS, estimate, training), estimate.values(FINE)[:, 0]
    arrays = {"x": FINE[:, 0], "batch": batch_density}
    for name, curve in curves.items():
        arrays |= named(name, curve)
    tests = {name: loss_of(LOSS, curve.function, test) for name, curve in curves.items()}
    tests["batch"] = loss_of(LOSS, estimate, test)
    return Reproduction(
        claims=[*_claims(curves, batch_density, batch_loss, tests), *_by_ridge(curves, training, test)],
        notes=notes(
            "spppot-shots",
            globals(),
            shots=len(distances),
            trained=len(training),
            tests=len(test),
            epochs=epochs,
            rest="" if request.quick else " in place of 10 make about as many steps",
            ridge=ridge,
        ),
        figures={"spppot_shots": _figure(curves, batch_density, batch_loss)},
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
    curves: Mapping[str, DensityCurve], batch_density: Array, batch_loss: float, tests: Mapping[str, float]
) -> Iterator[Claim]:
    gaps = {}
    for name, curve in curves.items():
        end, order = curve.settled(curve.losses), curve.settled(curve.orders)
        beats = end < batch_loss if name.startswith("SPPPOT") else None
        published = "below the batch solver's after a few epochs (figure 2a)" if beats is not None else ""
        least, total = float(curve.densities[-1].min()), curve.settled(curve.densities.mean(axis=1))
        measured, words = f"least value {least:.2g}, integral {total:.4f}", ROWS[name].settings
        whole = least > 0.0 and abs(total - 1.0) < 0.05
        yield Claim(f"training loss, {name}", published, f"{end:.4f}, batch {batch_loss:.4f}", words, beats)
        yield Claim(f"a density, {name}", "positive, integrates to one", measured, words, whole)
        yield Claim(f"model order, {name}", "100 (figure 2c)", f"{order:.0f}", words, abs(order - 100) <= 2)
        gaps[name] = curve.settled(curve.squared_errors(batch_density))
    for name in ("SPPPOT constant", "SPPPOT adaptive"):
        yield Claim(
            f"integrated squared distance to the batch density, {name}",
            "much closer than PMD (figure 2b)",
            f"{gaps[name]:.4f}, PMD {gaps['PMD']:.4f}",
            ROWS[name].settings,
            gaps[name] < 0.5 * gaps["PMD"],
        )
    measured = ", ".join(f"{name} {value:.4f}" for name, value in tests.items())
    yield Claim("test loss", "", measured, "last functions")


def _by_ridge(curves: Mapping[str, DensityCurve], training: Array, test: Array) -> Iterator[Claim]:
    """Yield both claims as they would be with each ridge of the batch solver."""
    ours, rival = curves["SPPPOT constant"], curves["PMD"]
    for ridge in RIDGES:
        estimate = batch(LOSS, KERNEL, training, ridge)
        density = estimate.values(FINE)[:, 0]
        gap, theirs = (curve.settled(curve.squared_errors(density)) for curve in (ours, rival))
        yield Claim(
            f"with the ridge {ridge:g}",
            "",
            f"training loss {loss_of(LOSS, estimate, training):.4f} beside {ours.settled(ours.losses):.4f}, test loss "
            f"{loss_of(LOSS, estimate, test):.4f}; squared distance {gap:.4f}, PMD {theirs:.4f}",
            "batch solver beside SPPPOT constant",
        )


def _figure(curves: Mapping[str, DensityCurve], batch_density: Array, batch_loss: float) -> Figure:
    loss = [stroke(name, curve.samples, curve.losses) for name, curve in curves.items()]
    loss.append(stroke("batch", None, batch_loss))
    densities = {name: curve.densities[-1] for name, curve in curves.items()} | {"batch": batch_density}
    density = [
        stroke(name, FARTHEST * FINE[:, 0], values / FARTHEST, "batch L-BFGS" if name == "batch" else name)
        for name, values in densities.items()
    ]
    order = [stroke(name, curve.samples, curve.orders) for name, curve in curves.items()]
    panels = [
        Panel(loss, "training loss", "samples processed"),
        Panel(density, "density of the distance in feet", "feet"),
        Panel(order, "model order", "samples processed", axes={"ylim": (0.0, None)}),
    ]
    figure = drawn(panels, (10.0, 3.6), below=4, of_all=True)
    for axes in figure.axes[::2]:
        axes.locator_params(axis="x", nbins=5)
    return figure
