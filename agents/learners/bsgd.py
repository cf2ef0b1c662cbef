"""Budgeted stochastic gradient descent: a fixed number of points, kept by removal, projection or merging."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum, add_points, close_up, smallest
from kernelswarm.agents.functions.nearest_sum import best_partner, merge
from kernelswarm.agents.learners.descent import CAPACITY
from kernelswarm.agents.learners.dictionary_rules import KEEP_LARGEST, PROJECT_SMALLEST, drop_smallest, span_limit
from kernelswarm.agents.learners.kernel_descent import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ERROR,
    FIRST,
    HEADER,
    NORMS,
    PHASE,
    POINT,
    START,
    CompiledDescent,
    DictionaryRule,
    KernelDescent,
    SumState,
    budget_from,
    knows_norms,
    sum_of,
)
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.chance import key_of, uniform
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import SEED, Range
from kernelswarm.refused_key import RefusedKey

PLACE = POINT
"""Of what the rule works with: the element that is merged next."""


@dataclass(frozen=True)
class Bsgd(KernelDescent):
    """Budgeted stochastic gradient descent (Wang, Crammer and Vucetic, JMLR 2012).

    While a step leaves more than ``budget_size`` points, the one with the least ||W_m||^2 kappa(x_m, x_m) goes:

    - ``removal``: with its weight;
    - ``projection``: the others are refitted to f, which changes f least of all that leave this point out;
    - ``merging``: with the point at which a single one between the two stands best for both, and that one comes in
      its place. For the gaussian kernel only.

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
        The most points of the dictionary, at least 1; 2 for merging.
    maintenance : str
        "removal", "projection" or "merging".
    """

    budget_size: int = 50
    maintenance: Literal["removal", "projection", "merging"] = "removal"

    ranges: ClassVar = {"budget_size": budget_from(1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maintenance != "merging":
            return
        budget_from(2).check("budget_size", self.budget_size)
        if not isinstance(self.kernel, Gaussian):
            raise RefusedKey(
                "kernel",
                'has no merging of two points into one: take gaussian, or maintenance = "projection" or "removal"',
                self.kernel,
            )

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.maintenance == "projection":
            return SumState(Expansion(self.kernel, inputs, outputs), self.own_numbers(), 1)
        return super().init(inputs, outputs)

    @property
    def rule(self) -> DictionaryRule:
        """Remove, project or merge the smallest element."""
        return RULES[self.maintenance]

    def rule_numbers(self) -> list[float]:
        """Return the budget, and the limit of projections."""
        return [float(self.budget_size), 0.0, 0.0, span_limit(self.kernel)]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)


@cached_njit
def merge_smallest(
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
    """Add the points, and while there are too many merge the smallest with its best partner."""
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        counts[ORDER] = add_points(dictionary, old, counts[ORDER], points, weights, shrink)
    else:
        order, place = counts[ORDER], int(work[PLACE])
        row = line(work, HEADER, order)
        partner, share, squared = best_partner(old, order, place, row)
        merge(dictionary, old, place, partner, share, row[partner])
        close_up(dictionary, order, partner, 1)
        close_up(old, order, partner, 1)
        counts[ORDER] = order - 1
        work[ERROR] += math.sqrt(squared)
    order = counts[ORDER]
    if order <= int(own[BUDGET_SIZE]):
        return DONE
    for m in range(order):
        work[HEADER + m] = 1.0  # kappa(x, x) of the gaussian kernel
    place = smallest(old, line(work, HEADER, order), order)
    work[PHASE], work[PLACE] = ASKED, place
    return place


RULES = {
    "removal": KEEP_LARGEST,
    "projection": PROJECT_SMALLEST,
    "merging": DictionaryRule(merge_smallest, rows=1),
}


# Nonparametric budgeted stochastic gradient descent: a coin decides whether a full dictionary may grow.

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
