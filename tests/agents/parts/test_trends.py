"""A trend beside the kernel: where the evidence asks for one, and that what is learned with it is the formula's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from kernelswarm.agents.parts.kernels import Gaussian, Trended
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.sample import RIDGES, Sample
from kernelswarm.agents.parts.trends import ridge_regression
from kernelswarm.arrays import Array
from kernelswarm.refused_key import RefusedKey


def data(kind: str, rows: int = 240) -> tuple[Array, Array]:
    """Draw inputs, in units of their own, and targets with noise of a tenth of the deviation."""
    random = np.random.default_rng(3)
    x = random.normal(size=(rows, 4))
    y = {
        "affine": x @ [2.0, -1.0, 0.5, 0.0],
        "affine and curved": 2.0 * x[:, 0] - x[:, 3] + np.sin(3.0 * x[:, 1]),
        "even": np.cos(2.0 * x[:, 0]) * x[:, 1] ** 2,
        "noise": 0.0 * x[:, 0],
    }[kind]
    y = y + (0.1 * y.std() or 1.0) * random.normal(size=rows)
    return x * [1.0, 1000.0, 0.01, 1.0] + [0.0, 5000.0, 0.0, -3.0], y


def sample(x: Array, y: Array) -> Sample:
    return Sample(x, y[:, np.newaxis], Squared(), 1, 1, lambda points: points)


@pytest.mark.parametrize(("rows", "columns"), [(30, 4), (12, 20)], ids=["tall", "wide"])
def test_residuals_of_left_out_rows_are_those_of_fits_without_them(rows: int, columns: int) -> None:
    random = np.random.default_rng(0)
    basis, values = random.normal(size=(rows, columns)), random.normal(size=(rows, 2))
    found, residuals = ridge_regression(basis, values)
    errors = []
    for ridge in RIDGES * np.mean(np.sum(basis**2, axis=1)):
        left_out = np.empty((rows, 2))
        for i in range(rows):
            others = np.arange(rows) != i
            known = basis[others]
            slopes = np.linalg.solve(known.T @ known + ridge * np.eye(columns), known.T @ values[others])
            left_out[i] = values[i] - basis[i] @ slopes
        errors.append((float(np.mean(left_out**2)), ridge, left_out))
    _, ridge, wanted = min(errors, key=lambda entry: entry[0])
    # The least ridges leave nearly singular systems, whose brute force is no better than this.
    np.testing.assert_allclose(residuals, wanted, rtol=1e-9, atol=1e-9)
    slopes = np.linalg.solve(basis.T @ basis + ridge * np.eye(columns), basis.T @ values)
    np.testing.assert_allclose(basis @ found, basis @ slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("affine", True), ("affine and curved", True), ("even", False), ("noise", False)]
)
def test_a_trend_is_taken_where_the_evidence_asks_for_one(kind: str, wanted: bool) -> None:
    found = Trended().resolved(sample(*data(kind)))
    assert (found.trend > 0.0) == wanted
    if not wanted:
        x, y = data(kind)
        assert found.bandwidth == Gaussian().resolved(sample(x, y)).bandwidth
        points = x[:50]
        assert np.array_equal(found.cross(points, x), Gaussian(found.bandwidth).cross(points, x))


def test_units_and_offsets_of_inputs_and_targets_change_no_choice() -> None:
    x, y = data("affine and curved")
    plain = (x - [0.0, 5000.0, 0.0, -3.0]) / [1.0, 1000.0, 0.01, 1.0]
    found, other = Trended().resolved(sample(x, y)), Trended().resolved(sample(plain, 7.0 - 30.0 * y))
    assert found.trend == other.trend
    affine, wanted = (
        kernel.cross(points, points) - Gaussian(kernel.bandwidth).cross(points, points)
        for kernel, points in ((found, x), (other, plain))
    )
    np.testing.assert_allclose(affine, wanted, atol=1e-9)


def test_ridge_regression_is_where_a_trend_of_much_and_a_flat_remainder_lead() -> None:
    x, y = data("affine")
    known, new = slice(0, 160), slice(160, 240)
    center, unit = x[known].mean(axis=0), x[known].std(axis=0)
    kernel = Trended(1e6, 1e6, tuple(center), tuple(unit))
    gram = kernel.cross(x[known], x[known]) + 1e3 * np.eye(160)
    found = kernel.cross(x[new], x[known]) @ np.linalg.solve(gram, y[known] - y[known].mean()) + y[known].mean()
    z = (x - center) / unit
    # The remainder is a constant: the linear kernel has the weight 1e6 / 5, and the ridge 1e3.
    rival = RidgeCV([5e-3]).fit(z[known], y[known]).predict(z[new])
    np.testing.assert_allclose(found, rival, atol=1e-5)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"trend": -1.0}, "trend"),
        ({"center": (0.0,)}, "unit"),
        ({"center": (0.0,), "unit": (0.0,)}, "unit"),
        ({"center": (np.inf,), "unit": (1.0,)}, "center"),
        ({"bandwidth": (1.0, 2.0), "center": (0.0,), "unit": (1.0,)}, "center"),
    ],
)
def test_senseless_numbers_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(RefusedKey, match=message):
        Trended(**keys)  # type: ignore[arg-type]


def test_points_of_other_inputs_and_words_without_data_are_refused() -> None:
    with pytest.raises(RefusedKey, match="center has 1 entries"):
        Trended(1.0, 1.0, (0.0,), (1.0,)).cross(np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(RefusedKey, match="trend"):
        Trended(1.0).cross(np.zeros((1, 2)), np.zeros((1, 2)))
