"""Online regression on California housing and air quality: features on a budget beside other learners (OKFEB VII-D)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.simulations.experiment.naming import PARTS
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

DATA = (
    "a folder with cal_housing.data.gz (California housing, Pace and Barry 1997: lib.stat.cmu.edu or the LIBSVM data "
    'sets as "cadata"; CSV with a first line of names, target last) and air_quality.mat (UCI Air Quality, De Vito et '
    "al.: archive.ics.uci.edu; arrays X and Y in time order)"
)
FILES = ("cal_housing.data.gz", "air_quality.mat")
RANK, BUDGET = 20, 30  # B = 1.5 r, as the paper's for CADATA
TUNING = 2000
STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 0.8)
WIDTHS = (0.5, 1.0, 2.0, 4.0)  # bandwidths, in units of the root of half the number of inputs
REGULARIZATION = 1e-6
DIVERGED = 1e8
MISSING = -199.0  # the air quality data write -200; some entries are means with it


@dataclass(frozen=True)
class Method:
    """A learner of the table: what it is called, its part, the keys of its own, and whether its size is fixed."""

    label: str
    part: str
    keys: Mapping[str, Any]
    budgeted: bool = True


MISTAKES = {"loss": "squared", "insensitivity": 0.1}
METHODS = (
    Method("OK-FEB", "okfeb", {"rank": RANK, "budget_size": BUDGET, "follow": False}),
    Method("OK-FEB, weights follow", "okfeb", {"rank": RANK, "budget_size": BUDGET}),
    Method("OK-FEB, r = 28", "okfeb", {"rank": 28, "budget_size": BUDGET, "follow": False}),
    Method("OK-FEB, parametric", "okfeb", {"rank": RANK, "budget_size": BUDGET, "subspace_update": "parametric"}),
    Method("POLK", "polk", {"budget": {"target_order": BUDGET, "alpha": 0.1}}),
    Method("Nystroem", "nystroem", {"landmarks": BUDGET}),
    Method("random features", "random_features", {"features": BUDGET}),
    Method("linear", "linear", {}, budgeted=False),
    Method("BSGD, removal", "bsgd", {"budget_size": BUDGET}),
    Method("BSGD, merging", "bsgd", {"budget_size": BUDGET, "maintenance": "merging"}),
    Method("BOGD", "bogd", {"budget_size": BUDGET, "weight_bound": 1.0}),
    Method("BPA", "bpa", {"budget_size": BUDGET, "aggressiveness": 1.0, **MISTAKES}),
    Method("Forgetron", "forgetron", {"budget_size": BUDGET, **MISTAKES}),
    Method("Projectron", "projectron", {"budget_size": BUDGET, **MISTAKES}),
    Method("perceptron", "perceptron", MISTAKES, budgeted=False),
    Method("NORMA", "norma", {"budget_size": BUDGET}),
    Method("OGD", "ogd", {}, budgeted=False),
)
PRINTED = ("BOGD", "Forgetron", "Projectron", "BPA")
"""The budgeted learners of the paper's figure."""

BUDGETED = tuple(method.label for method in METHODS if method.budgeted and method.part != "okfeb")
STROKES = (style.BLUE, style.SKY, style.PURPLE, style.BLACK, style.ORANGE, style.GREEN, style.GREY, style.VERMILLION)


class TunedCourse(NamedTuple):
    """How a learner fared on a sequence, sample by sample."""

    squares: Array  # before each sample was learned, in units of the target's variance
    seconds: float  # processor time
    settings: str
    order: int


