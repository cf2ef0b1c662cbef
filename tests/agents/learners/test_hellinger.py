"""Points go by the Hellinger distance of the posterior without them: the whole rule once more, with dense matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon, PerSample, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian
from kernelswarm.agents.parts.losses import Huber, Logistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.steps import step


def learner(epsilon=0.2, **keys):
    return Newton(**{
        "kernel": Laplacian(2.0), "step_size": Constant(0.2), "ridge": 0.2, "compression": "hellinger",
        "budget": Epsilon(epsilon), **keys,
    })  # fmt: skip


def hellinger(first, second):
    """The distance of two normal distributions, of outputs that are independent: mean (M, C), a covariance each."""
    affinity = 0.0
    for c, (one, other) in enumerate(zip(first[1], second[1], strict=True)):
        between, gap = 0.5 * (one + other), first[0][:, c] - second[0][:, c]
        logs = [np.linalg.slogdet(each)[1] for each in (one, other, between)]
        affinity += 0.25 * (logs[0] + logs[1]) - 0.5 * logs[2] - 0.125 * gap @ np.linalg.solve(between, gap)
    return np.sqrt(-np.expm1(affinity))


class Dense:
    """The rule in plain numpy: the samples' sums S and B on the dictionary, and the noise."""

    def __init__(self, ours, inputs, outputs):
        self.ours, self.points = ours, np.zeros((0, inputs))
        self.sums, self.moments, self.noise = np.zeros((0, 0)), np.zeros((0, outputs)), np.zeros(outputs)
        self.steps, self.spent = 0, 0.0

    def gram(self, left, right):
        return self.ours.kernel.cross(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def posterior(self, kept, at):
        """Mean and covariances at points, of the process on the points ``kept`` of the dictionary."""
        points, sums = self.points[kept], self.sums[np.ix_(kept, kept)]
        gram, cross, ridge = self.gram(points, points), self.gram(at, points), self.ours.penalty
        curvature = np.linalg.inv(sums + ridge * gram)
        beyond = self.gram(at, at) - cross @ np.linalg.solve(gram, cross.T)
        unit = cross @ curvature @ cross.T + beyond / ridge
        scales = self.ours.loss.curvature * self.noise
        return cross @ curvature @ self.moments[kept], [scale * unit for scale in scales]

    def learn(self, batch, targets):
        known = [i for i, point in enumerate(batch) if not (self.points == point).all(axis=1).any()]
        new = batch[known]
        if len(self.points):
            projection = np.linalg.solve(self.gram(self.points, self.points), self.gram(self.points, new))
        else:
            projection = np.zeros((0, len(new)))
        spread = np.hstack([np.eye(len(self.points)), projection])
        self.sums, self.moments = spread.T @ self.sums @ spread, spread.T @ self.moments
        self.points = np.vstack([self.points, new])
        everything, bend = np.arange(len(self.points)), self.ours.loss.curvature
        rows, gram = self.gram(batch, self.points), self.gram(self.points, self.points)
        curvature = np.linalg.inv(self.sums + self.ours.penalty * gram)
        errors = targets - rows @ curvature @ self.moments
        wide = np.eye(len(batch)) + bend * rows @ curvature @ rows.T
        self.steps += 1
        found = np.mean(errors * np.linalg.solve(wide, errors), axis=0)
        self.noise += 2.0 / (self.steps + 1.0) * (found - self.noise)
        self.sums += bend * rows.T @ rows
        self.moments += bend * rows.T @ targets
        self.spent, kept = 0.0, everything
        while len(kept) > 1:
            at = self.points[kept]
            whole = self.posterior(kept, at)
            each = [hellinger(whole, self.posterior(np.delete(kept, j), at)) for j in range(len(kept))]
            if self.spent + min(each) > self.ours.budget.epsilon:
                break
            self.spent += min(each)
            kept = np.delete(kept, int(np.argmin(each)))
        self.points, self.moments = self.points[kept], self.moments[kept]
        self.sums = self.sums[np.ix_(kept, kept)]


def samples(count, outputs, seed):
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    first = np.sin(3.0 * points[:, :1]) + points[:, 1:] ** 2
    return points, np.hstack([first, -0.3 * first])[:, :outputs] + 0.1 * random.normal(size=(count, outputs))


@pytest.mark.parametrize(("outputs", "batch_size", "epsilon"), [(1, 1, 0.1), (2, 1, 0.3), (1, 3, 0.6), (2, 3, 0.1)])
def test_the_rule_is_that_of_dense_posteriors(outputs, batch_size, epsilon):
    ours = learner(epsilon, batch_size=batch_size)
    points, targets = samples(40 * batch_size, outputs, 3 + batch_size)
    state, dense, gone = ours.init(2, outputs), Dense(ours, 2, outputs), 0
    for start in range(0, len(points), batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        before = state.function.order
        info = step(ours, state, batch, wanted)
        dense.learn(batch, wanted)
        gone += before + len(batch) - state.function.order
        assert np.array_equal(state.function.points, dense.points)
        assert info.compression_error == pytest.approx(dense.spent, rel=1e-9, abs=1e-9)
        assert info.compression_error <= epsilon
        mean, covariances = dense.posterior(np.arange(len(dense.points)), points[:20])
        assert np.allclose(state.function.values(points[:20]), mean, rtol=0.0, atol=1e-9)
        certain = ours.posterior(state)
        assert np.allclose(certain.variance(points[:20]) * certain.noise[0], np.diag(covariances[0]), atol=1e-9)
    assert gone > 0
    assert state.function.order > 2


def learned(ours, points, targets):
    state = ours.init(points.shape[1], targets.shape[1])
    passes.learn(ours, state, points, targets)
    return state


@pytest.mark.parametrize("forgetting", [1.0, 0.98, "auto"])
def test_without_a_distance_every_point_stays_and_near_1_one_does(forgetting):
    points, targets = samples(120, 2, 1)
    none = learned(learner(0.0, forgetting=forgetting), points, targets)
    same = learned(learner(0.0, forgetting=forgetting, compression="komp"), points, targets)
    assert none.function.order == 120
    for name, array in learner(0.0).snapshot(none).items():
        assert np.array_equal(array, learner(0.0).snapshot(same)[name]), name
    assert learned(learner(1.0 - 1e-12, forgetting=forgetting), points, targets).function.order == 1


@pytest.mark.parametrize("forgetting", [1.0, 0.98, "auto"])
def test_a_posterior_has_no_unit(forgetting):
    points, targets = samples(300, 2, 1)
    ours = learner(0.3, forgetting=forgetting)
    one, other = (learned(ours, points, unit * targets).function for unit in (1.0, 2.0**20))
    assert 3 < one.order < 100
    assert np.array_equal(one.points, other.points)
    assert np.array_equal(2.0**20 * one.weights, other.weights)


FAR = 1e6 * np.arange(40.0)[:, None]
ODD = {
    "one point": (np.ones((40, 1)), 1),
    "two points, again and again": (np.arange(40.0)[:, None] % 2, 2),
    "far points": (FAR, 40),
    "nearly the same": (1e-9 * np.arange(40.0)[:, None], 1),
}


@pytest.mark.parametrize("scale", [0.0, 1.0])
@pytest.mark.parametrize(("points", "order"), ODD.values(), ids=ODD)
def test_points_that_are_odd_are_counted_as_they_should(points, order, scale):
    targets = scale * (3.0 + np.sin(np.arange(40.0)[:, None]))
    function = learned(learner(0.05, kernel=Gaussian(0.5)), points, targets).function
    assert function.order == (order if scale else 0)  # zeros are known before, and offer no point
    assert np.isfinite(function.values(points)).all()


def test_a_node_without_samples_ranks_points_as_komp_does():
    """With the ridge alone a removal changes f alone, by W_j^2 / P_jj of ||f||^2, M of which are the unit."""
    ours, random = learner(0.12), np.random.default_rng(4)
    points, pulls = random.uniform(-1.0, 1.0, size=(12, 2)), random.normal(size=(12, 1))
    kept, state = replace(ours, budget=Epsilon(0.0)).init(2, 1), ours.init(2, 1)
    for each, its in ((replace(ours, budget=Epsilon(0.0)), kept), (ours, state)):
        each.step(its, [each.evaluate(its, points)], [pulls], [1.0], np.zeros((0, 1)))
    function = kept.function
    gram = ours.kernel.cross(function.points, function.points)
    norm, precision = (function.weights.T @ gram @ function.weights).item(), np.diag(np.linalg.inv(gram))
    shares = function.weights[:, 0] ** 2 / precision / norm
    first = np.argmin(shares)
    assert np.sqrt(-np.expm1(-0.125 * 2.0 * 12 * shares[first])) < 0.12
    assert 0 < state.function.order < 12
    assert not (state.function.points == points[first]).all(axis=1).any()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"budget": Epsilon(1.0)}, r"budget.*Epsilon\(epsilon=1.0\).*epsilon = 0\.1.*below 1"),
        ({"budget": PerSample(0.02)}, r"budget.*no Hellinger distance.*epsilon = 0\.1"),
        ({"loss": Huber()}, r'compression = "hellinger".*take loss = "squared", or compression = "komp"'),
        ({"loss": Logistic()}, r'compression = "hellinger".*take compression = "komp"'),
    ],
)
def test_what_has_no_such_distance_is_refused(keys, said):
    with pytest.raises(ValueError, match=said):
        learner(**keys)
    learner(budget=Epsilon(1.0 - 1e-15), loss=Squared())
    learner(**{"compression": "komp", **keys})


def test_a_wanted_order_steers_the_distance():
    points, targets = samples(2500, 1, 9)
    ours = learner(budget=TargetOrder(15, alpha=0.5, gain=0.02), kernel=Gaussian(0.4))
    assert 12 <= learned(ours, points, targets).function.order <= 18
