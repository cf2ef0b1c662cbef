"""What a node has heard on links that are not ideal: messages that have arrived, and those on their way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.node import PRIMING, Outgoing
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.first_class import address
from kernelswarm.protocols.links.distortion import EXACT, distort, rounded_up
from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.protocols.links.links import Clip
from kernelswarm.protocols.links.noises import QUANTILE
from kernelswarm.protocols.unreliable.faults import SpokenFaults, misreport_in
from kernelswarm.protocols.unreliable.realization import LOST, NODE, Conditions, Realization, keys_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NO_ANSWER = -1
"""In place of the round whose points are answered: none has been heard yet."""

SILENT = -2
"""Instead of it: there is no message on this edge."""

SENT, DELIVERED, LOST_ON_THE_WAY, TOO_LATE = range(4)
"""What becomes of messages, by the column of their counts: those to a neighbour, and then those from it."""

POINTS, OWN, ANSWERS = range(3)
"""The stages of the random numbers that distort a message."""


@dataclass(slots=True)
class Packet:
    """A message on one directed edge.

    Attributes
    ----------
    due : int
        The round in which it arrives.
    carried : int
        The round in which its points were drawn: that in which it was sent, or ``previous``.
    previous : int
        The round of the sender's message before it, whose points ``own`` is at.
    answered : int
        The round of the hearer's message whose points ``answer`` is at, or NO_ANSWER.
    points, own, answer, dual
        As of :class:`~kernelswarm.agents.node.agent.Outgoing`, for this edge.
    """

    due: int
    carried: int
    previous: int
    answered: int
    points: Array
    own: Array | None
    answer: Array | None
    dual: float


class Inbox:
    """The messages to one node. Rounds are those of the network, those included that prime it.

    Parameters
    ----------
    conditions : Conditions
        Links and clock.
    neighborhood : Neighborhood
        What the node knows of its links.
    neighbors : sequence of int
        The neighbours that it hears, in sorted order.
    outputs : int
        C, and 0 where messages hold one vector.
    symmetric : bool
        Whether messages hold their senders' own values.

    Raises
    ------
    ValueError
        The edges lack what the links need.
    """

    def __init__(
        self,
        conditions: Conditions,
        neighborhood: Neighborhood,
        neighbors: Sequence[int],
        outputs: int,
        symmetric: bool = False,
    ) -> None:
        self._conditions, self._outputs, self._symmetric = conditions, outputs, symmetric
        self._carried = "points" if outputs else "vectors"
        links = conditions.links
        self.reach = links.reach
        """Rounds for which messages are kept."""
        self.memory = links.memory(conditions.transit)
        """Rounds for which the node keeps its own samples."""
        senders = np.array(neighbors, dtype=np.int64)
        hearers = np.full(len(senders), neighborhood.node, dtype=np.int64)
        distances = neighborhood.distances if len(senders) else np.zeros(0)
        self.facts = EdgeFacts(senders, hearers, distances, neighborhood.edges[: len(senders)])
        """What is known of the edges."""
        self._realization = Realization(conditions, np.array([neighborhood.node], dtype=np.int64), self.facts)
        self._sender_keys = keys_of(*conditions.key, senders, np.full(len(senders), NODE, dtype=np.int64)).tolist()
        self._edge_keys = keys_of(*conditions.key, senders, hearers).tolist()
        own = np.array([neighborhood.node], dtype=np.int64), np.array([NODE], dtype=np.int64)
        self._own_key: list[int] = keys_of(*conditions.key, *own)[0].tolist()
        self._quantile = address(links.noise.quantile, QUANTILE)
        self._exact = links.bits == EXACT and not links.noise.scale and links.clip == Clip()
        self._faults = SpokenFaults(conditions.faults, [*neighbors, neighborhood.node])
        self.packets: list[dict[int, Packet]] = [{} for _ in neighbors]
        """By edge and the round in which they were sent."""
        self.last = np.full(len(senders), NO_ANSWER)
        """The rounds of the last messages sent on each edge, arrived or not."""
        self.latest: list[Array | None] = [None] * len(senders)
        """What each neighbour drew in the last round that it was awake, as links change it; symmetric form only."""

    def awake(self, round: int) -> bool:
        """Return whether the node is awake in a round of the realization."""
        if round < 0:
            return True
        place = self._realization.look(round)
        return bool(self._realization.awake[0, place])

    def active(self, round: int) -> npt.NDArray[np.bool_]:
        """Return whether each edge is there in a round of the realization, (deg,)."""
        if round < 0:
            return np.ones(len(self.packets), dtype=np.bool_)
        place = self._realization.look(round)
        return self._realization.active[:, place]

    def take(self, e: int, message: Outgoing, slot: int, now: int, counts: Integers) -> None:
        """Take what a neighbour sent in the round before ``now``, with what the edge makes of it, and count it.

        A message holds the sender's values at the points of its round before. Where it sent nothing on the edge then,
        it sends these points, and not those that it has drawn since: its values would be about nothing known.
        """
        assert message.stamps is not None
        previous, answered = int(message.stamps[0]), int(message.stamps[1 + slot])
        sent, points, before = now - 1, message.points, None
        if previous != SILENT and self._symmetric:
            points = self._changed_points(points, message.replayed, e, sent)
            before, self.latest[e] = self.latest[e], points
        if answered == SILENT:
            return
        carried = sent
        if before is not None and self.last[e] != previous:
            carried, points = previous, before
        self.last[e] = sent
        delivery = self.delivery(e, sent)
        if delivery == LOST:
            counts[LOST_ON_THE_WAY] += sent >= PRIMING
        elif delivery > self._conditions.links.max_age:
            counts[TOO_LATE] += sent >= PRIMING
        else:
            answer = message.answers[slot] if message.answers else None
            dual = 0.0 if message.duals is None else float(message.duals[slot])
            if not self._symmetric:
                if answer is None and self._faults.start[e] < self._faults.start[e + 1]:  # a vector
                    points = self._misreported(points, e, self._sender_keys[e], sent, POINTS)
                points = self._changed_points(points, message.replayed, e, sent)
            packet = Packet(now + delivery, carried, previous, answered, points, message.own, answer, dual)
            self._misreport(packet, e, sent)
            if not self._exact:
                self._distort(packet, e, sent)
            self.packets[e][sent] = packet

    def delivery(self, e: int, sent: int) -> int:
        """Return the delay of a message sent in a round of the network, or LOST."""
        if sent < PRIMING:
            return 0
        place = self._realization.look(sent - PRIMING)
        return int(self._realization.deliveries[e, place])

    def deliver(self, now: int, awake: bool, counts: Integers) -> None:
        """Let what is due arrive, or be lost where nobody is there, and forget what is too old."""
        received = awake or self._conditions.clock.listens
        for e, packets in enumerate(self.packets):
            for sent in [sent for sent, packet in packets.items() if packet.due == now or sent < now - self.reach]:
                due = packets[sent].due == now
                if due:
                    counts[e, DELIVERED if received else LOST_ON_THE_WAY] += sent >= PRIMING
                if not (due and received):
                    del packets[sent]

    def forget(self, now: int) -> None:
        """Drop what has arrived before round ``now``; what is on its way still comes."""
        self.packets = [{sent: one for sent, one in packets.items() if one.due >= now} for packets in self.packets]

    def usable(self, e: int, now: int) -> Iterator[tuple[int, Packet]]:
        """Yield the messages that have arrived on an edge and are not too old, the newest first, by their rounds."""
        oldest = now - 1 - self._conditions.links.max_age
        for sent in sorted(self.packets[e], reverse=True):
            packet = self.packets[e][sent]
            if sent >= oldest and packet.due <= now:
                yield sent, packet

    def newest(self, e: int, now: int) -> Packet | None:
        """Return the newest message that has arrived on an edge."""
        sent = max((sent for sent, packet in self.packets[e].items() if packet.due <= now), default=None)
        return None if sent is None else self.packets[e][sent]

    def before(self, e: int, packet: Packet, now: int) -> Packet | None:
        """Return the message with the points that a message's own values are at, itself or another, if it has come."""
        if packet.carried == packet.previous:
            return packet
        other = self.packets[e].get(packet.previous)
        return other if other is not None and other.due <= now and other.carried == packet.previous else None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the messages as arrays, for a snapshot."""
        found = [(e, sent, packet) for e, packets in enumerate(self.packets) for sent, packet in packets.items()]
        heads = [(e, sent, entry.due, entry.carried, entry.previous, entry.answered) for e, sent, entry in found]
        latest = [points for points in self.latest if points is not None]
        own = [packet.own for _, _, packet in found]
        answers = [packet.answer for _, _, packet in found]
        active = [(mine is not None, theirs is not None) for mine, theirs in zip(own, answers, strict=True)]
        arrays: dict[str, npt.NDArray[Any]] = {
            "inbox.heads": np.array(heads, dtype=np.int64).reshape(-1, 6),
            "inbox.last": self.last.copy(),
            "inbox.known": np.array([points is not None for points in self.latest], dtype=np.bool_),
            "inbox.there": np.array(active, dtype=np.bool_).reshape(-1, 2),
            "inbox.duals": np.array([packet.dual for _, _, packet in found]),
        }
        arrays |= stacked("inbox.latest", latest) | stacked("inbox.points", [packet.points for _, _, packet in found])
        arrays |= stacked("inbox.own", [entry for entry in own if entry is not None])
        return arrays | stacked("inbox.answers", [entry for entry in answers if entry is not None])

    def take_over(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Put the messages where :meth:`arrays` was taken."""
        self.packets = [{} for _ in self.packets]
        own, answers = iter(parted("inbox.own", arrays)), iter(parted("inbox.answers", arrays))
        latest = iter(parted("inbox.latest", arrays))
        self.last = arrays["inbox.last"].copy()
        self.latest = [next(latest) if known else None for known in arrays["inbox.known"]]
        entries = zip(
            arrays["inbox.heads"].tolist(),
            arrays["inbox.there"].tolist(),
            arrays["inbox.duals"].tolist(),
            parted("inbox.points", arrays),
            strict=True,
        )
        for (e, sent, due, carried, previous, answered), (mine, theirs), dual, points in entries:
            values, answer = next(own) if mine else None, next(answers) if theirs else None
            self.packets[e][sent] = Packet(due, carried, previous, answered, points, values, answer, dual)

    def distort_own(self, vector: Array, sent: int) -> None:
        """Change a message of the node itself, (1, n), as its faults and the links will, for all neighbours alike."""
        if self._faults.start[-2] < self._faults.start[-1]:
            vector[:] = self._misreported(vector, len(self.packets), self._own_key, sent, POINTS)
        if self._exact:
            return
        links = self._conditions.links
        noise, bound = links.noise_on(self._carried), links.clip.on(self._carried)
        first, second = self._own_key
        called(distort, vector, bound, noise, self._quantile, links.bits, first, second, sent, POINTS)

    def released(self, points: Array, sent: int) -> Array:
        """Return points of the node's own samples with the noise that links will add to them, in a round."""
        links = self._conditions.links
        noise, bound = links.noise_on(self._carried), links.clip.on(self._carried)
        if not noise and bound == np.inf:
            return points
        noisy, (first, second) = np.array(points), self._own_key
        called(distort, noisy, bound, noise, self._quantile, EXACT, first, second, sent, POINTS)
        return noisy

    def _changed_points(self, points: Array, replayed: int, e: int, sent: int) -> Array:
        """Return points that a neighbour sent in a round as the links change them, for all whom it tells alike.

        The last ones, which are replayed, have had their noise: they are only rounded.
        """
        if self._exact:
            return points
        links, (first, second) = self._conditions.links, self._sender_keys[e]
        changed, bits = np.array(points), links.bits
        noise, bound = links.noise_on(self._carried), links.clip.on(self._carried)
        if replayed:
            samples = changed[: len(points) - replayed]
            called(distort, samples, bound, noise, self._quantile, EXACT, first, second, sent, POINTS)
            noise, bound = 0.0, np.inf
        called(distort, changed, bound, noise, self._quantile, bits, first, second, sent, POINTS)
        return changed

    def _misreport(self, packet: Packet, e: int, sent: int) -> None:
        """Change the values that a faulty neighbour says."""
        if self._faults.start[e] == self._faults.start[e + 1]:
            return
        if packet.own is not None:
            packet.own = self._misreported(packet.own, e, self._sender_keys[e], sent, OWN)
        if packet.answer is not None:
            packet.answer = self._misreported(packet.answer, e, self._edge_keys[e], sent, ANSWERS)

    def _misreported(self, numbers: Array, place: int, key: list[int], sent: int, part: int) -> Array:
        """Return what the neighbour at a place, or the last one, the node itself, says in place of values or a vector;
        row sums behind values stay."""
        columns = numbers.shape[1] if part == POINTS else self._outputs
        changed = np.array(numbers[:, :columns], order="C")
        rows = self._faults.rows[self._faults.start[place] : self._faults.start[place + 1]]
        misreport_in(changed, rows, key[0], key[1], sent, part)
        return np.concatenate([changed, numbers[:, columns:]], axis=1)

    def _distort(self, packet: Packet, e: int, sent: int) -> None:
        """Change values as the links do: those that go to all neighbours alike, answers each in their own way."""
        links = self._conditions.links
        (first, second), edge = self._sender_keys[e], self._edge_keys[e]
        noise, bound = links.noise_on("values"), links.clip.values
        for stage, key, values in ((OWN, (first, second), packet.own), (ANSWERS, edge, packet.answer)):
            if values is None:
                continue
            changed_values = np.array(values[:, : self._outputs], order="C")
            called(distort, changed_values, bound, noise, self._quantile, links.bits, key[0], key[1], sent, stage)
            row_sums = values[:, self._outputs :]
            if links.bits != EXACT:
                row_sums = coarse(row_sums)
            joined = np.concatenate([changed_values, row_sums], axis=1)
            if stage == OWN:
                packet.own = joined
            else:
                packet.answer = joined
        if links.bits != EXACT:
            packet.dual = float(coarse(np.array([packet.dual]))[0])


def stacked(name: str, arrays: Sequence[Array]) -> dict[str, npt.NDArray[Any]]:
    """Return matrices of one width as one, with their lengths, by the names that a snapshot has for them."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return {name: np.concatenate(arrays) if arrays else np.zeros((0, 0)), f"{name}_lengths": lengths}


def parted(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> list[Array]:
    """Undo :func:`stacked`; the matrices are read-only, as they came."""
    lengths = arrays[f"{name}_lengths"]
    if not len(lengths):
        return []
    found = [np.array(entry) for entry in np.split(arrays[name], np.cumsum(lengths)[:-1])]
    for entry in found:
        entry.flags.writeable = False
    return found


def coarse(numbers: Array) -> Array:
    """Round row sums or dual variables, not negative, up to the few bits that they are sent with."""
    found = np.array(numbers)
    for place, number in np.ndenumerate(numbers):
        found[place] = rounded_up(number) if 0.0 < number < np.inf else number
    return found
