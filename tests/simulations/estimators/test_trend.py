"""The trend of `KernelRegressor`, and its error where each row is left out."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV

from kernelswarm import KernelRegressor, load_model
from kernelswarm.agents.parts.kernels import Gaussian, Trended
from kernelswarm.simulations.core.errors import InputError
from tests.agents.parts.test_trends import data


def whole(x: Any, y: Any, weights: Any, **keys: Any) -> KernelRegressor:
    """Fit without leaving a point out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KernelRegressor(random_state=0, budget=0.0, **keys).fit(x, y, weights)


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_errors_without_each_row_are_those_of_the_dense_problem_with_a_trend(epochs: int, weighted: bool) -> None:
    x, y = data("affine and curved", 60)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    model = whole(x, y, weights if weighted else None, trend=True, ridge=0.3, epochs=epochs)
    kernel, centred = model.learner_.kernel, y - model.intercept_
    assert isinstance(kernel, Trended) and model.model_order_ == 60
    noise = np.diag(0.3 / (epochs * weights))
    gram = kernel.cross(x, x)

    def fitted(rows: Any, at: Any) -> Any:
        return gram[np.ix_(at, rows)] @ np.linalg.solve(
            gram[np.ix_(rows, rows)] + noise[np.ix_(rows, rows)], centred[rows]
        )

    every = np.arange(60)
    left_out = np.array([fitted(np.delete(every, i), [i])[0] for i in every])
    np.testing.assert_allclose(model.predict(x) - model.intercept_, fitted(every, every), atol=1e-6 * y.std())
    variance = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    wanted = [np.average((f - centred) ** 2, weights=weights) / variance for f in (fitted(every, every), left_out)]
    np.testing.assert_allclose([model.training_error_, model.leave_one_out_error_], wanted, rtol=1e-6)


def test_a_trend_keeps_ridge_regressions_error_where_that_is_the_truth() -> None:
    x, y = data("affine", 300)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    known, new = slice(0, 200), slice(200, 300)
    error, rival, without = (
        np.mean((model.fit(z[known], y[known]).predict(z[new]) - y[new]) ** 2)
        for model in (
            KernelRegressor(random_state=0),
            RidgeCV(np.logspace(-3, 3, 13)),
            KernelRegressor(random_state=0, trend=False),
        )
    )
    assert error < 1.1 * rival < without


def test_without_evidence_the_bits_are_those_without_a_trend() -> None:
    x, y = data("even")
    found, wanted = (KernelRegressor(random_state=0, trend=trend).fit(x, y) for trend in ("auto", False))
    assert type(found.learner_.kernel) is Gaussian
    assert np.array_equal(found.predict(x), wanted.predict(x))


def test_a_model_with_a_trend_goes_through_files_and_pickles_and_knows_its_deviation(tmp_path: Path) -> None:
    x, y = data("affine and curved")
    model = KernelRegressor(random_state=0).fit(x[:200], y[:200])
    assert isinstance(model.learner_.kernel, Trended)
    model.save(tmp_path / "model.npz")
    read = load_model(tmp_path / "model.npz")
    for found, wanted in zip(read.predict(x, return_std=True), model.predict(x, return_std=True), strict=True):
        assert np.array_equal(found, wanted)
    again = pickle.loads(pickle.dumps(model))
    for each in (model, again):
        each.partial_fit(x[200:], y[200:])
    assert np.array_equal(model.predict(x), again.predict(x))
    assert model.leave_one_out_error_ is None


def test_a_training_error_far_below_that_of_rows_left_out_is_said() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 30))
    y = np.prod(np.sign(x[:, :3]), axis=1)
    with pytest.warns(ConvergenceWarning, match="on a row left out"):
        model = KernelRegressor(110, random_state=0, ridge=0.01, bandwidth=3.0).fit(x[:150], y[:150])
    held_out = np.mean((model.predict(x[150:]) - y[150:]) ** 2) / np.var(y[150:])
    assert 5.0 * model.training_error_ < model.leave_one_out_error_
    assert 0.5 * held_out < model.leave_one_out_error_


@pytest.mark.parametrize("keys", [{"trend": "yes"}, {"trend": 1.0}, {"trend": True, "kernel": "matern"}])
def test_trends_that_cannot_be_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="trend"):
        KernelRegressor(**keys).fit(*data("affine", 40))
