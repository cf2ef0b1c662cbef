"""COLK section V, figures 1 and 2: regression with outliers, risk-aware and not, over twenty training sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.risk_methods import (
    METHODS,
    Fit,
    final_orders,
    is_least,
    lead,
    learn,
    mean_square,
    prepared,
    rows_of,
    spread,
)
from kernelswarm.simulations.streams.generated.sine_regression import SineRegression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

STREAM = SineRegression(noise=0.1, outlier_fraction=0.05, outlier_size=2.0)
SCALE = 0.125
"""Targets are learned in this unit, in which the fourth moment does not diverge; errors are reported in their own."""

LOOKS = 60
SAMPLES, QUICK_SAMPLES = 6_000, 4_000
CURVES = {"POLK": "-", "COLK": "-", "RBF network": "--"}


def reproduce(request: Request) -> Reproduction:
    """Compare COLK with learners of the mean loss alone on 2x + 3 sin 6x with outliers (COLK figures 1 and 2)."""
    sets, samples = (3, QUICK_SAMPLES) if request.quick else (20, SAMPLES)
    points, targets, test_points, test_targets = _data(request.seed, samples)
    half = len(points) // 2 // 2 * 2
    grid = np.linspace(0.0, 1.0, 400)[:, None]
    probes = np.concatenate([grid, test_points[:600]])
    tuning = generator(request.seed, Role.SPLIT, 1).permutation(len(points))
    training = points[tuning[:half]], SCALE * targets[tuning[:half]]
    validation = points[tuning[half:]], SCALE * targets[tuning[half:]]
    errors: dict[str, list[float]] = {}
    clean: dict[str, list[float]] = {}
    runs: dict[str, list[Fit]] = {}
    settings: dict[str, str] = {}
    for place, (name, method) in enumerate(METHODS.items()):
        request.tell(name, place / (len(METHODS) + 2))
        learner, settings[name] = prepared(method, training, validation)
        runs[name] = [
            learn(learner, points[rows], SCALE * targets[rows], probes, LOOKS)
            for rows in (_rows(request.seed, which, len(points), half) for which in range(sets))
        ]
        errors[name] = [_error(run, test_points, test_targets) for run in runs[name]]
        clean[name] = [_error(run, test_points, _truth(test_points)) for run in runs[name]]
    request.tell("as printed, and fewer centers", len(METHODS) / (len(METHODS) + 2))
    literal = [
        learn(build("learner", dict(METHODS["COLK"].table)), points[rows], targets[rows])
        for rows in (_rows(request.seed, which, len(points), half) for which in range(sets))
    ]
    order = float(np.mean(final_orders(runs["COLK"]) or [np.nan]))
    fewer: list[float] = []
    if np.isfinite(order):
        network = METHODS["RBF network"]
        network = dataclasses.replace(network, table={**network.table, "centers": round(order)})
        learner, _ = prepared(network, training, validation)
        for which in range(sets):
            rows = _rows(request.seed, which, len(points), half)
            fewer.append(_error(learn(learner, points[rows], SCALE * targets[rows]), test_points, test_targets))
    claims = [
        *_errors_claims(errors, runs, settings),
        *rows_of(clean, runs, settings, "error against the noise-free target", ""),
        *_order_claims(errors, runs, fewer, order),
        Claim(
            "COLK on the targets as they are",
            "converges (figure 1a)",
            f"diverged on {sum(run.function is None for run in literal)} of {sets} sets",
            METHODS["COLK"].settings,
            all(run.function is not None for run in literal),
        ),
    ]
    return Reproduction(
        claims,
        _notes(samples, half, sets),
        {
            "colk_outliers_errors": _boxes(errors),
            "colk_outliers_curves": _curves(runs, test_targets[:600]),
            "colk_outliers_functions": _functions(
                runs, grid, points, targets, _rows(request.seed, 0, len(points), half), request.seed, half
            ),
        },
        {
            **{f"errors: {name}": np.array(found) for name, found in errors.items()},
            **{f"noise-free errors: {name}": np.array(found) for name, found in clean.items()},
        },
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


def _rows(seed: int, which: int, count: int, half: int) -> npt.NDArray[np.int64]:
    """Choose the rows of a training set: half of them, at random."""
    return generator(seed, Role.SPLIT, 0, which).permutation(count)[:half]


def _error(run: Fit, points: Array, targets: Array) -> float:
    if run.function is None:
        return float("nan")
    return mean_square(run.function, points, SCALE * targets) / SCALE**2


def _errors_claims(
    errors: Mapping[str, list[float]], runs: Mapping[str, list[Fit]], settings: Mapping[str, str]
) -> list[Claim]:
    printed = [name for name in METHODS if METHODS[name].printed]
    claims = rows_of(errors, runs, settings, "test error", "box (figure 2)")
    for statistic in ("mean", "deviation"):
        both = ["COLK", "POLK, COLK's step"]
        for quantity, names, words in (
            (f"least {statistic} of the test error", printed, "the methods as printed"),
            (f"least {statistic}, POLK with COLK's step and budget", both, "the same step size for both"),
        ):
            measured = lead(errors, names, statistic, "COLK")
            claims.append(
                Claim(quantity, "COLK (figure 2)", measured, words, is_least(errors, names, statistic, "COLK"))
            )
    deviations = {name: _variation(runs[name]) for name in ("COLK", "POLK", "POLK, COLK's step")}
    claims.append(
        Claim(
            "variation of the learned function over sets",
            "COLK's is less than POLK's (figure 1d)",
            ", ".join(f"{name} {value:.4f}" for name, value in deviations.items()),
            "root mean square deviation from the sets' mean",
            deviations["COLK"] < deviations["POLK"],
        )
    )
    return claims


def _variation(runs: list[Fit]) -> float:
    values = [run.values[-1][:400] for run in runs if run.function is not None]
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


def _notes(samples: int, half: int, sets: int) -> list[str]:
    return [
        "The paper prints neither the noise nor the outliers. Here x is uniform on [0, 1], the noise has deviation "
        f"{STREAM.noise:g}, and {STREAM.outlier_fraction:.0%} of the targets get N(0, {STREAM.outlier_size:g}^2) "
        "besides. It prints 60000 samples, of which 4800 remain after a fifth is set aside: that fits 6000. "
        f"Here {samples} are drawn, and each of {sets} sets is a random half, {half}, of what remains.",
        "With the printed step size and weight the fourth moment diverges on these targets within some steps. Its "
        "gradient grows as the seventh power of the residual, and at f = 0 the loss is up to 12. On sets of 6000, "
        "weights of 1e-2 and 1e-3 diverge as well; at 1e-4 it converges, to more error than without dispersion. So "
        "targets are learned in units of 8, where they lie in [-0.2, 0.5] but for outliers; errors are given in their "
        "own unit. In units of 4, with 60000 samples, COLK is at the edge of stability: neither claim holds there.",
        "What the paper calls robust is, in these measurements, the smaller step. POLK with alpha = 0.5 moves its "
        "value at a sample all the way to the target, outlier or not. Compare it with COLK's step. A dispersion of "
        "the loss weighs samples of large loss more, not less, so that outliers draw the function further. Compare "
        "COLK, the variance alone and weight 0. A weight of 0.01 lies between, and reverses no ranking.",
        "COLK's mean is the least where every other method errs more on the same sets, by more than two standard "
        "errors of the difference. Its deviation is the least where every other lies farther from the median of its "
        "sets (Brown and Forsythe).",
        "Noise and outliers put a floor of about 0.21 under the test error; errors against the noise-free target have "
        "none. Pairs are disjoint, as in algorithm 1, so that COLK takes half as many steps as POLK. Sliding pairs, a "
        "step at every sample as eq. 47 has it, are a control: their two samples are no longer both new to f.",
    ]


def _boxes(errors: Mapping[str, list[float]]) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelswarm.simulations.figures.style import BLUE, GREY, RC

    with rc_context(RC):
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        axes = figure.subplots()
        names = list(errors)
        kept = [[value for value in errors[name] if np.isfinite(value)] for name in names]
        boxes = axes.boxplot(kept, patch_artist=True, widths=0.55, medianprops={"color": "black"}, showmeans=True)
        for place, (name, box) in enumerate(zip(names, boxes["boxes"], strict=True), start=1):
            if not METHODS[name].printed:
                # The boxes themselves are too flat to show a colour.
                axes.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.2, linewidth=0)
            box.set_facecolor(BLUE if METHODS[name].printed else GREY)
            box.set_alpha(0.6)
        axes.set_xticks(range(1, len(names) + 1), [name.replace(", ", ",\n") for name in names])
        _logarithmic(axes)
        axes.set_ylabel("test error (mean square)")
        axes.set_title("Test error over the training sets; triangle: mean; shaded: controls")
    return figure


def _logarithmic(axes: Axes) -> None:
    """Make the y axis logarithmic, with numbers written out."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _curves(runs: Mapping[str, list[Fit]], targets: Array) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelswarm.simulations.figures.style import BLUE, GREEN, ORANGE, RC

    with rc_context(RC):
        figure = Figure(figsize=(9.6, 3.2), layout="constrained")
        objective, error, order = figure.subplots(1, 3)
        for name, dash in CURVES.items():
            run = next((run for run in runs[name] if run.function is not None), None)
            if run is None:
                continue
            losses = np.stack([((values[400:] - SCALE * targets) ** 2)[:, 0] for values in run.values])
            centered = losses - losses.mean(axis=1, keepdims=True)
            risk = losses.mean(axis=1) + 0.1 * sum((centered**q).mean(axis=1) for q in (2, 3, 4))
            color = {"COLK": BLUE, "POLK": ORANGE}.get(name, GREEN)
            objective.plot(run.samples, risk, dash, color=color)
            error.plot(run.samples, losses.mean(axis=1) / SCALE**2, dash, color=color)
            order.plot(run.samples, run.orders, dash, color=color, label=name)
        for axes, label in (
            (objective, "mean loss + 0.1 (moments 2 to 4)"),
            (error, "test error (mean square)"),
            (order, "model order"),
        ):
            axes.set_xlabel("samples")
            axes.set_ylabel(label)
        _logarithmic(objective)
        _logarithmic(error)
        order.set_ylim(bottom=0)
        order.legend(loc="lower right")
        for axes in (objective, error, order):
            axes.locator_params(axis="x", nbins=4)
    return figure


