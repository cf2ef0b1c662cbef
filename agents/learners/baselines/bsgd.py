"""Budgeted stochastic gradient descent: a fixed number of points, kept by removal, projection or merging."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import add_points, close_up, smallest
from kernelswarm.agents.functions.merging import best_partner, merge
from kernelswarm.agents.learners.baselines.kernel_descent import KernelDescent, SumState, budget_from
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ERROR,
    HEADER,
    PHASE,
    POINT,
    START,
    CompiledDescent,
    DictionaryRule,
    sum_of,
)
from kernelswarm.agents.learners.baselines.projection_steps import PROJECT_SMALLEST, span_limit
from kernelswarm.agents.learners.baselines.removal_steps import KEEP_LARGEST
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.protocols.compiling import cached_njit
from kernelswarm.protocols.first_class import Integers
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

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
