"""Learners that move on mistakes decide as their papers state, sample by sample, for classes and for numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.bpa import Bpa
from kernelswarm.agents.learners.perceptron import Forgetron, Perceptron
from kernelswarm.agents.learners.projectron import Projectron, ProjectronPlus
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Hinge, MulticlassHinge
from kernelswarm.agents.parts.schedules import Constant
from tests.agents.learners.test_budgeted_learners import BUDGETED
from tests.helpers.naive_budgets import (
    NaiveForgetron,
    NaiveSum,
    aggressive_coefficient,
    margin_coefficient,
    passive_aggressive_on_a_budget,
    perceptron_coefficient,
    projectron,
)
from tests.helpers.pairs import in_pairs
from tests.helpers.samples import data, outputs
from tests.helpers.steps import learn, step

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


@in_pairs(name=DRIVEN, regularization=[0.0, 0.05], loss=LOSSES)
def test_the_dictionary_is_the_papers(name, regularization, loss):
    learner = replace(DRIVEN[name], loss=loss, regularization=regularization)
    points, targets = data(np.random.default_rng(1), loss, 90)
    state = learn(learner, points, targets)
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
    learner = replace(DRIVEN[name], kernel=kernel, aggressiveness=np.inf)
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


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("name", BOUNDED)
def test_the_budget_is_exact(name, size):
    learner = replace(BOUNDED[name], batch_size=size)
    points, targets = data(np.random.default_rng(2), learner.loss, 300)
    state, orders = learner.init(2, 1), []
    for start in range(0, 300, size):
        step(learner, state, points[start : start + size], targets[start : start + size])
        orders.append(state.function.order)
    assert max(orders) == orders[-1] == learner.budget_size
