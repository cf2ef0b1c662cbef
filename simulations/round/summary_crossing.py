"""Messages with cells between blocks: a row has the sender's label, the place of the receiver, and a cell."""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelswarm.agents.summaries.population import SummaryPopulation


class SummaryCrossing:
    """The messages between a population whose cells travel and other blocks.

    Parameters
    ----------
    population, boundary, wanted
        As of :class:`~kernelswarm.simulations.round.crossing.Crossing`.
    """

    def __init__(
        self,
        population: SummaryPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._population, self._boundary, self._wanted = population, boundary, wanted
        self._width = 2 + population.agents[0].width_of_message

    def gather(self) -> bytes:
        rows = []
        for place, slots in self._boundary:
            agent = self._population.agents[place]
            for slot in slots:
                if agent.mail.speaks[slot]:
                    rows.append(np.concatenate([[agent.node, slot], agent.mail.sent[slot]]))
        return np.array(rows, dtype=np.float64).tobytes()

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Hand the nodes what the other blocks sent."""
        for row in np.frombuffer(b"".join(messages)).reshape(-1, self._width):
            edge = self._wanted.get(int(row[0]), {}).get(int(row[1]))
            if edge is not None:
                mail = self._population.mail
                mail.received[edge], mail.arrived[edge] = row[2:], True
