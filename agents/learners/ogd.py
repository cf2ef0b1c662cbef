"""Online gradient descent in function space: every sample with a gradient stays, or the newest of them."""

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

    move: ClassVar = staticmethod(keep_all)


def keep_newest(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add the points, and let the oldest go."""
    points, weights = added(state.points, state.weights, at.points, at.weights)
    excess = max(len(points) - int(keys[0]), 0)
    if excess:
        at.lost[0] += np.sum(np.sqrt(squared_lengths(weights[:excess]) * squares(at.kappa, points[:excess])))
    return Sum(points[excess:], weights[excess:])


@dataclass(frozen=True)
class Norma(NumpyLearner):
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
    move: ClassVar = staticmethod(keep_newest)
