"""Tracking a manifold that changes: fit over time and the kernel matrix's mismatch (OKFEB section VII-B)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from kernelswarm.agents.learners.subspace import Tracking
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.subspace_rules import Normalized
from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Figure, Reproduction, Request, beyond, errs_more
from kernelswarm.simulations.reproductions.data_sets import MOTIONS, MOTIONS_FILE, motions
from kernelswarm.simulations.reproductions.okfeb_spheres import (
    LAMBDA,
    WINDOW,
    batch_fits,
    fits_over_time,
    mismatches,
    nystroem,
    smoothed,
)
from kernelswarm.simulations.reproductions.sheets import Sheet, tables

SHEET = Sheet("okfeb-manifold", globals())


ACTIVITIES = {entry["number"]: {"name": name, **entry} for name, entry in tables(SHEET.name)["activities"].items()}
"""By their numbers in the file: names, and the mean fits of table I with beta = 1, with .9, and first in, first out."""

MEASUREMENTS = 129_200
"""N, as the paper has it."""

TRANSIENT = 1000
"""Measurements that are left out at the beginning and at the end of an activity, as in the paper."""

RECENCIES = {"β = 1": 1.0, "β = 0.9": 0.9, "FIFO": 1e-12}
MOTION_RANK, MOTION_BUDGET = 10, 15
MOTION_RANKS = (5, 10, 15, 20)
WIDTHS = (1.0, 0.5, 2.0)
"""Bandwidths, in units of the median distance between measurements; the paper gives none."""

SAMPLE, MOTION_SMOOTHED, THINNED = 1000, 200, 100


class Followed(NamedTuple):
    """What was measured."""

    kept: int
    activities: Array  # (n,)
    fits: dict[float, dict[str, Array]]  # of each width and recency, (n,)
    mismatches: dict[str, list[float]]  # of each method, by rank


def moving(inputs: Array, activities: Array) -> tuple[Array, Array]:
    """Leave out what the paper does: idle states, the ends of each activity, and measurements with a missing entry.

    Returns
    -------
    tuple of Array
        Inputs (m, 39), standardised, and the activities (m,).
    """
    kept = np.isin(activities, list(ACTIVITIES))
    changes = np.flatnonzero(np.diff(activities)) + 1
    for first, last in pairwise([0, *changes, len(activities)]):
        kept[first : min(first + TRANSIENT, last)] = False
        kept[max(last - TRANSIENT, first) : last] = False
    kept &= np.isfinite(inputs).all(axis=1)
    chosen = inputs[kept]
    spread = chosen.std(axis=0)
    return (chosen - chosen.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), activities[kept]


def follow(request: Request) -> Followed:
    """Follow the motions with each recency and width, and compare kernel matrices."""
    assert request.data is not None
    points, activities = moving(*motions(request.data))
    kept = len(points)
    if request.quick:
        points, activities = points[::THINNED].copy(), activities[::THINNED]
    generator = np.random.default_rng(request.seed)
    some = generator.choice(len(points), min(SAMPLE, len(points)), replace=False)
    median = float(np.median(pdist(points[some])))
    fits: dict[float, dict[str, Array]] = {}
    words = "motions, bandwidth {:g} times the median distance".format
    for width in request.part(0.0, 0.5).each(WIDTHS, words):
        fits[width] = {
            name: fits_over_time(
                points,
                Gaussian(width * median),
                Tracking(MOTION_RANK, LAMBDA, budget_size=MOTION_BUDGET, recency=recency),
            )
            for name, recency in RECENCIES.items()
        }
    by_rank: dict[str, list[float]] = {}
    for rank in request.part(0.5, 1.0).each(MOTION_RANKS, "motions, rank {}".format):
        trackings = {
            f"OK-FEB, {label}": Tracking(rank, LAMBDA, budget_size=-(-3 * rank // 2), recency=RECENCIES[label])
            for label in ("β = 1", "β = 0.9")
        }
        ends, kernel = range(WINDOW, len(points) + 1, WINDOW), Gaussian(median)
        fixed = nystroem(points, kernel, rank, generator)
        for name, found in mismatches(points, kernel, ends, fixed, trackings).items():
            by_rank.setdefault(name, []).append(found)
    return Followed(kept, activities, fits, by_rank)


def motion_claims(found: Followed, quick: bool) -> Iterator[Claim]:
    """Compare the paper's claims with the measurements."""
    kept = None if quick else abs(found.kept / MEASUREMENTS - 1.0) <= 0.02
    yield SHEET.claim("measurements", kept, kept=found.kept)
    means = {width: by_activity(found, width) for width in WIDTHS}
    first = means[WIDTHS[0]]
    for number, fits in first.items():
        yield SHEET.claim(
            "activity", fits[1] < fits[0], activity=ACTIVITIES[number], fits=fits, rules=" / ".join(RECENCIES)
        )
    for width, table in means.items():
        lower = sum(one > faded for one, faded, _ in table.values())
        yield SHEET.claim("activities", lower == len(table), width=width, lower=lower, all=len(table))
    hardest = [ACTIVITIES[number]["name"] for number in sorted(first, key=lambda number: -first[number][1])[:2]]
    yield SHEET.claim("hardest", {*hardest} == {"rope jumping", "running"}, names=" and ".join(hardest))
    apart = max(abs(faded - oldest) for _, faded, oldest in first.values())
    yield SHEET.claim("apart", apart <= 0.001, apart=apart)
    for place, rank in enumerate(MOTION_RANKS):
        values = {name: line[place] for name, line in found.mismatches.items()}
        least = min(value for name, value in values.items() if name.startswith("Nystroem"))
        yield SHEET.claim("motion matrix", values["OK-FEB, β = 0.9"] < least, rank=rank, values=values)


