"""Samples of training data, as words become numbers from them."""

import numpy as np

from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array


def sample(points: Array, targets: Array, loss: Loss, batch_size: int = 1, kernel: Kernel | None = None) -> Sample:
    kernel = kernel or Gaussian(1.0)
    outputs = loss.outputs(1, None if loss.task == "regression" else len(np.unique(targets)))
    return Sample(points, targets, loss, outputs, batch_size, lambda chosen: kernel.cross(chosen, chosen))


def smooth(count: int = 300, inputs: int = 2, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, inputs))
    return points, np.sin(points[:, :1]) + 0.1 * generator.normal(size=(count, 1))


def curved(count: int, outputs: int = 1, seed: int = 0) -> tuple[Array, Array]:
    """Points in a square with noisy multiples of a curved surface."""
    random = np.random.default_rng(seed)
    points = random.uniform(-1.0, 1.0, size=(count, 2))
    mean = np.sin(3.0 * points[:, :1]) + points[:, 1:] ** 2
    return points, mean * np.arange(1, outputs + 1) + 0.1 * random.normal(size=(count, outputs))


def data(generator: np.random.Generator, loss: Loss, size: int) -> tuple[Array, Array]:
    """Points in the plane with targets that fit the loss: a plane for regression, its thirds for classification."""
    points = generator.normal(size=(size, 2))
    height = points[:, :1] - 0.5 * points[:, 1:]
    if loss.task == "regression":
        return points, 0.7 * height
    classes = 2 if loss.task == "binary" else 3
    return points, np.digitize(height, [0.0] if classes == 2 else [-0.6, 0.6]).astype(np.float64)


def outputs(loss: Loss) -> int:
    return loss.outputs(1, {"regression": None, "binary": 2, "multiclass": 3}[loss.task])
