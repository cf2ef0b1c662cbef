"""The second-order learner solves the least-squares problem that it says it does, on whatever dictionary it has."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from kernelswarm import Experiment, simulate
from kernelswarm.agents.compiled import passes
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.second_order import blocked_information, information, newton_steps
from kernelswarm.agents.learners.second_order import newton as newton_module
from kernelswarm.agents.learners.second_order.newton import Newton
from kernelswarm.agents.parts.budgets import Epsilon, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Polynomial
from kernelswarm.agents.parts.losses import (
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
    curvatures_of,
)
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.squared_hinges import MulticlassSquaredHinge


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


@pytest.mark.parametrize("batch_size", [1, 4, 9])
@pytest.mark.parametrize("loss", CURVED, ids=repr)
def test_the_weights_are_those_of_least_squares_on_every_sample_so_far(loss, batch_size, monkeypatch):
    if batch_size == 9:
        monkeypatch.setattr(newton_module, "BLOCKED_FROM_ORDER", 5)  # matrix-matrix products
    ours = learner(loss=loss, batch_size=batch_size, ridge=0.05, budget=TargetOrder(7, alpha=0.05, gain=0.1))
    points, targets = samples(loss, 70 * batch_size, 3)
    outputs = loss.outputs(targets.shape[1], int(targets.max()) + 1 if loss.task != "regression" else None)
    state, naive = ours.init(2, outputs), Naive(ours, outputs)
    removed, most, grid = 0, 0, np.random.default_rng(0).uniform(-1.0, 1.0, size=(30, 2))
    for start in range(0, len(points), batch_size):
        batch, wanted = points[start : start + batch_size], targets[start : start + batch_size]
        own = ours.evaluate(state, batch)
        before = state.function.points.copy()
        ours.step(state, [own], [ours.gradient(state, own, wanted)], None, wanted)
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
        monkeypatch.setattr(newton_module, "BLOCKED_FROM_ORDER", 5)
        monkeypatch.setattr(newton_steps, "BLOCKED_FROM_ORDER", 5)
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


def test_with_every_point_kept_it_is_kernel_ridge_regression():
    ours = learner(budget=Epsilon(0.0), kernel=Laplacian(0.7), ridge=0.3, batch_size=60)
    points, targets = samples(ours.loss, 60, 1)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    assert state.function.order == 60
    gram = ours.kernel.cross(points, points)
    expected = gram @ np.linalg.solve(gram + 0.3 * np.eye(60), targets)
    assert np.allclose(state.function.values(points), expected, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_rows_are_rotated_in_and_columns_out_as_the_normal_equations_say(size):
    random = np.random.default_rng(size)
    order, outputs, capacity = 33, 3, 40
    rows, aims = random.normal(size=(90, order)), random.normal(size=(90, outputs))
    for blocked in (False, True):
        root, moments, product = np.zeros((capacity, capacity)), np.zeros((capacity, outputs)), np.empty(capacity)
        root[:order, :order] = 0.1 * np.eye(order)
        for start in range(0, 90, size):
            part, wanted = rows[start : start + size].copy(), aims[start : start + size].copy()
            if blocked:
                blocked_information.absorb(root, moments, part, wanted)
            else:
                information.absorb(root, moments, order, part, wanted, product)
        kept = np.array([0.0, 1, 2, 5, 6, 9, *range(12, 30), 32])
        if blocked:
            left = blocked_information.take_out(root, moments, kept.astype(np.intp), order)
            blocked_information.absorb(root, moments, *left)
        else:
            information.keep(root, moments, order, kept, len(kept), product)
        chosen = rows[:, kept.astype(int)]
        system = chosen.T @ chosen + 0.01 * np.eye(len(kept))
        triangle = root[: len(kept), : len(kept)]
        assert np.allclose(triangle.T @ triangle, system, rtol=1e-12, atol=1e-12)
        assert np.array_equal(triangle, np.triu(triangle))
        assert (np.diag(triangle) > 0.0).all()
        assert not root[len(kept) :].any()
        assert not root[:, len(kept) :].any()
        found = np.empty((capacity, outputs))
        (blocked_information if blocked else information).solve(root, moments, len(kept), found)
        assert np.allclose(found[: len(kept)], np.linalg.solve(system, chosen.T @ aims), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gone", [1, 2, 4])
@pytest.mark.parametrize("coming", [1, 3])
def test_points_that_come_inherit_what_is_known_of_those_that_go(gone, coming):
    random = np.random.default_rng(10 * gone + coming)
    kernel, capacity, ridge = Gaussian(0.7), 16, 0.3
    old, new = random.uniform(-1.0, 1.0, size=(8, 2)), random.uniform(-1.0, 1.0, size=(coming, 2))
    # Functions in the span of the old points, as sections of samples: their values at points are features.
    sections, aims = random.normal(size=(20, 8)), random.normal(size=(20, 2))
    features = sections @ kernel.cross(old, old)
    root, moments = np.zeros((capacity, capacity)), np.zeros((capacity, 2))
    root[:8, :8] = np.linalg.cholesky(features.T @ features + ridge * kernel.cross(old, old)).T
    moments[:8] = np.linalg.solve(root[:8, :8].T, features.T @ aims)
    leaving = np.sort(random.permutation(8)[:gone])
    kept = np.setdiff1d(np.arange(8), leaving)
    points = np.vstack([old[kept], new])
    order, gram = len(points), kernel.cross(points, points)
    factor = np.zeros((capacity, capacity))
    factor[:order, :order] = np.linalg.inv(np.linalg.cholesky(gram))
    memory, product = np.empty((gone + coming) * (capacity + gone + coming + 1)), np.empty(capacity)
    origins = np.array([*kept, *range(8, 8 + coming)], dtype=float)
    heard, cross, own = kernel.cross(old[leaving], old), kernel.cross(new, old), kernel.cross(new, new)
    features = sections @ kernel.cross(old, points)
    rows, wanted = random.normal(size=(5, order)), random.normal(size=(5, 2))
    for blocked in (True, False):
        triangle, sums = root.copy(), moments.copy()
        system, right = features.T @ features + ridge * gram, features.T @ aims
        if blocked:  # with samples in the same reflections
            projections = np.linalg.solve(kernel.cross(old, old), cross.T).T
            rest = own - projections @ cross.T
            blocked_information.append(triangle, sums, 8, projections, rest, own.diagonal(), ridge)
            places = np.array([*kept, *range(8, 8 + coming)])
            left = blocked_information.take_out(triangle, sums, places, 8 + coming)
            blocked_information.absorb(triangle, sums, np.vstack([left[0], rows]), np.vstack([left[1], wanted]))
            system, right = system + rows.T @ rows, right + rows.T @ wanted
        else:
            told = factor, heard, cross, own, ridge, memory, product
            information.exchange(triangle, sums, 8, order, len(kept), origins, *told)
        assert not np.tril(triangle, -1).any()
        assert not triangle[:, order:].any()
        assert not sums[order:].any()
        triangle = triangle[:order, :order]
        assert np.allclose(triangle.T @ triangle, system, rtol=1e-10, atol=1e-10)
        assert np.allclose(triangle.T @ sums[:order], right, rtol=1e-10, atol=1e-10)


def test_a_point_that_lies_in_the_span_of_the_others_to_rounding_leaves_the_triangle_regular():
    random = np.random.default_rng(0)
    root, moments = np.zeros((9, 9)), np.zeros((9, 1))
    root[:7, :7] = np.triu(random.uniform(1.0, 2.0, size=(7, 7)))
    projections = np.eye(7)[[3]]
    blocked_information.append(root, moments, 7, projections, np.array([[-1e-15]]), np.array([4.0]), 0.5)
    features = root[:8, :8].T @ root[:8, :8]
    assert np.allclose(features[:7, 7], features[:7, 3], rtol=1e-12)
    assert root[7, 7] > 0.0


def test_a_coupling_alone_moves_f_as_a_gradient_step_does():
    ours = learner(budget=Epsilon(0.0))
    other = Polk(kernel=ours.kernel, step_size=ours.step_size, regularization=0.0, budget=ours.budget)
    points, targets = samples(ours.loss, 30, 5)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    first_order = other.init(2, 2)
    first_order.function.assign(state.function.points, state.function.weights)
    first_order.function.rebuild()
    heard = np.random.default_rng(7).uniform(-1.0, 1.0, size=(4, 2))
    pulls = np.random.default_rng(8).normal(size=(4, 2))
    for each, its in ((ours, state), (other, first_order)):
        each.step(its, [each.evaluate(its, heard)], [pulls], None, np.zeros((0, 2)))
    assert np.allclose(state.function.values(points), first_order.function.values(points), atol=1e-8)
    assert state.function.order > 30


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


def test_implicit_pulls_move_f_as_inner_says():
    ours = learner(budget=Epsilon(0.0), batch_size=3)
    points, targets = samples(ours.loss, 30, 5)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    heard = np.random.default_rng(7).uniform(-1.0, 1.0, size=(3, 2))
    pulls = np.random.default_rng(8).normal(size=(3, 2))
    at = ours.evaluate(state, heard)
    moved = -0.2 / 3 * ours.inner(state, at) @ pulls
    ours.step(state, [at], [pulls], [1.0], np.zeros((0, 2)))
    assert np.allclose(state.function.values(heard), at.values + moved, atol=1e-8)


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


@pytest.mark.parametrize("batch_size", [1, 16])
def test_where_samples_are_forgotten_the_ridge_is_not(batch_size):
    step_size = Constant(0.2 * batch_size)
    ours = learner(forgetting=0.97, ridge=0.5, batch_size=batch_size, step_size=step_size, budget=Epsilon(0.1))
    points, targets = samples(ours.loss, 1600, 2)
    state = ours.init(2, 2)
    passes.learn(ours, state, points[:800], targets[:800])
    assert state.function.order > 8
    # With a budget that lets nothing in or out what is left of the samples is known.
    still = replace(ours, step_size=Constant(1e-9), budget=Epsilon(1e-6))
    start = state.function.points.copy()
    passes.learn(still, state, points[800:], targets[800:])
    assert np.array_equal(state.function.points, start)
    rows = ours.kernel.cross(points[800:], start)
    ages = (len(rows) - 1 - np.arange(len(rows))) // batch_size * batch_size
    counted = 2.0 * rows.T @ (0.97 ** ages[:, None] * rows)
    gram = ours.kernel.cross(start, start)
    root = state.function.root
    kernel_root = state.function.factor
    ridges = np.linalg.eigvalsh(kernel_root @ (root.T @ root - counted) @ kernel_root.T)
    assert np.allclose(kernel_root @ gram @ kernel_root.T, np.eye(len(gram)), atol=1e-8)
    assert 0.7 < ridges.min() <= ridges.max() < 1.3  # lambda is 0.5 times the curvature


def test_what_is_forgotten_no_longer_counts():
    ours = learner(forgetting=0.98)
    points, targets = samples(ours.loss, 3000, 4)
    changed = np.concatenate([targets[:2000], -targets[2000:]])
    errors = []
    for each in (ours, replace(ours, forgetting=1.0)):
        state = each.init(2, 2)
        passes.learn(each, state, points, changed)
        errors.append(float(np.mean((state.function.values(points[2900:]) - changed[2900:]) ** 2)))
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize(
    ("kernel", "count", "batch_size"),
    [(Gaussian(3.0), 100_000, 1), (Polynomial(degree=3, offset=1.0), 100_000, 1), (Gaussian(3.0), 16_000, 16)],
    ids=repr,
)
def test_no_digits_are_lost_in_a_hundred_thousand_samples(kernel, count, batch_size, monkeypatch):
    if batch_size > 1:
        monkeypatch.setattr(newton_module, "BLOCKED_FROM_ORDER", 5)  # matrix-matrix products
        monkeypatch.setattr(newton_steps, "BLOCKED_FROM_ORDER", 5)
    ours = Newton(kernel=kernel, step_size=Constant(0.2), ridge=1e-4, budget=Epsilon(1e-5), batch_size=batch_size)
    random = np.random.default_rng(1)
    points = random.normal(size=(count, 2))
    targets = np.sin(points[:, :1]) + points[:, 1:] ** 2 + 0.1 * random.normal(size=(count, 1))
    state = ours.init(2, 1)
    passes.learn(ours, state, points, targets)
    function = state.function
    # The best that the dictionary can do with all samples, computed afresh and not from normal equations.
    basis = kernel.cross(points, function.points) @ function.factor.T
    stacked = np.vstack([basis, np.sqrt(0.5 * ours.penalty) * np.eye(function.order)])
    best = np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((function.order, 1))]), rcond=None)[0]
    difference = function.values(points) - basis @ best
    assert float(np.sqrt(np.mean(difference**2))) < 0.003  # of a noise of 0.1
    assert function.defect() < 1e-3


def test_the_budget_holds_the_dictionary_on_an_endless_stream():
    ours = learner(batch_size=4, budget=TargetOrder(30, alpha=0.1, gain=0.01))
    points, targets = samples(ours.loss, 8000, 9)
    state = ours.init(2, 2)
    passes.learn(ours, state, points, targets)
    assert 20 <= state.function.order <= 40


def test_the_ridge_suits_what_the_loss_asks_for():
    kinds = Squared(), Logistic(), MulticlassSquaredHinge()
    assert [learner(loss=loss).penalty for loss in kinds] == [0.1 * 2.0, 0.005 * 0.25, 0.05 * 2.0]


def test_it_asks_a_loss_with_a_curvature_and_says_what_else_there_is():
    with pytest.raises(ValueError, match=r"no curvature.*logistic.*polk"):
        learner(loss=Hinge())
    for keys, key in (
        ({"ridge": 0.0}, "ridge"),
        ({"forgetting": 0.0}, "forgetting"),
        ({"batch_size": 0}, "batch_size"),
    ):
        with pytest.raises(ValueError, match=key):
            learner(**keys)


def test_a_pass_has_the_bits_of_single_steps_where_matrix_products_take_over():
    ours = learner(kernel=Gaussian(0.2), batch_size=8, budget=Epsilon(1e-3))
    points, targets = samples(ours.loss, 300, 13)
    whole, single = ours.init(2, 2), ours.init(2, 2)
    passes.learn(ours, whole, points, targets)
    for start in range(0, 300, 8):
        batch = slice(start, start + 8)
        own, part = ours.evaluate(single, points[batch]), len(points[batch]) / 8
        ours.step(single, [own], [ours.gradient(single, own, targets[batch]) * part], None, targets[batch])
    assert whole.function.order > newton_module.BLOCKED_FROM_ORDER
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
