"""NORMA: online gradient descent that forgets its oldest points."""

from dataclasses import dataclass, field
from typing import ClassVar

from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, budget_from
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, DictionaryRule
from kernelswarm.agents.learners.baselines.removal_steps import KEEP_NEWEST
from kernelswarm.agents.parts.schedules import Auto, Schedule


@dataclass(frozen=True)
class Norma(KernelDescent):
    """Functional online gradient descent that keeps its newest points only (NORMA with truncation).

    After each step the oldest points leave until ``budget_size`` are left. Their weights have shrunk by 1 - eta lambda
    in every step since they came, so that with a large regularization little is lost: after tau steps at most
    (1 - eta lambda)^tau of each (Kivinen, Smola and Williamson, IEEE Trans. Signal Processing 2004, section III).

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The default is half of "auto": what it
        forgets it has to learn again.
    regularization : float
        lambda, the Tikhonov coefficient, not negative; 0.01 and more make the forgetting gentle.
    batch_size : int
        b, the samples that a node draws in a round.
    budget_size : int
        The most points of the dictionary, at least 1: the paper's tau.
    """

    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    keeps_newest: ClassVar[bool] = True  # points, whoever they come from

    ranges: ClassVar = {"budget_size": budget_from(1)}

    @property
    def rule(self) -> DictionaryRule:
        """Keep the newest points."""
        return KEEP_NEWEST

    def rule_numbers(self) -> list[float]:
        """Return the budget."""
        return [float(self.budget_size)]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)
