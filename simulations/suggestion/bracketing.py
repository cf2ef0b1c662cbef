"""An optimum with worse values on both sides of it: poll these, move to what is better, and halve the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kernelswarm.simulations.suggestion.candidates import STEP, combined, further, neighbors
from kernelswarm.simulations.suggestion.ranges import Range
from kernelswarm.simulations.suggestion.refining import Trials

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
