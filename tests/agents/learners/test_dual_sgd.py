"""Dual space gradient descent is gradient descent with two inner products: the kernel's, and that of what has left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.dual_sgd import DualSgd
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Hinge, Logistic, MulticlassHinge, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.samples import data, outputs
from tests.helpers.steps import learn

LEARNER = DualSgd(
    kernel=Gaussian(0.6), budget_size=5, features=14, step_size=Constant(0.3), regularization=0.01, loss=Squared()
)
PROBES = np.random.default_rng(1).normal(size=(50, 2))


@pytest.mark.parametrize("leaving", [1, 3])
@pytest.mark.parametrize(
    "loss", [Squared(), Hinge(), Logistic(), MulticlassHinge()], ids=lambda loss: type(loss).__name__
)
def test_each_sample_counts_by_its_kernel_while_it_stays_and_by_its_features_afterwards(loss, leaving):
    learner = replace(LEARNER, loss=loss, leaving=leaving)
    points, targets = data(np.random.default_rng(0), loss, 60)
    state = learner.init(2, outputs(loss))
    frequencies = state.function.beyond.frequencies[::2]
    seen, weights, stay = points[:0], np.zeros((0, outputs(loss))), np.zeros(0, dtype=bool)

    def values(at):
        apart = at[:, None, :] - seen[None, :, :]
        approximate = np.cos(apart @ frequencies.T).mean(axis=2)
        return np.where(stay, learner.kernel.cross(at, seen), approximate) @ weights

    for point, target in zip(points, targets, strict=True):
        slope = loss.derivatives(values(point[None]), target[None])
        weights = weights * (1.0 - 0.3 * 0.01)
        if np.any(slope):
            if stay.sum() == learner.budget_size:
                norms = np.where(stay, np.sum(weights**2, axis=1), np.inf)
                stay[np.argsort(norms)[:leaving]] = False
            seen, weights, stay = np.vstack([seen, point]), np.vstack([weights, -0.3 * slope]), np.append(stay, True)
        learn(learner, point[None], target[None], state)
    assert (~stay).sum() > 10
    np.testing.assert_allclose(state.function.points, seen[stay])
    np.testing.assert_allclose(state.function.values(points), values(points), atol=1e-10)


def test_an_element_that_goes_over_stays_at_distance_zero():
    points, targets = data(np.random.default_rng(3), Squared(), 5)
    before = learn(LEARNER, points, targets)
    learn(replace(LEARNER, regularization=0.0), np.zeros((1, 2)), np.full((1, 1), 9.0), before)
    after = LEARNER.init(2, 1).function
    entered = replace(LEARNER, budget_size=6)
    one = learn(entered, points, targets)
    learn(replace(entered, regularization=0.0), np.zeros((1, 2)), np.full((1, 1), 9.0), one)
    assert (before.function.order, one.function.order) == (5, 6)
    assert before.function.distance(one.function) == pytest.approx(0.0, abs=1e-7)
    assert one.function.distance(after) == pytest.approx(np.sqrt(one.function.inner(one.function)))
    other = learn(replace(LEARNER, seed=1), points, targets)
    assert np.isnan(one.function.distance(other.function)) and np.isnan(one.function.distance("none"))


def test_the_distance_is_that_of_features_where_all_are_taken_for_their_features():
    # With features enough, kappa(x, y) = z(x)'z(y): the function is linear in z, and the distance that of its weights.
    learner = replace(LEARNER, features=20_000)
    first, second = (learn(learner, *data(np.random.default_rng(seed), Squared(), 40)).function for seed in (4, 5))
    weights = [f.beyond.features(f.points).T @ f.weights + f.beyond.coefficients for f in (first, second)]
    assert first.distance(second) == pytest.approx(np.linalg.norm(weights[0] - weights[1]), rel=0.02)


def test_a_mean_of_functions_has_the_mean_of_their_values():
    first, second, third = (
        learn(LEARNER, *data(np.random.default_rng(seed), Squared(), 40)).function for seed in (6, 7, 8)
    )
    shares = np.array([0.5, 0.3, 0.2])
    wanted = sum(share * f.values(PROBES) for share, f in zip(shares, (first, second, third), strict=True))
    np.testing.assert_allclose(first.averaged([second, third], shares).values(PROBES), wanted, atol=1e-12)
