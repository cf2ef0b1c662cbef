"""POLK with several bandwidths: every member is POLK, and the shares are Hedge's."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.multi_kernel import MultiKernel
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic, Loss, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.steps import step

FACTORS = (0.5, 1.0, 3.0)
SHARED = {"step_size": Constant(0.3), "batch_size": 2, "budget": Epsilon(0.01)}


def samples(steps: int, classes: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(steps):
        x = generator.uniform(size=(2, 1))
        y = np.sin(8.0 * x) + 0.2 * generator.normal(size=(2, 1))
        found.append((x, np.where(y > 0.0, 1.0, 0.0) if classes else y))
    return found


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
@pytest.mark.parametrize("rate", ["auto", 0.7])
def test_members_are_polk_and_shares_are_hedges(loss: Loss, rate, implicit):
    """Alone, each member has the bits of POLK with its bandwidth on the same samples."""
    mixed = MultiKernel(loss=loss, kernel=Gaussian(0.2), factors=FACTORS, rate=rate, forgetting=0.9, **SHARED)
    alone = [Polk(loss=loss, kernel=Gaussian(0.2 * factor), **SHARED) for factor in FACTORS]
    state, states = mixed.init(1, 1), [learner.init(1, 1) for learner in alone]
    losses, count = np.zeros(3), 0.0
    for x, y in samples(60, loss.task != "regression"):
        lost = [loss.values(each.function.values(x), y).sum() for each in states]
        losses, count = 0.81 * losses + lost, 0.81 * count + 2.0
        for learner, each in zip((mixed, *alone), (state, *states), strict=True):
            step(learner, each, x, y, implicit)
    grid = np.linspace(0.0, 1.0, 30)[:, None]
    function = mixed.function(state)
    for member, learner, each in zip(function.members, alone, states, strict=True):
        np.testing.assert_allclose(member.values(grid), learner.function(each).values(grid), rtol=1e-9, atol=1e-12)
        assert np.abs(member.values(grid)).max() > 0.1
    wanted = {"auto": 0.5 * count / losses.min() if loss.task == "regression" else 1.0}.get(rate, rate)
    shares = np.exp(-wanted * (losses - losses.min()))
    np.testing.assert_allclose(function.shares, shares / shares.sum(), rtol=1e-6, atol=1e-12)
    assert 0.0 < function.shares.min() < function.shares.max()


def test_saved_arrays_and_snapshots_tell_a_dozen_members_apart():
    mixed = MultiKernel(kernel=Gaussian(0.2), factors=tuple(0.1 * k for k in range(1, 13)), **SHARED)
    state, again = mixed.init(1, 1), mixed.init(1, 1)
    for x, y in samples(20, classes=False):
        step(mixed, state, x, y)
    mixed.restore(again, mixed.snapshot(state))
    grid = np.linspace(0.0, 1.0, 30)[:, None]
    wanted = [member.values(grid) for member in mixed.function(state).members]
    for function in (mixed.function(again), mixed.function_from(mixed.function(state).arrays())):
        for found, values in zip([member.values(grid) for member in function.members], wanted, strict=True):
            np.testing.assert_array_equal(found, values)
    assert mixed.function(state).distance(mixed.function(again)) == pytest.approx(0.0, abs=1e-6)
    assert mixed.function(state).distance(mixed.function(mixed.init(1, 1))) > 0.1
