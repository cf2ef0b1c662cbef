"""Budgeted stochastic gradient descent: removal, projection or merging bounds the number of points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.agents.functions.kernel_sum import is_zero
from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner, Sum, between, squares
from kernelswarm.agents.learners.page_sums import (
    FactorState,
    added,
    budget_from,
    entered,
    inspected,
    projected_out,
    squared_lengths,
    without,
)
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.protocols.chance import key_of, uniform
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import SEED, Range, Seed, seed_of
from kernelswarm.refused_key import RefusedKey


def remove(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add the points, and remove the smallest elements one by one while there are too many."""
    points, weights = added(state.points, state.weights, at.points, at.weights)
    while len(points) > keys[0]:
        norms = squared_lengths(weights) * squares(at.kappa, points)
        m = int(np.argmin(norms))
        at.lost[0] += math.sqrt(norms[m])
        points, weights = without(points, m), without(weights, m)
    return Sum(points, weights)


def project(keys: tuple[float, ...], state: Any, at: At) -> FactorState:
    """Add the points, and while there are too many project f on all elements except the smallest."""
    points, weights, factor, changes = state
    for n in range(len(at.points)):
        if not is_zero(at.weights, n):
            points, weights, factor = entered(points, weights, factor, at, n)
            changes[0] += 1.0
    while len(points) > keys[0]:
        m = int(np.argmin(squared_lengths(weights) * squares(at.kappa, points)))
        points, weights, factor, lost = projected_out(points, weights, factor, m)
        at.lost[0] += lost
        changes[0] += 1.0
    points, weights, factor, changes = inspected(points, weights, factor, changes, at.kappa)
    return FactorState(points, weights, factor, changes)


STEPS = 16
"""Steps of the golden section search; they locate the merged point to 5e-4 of the distance between the two points."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@cached_njit
def kept(h: float, logarithm: float, mine: float, other: float, both: float) -> float:
    """Return ``||a_z||^2`` of the merged point at h, from ``log k``, ``||a_m||^2``, ``||a_n||^2`` and ``a_m.a_n``."""
    first, second = math.exp(logarithm * (1.0 - h) ** 2), math.exp(logarithm * h**2)
    return mine * first**2 + other * second**2 + 2.0 * both * first * second


@cached_njit
def best_share(logarithm: float, mine: float, other: float, both: float) -> tuple[float, float]:
    """Return the h in [0, 1] that maximises ``||a_z||^2``, by golden section search, and the maximum."""
    low, high = 0.0, 1.0
    left, right = high - GOLDEN, GOLDEN
    at_left, at_right = kept(left, logarithm, mine, other, both), kept(right, logarithm, mine, other, both)
    for _ in range(STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = kept(left, logarithm, mine, other, both)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = kept(right, logarithm, mine, other, both)
    best, most = (left, at_left) if at_left >= at_right else (right, at_right)
    for end in (0.0, 1.0):
        at_end = kept(end, logarithm, mine, other, both)
        if at_end > most:
            best, most = end, at_end
    return best, most


@cached_njit
def best_partner(weights: Array, place: int, row: Array) -> tuple[int, float, float]:
    """Return the best partner n for merging with element m at ``place``, their h, and the squared error of the merge.

    The two elements become one at z = h x_m + (1 - h) x_n with the weight a_z = k^((1-h)^2) a_m + k^(h^2) a_n,
    k = kappa(x_m, x_n). Then a_z kappa(z, .) is the projection of their sum on kappa(z, .). h in [0, 1] maximises
    ||a_z||. The squared error is ||a_m||^2 + ||a_n||^2 + 2 k a_m.a_n - ||a_z||^2. ``row`` is the kernel between x_m and
    all elements, (M,).

    One of k^((1-h)^2) and k^(h^2) is at most k^(1/4), and their product at most k^(1/2), so

        ||a_z||^2 <= max(||a_m||^2, ||a_n||^2) + k^(1/2) (min(||a_m||^2, ||a_n||^2) + 2 max(a_m.a_n, 0))

    Partners are searched only if by this bound their error may be below the smallest error so far; the partner with the
    best bound comes first.
    """
    norms, products = squared_lengths(weights), np.zeros(len(weights))
    for n in range(len(weights)):
        for c in range(weights.shape[1]):
            products[n] += weights[place, c] * weights[n, c]
    mine, both = norms[place], norms[place] + norms + 2.0 * row * products
    bounds = both - np.maximum(mine, norms)
    bounds -= np.sqrt(row) * (np.minimum(mine, norms) + 2.0 * np.maximum(products, 0.0))
    bounds[place] = math.inf
    first = int(np.argmin(bounds))
    best, share, least = first, 0.0, math.inf
    for k in range(-1, len(weights)):
        n = first if k < 0 else k
        if (k == first or bounds[n] >= least) and k >= 0:
            continue
        if row[n] > 0.0:
            h, most = best_share(math.log(row[n]), mine, norms[n], products[n])
        else:  # so far apart that the kernel has underflowed
            h, most = (1.0, mine) if mine > norms[n] else (0.0, norms[n])
        if both[n] - most < least:
            best, share, least = n, h, both[n] - most
    return best, share, max(least, 0.0)


def merge(keys: tuple[float, ...], state: Any, at: At) -> Sum:
    """Add the points, and while there are too many merge the smallest element with its best partner."""
    points, weights = added(state.points, state.weights, at.points, at.weights)
    while len(points) > keys[0]:
        m = int(np.argmin(squared_lengths(weights)))  # kappa(x, x) of the gaussian kernel is 1
        row = between(at.kappa, points[m : m + 1], points)[0]
        n, h, squared = best_partner(weights, m, row)
        first, second = (row[n] ** ((1.0 - h) ** 2), row[n] ** (h**2)) if row[n] > 0.0 else (h, 1.0 - h)
        points[m] = h * points[m] + (1.0 - h) * points[n]
        weights[m] = first * weights[m] + second * weights[n]
        at.lost[0] += math.sqrt(squared)
        points, weights = without(points, n), without(weights, n)
    return Sum(points, weights)


MOVES = {"removal": remove, "projection": project, "merging": merge}


@dataclass(frozen=True)
class Bsgd(NumpyLearner):
    """Budgeted stochastic gradient descent (Wang, Crammer and Vucetic, JMLR 2012).

    While there are more than ``budget_size`` points after a step, the point m with the smallest
    ||W_m||^2 kappa(x_m, x_m) is removed:

    - ``removal``: its element is dropped;
    - ``projection``: f is projected on the span of the other points, which is the smallest change of f without point m;
    - ``merging``: point m and a second point are replaced by one point between them, and the second point is chosen for
      the smallest error. For the gaussian kernel only.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget_size : int
        The largest number of dictionary points, at least 1; at least 2 for merging.
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

    @property
    def keys(self) -> tuple[float, ...]:
        """The budget."""
        return (float(self.budget_size),)

    @property
    def State(self) -> Any:
        """The state of the chosen maintenance."""
        return FactorState if self.maintenance == "projection" else Sum

    @property
    def move(self) -> Any:
        """The step with the chosen maintenance."""
        return MOVES[self.maintenance]


