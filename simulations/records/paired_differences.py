"""Which cells of a comparison differ over the seeds that they share: a paired t test, corrected for all their pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.special import stdtr, stdtrit

LEVEL = 0.05
"""Where no two cells differ, some difference among them is called supported with at most this probability."""

FEWEST = 3
"""Shared seeds below which nothing is supported: two differences of counted errors are often equal by chance, and have
no spread then."""

EQUAL = 1e-12
"""Values that differ by less, relative to the larger, differ by the order of their sums."""


@dataclass(frozen=True)
class Difference:
    """Two cells of a comparison, held against each other in one figure, seed by seed.

    Parameters
    ----------
    figure : str
        The figure, of which less is better.
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
        The two-sided p-value of the paired t test, after Holm's correction; NaN for fewer than ``FEWEST`` seeds.
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

    The t test takes the differences of a pair over the seeds for independent and normal (Student, Biometrika 1908).
    Holm's correction (Scandinavian Journal of Statistics 1979) multiplies the smallest p-value by the number of pairs,
    the next one by one less, and so on. Then the probability that any of the pairs is called different wrongly is at
    most ``LEVEL``, whatever the spread of each and however they depend on one another.

    Parameters
    ----------
    figure : str
        The figure, of which less is better.
    cells : dict of int to dict of int to Value
        For each cell, by its place, the values by their seeds.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the cells, also for those that share too few seeds to be tested.
    """
    found = [
        _difference(figure, one, other, cells[one], cells[other]) for one, other in itertools.combinations(cells, 2)
    ]
    return corrected(found)


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """Return differences with the p-values of single tests corrected by Holm's rule for as many tests as there are."""
    tested = sorted(
        (place for place, one in enumerate(found) if not math.isnan(one.chance)), key=lambda place: found[place].chance
    )
    result, least = list(found), 0.0
    for rank, place in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - rank) * found[place].chance))
        result[place] = replace(found[place], chance=least)
    return result


def needed(seeds: int, cells: int) -> float:
    """Return how many standard deviations the largest difference among ``cells`` must be to be supported.

    Examples
    --------
    >>> [round(needed(seeds, cells=2), 1) for seeds in (3, 5, 10)]
    [2.5, 1.2, 0.7]
    """
    pairs = cells * (cells - 1) / 2
    return float(stdtrit(seeds - 1, 1.0 - LEVEL / 2.0 / pairs)) / math.sqrt(seeds)


def _difference(figure: str, one: int, other: int, left: Mapping[int, Value], right: Mapping[int, Value]) -> Difference:
    shared = left.keys() & right.keys()
    # A pair of runs that another seed repeats tells nothing new.
    pairs = {(left[seed].outcome, right[seed].outcome): (left[seed].number, right[seed].number) for seed in shared}
    rises = [_rise(low, high) for low, high in pairs.values()]
    mean, deviation = _spread(rises)
    if mean < 0.0:
        one, other, mean, rises = other, one, -mean, [-rise for rise in rises]
    wins, seeds = sum(rise > 0.0 for rise in rises), len(rises)
    return Difference(figure, one, other, mean, deviation, wins, seeds, _chance(mean, deviation, seeds))


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


def _chance(mean: float, deviation: float, seeds: int) -> float:
    """Return the p-value of the paired t test; 0 where all seeds have the same difference, 1 where it is 0."""
    if seeds < FEWEST:
        return math.nan
    if mean == 0.0:
        return 1.0
    if deviation <= EQUAL * mean:
        return 0.0
    return float(2.0 * stdtr(seeds - 1, -mean * math.sqrt(seeds) / deviation))
