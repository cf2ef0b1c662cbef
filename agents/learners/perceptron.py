"""Learners that move on mistakes only: mistakes for each task, and the coefficients of mistaken samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from kernelswarm.agents.functions.kernel_sum import is_zero, squared_length
from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner, between
from kernelswarm.agents.learners.ogd import keep_all
from kernelswarm.agents.learners.page_sums import added, budget_from
from kernelswarm.agents.parts.losses import Absolute, Hinge, Loss, MulticlassHinge
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import Range, resolved_value, words_of

REGRESSION, BINARY, MULTICLASS = 0, 1, 2
TASKS = {"regression": REGRESSION, "binary": BINARY, "multiclass": MULTICLASS}
SURROGATES: dict[str, Loss] = {"regression": Absolute(), "binary": Hinge(), "multiclass": MulticlassHinge()}

SHARE = 0.1
"""Of the targets' standard deviation: an error of a number that is no mistake."""


@cached_njit
def best_wrong(values: Array, right: int) -> int:
    """Find the best of the wrong classes, the lowest of equal ones."""
    best = -1
    for c in range(len(values)):
        if c != right and (best < 0 or values[c] > values[best]):
            best = c
    return best


@cached_njit
def mistaken(task: int, values: Array, targets: Array, insensitivity: float) -> Array:
    """Return the perceptron's coefficients of samples from f's values (n, C) and the targets (n, q)."""
    found = np.zeros(values.shape)
    for n in range(len(values)):
        if task == REGRESSION:
            for c in range(values.shape[1]):
                miss = values[n, c] - targets[n, c]
                if abs(miss) > insensitivity:
                    found[n, c] = math.copysign(1.0, miss)
        elif task == BINARY:
            sign = 2.0 * targets[n, 0] - 1.0
            if sign * values[n, 0] <= 0.0:
                found[n, 0] = -sign
        else:
            right = int(targets[n, 0])
            wrong = best_wrong(values[n], right)
            if values[n, wrong] >= values[n, right]:
                found[n, wrong], found[n, right] = 1.0, -1.0
    return found


def mistakes(keys: tuple[float, ...], at: At) -> Array:
    """Return the coefficients of the samples."""
    return mistaken(int(keys[0]), at.values, at.targets, keys[1])


@dataclass(frozen=True)
class MistakeDriven(NumpyLearner):
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
    slopes: ClassVar[Any] = staticmethod(mistakes)
    rests: ClassVar[bool] = True

    @property
    def surrogate(self) -> Loss:
        """The loss with coefficients of that size: 1 for every mistake."""
        return SURROGATES[self.loss.task]

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with an insensitivity of a tenth of the spread of the targets, 0 for classes."""
        if self.insensitivity != "auto":
            return self
        return replace(self, insensitivity=0.0 if sample.classes else SHARE * sample.spread)

    @property
    def keys(self) -> tuple[float, ...]:
        """What a mistake is, and the keys of the rule."""
        return float(TASKS[self.loss.task]), self.tolerated, *self.rule_keys()

    def rule_keys(self) -> tuple[float, ...]:
        """Return the numbers of the rule for the dictionary."""
        return ()

    @property
    def tolerated(self) -> float:
        """The insensitivity as a number; ValueError where it is a word."""
        return resolved_value("insensitivity", self.insensitivity)


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
        The kind of targets, and the measured loss; no gradient is taken of it. absolute, hinge or multiclass_hinge.
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

    move: ClassVar = staticmethod(keep_all)


# The Forgetron: a perceptron that shrinks its function before it forgets its oldest mistake.

ALLOWED = 15.0 / 32.0
"""The share of the mistakes that the damage of all removals may come to."""


class State(NamedTuple):
    """A kernel sum, what removals have cost so far, Q, and how many points came in, M."""

    points: Array
    weights: Array
    damage: Annotated[Array, "1"]
    mistakes: Annotated[Array, "1"]


def shrinkage(delta: float, mu: float, damage: float, allowed: float) -> tuple[float, float]:
    """Return the largest phi in (0, 1] that keeps the damage within its bound, and that damage."""
    square, line, rest = delta * delta - 2.0 * delta * mu, 2.0 * delta, damage - allowed
    phi = 1.0
    if square + line + rest > 0.0:
        phi = max(-2.0 * rest / (line + math.sqrt(line * line - 4.0 * square * rest)), 0.0)
    return phi, damage + square * phi * phi + line * phi


def forget(keys: tuple[float, ...], state: Any, at: At) -> State:
    """Add the points one by one, and make room after each."""
    _, _, budget = keys
    points, weights, damage, mistakes = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        before = len(points)
        points, weights = added(points, weights, at.points[n : n + 1], at.weights[n : n + 1])
        mistakes[0] += len(points) - before
        if len(points) <= budget:
            continue
        row, length, along = between(at.kappa, points[:1], points), math.sqrt(squared_length(weights, 0)), 0.0
        if length > 0.0:
            for m in range(len(points)):
                along += row[0, m] * np.sum(weights[m] * weights[0]) / length
        phi, damage[0] = shrinkage(length / at.eta, along / at.eta, damage[0], ALLOWED * mistakes[0])
        at.lost[0] += phi * length * math.sqrt(row[0, 0])
        points, weights = points[1:], phi * weights[1:]
    return State(points, weights, damage, mistakes)


@dataclass(frozen=True)
class Forgetron(MistakeDriven):
    """The self-tuned Forgetron, a perceptron that forgets its oldest point (Dekel, Shalev-Shwartz and Singer, 2008).

    A mistake enters as with `perceptron`. While there are more than ``budget_size`` points, f is multiplied by phi and
    its oldest point goes. With delta the norm of that point's weight and mu the part of f(x_r) along it, both in units
    of eta, phi is the largest number up to 1 by which the damage of all removals so far stays within the mistakes M:

        Q + (delta phi)^2 + 2 delta phi (1 - phi mu) <= 15/32 M

    Every point that enters counts as a mistake, also points brought by the coupling alone.

    Parameters
    ----------
    loss : Loss
        The kind of targets, and the measured loss; no gradient is taken of it. absolute, hinge or multiclass_hinge.
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
    State: ClassVar = State
    move: ClassVar = staticmethod(forget)

    def rule_keys(self) -> tuple[float, ...]:
        """Return the budget."""
        return (float(self.budget_size),)
