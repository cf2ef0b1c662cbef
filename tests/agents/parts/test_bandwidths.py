"""The bandwidth "auto": what held-out rows ask for, and that it stays with the usual one where they ask for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from kernelswarm.agents.learners.adaraker import AdaRaker
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.multi_kernel import MultiKernel
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.resolving import sample_for
from kernelswarm.agents.parts import bandwidths
from kernelswarm.agents.parts.bandwidths import SHARE, deviations, lengths_by, median_distance, relevance, tried
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from tests.helpers.samples import sample

KERNELS = [Gaussian(), Laplacian(), Matern()]


def surface(inputs: int = 4, count: int = 600, seed: int = 0) -> tuple[Array, Array]:
    """Draw inputs of which the first three count."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, inputs))
    targets = np.sin(2.0 * points[:, :1]) * points[:, 1:2] + 0.5 * points[:, 2:3]
    return points, targets + 0.1 * generator.normal(size=(count, 1))


def heavy_tailed(count: int = 900) -> tuple[Array, Array]:
    """Draw 60 log-normal inputs of as many units, which have three numbers in common."""
    generator = np.random.default_rng(0)
    logarithms = generator.normal(size=(count, 3)) @ generator.normal(size=(3, 60))
    logarithms += 0.2 * generator.normal(size=logarithms.shape)
    targets = np.tanh(logarithms[:, :1]) + 0.5 * logarithms[:, 1:2]
    return np.exp(logarithms) * 10.0 ** generator.uniform(-2.0, 2.0, 60), targets


def error(kernel: Any, points: Array, targets: Array) -> float:
    """Fit the first half, and return the error on the second as a share of the variance."""
    half = len(points) // 2
    gram = kernel.cross(points[:half], points[:half])
    weights = np.linalg.solve(gram + 0.1 * np.eye(half), targets[:half])
    missed = targets[half:] - kernel.cross(points[half:], points[:half]) @ weights
    return float(np.mean(missed**2) / np.var(targets[half:]))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_wide_heavy_tailed_inputs_are_learned(kernel: Any) -> None:
    points, targets = heavy_tailed(1800)
    seen = sample(points[:900], targets[:900], Squared())
    usual = type(kernel)("median").resolved(seen)
    assert error(kernel.resolved(seen), points, targets) < 0.6 * error(usual, points, targets)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_units_do_not_matter(kernel: Any) -> None:
    points, targets = surface()
    units = 2.0 ** np.array([-30, 30, 0, 12])
    alike = np.multiply(kernel.resolved(sample(points, targets, Squared())).bandwidth, units)
    np.testing.assert_allclose(kernel.resolved(sample(points * units, targets, Squared())).bandwidth, alike, rtol=1e-9)


def test_the_median_distance_stays_where_nothing_is_clearly_better() -> None:
    generator = np.random.default_rng(2)
    points = generator.normal(size=(400, 3))
    noise, few = generator.normal(size=(400, 1)), 40
    for x, y in ((points, noise), (points[:few], np.sin(points[:few, :1])), (points, np.ones((400, 1)))):
        found = Gaussian("auto").resolved(sample(x, y, Squared())).bandwidth
        assert found == Gaussian("median").resolved(sample(x, y, Squared())).bandwidth == SHARE * median_distance(x)


def test_a_slow_function_of_one_input_asks_for_a_wider_kernel_and_a_fast_one_for_a_narrower() -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(size=(900, 1))
    usual = SHARE * median_distance(points)
    found = []
    for speed in (1.0, 60.0):
        targets = np.sin(speed * points) + 0.3 * generator.normal(size=(900, 1))
        found.append(Gaussian("auto").resolved(sample(points, targets, Squared())).bandwidth)
    assert found[1] <= 0.5 * usual <= found[0]


def test_classes_in_units_of_their_own_are_distinguished() -> None:
    points, targets = surface()
    classes = np.digitize(targets, np.quantile(targets, [0.3, 0.6])).astype(float)
    seen = sample(points * np.array([1e-3, 1e3, 1.0, 1e2]), classes, MulticlassLogistic())
    assert isinstance(Gaussian("auto").resolved(seen).bandwidth, tuple)
    assert isinstance(Gaussian("median").resolved(seen).bandwidth, float)


def test_nodes_with_targets_of_their_own_are_judged_by_their_own_rows() -> None:
    points, targets = surface(3, 900)
    owners = np.repeat(np.arange(6), 150)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])[owners, np.newaxis]
    units = np.array([1e-3, 1e3, 1.0])
    seen = sample_for(Polk(), points * units, signs * targets, 1, owners)
    assert isinstance(Gaussian("auto").resolved(seen).bandwidth, tuple)


