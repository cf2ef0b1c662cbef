"""COLK section V, figures 1 and 2: regression with outliers, risk-aware and not, over twenty training sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE
from kernelswarm.simulations.reproductions.contract import Claim, Figure, Reproduction, Request, notes
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn
from kernelswarm.simulations.reproductions.risk_methods import (
    METHODS,
    Fit,
    compared,
    final_orders,
    first_of,
    learn,
    prepared,
    rows_of,
    spread,
)

STREAM = SineRegression(noise=0.1, outlier_fraction=0.05, outlier_size=2.0)
SCALE = 0.125
"""Targets are learned in this unit, in which the fourth moment does not diverge; errors are reported in their own."""

GRID = np.linspace(0.0, 1.0, 400)[:, None]
LOOKS = 60
SAMPLES, QUICK_SAMPLES = 6_000, 4_000
CURVES = {"POLK": "-", "COLK": "-", "RBF network": "--"}


def reproduce(request: Request) -> Reproduction:
    """Compare COLK with learners of the mean loss alone on 2x + 3 sin 6x with outliers (COLK figures 1 and 2)."""
    sets, samples = (3, QUICK_SAMPLES) if request.quick else (20, SAMPLES)
    points, targets, test_points, test_targets = _data(request.seed, samples)
    half = len(points) // 2 // 2 * 2
    order = generator(request.seed, Role.SPLIT, 1).permutation(len(points))
    tuning, validation = ((points[rows], SCALE * targets[rows]) for rows in (order[:half], order[half:]))
    rows = [generator(request.seed, Role.SPLIT, 0, which).permutation(len(points))[:half] for which in range(sets)]
    drawn = [(points[chosen], SCALE * targets[chosen]) for chosen in rows]
    probes = np.concatenate([GRID, test_points[:600]])
    runs, settings = compared(request.part(0.0, 0.9), (tuning, validation), drawn, probes, LOOKS)
    test, truth = (test_points, SCALE * test_targets), (test_points, SCALE * _truth(test_points))
    errors, clean = (
        {name: [run.error(*of) / SCALE**2 for run in fits] for name, fits in runs.items()} for of in (test, truth)
    )
    request.tell("as printed, and fewer centers", 0.9)
    printed = build("learner", dict(METHODS["COLK"].table))
    literal = [learn(printed, points[chosen], targets[chosen]) for chosen in rows]
    order_of_colk = float(np.mean(final_orders(runs["COLK"]) or [np.nan]))
    fewer: list[float] = []
    if np.isfinite(order_of_colk):
        network = METHODS["RBF network"]
        network = dataclasses.replace(network, table={**network.table, "centers": round(order_of_colk)})
        learner, _ = prepared(network, tuning, validation)
        fewer = [learn(learner, *training).error(*test) / SCALE**2 for training in drawn]
    diverged = [run.function is None for run in literal]
    literally = f"diverged on {sum(diverged)} of {sets} sets"
    claims = [
        *_errors_claims(errors, runs, settings),
        *rows_of(clean, runs, settings, "error against the noise-free target", ""),
        *_order_claims(errors, runs, fewer, order_of_colk),
        Claim(
            "COLK on the targets as they are",
            "converges (figure 1a)",
            literally,
            METHODS["COLK"].settings,
            not any(diverged),
        ),
    ]
    figures = {
        "colk_outliers_errors": _boxes(errors),
        "colk_outliers_curves": _curves(runs, test_targets[:600]),
        "colk_outliers_functions": _functions(runs, [(points[chosen[:800]], targets[chosen[:800]]) for chosen in rows]),
    }
    arrays = {f"errors: {name}": np.array(found) for name, found in errors.items()}
    arrays |= {f"noise-free errors: {name}": np.array(found) for name, found in clean.items()}
    return Reproduction(
        claims, notes("colk-outliers", globals(), samples=samples, sets=sets, half=half), figures, arrays
    )


def _data(seed: int, samples: int) -> tuple[Array, Array, Array, Array]:
    """Draw all samples; returns the four fifths that are learned from and the fifth that is tested on."""
    source = STREAM.open(1, seed, 1, None).nodes[0]
    points, targets = source.draw(samples)
    cut = samples - samples // 5
    return points[:cut], targets[:cut], points[cut:], targets[cut:]


def _truth(points: Array) -> Array:
    """Compute the target without noise, (n, 1)."""
    return np.asarray(STREAM(points[:, 0], np.zeros(len(points), dtype=np.int64))).reshape(-1, 1)


def _errors_claims(
    errors: Mapping[str, list[float]], runs: Mapping[str, list[Fit]], settings: Mapping[str, str]
) -> Iterator[Claim]:
    printed = [name for name in METHODS if METHODS[name].printed]
    yield from rows_of(errors, runs, settings, "test error", "box (figure 2)")
    both, place = ["COLK", "POLK, COLK's step"], "COLK (figure 2)"
    for statistic in ("mean", "deviation"):
        same = f"least {statistic}, POLK with COLK's step and budget"
        yield first_of(
            errors, printed, statistic, f"least {statistic} of the test error", place, "the methods as printed"
        )
        yield first_of(errors, both, statistic, same, place, "the same step size for both")
    deviations = {name: _variation(runs[name]) for name in ("COLK", "POLK", "POLK, COLK's step")}
    yield Claim(
        "variation of the learned function over sets",
        "COLK's is less than POLK's (figure 1d)",
        ", ".join(f"{name} {value:.4f}" for name, value in deviations.items()),
        "root mean square deviation from the sets' mean",
        deviations["COLK"] < deviations["POLK"],
    )


def _variation(runs: list[Fit]) -> float:
    values = [run.values[-1][: len(GRID)] for run in runs if run.function is not None]
    return float(np.sqrt(np.mean(np.var(np.stack(values), axis=0)))) / SCALE if values else float("nan")


def _order_claims(
    errors: Mapping[str, list[float]], runs: Mapping[str, list[Fit]], fewer: list[float], order: float
) -> list[Claim]:
    halfway = [float(run.orders[len(run.orders) // 2]) for run in runs["COLK"] if run.function is not None]
    colk, network = (float(np.mean(errors[name])) for name in ("COLK", "RBF network"))
    return [
        Claim(
            "model order of COLK",
            "stabilises (figure 1c)",
            f"{np.mean(halfway or [np.nan]):.1f} halfway, {order:.1f} at the end",
            "mean over the sets",
            bool(halfway) and abs(order / float(np.mean(halfway)) - 1.0) < 0.1,
        ),
        Claim(
            "basis functions for COLK's error",
            "more than twice COLK's order",
            f"50 functions {network:.4f}; {order:.0f} functions {spread(fewer)}; COLK {colk:.4f}",
            "RBF network",
            bool(fewer) and order < 25.0 and network < 1.1 * colk <= float(np.mean(fewer)),
        ),
    ]


def _boxes(errors: Mapping[str, list[float]]) -> Figure:
    figure = drawn([Panel([])], (8.4, 3.6))
    (axes,) = figure.axes
    kept = [[value for value in values if np.isfinite(value)] for values in errors.values()]
    boxes = axes.boxplot(kept, patch_artist=True, widths=0.55, medianprops={"color": "black"}, showmeans=True)
    for place, (name, box) in enumerate(zip(errors, boxes["boxes"], strict=True), start=1):
        printed = METHODS[name].printed
        if not printed:
            # The boxes themselves are too flat to show a colour.
            axes.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.2, linewidth=0)
        box.set(facecolor=BLUE if printed else GREY, alpha=0.6)
    axes.set_xticks(range(1, len(errors) + 1), [name.replace(", ", ",\n") for name in errors])
    title = "Test error over the training sets; triangle: mean; shaded: controls"
    Panel([], title, "", "test error (mean square)", log="y", plain="y").draw(axes)
    return figure


def _curves(runs: Mapping[str, list[Fit]], targets: Array) -> Figure:
    objective, error, order = [], [], []
    colors = {"COLK": BLUE, "POLK": ORANGE, "RBF network": GREEN}
    for name, dash in CURVES.items():
        run = next((run for run in runs[name] if run.function is not None), None)
        if run is None:
            continue
        losses = np.stack([((values[len(GRID) :] - SCALE * targets) ** 2)[:, 0] for values in run.values])
        means = losses.mean(axis=1)
        centered = losses - means[:, np.newaxis]
        risk = means + 0.1 * sum((centered**q).mean(axis=1) for q in (2, 3, 4))
        objective.append(Curve(run.samples, risk, colors[name], None, dash))
        error.append(Curve(run.samples, means / SCALE**2, colors[name], None, dash))
        order.append(Curve(run.samples, run.orders, colors[name], name, dash))
    limits: dict[str, Any] = {"ylim": (0.0, None)}
    panels = [
        Panel(objective, "", "samples", "mean loss + 0.1 (moments 2 to 4)", log="y", plain="y"),
        Panel(error, "", "samples", "test error (mean square)", log="y", plain="y"),
        Panel(order, "", "samples", "model order", legend={"loc": "lower right"}, axes=limits),
    ]
    figure = drawn(panels, (9.6, 3.2))
    for axes in figure.axes:
        axes.locator_params(axis="x", nbins=4)
    return figure


def _functions(runs: Mapping[str, list[Fit]], sets: Sequence[tuple[Array, Array]]) -> Figure:
    panels = []
    for which, (points, targets) in enumerate(sets[:2]):
        look = {"alpha": 0.5}
        curves = [
            Curve(points[:, 0], targets[:, 0], GREY, "samples", "none", ".", 2, look),
            Curve(GRID[:, 0], _truth(GRID)[:, 0], BLACK, "truth", ":"),
        ]
        for name, color in (("POLK", ORANGE), ("COLK", BLUE)):
            run = runs[name][which]
            if run.function is not None:
                curves.append(Curve(GRID[:, 0], run.values[-1][: len(GRID), 0] / SCALE, color, name))
        legend = {"loc": "upper right"} if which else None
        y = "" if which else "y"
        panels.append(Panel(curves, f"training set {which + 1}", "x", y, legend=legend, axes={"ylim": (-4.0, 6.0)}))
    return drawn(panels, (9.6, 3.4), sharey=True)
