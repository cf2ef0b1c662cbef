"""COLK section V, figures 1 and 2: regression with outliers, risk-aware and not, over twenty training sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.nodes.node import DIVERGED
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.figures.style import BLUE, GREY
from kernelswarm.simulations.reproductions.contract import (
    ByName,
    Claim,
    Figure,
    Reproduction,
    Request,
    Samples,
    beyond,
    errs_more,
)
from kernelswarm.simulations.reproductions.sheets import Row, Sheet, rows, tables

SHEET = Sheet("colk-outliers", globals())


STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The step sizes that a tuned method tries."""

METHODS = {row.label: row for row in rows("colk-outliers")}


@dataclass
class Fit:
    """What a method made of a set.

    Attributes
    ----------
    function : Function or None
        The function learned, or None if the iteration diverged.
    samples, orders : list of int
        The model order after numbers of samples.
    values : list of Array
        The function's values at the probes after as many, (n, 1) each.
    """

    function: Function | None = None
    samples: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def error(self, points: Array, targets: Array) -> float:
        """Return the mean square error; NaN where it diverged."""
        return float("nan") if self.function is None else mean_square(self.function, points, targets)


Runs = Mapping[str, Sequence[Fit]]
"""By methods, those of all sets."""


def learn(learner: Any, points: Array, targets: Array, probes: Array | None = None, looks: int = 0) -> Fit:
    """Learn a set batch by batch, and look at the values at ``probes`` (n, p) so many times.

    Divergence is what :class:`~kernelswarm.agents.nodes.agent.Agent` takes for it.
    """
    state = learner.init(points.shape[1], targets.shape[1])
    size: int = learner.batch_size
    limit = DIVERGED * (1.0 + float(np.abs(targets).max()))
    starts = range(0, len(points), size)
    wanted = set(np.linspace(0, len(starts) - 1, looks).round().astype(int).tolist()) if looks else set()
    found = Fit()
    for step, start in enumerate(starts):
        own = learner.evaluate(state, points[start : start + size])
        if not float(np.abs(own.values).max()) <= limit:
            return found
        gradient = learner.gradient(state, own, targets[start : start + size])
        learner.step(state, [own], [gradient], None, targets[start : start + size])
        if probes is not None and step in wanted:
            function = learner.function(state)
            found.samples.append(min(start + size, len(points)))
            found.orders.append(function.order)
            found.values.append(function.values(probes))
    found.function = learner.function(state)
    return found


def prepared(method: Row, training: Samples, validation: Samples) -> tuple[Any, str]:
    """Build a method's learner, its step size tuned if it is to be; returns it with its settings in words."""
    if not method.tuned:
        return method.learner, method.settings
    errors: dict[float, float] = {}
    for step in STEPS:
        function = learn(dataclasses.replace(method.learner, step_size=Constant(step)), *training).function
        errors[step] = np.inf if function is None else mean_square(function, *validation)
    best = min(errors, key=lambda step: errors[step])
    learner = dataclasses.replace(method.learner, step_size=Constant(best))
    return learner, f"{method.settings}; alpha = {best:g}, tuned"


def compared(
    request: Request,
    tuning: tuple[Samples, Samples],
    sets: Sequence[Samples],
    probes: Array | None = None,
    looks: int = 0,
) -> tuple[dict[str, list[Fit]], dict[str, str]]:
    """Learn all sets with every method, tuned on the samples of ``tuning``; returns the fits, and the settings."""
    runs: dict[str, list[Fit]] = {}
    settings: dict[str, str] = {}
    for name in request.each(METHODS):
        learner, settings[name] = prepared(METHODS[name], *tuning)
        runs[name] = [learn(learner, *samples, probes, looks) for samples in sets]
    return runs, settings


def mean_square(function: Function, points: Array, targets: Array) -> float:
    """Compute the mean squared difference of the function's values and the targets; NaN beyond all numbers."""
    return float(np.mean((function.values(points) - targets) ** 2))


def spread(values: Sequence[float]) -> str:
    """Write the mean of measured values, with their standard deviation and how many diverged."""
    finite = [value for value in values if np.isfinite(value)]
    diverged = len(values) - len(finite)
    if not finite:
        return f"diverged on all {diverged} sets"
    text = f"{np.mean(finite):.4f} ± {np.std(finite):.4f}"
    return f"{text}, diverged on {diverged} of {len(values)} sets" if diverged else text


