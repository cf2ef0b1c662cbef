"""Forgetting that is found as samples come: two memories and the test between them, as dense matrices have it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.observations import DEGREES, FEWEST, LEAST, MOST, STEEPNESS
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Huber, Logistic
from kernelswarm.agents.parts.schedules import Constant


def learner(**keys):
    return Newton(
        **{"kernel": Gaussian(0.4), "step_size": Constant(0.2), "budget": Epsilon(0.0), "forgetting": "auto", **keys}
    )


class Memory:
    """The curvature H and the right-hand side of all samples, every one of which is a point."""

    def __init__(self, learner, outputs):
        self.learner, self.points = learner, np.zeros((0, 2))
        self.curvature, self.sums = np.zeros((0, 0)), np.zeros((0, outputs))
        self.mean, self.steps, self.counted, self.place = np.zeros(outputs), 0.0, 0.0, 0

    def copy(self):
        other = Memory(self.learner, len(self.mean))
        other.__dict__.update(self.__dict__)
        return other

    def learn(self, points, targets, share, noise):
        """Take in a step's samples; returns the logarithm of their density."""
        kernel, ridge, count = self.learner.kernel, self.learner.penalty, len(points)
        whole = np.vstack([self.points, points])
        gram = kernel.cross(whole, whole)
        old = len(self.points)
        projected = np.linalg.solve(gram[:old, :old], gram[:old]) if old else np.zeros((0, len(whole)))
        beyond = gram - gram[:, :old] @ projected
        beyond[:old], beyond[:, :old] = 0.0, 0.0
        self.curvature = share * (projected.T @ self.curvature @ projected + ridge * beyond)
        self.sums = share * projected.T @ self.sums
        self.points = whole
        rows = gram[old:]
        errors = targets - rows @ np.linalg.solve(self.curvature, self.sums)
        covariance = np.eye(count) + 2.0 * rows @ np.linalg.solve(self.curvature, rows.T)
        squares = np.sum(errors * np.linalg.solve(covariance, errors), axis=0)
        found = -0.5 * (DEGREES + count) * np.log1p(squares / (DEGREES * noise)) if noise.all() else 0.0
        found = np.sum(found - 0.5 * np.linalg.slogdet(covariance)[1])
        self.curvature = self.curvature + 2.0 * rows.T @ rows
        self.sums = self.sums + 2.0 * rows.T @ targets
        self.steps += 1
        self.mean = self.mean + max(2.0 / (self.steps + 1.0), 1.0 - share) * (squares / count - self.mean)
        self.counted = share * self.counted + count
        if share < 1.0:
            order, lower, lost = len(whole), np.linalg.cholesky(gram), 1.0 - share
            left = min(order, int(np.ceil(4.0 * order * lost)))
            for _ in range(left):
                self.place = self.place if self.place < order else 0
                column = lower[:, self.place]
                self.curvature = self.curvature + ridge * lost * order / left * np.outer(column, column)
                self.place += 1
        return found

    def values(self, points):
        return self.learner.kernel.cross(points, self.points) @ np.linalg.solve(self.curvature, self.sums)


