"""Where learners settle beside what is proved: optima, bounds, and when a claim holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.reproductions import colk_theory, polk_theory, spppot_theory, walks

KERNEL = Gaussian(0.1)


def regularised(function: KernelSum, targets: np.ndarray, regularization: float) -> float:
    errors = function.values(walks.midpoints(len(targets))) - targets
    return float(np.mean(errors**2)) + 0.5 * regularization * function.inner(function)


def test_no_small_change_lowers_the_risk_of_the_ridge_optimum() -> None:
    generator = np.random.default_rng(0)
    targets = generator.normal(size=(50, 1))
    best = walks.ridge_optimum(KERNEL, targets, 0.1)
    least = regularised(best, targets, 0.1)
    for _ in range(10):
        moved = KernelSum(KERNEL, 1, 1).assign(best.points, best.weights + 1e-3 * generator.normal(size=(50, 1)))
        assert regularised(moved, targets, 0.1) > least


def test_the_ridge_optimum_hardly_depends_on_the_number_of_midpoints() -> None:
    few, many = (walks.ridge_optimum(KERNEL, polk_theory._curve(walks.midpoints(count)), 0.1) for count in (100, 400))
    assert few.distance(many) < 1e-3 * math.sqrt(many.inner(many))


def test_a_walk_measures_after_as_many_samples_as_it_is_asked_to() -> None:
    points = np.random.default_rng(0).uniform(size=(30, 1))
    learner = Polk(kernel=KERNEL, step_size=Constant(0.1), budget=Epsilon(0.0))
    found = walks.walk(learner, points, points, [5, 20, 30], lambda function, state: float(state.steps))
    assert found.measured.tolist() == found.samples.tolist() == [5.0, 20.0, 30.0]
    assert found.settled == 25.0
    assert walks.evenly(100, 5, 2) == [20, 40, 60, 80, 100]
    assert all(look % 2 == 0 for look in walks.evenly(98, 5, 2))


def test_the_largest_ratio_may_lie_at_the_coarsest_settings_only() -> None:
    assert walks.largest_at_the_coarsest(np.array([1.0, 0.5, 1.04]), [0])
    assert not walks.largest_at_the_coarsest(np.array([1.0, 0.5, 1.1]), [0])
    assert walks.largest_at_the_coarsest(np.array([1.0, 0.5, 1.1]), [0, 2])


def test_points_can_be_as_far_apart_as_the_packing_number_counts() -> None:
    for separation in (0.05, 0.3, 1.0):
        count = int(polk_theory.packing(separation))
        assert count > 1
        fits, crowded = (np.linspace(0.0, 1.0, number)[:2, np.newaxis] for number in (count, count + 1))
        distances = [math.sqrt(2.0 - 2.0 * polk_theory.KERNEL.cross(pair, pair)[0, 1]) for pair in (fits, crowded)]
        assert distances[0] >= separation > distances[1]
    assert polk_theory.packing(1.5) == 1.0


def test_the_radius_solves_the_quadratic_inequality_that_it_comes_from() -> None:
    # POLK eq. 58: -lambda eta r^2 + 2 eps r + eta^2 sigma^2 = 0 with eps = K eta^(3/2)
    step, constant, variance = 0.05, 0.7, 3.0
    r = polk_theory.radius(step, constant, variance)
    left = -polk_theory.REGULARIZATION * step * r**2 + 2.0 * constant * step**1.5 * r + step**2 * variance
    assert left == pytest.approx(0.0, abs=1e-12)


def test_the_second_moment_of_the_gradient_is_that_of_samples() -> None:
    generator = np.random.default_rng(1)
    function = KernelSum(polk_theory.KERNEL, 1, 1).assign(generator.uniform(size=(5, 1)), generator.normal(size=(5, 1)))
    points, targets = polk_theory._sample(100_000, [2])
    slopes, values = 2.0 * (function.values(points) - targets), function.values(points)
    rate = polk_theory.REGULARIZATION
    squares = slopes**2 + 2.0 * rate * slopes * values + rate**2 * function.inner(function)
    gaps = function.values(walks.midpoints()) - polk_theory._curve(walks.midpoints())
    assert polk_theory._second_moment(function, gaps) == pytest.approx(squares.mean(), rel=0.02)


def test_the_positive_optimum_is_a_density() -> None:
    values = np.exp(spppot_theory.optimum().values(walks.midpoints(1000)))
    assert values.mean() == pytest.approx(1.0, abs=1e-4) and values.min() > 0.0


def test_the_gradient_of_the_mean_and_variance_vanishes_at_the_optimum() -> None:
    best = colk_theory.optimum()
    residuals = colk_theory._residuals(best.values(walks.midpoints()))
    losses = residuals**2
    slopes = (2.0 * residuals * (1.0 + 2.0 * colk_theory.WEIGHT * (losses - losses.mean()))).mean(axis=1, keepdims=True)
    pull = KernelSum(colk_theory.KERNEL, 1, 1).assign(
        walks.midpoints(), -slopes / (len(slopes) * colk_theory.REGULARIZATION)
    )
    assert best.distance(pull) < 1e-3 * math.sqrt(best.inner(best))


@pytest.mark.parametrize(("exponent", "holds"), [(0.5, True), (0.9, True), (0.3, False)])
def test_the_rate_of_constant_steps_holds_from_its_exponent_on(exponent: float, holds: bool) -> None:
    steps, constants = np.array(polk_theory.STEPS), np.array(polk_theory.CONSTANTS)
    arrays = {"steps": steps, "constants": constants, "samples": np.array([10.0, 100.0, 1000.0])}
    for name, x in (("step", steps), ("constant", constants)):
        arrays[f"{name}_distance"] = np.tile(x**exponent, (3, 1))
        for quantity, value in (("least", 0.1), ("radius", 20.0), ("early", 9.0), ("late", 9.0), ("packing", 40.0)):
            arrays[f"{name}_{quantity}"] = np.full((3, len(x)), value)
    arrays["falling_distance"] = np.tile(arrays["samples"] ** -0.4, (3, 1))
    arrays["falling_order"] = np.full((3, 3), 5.0)
    verdicts = [claim.holds for claim in polk_theory.judged(arrays, draws=3, norm=1.0).claims]
    assert verdicts == [holds, True, True, True, True, True, True, None]
    arrays["constant_late"] = np.tile(np.linspace(9.0, 50.0, len(constants)), (3, 1))
    arrays["step_late"] = arrays["step_late"] + 2.0
    arrays["falling_distance"] = np.tile([1.0, 0.5, 0.6], (3, 1))
    arrays["step_least"] = arrays["step_radius"] + 1.0
    assert [claim.holds for claim in polk_theory.judged(arrays, draws=3, norm=1.0).claims][1:7] == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
