"""Points of a step that KOMP would take straight out again never enter, and nothing is decided otherwise for that."""

import numpy as np
import pytest

from kernelswarm.agents.arithmetic import simd
from kernelswarm.agents.arithmetic.inverse_factor import Added
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD, screen
from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear
from tests.agents.arithmetic.test_simd import compiled
from tests.helpers.naive import destructive_komp, refit

TIE = 1e-6  # decisions closer than this may fall either way in floating point


def function_of(generator, kernel, inputs, outputs, order):
    points = generator.uniform(-2.0, 2.0, (order, inputs))
    return Expansion.from_arrays(kernel, points, generator.normal(size=(order, outputs)))


def screened(function, points, weights, epsilon, fixed=0, fence=np.inf):
    """Screen the points of a step on a function, in place; returns the squared error."""
    added = Added(points, weights, function.rows(points), function.kernel.cross(points, points))
    return screen(function.tables, function.order, added, epsilon**2, SPAN_THRESHOLD, fence, fixed)


@pytest.mark.parametrize("batch", [2, 9, 20])
@pytest.mark.parametrize("outputs", [1, 3])
def test_steps_of_many_points_decide_as_the_naive_algorithm(batch, outputs):
    compared = came = stayed = 0
    for seed in range(18):
        generator = np.random.default_rng([seed, batch])
        kernel = [Gaussian(0.7), Gaussian(1.2), Laplacian(1.0)][seed % 3]
        function = function_of(generator, kernel, 2, outputs, int(generator.integers(0, 12)))
        points = generator.uniform(-2.0, 2.0, (batch, 2))
        weights = generator.normal(size=(batch, outputs)) * 10.0 ** generator.uniform(-2.5, 0.0, (batch, 1))
        weights[generator.random(batch) < 0.2] = 0.0
        before, given = function.points.copy(), weights.copy()
        everything, target = np.concatenate([before, points]), np.concatenate([0.999 * function.weights, weights])
        epsilon = 10.0 ** generator.uniform(-1.5, 0.3)
        kept, expected, margin = destructive_komp(kernel, everything, target, epsilon)
        error, _ = function.step(points, weights, function.rows(points), 0.999, epsilon)
        np.testing.assert_array_equal(weights, given)  # they are the caller's
        assert error <= epsilon * (1.0 + 1e-9)
        if margin < TIE:
            continue
        compared += 1
        came += batch
        stayed += sum(place >= len(before) for place in kept)
        np.testing.assert_array_equal(function.points, everything[kept])
        np.testing.assert_allclose(function.weights, expected, rtol=1e-5, atol=1e-7 * np.abs(target).max())
        assert error == pytest.approx(refit(kernel, everything, target, kept)[1], rel=1e-6, abs=1e-9)
    assert compared >= 15
    assert 0.05 * came < stayed < 0.95 * came


def test_points_of_no_account_leave_dictionary_and_factor_as_they_are():
    generator = np.random.default_rng(1)
    function = function_of(generator, Gaussian(0.6), 2, 1, 12)
    function.weights_buffer[:12] = 3.0
    before = {name: array.copy() for name, array in function.snapshot().items()}
    points, weights = generator.uniform(-2.0, 2.0, (7, 2)), 1e-3 * generator.normal(size=(7, 1))
    everything, target = np.concatenate([function.points, points]), np.concatenate([function.weights, weights])
    error, changes = function.step(points, weights, function.rows(points), 1.0, 0.05)
    after = function.snapshot()
    assert changes == 0
    for name in ("points", "factor", "precision"):
        np.testing.assert_array_equal(after[name], before[name])
    expected, distance = refit(Gaussian(0.6), everything, target, list(range(12)))
    np.testing.assert_allclose(function.weights, expected, rtol=1e-8)
    assert error == pytest.approx(distance, rel=1e-8)


def test_who_is_left_keeps_the_weight_of_the_refit():
    generator = np.random.default_rng(2)
    kernel = Gaussian(0.8)
    function = function_of(generator, kernel, 2, 2, 9)
    points = generator.uniform(-2.0, 2.0, (6, 2))
    weights = np.array([[1e-3, 2e-3], [2.0, 1.0], [-1e-3, 0.0], [0.0, 0.0], [1.5, -2.0], [3e-3, 1e-3]])
    everything, target = np.concatenate([function.points, points]), np.concatenate([function.weights, weights])
    spent = screened(function, points, weights, 0.02)
    left = [*range(9), 10, 13]
    expected, distance = refit(kernel, everything, target, left)
    assert (weights != 0.0).any(axis=1).tolist() == [False, True, False, False, True, False]
    np.testing.assert_allclose(np.concatenate([function.weights, weights[[1, 4]]]), expected, rtol=1e-8)
    assert np.sqrt(spent) == pytest.approx(distance, rel=1e-8)


def test_nothing_goes_where_an_old_element_is_the_next():
    generator = np.random.default_rng(3)
    function = function_of(generator, Gaussian(0.5), 2, 1, 8)
    function.weights_buffer[3] = 1e-6
    points, weights = generator.uniform(-2.0, 2.0, (4, 2)), generator.normal(size=(4, 1))
    old, new = function.weights.copy(), weights.copy()
    assert screened(function, points, weights, 0.5) == 0.0
    np.testing.assert_array_equal(function.weights, old)
    np.testing.assert_array_equal(weights, new)
    # Where it is to stay, it is not asked.
    assert screened(function, points, weights, 10.0, fixed=8) > 0.0
    assert (weights == 0.0).all()


def test_near_twins_and_what_is_beyond_the_fence_are_left_to_single_insertions():
    generator = np.random.default_rng(4)
    function = function_of(generator, Gaussian(0.5), 2, 1, 8)
    points, weights = generator.uniform(-2.0, 2.0, (4, 2)), 1e-3 * generator.normal(size=(4, 1))
    given = weights.copy()
    assert screened(function, points, weights, 1.0, fence=1e-3) == 0.0
    np.testing.assert_array_equal(weights, given)
    points[2] = points[1] + 1e-4
    assert screened(function, points, weights, 1.0) == 0.0
    np.testing.assert_array_equal(weights, given)


def test_kernels_that_are_zero_somewhere_are_screened_too():
    function = Expansion(Linear(), 2, 1)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    function.step(points, np.ones((4, 1)), function.rows(points), 1.0, 1e-3)
    np.testing.assert_allclose(function.values(np.eye(2)), [[2.0], [3.0]], rtol=1e-10)
    assert function.order == 2


@pytest.mark.parametrize("size", [0, SIMD_WIDTH, 3 * SIMD_WIDTH])
def test_stretches_are_handled_entry_by_entry(size):
    generator = np.random.default_rng(6)
    memory, other = generator.normal(size=200), generator.normal(size=(10, 20))
    add = compiled(simd.add_scaled, 6)
    expected = memory.copy()
    expected[5 : 5 + size] += -0.7 * other.reshape(-1)[31 : 31 + size]
    found = memory.copy()
    add(found, 5, other, 31, -0.7, size)
    np.testing.assert_array_equal(found, expected)


def test_lengths_are_rounded_up_to_whole_lanes():
    assert [simd.whole(size) for size in (0, 1, SIMD_WIDTH, SIMD_WIDTH + 1)] == [
        0,
        SIMD_WIDTH,
        SIMD_WIDTH,
        2 * SIMD_WIDTH,
    ]
