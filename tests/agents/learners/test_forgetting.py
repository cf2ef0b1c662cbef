"""Least squares that forgets: one memory or two, and the test between them, as dense matrices have it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.observations import DEGREES, FEWEST, LEAST, MOST, STEEPNESS
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from tests.helpers.pairs import in_pairs
from tests.helpers.steps import learn

STEP = Constant(0.2)
LEARNERS: dict[str, Any] = {
    "newton": Newton(kernel=Gaussian(0.2), step_size=STEP, ridge=0.3, budget=Epsilon(0.0)),
    "krls": Krls(kernel=Gaussian(0.5), step_size=STEP, ridge=0.4, dependency=0.05),
    "rls": Rls(kernel=Gaussian(0.6), step_size=STEP, ridge=0.4, features=12),
}
EVERY = pytest.mark.parametrize("name", LEARNERS)
COUNT = 120


def wave(seed: int) -> tuple[Array, Array]:
    """Samples of a wave in the plane, with two outputs, that turns its sign half way."""
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(COUNT, 2))
    values = np.hstack([np.sin(3.0 * points[:, :1]), points[:, 1:]])
    values[COUNT // 2 :] *= -1.0
    return points, values + 0.1 * random.normal(size=values.shape)


def features(ours: Any, state: Any, at: Array) -> Array:
    """Return coordinates of points in which a ridge is a multiple of the unit matrix; new points add to them."""
    if isinstance(ours, Rls):
        return np.asarray(state.function.features(at))
    points = state.function.points
    lower = np.linalg.cholesky(ours.kernel.cross(points, points))
    return np.linalg.solve(lower, ours.kernel.cross(points, at)).T


class Dense:
    """The sums of one memory, by matrices that grow with the features."""

    def __init__(self, ridge: float) -> None:
        self.ridge, self.curvature, self.sums = ridge, np.zeros((0, 0)), np.zeros((0, 2))
        self.mean, self.steps, self.counted, self.place = np.zeros(2), 0.0, 0.0, 0

    def take_in(self, features: Array, wanted: Array, share: float, noise: Array) -> float:
        """Take in samples, renew the ridge, and return the logarithm of their likelihood before, by a noise."""
        count, order = features.shape
        more = order - len(self.sums)
        self.curvature = share * np.pad(self.curvature, (0, more))
        self.curvature[order - more :, order - more :] = share * self.ridge * np.eye(more)
        self.sums = share * np.pad(self.sums, ((0, more), (0, 0)))
        errors = wanted - features @ np.linalg.solve(self.curvature, self.sums)
        covariance = np.eye(count) + 2.0 * features @ np.linalg.solve(self.curvature, features.T)
        squares = np.sum(errors * np.linalg.solve(covariance, errors), axis=0)
        found = 2 * [-0.5 * np.linalg.slogdet(covariance)[1]]
        if noise.all():
            found -= 0.5 * (DEGREES + count) * np.log1p(squares / (DEGREES * noise))
        self.curvature += 2.0 * features.T @ features
        self.sums += 2.0 * features.T @ wanted
        self.steps += 1.0
        self.mean = self.mean + max(2.0 / (self.steps + 1.0), 1.0 - share) * (squares / count - self.mean)
        self.counted = share * self.counted + count
        renewed = min(order, int(np.ceil(4.0 * order * (1.0 - share))))
        for _ in range(renewed):
            self.place = self.place if self.place < order else 0
            self.curvature[self.place, self.place] += self.ridge * (1.0 - share) * order / renewed
            self.place += 1
        return float(np.sum(found))


@in_pairs(name=LEARNERS, batch_size=[1, 3], forgetting=[0.95, "auto"])
def test_samples_fade_and_the_ridge_does_not_and_a_memory_is_cut_where_recent_samples_are_more_likely(
    name: str, batch_size: int, forgetting: Any
) -> None:
    ours = replace(LEARNERS[name], batch_size=batch_size, forgetting=forgetting)
    points, targets = wave(5)
    state, known, recent = ours.init(2, 2), Dense(ours.penalty), Dense(ours.penalty)
    evidence, cuts = 0.0, []
    for start in range(0, COUNT, batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        passes.learn(ours, state, batch, wanted)
        coordinates, noise = features(ours, state, batch), known.mean
        if forgetting == "auto":
            share = (1.0 - STEEPNESS / known.counted if known.counted >= FEWEST else 1.0) ** batch_size
            more = recent.take_in(coordinates, wanted, share, noise) - known.take_in(coordinates, wanted, 1.0, noise)
            evidence = max(0.0, evidence + more)
            if evidence > max(LEAST, MOST + np.log(known.counted / (start + batch_size))):
                recent.steps = max(1.0, recent.steps * recent.counted / known.counted)
                known, evidence, cuts = deepcopy(recent), 0.0, [*cuts, start]
            window = ours.snapshot(state)["window"][:3]
            np.testing.assert_allclose(window, [known.counted, recent.counted, evidence], rtol=1e-6, atol=1e-6)
        else:
            known.take_in(coordinates, wanted, forgetting**batch_size, noise)
        np.testing.assert_allclose(ours.snapshot(state)["noise"][0], known.mean, rtol=1e-6)
        expected = features(ours, state, points[:20]) @ np.linalg.solve(known.curvature, known.sums)
        np.testing.assert_allclose(ours.evaluate(state, points[:20]).values, expected, atol=1e-6)
    assert bool(cuts) == (forgetting == "auto")
    assert all(start >= COUNT // 2 for start in cuts)


@EVERY
def test_nothing_is_forgotten_while_the_target_stays_and_states_go_on(name: str) -> None:
    auto, faded, fixed = (replace(LEARNERS[name], batch_size=2, forgetting=word) for word in ("auto", 0.98, 1.0))
    (points, targets), half = wave(3), COUNT // 2
    constant = fixed.init(2, 2)
    passes.learn(fixed, constant, points[:half], targets[:half])
    for ours in (auto, faded):
        state, again = ours.init(2, 2), ours.init(2, 2)
        passes.learn(ours, state, points[:half], targets[:half])
        kept = ours.snapshot(state)
        if ours is auto:
            assert kept["window"][0] == half
            for key, array in fixed.snapshot(
                constant
            ).items():  # progress: where the ridge of recent samples is renewed
                assert key == "progress" or np.array_equal(array, kept[key]), key
        ours.restore(again, kept)
        passes.learn(ours, state, points[half:], targets[half:])
        learn(ours, points[half:], targets[half:], again)  # one step after the other, outside of compiled passes
        for key, array in ours.snapshot(state).items():
            np.testing.assert_array_equal(array, ours.snapshot(again)[key], err_msg=key)


@EVERY
@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_the_unit_of_targets_does_not_matter(unit: float, name: str) -> None:
    ours = replace(LEARNERS[name], forgetting="auto")
    points, targets = wave(7)
    states = ours.init(2, 2), ours.init(2, 2)
    for state, factor in zip(states, (1.0, unit), strict=True):
        passes.learn(ours, state, points, factor * targets)
    one, other = (ours.snapshot(state)["window"] for state in states)
    np.testing.assert_allclose(one, other, rtol=1e-6)
