"""The kernel perceptron: every mistake stays."""

from dataclasses import dataclass

from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, DictionaryRule
from kernelswarm.agents.learners.baselines.mistakes import MistakeDriven, mistakes
from kernelswarm.agents.learners.baselines.removal_steps import KEEP_ALL


@dataclass(frozen=True)
class Perceptron(MistakeDriven):
    """The kernel perceptron, for two classes, several, or numbers: all mistakes stay, without a budget.

    f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .), with g of the mistakes only: -s where s f(x) <= 0 for a
    class of sign s (Freund and Schapire, Machine Learning 1999), e_r - e_y where a wrong class r is best of several,
    and sign(f(x) - y) where a number is missed by more than ``insensitivity``. The coupling's pull adds to g.

    Parameters
    ----------
    loss : Loss
        What the targets are, and what is measured; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    insensitivity : float or "auto"
        The error of a number that is no mistake, not negative.
    """

    @property
    def rule(self) -> DictionaryRule:
        """Keep all points."""
        return KEEP_ALL

    def rule_numbers(self) -> list[float]:
        """Return no budget, and what a mistake is."""
        return [0.0, *self.mistake_numbers()]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, mistakes)
