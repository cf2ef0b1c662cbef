"""The adaptive budget holds the model order at the wanted value on the mixture of POLK section 5."""

from itertools import product

import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassHinge, MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from tests.helpers.steps import step

STEP_SIZES = {1: 0.1, 32: 6.0}
STEPS = {1: 8000, 32: 1200}


def orders(budget, loss, batch_size):
    """Learn from the mixture; returns the model order after every step."""
    source = GaussianMixture().open(1, 0, 1, None).nodes[0]
    eta = Constant(STEP_SIZES[batch_size])
    learner = Polk(loss=loss, kernel=Gaussian(0.6**0.5), step_size=eta, batch_size=batch_size, budget=budget)
    state = learner.init(2, 5)
    found = []
    for _ in range(STEPS[batch_size]):
        points, targets = source.draw(batch_size)
        step(learner, state, points, targets)
        found.append(state.function.order)
    return np.array(found)


LOSSES = [MulticlassHinge(), MulticlassLogistic()]
ORDERS = [20, 100]
GAINS = ["published", "relative"]
HALF = [  # of all combinations: every three of them meet
    (gain, wanted, batch_size, loss)
    for (g, gain), (w, wanted), (b, batch_size), (k, loss) in product(
        enumerate(GAINS), enumerate(ORDERS), enumerate(STEPS), enumerate(LOSSES)
    )
    if (g + w + b + k) % 2
]


@pytest.mark.parametrize(("gain", "wanted", "batch_size", "loss"), HALF, ids=str)
def test_model_order_comes_within_a_twentieth_of_the_target(gain, wanted, batch_size, loss):
    budget = TargetOrder(wanted) if gain == "published" else TargetOrder(wanted, gain=0.3 / wanted)
    last = orders(budget, loss, batch_size)[-STEPS[batch_size] // 4 :]
    assert last.mean() == pytest.approx(wanted, rel=0.05)
    assert last.std() < 0.05 * wanted


def test_the_published_gain_is_a_thousandth_for_each_point():
    assert TargetOrder(10).next(2.0, 12) == pytest.approx(2.0 * 1.002)
    assert TargetOrder(10, gain=0.01).next(2.0, 12) == pytest.approx(2.0 * 1.02)
    assert TargetOrder(10, gain=0.5).next(2.0, 12) == pytest.approx(2.0 * 1.1)
    assert TargetOrder(10, gain=0.5).next(2.0, 8) == pytest.approx(2.0 * 0.9)