def motion_arrays(found: Followed) -> dict[str, Array]:
    """Return the numbers behind the figure."""
    named = {"motions: activity": found.activities}
    for width, learning_curves in found.fits.items():
        named |= {f"motions: fit, {name}, bandwidth {width:g}": line for name, line in learning_curves.items()}
    return named | {f"motions: mismatch, {name}": np.array(line) for name, line in found.mismatches.items()}


def by_activity(found: Followed, width: float) -> dict[int, list[float]]:
    """Compute the mean fits of each activity that there is, in the order of `RECENCIES`."""
    present = [number for number in ACTIVITIES if np.any(found.activities == number)]
    return {
        number: [float(line[found.activities == number].mean()) for line in found.fits[width].values()]
        for number in present
    }


def draw_motions(found: Followed) -> Figure:
    """Draw the fits over time above the activities, and the mismatch against the rank."""
    codes = np.searchsorted(sorted(ACTIVITIES), found.activities)
    size = min(MOTION_SMOOTHED, len(codes))
    said = SHEET.given({f"motion mismatch: {name}": line for name, line in found.mismatches.items()}, size=size)
    for name, fits in found.fits[WIDTHS[0]].items():
        ends, smooth = smoothed(fits, size)
        said = said.given({f"motion fit: {name}": smooth}, motion_ends=ends)
    figure = said.figure("motions", "pictures")
    left = figure.axes[0]
    beside = left.twinx()
    beside.plot(np.arange(len(codes)), codes, color=style.GREY, linewidth=0.8)
    beside.set_yticks(range(len(ACTIVITIES)), [ACTIVITIES[number]["name"] for number in sorted(ACTIVITIES)])
    left.legend()
    return figure


DATA = f"for figures 7 and 8 and table I, which are left out without: {MOTIONS}"
FILES = (MOTIONS_FILE,)
DATA_IS_OPTIONAL = True
RANK = 10
KERNEL = Gaussian(1.0)  # exp(-||x - y||^2 / gamma) with gamma = 2
HALF, SMOOTHED = 1000, 200
PHASES = {"before": slice(SMOOTHED, HALF), "change": slice(HALF, HALF + 200), "after": slice(HALF + 200, 2 * HALF)}
RANKS = (5, 10, 15, 20, 30)
TRACKINGS: dict[str, dict[str, Any]] = {
    **{f"OK-FEB, {label}": {"recency": recency} for label, recency in RECENCIES.items()},
    "OK-FEB, parametric": {"update": "parametric"},
    "OK-FEB, step 2/‖q‖, λ = 1e-5": {"step": Normalized(2.0), "regularization": 1e-5},
}
"""What is tried for the kernel matrix: the recency, the other update, and a larger step with less regularization."""


def reproduce(request: Request) -> Reproduction:
    """Feature extraction on a budget from a spheroid that turns at sample 1,000 (OKFEB figures 5 to 8)."""
    draws = 2 if request.quick else 10
    every, ranks = (50, RANKS[1:2]) if request.quick else (10, RANKS)
    fits: list[dict[str, Array]] = []
    by_rank = []
    for draw in request.draws(draws):
        points = spheroids(np.random.default_rng((request.seed, draw)))
        found = {
            f"B = {times}r, {name}": fits_over_time(
                points, KERNEL, Tracking(RANK, LAMBDA, budget_size=times * RANK, recency=recency)
            )
            for times, (name, recency) in product((2, 5), RECENCIES.items())
        }
        gram = KERNEL.cross(points, points)
        fits.append({**found, "batch": batch_fits(gram, RANK, np.random.default_rng(draw))})
        by_rank.append([matrix_errors(points, rank, every, draw) for rank in ranks])
    errors = {name: [of[name] for of in fits] for name in fits[0]}
    matrices = {name: np.array([[of[name] for of in row] for row in by_rank]).T.copy() for name in by_rank[0][0]}
    arrays = {"ranks": np.array(ranks, dtype=np.float64)}
    arrays |= {f"fit: {name}": np.array(found) for name, found in errors.items()}
    arrays |= {f"mismatch: {name}": found for name, found in matrices.items()}
    said = SHEET.given(
        arrays,
        {f"smooth: {name}": smoothed(np.mean(found, axis=0), SMOOTHED)[1] for name, found in errors.items()},
        {f"of draws: {name}": found.T for name, found in matrices.items()},
        {f"deviation: {name}": found.std(axis=1, ddof=1) for name, found in matrices.items()},
        ends=smoothed(np.zeros(2 * HALF), SMOOTHED)[0],
        draws=draws,
        every=every,
        motions="PAMAP2, the motions of figures 7 and 8 and table I, is not at hand.",
    )
    table, figures = claims(errors, matrices, ranks), dict[str, Figure]()
    if request.data is not None:
        followed = follow(request)
        table += motion_claims(followed, request.quick)
        said = said.given(motions=SHEET.notes("motions")[0])
        figures["motions"] = draw_motions(followed)
        arrays |= motion_arrays(followed)
    return said.found(table, arrays, figures)


