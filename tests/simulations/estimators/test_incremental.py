"""Samples that come one by one, as dicts, are learned from as the same rows in batches of one."""

from __future__ import annotations

import abc
import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from kernelswarm import (
    IncrementalClassifier,
    IncrementalRegressor,
    InputError,
    KernelRegressor,
    PolkClassifier,
    PolkRegressor,
)

RANDOM = np.random.default_rng(3)
X = RANDOM.uniform(size=(260, 2))
Y = np.sin(5.0 * X[:, 0]) + X[:, 1]
LABELS = np.where(X[:, 0] + X[:, 1] > 1.0, "over", "under")


def named(row: Any) -> dict[Any, float]:
    return {"a": float(row[0]), "b": float(row[1])}


@pytest.mark.parametrize("estimator", [PolkRegressor(), KernelRegressor(30), PolkRegressor("huber", bandwidth=0.4)])
def test_regression_is_that_of_the_same_rows_and_weights(estimator: Any) -> None:
    model, batched = IncrementalRegressor(estimator, first=60), clone(estimator).set_params(first=60)
    for k, (row, y) in enumerate(zip(X, Y, strict=True)):
        model.learn_one(named(row), y, 1.0 + k % 3)
        batched.partial_fit(row[None, :], [y], sample_weight=[1.0 + k % 3])
    found = [model.predict_one({"b": row[1], "a": row[0]}) for row in X[:20]]  # the order of the names is no matter
    assert found == batched.predict(X[:20]).tolist()
    assert not hasattr(estimator, "state_")  # a copy has learned


def test_classification_is_that_of_the_same_rows() -> None:
    model, batched = IncrementalClassifier(first=60), PolkClassifier(first=60)
    for row, label in zip(X, LABELS, strict=True):
        model.learn_one(named(row), label)
    batched.partial_fit(X[:60], LABELS[:60], classes=["under", "over"])
    for row, label in zip(X[60:], LABELS[60:], strict=True):
        batched.partial_fit(row[None, :], [label])
    assert [model.predict_one(named(row)) for row in X] == batched.predict(X).tolist()
    likely = model.predict_proba_one(named(X[0]))
    assert list(likely) == ["over", "under"]
    assert list(likely.values()) == batched.predict_proba(X[:1])[0].tolist()


def test_the_first_samples_are_learned_from_as_they_come() -> None:
    model, labels = IncrementalRegressor(first=50), IncrementalClassifier(first=6)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert labels.predict_one({"a": 1.0}) is None and labels.predict_proba_one({"a": 1.0}) == {}
    assert "nothing learned" in repr(model)
    for k in range(4):
        model.learn_one({"a": k}, k)
        labels.learn_one({"a": k}, "x")  # one label is no classification yet
    assert "points" in repr(model) and "nothing learned" in repr(labels)
    assert abs(model.predict_one({"a": 3.0}) - 3.0) < abs(1.5 - 3.0)
    assert labels.predict_proba_one({"a": 9.0}) == {"x": 1.0} and labels.predict_one({"a": 9.0}) == "x"
    labels.learn_one({"a": 7.0}, "y")
    assert set(labels.predict_proba_one({"a": 9.0})) == {"x", "y"}
    assert labels.predict_one({"a": 7.0}) == "y" and labels.predict_one({"a": 0.0}) == "x"


def test_names_and_labels_that_come_among_the_first_samples_are_learned() -> None:
    model, labels, batched = IncrementalRegressor(first=60), IncrementalClassifier(first=60), PolkRegressor(first=60)
    for k, (row, y) in enumerate(zip(X[:80], Y, strict=False)):
        features = {"a": row[0]} if k < 20 else named(row)
        assert np.isfinite(model.predict_one(named(row)))  # also where the name has not come yet
        model.learn_one(features, y)
        labels.learn_one(features, "early" if k < 20 else "middle" if k < 40 else "late")
    rows = X[:80].copy()
    rows[:20, 1] = 0.0
    batched.partial_fit(rows[:60], Y[:60])
    for row, y in zip(rows[60:], Y[60:80], strict=True):
        batched.partial_fit(row[None, :], [y])
    assert [model.predict_one(named(row)) for row in X] == batched.predict(X).tolist()
    assert set(labels.predict_proba_one(named(X[0]))) == {"early", "middle", "late"}
    with pytest.raises(ValueError, match="which are not among the classes"):
        labels.learn_one(named(X[0]), "too late")


