"""The risk-aware learners descend the stated objective, track as the papers write it, and without a weight are polk."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.stats import moment

from kernelswarm.agents.learners.colk import Colk
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.learners.rbf_network import RbfNetwork
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.parts.budgets import Epsilon, Quadratic
from kernelswarm.agents.parts.dispersions import (
    CentralMoments,
    ConditionalValueAtRisk,
    Dispersion,
    Semivariance,
    Variance,
)
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Absolute, Huber, Logistic, Loss, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.running.simulation import simulate
from tests.contracts.specimens import DISPERSIONS
from tests.helpers.pairs import in_pairs
from tests.helpers.steps import learn, step

Array = np.ndarray
LOSSES: list[Loss] = [Squared(), Huber(0.5), Logistic(), MulticlassLogistic()]


def data(generator: np.random.Generator, loss: Loss, size: int) -> tuple[Array, Array]:
    points = generator.uniform(-1.0, 1.0, (size, 2))
    height = points[:, :1] + 0.4 * generator.standard_normal((size, 1))
    if loss.task == "regression":
        return points, height
    cuts = [0.0] if loss.task == "binary" else [-0.4, 0.4]
    return points, np.digitize(height, cuts).astype(np.float64)


def averages(learner: Any, targets: Array) -> tuple[float, float]:
    """Learn targets at one input; returns the means of f there and of the center over the second half of the time."""
    state, found = learner.init(1, 1), []
    at = np.zeros((1, 1))
    for part in np.split(targets, 100):
        learn(learner, np.zeros_like(part), part, state)
        found.append((learner.function(state).values(at)[0, 0], state.center))
    value, center = np.mean(found[50:], axis=0)
    return float(value), float(center)


def same(left: PolkState, right: PolkState) -> bool:
    return np.array_equal(left.function.points, right.function.points) and np.array_equal(
        left.function.weights, right.function.weights
    )


@in_pairs(rows=[6, 7], loss=LOSSES, dispersion=DISPERSIONS)
def test_gradient_is_that_of_the_sampled_objective(dispersion: Dispersion, loss: Loss, rows: int) -> None:
    # The mean over the pairs of l(f(x), y) + nu d(l(f(x), y), g + l(f(x'), y') - l(f_t(x'), y')): the second sample
    # stands for the mean in the derivative, g in the value. A row without a partner counts for its loss. In a batch of
    # fewer rows than 8 each weighs what it does among 8.
    generator = np.random.default_rng(1)
    nu, eta = 0.3, Constant(0.1)
    budget = Epsilon(0.01)
    learner = Colk(loss, Gaussian(0.7), eta, batch_size=8, budget=budget, dispersion=dispersion, dispersion_weight=nu)
    state = learn(learner, *data(generator, loss, 64))
    points, targets = data(generator, loss, rows)
    own = learner.evaluate(state, points)
    gradient = learner.gradient(state, own, targets)
    step(learner, state, points, targets)
    center = state.center  # as the step had it
    pairs = rows // 2
    start = loss.values(own.values, targets)

    def objective(values: Array) -> float:
        losses = loss.values(values, targets)
        total = losses[::2].sum()
        for k in range(pairs):
            mean = center + (losses[2 * k + 1] - start[2 * k + 1] if dispersion.centered else 0.0)
            total += nu * dispersion.values(losses[2 * k : 2 * k + 1], mean)[0]
        return float(total / 4)

    for n in range(rows):
        for c in range(gradient.shape[1]):
            bump = np.zeros_like(own.values)
            bump[n, c] = 1e-6
            rate = (objective(own.values + bump) - objective(own.values - bump)) / 2e-6
            assert gradient[n, c] / 8 == pytest.approx(rate, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("tracking", ["difference", "average"])
def test_iterates_are_those_of_the_papers_equations(tracking: str) -> None:
    # COLK eq. 47, and SURVEY eq. 11 in place of its first line, with functions as lists of points and weights.
    generator = np.random.default_rng(2)
    points, targets = data(generator, Squared(), 400)
    alpha, beta, nu, regularization, kernel = 0.05, 0.1, 0.2, 1e-3, Gaussian(0.8)
    learner = Colk(
        Squared(),
        kernel,
        Constant(alpha),
        regularization,
        2,
        Epsilon(0.0),
        CentralMoments(),
        nu,
        tracking,
        Constant(beta),
    )
    state = learner.init(2, 1)
    dictionary, weights = np.zeros((0, 2)), np.zeros(0)
    previous: tuple[Array, Array] = dictionary, weights
    g = math.nan

    def value(function: tuple[Array, Array], x: Array) -> float:
        return float(kernel.cross(x[None, :], function[0])[0] @ function[1])

    for t in range(0, 400, 2):
        learn(learner, points[t : t + 2], targets[t : t + 2], state)
        (x, second), (y, other) = points[t : t + 2], targets[t : t + 2, 0]
        now = (value((dictionary, weights), second) - other) ** 2
        if math.isnan(g):
            g = now
        elif tracking == "difference":
            g = (1.0 - beta) * (g - (value(previous, second) - other) ** 2) + now
        else:
            g = (1.0 - beta) * g + beta * now
        first = value((dictionary, weights), x) - y
        m = sum(q * (first**2 - g) ** (q - 1) for q in (2, 3, 4))
        residual = value((dictionary, weights), second) - other
        previous = dictionary, weights
        dictionary = np.concatenate([dictionary, [x, second]])
        weights = np.concatenate(
            [
                (1.0 - regularization * alpha) * weights,
                [-alpha * (2.0 * first + nu * m * 2.0 * first), alpha * nu * m * 2.0 * residual],
            ]
        )
        assert state.center == pytest.approx(g, rel=1e-7, abs=1e-9)
    probes = generator.uniform(-1.0, 1.0, (20, 2))
    expected = [value((dictionary, weights), probe) for probe in probes]
    np.testing.assert_allclose(state.function.values(probes)[:, 0], expected, rtol=1e-6, atol=1e-8)


@in_pairs(
    dispersion=DISPERSIONS,
    loss=[Squared(), Absolute(), MulticlassLogistic()],
    size=[1, 4, 3],
    implicit=[False, True],
)
def test_weight_zero_is_polk_on_the_first_samples_to_the_bit(
    dispersion: Dispersion, loss: Loss, size: int, implicit: bool
) -> None:
    points, targets = data(np.random.default_rng(3), loss, 40 * size + 2 * (size - 1))
    keys: dict[str, Any] = {
        "loss": loss,
        "kernel": Gaussian(0.5),
        "step_size": Diminishing(0.3),
        "budget": Quadratic(2.0),
    }
    colk = Colk(**keys, batch_size=2 * size, dispersion=dispersion, dispersion_weight=0.0)
    found = learn(colk, points, targets, implicit=implicit)
    wanted = learn(Polk(**keys, batch_size=size), points[::2].copy(), targets[::2].copy(), implicit=implicit)
    assert same(found, wanted)
    assert 0 < found.function.order < len(points[::2])


def test_points_of_weight_zero_do_not_enter() -> None:
    points, targets = data(np.random.default_rng(4), Squared(), 40)
    for dispersion in (Variance(), ConditionalValueAtRisk(0.5)):
        keys: dict[str, Any] = {"step_size": Constant(0.1), "budget": Epsilon(0.0), "dispersion_weight": 0.1}
        learner = Colk(kernel=Gaussian(0.5), dispersion=dispersion, **keys)
        held = {tuple(point) for point in learn(learner, points, targets).function.points}
        seconds = {tuple(point) for point in points[1::2]}
        assert bool(held & seconds) == dispersion.centered


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_implicit_step_takes_coupling_and_mean_loss_at_the_new_function(rows: int) -> None:
    generator = np.random.default_rng(5)
    points, targets = data(generator, Squared(), 20 + rows)
    keys: dict[str, Any] = {"step_size": Constant(0.4), "regularization": 0.0, "budget": Epsilon(0.0)}
    learner = Colk(kernel=Gaussian(0.6), **keys, batch_size=6, dispersion_weight=0.0)
    part = rows / 6
    state = learn(learner, points[:18], targets[:18])
    own = learner.evaluate(state, points[20:])
    answers, stiffness = generator.normal(size=(rows, 1)), 1.7
    gradient = learner.gradient(state, own, targets[20:]) + stiffness * (own.values - answers)
    probes = generator.normal(size=(4, 2))
    before = state.function.values(probes)
    learner.step(state, [own], [gradient * part], [(2.0 + stiffness) * part], targets[20:])
    after = state.function.values(points[20:])
    slopes = stiffness * (after - answers) / 6
    slopes[::2] += 2.0 * (after - targets[20:])[::2] / 3
    expected = before - 0.4 * learner.kernel.cross(probes, points[20:]) @ slopes
    np.testing.assert_allclose(state.function.values(probes), expected, rtol=1e-9)


@pytest.mark.parametrize(("name", "tracking"), [("colk", "difference"), ("rbf_network", "average")])
def test_variance_moves_a_constant_to_where_the_closed_form_says(name: str, tracking: str) -> None:
    # At one input f is a number c. With z = y - E y, E (c - y)^2 + nu Var (c - y)^2 is least at
    # c = E y + 2 nu E z^3 / (1 + 4 nu E z^2): the variance of the loss draws c towards the longer tail.
    share, nu = 0.2, 1.0
    generator = np.random.default_rng(6)
    targets = (generator.random((12_000, 1)) < share).astype(np.float64)
    table = {
        "name": name,
        "dispersion": "variance",
        "dispersion_weight": nu,
        "tracking": tracking,
        "regularization": 0.0,
    }
    if name == "rbf_network":
        table |= {"centers": 2, "low": 0.0, "high": 1.0, "kernel": {"name": "gaussian", "bandwidth": 0.1}}
    else:
        table |= {"kernel": {"name": "gaussian", "bandwidth": 1.0}, "budget": {"epsilon": 0.001}}
    schedules = {"step_size": Diminishing(0.1, 300.0), "tracking_rate": Diminishing(0.3, 300.0)}
    learner = build("learner", {**table, **schedules})
    value, center = averages(learner, targets)
    second, third = share * (1 - share), share * (1 - share) * (1 - 2 * share)
    expected = share + 2 * nu * third / (1 + 4 * nu * second)
    assert value == pytest.approx(expected, abs=0.02)
    assert center == pytest.approx(second + (expected - share) ** 2, abs=0.02)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_threshold_of_the_conditional_value_at_risk_tends_to_the_quantile(level: float) -> None:
    losses = np.random.default_rng(7).exponential(size=15_000)
    dispersion = ConditionalValueAtRisk(level, Diminishing(0.5 * (1.0 - level), 1000.0))
    learner = Colk(
        Absolute(),
        Gaussian(1.0),
        Constant(1e-9),
        budget=Epsilon(0.0),
        dispersion=dispersion,
        dispersion_weight=0.5,
    )
    _, threshold = averages(learner, losses[:, None])
    assert threshold == pytest.approx(-math.log(1.0 - level), rel=0.05)
    tail = dispersion.values(losses, float(np.quantile(losses, level))).mean()
    assert tail == pytest.approx(losses[losses >= np.quantile(losses, level)].mean(), rel=1e-3)


def test_dispersions_are_what_their_names_say() -> None:
    losses = np.random.default_rng(8).exponential(size=5000)
    mean = float(losses.mean())
    assert Variance().values(losses, mean).mean() == pytest.approx(losses.var())
    for orders in [(2,), (3,), (4,), (2, 3, 4)]:
        expected = sum(moment(losses, order) for order in orders)
        assert CentralMoments(orders).values(losses, mean).mean() == pytest.approx(expected)
    positive = np.mean(np.maximum(losses - mean, 0.0) ** 2)
    assert Semivariance(1e-6).values(losses, mean).mean() == pytest.approx(positive, rel=1e-4)
    assert Semivariance(0.5).values(np.array([0.0]), 0.0)[0] == pytest.approx((0.5 * math.log(2.0)) ** 2)


def test_the_network_of_fixed_centers_is_a_kernel_expansion_on_its_grid() -> None:
    keys: dict[str, Any] = {"step_size": Constant(0.1), "dispersion": Variance(), "dispersion_weight": 0.01}
    learner = RbfNetwork(kernel=Gaussian(0.2), centers=5, low=-1.0, high=1.0, **keys)
    state = learn(learner, *data(np.random.default_rng(11), Squared(), 200))
    axis = np.linspace(-1.0, 1.0, 5)
    assert {tuple(point) for point in state.function.points} == {(a, b) for a in axis for b in axis}
    probes = np.random.default_rng(12).normal(size=(6, 2))
    expected = np.exp(-((probes[:, None] - state.function.points) ** 2).sum(axis=2) / 0.08) @ state.function.weights
    np.testing.assert_allclose(learner.evaluate(state, probes).values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pairs": "twice"}, 'learner.pairs = "twice" must be'),
        ({"tracking": "momentum"}, 'learner.tracking = "momentum" must be'),
        (
            {"dispersion": {"name": "cvar", "threshold_step": 0}},
            "learner.dispersion.threshold_step = 0.* must be positive",
        ),
        ({"dispersion": "varianze"}, 'learner.dispersion = "varianze" .*did you mean "variance"'),
    ],
)
def test_bad_words_are_refused_by_their_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build("learner", {"name": "colk", **keys})


def test_divergence_by_the_dispersion_names_its_weight() -> None:
    description = {
        "rounds": 500,
        "topology": nx.path_graph(2),
        "stream": {"name": "sine_regression", "outlier_fraction": 0.3},
        "learner": {"name": "colk", "step_size": 0.5, "dispersion_weight": 5.0},
        "protocol": {"name": "consensus", "penalty": 0.5},
    }
    remedy = r"lower learner.step_size = 0.5 or learner.dispersion_weight = 5 or protocol.penalty = 0.5"
    with pytest.raises(SimulationError, match=rf"diverged in round \d+: its values reached .*: {remedy}"):
        simulate(Experiment.from_dict(description))
    assert issubclass(DivergenceError, ArithmeticError)


def test_an_unstable_step_is_refused_as_for_single_samples() -> None:
    keys = {"rounds": 1, "topology": nx.path_graph(2), "stream": "sine_regression"}
    keys["protocol"] = {"name": "isolated", "step": "explicit"}
    for name, size in (("polk", 1), ("colk", 2)):
        learner = {"name": name, "step_size": 1.0, "batch_size": size}
        with pytest.raises(InputError, match=r"learner.step_size = 1 is unstable"):
            simulate(Experiment.from_dict({**keys, "learner": learner}))
        simulate(Experiment.from_dict({**keys, "learner": {**learner, "step_size": 0.99}}))
