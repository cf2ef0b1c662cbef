"""Online gradient descent in function space, without a budget: every sample with a gradient stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kernelswarm.agents.learners.dictionary_rules import KEEP_ALL, KEEP_NEWEST
from kernelswarm.agents.learners.kernel_descent import CompiledDescent, DictionaryRule, KernelDescent, budget_from
from kernelswarm.agents.parts.schedules import Auto, Schedule


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


# NORMA: online gradient descent that forgets its oldest points.


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
