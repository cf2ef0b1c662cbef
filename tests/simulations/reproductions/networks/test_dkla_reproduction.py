"""DKLA beside what was published of it: where it comes to its end, it is the ridge regression on all nodes' rows."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.features.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.networks import dkla
from kernelswarm.simulations.reproductions.subspaces import regression


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    points = generator.normal(size=(count, 2)) * [1.0, 50.0]
    return points, np.sin(2.0 * points[:, :1]) + 0.1 * generator.normal(size=(count, 1))


def test_the_error_is_that_of_ridge_regression_on_all_rows():
    points, targets = rows(405)  # five are left over
    found = dkla.error(points, targets, 12, 3)
    # The same features and the same rows, by the definition.
    x = (points - points.min(0)) / np.ptp(points, axis=0)
    y = 2.0 * (targets - targets.min()) / np.ptp(targets) - 1.0
    dealt = np.random.default_rng(3).permutation(405)[:400].reshape(10, 40)
    model = RandomFeatures(features=12, seed=3, kernel=Gaussian(dkla.BANDWIDTH)).init(2, 1).function
    z, z_test = (model.features(np.ascontiguousarray(x[part.ravel()])) for part in (dealt[:, :20], dealt[:, 20:]))
    weights = np.linalg.solve(z.T @ z / len(z) + dkla.LAMBDA * np.eye(12), z.T @ y[dealt[:, :20].ravel()] / len(z))
    truth = y[dealt[:, 20:].ravel()]
    wanted = np.sum((truth - z_test @ weights) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert 0.01 < wanted < 0.9
    assert found == pytest.approx(wanted, rel=5e-3)


def test_a_row_holds_where_the_published_error_is_among_the_draws(monkeypatch: pytest.MonkeyPatch):
    data = {name: rows(100) for name in dkla.PUBLISHED}
    monkeypatch.setattr(regression, "read", lambda folder: data)
    errors = iter([0.5, 0.6, 0.7] * 6)
    monkeypatch.setattr(dkla, "error", lambda *_: next(errors))
    claims = dkla.reproduce(Request(quick=True)).claims
    held = {published: abs(published - 0.6) <= 0.2 for table in dkla.PUBLISHED.values() for published in table.values()}
    assert {float(claim.published): claim.holds for claim in claims} == held
    assert set(held.values()) == {True, False}
    assert claims[0].measured == "0.6 +- 0.1"
