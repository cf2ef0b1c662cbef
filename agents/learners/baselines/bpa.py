"""Budgeted passive-aggressive learning: a point that leaves is projected on what stays."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum, add, close_up, drop, place_of
from kernelswarm.agents.learners.baselines.kernel_descent import SumState, check_budget_size
from kernelswarm.agents.learners.baselines.mistakes import TASKS, MistakeDriven, passive_aggressive
from kernelswarm.agents.learners.baselines.projected_sum import keep_accurate
from kernelswarm.agents.learners.contract import Evaluation

Array = npt.NDArray[np.float64]

DEPENDENT = 1e-10
"""Two elements whose Gram matrix has so small a determinant, relative to its diagonal, count as one."""


class NearestState(SumState):
    """The state with the Gram matrix of the dictionary, and each element's nearest neighbour."""

    __slots__ = ("gram", "near")

    def __init__(self, function: KernelSum, most: int) -> None:
        super().__init__(function)
        self.gram: Array = np.zeros((most, most))
        self.near = np.full(most, -1)


@dataclass(frozen=True)
class Bpa(MistakeDriven):
    """Passive-aggressive learning (PA-I) on a budget (Wang and Vucetic, AISTATS 2010).

    With eta = 1 a step on one sample changes f least of all that end its hinge loss l, up to the ``aggressiveness`` C:

    - two classes, sign s: g = -s min(C, l / kappa(x, x)), l = max(0, 1 - s f(x));
    - several, r the best of the wrong ones: g = (e_r - e_y) min(C, l / (2 kappa(x, x))), l = max(0, 1 + f_r - f_y);
    - numbers: g = sign(f - y) min(C, l / kappa(x, x)), l = max(0, |f - y| - insensitivity), output by output.

    The coupling's pull adds to g.

    When a point x enters a full dictionary, the point r goes whose element, projected on a part of what stays, loses
    least, and its projection stays. That part is

    - ``simple``: kappa(x, .) (BPA-S);
    - ``nearest``: that, and the element nearest to r (BPA-NN);
    - ``projecting``: all that stays (BPA-P), in O(M^2).

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
    insensitivity : float
        The error of a number that is none, not negative.
    budget_size : int
        The most points of the dictionary, at least 1; 2 for nearest.
    maintenance : str
        "simple", "nearest" or "projecting".
    aggressiveness : float
        C, the largest coefficient of a sample, positive.
    """

    budget_size: int = 50
    maintenance: Literal["simple", "nearest", "projecting"] = "simple"
    aggressiveness: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget_size(self.budget_size, 2 if self.maintenance == "nearest" else 1)
        if not self.aggressiveness > 0.0:
            raise ValueError(f"aggressiveness = {self.aggressiveness!r} must be positive: 1 is usual, inf is no bound")

    def gradient(self, state: object, own: Evaluation, targets: Array) -> Array:
        """Return the coefficients of the samples, (n, C): 0 without a hinge loss."""
        coefficients: Array = passive_aggressive(
            TASKS[self.loss.task],
            own.values,
            targets,
            self.insensitivity,
            self.aggressiveness,
            self.kernel.diagonal(own.points),
        )
        return coefficients

    def init(self, inputs: int, outputs: int) -> SumState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        if self.maintenance == "projecting":
            return SumState(Expansion(self.kernel, inputs, outputs), 1)
        state = super().init(inputs, outputs)
        return NearestState(state.function, self.budget_size) if self.maintenance == "nearest" else state

    def move(self, state: SumState, eta: float, points: Array, rows: Array, weights: Array) -> float:
        """Let the points in one by one, and make room for each."""
        function = state.function
        function.weights[:] *= 1.0 - eta * self.regularization
        error = 0.0
        fresh = True  # the rows are of the dictionary as it stands
        for n in range(len(points)):
            if not weights[n].any():
                continue
            one = slice(n, n + 1)
            row = rows[one] if fresh else function.rows(points[one])
            fresh = False
            if isinstance(function, Expansion):
                error += self._project(state, function, points[one], weights[one], row)
                continue
            weight = weights[one]
            place = place_of(function, points[n])
            if place == function.order == self.budget_size:
                lost, weight, row = self._replace(state, points[one], weight, row)
                error += lost
                place -= 1
            if isinstance(state, NearestState) and place == function.order:
                _come(state.gram, state.near, place, row[0], float(self.kernel.diagonal(points[one])[0]))
            add(function, points[one], weight, 1.0)
        return error

    def _project(self, state: SumState, function: Expansion, point: Array, weight: Array, row: Array) -> float:
        error, changes = function.step(point, weight, row, 1.0, 0.0)
        if function.order > self.budget_size:
            older = function.order - 1 if function.order > 1 else 1
            norms = np.sum(function.weights[:older] ** 2, axis=1)
            error += function.remove(int((norms / function.precision_buffer[:older]).argmin()))
            changes += 1
        keep_accurate(state, function, changes)
        return error

    def _replace(self, state: SumState, point: Array, weight: Array, row: Array) -> tuple[float, Array, Array]:
        """Drop the best point to drop; returns what is lost, x's weight (1, C) and its kernel row (1, M - 1)."""
        function = state.function
        itself = float(self.kernel.diagonal(point)[0])
        if isinstance(state, NearestState):
            place, partner, share, others, squared = _with_nearest(
                state.gram, state.near, function.weights_buffer, row, itself, function.order
            )
            if partner >= 0:
                function.weights[partner] += others * function.weights[place]
            _leave(state.gram, state.near, function.order, place)
        else:
            diagonal = self.kernel.diagonal(function.points)
            place, share, squared = _on_the_new(function.weights, diagonal, row[0], itself)
        weight = weight + share * function.weights[place]
        drop(function, place)
        return math.sqrt(squared), weight, _without(row, place)

    def snapshot(self, state: SumState) -> dict[str, Array]:
        """Return the function, the number of ``steps``, ``numbers`` and, for nearest, ``gram`` and ``near``."""
        found = super().snapshot(state)
        return (
            {**found, "gram": state.gram.copy(), "near": state.near.astype(np.float64)}
            if isinstance(state, NearestState)
            else found
        )

    def restore(self, state: SumState, arrays: Mapping[str, Array]) -> None:
        """Put the state where :meth:`snapshot` was taken."""
        super().restore(state, arrays)
        if isinstance(state, NearestState):
            near = arrays["near"]
            if not np.all((near >= -1) & (near < len(state.near))):  # compiled code follows it
                raise ValueError(f"near names points beyond the {len(state.near)} that there can be")
            state.gram[:] = arrays["gram"]
            state.near[:] = near


