"""Budgeted passive-aggressive learning: a removed point is projected on points that stay."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from kernelswarm.agents.functions.kernel_sum import find, is_zero, squared_length
from kernelswarm.agents.learners.numpy_learner import At, Sum, between, squares
from kernelswarm.agents.learners.page_sums import (
    FactorState,
    added,
    budget_from,
    entered,
    inspected,
    precisions,
    projected_out,
    squared_lengths,
    without,
)
from kernelswarm.agents.learners.perceptron import BINARY, REGRESSION, MistakeDriven, best_wrong
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Constant, Schedule
from kernelswarm.arrays import Array
from kernelswarm.ranges import Range, resolved_value


def hinge_steps(keys: tuple[float, ...], at: At) -> Array:
    """Return the coefficients with which a step of size 1 brings each hinge loss to 0, capped at the aggressiveness."""
    task, insensitivity, most = keys[:3]
    found, itself = np.zeros(at.values.shape), squares(at.kappa, at.points)
    for n in range(len(found)):
        values = at.values[n]
        if task == REGRESSION:
            for c in range(len(values)):
                miss = values[c] - at.targets[n, c]
                if abs(miss) > insensitivity:
                    found[n, c] = math.copysign(min(most, (abs(miss) - insensitivity) / itself[n]), miss)
        elif task == BINARY:
            sign = 2.0 * at.targets[n, 0] - 1.0
            found[n, 0] = -sign * min(most, max(0.0, 1.0 - sign * values[0]) / itself[n])
        else:
            right = int(at.targets[n, 0])
            wrong = best_wrong(values, right)
            loss = max(0.0, 1.0 + values[wrong] - values[right])
            found[n, wrong] = min(most, loss / (2.0 * itself[n]))
            found[n, right] = -found[n, wrong]
    return found


def stays_out(weights: Array, diagonal: Array, row: Array, at: At, n: int, squared: float) -> bool:
    """Project new point n on the one element with the least error, if that squared error is at most ``squared``.

    Returns whether the point was projected.
    """
    best, most = -1, 0.0
    for r in range(len(row)):
        if row[r] * row[r] > most * diagonal[r]:
            best, most = r, row[r] * row[r] / diagonal[r]
    lost = squared_length(at.weights, n) * max(at.gram[n, n] - most, 0.0)
    if best < 0 or lost > squared:
        return False
    weights[best] += row[best] / diagonal[best] * at.weights[n]
    at.lost[0] += math.sqrt(lost)
    return True


def project_on_the_new(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add the points one by one; if the dictionary is full, project one element on the new point and remove it."""
    budget, own = keys[3:]
    points, weights = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        new_point, new_weight = at.points[n : n + 1], at.weights[n : n + 1].copy()
        if find(points, len(points), at.points, n) == len(points) == budget:
            row, diagonal = between(at.kappa, new_point, points)[0], squares(at.kappa, points)
            losses = squared_lengths(weights) * np.maximum(diagonal - row * row / at.gram[n, n], 0.0)
            r = int(np.argmin(losses))
            if n >= own and stays_out(weights, diagonal, row, at, n, losses[r]):
                continue
            at.lost[0] += math.sqrt(losses[r])
            new_weight += row[r] / at.gram[n, n] * weights[r]
            points, weights = without(points, r), without(weights, r)
        points, weights = added(points, weights, new_point, new_weight)
    return Sum(points, weights)


class GramState(NamedTuple):
    """A kernel sum and the Gram matrix of its points."""

    points: Array
    weights: Array
    gram: Annotated[Array, "MM"]


DEPENDENT = 1e-10
"""Two elements count as one if the determinant of their Gram matrix is below this multiple of its diagonal product."""


def nearest(gram: Array, diagonal: Array, r: int) -> int:
    """Return the element nearest to r in the Hilbert norm; of equally near elements, the oldest."""
    near, least = 0, math.inf
    for j in range(len(gram)):
        distance = diagonal[j] - 2.0 * gram[r, j]
        if j != r and distance < least:
            near, least = j, distance
    return near


def shares_of(gram: Array, row: Array, itself: float, r: int, n: int) -> tuple[float, float]:
    """Return the coefficients of x and of element n in the projection of r on both; 0 for n if x and n count as one."""
    determinant = itself * gram[n, n] - row[n] * row[n]
    if determinant <= DEPENDENT * itself * gram[n, n]:
        return row[r] / itself, 0.0
    mine = (gram[n, n] * row[r] - row[n] * gram[r, n]) / determinant
    return mine, (itself * gram[r, n] - row[n] * row[r]) / determinant


def with_new(gram: Array, row: Array, itself: float) -> Array:
    """Return the Gram matrix with one more element."""
    order = len(gram)
    found = np.empty((order + 1, order + 1))
    found[:order, :order] = gram
    found[order, :order] = found[:order, order] = row
    found[order, order] = itself
    return found


def without_old(gram: Array, place: int) -> Array:
    """Return the Gram matrix without an element."""
    rows = without(gram, place)
    found = np.empty((len(rows), len(rows)))
    found[:, :place], found[:, place:] = rows[:, :place], rows[:, place + 1 :]
    return found


