"""Messages between blocks: gathered from a block's arrays and scattered to another's, a whole block at a time.

A message is float64 numbers. First comes a header: its length, and for each node that sends to other blocks its label,
how many points it sends, at how many it sends values of its own, whether there are dual variables, and stamps, how many
of the points are replayed, the number of addressees, and for each addressee its place among the neighbours and the
length of the answer. What is not there at all has the length ABSENT. Then come, node by node, the points, own values,
dual variables, stamps and answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.nodes.agent import columns_behind_values
from kernelswarm.agents.nodes.arrays import ABSENT, Flight, Links
from kernelswarm.agents.nodes.population import Population
from kernelswarm.agents.nodes.stacked_population import StackedPopulation
from kernelswarm.agents.nodes.summaries_population import SummaryPopulation
from kernelswarm.agents.nodes.vector_population import VectorPopulation
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import force_inline, njit_no_refcount

SENDER, POINTS, OWN, DUALS, STAMPS, REPLAYED, ADDRESSEES, ENTRIES = range(8)
"""What a header says of a message, and how many entries that takes; behind them come the place of each addressee and
the length of the answer to it."""


class _Boundary(NamedTuple):
    """The nodes that send to other blocks, and over which edges."""

    nodes: Integers  # (B,) their places
    labels: Integers  # (B,)
    begins: Integers  # (B + 1,) where the edges of each begin
    slots: Integers  # the places of these neighbours among all
    edges: Integers


class _Received(NamedTuple):
    """The nodes of other blocks that send to these, and over which edges."""

    labels: Integers  # (outside,) sorted
    begins: Integers  # (outside + 1,) where the edges of each begin
    edges: Integers  # by the place among the sender's neighbours, ABSENT where that is no node here
    owners: Integers  # the places of these nodes


class _Form(NamedTuple):
    """What messages hold besides points."""

    columns: int  # C, one more where row sums are sent, and one more where variances are
    answers: bool
    own: bool
    duals: bool
    stamps: bool


class Crossing:
    """The messages between a population and other blocks.

    Parameters
    ----------
    population : Population, VectorPopulation or StackedPopulation
        The block's nodes; of the last, their mixture weights.
    boundary : sequence of (int, sequence of int)
        The places of the agents with neighbours in other blocks, and the places of these among their neighbours.
    wanted : mapping of int to mapping of int to int
        For each node in another block that sends to this one, by a place among its neighbours, the directed edge on
        which the agent there receives.
    """

    def __init__(
        self,
        population: Population | VectorPopulation | StackedPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._population = population
        links, flight, agents = population.links, population.flight(), population.agents
        places = [place for place, _ in boundary]
        begins = np.cumsum([0, *[len(slots) for _, slots in boundary]])
        self._boundary = _Boundary(
            _integers(places),
            _integers([agents[place].node for place in places]),
            _integers(begins),
            _integers([slot for _, slots in boundary for slot in slots]),
            _integers([links.start[place] + slot for place, slots in boundary for slot in slots]),
        )
        labels = sorted(wanted)
        edges = [[wanted[label].get(slot, ABSENT) for slot in range(1 + max(wanted[label]))] for label in labels]
        every = _integers([edge for each in edges for edge in each])
        self._received = _Received(
            _integers(labels),
            _integers(np.cumsum([0, *map(len, edges)])),
            every,
            np.searchsorted(links.start, every, side="right") - 1,
        )
        outputs, stamps = flight.values.shape[2], len(flight.previous) > 0
        columns = outputs + columns_behind_values(agents[0].rule)
        self._form = _Form(columns, population.answers, population.symmetric, population.sends_duals, stamps)
        points = len(places) * flight.points.shape[1] * flight.points.shape[2]
        values = (len(places) + int(begins[-1])) * flight.values.shape[1] * columns
        self._packed = np.zeros(1 + (ENTRIES + 1) * len(places) + 4 * int(begins[-1]) + points + values)

    def gather(self) -> bytes:
        """Return the last messages of the agents, or none if no neighbour is in another block."""
        if not len(self._boundary.nodes):
            return b""
        population = self._population
        length = _gather(self._packed, self._boundary, self._form, population.links, population.flight())
        return self._packed[:length].tobytes()

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Hand the agents what the other blocks sent."""
        if messages:
            numbers, population = np.frombuffer(b"".join(messages)), self._population
            _scatter(numbers, self._received, self._form, population.links, population.flight())


def _integers(numbers: Sequence[int] | Integers) -> Integers:
    return np.array(numbers, dtype=np.int64)


# A block of one node spends a few microseconds on its round: calls of numpy for each kind of number would double that.


@force_inline
def _put(packed: Array, at: int, form: _Form, values: Array, row_sums: Array, variances: Array) -> int:
    """Write values at points with the numbers sent beside them; returns the offset of the next number."""
    outputs = values.shape[1]
    for k in range(values.shape[0]):
        for c in range(outputs):
            packed[at + c] = values[k, c]
        if form.columns > outputs:
            packed[at + outputs] = row_sums[k]
        if form.columns > outputs + 1:
            packed[at + outputs + 1] = variances[k]
        at += form.columns
    return at


