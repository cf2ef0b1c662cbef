"""Probabilities of classifiers whose loss gives none: the softmax of f over a temperature that samples tell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.loss_formulas import logistic_probabilities, softmax

Array = npt.NDArray[np.float64]

COLDEST, HOTTEST = 1e-3, 1e3
"""The range of temperatures, over the root of the mean square of f."""

MOST = 2000
"""So many samples tell the temperature well: with n its log loss is about 1 / (2 n) above the least."""


def probabilities(values: Array, temperature: float) -> Array:
    """Return softmax(f / T), (n, classes); of one output f those of 1 / (1 + exp(-f / T)) for the second class.

    Parameters
    ----------
    values : Array
        f, (n, C) with C the number of classes, or 1 of two classes.
    temperature : float
        T, positive, in the unit of f. The largest value has the largest probability whatever T.
    """
    scaled = np.ascontiguousarray(values / temperature)
    found: Array = logistic_probabilities(scaled) if scaled.shape[1] == 1 else softmax(scaled)
    return found


def fitted(values: Array, labels: Array) -> float:
    """Return the temperature of least log loss (Guo, Pleiss, Sun and Weinberger 2017).

    Labels count as right with probability (n + 1) / (n + 2), as in Platt scaling: n samples that are all told right do
    not say that errors never happen.

    Parameters
    ----------
    values : Array
        f at samples that it was not learned from, (n, C), n >= 1.
    labels : Array
        Their class indices, (n,).
    """
    from scipy.optimize import brentq

    size = float(np.sqrt(np.mean(values**2)))
    if not size > 0.0:
        return 1.0  # equal values are equal probabilities at any temperature
    count, classes = len(values), max(values.shape[1], 2)
    wanted = np.full((count, classes), 1.0 / (count + 2) / (classes - 1))
    wanted[np.arange(count), labels.astype(np.intp)] = (count + 1) / (count + 2)
    margins = np.hstack([np.zeros_like(values), values]) if values.shape[1] == 1 else values
    margins = margins / size

    def slope(logarithm: float) -> float:
        """Return the derivative by 1 / T of the log loss, which is convex in it."""
        return float(np.mean((probabilities(values, size * np.exp(logarithm)) - wanted) * margins))

    coldest, hottest = np.log(COLDEST), np.log(HOTTEST)
    if slope(hottest) >= 0.0:
        return size * HOTTEST  # f tells nothing of the classes
    if slope(coldest) <= 0.0:
        return size * COLDEST
    return size * float(np.exp(brentq(slope, coldest, hottest, xtol=1e-6)))


@dataclass(frozen=True, eq=False)
class ProgressiveValues:
    """What was predicted of samples before they were learned from: the later half of those seen, at most 2,000.

    Earlier ones were predicted by an f that knew little.

    Parameters
    ----------
    seen : int
        The samples that have come.
    values, labels : Array
        f at those that are kept, (n, C), and their class indices, (n,).
    """

    seen: int
    values: Array
    labels: Array

    @classmethod
    def none(cls, outputs: int) -> ProgressiveValues:
        """Return what is kept before any sample has come; ``outputs`` is C."""
        return cls(0, np.empty((0, outputs)), np.empty(0))

    def followed_by(self, values: Array, labels: Array) -> ProgressiveValues:
        """Return what is kept when further samples have come."""
        seen = self.seen + len(values)
        kept = min(MOST, (seen + 1) // 2)
        new = slice(max(0, len(values) - kept), None)
        old = slice(max(0, len(self.values) + len(values) - kept), None)
        both = np.concatenate([self.values[old], values[new]]), np.concatenate([self.labels[old], labels[new]])
        return ProgressiveValues(seen, *both)

    @cached_property
    def temperature(self) -> float:
        """The temperature that these samples tell; 1 of none."""
        return fitted(self.values, self.labels) if len(self.values) else 1.0
