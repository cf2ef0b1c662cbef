"""The estimators with wild parameters and data: each ends with a result, or as scikit-learn's own do."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kernelswarm.simulations.estimators.estimators import PolkClassifier, PolkRegressor
from kernelswarm.simulations.estimators.kernel_features import BudgetedKernelFeatures, OnlineKernelFeatures
from tests.helpers import damage

MATRICES = {
    "plain": "random.normal(size=(30, 2))",
    "one column": "random.normal(size=(30, 1))",
    "one row": "random.normal(size=(1, 2))",
    "equal rows": "np.ones((30, 2))",
    "zeros": "np.zeros((30, 2))",
    "huge": "random.normal(size=(30, 2)) * 1e300",
    "large": "random.normal(size=(30, 2)) * 1e99",
    "one huge": "np.where(np.arange(60).reshape(30, 2) == 7, 1e300, 1.0)",
    "tiny": "random.normal(size=(30, 2)) * 1e-300",
    "nan": "np.where(np.arange(60).reshape(30, 2) == 7, np.nan, 1.0)",
    "whole": "np.arange(60).reshape(30, 2)",
    "flat": "np.zeros(30)",
    "empty": "np.zeros((0, 2))",
    "no columns": "np.zeros((30, 0))",
    "words": "np.array([['a', 'b']] * 30)",
    "float16": "random.normal(size=(30, 2)).astype(np.float16)",
    "wide": "random.normal(size=(30, 70))",
}
TARGETS = {
    "plain": "random.normal(size=30)",
    "classes": "np.arange(30) % 2",
    "three": "np.arange(30) % 3",
    "words": "np.array(['a', 'b'] * 15)",
    "mixed": "np.array(['a', 1] * 15, dtype=object)",
    "nothing": "np.array([None, 1] * 15, dtype=object)",
    "columns": "random.normal(size=(30, 2))",
    "huge": "random.normal(size=30) * 1e300",
    "large": "random.normal(size=30) * 1e99",
    "tiny": "random.normal(size=30) * 1e-300",
    "equal": "np.ones(30)",
    "short": "np.zeros(7)",
    "nan": "np.full(30, np.nan)",
    "truth": "np.arange(30) % 2 == 0",
}
ESTIMATORS = {
    "PolkRegressor": PolkRegressor,
    "PolkClassifier": PolkClassifier,
    "OnlineKernelFeatures": OnlineKernelFeatures,
    "BudgetedKernelFeatures": BudgetedKernelFeatures,
}


@st.composite
def estimators(draw: st.DrawFn) -> tuple[str, dict[str, Any], str, str, bool]:
    """Name an estimator, up to two wild parameters, X, y, and whether it learns in parts."""
    name = draw(st.sampled_from(sorted(ESTIMATORS)))
    known = sorted(ESTIMATORS[name]().get_params())
    wild = [*damage.WILD, *damage.NAMES, None]
    chosen = draw(st.lists(st.sampled_from(known), max_size=2, unique=True))
    small = [-1, 0, 1, 2, 5, 1.5, None, "a", [], True, float("nan")]
    sized = {*damage.SIZES, "n_jobs"}
    keys = {key: draw(st.sampled_from(small if key in sized else wild)) for key in chosen}
    x, y = (draw(st.one_of(st.just("plain"), st.sampled_from(sorted(table)))) for table in (MATRICES, TARGETS))
    return name, keys, x, y, draw(st.booleans())


def try_estimator(case: tuple[str, dict[str, Any], str, str, bool]) -> str:
    """Fit an estimator and predict, or transform."""
    name, keys, x, y, partial = case
    names = {"np": np, "random": np.random.default_rng(0)}
    points, targets = eval(MATRICES[x], names), eval(TARGETS[y], names)  # our own words, above
    estimator: Any = ESTIMATORS[name](**keys)
    try:
        if partial and name == "PolkClassifier":
            estimator.partial_fit(points, targets, classes=targets)
        else:
            (estimator.partial_fit if partial else estimator.fit)(points, targets)
        (estimator.predict if hasattr(estimator, "predict") else estimator.transform)(points)
    except (ValueError, FloatingPointError) as refusal:
        return refused(refusal)
    return "done"


def refused(refusal: Exception) -> str:
    """Return how a call ended that has refused its input; raises AssertionError where it does so without a word."""
    assert str(refusal).strip(), "a refusal without a word"
    return "refused"
