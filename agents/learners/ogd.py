"""Online gradient descent in function space: the dictionary keeps all samples with a gradient, or only the newest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner, Sum, squares
from kernelswarm.agents.learners.page_sums import added, budget_from, squared_lengths
from kernelswarm.agents.parts.schedules import Auto, Schedule


def keep_all(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add all points."""
    points, weights = added(state.points, state.weights, at.points, at.weights)
    return Sum(points, weights)


@dataclass(frozen=True)
class Ogd(NumpyLearner):
    """Functional online gradient descent without a budget: all points with a nonzero gradient stay.

    The step is f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .), as for `polk` with a budget of 0 (Kivinen,
    Smola and Williamson, IEEE Trans. Signal Processing 2004, without their truncation). Memory and time grow with the
    number of samples.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    """

    move: ClassVar = staticmethod(keep_all)


def keep_newest(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add the points, and remove the oldest points beyond the budget."""
    points, weights = added(state.points, state.weights, at.points, at.weights)
    excess = max(len(points) - int(keys[0]), 0)
    if excess:
        at.lost[0] += np.sum(np.sqrt(squared_lengths(weights[:excess]) * squares(at.kappa, points[:excess])))
    return Sum(points[excess:], weights[excess:])


@dataclass(frozen=True)
class Norma(NumpyLearner):
    """Functional online gradient descent that keeps only its newest points (NORMA with truncation).

    After each step the oldest points beyond ``budget_size`` are removed. Every step shrinks all weights by
    1 - eta lambda, so that a point removed after tau steps has at most (1 - eta lambda)^tau of its first weight: with
    a large regularization the truncation error is small (Kivinen, Smola and Williamson, IEEE Trans. Signal Processing
    2004, section III).

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is
        half of "auto", since the learner has to learn again what truncation forgets.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative; 0.01 and more make the forgetting gentle.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget_size : int
        The largest number of dictionary points, at least 1: the paper's tau.
    """

    step_size: Schedule = field(default=Auto(0.5), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    keeps_newest: ClassVar[bool] = True  # points, also points received from neighbours

    ranges: ClassVar = {"budget_size": budget_from(1)}
    move: ClassVar = staticmethod(keep_newest)
