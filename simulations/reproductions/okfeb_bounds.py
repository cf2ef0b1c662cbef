"""OKFEB section VI: how far kernel matrices, classifiers and regressions on features are from the exact ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kernelswarm.agents.learners.subspace import Subspace, Tracking
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.subspace_rules import MovingAverage
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.contract import Reproduction, Request, Samples
from kernelswarm.simulations.reproductions.sheets import Sheet
from kernelswarm.simulations.reproductions.walks import named

SHEET = Sheet("okfeb-bounds", globals())
KERNEL = Gaussian(1.0)
RANKS, FOLLOWED, FRESH = (5, 10, 20, 40), 1000, 20_000
"""Dimensions of the subspaces, samples that they follow, and samples for expectations."""

SIZE, RISK = 200, 0.05
"""N, and the probability with which the bounds may fail: t = sqrt(log(2 / RISK) / 2N) (propositions 4 and 7)."""

COST, RIDGE = 10.0, 0.1
"""C of the support vector machine and lambda of the ridge regression."""

EQUAL = 1e-5
"""Decision values that differ by less, in units of the largest, are the same but for the solver's tolerance."""


class Mismatch(NamedTuple):
    """What one set of samples measured, and the bounds on it."""

    gram: float
    gram_bound: float
    classifier: float
    classifier_bound: float
    decisions: float
    ridge: float
    ridge_bound: float


def reproduce(request: Request) -> Reproduction:
    """OKFEB, propositions 4 to 7: mismatch of kernel matrix, classifiers and ridge regression beside their bounds."""
    draws = 20 if request.quick else 200
    found, means = [], []
    for rank in request.each(RANKS, lambda rank: f"rank {rank}"):
        generator = np.random.default_rng([request.seed, rank])
        subspace = Subspace(KERNEL, Tracking(rank, censoring=MovingAverage(), budget_size=2 * rank), 3)
        for point in spheres(FOLLOWED, generator)[0]:
            subspace.visit(point[np.newaxis])
        errors = residuals(subspace, spheres(FRESH, generator)[0])
        means.append(float(errors.mean()))
        roots = float(np.sqrt(errors).mean())
        found.append([mismatch(subspace, *spheres(SIZE, generator), means[-1], roots) for _ in range(draws)])
    by_draw = np.array(found).swapaxes(0, 1)
    arrays = {"ranks": np.array(RANKS, dtype=np.float64), "mean_residual": np.array(means)}
    arrays |= named("", Mismatch._fields, by_draw)
    said = SHEET.given(
        arrays,
        {f"{name}_share": arrays[name] / arrays[f"{name}_bound"] for name in ("gram", "classifier", "ridge")},
        draws=draws,
        confidence=1.0 - RISK,
        squares=arrays["ridge"] ** 2,
        squares_share=arrays["ridge"] ** 2 / arrays["ridge_bound"],
    )
    claims = said.claims(
        gram=holds_as_often(arrays["gram"], arrays["gram_bound"]),
        classifier=holds_as_often(arrays["classifier"], arrays["classifier_bound"]),
        decisions=arrays["decisions"].max() < EQUAL,
        squares=holds_as_often(arrays["ridge"] ** 2, arrays["ridge_bound"]),
        ridge=holds_as_often(arrays["ridge"], arrays["ridge_bound"]),
    )
    return said.found(claims, arrays)


def spheres(samples: int, generator: np.random.Generator) -> Samples:
    """Draw points near the spheres of radius 1 and 2, (n, 3), with -1 and 1 for the sphere, (n,)."""
    which = generator.integers(2, size=samples)
    points = generator.normal(size=(samples, 3))
    points *= (1.0 + which[:, np.newaxis]) / np.linalg.norm(points, axis=1, keepdims=True)
    labels = np.where(which == 1, 1.0, -1.0)
    return points + 0.1 * generator.normal(size=points.shape), labels


def residuals(subspace: Subspace, points: Array) -> Array:
    """Compute e = ||phi(x) - L q||^2 at ``points`` (n, 3): (n,)."""
    projections, products = subspace.projections(points), subspace.products(points)
    norms = np.sum((projections @ subspace.inner) * projections, axis=1)
    errors: Array = KERNEL.diagonal(points) - 2.0 * np.sum(products * projections, axis=1) + norms
    return np.maximum(errors, 0.0)


def mismatch(subspace: Subspace, points: Array, labels: Array, mean: float, mean_root: float) -> Mismatch:
    """Compare the exact solutions on a set of samples with those on its features.

    ``mean`` and ``mean_root`` are the expectations of e and of its root.
    """
    count = len(points)
    gram = KERNEL.cross(points, points)
    weights = subspace.projections(points) @ subspace.factor.T  # rows A q, of phi^(x) in the stored points
    approximate = weights @ subspace.gram @ weights.T
    double = math.sqrt(math.log(2.0 / RISK) / (2.0 * count))
    single = math.sqrt(math.log(1.0 / RISK) / (2.0 * count))
    bound = math.sqrt(mean + double) * (math.sqrt(mean + double) + 2.0)
    exact, on_features = (ridge(matrix, labels) for matrix in (gram, approximate))
    return Mismatch(
        float(np.linalg.norm(gram - approximate)) / count,
        bound,
        float(np.sum(np.subtract(*classifiers(subspace, points, labels, weights)) ** 2)),
        2.0 * COST**1.5 * (mean_root + single),
        decisions(approximate, weights @ root(subspace.gram), labels),
        float(np.linalg.norm(exact - on_features)),
        bound * float(np.abs(labels).max()) / RIDGE**2,
    )


def root(matrix: Array) -> Array:
    """Return the symmetric square root of a positive semidefinite matrix."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    half: Array = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return half


def ridge(gram: Array, targets: Array) -> Array:
    """Return beta = (K + lambda N I)^-1 y (OKFEB eq. 38)."""
    beta: Array = cho_solve(cho_factor(gram + RIDGE * len(gram) * np.eye(len(gram))), targets)
    return beta


def classifiers(subspace: Subspace, points: Array, labels: Array, weights: Array) -> list[Array]:
    """Train the classifiers of OKFEB eq. 33 and 35, on phi and on phi^, in coordinates that both share."""
    from sklearn.svm import LinearSVC

    every = np.concatenate([points, subspace.points])
    coordinates = root(KERNEL.cross(every, every))
    exact, stored = coordinates[: len(points)], coordinates[len(points) :]
    machine = LinearSVC(
        C=COST / len(points), loss="hinge", fit_intercept=False, tol=1e-6, max_iter=100_000, random_state=0
    )
    return [machine.fit(features, labels).coef_[0].copy() for features in (exact, weights @ stored)]


def decisions(approximate: Array, features: Array, labels: Array) -> float:
    """Compare decision values of a machine on K^ with a linear one's on z = K_S^(1/2) A q, as a share."""
    from sklearn.svm import SVC

    on_gram = SVC(C=COST, kernel="precomputed", tol=1e-8).fit(approximate, labels).decision_function(approximate)
    on_features = SVC(C=COST, kernel="linear", tol=1e-8).fit(features, labels).decision_function(features)
    return float(np.abs(on_gram - on_features).max() / np.abs(on_gram).max())


def holds_as_often(measured: Array, bound: Array, risk: float = RISK) -> bool:
    """Tell whether at every rank the share of draws in which a value exceeds its bound is at most the given risk."""
    return bool(((measured > bound).mean(axis=0) <= risk).all())