@pytest.mark.parametrize("place", [0, 1, 40, 90])
def test_samples_that_are_refused_leave_no_trace(place: int) -> None:
    def predictions_after(model: Any, targets: Any, wrong: list[tuple[Any, Any]]) -> list[Any]:
        for k, (row, y) in enumerate(zip(X[:120], targets, strict=False)):
            if k == place:
                for features, target in wrong:
                    with pytest.raises(ValueError, match=r"x h|y |convert"):
                        model.learn_one(features, target)
                with pytest.raises(ValueError, match="sample_weight"):
                    model.learn_one(named(row), y, -1.0)
                model.learn_one({"new": 3.0}, y, 0.0)
            model.learn_one(named(row), y)
        return [model.predict_one(named(row)) for row in X]

    features = [({"a": value, "b": 1.0, "c": 1.0}, 1.0) for value in (np.nan, np.inf, 1e200, "red", None)]
    numbers = [*features, ({"a": 1.0, "b": 1.0}, np.nan), ({"a": 1.0}, None), ({"b": 1.0}, 1e200), ({"a": 1.0}, "red")]
    assert predictions_after(IncrementalRegressor(first=60), Y, numbers) == predictions_after(
        IncrementalRegressor(first=60), Y, []
    )
    texts = [(x, "over") for x, _ in features] + [({"a": 1.0}, None), ({"a": 1.0}, np.nan)]
    texts += [({"a": 1.0}, 3)] if place else []
    assert predictions_after(IncrementalClassifier(first=60), LABELS, texts) == predictions_after(
        IncrementalClassifier(first=60), LABELS, []
    )


def test_features_that_are_left_out_are_zero_and_new_ones_are_refused() -> None:
    model = IncrementalRegressor(first=60)
    for k, (row, y) in enumerate(zip(X[:80], Y, strict=False)):
        model.learn_one(named(row) if k % 5 else {"a": row[0]}, y)
    assert model.predict_one({"a": 0.5}) == model.predict_one({"b": 0.0, "a": 0.5})
    with pytest.raises(ValueError, match=r"x has the feature 'c', which none of the first 60 samples had"):
        model.predict_one({"c": 1.0})
    with pytest.raises(ValueError, match="x holds something else than numbers"):
        model.learn_one({"a": "red"}, 1.0)  # type: ignore[dict-item]


def test_labels_and_counts_that_do_not_fit_are_refused() -> None:
    model = IncrementalClassifier(first=4, classes=["over", "under"])
    for row, label in zip(X[:8], LABELS, strict=False):
        model.learn_one(named(row), label)
    with pytest.raises(ValueError, match=re.escape("y has the labels ['beside'], which are not among the classes")):
        model.learn_one(named(X[0]), "beside")
    with pytest.raises(InputError, match="first = 0 must be a whole number of at least 1"):
        IncrementalRegressor(first=0)


def test_river_takes_them_for_its_own_where_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """river is not installed here: what stands in for it has base classes as its own are, abstract ones."""
    stand_in = ModuleType("river.base")
    stand_in.Regressor = abc.ABCMeta("Regressor", (), {})  # type: ignore[attr-defined]
    stand_in.Classifier = abc.ABCMeta("Classifier", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "river.base", stand_in)
    assert isinstance(IncrementalRegressor(), stand_in.Regressor)
    assert isinstance(IncrementalClassifier(), stand_in.Classifier)
    assert IncrementalRegressor()._supervised
