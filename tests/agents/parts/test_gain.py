"""How far "auto" steps go where kappa(x, x) differs between samples, as it does of lines and polynomials."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.parts.kernels import Polynomial
from kernelswarm.agents.parts.losses import Squared
from kernelswarm.agents.parts.schedules import Auto
from kernelswarm.agents.parts.squared_hinges import SquaredHinge
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.samples import sample, smooth

LINE = Polynomial(1, 1.0, 1.0)


@pytest.mark.parametrize("spike", [1.0, 2.0, 30.0])
def test_a_step_takes_no_sample_beyond_its_target_and_the_mean_one_two_fifths_of_the_way(spike: float) -> None:
    points, targets = smooth()
    points = points.copy()
    points[7] *= spike
    gains = 1.0 + (points**2).sum(axis=1)
    eta = Auto(offset=100.0).resolved(sample(points, targets, Squared(), kernel=LINE)).largest
    shares = 2.0 * eta * gains  # of a sample's error that a step takes there
    assert shares.max() <= 1.0 + 1e-12
    if gains.max() < 2.5 * gains.mean():
        assert shares.mean() == pytest.approx(0.4)
    else:
        assert shares.max() == pytest.approx(1.0)


def test_a_step_of_squared_hinges_takes_no_sample_beyond_its_margin() -> None:
    points, targets = smooth()
    labels = (targets > 0).astype(float)
    gains = 1.0 + (points**2).sum(axis=1)
    seen = sample(points, labels, SquaredHinge(), kernel=LINE)
    eta = Auto(scale=100.0).resolved(seen).largest
    assert eta * 2.0 * gains.max() <= 1.0 + 1e-12


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_a_line_is_near_that_of_least_squares_after_a_few_samples_for_each_input(noise: float) -> None:
    """Of five inputs, by the learner's name alone; a fifth of "auto" left .71 of the variance."""
    left = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        weights = random.normal(size=5)
        x, tests = random.normal(size=(600, 5)), random.normal(size=(300, 5))
        y = x @ weights + noise * np.linalg.norm(weights) * random.normal(size=600)
        fitted = np.linalg.lstsq(np.column_stack([x, np.ones(600)]), y, rcond=None)[0]
        final = simulate(
            topology={"name": "ring", "nodes": 6},
            data=(x, y),
            test=(tests, tests @ weights),
            learner="linear",
            protocol="isolated",
            rounds=100,
            seed=seed,
        ).final
        least = np.mean((np.column_stack([tests, np.ones(300)]) @ fitted - tests @ weights) ** 2) / np.var(y)
        left.append((final["risk"] - least) / final["constant_risk"])
    assert np.median(left) < (0.1 if noise < 1.0 else 0.3)
