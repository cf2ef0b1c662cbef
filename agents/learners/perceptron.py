"""Learners that move on mistakes only: what a mistake is for each task, and the coefficient it gives the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, GradientArguments
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.functions.kernel_sum import KernelSum, drop_points, enter, find, is_zero, scale, squared_length
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import CAPACITY, own_numbers
from kernelswarm.agents.learners.dictionary_rules import KEEP_ALL
from kernelswarm.agents.learners.kernel_descent import (
    ASKED,
    BUDGET_SIZE,
    DONE,
    ENTERED,
    ERROR,
    HEADER,
    INSENSITIVITY,
    PHASE,
    POINT,
    START,
    TASK,
    CompiledDescent,
    DictionaryRule,
    KernelDescent,
    SumState,
    budget_from,
    sum_of,
)
from kernelswarm.agents.parts.losses import Absolute, Hinge, Loss, MulticlassHinge
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.ranges import Range, resolved_value, words_of

REGRESSION, BINARY, MULTICLASS = 0, 1, 2
TASKS = {"regression": REGRESSION, "binary": BINARY, "multiclass": MULTICLASS}
SURROGATES: dict[str, Loss] = {"regression": Absolute(), "binary": Hinge(), "multiclass": MulticlassHinge()}

SHARE = 0.1
"""Of the targets' standard deviation: an error of a number that is no mistake."""


@dataclass(frozen=True)
class MistakeDriven(KernelDescent):
    """A learner whose samples have a coefficient only where the function is mistaken, whatever the loss.

    The loss says what the targets are, what is measured as the risk, and in an implicit step how far coefficients are
    damped; steps of size 1, as in the papers, go with the losses absolute, hinge and multiclass_hinge. A mistake, and
    its coefficient g:

    - two classes, sign s: s f(x) <= 0, g = -s;
    - several: a wrong class r, the best, is at least as good as the right one y, f_r >= f_y, g = e_r - e_y;
    - numbers: |f(x) - y| > insensitivity, g = sign(f(x) - y), output by output.

    The ``insensitivity`` "auto" is a tenth of the targets' standard deviation on training data. The coupling's pull is
    added to g. So a sample without a mistake enters where, and as far as, the neighbours
    disagree, and without neighbours not at all.
    """

    loss: Loss = field(default=Absolute(), metadata={"part": "loss"})
    insensitivity: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"insensitivity": Range("[0, inf]", "0 makes all a mistake", "auto")}

    @property
    def surrogate(self) -> Loss:
        """The loss with coefficients of that size: those of every mistake are 1."""
        return SURROGATES[self.loss.task]

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with an insensitivity of a tenth of the spread of the targets, 0 for classes."""
        if self.insensitivity != "auto":
            return self
        return replace(self, insensitivity=0.0 if sample.classes else SHARE * sample.spread)

    def gradient(self, state: object, own: Evaluated, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C): 0 where the function is not mistaken."""
        coefficients: Array = mistaken(TASKS[self.loss.task], own.values, targets, self.tolerated)
        return coefficients

    def mistake_numbers(self) -> list[float]:
        """Return the numbers that define a mistake, for compiled steps."""
        return [float(TASKS[self.loss.task]), self.tolerated]

    @property
    def tolerated(self) -> float:
        """The insensitivity as a number; ValueError where it is a word."""
        return resolved_value("insensitivity", self.insensitivity)


@cached_njit
def mistaken(task: int, values: Array, targets: ReadOnly, insensitivity: float) -> Array:
    """Compute the perceptron's coefficients of samples from f's values (n, C) and the targets (n, q)."""
    coefficients = np.empty(values.shape)
    mistaken_in(task, values, targets, insensitivity, coefficients)
    return coefficients


@cached_njit
def mistaken_in(task: int, values: ReadOnly, targets: ReadOnly, insensitivity: float, coefficients: Array) -> None:
    """Fill ``coefficients`` (n, C) with what :func:`mistaken` computes."""
    for n in range(values.shape[0]):
        for c in range(values.shape[1]):
            coefficients[n, c] = 0.0
        if task == REGRESSION:
            for c in range(values.shape[1]):
                rest = values[n, c] - targets[n, c]
                if abs(rest) > insensitivity:
                    coefficients[n, c] = math.copysign(1.0, rest)
        elif task == BINARY:
            sign = 2.0 * targets[n, 0] - 1.0
            if sign * values[n, 0] <= 0.0:
                coefficients[n, 0] = -sign
        else:
            right = int(targets[n, 0])
            wrong = best_wrong(values[n], right)
            if values[n, wrong] >= values[n, right]:
                coefficients[n, wrong] = 1.0
                coefficients[n, right] = -1.0


@cached_njit
def mistakes(given: GradientArguments, coefficients: Array) -> None:
    """Compute the same for compiled rounds."""
    own = own_numbers(given.numbers)
    mistaken_in(int(own[TASK]), given.values, given.targets, own[INSENSITIVITY], coefficients)


@inline_always
def passive_aggressive(
    task: int, values: Array, targets: ReadOnly, insensitivity: float, most: float, diagonal: Array, coefficients: Array
) -> None:
    """Fill in the coefficients by which one step of size 1 just ends the hinge loss, none beyond ``most``.

    Parameters
    ----------
    task : int
        The hinge loss: max(0, |f - y| - insensitivity), max(0, 1 - s f) or max(0, 1 + f_r - f_y).
    values, targets : Array
        (n, C) and (n, q).
    insensitivity : float
        The error that is none, for regression.
    most : float
        The aggressiveness C of PA-I.
    diagonal : Array
        kappa(x, x) of the samples, (n,).
    coefficients : Array
        (n, C), filled.
    """
    for n in range(len(values)):
        for c in range(values.shape[1]):
            coefficients[n, c] = 0.0
        if task == REGRESSION:
            for c in range(values.shape[1]):
                rest = values[n, c] - targets[n, c]
                if abs(rest) > insensitivity:
                    coefficients[n, c] = math.copysign(min(most, (abs(rest) - insensitivity) / diagonal[n]), rest)
        elif task == BINARY:
            sign = 2.0 * targets[n, 0] - 1.0
            coefficients[n, 0] = -sign * min(most, max(0.0, 1.0 - sign * values[n, 0]) / diagonal[n])
        else:
            right = int(targets[n, 0])
            wrong = best_wrong(values[n], right)
            loss = max(0.0, 1.0 + values[n, wrong] - values[n, right])
            coefficients[n, wrong] = min(most, loss / (2.0 * diagonal[n]))
            coefficients[n, right] = -coefficients[n, wrong]


@inline_always
def best_wrong(values: Array, right: int) -> int:
    """Find the best of the wrong classes, the lowest of equal ones."""
    best = -1
    for c in range(len(values)):
        if c != right and (best < 0 or values[c] > values[best]):
            best = c
    return best


# The kernel perceptron: every mistake stays.


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
    insensitivity : float or "auto"
        The error of a number that is no mistake, not negative.
    """

    @property
    def rule(self) -> DictionaryRule:
        """Keep all points."""
        return KEEP_ALL

    def rule_numbers(self) -> list[float]:
        """Return no budget, and what a mistake is."""
        return [0.0, *self.mistake_numbers()]

    @property
    def compiled(self) -> CompiledDescent:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledDescent(self, mistakes)


# The Forgetron: a perceptron that shrinks its function before it forgets its oldest mistake.

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
