"""The messages to a node on unreliable links: arrived ones, and ones on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        self.asks = flags(neighborhood.asks, len(senders))
        """Whether the node asks each neighbour."""
        self.asked = flags(neighborhood.asked, len(senders))
        """Whether each neighbour asks the node."""
        self.arrays: dict[str, AnyArray] = {}
        """The messages that are kept, as :class:`~kernelswarm.agents.nodes.messages.Messages` and snapshots have them;
        none at first."""

    def take_over(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the messages from a snapshot."""
        self.arrays = {name: array for name, array in arrays.items() if name.startswith("inbox.")}


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
