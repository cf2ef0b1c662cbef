"""What is hidden under a mask is learned from, and predicted at, nowhere."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from kernelswarm import (
    BudgetedKernelFeatures,
    IncrementalClassifier,
    IncrementalRegressor,
    KernelClassifier,
    KernelRegressor,
    OnlineKernelFeatures,
    PolkClassifier,
    PolkRegressor,
    simulate,
)
from kernelswarm.simulations.data.gaps import unmasked

X = np.random.default_rng(0).normal(size=(120, 2))
Y = np.sin(X[:, 0])
LABELS = np.where(X[:, 0] > 0.0, "a", "b")
ESTIMATORS: list[Any] = [
    PolkRegressor(),
    KernelRegressor(30),
    PolkClassifier(),
    KernelClassifier(30),
    OnlineKernelFeatures(4),
    BudgetedKernelFeatures(4, 9),
]
ASKED = ("predict", "decision_function", "predict_proba", "predict_log_proba", "transform", "residuals")


def hidden(values: Any) -> Any:
    """Mask one entry."""
    mask = np.zeros(np.shape(values), bool)
    mask[3] = True
    return np.ma.array(values, mask=mask)


def calls(model: Any, targets: Any, change: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """Return every call that takes rows, targets or weights, with one of them changed."""
    first = {"classes": ["a", "b"]} if hasattr(model, "classes_") else {}
    weights, fresh = np.ones(120), clone(model)
    taken = {"X": ((change(X), targets), {}), "y": ((X, change(targets)), {})}
    if hasattr(model, "score"):
        taken["sample_weight"] = (X, targets), {"sample_weight": change(weights)}
    found: dict[str, Callable[[], Any]] = {}
    for what, (rows, keys) in taken.items():
        if what == "y" and not hasattr(model, "score"):
            continue  # transformers leave targets alone
        found[f"fit {what}"] = lambda rows=rows, keys=keys: clone(fresh).fit(*rows, **keys)
        found[f"begin {what}"] = lambda rows=rows, keys=keys: clone(fresh).partial_fit(*rows, **keys, **first)
        found[f"go on {what}"] = lambda rows=rows, keys=keys: copy.deepcopy(model).partial_fit(*rows, **keys)
        if hasattr(model, "score"):
            found[f"score {what}"] = lambda rows=rows, keys=keys: model.score(*rows, **keys)
    for name in ASKED:
        if hasattr(model, name):
            found[name] = lambda name=name: getattr(model, name)(change(X))
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_masked_values_are_refused_and_masks_of_nothing_are_not(estimator: Any) -> None:
    targets = LABELS if hasattr(estimator, "decision_function") else Y
    model = clone(estimator).fit(X, targets)
    for call in calls(model, targets, hidden).values():
        with pytest.raises(ValueError, match=r"has masked values, the first in row 3"):
            call()
    for name, call in calls(model, targets, lambda values: [*hidden(values)]).items():
        if "X" in name or name in ASKED:  # a list of rows that are masked
            with pytest.raises(ValueError, match=r"X has masked values, the first in row 3"):
                call()
    wanted = calls(model, targets, lambda values: values)
    for name, call in calls(model, targets, np.ma.array).items():
        if name in ASKED or name.startswith("score"):
            np.testing.assert_array_equal(call(), wanted[name]())
        else:
            call()


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element to nan:UserWarning")
@pytest.mark.parametrize("model", [IncrementalRegressor(), IncrementalClassifier()])
def test_one_sample_with_a_masked_value_leaves_no_trace(model: Any) -> None:
    nothing: Any = np.ma.masked
    for x, y, weight in (({"a": nothing}, 1.0, 1.0), ({"a": 1.0}, nothing, 1.0), ({"a": 1.0}, 1.0, nothing)):
        with pytest.raises(ValueError, match=r"masked|nan|is no label|NaN"):
            model.learn_one(x, y, weight)
    assert "nothing learned" in repr(model)


WAYS: list[Callable[[Any], Any]] = [
    hidden,
    lambda points: [*hidden(points)],
    lambda points: dict(enumerate(hidden(points).T)),
]


@pytest.mark.parametrize("way", WAYS)
def test_models_take_masked_values_for_gaps(way: Callable[[Any], Any]) -> None:
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 3}, "protocol": "isolated", "rounds": 20}
    of_run = simulate(data=(X, Y), learner="newton", **keys).model(0)
    for model in (KernelRegressor(30).fit(X, Y).model_, of_run):
        for asked in (model.predict, model.values, model.evaluate, model.variance, model.interval):
            with pytest.raises(ValueError, match=r"points: row 3, column .* is nan"):
                asked(way(X))
        np.testing.assert_array_equal(model.predict(np.ma.array(X)), model.predict(X))
    filling = simulate(
        data=(np.where(X > 2.0, np.nan, X), Y), learner="polk", stream={"missing": "mean"}, **keys
    ).model(0)
    gaps = X.copy()
    gaps[3] = np.nan
    np.testing.assert_array_equal(filling.predict(way(X)), filling.predict(gaps))


@pytest.mark.parametrize(
    ("values", "gap"),
    [([1.5, 2.5], np.nan), ([1, 2], np.nan), ([True, False], np.nan), (["u", "v"], ""), ([None, "v"], None)],
)
def test_every_type_has_its_gap(values: list[Any], gap: Any) -> None:
    found = unmasked(np.ma.array(np.array(values), mask=[False, True]))
    assert found[0] == values[0]
    assert found[1] is gap or found[1] == gap or (np.isnan(gap) and np.isnan(found[1]))
    times = unmasked(np.ma.array(np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), mask=[True, False]))
    assert np.isnat(times).tolist() == [True, False]