def reproduce(request: Request) -> Reproduction:
    """Progressive regression error and time on two data sets (OKFEB figure 9, its kind)."""
    sets = load(request.data)
    available = [method for method in METHODS if method.part in PARTS["learner"]]
    courses: dict[str, dict[str, TunedCourse]] = {}
    for place, (name, (points, targets)) in enumerate(sets.items()):
        generator = np.random.default_rng((request.seed, place))
        if name == "California housing":  # air quality stays in time order
            order = generator.permutation(len(points))
            points, targets = points[order], targets[order]
        points, targets = standardised(points), standardised(targets)
        if request.quick:
            points, targets = points[:1500], targets[:1500]
        courses[name] = {}
        for number, method in enumerate(available):
            request.tell(f"{name}, {method.label}", (place + number / len(available)) / len(sets))
            courses[name][method.label] = best_course(method, points, targets, 200 if request.quick else TUNING)
    absent = [method.label for method in METHODS if method not in available]
    arrays = {
        f"{name}: {label}": curve(course.squares) for name, found in courses.items() for label, course in found.items()
    }
    notes = [
        "Errors are those of each sample before it is learned, as a share of the target's variance. Inputs and targets "
        f"are standardised by their first {TUNING:,} rows, kernels are Gaussian, and each learner's step size, of "
        f"{STEP_SIZES}, and bandwidth, of {WIDTHS} times √(p/2), are those with the least error on its first rows. All "
        f"budgets are {BUDGET} points or features, OK-FEB's rank {RANK} (B = 1.5 r). The paper's γ is for inputs as "
        "they "
        "are, and its r for CADATA is 5.",
        "Slice and Year, the paper's other regression sets, are larger; air quality stands in their place: rows "
        "without a "
        "target and the input that is missing in nine rows of ten are left out, other missing entries take the last "
        "value before them.",
        "Regularised LMS on the features is the learner okfeb with the squared loss and a constant step; as published "
        "the weights do not follow the subspace.",
        "Where OK-FEB is not first: tried were other ranks, lambda a tenth and ten times as large, all samples stored, "
        "shorter and settling steps of the subspace, and beta 0.99; docs/okfeb.md has the errors. More rank at the "
        "same "
        "budget helps most, as in the table.",
    ]
    if absent:
        notes.append("Not available in this version: " + ", ".join(absent) + ".")
    return Reproduction(claims(courses), notes, {"regression": draw(courses)}, arrays)


def load(folder: Path | None) -> dict[str, tuple[Array, Array]]:
    """Read both data sets: points (n, p) and targets (n, 1)."""
    from scipy.io.matlab import MatReadError, loadmat

    if folder is None:
        raise InputError(f"--data is missing: it must name {DATA}")
    housing, air = folder / "cal_housing.data.gz", folder / "air_quality.mat"
    for file in (housing, air):
        if not file.is_file():
            raise InputError(f"--data {folder} has no {file.name}: it must be {DATA}")
    try:
        rows = np.loadtxt(housing, delimiter=",", skiprows=1, dtype=np.float64)
        arrays = loadmat(air)
        inputs, targets = (np.asarray(arrays[name], dtype=np.float64) for name in ("X", "Y"))
    except (ValueError, KeyError, OSError, MatReadError) as error:
        raise InputError(f"--data {folder}: not the data that was published: {error}") from error
    known = targets[:, 0] > MISSING
    inputs, targets = inputs[known], targets[known]
    inputs = inputs[:, np.mean(inputs > MISSING, axis=0) > 0.5]
    for column in inputs.T:
        present = column > MISSING
        last = np.maximum.accumulate(np.where(present, np.arange(len(column)), int(present.argmax())))
        column[:] = column[last]
    return {"California housing": (rows[:, :-1], rows[:, -1:]), "air quality": (inputs, targets)}


def standardised(values: Array) -> Array:
    """Shift and scale columns by the mean and standard deviation of their first rows."""
    first = values[:TUNING]
    return np.ascontiguousarray((values - first.mean(axis=0)) / np.maximum(first.std(axis=0), 1e-12))


def best_course(method: Method, points: Array, targets: Array, tuning: int) -> TunedCourse:
    """Learn the whole sequence with the step size and the bandwidth that err least on its beginning."""
    inputs = points.shape[1]
    affine = method.part == "linear"

    def made(step_size: float, width: float) -> Learner:
        keys = {"name": method.part, "step_size": step_size, "regularization": REGULARIZATION, **method.keys}
        kernel = {"name": "gaussian", "bandwidth": width * math.sqrt(inputs / 2.0)}
        learner: Learner = build("learner", keys if affine else {**keys, "kernel": kernel})
        return learner

    trials = {}
    for step_size in STEP_SIZES:
        for width in WIDTHS[:1] if affine else WIDTHS:
            setting = (step_size / inputs if affine else step_size), width
            trials[setting] = float(np.mean(learn(made(*setting), points[:tuning], targets[:tuning])[0]))
    chosen = min(trials, key=trials.__getitem__)
    start = time.process_time()
    squares, order = learn(made(*chosen), points, targets)
    settings = f"step size {chosen[0]:.3g}" + (
        "" if affine else f", bandwidth {chosen[1] * math.sqrt(inputs / 2.0):.3g}"
    )
    return TunedCourse(squares, time.process_time() - start, settings, order)


