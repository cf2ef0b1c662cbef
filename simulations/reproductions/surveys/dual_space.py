"""Dual space gradient descent: what leaves the dictionary goes on in random features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from kernelswarm.agents.parts.kernels import Gaussian
    from kernelswarm.agents.parts.losses import Loss

Array = npt.NDArray[np.float64]


class DualSpace:
    """Gradient descent on a dictionary of fixed size and random features (Le, Nguyen, Nguyen, Phung, NIPS 2016).

    The function is ``f(x) = sum_m W[m] kappa(d_m, x) + V' z(x)``, z the pairs of random cosines and sines. A point that
    enters a full dictionary makes the element of least norm go, ``W[r] kappa(d_r, .)``, in whose place ``W[r] z(d_r)``
    is added to V.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Gaussian
        kappa.
    step_size, regularization : float
        eta and lambda.
    budget_size : int
        The most points of the dictionary.
    frequencies : Array
        Of the random features, (D, p), in units of 1 / bandwidth.
    outputs : int
        C.
    """

    def __init__(
        self,
        loss: Loss,
        kernel: Gaussian,
        step_size: float,
        regularization: float,
        budget_size: int,
        frequencies: Array,
        outputs: int,
    ) -> None:
        self.loss, self.kernel = loss, kernel
        self.step_size, self.shrink = step_size, 1.0 - step_size * regularization
        self.budget_size = budget_size
        self.frequencies = frequencies / np.asarray(kernel.bandwidth)
        self.points = np.zeros((0, frequencies.shape[1]))
        self.weights = np.zeros((0, outputs))
        self.beyond = np.zeros((2 * len(frequencies), outputs))

    @property
    def order(self) -> int:
        """The points of the dictionary."""
        return len(self.points)

    def features(self, points: Array) -> Array:
        """Compute z at ``points`` (n, p): (n, 2D)."""
        angles = points @ self.frequencies.T
        found: Array = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(self.frequencies))
        return found

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        found: Array = self.kernel.cross(points, self.points) @ self.weights + self.features(points) @ self.beyond
        return found

    def learn(self, points: Array, targets: Array) -> None:
        """Learn from samples one by one."""
        for n in range(len(points)):
            point = points[n : n + 1]
            slope = self.loss.derivatives(self.values(point), targets[n : n + 1])
            self.weights *= self.shrink
            self.beyond *= self.shrink
            if not np.any(slope):
                continue
            self.points = np.vstack([self.points, point])
            self.weights = np.vstack([self.weights, -self.step_size * slope])
            if len(self.points) > self.budget_size:
                least = int(np.argmin(np.sum(self.weights**2, axis=1)))
                self.beyond += self.features(self.points[least : least + 1]).T @ self.weights[least : least + 1]
                self.points = np.delete(self.points, least, axis=0)
                self.weights = np.delete(self.weights, least, axis=0)
