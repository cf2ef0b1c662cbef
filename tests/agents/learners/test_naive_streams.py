"""Along whole streams the learner holds the dictionary that POLK algorithm 2 with the naive algorithm 1 holds."""

import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon, Parsimony
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.naive import destructive_komp

LOSSES = [Squared(), Absolute(), Huber(0.5), Logistic(), Hinge(), MulticlassLogistic(), MulticlassHinge()]
KERNELS = [Gaussian(0.4), Gaussian(0.8), Laplacian(0.7), Matern(0.8, 1.5), Matern(0.8, 2.5)]
STREAMS = 40
"""Streams for each loss."""

SAMPLES = 25

TIE = 1e-6
"""A decision this close, relatively, may fall either way in floating point; equal scores fall to the older element."""


def stream(generator, loss):
    """Draw points with targets that fit the loss; returns the number of outputs too."""
    inputs = int(generator.integers(1, 4))
    points = generator.uniform(-1.5, 1.5, (SAMPLES, inputs))
    height = np.sin(2.0 * points[:, :1]) + 0.3 * generator.normal(size=(SAMPLES, 1))
    if loss.task == "regression":
        outputs = int(generator.integers(1, 4))
        return points, np.concatenate([height * 0.7**c + 0.1 * c for c in range(outputs)], axis=1), outputs
    if loss.task == "binary":
        return points, (height > 0.0).astype(np.float64), 1
    return points, np.digitize(height, [-0.4, 0.4]).astype(np.float64), 3


def streams(loss):
    """Draw a learner and its data, many times."""
    for seed in range(STREAMS):
        generator = np.random.default_rng([seed, LOSSES.index(loss)])
        points, targets, outputs = stream(generator, loss)
        size = float(10.0 ** generator.uniform(-1.7, -0.3))
        learner = Polk(
            loss=loss,
            kernel=KERNELS[int(generator.integers(len(KERNELS)))],
            step_size=Constant(float(generator.uniform(0.1, 0.6))),
            regularization=float(10.0 ** generator.uniform(-6.0, -1.0)),
            batch_size=int(generator.choice([1, 1, 2, 5])),
            budget=Parsimony(3.0 * size) if seed % 3 == 0 else Epsilon(size),
        )
        yield learner, points, targets, outputs


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_same_dictionary_at_every_step(loss):
    steps = removals = ties = 0
    for learner, points, targets, outputs in streams(loss):
        state = learner.init(points.shape[1], outputs)
        kernel, eta = learner.kernel, learner.step_size.at(0)
        epsilon = learner.budget.bound(eta, learner.budget.start())
        dictionary, weights = np.zeros((0, points.shape[1])), np.zeros((0, outputs))
        for start in range(0, SAMPLES, learner.batch_size):
            x, y = (array[start : start + learner.batch_size] for array in (points, targets))
            slopes = loss.derivatives(kernel.cross(x, dictionary) @ weights, y)
            everything = np.concatenate([dictionary, x])
            wanted = np.concatenate(
                [(1.0 - eta * learner.regularization) * weights, -eta / learner.batch_size * slopes]
            )
            kept, weights, margin = destructive_komp(kernel, everything, wanted, epsilon)
            dictionary = everything[kept]
            passes.learn(learner, state, x, y)
            if margin < TIE:
                ties += 1
                dictionary, weights = state.function.points.copy(), state.function.weights.copy()
                continue
            np.testing.assert_array_equal(state.function.points, dictionary)
            largest = np.abs(wanted).max(initial=0.0)
            np.testing.assert_allclose(state.function.weights, weights, rtol=1e-5, atol=1e-5 * largest)
            steps += 1
            removals += len(everything) - len(kept)
    assert ties < 0.05 * steps  # where f = 0, some losses give all points of a batch weights of one length
    assert steps > 10 * STREAMS
    assert removals > 0.3 * steps


@pytest.mark.parametrize("batch", [1, 4])
def test_equal_scores_fall_to_the_older_element(batch):
    # Strangers, each worth eta |l'| = 0.25 * 2 * y / b; the budget holds one of them, and not two.
    points = 100.0 * np.arange(4.0)[:, None]
    worth = 0.5 / batch
    learner = Polk(
        kernel=Gaussian(1.0),
        step_size=Constant(0.25),
        regularization=0.0,
        batch_size=batch,
        budget=Epsilon(1.2 * worth),
    )
    state = learner.init(1, 1)
    if batch == 1:
        state.function.step(points[:1], np.full((1, 1), worth), np.zeros((1, 0)), 1.0, 0.0)
        passes.learn(learner, state, points[1:2], np.ones((1, 1)))
        np.testing.assert_array_equal(state.function.points, points[1:2])
    else:
        passes.learn(learner, state, points, np.ones((4, 1)))
        np.testing.assert_array_equal(state.function.points, points[1:])