def learn(learner: Learner, points: Array, targets: Array) -> tuple[Array, int]:
    """Predict, then learn, sample by sample; returns the squared errors, infinite once it diverged, and the order."""
    state = learner.init(points.shape[1], 1)
    squares = np.full(len(points), math.inf)
    for n in range(len(points)):
        own = learner.evaluate(state, points[n : n + 1])
        squares[n] = float((own.values[0, 0] - targets[n, 0]) ** 2)
        if not squares[n] < DIVERGED:
            squares[n:] = math.inf
            break
        learner.step(state, [own], [learner.gradient(state, own, targets[n : n + 1])], None, targets[n : n + 1])
    return squares, learner.function(state).order


def shown(error: float) -> str:
    """Write an error; one that is infinite as what it means."""
    return f"{error:.3f}" if math.isfinite(error) else "diverged"


def curve(squares: Array) -> Array:
    """Compute the mean of the squares up to each sample."""
    means: Array = np.cumsum(squares) / np.arange(1, len(squares) + 1)
    return means


def claims(courses: Mapping[str, Mapping[str, TunedCourse]]) -> list[Claim]:
    """Put what the paper says beside what was measured."""
    rows = []
    for name, found in courses.items():
        errors = {label: float(np.mean(course.squares)) for label, course in found.items()}
        for label, course in found.items():
            rows.append(
                Claim(
                    f"progressive error, {label}, {name}",
                    "",
                    f"{shown(errors[label])}; {1e6 * course.seconds / len(course.squares):.0f} µs a sample",
                    f"{course.settings}, order {course.order}",
                )
            )
        for who, rivals in (("the figure's budgeted learners", PRINTED), ("all budgeted learners here", BUDGETED)):
            others = {label: error for label, error in errors.items() if label in rivals}
            best = min(others, key=others.__getitem__)
            rows.append(
                Claim(
                    f"OK-FEB against {who}, {name}",
                    "more accurate than the existing alternatives (figure 9)",
                    f"{errors['OK-FEB']:.3f} against {others[best]:.3f} ({best})",
                    f"B = {BUDGET}, {len(found[best].squares):,} samples; the best of {', '.join(others)}",
                    errors["OK-FEB"] < others[best],
                )
            )
    return rows


def draw(courses: Mapping[str, Mapping[str, TunedCourse]]) -> Figure:
    """Draw the progressive errors, one panel for each data set, and the time that each learner took."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(8.6, 6.6), layout="constrained")
        panels = figure.subplots(2, len(courses), squeeze=False)
        for (name, found), above, below in zip(courses.items(), panels[0], panels[1], strict=True):
            labels: Sequence[str] = list(found)
            for place, (label, course) in enumerate(found.items()):
                color = STROKES[place % len(STROKES)]
                means = curve(course.squares)[100:]
                above.plot(
                    np.arange(len(means)) + 101,
                    means,
                    color=color,
                    linestyle=style.DASHES[place // len(STROKES) * 2],
                    linewidth=2.4 if label == "OK-FEB" else 1.3,
                    label=label,
                )
                below.barh(place, 1e6 * course.seconds / len(course.squares), color=color)
            above.set(xscale="log", xlabel="samples", ylabel="progressive error / variance", title=name)
            above.set_ylim(0.0, 1.1 * max(min(float(curve(course.squares)[100]), 1.1) for course in found.values()))
            below.set_yticks(range(len(labels)), labels)
            below.invert_yaxis()
            below.set_xlabel("µs a sample")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
