"""Messages between blocks whose agents are held in arrays: gathered and scattered a whole block at a time.

The format is that of :mod:`kernelswarm.simulations.wire`, so that either end may be a block of single agents. Where
every batch is whole, the header of a block's messages is the same in every round, and with it the place of each number.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.agent import Outgoing
from kernelswarm.agents.population import Population
from kernelswarm.simulations.wire import Reader, pack, split

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

POINTS, OWN, DUALS, ANSWERS = 1.0, 2.0, 3.0, 4.0


class _Places(NamedTuple):
    """Where the numbers of a message stand, and where in the arrays they go."""

    points: Integers
    nodes: Integers
    answers: Integers
    edges: Integers
    own: Integers
    duals: Integers
    reverse: Integers


class Crossing:
    """The messages between a population and other blocks.

    Parameters
    ----------
    population : Population
        The block's agents.
    boundary : sequence of (int, sequence of int)
        The places of the agents with neighbours in other blocks, and the places of these among their neighbours.
    reader : Reader
        Reads the messages of the nodes in other blocks that the agents hear.
    wanted : mapping of int to mapping of int to int
        For each of these nodes, by a place among its neighbours, the directed edge on which the agent there hears it.
    """

    def __init__(
        self,
        population: Population,
        boundary: Sequence[tuple[int, Sequence[int]]],
        reader: Reader,
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._population = population
        self._reader = reader
        self._wanted = wanted
        self._known: dict[bytes, _Places | None] = {}
        flight, links = population.flight(), population.links
        self._nodes = np.array([place for place, _ in boundary], dtype=np.int64)
        edges = [int(links.start[place]) + slot for place, slots in boundary for slot in slots]
        self._edges = np.array(edges, dtype=np.int64)
        self._reverse = links.reverse[self._edges]
        # A specimen whose numbers say what they stand for shows where each kind goes; the order within is that of
        # the boundary.
        points, values = np.full(flight.points.shape[1:], POINTS), flight.values.shape[1:]
        own = np.full(values, OWN) if population.symmetric else None
        messages = []
        for place, slots in boundary:
            degree = int(links.start[place + 1] - links.start[place])
            duals = np.full(degree, DUALS) if population.sends_duals else None
            answers: list[Array | None] = [np.full(values, ANSWERS)] * degree
            messages.append((population.agents[place].node, Outgoing(points, own, answers, duals), slots))
        specimen = pack(messages)
        header, numbers = split(specimen)
        self._packed = np.frombuffer(specimen).copy()
        begin = len(header) // numbers.itemsize
        kinds = numbers[begin:]
        self._points, self._own, self._duals, self._answers = (
            begin + np.flatnonzero(kinds == kind) for kind in (POINTS, OWN, DUALS, ANSWERS)
        )

    def gather(self) -> bytes:
        """Return what the agents sent last, as ``pack`` writes it; nothing where no neighbour is in another block."""
        packed, flight = self._packed, self._population.flight()
        if not len(packed):
            return b""
        packed[self._points] = flight.points[self._nodes].ravel()
        packed[self._answers] = flight.answers[self._reverse].ravel()
        if len(self._own):
            packed[self._own] = flight.values[self._nodes].ravel()
        if len(self._duals):
            packed[self._duals] = flight.duals[self._edges]
        return packed.tobytes()

    def scatter(self, message: bytes) -> bool:
        """Hand the agents what a block sent; False where some batch in it is not whole."""
        header, numbers = split(message)
        if header not in self._known:
            self._known[header] = self._find(header)
        places = self._known[header]
        if places is None:
            return False
        flight = self._population.flight()
        size, width = flight.points.shape[1:]
        flight.points[places.nodes] = numbers[places.points].reshape(-1, size, width)
        size, outputs = flight.answers.shape[1:]
        flight.answers[places.edges] = numbers[places.answers].reshape(-1, size, outputs)
        if len(places.own):
            flight.values[places.nodes] = numbers[places.own].reshape(-1, size, outputs)
        if len(places.duals):
            flight.sent[places.reverse] = numbers[places.duals]
        return True

    def _find(self, header: bytes) -> _Places | None:
        population = self._population
        size = population.flight().points.shape[1]
        points, nodes, answers, edges, own, duals, reverse = ([] for _ in range(7))
        for layout in self._reader.layouts(header):
            wanted = self._wanted[layout.sender]
            found = {slot: where for slot, where, (length, _) in layout.answers if length == size}
            if layout.points[1][0] != size or found.keys() != wanted.keys():
                return None
            nodes.append(population.places[layout.sender])
            points.append(layout.points[0])
            if layout.own is not None:
                if layout.own[1][0] != size:
                    return None
                own.append(layout.own[0])
            for slot, where in found.items():
                answers.append(where)
                edges.append(wanted[slot])
                if layout.duals is not None:
                    at = layout.duals[0].start + layout.duals[1].index(slot)
                    duals.append(slice(at, at + 1))
                    reverse.append(int(population.links.reverse[wanted[slot]]))
        return _Places(
            _expanded(points),
            _numbers(nodes),
            _expanded(answers),
            _numbers(edges),
            _expanded(own),
            _expanded(duals),
            _numbers(reverse),
        )


def _expanded(slices: Sequence[slice]) -> Integers:
    return _numbers([place for where in slices for place in range(where.start, where.stop)])


def _numbers(values: Sequence[int]) -> Integers:
    return np.array(values, dtype=np.int64)
