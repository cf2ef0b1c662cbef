"""The quantities that the propositions on features bound, and when a bound holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelswarm.agents.learners.subspace import Subspace, Tracking
from kernelswarm.simulations.reproductions import okfeb_bounds


def followed(rank: int) -> tuple[Subspace, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    subspace = Subspace(okfeb_bounds.KERNEL, Tracking(rank, budget_size=2 * rank), 3)
    for point in okfeb_bounds.spheres(60, generator)[0]:
        subspace.visit(point[np.newaxis])
    return subspace, *okfeb_bounds.spheres(30, generator)


def test_residuals_are_squared_distances_in_the_hilbert_space() -> None:
    subspace, points, _ = followed(5)
    every = np.concatenate([points, subspace.points])
    gram = okfeb_bounds.KERNEL.cross(every, every)
    for place, found in enumerate(okfeb_bounds.residuals(subspace, points)):
        weights = np.zeros(len(every))
        weights[place] = 1.0
        weights[len(points) :] = -subspace.factor @ subspace.projections(points)[place]
        assert found == pytest.approx(weights @ gram @ weights, abs=1e-10)


def test_a_subspace_of_all_points_leaves_nothing_of_the_mismatch() -> None:
    generator = np.random.default_rng(1)
    points, labels = okfeb_bounds.spheres(12, generator)
    subspace = Subspace(okfeb_bounds.KERNEL, Tracking(12, regularization=1e-12), 3)
    for point in points:
        subspace.visit(point[np.newaxis])
    found = okfeb_bounds.mismatch(subspace, points, labels, 0.0, 0.0)
    assert max(found.gram, found.classifier, found.decisions, found.ridge) < 1e-6
    assert min(found.gram_bound, found.classifier_bound, found.ridge_bound) > 0.0


def test_the_classifier_minimises_the_hinge_loss_with_its_norm() -> None:
    subspace, points, labels = followed(5)
    weights = subspace.projections(points) @ subspace.factor.T
    every = np.concatenate([points, subspace.points])
    features = okfeb_bounds.root(okfeb_bounds.KERNEL.cross(every, every))[: len(points)]
    found, _ = okfeb_bounds.classifiers(subspace, points, labels, weights)

    def objective(w: np.ndarray) -> float:
        return 0.5 * w @ w + okfeb_bounds.COST * np.maximum(0.0, 1.0 - labels * (features @ w)).mean()

    better = minimize(objective, found, method="Powell", options={"maxiter": 2}).fun
    assert objective(found) <= better + 1e-4
    assert np.linalg.norm(found) <= okfeb_bounds.COST**0.5  # what the proof of proposition 5 takes


def test_a_bound_may_fail_as_often_as_it_says() -> None:
    measured = np.zeros((100, 2))
    measured[:5, 0] = 2.0
    assert okfeb_bounds.holds_as_often(measured, np.ones((100, 2)))
    measured[5, 0] = 2.0
    assert not okfeb_bounds.holds_as_often(measured, np.ones((100, 2)))
