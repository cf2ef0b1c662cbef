"""Conformal bands that neighbours keep together, by messages of two numbers for each output and round.

Each node sends its s_i and u_i of :mod:`kernelswarm.agents.bands.conformal`. With Metropolis weights w_ij, all nodes at
once, a round begins with

    s_i <- s_i + sum_j w_ij (s_j - s_i)        u_i <- u_i + sum_j w_ij (u_j - u_i)

and goes on with own scores as alone. The weights are the same in both directions, so that the mean of all u_i moves by
the nodes' errors only: as alone, and with as many samples as the network has. What nodes do not share stays their own:
the band is ``f(x) +- s_i r_i exp(u_i + d_i)``. r_i is the mean of own scores over s_i, and 1 while it differs from that
by less than two standard errors. Own scores count in s_i as ``score / r_i``. d_i takes a tenth of each step of u_i and
is never averaged, so that a node's own share outside differs from 1 - level by ``d_T / (g T / 10)``. Until a
neighbour's have been received r_i is 1 and d_i is 0: the band is the node's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.bands import conformal
from kernelswarm.agents.bands.conformal import AGREED_LOGARITHM, AGREED_SCALE, LOGARITHM, SCALE, follow
from kernelswarm.protocols.compiling import ReadOnly, ReadOnlyIntegers, cached_njit
from kernelswarm.protocols.contract import Neighborhood

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LONG_LOOPS = True

NUMBERS = 2
"""The numbers that a node sends for each output: s_i and u_i, with s_i = 0 before its first sample."""


class PoolMember(NamedTuple):
    """A node that pools its band.

    Attributes
    ----------
    node : int
        Its label.
    neighbors : tuple of int
        Its neighbours' labels, sorted.
    weights : Array
        The weight of each neighbour, (deg,).
    distinct : float
        The number of its different samples.
    neighborhood : Neighborhood or None
        The attributes of its edges, on unreliable links or clocks.
    """

    node: int
    neighbors: tuple[int, ...]
    weights: Array
    distinct: float
    neighborhood: Neighborhood | None = None


class PooledBands:
    """The bands of the nodes of one process, in one array.

    Parameters
    ----------
    members : sequence of PoolMember
        The nodes.
    outputs : int
        C.
    level : float
        The share of targets that should lie inside.
    """

    def __init__(self, members: Sequence[PoolMember], outputs: int, level: float) -> None:
        inside = [member.node for member in members]
        outside = sorted({other for member in members for other in member.neighbors} - set(inside))
        places = {node: place for place, node in enumerate([*inside, *outside])}
        self.bands = np.stack([conformal.empty_band(outputs, level, pooled=True) for _ in members])
        """(V, C, 12), of which each node's band is a view."""
        self._sent = np.zeros(len(members), dtype=np.int64)
        self._places, self._level = places, level
        self._messages = np.zeros((len(places), outputs, NUMBERS))
        others = [places[other] for member in members for other in member.neighbors]
        self._start = np.cumsum([0, *(len(member.neighbors) for member in members)])
        self._other = np.array(others, dtype=np.int64)
        self._weights = np.concatenate([member.weights for member in members])
        self._new = np.array([member.distinct for member in members], dtype=np.float64)

    def sent_by(self, places: Sequence[int]) -> Array:
        """Return what the nodes at some places send, (n, C, 2)."""
        return np.ascontiguousarray(self.bands[list(places), :, : LOGARITHM + 1])

    def receive(self, messages: Mapping[int, Array]) -> None:
        """Take the last messages of nodes in other processes, (C, 2) by label."""
        for node, message in messages.items():
            if node in self._places:
                self._messages[self._places[node]] = message

    def counted(self) -> list[int]:
        """Return how many numbers each node has sent since this was last asked."""
        found: list[int] = self._sent.tolist()
        self._sent[:] = 0
        return found

    def average(self) -> None:
        """Begin a round: average the s and u that all nodes have sent."""
        average(self.bands, self._messages, self._start, self._other, self._weights, self._sent)

    def arrays(self, node: int) -> dict[str, npt.NDArray[Any]]:
        """Return the messages of a node's neighbours, for a snapshot: none on ideal links."""
        return {}

    def take_over(self, node: int, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set the messages of a node's neighbours to those that :meth:`arrays` returned."""

    def follow(self, predicted: Array, targets: Array, samples: Integers, first: int, rounds: int) -> None:
        """Adapt the bands to some rounds.

        ``predicted`` and ``targets``, both (V, T, b, C), are predictions before the steps and targets, at
        ``samples`` (T, V) samples. In more than one round no node receives from another process.
        """
        network = self.bands, self._messages, self._start, self._other, self._weights, self._sent
        _follow(*network, predicted, targets, samples, self._level, self._new, first, rounds)


@cached_njit
def average(
    bands: Array, messages: Array, start: ReadOnlyIntegers, other: ReadOnlyIntegers, weights: ReadOnly, sent: Integers
) -> None:
    """Send all nodes' s and u, and average them.

    Parameters
    ----------
    bands : Array
        (V, C, 12), changed.
    messages : Array
        (V + outside, C, 2), of which the first V are filled here.
    start, other : Array
        (V + 1,) and (E,), the places of each node's neighbours in a row.
    weights : Array
        (E,).
    sent : Array
        (V,), the numbers that each node has sent to its neighbours; increased.
    """
    nodes, outputs, _ = bands.shape
    for i in range(nodes):
        for c in range(outputs):
            messages[i, c, 0], messages[i, c, 1] = bands[i, c, SCALE], bands[i, c, LOGARITHM]
            if messages[i, c, 0] > 0.0:
                sent[i] += NUMBERS * (start[i + 1] - start[i])
    mix(bands, messages, start, other, weights)


@cached_njit
def mix(bands: Array, messages: ReadOnly, start: ReadOnlyIntegers, other: ReadOnlyIntegers, weights: ReadOnly) -> None:
    """Average s and u with the neighbours', all nodes at once; ``messages``, (V + ..., C, 2), has the own first."""
    nodes, outputs, _ = bands.shape
    for i in range(nodes):
        for c in range(outputs):
            silent, counted, scale, logarithm = messages[i, c, 0] == 0.0, 0.0, 0.0, 0.0
            for e in range(start[i], start[i + 1]):
                if messages[other[e], c, 0] > 0.0:
                    counted += weights[e]
                    scale += weights[e] * (messages[other[e], c, 0] - messages[i, c, 0])
                    logarithm += weights[e] * (messages[other[e], c, 1] - messages[i, c, 1])
            if counted > 0.0:
                share = counted if silent else 1.0  # a node without samples takes the mean of those with some
                bands[i, c, SCALE] += scale / share
                bands[i, c, LOGARITHM] += logarithm / share
            if counted > 0.0 or bands[i, c, AGREED_SCALE] > 0.0:
                bands[i, c, AGREED_SCALE], bands[i, c, AGREED_LOGARITHM] = bands[i, c, SCALE], bands[i, c, LOGARITHM]


@cached_njit
def _follow(
    bands: Array,
    messages: Array,
    start: ReadOnlyIntegers,
    other: ReadOnlyIntegers,
    weights: ReadOnly,
    sent: Integers,
    predicted: ReadOnly,
    targets: ReadOnly,
    samples: ReadOnlyIntegers,
    level: float,
    new: ReadOnly,
    first: int,
    rounds: int,
) -> None:
    for t in range(first, first + rounds):
        average(bands, messages, start, other, weights, sent)
        for i in range(len(bands)):
            count = samples[t, i]
            if count:
                follow(bands[i], predicted[i, t, :count], targets[i, t, :count], level, new[i], 1)
