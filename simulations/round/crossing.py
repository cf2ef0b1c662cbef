"""Messages between blocks whose agents are held in arrays: gathered and scattered a whole block at a time.

The format is that of :mod:`kernelswarm.simulations.round.wire`, so that either end may be a block of single agents.
Where every batch is whole, or empty of nodes whose data have ended, the headers of the messages are the same in every
round, and with them the place of each number.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.population import Population
from kernelswarm.agents.compiled.vector_population import VectorPopulation
from kernelswarm.agents.node.agent import columns_behind_values
from kernelswarm.agents.node.node import Outgoing
from kernelswarm.agents.populations.lossy_stacked_population import LossyStackedPopulation
from kernelswarm.protocols.compiling import njit_no_refcount
from kernelswarm.simulations.round.wire import Reader, pack, split

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

POINTS, OWN, DUALS, ANSWERS, STAMPS = 1.0, 2.0, 3.0, 4.0, 5.0


class _Places(NamedTuple):
    """Where the numbers of messages stand, one message behind the other, and where in the arrays they go."""

    heads: Integers
    expected: Array  # what stands at the heads
    points: Integers
    nodes: Integers
    answers: Integers
    edges: Integers
    own: Integers
    duals: Integers
    reverse: Integers
    previous: Integers
    answered: Integers


class Crossing:
    """The messages between a population and other blocks.

    Parameters
    ----------
    population : Population, VectorPopulation or LossyStackedPopulation
        The block's nodes; of the last, what they say of their copies' shares.
    boundary : sequence of (int, sequence of int)
        The places of the agents with neighbours in other blocks, and the places of these among their neighbours.
    reader : Reader
        Reads the messages of the nodes in other blocks that the agents hear.
    wanted : mapping of int to mapping of int to int
        For each of these nodes, by a place among its neighbours, the directed edge on which the agent there hears it.
    """

    def __init__(
        self,
        population: Population | VectorPopulation | LossyStackedPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        reader: Reader,
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._population = population
        self._reader = reader
        self._wanted = wanted
        self._places: _Places | None = None
        flight, links, live = population.flight(), population.links, population.live
        self._nodes = np.array([place for place, _ in boundary if live[place]], dtype=np.int64)
        edges = [int(links.start[place]) + slot for place, slots in boundary for slot in slots]
        self._edges = np.array(edges, dtype=np.int64)
        self._reverse = links.reverse[self._edges[live[links.other[self._edges]]]]
        # A specimen whose numbers say what they stand for shows where each kind goes; the order within is that of
        # the boundary.
        size, outputs = flight.values.shape[1:]
        self._columns = outputs + columns_behind_values(population.agents[0].rule)
        replayed = population.replayed
        points, values = np.full(flight.points.shape[1:], POINTS), (size, self._columns)
        own, answer = np.full(values, OWN), np.full(values, ANSWERS)
        messages = []
        for place, slots in boundary:
            others = links.other[links.start[place] : links.start[place + 1]]
            duals = np.full(len(others), DUALS) if population.sends_duals else None
            answers = [_of(answer, live[other]) if population.answers else None for other in others]
            stamps = np.full(1 + len(others), STAMPS) if len(flight.previous) else None
            sent = _of(points, live[place]), _of(own, live[place]) if population.symmetric else None
            messages.append(
                (population.agents[place].node, Outgoing(*sent, answers, duals, stamps, replayed=replayed), slots)
            )
        specimen = pack(messages)
        header, numbers = split(specimen)
        self._packed = np.frombuffer(specimen).copy()
        begin = len(header) // numbers.itemsize
        kinds = numbers[begin:]
        self._points, self._own, self._duals, self._answers, self._stamps = (
            begin + np.flatnonzero(kinds == kind) for kind in (POINTS, OWN, DUALS, ANSWERS, STAMPS)
        )
        self._slots = np.array([len(slots) for _, slots in boundary], dtype=np.int64)

    def gather(self) -> bytes:
        """Return what the agents sent last, as ``pack`` writes it; nothing where no neighbour is in another block."""
        packed, flight = self._packed, self._population.flight()
        if not len(packed):
            return b""
        _gather(
            packed,
            self._points,
            self._nodes,
            self._answers,
            self._reverse,
            self._own,
            self._duals,
            self._edges,
            self._stamps,
            self._slots,
            self._columns,
            flight.points,
            flight.values,
            flight.answers,
            flight.row_sums,
            flight.answer_row_sums,
            flight.duals,
            flight.previous,
            flight.answered,
            flight.variances,
            flight.answer_variances,
        )
        return packed.tobytes()

    def scatter(self, messages: Sequence[bytes]) -> bool:
        """Hand the agents what the other blocks sent; False, and nothing, where some batch is not as it was: whole, or
        empty of a node whose data have ended."""
        if not messages:
            return True
        numbers = np.frombuffer(b"".join(messages))
        if self._places is not None and self._scatter(numbers, self._places):
            return True
        self._places = self._find(messages)
        return self._places is not None and self._scatter(numbers, self._places)

    def _scatter(self, numbers: Array, places: _Places) -> bool:
        flight = self._population.flight()
        whole: bool = _scatter(
            numbers,
            *places,
            self._columns,
            flight.points,
            flight.values,
            flight.answers,
            flight.row_sums,
            flight.answer_row_sums,
            flight.sent,
            flight.previous,
            flight.answered,
            flight.variances,
            flight.answer_variances,
        )
        return whole

    def _find(self, messages: Sequence[bytes]) -> _Places | None:
        population = self._population
        sizes = population.flight().points.shape[1] * population.live
        edges_of = np.diff(population.links.start)
        asked = np.repeat(sizes[: len(edges_of)], edges_of)  # the points at which each edge's own node is answered
        heads: list[int] = []
        expected: list[float] = []
        found: dict[str, list[int]] = {name: [] for name in _Places._fields[2:]}
        begin = 0

        def moved(where: slice) -> range:
            return range(begin + where.start, begin + where.stop)

        for message in messages:
            header, numbers = split(message)
            length = len(header) // numbers.itemsize
            heads += moved(slice(0, length))
            expected += numbers[:length].tolist()
            for layout in self._reader.layouts(header):
                wanted, place = self._wanted[layout.sender], population.places[layout.sender]
                size = sizes[place]
                given = {slot: where for slot, where, (rows, _) in layout.answers if rows == asked[wanted[slot]]}
                if layout.points[1][0] != size or (population.answers and given.keys() != wanted.keys()):
                    return None
                if size:
                    found["nodes"].append(place)
                found["points"] += moved(layout.points[0])
                if layout.own is not None:
                    if layout.own[1][0] != size:
                        return None
                    found["own"] += moved(layout.own[0])
                if layout.stamps is not None:
                    found["previous"].append(begin + layout.stamps[0].start)
                for slot, edge in wanted.items():
                    if layout.stamps is not None:
                        found["answered"].append(begin + layout.stamps[0].start + layout.stamps[1].index(1 + slot))
                    if population.answers:
                        found["answers"] += moved(given[slot])
                    if asked[edge]:
                        found["edges"].append(edge)
                    if layout.duals is not None:
                        found["duals"].append(begin + layout.duals[0].start + layout.duals[1].index(slot))
                        found["reverse"].append(int(population.links.reverse[edge]))
            begin += len(numbers)
        numbered = {name: np.array(places, dtype=np.int64) for name, places in found.items()}
        return _Places(np.array(heads, dtype=np.int64), np.array(expected, dtype=np.float64), **numbered)


def _of(batch: Array, live: bool) -> Array:
    return batch if live else batch[:0]


# A block of one node spends a few microseconds on its round: calls of numpy for each kind of number would double that.


@njit_no_refcount
def _gather(
    packed: Array,
    points_at: Integers,
    nodes: Integers,
    answers_at: Integers,
    reverse: Integers,
    own_at: Integers,
    duals_at: Integers,
    edges: Integers,
    stamps_at: Integers,
    slots: Integers,  # how many of a node's neighbours are elsewhere
    columns: int,  # C, one more where row sums are sent, and one more where variances are
    points: Array,
    values: Array,
    answers: Array,
    row_sums: Array,
    answer_row_sums: Array,
    duals: Array,
    previous: Integers,
    answered: Integers,
    variances: Array,
    answer_variances: Array,
) -> None:
    _, size, width = points.shape
    outputs = values.shape[2]
    for i in range(len(nodes)):
        for k in range(size):
            for d in range(width):
                packed[points_at[(i * size + k) * width + d]] = points[nodes[i], k, d]
            if len(own_at):
                for c in range(outputs):
                    packed[own_at[(i * size + k) * columns + c]] = values[nodes[i], k, c]
                if columns > outputs:
                    packed[own_at[(i * size + k) * columns + outputs]] = row_sums[nodes[i], k]
                if columns > outputs + 1:
                    packed[own_at[(i * size + k) * columns + outputs + 1]] = variances[nodes[i], k]
    for e in range(len(reverse) if len(answers_at) else 0):
        for k in range(size):
            for c in range(outputs):
                packed[answers_at[(e * size + k) * columns + c]] = answers[reverse[e], k, c]
            if columns > outputs:
                packed[answers_at[(e * size + k) * columns + outputs]] = answer_row_sums[reverse[e], k]
            if columns > outputs + 1:
                packed[answers_at[(e * size + k) * columns + outputs + 1]] = answer_variances[reverse[e], k]
    for e in range(len(duals_at)):
        packed[duals_at[e]] = duals[edges[e]]
    if len(stamps_at):
        at, e = 0, 0
        for i in range(len(nodes)):
            packed[stamps_at[at]] = previous[nodes[i]]
            for k in range(slots[i]):
                packed[stamps_at[at + 1 + k]] = answered[reverse[e + k]]
            at, e = at + 1 + slots[i], e + slots[i]


@njit_no_refcount
def _scatter(
    numbers: Array,
    heads: Integers,
    expected: Array,
    points_at: Integers,
    nodes: Integers,
    answers_at: Integers,
    edges: Integers,
    own_at: Integers,
    duals_at: Integers,
    reverse: Integers,
    previous_at: Integers,
    answered_at: Integers,
    columns: int,
    points: Array,
    values: Array,
    answers: Array,
    row_sums: Array,
    answer_row_sums: Array,
    sent: Array,
    previous: Integers,
    answered: Integers,
    variances: Array,
    answer_variances: Array,
) -> bool:
    for k in range(len(heads)):
        if heads[k] >= len(numbers) or numbers[heads[k]] != expected[k]:
            return False
    _, size, width = points.shape
    outputs = values.shape[2]
    for i in range(len(nodes)):
        for k in range(size):
            for d in range(width):
                points[nodes[i], k, d] = numbers[points_at[(i * size + k) * width + d]]
            if len(own_at):
                for c in range(outputs):
                    values[nodes[i], k, c] = numbers[own_at[(i * size + k) * columns + c]]
                if columns > outputs:
                    row_sums[nodes[i], k] = numbers[own_at[(i * size + k) * columns + outputs]]
                if columns > outputs + 1:
                    variances[nodes[i], k] = numbers[own_at[(i * size + k) * columns + outputs + 1]]
    for e in range(len(edges) if len(answers_at) else 0):
        for k in range(size):
            for c in range(outputs):
                answers[edges[e], k, c] = numbers[answers_at[(e * size + k) * columns + c]]
            if columns > outputs:
                answer_row_sums[edges[e], k] = numbers[answers_at[(e * size + k) * columns + outputs]]
            if columns > outputs + 1:
                answer_variances[edges[e], k] = numbers[answers_at[(e * size + k) * columns + outputs + 1]]
    for e in range(len(duals_at)):
        sent[reverse[e]] = numbers[duals_at[e]]
    for i in range(len(previous_at)):
        previous[nodes[i]] = int(numbers[previous_at[i]])
    for e in range(len(answered_at)):
        answered[edges[e]] = int(numbers[answered_at[e]])
    return True
