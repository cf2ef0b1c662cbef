"""The stream of the centralized learner: every node's samples of the round, in the order of the nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.streams.contract import HeldOut, NodeSource

Array = npt.NDArray[np.float64]


class PooledSource:
    """Draws ``count`` samples from each of several sources and hands them out as one batch.

    Parameters
    ----------
    sources : sequence of NodeSource
        The nodes' own sources.
    """

    def __init__(self, sources: Sequence[NodeSource]) -> None:
        self.sources = list(sources)

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return ``count`` samples of every node, (V * count, p) and (V * count, q); fewer when data is used up."""
        drawn = [source.draw(count) for source in self.sources]
        return np.concatenate([points for points, _ in drawn]), np.concatenate([targets for _, targets in drawn])

    def held_out(self, samples: int) -> HeldOut:
        """Return every node's held-out data after ``samples`` draws each."""
        return pool([source.held_out(samples) for source in self.sources], None)

    def state(self) -> dict[str, Any]:
        """Return the states of the nodes' sources."""
        return {str(place): source.state() for place, source in enumerate(self.sources)}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue every node's source where :meth:`state` was taken."""
        for place, source in enumerate(self.sources):
            source.restore(state[str(place)])


def members(nodes: int, limit: int) -> list[int]:
    """Return the places of the nodes whose held-out data is pooled: all, or ``limit`` evenly spaced ones."""
    return list(range(nodes)) if nodes <= limit else [nodes * place // limit for place in range(limit)]


def pool(sets: Sequence[HeldOut], limit: int | None) -> HeldOut:
    """Join held-out sets into one; over ``limit`` rows, an even and evenly spaced share of each."""
    total = sum(len(held_out.points) for held_out in sets)
    if limit is not None and total > limit:
        share = max(1, limit // len(sets))
        sets = [_thin(held_out, share) for held_out in sets]
    truths = [held_out.truth for held_out in sets if held_out.truth is not None]
    return HeldOut(
        np.concatenate([held_out.points for held_out in sets]),
        np.concatenate([held_out.targets for held_out in sets]),
        np.concatenate(truths) if len(truths) == len(sets) else None,
    )


def _thin(held_out: HeldOut, share: int) -> HeldOut:
    size = len(held_out.points)
    if size <= share:
        return held_out
    kept = np.linspace(0, size - 1, share).round().astype(np.int64)
    truth = None if held_out.truth is None else held_out.truth[kept]
    return HeldOut(held_out.points[kept], held_out.targets[kept], truth)
