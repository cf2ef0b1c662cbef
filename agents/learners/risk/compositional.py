"""Stochastic gradients of a mean loss plus a dispersion of it, from pairs of samples and a tracked mean.

The objective ``E[l] + nu E[d(l, g)]``, g = E[l], has an expectation inside another, so that one sample gives no
unbiased gradient of it. With pairs of independent samples (x, y), (x', y'), the second of which tracks g and carries
its derivative, the gradient is (COLK eq. 24 and 47; SURVEY eq. 12)

    l'(f(x), y) kappa(x, .) + nu d'(l(f(x), y) - g) [ l'(f(x), y) kappa(x, .) - l'(f(x'), y') kappa(x', .) ]
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import joined, share
from kernelswarm.agents.learners.risk.compositional_steps import (
    Joined,
    averaged,
    corrected,
    mean,
    pair_up,
    slide,
    spread,
)
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Schedule
from kernelswarm.ranges import Range
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

TrackedMean = Literal["difference", "average"]

Pairing = Literal["disjoint", "sliding"]

Weight = float | Literal["auto"]
"""nu, or the word that data turn into it."""

MOST_CHANGE, MARGIN = 0.5, 4.0
"""How far from 1 a weight "auto" lets the dispersion's factor on a derivative be, less than 1 so that every sample is
still descended on; and up to which loss, a multiple of the largest in the sample, since larger ones may come."""


@dataclass(frozen=True)
class Composition:
    """A mean loss plus ``weight`` times a dispersion of it, and how the mean is tracked.

    Rows 2k and 2k + 1 of a batch are a pair (x, y), (x', y'); a row left over at the end has no partner, and counts for
    its loss alone. Where pairs slide, rows k and k + 1 are one: every row is the second of a pair and then the first of
    the next.

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
    pairing : str
        "disjoint" or "sliding".
    """

    loss: Loss
    dispersion: Dispersion
    weight: Weight
    tracking: TrackedMean
    rate: Schedule
    pairing: Pairing = "disjoint"

    def fitted_weight(self, sample: Sample) -> float:
        """Return the weight, or what a word stands for on a sample of the data: MOST_CHANGE over the largest |d'|.

        The losses u are 0, those of f = 0, which a run starts with, and MARGIN times the largest of them; g is the mean
        of those of f = 0.
        """
        if self.weight != "auto":
            return self.weight
        predictions = np.zeros((len(sample.points), sample.outputs))
        losses = sample.loss.values(predictions, np.ascontiguousarray(sample.targets))
        met = np.concatenate([losses, [0.0, MARGIN * losses.max()]])
        largest = float(np.abs(self.dispersion.slopes(met, float(mean(losses)))).max())
        return float(f"{MOST_CHANGE / largest:.3g}") if 0.0 < largest < math.inf else 0.0

    @property
    def strength(self) -> float:
        """The weight as a number; ValueError where it is a word."""
        if self.weight == "auto":
            raise RefusedKey(
                "dispersion_weight",
                '= "auto" is a word that training data turn into a number before learning starts: '
                "take learner.resolved(sample), or give a number",
            )
        return self.weight

    @property
    def looks_back(self) -> bool:
        """Whether the gradient needs the values of the function before the last step."""
        return self.strength > 0.0 and self.dispersion.centered and self.tracking == "difference"

    @property
    def seconds(self) -> slice:
        """Which rows are second ones."""
        return slice(1, None, 2 if self.pairing == "disjoint" else 1)

    def center(self, center: float, losses: Array, targets: Array, before: Callable[[], Array], step: int) -> float:
        """Return g of the next step, from the second rows of the pairs.

        Parameters
        ----------
        center : float
            g as the last step had it; NaN before the first pair.
        losses, targets : Array
            The losses of the rows, (n,), and their targets, (n, q).
        before : callable
            Gives the values of the function before the last step at the second rows, (m, C).
        step : int
            The steps taken before.
        """
        if self.strength == 0.0 or len(losses) < 2:
            return center
        second_losses = losses[self.seconds].copy()
        if math.isnan(center):
            return float(mean(second_losses))
        if not self.dispersion.centered:
            return self.dispersion.descend(second_losses, center, step)
        rate = self.rate.at(step)
        if self.tracking == "average":
            return float(averaged(center, second_losses, rate))
        past = self.loss.values(before(), np.ascontiguousarray(targets[self.seconds]))
        return float(corrected(center, second_losses, past, rate))

    def gradient(self, center: float, losses: Array, values: Array, targets: Array) -> Array:
        """Return the coefficients at the rows of a batch, whose mean over the rows is the mean over the pairs.

        The first row of a pair has ``2 (1 + nu d') l'``, the second ``-2 nu d' l'``. Where pairs slide, a row has
        ``(1 + nu d') l'`` as the first of one and ``-nu d' l'`` as the second of another, and the last is no first.

        Parameters
        ----------
        center : float
            g in this step.
        losses : Array
            Those of the rows, (n,).
        values, targets : Array
            f at the rows, (n, C), and their targets, (n, q).
        """
        slopes = self.loss.derivatives(values, targets)
        share_out = spread if self.pairing == "disjoint" else slide
        if self.strength == 0.0 or len(slopes) < 2:
            share_out(slopes, np.zeros(len(slopes)), 0.0, False)
        else:
            factors = self.dispersion.slopes(losses, center)
            share_out(slopes, factors, self.strength, self.dispersion.centered)
        return slopes

    def pairs(
        self,
        eta: float,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        own: int,
        batch_size: int,
    ) -> Joined:
        """Put all points of a step together, the first ``own`` weighed as samples of pairs; see `pair_up`.

        Without own samples they stay as they are.
        """
        points = np.concatenate([evaluation.points for evaluation in evaluations])
        rows = np.concatenate([evaluation.rows for evaluation in evaluations])  # a copy, since some move up in it
        weights, rates, stiffness = joined(eta, gradients, curvatures)
        if not own:
            return Joined(points, rows, weights, rates, stiffness)
        kept = Joined(np.empty_like(points), rows, weights, np.empty(len(rates)), np.empty(len(rates)))
        given = Joined(points, rows, weights, rates, stiffness)
        curvature = self.loss.curvature * share(own, batch_size)
        count = pair_up(given, kept, curvatures is not None, eta, own, curvature)
        return Joined(*(array[:count] for array in kept))


def weight_strengths(weight: Weight) -> dict[str, float]:
    """Return the key that makes the dispersion's pull stronger, with its value."""
    return {"dispersion_weight": weight} if weight != "auto" and weight else {}


WEIGHT = Range("[0, inf)", "0 minimises the mean loss alone", "auto")
"""The range of ``dispersion_weight``."""


def check_tracking(rate: Schedule) -> None:
    """Refuse a rate of tracking means that can be above 1, with a RefusedKey."""
    if rate.largest > 1.0:
        raise RefusedKey("tracking_rate", f"= {rate.largest!r} must be in (0, 1]: 0.01 averages a hundred rounds")


def check_pairs(batch_size: int) -> None:
    """Refuse a batch that is not made of pairs, with a RefusedKey."""
    if batch_size % 2:
        raise RefusedKey("batch_size", f"= {batch_size!r} must be even: its samples are learned from in pairs")
