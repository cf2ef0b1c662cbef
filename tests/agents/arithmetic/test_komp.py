"""KOMP decides as the paper's algorithm 1 does, and its factor stays the square root of the inverse Gram matrix."""

import math

import numpy as np
import pytest

from kernelswarm.agents.functions import expansion
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern, Polynomial
from tests.helpers.naive import destructive_komp, refit


@pytest.fixture(params=["one at a time", "blocked"])
def implementation(request, monkeypatch):
    """Both ways to take a step, whatever the size of the dictionary."""
    never = 10**9
    monkeypatch.setattr(expansion, "BLOCKED_FROM_SAMPLES", 1 if request.param == "blocked" else never)
    monkeypatch.setattr(expansion, "BLOCKED_FROM_ORDER", 0)


TIE = 1e-6  # decisions closer than this may fall either way in floating point


def grown(generator, kernel, inputs, outputs, order):
    """A function on ``order`` random points with random weights, entered one by one without compression."""
    function = Expansion(kernel, inputs, outputs)
    for _ in range(order):
        points = generator.uniform(-2.0, 2.0, (1, inputs))
        function.step(points, generator.normal(size=(1, outputs)), function.rows(points), 1.0, 0.0)
    return function


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_same_dictionary_as_the_naive_algorithm(implementation, batch):
    compared = came = stayed = 0
    for seed in range(30):
        generator = np.random.default_rng([seed, batch])
        inputs, outputs = int(generator.integers(1, 4)), int(generator.integers(1, 4))
        kernel = [Gaussian(0.7), Gaussian(1.5), Laplacian(1.0), Matern(1.0, 2.5)][seed % 4]
        function = grown(generator, kernel, inputs, outputs, int(generator.integers(0, 12)))
        old = function.order
        function.fixed = fixed = int(generator.integers(0, old + 1)) if seed % 3 == 0 else 0
        points = generator.uniform(-2.0, 2.0, (batch, inputs))
        weights = generator.normal(size=(batch, outputs)) * 10.0 ** generator.uniform(-2.5, 0.5, (batch, 1))
        weights[generator.random(batch) < 0.2 * (batch > 1)] = 0.0
        given, shrink = weights.copy(), 1.0 - 10.0 ** generator.uniform(-4.0, -1.0)
        everything = np.concatenate([function.points, points])
        target = np.concatenate([shrink * function.weights, weights])
        epsilon = 10.0 ** generator.uniform(-2.0, 0.7)
        kept, expected, margin = destructive_komp(kernel, everything, target, epsilon, fixed)
        error, _ = function.step(points, weights, function.rows(points), shrink, epsilon)
        np.testing.assert_array_equal(weights, given)  # they are the caller's
        assert error <= epsilon * (1.0 + 1e-9)
        if margin < TIE:
            continue
        compared, came, stayed = compared + 1, came + batch, stayed + sum(place >= old for place in kept)
        np.testing.assert_array_equal(function.points, everything[kept])
        np.testing.assert_allclose(function.weights, expected, rtol=1e-5, atol=1e-7 * np.abs(target).max())
        assert error == pytest.approx(refit(kernel, everything, target, kept)[1], rel=1e-6, abs=1e-9)
    assert compared >= 27
    assert 0.05 * came < stayed < 0.95 * came


@pytest.mark.parametrize("seed", range(2))
def test_same_dictionary_as_the_naive_algorithm_along_a_stream(implementation, seed):
    generator = np.random.default_rng([99, seed])
    kernel = Gaussian(0.5)
    function = Expansion(kernel, 2, 1)
    for _ in range(60):
        points = generator.uniform(-1.0, 1.0, (1, 2))
        weights = 0.2 * (np.sin(3.0 * points[:, :1]) - function.values(points))
        everything = np.concatenate([function.points, points])
        target = np.concatenate([0.999 * function.weights, weights])
        kept, _, margin = destructive_komp(kernel, everything, target, 0.05)
        function.step(points, weights, function.rows(points), 0.999, 0.05)
        if margin < TIE:
            break
        np.testing.assert_array_equal(function.points, everything[kept])
    assert function.order > 0


