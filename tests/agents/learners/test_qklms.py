"""Quantised kernel least mean squares follows the paper's algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.ogd import Ogd
from kernelswarm.agents.learners.qklms import EIGHTH, Qklms
from kernelswarm.agents.learners.resolving import resolved_learner
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.steps import learn, step


def learner(**keys):
    keys = {"kernel": Gaussian(0.5), "step_size": Constant(0.2), "regularization": 0.0, "quantization": 0.3, **keys}
    return Qklms(**keys)


def samples(count, seed=0):
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    return points, np.sin(3.0 * points[:, :1]) + 0.1 * random.normal(size=(count, 1))


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Polynomial(2, 1.0, 0.3)], ids=repr)
def test_it_is_algorithm_1_of_the_paper_and_says_what_it_changed(kernel):
    ours, (points, targets) = learner(kernel=kernel), samples(150)
    state = ours.init(2, 1)
    centers, weights = points[:0], np.zeros((0, 1))
    for point, target in zip(points, targets, strict=True):
        error = target - kernel.cross(point[None], centers)[0] @ weights
        distances = np.linalg.norm(centers - point, axis=1)
        lost = 0.0
        if len(centers) and distances.min() <= 0.3:
            near = centers[distances.argmin()][None]
            weights[distances.argmin()] += 0.4 * error  # the derivative of the squared loss is twice the error
            apart = kernel.cross(point[None], point[None]) - 2.0 * kernel.cross(point[None], near)
            lost = 0.4 * abs(error[0]) * np.sqrt((apart + kernel.cross(near, near))[0, 0])
        else:
            centers, weights = np.vstack([centers, point]), np.vstack([weights, 0.4 * error])
        info = step(ours, state, point[None], target[None])
        np.testing.assert_array_equal(state.function.points, centers)
        np.testing.assert_allclose(state.function.weights, weights, rtol=1e-9, atol=1e-12)
        assert info.compression_error == pytest.approx(lost, abs=1e-7)
    assert 10 < len(centers) < 60


def test_points_of_one_batch_are_quantised_among_themselves():
    ours = learner(batch_size=3)
    state = ours.init(2, 1)
    points = np.array([[0.0, 0.0], [0.1, 0.0], [0.9, 0.0]])
    info = step(ours, state, points, np.ones((3, 1)))
    np.testing.assert_array_equal(state.function.points, points[[0, 2]])
    share = 0.4 / 3.0
    np.testing.assert_allclose(state.function.weights[:, 0], [2.0 * share, share])
    assert info.compression_error == pytest.approx(share * np.sqrt(2.0 - 2.0 * np.exp(-0.5 * 0.04)))


def test_without_a_distance_it_is_kernel_least_mean_squares():
    keys = {"kernel": Gaussian(0.5), "step_size": Constant(0.2), "regularization": 0.01}
    points, targets = samples(40)
    found = []
    for ours in (Qklms(**keys, quantization=0.0), Ogd(**keys)):
        found.append(learn(ours, points[np.arange(40) % 30], targets).function.weights)
    np.testing.assert_array_equal(*found)


def test_the_word_is_a_share_of_the_inputs_own_distances():
    points, targets = samples(60)
    for unit in (1.0, 1e3):
        ours = resolved_learner(learner(quantization="auto", kernel=Gaussian("median")), unit * points, targets, 1)
        assert ours.quantization == pytest.approx(ours.kernel.bandwidth / 8.0)
    with pytest.raises(ValueError, match=r'^quantization = "auto" is a word'):
        learner(quantization="auto").init(2, 1)


def test_distances_are_measured_in_the_kernels_lengths():
    lengths, (points, targets) = np.array([0.25, 4.0]), samples(80)  # powers of two: scaled inputs have the same bits
    found = []
    for unit, kernel in ((1.0, Gaussian(1.0)), (lengths, Gaussian(tuple(lengths.tolist())))):
        function = learn(learner(kernel=kernel), points * unit, targets).function
        found.append((function.points / unit, function.weights))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(found[0][0]) < 60


def test_by_name_alone_the_units_of_the_inputs_do_not_matter():
    (points, targets), found = samples(300), []
    targets = targets + points[:, 1:]
    for units in (np.array([2.0, 2.0**-3]), np.array([2.0**14, 2.0**-14])):
        ours = resolved_learner(Qklms(), points * units, targets, 1)
        found.append(np.divide(ours.kernel.bandwidth, units))
        assert ours.quantization == EIGHTH
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
