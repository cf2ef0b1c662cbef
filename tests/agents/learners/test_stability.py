"""The learner neither collapses nor drifts: wide kernels, small budgets, long streams, extreme data."""

import math

import networkx as nx
import numpy as np
import pytest

from kernelswarm import PolkRegressor
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.controls import Isolated
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.running.simulation import simulate


def smooth(size, seed, noise=0.0):
    """x ~ N(0, I_2) with y = sin x_1 + x_2^2."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(size, 2))
    return points, np.sin(points[:, :1]) + points[:, 1:] ** 2 + noise * generator.normal(size=(size, 1))


def learned(learner, points, targets):
    state = learner.init(points.shape[1], targets.shape[1])
    passes.learn(learner, state, points, targets)
    return state


def defect(function):
    """``max |U K U' - I|``, computed in full."""
    gram = function.kernel.cross(function.points, function.points)
    return float(np.abs(function.factor @ gram @ function.factor.T - np.eye(function.order)).max(initial=0.0))


def error(function, points, targets):
    return float(np.mean((function.values(points) - targets) ** 2))


@pytest.mark.parametrize(("bandwidth", "batch"), [(1.0, 1), (3.0, 32)])
def test_budgets_too_small_to_resolve_do_no_harm(bandwidth, batch):
    # Left to itself a budget of 0 fills the dictionary until the factor has no digit left, and f grows without bound.
    points, targets = smooth(6000, 0)
    held_out = smooth(2000, 10**6)
    errors = []
    for epsilon in (1e-3, 1e-6, 1e-8, 0.0):
        learner = Polk(
            kernel=Gaussian(bandwidth),
            step_size=Constant(0.3),
            regularization=0.0,
            batch_size=batch,
            budget=Epsilon(epsilon),
        )
        function = learned(learner, points, targets).function
        errors.append(error(function, *held_out))
        assert np.abs(function.weights).max() < 1e3
    np.testing.assert_allclose(errors[1:], errors[0], rtol=0.05)


@pytest.mark.parametrize(("bandwidth", "epsilon", "batch"), [(3.0, 1e-3, 1), (3.0, 1e-4, 4), (1.0, 1e-4, 32)])
def test_compression_error_is_within_the_budget_in_extended_precision(bandwidth, epsilon, batch):
    # Squares of the budget are near the rounding of float64 here, so the norm is computed in long doubles.
    learner = Polk(kernel=Gaussian(bandwidth), step_size=Constant(0.5), batch_size=batch, budget=Epsilon(epsilon))
    points, targets = smooth(1060 * batch, 1)
    state = learned(learner, points[: 1000 * batch], targets[: 1000 * batch])
    shrink = 1.0 - 0.5 * learner.regularization
    shares = []
    for start in range(1000 * batch, 1060 * batch, batch):
        batched = slice(start, start + batch)
        own = learner.evaluate(state, points[batched])
        gradient = learner.gradient(state, own, targets[batched])
        before = np.concatenate([state.function.points, points[batched]])
        difference = np.concatenate([shrink * state.function.weights, gradient * (-0.5 / batch)])
        info = learner.step(state, [own], [gradient], None, targets[batched])
        place = {point.tobytes(): k for k, point in enumerate(before)}
        for point, weight in zip(state.function.points, state.function.weights, strict=True):
            difference[place[point.tobytes()]] -= weight
        wide = before.astype(np.longdouble)
        squares = ((wide[:, None] - wide[None]) ** 2).sum(axis=-1)
        gram = np.exp(-squares / (2 * np.longdouble(bandwidth) ** 2))
        lost = math.sqrt(max(float(np.sum(difference * (gram @ difference))), 0.0))
        shares.append(lost / epsilon)
        assert info.compression_error <= epsilon * (1.0 + 1e-9)
    assert max(shares) < 1.02
    assert max(shares) > 0.5


