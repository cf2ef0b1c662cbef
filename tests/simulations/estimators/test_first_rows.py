"""Rows one at a time are learned from as well as rows in chunks, and those that are refused leave no trace."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
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
    RefusedKey,
    load_model,
)
from kernelswarm.arrays import AnyArray

REGRESSORS = [PolkRegressor(), KernelRegressor(30), PolkRegressor("huber", budget=0.5)]
CLASSIFIERS = [PolkClassifier(), KernelClassifier(30), PolkClassifier("hinge")]
TRANSFORMERS = [OnlineKernelFeatures(4), BudgetedKernelFeatures(4, 9, bandwidth="median")]
ALL: list[Any] = [*REGRESSORS, *CLASSIFIERS, *TRANSFORMERS]
PREDICTORS: list[Any] = [*REGRESSORS, *CLASSIFIERS]


def data(samples: int = 300, seed: int = 0) -> tuple[AnyArray, AnyArray]:
    """Draw inputs far from the unit cube, as raw tables have them, and targets far from 0."""
    generator = np.random.default_rng(seed)
    x = 40.0 + 25.0 * generator.normal(size=(samples, 3))
    return x, 500.0 + 100.0 * np.sin(x[:, 0] / 25.0) + x[:, 1]


def learn(estimator: Any, x: AnyArray, y: AnyArray) -> Any:
    """Have an estimator learn from rows, as targets of its kind."""
    if hasattr(estimator, "transform"):
        return estimator.partial_fit(x)
    if hasattr(estimator, "decision_function"):
        return estimator.partial_fit(x, np.where(y > 500.0, "high", "low"), classes=["high", "low"])
    return estimator.partial_fit(x, y)


def answers(estimator: Any, x: AnyArray) -> AnyArray:
    for name in ("transform", "decision_function", "predict"):
        if hasattr(estimator, name):
            found: AnyArray = getattr(estimator, name)(x)
            return found
    raise AssertionError(estimator)


@pytest.mark.parametrize("sizes", [[1], [1, 99]])
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
    model, errors, means = clone(estimator), [0.0], [0.0]
    classifies = hasattr(model, "decision_function")
    for n in range(len(x)):
        if n and not classifies:
            errors.append(float(model.predict(x[n : n + 1])[0] - y[n]) ** 2)
            means.append(float(np.mean(y[:n]) - y[n]) ** 2)
        learn(model, x[n : n + 1], y[n : n + 1])
        twin = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(twin.predict(x), model.predict(x))
        assert model.model_order_ == len(model.dictionary_) == model.model_.model_order
    assert sum(errors) <= 1.2 * sum(means)
    assert not classifies or model.classes_.tolist() == ["high", "low"]
    model.save(tmp_path / "few.npz")
    np.testing.assert_array_equal(load_model(tmp_path / "few.npz").predict(x), model.predict(x))
    more, y_more = data(200, seed=1)
    for each in (model, twin):
        learn(each, more, y_more)
    np.testing.assert_array_equal(twin.predict(x), model.predict(x))  # the copy has kept the first rows as well


@pytest.mark.parametrize("place", [0, 40, 120])
@pytest.mark.parametrize("estimator", [PolkRegressor(), KernelRegressor(30), PolkClassifier(), *TRANSFORMERS])
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


def refuse(estimator: Any, row: AnyArray) -> None:
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


BEGUN: list[Any] = [
    PolkRegressor(random_state=0),
    KernelRegressor(30, random_state=0),
    PolkClassifier(random_state=0),
    KernelClassifier(30, random_state=0),
    OnlineKernelFeatures(4),
    BudgetedKernelFeatures(4, 9),
]
LOSSES = ("huber", "huber", "hinge", "logistic")

OTHERS: dict[str, Any] = {
    "loss": {type(model).__name__: loss for model, loss in zip(BEGUN, LOSSES, strict=False)},
    "kernel": "laplacian",
    "bandwidth": [20.0, 30.0, 25.0],
    "step_size": {"name": "constant", "value": 0.05},
    "batch_size": 3,
    "budget": {"per_sample": 0.4},
    "fit_intercept": False,
    "regularization": 0.01,
    "n_components": 9,
    "trend": False,
    "noise": "constant",
    "ridge": 0.7,
    "forgetting": 0.9,
    "rank": 3,
    "budget_size": 12,
    "recency": 0.5,
    "step": {"name": "power", "initial": 0.5, "offset": 10.0, "exponent": 0.5},
    "update": "parametric",
    "censoring": 0.3,
    "first": 110,
    "logarithms": True,
    "epochs": 2,
    "shuffle": False,
    "random_state": 7,
    "n_jobs": 2,
}
"""Of every parameter a value that is not its default."""


@pytest.mark.parametrize(
    ("estimator", "name"), [(estimator, name) for estimator in BEGUN for name in estimator.get_params()]
)
def test_a_parameter_that_changes_takes_effect_or_is_refused(estimator: Any, name: str) -> None:
    x, y = data(160)
    value = OTHERS[name][type(estimator).__name__] if name == "loss" else OTHERS[name]
    before, wanted = getattr(estimator, name), clone(estimator).set_params(**{name: value})
    read_later = name in ("epochs", "shuffle", "random_state", "n_jobs")  # by `fit`, or by each call
    # While first rows are kept it is as if it had been so from the beginning.
    model = learn(clone(estimator), x[:40], y[:40]).set_params(**{name: value})
    learn(model, x[40:45], y[40:45])
    if not read_later:
        np.testing.assert_array_equal(answers(model, x), answers(learn(clone(wanted), x[:45], y[:45]), x))
    learn(model, x[45:120], y[45:120])
    np.testing.assert_array_equal(answers(model, x), answers(learn(clone(wanted), x[:120], y[:120]), x))
    # Later it is refused, and leaves no trace.
    model, twin = (learn(clone(estimator), x[:120], y[:120]) for _ in range(2))
    model.set_params(**{name: value})
    if not read_later:
        message = f"^{name} = .* was .* when learning began, .*: call fit, or make a new estimator"
        with pytest.raises(RefusedKey, match=message):
            learn(model, x[120:], y[120:])
        model.set_params(**{name: copy.deepcopy(before)})
    learn(model, x[120:], y[120:])
    np.testing.assert_array_equal(answers(model, x), answers(learn(twin, x[120:], y[120:]), x))
    targets = np.where(y > 500.0, "high", "low") if hasattr(estimator, "decision_function") else y
    model.set_params(**{name: value}).fit(x, targets)
    np.testing.assert_array_equal(answers(model, x), answers(wanted.fit(x, targets), x))
    learn(model, x, y)
