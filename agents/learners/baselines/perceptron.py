"""The kernel perceptron: every mistake stays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import add
from kernelswarm.agents.learners.baselines.kernel_descent import SumState
from kernelswarm.agents.learners.baselines.kernel_descent_steps import CompiledDescent, keep_all
from kernelswarm.agents.learners.baselines.mistakes import TASKS, MistakeDriven, mistakes

Array = npt.NDArray[np.float64]


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
    insensitivity : float
        The error of a number that is no mistake, not negative.
    """

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points."""
        add(state.function, points, weights, 1.0 - eta * self.regularization)
        return 0.0

    @property
    def compiled(self) -> CompiledDescent:
        """What the learner hands over to compiled rounds; raises NotCompiledError where its kernel does not fit."""
        return CompiledDescent(self, keep_all, [0.0, float(TASKS[self.loss.task]), self.insensitivity], mistakes)
