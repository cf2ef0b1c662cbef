"""The second-order learner solves the least-squares problem that it says it does, on whatever dictionary it has."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm import Experiment, simulate
from kernelswarm.agents.learners import newton
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import (
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    MulticlassSquaredHinge,
    Squared,
    curvatures_of,
)
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.steps import learn, step


def learner(**keys):
    return Newton(**{"kernel": Gaussian(0.5), "step_size": Constant(0.2), "budget": Epsilon(0.05), **keys})


class Naive:
    """The same with every sample kept: its kernel section, projected on the dictionary's span as that changes."""

    def __init__(self, learner, outputs):
        self.learner = learner
        self.points, self.weights = np.zeros((0, 2)), np.zeros((0, outputs))
        self.sections, self.curvatures, self.aims = np.zeros((0, 0)), np.zeros(0), np.zeros((0, outputs))

    def values(self, points):
        return self.learner.kernel.cross(points, self.points) @ self.weights

    def gram(self, left, right):
        return self.learner.kernel.cross(np.ascontiguousarray(left), np.ascontiguousarray(right))

    def learn(self, points, targets, dictionary):
        loss = self.learner.loss
        values = self.values(points)
        bends = curvatures_of(loss, values, targets)
        aims = values - loss.derivatives(values, targets) / bends[:, None]
        stay = [m for m, old in enumerate(self.points) if (dictionary == old).all(axis=1).any()]
        assert np.array_equal(dictionary[: len(stay)], self.points[stay])
        old = np.zeros((len(self.sections), len(dictionary)))
        if len(self.points):
            across = self.gram(dictionary, self.points)
            old = np.linalg.solve(self.gram(dictionary, dictionary), across @ self.sections.T).T
        gram = self.gram(dictionary, dictionary)
        own = np.linalg.solve(gram, self.gram(dictionary, points)).T
        self.sections = np.vstack([old, own])
        self.curvatures = np.append(self.curvatures, bends)
        self.aims = np.vstack([self.aims, aims])
        rows = self.sections @ gram
        system = rows.T @ (self.curvatures[:, None] * rows) + self.learner.penalty * gram
        self.points = dictionary.copy()
        self.weights = np.linalg.solve(system, rows.T @ (self.curvatures[:, None] * self.aims))


def samples(loss, count, seed):
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    first = np.sin(3.0 * points[:, :1]) + points[:, 1:] ** 2
    if loss.task == "regression":
        noise = 0.1 * random.normal(size=(count, 2)) + (random.uniform(size=(count, 1)) < 0.1)
        return points, np.hstack([first, -first]) + noise
    classes = 2 if loss.task == "binary" else 3
    return points, np.digitize(first, [0.4, 1.0][: classes - 1]).astype(float)


CURVED = [Squared(), Huber(0.3), Logistic(), MulticlassLogistic(), MulticlassSquaredHinge()]


