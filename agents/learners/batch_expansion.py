"""A learner that takes no steps: its kernel expansion is fitted by a batch solver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.plain.kernels import kernel_rows

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BatchExpansion:
    """A kernel expansion that a solver assigns its points and weights; steps leave it as it is.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    batch_size : int
        b, the samples that a node draws in a round.
    """

    loss: Loss
    kernel: Kernel
    batch_size: int

    gain: ClassVar[float | None] = None
    linear: ClassVar[bool] = True

    def init(self, inputs: int, outputs: int) -> KernelSum:
        """Return f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        return KernelSum(self.kernel, inputs, outputs)

    def eta(self, state: KernelSum) -> float:
        return 0.0

    def evaluate(self, state: KernelSum, points: Array) -> Evaluated:
        """Evaluate the function at ``points`` (n, p)."""
        return Evaluated(points, *state.rows_and_values(points))

    def inner(self, state: KernelSum, at: Evaluated) -> Array:
        """Return the kernel between all points, (n, n)."""
        return kernel_rows(self.kernel, at.points, at.points)

    def gradient(self, state: KernelSum, own: Evaluated, targets: Array) -> Array:
        """Return the loss's derivatives at the samples, (n, C)."""
        return self.loss.derivatives(own.values, targets)

    def step(
        self,
        state: KernelSum,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        return Info(0.0, 0.0)

    def function(self, state: KernelSum) -> KernelSum:
        return state

    def function_from(self, arrays: Mapping[str, Array]) -> KernelSum:
        points, weights = arrays["points"], arrays["weights"]
        return self.init(points.shape[1], weights.shape[1]).assign(points, weights)

    def snapshot(self, state: KernelSum) -> dict[str, Array]:
        """Return the dictionary ``points`` (M, p) and the ``weights`` (M, C), copied."""
        return state.snapshot()

    def restore(self, state: KernelSum, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.restore(arrays)
