"""How noisy the targets are: what is found in a sample, and what steps and ridges make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic, Squared, SquaredHinge
from kernelswarm.agents.parts.sample import COMMON, OWN, RIDGES, SHARED, difference_ratio, noise_ratio
from kernelswarm.agents.parts.schedules import Auto, Constant
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.samples import sample, smooth

SETTLED = 1000
"""A step by which the noise alone decides."""


def of_three_nodes(seed: int, apart: float) -> tuple[Array, Array, AnyArray]:
    """Draw points, centred values of two outputs that differ between nodes, and who has them."""
    generator = np.random.default_rng(seed)
    points, owners = generator.uniform(size=(60, 1)), np.repeat([0, 1, 2], 20)
    values = np.sin(6.0 * points + apart * owners[:, None]) + 0.3 * generator.normal(size=(60, 2))
    return points, values - values.mean(axis=0), owners


def likeliest(gram: Array, values: Array, owners: AnyArray, share: float) -> tuple[float, float, float]:
    """Return the likelihood of the best ridge where nodes share so much of their functions, the ridge and the noise."""
    coupled, found = gram * np.where(owners[:, None] == owners, 1.0, share), []
    for ratio in RIDGES:
        shape = coupled + ratio * np.eye(60)
        amplitude = np.mean([v @ np.linalg.solve(shape, v) / 60 for v in values.T])
        likelihood = -(np.linalg.slogdet(2.0 * math.pi * amplitude * shape)[1] + 60.0)  # of both outputs
        belief = norm(math.log(0.1), 3.0).logpdf(math.log(ratio))
        found.append((likelihood + belief, ratio, amplitude * ratio / np.mean(values**2)))
    return max(found)


def test_the_noise_ratio_is_the_most_likely_one() -> None:
    points, values, owners = of_three_nodes(3, 1.0)
    gram = Gaussian(0.2).cross(points, points)
    _, ratio, noise = max(likeliest(gram, values, owners, share) for share in SHARED)
    assert noise_ratio(gram, values, owners) == pytest.approx((ratio, noise))


@pytest.mark.parametrize(("length", "apart"), [(0.02, 0.0), (0.5, 0.0), (0.02, 0.8), (0.5, 0.8)])
def test_the_difference_of_nodes_is_the_mean_of_its_posterior(length: float, apart: float) -> None:
    """On functions as rich as their samples, and on smooth ones, of which a few eigenvectors say all."""
    points, values, owners = of_three_nodes(5, apart)
    gram = Gaussian(length).cross(points, points)
    likelihoods, ratios, _ = np.transpose([likeliest(gram, values, owners, 1.0 - own) for own in OWN])
    densities = np.exp(likelihoods - likelihoods.max())
    slab = (1.0 - COMMON) * np.trapezoid(densities * OWN / ratios, OWN)
    total = COMMON * densities[0] + (1.0 - COMMON) * np.trapezoid(densities, OWN)
    assert difference_ratio(gram, values, owners) == pytest.approx(slab / total, rel=1e-6)


def test_what_was_found_for_one_sample_is_not_taken_for_another() -> None:
    """It is remembered: each of these differs from the one before in a single number, or in nothing but its shape."""
    generator = np.random.default_rng(4)
    points = generator.uniform(size=(40, 1))
    gram, owners = Gaussian(0.2).cross(points, points), np.repeat([0, 1], 20)
    values = np.sin(6.0 * points + 2.0 * owners[:, None]) + 0.1 * generator.normal(size=(40, 1))
    other, moved, widened = values.copy(), owners.copy(), gram + 0.1 * np.eye(40)
    other[7] += 2.0
    moved[:10] = 1
    asked = [(gram, values, owners), (gram, other, owners), (gram, values, moved), (widened, values, owners)]
    found = [noise_ratio(*three) for three in asked]
    assert len(set(found)) == len(asked)
    assert [noise_ratio(*three) for three in reversed(asked)] == found[::-1]
    assert [noise_ratio(*(array.copy(order="F") for array in three)) for three in asked] == found


@pytest.mark.parametrize("deviation", [0.1, 0.5, 2.0])
def test_the_share_of_noise_is_found(deviation: float) -> None:
    points, _ = smooth(500, 1)
    noise = deviation * np.random.default_rng(1).normal(size=points.shape)
    targets = np.sin(2.0 * points) + noise
    true = np.mean(noise**2) / np.var(targets)
    assert sample(points, targets, Squared()).noise[1] == pytest.approx(true, rel=0.15)


def test_nodes_that_learn_different_targets_are_no_noise() -> None:
    generator = np.random.default_rng(2)
    points = generator.uniform(size=(320, 1))
    owners = np.repeat(np.arange(8), 40)
    phases = generator.uniform(0.0, 6.0, 8)[owners][:, None]
    targets = np.sin(5.0 * points + phases) + 0.1 * generator.normal(size=(320, 1))
    one = sample(points, targets, Squared(), kernel=Gaussian(0.2))
    assert one.noise[1] > 0.5
    assert replace(one, owners=owners).noise[1] < 0.1
    assert Auto().resolved(replace(one, owners=owners)).at(SETTLED) > 2.0 * Auto().resolved(one).at(SETTLED)


def test_where_noise_cannot_be_distinguished_from_a_rough_function_the_ridge_is_the_usual_one() -> None:
    points, targets = smooth(200, 5)
    far_apart = sample(points, targets, Squared(), kernel=Gaussian(0.01))
    assert far_apart.noise[0] == pytest.approx(0.1, rel=0.01)


def test_rows_that_come_again_are_seen_once(tmp_path: Path) -> None:
    points, targets = smooth(90)
    noisy = targets + np.random.default_rng(1).normal(size=targets.shape)
    np.savetxt(tmp_path / "rows.csv", np.hstack([points, noisy]), delimiter=",", header="a,b,y", comments="")
    stream = {"name": "file", "path": str(tmp_path / "rows.csv"), "target": "y", "task": "regression"}
    table = {"topology": {"name": "ring", "nodes": 4}, "learner": "polk", "protocol": "consensus", "rounds": 10}
    found = [
        open_network(Experiment.from_dict({**table, "stream": {**stream, "epochs": epochs}})).experiment
        for epochs in (1, 9)
    ]
    steps = [described.to_dict()["learner"]["step_size"] for described in found]
    assert steps[0] == steps[1] and steps[0]["value"] < 0.1


def test_steps_fall_with_the_noise_to_a_tenth_and_no_further() -> None:
    points, targets = smooth(500)
    noise = np.random.default_rng(1).normal(size=targets.shape)
    noisy = [sample(points, targets + level * noise, Squared()) for level in (0.0, 1.0, 100.0)]
    steps = [Auto().resolved(one).at(SETTLED) for one in noisy]
    assert steps[0] > 0.18
    assert steps[1] == pytest.approx(0.2 * 0.15 * math.sqrt(0.43), rel=0.3)
    assert steps[2] == pytest.approx(0.02)


def test_the_ridge_of_second_order_steps_is_the_noise_ratio() -> None:
    points, targets = smooth(500)
    kernel = Gaussian(0.5)
    noise = np.random.default_rng(1).normal(size=targets.shape)
    ridges = []
    for level in (0.1, 1.0):
        seen = sample(points, targets + level * noise, Squared(), kernel=kernel)
        ridges.append(Newton(kernel=kernel).resolved(seen).ridge)
        assert ridges[-1] == max(0.1, seen.noise[0])
    assert ridges[1] > 5.0 * ridges[0]
    margins = Newton(kernel=kernel, loss=SquaredHinge(), step_size=Constant(0.1), budget=Epsilon(0.1))
    assert not automatic_keys(margins)


@pytest.mark.parametrize("flipped", [0.0, 0.1, 0.3])
def test_the_ridge_of_classes_is_a_quarter_of_the_noise_ratio_of_their_indicators(flipped: float) -> None:
    kernel, random = Gaussian(0.5), np.random.default_rng(3)
    points = random.normal(size=(400, 2))
    labels = (points[:, :1] > 0.0).astype(float)
    labels = np.where(random.random((400, 1)) < flipped, 1.0 - labels, labels)
    seen = sample(points, labels, Logistic(), kernel=kernel)
    indicators = np.column_stack([labels == 0.0, labels == 1.0]).astype(float)
    indicators -= indicators.mean(axis=0)
    chosen = np.arange(400)
    ratio, _ = noise_ratio(kernel.cross(points, points), indicators[chosen], np.zeros(400, np.intp))
    ridge = Newton(kernel=kernel, loss=Logistic()).resolved(seen).ridge
    assert ridge == pytest.approx(max(0.005, ratio / 4.0), rel=0.05)  # the ratio is known to two digits


def test_classes_that_overlap_are_no_worse_than_a_constant_to_second_order_learners() -> None:
    """Of two classes three tenths of whose labels are flipped; a ridge of .005 for all ended at 1.6 of a constant."""
    for name in ("newton", "rls"):
        random = np.random.default_rng(5)
        points, tests = random.normal(size=(600, 2)), random.normal(size=(600, 2))
        labels, true = (np.where(random.random(600) < 0.3, x[:, 0] <= 0.0, x[:, 0] > 0.0) for x in (points, tests))
        final = simulate(
            topology={"name": "ring", "nodes": 6},
            data=(points, labels.astype(float)),
            test=(tests, true.astype(float)),
            learner={"name": name, "loss": "logistic"},
            protocol="isolated",
            rounds=100,
        ).final
        assert final["risk"] < 1.02 * final["constant_risk"], name
        assert final["error"] < 0.42
