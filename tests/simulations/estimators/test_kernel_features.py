"""The transformers: scikit-learn's own checks, and the linear learners that take their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelswarm import BudgetedKernelFeatures, InputError, OnlineKernelFeatures, build_part
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array


def plane(samples: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(samples, 2))


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    [
        OnlineKernelFeatures(3, kernel="matern", update="parametric", censoring="moving_average"),
        BudgetedKernelFeatures(4, 7, recency=0.9),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [OnlineKernelFeatures, BudgetedKernelFeatures])
def test_batches_continue_where_the_last_one_ended(kind: Any) -> None:
    x = plane(120)
    whole, parts = kind(5, bandwidth=1.0).fit(x), kind(5, bandwidth=1.0)
    for start in range(0, 120, 30):
        parts.partial_fit(x[start : start + 30])
    np.testing.assert_array_equal(parts.transform(x), whole.transform(x))
    np.testing.assert_array_equal(parts.basis_, whole.basis_)
    np.testing.assert_array_equal(whole.fit(x).transform(x), parts.transform(x))  # fit starts afresh


def test_the_transformer_follows_as_the_learner_does() -> None:
    x = plane(150)
    features = BudgetedKernelFeatures(5, 9, bandwidth=0.8, recency=0.9).fit(x)
    learner = build_part(
        "learner",
        {"name": "okfeb", "rank": 5, "budget_size": 9, "recency": 0.9, "kernel": Gaussian(0.8), "step_size": 0.1},
    )
    state = learner.init(2, 1)
    for point in x:
        own = learner.evaluate(state, point[None])
        learner.step(state, [own], [np.zeros((1, 1))], None, np.zeros((1, 1)))
    np.testing.assert_array_equal(features.points_, state.function.points)
    np.testing.assert_array_equal(features.transform(x), state.function.features(x))


def test_pegasos_is_scikit_learns_descent_with_a_step_of_one_over_lambda_t() -> None:
    # Pegasos (Shalev-Shwartz et al. 2011, figure 1): w <- (1 - 1/t) w + [y w.z < 1] y z / (lambda t).
    x = plane(400)
    labels = np.where(np.hypot(*x.T) < 1.1, 1.0, -1.0)
    z = BudgetedKernelFeatures(12, 30, bandwidth=1.0).fit(x).transform(x)
    alpha, w = 1e-2, np.zeros(12)
    for t, (row, label) in enumerate(zip(z, labels, strict=True), start=1):
        inside = label * (row @ w) < 1.0
        w = (1.0 - 1.0 / t) * w + inside * label / (alpha * t) * row
    pegasos = SGDClassifier(
        alpha=alpha, learning_rate="invscaling", eta0=1.0 / alpha, power_t=1.0, fit_intercept=False, shuffle=False
    ).partial_fit(z, labels, classes=[-1.0, 1.0])
    np.testing.assert_allclose(pegasos.coef_[0], w, rtol=1e-8, atol=1e-10)
    fresh = plane(300, 1)
    pipeline = make_pipeline(BudgetedKernelFeatures(12, 30, bandwidth=1.0), SGDClassifier(random_state=0))
    assert pipeline.fit(x, labels).score(fresh, np.where(np.hypot(*fresh.T) < 1.1, 1.0, -1.0)) > 0.9


def test_regularised_lms_is_scikit_learns_descent_with_a_constant_step() -> None:
    x = plane(300)
    y = np.sin(x[:, 0]) + x[:, 1]
    z = OnlineKernelFeatures(8, bandwidth=1.5).fit(x).transform(x)
    w = np.zeros(8)
    for row, target in zip(z, y, strict=True):
        w = (1.0 - 0.3 * 1e-3) * w - 0.3 * (row @ w - target) * row
    lms = SGDRegressor(alpha=1e-3, learning_rate="constant", eta0=0.3, fit_intercept=False, shuffle=False)
    np.testing.assert_allclose(lms.partial_fit(z, y).coef_, w, rtol=1e-8)
    assert np.mean((z @ w - y) ** 2) < 0.2 * np.var(y)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (BudgetedKernelFeatures(10, 5), "rank = 10 must not be above budget_size = 5"),
        (BudgetedKernelFeatures(recency=0.0), r"recency = 0.0 must be in \(0, 1\]"),
        (BudgetedKernelFeatures(budget_size=2.5), "budget_size = 2.5 must be"),
        (OnlineKernelFeatures(0), "rank = 0 must be at least 1"),
        (OnlineKernelFeatures(regularization=0.0), "regularization = 0.0 must be positive"),
        (OnlineKernelFeatures(update="both"), 'update = "both" must be'),
        (OnlineKernelFeatures(step="normal"), 'step = "normal" .*did you mean "normalized"'),
        (OnlineKernelFeatures(censoring=-1.0), "censoring = -1.0 must not be negative"),
        (OnlineKernelFeatures(censoring={"name": "moving_average", "window": 0}), "censoring.window = 0 must be"),
    ],
)
def test_values_out_of_range_are_refused(estimator: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}"):
        estimator.fit(plane(20))
