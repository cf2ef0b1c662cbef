"""The learners on a subspace's features: the step on the weights, and what becomes of the function as it moves on."""

from dataclasses import replace

import numpy as np
import pytest

from kernelswarm.agents.learners.okfe import Okfe, Okfeb
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.agents.parts.subspace_rules import Threshold
from tests.helpers.samples import data, outputs
from tests.helpers.steps import learn, step

LEARNERS = {
    "okfe": Okfe(kernel=Gaussian(0.8), step_size=Constant(0.1), rank=6),
    "okfeb": Okfeb(kernel=Gaussian(0.8), step_size=Constant(0.1), rank=6, budget_size=12),
    "okfeb, parametric, recent": Okfeb(
        kernel=Gaussian(0.8),
        step_size=Constant(0.1),
        rank=6,
        budget_size=12,
        recency=0.9,
        subspace_update="parametric",
        censoring=Threshold(),
    ),
}
EVERY = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)


@pytest.mark.parametrize("loss", [Squared(), MulticlassLogistic()], ids=["squared", "multiclass"])
@EVERY
def test_the_weights_take_the_step_of_linear_descent_on_the_features(learner, loss):
    learner = replace(learner, loss=loss, step_size=Constant(0.1), regularization=0.2, follow=False)
    points, targets = data(np.random.default_rng(1), loss, 64)
    state = learner.init(2, outputs(loss))
    weights = np.zeros((6, outputs(loss)))
    for start in range(0, 64, 2):
        batch, wanted = points[start : start + 2], targets[start : start + 2]
        own = learner.evaluate(state, batch)
        z = state.subspace.features(batch)
        np.testing.assert_array_equal(own.rows, z)
        np.testing.assert_allclose(own.values, z @ weights, atol=1e-12)
        step(learner, state, batch, wanted)
        weights = (1.0 - 0.1 * 0.2) * weights - 0.1 / 2 * z.T @ loss.derivatives(z @ weights, wanted)
    np.testing.assert_allclose(state.function.coefficients, weights, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3])
@EVERY
def test_implicit_step_solves_for_the_new_values(learner, size):
    learner = replace(learner, step_size=Constant(0.4), regularization=0.0, follow=False)
    generator = np.random.default_rng(6)
    state = learn(learner, *data(generator, learner.loss, 30))
    mine, wanted = data(generator, learner.loss, size)
    theirs, aims = data(generator, learner.loss, size)
    z = state.subspace.features(np.concatenate([mine, theirs]))
    sets = [learner.evaluate(state, points) for points in (mine, theirs)]
    old, strength = state.function.coefficients.copy(), 0.7
    gradients = [learner.gradient(state, sets[0], wanted), strength * (sets[1].values - aims)]
    learner.step(state, sets, gradients, [2.0, strength], wanted)
    new = z @ state.function.coefficients
    at_new = np.concatenate([2.0 * (new[:size] - wanted), strength * (new[size:] - aims)])
    np.testing.assert_allclose(state.function.coefficients, old - 0.4 / size * z.T @ at_new, atol=1e-10)


@EVERY
def test_following_weights_are_those_of_the_nearest_function(learner):
    generator = np.random.default_rng(2)
    points, targets = data(generator, learner.loss, 40)
    state = learn(learner, points, targets)
    for point in generator.normal(size=(20, 1, 2)):
        own = learner.evaluate(state, point)
        old = learner.function_from(state.function.arrays())
        info = learner.step(state, [own], [np.zeros((1, 1))], None, np.zeros((1, 1)))
        shrunk = 1.0 - 0.1 * learner.regularization
        fresh = generator.normal(size=(300, 2))
        # By least squares in the Hilbert space: f_old and the functions that are the new features.
        new = state.function
        union = np.concatenate([new.points, old.points])
        gram = learner.kernel.cross(union, union)
        features = np.concatenate([new.basis @ new.mixing, np.zeros((old.order, 6))])
        target = np.concatenate([np.zeros((new.order, 1)), shrunk * old.weights])
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        best = np.linalg.lstsq(root @ features, root @ target, rcond=1e-9)[0]
        np.testing.assert_allclose(new.features(fresh) @ best, new.values(fresh), atol=1e-5)
        lost = np.linalg.norm(root @ (features @ best - target))
        assert info.compression_error == pytest.approx(lost, abs=1e-5)


@EVERY
def test_distance_is_that_of_the_space_whatever_the_subspaces(learner):
    one, other = (
        learner.function(learn(learner, *data(np.random.default_rng(seed), learner.loss, 40))) for seed in (3, 4)
    )
    union, weights = np.concatenate([one.points, other.points]), np.concatenate([one.weights, -other.weights])
    expected = np.sqrt(np.sum(weights * (learner.kernel.cross(union, union) @ weights)))
    assert one.distance(other) == pytest.approx(expected, rel=1e-6)
    assert one.distance(other) == pytest.approx(other.distance(one))
    assert one.distance(one) == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(one.distance(replace(learner, kernel=Gaussian(0.9)).init(2, 1).function))
    points = np.random.default_rng(5).normal(size=(20, 2))
    np.testing.assert_allclose(one.values(points), learner.kernel.cross(points, one.points) @ one.weights, atol=1e-9)


def test_features_are_no_longer_than_the_kernel_allows():
    learner = LEARNERS["okfeb"]
    state = learn(learner, *data(np.random.default_rng(8), learner.loss, 100))
    lengths = np.sum(state.subspace.features(np.random.default_rng(9).normal(size=(200, 2))) ** 2, axis=1)
    assert learner.gain == 1.0 and 0.5 < lengths.max() <= 1.0
