"""A model that knows the names of its inputs takes them by name, wherever it comes from and whatever holds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow
import pytest
from matplotlib.figure import Figure
from pandas import DataFrame

from kernelswarm import (
    IncrementalClassifier,
    IncrementalRegressor,
    KernelRegressor,
    PolkClassifier,
    PolkRegressor,
    load_model,
    plot_model,
    run,
    save_model,
    simulate,
)
from kernelswarm.simulations.records.model import Model

RANDOM = np.random.default_rng(3)
X = RANDOM.uniform(size=(200, 2))
Y = np.sin(5.0 * X[:, 0]) + 3.0 * X[:, 1] ** 2
COLUMNS = {"warmth": X[:, 0], "depth": X[:, 1]}
TURNED = {"depth": X[:, 1], "note": np.array(["-"] * 200), "warmth": X[:, 0]}
KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 3},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.4}, "step_size": 0.3},
    "protocol": "isolated",
    "rounds": 40,
    "evaluate_every": 40,
}
FRAMES: list[Callable[[dict[str, Any]], Any]] = [
    dict,
    DataFrame,
    pyarrow.table,
    lambda columns: pyarrow.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()}),
    lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """Models of every kind that have learned from the same frame."""
    folder = tmp_path_factory.mktemp("models")
    result = simulate(data={**COLUMNS, "y": Y}, **KEYS, stream={"standardize": True})
    run(folder=folder / "run", data={**COLUMNS, "y": Y}, **KEYS)
    regressor = PolkRegressor(random_state=0).fit(pyarrow.table(COLUMNS), Y)
    regressor.save(folder / "estimator.npz")
    one_by_one = IncrementalRegressor(KernelRegressor(50), first=20)
    for warmth, depth, y in zip(*COLUMNS.values(), Y, strict=True):
        one_by_one.learn_one({"warmth": warmth, "depth": depth}, y)
    one_by_one.save(folder / "incremental.npz")
    save_model(result.model(1), folder / "model.npz")
    return {
        "result": result.model(1),
        "model file": load_model(folder / "model.npz"),
        "run folder": load_model(folder / "run", 2),
        "estimator": regressor.model_,
        "estimator's file": load_model(folder / "estimator.npz"),
        "incremental": one_by_one.model_,
        "incremental's file": load_model(folder / "incremental.npz"),
    }


def test_columns_are_picked_by_name_whatever_their_order_and_what_else_there_is(trained: dict[str, Model]) -> None:
    for where, model in trained.items():
        assert model.input_variables.names == ("warmth", "depth"), where
        expected = model.predict(X)
        assert np.std(expected) > 0.3, where
        for frame in FRAMES:
            np.testing.assert_array_equal(model.predict(frame(TURNED)), expected, where)
            np.testing.assert_array_equal(model.values(frame(TURNED)), model.values(X), where)
            np.testing.assert_array_equal(model.evaluate(frame(TURNED)), model.evaluate(X), where)


def test_a_missing_column_is_named_with_the_nearest_that_is_there(trained: dict[str, Model]) -> None:
    with pytest.raises(ValueError, match=r'did you mean "Depth "\?'):
        simulate(data={**COLUMNS, "y": Y}, **KEYS).model(0).predict({"Depth ": X[:, 1], "warmth": X[:, 0]})
    message = re.escape('points have no column "depth"; did you mean "dept"? They have dept, warmth, and need warmth')
    for model in trained.values():
        for frame in FRAMES[:4]:
            with pytest.raises(ValueError, match=message):
                model.predict(frame({"dept": X[:, 1], "warmth": X[:, 0]}))
        with pytest.raises(
            ValueError, match=r"no columns warmth, depth\. They have 0, 1, and need warmth, depth, in any"
        ):
            model.predict(DataFrame({0: X[:, 0], 1: X[:, 1]}))
        with pytest.raises(ValueError, match=r'row 1 has no "depth" .rows count from 0.: every row needs'):
            model.predict([{"warmth": 0.1, "depth": 0.2}, {"warmth": 0.1}])


def test_fitted_estimators_keep_the_rule_of_scikit_learn() -> None:
    estimator = PolkRegressor(random_state=0).fit(pyarrow.table(COLUMNS), Y)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        estimator.predict(pyarrow.table({"depth": X[:, 1], "warmth": X[:, 0]}))
    assert estimator.fit(X, Y).model_.input_variables.names == ()


def test_probabilities_and_pictures_take_frames_too() -> None:
    labels = np.where(X[:, 0] > 0.3 + 0.4 * X[:, 1], "warm", "cold")
    result = simulate(data={**COLUMNS, "y": labels}, **{**KEYS, "learner": {**KEYS["learner"], "loss": "logistic"}})
    model = result.model(0)
    np.testing.assert_array_equal(model.predict_proba(TURNED), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict(DataFrame(TURNED)), model.predict(X))
    drawn = [Figure().subplots() for _ in range(2)]
    for axes, points in zip(drawn, (X, TURNED), strict=True):
        plot_model(model, axes, points, labels)
    assert drawn[0].get_xlim() == drawn[1].get_xlim() and drawn[0].get_ylim() == drawn[1].get_ylim()


def test_what_holds_no_numbers_is_refused_by_its_column() -> None:
    model = simulate(data={**COLUMNS, "y": Y}, **KEYS).model(0)
    for values, message in (
        (np.array(["low"] * 200), 'points: row 1, column "depth" holds "low", which is not a number'),
        (np.array(["007"] * 200), 'points: row 1, column "depth" holds "007", which is text'),
        (np.array([None, *X[1:, 1]], dtype=object), 'points: row 0, column "depth" is nan'),
        (X, r'points: column "depth" has shape (200, 2) and must be (rows,)'),
        (np.array([0.0, np.nan, *X[2:, 1]]), 'points: row 1, column "depth" is nan (rows count from 0): every value'),
        (X[:7, 1], 'points: column "depth" has 7 rows and "warmth" 200'),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            model.predict({"warmth": X[:, 0], "depth": values})


def test_incremental_estimators_need_the_features_that_every_sample_had() -> None:
    model = IncrementalClassifier(PolkClassifier(random_state=0), first=40)
    for k, row in enumerate(X):
        sample = {"warmth": row[0], "depth": row[1]} | ({"snow": 1.0} if k % 3 == 0 else {})
        model.learn_one(dict(reversed(sample.items())) if k % 2 else sample, bool(row[0] > row[1]))
    turned = {"depth": 0.9, "warmth": 0.2}
    assert model.predict_proba_one(turned) == model.predict_proba_one({"warmth": 0.2, "depth": 0.9, "snow": 0.0})
    with pytest.raises(ValueError, match="x has no feature 'depth', which each of the first 40 samples had: give its"):
        model.predict_one({"warmth": 0.2})
    with pytest.raises(ValueError, match=r"x has the feature 'deph', .* every name has come; did you mean .depth.."):
        model.learn_one({"warmth": 0.2, "deph": 0.9}, True)
    with pytest.raises(ValueError, match="nothing has been learned yet: give samples"):
        _ = IncrementalRegressor().model_
