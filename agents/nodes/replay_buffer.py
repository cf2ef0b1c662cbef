"""The buffer of own and received points that a node replays."""

from collections.abc import Mapping

import numpy as np

from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.protocols.chance import WORD, threefry, uniform
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import njit_no_refcount
from kernelswarm.protocols.replay import Replay

KEPT, DRAWN, LARGEST = range(3)
"""Counters of a buffer: the points in it, the random numbers drawn, and the index of the largest rank."""


class ReplayBuffer:
    """A uniform sample, of fixed size, of all different points that a node has drawn or received.

    Every point has a rank, a random number that depends on its coordinates and the experiment's seed; the points with
    the least ranks are kept (bottom-k sampling: Cohen and Kaplan 2007). Repeated points count once, so points from far
    nodes, which arrive through many neighbours, are as likely to be kept as the node's own. Ranks are the same at all
    nodes, so a point kept by one node can spread to all. The buffer does not depend on the learned functions.

    A rank depends on all bits of the coordinates. For own data they are the same in every unit
    (`kernelswarm.last_bits`); literal coordinates, with ``standardize = false``, have other ranks in another unit.

    Parameters
    ----------
    replay : Replay
        Number of points kept and of points drawn per round.
    inputs : int
        p.
    neighborhood : Neighborhood
        The node, with the key of random numbers.
    """

    __slots__ = ("counts", "key", "own_key", "points", "ranks", "replay")

    def __init__(self, replay: Replay, inputs: int, neighborhood: Neighborhood) -> None:
        self.replay, self.key = replay, neighborhood.key
        self.own_key: tuple[int, int] = threefry(*self.key, neighborhood.node & WORD, 0)
        self.points = np.zeros((replay.buffer, inputs))
        self.ranks: Integers = np.zeros(replay.buffer, dtype=np.int64)
        self.counts: Integers = np.zeros(3, dtype=np.int64)

    def keep(self, points: Array) -> None:
        """Add points (n, p) that were drawn or received."""
        keep(self.points, self.ranks, self.counts, np.ascontiguousarray(points, np.float64), *self.key)

    def draw(self) -> Array:
        """Return the points to replay in a round, (r, p), drawn with replacement; none from an empty buffer."""
        drawn = np.empty((self.replay.most, self.points.shape[1]))
        return drawn[: draw(self.points, self.counts, self.replay.points, drawn, *self.own_key)]

    def forget(self) -> None:
        self.counts[[KEPT, LARGEST]] = 0

    def arrays(self) -> dict[str, AnyArray]:
        count = self.counts[KEPT]
        return {
            "replay.points": self.points[:count].copy(),
            "replay.ranks": self.ranks[:count].copy(),
            "replay.counts": self.counts.copy(),
        }

    def take_over(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the buffer from :meth:`arrays`."""
        self.counts[:] = arrays["replay.counts"]
        count = self.counts[KEPT]
        if count < 0 or not 0 <= self.counts[LARGEST] < max(count, 1):
            raise ValueError(f"the largest rank of {count} points is at {self.counts[LARGEST]}")
        self.points[:count], self.ranks[:count] = arrays["replay.points"], arrays["replay.ranks"]


@njit_no_refcount
def keep(kept: Array, ranks: Integers, counts: Integers, points: Array, first: int, second: int) -> None:
    """Insert the points (n, p) with ranks among the m least into the buffer ``kept`` (m, p)."""
    words = points.view(np.int64)
    for n in range(len(points)):
        high, low = first, second
        for c in range(points.shape[1]):
            high, low = threefry(high, low, words[n, c] & WORD, (words[n, c] >> 32) & WORD)
        rank = (high << 31) | (low >> 1)  # 63 bits
        full = counts[KEPT] == len(kept)
        if full and rank >= ranks[counts[LARGEST]]:
            continue
        known = False
        for m in range(counts[KEPT]):
            known |= ranks[m] == rank
        if known:
            continue
        place = counts[LARGEST] if full else counts[KEPT]
        counts[KEPT] += not full
        ranks[place] = rank
        for c in range(points.shape[1]):
            kept[place, c] = points[n, c]
        largest = 0
        for m in range(1, counts[KEPT]):
            if ranks[m] > ranks[largest]:
                largest = m
        counts[LARGEST] = largest


@njit_no_refcount
def draw(kept: Array, counts: Integers, replay: float, drawn: Array, first: int, second: int) -> int:
    """Fill ``drawn`` (ceil(r), p) with uniformly drawn points of the buffer, and return their number."""
    count = len(drawn)
    if replay < 1.0:
        count = int(uniform(first, second, counts[DRAWN]) < replay)
        counts[DRAWN] += 1
    if not counts[KEPT]:
        return 0
    for n in range(count):
        place = int(uniform(first, second, counts[DRAWN]) * counts[KEPT])
        counts[DRAWN] += 1
        for c in range(kept.shape[1]):
            drawn[n, c] = kept[place, c]
    return count