@force_inline
def _take(numbers: Array, at: int, form: _Form, values: Array, row_sums: Array, variances: Array) -> int:
    """Undo :func:`_put`."""
    outputs = values.shape[1]
    for k in range(values.shape[0]):
        for c in range(outputs):
            values[k, c] = numbers[at + c]
        if form.columns > outputs:
            row_sums[k] = numbers[at + outputs]
        if form.columns > outputs + 1:
            variances[k] = numbers[at + outputs + 1]
        at += form.columns
    return at


@njit_no_refcount
def _gather(packed: Array, boundary: _Boundary, form: _Form, links: Links, flight: Flight) -> int:
    width, size, outputs = flight.points.shape[2], flight.values.shape[1], flight.values.shape[2]
    at = 1
    for b in range(len(boundary.nodes)):
        node, begin, end = boundary.nodes[b], boundary.begins[b], boundary.begins[b + 1]
        packed[at + SENDER], packed[at + POINTS] = boundary.labels[b], flight.following[node]
        packed[at + OWN] = flight.evaluated[node] if form.own else ABSENT
        packed[at + DUALS], packed[at + STAMPS] = form.duals, form.stamps
        packed[at + REPLAYED] = flight.following[node] - flight.samples[node]
        packed[at + ADDRESSEES] = end - begin
        at += ENTRIES
        for k in range(begin, end):
            packed[at] = boundary.slots[k]
            packed[at + 1] = ABSENT
            if form.answers:
                edge = boundary.edges[k]
                packed[at + 1] = _answer_to(edge, links.reverse[edge], form, links, flight)
            at += 2
    packed[0] = at
    for b in range(len(boundary.nodes)):
        node, begin, end = boundary.nodes[b], boundary.begins[b], boundary.begins[b + 1]
        for k in range(flight.following[node]):
            for d in range(width):
                packed[at + d] = flight.points[node, k, d]
            at += width
        if form.own:
            count, place = flight.evaluated[node], node * size
            row_sums, variances = line(flight.row_sums, place, count), line(flight.variances, place, count)
            at = _put(packed, at, form, table(flight.values, place * outputs, count, outputs), row_sums, variances)
        if form.duals:
            for k in range(begin, end):
                packed[at] = flight.duals[boundary.edges[k]]
                at += 1
        if form.stamps:
            packed[at] = flight.previous[node]
            at += 1
            for k in range(begin, end):
                packed[at] = flight.answered[links.reverse[boundary.edges[k]]]
                at += 1
        if form.answers:
            for k in range(begin, end):
                edge = boundary.edges[k]
                count, place = _answer_to(edge, links.reverse[edge], form, links, flight), links.reverse[edge] * size
                row_sums = line(flight.answer_row_sums, place, count)
                variances = line(flight.answer_variances, place, count)
                at = _put(packed, at, form, table(flight.answers, place * outputs, count, outputs), row_sums, variances)
    return at


@force_inline
def _place_of(label: float, received: _Received) -> int:
    """Return the index of a node among the senders of other blocks, or ABSENT."""
    first, last = 0, len(received.labels)
    while first < last:
        middle = (first + last) // 2
        if received.labels[middle] < label:
            first = middle + 1
        else:
            last = middle
    return first if first < len(received.labels) and received.labels[first] == label else ABSENT


@force_inline
def _edge_of(place: int, slot: int, received: _Received) -> int:
    """Return the place of the edge on which the neighbour in a place receives from a node elsewhere, or ABSENT."""
    at = received.begins[place] + slot
    return at if place != ABSENT and at < received.begins[place + 1] and received.edges[at] != ABSENT else ABSENT


@force_inline
def _answer_to(edge: int, answer: int, form: _Form, links: Links, flight: Flight) -> int:
    """Return at how many points of a neighbour, over an edge, a node answers, with the answer in a place."""
    if form.stamps:
        return int(flight.answered_points[answer])
    return int(flight.evaluated[links.other[edge]])