def project_on_the_nearest(keys: tuple[float, ...], state: Any, at: At) -> GramState:
    """Do the same, but project the removed element on the new point and on its own nearest neighbour."""
    budget, own = keys[3:]
    points, weights, gram = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        new_point, new_weight = at.points[n : n + 1], at.weights[n : n + 1].copy()
        if find(points, len(points), at.points, n) < len(points):
            points, weights = added(points, weights, new_point, new_weight)
            continue
        row, itself = between(at.kappa, new_point, points)[0], at.gram[n, n]
        if len(points) == budget:
            diagonal = np.diag(gram).copy()
            r, near, mine, theirs, least = 0, 0, 0.0, 0.0, math.inf
            for k in range(len(points)):
                j = nearest(gram, diagonal, k)
                first, second = shares_of(gram, row, itself, k, j)
                lost = squared_length(weights, k) * max(gram[k, k] - first * row[k] - second * gram[k, j], 0.0)
                if lost < least:
                    r, near, mine, theirs, least = k, j, first, second, lost
            if n >= own and stays_out(weights, diagonal, row, at, n, least):
                continue
            at.lost[0] += math.sqrt(least)
            new_weight += mine * weights[r]
            weights[near] += theirs * weights[r]
            points, weights, row = without(points, r), without(weights, r), without(row, r)
            gram = without_old(gram, r)
        gram = with_new(gram, row, itself)
        points, weights = added(points, weights, new_point, new_weight)
    return GramState(points, weights, gram)


def project_on_all(keys: tuple[float, ...], state: Any, at: At) -> FactorState:
    """Add the points one by one; while there are too many, project out the older element with the least error."""
    budget = keys[3]
    points, weights, factor, changes = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        points, weights, factor = entered(points, weights, factor, at, n)
        changes[0] += 1.0
        if len(points) > budget:
            losses = squared_lengths(weights) / precisions(factor)
            r = int(np.argmin(losses[: max(len(points) - 1, 1)]))
            points, weights, factor, lost = projected_out(points, weights, factor, r)
            at.lost[0] += lost
            changes[0] += 1.0
    points, weights, factor, changes = inspected(points, weights, factor, changes, at.kappa)
    return FactorState(points, weights, factor, changes)


RULES: dict[str, tuple[Any, Any]] = {
    "simple": (Sum, project_on_the_new),
    "nearest": (GramState, project_on_the_nearest),
    "projecting": (FactorState, project_on_all),
}


@dataclass(frozen=True)
class Bpa(MistakeDriven):
    """Passive-aggressive learning (PA-I) on a budget (Wang and Vucetic, AISTATS 2010).

    With eta = 1, a step on one sample is the smallest change of f that brings the sample's hinge loss l to 0, except
    that the coefficient is at most the ``aggressiveness`` C:

    - two classes, sign s: g = -s min(C, l / kappa(x, x)), l = max(0, 1 - s f(x));
    - several classes, r the wrong class of largest f_r: g = (e_r - e_y) min(C, l / (2 kappa(x, x))),
      l = max(0, 1 + f_r - f_y);
    - numbers: g = sign(f - y) min(C, l / kappa(x, x)), ``l = max(0, |f - y| - insensitivity)``, for each output.

    The gradient of the coupling is added to g.

    When a point x enters a full dictionary, one point r is removed, and its element W_r kappa(r, .) is replaced by its
    projection on the span of some remaining elements. r is the point with the smallest projection error. The elements
    to project on are

    - ``simple``: kappa(x, .) (BPA-S);
    - ``nearest``: kappa(x, .) and the element nearest to r (BPA-NN);
    - ``projecting``: all remaining elements (BPA-P), in O(M^2).

    Points from neighbours and from replay enter with small weights. Under ``simple`` and ``nearest`` such a point is
    itself projected on one dictionary element, and does not enter, if that has the smallest error.

    Parameters
    ----------
    loss : Loss
        absolute, hinge or multiclass_hinge. It sets the task and the measured risk; its gradient is not used.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The paper's is 1.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    insensitivity : float or "auto"
        The largest error of a number that has no loss, nonnegative. "auto" is a tenth of the targets' standard
        deviation on training data.
    budget_size : int
        The largest number of dictionary points, at least 1; at least 2 for nearest.
    maintenance : str
        "simple", "nearest" or "projecting".
    aggressiveness : float or "auto"
        C, the largest coefficient of a sample, positive. "auto" is 1 for classes, and the standard deviation of the
        targets on training data for numbers.
    """

    budget_size: int = 50
    maintenance: Literal["simple", "nearest", "projecting"] = "simple"
    step_size: Schedule = field(default=Constant(0.1), metadata={"part": "schedule", "scalar": "constant"})
    aggressiveness: float | Literal["auto"] = "auto"

    ranges: ClassVar = {
        "budget_size": budget_from(1),
        "aggressiveness": Range("(0, inf]", "1 is usual, inf is no bound", "auto"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maintenance == "nearest":
            budget_from(2).check("budget_size", self.budget_size)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with insensitivity and aggressiveness computed from a sample of the data."""
        learner = super().resolved(sample)
        if self.aggressiveness != "auto":
            return learner
        return replace(learner, aggressiveness=1.0 if sample.classes else sample.spread)

    @property
    def largest(self) -> float:
        """C as a number; raises ValueError if it is still "auto"."""
        return resolved_value("aggressiveness", self.aggressiveness)

    slopes: ClassVar = staticmethod(hinge_steps)

    def rule_keys(self) -> tuple[float, ...]:
        """Return the aggressiveness, the budget, and b: a step's points from index b on are received or replayed."""
        return self.largest, float(self.budget_size), float(self.batch_size)

    @property
    def State(self) -> Any:
        """The state of the chosen maintenance."""
        return RULES[self.maintenance][0]

    @property
    def move(self) -> Any:
        """The step with the chosen maintenance."""
        return RULES[self.maintenance][1]
