"""Fixed-size learners without regularization are FOGD and NOGD of Lu, Hoi, Wang, Zhao and Liu (JMLR 2016)."""

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.nystroem import Nystroem, restrict
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Constant

TENTH = Constant(0.1)


def samples(count):
    points = np.random.default_rng(3).normal(size=(count, 2))
    return points, 0.7 * points[:, :1] - 0.35 * points[:, 1:]


def test_paired_features_are_those_of_fogd_and_its_steps_are_algorithm_1():
    learner = RandomFeatures(Squared(), TENTH, 0.0, 1, Gaussian(0.8), 40, phases="paired")
    points, targets = samples(30)
    state = learner.init(2, 1)
    frequencies = state.function.frequencies[::2]
    alone = replace(learner, phases="random", features=20).init(2, 1)
    np.testing.assert_array_equal(frequencies, alone.function.frequencies)
    weights = np.zeros((40, 1))
    for n in range(30):
        angles = frequencies @ points[n]
        features = np.column_stack([np.cos(angles), np.sin(angles)]).reshape(-1)  # algorithm 1, without a norm
        value = features @ weights
        passes.learn(learner, state, points[n : n + 1], targets[n : n + 1])
        weights -= 0.1 / 20 * 2.0 * (value - targets[n]) * features[:, None]
        np.testing.assert_allclose(learner.evaluate(state, points[n : n + 1]).values, [features @ weights], atol=1e-12)
    rows = state.function.features(points)
    apart = (points[:, None, :] - points[None, :, :]) @ frequencies.T
    np.testing.assert_allclose(rows @ rows.T, np.cos(apart).mean(axis=2), atol=1e-12)
    with pytest.raises(ValueError, match=r"^features = 7 must be even"):
        replace(learner, features=7)


@pytest.mark.parametrize("rank", ["all", 8, 3, 1])
def test_without_regularization_nystroem_is_nogd(rank):
    kernel, most = Gaussian(0.3), 8
    learner = Nystroem(kernel=kernel, step_size=TENTH, regularization=0.0, landmarks=most, rank=rank)
    points, targets = samples(60)
    state = learner.init(2, 1)
    first = points[:most]
    values, vectors = np.linalg.eigh(kernel.cross(first, first))
    if rank != "all":
        values, vectors = values[-rank:], vectors[:, -rank:]
    features = vectors / np.sqrt(values)
    alpha = np.zeros((0, 1))
    weights = np.zeros((len(values), 1))
    for n in range(60):
        rows = kernel.cross(points[n : n + 1], first)
        before = rows[:, :n] @ alpha if n < most else rows @ features @ weights
        np.testing.assert_allclose(learner.evaluate(state, points[n : n + 1]).values, before, atol=1e-9)
        passes.learn(learner, state, points[n : n + 1], targets[n : n + 1])
        slope = 0.2 * (before - targets[n])  # eta times the derivative of the squared loss
        if n < most:
            alpha = np.vstack([alpha, -slope])
            weights = np.sqrt(values)[:, None] * vectors.T @ alpha if n == most - 1 else weights
        else:
            weights -= slope * (rows @ features).T
    np.testing.assert_array_equal(state.function.points, first)
    with pytest.raises(ValueError, match=r"^rank = 9 must be"):
        replace(learner, rank=9)


def test_what_is_cut_is_what_a_library_cuts_also_where_landmarks_are_nearly_dependent():
    random = np.random.default_rng(5)
    gram = Gaussian(1.5).cross(*[random.normal(size=(40, 2))] * 2) + 1e-6 * np.eye(40)
    weights, factor = random.normal(size=(40, 2)), np.linalg.inv(np.linalg.cholesky(gram))
    values, vectors = np.linalg.eigh(gram)
    leading, expected = vectors[:, -7:], vectors[:, -7:] @ (vectors[:, -7:].T @ weights)
    weights, factor = restrict(weights, factor, 7)
    np.testing.assert_allclose(weights, expected, atol=1e-8)
    np.testing.assert_array_equal(np.triu(factor, 1), 0.0)
    inverse = leading / values[-7:] @ leading.T
    np.testing.assert_allclose(factor.T @ factor, inverse, atol=1e-7 * np.abs(inverse).max())
