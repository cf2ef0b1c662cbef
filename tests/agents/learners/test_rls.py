"""Recursive least squares solves, after every sample, the weighted least-squares problem of all samples so far."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kernelswarm.agents.compiled import passes
from kernelswarm.agents.learners.filters.rls import Rls
from kernelswarm.agents.parts.kernels import Gaussian, Linear, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Huber, MulticlassLogistic, Squared, curvatures_of
from kernelswarm.agents.parts.schedules import Constant

GRID = np.random.default_rng(9).uniform(-1.0, 1.0, size=(30, 2))


def learner(**keys):
    keys = {"kernel": Gaussian(0.7), "step_size": Constant(0.2), "features": 12, "ridge": 0.05, **keys}
    return Rls(**keys)


def samples(count, outputs=1, seed=0):
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    mean = np.sin(3.0 * points[:, :1]) + points[:, 1:] ** 2
    return points, mean * np.arange(1, outputs + 1) + 0.1 * random.normal(size=(count, outputs))


def step(ours, state, points, targets):
    own = ours.evaluate(state, points)
    ours.step(state, [own], [ours.gradient(state, own, targets)], None, targets)


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


def test_forgotten_samples_count_less_and_the_ridge_counts_what_it_did():
    ours, (points, targets) = learner(forgetting=0.97, ridge=0.3), samples(400)
    state = ours.init(2, 1)
    passes.learn(ours, state, points, targets)
    features = state.function.features(points)
    counts = 2.0 * 0.97 ** np.arange(399, -1, -1)  # the squared loss has the curvature 2
    gram = features.T @ (counts[:, None] * features)
    found = state.root.T @ state.root - gram
    # What is left is the ridge; each coordinate's stands between that before and that after its turn.
    np.testing.assert_allclose(found, np.diag(np.diag(found)), atol=1e-10)
    assert np.all((np.diag(found) > 0.7 * ours.penalty) & (np.diag(found) < 1.4 * ours.penalty))
    np.testing.assert_allclose(state.root.T @ state.moments, features.T @ (counts[:, None] * targets), atol=1e-10)


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


def test_a_pull_moves_the_function_as_the_inner_products_say():
    ours, (points, targets) = learner(), samples(60, 2)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    at, pull = ours.evaluate(state, GRID[:2]), np.array([[0.3, -0.1], [0.2, 0.4]])
    expected = at.values - 0.1 * ours.inner(state, at) @ pull  # eta / b
    ours.step(state, [at], [pull], [1.0], np.zeros((0, 2)), 0.2)
    np.testing.assert_allclose(state.function.values(GRID[:2]), expected, atol=1e-10)


def test_a_copy_goes_its_own_way():
    ours, (points, targets) = learner(), samples(20)
    state = ours.init(2, 1)
    other = copy.deepcopy(state)
    passes.learn(ours, other, points, targets)
    assert not state.function.coefficients.any()
    assert other.function.coefficients.any() and np.shares_memory(other.function.coefficients, other.storage)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"forgetting": 0.0}, r"^forgetting = 0.0 must be in \(0, 1\]"),
        ({"ridge": 0.0}, r"^ridge = 0.0 must be positive"),
        ({"loss": Absolute()}, r"^loss = .* has no curvature"),
        ({"kernel": Polynomial()}, r"^kernel = .* has no random Fourier features"),
        ({"features": 0}, r"^features = 0 must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        learner(**keys)