def _functions(
    runs: Mapping[str, list[Fit]],
    grid: Array,
    points: Array,
    targets: Array,
    first: npt.NDArray[np.int64],
    seed: int,
    half: int,
) -> Figure:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from kernelswarm.simulations.figures.style import BLACK, BLUE, GREY, ORANGE, RC

    with rc_context(RC):
        figure = Figure(figsize=(9.6, 3.4), layout="constrained")
        both: list[Axes] = list(figure.subplots(1, 2, sharey=True))
        for which, axes in enumerate(both):
            rows = first if which == 0 else _rows(seed, 1, len(points), half)
            shown = rows[:800]
            axes.plot(points[shown, 0], targets[shown, 0], ".", color=GREY, markersize=2, alpha=0.5, label="samples")
            axes.plot(
                grid[:, 0],
                _truth(grid)[:, 0],
                color=BLACK,
                linestyle=":",
                label="truth",
            )
            for name, color in (("POLK", ORANGE), ("COLK", BLUE)):
                run = runs[name][which]
                if run.function is not None:
                    axes.plot(grid[:, 0], run.values[-1][: len(grid), 0] / SCALE, color=color, label=name)
            axes.set_xlabel("x")
            axes.set_ylim(-4.0, 6.0)
            axes.set_title(f"training set {which + 1}")
        both[0].set_ylabel("y")
        both[1].legend(loc="upper right")
    return figure
