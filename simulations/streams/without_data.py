"""Nodes that have no data: what they learn, they learn from their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelswarm.simulations.streams.calendars import Calendar
from kernelswarm.simulations.streams.contract import Array, HeldOut, NodeSource, Source, freeze

NO_SAMPLES = Calendar(np.zeros(0, dtype=np.int64), 1)
"""When a node without data has samples: never."""


@dataclass(frozen=True)
class NoSamples:
    """The source of a node without data, from which it draws nothing and on which nothing is measured.

    Parameters
    ----------
    inputs, targets : int
        p and q.
    """

    inputs: int
    targets: int

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return no points (0, p) and no targets (0, q)."""
        return freeze(np.zeros((0, self.inputs))), freeze(np.zeros((0, self.targets)))

    def held_out(self, samples: int) -> HeldOut:
        return HeldOut(*self.draw(0))

    def state(self) -> dict[str, Any]:
        return {"samples": 0}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with nothing."""


def among_others(source: Source, order: Sequence[int], locations: Array | None) -> Source:
    """Return an opened stream of some nodes with nodes among them that have no data.

    Parameters
    ----------
    source : Source
        The stream, opened for the nodes that have data.
    order : sequence of int
        For each of V nodes the place of its data in the stream, -1 where it has none.
    locations : Array or None
        (V, 2) where all nodes are, if they are somewhere.

    Returns
    -------
    Source
        Of V nodes. How far their true targets are from one another is not known; those of a node without data are NaN.
        The names of nodes are as before.
    """

    def spread(own: Sequence[Any], other: Any) -> list[Any]:
        return [own[place] if place >= 0 else other for place in order]

    nodes: list[NodeSource] = spread(source.nodes, NoSamples(source.inputs, source.targets))
    return replace(
        source,
        nodes=nodes,
        lengths=None if source.lengths is None else spread(source.lengths, 0),
        facts={**source.facts, "nodes_without_data": sum(place < 0 for place in order)},
        truth=None if source.truth is None else _in_order(source.truth, order, source.targets),
        noise_free=None if source.noise_free is None else _in_order(source.noise_free, order, source.targets),
        locations=None if source.locations is None else locations,
        differences=None,
        calendars=None if source.calendars is None else spread(source.calendars, NO_SAMPLES),
    )


def _in_order(
    targets_of: Callable[[int, Array, Any], Array], order: Sequence[int], targets: int
) -> Callable[..., Array]:
    """Return the true targets by the places among all nodes; those of a node without data are NaN."""

    def found(position: int, points: Array, drawn: Any) -> Array:
        if order[position] < 0:
            return np.full((len(points), targets), np.nan)
        return targets_of(order[position], points, drawn)

    return found
