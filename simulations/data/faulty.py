"""The streams of faulty nodes, and of nodes without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.links.faults import Fault, mislabel, mismeasure
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Calendar, HeldOut, NodeSource, Source, freeze, twin

# The samples of a faulty node.


class FaultySource:
    """A node's samples with faults; held-out samples have none.

    The sequence does not depend on the sizes of the draws, since each sample has its own random numbers.

    Parameters
    ----------
    node : NodeSource
        The true samples.
    faults : sequence of (Fault, (int, int))
        Faults of targets and inputs, in this order, each with the key of its random numbers.
    batch_size : int
        b, the number of the node's samples in a round.
    classes : int or None
        Number of classes, or None for regressions.
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
        """Return a copy that draws its own true samples."""
        found = FaultySource(twin(self._node), self._faults, self._batch_size, self._classes)
        found._drawn = self._drawn
        return found

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) and targets (b, q) with the node's faults."""
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
        """Return test samples without faults."""
        return self._node.held_out(samples)

    def state(self) -> dict[str, Any]:
        """Return the state of the true source, and the number of drawn samples."""
        return {"node": self._node.state(), "drawn": self._drawn}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        self._node.restore(state["node"])
        self._drawn = int(state["drawn"])


def with_faults(
    source: Source, faults: Sequence[Fault], labels: Sequence[int], batch_sizes: Sequence[int], seed: int
) -> Source:
    """Return an opened stream with the faults of targets and inputs, or the stream itself if there are none.

    Parameters
    ----------
    source : Source
        The true data.
    faults : sequence of Fault
        The faults, with resolved values and with nodes given by label.
    labels, batch_sizes : sequence of int
        The label and the batch size of each node.
    seed : int
        The experiment's seed.
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


# Nodes without data, which learn from their neighbours alone.

NO_SAMPLES = Calendar(np.zeros(0, dtype=np.int64), 1)
"""The calendar of a node without data."""


@dataclass(frozen=True)
class NoSamples:
    """The source of a node without data: no training samples and no test samples.

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
        """Do nothing."""


def among_others(source: Source, order: Sequence[int], locations: Array | None) -> Source:
    """Return an opened stream with additional nodes that have no data.

    Parameters
    ----------
    source : Source
        The stream, opened for the nodes with data.
    order : sequence of int
        For each of V nodes, the place of its data in the stream, or -1 for no data.
    locations : Array or None
        Positions of all nodes, (V, 2), if known.

    Returns
    -------
    Source
        The stream of V nodes. Differences between nodes are unknown, and true targets of nodes without data are NaN.
        The names of nodes are unchanged.
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
