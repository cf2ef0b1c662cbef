"""Nonparametric budgeted stochastic gradient descent: a coin decides whether a full dictionary may grow."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.functions.kernel_sum import KernelSum, add_points
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState, budget_from
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    FIRST,
    NORMS,
    PHASE,
    POINT,
    START,
    CompiledDescent,
    DictionaryRule,
    knows_norms,
    sum_of,
)
from kernelswarm.agents.learners.baselines.removal_steps import drop_smallest
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.protocols.chance import key_of, uniform
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import Integers
from kernelswarm.ranges import SEED, Range

Array = npt.NDArray[np.float64]

TOSSES = 0
"""Of a state's numbers: how often the coin was tossed."""

GROWTH, KEY = FIRST, FIRST + 1
"""Of the rule's numbers; the key is two of them."""

EXCESS = POINT
"""Of what the rule works with: the points for which no coin was tossed yet."""


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

    ranges: ClassVar = {
        "budget_size": budget_from(1),
        "growth": Range("[0, 1]", "0.01 and less are usual"),
        "seed": SEED,
    }

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its number counts the coins tossed."""
        return SumState(KernelSum(self.kernel, inputs, outputs), self.own_numbers(), 1)

    @property
    def rule(self) -> DictionaryRule:
        """Toss a coin for each point that is one too many."""
        return TOSS

    def rule_numbers(self) -> list[float]:
        """Return the budget, the probability of a point to stay, and the key of the coins."""
        return [float(self.budget_size), 0.0, 0.0, self.growth, *key_of(self.seed)]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)


@cached_njit
def toss(
    own: Array,
    storage: Array,
    counts: Integers,
    work: Array,
    points: Array,
    rows: Array,
    gram: Array,
    weights: Array,
    shrink: float,
    eta: float,
) -> int:
    """Add the points, and toss a coin for each that is one too many."""
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        before = max(counts[ORDER], int(own[BUDGET_SIZE]))
        counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
        work[EXCESS] = counts[ORDER] - before
        if work[EXCESS] > 0 and not knows_norms(own, work, counts[ORDER]):
            work[PHASE] = ASKED
            return NORMS
    while work[EXCESS] > 0:
        stays = uniform(int(own[KEY]), int(own[KEY + 1]), int(storage[TOSSES])) < own[GROWTH]
        storage[TOSSES] += 1.0
        work[EXCESS] -= 1.0
        if not stays:
            drop_smallest(dictionary, old, counts, work)
    return DONE


TOSS = DictionaryRule(toss, rows=1, norms=True)