@njit_no_refcount
def _scatter(numbers: Array, received: _Received, form: _Form, links: Links, flight: Flight) -> None:
    width, size, outputs = flight.points.shape[2], flight.values.shape[1], flight.values.shape[2]
    at = 0
    while at < len(numbers):
        head, end = at + 1, at + int(numbers[at])
        at = end
        while head < end:
            place, points, own = (
                _place_of(numbers[head], received),
                int(numbers[head + POINTS]),
                int(numbers[head + OWN]),
            )
            duals, stamps = numbers[head + DUALS] > 0.0, numbers[head + STAMPS] > 0.0
            addressees, node = int(numbers[head + ADDRESSEES]), len(links.start) - 1 + place
            if place != ABSENT:
                flight.following[node] = points
                if stamps:
                    flight.samples[node], flight.evaluated[node] = points - int(numbers[head + REPLAYED]), max(own, 0)
                for k in range(points):
                    for d in range(width):
                        flight.points[node, k, d] = numbers[at + k * width + d]
            head += ENTRIES
            at += points * width
            if own != ABSENT:
                if place != ABSENT:
                    there = node * size
                    row_sums, variances = line(flight.row_sums, there, own), line(flight.variances, there, own)
                    _take(numbers, at, form, table(flight.values, there * outputs, own, outputs), row_sums, variances)
                at += own * form.columns
            at_stamps = at + addressees * duals
            at_answers = at_stamps + (1 + addressees) * stamps
            if stamps and place != ABSENT:
                flight.previous[node] = int(numbers[at_stamps])
            for k in range(addressees):
                found, length = _edge_of(place, int(numbers[head + 2 * k]), received), int(numbers[head + 2 * k + 1])
                if found != ABSENT:
                    edge, owner = received.edges[found], received.owners[found]
                    if duals:
                        flight.sent[links.reverse[edge]] = numbers[at + k]
                    if stamps:
                        flight.answered[edge] = int(numbers[at_stamps + 1 + k])
                    if stamps and length >= 0:
                        flight.answered_points[edge] = length
                    if length > 0:
                        there = edge * size
                        if not stamps:  # they lie closer
                            begin = links.start[owner]
                            there = begin * size + (edge - begin) * flight.evaluated[owner]
                        row_sums = line(flight.answer_row_sums, there, length)
                        variances = line(flight.answer_variances, there, length)
                        answers = table(flight.answers, there * outputs, length, outputs)
                        _take(numbers, at_answers, form, answers, row_sums, variances)
                at_answers += max(length, 0) * form.columns
            at = at_answers
            head += 2 * addressees


# Messages with cells between blocks: a row has the sender's label, the place of the receiver, and a cell.


class SummaryCrossing:
    """The messages between a population whose cells travel and other blocks.

    Parameters
    ----------
    population, boundary, wanted
        As of :class:`~kernelswarm.simulations.engine.crossing.Crossing`.
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


# Strings of bytes that travel as one between blocks, and back, bit for bit.


def joined(parts: Sequence[bytes]) -> bytes:
    """Write some strings of bytes behind the lengths of all of them."""
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return b"".join([lengths.tobytes(), *parts])


def parted(message: bytes, count: int) -> list[bytes]:
    """Undo :func:`joined` of so many strings."""
    found, begin = [], 8 * count
    for length in np.frombuffer(message[:begin], dtype=np.int64).tolist():
        found.append(message[begin : begin + length])
        begin += length
    return found


def with_bands(message: bytes, bands: Mapping[int, Array]) -> bytes:
    """Append the messages of nodes' bands, (C, 2) by label, and last the count of their numbers."""
    rows = np.array([[node, *numbers.flat] for node, numbers in bands.items()], dtype=np.float64)
    return b"".join([message, rows.tobytes(), np.array([rows.size, len(rows)], dtype=np.float64).tobytes()])


def without_bands(message: bytes) -> tuple[bytes, dict[int, Array]]:
    """Undo :func:`with_bands`; nothing was written behind an empty message."""
    if not message:
        return b"", {}
    numbers = np.frombuffer(message)
    size, nodes = int(numbers[-2]), int(numbers[-1])
    rows = numbers[len(numbers) - 2 - size : -2].reshape(nodes, -1)
    rest = message[: len(message) - numbers.itemsize * (2 + size)]
    return rest, {int(row[0]): row[1:].reshape(-1, 2) for row in rows}


# Messages between blocks whose nodes have copies of their learner: gathered and scattered.
#
# A message holds the messages of all copies, and last the copies' shares.


class StackedCrossing:
    """The messages between nodes with copies and other blocks.

    Parameters
    ----------
    population : StackedPopulation
        The block's nodes.
    boundary : sequence of (int, sequence of int)
        As of :class:`~kernelswarm.simulations.engine.crossing.Crossing`.
    wanted : mapping of int to mapping of int to int
        As of ``Crossing``.
    """

    def __init__(
        self,
        population: StackedPopulation,
        boundary: Sequence[tuple[int, Sequence[int]]],
        wanted: Mapping[int, Mapping[int, int]],
    ) -> None:
        self._sends = bool(boundary)
        talking = [each for each in population.populations if each.agents[0].rule.communicates]
        parts: list[Population | StackedPopulation] = [*talking, population]
        self._parts = [Crossing(each, boundary, wanted) for each in parts]

    def gather(self) -> bytes:
        """Return the last messages of the nodes, or none if no other block receives them."""
        return joined([each.gather() for each in self._parts]) if self._sends else b""

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Hand the nodes what the other blocks sent."""
        parts = [parted(message, len(self._parts)) for message in messages if message]
        for each, received in zip(self._parts, zip(*parts, strict=True), strict=False):
            each.scatter(received)
