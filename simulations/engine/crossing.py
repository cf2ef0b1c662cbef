"""Messages between blocks, gathered from the arrays of one block and scattered to the arrays of another.

A message is an array of float64 with one record for each node that sends to other blocks. A record begins with the
node's label, the number of its points, the number of points with own values, the number of replayed points, the number
of addressees, and for each addressee its slot and the length of the answer. Points, own values, dual variables, stamps
and answers follow. The same code writes and reads records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line, rows_of, table
from kernelswarm.agents.nodes.agent import columns_behind_values
from kernelswarm.agents.nodes.arrays import ABSENT, Flight, Links
from kernelswarm.agents.nodes.population import Population
from kernelswarm.agents.nodes.stacked_population import StackedPopulation
from kernelswarm.agents.nodes.summaries_population import SummaryPopulation
from kernelswarm.agents.nodes.vector_population import VectorPopulation
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import Compiled
from kernelswarm.protocols.core.compiling import force_inline, njit_no_refcount

SENDER, POINTS, OWN, REPLAYED, ADDRESSEES, ENTRIES = range(6)
"""The first entries of a record, and their number."""


class _Boundary(NamedTuple):
    """The nodes that send to other blocks, and their edges."""

    nodes: Integers  # (B,) places
    labels: Integers  # (B,)
    begins: Integers  # (B + 1,) start of each node's edges
    slots: Integers  # slots of these neighbours
    edges: Integers


class _Received(NamedTuple):
    """The nodes in other blocks that send to this block, and their edges."""

    labels: Integers  # (outside,) sorted
    begins: Integers  # (outside + 1,) start of each node's edges
    edges: Integers  # by slot of the sender, ABSENT for nodes outside this block
    owners: Integers  # places of the receiving nodes


class _Form(NamedTuple):
    """The content of messages beside points."""

    columns: int  # C, plus 1 with row sums, plus 1 with variances
    answers: bool
    own: bool
    duals: bool
    stamps: bool


class Crossing:
    """The messages between a population and other blocks.

    Parameters
    ----------
    population : Population, VectorPopulation or StackedPopulation
        The block's nodes; for StackedPopulation, their mixture weights.
    boundary : sequence of (int, sequence of int)
        The places of agents with neighbours in other blocks, and the slots of these neighbours.
    wanted : mapping of int to mapping of int to int
        For each sending node in another block, and for each of its slots, the receiving directed edge.
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
        self._packed = np.zeros((ENTRIES + 1) * len(places) + 4 * int(begins[-1]) + points + values)

    def gather(self) -> bytes:
        """Return the last messages of the agents; empty if no neighbour is in another block."""
        if not len(self._boundary.nodes):
            return b""
        population = self._population
        length = _gather(self._packed, self._boundary, self._form, population.links, population.flight())
        return self._packed[:length].tobytes()

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Deliver the messages of the other blocks."""
        if messages:
            numbers, population = np.frombuffer(b"".join(messages)), self._population
            _scatter(numbers, self._received, self._form, population.links, population.flight())


def _integers(numbers: Sequence[int] | Integers) -> Integers:
    return np.array(numbers, dtype=np.int64)


# The round of a block of one node takes a few microseconds; numpy calls for each kind of number would double that.


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


def _passing_values(writes: bool) -> Compiled:
    """Return the function that writes values as numbers, or reads values from numbers."""

    @force_inline
    def pass_on(numbers: Array, at: int, part: Array, known: bool) -> int:
        """Copy a part of a message, if it is ``known`` here, and return the place of the next number."""
        packed = table(numbers, at, part.shape[0], part.shape[1])
        if writes:
            copy_matrix(part, packed)
        elif known:
            copy_matrix(packed, part)
        return int(at + part.size)

    @force_inline
    def pass_values(
        numbers: Array,
        at: int,
        form: _Form,
        place: int,
        count: int,
        values: Array,
        row_sums: Array,
        variances: Array,
        known: bool,
    ) -> int:
        """Copy values at points, with the accompanying numbers."""
        at = pass_on(numbers, at, rows_of(values, place, count), known)
        if form.columns > values.shape[2]:
            at = pass_on(numbers, at, table(row_sums, place, count, 1), known)
        if form.columns > values.shape[2] + 1:
            at = pass_on(numbers, at, table(variances, place, count, 1), known)
        return at

    return pass_values


def _passing(writes: bool) -> Compiled:
    """Return the function that writes messages as numbers, or reads messages from numbers."""
    pass_values = _passing_values(writes)

    @njit_no_refcount
    def walk(numbers: Array, ends: Any, form: _Form, links: Links, flight: Flight) -> int:
        """Process all messages, and return the total number of values."""
        nodes, size, at, b = len(links.start) - 1, flight.values.shape[1], 0, 0
        while b < len(ends.labels) if writes else at < len(numbers):
            head, begin = line(numbers, at, ENTRIES), ends.begins[b]
            if writes:
                node = ends.nodes[b]
                head[SENDER], head[POINTS] = ends.labels[b], flight.following[node]
                head[OWN] = flight.evaluated[node] if form.own else 0
                head[REPLAYED] = flight.following[node] - flight.samples[node]
                head[ADDRESSEES] = ends.begins[b + 1] - begin
                b += 1
            sender = 0 if writes else _place_of(head[SENDER], ends)
            points, own, addressees, known = int(head[POINTS]), int(head[OWN]), int(head[ADDRESSEES]), sender != ABSENT
            if not writes:
                node = nodes + max(sender, 0)
                if known:
                    flight.following[node] = points
                    if form.stamps:
                        flight.samples[node], flight.evaluated[node] = points - int(head[REPLAYED]), own
            to = table(numbers, at + ENTRIES, addressees, 2)
            at += ENTRIES + 2 * addressees
            for k in range(points):  # on ideal links, a node's points follow those of other rounds
                for d in range(flight.points.shape[2]):
                    if writes:
                        numbers[at + d] = flight.points[node, k, d]
                    elif known:
                        flight.points[node, k, d] = numbers[at + d]
                at += flight.points.shape[2]
            there = flight.values, flight.row_sums, flight.variances
            at = pass_values(numbers, at, form, node * size, own, *there, known)
            at_stamps = at + addressees * form.duals
            at_answers = at_stamps + (1 + addressees) * form.stamps
            if form.stamps and writes:
                numbers[at_stamps] = flight.previous[node]
            elif form.stamps and known:
                flight.previous[node] = int(numbers[at_stamps])
            for k in range(addressees):
                if writes:
                    edge, to[k, 0] = ends.edges[begin + k], ends.slots[begin + k]
                    answer, found, length = links.reverse[edge], True, 0
                    if form.answers and form.stamps:
                        length = flight.answered_points[answer]
                    elif form.answers:
                        length = flight.evaluated[links.other[edge]]
                    to[k, 1] = length
                    if form.duals:
                        numbers[at + k] = flight.duals[edge]
                    if form.stamps:
                        numbers[at_stamps + 1 + k] = flight.answered[answer]
                    place = answer * size
                else:
                    received, length, place = ends.begins[max(sender, 0)] + int(to[k, 0]), int(to[k, 1]), 0
                    found = known and received < ends.begins[sender + 1] and ends.edges[received] != ABSENT
                    if found:
                        edge = ends.edges[received]
                        place = edge * size
                        if form.duals:
                            flight.sent[links.reverse[edge]] = numbers[at + k]
                        if form.stamps:
                            flight.answered[edge] = int(numbers[at_stamps + 1 + k])
                            if form.answers:
                                flight.answered_points[edge] = length
                        else:  # answers are stored compactly
                            owner = ends.owners[received]
                            place = links.start[owner] * size
                            place += (edge - links.start[owner]) * flight.evaluated[owner]
                answers = flight.answers, flight.answer_row_sums, flight.answer_variances
                at_answers = pass_values(numbers, at_answers, form, place, length, *answers, found)
            at = at_answers
        return at

    return walk


_gather, _scatter = _passing(writes=True), _passing(writes=False)


# Messages with cells between blocks: each row has the sender's label, the receiver's place, and a cell.


class SummaryCrossing:
    """The messages between a population that sends cells and other blocks.

    Parameters
    ----------
    population, boundary, wanted
        See :class:`~kernelswarm.simulations.engine.crossing.Crossing`.
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
        """Deliver the messages of the other blocks."""
        for row in np.frombuffer(b"".join(messages)).reshape(-1, self._width):
            edge = self._wanted.get(int(row[0]), {}).get(int(row[1]))
            if edge is not None:
                mail = self._population.mail
                mail.received[edge], mail.arrived[edge] = row[2:], True


