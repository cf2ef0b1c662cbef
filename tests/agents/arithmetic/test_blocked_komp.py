"""A mini-batch taken in blocks gives what single insertions and removals give, and keeps the factor what it is."""

import copy
import math

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.blocked_komp import FETCHED, PANEL, offered
from kernelswarm.agents.arithmetic.blocked_removal import STRIP, SWEEP
from kernelswarm.agents.functions import expansion
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.parts.kernels import Gaussian

TIE = 1e-6  # decisions closer than this may fall either way in floating point
NEVER = 10**9


@pytest.fixture
def step(monkeypatch):
    """Take a step on a function in blocks, or one insertion and removal at a time, whatever its size."""

    def take(function, points, weights, epsilon, blocked=True, shrink=1.0):
        monkeypatch.setattr(expansion, "BLOCKED_FROM_ORDER", 0)
        monkeypatch.setattr(expansion, "BLOCKED_FROM_SAMPLES", 1 if blocked else NEVER)
        return function.step(points, weights, function.rows(points), shrink, epsilon)

    return take


def assert_same(function, single):
    np.testing.assert_array_equal(function.points, single.points)
    np.testing.assert_allclose(function.weights, single.weights, rtol=1e-6, atol=1e-8 * np.abs(single.weights).max())


def assert_factor_holds(function, rtol=1e-8):
    """The whole buffer is zero above the diagonal and beyond the order, U is inv(L), the precision diag(inv(K))."""
    order = function.order
    buffer = function.factor_buffer
    assert (buffer[np.triu_indices(len(buffer), 1)] == 0.0).all()
    assert (buffer[order:, :] == 0.0).all()
    assert (np.diag(function.factor) > 0.0).all()
    if order:
        gram = function.rows(function.points)
        assert np.abs(function.factor @ gram @ function.factor.T - np.eye(order)).max() < rtol
        np.testing.assert_allclose(function.precision_buffer[:order], np.diag(np.linalg.inv(gram)), rtol=rtol)


@pytest.mark.parametrize(
    ("inputs", "outputs", "bandwidth", "epsilon", "steps"),
    # In twenty dimensions nearly every point is kept: 640 after 20 steps.
    [
        (20, 1, 4.0, 0.01, 20),
        (8, 3, 1.0, 0.05, 40),
        (2, 1, 1.0, 1e-3, 40),
        (2, 1, 1.0, 1e-5, 40),
        (2, 2, 3.0, 1e-4, 40),
    ],
)
def test_decides_as_single_steps_do_along_a_stream(step, inputs, outputs, bandwidth, epsilon, steps):
    # Well conditioned in many dimensions; in two, most points of a mini-batch lie near the span of the others.
    generator = np.random.default_rng(0)
    direction = generator.normal(size=(inputs, outputs))
    function = Expansion(Gaussian(bandwidth), inputs, outputs)
    compared = 0
    for _ in range(steps):
        points = generator.normal(size=(32, inputs))
        weights = (np.sin(points @ direction) - function.values(points)) / 32
        single = copy.deepcopy(function)
        error, _ = step(function, points, weights, epsilon, shrink=1.0 - 1e-6)
        expected, _ = step(single, points, weights, epsilon, blocked=False, shrink=1.0 - 1e-6)
        if abs(expected - epsilon) > TIE * epsilon:
            np.testing.assert_array_equal(function.points, single.points)
            np.testing.assert_allclose(function.weights, single.weights, atol=1e-6)
            assert error == pytest.approx(expected, rel=1e-5, abs=1e-9)
            compared += 1
        assert function.defect() < 1e-4
        assert (np.triu(function.factor_buffer, 1) == 0.0).all()
    assert compared > 0.75 * steps
    assert function.order > 5


