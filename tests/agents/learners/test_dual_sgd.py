"""Dual space gradient descent is gradient descent with two inner products: the kernel's, and that of what has left."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.functions.cosines import DualSum
from kernelswarm.agents.learners.bsgd import Bsgd
from kernelswarm.agents.learners.dual_sgd import DualSgd
from kernelswarm.agents.learners.ogd import Ogd
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Polynomial
from kernelswarm.agents.parts.losses import Hinge, Logistic, MulticlassHinge, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.agents.learners.test_budgeted_learners import altered, data, learn, outputs

LEARNER = DualSgd(
    kernel=Gaussian(0.6), budget_size=5, features=14, step_size=Constant(0.3), regularization=0.01, loss=Squared()
)
PROBES = np.random.default_rng(1).normal(size=(50, 2))


@pytest.mark.parametrize("leaving", [1, 3])
@pytest.mark.parametrize(
    "loss", [Squared(), Hinge(), Logistic(), MulticlassHinge()], ids=lambda loss: type(loss).__name__
)
def test_each_sample_counts_by_its_kernel_while_it_stays_and_by_its_features_afterwards(loss, leaving):
    learner = altered(LEARNER, loss=loss, leaving=leaving)
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


def test_more_features_come_nearer_to_what_keeps_every_point():
    points, targets = data(np.random.default_rng(2), Squared(), 300)
    unbounded = Ogd(kernel=LEARNER.kernel, step_size=LEARNER.step_size, regularization=LEARNER.regularization)
    whole = learn(unbounded, points, targets)[0].function.values(PROBES)

    def error(learner):
        return float(np.sqrt(np.mean((learn(learner, points, targets)[0].function.values(PROBES) - whole) ** 2)))

    few, many = (
        np.mean([error(altered(LEARNER, features=features, seed=seed)) for seed in range(5)]) for features in (40, 4000)
    )
    assert 5.0 < few / many < 20.0  # the features' inner products are right to 1 / sqrt(L)
    assert many < 0.1 * error(Bsgd(budget_size=5, **unbounded.__dict__))


def test_an_element_that_goes_over_stays_at_distance_zero():
    points, targets = data(np.random.default_rng(3), Squared(), 5)
    before, _ = learn(LEARNER, points, targets)
    learn(altered(LEARNER, regularization=0.0), np.zeros((1, 2)), np.full((1, 1), 9.0), before)
    after = LEARNER.init(2, 1).function
    entered = altered(LEARNER, budget_size=6)
    one, _ = learn(entered, points, targets)
    learn(altered(entered, regularization=0.0), np.zeros((1, 2)), np.full((1, 1), 9.0), one)
    assert (before.function.order, one.function.order) == (5, 6)
    assert before.function.distance(one.function) == pytest.approx(0.0, abs=1e-7)
    assert one.function.distance(after) == pytest.approx(np.sqrt(one.function.inner(one.function)))
    other, _ = learn(altered(LEARNER, seed=1), points, targets)
    assert np.isnan(one.function.distance(other.function)) and np.isnan(one.function.distance("none"))


def test_the_distance_is_that_of_features_where_all_are_taken_for_their_features():
    # With features enough, kappa(x, y) = z(x)'z(y): the function is linear in z, and the distance that of its weights.
    learner = altered(LEARNER, features=20_000)
    first, second = (learn(learner, *data(np.random.default_rng(seed), Squared(), 40))[0].function for seed in (4, 5))
    weights = [f.beyond.features(f.points).T @ f.weights + f.beyond.coefficients for f in (first, second)]
    assert first.distance(second) == pytest.approx(np.linalg.norm(weights[0] - weights[1]), rel=0.02)


def test_a_mean_of_functions_has_the_mean_of_their_values():
    first, second, third = (
        learn(LEARNER, *data(np.random.default_rng(seed), Squared(), 40))[0].function for seed in (6, 7, 8)
    )
    shares = np.array([0.5, 0.3, 0.2])
    wanted = sum(share * f.values(PROBES) for share, f in zip(shares, (first, second, third), strict=True))
    np.testing.assert_allclose(first.averaged([second, third], shares).values(PROBES), wanted, atol=1e-12)


def test_laplacian_features_are_those_of_the_laplacian():
    points, targets = data(np.random.default_rng(9), Squared(), 60)
    learner = altered(LEARNER, kernel=Laplacian(1.0), features=20_000)
    found, _ = learn(learner, points, targets)
    unbounded = Ogd(kernel=learner.kernel, step_size=learner.step_size, regularization=learner.regularization)
    wanted = learn(unbounded, points, targets)[0].function.values(PROBES)
    np.testing.assert_allclose(found.function.values(PROBES), wanted, atol=0.05 * np.abs(wanted).max())
    assert isinstance(found.function, DualSum) and found.function.order == 5


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"leaving": 6}, "leaving = 6 must be from 1 to budget_size = 5"),
        ({"leaving": 0}, "leaving = 0 must be from 1"),
        ({"features": 7}, "features = 7 must be even"),
        ({"features": 0}, "features = 0 must be even and at least 2"),
        ({"kernel": Polynomial()}, r"kernel = Polynomial\(.*has no random Fourier features"),
    ],
)
def test_values_out_of_range_are_refused(keys, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        altered(LEARNER, **keys)