@pytest.mark.parametrize("learner", [MultiKernel(), Raker(), AdaRaker()], ids=lambda learner: type(learner).__name__)
def test_a_learner_that_weighs_widths_itself_gets_which_inputs_matter_and_no_multiple(learner: Learner) -> None:
    points, targets = surface()
    points *= np.array([1e-3, 1e3, 1.0, 1e2])
    asked = sample_for(learner, points, targets, 1)
    found = Gaussian("auto").resolved(asked).bandwidth
    assert SHARE * median_distance(points / found) == pytest.approx(1.0, rel=1e-9)
    np.testing.assert_allclose(found, SHARE * lengths_by("relevance", asked, absolute=False), rtol=0.1)
    generator = np.random.default_rng(0)
    single = generator.uniform(size=(900, 1))
    fast = np.sin(60.0 * single) + 0.3 * generator.normal(size=(900, 1))  # for which `polk` takes a narrower kernel
    usual_width, polks, found = (
        Gaussian(word).resolved(sample_for(one, single, fast, 1)).bandwidth
        for word, one in (("median", learner), ("auto", Polk()), ("auto", learner))
    )
    assert found == usual_width != polks


def test_the_relevance_looks_past_outliers_offsets_and_constants() -> None:
    points, targets = surface(4)
    wanted = relevance(sample(points, targets, Squared()))
    spoiled = np.column_stack([points, np.full(600, 3.7e5), np.full(600, 0.1)])
    spoiled[7, 1] = 1e9
    spoiled[:, 2] += 1e9
    found = relevance(sample(spoiled, targets, Squared()))
    np.testing.assert_allclose(found[:3] / found[0], wanted[:3] / wanted[0], rtol=0.1)
    assert deviations(spoiled)[4:].tolist() == [0.0, 0.0]
    assert deviations(spoiled)[1] == pytest.approx(1.0, rel=0.1)


def test_what_was_found_is_the_same_again_and_not_taken_for_other_targets() -> None:
    points, targets = surface()
    first = Gaussian("auto").resolved(sample(points, targets, Squared()))
    assert Gaussian("auto").resolved(sample(points.copy(), targets, Squared())) == first
    assert Gaussian("auto").resolved(sample(points, targets[::-1].copy(), Squared())) != first
    assert Laplacian("auto").resolved(sample(points, targets, Squared())).bandwidth != first.bandwidth


@pytest.mark.parametrize(
    ("rate", "noise", "begun", "nearer"),
    [(1.0, 0.05, 1.0 / 128.0, 1.0 / 32.0), (6.0, 0.2, 8.0, 1.0)],
    ids=["far too narrow", "far too wide"],
)
def test_lengths_go_on_for_as_long_as_the_held_out_error_falls(
    rate: float, noise: float, begun: float, nearer: float
) -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(-1.0, 1.0, size=(300, 1))
    targets = np.sin(rate * points) + noise * generator.normal(size=(300, 1))
    known = Sample(points, targets, Squared(), 1, 1, lambda points: points)
    found = tried("median", known, Gaussian(), lambda lengths: begun * SHARE)
    assert found == tried("median", known, Gaussian(), lambda lengths: nearer * SHARE)


@pytest.mark.parametrize("count", [1, 2, 60, 61, 1000])
def test_the_median_distance_leaves_out_equal_points_and_one_beyond_all_others(count: int) -> None:
    points = np.random.default_rng(count).normal(size=(count, 3)).round(1)
    distances = pdist(points)
    distances = distances[distances > 0.0]
    assert median_distance(points) == (float(np.median(distances)) if len(distances) else 1.0)
    if count > 2:
        points[0] = 1e200
        distances = pdist(points[1:])
        assert median_distance(points) == float(np.median(distances[distances > 0.0]))


@pytest.mark.parametrize(("wrong", "times"), [(0, 1), (9, 1), (10, 2), (60, 2)])
def test_other_lengths_of_classes_are_tried_from_ten_wrong_rows_on(
    wrong: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = np.tile([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 150)[:, np.newaxis]
    points = np.random.default_rng(0).normal(size=(900, 2)) + 20.0 * labels
    labels[2 : 3 * wrong : 3] = 1.0 - labels[2 : 3 * wrong : 3]  # every third row is held out
    forms = []
    judge = bandwidths._Trial.judge
    monkeypatch.setattr(bandwidths._Trial, "judge", lambda *given: forms.append(given[1]) or judge(*given))
    found = tried("median", sample(points, labels, MulticlassLogistic()), Gaussian(), lambda lengths: SHARE)
    assert len(forms) == times
    assert times > 1 or found == SHARE * median_distance(points)
