"""SPPPOT section V-A.1: the density of a Gaussian on (0, 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.densities import (
    FINE,
    DensityCurve,
    Final,
    chosen_batch,
    in_one_look,
    learned,
    named,
)
from kernelswarm.simulations.reproductions.sheets import Sheet, rows
from kernelswarm.simulations.reproductions.walks import key_of

SHEET = Sheet("spppot-gaussian", globals())


TRAINING, TEST, EPOCHS, DRAWS = 10211, 1001, 8, 5
FLOORS = (1e-6, 1e-3, 1e-1)
"""Where -log f of POLK's function leaves the logarithm: the paper does not define it for f <= 0."""

ROWS = {row.label: row for row in rows("spppot-gaussian")}
LOSS, KERNEL = ROWS["SPPPOT constant"].learner.loss, ROWS["SPPPOT constant"].learner.kernel


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, figure 1: RMSE, ISE, test loss and model order of a density, beside PMD, POLK and a batch solver."""
    draws, epochs, training = (1, EPOCHS, 3000) if request.quick else (DRAWS, EPOCHS, TRAINING)
    finals: dict[str, list[Final]] = {}
    curves: dict[str, DensityCurve] = {}
    density = _density()
    for draw in range(draws):
        source = GaussianDensity().open(2, request.seed + draw, 10, None)
        events, test = source.nodes[0].draw(training)[0], source.nodes[1].draw(TEST)[0]
        part = request.part(draw / draws, (draw + 1) / draws)
        found = {
            name: learned(ROWS[name].learner, events, test, epochs, np.random.default_rng([request.seed, draw]))
            for name in part.each(ROWS, f"{{}}, draw {draw + 1} of {draws}".format)
        }
        found["batch"] = in_one_look(LOSS, chosen_batch(LOSS, KERNEL, events)[0], events, test)
        curves = curves or found
        for name, curve in found.items():
            finals.setdefault(name, []).append(curve.final(density))
    batch = finals["batch"][0]
    arrays = {"x": FINE[:, 0], "density": density, "batch": curves.pop("batch").densities[0]}
    for name, curve in curves.items():
        arrays |= named(name, curve) | {f"{key_of(name)}_ise": curve.squared_errors(density)}
    roots = {f"{key_of(name)}_rmse": np.sqrt(arrays[f"{key_of(name)}_ise"]) for name in curves}
    settled = [curves[name].losses[len(curves[name].losses) // 4 :] for name in list(ROWS)[:3]]
    low, high = min(part.min() for part in settled), max(part.max() for part in settled)
    limits = min(low, batch.loss) - 0.02, high + 0.5 * (high - low) + 0.02
    said = SHEET.given(arrays, roots, batch_rmse=batch.ise**0.5, batch_ise=batch.ise, batch_loss=batch.loss)
    said = said.given(limits=limits, order=finals["SPPPOT constant"][0].order)
    said = said.given(draws=draws, s="s" * (draws > 1), training=training, epochs=epochs)
    return said.found([*_claims(said, finals)], arrays)


def _density() -> Array:
    truth = GaussianDensity().open(1, 0, 10, None).truth
    assert truth is not None
    return truth(0, FINE, 0)[:, 0]


def _claims(said: Sheet, finals: Mapping[str, Sequence[Final]]) -> Iterator[Claim]:
    of = {
        name: {field: np.array([vars(final)[field] for final in found]) for field in vars(found[0])}
        for name, found in finals.items()
    }

    def claim(key: str, name: str, holds: object = None, **values: object) -> Claim:
        row = vars(ROWS[name]) if name in ROWS else {"settings": "L-BFGS, f = g^2, ridge by validation"}
        return said.claim(key, holds, name=name, row=row, rmse=of[name]["ise"] ** 0.5, **of[name], **values)

    ours, tested, batch = ("SPPPOT constant", "SPPPOT adaptive"), ("SPPPOT constant", "SPPPOT adaptive", "PMD"), "batch"
    for name in ours:
        yield claim("better", name, (of[name]["ise"] < of["PMD"]["ise"]).all())
    for name in ("PMD", batch):
        yield claim("curve", name)
    for name in tested:
        yield claim("order", name, np.abs(of[name]["order"] - (ROWS[name].order or 0)).max() <= 2)
    gap = of["SPPPOT constant"]["loss"] - of[batch]["loss"]
    yield claim("loss", "SPPPOT constant", np.abs(gap).max() < 0.02, batch=of[batch]["loss"])
    for name in tested:
        least, total = of[name]["least"], of[name]["total"]
        yield claim("density", name, least.min() > 0.0 and np.abs(total - 1.0).max() < 0.05)
    for floor in FLOORS:
        name = f"POLK, floor {floor:g}"
        yield claim("negative", name, of[name]["least"].max() < 0.0)
    yield claim("step", "PMD, eta = 0.012", ours=of["SPPPOT constant"]["ise"])
    yield claim("grid", "SPPPOT, 8 grid points", rival=of["PMD, 8 grid points"])