@pytest.mark.parametrize("spread", [0.0, 1e-9])
@pytest.mark.parametrize("batch", [1, 16])
def test_duplicates_share_one_dictionary_point(spread, batch):
    generator = np.random.default_rng(0)
    places = np.linspace(-2.0, 2.0, 5)[:, None]
    chosen = generator.integers(0, 5, 2000)
    points = places[chosen] + spread * generator.normal(size=(2000, 1))
    learner = Polk(kernel=Gaussian(0.5), step_size=Constant(0.2), batch_size=batch, budget=Epsilon(0.0))
    state = learned(learner, points, np.cos(places[chosen]))
    assert state.function.order == 5
    np.testing.assert_allclose(state.function.values(places), np.cos(places), atol=1e-3)
    assert defect(state.function) < 1e-9


@pytest.mark.parametrize(("bandwidth", "epsilon"), [(0.3, 1e-3), (1.0, 1e-5), (3.0, 1e-3)])
def test_one_input_up_to_the_numerical_rank_of_the_kernel(bandwidth, epsilon):
    generator = np.random.default_rng(4)
    points = generator.uniform(-3.0, 3.0, (20_000, 1))
    learner = Polk(kernel=Gaussian(bandwidth), step_size=Constant(0.5), budget=Epsilon(epsilon))
    wave = 2.0 / max(bandwidth, 1.0)
    state = learned(learner, points, np.sin(wave * points))
    everywhere = np.linspace(-3.0, 3.0, 200)[:, None]
    spectrum = np.linalg.eigvalsh(learner.kernel.cross(everywhere, everywhere))
    assert 5 <= state.function.order <= np.sum(spectrum > 1e-12 * spectrum[-1])
    assert defect(state.function) < 1e-2
    assert error(state.function, everywhere, np.sin(wave * everywhere)) < 1e-3


@pytest.mark.parametrize("power", range(-6, 7))
def test_extreme_bandwidths_stay_finite(power):
    points, targets = smooth(1000, 5)
    learner = Polk(kernel=Gaussian(10.0**power), step_size=Constant(0.2), budget=Epsilon(1e-3))
    state = learned(learner, points, targets)
    function = state.function
    assert np.isfinite(function.weights).all()
    assert defect(function) < 1e-2
    if power <= -4:  # every point is alone: f passes 0.4 of the way through each
        assert function.order == 1000
        np.testing.assert_allclose(function.values(points), 0.4 * targets, rtol=2e-4)
    if power >= 4:  # a constant is all that such a kernel can tell
        assert function.order <= 3
        assert np.ptp(function.values(points)) < 1e-2


@pytest.mark.parametrize("power", [-12, -6, 0, 6, 9])
def test_function_scales_with_the_targets_and_the_budget(power):
    # Every operation is linear in (f, y, eps) but for the comparisons, which are homogeneous; 2^k leaves every bit.
    scale = 2.0 ** round(power * math.log2(10.0))
    points, targets = smooth(1500, 6)
    small, large = (
        learned(
            Polk(kernel=Gaussian(1.0), step_size=Constant(0.3), budget=Epsilon(1e-3 * factor)), points, factor * targets
        ).function
        for factor in (1.0, scale)
    )
    np.testing.assert_array_equal(large.points, small.points)
    np.testing.assert_allclose(large.weights, scale * small.weights, rtol=1e-12)


def test_single_precision_inputs_learn_as_their_double_precision_values():
    points, targets = smooth(400, 8)
    points, targets = points.astype(np.float32), targets.astype(np.float32)[:, 0]
    settings = {"bandwidth": 1.0, "budget": {"epsilon": 1e-3}, "random_state": 0, "epochs": 2}
    single = PolkRegressor(**settings).fit(points, targets)
    double = PolkRegressor(**settings).fit(points.astype(np.float64), targets.astype(np.float64))
    np.testing.assert_array_equal(single.dual_coef_, double.dual_coef_)
    assert single.predict(points).dtype == np.float64
    np.testing.assert_array_equal(single.predict(points), double.predict(points.astype(np.float64)))