def wave(count, seed):
    """Samples of a wave that turns over half-way."""
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    height = np.where(np.arange(count) < count // 2, 1.0, -1.0)[:, None]
    return points, height * np.hstack([np.sin(3.0 * points[:, :1]), points[:, 1:]]) + 0.1 * random.normal(
        size=(count, 2)
    )


@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_memory_is_cut_where_recent_samples_are_more_likely(batch_size):
    ours = learner(batch_size=batch_size, ridge=0.3)
    points, targets = wave(96, 5)
    state, every = ours.init(2, 2), Memory(ours, 2)
    recent, evidence, cuts = every.copy(), 0.0, []
    grid = np.random.default_rng(0).uniform(-1.0, 1.0, size=(20, 2))
    for start in range(0, 96, batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        noise = every.mean
        share = (1.0 - STEEPNESS / every.counted if every.counted >= FEWEST else 1.0) ** batch_size
        evidence -= every.learn(batch, wanted, 1.0, noise)
        evidence = max(0.0, evidence + recent.learn(batch, wanted, share, noise))
        if evidence > max(LEAST, MOST + np.log(every.counted / (start + batch_size))):
            recent.steps = max(1.0, recent.steps * recent.counted / every.counted)
            every, evidence = recent.copy(), 0.0
            cuts.append(start)
        passes.learn(ours, state, batch, wanted)
        assert np.allclose(state.function.window[:3], [every.counted, recent.counted, evidence], rtol=1e-6, atol=1e-6)
        assert np.allclose(state.function.noise[0], every.mean, rtol=1e-6)
        assert np.allclose(state.function.values(grid), every.values(grid), atol=1e-6)
    assert cuts
    assert all(start >= 48 for start in cuts)


def test_while_the_target_stays_nothing_is_forgotten():
    ours = learner(budget=Epsilon(0.05))
    points, targets = (part[:300] for part in wave(600, 3))
    adaptive, constant = ours.init(2, 2), ours.init(2, 2)
    passes.learn(ours, adaptive, points, targets)
    fixed = replace(ours, forgetting=1.0)
    constant = fixed.init(2, 2)
    passes.learn(fixed, constant, points, targets)
    assert adaptive.function.window[0] == 300.0
    for name, array in fixed.snapshot(constant).items():
        if name != "progress":  # holds the place where the ridge of recent samples is renewed
            assert np.array_equal(array, ours.snapshot(adaptive)[name]), name


def wave_of_one(count, seed):
    points, targets = wave(count, seed)
    return np.ascontiguousarray(points), np.ascontiguousarray(targets[:, :1])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_least_squares_on_features_keeps_two_memories_as_dense_matrices_have_it(batch_size):
    ours = Rls(
        kernel=Gaussian(0.6), step_size=Constant(0.2), ridge=0.4, features=12, batch_size=batch_size, forgetting="auto"
    )
    points, targets = wave_of_one(120, 4)
    state, order, ridge = ours.init(2, 1), 12, ours.penalty
    features = state.function.features(points)
    curvature = [ridge * np.eye(order), ridge * np.eye(order)]
    sums, means, steps = [np.zeros((order, 1)), np.zeros((order, 1))], [0.0, 0.0], [0.0, 0.0]
    counted, evidence, place, cuts = [0.0, 0.0], 0.0, 0, []
    for start in range(0, 120, batch_size):
        phi, wanted = features[start : start + batch_size], targets[start : start + batch_size]
        noise = means[0]
        share = (1.0 - STEEPNESS / counted[0] if counted[0] >= FEWEST else 1.0) ** batch_size
        found = [0.0, 0.0]
        for k, left in enumerate((1.0, share)):
            curvature[k], sums[k] = left * curvature[k], left * sums[k]
            errors = wanted - phi @ np.linalg.solve(curvature[k], sums[k])
            covariance = np.eye(batch_size) + 2.0 * phi @ np.linalg.solve(curvature[k], phi.T)
            squares = float((errors * np.linalg.solve(covariance, errors)).sum())
            if noise:
                found[k] = -0.5 * (DEGREES + batch_size) * np.log1p(squares / (DEGREES * noise))
            found[k] -= 0.5 * np.linalg.slogdet(covariance)[1]
            curvature[k] = curvature[k] + 2.0 * phi.T @ phi
            sums[k] = sums[k] + 2.0 * phi.T @ wanted
            steps[k] += 1.0
            means[k] += max(2.0 / (steps[k] + 1.0), 1.0 - left) * (squares / batch_size - means[k])
            counted[k] = left * counted[k] + batch_size
        if share < 1.0:
            renewed = min(order, int(np.ceil(4.0 * order * (1.0 - share))))
            for _ in range(renewed):
                place = place if place < order else 0
                curvature[1][place, place] += ridge * (1.0 - share) * order / renewed
                place += 1
        evidence = max(0.0, evidence + found[1] - found[0])
        if evidence > max(LEAST, MOST + np.log(counted[0] / (start + batch_size))):
            steps[1] = max(1.0, steps[1] * counted[1] / counted[0])
            curvature[0], sums[0], means[0], steps[0] = curvature[1].copy(), sums[1].copy(), means[1], steps[1]
            counted[0], evidence = counted[1], 0.0
            cuts.append(start)
        passes.learn(ours, state, points[start : start + batch_size], wanted)
        assert np.allclose(state.window[:3], [*counted, evidence], rtol=1e-6, atol=1e-6)
        assert np.allclose(state.noise[0], means[0], rtol=1e-6)
        assert np.allclose(state.function.coefficients, np.linalg.solve(curvature[0], sums[0]), atol=1e-7)
    assert cuts
    assert all(start >= 60 for start in cuts)


def test_on_features_nothing_is_forgotten_while_the_target_stays_and_states_go_on():
    ours = Rls(kernel=Gaussian(0.6), step_size=Constant(0.2), features=30, forgetting="auto")
    fixed = replace(ours, forgetting=1.0)
    points, targets = wave_of_one(400, 2)
    adaptive, constant = ours.init(2, 1), fixed.init(2, 1)
    passes.learn(ours, adaptive, points[:200], targets[:200])
    passes.learn(fixed, constant, points[:200], targets[:200])
    assert adaptive.window[0] == 200.0
    kept = ours.snapshot(adaptive)
    for name, array in fixed.snapshot(constant).items():
        assert name == "progress" or np.array_equal(array, kept[name]), name
    again = ours.init(2, 1)
    ours.restore(again, kept)
    passes.learn(ours, adaptive, points[200:], targets[200:])
    for start in range(200, 400):  # one step after the other, outside of compiled passes
        own = ours.evaluate(again, points[start : start + 1])
        wanted = targets[start : start + 1]
        ours.step(again, [own], [ours.gradient(again, own, wanted)], None, wanted)
    assert adaptive.window[0] < 200.0
    for name, array in ours.snapshot(adaptive).items():
        assert np.array_equal(array, ours.snapshot(again)[name]), name
    assert np.array_equal(pickle.loads(pickle.dumps(again)).window, again.window)
    with pytest.raises(ValueError, match="likelihoods"):
        Rls(loss=Huber(), forgetting="auto")


@pytest.mark.parametrize("steps_of_noise", [1.0, 1e-9, 1e6])
def test_the_unit_of_targets_does_not_matter(steps_of_noise):
    ours = learner(budget=Epsilon(0.0))
    points, targets = wave(120, 7)
    windows = []
    for unit in (1.0, steps_of_noise):
        state = ours.init(2, 2)
        passes.learn(ours, state, points, unit * targets)
        windows.append(state.function.window.copy())
    assert np.allclose(windows[0], windows[1], rtol=1e-6)


def test_losses_without_a_likelihood_and_other_words_are_refused():
    for loss in (Huber(0.3), Logistic()):
        with pytest.raises(ValueError, match=r'^forgetting = "auto" compares likelihoods'):
            learner(loss=loss)
    with pytest.raises(ValueError, match=r"^forgetting = 'often' must be"):
        learner(forgetting="often")
