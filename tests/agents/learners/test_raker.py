"""Random features of several kernels: every member is random_features, and the shares are Hedge's."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Logistic, Loss, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.steps import step

FACTORS = (0.5, 1.0, 3.0)
GRID = np.linspace(0.0, 1.0, 30)[:, None]
SHARED = {"step_size": Constant(0.3), "batch_size": 2, "regularization": 1e-3, "features": 16, "phases": "paired"}


def samples(steps: int, loss: Loss) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    found = []
    for place in range(steps):
        x = generator.uniform(size=(1 if place % 7 == 6 else 2, 1))  # a batch may be smaller
        y = np.sin(8.0 * x) + 0.2 * generator.normal(size=x.shape)
        labels = {"binary": (y > 0.0) * 1.0, "multiclass": np.digitize(y, (-0.5, 0.5)) * 1.0}
        found.append((x, labels.get(loss.task, y)))
    return found


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize(
    ("loss", "outputs"), [(Squared(), 1), (Logistic(), 1), (MulticlassLogistic(), 3)], ids=lambda part: repr(part)
)
@pytest.mark.parametrize("rate", ["auto", 0.7])
def test_members_are_random_features_and_shares_are_hedges(loss: Loss, outputs: int, rate, implicit):
    mixed = Raker(loss=loss, kernel=Gaussian(0.2), factors=FACTORS, seed=4, rate=rate, forgetting=0.9, **SHARED)
    alone = [
        RandomFeatures(loss=loss, kernel=Gaussian(0.2 * factor), seed=4 + place, **SHARED)
        for place, factor in enumerate(FACTORS)
    ]
    state, states = mixed.init(1, outputs), [learner.init(1, outputs) for learner in alone]
    losses, count = np.zeros(3), 0.0
    for x, y in samples(60, loss):
        lost = [loss.values(each.function.values(x), y).sum() for each in states]
        losses, count = 0.9 ** len(x) * losses + lost, 0.9 ** len(x) * count + len(x)
        for learner, each in zip((mixed, *alone), (state, *states), strict=True):
            step(learner, each, x, y, implicit, len(x) / 2.0)
    wanted = {"auto": 0.5 * count / losses.min() if loss.task == "regression" else 1.0}.get(rate, rate)
    shares = np.exp(-wanted * (losses - losses.min()))
    shares /= shares.sum()
    np.testing.assert_allclose(mixed.shares(state), shares, rtol=1e-6, atol=1e-12)
    assert 0.0 < shares.min() < shares.max()
    values = [each.function.values(GRID) for each in states]
    assert min(np.abs(each).max() for each in values) > 0.1
    mean = sum(share * each for share, each in zip(shares, values, strict=True))
    np.testing.assert_allclose(mixed.function(state).values(GRID), mean, rtol=1e-6, atol=1e-9)


def test_a_pull_moves_the_mixture_by_the_members_kernels():
    """With s_e the bandwidth of member e, ``z_e(x) . z_e(y)`` is near ``exp(-|x - y|^2 / (2 s_e^2))``."""
    mixed = Raker(kernel=Gaussian(0.2), factors=FACTORS, features=4000, step_size=Constant(0.3))
    state = mixed.init(1, 1)
    at = mixed.evaluate(state, GRID)
    squares = (GRID - GRID.T) ** 2
    each = [np.exp(-squares / (2.0 * (0.2 * factor) ** 2)) for factor in FACTORS]
    np.testing.assert_allclose(mixed.inner(state, at), sum(each) / 3.0, atol=0.06)
    for place, kernel in enumerate(each):
        features = at.rows[:, place * 4000 : (place + 1) * 4000]
        np.testing.assert_allclose(features @ features.T, kernel, atol=0.07)


def test_a_placed_state_has_the_weights_that_it_is_given():
    mixed = Raker(kernel=Gaussian(0.2), factors=FACTORS, **SHARED)
    state = mixed.init(1, 1)
    for x, y in samples(5, Squared()):
        step(mixed, state, x, y)
    wanted = np.random.default_rng(1).normal(size=(3, 16, 1))
    at = mixed.evaluate(state, GRID)
    mixed.place(state, wanted, 9)
    np.testing.assert_allclose(mixed.coefficients(state), wanted, rtol=1e-12)
    np.testing.assert_allclose(mixed.function(state).values(GRID), at.rows @ wanted.reshape(-1, 1), rtol=1e-9)
    assert state.steps == 9


@pytest.mark.parametrize("bandwidth", [0.002, 3.0])
def test_a_wrong_bandwidth_is_found_out(bandwidth):
    def error(learner):
        experiment = {
            "rounds": 400,
            "evaluate_every": 400,
            "topology": {"name": "ring", "nodes": 4},
            "stream": {"name": "sine_regression", "noise": 0.2},
            "learner": {"kernel": {"name": "gaussian", "bandwidth": bandwidth}, **learner},
            "protocol": "consensus",
        }
        return simulate(Experiment.from_dict(experiment)).summary["final"]["error"]

    factors = [0.15 / bandwidth * 2.0**k for k in (-2, 0, 2)]
    right = error({"name": "random_features", "kernel": {"name": "gaussian", "bandwidth": 0.15}})
    wrong = error({"name": "random_features"})
    assert wrong > 20.0 * right
    assert error({"name": "raker", "factors": [1.0, *factors], "features": 100}) < 3.0 * right


def test_a_bandwidth_that_waits_for_data_is_refused():
    with pytest.raises(ValueError, match="training data"):
        Raker().init(1, 1)
