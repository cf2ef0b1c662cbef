"""The combinations of values that are tried: points spread evenly over the ranges, and steps away from one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelswarm.simulations.comparison.ranges import Range

FOR_EACH = 6
"""Candidates for each key that is tried."""


def candidates(ranges: Sequence[Range], count: int | None = None) -> list[dict[str, Any]]:
    """Return the values of each candidate by key: none for the first, the experiment itself.

    ``count`` is the number of the others, ``FOR_EACH`` for each range when left out.

    Candidate k stands at ``frac(1/2 + k / g^j)`` of range j, with g the root above 1 of ``g^(d+1) = g + 1`` for d
    ranges: a sequence whose points keep apart in each range alone and in all together (Roberts, "The unreasonable
    effectiveness of quasirandom sequences", 2018).
    """
    ratio = 2.0
    for _ in range(60):  # a contraction
        ratio = (1.0 + ratio) ** (1.0 / (len(ranges) + 1))
    points = [
        [(0.5 + (place + 1) * ratio ** -(j + 1)) % 1.0 for j in range(len(ranges))]
        for place in range(FOR_EACH * len(ranges) if count is None else count)
    ]
    return [
        {},
        *({entry.key: entry.value(share) for entry, share in zip(ranges, point, strict=True)} for point in points),
    ]


STEP = 1.0 / 6.0
"""The distance of a neighbour from a candidate in one key, as a share of the range."""


def neighbors(ranges: Sequence[Range], values: Mapping[str, Any], step: float = STEP) -> list[dict[str, Any]]:
    """Return a candidate's neighbours: each key in turn a step lower and a step higher, where it has a number now.

    They may lie beyond the ends of a range, by the same ratio.

    Examples
    --------
    >>> neighbors([Range("protocol.penalty", 0.01, 10.0)], {"protocol.penalty": 1.0})
    [{'protocol.penalty': 0.32}, {'protocol.penalty': 3.2}]
    """
    found = []
    for entry in ranges:
        share = entry.share(values)
        if share is not None:
            moved = [entry.value(share - step), entry.value(share + step)]
            found += [{**values, entry.key: value} for value in moved if value != values.get(entry.key)]
    return found


def combined(
    values: Mapping[str, Any], score: float, beside: Sequence[Mapping[str, Any]], scores: Sequence[float]
) -> dict[str, Any]:
    """Return a candidate with every change of its neighbours that lowers the score, the better one of each key.

    Examples
    --------
    >>> combined({"a": 1, "b": 1}, 0.5, [{"a": 2, "b": 1}, {"a": 1, "b": 0}, {"a": 1, "b": 2}], [0.4, 0.3, 0.2])
    {'a': 2, 'b': 2}
    """
    found, best = dict(values), dict.fromkeys(values, score)
    for changed, other in zip(beside, scores, strict=True):
        for key, value in changed.items():
            if value != values.get(key) and other < min(score, best.get(key, math.inf)):
                found[key], best[key] = value, other
    return found


def further(ranges: Sequence[Range], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the candidate as far beyond another one as that is from the one before it.

    Examples
    --------
    >>> further([Range("a", 0.01, 10.0)], {"a": 0.1}, {"a": 0.2})
    {'a': 0.4}
    """
    found = dict(after)
    for entry in ranges:
        old, new = entry.share(before), entry.share(after)
        if old is not None and new is not None and old != new:
            found[entry.key] = entry.value(2.0 * new - old)
    return found


def onward(ranges: Sequence[Range], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the candidates beside one, a step further in one key each, in the direction in which it has moved.

    Examples
    --------
    >>> onward([Range("a", 0.01, 10.0), Range("b", 1.0, 9.0)], {"a": 1.0, "b": 3.0}, {"a": 3.2, "b": 3.0})
    [{'a': 10.0, 'b': 3.0}]
    """
    found = []
    for entry in ranges:
        old, new = entry.share(before), entry.share(after)
        if old is not None and new is not None and old != new:
            found.append({**after, entry.key: entry.value(new + math.copysign(STEP, new - old))})
    return found


# Successive halving: many candidates for short, the better ones for longer, few to the end.

FACTOR = 3
"""One of this many candidates goes on, for this many times as many rounds."""

LENGTHS = 3
"""The number of stages; each tries the better candidates again."""


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
        The scores of the candidates that were tried to the end.

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


# Steps away from the best candidate, each tried for the full length.

ALIKE = 0.01
"""A risk within this share of another one counts as the same."""

MOVES = 3
"""Steps, at most, in a direction in which several changes together are better."""


class Trials(Protocol):
    """Candidates by their places, and what their longest pilots come to."""

    values: list[dict[str, Any]]
    longest: int

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add candidates that are new, and return their indices."""

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


# An optimum with worse values on both sides: poll these, move to the better one, and halve the step.

FINEST = STEP / 16.0
"""Of a range: the least step, of a range from 0.2 to 5 a factor of 1.03."""


def bracket(finals: Mapping[int, float], ranges: Sequence[Range], trials: Trials, most: int) -> dict[int, float]:
    """Try candidates around the best one until none is better, and return all risks found.

    A pattern search (Hooke and Jeeves, Journal of the ACM 1961): the best candidate's neighbours, each key in turn a
    step lower and a step higher, are tried for the full length. If some are better, all better changes are tried
    together, and as far again while that is better, also beyond the ends of the ranges; if none is, the step is halved.
    So the last best one has values on either side, in each key, that are no better. The last trials of ``most`` are
    kept for these neighbours.

    Parameters
    ----------
    finals : dict
        The risk of each candidate that ran for the full length, by its place.
    ranges : sequence of Range
        The keys that are tried.
    trials : Trials
        All candidates.
    most : int
        The largest number of trials here.
    """
    found, step = dict(finals), STEP

    def risks(asked: Sequence[dict[str, Any]]) -> list[float]:
        """Try new candidates, as far as ``most`` allows; those left out count as no better."""
        trials.add(asked)
        places = [trials.values.index(values) for values in asked]
        left = most - (len(found) - len(finals))
        new = [place for place in dict.fromkeys(places) if place not in found][:left]
        if new:
            found.update(zip(new, trials.scores(new, trials.longest), strict=True))
        return [found.get(place, math.inf) for place in places]

    last = 2 * len(ranges)
    while len(found) - len(finals) < most and step >= FINEST:
        best = min(found, key=lambda place: found[place])
        if math.isinf(found[best]):
            return found
        before, least = trials.values[best], found[best]
        beside = neighbors(ranges, before, step)
        scores = risks(beside)
        if min(scores, default=math.inf) >= least:
            step /= 2.0
            continue
        together = combined(before, least, beside, scores)
        least = min(scores)
        while len(found) - len(finals) < most - last and (reached := risks([together])[0]) <= least:
            least, before, together = reached, together, further(ranges, before, together)
            if together == before:
                break
    return found


def edges(best: int, found: Mapping[int, float], ranges: Sequence[Range], trials: Trials) -> dict[str, str]:
    """Return the keys without a trial beyond the best candidate, with the side: "low" or "high".

    Only candidates count whose other keys are within a step of its own.

    Examples
    --------
    >>> class Tried:
    ...     values = [{"a": 1.0}, {"a": 3.0}, {"a": 9.0}]
    >>> edges(2, {0: 0.5, 1: 0.4, 2: 0.3}, [Range("a", 0.1, 10.0)], Tried()), edges(1, {0: 5, 1: 3, 2: 4}, [
    ...     Range("a", 0.1, 10.0)], Tried())
    ({'a': 'high'}, {})
    """
    sides: dict[str, str] = {}
    for entry in ranges:
        others = [other for other in ranges if other is not entry]
        center = entry.share(trials.values[best])
        if center is None:
            continue
        shares = [
            share
            for place in found
            if _near(others, trials.values[place], trials.values[best])
            and (share := entry.share(trials.values[place])) is not None
        ]
        if max(shares) <= center + SAME:
            sides[entry.key] = "high"
        elif min(shares) >= center - SAME:
            sides[entry.key] = "low"
    return sides


SAME = 1e-9
"""Of a range: what rounding of a logarithm makes of equal numbers."""


def _near(ranges: Sequence[Range], one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    shares = [(entry.share(one), entry.share(other)) for entry in ranges]
    return all(
        first == second if first is None or second is None else abs(first - second) <= STEP + SAME
        for first, second in shares
    )