def final_orders(runs: Sequence[Fit]) -> list[float]:
    """Return the model orders at the end of the runs that did not diverge."""
    return [float(run.function.order) for run in runs if run.function is not None]


def rows_of(said: Sheet, key: str, measured: ByName, runs: Runs) -> Iterator[Claim]:
    """Write one row for each method: its error with the spread, and its model order."""
    for name, found in measured.items():
        orders = final_orders(runs[name])
        error = spread(found) + (f"; M = {np.mean(orders):.1f}" if orders else "")
        claim = said.claim(key, name=name, error=error, setting=said.values["settings"][name])
        yield replace(claim, published="") if METHODS[name].control else claim


def printed(measured: ByName) -> list[str]:
    """Return the measured methods that papers have."""
    return [name for name in measured if not METHODS[name].control]


def least(measured: ByName, names: Sequence[str], statistic: str) -> str:
    """Return which of the methods has the least "mean" or "deviation"; one that diverged anywhere has neither."""
    figure = np.mean if statistic == "mean" else np.std

    def value(name: str) -> float:
        found = float(figure(np.array(measured[name])))
        return found if np.isfinite(found) else np.inf

    return min(names, key=value)


def first_of(said: Sheet, key: str, measured: ByName, names: Sequence[str], statistic: str = "mean") -> Claim:
    """Return the claim that of some methods COLK has the least "mean" or "deviation", by more than the sets' spread.

    Every other one that diverged nowhere must err more on the same sets, or lie farther from its median (Brown and
    Forsythe), by two standard errors of the difference. Nothing is checked where there are too few sets.
    """

    def strays(name: str) -> list[float]:
        values = np.asarray(measured[name], dtype=np.float64)
        return list(values if statistic == "mean" else np.abs(values - np.median(values)))

    words: str = least(measured, names, statistic)
    holds: bool | None = False
    others = [name for name in names if name != "COLK" and np.all(np.isfinite(measured[name]))]
    if np.all(np.isfinite(measured["COLK"])):
        verdicts = [errs_more(strays(name), strays("COLK")) for name in others]
        holds = None if None in verdicts else all(verdicts)
        if others:
            nearest = least(measured, others, statistic)
            words += f"; from COLK to {nearest} {beyond(strays(nearest), strays('COLK'))}"
    return said.claim(key, holds, words=words, statistic=statistic)


STREAM = SineRegression(noise=0.1, outlier_fraction=0.05, outlier_size=2.0)
SCALE = 0.125
"""Targets are learned in this unit, in which the fourth moment does not diverge; errors are reported in their own."""

GRID = np.linspace(0.0, 1.0, 400)[:, None]
LOOKS = 60
SAMPLES, QUICK_SAMPLES = 6_000, 4_000
SAME = ["COLK", "POLK, COLK's step"]
"""COLK, and POLK with its step and budget."""


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
    printed = METHODS["COLK"].learner
    literal = [learn(printed, points[chosen], targets[chosen]) for chosen in rows]
    order_of_colk = float(np.mean(final_orders(runs["COLK"]) or [np.nan]))
    fewer: list[float] = []
    if np.isfinite(order_of_colk):
        network = METHODS["RBF network"]
        network = replace(network, learner=replace(network.learner, centers=round(order_of_colk)))
        learner, _ = prepared(network, tuning, validation)
        fewer = [learn(learner, *training).error(*test) / SCALE**2 for training in drawn]
    diverged = sum(run.function is None for run in literal)
    arrays = {f"errors: {name}": np.array(found) for name, found in errors.items()}
    arrays |= {f"noise-free errors: {name}": np.array(found) for name, found in clean.items()}
    said = SHEET.given(_pictured(runs, test_targets[:600]), settings=settings, samples=samples, sets=sets, half=half)
    shown = [(points[chosen[:800]], targets[chosen[:800]]) for chosen in rows[:2]]
    for number, (x, y) in enumerate(shown, 1):
        said = said.given({f"x{number}": x[:, 0], f"y{number}": y[:, 0]})
    claims = [
        *_errors_claims(said, errors, runs),
        *rows_of(said, "clean", clean, runs),
        *_order_claims(said, errors, runs, fewer, order_of_colk),
        said.claim("literal", not diverged, diverged=diverged, setting=METHODS["COLK"].settings),
    ]
    return said.found(claims, arrays, {"colk_outliers_errors": _boxes(errors)})


