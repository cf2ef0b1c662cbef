"""The streams of nodes that are faulty, and of nodes that have no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.links.faults import Fault, mislabel, mismeasure
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Calendar, HeldOut, NodeSource, Source, freeze, twin

# The samples of a node as it measures them, where it is faulty.


class FaultySource:
    """A node's samples with faults added; held-out samples stay true.

    The sequence does not depend on how it is cut into draws: random numbers belong to the samples.

    Parameters
    ----------
    node : NodeSource
        The true samples.
    faults : sequence of (Fault, (int, int))
        Faults of data and inputs, in their order, each with the key of its random numbers.
    batch_size : int
        b, the samples that the node draws in a round.
    classes : int or None
        K where targets are classes.
    """

    def __init__(
        self,
        node: NodeSource,
        faults: Sequence[tuple[Fault, tuple[int, int]]],
        batch_size: int,
        classes: int | None,
    ) -> None:
        self._node, self._faults, self._batch_size, self._classes = node, tuple(faults), batch_size, classes
        self._drawn = 0

    def __copy__(self) -> FaultySource:
        """Return a copy with true samples of its own."""
        found = FaultySource(twin(self._node), self._faults, self._batch_size, self._classes)
        found._drawn = self._drawn
        return found

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) and targets (b, q) as the node measures them."""
        points, targets = (np.array(array) for array in self._node.draw(count))
        for fault, (first, second) in self._faults:
            rows = fault.rows(self._drawn, len(points), self._batch_size)
            if rows.start == rows.stop:
                continue
            begin, code, value = self._drawn + rows.start, fault.code, float(fault.value)
            if fault.of == "data" and self._classes is not None:
                mislabel(targets[rows], code, value, self._classes, first, second, begin)
            else:
                mismeasure((targets if fault.of == "data" else points)[rows], code, value, first, second, begin)
        self._drawn += len(points)
        return freeze(points), freeze(targets)

    def held_out(self, samples: int) -> HeldOut:
        """Return the measurements that the node would make without faults."""
        return self._node.held_out(samples)

    def state(self) -> dict[str, Any]:
        """Return the state of the true samples, and how many of them were drawn."""
        return {"node": self._node.state(), "drawn": self._drawn}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state` was taken."""
        self._node.restore(state["node"])
        self._drawn = int(state["drawn"])


def with_faults(
    source: Source, faults: Sequence[Fault], labels: Sequence[int], batch_sizes: Sequence[int], seed: int
) -> Source:
    """Return an opened stream with the faults of the tables added, or the stream itself without faults of data.

    Parameters
    ----------
    source : Source
        The true data.
    faults : sequence of Fault
        With numbers for values and labels for nodes.
    labels, batch_sizes : sequence of int
        Of each node.
    seed : int
        The experiment's.
    """
    if all(fault.of == "messages" for fault in faults):
        return source
    nodes = list(source.nodes)
    for place, (label, size) in enumerate(zip(labels, batch_sizes, strict=True)):
        own = [
            (fault, cast(tuple[int, int], tuple(_key(seed, place, table))))
            for table, fault in enumerate(faults)
            if fault.of != "messages" and label in fault.nodes
        ]
        if own:
            nodes[place] = FaultySource(nodes[place], own, size, source.classes)
    return replace(source, nodes=nodes)


def _key(seed: int, place: int, table: int) -> list[int]:
    found: list[int] = generator(seed, Role.FAULTS, place, table).integers(2**32, size=2).tolist()
    return found


# Nodes without data learn from their neighbours alone.

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
        Of V nodes. Differences between nodes are unknown; true targets of nodes without data are NaN.
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
    """Return the true targets by node index; NaN for nodes without data."""

    def found(position: int, points: Array, drawn: Any) -> Array:
        if order[position] < 0:
            return np.full((len(points), targets), np.nan)
        return targets_of(order[position], points, drawn)

    return found
