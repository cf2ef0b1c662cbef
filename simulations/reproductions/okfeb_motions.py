"""Motions of the body, PAMAP2: how features on a budget follow them, and the kernel matrix (OKFEB section VII-C)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans

from kernelswarm.agents.learners.subspace import Tracking
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Figure, Request
from kernelswarm.simulations.reproductions.data_sets import motions
from kernelswarm.simulations.reproductions.okfeb_spheres import LAMBDA, WINDOW, fits_over_time, inverse_root, mismatches
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn


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
RANK, BUDGET = 10, 15
RANKS = (5, 10, 15, 20)
WIDTHS = (1.0, 0.5, 2.0)
"""Bandwidths, in units of the median distance between measurements; the paper gives none."""

SAMPLE, SMOOTHED, THINNED = 1000, 200, 100


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
                points, Gaussian(width * median), Tracking(RANK, LAMBDA, budget_size=BUDGET, recency=recency)
            )
            for name, recency in RECENCIES.items()
        }
    mismatches: dict[str, list[float]] = {}
    for rank in request.part(0.5, 1.0).each(RANKS, "motions, rank {}".format):
        for name, found in _matrices(points, Gaussian(median), rank, generator).items():
            mismatches.setdefault(name, []).append(found)
    return Followed(kept, activities, fits, mismatches)


def _matrices(points: Array, kernel: Gaussian, rank: int, generator: np.random.Generator) -> dict[str, float]:
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


def claims(found: Followed, quick: bool) -> Iterator[Claim]:
    """Put what the paper says beside what was measured."""
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
            f"{' / '.join(RECENCIES)}; r = {RANK}, B = {BUDGET}, lower with β = 0.9 than with 1",
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
    for place, rank in enumerate(RANKS):
        values = {name: line[place] for name, line in found.mismatches.items()}
        rivals = [name for name in values if name.startswith("Nystroem")]
        yield Claim(
            f"mismatch of the kernel matrix, motions, r = {rank}",
            "OK-FEB with β = 0.9 below all Nystroem (figure 8)",
            ", ".join(f"{name} {value:.4f}" for name, value in values.items()),
            f"B = 1.5 r, windows of {WINDOW}",
            values["OK-FEB, β = 0.9"] < min(values[name] for name in rivals),
        )


def arrays(found: Followed) -> dict[str, Array]:
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


def draw(found: Followed) -> Figure:
    """Draw the fits over time above the activities, and the mismatch against the rank."""
    codes = np.searchsorted(sorted(ACTIVITIES), found.activities)
    size = min(SMOOTHED, len(codes))
    fits = [
        Curve(*smoothed(found.fits[WIDTHS[0]][name], size), color, name, dash, look={"linewidth": 1.0})
        for name, (color, dash) in STROKES.items()
    ]
    colors, limits = (style.PURPLE, style.BLACK, style.BLUE, style.GREEN), {"ylim": (0.0, None)}
    matrices = [
        Curve(RANKS, line, color, name, marker=marker, size=6)
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
