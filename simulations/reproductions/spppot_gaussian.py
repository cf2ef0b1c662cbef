"""SPPPOT section V-A.1: the density of a Gaussian on (0, 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    Request,
    drawn,
    notes,
    rows,
    spread,
)
from kernelswarm.simulations.reproductions.densities import (
    FINE,
    DensityCurve,
    chosen_batch,
    learned,
    loss_of,
    named,
    stroke,
)

TRAINING, TEST, EPOCHS, DRAWS = 10211, 1001, 8, 5
FLOORS = (1e-6, 1e-3, 1e-1)
"""Where -log f of POLK's function leaves the logarithm: the paper does not define it for f <= 0."""

ROWS = {row.label: row for row in rows("spppot-gaussian")}
LOSS, KERNEL = ROWS["SPPPOT constant"].learner.loss, ROWS["SPPPOT constant"].learner.kernel


@dataclass(frozen=True)
class Final:
    """What one learner came to on one draw."""

    ise: float
    loss: float
    order: float
    least: float
    total: float


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, figure 1: RMSE, ISE, test loss and model order of a density, beside PMD, POLK and a batch solver."""
    draws, epochs, training = (1, EPOCHS, 3000) if request.quick else (DRAWS, EPOCHS, TRAINING)
    finals: dict[str, list[Final]] = {name: [] for name in (*ROWS, "batch")}
    curves: dict[str, DensityCurve] = {}
    density, estimates = _density(), []
    for draw in range(draws):
        source = GaussianDensity().open(2, request.seed + draw, 10, None)
        events, test = source.nodes[0].draw(training)[0], source.nodes[1].draw(TEST)[0]
        part = request.part(draw / draws, (draw + 1) / draws)
        for name in part.each(ROWS, lambda name, draw=draw: f"{name}, draw {draw + 1} of {draws}"):  # type: ignore[misc]
            generator = np.random.default_rng([request.seed, draw])
            curve = learned(ROWS[name].learner, events, test, epochs, generator)
            curves.setdefault(name, curve)
            finals[name].append(_final(curve, density))
        estimate, _ = chosen_batch(LOSS, KERNEL, events)
        values = estimate.values(FINE)[:, 0]
        error, order = float(np.mean((values - density) ** 2)), float(estimate.order)
        loss, least, total = loss_of(LOSS, estimate, test), float(values.min()), float(values.mean())
        finals["batch"].append(Final(error, loss, order, least, total))
        estimates.append(values)
    arrays = {"x": FINE[:, 0], "density": density, "batch": estimates[0]}
    for name, curve in curves.items():
        numbers = named(name, curve)
        samples = next(iter(numbers))
        errors = {samples.replace("_samples", "_ise"): curve.squared_errors(density)}
        arrays |= {samples: numbers.pop(samples), **errors, **numbers}
    figures = {"spppot_gaussian": _figure(curves, estimates[0], finals["batch"][0], density)}
    return Reproduction(
        [*_claims(finals)],
        notes(
            "spppot-gaussian",
            globals(),
            draws=draws,
            s="s" * (draws > 1),
            training=training,
            epochs=epochs,
            order=finals["SPPPOT constant"][0].order,
        ),
        figures,
        arrays,
    )


def _density() -> Array:
    truth = GaussianDensity().open(1, 0, 10, None).truth
    assert truth is not None
    return truth(0, FINE, 0)[:, 0]


def _final(curve: DensityCurve, density: Array) -> Final:
    return Final(
        curve.settled(curve.squared_errors(density)),
        curve.settled(curve.losses),
        curve.settled(curve.orders),
        float(curve.densities[-1].min()),
        curve.settled(curve.densities.mean(axis=1)),
    )


def _claims(finals: Mapping[str, list[Final]]) -> Iterator[Claim]:
    def every(name: str, quantity: str) -> list[float]:
        return [getattr(final, quantity) for final in finals[name]]

    def written(name: str, quantity: str) -> str:
        return spread(every(name, quantity), ".4g", ".2g")

    def errors(name: str) -> str:
        return f"RMSE {spread([value**0.5 for value in every(name, 'ise')], '.4g', '.2g')}, ISE {written(name, 'ise')}"

    pmd = np.array(every("PMD", "ise"))
    settings = {name: ROWS[name].settings for name in ("SPPPOT constant", "SPPPOT adaptive", "PMD")}
    settings["batch"] = "L-BFGS, f = g^2, ridge by validation"
    for name, words in settings.items():
        beats = bool((np.array(every(name, "ise")) < pmd).all()) if name.startswith("SPPPOT") else None
        published = "below PMD's (figures 1b, 1c)" if beats is not None else "curve only"
        yield Claim(f"RMSE and ISE, {name}", published, errors(name), words, beats)
    for name in ("SPPPOT constant", "SPPPOT adaptive", "PMD"):
        order = ROWS[name].order or 0
        holds = bool(np.abs(np.array(every(name, "order")) - order).max() <= 2)
        yield Claim(f"model order, {name}", f"{order}", written(name, "order"), settings[name], holds)
    gap = np.array(every("SPPPOT constant", "loss")) - np.array(every("batch", "loss"))
    near = bool(np.abs(gap).max() < 0.02)
    measured = f"{written('SPPPOT constant', 'loss')}; batch {written('batch', 'loss')}"
    yield Claim("test loss, SPPPOT", "quite close to the batch's (1d)", measured, "", near)
    for name in ("SPPPOT constant", "SPPPOT adaptive", "PMD"):
        least, total = every(name, "least"), every(name, "total")
        holds = min(least) > 0.0 and max(abs(entry - 1.0) for entry in total) < 0.05
        measured = f"least value {min(least):.2g}, integral {spread(total, '.4g', '.2g')}"
        yield Claim(f"a density, {name}", "positive, integrates to one", measured, settings[name], holds)
    for floor in FLOORS:
        name = f"POLK, floor {floor:g}"
        least = every(name, "least")
        measured = f"loss {written(name, 'loss')}, {errors(name)}, least value {min(least):.2g}"
        published = "negative in places (its loss 2.0148, RMSE 5.8317, ISE 34.0425: not judged)"
        yield Claim("POLK: is it negative?", published, measured, ROWS[name].settings, max(least) < 0.0)
    measured = f"ISE {written('PMD, eta = 0.012', 'ise')}, SPPPOT {written('SPPPOT constant', 'ise')}"
    yield Claim("ISE, PMD with SPPPOT's step", "", measured, "eta = 0.012")
    ours, theirs = (
        f"{written(name, 'ise')} at M = {written(name, 'order')}"
        for name in ("SPPPOT, 8 grid points", "PMD, 8 grid points")
    )
    yield Claim("ISE on a grid of 8 points", "", f"ISE {ours}, PMD {theirs}", "eta = 0.012, eps = 5e-4")


def _figure(curves: Mapping[str, DensityCurve], estimate: Array, found: Final, density: Array) -> Figure:
    shown = ("SPPPOT constant", "SPPPOT adaptive", "PMD", "POLK")
    named = {name: curves.get(name) or curves[f"POLK, floor {FLOORS[1]:g}"] for name in shown}
    first = [Curve(FINE[:, 0], density, style.GREY, "truth", look={"linewidth": 4.0, "alpha": 0.6})]
    first += [stroke(name, FINE[:, 0], curve.densities[-1], name) for name, curve in named.items()]
    first.append(stroke("batch", FINE[:, 0], estimate, "batch L-BFGS"))
    errors = {name: curve.squared_errors(density) for name, curve in named.items()}
    rmse, ise, loss, order = (
        [stroke(name, curve.samples, values(name, curve)) for name, curve in named.items()]
        for values in (
            lambda name, _: np.sqrt(errors[name]),
            lambda name, _: errors[name],
            lambda _, curve: curve.losses,
            lambda _, curve: curve.orders,
        )
    )
    for lines, value in ((rmse, found.ise**0.5), (ise, found.ise), (loss, found.loss)):
        lines.append(stroke("batch", None, value))
    settled = [curve.losses[len(curve.losses) // 4 :] for name, curve in named.items() if name != "POLK"]
    low, high = min(part.min() for part in settled), max(part.max() for part in settled)
    limits = min(low, found.loss) - 0.02, high + 0.5 * (high - low) + 0.02
    x = "samples processed"
    panels = [
        Panel(first, "density", "x"),
        Panel(rmse, "RMSE", x, log="y"),
        Panel(ise, "ISE", x, log="y"),
        Panel(loss, "test loss", x, axes={"ylim": limits}),
        Panel(order, "model order", x, axes={"ylim": (0.0, None)}),
        Panel([]),
    ]
    figure = drawn(panels, (10.0, 6.0), 3)
    figure.axes[-1].axis("off")
    figure.axes[-1].legend(*figure.axes[0].get_legend_handles_labels(), loc="center", fontsize=10)
    return figure
