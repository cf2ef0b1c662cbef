"""Tracking a manifold that changes: fit over time and the kernel matrix's mismatch (OKFEB section VII-B)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans

from kernelswarm.agents.learners.subspace import Tracking
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.subspace_rules import Normalized
from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    Request,
    beyond,
    drawn,
    errs_more,
    notes,
)
from kernelswarm.simulations.reproductions.data_sets import MOTIONS, MOTIONS_FILE, motions
from kernelswarm.simulations.reproductions.okfeb_spheres import (
    LAMBDA,
    WINDOW,
    batch_fits,
    fits_over_time,
    inverse_root,
    mismatches,
)


class Activity(NamedTuple):
    """An activity of table I: its name, and the mean fit with beta = 1, with 0.9, and first in, first out."""

    name: str
    published: tuple[float, float, float]


ACTIVITIES = {
    4: Activity("walking", (0.099, 0.074, 0.074)),
    5: Activity("running", (0.227, 0.187, 0.187)),
    6: Activity("cycling", (0.058, 0.028, 0.028)),
    7: Activity("Nordic walking", (0.130, 0.103, 0.103)),
    12: Activity("ascending stairs", (0.079, 0.063, 0.063)),
    13: Activity("descending stairs", (0.094, 0.066, 0.065)),
    16: Activity("vacuum cleaning", (0.045, 0.029, 0.029)),
    24: Activity("rope jumping", (0.272, 0.238, 0.238)),
}
"""By their numbers in the file."""

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
    mismatches: dict[str, list[float]] = {}
    for rank in request.part(0.5, 1.0).each(MOTION_RANKS, "motions, rank {}".format):
        for name, found in _motion_matrices(points, Gaussian(median), rank, generator).items():
            mismatches.setdefault(name, []).append(found)
    return Followed(kept, activities, fits, mismatches)


def _motion_matrices(points: Array, kernel: Gaussian, rank: int, generator: np.random.Generator) -> dict[str, float]:
    """Compute each method's mismatch of the kernel matrix."""
    drawn = points[generator.choice(len(points), rank, replace=False)]
    centers = KMeans(rank, n_init=1, random_state=int(generator.integers(2**31))).fit(points).cluster_centers_

    def nystroem(landmarks: Array) -> Callable[[slice], Array]:
        root = inverse_root(kernel.cross(landmarks, landmarks))
        return lambda window: kernel.cross(points[window], landmarks) @ root

    return mismatches(
        points,
        lambda window: kernel.cross(points[window], points[window]),
        range(WINDOW, len(points) + 1, WINDOW),
        {"Nystroem, uniform": nystroem(drawn), "Nystroem, k-means": nystroem(np.ascontiguousarray(centers))},
        {
            f"OK-FEB, {label}": Tracking(rank, LAMBDA, budget_size=-(-3 * rank // 2), recency=RECENCIES[label])
            for label in ("β = 1", "β = 0.9")
        },
        kernel,
    )


def motion_claims(found: Followed, quick: bool) -> Iterator[Claim]:
    """Compare the paper's claims with the measurements."""
    kept = None if quick else abs(found.kept / MEASUREMENTS - 1.0) <= 0.02
    yield Claim("measurements of subject 1", f"{MEASUREMENTS:,}", f"{found.kept:,}", "within 2%", kept)
    means = {width: by_activity(found, width) for width in WIDTHS}
    for number, activity in ACTIVITIES.items():
        measured = means[WIDTHS[0]].get(number)
        if measured is None:
            continue
        yield Claim(
            f"mean fit, {activity.name}",
            f"{' / '.join(f'{value:.3f}' for value in activity.published)} (table I)",
            " / ".join(f"{value:.3f}" for value in measured),
            f"{' / '.join(RECENCIES)}; r = {MOTION_RANK}, B = {MOTION_BUDGET}, lower with β = 0.9 than with 1",
            measured[1] < measured[0],
        )
    for width, table in means.items():
        lower = sum(one > faded for one, faded, _ in table.values())
        settings = f"bandwidth {width:g} times the median distance"
        yield Claim(
            f"activities that β = 0.9 follows better than 1, {settings}",
            "all 8 (table I)",
            f"{lower} of {len(table)}",
            settings,
            lower == len(table),
        )
    yield _hardest(means[WIDTHS[0]])
    apart = max(abs(faded - first) for _, faded, first in means[WIDTHS[0]].values())
    yield Claim(
        "difference of β = 0.9 from FIFO",
        "0.001 at most (table I)",
        f"{apart:.4f} at most",
        "the largest of all activities",
        apart <= 0.001,
    )
    for place, rank in enumerate(MOTION_RANKS):
        values = {name: line[place] for name, line in found.mismatches.items()}
        rivals = [name for name in values if name.startswith("Nystroem")]
        yield Claim(
            f"mismatch of the kernel matrix, motions, r = {rank}",
            "OK-FEB with β = 0.9 below all Nystroem (figure 8)",
            ", ".join(f"{name} {value:.4f}" for name, value in values.items()),
            f"B = 1.5 r, windows of {WINDOW}",
            values["OK-FEB, β = 0.9"] < min(values[name] for name in rivals),
        )


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


def _hardest(means: Mapping[int, Sequence[float]]) -> Claim:
    """Ask which activities are followed worst."""
    hardest = sorted(means, key=lambda number: -means[number][1])[:2]
    return Claim(
        "the two activities with the largest fits",
        "rope jumping and running (table I)",
        " and ".join(ACTIVITIES[number].name for number in hardest),
        "β = 0.9",
        {ACTIVITIES[number].name for number in hardest} == {"rope jumping", "running"},
    )


STROKES = {"β = 1": (style.BLUE, "-"), "β = 0.9": (style.GREEN, "-."), "FIFO": (style.ORANGE, "--")}


def smoothed(values: Array, size: int) -> tuple[Array, Array]:
    """Return the places where windows of so many values end, and the means over these."""
    smooth = np.convolve(values, np.full(size, 1.0 / size), "valid")
    return np.arange(len(smooth), dtype=np.float64) + size, smooth


def draw_motions(found: Followed) -> Figure:
    """Draw the fits over time above the activities, and the mismatch against the rank."""
    codes = np.searchsorted(sorted(ACTIVITIES), found.activities)
    size = min(MOTION_SMOOTHED, len(codes))
    fits = [
        Curve(*smoothed(found.fits[WIDTHS[0]][name], size), color, name, dash, look={"linewidth": 1.0})
        for name, (color, dash) in STROKES.items()
    ]
    colors, limits = (style.PURPLE, style.BLACK, style.BLUE, style.GREEN), {"ylim": (0.0, None)}
    matrices = [
        Curve(MOTION_RANKS, line, color, name, marker=marker, size=6)
        for (name, line), color, marker in zip(found.mismatches.items(), colors, "pDos", strict=True)
    ]
    y = "‖K − ZZ'‖ / 100 over windows"
    panels = [
        Panel(fits, "", "measurements", f"fit ‖φ(x) − L q‖² (mean of {size})", axes=limits),
        Panel(matrices, "", "rank r (B = 1.5 r)", y, legend={}, axes=limits),
    ]
    figure = drawn(panels, (10.4, 4.4), width_ratios=(2, 1))
    left = figure.axes[0]
    beside = left.twinx()
    beside.plot(np.arange(len(codes)), codes, color=style.GREY, linewidth=0.8)
    beside.set_yticks(range(len(ACTIVITIES)), [ACTIVITIES[number].name for number in sorted(ACTIVITIES)])
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
    errors: dict[str, list[Array]] = {}
    mismatches: dict[str, list[list[float]]] = {}
    for draw in request.draws(draws):
        points = spheroids(np.random.default_rng((request.seed, draw)))
        for times, (name, recency) in product((2, 5), RECENCIES.items()):
            tracking = Tracking(RANK, LAMBDA, budget_size=times * RANK, recency=recency)
            errors.setdefault(f"B = {times}r, {name}", []).append(fits_over_time(points, KERNEL, tracking))
        errors.setdefault("batch", []).append(
            batch_fits(KERNEL.cross(points, points), RANK, np.random.default_rng(draw))
        )
        for rank in ranks:
            for name, found in matrix_errors(points, rank, every, draw).items():
                rows = mismatches.setdefault(name, [[] for _ in ranks])
                rows[ranks.index(rank)].append(found)
    means = {name: np.mean(found, axis=0) for name, found in errors.items()}
    matrices = {name: np.array(rows) for name, rows in mismatches.items()}
    arrays = {"ranks": np.array(ranks, dtype=np.float64)}
    arrays |= {f"fit: {name}": np.array(found) for name, found in errors.items()}
    arrays |= {f"mismatch: {name}": found for name, found in matrices.items()}
    table = claims(errors, matrices, ranks)
    figures = {"fit": draw_fits(means), "mismatch": draw_mismatch(matrices, ranks)}
    motions = "PAMAP2, the motions of figures 7 and 8 and table I, is not at hand."
    if request.data is not None:
        followed = follow(request)
        table = [*table, *motion_claims(followed, request.quick)]
        (motions,) = notes("motions")
        figures["motions"] = draw_motions(followed)
        arrays |= motion_arrays(followed)
    return Reproduction(
        table,
        notes("okfeb-manifold", draws=draws, every=every, motions=motions),
        figures,
        arrays,
    )


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
    landmarks = points[np.random.default_rng(seed).choice(len(points), rank, replace=False)]
    centers = KMeans(rank, n_init=1, random_state=seed).fit(points).cluster_centers_
    values, vectors = eigh(gram, subset_by_index=(len(gram) - rank, len(gram) - 1))
    features = {
        "KPCA": vectors * np.sqrt(np.maximum(values, 0.0)),
        "Nystroem, uniform": nystroem(points, landmarks),
        "Nystroem, k-means": nystroem(points, np.ascontiguousarray(centers)),
    }
    return mismatches(
        points,
        lambda window: gram[window, window],
        range(WINDOW, len(points) + 1, every),
        {name: z.__getitem__ for name, z in features.items()},
        {
            label: Tracking(**{"rank": rank, "regularization": LAMBDA, "budget_size": 2 * rank, **keys})
            for label, keys in TRACKINGS.items()
        },
        KERNEL,
    )


def nystroem(points: Array, landmarks: Array) -> Array:
    """Compute the features ``K_nm K_mm^(-1/2)`` of all points, (n, m)."""
    features: Array = KERNEL.cross(points, landmarks) @ inverse_root(KERNEL.cross(landmarks, landmarks))
    return features


def claims(errors: Mapping[str, Sequence[Array]], matrices: Mapping[str, Array], ranks: Sequence[int]) -> list[Claim]:
    """Compare the paper's claims with the measurements."""
    return [*_fit_claims(errors), *_matrix_claims(matrices, ranks)]


def _fit_claims(errors: Mapping[str, Sequence[Array]]) -> list[Claim]:
    """Return the claims about the fits over time."""
    by_draw = {
        name: {when: np.array([line[part].mean() for line in found]) for when, part in PHASES.items()}
        for name, found in errors.items()
    }
    for found in by_draw.values():
        found["at rest"] = (found["before"] + found["after"]) / 2.0
    settings = f"r = {RANK}, γ = 2, step 1/‖q‖; n 200-1000 / 1000-1200 / 1200-2000"
    rows = [
        Claim(
            f"mean fit, {name}",
            "",
            " / ".join(f"{float(found[when].mean()):.3f} ± {float(np.std(found[when])):.2g}" for when in PHASES),
            settings,
        )
        for name, found in by_draw.items()
    ]

    def compare(
        quantity: str, published: str, left: Array, right: Array, how: str, holds: bool | None = None, less: bool = True
    ) -> None:
        """Write a row: less on the left, or more, by more than the spread of the draws, by default."""
        measured = f"{left.mean():.3f} against {right.mean():.3f}, {beyond(list(left), list(right))}"
        judged = errs_more(list(right), list(left)) if less else errs_more(list(left), list(right))
        rows.append(Claim(quantity, published, measured, how, judged if holds is None else holds))

    for times in (2, 5):
        name = f"B = {times}r"
        one, faded, first = (by_draw[f"{name}, {label}"] for label in RECENCIES)
        compare(
            f"rise of the fit at the change, {name}, β = 1",
            "the error rises at n = 1000, then falls (figure 5)",
            one["change"],
            np.maximum(one["before"], one["after"]),
            "1000-1200 against the larger of 200-1000 and 1200-2000",
            less=False,
        )
        for other, values, better in (
            ("FIFO", first, "better than FIFO, most with B = 2r"),
            ("0.9", faded, "lower for β = 1"),
        ):
            quantity = f"β = 1 against {other} on a manifold at rest, {name}"
            compare(quantity, better, one["at rest"], values["at rest"], "mean of 200-1000 and 1200-2000")
        quantity = f"β = 0.9 against 1 during the change, {name}"
        compare(quantity, "lower for β = 0.9", faded["change"], one["change"], "1000-1200")
        batch = by_draw["batch"]["after"]
        best = min((one["after"], faded["after"]), key=lambda values: float(values.mean()))
        compare(
            f"OK-FEB against batch after the change, {name}",
            "batch is worse than B = 5r, similar to B = 2r",
            best,
            batch,
            "1200-2000, the better β; similar: within a quarter",
            None if times == 5 else bool(abs(best.mean() / batch.mean() - 1.0) < 0.25),
        )
    return rows


def _matrix_claims(matrices: Mapping[str, Array], ranks: Sequence[int]) -> Iterator[Claim]:
    """Return the claims about the kernel matrix, for each rank against each family of rivals."""
    ours = [name for name in matrices if name in TRACKINGS]
    for place, rank in enumerate(ranks):
        values = {name: float(found[place].mean()) for name, found in matrices.items()}
        least = min(ours, key=values.__getitem__)
        for family in ("KPCA", "Nystroem"):
            rivals = [name for name in matrices if name.startswith(family)]
            nearest = min(rivals, key=values.__getitem__)
            theirs, own = (list(matrices[name][place]) for name in (nearest, least))
            yield Claim(
                f"mismatch of the kernel matrix, r = {rank}, against {family}",
                "OK-FEB below KPCA and all Nystroem (figure 6)",
                f"{least} {values[least]:.4f}; "
                + ", ".join(f"{name} {values[name]:.4f}" for name in rivals)
                + f"; to the nearest {beyond(theirs, own)}",
                f"B = {2 * rank}, windows of 100 samples, the best of {len(ours)} settings of OK-FEB",
                errs_more(theirs, own),
            )


def draw_fits(means: Mapping[str, Array]) -> Figure:
    """Draw the fits over time, averaged over windows of 200 samples, one panel for each budget."""
    panels = []
    for times in (2, 5):
        curves = []
        for label, (color, dash) in {**STROKES, "batch": (style.BLACK, ":")}.items():
            name = label if label == "batch" else f"B = {times}r, {label}"
            curves.append(Curve(*smoothed(means[name], SMOOTHED), color, label, dash))
        curves.append(Curve(HALF, None, style.GREY, look={"linewidth": 0.8}))
        first = times == 2
        y = "fit ‖φ(x) − L q‖² (mean of 200)" if first else ""
        limits = {} if first else {"ylim": (0.0, None)}  # of both, once both are drawn
        panels.append(Panel(curves, f"B = {times}r", "samples n", y, axes=limits))
    return drawn(panels, (8.6, 3.4), below=4, sharey=True)


def draw_mismatch(matrices: Mapping[str, Array], ranks: Sequence[int]) -> Figure:
    """Draw each method's mismatch of the kernel matrix against the rank, with the draws' standard deviation."""
    palette = (
        style.BLACK,
        style.PURPLE,
        style.SKY,
        style.BLUE,
        style.GREEN,
        style.ORANGE,
        style.VERMILLION,
        style.GREY,
    )
    dashes, look = (":", ":", ":", "-", "-.", "--", "-", "-"), {"elinewidth": 0.8}
    curves = [
        Curve(ranks, found.mean(axis=1), color, name, dash, marker, 5, look, spread=found.std(axis=1, ddof=1))
        for (name, found), color, marker, dash in zip(matrices.items(), palette, "DPXo^svp", dashes, strict=True)
    ]
    y, limits = "‖K − ZZ'‖ / 100 over windows", {"ylim": (0.0, None)}
    return drawn([Panel(curves, "", "rank r (B = 2r)", y, legend={}, axes=limits)], (6.4, 3.8))
