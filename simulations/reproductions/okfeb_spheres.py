"""Fit of the features to samples from two spheres: batch against online, kernels, ranks and budgets (OKFEB VII-A)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from sklearn.cluster import KMeans

from kernelswarm.agents.learners import batch
from kernelswarm.agents.learners.subspace import Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Polynomial
from kernelswarm.agents.parts.subspace_rules import Normalized, Power
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import ByName, Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.sheets import Sheet

SHEET = Sheet("okfeb-spheres", globals())


# How well features in a subspace stand for samples: fits over time, the batch solver's, and kernel matrices.


LAMBDA, WINDOW = 1e-3, 100


def fits_over_time(points: Array, kernel: Kernel, tracking: Tracking) -> Array:
    """Compute ``||phi(x_n) - L[n-1] q_n||^2`` of every sample, (n,)."""
    subspace = Subspace(kernel, tracking, points.shape[1])
    return np.array([subspace.visit(points[n : n + 1]).fit for n in range(len(points))])


def batch_fits(gram: Array, rank: int, generator: np.random.Generator) -> Array:
    """Compute the same with the batch solver's subspace of all points at once."""
    factor = batch.extract(gram, rank, LAMBDA, generator).factor
    image = gram @ factor
    inner = factor.T @ image
    q = np.linalg.solve(inner + LAMBDA * np.eye(rank), image.T).T
    fits: Array = np.diag(gram) - 2.0 * np.sum(image * q, axis=1) + np.sum((q @ inner) * q, axis=1)
    return fits


def inverse_root(gram: Array) -> Array:
    """Compute a B with ``B B' = inv(gram)``, (m, m)."""
    values, vectors = np.linalg.eigh(gram)
    root: Array = vectors / np.sqrt(np.maximum(values, 1e-12))
    return root


Features = Mapping[str, Callable[[slice], Array]]
"""Features of a window of samples, by methods that do not follow them."""


def nystroem(
    points: Array, kernel: Kernel, rank: int, generator: np.random.Generator, seed: int | None = None
) -> Features:
    """Return features ``K_nm K_mm^(-1/2)`` with landmarks drawn from the points, and with their k-means."""
    drawn = points[generator.choice(len(points), rank, replace=False)]
    random = int(generator.integers(2**31)) if seed is None else seed
    centers = np.ascontiguousarray(KMeans(rank, n_init=1, random_state=random).fit(points).cluster_centers_)

    def features(landmarks: Array) -> Callable[[slice], Array]:
        root = inverse_root(kernel.cross(landmarks, landmarks))
        return lambda window: kernel.cross(points[window], landmarks) @ root

    return {"Nystroem, uniform": features(drawn), "Nystroem, k-means": features(centers)}


def mismatches(
    points: Array, kernel: Kernel, ends: Sequence[int], fixed: Features, following: Mapping[str, Tracking]
) -> dict[str, float]:
    """Compute each method's mean of ``||K_w - Z_w Z_w'||_F / 100`` over windows of 100 samples.

    Subspaces follow the samples to the window's end.
    """

    def gram(window: slice) -> Array:
        return kernel.cross(points[window], points[window])

    windows = {end: slice(end - WINDOW, end) for end in ends}
    found = {
        name: [batch.mismatch(gram(window), features(window)) for window in windows.values()]
        for name, features in fixed.items()
    }
    for name, tracking in following.items():
        subspace = Subspace(kernel, tracking, points.shape[1])
        line = found[name] = []
        for end in range(1, len(points) + 1):
            subspace.visit(points[end - 1 : end])
            if end in windows:
                line.append(batch.mismatch(gram(windows[end]), subspace.features(points[windows[end]])))
    return {name: float(np.mean(line)) for name, line in found.items()}


RANK, BANDWIDTH, NOISE = 7, math.sqrt(50.0), 0.1
SOLVERS = {
    "Alg. 2, step 10/(10 + n)": Tracking(RANK, LAMBDA, Power(1.0, 10.0, 1.0), update="parametric"),
    "Alg. 3, step (100/(100 + n))²": Tracking(RANK, LAMBDA, Power(1.0, 100.0, 2.0)),
    "Alg. 3, step 1/‖q‖": Tracking(RANK, LAMBDA, Normalized()),
}
KERNELS: dict[str, Kernel] = {
    "Gaussian, γ = 1": Gaussian(math.sqrt(0.5)),
    "Gaussian, γ = 10": Gaussian(math.sqrt(5.0)),
    "Gaussian, γ = 100": Gaussian(BANDWIDTH),
    "polynomial, degree 2": Polynomial(2),
    "polynomial, degree 3": Polynomial(3),
}
RANKS = (2, 4, 7, 10, 15, 20)
BUDGETS = ((4, 8), (7, 14), (7, 35), (15, 30))
SOLVED = 1.5
"""How many times the batch fit counts as having reached it."""


