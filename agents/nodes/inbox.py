"""The messages to a node on unreliable links: arrived ones, and ones on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.distortion import rounded_up
from kernelswarm.protocols.links.realization import Conditions

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
    points : Array
        (n, p), or a vector, (1, n).
    own : Array or None
        The sender's values at the points that it sent before, (n, C), row sums and variances behind them where they
        travel; symmetric form only.
    answer : Array or None
        The sender's values at the receiver's points, likewise.
    dual : float
        Its dual variable of the edge.
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
    """The messages to one node. Rounds are counted by the network, priming rounds included.

    Parameters
    ----------
    conditions : Conditions
        Links and clock.
    neighborhood : Neighborhood
        What the node knows of its links.
    neighbors : sequence of int
        The neighbours that send to it, in sorted order.
    """

    def __init__(self, conditions: Conditions, neighborhood: Neighborhood, neighbors: Sequence[int]) -> None:
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
        self.packets: list[dict[int, Packet]] = [{} for _ in neighbors]
        """By edge and the round in which they were sent."""
        self.last = np.full(len(senders), NO_ANSWER)
        """The rounds of the last messages sent on each edge, arrived or not."""
        self.asks = flags(neighborhood.asks, len(senders))
        """Whether the node asks each neighbour."""
        self.asked = flags(neighborhood.asked, len(senders))
        """Whether each neighbour asks the node."""
        self.latest: list[Array | None] = [None] * len(senders)
        """What each neighbour drew in the last round that it was awake, as links change it; symmetric form only."""

    def arrays(self) -> dict[str, AnyArray]:
        found = [(e, sent, packet) for e, packets in enumerate(self.packets) for sent, packet in packets.items()]
        heads = [(e, sent, entry.due, entry.carried, entry.previous, entry.answered) for e, sent, entry in found]
        latest = [points for points in self.latest if points is not None]
        own = [packet.own for _, _, packet in found]
        answers = [packet.answer for _, _, packet in found]
        active = [(mine is not None, theirs is not None) for mine, theirs in zip(own, answers, strict=True)]
        arrays: dict[str, AnyArray] = {
            "inbox.heads": np.array(heads, dtype=np.int64).reshape(-1, 6),
            "inbox.last": self.last.copy(),
            "inbox.known": np.array([points is not None for points in self.latest], dtype=np.bool_),
            "inbox.there": np.array(active, dtype=np.bool_).reshape(-1, 2),
            "inbox.duals": np.array([packet.dual for _, _, packet in found]),
        }
        arrays |= stacked("inbox.latest", latest) | stacked("inbox.points", [packet.points for _, _, packet in found])
        arrays |= stacked("inbox.own", [entry for entry in own if entry is not None])
        return arrays | stacked("inbox.answers", [entry for entry in answers if entry is not None])

    def take_over(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the messages from :meth:`arrays`."""
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


def flags(given: Sequence[bool], degree: int) -> Booleans:
    """Return the flags of each edge, (deg,), true by default."""
    return np.array(given[:degree] or (True,) * degree, dtype=np.bool_)


def stacked(name: str, arrays: Sequence[Array]) -> dict[str, AnyArray]:
    """Return matrices of one width as one, with their lengths, by the names that a snapshot has for them."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return {name: np.concatenate(arrays) if arrays else np.zeros((0, 0)), f"{name}_lengths": lengths}


def parted(name: str, arrays: Mapping[str, AnyArray]) -> list[Array]:
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


# The memory of a node on unreliable links: its samples, its predictions there, and its last messages.


class LastSent(NamedTuple):
    """The node's last answer to a neighbour: the points and its values there."""

    points: Array
    values: Array


def remembered(
    drawn: Mapping[int, tuple[Array, Array]], predicted: Mapping[int, Array], last_sent: Sequence[LastSent | None]
) -> dict[str, AnyArray]:
    """Return a node's samples, its predictions there and its last messages as arrays, for a snapshot."""
    entries = [(e, entry) for e, entry in enumerate(last_sent) if entry is not None]
    return {
        "lossy.drawn": np.array(list(drawn), dtype=np.int64),
        **stacked("lossy.drawn_points", [points for points, _ in drawn.values()]),
        **stacked("lossy.drawn_targets", [targets for _, targets in drawn.values()]),
        "lossy.predicted": np.array(list(predicted), dtype=np.int64),
        **stacked("lossy.predicted_values", list(predicted.values())),
        "lossy.last_sent": np.array([e for e, _ in entries], dtype=np.int64),
        **stacked("lossy.last_sent_points", [entry.points for _, entry in entries]),
        **stacked("lossy.last_sent_values", [entry.values for _, entry in entries]),
    }


def recalled(
    arrays: Mapping[str, AnyArray], degree: int
) -> tuple[dict[int, tuple[Array, Array]], dict[int, Array], list[LastSent | None]]:
    """Undo :func:`remembered`."""
    samples = zip(parted("lossy.drawn_points", arrays), parted("lossy.drawn_targets", arrays), strict=True)
    drawn = dict(zip(arrays["lossy.drawn"].tolist(), samples, strict=True))
    values = parted("lossy.predicted_values", arrays)
    predicted = dict(zip(arrays["lossy.predicted"].tolist(), values, strict=True))
    last_sent: list[LastSent | None] = [None] * degree
    entries = zip(parted("lossy.last_sent_points", arrays), parted("lossy.last_sent_values", arrays), strict=True)
    for e, (points, values_there) in zip(arrays["lossy.last_sent"].tolist(), entries, strict=True):
        last_sent[e] = LastSent(points, values_there)
    return drawn, predicted, last_sent
