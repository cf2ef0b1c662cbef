"""A test that differences are not 0, by what they would be had each seed turned out the other way round."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FLIPS = 1024
"""Ways to give the seeds signs that are looked at: all of them up to eleven seeds, so many drawn ones beyond."""

ROUNDING = 1e-9
"""Statistics that differ by less are equal: the order of their sums decides then."""

BLOCK = 64
"""Ways at once, to bound the memory."""


def step_down(differences: Array) -> Array:
    """Return the p-value of each of several tests, corrected for all of them.

    The statistic of a test, which grows with the absolute value of Student's t, is

        |sum_s d_s| / sqrt(sum_s d_s^2)

    Where there is no difference, d_s has either sign with the same probability, for all tests of a seed at once, so
    that the statistics under any choice of the seeds' signs are as probable as those that were found (Fisher, The
    Design of Experiments, 1935). A p-value is the share of these choices under which the largest statistic, of this
    test and of all with smaller ones, is at least the one that was found (Westfall and Young, Resampling-Based Multiple
    Testing, 1993).

    Then the probability that any test without a difference has a p-value of at most a is at most a, whatever the
    distribution of the differences and however the tests depend on one another. With n seeds no p-value is below
    2 / 2^n: that share of the choices gives all seeds the signs that they have, or all the opposite ones.

    Parameters
    ----------
    differences : array (seeds, tests)
        The differences; 0 where a test lacks a seed.

    Returns
    -------
    array (tests,)
        The p-values, 1 for a test without any difference.

    Examples
    --------
    >>> step_down(np.ones((3, 1))), step_down(np.ones((6, 1)))
    (array([0.25]), array([0.03125]))
    """
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scales = np.abs(differences).max(axis=0, initial=0.0)
    scaled = differences / np.where(scales > 0.0, scales, 1.0)
    lengths = np.sqrt((scaled * scaled).sum(axis=0))
    shares = scaled / np.where(lengths > 0.0, lengths, 1.0)
    found = np.abs(shares.sum(axis=0))
    order = np.argsort(found, kind="stable")
    shares, least = shares[:, order], found[order] - ROUNDING
    signs, counts = _signs(len(differences)), np.zeros(len(order))
    for start in range(0, len(signs), BLOCK):
        flipped = np.abs(signs[start : start + BLOCK] @ shares)
        counts += (np.maximum.accumulate(flipped, axis=1) >= least).sum(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate((counts / len(signs))[::-1])[::-1]
    return result


def _signs(seeds: int) -> Array:
    """Return choices of the seeds' signs (choices, seeds), as they are first; the first seed keeps its own, since to
    turn all changes no statistic."""
    if 2 ** (seeds - 1) <= FLIPS:
        return np.array([(1.0, *others) for others in itertools.product((1.0, -1.0), repeat=seeds - 1)])
    drawn = np.random.default_rng(0).choice((1.0, -1.0), size=(FLIPS, seeds))
    drawn[0] = 1.0
    return drawn
