"""Samples of training data, as words become numbers from them."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.sample import Sample

Array = npt.NDArray[np.float64]


def sample(points: Array, targets: Array, loss: Loss, batch_size: int = 1, kernel: Kernel | None = None) -> Sample:
    kernel = kernel or Gaussian(1.0)
    outputs = loss.outputs(1, None if loss.task == "regression" else len(np.unique(targets)))
    return Sample(points, targets, loss, outputs, batch_size, lambda chosen: kernel.cross(chosen, chosen))


def smooth(count: int = 300, inputs: int = 2, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, inputs))
    return points, np.sin(points[:, :1]) + 0.1 * generator.normal(size=(count, 1))
