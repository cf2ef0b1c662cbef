"""Online gradient descent in function space, without a budget: every sample with a gradient stays."""

from dataclasses import dataclass

from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, DictionaryRule
from kernelswarm.agents.learners.baselines.removal_steps import KEEP_ALL


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

    @property
    def rule(self) -> DictionaryRule:
        """Keep all points."""
        return KEEP_ALL

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)
