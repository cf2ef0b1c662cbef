"""Messages between blocks whose nodes have copies of their learner: gathered and scattered.

A message holds what each copy sends, and last what nodes say of their copies' shares.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelswarm.agents.populations.lossy_stacked_population import LossyStackedPopulation
from kernelswarm.agents.populations.stacked_population import StackedPopulation
from kernelswarm.simulations.round.crossing import Crossing
from kernelswarm.simulations.round.wire import joined, parted


class StackedCrossing:
    """The messages between nodes with copies and other blocks.

    Parameters
    ----------
    population : StackedPopulation or LossyStackedPopulation
        The block's nodes.
    boundary : sequence of (int, sequence of int)
        As of :class:`~kernelswarm.simulations.round.crossing.Crossing`.
    wanted : mapping of int to mapping of int to int
        As of ``Crossing``.
    """

    def __init__(
        self,
        population: StackedPopulation | LossyStackedPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._sends = bool(boundary)
        talking = [each for each in population.populations if each.agents[0].rule.communicates]
        self._parts: list[Crossing | _Shares] = [Crossing(each, boundary, wanted) for each in talking]
        if isinstance(population, LossyStackedPopulation):
            self._parts.append(Crossing(population, boundary, wanted))
        else:
            self._parts.append(_Shares(population, [place for place, _ in boundary]))

    def gather(self) -> bytes:
        """Return what the nodes sent last; nothing where no other block receives it."""
        return joined([each.gather() for each in self._parts]) if self._sends else b""

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Hand the nodes what the other blocks sent."""
        parts = [parted(message, len(self._parts)) for message in messages if message]
        for each, received in zip(self._parts, zip(*parts, strict=True), strict=False):
            each.scatter(received)


class _Shares:
    """The mixture weights that nodes on ideal links send: rows of a label and as many numbers as there are copies.

    Parameters
    ----------
    population : StackedPopulation
        The block's nodes.
    places : sequence of int
        The places of those that send to other blocks.
    """

    def __init__(self, population: StackedPopulation, places: Sequence[int]) -> None:
        self._population, self._places = population, list(places)
        self._labels = np.array([population.agents[place].node for place in places], dtype=np.float64)

    def gather(self) -> bytes:
        return np.column_stack([self._labels, self._population.logs[self._places]]).tobytes()

    def scatter(self, messages: Sequence[bytes]) -> None:
        logs, places = self._population.logs, self._population.places
        for message in messages:
            for label, *numbers in np.frombuffer(message).reshape(-1, 1 + logs.shape[1]).tolist():
                if int(label) in places:
                    logs[places[int(label)]] = numbers
