"""How far "auto" steps go where kappa(x, x) differs between samples, as it does of lines and polynomials."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Squared, SquaredHinge
from kernelswarm.agents.parts.schedules import Auto
from kernelswarm.simulations.running.resolving import ScaleWarning
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


@pytest.mark.parametrize("scale", [1.0, 1.2, 1.5, 2.6, 3.7, 3.8, 1e4])
@pytest.mark.parametrize("size", [1, 32])
@pytest.mark.parametrize("loss", [Squared(), SquaredHinge()])
def test_a_scale_is_a_factor_until_a_step_takes_three_halves_of_the_error(loss: Any, size: int, scale: float) -> None:
    """A step leaves 1 - eta l'' lambda / b of the largest error of a batch."""
    points, targets = smooth()
    labels = (targets > 0).astype(float) if loss.task != "regression" else targets
    seen = replace(sample(points, labels, loss, kernel=Gaussian(50.0)), batch_size=size)
    one, scaled = (Auto(number).resolved(seen).at(10**9) for number in (1.0, scale))
    assert 0.0 < one * loss.curvature * seen.stiffness <= 1.0 + 1e-12
    assert scaled == pytest.approx(min(scale * one, 1.5 / (loss.curvature * seen.stiffness)))


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
@pytest.mark.parametrize("size", [1, 16])
def test_a_scale_that_is_held_back_is_named_and_the_one_named_acts_in_full(loss: str, size: int) -> None:
    x = np.random.default_rng(1).uniform(-2.0, 2.0, size=(400, 1))
    y = np.sin(2.0 * x[:, 0]) + (0.1 * x[:, 0] if loss == "squared" else 0.0)
    data = (x, y if loss == "squared" else np.where(y > 0.0, "up", "down"))

    def run(scale: float) -> Any:
        learner = {"name": "polk", "loss": loss, "batch_size": size, "step_size": {"name": "auto", "scale": scale}}
        return simulate(
            topology={"name": "ring", "nodes": 4}, data=data, learner=learner, protocol="isolated", rounds=60
        )

    with pytest.warns(ScaleWarning, match="acts as") as warned:
        farthest = run(1e4)
    assert farthest.final["risk"] < farthest.final["constant_risk"]
    named = float(re.findall(r"acts as ([0-9.]+)", str(warned[0].message))[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        run(named)
    with pytest.warns(ScaleWarning):
        run(1.02 * named)


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