def reproduce(request: Request) -> Reproduction:
    """Batch and online feature extraction on two noisy spheres (OKFEB figures 1 to 3)."""
    samples = 400 if request.quick else 5000
    points = spheres(samples, np.random.default_rng((request.seed, 0)))
    marks = [n for n in (5, 10, 20, 50, 100, 200, 400, 1000, 2000, 5000) if n <= samples]
    fits: dict[str, list[float]] = {"batch (Alg. 1)": [batch_fit(points[:n], request.seed) for n in marks]}
    moves: dict[str, Array] = {}
    for name in request.part(0.1, 0.7).each(SOLVERS):
        fits[name], moves[name] = online(points, Gaussian(BANDWIDTH), SOLVERS[name], marks)
    request.tell("kernels", 0.7)
    by_rank = {name: fits_by_rank(points[: min(samples, 1000)], kernel) for name, kernel in KERNELS.items()}
    request.tell("budgets", 0.9)
    budgets: dict[str, list[float]] = {}
    for rank, budget_size in BUDGETS:
        tracking = Tracking(rank, LAMBDA, Normalized(), budget_size=budget_size)
        budgets[f"r = {rank}, B = {budget_size}"] = online(points, Gaussian(BANDWIDTH), tracking, marks)[0]
    budgets["OK-FE, r = 7"] = fits["Alg. 3, step 1/‖q‖"]
    axis = np.array(marks, dtype=np.float64)
    arrays = {"samples": axis, "ranks": np.array(RANKS, dtype=np.float64)}
    for group, found in (("fit", fits), ("kernel", by_rank), ("budget", budgets)):
        arrays |= {f"{group}: {name}": np.array(values) for name, values in found.items()}
    arrays |= {f"move: {name}": values for name, values in moves.items()}
    said = SHEET.given(arrays, samples_seen=samples)
    for name, lengths in moves.items():
        ends, smooth = smoothed(lengths[RANK:], max(len(lengths) // 50, 1))
        said = said.given({f"smooth: {name}": smooth, f"ends: {name}": ends + RANK})
    return said.found([*claims(said, fits, moves, by_rank, budgets)], arrays)


def spheres(samples: int, generator: np.random.Generator) -> Array:
    """Draw points near the spheres of radius 1 and 2 in three dimensions, as likely near the one as the other."""
    points = generator.normal(size=(samples, 3))
    points *= generator.integers(1, 3, (samples, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    return np.ascontiguousarray(points + NOISE * generator.normal(size=(samples, 3)))


def online(points: Array, kernel: Kernel, tracking: Tracking, marks: Sequence[int]) -> tuple[list[float], Array]:
    """Follow all points; returns the mean fit at each mark, NaN before r points, and how far L moved with each."""
    subspace = Subspace(kernel, tracking, points.shape[1])
    fits, moves = [], np.zeros(len(points))
    for n in range(len(points)):
        before = float(np.trace(subspace.inner))
        visit = subspace.visit(points[n : n + 1])
        if visit.cross is not None:
            squared = before - 2.0 * float(np.trace(visit.cross)) + float(np.trace(subspace.inner))
            moves[n] = math.sqrt(max(squared, 0.0))
        if n + 1 in marks:
            seen = points[: n + 1]
            fits.append(float(np.mean(subspace.fits(seen))) if n + 1 >= tracking.rank else math.nan)
    return fits, moves


def batch_fit(points: Array, seed: int) -> float:
    """Compute the mean fit of the batch solver's subspace to the points that it was computed from."""
    gram = Gaussian(BANDWIDTH).cross(points, points)
    return float(np.mean(batch_fits(gram, RANK, np.random.default_rng((seed, 1)))))


def fits_by_rank(points: Array, kernel: Kernel) -> list[float]:
    """Compute the mean share of kappa(x, x) that online extraction leaves, at each rank."""
    shares = []
    for rank in RANKS:
        largest = float(kernel.diagonal(points).max())
        step = Power(1.0 / largest, 10.0, 1.0)
        subspace = Subspace(kernel, Tracking(rank, LAMBDA, step, update="parametric"), points.shape[1])
        for n in range(len(points)):
            subspace.visit(points[n : n + 1])
        shares.append(float(np.mean(subspace.fits(points)) / np.mean(kernel.diagonal(points))))
    return shares


def claims(
    said: Sheet,
    fits: ByName,
    moves: Mapping[str, Array],
    by_rank: ByName,
    budgets: ByName,
) -> Iterator[Claim]:
    """Compare the paper's claims with the measurements."""
    batch = fits["batch (Alg. 1)"]

    def beside_batch(key: str, found: float, times: float, **values: object) -> Claim:
        return said.claim(key, found <= times * batch[-1], found=found, times=found / batch[-1], **values)

    yield said.claim("batch", found=batch[-1])
    for name in SOLVERS:
        yield beside_batch("online", fits[name][-1], SOLVED, name=name)
    yield said.claim("few", batch[0] > 0.0, found=batch[0])
    for name, lengths in moves.items():
        tenth = len(lengths) // 10
        first, last = float(lengths[RANK:tenth].mean()), float(lengths[-tenth:].mean())
        settles = "1/‖q‖" not in name  # which is made for tracking
        key = "settles" if settles else "tracks"
        yield said.claim(key, last < 0.1 * first if settles else None, name=name, first=first, last=last)
    for name, shares in by_rank.items():
        falls = np.all(np.diff(shares) < 0.1 * np.array(shares[:-1])) and shares[-1] < shares[0]
        yield said.claim("ranks", falls, name=name, shares=shares)
    for rank, size in BUDGETS[1:3]:
        yield beside_batch("budget", budgets[f"r = {rank}, B = {size}"][-1], 2.0, rank=rank, size=size)


def smoothed(values: Array, size: int) -> tuple[Array, Array]:
    """Return the places where windows of so many values end, and the means over these."""
    smooth = np.convolve(values, np.full(size, 1.0 / size), "valid")
    return np.arange(len(smooth), dtype=np.float64) + size, smooth
