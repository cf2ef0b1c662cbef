"""Variances of functions: those of the exact Gaussian process, its prior far away, and not below it when compressed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from kernelswarm import KernelRegressor
from kernelswarm.agents.learners.certainty import Posterior
from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian, Linear
from kernelswarm.agents.parts.losses import Huber, Logistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from tests.helpers.steps import learn, step

KERNEL, RIDGE, NOISE = Gaussian(0.3), 0.25, 0.2
COMMON: dict[str, Any] = {"kernel": KERNEL, "ridge": RIDGE, "step_size": Constant(0.1)}
EXACT = (Newton(**COMMON, budget=Epsilon(0.0)), Krls(**COMMON, dependency=1e-8))


def samples(count: int, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    points = random.uniform(-2.0, 2.0, (count, 2))
    values = np.column_stack([np.sin(2.0 * points[:, 0]) + points[:, 1], points.sum(axis=1)])
    return points, values + random.normal(size=values.shape) * [NOISE, 3.0 * NOISE]


def exact_variance(points: Array, at: Array, weights: Array | None = None) -> Array:
    """v(x) of a process of prior covariance kappa / ridge and noise of variance 1 over the weights."""
    noise = np.eye(len(points)) if weights is None else np.diag(1.0 / weights)
    prior = KERNEL.cross(points, points) / RIDGE
    cross = KERNEL.cross(at, points) / RIDGE
    return 1.0 / RIDGE - np.einsum("ij,ji->i", cross, np.linalg.solve(prior + noise, cross.T))


@pytest.mark.parametrize("learner", [*EXACT, *(replace(one, batch_size=5) for one in EXACT)], ids=repr)
def test_mean_and_variance_are_those_of_the_gaussian_process(learner: Any) -> None:
    points, targets = samples(50)
    at = np.concatenate([samples(40, 1)[0], [[40.0, -40.0]]])
    state = learn(learner, points, targets)
    posterior = learner.posterior(state)
    assert learner.function(state).order == len(points)  # nothing was compressed
    prior = ConstantKernel(1.0 / RIDGE, "fixed") * RBF(0.3, "fixed")
    process = GaussianProcessRegressor(prior, alpha=1.0, optimizer=None)
    mean, deviation = process.fit(points, targets[:, 0]).predict(at, return_std=True)
    np.testing.assert_allclose(learner.evaluate(state, at).values[:, 0], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(posterior.variance(at), deviation**2, rtol=1e-8)
    np.testing.assert_allclose(posterior.variance(at), exact_variance(points, at), rtol=1e-8)
    assert posterior.variance(at)[-1] == pytest.approx(1.0 / RIDGE, rel=1e-12)  # the prior's
    assert learner.init(2, 1) and learner.posterior(learner.init(2, 1)).variance(at) == pytest.approx(1.0 / RIDGE)


PULLED = [
    *EXACT,
    replace(EXACT[1], ridge=0.0),
    *(Rls(**COMMON, features=12, process_noise=noise) for noise in (0.0, 0.05)),
]


@pytest.mark.parametrize("learner", PULLED, ids=repr)
def test_a_pull_moves_the_function_as_the_inner_products_say(learner: Any) -> None:
    points, targets = samples(40)
    state, pull = learn(learner, points, targets), np.array([[0.3, -0.1], [0.2, 0.4]])
    at = learner.evaluate(state, points[[3, 30]])  # without a ridge nothing is known beyond the span
    expected = at.values - 0.1 * learner.inner(state, at) @ pull  # eta / b
    learner.step(state, [at], [pull], [1.0], np.zeros((0, 2)), 0.2)
    np.testing.assert_allclose(state.function.values(points[[3, 30]]), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("budget", [0.001, 0.03, 0.3])
def test_a_compressed_dictionary_is_seldom_surer_than_the_exact_process(budget: float) -> None:
    """The attack: samples near each other and near those that were dropped, whose projections count as samples do."""
    random = np.random.default_rng(3)
    around = random.uniform(-1.0, 1.0, (12, 2))
    points = around[random.integers(12, size=400)] + 0.02 * random.normal(size=(400, 2))
    targets = np.sin(3.0 * points[:, :1]) + NOISE * random.normal(size=(400, 1))
    at = np.concatenate([around, points[:50], random.uniform(-1.2, 1.2, (100, 2))])
    learner = Newton(**COMMON, budget=Epsilon(budget))
    ratios = learner.posterior(learn(learner, points, targets)).variance(at) / exact_variance(points, at)
    assert ratios.min() > 0.3 and np.median(ratios) > 0.99, np.quantile(ratios, [0.0, 0.5])


def test_on_a_fixed_dictionary_certainty_is_overstated_by_no_more_than_what_lies_beyond_it() -> None:
    """At points of the span v >= exact / (1 + t), t the largest eigenvalue of what projection takes of the prior."""
    random = np.random.default_rng(5)
    first, others = random.uniform(-1.0, 1.0, (8, 2)), random.uniform(-1.0, 1.0, (120, 2))
    points = np.concatenate([first, others])
    learner = replace(EXACT[1], dependency=0.05)
    state = learner.init(2, 1)
    for place, point in enumerate(points):  # then a point must lie wholly outside to enter
        learner = learner if place < len(first) else replace(learner, dependency=0.999)
        step(learner, state, point[np.newaxis], np.ones((1, 1)))
    dictionary = state.function.points
    assert len(dictionary) == len(first)
    cross = KERNEL.cross(points, dictionary)
    projected = cross @ np.linalg.solve(KERNEL.cross(dictionary, dictionary), cross.T)
    beyond = np.linalg.eigvalsh(KERNEL.cross(points, points) - projected).max() / RIDGE
    ratios = learner.posterior(state).variance(dictionary) / exact_variance(points, dictionary)
    assert (ratios <= 1.0 + 1e-8).all() and (ratios >= 1.0 / (1.0 + beyond)).all(), (ratios, beyond)


def test_random_features_have_the_variance_of_bayesian_linear_regression() -> None:
    points, targets = samples(80)
    at = samples(20, 1)[0]
    for kernel in (KERNEL, Linear(offset=1.0)):
        learner = Rls(kernel=kernel, ridge=RIDGE, step_size=Constant(0.1), features=30)
        state = learn(learner, points, targets)
        phi, features = (state.function.features(x) for x in (points, at))
        information = phi.T @ phi + np.diag(learner.ridges(state)) / learner.loss.curvature
        wanted = np.einsum("ij,ji->i", features, np.linalg.solve(information, features.T))
        np.testing.assert_allclose(learner.posterior(state).variance(at), wanted, rtol=1e-9)


@pytest.mark.parametrize("learner", [*EXACT, Rls(**COMMON), replace(EXACT[0], batch_size=8)])
def test_the_noise_is_learned_for_each_output(learner: Any) -> None:
    found, learner = [], replace(learner, kernel=Gaussian(1.0), ridge=0.1)
    for seed in range(4):
        random = np.random.default_rng(seed)
        points = random.uniform(-2.0, 2.0, (400, 2))
        targets = np.sin(points) + random.normal(size=(400, 2)) * [NOISE, 3.0 * NOISE]
        found.append(learner.posterior(learn(learner, points, targets)).noise)
    np.testing.assert_allclose(np.sqrt(np.mean(found, axis=0)), [NOISE, 3.0 * NOISE], rtol=0.08)


def test_innovations_over_their_predicted_variance_are_what_the_noise_is_made_of() -> None:
    points, targets = samples(30)
    learner = EXACT[0]
    mean = np.zeros(2)
    for n in range(len(points)):
        before = learn(learner, points[:n], targets[:n])
        error = targets[n] - learner.evaluate(before, points[n : n + 1]).values[0]
        variance = learner.posterior(before).variance(points[n : n + 1])[0]
        mean += 2.0 / (n + 2.0) * (error**2 / (1.0 + variance) - mean)
    np.testing.assert_allclose(learner.posterior(learn(learner, points, targets)).noise, mean, rtol=1e-8)


def test_nothing_is_said_where_there_is_no_gaussian_process() -> None:
    for learner in (
        Newton(loss=Logistic(), kernel=KERNEL, step_size=Constant(0.1)),
        Newton(loss=Huber(), kernel=KERNEL, step_size=Constant(0.1)),
        Krls(kernel=KERNEL, ridge=0.0),
    ):
        assert learner.posterior(learner.init(2, 1)) is None
    fresh = EXACT[0].posterior(EXACT[0].init(2, 2))
    assert fresh is not None and np.isnan(fresh.noise).all()


def test_arrays_rebuild_the_same_bits_and_are_checked() -> None:
    points, targets = samples(30)
    for learner in (*EXACT, Rls(**COMMON)):
        posterior = learner.posterior(learn(learner, points, targets))
        arrays = posterior.arrays()
        again = Posterior.from_arrays(posterior.function, arrays)
        np.testing.assert_array_equal(again.variance(points), posterior.variance(points))
        for name in arrays:
            with pytest.raises(ValueError, match=name):
                Posterior.from_arrays(posterior.function, {**arrays, name: np.zeros(5)})
            with pytest.raises(ValueError, match=name):
                Posterior.from_arrays(posterior.function, {key: arrays[key] for key in arrays if key != name})


# Apart from the samples


@pytest.mark.parametrize("epochs", [1, 3])
def test_apart_from_its_rows_bars_grow_to_the_size_of_the_function_and_among_them_stay(epochs: int) -> None:
    time = np.linspace(0.0, 20.0, 1000)
    points = np.column_stack([np.sin(time * pace) for pace in (0.7, 1.1, 1.3)]) + time[:, np.newaxis] / 20.0
    targets = 30.0 * np.sin(2.0 * points[:, 0]) * points[:, 1] + 20.0 * points[:, 2] ** 2
    targets += 0.3 * np.random.default_rng(0).normal(size=1000)
    estimator = KernelRegressor(epochs=epochs, random_state=0).fit(points[:800], targets[:800])
    model = estimator.model_
    plain = replace(model, posterior=replace(model.posterior, beyond=None))
    deviations = [each.predict(points, return_std=True)[1] for each in (model, plain)]
    errors = np.abs(estimator.predict(points) - targets)[800:]
    covered = [np.mean(errors < 1.96 * each[800:]) for each in deviations]
    assert covered[0] > 0.65 > 0.45 > covered[1]
    assert 0.9 < np.mean(deviations[0][:800] == deviations[1][:800]) < 1.0


def test_the_size_of_a_function_drawn_from_the_prior_is_found_with_little_noise() -> None:
    random, found = np.random.default_rng(1), []
    for _ in range(6):
        points = random.uniform(size=(300, 2))
        gram = 25.0 * Gaussian(0.3).cross(points, points)
        targets = np.linalg.cholesky(gram + 1e-8 * np.eye(300)) @ random.normal(size=300)
        targets += 0.05 * random.normal(size=300)
        estimator = KernelRegressor(bandwidth=0.3, kernel="gaussian", first=None, random_state=0).fit(points, targets)
        known = estimator.model_.posterior
        assert known is not None and known.beyond is not None and known.factor is not None
        excess, level, ridge = known.beyond
        found.append(float((excess + known.scale / known.ridge) * known.noise[0]))
        at = random.uniform(-0.5, 1.5, size=(40, 2))
        kernel, centers = known.function.kernel, known.function.points
        scaled = estimator.model_.input_variables.scaled(at)
        rows, gram = kernel.cross(scaled, centers), kernel.cross(centers, centers)
        image = np.linalg.solve(known.root.T @ known.root, rows.T)
        left = (
            ridge**2 * np.sum(image * (gram @ image), axis=0)
            + 1.0
            - np.sum(rows.T * np.linalg.solve(gram, rows.T), axis=0)
        )
        wanted = replace(known, beyond=None).variance(scaled) + excess * np.maximum(left - level, 0.0)
        np.testing.assert_allclose(known.variance(scaled), wanted, rtol=1e-4)
    assert 15.0 < np.median(found) < 40.0


def test_an_estimator_that_sees_its_rows_often_is_no_surer() -> None:
    random = np.random.default_rng(3)
    points, fresh = random.uniform(size=(300, 2)), random.uniform(size=(1000, 2))
    targets, wanted = (np.sin(6.0 * x[:, 0]) + 0.3 * random.normal(size=len(x)) for x in (points, fresh))
    for epochs in (1, 6):
        estimator = KernelRegressor(epochs=epochs, random_state=0).fit(points, targets)
        found, deviation = estimator.predict(fresh, return_std=True)
        assert 0.85 < np.mean(np.abs(wanted - found) <= 1.645 * deviation) < 0.96
