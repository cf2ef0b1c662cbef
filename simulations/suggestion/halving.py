"""Successive halving: many candidates for short, the better ones for longer, few to the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

FACTOR = 3
"""One of this many candidates goes on, for this many times as many rounds."""

LENGTHS = 3
"""The number of stages, in each of which the better candidates are tried again."""


def lengths(longest: int) -> list[int]:
    """Return the rounds of the pilots, from the shortest to the longest.

    Examples
    --------
    >>> lengths(400), lengths(5)
    ([45, 134, 400], [1, 2, 5])
    """
    return [-(-longest // FACTOR**step) for step in reversed(range(LENGTHS))]


def halve(
    candidates: int, longest: int, scores: Callable[[Sequence[int], int], Sequence[float]], kept: Sequence[int] = (0,)
) -> dict[int, float]:
    """Try candidates for few rounds, and those with the least scores for more (Jamieson and Talwalkar, AISTATS 2016).

    Parameters
    ----------
    candidates : int
        Their number; they are called 0, 1, 2, ...
    longest : int
        The rounds of the last ones.
    scores : callable
        ``scores(places, rounds)`` tries some of them and returns a figure for each, infinite where one failed. Least is
        best.
    kept : sequence of int
        Those that are tried to the end whatever their scores.

    Returns
    -------
    dict of int to float
        The scores of those that were tried to the end.

    Examples
    --------
    >>> halve(16, 64, lambda places, rounds: [abs(place - 7.5) for place in places])
    {0: 7.5, 7: 0.5, 8: 0.5}
    """
    left = list(range(candidates))
    found: dict[int, float] = {}
    for step, rounds in enumerate(lengths(longest)):
        if step:
            others = sorted((score, place) for place, score in found.items() if place not in kept)
            least = math.ceil(len(others) / FACTOR)
            better = [place for score, place in others if score < math.inf]
            left = sorted([*kept, *better[: max(least, 2)]])
        found = dict(zip(left, scores(left, rounds), strict=True))
    return found
