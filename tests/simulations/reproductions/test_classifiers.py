"""Batch classifiers minimise what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Loss, MulticlassHinge, MulticlassLogistic
from kernelswarm.simulations.reproductions.polk_multidist import import_vectors, lbfgs, objective

KERNEL, LAMBDA = Gaussian(1.0), 1e-3


def problem(seed: int = 0, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(3, size=(count, 1)).astype(float)
    angles = 2.0 * math.pi * labels / 3.0
    return np.hstack([np.cos(angles), np.sin(angles)]) + 0.5 * generator.normal(size=(count, 2)), labels


@pytest.mark.parametrize(("loss", "slack"), [(MulticlassLogistic(), 1e-6), (MulticlassHinge(), 1e-3)])
def test_no_function_near_the_minimum_is_better(loss: Loss, slack: float) -> None:
    points, labels = problem()
    best = lbfgs([MulticlassLogistic(), loss], KERNEL, points, labels, 3, LAMBDA, 3000)
    least = objective(loss, best, points, labels, LAMBDA)
    generator = np.random.default_rng(1)
    for scale in (1e-3, 1e-2, 1e-1):
        for _ in range(10):
            extra = scale * generator.normal(size=labels.shape) * generator.normal(size=(1, 3))
            every, weights = np.concatenate([best.points, points]), np.concatenate([best.weights, extra])
            moved = KernelSum(KERNEL, 2, 3).assign(every, weights)
            assert objective(loss, moved, points, labels, LAMBDA) > least - slack


def test_the_gradient_of_logistic_regression_vanishes_at_its_minimum() -> None:
    points, labels = problem()
    best = lbfgs([MulticlassLogistic()], KERNEL, points, labels, 3, LAMBDA, 3000)
    slopes = MulticlassLogistic().derivatives(best.values(points), labels) / (len(points) * LAMBDA)
    assert best.distance(KernelSum(KERNEL, 2, 3).assign(points, -slopes)) < 1e-2 * math.sqrt(best.inner(best))


def test_import_vectors_are_samples_and_more_of_them_come_nearer_to_the_minimum() -> None:
    points, labels = problem()
    loss = MulticlassLogistic()
    least = objective(loss, lbfgs([loss], KERNEL, points, labels, 3, LAMBDA, 3000), points, labels, LAMBDA)
    risks = []
    for count in (1, 3, 10):
        found = import_vectors(KERNEL, points, labels, 3, LAMBDA, count, np.random.default_rng(0))
        assert found.order == count and all((points == point).all(axis=1).any() for point in found.points)
        risks.append(objective(loss, found, points, labels, LAMBDA))
    assert risks[0] > risks[1] > risks[2] > least - 1e-9
    assert risks[2] - least < 0.05 * (math.log(3.0) - least)
