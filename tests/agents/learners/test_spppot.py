"""Positive functions by mirror descent: steps against the stated objective, the grid, limits, bits, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.implicit_systems import SMALL, solve_mirrored
from kernelswarm.agents.functions.expansion import Expansion, spanning
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.grids import Grid
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Huber, MulticlassLogistic, Squared
from kernelswarm.agents.parts.mirror_maps import KullbackLeibler, SquaredNorm
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity
from tests.helpers.naive import refit
from tests.helpers.pairs import in_pairs
from tests.helpers.steps import step

COARSE = PoissonProcess(cells=(12,))


def poisson(**keys):
    """A learner of densities on (0, 1) whose grid points are all linearly independent."""
    return Spppot(**{"loss": COARSE, "kernel": Gaussian(0.08), "step_size": Constant(0.02), **keys})


def started(learner, seed=0, steps=5, batch=4):
    """A state after some steps on random events."""
    generator = np.random.default_rng(seed)
    state = learner.init(1, 1)
    for _ in range(steps):
        step(learner, state, generator.random((batch, 1)), np.ones((batch, 1)))
    return state


@in_pairs(
    budget=[Epsilon(0.05), Epsilon(0.0), TargetOrder(8, alpha=0.1)],
    implicit=[False, True],
    loss=[Squared(), Huber(), MulticlassLogistic()],
)
def test_squared_norm_without_a_grid_is_polk(loss, implicit, budget):
    generator = np.random.default_rng(1)
    keys = {"loss": loss, "kernel": Gaussian(0.7), "step_size": Constant(0.4), "regularization": 1e-3, "budget": budget}
    polk, spppot = Polk(**keys), Spppot(**keys, mirror_map=SquaredNorm())
    assert spppot.gain == polk.gain
    states = polk.init(2, 3), spppot.init(2, 3)
    for _ in range(60):
        own, theirs = generator.normal(size=(4, 2)), generator.normal(size=(2, 2))
        targets = generator.integers(3, size=(4, 1)).astype(float)
        if loss.task == "regression":
            targets = generator.normal(size=(4, 3))
        pull = generator.normal(size=(2, 3))
        for learner, state in zip((polk, spppot), states, strict=True):
            evaluations = [learner.evaluate(state, own), learner.evaluate(state, theirs)]
            gradients = [learner.gradient(state, evaluations[0], targets), pull]
            learner.step(state, evaluations, gradients, [2.0, 0.5] if implicit else None, targets)
    for name, array in polk.snapshot(states[0]).items():
        np.testing.assert_array_equal(spppot.snapshot(states[1])[name], array)
    np.testing.assert_array_equal(spppot.function(states[1]).values(own), polk.function(states[0]).values(own))


def test_weights_move_as_printed():
    """SPPPOT eq. 30: -eta h on every grid point, eta / (b f(x)) on a new event, nothing on the others."""
    learner = poisson(budget=Epsilon(0.0))
    state = started(learner, steps=2, batch=3)
    before = learner.function(state)
    points, weights, own = before.points.copy(), before.weights.copy(), np.array([[0.21], [0.77]])
    values = before.values(own)
    step(learner, state, own, np.ones((2, 1)))
    after = learner.function(state)
    np.testing.assert_array_equal(after.points, np.concatenate([points, own]))
    np.testing.assert_array_equal(points[:12], COARSE.grid.points)
    expected = np.concatenate([weights, 0.02 / 2 / values])
    expected[:12] -= 0.02 * COARSE.grid.volume
    np.testing.assert_allclose(after.weights, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", range(2))
def test_the_step_is_the_kernel_embedding_of_the_objectives_gradient(seed):
    """<g, phi> is the derivative along phi of -mean_k e_k log f(x_k) + h sum_j f(u_j), for every phi in the space."""
    generator = np.random.default_rng(seed)
    learner = poisson(budget=Epsilon(0.0))
    state = started(learner, seed)
    points, events = generator.random((5, 1)), generator.integers(1, 4, (5, 1)).astype(float)
    function, grid = learner.function(state), COARSE.grid
    at_points, at_grid = function.values(points), function.values(grid.points)
    before = Expansion(learner.kernel, 1, 1).assign(function.points, function.weights)
    step(learner, state, points, events)
    direction = Expansion(learner.kernel, 1, 1).assign(generator.random((3, 1)), generator.normal(size=(3, 1)))

    def risk(t):
        moved = at_points + t * direction.values(points)
        integral = grid.volume * np.sum(at_grid + t * direction.values(grid.points))
        return np.mean(-events * np.log(moved)) + integral

    slope = (risk(1e-5) - risk(-1e-5)) / 2e-5
    moved = direction.inner(before) - direction.inner(learner.function(state).dual)
    assert moved / 0.02 == pytest.approx(slope, rel=1e-6)


def test_the_multiclass_gradient_is_the_printed_one():
    """SPPPOT eq. 31, softmax(f)_c - 1{c = y}, is the slope of -log softmax(f)_y with respect to f = exp(z)."""
    generator = np.random.default_rng(5)
    learner = Spppot(loss=MulticlassLogistic(), kernel=Gaussian(0.7), budget=Epsilon(0.0), batch_size=6)
    state = learner.init(2, 4)
    points, targets = generator.normal(size=(6, 2)), generator.integers(4, size=(6, 1)).astype(float)
    for _ in range(3):
        step(learner, state, points, targets)
    own = learner.evaluate(state, points)
    gradient = learner.gradient(state, own, targets)
    labels = targets[:, 0].astype(int)
    printed = np.exp(own.values) / np.exp(own.values).sum(axis=1, keepdims=True)
    printed[np.arange(6), labels] -= 1.0
    np.testing.assert_allclose(gradient, printed, rtol=1e-12)


def test_dependent_grid_points_leave_their_weight_to_the_others():
    """On a fine grid h sum_j kappa(u_j, .) is kept to working precision by a few of its points."""
    learner = poisson(loss=PoissonProcess(cells=(200,)), kernel=Gaussian(0.1))
    state = learner.init(1, 1)
    grid = learner.grid
    dual, (points, weights) = state.function, learner.integral
    assert 10 < dual.order < 60
    np.testing.assert_array_equal(dual.points, points)
    kept = Expansion(dual.kernel, 1, 1).assign(points, weights[:, None])
    exact = Expansion(dual.kernel, 1, 1).assign(grid.points, np.full((200, 1), grid.volume))
    x = np.linspace(0.0, 1.0, 333)[:, None]
    np.testing.assert_allclose(kept.values(x), exact.values(x), atol=1e-5)
    everything = spanning(dual.kernel, grid.points, 1e-10)
    _, missed = refit(dual.kernel, grid.points, np.full((200, 1), grid.volume), everything.tolist())
    assert missed < 1e-5


def test_points_far_apart_span_themselves():
    points = np.arange(6.0)[:, None]
    assert spanning(Gaussian(0.3), points, 1e-10).tolist() == list(range(6))
    assert spanning(Gaussian(0.3), np.repeat(points, 2, axis=0), 1e-10).tolist() == list(range(0, 12, 2))


def test_grid_only_is_the_limit_of_a_large_budget():
    """Pseudo-mirror descent: no event in the dictionary, each step projected on the grid points."""
    states = [started(poisson(**keys), steps=40) for keys in ({"grid_only": True}, {"budget": Epsilon(1e9)})]
    for state in states:
        np.testing.assert_array_equal(state.function.points, COARSE.grid.points)
    np.testing.assert_allclose(states[0].function.weights, states[1].function.weights, rtol=1e-6, atol=1e-9)


def test_a_projected_step_changes_the_values_on_the_grid_as_the_whole_step_does():
    learner = poisson(grid_only=True)
    state = started(learner)
    u, x = COARSE.grid.points, np.array([[0.4], [0.43]])
    before, f = state.function.values(u), learner.function(state).values(x)
    error = step(learner, state, x, np.ones((2, 1))).compression_error
    change = 0.02 * (
        learner.kernel.cross(u, x) @ (0.5 / f) - COARSE.grid.volume * learner.kernel.cross(u, u).sum(1)[:, None]
    )
    np.testing.assert_allclose(state.function.values(u) - before, change, rtol=1e-6, atol=1e-12)
    everything, weights = np.concatenate([u, x]), np.concatenate([np.zeros((12, 1)), 0.02 * 0.5 / f])
    assert error == pytest.approx(refit(learner.kernel, everything, weights, list(range(12)))[1], rel=1e-5)


@pytest.mark.parametrize(("dimension", "grid_only"), [(1, False), (2, True)])
def test_the_density_is_found_positive_and_integrates_to_one(dimension, grid_only):
    stream = GaussianDensity()
    loss, kernel, eta, steps = PoissonProcess(), Gaussian(0.0806), 0.02, 1200
    if dimension == 2:
        stream = GaussianDensity(((0.3, 0.3), (0.7, 0.6)), 0.12, 0.2, (0.0, 0.0), (1.0, 1.0))
        loss, kernel = PoissonProcess((0.0, 0.0), (1.0, 1.0), (12, 12)), Gaussian(0.15)
        eta = 0.1
    learner = Spppot(
        loss=loss, kernel=kernel, step_size=Constant(eta), batch_size=30, budget=Epsilon(1e-3), grid_only=grid_only
    )
    source = stream.open(1, 0, 900, None).nodes[0]
    state = learner.init(dimension, 1)
    held_out = source.held_out(0)
    errors = [np.mean((learner.function(state).values(held_out.points) - held_out.truth) ** 2)]
    totals = []
    for turn in range(steps):
        step(learner, state, *source.draw(30))
        if turn > steps // 2:
            totals.append(float(learner.function(state).values(held_out.points).mean()))
    values = learner.function(state).values(held_out.points)
    errors.append(np.mean((values - held_out.truth) ** 2))
    outside = learner.function(state).values(np.full((1, dimension), 7.0))
    assert (values > 0.0).all() and (outside > 0.0).all()
    assert errors[1] < 0.1 * errors[0]
    assert np.mean(totals) == pytest.approx(1.0, abs=0.02)
    assert state.function.fixed <= learner.function(state).order


def test_only_steps_with_samples_of_ones_own_integrate():
    """A node whose data are used up still answers its neighbours, and must not be drained by the integral."""
    learner = poisson(budget=Epsilon(0.0))
    state = started(learner)
    before = learner.function(state).weights.copy()
    theirs = learner.evaluate(state, np.array([[0.5]]))
    learner.step(state, [theirs], [np.zeros((1, 1))], None, np.zeros((0, 1)))
    np.testing.assert_array_equal(learner.function(state).weights, before)


def mirrored_weights(eta, gradients, curvatures, gram, duals):
    sizes = [len(part) for part in gradients]
    weights = np.concatenate(gradients)
    solve_mirrored(gram, weights, np.repeat([eta / size for size in sizes], sizes), np.repeat(curvatures, sizes), duals)
    return weights


@pytest.mark.parametrize("more", [0, SMALL])
@pytest.mark.parametrize("curvatures", [[1.5, 40.0], [0.0, 3.0], [0.0, 0.0]])
def test_implicit_weights_solve_their_equation(curvatures, more):
    generator = np.random.default_rng(more)
    points = generator.normal(size=(5 + more, 2))
    gram = Gaussian(0.8).cross(points, points)
    gradients = [generator.normal(size=(3, 2)), 50.0 * generator.normal(size=(2 + more, 2))]
    duals = 2.0 * generator.normal(size=(5 + more, 2))
    weights = mirrored_weights(0.7, gradients, curvatures, gram, duals)
    sizes = [3, 2 + more]
    rates, stiffness = np.repeat([0.7 / 3, 0.7 / sizes[1]], sizes)[:, None], np.repeat(curvatures, sizes)[:, None]
    coefficients = -weights / rates
    wanted = np.concatenate(gradients) + stiffness * (np.exp(duals + gram @ weights) - np.exp(duals))
    np.testing.assert_allclose(coefficients, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("penalty", [1.0, 1e3, 1e9])
def test_an_implicit_pull_never_overshoots_the_neighbour(penalty):
    """The explicit one does, and by e to the power of it, where f is far below its neighbour."""
    f, neighbour = 1e-3, 20.0
    weights = mirrored_weights(
        0.5, [np.array([[penalty * (f - neighbour)]])], [penalty], np.ones((1, 1)), np.log([[f]])
    )
    assert f < f * np.exp(weights[0, 0]) <= neighbour * (1.0 + 1e-9)


@pytest.mark.parametrize("mirror_map", [KullbackLeibler(), SquaredNorm()])
def test_at_agreement_an_implicit_step_on_a_density_is_the_explicit_one(mirror_map):
    """Whatever the penalty: shortening the events' part of the step and not the integral's would move the density."""
    learner = poisson(mirror_map=mirror_map, loss=PoissonProcess(cells=(12,), floor=0.1))
    states = started(learner), started(learner)
    points = np.array([[0.2], [0.6]])
    for state, curvatures in zip(states, (None, [50.0]), strict=True):
        own = learner.evaluate(state, points)
        learner.step(state, [own], [learner.gradient(state, own, np.ones((2, 1)))], curvatures, np.ones((2, 1)))
    x = np.linspace(0.0, 1.0, 30)[:, None]
    f, g = (learner.function(state).values(x) for state in states)
    np.testing.assert_allclose(f, g, rtol=1e-12)


def test_an_event_has_the_loss_of_a_poisson_process():
    loss, values = PoissonProcess(floor=0.2), np.array([[0.2], [1.0], [2.5]])
    np.testing.assert_allclose(loss.values(values, np.full((3, 1), 2.0)), -2.0 * np.log(values[:, 0]), atol=1e-15)


def test_a_grid_integrates_polynomials_of_degree_one_exactly():
    grid = Grid((-1.0, 0.0), (2.0, 0.5), (3, 4))
    assert grid.points.shape == (12, 2) and len(np.unique(grid.points, axis=0)) == 12
    assert grid.volume * np.sum(1.0 + 2.0 * grid.points[:, 0] - grid.points[:, 1]) == pytest.approx(
        1.5 * (1 + 1 - 0.25)
    )
    assert grid.outside(np.array([[0.0, 0.5], [2.1, 0.1], [0.0, -0.1]])).tolist() == [False, True, True]
