"""Online regression on California housing and air quality: features on a budget beside other learners (OKFEB VII-D)."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.arrays import Array
from kernelswarm.graphs.given.matrices import matlab_arrays
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Figure,
    Reproduction,
    Request,
    Samples,
    Table,
    beyond,
    errs_more,
)
from kernelswarm.simulations.reproductions.data_sets import (
    ADULT,
    ADULT_FILE,
    HOUSING,
    HOUSING_FILE,
    SLICES,
    SLICES_FILE,
    YEARS,
    YEARS_FILE,
    adult,
    housing,
    slices,
    years,
)
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.reproductions.walks import predicted

SHEET = Sheet("okfeb-regression", globals())


STEP_SIZES = (0.01, 0.03, 0.1, 0.3, 0.8)
REGULARIZATION = 1e-6
BLOCKS = 20
"""Parts of a stream whose mean errors are compared in pairs, where there is one stream."""

PRINTED = ("BOGD", "Forgetron", "Projectron", "BPA")
"""The budgeted learners of the paper's figure."""

STROKES = (style.BLUE, style.SKY, style.PURPLE, style.BLACK, style.ORANGE, style.GREEN, style.GREY, style.VERMILLION)


class TunedCurve(NamedTuple):
    """How a learner fared on a sequence, sample by sample."""

    errors: Array  # before each sample was learned: squared, in units of the target's variance, or 1 for a wrong class
    seconds: float  # processor time
    settings: str
    order: int


def made(keys: Table, step_size: float, bandwidth: float) -> Learner:
    """Build a learner; the linear one has no kernel."""
    kernel = {} if keys["name"] == "linear" else {"kernel": {"name": "gaussian", "bandwidth": bandwidth}}
    learner: Learner = build("learner", {"step_size": step_size, "regularization": REGULARIZATION, **keys, **kernel})
    return learner


def best_learning_curve(
    keys: Table, points: Array, targets: Array, tuning: int, bandwidths: Sequence[float]
) -> TunedCurve:
    """Learn the whole sequence with the step size and the bandwidth that err least on its beginning."""
    inputs, widths = (points.shape[1], bandwidths[:1]) if keys["name"] == "linear" else (1, bandwidths)
    trials = {}
    for setting in product((step_size / inputs for step_size in STEP_SIZES), widths):
        errors, _ = predicted(made(keys, *setting), points[:tuning], targets[:tuning])
        trials[setting] = float(np.mean(errors))
    return timed(keys, points, targets, *min(trials, key=trials.__getitem__))


def timed(keys: Table, points: Array, targets: Array, step_size: float, bandwidth: float) -> TunedCurve:
    """Learn the whole sequence with a step size and a bandwidth; a step of the learner's own is that of Pegasos."""
    start = time.process_time()
    errors, order = predicted(made(keys, step_size, bandwidth), points, targets)
    step = "Pegasos" if "step_size" in keys else f"step size {step_size:.3g}"
    words = "" if keys["name"] == "linear" else f", bandwidth {bandwidth:.3g}"
    return TunedCurve(errors, time.process_time() - start, step + words, order)


def shown(error: float) -> str:
    """Format an error; infinite ones in words."""
    return f"{error:.3f}" if math.isfinite(error) else "diverged"


def curve(errors: Array) -> Array:
    """Compute the mean of the errors up to each sample."""
    means: Array = np.cumsum(errors) / np.arange(1, len(errors) + 1)
    return means


def claims(name: str, methods: Table, budget: int, learning_curves: Mapping[str, TunedCurve]) -> Iterator[Claim]:
    """Compare the paper's claims on a data set with the measurements, each learner first, then all together."""
    errors = {label: float(np.mean(found.errors)) for label, found in learning_curves.items()}
    for label, found in learning_curves.items():
        cost = 1e6 * found.seconds / len(found.errors)
        of = SHEET.given(label=label, name=name, settings=found.settings, order=found.order)
        yield of.claim("error", error=shown(errors[label]), cost=cost)
    unbudgeted = tables(SHEET.name)["unbudgeted"]
    budgeted = [label for label, keys in methods.items() if label not in unbudgeted and keys["name"] != "okfeb"]
    for who, rivals in (("the figure's budgeted learners", PRINTED), ("all budgeted learners here", budgeted)):
        others = {label: error for label, error in errors.items() if label in rivals}
        best = min(others, key=others.__getitem__)
        theirs, own = (_blocks(learning_curves[label].errors) for label in (best, "OK-FEB"))
        known = np.all(np.isfinite(theirs)) and np.all(np.isfinite(own))
        difference = f", {beyond(theirs, own)}" if known else ""
        of = SHEET.given(who=who, name=name, budget=budget, others=", ".join(others), beyond=difference, best=best)
        yield of.claim(
            "rivals",
            errs_more(theirs, own) if known else errors["OK-FEB"] < others[best],
            own=errors["OK-FEB"],
            least=others[best],
            samples=len(learning_curves[best].errors),
        )


