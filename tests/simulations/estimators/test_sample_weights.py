"""The loss of a sample is multiplied by its weight, in steps of the first and of the second order."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from kernelswarm import (
    IncrementalClassifier,
    IncrementalRegressor,
    InputError,
    KernelClassifier,
    KernelRegressor,
    PolkClassifier,
    PolkRegressor,
    RefusedKey,
)
from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.learners.weighted_loss import Weighted
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassLogistic,
    MulticlassSquaredHinge,
    Squared,
    SquaredHinge,
)
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.estimators.rows import Samples, thinned, unit_of

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


def targets(estimator: Any, y: Array) -> AnyArray:
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
    assert np.abs(model.fit(x, y).predict(x) - gram @ exact).max() > 0.01


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_one_and_rows_of_weight_zero_change_no_bit(estimator: Any) -> None:
    x, y, weights = data()
    y, some = targets(estimator, y), weights > 0.0
    plain, ones = (clone(estimator).fit(x, y, sample_weight=each) for each in (None, np.ones(len(x))))
    np.testing.assert_array_equal(answers(ones, x), answers(plain, x))
    whole, left = clone(estimator).fit(x, y, weights), clone(estimator).fit(x[some], y[some], weights[some])
    np.testing.assert_array_equal(answers(whole, x), answers(left, x))
    keys = {"classes": ["high", "low"]} if hasattr(estimator, "decision_function") else {}
    every, heavy = clone(estimator), clone(estimator)
    for n in range(len(x)):
        row, target, weight = x[n : n + 1], y[n : n + 1], weights[n : n + 1]
        every.partial_fit(row, target, sample_weight=weight, **keys)
        if weight[0] > 0.0:
            heavy.partial_fit(row, target, sample_weight=weight, **keys)
            heavy = pickle.loads(pickle.dumps(heavy)) if n % 50 == 0 else heavy
    np.testing.assert_array_equal(answers(every, x), answers(heavy, x))


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
    "learner",
    [
        Newton(budget=Epsilon(0.0), kernel=Gaussian(0.05)),  # all points: which are kept depends on lengths of steps
        Newton(budget=Epsilon(0.0), kernel=Gaussian(0.05), batch_size=30),  # with matrix products
        Krls(batch_size=3, kernel=Gaussian(0.3)),
        Rls(features=30, kernel=Gaussian(0.3)),
        Rls(features=30, kernel=Gaussian(0.3), process_noise=1e-3),
    ],
    ids=["newton", "newton blocked", "krls", "rls", "random walk"],
)
def test_a_target_of_weight_w_has_the_noise_of_weight_1_over_w(learner: Any) -> None:
    x, y, _ = data(420)
    plain, y = replace(learner, ridge=0.1, step_size=Constant(0.2)), y[:, np.newaxis]
    weighted = replace(plain, ridge=0.4, loss=Weighted(Squared()))
    noise = []
    for each, targets in ((plain, y), (weighted, np.column_stack([y, np.full_like(y, 4.0)]))):
        compiled, stepped = each.init(2, 1), each.init(2, 1)
        passes.learn(each, compiled, x, targets)
        for first in range(0, len(x), each.batch_size):
            some = slice(first, first + each.batch_size)
            at = each.evaluate(stepped, x[some])
            each.step(stepped, [at], [each.gradient(stepped, at, targets[some])], None, targets[some])
        np.testing.assert_allclose(each.noise(compiled), each.noise(stepped), rtol=1e-9)
        noise.append(each.noise(compiled)[0])
    np.testing.assert_allclose(noise[1], 4.0 * noise[0], rtol=1e-5)


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


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "estimator",
    [
        PolkRegressor(),
        PolkRegressor("huber"),
        PolkRegressor("absolute"),
        PolkClassifier(),
        PolkClassifier("squared_hinge"),
    ],
)
def test_a_later_row_may_be_as_heavy_as_steps_allow(estimator: Any, given: bool) -> None:
    x, y, _ = data()
    y, keys = targets(estimator, y), {"classes": ["high", "low"]} if hasattr(estimator, "decision_function") else {}
    model = clone(estimator).set_params(bandwidth=0.3, **({"step_size": 0.1} if given else {}))
    model.partial_fit(x[:120], y[:120], sample_weight=np.full(120, 0.5), **keys)
    learner = model.learner_
    curvature, unit = learner.loss.curvature, 1.0 if given else 0.5
    if curvature > 1.0:  # the slope grows with the error: a step of 2 / l'' at a point goes as far beyond it
        bound = unit * 2.0 / (learner.step_size.at(model.state_.steps) * curvature)
    else:
        bound = np.inf if given else 0.5 * (5.0 if learner.loss.task == "regression" else 100.0)
    other = clone(estimator).set_params(**model.get_params())
    other.partial_fit(x[:120], y[:120], sample_weight=np.full(120, 0.5), **keys)
    other.partial_fit(x[120:121], y[120:121], sample_weight=[min(0.999 * bound, 1e6)])
    if bound == np.inf:
        return
    with pytest.raises(InputError, match=r"^sample_weight = .* is too large for steps .* must be below") as refused:
        model.partial_fit(x[120:121], y[120:121], sample_weight=[1.001 * bound])
    assert ("step_size" in str(refused.value)) == given  # no key that nobody gave
    assert f"use Kernel{type(model).__name__[4:]}" in str(refused.value)
    # As the sentence says: among the first rows, or with a smaller step.
    again = clone(model).set_params(step_size=0.01) if given else clone(model)
    rows = slice(None) if given else slice(1, None)
    again.partial_fit(x[:121], y[:121], sample_weight=[*np.full(120, 0.5), 1.001 * bound], **keys)
    again.partial_fit(x[rows], y[rows], sample_weight=np.full(len(x[rows]), 1.001 * bound))
    if not given:
        few = clone(model).partial_fit(x[:30], y[:30], sample_weight=np.full(30, 0.5), **keys)
        few.partial_fit(x[30:31], y[30:31], sample_weight=[1.001 * bound])
        clone(model).fit(x, y, np.where(np.arange(240) == 7, 20.0, 1.0))


def learned(estimator: Any, how: str, x: Array, y: AnyArray, weights: Array) -> Array:
    """Return all that an estimator predicts, learned at once, in chunks or, the first rows, one by one."""
    model, classifies = clone(estimator), hasattr(estimator, "decision_function")
    if how == "fit":
        model.fit(x, y, sample_weight=weights)
    elif how == "chunks":
        for start in range(0, len(x), 60):
            rows, keys = slice(start, start + 60), {"classes": ["high", "low"]} if classifies else {}
            model.partial_fit(x[rows], y[rows], sample_weight=weights[rows], **keys)
    else:
        kind = IncrementalClassifier(model, classes=["high", "low"]) if classifies else IncrementalRegressor(model)
        for row, aim, weight in zip(x[:40], y[:40], weights[:40], strict=True):
            kind.learn_one(dict(enumerate(row)), aim, float(weight))
        model = kind.estimator
    if classifies:
        return np.column_stack([model.decision_function(x), model.predict_proba(x)])
    known = isinstance(model, KernelRegressor) and model.loss == "squared"
    return np.column_stack(model.predict(x, return_std=True) if known else [model.predict(x)])


@pytest.mark.parametrize("how", ["fit", "chunks", "rows"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_only_ratios_of_weights_count_where_no_number_was_given(estimator: Any, how: str) -> None:
    x, y, weights = data()
    y = targets(estimator, y)
    for each in (np.ones(len(x)), weights):
        expected = learned(estimator, how, x, y, each)
        for scale in (1.0 / len(x), 1e6, 1e-300) if how == "fit" else (1.0 / len(x),):
            np.testing.assert_allclose(learned(estimator, how, x, y, scale * each), expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0 / 240, 20.0])
def test_numbers_of_the_users_stand_beside_weights_as_they_are(scale: float) -> None:
    x, y, weights = data()
    given: dict[str, Any] = {"bandwidth": 0.3, "budget": {"epsilon": 1e-3}, "random_state": 0}
    one = KernelRegressor(ridge=0.1, step_size=0.1, **given).fit(x, y, weights)
    other = KernelRegressor(ridge=0.1 * scale, step_size=0.1 / scale, **given).fit(x, y, scale * weights)
    np.testing.assert_allclose(other.predict(x), one.predict(x), atol=1e-9)
    assert np.abs(one.fit(x, y, scale * weights).predict(x) - other.predict(x)).max() > 1e-3
    steps = PolkRegressor(step_size=0.01, regularization=0.0, **given).fit(x, y, weights)
    alike = PolkRegressor(step_size=0.01 / scale, regularization=0.0, **given).fit(x, y, scale * weights)
    np.testing.assert_allclose(alike.predict(x), steps.predict(x), atol=1e-9)


@pytest.mark.parametrize("pair", [(1.0, 1e-12), (1e100, 1e-300)])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_next_to_no_weight_are_as_good_as_left_out(estimator: Any, pair: tuple[float, float]) -> None:
    x, y, _ = data(200)
    generator = np.random.default_rng(1)
    far, wrong = 100.0 * generator.normal(size=x.shape), 1000.0 * generator.normal(size=len(y))
    far[::2] = x[::2]
    both, weights = np.concatenate([x, far]), np.repeat(pair, 200)
    aims = targets(estimator, np.concatenate([y, wrong]))
    model, alone = clone(estimator).fit(both, aims, weights), clone(estimator).fit(x, aims[:200])
    assert model.score(x, aims[:200]) > alone.score(x, aims[:200]) - 0.05
    if getattr(model, "temperature_", None) is not None:
        assert model.temperature_ == pytest.approx(alone.temperature_, rel=0.5)


def test_defaults_are_measured_on_as_much_of_each_stretch_of_rows_as_weighs() -> None:
    x, y, _ = data(500)
    weights = np.random.default_rng(3).exponential(size=500) ** 3
    unit, samples = unit_of(weights), Samples(x, y[:, None], weights)
    found = thinned(samples)
    so_far = np.zeros(500)
    so_far[np.isin(x[:, 0], found.points[:, 0])] = found.weights
    assert np.abs(np.cumsum(so_far) - np.cumsum(weights)).max() <= 0.5 * unit * (1.0 + 1e-9)
    assert thinned(samples._replace(weights=None)).size == thinned(samples._replace(weights=0.1 + 0.0 * y)).size == 500


@pytest.mark.parametrize("kind", [KernelRegressor, PolkRegressor])
def test_weights_beyond_the_range_of_the_first_rows_are_refused(kind: Any) -> None:
    x, y, _ = data()
    model = kind().partial_fit(x[:120], y[:120], sample_weight=np.full(120, 1e-3))
    with pytest.raises(InputError, match=r"^sample_weight = 1.001e\+27 is more than 1e\+30 times 0.001"):
        model.partial_fit(x[120:121], y[120:121], sample_weight=[1.001e27])
    if kind is KernelRegressor:
        model.partial_fit(x[120:121], y[120:121], sample_weight=[0.999e27])
        assert model.predict(x[120:121]) == pytest.approx(y[120:121], abs=1e-3)


@pytest.mark.parametrize(
    ("estimator", "x", "y", "message"),
    [
        (PolkRegressor(kernel="linear"), 1e-8, 1.0, "the units of X and y ask for steps of eta"),
        (PolkRegressor("absolute"), 1.0, 1e50, "the units of X and y ask for steps of eta"),
        (PolkClassifier(kernel="linear"), 1e-8, 1.0, "the units of X ask for steps of eta"),
        (KernelRegressor(kernel="linear"), 0.0, 1.0, "kernel = .* is 0 at most"),
        (KernelClassifier(kernel="linear"), 0.0, 1.0, "kernel = .* is 0 at most"),
        (KernelClassifier(kernel={"name": "polynomial", "degree": 3}), 1e60, 1.0, "kernel = .* is inf at most"),
        (KernelRegressor(), 1.0, 1e-200, "y varies by "),
        (KernelRegressor(), 1.0, 1e90, "y has a value of "),
        (PolkRegressor(regularization=20.0), 1.0, 1.0, "regularization = 20 must be below "),
    ],
)
def test_refusals_name_what_was_given(estimator: Any, x: float, y: float, message: str) -> None:
    points, values, _ = data()
    with pytest.raises((InputError, RefusedKey, FloatingPointError), match=f"^{message}") as refused:
        clone(estimator).fit(x * points, targets(estimator, y * values))
    given = [key for key, value in estimator.get_params().items() if value != type(estimator)().get_params()[key]]
    others = set(estimator.get_params()) - set(given)
    assert not [key for key in others if key in str(refused.value)]
    if "scale" in message or "units" in message:  # the remedy
        clone(estimator).fit(points, targets(estimator, values))