@pytest.fixture
def wide_function():
    """A function on more points than a panel and a strip hold, a third of them with small weights."""
    generator = np.random.default_rng(1)
    order = max(PANEL, STRIP) + 90
    points = generator.uniform(-1.0, 1.0, (order, 6))
    weights = generator.normal(size=(order, 3))
    weights[generator.permutation(order)[: order // 3]] *= 1e-3
    return Expansion.from_arrays(Gaussian(0.6), points, weights)


@pytest.mark.parametrize("share", [1e-4, 1e-3, 4e-3, 3e-2])
def test_many_old_elements_and_new_points_go_at_once(step, wide_function, share):
    generator = np.random.default_rng(2)
    points = generator.uniform(-1.0, 1.0, (40, 6))
    weights = generator.normal(size=(40, 3)) * 10.0 ** generator.uniform(-5.0, 0.0, (40, 1))
    epsilon = share * math.sqrt(wide_function.inner(wide_function))
    before = wide_function.order
    single = copy.deepcopy(wide_function)
    error, _ = step(wide_function, points, weights, epsilon)
    expected, _ = step(single, points, weights, epsilon, blocked=False)
    assert_same(wide_function, single)
    assert error == pytest.approx(expected, rel=1e-8)
    assert_factor_holds(wide_function)
    if share > 1e-3:
        assert before - wide_function.order > max(SWEEP, FETCHED)


def test_stream_over_panels_and_strips_keeps_the_factor(step, wide_function):
    generator = np.random.default_rng(3)
    single = copy.deepcopy(wide_function)
    for _ in range(6):
        points = generator.uniform(-1.0, 1.0, (32, 6))
        weights = 0.1 * generator.normal(size=(32, 3))
        step(wide_function, points, weights, 0.15, shrink=0.999)
        step(single, points, weights, 0.15, blocked=False, shrink=0.999)
        assert_same(wide_function, single)
    assert_factor_holds(wide_function)


def test_nothing_is_left_when_the_budget_holds_the_whole_function(step, wide_function):
    norm = math.sqrt(wide_function.inner(wide_function))
    error, _ = step(wide_function, np.zeros((8, 6)), np.zeros((8, 3)), 1.001 * norm)
    assert wide_function.order == 0
    assert error == pytest.approx(norm, rel=1e-9)
    assert (wide_function.factor_buffer == 0.0).all()
    # And it can begin anew.
    points = np.random.default_rng(6).uniform(-1.0, 1.0, (8, 6))
    step(wide_function, points, np.ones((8, 3)), 0.0)
    np.testing.assert_array_equal(wide_function.points, points)
    assert_factor_holds(wide_function)


def test_old_elements_of_weight_zero_go_first_without_a_budget(step, wide_function):
    wide_function.weights[[3, 100, 101, 300]] = 0.0
    kept = np.delete(wide_function.points, [3, 100, 101, 300], axis=0)
    points = np.random.default_rng(8).uniform(-1.0, 1.0, (8, 6))
    error, _ = step(wide_function, points, np.ones((8, 3)), 0.0)
    assert error == 0.0
    np.testing.assert_array_equal(wide_function.points, np.concatenate([kept, points]))
    assert_factor_holds(wide_function)


def test_duplicates_add_to_the_weight_of_the_first(step, wide_function):
    generator = np.random.default_rng(9)
    new = generator.uniform(-1.0, 1.0, (2, 6))
    points = np.concatenate([new, wide_function.points[[7, 200]], new[:1], wide_function.points[7:8]])
    weights = generator.normal(size=(6, 3))
    expected = np.concatenate([wide_function.weights, weights[:2]])
    expected[[7, 200]] += weights[2:4]
    expected[-2] += weights[4]
    expected[7] += weights[5]
    dictionary = np.concatenate([wide_function.points, new])
    error, changes = step(wide_function, points, weights, 0.0)
    assert changes == 2
    assert error < 1e-4
    np.testing.assert_array_equal(wide_function.points, dictionary)
    np.testing.assert_allclose(wide_function.weights, expected, atol=1e-8)
    assert_factor_holds(wide_function)


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-4])
def test_near_twins_are_distinguished(step, gap):
    # One of each pair goes, which takes all but gap^2 of the other's precision: nothing of that may be a difference.
    generator = np.random.default_rng(11)
    first = generator.uniform(-1.0, 1.0, (40, 3))
    second = first + gap * generator.normal(size=(40, 3))
    function = Expansion.from_arrays(
        Gaussian(0.2),
        np.concatenate([first, second]),
        generator.normal(size=(80, 1)) + np.repeat([[0.0], [3.0]], 40, 0),
    )
    single = copy.deepcopy(function)
    points = generator.uniform(-1.0, 1.0, (8, 3))
    weights = 2.0 + generator.normal(size=(8, 1))
    epsilon = 45.0 * gap
    step(function, points, weights, epsilon)
    step(single, points, weights, epsilon, blocked=False)
    assert function.order < 65
    assert_same(function, single)
    assert_factor_holds(function)


def test_points_that_go_straight_out_again_leave_the_factor_alone(step, wide_function):
    generator = np.random.default_rng(12)
    wide_function.weights[:] += 1.0  # none of the old elements is cheap
    single, factor = copy.deepcopy(wide_function), wide_function.factor.copy()
    points, weights = generator.uniform(-1.0, 1.0, (32, 6)), 1e-3 * generator.normal(size=(32, 3))
    _, changes = step(wide_function, points, weights, 0.1)
    step(single, points, weights, 0.1, blocked=False)
    assert changes == 0
    np.testing.assert_array_equal(wide_function.factor, factor)
    assert_same(wide_function, single)


def test_points_are_split_into_what_lies_in_the_span_and_the_rest():
    random = np.random.default_rng(0)
    old, new = random.normal(size=(PANEL + 20, 6)), random.normal(size=(9, 6))
    function = Expansion.from_arrays(Gaussian(1.0), old, np.zeros((len(old), 1)))
    cross, gram = function.kernel.cross(new, old), function.kernel.cross(new, new)
    weights = np.ones((len(new), 1))
    weights[4] = 0.0
    entering, projections, rest = offered(function.factor_buffer, len(old), cross, gram, weights)
    assert entering.tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    cross, gram = cross[entering], gram[np.ix_(entering, entering)]
    expected = np.linalg.solve(function.kernel.cross(old, old), cross.T).T
    np.testing.assert_allclose(projections, expected, atol=1e-9)
    np.testing.assert_allclose(rest, gram - expected @ cross.T, atol=1e-9)
