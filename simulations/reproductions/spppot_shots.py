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
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.densities import (
    FINE,
    RIDGES,
    DensityCurve,
    Final,
    batch,
    chosen_batch,
    learned,
    loss_of,
    named,
)
from kernelswarm.simulations.reproductions.sheets import Sheet, rows

FARTHEST = 40.0
"""Shots from so many feet or more are left out, and distances divided by it."""

COLUMN = "shot_distance"
DATA = (
    "a csv file of shots with the column shot_distance in feet, such as stephen_curry_shots.csv.gz, made from NBA "
    "play-by-play data (stats.nba.com publishes it)"
)

SHEET = Sheet("spppot-shots", globals())

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
    said = SHEET.given(arrays, shots=len(distances), trained=len(training), tests=len(test), epochs=epochs, ridge=ridge)
    said = said.given(
        {f"{key}_feet": values / FARTHEST for key, values in arrays.items() if "density" in key or key == "batch"},
        rest="" if request.quick else " in place of 10 make about as many steps",
        batch_loss=batch_loss,
        feet=FARTHEST * FINE[:, 0],
    )
    finals = {name: curve.final(batch_density) for name, curve in curves.items()}
    claims = [*_claims(said, finals), said.claim("tests", losses=tests)]
    return said.found([*claims, *_by_ridge(said, curves, training, test)], arrays)


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


def _claims(said: Sheet, finals: Mapping[str, Final]) -> Iterator[Claim]:
    for name, final in finals.items():
        of = said.given(vars(final), row=vars(ROWS[name]))
        better = final.loss < said.values["batch_loss"]
        yield of.claim("better", better) if name.startswith("SPPPOT") else of.claim("rival")
        yield of.claim("density", final.least > 0.0 and abs(final.total - 1.0) < 0.05)
        yield of.claim("order", abs(final.order - 100) <= 2)
    for name in ("SPPPOT constant", "SPPPOT adaptive"):
        gap, rival = (finals[who].ise for who in (name, "PMD"))
        yield said.claim("closer", gap < 0.5 * rival, row=vars(ROWS[name]), gap=gap, rival=rival)


def _by_ridge(said: Sheet, curves: Mapping[str, DensityCurve], training: Array, test: Array) -> Iterator[Claim]:
    """Yield both claims as they would be with each ridge of the batch solver."""
    for ridge in RIDGES:
        estimate = batch(LOSS, KERNEL, training, ridge)
        ours, rival = (curves[name].final(estimate.values(FINE)[:, 0]) for name in ("SPPPOT constant", "PMD"))
        losses = [loss_of(LOSS, estimate, rows) for rows in (training, test)]
        yield said.claim("ridge", ridge=ridge, losses=losses, end=ours.loss, gap=ours.ise, theirs=rival.ise)