def _blocks(errors: Array) -> list[float]:
    """Return the means of the errors over BLOCKS parts of the stream, one after the other."""
    return [float(np.mean(part)) for part in np.array_split(errors, min(BLOCKS, len(errors)))]


def draw(learning_curves: Mapping[str, Mapping[str, TunedCurve]], unit: str = "progressive error / variance") -> Figure:
    """Draw the progressive errors, one panel for each data set, and the time that each learner took."""
    several, panels = len(learning_curves) > 1, {}
    for name, found in learning_curves.items():
        means = {label: curve(each.errors)[100:] for label, each in found.items()}
        learners = {
            label: {
                "x": np.arange(len(line)) + 101,
                "y": line,
                "color": STROKES[place % len(STROKES)],
                "dash": style.DASHES[place // len(STROKES) * 2],
                "look": {"linewidth": 2.4 if label == "OK-FEB" else 1.3},
            }
            for place, (label, line) in enumerate(means.items())
        }
        limits = 0.0, 1.1 * max(min(float(line[0]), 1.1) for line in means.values())
        panels[textwrap.fill(name, 30)] = {"learners": learners, "limits": limits}
    said, below = SHEET.given(panels=panels, unit=unit), 4 if several else 3
    size = 11.6 if several else 6.4, 6.6
    figure = said.figure("learners", "pictures", size=size, columns=len(panels), below=below)
    for axes, found in zip(figure.axes[len(panels) :], learning_curves.values(), strict=True):
        for place, each in enumerate(found.values()):
            axes.barh(place, 1e6 * each.seconds / len(each.errors), color=STROKES[place % len(STROKES)])
        axes.set_yticks(range(len(found)), list(found))
        axes.invert_yaxis()
    return figure


# Online classification of Adult: features on a budget beside other learners (OKFEB figure 9a).

ADULT_NAME = "Adult"
ADULT_BUDGET, ADULT_WIDTH = 60, math.sqrt(0.5 * 20.0)
"""Of table II: B = 1.2 r and gamma = 2 s^2 = 20."""

METHODS, AS_PRINTED, ADULT_METHODS = (tables(SHEET.name)[name] for name in ("methods", "printed", "adult_learners"))


def on_adult(request: Request, tuning: int) -> dict[str, TunedCurve]:
    """Learn the rows of Adult with each learner, or return nothing if the data folder has no such file."""
    if request.data is None or not (request.data / ADULT_FILE).is_file():
        return {}
    points, targets = adult(request.data / ADULT_FILE)
    order = np.random.default_rng((request.seed, 0)).permutation(len(points))[: 1500 if request.quick else len(points)]
    points, targets = points[order], targets[order]
    found = {}
    for label in request.each(ADULT_METHODS, f"{ADULT_NAME}, {{}}".format):
        keys = ADULT_METHODS[label]
        found[label] = (
            timed(keys, points, targets, math.nan, ADULT_WIDTH)
            if "step_size" in keys
            else best_learning_curve(keys, points, targets, tuning, [ADULT_WIDTH])
        )
    return found


BOTH = (
    f"a folder with {HOUSING} and air_quality.mat (UCI Air Quality, De Vito et al.: archive.ics.uci.edu; arrays X and "
    "Y in time order)"
)
DATA = f"{BOTH}; used too where they are there: {SLICES}, {YEARS}, {ADULT}"
FILES = (HOUSING_FILE, "air_quality.mat")
FURTHER = {"Slice": (SLICES_FILE, slices), "Year": (YEARS_FILE, years)}
MOST = 20_000
RANK, BUDGET = 20, 30  # of METHODS: B = 1.5 r, as the paper's for CADATA
TUNING = 2000
WIDTHS = (0.5, 1.0, 2.0, 4.0)  # bandwidths, in units of the root of half the number of inputs
MISSING = -199.0  # the air quality data write -200; some entries are means with it

PRINTED_WIDTH, PRINTED_STEP = math.sqrt(0.5 * 7e7), 0.5
"""The bandwidth of table II, gamma = 2 s^2 = 7e7, for inputs as they are; and a step of 1 on half the squared error."""

PRINTED_SET = "California housing as printed, rivals at step 1"
TUNED_SET = "California housing as printed, all steps tuned"
OTHERS = {PRINTED_SET: (AS_PRINTED, 8), TUNED_SET: (AS_PRINTED, 8)}
"""The sets with other learners than `METHODS` and another budget than `BUDGET`."""


def reproduce(request: Request) -> Reproduction:
    """Progressive regression error and time on public data sets (OKFEB figure 9, its kind)."""
    sets = load(request.data)
    sets |= further(request.data)
    tuning = 200 if request.quick else TUNING
    learning_curves: dict[str, dict[str, TunedCurve]] = {}
    for place, (name, (points, targets)) in enumerate(sets.items()):
        generator = np.random.default_rng((request.seed, place))
        if name != "air quality":  # which stays in time order
            order = generator.permutation(len(points))
            points, targets = points[order], targets[order]
        raw, points, targets = points, standardised(points), standardised(targets)
        if request.quick:
            raw, points, targets = raw[:1500], points[:1500], targets[:1500]
        part = request.part(place / len(sets), (place + 1) / len(sets))
        learning_curves[name] = {
            label: best_learning_curve(METHODS[label], points, targets, tuning, _widths(points))
            for label in part.each(METHODS, f"{name}, {{}}".format)
        }
        if name == "California housing":
            request.tell(PRINTED_SET, 0.5)
            tuned = {
                label: best_learning_curve(keys, raw, targets, tuning, [PRINTED_WIDTH])
                for label, keys in AS_PRINTED.items()
            }
            learning_curves[TUNED_SET] = tuned
            learning_curves[PRINTED_SET] = {
                label: tuned[label]
                if keys["name"] == "okfeb"
                else timed(keys, raw, targets, PRINTED_STEP, PRINTED_WIDTH)
                for label, keys in AS_PRINTED.items()
            }
    figures = {"regression": draw({name: learning_curves[name] for name in learning_curves if name != PRINTED_SET})}
    rows = [
        claim
        for name, found in learning_curves.items()
        for claim in claims(name, *OTHERS.get(name, (METHODS, BUDGET)), found)
    ]
    adult = on_adult(request, tuning)
    if adult:
        figures["classification"] = draw({ADULT_NAME: adult}, "share of wrong classes")
        rows += claims(ADULT_NAME, ADULT_METHODS, ADULT_BUDGET, adult)
        learning_curves[ADULT_NAME] = adult
    arrays = {
        f"{name}: {label}": curve(learning_curve.errors)
        for name, found in learning_curves.items()
        for label, learning_curve in found.items()
    }
    said = SHEET.given(
        others=_absent([name for name in FURTHER if name not in sets]),
        adult=SHEET.notes("adult")[0] if adult else "Adult, the paper's classification of figure 9, is not at hand.",
    )
    return said.found(rows, arrays, figures)


def read(folder: Path | None) -> dict[str, Samples]:
    """Read both data sets as they were published: points (n, p) and targets (n, 1)."""
    if folder is None:
        raise InputError(f"--data is missing: it must name {DATA}")
    for name in FILES:
        if not (folder / name).is_file():
            raise InputError(f"--data {folder} has no {name}: it must be {DATA}")
    try:
        arrays = matlab_arrays(folder / FILES[1])
        inputs, targets = (np.asarray(arrays[name], dtype=np.float64) for name in ("X", "Y"))
    except (ValueError, KeyError) as error:
        raise InputError(f"--data {folder}: not the data that was published: {error}") from error
    return {"California housing": housing(folder / FILES[0]), "air quality": (inputs, targets)}


def further(folder: Path | None) -> dict[str, Samples]:
    """Read the paper's other sets in the folder, at most MOST of their rows each, drawn at random."""
    found = {}
    for name, (file, read_rows) in FURTHER.items():
        if folder is not None and (folder / file).is_file():
            points, targets = read_rows(folder / file)
            chosen = np.random.default_rng(0).permutation(len(points))[:MOST]
            found[name] = points[chosen], targets[chosen]
    return found


def _absent(names: Sequence[str]) -> str:
    """Say which of the paper's other sets are not at hand."""
    used = f"Of Slice and Year, the paper's other regression sets, {MOST:,} rows at most are used, drawn at random"
    if not names:
        return f"{used}: learners without a budget keep every one."
    return f"{used}. {' and '.join(names)}: not at hand; air quality stands in their place."


def load(folder: Path | None) -> dict[str, Samples]:
    """Read both data sets, with gaps of the air's quality filled: points (n, p) and targets (n, 1)."""
    found = read(folder)
    inputs, targets = found["air quality"]
    known = targets[:, 0] > MISSING
    inputs, targets = inputs[known], targets[known]
    inputs = inputs[:, np.mean(inputs > MISSING, axis=0) > 0.5]
    for column in inputs.T:
        present = column > MISSING
        last = np.maximum.accumulate(np.where(present, np.arange(len(column)), int(present.argmax())))
        column[:] = column[last]
    return {**found, "air quality": (inputs, targets)}


def standardised(values: Array) -> Array:
    """Shift and scale columns by the mean and standard deviation of their first rows."""
    first = values[:TUNING]
    spread = first.std(axis=0)
    return np.ascontiguousarray((values - first.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0))


def _widths(points: Array) -> list[float]:
    """Return the bandwidths that are tried for standardised inputs."""
    return [width * math.sqrt(points.shape[1] / 2.0) for width in WIDTHS]
