"""The loss of a sample is multiplied by its weight, in steps of the first and of the second order."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone

from kernelswarm import InputError, KernelClassifier, KernelRegressor, PolkClassifier, PolkRegressor
from kernelswarm.agents.compiled import passes
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.second_order.newton import Newton
from kernelswarm.agents.learners.weighted_loss import Weighted
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Absolute, Hinge, Huber, Logistic, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.squared_hinges import MulticlassSquaredHinge, SquaredHinge

Array = npt.NDArray[np.float64]

ESTIMATORS: list[Any] = [
    PolkRegressor(random_state=0),
    PolkRegressor("absolute", random_state=0),
    KernelRegressor(40, random_state=0),
    KernelRegressor(40, loss="huber", random_state=0),
    PolkClassifier(random_state=0),
    PolkClassifier("hinge", random_state=0),
    KernelClassifier(40, random_state=0),
    KernelClassifier(40, loss="squared_hinge", random_state=0),
]
LOSSES = [
    Squared(),
    Absolute(),
    Huber(0.5),
    Logistic(),
    Hinge(),
    MulticlassLogistic(),
    SquaredHinge(),
    MulticlassSquaredHinge(),
]


def data(samples: int = 240) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(5)
    x = generator.uniform(size=(samples, 2))
    return x, np.sin(5.0 * x[:, 0]) + x[:, 1], generator.choice([0.0, 0.5, 1.0, 2.0, 3.0], samples)


def targets(estimator: Any, y: Array) -> npt.NDArray[Any]:
    return np.where(y > np.median(y), "high", "low") if hasattr(estimator, "decision_function") else y


def answers(estimator: Any, x: Array) -> Array:
    found: Array = (estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict)(x)
    return found


@pytest.mark.parametrize("loss", LOSSES)
def test_the_weighted_loss_is_the_weight_times_the_loss(loss: Any) -> None:
    generator = np.random.default_rng(0)
    several = loss.task == "multiclass"
    predictions = generator.normal(size=(9, 3 if several else 1))
    aims = generator.normal(size=(9, 1)) if loss.task == "regression" else (np.arange(9.0) % 2)[:, None]
    weights = generator.uniform(size=9)
    weighted, both = Weighted(loss), np.column_stack([aims, weights])
    np.testing.assert_array_equal(weighted.values(predictions, both), weights * loss.values(predictions, aims))
    np.testing.assert_array_equal(
        weighted.derivatives(predictions, both), weights[:, None] * loss.derivatives(predictions, aims)
    )
    form, found, slopes = weighted.compiled, np.empty(9), np.empty(predictions.shape)
    form.values(form.numbers, predictions, both, found)
    np.testing.assert_array_equal(found, weighted.values(predictions, both))
    form.derivatives(form.numbers, predictions, both, slopes)
    np.testing.assert_array_equal(slopes, weighted.derivatives(predictions, both))
    form.curvatures(form.numbers, predictions, both, found)  # type: ignore[misc]
    np.testing.assert_array_equal(found, weighted.curvatures(predictions, both))
    if form.offers is not None:
        form.offers(form.numbers, predictions, both, found)
        np.testing.assert_array_equal(found, weighted.offers(predictions, both))


def test_a_first_order_step_is_as_many_times_as_long() -> None:
    x, y, weights = data()
    model = PolkRegressor(bandwidth=0.2, step_size=0.2, budget={"epsilon": 1e-3}, fit_intercept=False, batch_size=3)
    model.set_params(epochs=1, shuffle=False).fit(x, y, sample_weight=weights)
    learner = Polk(kernel=Gaussian(0.2), step_size=Constant(0.2), batch_size=3, budget=Epsilon(1e-3))
    state, some = learner.init(2, 1), weights > 0.0
    x_kept, y_kept, kept = x[some], y[some, None], weights[some, None]
    for start in range(0, len(x_kept), 3):
        batch = slice(start, start + 3)
        own = learner.evaluate(state, x_kept[batch])
        gradient = kept[batch] * learner.gradient(state, own, y_kept[batch]) * (len(own.points) / 3)
        learner.step(state, [own], [gradient], None, y_kept[batch])
    np.testing.assert_array_equal(model.predict(x), state.function.values(x)[:, 0])


@pytest.mark.parametrize("batch_size", [1, 8])
def test_second_order_steps_solve_the_weighted_least_squares_problem(batch_size: int) -> None:
    x, y, weights = data(60)
    keys: dict[str, Any] = {"bandwidth": 0.3, "ridge": 0.1, "budget": {"epsilon": 0.0}, "batch_size": batch_size}
    model = KernelRegressor(fit_intercept=False, step_size=0.1, **keys).fit(x, y, sample_weight=weights)
    gram = Gaussian(0.3).cross(x, x)
    # sum_n w_n (f(x_n) - y_n)^2 + 0.1 ||f||^2, over all functions: (W K + 0.1 I) a = W y
    exact = np.linalg.solve(weights[:, None] * gram + 0.1 * np.eye(60), weights * y)
    np.testing.assert_allclose(model.predict(x), gram @ exact, atol=1e-4)
    assert (
        np.abs(KernelRegressor(fit_intercept=False, step_size=0.1, **keys).fit(x, y).predict(x) - gram @ exact).max()
        > 0.01
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_one_and_rows_of_weight_zero_change_no_bit(estimator: Any) -> None:
    x, y, weights = data()
    y, some = targets(estimator, y), weights > 0.0
    plain, ones = (clone(estimator).fit(x, y, sample_weight=each) for each in (None, np.ones(len(x))))
    np.testing.assert_array_equal(answers(ones, x), answers(plain, x))
    whole, left = clone(estimator).fit(x, y, weights), clone(estimator).fit(x[some], y[some], weights[some])
    np.testing.assert_array_equal(answers(whole, x), answers(left, x))
    keys = {"classes": ["high", "low"]} if hasattr(estimator, "decision_function") else {}
    streams = [clone(estimator), clone(estimator), clone(estimator)]
    for n in range(len(x)):
        row, target, weight = x[n : n + 1], y[n : n + 1], weights[n : n + 1]
        streams[0].partial_fit(row, target, sample_weight=weight, **keys)
        if weight[0] > 0.0:
            streams[1].partial_fit(row, target, sample_weight=weight, **keys)
            streams[2].partial_fit(row, target, sample_weight=weight, **keys)
            streams[2] = pickle.loads(pickle.dumps(streams[2]))
    np.testing.assert_array_equal(answers(streams[0], x), answers(streams[1], x))
    np.testing.assert_array_equal(answers(streams[0], x), answers(streams[2], x))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_heavier_samples_are_met_better(estimator: Any) -> None:
    x, y, _ = data(600)
    left = x[:, 0] < 0.5
    contrary = np.concatenate([y, -y])  # every point twice, with two targets that exclude each other
    weights = np.concatenate([np.where(left, 12.0, 1.0), np.where(left, 1.0, 12.0)])
    aims = targets(estimator, contrary)
    model = clone(estimator).fit(np.concatenate([x, x]), aims, sample_weight=weights)
    wanted = np.where(left, aims[:600], aims[600:])
    score = model.score(x, wanted)
    other = clone(estimator).fit(np.concatenate([x, x]), aims, sample_weight=13.0 - weights).score(x, wanted)
    assert score > 0.5 > other + 0.2


@dataclass(frozen=True)
class Own(Squared):
    """A loss that hands nothing over."""


@pytest.mark.parametrize("learner", [Polk(step_size=Constant(0.1)), Newton(step_size=Constant(0.1))])
def test_steps_that_are_not_compiled_are_the_same(learner: Any) -> None:
    x, y, weights = data()
    both = np.column_stack([y, 0.5 + weights])
    found = []
    for loss in (Squared(), Own()):
        each = replace(learner, kernel=Gaussian(0.3), budget=Epsilon(1e-2), loss=Weighted(loss))
        state = each.init(2, 1)
        passes.learn(each, state, x, both)
        found.append(state.function.values(x))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(240, -1.0), r"^sample_weight\[0\] = -1 must be from 0"),
        (np.where(np.arange(240) == 7, np.nan, 1.0), r"^sample_weight\[7\] = nan must be from 0"),
        (np.ones(7), r"^sample_weight has shape \(7,\): X has 240 rows"),
        (np.ones((240, 2)), r"^sample_weight has shape \(240, 2\)"),
        (np.zeros(240), r"^all weights in sample_weight are zero"),
    ],
)
@pytest.mark.parametrize("estimator", [PolkRegressor(), KernelClassifier()])
def test_other_weights_are_refused(estimator: Any, weights: Array, message: str) -> None:
    x, y, _ = data()
    with pytest.raises(InputError, match=message):
        clone(estimator).fit(x, targets(estimator, y), sample_weight=weights)


def test_weights_with_which_steps_would_go_too_far_are_refused() -> None:
    x, y, _ = data()
    weights = np.where(np.arange(240) == 7, 20.0, 1.0)
    with pytest.raises(
        InputError, match=r"^sample_weight = 20 is too large for steps of eta / b = 0.1: .* is 4 and must"
    ):
        PolkRegressor(step_size=0.1).fit(x, y, sample_weight=weights)
    KernelRegressor(step_size=0.1).fit(x, y, sample_weight=weights)
    PolkRegressor().fit(x, y, sample_weight=weights)
