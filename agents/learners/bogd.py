"""Bounded online gradient descent: a full dictionary loses a point by chance, so that it stays right in the mean."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import KernelSum, close_up, enter, find, is_zero, scale, squared_length
from kernelswarm.agents.learners.descent import CAPACITY
from kernelswarm.agents.learners.kernel_descent import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ENTERED,
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
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.chance import key_of, uniform
from kernelswarm.protocols.core.compiling import cached_njit, inline_always
from kernelswarm.ranges import SEED, Range, resolved_value, words_of

DRAWN = 0
"""Of a state's numbers: how many random numbers were drawn."""

UNIFORM, WEIGHT_BOUND, KEY = FIRST, FIRST + 1, FIRST + 2
"""Of the rule's numbers; the key is two of them."""


@dataclass(frozen=True)
class Bogd(KernelDescent):
    """Bounded online gradient descent (Zhao, Wang, Wu, Jin and Hoi, ICML 2012).

    Before a point enters a full dictionary, one of the B = ``budget_size`` others is drawn with probability p_m and
    goes, and the weights that stay are divided by 1 - p_m, by which f does not change in the mean. The probabilities:

    - ``uniform``: p_m = 1 / B;
    - ``nonuniform``: p_m = 1 - (B - 1) a_m / sum_j a_j, a_m = ||W_m|| sqrt(kappa(x_m, x_m)), so that small weights go;
      what is below 0 is taken for 0, and the others are scaled to add up to 1.

    No weight's norm is let grow beyond ``weight_bound`` * eta.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The default is a quarter of "auto": what it
        forgets it has to learn again.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget_size : int
        The most points of the dictionary, at least 2.
    sampling : str
        "uniform" or "nonuniform".
    weight_bound : float or "auto"
        The paper's gamma, positive; a huge number for none. "auto" is what a sample weighs at first: the size of the
        loss's derivative before anything is learned, over b.
    seed : int
        Seed of what is drawn, not negative.
    """

    step_size: Schedule = field(default=Auto(0.25), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    sampling: Literal["uniform", "nonuniform"] = "nonuniform"
    weight_bound: float | Literal["auto"] = "auto"
    seed: int = 0

    ranges: ClassVar = {
        "budget_size": budget_from(2),
        "weight_bound": Range("(0, inf]", "use a huge number, such as 1e300, for none", "auto"),
        "seed": SEED,
    }

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the bound that suits a sample of the data."""
        return replace(self, weight_bound=sample.slope / sample.batch_size)

    @property
    def longest(self) -> float:
        """The bound as a number; ValueError where it is a word."""
        return resolved_value("weight_bound", self.weight_bound)

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its number counts what was drawn."""
        return SumState(KernelSum(self.kernel, inputs, outputs), self.own_numbers(), 1)

    @property
    def rule(self) -> DictionaryRule:
        """Draw the points that go."""
        return DRAW

    def rule_numbers(self) -> list[float]:
        """Return the budget, whether all are as likely to go, the bound of weights, and the key of what is drawn."""
        uniformly = float(self.sampling == "uniform")
        return [float(self.budget_size), 0.0, 0.0, uniformly, self.longest, *key_of(self.seed)]

    def probabilities(self, norms: Array) -> Array:
        """Return the probability of each element to go, from their Hilbert norms: (B,) and (B,)."""
        shares = np.empty(len(norms))
        _probabilities(norms, self.sampling == "uniform", shares)
        return shares

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self)


@cached_njit
def draw(
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
    """Add the points one by one, and make room for each."""
    capacity = counts[CAPACITY]
    dictionary, old = sum_of(storage, capacity, points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        scale(old, counts[ORDER], shrink)
        work[PHASE] = ENTERED
    for n in range(int(work[POINT]), len(points)):
        if is_zero(weights, n):
            continue
        order = counts[ORDER]
        place = find(dictionary, order, points, n)
        if place == order == int(own[BUDGET_SIZE]):
            if work[PHASE] != ASKED and not knows_norms(own, work, order):
                work[POINT], work[PHASE] = n, ASKED
                return NORMS
            norms = line(work, HEADER, order)
            for m in range(order):
                norms[m] = math.sqrt(squared_length(old, m) * norms[m])
            go = line(work, HEADER + capacity, order)
            _probabilities(norms, own[UNIFORM] > 0.0, go)
            leaves = _drawn(go, uniform(int(own[KEY]), int(own[KEY + 1]), int(storage[DRAWN])))
            storage[DRAWN] += 1.0
            work[ERROR] += _scale_up(old, go, norms, leaves) + norms[leaves]
            close_up(dictionary, order, leaves, 1)
            close_up(old, order, leaves, 1)
            order -= 1
            place = order
            work[PHASE] = ENTERED
        counts[ORDER] = enter(dictionary, old, order, place, points, weights, n)
    if own[WEIGHT_BOUND] < math.inf:
        _bound(old, counts[ORDER], own[WEIGHT_BOUND] * eta)
    return DONE


@inline_always
def _probabilities(norms: Array, uniformly: bool, shares: Array) -> None:
    """Fill in the probability of each element to go."""
    size, total = len(norms), 0.0
    for m in range(size):
        total += norms[m]
    if uniformly or total == 0.0:
        for m in range(size):
            shares[m] = 1.0 / size
        return
    sum_of_shares = 0.0
    for m in range(size):
        shares[m] = max(1.0 - (size - 1) * norms[m] / total, 0.0)
        sum_of_shares += shares[m]
    for m in range(size):
        shares[m] /= sum_of_shares


@inline_always
def _drawn(probabilities: Array, uniform: float) -> int:
    """Return the place that a number in [0, 1) draws."""
    likeliest = 0
    for m in range(len(probabilities)):
        uniform -= probabilities[m]
        if uniform < 0.0:
            return m
        if probabilities[m] > probabilities[likeliest]:
            likeliest = m
    return likeliest  # where the probabilities add up to less than 1 by a rounding error


@inline_always
def _scale_up(weights: Array, go: Array, norms: Array, place: int) -> float:
    """Divide all weights but one by 1 - p; returns the sum of the Hilbert norms of what that adds."""
    added = 0.0
    for m in range(len(go)):
        if m != place:
            added += norms[m] * go[m] / (1.0 - go[m])
            for c in range(weights.shape[1]):
                weights[m, c] /= 1.0 - go[m]
    return added


@inline_always
def _bound(weights: Array, order: int, most: float) -> None:
    """Shorten the weights that are longer than the bound."""
    for m in range(order):
        length = math.sqrt(squared_length(weights, m))
        if length > most:
            for c in range(weights.shape[1]):
                weights[m, c] *= most / length


DRAW = DictionaryRule(draw, rows=2, norms=True)
