"""Recursive least squares solves, after every sample, the weighted least-squares problem of all samples so far."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.kernels import Gaussian, Linear
from kernelswarm.agents.parts.losses import Huber, MulticlassLogistic, Squared, curvatures_of
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.pairs import in_pairs
from tests.helpers.samples import curved as samples
from tests.helpers.steps import step

GRID = np.random.default_rng(9).uniform(-1.0, 1.0, size=(30, 2))


def learner(**keys):
    keys = {"kernel": Gaussian(0.7), "step_size": Constant(0.2), "features": 12, "ridge": 0.05, **keys}
    return Rls(**keys)


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.3), MulticlassLogistic()], ids=repr)
def test_the_weights_are_those_of_regularised_least_squares(loss, batch_size):
    ours = learner(loss=loss, batch_size=batch_size)
    points, targets = samples(60, 2)
    outputs = 2 if loss.task == "regression" else 3
    if loss.task != "regression":
        targets = np.digitize(targets[:, :1], [0.2, 0.9]).astype(float)
    state = ours.init(2, outputs)
    system, right = ours.penalty * np.eye(12), np.zeros((12, outputs))
    for start in range(0, 60, batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        features, values = state.function.features(batch), state.function.values(batch)
        bends = curvatures_of(loss, values, wanted)
        aims = values - loss.derivatives(values, wanted) / bends[:, None]
        step(ours, state, batch, wanted)
        system += features.T @ (bends[:, None] * features)
        right += features.T @ (bends[:, None] * aims)
        np.testing.assert_allclose(state.function.coefficients, np.linalg.solve(system, right), rtol=1e-7, atol=1e-9)


def test_it_stays_where_it_is_while_its_inputs_say_nothing():
    ours, (points, targets) = learner(forgetting=0.9, kernel=Linear()), samples(100)
    state = ours.init(2, 1)
    passes.learn(ours, state, points, targets)
    still = np.zeros((20_000, 2))
    passes.learn(ours, state, still, still[:, :1])
    assert np.all(np.isfinite(state.root)) and np.diag(state.root).min() > 0.5 * np.sqrt(ours.penalty)


@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_with_the_linear_kernel_it_is_ridge_regression_in_its_space(offset):
    ours, (points, targets) = learner(kernel=Linear(offset)), samples(50)
    state = ours.init(2, 1)
    passes.learn(ours, state, points, targets)
    gram = ours.kernel.cross(points, points)
    expected = ours.kernel.cross(GRID, points) @ np.linalg.solve(gram + 0.05 * np.eye(50), targets)
    np.testing.assert_allclose(state.function.values(GRID), expected, atol=1e-9)


class KalmanFilter:
    """Weights that walk, in dense matrices with inverses; P in units of the noise's variance over a curvature of 1."""

    def __init__(self, ours, outputs):
        size = ours.features
        self.walk, self.covariance = ours.process_noise / ours.penalty * np.eye(size), np.eye(size) / ours.penalty
        self.weights, self.errors = np.zeros((size, outputs)), []

    def observe(self, row, aim, curvature):
        error, deviation = aim - row @ self.weights, 1.0 / curvature + row @ self.covariance @ row
        information = np.linalg.inv(self.covariance)
        after = np.linalg.inv(information + curvature * np.outer(row, row))
        self.weights = after @ (information @ self.weights + curvature * np.outer(row, aim))
        self.covariance = after
        self.errors.append(error**2 / (curvature * deviation))

    def step(self, features, aims, curvatures):
        self.covariance = self.covariance + self.walk
        for row, aim, curvature in zip(features, aims, curvatures, strict=True):
            self.observe(row, aim, curvature)


@in_pairs(process_noise=[1e-9, 0.01, 3.0], loss=[Squared(), Huber(0.3), MulticlassLogistic()], batch_size=[1, 3])
def test_weights_that_walk_are_those_of_the_kalman_filter(process_noise, loss, batch_size):
    ours = learner(loss=loss, batch_size=batch_size, process_noise=process_noise)
    points, targets = samples(90, 2)
    outputs = 2 if loss.task == "regression" else 3
    if loss.task != "regression":
        targets = np.digitize(targets[:, :1], [0.2, 0.9]).astype(float)
    state, dense = ours.init(2, outputs), KalmanFilter(ours, outputs)
    random = np.random.default_rng(4)
    for start in range(0, 90, batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        features, values = state.function.features(batch), state.function.values(batch)
        bends = curvatures_of(loss, values, wanted)
        taught = np.zeros((batch_size, 2 * outputs + 1))
        taught[:, :outputs], taught[-1, -1] = random.normal(size=outputs), 0.3
        own = ours.evaluate(state, batch)
        ours.step(state, [own], [ours.gradient(state, own, wanted)], None, wanted, taught=taught)
        dense.step(features, values - loss.derivatives(values, wanted) / bends[:, None], bends)
        before = features[-1] @ dense.covariance @ features[-1]
        if before > 0.3:  # what leaves the variance 0.3 there
            dense.observe(features[-1], taught[-1, :outputs], 1.0 / 0.3 - 1.0 / before)
            dense.errors.pop()
        for found, expected in ((state.function.coefficients, dense.weights), (state.root, dense.covariance)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert np.array_equal(state.root, state.root.T)
    if loss.task == "regression":
        steps = np.mean(np.reshape(dense.errors, (-1, batch_size, outputs)), axis=1)
        weights = np.arange(1.0, len(steps) + 1.0)  # as `noise_variance` has them
        np.testing.assert_allclose(ours.noise(state)[0], weights @ steps / weights.sum(), rtol=1e-9)
    if loss.quadratic and loss.task == "regression":
        posterior = ours.posterior(state)
        features = state.function.features(GRID)
        variances = loss.curvature * np.einsum("ni,ij,nj->n", features, dense.covariance, features)
        np.testing.assert_allclose(posterior.variance(GRID), variances, rtol=1e-9)
        assert np.all(np.diag(posterior.root) > 0.0) and not np.tril(posterior.root, -1).any()


def test_a_covariance_stays_positive_where_inputs_say_nothing_or_all():
    ours, (points, targets) = learner(process_noise=1e-12, ridge=1e-9), samples(60)
    state = ours.init(2, 1)
    for _ in range(200):
        passes.learn(ours, state, points, targets)
    assert np.linalg.eigvalsh(state.root).min() > 0.0 and np.isfinite(ours.posterior(state).root).all()


def test_a_copy_goes_its_own_way():
    ours, (points, targets) = learner(), samples(20)
    state = ours.init(2, 1)
    other = copy.deepcopy(state)
    passes.learn(ours, other, points, targets)
    assert not state.function.coefficients.any()
    assert other.function.coefficients.any() and np.shares_memory(other.function.coefficients, other.storage)
