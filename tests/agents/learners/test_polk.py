"""The learner's step is a step down the functional gradient, compressed within its budget."""

import numpy as np
import pytest

from kernelswarm.agents.functions.expansion import DEFECT_LIMIT
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon, Parsimony, Proportional, Quadratic, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant, Diminishing, Horizon
from tests.helpers.samples import data
from tests.helpers.steps import learn, step


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Epsilon(0.3), 0.3),
        (Parsimony(2.0), 2.0 * 0.09**1.5),
        (Quadratic(2.0), 2.0 * 0.09**2),
        (Proportional(2.0), 2.0 * 0.09),
        (TargetOrder(10, alpha=2.0), 2.0 * 0.09),
    ],
    ids=str,
)
def test_budgets_follow_their_rules(budget, expected):
    assert budget.bound(0.09, budget.start()) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("order", "change"), [(10, 0.0), (30, 0.02), (500, 0.1), (0, -0.01)])
def test_adaptive_budget_changes_by_at_most_a_tenth(order, change):
    assert TargetOrder(10, alpha=2.0).next(2.0, order) == pytest.approx(2.0 * (1.0 + change))


def test_adaptive_budget_reaches_the_wanted_model_order():
    generator = np.random.default_rng(4)
    points = generator.uniform(-2.0, 2.0, (6000, 2))
    targets = np.sin(3.0 * points[:, :1]) * np.cos(2.0 * points[:, 1:])
    learner = Polk(kernel=Gaussian(0.4), step_size=Constant(0.2), budget=TargetOrder(30, alpha=1e-3))
    state = learner.init(2, 1)
    orders = []
    for k in range(len(points)):
        step(learner, state, points[k : k + 1], targets[k : k + 1])
        orders.append(state.function.order)
    assert np.mean(orders[-1000:]) == pytest.approx(30, rel=0.1)


def test_schedules_follow_their_rules():
    assert [Constant(0.3).at(t) for t in (0, 9)] == [0.3, 0.3]
    assert Diminishing(0.4, 50.0).at(150) == pytest.approx(0.1)
    assert Horizon(2.0, 400).at(17) == pytest.approx(0.1)
    for schedule in (Constant(0.3), Diminishing(0.4, 50.0), Horizon(2.0, 400)):
        assert schedule.largest == max(schedule.at(t) for t in range(100))


def test_a_damaged_factor_is_noticed_and_rebuilt():
    generator = np.random.default_rng(5)
    learner = Polk(kernel=Gaussian(0.5), step_size=Constant(0.2), budget=Epsilon(0.05))
    points, targets = data(generator, learner.loss, 400)
    state = learn(learner, points, targets)
    assert state.rebuilds == 0
    state.function.factor_buffer[: state.function.order, 0] *= 1.01
    assert state.function.defect() > DEFECT_LIMIT
    state.changes = 10**6
    step(learner, state, points[:1], targets[:1])
    assert state.rebuilds == 1
    assert state.function.defect() < 1e-8