# Nonparametric budgeted stochastic gradient descent: a coin decides whether a full dictionary may grow.


class TossedState(NamedTuple):
    """A kernel sum, and the number of coin tosses so far."""

    points: Array
    weights: Array
    tosses: Annotated[Array, "1"]


def toss(keys: tuple[float, ...], state: Any, at: At) -> TossedState:
    """Add the points, and toss a coin for each point beyond the limit."""
    budget, growth, first, second = keys
    before, tosses = max(float(len(state.points)), budget), state.tosses
    points, weights = added(state.points, state.weights, at.points, at.weights)
    for _ in range(int(len(points) - before)):
        stays = uniform(int(first), int(second), int(tosses[0])) < growth
        tosses[0] += 1.0
        if not stays:
            norms = squared_lengths(weights) * squares(at.kappa, points)
            m = int(np.argmin(norms))
            at.lost[0] += math.sqrt(norms[m])
            points, weights = without(points, m), without(weights, m)
    return TossedState(points, weights, tosses)


@dataclass(frozen=True)
class Npbsgd(NumpyLearner):
    """Budgeted stochastic gradient descent whose budget grows with the data (after Le, Nguyen, Nguyen, Phung, 2016).

    The limit is ``budget_size`` points, or the number of points before the step if that is larger. For each point
    beyond the limit a coin is tossed: with probability ``growth`` the model order grows by one; otherwise the element
    of smallest Hilbert norm is removed. Beyond ``budget_size`` the order thus grows by ``growth`` points per sample on
    average. growth = 0 is `bsgd` with removal.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget_size : int
        The number of points up to which nothing is removed, at least 1.
    growth : float
        The probability, in [0, 1], that a new point is added without a removal.
    seed : int or "auto"
        Seed of the coin tosses; see `random_features`.
    """

    budget_size: int = 50
    growth: float = 0.01
    seed: Seed = "auto"

    ranges: ClassVar = {
        "budget_size": budget_from(1),
        "growth": Range("[0, 1]", "0.01 and less are usual"),
        "seed": SEED,
    }
    State: ClassVar = TossedState
    move: ClassVar = staticmethod(toss)

    @property
    def keys(self) -> tuple[float, ...]:
        """The budget, the growth probability, and the key of the coin tosses."""
        return float(self.budget_size), self.growth, *key_of(seed_of(self.seed))
