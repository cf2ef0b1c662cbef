"""The combinations of values that are tried: points spread evenly over the ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelswarm.simulations.suggestion.ranges import Range

FOR_EACH = 12
"""Candidates for each key that is tried."""


def candidates(ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """Return the values of each candidate by key: none of the first, which is the experiment as it is.

    Candidate k stands at ``frac(1/2 + k / g^j)`` of range j, with g the root above 1 of ``g^(d+1) = g + 1`` for d
    ranges: a sequence whose points keep apart in each range alone and in all together (Roberts, "The unreasonable
    effectiveness of quasirandom sequences", 2018).
    """
    ratio = 2.0
    for _ in range(60):  # a contraction
        ratio = (1.0 + ratio) ** (1.0 / (len(ranges) + 1))
    points = [
        [(0.5 + (place + 1) * ratio ** -(j + 1)) % 1.0 for j in range(len(ranges))]
        for place in range(FOR_EACH * len(ranges))
    ]
    return [
        {},
        *({entry.key: entry.value(share) for entry, share in zip(ranges, point, strict=True)} for point in points),
    ]
