"""Differences of a comparison's cells over their common seeds: a sign-flip test, corrected for all pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelswarm.arrays import Array

# Test that differences are not 0: the observed statistic among those of all sign flips of whole seeds.


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


LEVEL = 0.05
"""The probability, at most, that some difference is called supported where no two cells differ."""

FEWEST = 6
"""Shared seeds below which nothing is supported: of two cells that do not differ, one is ahead in all of five seeds
once in sixteen times, which is more often than ``LEVEL``."""

EQUAL = 1e-12
"""Values that differ by less, relative to the larger, differ by the order of their sums."""


@dataclass(frozen=True)
class Difference:
    """Two cells of a comparison, held against each other in one figure, seed by seed.

    Parameters
    ----------
    figure : str
        The figure; less is better.
    better, worse : int
        The places of the two cells; the better one has the lower mean over the seeds that both have. Of equal ones,
        it is the first.
    mean, deviation : float
        Of the worse cell's figure less the better one's: mean over these seeds, and standard deviation (n - 1 in the
        denominator); NaN where there are too few seeds.
    wins, seeds : int
        The seeds in which the better cell has the lower figure, and all that both have a figure of. Seeds that repeat
        the runs of another one, bit for bit, do not count.
    chance : float
        The two-sided p-value of the sign-flip test, corrected for all pairs; NaN for fewer than ``FEWEST`` seeds.
    """

    figure: str
    better: int
    worse: int
    mean: float
    deviation: float
    wins: int
    seeds: int
    chance: float

    @property
    def supported(self) -> bool:
        """Whether the seeds support that the better one is better."""
        return self.chance <= LEVEL


@dataclass(frozen=True)
class Value:
    """A figure of one run.

    Parameters
    ----------
    number : float
        Its value, which is finite.
    outcome : int
        A number that the run has in common with others of its cell where both are the same to the last bit.
    """

    number: float
    outcome: int


def paired_differences(figure: str, cells: Mapping[int, Mapping[int, Value]]) -> list[Difference]:
    """Hold every cell against every other one.

    The differences of a pair are taken for as probable as their negatives where the cells do not differ, and nothing
    else is supposed of them; see :func:`kernelswarm.simulations.records.paired_differences.step_down`. The probability
    that any
    of the pairs is called different wrongly is at most ``LEVEL``, whatever the spread of each and however they depend
    on one another.

    Parameters
    ----------
    figure : str
        The figure; less is better.
    cells : dict of int to dict of int to Value
        For each cell, by its place, the values by their seeds.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the cells; pairs that share too few seeds are not tested.
    """
    found = [_rises(cells[one], cells[other]) for one, other in itertools.combinations(cells, 2)]
    tested = [place for place, rises in enumerate(found) if len(rises) >= FEWEST]
    seeds = sorted({seed for place in tested for seed in found[place]})
    chances = np.full(len(found), math.nan)
    if tested:
        chances[tested] = step_down(np.array([[found[place].get(seed, 0.0) for place in tested] for seed in seeds]))
    pairs = itertools.combinations(cells, 2)
    return [
        _difference(figure, one, other, list(rises.values()), float(chance))
        for (one, other), rises, chance in zip(pairs, found, chances, strict=True)
    ]


def _difference(figure: str, one: int, other: int, rises: Sequence[float], chance: float) -> Difference:
    mean, deviation = _spread(rises)
    if mean < 0.0:
        one, other, mean, rises = other, one, -mean, [-rise for rise in rises]
    return Difference(figure, one, other, mean, deviation, sum(rise > 0.0 for rise in rises), len(rises), chance)


def _rises(left: Mapping[int, Value], right: Mapping[int, Value]) -> dict[int, float]:
    """Return by how much the second cell is above the first, by the seeds that both have."""
    found, known = dict[int, float](), set[tuple[int, int]]()
    for seed in sorted(left.keys() & right.keys()):
        low, high = left[seed], right[seed]
        if (low.outcome, high.outcome) not in known:  # a pair of runs that another seed repeats tells nothing new
            known.add((low.outcome, high.outcome))
            found[seed] = _rise(low.number, high.number)
    return found


def _spread(rises: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation, the same bits in any order of the seeds."""
    if not rises:
        return math.nan, math.nan
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scale = max(map(abs, rises)) or 1.0
    mean = math.fsum(rise / scale for rise in rises) / len(rises)
    if len(rises) == 1:
        return scale * mean, math.nan
    squares = math.fsum((rise / scale - mean) ** 2 for rise in rises)
    return scale * mean, scale * math.sqrt(squares / (len(rises) - 1))


def _rise(low: float, high: float) -> float:
    return 0.0 if abs(high - low) <= EQUAL * max(abs(low), abs(high)) else high - low
