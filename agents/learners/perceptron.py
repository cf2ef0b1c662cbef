"""Learners that update on mistakes only: the mistakes of each task, and the coefficients of mistaken samples."""

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
"""The insensitivity "auto" of a regression, as a multiple of the targets' standard deviation."""


@cached_njit
def best_wrong(values: Array, right: int) -> int:
    """Return the wrong class with the largest value; of equal values, the lowest class."""
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
    """A learner whose samples have a nonzero coefficient only if the function is mistaken there.

    The loss sets the task, the measured risk and the damping of implicit steps. For steps of size 1, as in the papers,
    take the losses absolute, hinge and multiclass_hinge. A mistake and its coefficient g are

    - two classes, sign s: s f(x) <= 0, g = -s;
    - several classes, r the wrong class of largest f_r, y the right one: f_r >= f_y, g = e_r - e_y;
    - numbers: |f(x) - y| > insensitivity, g = sign(f(x) - y), for each output.

    The ``insensitivity`` "auto" is a tenth of the targets' standard deviation on training data. The gradient of the
    coupling is added to g: a sample without a mistake enters only if the neighbours disagree there, with a weight in
    proportion to the disagreement.
    """

    loss: Loss = field(default=Absolute(), metadata={"part": "loss"})
    insensitivity: float | Literal["auto"] = "auto"

    ranges: ClassVar = {"insensitivity": Range("[0, inf]", "0 makes all a mistake", "auto")}
    slopes: ClassVar[Any] = staticmethod(mistakes)
    rests: ClassVar[bool] = True

    @property
    def surrogate(self) -> Loss:
        """The loss whose derivatives have the size of these coefficients, 1 for every mistake."""
        return SURROGATES[self.loss.task]

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with an insensitivity of a tenth of the targets' standard deviation; 0 for classes."""
        if self.insensitivity != "auto":
            return self
        return replace(self, insensitivity=0.0 if sample.classes else SHARE * sample.spread)

    @property
    def keys(self) -> tuple[float, ...]:
        """The task and the insensitivity, which define mistakes, then the numbers of the dictionary's rule."""
        return float(TASKS[self.loss.task]), self.tolerated, *self.rule_keys()

    def rule_keys(self) -> tuple[float, ...]:
        """Return the numbers of the dictionary's rule."""
        return ()

    @property
    def tolerated(self) -> float:
        """The insensitivity as a number; raises ValueError if it is still "auto"."""
        return resolved_value("insensitivity", self.insensitivity)


# The kernel perceptron: every mistake stays.


@dataclass(frozen=True)
class Perceptron(MistakeDriven):
    """The kernel perceptron for two classes, several classes or numbers; all mistakes stay, without a budget.

    The step is f <- (1 - eta lambda) f - (eta / b) sum_k g_k kappa(x_k, .) over mistakes. For two classes of sign s,
    g = -s if s f(x) <= 0 (Freund and Schapire, Machine Learning 1999). For several classes, g = e_r - e_y if the best
    wrong class r has f_r >= f_y. For numbers, g = sign(f(x) - y) if ``|f(x) - y| > insensitivity``. The gradient of
    the coupling is added to g.

    Parameters
    ----------
    loss : Loss
        The kind of targets, and the measured loss; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    insensitivity : float or "auto"
        The error of a number that is no mistake, not negative.
    """

    move: ClassVar = staticmethod(keep_all)


# The Forgetron: a perceptron that shrinks its function before it forgets its oldest mistake.

ALLOWED = 15.0 / 32.0
"""The bound on the damage of all removals, as a multiple of the number of mistakes."""


class State(NamedTuple):
    """A kernel sum, the damage Q of all removals so far, and the number M of points that entered."""

    points: Array
    weights: Array
    damage: Annotated[Array, "1"]
    mistakes: Annotated[Array, "1"]


def shrinkage(delta: float, mu: float, damage: float, allowed: float) -> tuple[float, float]:
    """Return the largest phi in [0, 1] that keeps the damage within its bound, and the damage with that phi."""
    square, line, rest = delta * delta - 2.0 * delta * mu, 2.0 * delta, damage - allowed
    phi = 1.0
    if square + line + rest > 0.0:
        phi = max(-2.0 * rest / (line + math.sqrt(line * line - 4.0 * square * rest)), 0.0)
    return phi, damage + square * phi * phi + line * phi


def forget(keys: tuple[float, ...], state: Any, at: At) -> State:
    """Add the points one by one; after each, shrink f and remove the oldest point if the budget is exceeded."""
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
    the oldest point r is removed. Let delta be the norm of that point's weight and mu the component of f(x_r) along
    it, both in units of eta, Q the damage of earlier removals and M the number of mistakes. phi is the largest number
    in [0, 1] with

        Q + (delta phi)^2 + 2 delta phi (1 - phi mu) <= 15/32 M

    Every point that enters counts as a mistake, also a point that enters because of the coupling alone.

    Parameters
    ----------
    loss : Loss
        The kind of targets, and the measured loss; no gradient is taken of it. absolute, hinge or multiclass_hinge.
    kernel : Kernel
        The reproducing kernel; the mistake bound assumes kappa(x, x) <= 1.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is
        0.6 times "auto", since the learner has to learn again what removals forget. The paper's step size is 1.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    insensitivity : float or "auto"
        The error of a number that is no mistake, not negative.
    budget_size : int
        The largest number of dictionary points, at least 1.
    """

    step_size: Schedule = field(default=Auto(0.6), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    keeps_newest: ClassVar[bool] = True  # points, also points received from neighbours

    ranges: ClassVar = {"budget_size": budget_from(1)}
    State: ClassVar = State
    move: ClassVar = staticmethod(forget)

    def rule_keys(self) -> tuple[float, ...]:
        """Return the budget."""
        return (float(self.budget_size),)
