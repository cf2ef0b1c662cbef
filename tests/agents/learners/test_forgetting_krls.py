"""Kernel recursive least squares that forgets: what it computes as dense matrices have it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.observations import DEGREES, FEWEST, LEAST, MOST, STEEPNESS
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Huber, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.refused_key import RefusedKey

KERNEL = Gaussian(0.5)


def learner(**keys: Any) -> Krls:
    chosen: dict[str, Any] = {"kernel": KERNEL, "step_size": Constant(0.2), "ridge": 0.4, "dependency": 0.05}
    return Krls(**{**chosen, **keys})


def jump(count: int, seed: int) -> tuple[Array, Array]:
    """Samples of a wave in the plane that turns its sign half way."""
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    values = np.sin(2.0 * points[:, :1]) + points[:, 1:]
    values[count // 2 :] *= -1.0
    return points, values + 0.1 * random.normal(size=(count, 1))


class Dense:
    """The sums of one memory, by matrices that grow with the features."""

    def __init__(self, ridge: float) -> None:
        self.ridge, self.curvature, self.sums = ridge, np.zeros((0, 0)), np.zeros((0, 1))
        self.mean, self.steps, self.counted, self.place = 0.0, 0.0, 0.0, 0

    def grow(self, order: int) -> None:
        more = order - len(self.sums)
        self.curvature = np.pad(self.curvature, (0, more))
        for k in range(order - more, order):
            self.curvature[k, k] = self.ridge
        self.sums = np.pad(self.sums, ((0, more), (0, 0)))

    def take_in(self, features: Array, wanted: Array, share: float, noise: float = 0.0) -> float:
        """Take in samples, renew the ridge, and return the logarithm of their likelihood before, by a noise."""
        count, order = len(wanted), len(self.sums)
        self.curvature, self.sums = share * self.curvature, share * self.sums
        errors = wanted - features @ np.linalg.solve(self.curvature, self.sums)
        covariance = np.eye(count) + 2.0 * features @ np.linalg.solve(self.curvature, features.T)
        squares = float((errors * np.linalg.solve(covariance, errors)).sum())
        found = -0.5 * np.linalg.slogdet(covariance)[1]
        if noise:
            found -= 0.5 * (DEGREES + count) * np.log1p(squares / (DEGREES * noise))
        self.curvature = self.curvature + 2.0 * features.T @ features
        self.sums = self.sums + 2.0 * features.T @ wanted
        self.steps += 1.0
        self.mean += max(2.0 / (self.steps + 1.0), 1.0 - share) * (squares / count - self.mean)
        self.counted = share * self.counted + count
        if share < 1.0:
            renewed = min(order, int(np.ceil(4.0 * order * (1.0 - share))))
            for _ in range(renewed):
                self.place = self.place if self.place < order else 0
                self.curvature[self.place, self.place] += self.ridge * (1.0 - share) * order / renewed
                self.place += 1
        return float(found)


def batches(ours: Krls, state: Any, points: Array, targets: Array) -> Any:
    """Have a learner take batches, and yield each with its features in the dictionary that it left."""
    for start in range(0, len(points), ours.batch_size):
        x, wanted = points[start : start + ours.batch_size], targets[start : start + ours.batch_size]
        passes.learn(ours, state, x, wanted)
        function = state.function
        lower = np.linalg.cholesky(ours.kernel.cross(function.points, function.points))
        yield start, np.linalg.solve(lower, ours.kernel.cross(function.points, x)).T, wanted


def values(ours: Krls, state: Any, memory: Dense, at: Array) -> Array:
    """Return what the dense sums say the function is."""
    points = state.function.points
    lower = np.linalg.cholesky(ours.kernel.cross(points, points))
    features = np.linalg.solve(lower, ours.kernel.cross(points, at)).T
    return np.asarray(features @ np.linalg.solve(memory.curvature, memory.sums))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_samples_fade_and_the_ridge_is_renewed(batch_size: int) -> None:
    ours = learner(forgetting=0.95, batch_size=batch_size)
    points, targets = jump(150, 1)
    state, memory = ours.init(2, 1), Dense(ours.penalty)
    for _, features, wanted in batches(ours, state, points, targets):
        memory.grow(features.shape[1])
        memory.take_in(features, wanted, 0.95 ** len(wanted))
        found = ours.evaluate(state, points[:20]).values
        np.testing.assert_allclose(found, values(ours, state, memory, points[:20]), atol=1e-8)
    assert 10 < state.function.order < 60 and state.function.noise[0, 0] == pytest.approx(memory.mean, rel=1e-8)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_two_memories_are_kept_as_dense_matrices_have_it(batch_size: int) -> None:
    ours = learner(forgetting="auto", batch_size=batch_size)
    points, targets = jump(240, 2)
    state, known, recent = ours.init(2, 1), Dense(ours.penalty), Dense(ours.penalty)
    evidence, cuts = 0.0, []
    for start, features, wanted in batches(ours, state, points, targets):
        known.grow(features.shape[1])
        recent.grow(features.shape[1])
        share = (1.0 - STEEPNESS / known.counted if known.counted >= FEWEST else 1.0) ** len(wanted)
        noise = known.mean
        likelihood = known.take_in(features, wanted, 1.0, noise)
        evidence = max(0.0, evidence + recent.take_in(features, wanted, share, noise) - likelihood)
        if evidence > max(LEAST, MOST + np.log(known.counted / (start + batch_size))):
            recent.steps = max(1.0, recent.steps * recent.counted / known.counted)
            known.curvature, known.sums = recent.curvature.copy(), recent.sums.copy()
            known.mean, known.steps, known.counted = recent.mean, recent.steps, recent.counted
            evidence, cuts = 0.0, [*cuts, start]
        window = state.function.window
        np.testing.assert_allclose(window[:3], [known.counted, recent.counted, evidence], rtol=1e-6, atol=1e-6)
        found = ours.evaluate(state, points[:20]).values
        np.testing.assert_allclose(found, values(ours, state, known, points[:20]), atol=1e-7)
    assert cuts and all(start >= 120 for start in cuts)


def test_nothing_is_forgotten_while_the_target_stays_and_states_go_on() -> None:
    ours = learner(forgetting="auto", batch_size=2)
    fixed = replace(ours, forgetting=1.0)
    points, targets = jump(400, 3)
    adaptive, constant = ours.init(2, 1), fixed.init(2, 1)
    passes.learn(ours, adaptive, points[:200], targets[:200])
    passes.learn(fixed, constant, points[:200], targets[:200])
    kept = ours.snapshot(adaptive)
    assert kept["window"][0] == 200.0
    for name, array in fixed.snapshot(constant).items():
        np.testing.assert_array_equal(array, kept[name])
    for one in (ours, replace(ours, forgetting=0.98)):
        whole, half = one.init(2, 1), one.init(2, 1)
        passes.learn(one, whole, points, targets)
        passes.learn(one, half, points[:200], targets[:200])
        again = one.init(2, 1)
        one.restore(again, one.snapshot(half))
        for start in range(200, 400, 2):  # one step after the other, outside of compiled passes
            own, wanted = one.evaluate(again, points[start : start + 2]), targets[start : start + 2]
            one.step(again, [own], [one.gradient(again, own, wanted)], None, wanted)
        for name, array in one.snapshot(whole).items():
            np.testing.assert_array_equal(array, one.snapshot(again)[name])


def test_what_cannot_forget_is_refused() -> None:
    for forgetting in (0.99, "auto"):
        with pytest.raises(RefusedKey, match=r"^ridge = 0 leaves no function"):
            learner(forgetting=forgetting, ridge=0.0, loss=Squared())
    with pytest.raises(RefusedKey, match=r'^forgetting = "auto" compares likelihoods'):
        learner(forgetting="auto", loss=Huber(0.3))
    for forgetting in (0.0, 1.5, "often"):
        with pytest.raises(RefusedKey, match=r"^forgetting = .* must be in"):
            learner(forgetting=forgetting)
