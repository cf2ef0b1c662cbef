"""Stochastic gradients of a mean loss plus a dispersion of it, from pairs of samples and a tracked mean.

The objective ``E[l] + nu E[d(l, g)]``, g = E[l], has an expectation inside another, so that one sample gives no
unbiased gradient of it. With pairs of independent samples (x, y), (x', y'), the second of which tracks g and carries
its derivative, the gradient is (COLK eq. 24 and 47; SURVEY eq. 12)

    l'(f(x), y) kappa(x, .) + nu d'(l(f(x), y) - g) [ l'(f(x), y) kappa(x, .) - l'(f(x'), y') kappa(x', .) ]
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from kernelswarm.agents.learners.contract import Evaluation
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.schedules import Schedule

Array = npt.NDArray[np.float64]

TrackedMean = Literal["difference", "average"]


class Sets(NamedTuple):
    """The points of a step, as learners by gradient descent take them."""

    evaluations: Sequence[Evaluation]
    gradients: Sequence[Array]
    curvatures: Sequence[float] | None


@dataclass(frozen=True)
class Composition:
    """A mean loss plus ``weight`` times a dispersion of it, and how the mean is tracked.

    Rows 2k and 2k + 1 of a batch are a pair (x, y), (x', y'); a row left over at the end has no partner, and counts for
    its loss alone.

    Parameters
    ----------
    loss : Loss
        l, the loss of a sample.
    dispersion : Dispersion
        d.
    weight : float
        nu, not negative.
    tracking : str
        "difference" (COLK eq. 20), g <- (1 - beta) (g - l(f_before(x'), y')) + l(f(x'), y'), with the function before
        the last step; "average" (SURVEY eq. 11), g <- (1 - beta) g + beta l(f(x'), y'). Both start with the first
        l(f(x'), y'), and take means over a batch.
    rate : Schedule
        beta, in (0, 1].
    """

    loss: Loss
    dispersion: Dispersion
    weight: float
    tracking: TrackedMean
    rate: Schedule

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight < math.inf:
            raise ValueError(
                f"dispersion_weight = {self.weight!r} must not be negative: 0 minimises the mean loss alone"
            )
        if self.rate.largest > 1.0:
            raise ValueError(f"tracking_rate = {self.rate.largest!r} must be in (0, 1]: 0.01 averages a hundred rounds")

    @property
    def looks_back(self) -> bool:
        """Whether the gradient needs the values of the function before the last step."""
        return self.weight > 0.0 and self.dispersion.centered and self.tracking == "difference"

    def center(self, center: float, values: Array, targets: Array, before: Callable[[], Array], step: int) -> float:
        """Return what g is in the step to come, from the second rows of the pairs.

        Parameters
        ----------
        center : float
            g as the last step had it; NaN before the first pair.
        values, targets : Array
            f at the rows, (n, C), and their targets, (n, q).
        before : callable
            Gives the values of the function before the last step at rows 1, 3, ..., (n // 2, C).
        step : int
            The steps taken before.
        """
        if self.weight == 0.0 or len(values) < 2:
            return center
        losses = self.loss.values(values, targets)
        if math.isnan(center):
            return float(_mean(losses, 1))
        if not self.dispersion.centered:
            return self.dispersion.descend(losses[1::2].copy(), center, step)
        rate = self.rate.at(step)
        if self.tracking == "average":
            return float((1.0 - rate) * center + rate * _mean(losses, 1))
        past = self.loss.values(before(), np.ascontiguousarray(targets[1::2]))
        return float((1.0 - rate) * (center - _mean(past, 0)) + _mean(losses, 1))

    def gradient(self, center: float, values: Array, targets: Array) -> Array:
        """Return the coefficients at the rows of a batch, whose mean over the rows is the mean over the pairs.

        The first row of a pair has ``2 (1 + nu d') l'``, the second ``-2 nu d' l'``; ``center`` is g in this step.
        """
        slopes = self.loss.derivatives(values, targets)
        if self.weight == 0.0 or len(slopes) < 2:
            _spread(slopes, np.zeros(len(slopes)), 0.0, False)
        else:
            factors = self.dispersion.slopes(self.loss.values(values, targets), center)
            _spread(slopes, factors, self.weight, self.dispersion.centered)
        return slopes

    def sets(
        self,
        evaluations: Sequence[Evaluation],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        part: float,
    ) -> Sets:
        """Cut the node's own samples, which come first, into the first and the second samples of the pairs.

        Second samples that nothing moves along are left out. So a weight of 0 without a coupling leaves, to the bit,
        the step that a learner of single samples takes on the first ones. An implicit step takes the mean loss at the
        new function in the first samples only; the dispersion stays explicit. ``part`` is the share of a whole batch
        that the samples are, by which gradients and curvatures are multiplied already.
        """
        own, gradient = evaluations[0], gradients[0]
        curvature = self.loss.curvature * part
        stiffness = 0.0 if curvatures is None else curvatures[0] - curvature
        alone = stiffness == 0.0 and not _seconds_move(gradient)
        if curvatures is None and not alone:
            return Sets(evaluations, gradients, None)
        rows = len(gradient)
        seconds = rows // 2
        share = (rows - seconds) / rows
        parts, coefficients = [_every_other(own, 0)], [gradient[0::2] * share]
        curved = [2.0 * share * curvature + stiffness * share]
        if not alone and seconds:
            parts.append(_every_other(own, 1))
            coefficients.append(gradient[1::2] * (1.0 - share))
            curved.append(stiffness * (1.0 - share))
        return Sets(
            [*parts, *evaluations[1:]],
            [*coefficients, *gradients[1:]],
            None if curvatures is None else [*curved, *curvatures[1:]],
        )


def check_pairs(batch_size: int) -> None:
    """Refuse a batch that is not made of pairs, with a ValueError that starts with the key."""
    if batch_size % 2:
        raise ValueError(f"batch_size = {batch_size!r} must be even: its samples are learned from in pairs")


def _every_other(own: Evaluation, first: int) -> Evaluation:
    points, rows, values = own
    return Evaluation(*_rows(points, rows, values, first))


@njit(cache=True)
def _rows(points: Array, rows: Array, values: Array, first: int) -> tuple[Array, Array, Array]:
    return points[first::2].copy(), rows[first::2].copy(), values[first::2].copy()


@njit(cache=True)
def _seconds_move(gradient: Array) -> bool:
    """Tell whether any second sample has a coefficient."""
    for n in range(1, gradient.shape[0], 2):
        for c in range(gradient.shape[1]):
            if gradient[n, c] != 0.0:
                return True
    return False


@njit(cache=True)
def _mean(losses: Array, first: int) -> float:
    """Average from entry ``first`` on: all of them from 0, those of second samples from 1."""
    stride = 1 + first
    added, count = 0.0, 0
    for n in range(first, len(losses), stride):
        added += losses[n]
        count += 1
    return added / count


@njit(cache=True)
def _spread(slopes: Array, factors: Array, weight: float, centered: bool) -> None:
    """Make the coefficients of the derivatives l', (n, C), in place; factors are d' at each row, of which pairs use
    their first."""
    size = len(slopes)
    for n in range(size):
        factor = weight * factors[n - n % 2]
        share = 2.0
        if n % 2:
            share *= -factor if centered else 0.0
        elif n + 1 < size:
            share *= 1.0 + factor
        for c in range(slopes.shape[1]):
            slopes[n, c] = share * slopes[n, c] if share != 0.0 else 0.0
