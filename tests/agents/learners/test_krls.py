"""Kernel recursive least squares solves what the paper's table 1 solves, and keeps its digits where that loses them."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Huber, MulticlassLogistic, Squared, curvatures_of
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.samples import curved as samples
from tests.helpers.steps import step

GRID = np.random.default_rng(9).uniform(-1.0, 1.0, size=(40, 2))


def learner(**keys):
    return Krls(**{"kernel": Gaussian(0.6), "step_size": Constant(0.2), "ridge": 0.0, "dependency": 0.02, **keys})


def table_1(kernel, points, targets, dependency):
    """Engel, Mannor and Meir 2004, table 1, as it is printed: the dictionary and its weights after every sample."""
    dictionary, inverse = points[:1], 1.0 / kernel.cross(points[:1], points[:1])
    certainty, weights = np.ones((1, 1)), inverse @ targets[:1]
    yield dictionary, weights
    for point, target in zip(points[1:], targets[1:], strict=True):
        row = kernel.cross(dictionary, point[None])[:, 0]
        share = inverse @ row
        delta = kernel.cross(point[None], point[None])[0, 0] - row @ share
        error = target - row @ weights
        if delta > dependency:
            corner = np.append(share, -1.0)
            size = len(dictionary) + 1
            grown = np.zeros((2, size, size))
            grown[0, :-1, :-1], grown[1, :-1, :-1] = inverse, certainty
            inverse, certainty = grown[0] + np.outer(corner, corner) / delta, grown[1]
            certainty[-1, -1] = 1.0
            weights = np.vstack([weights - np.outer(share, error) / delta, error / delta])
            dictionary = np.vstack([dictionary, point])
        else:
            gain = certainty @ share / (1.0 + share @ certainty @ share)
            certainty = certainty - np.outer(gain, share @ certainty)
            weights = weights + inverse @ np.outer(gain, error)
        yield dictionary, weights


def test_it_is_table_1_of_the_paper_after_every_sample():
    ours, (points, targets) = learner(), samples(120, 2)
    state = ours.init(2, 2)
    for n, (dictionary, weights) in enumerate(table_1(ours.kernel, points, targets, 0.02)):
        step(ours, state, points[n : n + 1], targets[n : n + 1])
        np.testing.assert_array_equal(state.function.points, dictionary)
        np.testing.assert_allclose(state.function.weights, weights, rtol=1e-7, atol=1e-9)
    assert 10 < state.function.order < 60


def aims_of(loss, values, targets):
    bends = curvatures_of(loss, values, targets)
    return bends, values - loss.derivatives(values, targets) / bends[:, None]


@pytest.mark.parametrize("loss", [Squared(), Huber(0.3), MulticlassLogistic()], ids=repr)
@pytest.mark.parametrize("kernel", [Gaussian(0.6), Polynomial(3, 1.0)], ids=repr)
def test_the_weights_are_those_of_regularised_least_squares_on_the_projections(loss, kernel):
    ours = learner(loss=loss, kernel=kernel, ridge=0.05)
    points, targets = samples(80, 2)
    outputs = 2 if loss.task == "regression" else 3
    if loss.task != "regression":
        targets = np.digitize(targets[:, :1], [0.2, 0.9]).astype(float)
    state = ours.init(2, outputs)
    shares, bends, aims = np.zeros((0, 0)), np.zeros(0), np.zeros((0, outputs))
    for n in range(len(points)):
        point, target = points[n : n + 1], targets[n : n + 1]
        bend, aim = aims_of(loss, ours.evaluate(state, point).values, target)
        step(ours, state, point, target)
        found = state.function.points
        gram = kernel.cross(found, found)
        shares = np.pad(shares, ((0, 0), (0, len(found) - shares.shape[1])))
        shares = np.vstack([shares, np.linalg.solve(gram, kernel.cross(found, point))[:, 0]])
        bends, aims = np.append(bends, bend), np.vstack([aims, aim])
    rows = shares @ gram
    system = rows.T @ (bends[:, None] * rows) + ours.penalty * gram
    expected = kernel.cross(GRID, found) @ np.linalg.solve(system, rows.T @ (bends[:, None] * aims))
    np.testing.assert_allclose(state.function.values(GRID), expected, rtol=1e-6, atol=1e-7)


def test_it_keeps_its_digits_where_the_published_recursion_loses_them():
    points = np.linspace(-1.0, 1.0, 400)[np.random.default_rng(0).permutation(400), None] * [[1.0, 0.5]]
    targets = np.sin(3.0 * points[:, :1])
    ours = learner(kernel=Gaussian(1.0), dependency=1e-8)
    state = ours.init(2, 1)
    passes.learn(ours, state, points, targets)
    *_, (dictionary, weights) = table_1(ours.kernel, points, targets, 1e-8)
    assert len(dictionary) > 2 * state.function.order  # rounding takes dependent points for independent ones
    published = np.abs(ours.kernel.cross(points, dictionary) @ weights - targets).max()
    assert np.abs(state.function.values(points) - targets).max() < 0.5 * published
