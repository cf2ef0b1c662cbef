"""Tracking a manifold that changes: fit over time and the kernel matrix's mismatch (OKFEB section VII-B)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans

from kernelswarm.agents.learners.subspace import Tracking
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.subspace_rules import Normalized
from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions import okfeb_motions
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Figure,
    Reproduction,
    Request,
    beyond,
    errs_more,
    notes,
)
from kernelswarm.simulations.reproductions.data_sets import MOTIONS, MOTIONS_FILE
from kernelswarm.simulations.reproductions.okfeb_motions import RECENCIES
from kernelswarm.simulations.reproductions.okfeb_spheres import (
    LAMBDA,
    WINDOW,
    batch_fits,
    fits_over_time,
    inverse_root,
    mismatches,
)
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

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
        followed = okfeb_motions.follow(request)
        table = [*table, *okfeb_motions.claims(followed, request.quick)]
        (motions,) = notes("motions")
        figures["motions"] = okfeb_motions.draw(followed)
        arrays |= okfeb_motions.arrays(followed)
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
    """Put what the paper says beside what was measured."""
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
        for label, (color, dash) in {**okfeb_motions.STROKES, "batch": (style.BLACK, ":")}.items():
            name = label if label == "batch" else f"B = {times}r, {label}"
            curves.append(Curve(*okfeb_motions.smoothed(means[name], SMOOTHED), color, label, dash))
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
