"""Which methods are worth their bytes: those of which no other errs as little for as few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kernelswarm.simulations.reproductions.networks.methods import Family

NEAR = 1.1
"""An error within this factor of another one is as good."""


class Point(NamedTuple):
    """A method with what its nodes send in a run, and its mean error."""

    method: str
    family: Family
    bytes: float
    error: float


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other dominates, with at most their bytes and error and less of one; by their bytes.

    What one learner does with all samples is left out: no node has its function. Learners alone send 0 bytes.

    Examples
    --------
    >>> points = [Point("c", "nulls", 2.0, 4.0), Point("a", "values", 1.0, 3.0), Point("b", "vectors", 1.0, 3.0)]
    >>> [point.method for point in front(points)]
    ['a', 'b']
    """
    network = [point for point in points if point.family != "one learner"]

    def dominated(point: Point) -> bool:
        return any(
            other.bytes <= point.bytes
            and other.error <= point.error
            and (other.bytes, other.error) != (point.bytes, point.error)
            for other in network
        )

    return sorted((point for point in network if not dominated(point)), key=lambda point: point.bytes)


def corners(front: Sequence[Point]) -> list[Point]:
    """Return the point of a front with the fewest bytes of those that err at most :data:`NEAR` times the least error.

    Of what is cheaper than it the same again, and so on; by their bytes.
    """
    found: list[Point] = []
    cheaper = list(front)
    while cheaper:
        found.append(next(point for point in cheaper if point.error <= NEAR * cheaper[-1].error))
        cheaper = [point for point in cheaper if point.bytes < found[-1].bytes]
    return found[::-1]
