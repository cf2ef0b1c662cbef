"""The combinations of values that are tried: points spread evenly over the ranges, and steps away from one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kernelswarm.simulations.suggestion.ranges import Range

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
