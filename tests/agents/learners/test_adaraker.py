"""Raker over intervals: every member is random_features, both mixtures are Hedge's, and changes are followed."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kernelswarm.agents.learners.adaraker import AdaRaker
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic, Loss, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.steps import step

FACTORS = (0.5, 2.0)
GRID = np.linspace(0.0, 1.0, 30)[:, None]
SHARED = {"batch_size": 2, "regularization": 1e-3, "features": 16}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize(("loss", "rate"), [(Squared(), "auto"), (Logistic(), "auto"), (Squared(), 0.3)])
def test_members_are_random_features_and_both_mixtures_are_hedges(loss: Loss, rate, implicit, restart):
    mixed = AdaRaker(
        loss=loss,
        kernel=Gaussian(0.2),
        factors=FACTORS,
        step_size=Constant(0.4),
        rate=rate,
        forgetting=0.9,
        intervals=3,
        shortest=4,
        ratio=3,
        restart=restart,
        **SHARED,
    )
    steps = [0.4, 0.4 / 3.0**0.5, 0.4 / 3.0]
    alone = [
        [
            RandomFeatures(loss=loss, kernel=Gaussian(0.2 * f), seed=e, step_size=Constant(eta), **SHARED)
            for eta in steps
        ]
        for e, f in enumerate(FACTORS)
    ]
    states = [[learner.init(1, 1) for learner in row] for row in alone]
    state = mixed.init(1, 1)
    losses, count = np.zeros((2, 3)), np.zeros(3)
    shares, log_weights = np.full((2, 3), 0.5), np.log(steps) - np.log(0.4)
    whole, seen = 0.0, 0.0
    generator = np.random.default_rng(0)

    def mixture(points):
        values = np.array([[each.function.values(points) for each in row] for row in states])
        instances = np.einsum("ej,ejnc->jnc", shares, values)
        weights = np.exp(log_weights - log_weights.max())
        return instances, np.einsum("j,jnc->nc", weights / weights.sum(), instances), weights / weights.sum()

    for turn in range(1, 47):
        size = 1 if turn % 7 == 6 else 2  # a batch may be smaller
        x = generator.uniform(size=(size, 1))
        y = np.sin(8.0 * x) + 0.2 * generator.normal(size=x.shape)
        y = (y > 0.0) * 1.0 if loss.task != "regression" else y
        instances, whole_values, _ = mixture(x)
        lost, left = loss.values(whole_values, y).sum(), 0.9**size
        whole, seen = left * whole + lost, left * seen + size
        second = {"auto": 0.5 * seen / whole if loss.task == "regression" else 1.0}.get(rate, rate)
        log_weights = log_weights + second * (lost - np.array([loss.values(each, y).sum() for each in instances]))
        losses = left * losses + [[loss.values(each.function.values(x), y).sum() for each in row] for row in states]
        for learner, each in zip(sum(alone, []), sum(states, []), strict=True):  # noqa: RUF017
            step(learner, each, x, y, implicit, size / 2.0)
        count = left * count + size
        first = [
            {"auto": 0.5 * n / p.min() if loss.task == "regression" else 1.0}.get(rate, rate)
            for n, p in zip(count, losses.T, strict=True)
        ]
        shares = np.exp(-np.array(first) * (losses - losses.min(axis=0)))
        shares /= shares.sum(axis=0)
        for j, length in enumerate((4, 12, 36)):
            if turn % length == 0:
                log_weights[j] = np.log(steps[j] / 0.4)
                if restart:
                    losses[:, j], count[j], shares[:, j] = 0.0, 0.0, 0.5
                    for e, row in enumerate(alone):
                        states[e][j] = row[j].init(1, 1)
        np.testing.assert_allclose(mixed.evaluate(state, x).values, whole_values, rtol=1e-6, atol=1e-9)
        step(mixed, state, x, y, implicit, size / 2.0)
    _, wanted, weights = mixture(GRID)
    np.testing.assert_allclose(mixed.shares(state), weights, rtol=1e-6)
    assert np.ptp(weights) > 0.01 and np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(mixed.function(state).values(GRID), wanted, rtol=1e-6, atol=1e-9)
    again = mixed.init(1, 1)
    mixed.restore(again, mixed.snapshot(copy.deepcopy(state)))
    np.testing.assert_array_equal(mixed.function(again).values(GRID), mixed.function(state).values(GRID))


def test_without_samples_all_follow_the_pull_and_nothing_is_weighed():
    mixed = AdaRaker(kernel=Gaussian(0.2), step_size=Constant(0.4), **SHARED)
    state = mixed.init(1, 1)
    at, before = mixed.evaluate(state, GRID[:1]), mixed.shares(state)
    mixed.step(state, [at], [np.array([[-1.0]])], None, np.empty((0, 1)))
    np.testing.assert_array_equal(mixed.shares(state), before)
    expected = 0.4 * (before @ mixed.rates) * mixed.inner(state, at)[0, 0]
    assert mixed.function(state).values(GRID[:1])[0, 0] == pytest.approx(expected, rel=1e-9)


def test_where_a_still_target_begins_to_move_no_single_step_size_does_as_well():
    keys = {"kernel": Gaussian(0.2), "factors": (0.5, 1.0, 2.0), "features": 20}

    def error(learner) -> float:
        generator, state, found = np.random.default_rng(0), learner.init(1, 1), 0.0
        for n in range(1200):
            x = generator.uniform(size=(1, 1))
            clean = 2.0 * np.sin(6.0 * x + (n / 60.0 if n >= 800 else 0.0))
            own = learner.evaluate(state, x)
            found += float((own.values - clean)[0, 0] ** 2) / 1200.0
            y = clean + 0.5 * generator.normal(size=(1, 1))
            learner.step(state, [own], [learner.gradient(state, own, y)], [2.0], y)
        return found

    adaptive = error(AdaRaker(step_size=Constant(0.5), **keys))
    assert adaptive < 0.95 * min(error(Raker(step_size=Constant(eta), **keys)) for eta in (0.1, 0.2, 0.5))
