"""Targets of which few are so far from all others that they decide its variance: outliers, or heavy tails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import shown

FEWEST = 50
"""The number of values below which nothing is judged."""

NINE_TENTHS = 2.0 * 1.6449
"""How wide the middle nine tenths of a normal distribution are, in standard deviations."""

FAR = 10.0
"""Standard deviations of a normal distribution with the same middle nine tenths, beyond which a value is far from the
median."""

HALF = 0.5
"""The share of the variance that makes far values worth a word: a squared loss follows them. Of a log-normal
distribution with sigma = 1 they have a quarter, with sigma = 2 nearly all."""


def far_targets(columns: Sequence[str], targets: npt.NDArray[np.float64]) -> str:
    """Say in a sentence that few values of a target decide its variance; empty where that is true of none.

    Parameters
    ----------
    columns : sequence of str
        What the targets are called.
    targets : array, shape (n, q)
        Their values.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=(1000, 1))
    >>> far_targets(["y"], y)
    ''
    >>> y[:20] *= 100.0
    >>> far_targets(["y"], y).partition(":")[0]
    '1.9% of the values of "y" are far from all others and make up 99% of its variance'
    """
    for name, values in zip(columns, targets.T, strict=True):
        if len(values) < FEWEST:
            continue
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        squares = (values - values.mean()) ** 2
        far = np.abs(values - middle) > FAR * (high - low) / NINE_TENTHS
        if not high > low or not squares[far].sum() >= HALF * squares.sum():
            continue
        share, held = far.mean(), squares[far].sum() / squares.sum()
        return (
            f"{share:.1%} of the values of {shown(name)} are far from all others and make up {held:.0%} of its "
            'variance: where they are errors, learner.loss = "absolute" or "huber" follows the others; where '
            f"{shown(name)} is skewed, give its logarithm"
        )
    return ""
