"""The Forgetron: a perceptron that shrinks its function before it forgets its oldest mistake."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import ORDER
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import (
    KernelSum,
    drop_points,
    enter,
    find,
    is_zero,
    scale,
    squared_length,
)
from kernelswarm.agents.learners.baselines.kernel_descent import SumState, budget_from
from kernelswarm.agents.learners.baselines.kernel_descent_steps import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ENTERED,
    ERROR,
    HEADER,
    PHASE,
    POINT,
    START,
    CompiledDescent,
    DictionaryRule,
    sum_of,
)
from kernelswarm.agents.learners.baselines.mistakes import MistakeDriven, mistakes
from kernelswarm.agents.learners.kernel_steps import CAPACITY
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.protocols.compiling import cached_njit, inline_always
from kernelswarm.protocols.first_class import Integers

Array = npt.NDArray[np.float64]

ALLOWED = 15.0 / 32.0
"""The share of the mistakes that the damage of all removals may come to."""

DAMAGE, MISTAKES = 0, 1
"""Of a state's numbers: Q, what removals have cost so far, and M, how many points came in."""


@dataclass(frozen=True)
class Forgetron(MistakeDriven):
    """The self-tuned Forgetron, a perceptron that forgets its oldest point (Dekel, Shalev-Shwartz and Singer, 2008).

    A mistake enters as with `perceptron`. While there are more than ``budget_size`` points, f is multiplied by phi and
    its oldest point goes. With delta the norm of that point's weight and mu the part of f(x_r) along it, both in units
    of eta, phi is the largest number up to 1 by which the damage of all removals so far stays within the mistakes M:

        Q + (delta phi)^2 + 2 delta phi (1 - phi mu) <= 15/32 M

    Every point that enters counts as a mistake, those that only the coupling brings too.

    Parameters
    ----------
    loss : Loss
        What the targets are, and what is measured; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel; the bound on the mistakes asks for kappa(x, x) <= 1.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The default is six tenths of "auto": what it
        forgets it has to learn again. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    insensitivity : float or "auto"
        The error of a number that is no mistake, not negative.
    budget_size : int
        The most points of the dictionary, at least 1.
    """

    step_size: Schedule = field(default=Auto(0.6), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    keeps_newest: ClassVar[bool] = True  # points, whoever they come from

    ranges: ClassVar = {"budget_size": budget_from(1)}

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0; its numbers are the damage Q and the mistakes M."""
        return SumState(KernelSum(self.kernel, inputs, outputs), self.own_numbers(), 2)

    @property
    def rule(self) -> DictionaryRule:
        """Forget the oldest point."""
        return FORGET

    def rule_numbers(self) -> list[float]:
        """Return the budget, and what a mistake is."""
        return [float(self.budget_size), *self.mistake_numbers()]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, mistakes)


@cached_njit
def forget(
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
    """Add the points one by one, and make room after each."""
    dictionary, old = sum_of(storage, counts[CAPACITY], points.shape[1], weights.shape[1])
    if work[PHASE] == START:
        scale(old, counts[ORDER], shrink)
    for n in range(int(work[POINT]), len(points)):
        if work[PHASE] != ASKED:
            if is_zero(weights, n):
                continue
            place = find(dictionary, counts[ORDER], points, n)
            storage[MISTAKES] += place == counts[ORDER]
            counts[ORDER] = enter(dictionary, old, counts[ORDER], place, points, weights, n)
            if counts[ORDER] <= int(own[BUDGET_SIZE]):
                continue
            work[POINT], work[PHASE] = n, ASKED
            return 0  # the oldest point, for f's value there
        row = line(work, HEADER, counts[ORDER])
        length, along = math.sqrt(squared_length(old, 0)), 0.0
        if length > 0.0:
            for m in range(counts[ORDER]):
                for c in range(old.shape[1]):
                    along += row[m] * old[m, c] * old[0, c]
            along /= length
        allowed = ALLOWED * storage[MISTAKES]
        phi, storage[DAMAGE] = _shrinkage(length / eta, along / eta, storage[DAMAGE], allowed)
        scale(old, counts[ORDER], phi)
        work[ERROR] += drop_points(dictionary, old, counts[ORDER], 0, 1, row)
        counts[ORDER] -= 1
        work[PHASE] = ENTERED
    return DONE


@inline_always
def _shrinkage(delta: float, mu: float, damage: float, allowed: float) -> tuple[float, float]:
    """Return the largest phi in (0, 1] that keeps the damage within what is allowed, and the damage it leads to."""
    square, line, rest = delta * delta - 2.0 * delta * mu, 2.0 * delta, damage - allowed
    phi = 1.0
    if square + line + rest > 0.0:
        phi = max(-2.0 * rest / (line + math.sqrt(line * line - 4.0 * square * rest)), 0.0)
    return phi, damage + square * phi * phi + line * phi


FORGET = DictionaryRule(forget, rows=1)
