"""Learners that predict every sample of a sequence before they learn it: their errors and times (OKFEB figure 9)."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Request, beyond, errs_more
from kernelswarm.simulations.reproductions.data_sets import ADULT_FILE, adult
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 0.8)
REGULARIZATION = 1e-6
DIVERGED = 1e8
BLOCKS = 20
"""Parts of a stream whose mean errors are compared in pairs, where there is one stream."""

PRINTED = ("BOGD", "Forgetron", "Projectron", "BPA")
"""The budgeted learners of the paper's figure."""

STROKES = (style.BLUE, style.SKY, style.PURPLE, style.BLACK, style.ORANGE, style.GREEN, style.GREY, style.VERMILLION)


@dataclass(frozen=True)
class Method:
    """A learner of the table: what it is called, its part, the keys of its own, whether its size is fixed, and its step
    in words where that is one of those keys."""

    label: str
    part: str
    keys: Mapping[str, Any]
    budgeted: bool = True
    step: str = ""


class TunedCurve(NamedTuple):
    """How a learner fared on a sequence, sample by sample."""

    errors: Array  # before each sample was learned: squared, in units of the target's variance, or 1 for a wrong class
    seconds: float  # processor time
    settings: str
    order: int


def made(method: Method, step_size: float, bandwidth: float) -> Learner:
    """Build a learner; the linear one has no kernel."""
    keys = {"name": method.part, "step_size": step_size, "regularization": REGULARIZATION, **method.keys}
    kernel = {"name": "gaussian", "bandwidth": bandwidth}
    learner: Learner = build("learner", keys if method.part == "linear" else {**keys, "kernel": kernel})
    return learner


def best_learning_curve(
    method: Method, points: Array, targets: Array, tuning: int, bandwidths: Sequence[float]
) -> TunedCurve:
    """Learn the whole sequence with the step size and the bandwidth that err least on its beginning."""
    affine = method.part == "linear"
    trials = {}
    for step_size in STEP_SIZES:
        for bandwidth in bandwidths[:1] if affine else bandwidths:
            setting = (step_size / points.shape[1] if affine else step_size), bandwidth
            trials[setting] = float(np.mean(learn(made(method, *setting), points[:tuning], targets[:tuning])[0]))
    return timed(method, points, targets, *min(trials, key=trials.__getitem__))


def timed(method: Method, points: Array, targets: Array, step_size: float, bandwidth: float) -> TunedCurve:
    """Learn the whole sequence with a step size and a bandwidth."""
    start = time.process_time()
    errors, order = learn(made(method, step_size, bandwidth), points, targets)
    words = "" if method.part == "linear" else f", bandwidth {bandwidth:.3g}"
    step = method.step or f"step size {step_size:.3g}"
    return TunedCurve(errors, time.process_time() - start, f"{step}{words}", order)


def learn(learner: Learner, points: Array, targets: Array) -> tuple[Array, int]:
    """Predict, then learn, sample by sample; returns the errors, infinite once it diverged, and the order."""
    state, loss = learner.init(points.shape[1], 1), learner.loss
    errors = np.full(len(points), math.inf)
    for n in range(len(points)):
        own = learner.evaluate(state, points[n : n + 1])
        errors[n] = float((loss.decide(own.values)[0, 0] - targets[n, 0]) ** 2)
        if not errors[n] < DIVERGED:
            errors[n:] = math.inf
            break
        learner.step(state, [own], [learner.gradient(state, own, targets[n : n + 1])], None, targets[n : n + 1])
    return errors, learner.function(state).order


def shown(error: float) -> str:
    """Write an error; one that is infinite as what it means."""
    return f"{error:.3f}" if math.isfinite(error) else "diverged"


def curve(errors: Array) -> Array:
    """Compute the mean of the errors up to each sample."""
    means: Array = np.cumsum(errors) / np.arange(1, len(errors) + 1)
    return means


def claims(
    name: str, methods: Sequence[Method], budget: int, learning_curves: Mapping[str, TunedCurve], published: str
) -> Iterator[Claim]:
    """Put what the paper says of a data set beside what was measured, each learner first, then the comparison."""
    errors = {label: float(np.mean(learning_curve.errors)) for label, learning_curve in learning_curves.items()}
    for label, learning_curve in learning_curves.items():
        yield Claim(
            f"progressive error, {label}, {name}",
            "",
            f"{shown(errors[label])}; {1e6 * learning_curve.seconds / len(learning_curve.errors):.0f} µs a sample",
            f"{learning_curve.settings}, order {learning_curve.order}",
        )
    budgeted = [method.label for method in methods if method.budgeted and method.part != "okfeb"]
    for who, rivals in (("the figure's budgeted learners", PRINTED), ("all budgeted learners here", budgeted)):
        others = {label: error for label, error in errors.items() if label in rivals}
        best = min(others, key=others.__getitem__)
        theirs, own = (_blocks(learning_curves[label].errors) for label in (best, "OK-FEB"))
        known = np.all(np.isfinite(theirs)) and np.all(np.isfinite(own))
        yield Claim(
            f"OK-FEB against {who}, {name}",
            published,
            f"{errors['OK-FEB']:.3f} against {others[best]:.3f} ({best})"
            + (f", {beyond(theirs, own)}" if known else ""),
            f"B = {budget}, {len(learning_curves[best].errors):,} samples; the best of {', '.join(others)}",
            errs_more(theirs, own) if known else errors["OK-FEB"] < others[best],
        )