def test_factor_is_the_square_root_of_the_inverse_gram_matrix(implementation):
    generator = np.random.default_rng(3)
    function = grown(generator, Gaussian(0.8), 2, 2, 20)
    for _ in range(200):
        points = generator.uniform(-2.0, 2.0, (3, 2))
        function.step(points, 0.1 * generator.normal(size=(3, 2)), function.rows(points), 0.999, 0.2)
        gram = function.kernel.cross(function.points, function.points)
        identity = function.factor @ gram @ function.factor.T
        assert np.abs(identity - np.eye(function.order)).max() < 1e-8
        precision = np.diag(np.linalg.inv(gram))
        np.testing.assert_allclose(function.precision_buffer[: function.order], precision, rtol=1e-6)
    assert 0 < function.order < 60


def test_duplicate_point_adds_to_its_weight(implementation):
    generator = np.random.default_rng(6)
    function = grown(generator, Gaussian(0.5), 2, 2, 6)
    before = function.weights.copy()
    points = function.points[2:3].copy()
    function.step(points, np.array([[0.25, -1.0]]), function.rows(points), 1.0, 0.0)
    before[2] += [0.25, -1.0]
    assert function.order == 6
    np.testing.assert_allclose(function.weights, before, atol=1e-9)


def test_everything_is_removed_when_the_budget_holds_the_whole_function(implementation):
    generator = np.random.default_rng(7)
    function = grown(generator, Gaussian(0.5), 2, 1, 8)
    norm = math.sqrt(function.inner(function))
    points = np.zeros((1, 2))
    error, _ = function.step(points, np.zeros((1, 1)), function.rows(points), 1.0, 1.001 * norm)
    assert function.order == 0
    assert error == pytest.approx(norm, rel=1e-9)
    assert (function.values(generator.normal(size=(4, 2))) == 0.0).all()


def test_finite_rank_kernel_never_holds_more_points_than_its_rank(implementation):
    generator = np.random.default_rng(8)
    function = grown(generator, Polynomial(degree=2, offset=1.0), 2, 1, 40)
    assert function.order == 6  # quadratics in two variables
    gram = function.kernel.cross(function.points, function.points)
    assert np.abs(function.factor @ gram @ function.factor.T - np.eye(6)).max() < 1e-6


@pytest.mark.parametrize(("bandwidth", "batch", "epsilon"), [(1.0, 32, 1e-2), (3.0, 1, 1e-4), (3.0, 32, 1e-4)])
def test_wide_kernels_and_small_budgets_do_not_break_the_factor(implementation, bandwidth, batch, epsilon):
    generator = np.random.default_rng(9)
    function = Expansion(Gaussian(bandwidth), 2, 1)
    squared = []
    for _ in range(1200 // batch):
        points = generator.normal(size=(batch, 2))
        targets = np.sin(points[:, :1]) + points[:, 1:] ** 2
        rows, values = function.rows_and_values(points)
        squared.append(float(np.mean((values - targets) ** 2)))
        function.step(points, 0.5 * (targets - values) / batch, rows, 1.0 - 1e-7, epsilon)
    assert function.defect() < 1e-2
    assert np.isfinite(function.weights).all()
    assert np.mean(squared[-len(squared) // 4 :]) < 0.5 * np.mean(squared[: max(1, len(squared) // 20)])


def test_rebuilt_factor_equals_the_carried_one_up_to_rotation():
    generator = np.random.default_rng(10)
    function = grown(generator, Gaussian(0.6), 2, 1, 15)
    inverse = function.factor.T @ function.factor
    function.rebuild()
    np.testing.assert_allclose(
        function.factor.T @ function.factor, inverse, rtol=1e-6, atol=1e-6 * np.abs(inverse).max()
    )


def test_inner_product_and_distance_follow_their_definition():
    generator = np.random.default_rng(11)
    f = grown(generator, Gaussian(0.9), 3, 2, 7)
    g = grown(generator, Gaussian(0.9), 3, 2, 5)
    expected = sum(
        float(f.weights[m] @ g.weights[n]) * math.exp(-float(np.sum((f.points[m] - g.points[n]) ** 2)) / (2 * 0.81))
        for m in range(f.order)
        for n in range(g.order)
    )
    assert f.inner(g) == pytest.approx(expected, rel=1e-12)
    assert f.distance(g) == pytest.approx(math.sqrt(f.inner(f) - 2 * expected + g.inner(g)), rel=1e-9)
    assert f.distance(f) == pytest.approx(0.0, abs=1e-6)


def test_functions_of_different_spaces_have_no_inner_product():
    with pytest.raises(ValueError, match="different spaces"):
        Expansion(Gaussian(1.0), 2, 1).inner(Expansion(Gaussian(2.0), 2, 1))
