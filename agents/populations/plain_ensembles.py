"""A protocol with copies for compiled rounds, whether it is compiled or not."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.agents.plain.filling import fill, kept
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import Predictions
from kernelswarm.protocols.ensemble.compiled import CompiledStackedRule
from kernelswarm.protocols.parameters.compiled import packed, unpacked

Array = npt.NDArray[np.float64]


def ensembles_form(nodes: Sequence[StackedAgent]) -> "HandedEnsembles | PlainEnsembles":
    """Return the compiled functions of the nodes' protocol, or functions that call its methods."""
    try:
        return HandedEnsembles(nodes, handed_over(nodes[0].rule, "protocol"))
    except NotCompiledError:
        return PlainEnsembles(nodes)


class HandedEnsembles:
    """A protocol with compiled functions, which change the nodes' states in arrays.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        By their places.
    rule : CompiledStackedRule
        Its compiled functions.
    """

    def __init__(self, nodes: Sequence[StackedAgent], rule: CompiledStackedRule) -> None:
        self._nodes, self.rule = nodes, rule

    def pack(self, place: int) -> Array:
        """Return a node's state of the protocol as a vector."""
        return packed(self._nodes[place].links)

    def unpack(self, place: int, vector: Array) -> None:
        """Set a node's state of the protocol from a vector."""
        node = self._nodes[place]
        node.links = unpacked(node.links, vector)


class PlainEnsembles:
    """A protocol whose methods are called by compiled rounds.

    A node's state stays a Python object, and its vector holds the node's place.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        By their places.
    """

    def __init__(self, nodes: Sequence[StackedAgent]) -> None:
        self._nodes, self._name = nodes, type(nodes[0].rule).__name__
        methods = self._learn, self._receive, self._send, self._mixture_weights
        self.rule = CompiledStackedRule(*methods, numbers=np.zeros(0))

    def pack(self, place: int) -> Array:
        """Return a node's place as a vector."""
        return np.array([float(place)])

    def unpack(self, place: int, vector: Array) -> None:
        """Do nothing: the node has its state."""

    def _learn(
        self,
        _numbers: Array,
        vector: Array,
        values: Array,
        losses: Array,
        mixture: Array,
        gradients: Array,
        curvature: float,
        regression: int,
    ) -> None:
        node = self._nodes[int(vector[0])]
        arrays = kept(values), kept(losses), kept(mixture), kept(gradients)
        seen = Predictions(*arrays, curvature, bool(regression))
        node.links = node.rule.learn(node.links, seen)

    def _receive(self, _numbers: Array, vector: Array, sent: Array) -> None:
        node = self._nodes[int(vector[0])]
        node.links = node.rule.receive(node.links, kept(sent))

    def _send(self, _numbers: Array, vector: Array, sent: Array) -> None:
        node = self._nodes[int(vector[0])]
        fill(sent, node.rule.send(node.links), f"{self._name}.send")

    def _mixture_weights(self, _numbers: Array, vector: Array, found: Array) -> None:
        node = self._nodes[int(vector[0])]
        fill(found, node.rule.mixture_weights(node.links), f"{self._name}.mixture_weights")