# Joining byte strings into one message, and splitting it again.


def joined(parts: Sequence[bytes]) -> bytes:
    """Join byte strings, preceded by their lengths."""
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return b"".join([lengths.tobytes(), *parts])


def parted(message: bytes, count: int) -> list[bytes]:
    """Undo :func:`joined` of ``count`` strings."""
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
    """Undo :func:`with_bands`; an empty message has no bands."""
    if not message:
        return b"", {}
    numbers = np.frombuffer(message)
    size, nodes = int(numbers[-2]), int(numbers[-1])
    rows = numbers[len(numbers) - 2 - size : -2].reshape(nodes, -1)
    rest = message[: len(message) - numbers.itemsize * (2 + size)]
    return rest, {int(row[0]): row[1:].reshape(-1, 2) for row in rows}


# Messages between blocks whose nodes have several copies of their learner. A message contains the messages of all
# copies, followed by the mixture weights.


class StackedCrossing:
    """The messages between nodes with copies and other blocks.

    Parameters
    ----------
    population : StackedPopulation
        The block's nodes.
    boundary : sequence of (int, sequence of int)
        See :class:`~kernelswarm.simulations.engine.crossing.Crossing`.
    wanted : mapping of int to mapping of int to int
        See ``Crossing``.
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
        """Return the last messages of the nodes; empty if no other block receives them."""
        return joined([each.gather() for each in self._parts]) if self._sends else b""

    def scatter(self, messages: Sequence[bytes]) -> None:
        """Deliver the messages of the other blocks."""
        parts = [parted(message, len(self._parts)) for message in messages if message]
        for each, received in zip(self._parts, zip(*parts, strict=True), strict=False):
            each.scatter(received)
