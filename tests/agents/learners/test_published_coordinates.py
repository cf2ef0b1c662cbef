"""Features of a subspace as published, one for each stored point: K_S^(1/2) A q, and weights that the points carry."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from kernelswarm.agents.learners.okfe import Okfe, Okfeb
from kernelswarm.agents.learners.subspace import Subspace
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.subspace_rules import Threshold
from tests.helpers.steps import step

SHARED = {"kernel": Gaussian(0.8), "step_size": Constant(0.2), "follow": False, "coordinates": "points"}
LEARNERS = {
    "okfe": Okfe(rank=4, **SHARED),
    "okfeb": Okfeb(rank=4, budget_size=7, recency=0.9, censoring=Threshold(0.01), **SHARED),
    "parametric": Okfeb(rank=4, budget_size=7, subspace_update="parametric", censoring=Threshold(0.0), **SHARED),
}
GRID = np.random.default_rng(9).normal(size=(12, 2))


def features(subspace: Subspace, x: np.ndarray) -> np.ndarray:
    """K_S^(1/2) A q by its definition."""
    root = np.real(sqrtm(subspace.kernel.cross(subspace.points, subspace.points)))
    a = subspace.factor
    gram = a.T @ subspace.gram @ a + subspace.tracking.regularization * np.eye(a.shape[1])
    q = np.linalg.solve(gram, a.T @ subspace.kernel.cross(subspace.points, x))
    return (root @ a @ q).T


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_weights_stay_with_their_points(learner):
    generator = np.random.default_rng(2)
    state, weights = learner.init(2, 1), {}
    lone = Subspace(learner.kernel, learner.tracking(), 2)  # follows the same samples
    changed = []
    for _ in range(30):
        x = generator.normal(size=(1, 2))
        y = np.sin(2.0 * x[:, :1]) + x[:, 1:]
        stored = [tuple(point) for point in lone.points]
        if stored:
            z = features(lone, x)[0]
            error = z @ [weights[point] for point in stored] - y[0, 0]
            for point, entry in zip(stored, z, strict=True):
                weights[point] = (1.0 - 0.2 * learner.regularization) * weights[point] - 0.2 * 2.0 * error * entry
        before = learner.function_from(state.function.arrays())
        found = step(learner, state, x, y)
        descended = np.array([[weights[point]] for point in stored]).reshape(-1, 1)
        moved = learner.function_from({**before.arrays(), "coefficients": descended}).distance(state.function)
        assert found.compression_error == pytest.approx(moved, rel=1e-4, abs=1e-6)
        lone.visit(x)
        here = [tuple(point) for point in lone.points]
        changed.append(len(here) == len(stored) and here != stored)
        weights = {point: weights.get(point, 0.0) for point in here}
        wanted = features(lone, GRID) @ [weights[point] for point in here]
        np.testing.assert_allclose(learner.function(state).values(GRID)[:, 0], wanted, rtol=1e-5, atol=1e-7)
    assert any(changed) == (learner.tracking().budget_size is not None)
    assert np.abs(wanted).max() > 0.1
    z = features(lone, GRID)
    np.testing.assert_allclose(z @ z.T, lone.features(GRID) @ lone.features(GRID).T, rtol=1e-5, atol=1e-7)
