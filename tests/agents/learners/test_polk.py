"""The learner's step is a step down the functional gradient, compressed within its budget."""

import numpy as np
import pytest

from kernelswarm.agents.functions.expansion import DEFECT_LIMIT
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon, Parsimony, Proportional, Quadratic, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.agents.parts.schedules import Constant, Diminishing, Horizon
from tests.helpers.samples import data, outputs

KERNELS = [
    Gaussian(0.8),
    Laplacian(1.0),
    Matern(1.0, 1.5),
    Matern(1.0, 2.5),
    Polynomial(degree=2, offset=1.0, scale=0.5),
    Linear(offset=1.0),
]
LOSSES = [Squared(), Absolute(), Huber(0.5), Logistic(), Hinge(), MulticlassLogistic(), MulticlassHinge()]


def learn(learner, points, targets, size=1):
    """Feed data in mini-batches; returns the state and the compression errors."""
    state = learner.init(points.shape[1], outputs(learner.loss))
    errors = []
    for start in range(0, len(points), size):
        own = learner.evaluate(state, points[start : start + size])
        info = learner.step(
            state,
            [own],
            [learner.gradient(state, own, targets[start : start + size])],
            None,
            targets[start : start + size],
        )
        errors.append(info.compression_error)
    return state, errors


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_every_loss_learns_with_every_kernel(loss, kernel):
    generator = np.random.default_rng(2)
    points, targets = data(generator, loss, 2000)
    learner = Polk(loss=loss, kernel=kernel, step_size=Constant(0.05), budget=Epsilon(0.02))
    state, errors = learn(learner, points, targets, 2)
    fresh, wanted = data(generator, loss, 300)
    nothing = np.zeros((300, outputs(loss)))
    risk = loss.values(state.function.values(fresh), wanted).mean()
    assert risk < 0.75 * loss.values(nothing, wanted).mean()
    assert max(errors) <= 0.02 * (1.0 + 1e-9)
    assert 0 < state.function.order < 300


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
        own = learner.evaluate(state, points[k : k + 1])
        learner.step(state, [own], [learner.gradient(state, own, targets[k : k + 1])], None, targets[k : k + 1])
        orders.append(state.function.order)
    assert np.mean(orders[-1000:]) == pytest.approx(30, rel=0.1)


def test_schedules_follow_their_rules():
    assert [Constant(0.3).at(t) for t in (0, 9)] == [0.3, 0.3]
    assert Diminishing(0.4, 50.0).at(150) == pytest.approx(0.1)
    assert Horizon(2.0, 400).at(17) == pytest.approx(0.1)
    for schedule in (Constant(0.3), Diminishing(0.4, 50.0), Horizon(2.0, 400)):
        assert schedule.largest == max(schedule.at(t) for t in range(100))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polk(step_size=Constant(2.0), regularization=0.5), "step_size = 2.0 must be below 1 / regularization"),
        (lambda: Polk(batch_size=0), "batch_size = 0"),
        (lambda: Polk(regularization=-1.0), "regularization = -1.0"),
        (lambda: Constant(0.0), "value = 0.0"),
        (lambda: Diminishing(0.1, 0.0), "offset = 0.0"),
        (lambda: Horizon(1.0, 0), "horizon = 0"),
        (lambda: Epsilon(-0.1), "epsilon = -0.1"),
        (lambda: TargetOrder(0), "target_order = 0"),
        (lambda: TargetOrder(5, alpha=0.0), "alpha = 0.0"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_damaged_factor_is_noticed_and_rebuilt():
    generator = np.random.default_rng(5)
    learner = Polk(kernel=Gaussian(0.5), step_size=Constant(0.2), budget=Epsilon(0.05))
    points, targets = data(generator, learner.loss, 400)
    state, _ = learn(learner, points, targets)
    assert state.rebuilds == 0
    state.function.factor_buffer[: state.function.order, 0] *= 1.01
    assert state.function.defect() > DEFECT_LIMIT
    state.changes = 10**6
    own = learner.evaluate(state, points[:1])
    learner.step(state, [own], [learner.gradient(state, own, targets[:1])], None, targets[:1])
    assert state.rebuilds == 1
    assert state.function.defect() < 1e-8