def _data(seed: int, samples: int) -> tuple[Array, Array, Array, Array]:
    """Draw all samples; returns the four fifths that are learned from and the fifth that is tested on."""
    source = STREAM.open(1, seed, 1, None).nodes[0]
    points, targets = source.draw(samples)
    cut = samples - samples // 5
    return points[:cut], targets[:cut], points[cut:], targets[cut:]


def _truth(points: Array) -> Array:
    """Compute the target without noise, (n, 1)."""
    return np.asarray(STREAM(points[:, 0], np.zeros(len(points), dtype=np.int64))).reshape(-1, 1)


def _errors_claims(said: Sheet, errors: ByName, runs: Runs) -> Iterator[Claim]:
    yield from rows_of(said, "error", errors, runs)
    for statistic in ("mean", "deviation"):
        yield first_of(said, "least", errors, printed(errors), statistic)
        yield first_of(said, "least of both", errors, SAME, statistic)
    deviations = {name: _variation(runs[name]) for name in ("COLK", "POLK", "POLK, COLK's step")}
    yield said.claim("variation", deviations["COLK"] < deviations["POLK"], deviations=deviations)


def _variation(runs: Sequence[Fit]) -> float:
    values = [run.values[-1][: len(GRID)] for run in runs if run.function is not None]
    return float(np.sqrt(np.mean(np.var(np.stack(values), axis=0)))) / SCALE if values else float("nan")


def _order_claims(said: Sheet, errors: ByName, runs: Runs, fewer: list[float], order: float) -> Iterator[Claim]:
    orders = [float(run.orders[len(run.orders) // 2]) for run in runs["COLK"] if run.function is not None]
    halfway = float(np.mean(orders or [np.nan]))
    colk, network = (float(np.mean(errors[name])) for name in ("COLK", "RBF network"))
    of = said.given(halfway=halfway, order=order, network=network, colk=colk, fewer=spread(fewer))
    yield of.claim("order", abs(order / halfway - 1.0) < 0.1)
    yield of.claim("functions", bool(fewer) and order < 25.0 and network < 1.1 * colk <= float(np.mean(fewer)))


def _boxes(errors: ByName) -> Figure:
    figure = SHEET.figure("errors", "pictures")
    (axes,) = figure.axes
    kept = [[value for value in values if np.isfinite(value)] for values in errors.values()]
    boxes = axes.boxplot(kept, patch_artist=True, widths=0.55, medianprops={"color": "black"}, showmeans=True)
    for place, (name, box) in enumerate(zip(errors, boxes["boxes"], strict=True), start=1):
        printed = not METHODS[name].control
        if not printed:
            # The boxes themselves are too flat to show a colour.
            axes.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.2, linewidth=0)
        box.set(facecolor=BLUE if printed else GREY, alpha=0.6)
    axes.set_xticks(range(1, len(errors) + 1), [name.replace(", ", ",\n") for name in errors])
    return figure


def _pictured(runs: Runs, targets: Array) -> dict[str, Any]:
    """Return what the sheet draws: the courses of a run of each method, and the functions of two sets."""
    numbers: dict[str, Any] = {"grid": GRID[:, 0], "truth": _truth(GRID)[:, 0], "courses": {}, "fits1": {}, "fits2": {}}
    strokes = tables(SHEET.name)["strokes"]
    for name in strokes:
        run = next((run for run in runs[name] if run.function is not None), None)
        if run is None:
            continue
        losses = np.stack([((values[len(GRID) :] - SCALE * targets) ** 2)[:, 0] for values in run.values])
        means = losses.mean(axis=1)
        moments = sum(((losses - means[:, np.newaxis]) ** q).mean(axis=1) for q in (2, 3, 4))
        numbers["courses"][name] = strokes[name]
        of = {"samples": run.samples, "risk": means + 0.1 * moments, "error": means / SCALE**2, "order": run.orders}
        numbers |= {f"{quantity}: {name}": values for quantity, values in of.items()}
    for name, number in product(("POLK", "COLK"), (1, 2)):
        run = runs[name][number - 1]
        if run.function is not None:
            numbers[f"fits{number}"][name] = {"color": strokes[name]["color"]}
            numbers[f"fit{number}: {name}"] = run.values[-1][: len(GRID), 0] / SCALE
    return numbers
