"""Dual space gradient descent is gradient descent with two inner products: the kernel's, and that of what has left."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassHinge
from kernelswarm.simulations.reproductions.surveys.dual_space import DualSpace


def test_each_sample_counts_by_its_kernel_while_it_stays_and_by_its_features_afterwards() -> None:
    random = np.random.default_rng(0)
    points, targets = random.normal(size=(60, 2)), random.integers(3, size=(60, 1)).astype(float)
    frequencies, kernel, loss = random.normal(size=(7, 2)), Gaussian(0.6), MulticlassHinge()
    dual = DualSpace(loss, kernel, 0.3, 0.01, 5, frequencies, 3)
    seen, weights, stay = points[:0], np.zeros((0, 3)), np.zeros(0, dtype=bool)

    def values(at: np.ndarray) -> np.ndarray:
        apart = (at[:, None, :] - seen[None, :, :]) / 0.6
        approximate = np.cos(apart @ frequencies.T).mean(axis=2)
        return np.where(stay, np.exp(-0.5 * np.sum(apart**2, axis=2)), approximate) @ weights

    for point, target in zip(points, targets, strict=True):
        slope = loss.derivatives(values(point[None]), target[None])
        weights = weights * (1.0 - 0.3 * 0.01)
        if np.any(slope):
            seen, weights, stay = np.vstack([seen, point]), np.vstack([weights, -0.3 * slope]), np.append(stay, True)
            if stay.sum() > 5:
                norms = np.where(stay, np.sum(weights**2, axis=1), np.inf)
                stay[np.argmin(norms)] = False
        dual.learn(point[None], target[None])
    assert (~stay).sum() > 10 and dual.order == 5
    np.testing.assert_allclose(dual.values(points), values(points), atol=1e-10)