def test_two_thousand_inputs():
    generator = np.random.default_rng(9)
    axes = np.linalg.qr(generator.normal(size=(2000, 2)))[0]
    plane, targets = smooth(400, 9)
    learner = Polk(kernel=Gaussian(1.0), step_size=Constant(0.3), budget=Epsilon(0.03))
    wide, narrow = (learned(learner, inputs, targets).function for inputs in (plane @ axes.T, plane))
    assert wide.order == narrow.order > 10
    np.testing.assert_allclose(wide.weights, narrow.weights, rtol=1e-6, atol=1e-9)
    assert defect(wide) < 1e-8


def test_one_sample_and_none():
    learner = Polk(kernel=Gaussian(1.0), step_size=Constant(0.25), batch_size=8, budget=Epsilon(0.1))
    state = learner.init(2, 1)
    passes.learn(learner, state, np.zeros((0, 2)), np.zeros((0, 1)))
    assert (state.function.order, state.steps) == (0, 0)
    assert (state.function.values(np.ones((3, 2))) == 0.0).all()
    assert state.function.values(np.zeros((0, 2))).shape == (0, 1)
    passes.learn(learner, state, np.ones((1, 2)), np.full((1, 1), 4.0))
    np.testing.assert_allclose(state.function.weights, [[0.25]])  # -eta/b l' = 0.25 / 8 * 2 * 4
    assert state.steps == 1


def test_equal_columns_are_learned_as_one_output_is():
    points, targets = smooth(800, 10)
    one = Polk(kernel=Gaussian(1.0), step_size=Constant(0.3), budget=Epsilon(0.01))
    four = Polk(kernel=Gaussian(1.0), step_size=Constant(0.3), budget=Epsilon(0.02))  # the norm sums over outputs
    single = learned(one, points, targets).function
    columns = learned(four, points, np.repeat(targets, 4, axis=1)).function
    np.testing.assert_array_equal(columns.points, single.points)
    np.testing.assert_allclose(columns.weights, np.repeat(single.weights, 4, axis=1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("bandwidth", "epsilon", "noise", "batch", "size"),
    [(1.0, 1e-3, 0.5, 1, 100_000), (3.0, 1e-5, 0.5, 16, 60_000)],
)
def test_long_streams_do_not_wear_the_factor_out(bandwidth, epsilon, noise, batch, size):
    learner = Polk(kernel=Gaussian(bandwidth), step_size=Constant(0.2), batch_size=batch, budget=Epsilon(epsilon))
    state = learner.init(2, 1)
    held_out = smooth(1000, 10**6)
    worst, errors, orders = [], [], []
    for stretch in range(10):
        passes.learn(learner, state, *smooth(size // 10, stretch, noise))
        worst.append(defect(state.function))
        errors.append(error(state.function, *held_out))
        orders.append(state.function.order)
    assert max(worst) < 1e-2
    assert max(errors[5:]) < 0.3
    assert max(orders) < 3 * orders[0]
    assert len(state.function.points_buffer) < 3 * max(orders)


def test_rebuilds_of_a_natural_run_are_in_its_record():
    learner = Polk(
        loss=MulticlassLogistic(),
        kernel=Gaussian(3.0),
        step_size=Constant(0.3),
        batch_size=32,
        budget=Epsilon(1e-7),  # at the border of what the factor can resolve
    )
    description = Experiment(
        topology=nx.path_graph(2),
        stream=GaussianMixture(),
        learner=learner,
        protocol=Isolated(),
        rounds=900,
        evaluate_every=300,
        evaluation=Evaluation(40, 100),
    )
    nodes = simulate(description).nodes
    counted, risk = (np.reshape(nodes[name], (3, 2)) for name in ("rebuilds", "risk"))
    assert counted[-1].max() >= 1
    assert (np.diff(counted, axis=0) >= 0).all()
    assert (risk[-1] < risk[0]).all()
