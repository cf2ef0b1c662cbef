"""DKLA beside what was published of it: where it comes to its end, it is the ridge regression on all nodes' rows."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.reproductions import dkla, okfeb_regression
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.sheets import tables


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
    published = tables("dkla")["published"]["DKLA"]
    data = {name: rows(100) for name in published}
    monkeypatch.setattr(okfeb_regression, "read", lambda folder: data)
    errors = iter([0.5, 0.6, 0.7] * 6)
    monkeypatch.setattr(dkla, "error", lambda *_: next(errors))
    monkeypatch.setattr(dkla, "error_of_dekrr", lambda *_: next(others))
    others = iter([0.1, 0.2, 0.3] * 6)
    found = dkla.reproduce(Request(quick=True)).claims
    claims = [claim for claim in found if claim.quantity.startswith("DKLA")]
    assert len(found) == 2 * len(claims)
    assert {claim.measured for claim in found if claim not in claims} == {"0.2 ± 0.1"}
    held = {value: abs(value - 0.6) <= 0.2 for row in published.values() for _, value in row}
    assert {float(claim.published): claim.holds for claim in claims} == held
    assert set(held.values()) == {True, False}
    assert claims[0].measured == "0.6 ± 0.1"


def test_dekrr_ends_where_no_node_would_move():
    """The stationary point of the published update, in which the term that holds a node where it was cancels."""
    generator = np.random.default_rng(0)
    neighbors = {0: [1, 2], 1: [0], 2: [0]}
    data = {}
    for j in neighbors:
        points = generator.uniform(size=(30, 2))
        data[j] = points, np.sin(4.0 * points[:, 0] + j)
    ridge, coupling = 1e-2, 0.2
    fits = dkla.fits(data, neighbors, 0.5, 8, ridge, coupling, np.random.default_rng(1))
    found = next(islice(fits, 3999, None))

    def function(j: int, points: np.ndarray) -> np.ndarray:
        return found.weights[j] @ found.features[j](points)

    again = np.random.default_rng(1)
    maps = [dkla.chosen_features(*data[j], 0.5, 8, again) for j in neighbors]
    for j, (points, targets) in data.items():
        z, values = maps[j](points), function(j, points)
        gradient = z @ (values - targets) + len(targets) * ridge * found.weights[j]
        for i in neighbors[j]:
            gradient += coupling * z @ (values - function(i, points))
            theirs = data[i][0]
            gradient += coupling * maps[j](theirs) @ (function(j, theirs) - function(i, theirs))
        assert np.abs(gradient).max() < 1e-6 * np.abs(z @ targets).max()
    directed, once = 4, 4 * 30 * 2 + 4 * 8 * 3
    assert found.scalars == once + 4000 * directed * 8


def test_dekrr_chooses_the_features_that_align_with_the_data():
    points = np.random.default_rng(2).uniform(-3.0, 3.0, size=(400, 1))
    chosen = dkla.chosen_features(points, np.cos(5.0 * points[:, 0]), 0.2, 6, np.random.default_rng(3))
    grid = np.linspace(-3.0, 3.0, 2001)[:, None]
    assert all(4.0 < abs(np.diff(np.sign(row)).astype(bool).sum() * np.pi / 6.0) < 6.0 for row in chosen(grid))
