"""Learners of a fixed size: steps are gradient descent in their features, and the features those of the papers."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem as ReferenceNystroem
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor

from kernelswarm.agents.functions.cosines import CosineFunction
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.learners.linear import AffineFunction, Linear
from kernelswarm.agents.learners.nystroem import Nystroem
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern, Polynomial, StudentT
from kernelswarm.agents.parts.kernels import Linear as LinearKernel
from kernelswarm.agents.parts.losses import (
    Hinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from tests.helpers.naive_network import NaiveNode
from tests.helpers.samples import data, outputs
from tests.helpers.steps import learn, step

KERNELS = [
    Gaussian(0.8),
    Laplacian(1.0),
    Matern(1.0, 1.5),
    Matern(1.0, 2.5),
    Polynomial(degree=2, offset=1.0, scale=0.5),
    LinearKernel(offset=1.0),
]
TENTH = Constant(0.1)
LEARNERS = {
    "random_features": RandomFeatures(kernel=Gaussian(0.8), step_size=TENTH, features=40),
    "nystroem": Nystroem(kernel=Gaussian(0.8), step_size=TENTH, landmarks=6),
    "nystroem, growing": Nystroem(kernel=Gaussian(0.8), step_size=TENTH, landmarks=10),
    "nystroem, not full": Nystroem(kernel=Gaussian(0.8), step_size=TENTH, landmarks=40),
    "linear": Linear(step_size=TENTH),
    "linear, no intercept": Linear(step_size=TENTH, intercept=False),
}
EVERY = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
EXACT = [Polk(kernel=kernel, step_size=TENTH, budget=Epsilon(0.0)) for kernel in KERNELS]
POLK_TOO = pytest.mark.parametrize("learner", [*LEARNERS.values(), *EXACT], ids=str)


def inner_products(learner, state, left, right):
    """The inner products of what two sets of points add to the function: of features, or of projected kernels."""
    function = learner.function(state)
    if isinstance(learner, Polk):
        return learner.kernel.cross(left, right)
    if isinstance(learner, Nystroem):
        factor = function.snapshot()["factor"]
        return (function.rows(left) @ factor.T) @ (function.rows(right) @ factor.T).T
    return function.features(left) @ function.features(right).T


@pytest.mark.parametrize("loss", [Squared(), Hinge(), MulticlassLogistic()], ids=lambda loss: type(loss).__name__)
@POLK_TOO
def test_step_follows_the_gradient_of_the_risk(learner, loss):
    # Along the direction of z the risk falls at the rate <grad R, phi(z)> = -(f_new - f)(z) / eta.
    generator = np.random.default_rng(1)
    learner = replace(learner, loss=loss, step_size=Constant(0.05), regularization=0.0)
    points, targets = data(generator, loss, 12)
    state = learn(learner, points[:8], targets[:8], size=4)
    batch, wanted = points[8:], targets[8:]
    probes = generator.normal(size=(5, 2))
    before, values = (learner.function(state).values(at).copy() for at in (probes, batch))
    step(learner, state, batch, wanted)
    moved = (learner.function(state).values(probes) - before) / -0.05
    directions = inner_products(learner, state, batch, probes)
    for z, rate in enumerate(moved):
        for c in range(values.shape[1]):
            bump = np.zeros_like(values)
            bump[:, c] = 1e-6 * directions[:, z]
            up, down = (float(loss.values(values + sign * bump, wanted).mean()) for sign in (1.0, -1.0))
            assert rate[c] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("size", [1, 3])
@POLK_TOO
def test_implicit_step_solves_for_the_new_values(learner, size):
    # f_new = P f - eta/b sum_k g_k P phi(x_k), g = 2 (f_new(x) - y) + s (f_new(x) - v), a coupling of strength s to v,
    # and at a neighbour's points, where only the coupling pulls, g = s (f_new(x) - v).
    generator = np.random.default_rng(6)
    learner = replace(learner, step_size=Constant(0.4), regularization=0.0)
    points, targets = data(generator, learner.loss, 14)
    state = learn(learner, points[:8], targets[:8], size=4)
    strength, aim = 30.0, 0.8
    for mine, theirs in ((points[8 : 8 + size], np.zeros((0, 2))), (points[8 : 8 + size], points[11:])):
        both = np.concatenate([mine, theirs])
        sizes = np.repeat([len(mine), len(theirs)], [len(mine), len(theirs)])[:, None]
        wanted = targets[8 : 8 + size]
        sets = [learner.evaluate(state, mine), learner.evaluate(state, theirs)][: 2 if len(theirs) else 1]
        start = np.concatenate([entry.values for entry in sets])
        gradients = [strength * (entry.values - aim) for entry in sets]
        gradients[0] = gradients[0] + learner.gradient(state, sets[0], wanted)
        learner.step(state, sets, gradients, [2.0 + strength, strength][: len(sets)], wanted)
        new = learner.function(state).values(both)
        at_new = strength * (new - aim)
        at_new[:size] += 2.0 * (new[:size] - wanted)
        expected = start - inner_products(learner, state, both, both) @ (0.4 / sizes * at_new)
        np.testing.assert_allclose(new, expected, atol=1e-9)


@POLK_TOO
def test_regularization_shrinks_what_was_learned_before(learner):
    learner = replace(learner, step_size=Constant(0.1), regularization=0.5)
    generator = np.random.default_rng(3)
    state = learn(learner, *data(generator, learner.loss, 12))
    before = learner.function(state).arrays()
    own = learner.evaluate(state, generator.normal(size=(1, 2)))
    learner.step(state, [own], [np.zeros((1, 1))], None, np.zeros((1, 1)))
    after = learner.function(state).arrays()
    np.testing.assert_array_equal(after.pop("weights"), before.pop("weights") * (1.0 - 0.1 * 0.5))
    for name, array in after.items():  # landmarks, frequencies, phases and the intercept stay
        np.testing.assert_array_equal(array, before[name])


@EVERY
def test_distance_is_that_of_the_features(learner):
    generator = np.random.default_rng(5)
    states = [learn(learner, *data(generator, learner.loss, 30)) for _ in range(2)]
    one, other = (learner.function(state) for state in states)
    if isinstance(learner, Nystroem):
        union, weights = np.concatenate([one.points, other.points]), np.concatenate([one.weights, -other.weights])
        expected = np.sqrt(np.sum(weights * (learner.kernel.cross(union, union) @ weights)))
    else:
        expected = np.linalg.norm(one.coefficients - other.coefficients)
    assert one.distance(other) == pytest.approx(expected, rel=1e-6)
    assert one.distance(other) > 0.0


def test_functions_of_different_spaces_have_no_distance():
    functions = [
        Expansion(Gaussian(1.0), 2, 1),
        Expansion(Gaussian(2.0), 2, 1),
        RandomFeatures(kernel=Gaussian(1.0), seed=0).init(2, 1).function,
        RandomFeatures(kernel=Gaussian(1.0), seed=1).init(2, 1).function,
        RandomFeatures(kernel=Gaussian(1.0), features=50).init(2, 1).function,
        Linear().init(2, 1).function,
    ]
    for i, one in enumerate(functions):
        for j, other in enumerate(functions):
            assert np.isnan(one.distance(other)) == (i != j)
    one, other = AffineFunction(np.array([[3.0]]), intercept=False), AffineFunction(np.array([[0.0], [4.0]]), True)
    assert one.distance(other) == other.distance(one) == pytest.approx(5.0)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.7), Laplacian(1.5), Matern(0.8, 1.5), Matern(0.8, 2.5), StudentT(0.7, 1), StudentT(0.7, 5)],
    ids=str,
)
def test_inner_products_of_random_features_tend_to_the_kernel(kernel):
    generator = np.random.default_rng(7)
    points, others = generator.normal(size=(12, 3)), 0.5 * generator.normal(size=(9, 3))
    wanted = kernel.cross(points, others)
    errors = []
    for count in (100, 40_000):
        found = [RandomFeatures(kernel=kernel, features=count, seed=seed).init(3, 1).function for seed in range(8)]
        products = [function.features(points) @ function.features(others).T for function in found]
        errors.append(np.sqrt(np.mean([(product - wanted) ** 2 for product in products])))
    # The standard deviation of one product of cosines is at most sqrt(3/2), so the mean of L errs by 1 / sqrt(L).
    assert errors[0] < np.sqrt(1.5 / 100)
    assert errors[1] < np.sqrt(1.5 / 40_000)
    assert errors[1] == pytest.approx(errors[0] / 20, rel=0.3)


@pytest.mark.parametrize("inputs", [1, 3, 8, 50])
def test_random_features_are_scikit_learns(inputs):
    function = RandomFeatures(kernel=Gaussian(1.3), features=64, seed=5).init(inputs, 1).function
    sampler = RBFSampler(gamma=0.5 / 1.3**2, n_components=64).fit(np.zeros((1, inputs)))
    sampler.random_weights_, sampler.random_offset_ = function.frequencies.T, function.phases
    points = np.random.default_rng(8).normal(size=(20, inputs))
    np.testing.assert_allclose(function.features(points), sampler.transform(points), atol=1e-13)


def test_far_points_keep_the_digits_of_their_angles():
    function = RandomFeatures(kernel=Gaussian(0.1), features=500).init(1, 1).function
    points = np.concatenate([-np.logspace(-3, 4, 50), [0.0], np.logspace(-3, 4, 50)])[:, None]
    angles = points @ function.frequencies.T + function.phases
    error = np.abs(np.sqrt(250) * function.features(points) - np.cos(angles))
    assert np.all(error <= 1e-15 + 4e-16 * np.abs(angles))


def test_more_random_features_begin_with_the_fewer():
    for kernel in (Gaussian(1.0), Laplacian(1.0), Matern(1.0), StudentT(1.0)):
        few, many = (RandomFeatures(kernel=kernel, features=count).init(4, 1).function for count in (10, 300))
        np.testing.assert_array_equal(few.frequencies, many.frequencies[:10])
        np.testing.assert_array_equal(few.phases, many.phases[:10])
    other = RandomFeatures(kernel=Gaussian(1.0), features=10, seed=1)
    assert not np.array_equal(few.phases, other.init(4, 1).function.phases)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("loss", [Squared(), MulticlassLogistic()], ids=lambda loss: type(loss).__name__)
def test_nystroem_is_linear_descent_on_scikit_learns_features(loss, size):
    generator = np.random.default_rng(9)
    learner = Nystroem(
        loss=loss, kernel=Gaussian(0.6), step_size=Diminishing(0.3, 20.0), regularization=0.05, landmarks=12
    )
    points, targets = data(generator, loss, 60)
    state = learner.init(2, outputs(loss))
    reference = ReferenceNystroem(kernel="rbf", gamma=0.5 / 0.6**2, n_components=12).fit(points[:12])
    weights = np.zeros((12, outputs(loss)))
    for t, start in enumerate(range(0, 60, size)):
        batch, wanted = points[start : start + size], targets[start : start + size]
        features = reference.transform(batch)
        np.testing.assert_allclose(learner.evaluate(state, batch).values, features @ weights, atol=1e-9)
        step(learner, state, batch, wanted)
        eta = 0.3 / (1.0 + t / 20.0)
        gradient = loss.derivatives(features @ weights, wanted)
        weights = (1.0 - eta * 0.05) * weights - eta / size * features.T @ gradient
    np.testing.assert_array_equal(state.function.points, points[:12])


def test_only_independent_points_with_a_gradient_become_landmarks():
    learner = Nystroem(loss=Hinge(), kernel=Gaussian(0.5), step_size=Constant(2.0), landmarks=3)
    points = np.array([[0.0], [0.0], [5.0], [0.0], [9.0], [12.0]])
    targets = np.array([[1.0], [1.0], [0.0], [1.0], [0.0], [1.0]])
    state = learn(learner, points, targets)  # a step of 2 puts 0 beyond the margin, where the hinge is flat
    np.testing.assert_array_equal(state.function.points[:, 0], [0.0, 5.0, 9.0])


def test_the_error_of_nystroem_is_what_the_projection_takes():
    generator = np.random.default_rng(11)
    learner = Nystroem(kernel=Gaussian(0.4), step_size=Constant(0.3), regularization=0.0, landmarks=7)
    points, targets = data(generator, Squared(), 40)
    state = learn(learner, points[:5], targets[:5])
    for start in range(5, 40, 5):  # the first of these finds room for two of its five points
        batch = slice(start, start + 5)
        old = state.function.arrays()
        gradient = 2.0 * (state.function.values(points[batch]) - targets[batch])
        info = step(learner, state, points[batch], targets[batch])
        new = state.function.arrays()
        union = np.concatenate([old["points"], points[batch], new["points"]])
        weights = np.concatenate([old["weights"], -0.3 / 5 * gradient, -new["weights"]])
        lost = np.sqrt(np.sum(weights * (learner.kernel.cross(union, union) @ weights)))
        assert info.compression_error == pytest.approx(lost, rel=1e-6)


def test_many_landmarks_keep_their_projection_accurate():
    generator = np.random.default_rng(12)
    points = generator.normal(size=(1500, 2))
    targets = np.sin(points[:, :1]) + points[:, 1:] ** 2
    learner = Nystroem(kernel=Gaussian(1.0), step_size=Constant(0.3), landmarks=300)
    state = learn(learner, points, targets, size=5)
    function = state.function
    # Any function in the span is its own projection.
    weights = generator.normal(size=(function.order, 1))
    values, factor = function.rows(function.points) @ weights, function.snapshot()["factor"]
    again = function.rows(points) @ (factor.T @ (factor @ values))
    np.testing.assert_allclose(again, function.rows(points) @ weights, atol=1e-8 * np.abs(values).max())
    # Descent without any projection is near: what is projected away is at most a thousandth of each step.
    naive, strayed = NaiveNode(learner.kernel, 2, 1, []), 0.0
    for start in range(0, 1500, 5):
        batch = slice(start, start + 5)
        step = -0.3 / 5 * 2.0 * (naive.values(points[batch]) - targets[batch])
        naive.add(points[batch], step, 1.0 - 0.3 * 1e-6)
        strayed += 1e-3 * np.abs(step).sum()
    assert np.abs(function.values(points) - naive.values(points)).max() < strayed


@pytest.mark.parametrize("intercept", [True, False])
def test_linear_is_scikit_learns_gradient_descent(intercept):
    generator = np.random.default_rng(13)
    points = generator.normal(size=(200, 3))
    targets = points @ np.array([[1.0], [-2.0], [0.5]]) + 0.7
    learner = Linear(step_size=Constant(0.02), regularization=0.1, intercept=intercept)
    function = learner.function(learn(learner, points, targets))
    # scikit-learn's squared loss is half of ours, so its step is twice ours and its regularization half.
    reference = SGDRegressor(
        alpha=0.05, learning_rate="constant", eta0=0.04, fit_intercept=intercept, shuffle=False, max_iter=1, tol=None
    ).fit(points, targets[:, 0])
    arrays = function.arrays()
    np.testing.assert_allclose(arrays["weights"][:, 0], reference.coef_, rtol=1e-6)
    assert ("intercept" in arrays) == intercept
    if intercept:
        np.testing.assert_allclose(arrays["intercept"], reference.intercept_, rtol=1e-6)


def test_gain_is_the_mean_square_of_the_features():
    function = RandomFeatures(kernel=Gaussian(1.0), features=20_000).init(2, 1).function
    assert isinstance(function, CosineFunction)
    lengths = np.sum(function.features(np.random.default_rng(14).normal(size=(50, 2))) ** 2, axis=1)
    np.testing.assert_allclose(lengths, RandomFeatures(kernel=Gaussian(1.0)).gain, atol=0.05)
    assert Nystroem(kernel=Gaussian(1.0)).gain == 1.0
    assert Nystroem(kernel=Polynomial()).gain is None
    assert Linear().gain is None
