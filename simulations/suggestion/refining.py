"""Steps away from the best candidate, each tried for the full length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from kernelswarm.simulations.suggestion.candidates import combined, further, neighbors, onward
from kernelswarm.simulations.suggestion.ranges import Range

ALIKE = 0.01
"""A risk within this share of another one counts as the same."""

MOVES = 3
"""Steps, at most, in a direction in which several changes together are better."""


class Trials(Protocol):
    """Candidates by their places, and what their longest pilots come to."""

    values: list[dict[str, Any]]
    longest: int

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add candidates, less those that are known, and return the places of the new ones."""

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        """Try candidates for some rounds and return their risks."""


def refine(finals: dict[int, float], ranges: Sequence[Range], trials: Trials) -> dict[int, float]:
    """Try candidates around the best one, for the full length, and return all risks found.

    First its neighbours are tried, then all better changes together, as long as that is better. Where this lowered the
    risk by more than 1%, the same is done with each key that has moved, a step further alone: keys that move together
    are held back by the one that has come far enough.

    Parameters
    ----------
    finals : dict
        The risk of each candidate that ran for the full length, by its place.
    ranges : sequence of Range
        The keys that are tried.
    trials : Trials
        All candidates.
    """
    found = dict(finals)
    start = min(found, key=lambda place: found[place])
    if math.isinf(found[start]):
        return found
    _improve(neighbors(ranges, trials.values[start]), start, found, ranges, trials)
    best = min(found, key=lambda place: found[place])
    if found[best] < found[start] - ALIKE * abs(found[start]):
        _improve(onward(ranges, trials.values[start], trials.values[best]), best, found, ranges, trials)
    return found


def _improve(
    beside: Sequence[dict[str, Any]], start: int, found: dict[int, float], ranges: Sequence[Range], trials: Trials
) -> None:
    """Try candidates beside one, then every change that helps together, and the same step again while that helps."""
    places = trials.add(beside)
    scores = trials.scores(places, trials.longest)
    found |= dict(zip(places, scores, strict=True))
    before, risk = trials.values[start], found[start]
    together = combined(before, risk, [trials.values[place] for place in places], scores)
    for _ in range(MOVES):
        new = trials.add([together])
        found |= dict(zip(new, trials.scores(new, trials.longest), strict=True))
        reached = found.get(trials.values.index(together), math.inf)
        if not reached < risk:
            return
        before, together, risk = together, further(ranges, before, together), reached
