"""Learners that move on mistakes decide as their papers state, sample by sample, for classes and for numbers."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.bpa import Bpa
from kernelswarm.agents.learners.perceptron import Forgetron, Perceptron
from kernelswarm.agents.learners.projectron import Projectron, ProjectronPlus
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Hinge, MulticlassHinge, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.agents.learners.test_budgeted_learners import BUDGETED, altered, data, learn, outputs
from tests.helpers.naive_budgets import (
    NaiveForgetron,
    NaiveSum,
    aggressive_coefficient,
    margin_coefficient,
    passive_aggressive_on_a_budget,
    perceptron_coefficient,
    projectron,
)

KERNEL = Gaussian(0.7)
LOSSES = [Absolute(), Hinge(), MulticlassHinge()]
HALF = {"loss": Hinge(), "step_size": Constant(0.5), "regularization": 0.0, "insensitivity": 0.1}
WHOLE = {**HALF, "step_size": Constant(1.0)}
DRIVEN = {
    "perceptron": Perceptron(kernel=KERNEL, **HALF),
    "forgetron": Forgetron(kernel=KERNEL, budget_size=8, **HALF),
    "projectron": Projectron(kernel=KERNEL, tolerance=0.2, **HALF),
    "projectron, full": Projectron(kernel=KERNEL, tolerance=0.05, budget_size=6, **HALF),
    "projectron++": ProjectronPlus(kernel=KERNEL, tolerance=0.3, **HALF),
    "projectron++, full": ProjectronPlus(kernel=KERNEL, tolerance=0.2, budget_size=6, **HALF),
    "bpa": Bpa(kernel=KERNEL, budget_size=8, aggressiveness=0.7, **WHOLE),
    "bpa, nearest": Bpa(kernel=KERNEL, budget_size=8, maintenance="nearest", aggressiveness=1.0, **WHOLE),
    "bpa, projecting": Bpa(kernel=KERNEL, budget_size=8, maintenance="projecting", aggressiveness=1.0, **WHOLE),
}
EVERY = pytest.mark.parametrize("name", DRIVEN)
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def naively(learner, points, targets):
    """Learn as the papers say."""
    f = NaiveSum(learner.kernel)
    eta = learner.step_size.at(0)
    forgetron = NaiveForgetron(learner.budget_size, eta) if isinstance(learner, Forgetron) else None
    for x, y in zip(points, targets, strict=True):
        value = np.zeros(outputs(learner.loss)) + f(x)
        if isinstance(learner, Bpa):
            found = aggressive_coefficient(
                learner.loss.task, value, y[0], learner.insensitivity, learner.aggressiveness
            )
        else:
            found = perceptron_coefficient(learner.loss.task, value, y[0], learner.insensitivity)
            if isinstance(learner, ProjectronPlus) and not found.any():
                found = margin_coefficient(f, x, learner.loss.task, value, y[0], learner.tolerance)
        f.scale(1.0 - eta * learner.regularization)
        weight = -eta * found
        if not weight.any():
            continue
        if forgetron is not None:
            forgetron(f, x, weight)
        elif isinstance(learner, Projectron):
            projectron(f, x, weight, learner.tolerance, learner.budget_size)
        elif isinstance(learner, Bpa):
            passive_aggressive_on_a_budget(f, x, weight, learner.budget_size, learner.maintenance)
        else:
            f.add(x, weight)
    return f


@EVERY_LOSS
@pytest.mark.parametrize("regularization", [0.0, 0.05])
@EVERY
def test_the_dictionary_is_the_papers(name, regularization, loss):
    learner = altered(DRIVEN[name], loss=loss, regularization=regularization)
    points, targets = data(np.random.default_rng(1), loss, 90)
    state, _ = learn(learner, points, targets)
    wanted = naively(learner, points, targets)
    found = state.function
    assert found.order == len(wanted.points) > 5
    order, again = np.lexsort(found.points.T), np.lexsort(np.array(wanted.points).T)
    np.testing.assert_array_equal(found.points[order], np.array(wanted.points)[again])
    close = 1e-4 if name == "forgetron" else 1e-8  # the forgetron's phi is searched on a grid
    np.testing.assert_allclose(found.weights[order], np.array(wanted.weights)[again], rtol=0.0, atol=close)


@pytest.mark.parametrize("kernel", [KERNEL, Polynomial(3, 1.0, 0.5)], ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("name", ["bpa", "bpa, nearest", "bpa, projecting"])
def test_a_received_point_may_be_the_one_that_a_full_dictionary_does_without(name, kernel):
    learner = altered(DRIVEN[name], kernel=kernel, aggressiveness=np.inf)
    points, targets = data(np.random.default_rng(7), learner.loss, 60)
    received = np.random.default_rng(8).normal(size=(60, 2))
    pulls = np.random.default_rng(9).normal(size=(60, 1)) * np.where(np.arange(60) % 3, 0.01, 2.0)[:, None]
    state, f, out = learner.init(2, 1), NaiveSum(kernel), 0
    for k in range(60):
        sets = [learner.evaluate(state, points[k : k + 1]), learner.evaluate(state, received[k : k + 1])]
        gradients = [learner.gradient(state, sets[0], targets[k : k + 1]), pulls[k : k + 1]]
        learner.step(state, sets, gradients, None, targets[k : k + 1])
        for x, gradient, is_received in ((points[k], gradients[0][0], False), (received[k], pulls[k], True)):
            if gradient.any():
                passive_aggressive_on_a_budget(
                    f, x, -gradient, learner.budget_size, learner.maintenance, received=is_received
                )
        out += not (np.array(f.points) == received[k]).all(axis=1).any()
        order, again = np.lexsort(state.function.points.T), np.lexsort(np.array(f.points).T)
        np.testing.assert_array_equal(state.function.points[order], np.array(f.points)[again])
        np.testing.assert_allclose(state.function.weights[order], np.array(f.weights)[again], rtol=1e-6, atol=1e-8)
    assert out > 20 if learner.maintenance != "projecting" else out == 0


BOUNDED = {
    **{name: BUDGETED[name] for name in ("norma", "removal", "projection", "merging", "dual_sgd", "bogd")},
    **{name: learner for name, learner in DRIVEN.items() if getattr(learner, "budget_size", None) is not None},
}


@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("name", BOUNDED)
def test_the_budget_is_exact(name, size):
    learner = altered(BOUNDED[name], batch_size=size)
    points, targets = data(np.random.default_rng(2), learner.loss, 300)
    state, largest = learn(learner, points, targets)
    assert largest == state.function.order == learner.budget_size


@pytest.mark.parametrize("name", ["forgetron", "projectron", "projectron, full", "projectron++"])
def test_without_compression_it_is_the_perceptron(name):
    points, targets = data(np.random.default_rng(3), Hinge(), 120)
    keys = {"tolerance": 0.0} if isinstance(DRIVEN[name], Projectron) else {}
    found, _ = learn(altered(DRIVEN[name], budget_size=200, **keys), points, targets)
    wanted, _ = learn(DRIVEN["perceptron"], points, targets)
    assert found.function.order == wanted.function.order < 120
    np.testing.assert_allclose(found.function.values(points), wanted.function.values(points), atol=1e-9)


@EVERY_LOSS
def test_passive_aggressive_steps_end_the_hinge_loss(loss):
    learner = altered(DRIVEN["bpa"], loss=loss, budget_size=60, aggressiveness=np.inf)
    points, targets = data(np.random.default_rng(4), loss, 40)
    state = learner.init(2, outputs(loss))
    for k in range(40):
        one = slice(k, k + 1)
        own = learner.evaluate(state, points[one])
        learner.step(state, [own], [learner.gradient(state, own, targets[one])], None, targets[one])
        value = state.function.values(points[one])
        if loss.task == "multiclass":  # the loss that the best wrong class of before makes
            right = int(targets[k, 0])
            others = np.where(np.arange(3) == right, -np.inf, own.values[0])
            assert value[0, right] - value[0, others.argmax()] >= 1.0 - 1e-12
        else:
            rest = loss.values(value, targets[one])[0]
            assert rest <= (0.1 if loss.task == "regression" else 0.0) + 1e-12


@pytest.mark.parametrize("loss", [Hinge(), MulticlassHinge()], ids=lambda loss: type(loss).__name__)
def test_margin_steps_of_projectron_plus_add_no_point_and_lead_nearer_to_all_that_have_the_margin(loss):
    learner = altered(DRIVEN["projectron++"], loss=loss, step_size=Constant(1.0))
    points, targets = data(np.random.default_rng(4), loss, 500)
    state, moved, compared = learner.init(2, outputs(loss)), 0, 0
    random = np.random.default_rng(5)
    for k in range(len(points)):
        one, order = slice(k, k + 1), state.function.order
        own = learner.evaluate(state, points[one])
        gradient = learner.gradient(state, own, targets[one])
        before = np.array(state.function.weights)
        learner.step(state, [own], [gradient], None, targets[one])
        # A function of the dictionary and x, with margin 1 there and the norm 1 / tolerance at most.
        elements = np.vstack([state.function.points, points[one]])
        gram = learner.kernel.cross(elements, elements) + 1e-12 * np.eye(len(elements))
        direction = -gradient[0] / max(np.abs(gradient).max(), 1e-300)
        if not 0.0 < direction @ own.values[0] < 1.0:
            continue
        moved += 1
        assert state.function.order == order
        assert direction @ state.function.values(points[one])[0] <= 1.0 + 1e-9
        goal = 0.3 * random.normal(size=(len(elements), len(direction)))
        short = 1.0 - direction @ (gram[-1] @ goal)
        goal[-1] += short * direction / (direction @ direction)
        if np.trace(goal.T @ gram @ goal) > learner.tolerance**-2:
            continue
        apart = [np.vstack([f, np.zeros(len(direction))]) - goal for f in (before, state.function.weights)]
        far, near = (np.trace(w.T @ gram @ w) for w in apart)
        assert near <= far + 1e-9
        compared += 1
    assert moved >= compared > 10


def test_a_step_without_mistake_moves_nothing_and_with_coupling_only_as_it_says():
    learner = altered(DRIVEN["perceptron"], step_size=Constant(0.5))
    points, targets = data(np.random.default_rng(5), Hinge(), 60)
    state, _ = learn(learner, points, targets)
    right = np.flatnonzero(learner.loss.decide(state.function.values(points)) == targets)[:1]
    own = learner.evaluate(state, points[right] + 0.0)
    gradient = learner.gradient(state, own, targets[right])
    assert not gradient.any()
    before = state.function.values(points)
    learner.step(state, [own], [gradient], None, targets[right])
    np.testing.assert_array_equal(state.function.values(points), before)
    learner.step(state, [own], [gradient + 0.3], None, targets[right])
    moved = -0.5 * 0.3 * learner.kernel.cross(points, points[right])
    np.testing.assert_allclose(state.function.values(points) - before, moved, atol=1e-14)


@pytest.mark.parametrize("loss", [*LOSSES, Squared()], ids=lambda loss: type(loss).__name__)
@EVERY
def test_every_task_is_learned(name, loss):
    generator = np.random.default_rng(7)
    regression = loss.task == "regression"
    keys = {"step_size": Constant(0.1)} if regression else {}
    keys |= {"budget_size": 60} if hasattr(DRIVEN[name], "budget_size") else {}
    learner = altered(DRIVEN[name], loss=loss, **keys)
    state, _ = learn(learner, *data(generator, loss, 900))
    fresh, wanted = data(generator, loss, 300)
    found = loss.decide(state.function.values(fresh))
    if regression:
        assert np.mean(np.abs(found - wanted)) < 0.6 * np.mean(np.abs(wanted))
    else:
        assert np.mean(found != wanted) < 0.25


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bpa(budget_size=1, maintenance="nearest"), "budget_size = 1 must be at least 2"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()
