"""Nystroem features of shared landmarks are those of projections on the landmarks' span."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.resolving import resolved_learner
from kernelswarm.agents.learners.shared_nystroem import SharedNystroem
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.steps import step

LANDMARKS = ((0.0, 0.0), (1.0, 0.2), (-0.4, 0.7), (0.3, -0.9), (0.8, 0.8))
POINTS = np.random.default_rng(0).normal(size=(12, 2))


def learner(kernel=Gaussian(0.8), **keys) -> SharedNystroem:  # noqa: B008  a constant
    return SharedNystroem(kernel=kernel, step_size=Constant(0.3), points=LANDMARKS, **keys)


@pytest.mark.parametrize("kernel", [Gaussian(0.8), Gaussian((0.5, 2.0)), Polynomial(2, 0.5, 0.7)], ids=repr)
def test_inner_products_are_those_of_projections_on_the_landmarks(kernel):
    centers = np.array(LANDMARKS)
    features = learner(kernel).init(2, 1).function.features
    rows, gram = kernel.cross(POINTS, centers), kernel.cross(centers, centers)
    np.testing.assert_allclose(features(POINTS) @ features(POINTS).T, rows @ np.linalg.solve(gram, rows.T), atol=1e-9)
    np.testing.assert_allclose(features(centers) @ features(centers).T, gram, atol=1e-9)


def test_a_step_is_functional_gradient_descent_projected_on_the_span():
    part = learner(regularization=0.1, batch_size=3)
    state, centers, alpha = part.init(2, 1), np.array(LANDMARKS), np.zeros((5, 1))
    inverse = np.linalg.inv(part.kernel.cross(centers, centers))
    for points in POINTS.reshape(4, 3, 2):
        targets, rows = points[:, :1] ** 2, part.kernel.cross(points, centers)
        slopes = 2.0 * (rows @ alpha - targets)
        alpha = (1.0 - 0.3 * 0.1) * alpha - 0.3 / 3 * inverse @ rows.T @ slopes
        step(part, state, points, targets)
    np.testing.assert_allclose(part.function(state).weights, alpha, rtol=1e-9)


def test_a_sample_gives_as_many_of_its_points_as_are_apart():
    points = np.vstack([POINTS, POINTS, POINTS + 1e-7])  # twelve places
    for most, found in ((5, 5), (36, 12)):
        part = resolved_learner(SharedNystroem(kernel=Gaussian(0.8), landmarks=most), points, points[:, :1], 1)
        chosen = np.array(part.points)
        assert len(chosen) == found
        assert {tuple(row) for row in chosen} <= {tuple(row) for row in points}
        assert part.init(2, 1).function.order == found


def test_neighbours_average_the_weights_of_shared_landmarks():
    graph = nx.path_graph(3)
    stream = {"name": "sine_regression", "noise": 0.3}
    table = {"name": "shared_nystroem", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.2}}
    described = {"topology": graph, "stream": stream, "learner": {**table, "landmarks": 7}, "rounds": 20}
    tried = Experiment.from_dict({**described, "protocol": {"name": "diffusion", "as_published": True}})
    engine = SerialEngine([open_network(tried).plans])
    engine.run(20)
    plans = open_network(tried).plans
    function = plans[0].learner.init(1, 1).function
    assert function.order == 7
    mixing, theta = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 2.0]]) / 3.0, np.zeros((3, 7))
    for _ in range(20):
        steps = []
        for weights, plan in zip(theta, plans, strict=True):
            points, targets = plan.source.draw(1)
            z = function.features(points)
            decay = 1.0 - 0.3 * plan.learner.regularization
            steps.append(decay * weights - 0.3 * 2.0 * (z @ weights - targets[:, 0]) @ z)
        theta = mixing @ np.array(steps)
    assert np.abs(theta).max() > 0.1
    found = np.stack([agent.function.coefficients[:, 0] for agent in engine.blocks[0].agents])
    np.testing.assert_allclose(found, theta, rtol=1e-9, atol=1e-12)
    own = [{"nodes": [1], "learner": {"points": [[0.1], [0.5]]}}]
    with pytest.raises(InputError, match=r"nodes 0 and 1 have other features.*the same landmarks"):
        open_network(Experiment.from_dict({**described, "protocol": "diffusion", "node": own}))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((), "lists of the same length"),
        (((0.0, 1.0), (2.0,)), "lists of the same length"),
        (((0.0,),), "1 numbers for each landmark, and there are 2 inputs"),
        (((0.0, 1.0), (0.5, 0.5), (0.0, 1.0)), r"points\[2\] = \[0.0, 1.0\] is in the span"),
    ],
)
def test_landmarks_that_make_no_features_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        replace(learner(), points=points).init(2, 1)