@njit(cache=True)
def _with_nearest(
    gram: Array, neighbors: npt.NDArray[np.int64], weights: Array, rows: Array, itself: float, order: int
) -> tuple[int, int, float, float, float]:
    """Find the element r that loses least when projected on kappa(x, .) and its own nearest neighbour n.

    Returns r, n (-1 where x and n are the same to rounding), the shares of x and of n, and the squared loss.
    """
    best, partner, mine, theirs, least = 0, -1, 0.0, 0.0, np.inf
    row = rows[0]
    for r in range(order):
        near = neighbors[r]
        a, b = row[r], gram[r, near]
        determinant = itself * gram[near, near] - row[near] * row[near]
        if determinant > DEPENDENT * itself * gram[near, near]:
            first = (gram[near, near] * a - row[near] * b) / determinant
            second = (itself * b - row[near] * a) / determinant
            found = near
        else:
            first, second, found = a / itself, 0.0, -1
        norm = 0.0
        for c in range(weights.shape[1]):
            norm += weights[r, c] * weights[r, c]
        squared = norm * max(gram[r, r] - first * a - second * b, 0.0)
        if squared < least:
            best, partner, mine, theirs, least = r, found, first, second, squared
    return best, partner, mine, theirs, least


@njit(cache=True)
def _nearest(gram: Array, order: int, r: int) -> int:
    """Find the element nearest to r in the Hilbert norm, the oldest of equal ones; -1 without another."""
    near, least = -1, np.inf
    for j in range(order):
        distance = gram[j, j] - 2.0 * gram[r, j]
        if j != r and distance < least:
            near, least = j, distance
    return near


@njit(cache=True)
def _come(gram: Array, near: npt.NDArray[np.int64], order: int, row: Array, itself: float) -> None:
    """Append an element with its kernel row (M,)."""
    for r in range(order):
        gram[order, r] = row[r]
        gram[r, order] = row[r]
    gram[order, order] = itself
    near[order] = _nearest(gram, order, order)
    for r in range(order):
        j = near[r]
        if j < 0 or itself - 2.0 * row[r] < gram[j, j] - 2.0 * gram[r, j]:
            near[r] = order


@njit(cache=True)
def _leave(gram: Array, near: npt.NDArray[np.int64], order: int, place: int) -> None:
    """Take the element at ``place`` out."""
    close_up(gram, order, place, 1)
    close_up(gram.T, order, place, 1)
    for r in range(place, order - 1):
        near[r] = near[r + 1]
    for r in range(order - 1):
        if near[r] == place:
            near[r] = _nearest(gram, order - 1, r)
        elif near[r] > place:
            near[r] -= 1


@njit(cache=True)
def _without(rows: Array, place: int) -> Array:
    """Return kernel rows (n, M) without the column of the element that left, (n, M - 1)."""
    # numpy's delete costs as much as a whole step of a small dictionary
    left = np.empty((rows.shape[0], rows.shape[1] - 1))
    for n in range(rows.shape[0]):
        for m in range(left.shape[1]):
            left[n, m] = rows[n, m + (m >= place)]
    return left


@njit(cache=True)
def _on_the_new(weights: Array, diagonal: Array, row: Array, itself: float) -> tuple[int, float, float]:
    """Find the element r that loses least when projected on kappa(x, .); returns r, its share and the squared loss."""
    best, least = 0, np.inf
    for r in range(len(weights)):
        squared = 0.0
        for c in range(weights.shape[1]):
            squared += weights[r, c] * weights[r, c]
        squared *= max(diagonal[r] - row[r] * row[r] / itself, 0.0)
        if squared < least:
            best, least = r, squared
    return best, row[best] / itself, least
