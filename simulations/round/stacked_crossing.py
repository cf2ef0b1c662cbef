"""Messages between blocks whose nodes have copies of their learner and are held in arrays: gathered and scattered.

The format is that of :func:`~kernelswarm.simulations.round.wire.pack_ensemble`, so that either end may not be in
arrays yet.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelswarm.agents.node.node import Outgoing
from kernelswarm.agents.populations.lossy_stacked_population import LossyStackedPopulation
from kernelswarm.agents.populations.stacked_population import StackedPopulation
from kernelswarm.simulations.round.crossing import Crossing
from kernelswarm.simulations.round.wire import Reader, joined, pack, parted, split


class StackedCrossing:
    """The messages between nodes with copies, in arrays, and other blocks.

    Parameters
    ----------
    population : StackedPopulation or LossyStackedPopulation
        The block's nodes.
    boundary : sequence of (int, sequence of int)
        As of :class:`~kernelswarm.simulations.round.crossing.Crossing`.
    readers : sequence of Reader
        Those of each copy's messages, and that of mixture weights.
    wanted : mapping of int to mapping of int to int
        As of ``Crossing``.
    """

    def __init__(
        self,
        population: StackedPopulation | LossyStackedPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        readers: Sequence[Reader],
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._nodes = [place for place, _ in boundary]
        self._ensemble: list[Crossing | bytes] = []  # bytes for a copy that sends nothing
        agents = population.agents
        for each in population.populations:
            if each.agents[0].rule.communicates:
                self._ensemble.append(Crossing(each, boundary, wanted))
                continue
            silent = Outgoing(np.zeros((0, agents[0].width)), None, (), None)
            self._ensemble.append(pack([(agents[place].node, silent, slots) for place, slots in boundary]))
        self._mixture = (
            Crossing(population, boundary, wanted)
            if isinstance(population, LossyStackedPopulation)
            else _Shares(population, boundary, readers[-1])
        )

    def gather(self) -> bytes:
        """Return what the nodes sent last, as ``pack_ensemble`` writes it; nothing where nobody else receives it."""
        if not self._nodes:
            return b""
        ensemble = [each if isinstance(each, bytes) else each.gather() for each in self._ensemble]
        return joined([*ensemble, self._mixture.gather()])

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Hand the nodes what the other blocks sent."""
        parts = [parted(message, 1 + len(self._ensemble)) for message in messages if message]
        for k, each in enumerate(self._ensemble):
            if not isinstance(each, bytes):
                each.scatter([part[k] for part in parts])
        self._mixture.scatter([part[-1] for part in parts])


class _Shares:
    """The mixture weights that nodes on ideal links send."""

    def __init__(
        self, population: StackedPopulation, boundary: Sequence[tuple[int, Sequence[int]]], reader: Reader
    ) -> None:
        self._population, self._reader, self._nodes = population, reader, [place for place, _ in boundary]
        agents, logs = population.agents, population.logs
        specimen = [
            (
                agents[place].node,
                Outgoing(logs[place : place + 1], None, [None] * len(agents[place].neighbors), None),
                slots,
            )
            for place, slots in boundary
        ]
        self._header, _ = split(pack(specimen))

    def gather(self) -> bytes:
        return self._header + self._population.logs[self._nodes].tobytes()

    def scatter(self, messages: Sequence[bytes]) -> None:
        logs, places = self._population.logs, self._population.places
        for message in messages:
            header, numbers = split(message)
            for layout in self._reader.layouts(header):
                logs[places[layout.sender]] = numbers[layout.points[0]]
