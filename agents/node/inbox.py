"""The messages to a node on unreliable links: those that have arrived, and those on their way."""

from collections.abc import Mapping, Sequence
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
from kernelswarm.protocols.unreliable.realization import NODE, Conditions, Realization, keys_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

NO_ANSWER = -1
"""In place of the round whose points are answered: none has been received yet."""

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
        The round of the receiver's message whose points ``answer`` is at, or NO_ANSWER.
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
        The neighbours that send to it, in sorted order.
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
        receivers = np.full(len(senders), neighborhood.node, dtype=np.int64)
        distances = neighborhood.distances if len(senders) else np.zeros(0)
        self.facts = EdgeFacts(senders, receivers, distances, neighborhood.edges[: len(senders)])
        """What is known of the edges."""
        self._realization = Realization(conditions, np.array([neighborhood.node], dtype=np.int64), self.facts)
        self._sender_keys = keys_of(*conditions.key, senders, np.full(len(senders), NODE, dtype=np.int64)).tolist()
        own = np.array([neighborhood.node], dtype=np.int64), np.array([NODE], dtype=np.int64)
        self._own_key: list[int] = keys_of(*conditions.key, *own)[0].tolist()
        self._quantile = address(links.noise.quantile, QUANTILE)
        self._exact = links.bits == EXACT and not links.noise.scale and links.clip == Clip()
        self._faults = SpokenFaults(conditions.faults, [neighborhood.node])
        self.packets: list[dict[int, Packet]] = [{} for _ in neighbors]
        """By edge and the round in which they were sent."""
        self.last = np.full(len(senders), NO_ANSWER)
        """The rounds of the last messages sent on each edge, arrived or not."""
        self.latest: list[Array | None] = [None] * len(senders)
        """What each neighbour drew in the last round that it was awake, as links change it; symmetric form only."""

    def active(self, round: int) -> npt.NDArray[np.bool_]:
        """Return whether each edge is there in a round of the realization, (deg,)."""
        if round < 0:
            return np.ones(len(self.packets), dtype=np.bool_)
        place = self._realization.look(round)
        return self._realization.active[:, place]

    def begin(self, e: int, message: Outgoing, slot: int) -> Array:
        """Take what a neighbour sent in the first of the rounds that prime the network, and return its points.

        It arrives in time, faults begin later, and there is nothing in it but points, or a vector.
        """
        assert message.stamps is not None
        points, answered = self._changed_points(message.points, message.replayed, e), int(message.stamps[1 + slot])
        if self._symmetric:
            self.latest[e] = points
        if answered != SILENT:
            dual = 0.0 if message.duals is None else float(message.duals[slot])
            self.last[e] = 0
            self.packets[e][0] = Packet(1, 0, int(message.stamps[0]), answered, points, None, None, dual)
        return points

    def delivery(self, e: int, sent: int) -> int:
        """Return the delay of a message sent in a round of the network, or LOST."""
        if sent < PRIMING:
            return 0
        place = self._realization.look(sent - PRIMING)
        return int(self._realization.deliveries[e, place])

    def forget(self, now: int) -> None:
        """Drop what has arrived before round ``now``; what is on its way still comes."""
        self.packets = [{sent: one for sent, one in packets.items() if one.due >= now} for packets in self.packets]

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
        first, second = self._own_key
        misreport_in(vector, self._faults.rows, first, second, sent, POINTS)
        if self._exact:
            return
        links = self._conditions.links
        noise, bound = links.noise_on(self._carried), links.clip.on(self._carried)
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

    def _changed_points(self, points: Array, replayed: int, e: int) -> Array:
        """Return points that a neighbour sent in the first round as the links change them, for all whom it tells alike.

        The last ones, which are replayed, have had their noise: they are only rounded.
        """
        if self._exact:
            return points
        links, (first, second) = self._conditions.links, self._sender_keys[e]
        changed, bits = np.array(points), links.bits
        noise, bound = links.noise_on(self._carried), links.clip.on(self._carried)
        if replayed:
            samples = changed[: len(points) - replayed]
            called(distort, samples, bound, noise, self._quantile, EXACT, first, second, 0, POINTS)
            noise, bound = 0.0, np.inf
        called(distort, changed, bound, noise, self._quantile, bits, first, second, 0, POINTS)
        return changed


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
