"""Functions as dense sums, and the steps that pulls, samples and lessons take them: nothing is compressed."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from tests.helpers.naive_network import NaiveNode

Samples = tuple[Array, Array]  # points and targets


class Expansion:
    """A kernel expansion that keeps every point; its variances are of no use."""

    def __init__(self, learner: Any) -> None:
        self.sum = NaiveNode(learner.kernel, 1, 1, [])
        self.kernel, self.regularization = learner.kernel, learner.regularization

    @property
    def order(self) -> int:
        return len(np.unique(self.sum.points, axis=0))

    def values(self, points: Array) -> Array:
        return self.sum.values(points)

    def inner(self, points: Array, others: Array) -> Array:
        return self.kernel.cross(points, others)

    def step(
        self, points: Array, weights: Array, own: tuple[Array, Array], rate: float, eta: float, **how: Any
    ) -> None:
        """Move by the pulls, whose weights are at the points, the samples first, and then descend the loss: where the
        step is implicit at the values after it."""
        x, y = own
        values = self.values(x)
        if how["implicit"]:
            gram = self.inner(x, x)
            reached = values + self.inner(x, points) @ weights
            values = np.linalg.solve(np.eye(len(x)) + 2.0 * rate * gram, reached + 2.0 * rate * gram @ y)
        weights[: len(x)] -= 2.0 * rate * (values - y)
        self.sum.add(points, weights, 1.0 - eta * self.regularization if len(points) else 1.0)


class Filter:
    """Least squares on features with a dense inverse: what neighbours pull is weighed by it, and what they teach is
    observed with the noise that leaves the variance asked for."""

    order = 1

    def __init__(self, learner: Any, ridge: float) -> None:
        self.features = learner.init(1, 1).function.features
        size = self.features(np.zeros((1, 1))).shape[1]
        self.inverse, self.weights = np.eye(size) / (2.0 * ridge), np.zeros((size, 1))

    def values(self, points: Array) -> Array:
        return self.features(points) @ self.weights

    def inner(self, points: Array, others: Array) -> Array:
        return self.features(points) @ self.inverse @ self.features(others).T

    def step(
        self, points: Array, weights: Array, own: tuple[Array, Array], rate: float, eta: float, **how: Any
    ) -> None:
        self.weights = self.weights + self.inverse @ self.features(points).T @ weights
        for z, target in zip(self.features(own[0]), own[1], strict=True):
            self._observe(z, target, 0.5)
        for point, target, left in how["lessons"]:
            z = self.features(point[np.newaxis])[0]
            before = z @ self.inverse @ z
            if before > left:
                self._observe(z, target, before * left / (before - left))

    def _observe(self, z: Array, target: Any, noise: float) -> None:
        gain = self.inverse @ z / (z @ self.inverse @ z + noise)
        self.weights = self.weights + np.outer(gain, target - z @ self.weights)
        self.inverse = self.inverse - np.outer(gain, z @ self.inverse)