def _blocks(errors: Array) -> list[float]:
    """Return the means of the errors over BLOCKS parts of the stream, one after the other."""
    return [float(np.mean(part)) for part in np.array_split(errors, min(BLOCKS, len(errors)))]


def draw(learning_curves: Mapping[str, Mapping[str, TunedCurve]], unit: str = "progressive error / variance") -> Figure:
    """Draw the progressive errors, one panel for each data set, and the time that each learner took."""
    several = len(learning_curves) > 1
    above = []
    for name, found in learning_curves.items():
        means = [curve(each.errors)[100:] for each in found.values()]
        curves = [
            Curve(
                np.arange(len(line)) + 101,
                line,
                STROKES[place % len(STROKES)],
                label,
                style.DASHES[place // len(STROKES) * 2],
                look={"linewidth": 2.4 if label == "OK-FEB" else 1.3},
            )
            for place, (label, line) in enumerate(zip(found, means, strict=True))
        ]
        limits = 0.0, 1.1 * max(min(float(line[0]), 1.1) for line in means)
        above.append(Panel(curves, textwrap.fill(name, 30), "samples", unit, log="x", axes={"ylim": limits}))
    below = [Panel([], "", "µs a sample") for _ in above]
    columns = len(above)
    figure = drawn([*above, *below], (11.6 if several else 6.4, 6.6), columns, 4 if several else 3)
    for axes, found in zip(figure.axes[columns:], learning_curves.values(), strict=True):
        for place, each in enumerate(found.values()):
            axes.barh(place, 1e6 * each.seconds / len(each.errors), color=STROKES[place % len(STROKES)])
        axes.set_yticks(range(len(found)), list(found))
        axes.invert_yaxis()
    return figure


# Online classification of Adult: features on a budget beside other learners (OKFEB figure 9a).

NAME = "Adult"
RANK, BUDGET, WIDTH, COST = 50, 60, math.sqrt(0.5 * 20.0), 10.0
"""Of table II: B = 1.2 r, gamma = 2 s^2 = 20, and C, the weight of the mean hinge loss beside half of ||w||^2."""

_FEATURES = {"loss": "hinge", "rank": RANK, "budget_size": BUDGET, "censoring_from": "budget"}
_PUBLISHED = {**_FEATURES, "follow": False, "coordinates": "points"}
_PEGASOS = {"regularization": 1.0 / COST, "step_size": {"name": "diminishing", "initial": 0.5 * COST, "offset": 2.0}}
_HINGE = {"loss": "hinge", "budget_size": BUDGET}
_MISTAKES = {**_HINGE, "insensitivity": 0.0}

METHODS = (
    Method("OK-FEB", "okfeb", {**_PUBLISHED, **_PEGASOS}, step="Pegasos"),
    Method("OK-FEB, constant step", "okfeb", _PUBLISHED),
    Method("OK-FEB, weights follow", "okfeb", _FEATURES),
    Method("POLK", "polk", {"loss": "hinge", "budget": {"target_order": BUDGET, "alpha": 0.1}}),
    Method("Nystroem", "nystroem", {"loss": "hinge", "landmarks": BUDGET}),
    Method("random features", "random_features", {"loss": "hinge", "features": BUDGET}),
    Method("BSGD, removal", "bsgd", _HINGE),
    Method("BSGD, merging", "bsgd", {**_HINGE, "maintenance": "merging"}),
    Method("dual space", "dual_sgd", {**_HINGE, "features": BUDGET}),
    Method("BOGD", "bogd", {**_HINGE, "weight_bound": 1.0}),
    Method("BPA", "bpa", {**_MISTAKES, "aggressiveness": 1.0}),
    Method("Forgetron", "forgetron", _MISTAKES),
    Method("Projectron", "projectron", _MISTAKES),
    Method("perceptron", "perceptron", {"loss": "hinge", "insensitivity": 0.0}, budgeted=False),
    Method("NORMA", "norma", _HINGE),
    Method("OGD", "ogd", {"loss": "hinge"}, budgeted=False),
)

NOTE = (
    "Adult has the rank, the budget and the kernel of table II, inputs 0 and 1 as they are, and its rows in a random "
    "order. OK-FEB's weights follow Pegasos, steps of 1 / (lambda (t + 2)) with lambda = 1 / C, and in the row with a "
    "constant step the best of those that all other learners have. Its features are the published ones, and samples "
    "are left out once the budget is full. The dual space has as many random features as points."
)


def measured(request: Request, tuning: int) -> dict[str, TunedCurve]:
    """Learn the rows of Adult with each learner; empty where the folder of the data has none."""
    if request.data is None or not (request.data / ADULT_FILE).is_file():
        return {}
    points, targets = adult(request.data / ADULT_FILE)
    order = np.random.default_rng((request.seed, 0)).permutation(len(points))[: 1500 if request.quick else len(points)]
    points, targets = points[order], targets[order]
    found = {}
    for number, method in enumerate(METHODS):
        request.tell(f"{NAME}, {method.label}", number / len(METHODS))
        found[method.label] = (
            timed(method, points, targets, math.nan, WIDTH)
            if method.step
            else best_learning_curve(method, points, targets, tuning, [WIDTH])
        )
    return found
