"""Rows one at a time are learned from as well as rows in chunks, and those that are refused leave no trace."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone

from kernelswarm import (
    BudgetedKernelFeatures,
    InputError,
    KernelClassifier,
    KernelRegressor,
    OnlineKernelFeatures,
    PolkClassifier,
    PolkRegressor,
    load_model,
)

Array = npt.NDArray[Any]

REGRESSORS = [PolkRegressor(), KernelRegressor(30), PolkRegressor("huber", budget=0.5)]
CLASSIFIERS = [PolkClassifier(), KernelClassifier(30), PolkClassifier("hinge")]
TRANSFORMERS = [OnlineKernelFeatures(4), BudgetedKernelFeatures(4, 9, bandwidth="median")]
ALL: list[Any] = [*REGRESSORS, *CLASSIFIERS, *TRANSFORMERS]
PREDICTORS: list[Any] = [*REGRESSORS, *CLASSIFIERS]


def data(samples: int = 300, seed: int = 0) -> tuple[Array, Array]:
    """Draw inputs far from the unit cube, as raw tables have them, and targets far from 0."""
    generator = np.random.default_rng(seed)
    x = 40.0 + 25.0 * generator.normal(size=(samples, 3))
    return x, 500.0 + 100.0 * np.sin(x[:, 0] / 25.0) + x[:, 1]


def learn(estimator: Any, x: Array, y: Array) -> Any:
    """Have an estimator learn from rows, as targets of its kind."""
    if hasattr(estimator, "transform"):
        return estimator.partial_fit(x)
    if hasattr(estimator, "decision_function"):
        return estimator.partial_fit(x, np.where(y > 500.0, "high", "low"), classes=["high", "low"])
    return estimator.partial_fit(x, y)


def answers(estimator: Any, x: Array) -> Array:
    for name in ("transform", "decision_function", "predict"):
        if hasattr(estimator, name):
            found: Array = getattr(estimator, name)(x)
            return found
    raise AssertionError(estimator)


@pytest.mark.parametrize("sizes", [[1], [60], [1, 99]])
@pytest.mark.parametrize("estimator", ALL)
def test_what_is_learned_does_not_depend_on_how_the_first_rows_come(estimator: Any, sizes: list[int]) -> None:
    x, y = data()
    whole, parts, start = clone(estimator), clone(estimator), 0
    while start < 100:
        size = sizes[min(start, len(sizes) - 1)]
        learn(parts, x[start : start + size], y[start : start + size])
        start += size
    learn(whole, x[:start], y[:start])
    for model in (whole, parts):
        learn(model, x[start:], y[start:])
    np.testing.assert_array_equal(answers(parts, x), answers(whole, x))


@pytest.mark.parametrize("estimator", REGRESSORS[:2])
def test_rows_one_at_a_time_err_as_chunks_do(estimator: Any) -> None:
    x, y = data(600)
    errors = []
    for size in (1, 100):
        model, squares = clone(estimator), []
        for start in range(0, len(x), size):
            if start:
                squares.append((model.predict(x[start : start + size]) - y[start : start + size]) ** 2)
            model.partial_fit(x[start : start + size], y[start : start + size])
        errors.append(float(np.concatenate(squares)[-500:].mean()))
    assert errors[0] < 1.1 * errors[1] < 0.5 * np.var(y)


@pytest.mark.parametrize("estimator", PREDICTORS)
def test_few_rows_are_enough_to_predict_save_and_copy(estimator: Any, tmp_path: Path) -> None:
    x, y = data(40)
    model, errors, means = clone(estimator), [], []
    for n in range(len(x)):
        if n:
            found = model.predict(x[n : n + 1])
            if not hasattr(model, "decision_function"):
                errors.append(float(found[0] - y[n]) ** 2)
                means.append(float(np.mean(y[:n]) - y[n]) ** 2)
        learn(model, x[n : n + 1], y[n : n + 1])
        assert model.n_features_in_ == 3
        twin = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(twin.predict(x), model.predict(x))
        assert model.model_order_ == len(model.dictionary_) == model.model_.model_order
    if hasattr(model, "classes_"):
        assert model.classes_.tolist() == ["high", "low"]
    model.save(tmp_path / "few.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "few.npz").predict(x), model.predict(x))
    more, y_more = data(200, seed=1)
    for each in (model, twin):
        learn(each, more, y_more)
    np.testing.assert_array_equal(twin.predict(x), model.predict(x))  # the copy has kept the first rows as well
    assert sum(errors) <= 1.2 * sum(means)


@pytest.mark.parametrize("place", [0, 40, 120])
@pytest.mark.parametrize("estimator", ALL)
def test_rows_that_are_refused_leave_no_trace(estimator: Any, place: int) -> None:
    x, y = data(140)
    clean, tried = clone(estimator), clone(estimator)
    for n in range(len(x)):
        row, target = x[n : n + 1], y[n : n + 1]
        if n == place:
            before = set(vars(tried))
            for value in (np.nan, np.inf, 1e200):
                wrong = row.copy()
                wrong[0, 1] = value
                with pytest.raises(ValueError, match="X"):
                    learn(tried, wrong, target)
                with pytest.raises(ValueError, match="X"):
                    learn(tried, np.concatenate([row, wrong]), np.repeat(target, 2))
            refuse(tried, row)
            assert set(vars(tried)) == before
        learn(clean, row, target)
        learn(tried, row, target)
    np.testing.assert_array_equal(answers(tried, x), answers(clean, x))


def refuse(estimator: Any, row: Array) -> None:
    """Offer what only this kind of estimator refuses: targets, weights, labels."""
    if hasattr(estimator, "transform"):
        return
    classifies = hasattr(estimator, "decision_function")
    targets: list[Any] = ["other", None, np.nan] if classifies else [np.nan, np.inf, 1e200, None]
    keys = {"classes": ["high", "low"]} if classifies else {}
    for target in targets:
        with pytest.raises(ValueError, match=r"y|label|convert"):
            estimator.partial_fit(row, [target], **keys)
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match=r"sample_weight\[0\] = .* must be from 0"):
            estimator.partial_fit(row, ["high"] if classifies else [1.0], sample_weight=[weight], **keys)


def test_the_callers_arrays_may_change_after_the_call() -> None:
    x, y = data(120)
    kept, reused, row = PolkRegressor(), PolkRegressor(), np.empty((1, 3))
    for n in range(len(x)):
        row[:] = x[n]
        kept.partial_fit(x[n : n + 1], y[n : n + 1])
        reused.partial_fit(row, y[n : n + 1])
    np.testing.assert_array_equal(reused.predict(x), kept.predict(x))


@pytest.mark.parametrize("first", [0, -1, 1.5, True, "many"])
def test_other_numbers_of_first_rows_are_refused(first: Any) -> None:
    with pytest.raises(InputError, match=r"first = .* must be a whole number of at least 1"):
        PolkRegressor(first=first).partial_fit(*data(10))


def test_one_first_row_is_begun_with_for_ever() -> None:
    x, y = data()
    model = PolkRegressor(first=1).partial_fit(x[:1], y[:1]).partial_fit(x[1:], y[1:])
    assert model.intercept_ == y[:1]
