"""Online gradient descent in function space, without a budget: every sample with a gradient stays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import add
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, keep_all

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ogd(KernelDescent):
    """Functional online gradient descent without a budget: all points that have a gradient stay.

    f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .), `polk` with a budget of 0 (Kivinen, Smola and
    Williamson, IEEE Trans. Signal Processing 2004, without their truncation). Memory and time grow with the samples.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    """

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points."""
        add(state.function, points, weights, 1.0 - eta * self.regularization)
        return 0.0

    @property
    def compiled(self) -> CompiledDescent:
        """What the learner hands over to compiled rounds; raises NotCompiledError where its kernel does not fit."""
        return CompiledDescent(self, keep_all)