@pytest.mark.parametrize("batch_size", [1, 9])
@pytest.mark.parametrize("loss", CURVED, ids=repr)
def test_the_weights_are_those_of_least_squares_on_every_sample_so_far(loss, batch_size, monkeypatch):
    if batch_size == 9:
        monkeypatch.setattr(newton, "BLOCKED_FROM_ORDER", 5)  # matrix-matrix products
    ours = learner(loss=loss, batch_size=batch_size, ridge=0.05, budget=TargetOrder(7, alpha=0.05, gain=0.1))
    points, targets = samples(loss, 70 * batch_size, 3)
    outputs = loss.outputs(targets.shape[1], int(targets.max()) + 1 if loss.task != "regression" else None)
    state, naive = ours.init(2, outputs), Naive(ours, outputs)
    removed, most, grid = 0, 0, np.random.default_rng(0).uniform(-1.0, 1.0, size=(30, 2))
    for start in range(0, len(points), batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        before = state.function.points.copy()
        step(ours, state, batch, wanted)
        naive.learn(batch, wanted, state.function.points)
        removed += sum(not (state.function.points == old).all(axis=1).any() for old in before)
        most = max(most, state.function.order)
        expected = naive.values(grid)
        assert np.allclose(state.function.values(grid), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert removed > 0
    assert most > 4


@pytest.mark.parametrize("batch_size", [1, 9])
def test_only_what_the_loss_offers_becomes_a_point_and_a_pass_has_the_same_bits(batch_size, monkeypatch):
    if batch_size == 9:
        monkeypatch.setattr(newton, "BLOCKED_FROM_ORDER", 5)
    loss = MulticlassSquaredHinge()
    ours = learner(loss=loss, batch_size=batch_size, ridge=0.05, budget=Epsilon(1e-3))
    points, targets = samples(loss, 180, 3)
    single, whole = ours.init(2, 3), ours.init(2, 3)
    kept_back = 0
    for start in range(0, len(points), batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        own, before = ours.evaluate(single, batch), single.function.points.copy()
        slopes = ours.gradient(single, own, wanted)
        ours.step(single, [own], [slopes], None, wanted)
        offered = MulticlassHinge().derivatives(own.values, wanted).any(axis=1)
        kept_back += np.count_nonzero(slopes.any(axis=1) & ~offered)
        allowed = np.vstack([before, batch[offered]])
        assert all((allowed == point).all(axis=1).any() for point in single.function.points)
    assert kept_back > 20
    assert single.function.order > 10
    passes.learn(ours, whole, points, targets)
    for name, array in ours.snapshot(whole).items():
        assert np.array_equal(array, ours.snapshot(single)[name]), name


def test_a_neighbours_pull_is_offered_where_the_sample_itself_is_not():
    loss = MulticlassSquaredHinge()
    ours, point = learner(loss=loss, budget=Epsilon(1e-3)), np.array([[0.2, 0.1]])
    state = ours.init(2, 3)
    at, targets = Evaluated(point, np.zeros((1, 0)), np.array([[0.8, -0.9, -0.9]])), np.array([[0.0]])
    own = loss.derivatives(at.values, targets)
    ours.step(state, [at], [own], None, targets)
    assert state.function.order == 0
    ours.step(state, [at], [own + np.array([[-1.0, 0.0, 0.0]])], None, targets)
    assert np.array_equal(state.function.points, point)


def test_what_is_not_known_is_the_posterior_covariance_of_a_gaussian_process():
    ours = learner(budget=Epsilon(0.0), ridge=0.3, batch_size=50)
    points, targets = samples(ours.loss, 50, 11)
    state = ours.init(2, 2)
    elsewhere = np.random.default_rng(12).uniform(-1.5, 1.5, size=(20, 2))
    before = ours.inner(state, ours.evaluate(state, elsewhere))
    prior = ours.kernel.cross(elsewhere, elsewhere)
    assert np.allclose(before, ours.reach * prior / ours.penalty)
    passes.learn(ours, state, points, targets)
    gram, cross = ours.kernel.cross(points, points), ours.kernel.cross(elsewhere, points)
    # A noise of variance lambda / r on a process of covariance kappa, in units of lambda.
    posterior = prior - cross @ np.linalg.solve(gram + 0.3 * np.eye(50), cross.T)
    found = ours.inner(state, ours.evaluate(state, elsewhere))
    assert np.allclose(found, ours.reach * posterior / ours.penalty, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("penalty", "share"), [(1.0, 0.7), (100.0, 0.4), (1e6, 0.4)])
def test_a_network_comes_near_to_one_place(penalty, share):
    tables = {
        "topology": nx.cycle_graph(6),
        "stream": {"name": "sine_regression", "noise": 1.0},
        "learner": {"name": "newton", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
    }
    experiment = Experiment.from_dict({**tables, "protocol": "isolated", "rounds": 300, "evaluate_every": 300})
    alone = simulate(experiment).final["global_error"]
    together = simulate(experiment.with_changes({"protocol": {"name": "consensus", "penalty": penalty}}))
    assert together.final["global_error"] < share * alone


def test_pulls_and_own_samples_together_are_one_after_the_other():
    ours = learner(budget=Epsilon(0.0))
    points, targets = samples(ours.loss, 40, 6)
    together, apart = ours.init(2, 2), ours.init(2, 2)
    for state in (together, apart):
        passes.learn(ours, state, points[:-1], targets[:-1])
    own = ours.evaluate(together, points[-1:])
    pull = np.array([[0.3, -0.2]])
    ours.step(together, [own], [ours.gradient(together, own, targets[-1:]) + pull], None, targets[-1:])
    ours.step(apart, [ours.evaluate(apart, points[-1:])], [pull], None, targets[:0])
    passes.learn(ours, apart, points[-1:], targets[-1:])
    assert np.allclose(together.function.values(points), apart.function.values(points), atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "count", "batch_size"),
    [(Gaussian(3.0), 100_000, 1), (Polynomial(degree=3, offset=1.0), 100_000, 1), (Gaussian(3.0), 16_000, 16)],
    ids=repr,
)
def test_no_digits_are_lost_in_a_hundred_thousand_samples(kernel, count, batch_size, monkeypatch):
    if batch_size > 1:
        monkeypatch.setattr(newton, "BLOCKED_FROM_ORDER", 5)  # matrix-matrix products
    ours = Newton(kernel=kernel, step_size=Constant(0.2), ridge=1e-4, budget=Epsilon(1e-5), batch_size=batch_size)
    random = np.random.default_rng(1)
    points = random.normal(size=(count, 2))
    targets = np.sin(points[:, :1]) + points[:, 1:] ** 2 + 0.1 * random.normal(size=(count, 1))
    state = ours.init(2, 1)
    defects = []
    for start in range(0, count, count // 20):
        passes.learn(ours, state, points[start : start + count // 20], targets[start : start + count // 20])
        defects.append(state.function.defect())
    function = state.function
    # The best that the dictionary can do with all samples, computed afresh and not from normal equations.
    basis = kernel.cross(points, function.points) @ function.factor.T
    stacked = np.vstack([basis, np.sqrt(0.5 * ours.penalty) * np.eye(function.order)])
    best = np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((function.order, 1))]), rcond=None)[0]
    difference = function.values(points) - basis @ best
    assert float(np.sqrt(np.mean(difference**2))) < 0.003  # of a noise of 0.1
    # A defect rises with each point that comes or goes, and falls where a look finds more than DEFECT_LIMIT.
    assert np.median(defects) < 1e-3
    assert max(defects) < 1e-2
    assert np.median(defects[10:]) < 10 * np.median(defects[:10])  # it does not grow with the stream


def test_the_budget_holds_the_dictionary_on_an_endless_stream():
    ours = learner(batch_size=4, budget=TargetOrder(30, alpha=0.1, gain=0.01))
    points, targets = samples(ours.loss, 8000, 9)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    assert 20 <= state.function.order <= 40


def test_the_ridge_suits_what_the_loss_asks_for():
    kinds = Squared(), Logistic(), MulticlassSquaredHinge()
    assert [learner(loss=loss).penalty for loss in kinds] == [0.1 * 2.0, 0.005 * 0.25, 0.2 * 2.0]


def test_a_pass_has_the_bits_of_single_steps_where_matrix_products_take_over():
    ours = learner(kernel=Gaussian(0.2), batch_size=8, budget=Epsilon(1e-3))
    points, targets = samples(ours.loss, 300, 13)
    whole, single = ours.init(2, 2), ours.init(2, 2)
    passes.learn(ours, whole, points, targets)
    learn(ours, points, targets, single)
    assert whole.function.order > newton.BLOCKED_FROM_ORDER
    for name, array in ours.snapshot(whole).items():
        assert np.array_equal(array, ours.snapshot(single)[name]), name


def test_an_evaluation_with_other_strides_is_as_good():
    ours = learner(batch_size=3)
    points, targets = samples(ours.loss, 3, 0)
    plain, strided = ours.init(2, 2), ours.init(2, 2)
    for state, at in ((plain, points), (strided, np.asfortranarray(points))):
        own = ours.evaluate(state, points)
        given = Evaluated(at, own.rows, own.values)
        ours.step(state, [given], [ours.gradient(state, own, targets)], None, targets)
    assert np.array_equal(plain.function.weights, strided.function.weights)
