"""Nonparametric budgeted stochastic gradient descent: a coin decides whether a full dictionary may grow."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.chance import uniform
from kernelswarm.agents.functions.kernel_sum import add, drop, smallest
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState, check_budget_size

Array = npt.NDArray[np.float64]


TOSSES = 0
"""Of a state's numbers: how often the coin was tossed."""


@dataclass(frozen=True)
class Npbsgd(KernelDescent):
    """Budgeted stochastic gradient descent whose budget grows with the data (after Le, Nguyen, Nguyen, Phung, 2016).

    A step that leaves more points than there were, and more than ``budget_size``, tosses a coin for each of them: with
    probability ``growth`` it stays, and the model order grows; otherwise the element of least Hilbert norm goes. So
    from ``budget_size`` on the order grows by ``growth`` points a sample, and growth = 0 is `bsgd` with removal.

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
    budget_size : int
        The points up to which nothing is removed, at least 1.
    growth : float
        The probability, in [0, 1], that a further point costs none of the others its place.
    seed : int
        Seed of the coins, not negative.
    """

    budget_size: int = 50
    growth: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget_size(self.budget_size)
        if not 0.0 <= self.growth <= 1.0:
            raise ValueError(f"growth = {self.growth!r} must be a probability, from 0 to 1: 0.01 and less are usual")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed!r} must not be negative: use 0 or any larger integer")

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its number counts the coins tossed."""
        state = super().init(inputs, outputs)
        state.numbers = np.zeros(1)
        return state

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Add the points, and toss a coin for each that is one too many."""
        function = state.function
        before = max(function.order, self.budget_size)
        add(function, points, weights, 1.0 - eta * self.regularization)
        error = 0.0
        for _ in range(function.order - before):
            stays = uniform(self.seed, int(state.numbers[TOSSES])) < self.growth
            state.numbers[TOSSES] += 1.0
            if not stays:
                error += drop(function, smallest(function))
        return error
