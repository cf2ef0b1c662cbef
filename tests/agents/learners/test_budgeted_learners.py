"""Learners on a budget decide as their papers state, sample by sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.bogd import Bogd
from kernelswarm.agents.learners.bsgd import Bsgd, Npbsgd
from kernelswarm.agents.learners.dual_sgd import DualSgd
from kernelswarm.agents.learners.ogd import Norma, Ogd
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Hinge, Logistic, MulticlassHinge, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.chance import key_of, threefry, uniform
from tests.helpers import naive_budgets
from tests.helpers.naive_budgets import NaiveSum
from tests.helpers.samples import data, outputs
from tests.helpers.steps import learn

STEP = {"step_size": Constant(0.3), "regularization": 0.05}
KERNEL = Gaussian(0.7)
LOSSES = [Squared(), Logistic(), Hinge(), MulticlassLogistic(), MulticlassHinge()]
BUDGETED = {
    "ogd": Ogd(kernel=KERNEL, **STEP),
    "norma": Norma(kernel=KERNEL, budget_size=8, **STEP),
    "removal": Bsgd(kernel=KERNEL, budget_size=8, **STEP),
    "projection": Bsgd(kernel=KERNEL, budget_size=8, maintenance="projection", **STEP),
    "merging": Bsgd(kernel=KERNEL, budget_size=8, maintenance="merging", **STEP),
    "npbsgd": Npbsgd(kernel=KERNEL, budget_size=8, growth=0.2, **STEP),
    "dual_sgd": DualSgd(kernel=KERNEL, budget_size=8, features=40, **STEP),
    "bogd": Bogd(kernel=KERNEL, budget_size=8, weight_bound=2.0, **STEP),
}
EVERY = pytest.mark.parametrize("learner", BUDGETED.values(), ids=BUDGETED)


def naively(learner, points, targets, keep):
    """Learn as the formulas say, with ``keep(function, budget)`` after each sample."""
    f = NaiveSum(learner.kernel)
    eta = learner.step_size.at(0)
    for x, y in zip(points, targets, strict=True):
        slope = learner.loss.derivatives(np.zeros((1, outputs(learner.loss))) + f(x), y[None, :])[0]
        f.scale(1.0 - eta * learner.regularization)
        if np.any(slope != 0.0):
            f.add(x, -eta * slope)
        keep(f, getattr(learner, "budget_size", None))
    return f


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("rule", ["norma", "removal", "projection", "merging"])
def test_the_dictionary_is_the_papers(rule, loss):
    learner = replace(BUDGETED[rule], loss=loss)
    points, targets = data(np.random.default_rng(1), loss, 40)
    state = learn(learner, points, targets)
    wanted = naively(learner, points, targets, getattr(naive_budgets, rule))
    close = {"rtol": 0.0, "atol": 2e-3 if rule == "merging" else 1e-9}  # merging: h is found by a search
    found = state.function
    order = np.lexsort(np.round(found.points, 2).T)
    again = np.lexsort(np.round(np.array(wanted.points), 2).T)
    np.testing.assert_allclose(found.points[order], np.array(wanted.points)[again], **close)
    np.testing.assert_allclose(found.weights[order], np.array(wanted.weights)[again], **close)


@pytest.mark.parametrize("size", [1, 3])
@EVERY
def test_a_budget_that_is_never_reached_leaves_gradient_descent(learner, size):
    points, targets = data(np.random.default_rng(2), learner.loss, 30)
    points[17] = points[3]  # a point that comes again adds to its weight
    keys = {} if isinstance(learner, Ogd) else {"budget_size": 40}
    keys |= {"weight_bound": np.inf} if isinstance(learner, Bogd) else {}
    learner = replace(learner, batch_size=size, **keys)
    exact = Polk(kernel=KERNEL, batch_size=size, budget=Epsilon(0.0), **STEP)
    state = learn(learner, points, targets)
    probes = np.random.default_rng(3).normal(size=(20, 2))
    values = state.function.values(probes)
    assert state.function.order == 29
    np.testing.assert_allclose(values, learn(exact, points, targets).function.values(probes), atol=1e-9)


@pytest.mark.parametrize("rule", ["removal", "projection", "merging"])
def test_the_compression_error_is_the_distance_that_maintenance_moves(rule):
    learner = BUDGETED[rule]
    points, targets = data(np.random.default_rng(5), learner.loss, 60)
    state = learn(learner, points[:-1], targets[:-1])
    own = learner.evaluate(state, points[-1:])
    gradient = learner.gradient(state, own, targets[-1:])
    before = replace(learner, budget_size=100)
    uncompressed = before.init(2, 1)
    before.restore(uncompressed, learner.snapshot(state))
    before.step(uncompressed, [own], [gradient], None, targets[-1:])
    info = learner.step(state, [own], [gradient], None, targets[-1:])
    assert info.compression_error == pytest.approx(state.function.distance(uncompressed.function), abs=1e-7)
    assert info.compression_error > 0.0


def test_without_growth_npbsgd_is_bsgd_with_removal():
    points, targets = data(np.random.default_rng(7), Squared(), 150)
    found = learn(replace(BUDGETED["npbsgd"], growth=0.0), points, targets)
    wanted = learn(BUDGETED["removal"], points, targets)
    np.testing.assert_array_equal(found.function.points, wanted.function.points)
    np.testing.assert_array_equal(found.function.weights, wanted.function.weights)


@pytest.mark.parametrize("growth", [0.1, 1.0])
def test_npbsgd_grows_by_its_probability(growth):
    points, targets = data(np.random.default_rng(8), Squared(), 1008)
    state = learn(replace(BUDGETED["npbsgd"], growth=growth), points, targets)
    expected = 8 + 1000 * growth
    assert abs(state.function.order - expected) <= 4.0 * np.sqrt(1000 * growth * (1.0 - growth))


@pytest.mark.parametrize("sampling", ["uniform", "nonuniform"])
def test_bogd_is_right_in_the_mean(sampling):
    # Over the draws of many seeds, the function after a removal is in the mean what it would be without one.
    points, targets = data(np.random.default_rng(12), Squared(), 9)
    probes = np.random.default_rng(13).normal(size=(5, 2))
    found = []
    for seed in range(600):
        keys = {"sampling": sampling, "weight_bound": np.inf, "seed": seed, "step_size": Constant(0.1)}
        learner = replace(BUDGETED["bogd"], **keys)
        state = learn(learner, points, targets)
        found.append(state.function.values(probes)[:, 0])
    wanted = learn(replace(BUDGETED["ogd"], step_size=Constant(0.1)), points, targets)
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - wanted.function.values(probes)[:, 0]) < 4.0 * error)


def test_bogd_draws_by_its_probabilities():
    norms = np.array([0.2, 0.3, 0.25, 0.25])
    learner = replace(BUDGETED["bogd"], budget_size=4)
    np.testing.assert_allclose(learner.probabilities(norms), 1.0 - 3.0 * norms, atol=1e-15)
    large = np.array([0.0, 1.0, 1.0, 9.0])  # 1 - 3 a / 11 is 1, 8/11, 8/11 and less than 0
    np.testing.assert_allclose(learner.probabilities(large), np.array([11.0, 8.0, 8.0, 0.0]) / 27.0, atol=1e-15)
    assert replace(learner, sampling="uniform").probabilities(norms).tolist() == [0.25] * 4


def test_bogd_bounds_its_weights():
    learner = replace(BUDGETED["bogd"], loss=Hinge())
    points, targets = data(np.random.default_rng(14), learner.loss, 200)
    state = learn(learner, points, targets)
    assert np.abs(state.function.weights).max() <= 2.0 * 0.3 * (1.0 + 1e-15)


def test_chance_is_uniform_and_depends_on_seed_and_place_only():
    first, second = map(int, key_of(3))
    numbers = [uniform(first, second, place) for place in range(4096)]
    assert numbers[1029] == uniform(first, second, 1029)
    assert len(set(numbers)) == len(numbers) and uniform(*map(int, key_of(4)), 0) != numbers[0]
    assert min(numbers) >= 0.0 and max(numbers) < 1.0
    assert np.histogram(numbers, bins=8, range=(0.0, 1.0))[0] == pytest.approx(512, rel=0.2)
    assert len({key_of(seed) for seed in (0, 1, 2**32, 2**64, 2**64 + 1)}) == 5


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers_of_its_authors(key, counter, answer):
    # Random123, tests/kat_vectors, threefry2x32 with 20 rounds
    assert threefry(*key, *counter) == answer
