"""The samples of a node as it measures them, where it is faulty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.unreliable.faults import Fault, mislabel, mismeasure
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource, Source, freeze, twin

Array = npt.NDArray[np.float64]


class FaultySource:
    """A node's samples with its faults in them; what it is measured on is true.

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
        """Return what the node would measure if it were sound."""
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
    """Return an opened stream whose faulty nodes measure what their tables say; itself where none does.

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
