"""The Projectron, a perceptron that projects mistakes on the dictionary if the error is small, and Projectron++."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelswarm.agents.functions.kernel_sum import is_zero, squared_length
from kernelswarm.agents.learners.numpy_learner import At, between, squares
from kernelswarm.agents.learners.page_sums import FactorState, bordered, budget_from, inspected, projected
from kernelswarm.agents.learners.perceptron import BINARY, REGRESSION, MistakeDriven, best_wrong, mistaken
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range


def let_in(keys: tuple[float, ...], state: Any, at: At) -> FactorState:
    """Add the points to the dictionary, or project them on it, one by one."""
    _, _, tolerance, budget = keys
    points, weights, factor, changes = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        row = between(at.kappa, at.points[n : n + 1], points)[0]
        shares, squared = projected(factor, row, at.gram[n, n])
        if squared <= tolerance * tolerance or len(points) >= budget:
            weights += np.outer(shares, at.weights[n])
            at.lost[0] += math.sqrt(squared_length(at.weights, n) * squared)
            continue
        points = np.concatenate((points, at.points[n : n + 1]))
        weights = np.concatenate((weights, at.weights[n : n + 1]))
        factor = bordered(factor, shares, squared)
        changes[0] += 1.0
    points, weights, factor, changes = inspected(points, weights, factor, changes, at.kappa)
    return FactorState(points, weights, factor, changes)


@dataclass(frozen=True)
class Projectron(MistakeDriven):
    """The Projectron, a perceptron whose mistakes enter only if the dictionary cannot represent them.

    The update w kappa(x, .) of a mistake is projected on the span of the dictionary if the distance of kappa(x, .) to
    that span is at most ``tolerance``, a Hilbert norm, or if the dictionary is full. Otherwise x enters (Orabona,
    Keshet and Caputo, JMLR 2009; there ``|w| = 1``, the tolerance is called eta, and the dictionary has no budget).

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
    tolerance : float
        The largest distance, in the Hilbert norm, of kappa(x, .) to its projection, nonnegative and below
        sqrt(kappa(x, x)).
    budget_size : int, optional
        The largest number of dictionary points, at least 1. By default only the tolerance limits the dictionary.
    """

    tolerance: float = 0.1
    budget_size: int | None = None

    ranges: ClassVar = {
        "tolerance": Range("[0, inf]", "0 projects nothing but duplicates"),
        "budget_size": budget_from(1, None),
    }
    State: ClassVar = FactorState
    move: ClassVar = staticmethod(let_in)

    def rule_keys(self) -> tuple[float, ...]:
        """Return the tolerance, and the budget."""
        return self.tolerance, math.inf if self.budget_size is None else float(self.budget_size)


def margins(keys: tuple[float, ...], state: Any, at: At) -> Array:
    """Return the coefficients of mistakes and, for classes, of correct answers with a margin below 1."""
    task, insensitivity, tolerance, _ = keys
    found = mistaken(int(task), at.values, at.targets, insensitivity)
    if task == REGRESSION:
        return found
    itself = squares(at.kappa, at.points)
    for n in range(len(found)):
        sign, right, wrong, elements = 1.0, int(at.targets[n, 0]), 0, 2.0
        if task == BINARY:
            sign, right, elements = 2.0 * at.targets[n, 0] - 1.0, 0, 1.0
            margin = sign * at.values[n, 0]
        else:
            wrong = best_wrong(at.values[n], right)
            margin = at.values[n, right] - at.values[n, wrong]
        loss = 1.0 - margin
        if margin <= 0.0 or loss <= 0.0:
            continue
        outside = projected(state.factor, at.rows[n], itself[n])[1]
        if loss * tolerance > math.sqrt(outside):
            most = min(loss, 2.0 * (loss - math.sqrt(outside) / tolerance))
            squared = elements * (itself[n] - outside)
            tau = 1.0 if most >= squared else most / squared
            found[n, wrong] = tau
            found[n, right] = -sign * tau
    return found


@dataclass(frozen=True)
class ProjectronPlus(Projectron):
    """Projectron++: the Projectron, which also updates on correct answers with a margin below 1.

    Mistakes are treated as by the Projectron. For a margin m in (0, 1), let P kappa(x, .) be the projection of
    kappa(x, .) on the span of the dictionary, d the distance between the two, and l = 1 - m. A step of size 1 adds
    tau P kappa(x, .), with the signs of a mistake (Orabona, Keshet and Caputo, JMLR 2009, section 5; their eta is the
    tolerance)::

        tau = min(1, l / a, 2 (l - d / tolerance) / a)   if l > d / tolerance, else 0

    - two classes, sign s: m = s f(x), a = ||P kappa(x, .)||^2;
    - several classes, r the wrong class of largest f_r: m = f_y - f_r, a = 2 ||P kappa(x, .)||^2.

    With tau = l / a the margin becomes 1. For every function g whose margin at x is 1 and whose norm is at most
    1 / tolerance, the squared distance of f to g decreases by at least ``tau (2 l - tau a - 2 d / tolerance)``; the
    choice of tau makes this nonnegative. Since d is below the tolerance, x does not enter the dictionary. Numbers have
    no margins, and are learned as by the Projectron.

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
    tolerance : float
        The largest distance, in the Hilbert norm, of kappa(x, .) to its projection, nonnegative and below
        sqrt(kappa(x, x)). 0 updates on mistakes only.
    budget_size : int, optional
        The largest number of dictionary points, at least 1. By default only the tolerance limits the dictionary.
    """

    slopes: ClassVar = staticmethod(margins)
