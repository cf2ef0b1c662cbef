"""Messages to a node on unreliable links, arrived or on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.distortion import rounded_up
from kernelswarm.protocols.links.realization import Conditions

NO_ANSWER = -1
"""In place of the round of the answered points: none has been received yet."""

SILENT = -2
"""In place of the round of the answered points: there is no message on this edge."""

SENT, DELIVERED, LOST_ON_THE_WAY, TOO_LATE = range(4)
"""The fates of messages, as columns of their counts: sent to a neighbour; delivered, lost or too late from it."""

POINTS, OWN, ANSWERS = range(3)
"""The stages of the random numbers that distort the parts of a message."""


class Inbox:
    """The messages to one node. Rounds are counted by the network, priming rounds included.

    Parameters
    ----------
    conditions : Conditions
        Links and clock.
    neighborhood : Neighborhood
        The node's knowledge of its links.
    neighbors : sequence of int
        The neighbours that send to the node, in sorted order.
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
        """Facts about the edges."""
        self.asks = flags(neighborhood.asks, len(senders))
        """Whether the node asks each neighbour."""
        self.asked = flags(neighborhood.asked, len(senders))
        """Whether each neighbour asks the node."""
        self.arrays: dict[str, AnyArray] = {}
        """The kept messages, in the format of :class:`~kernelswarm.agents.nodes.messages.Messages` and of snapshots;
        empty at first."""

    def take_over(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the messages from a snapshot."""
        self.arrays = {name: array for name, array in arrays.items() if name.startswith("inbox.")}


def flags(given: Sequence[bool], degree: int) -> Booleans:
    """Return the flags of each edge, (deg,), true by default."""
    return np.array(given[:degree] or (True,) * degree, dtype=np.bool_)


def stacked(name: str, arrays: Sequence[Array]) -> dict[str, AnyArray]:
    """Return the concatenation of matrices of equal width, and their lengths, by their names in snapshots."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return {name: np.concatenate(arrays) if arrays else np.zeros((0, 0)), f"{name}_lengths": lengths}


def parted(name: str, arrays: Mapping[str, AnyArray]) -> list[Array]:
    """Undo :func:`stacked`; the matrices are read-only, like received ones."""
    lengths = arrays[f"{name}_lengths"]
    if not len(lengths):
        return []
    found = [np.array(entry) for entry in np.split(arrays[name], np.cumsum(lengths)[:-1])]
    for entry in found:
        entry.flags.writeable = False
    return found


def coarse(numbers: Array) -> Array:
    """Round non-negative row sums or dual variables up to the few bits with which they are sent."""
    found = np.array(numbers)
    for place, number in np.ndenumerate(numbers):
        found[place] = rounded_up(number) if 0.0 < number < np.inf else number
    return found