def spheroids(generator: np.random.Generator) -> Array:
    """Draw 1,000 points of x1²/9 + x2² + x3² = 1, then 1,000 of x1² + x2²/9 + x3² = 1."""
    points = generator.normal(size=(2 * HALF, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:HALF, 0] *= 3.0
    points[HALF:, 1] *= 3.0
    return points


def matrix_errors(points: Array, rank: int, every: int, seed: int) -> dict[str, float]:
    """Compute each method's mean of ``||K_w - Z_w Z_w'||_F / 100`` over windows of 100 samples."""
    gram = KERNEL.cross(points, points)
    fixed = nystroem(points, KERNEL, rank, np.random.default_rng(seed), seed)
    values, vectors = eigh(gram, subset_by_index=(len(gram) - rank, len(gram) - 1))
    components = vectors * np.sqrt(np.maximum(values, 0.0))
    following = {
        label: Tracking(**{"rank": rank, "regularization": LAMBDA, "budget_size": 2 * rank, **keys})
        for label, keys in TRACKINGS.items()
    }
    ends = range(WINDOW, len(points) + 1, every)
    return mismatches(points, KERNEL, ends, {"KPCA": components.__getitem__, **fixed}, following)


def claims(errors: Mapping[str, Sequence[Array]], matrices: Mapping[str, Array], ranks: Sequence[int]) -> list[Claim]:
    """Compare the paper's claims with the measurements."""
    return [*_fit_claims(errors), *_matrix_claims(matrices, ranks)]


def _fit_claims(errors: Mapping[str, Sequence[Array]]) -> Iterator[Claim]:
    """Yield the claims about the fits over time: less on the left, by more than the spread of the draws."""
    by_draw = {
        name: {when: np.array([line[part].mean() for line in found]) for when, part in PHASES.items()}
        for name, found in errors.items()
    }
    for name, found in by_draw.items():
        found["at rest"] = (found["before"] + found["after"]) / 2.0
        phases = " / ".join(f"{found[when].mean():.3f} ± {found[when].std():.2g}" for when in PHASES)
        yield SHEET.claim("fit", name=name, phases=phases)

    def less(
        key: str, left: Array, right: Array, holds: bool | None = None, turned: bool = False, **values: Any
    ) -> Claim:
        pair = (left, right) if turned else (right, left)
        judged = errs_more(*pair) if holds is None else holds
        return SHEET.claim(key, judged, left=left, right=right, difference=beyond(left, right), **values)

    for times in (2, 5):
        one, faded, first = (by_draw[f"B = {times}r, {label}"] for label in RECENCIES)
        worst = np.maximum(one["before"], one["after"])
        yield less("rise", one["change"], worst, turned=True, times=times)
        yield less("oldest", one["at rest"], first["at rest"], times=times)
        yield less("faded", one["at rest"], faded["at rest"], times=times)
        yield less("during", faded["change"], one["change"], times=times)
        batch = by_draw["batch"]["after"]
        best = min((one["after"], faded["after"]), key=lambda values: float(values.mean()))
        similar = None if times == 5 else bool(abs(best.mean() / batch.mean() - 1.0) < 0.25)
        yield less("batch", best, batch, similar, times=times)


def _matrix_claims(matrices: Mapping[str, Array], ranks: Sequence[int]) -> Iterator[Claim]:
    """Return the claims about the kernel matrix, for each rank against each family of rivals."""
    ours = [name for name in matrices if name in TRACKINGS]
    for place, rank in enumerate(ranks):
        draws = {name: found[place] for name, found in matrices.items()}
        values = {name: float(np.mean(found)) for name, found in draws.items()}
        least = min(ours, key=values.__getitem__)
        for family in ("KPCA", "Nystroem"):
            rivals = {name: value for name, value in values.items() if name.startswith(family)}
            pair = draws[min(rivals, key=rivals.__getitem__)], draws[least]
            of = SHEET.given(rank=rank, family=family, least={least: values[least]}, rivals=rivals, size=2 * rank)
            yield of.claim("matrix", errs_more(*pair), difference=beyond(*pair), ours=ours)
