"""A protocol of vectors for compiled rounds, whether it is compiled or not."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.plain_calls import ASKED, asked_at
from kernelswarm.agents.node.vectors import VectorNode
from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.compiling import njit_no_refcount
from kernelswarm.protocols.core.memory import numbers_at
from kernelswarm.protocols.first_class import address
from kernelswarm.protocols.parameters.compiled import (
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    packed,
    place_of,
    unpacked,
)
from kernelswarm.protocols.parameters.contract import Received

Array = npt.NDArray[np.float64]

ADAPTED, RECEIVED, BOX = range(3)
"""The numbers of a protocol in plain Python: the addresses of what is asked, and of the box that lies between."""


def vectors_form(
    nodes: Sequence[VectorNode], begun: Callable[[int], tuple[Evaluated, Array]]
) -> "HandedVectors | PlainVectors":
    """Return a protocol's compiled functions, or calls of its methods where it has none.

    Parameters
    ----------
    nodes : sequence of VectorNode
        By their places.
    begun : callable
        Given a node's place while it begins a round, what it has evaluated at its samples, and their targets.
    """
    try:
        return HandedVectors(nodes, handed_over(nodes[0].rule, "protocol"))
    except NotCompiledError:
        return PlainVectors(nodes, begun)


class HandedVectors:
    """A protocol with compiled functions, which update the nodes' states in arrays.

    Parameters
    ----------
    nodes : sequence of VectorNode
        By their places.
    rule : CompiledParameterRule
        What it hands over.
    """

    synced: ClassVar[bool] = False
    """Whether nodes are up to date during rounds."""

    def __init__(self, nodes: Sequence[VectorNode], rule: CompiledParameterRule) -> None:
        self._nodes, self.rule = nodes, rule
        self.sent = place_of(nodes[0].links, rule.sent)
        """Where in what a node knows that part lies which it sends."""

    def pack(self, place: int) -> Array:
        """Return a node's state as a vector."""
        return packed(self._nodes[place].links)

    def unpack(self, place: int, vector: Array) -> None:
        """Set a node's state from a vector."""
        node = self._nodes[place]
        node.links = unpacked(node.links, vector)


class PlainVectors:
    """A protocol whose methods are called with what compiled rounds have evaluated and received.

    What a node knows stays the object that it is. The vector of a node holds what rounds read of that: its weights, the
    vector that it sends, and its place. As with :mod:`~kernelswarm.agents.learners.plain_calls` Python is called with
    integers, and all else lies in a box, at an address that both know.

    Parameters
    ----------
    nodes, begun
        As of :func:`vectors_form`.
    """

    synced: ClassVar[bool] = True

    def __init__(self, nodes: Sequence[VectorNode], begun: Callable[[int], tuple[Evaluated, Array]]) -> None:
        first = nodes[0]
        self._nodes, self._begun, self._name = nodes, begun, type(first.rule).__name__
        shape: Any = np.shape(first.rule.weights(first.links))
        size, width = int(np.prod(shape)), first.width
        self.sent = slice(size, size + width)
        degrees = {len(node.neighbors) for node in nodes}
        box = np.zeros(max(size, width + max(degrees) * (width + 1)))
        self._box, self._weights, self._sent = box, box[:size].reshape(shape), box[:width]
        self._received = {degree: _parts(box, degree, width) for degree in degrees}
        self._addresses = address(self._adapt, ASKED), address(self._receive, ASKED)
        numbers = np.array([*self._addresses, box.ctypes.data], dtype=np.float64)
        self.rule = CompiledParameterRule(CompiledPhase(receive), "", numbers, CompiledPhase(adapt))

    def pack(self, place: int) -> Array:
        """Return the part of a node's state that rounds read, as a vector."""
        rule, links = self._nodes[place].rule, self._nodes[place].links
        return np.concatenate([np.reshape(rule.weights(links), -1), np.reshape(rule.send(links), -1), [place]])

    def unpack(self, place: int, vector: Array) -> None:
        """Do nothing: the node's state is up to date."""

    def _adapt(self, place: int, *rest: int) -> None:
        node = self._nodes[place]
        node.own, node.targets = self._begun(place)
        node.adapt()
        fill(self._sent, np.asarray(node.rule.send(node.links)).reshape(-1), f"{self._name}.send")

    def _receive(self, place: int, degree: int, *rest: int) -> None:
        node = self._nodes[place]
        last_sent, vectors, counts = self._received[degree]
        node.receive(Received(last_sent.copy(), vectors.copy(), counts.copy()))
        fill(self._weights, node.rule.weights(node.links), f"{self._name}.weights")


def _parts(box: Array, degree: int, width: int) -> tuple[Array, Array, Array]:
    """Return the parts of the box for what a node has received: the vector known of it, theirs, and their counts."""
    end = width + degree * width
    return box[:width], box[width:end].reshape(degree, width), box[end : end + degree]


@njit_no_refcount
def adapt(given: PhaseArguments) -> None:
    """Call the protocol's ``adapt`` for a node, and copy the vector that it sends."""
    state = given.state
    begin, end = len(given.weights), len(state) - 1
    asked_at(int(given.numbers[ADAPTED]))(int(state[end]), 0, 0, 0, 0, 0)
    sent = numbers_at(int(given.numbers[BOX]), end - begin)
    for k in range(end - begin):
        state[begin + k] = sent[k]


@njit_no_refcount
def receive(given: PhaseArguments) -> None:
    """Call the protocol's ``receive`` for a node, and copy its weights."""
    state = given.state
    degree, width = given.vectors.shape
    box = numbers_at(int(given.numbers[BOX]), max(len(given.weights), width + degree * (width + 1)))
    for k in range(width):
        box[k] = given.last_sent[k]
    for d in range(degree):
        for k in range(width):
            box[width + d * width + k] = given.vectors[d, k]
        box[width + degree * width + d] = given.counts[d]
    asked_at(int(given.numbers[RECEIVED]))(int(state[len(state) - 1]), degree, 0, 0, 0, 0)
    for k in range(len(given.weights)):
        state[k] = box[k]
