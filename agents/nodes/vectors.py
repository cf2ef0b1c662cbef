"""A node that exchanges vectors with its neighbours: weights of features that all nodes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from scipy.linalg import lapack

from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners.certainty import Posterior
from kernelswarm.agents.learners.contract import Evaluated, FeatureLearner, Learner
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.learners.plain import ASKED, asked_at
from kernelswarm.agents.nodes.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.nodes.node import Draws, Node
from kernelswarm.agents.parts.plain_parts import fill
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import Neighborhood, fulfils, requirement_of
from kernelswarm.protocols.core.addresses import address, numbers_at
from kernelswarm.protocols.core.compiling import njit_no_refcount
from kernelswarm.protocols.links.links import bytes_of
from kernelswarm.protocols.links.realization import Conditions
from kernelswarm.protocols.parameters.contract import (
    AddressedRule,
    CompiledParameterRule,
    CompiledPhase,
    InformedRule,
    ParameterRule,
    PhaseArguments,
    Received,
    holds_numbers,
    in_vector,
    packed,
    place_of,
    unpacked,
)
from kernelswarm.protocols.parameters.least_squares import curvature, learn_at_most, noise_of


def lambdas_of(learner: FeatureLearner, state: Any, features: int) -> Array:
    """Return a learner's regularization of each feature, 0 for features that it does not regularize."""
    lambdas = np.zeros(features)
    lambdas[: learner.regularized(state)] = learner.regularization
    return lambdas


class RoundSamples:
    """The samples of a node's round, in the form passed to its rule.

    See :class:`~kernelswarm.protocols.parameters.contract.Samples`.

    Parameters
    ----------
    learner : Learner
        A learner that is linear in its features.
    state
        The learner's state, with which it takes steps.
    own : Evaluated
        The samples' points and features.
    targets : Array
        (n, q).
    implicit : bool
        Whether steps are implicit in a quadratic loss.
    """

    def __init__(self, learner: Learner, state: Any, own: Evaluated, targets: Array, implicit: bool) -> None:
        linear = cast(FeatureLearner, learner)
        self.features = own.rows
        self.targets = targets
        self.batch_size = learner.batch_size
        self.eta = learner.eta(state)
        self._points = own.points
        self._learner, self._linear, self._state, self._implicit = learner, linear, state, implicit

    @property
    def lambdas(self) -> Array:
        """The learner's regularization of each feature, (L,)."""
        return lambdas_of(self._linear, self._state, self.features.shape[1])

    def descend(self, weights: Array) -> Array:
        """Return the weights (L, C) after a step of the learner on the samples; without samples, unchanged weights."""
        if not len(self.targets):
            return weights
        learner, state = self._learner, self._state
        self._linear.place(state, weights, 0)
        own = Evaluated(self._points, self.features, combine(self.features, weights))
        part = share(len(self.targets), self.batch_size)
        gradient = learner.gradient(state, own, self.targets) * part
        curvatures = [learner.loss.curvature * part] if self._implicit else None
        learner.step(state, [own], [gradient], curvatures, self.targets, self.eta)
        return self._linear.coefficients(state).copy()

    def gradient(self, weights: Array) -> Array:
        """Return ``(weights - descend(weights)) / eta``, (L, C)."""
        return (weights - self.descend(weights)) / self.eta


class VectorNode(Node):
    """A node that sends a vector to all its neighbours.

    A round ends with the receipt of the vectors that were sent on its samples. Rounds run in arrays
    (:class:`~kernelswarm.agents.nodes.vector_population.VectorPopulation`). This class holds the state between rounds
    and calls rules in plain Python.

    Parameters
    ----------
    neighborhood, slots, source, inputs, outputs, targets
        See :class:`~kernelswarm.agents.nodes.node.Node`.
    learner : Learner
        A learner that is linear in its features.
    rule : ParameterRule
        The protocol.
    """

    __slots__ = ("_implicit", "_inputs", "_linear", "_nodes", "begun", "own", "rule")

    def __init__(
        self,
        neighborhood: Neighborhood,
        slots: Sequence[int],
        learner: Learner,
        rule: ParameterRule,
        source: Draws,
        inputs: int,
        outputs: int,
        targets: int,
    ) -> None:
        super().__init__(neighborhood, slots, learner, rule, True, source, inputs, outputs, targets)
        self.rule = rule
        self.received_points = []
        self.own: Evaluated
        """The evaluation at its samples, for rules in plain Python."""
        self._linear = cast(FeatureLearner, learner)
        self.links = rule.begin(neighborhood, self._linear.coefficients(self.state).copy())
        self.bound_noise()
        self._implicit = rule.step == "implicit"
        self._inputs = inputs
        self._nodes = neighborhood.nodes
        self.begun = 0
        """The round of the last reset of the learner."""
        self.width = self._sent().shape[1]

    def begin(self) -> None:
        """Draw the samples of the first two rounds."""
        size = self.learner.batch_size
        (self.points, self.targets), self.following = self.source.draw(size), self.source.draw(size)

    def adapt(self) -> None:
        """Update the protocol's state with the samples of the next round, before the node sends."""
        self.links = self.rule.adapt(self.links, self._samples())
        self.place()

    def receive(self, received: Received) -> None:
        """Update the protocol's state with the received vectors, which ends the round."""
        if fulfils(self.rule, AddressedRule):
            self.tally.scalars_sent += self.width * self.rule.receivers(self.links)
        self.links = self.rule.receive(self.links, received, self._samples())
        self.round += 1
        self.place()

    def place(self) -> None:
        """Set the learner's weights to the protocol's, with as many steps as rounds since its last reset."""
        self._linear.place(self.state, self.rule.weights(self.links), self.round - self.begun)

    def bound_noise(self) -> None:
        """Restrict the noise estimate to samples that the node has not learned from."""
        rule = self._described
        if hasattr(self, "links") and fulfils(rule, InformedRule):
            learn_at_most(rule.information(self.links).noise, self.distinct // self.learner.batch_size)

    def posterior(self) -> Posterior | None:
        """Return the predictive variance; None for protocols that do not solve least squares.

        The sums are means over the V nodes, so the information is V times as large.
        """
        if not fulfils(self.rule, InformedRule):
            return None
        known, function = self.rule.information(self.links), self.function
        lambdas = lambdas_of(self._linear, self.state, len(self._linear.coefficients(self.state)))
        matrix = curvature(known.sums, known.ridge, lambdas)
        root, failed = lapack.dpotrf(matrix, lower=0, clean=1)
        if failed:  # sums received with noise may belong to no samples
            return None
        noise, units = noise_of(known.noise), 1.0 / self._nodes
        return Posterior(function, np.ascontiguousarray(root), None, known.ridge, units, noise).thinned(self.times)

    def further_arrays(self) -> dict[str, AnyArray]:
        """Return an empty dict: the points in flight follow from the protocol's state."""
        return {}

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Do nothing: there are no such arrays."""

    def _sent(self) -> Array:
        return np.array(self.rule.send(self.links), dtype=np.float64).reshape(1, -1)

    def _samples(self) -> RoundSamples:
        return RoundSamples(self.learner, self.state, self.own, self.targets, self._implicit)


# A node that exchanges vectors on unreliable links.


class LossyVectorNode(VectorNode):
    """A node that exchanges vectors on unreliable links or with its own clock.

    It behaves like :class:`VectorNode` while every vector arrives in time. From each neighbour it uses the newest
    arrived vector; without a new one, the edge has no weight in the round, or, with ``on_missing = "repeat"``, that
    vector is used again. With a trigger, the node does not send while its vector is within the threshold of the last
    sent one. A sleeping node does nothing. Rounds run in arrays
    (:class:`~kernelswarm.agents.nodes.vector_population.VectorPopulation`).

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        See :class:`VectorNode`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.conditions = conditions
        self.inbox = Inbox(conditions, neighborhood, self.neighbors)
        self._neighborhood = neighborhood
        self.sent_at = NO_ANSWER
        """The round in which its present vector was ready to be sent."""
        self.used = np.full(degree, NO_ANSWER)
        """The rounds of the last vectors received."""
        self.last_sent: Array = self._sent()[0]
        """The vector known to its neighbours."""
        self.quiet = False
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)

    @property
    def message_bytes(self) -> float:
        return bytes_of(self.width, 0, 0, 1, self.conditions.links.bits)

    def begin_anew(self) -> None:
        """Reset the node to its state before the first round; keep drawn samples that it has not learned from."""
        self.state = self.learner.init(self._inputs, self.outputs)
        self.links = self.rule.begin(self._neighborhood, self._linear.coefficients(self.state).copy())
        self.bound_noise()
        self.begun = self.round
        self.own = self.learner.evaluate(self.state, self.points)
        self.adapt()
        self.last_sent, self.quiet = self._sent()[0], False

    def remedy(self) -> str:
        """Return the protocol's requirements if links or clock are not ideal, otherwise the keys to lower."""
        realization = not (self.conditions.links.ideal and self.conditions.clock.ideal)
        return (requirement_of(self.rule) if realization else None) or super().remedy()

    def further_arrays(self) -> dict[str, AnyArray]:
        assert self.tally.traffic is not None
        return {
            "lossy.now": np.array([self.now, self.sent_at]),
            "lossy.begun": np.array(self.begun),
            "lossy.used": self.used.copy(),
            "lossy.quiet": np.array(self.quiet),
            "lossy.last_sent": self.last_sent.copy(),
            "lossy.traffic": self.tally.traffic.copy(),
            **self.inbox.arrays,
        }

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`."""
        self.now, self.sent_at = arrays["lossy.now"].tolist()
        self.used, self.last_sent = arrays["lossy.used"].copy(), arrays["lossy.last_sent"].copy()
        self.begun = int(arrays["lossy.begun"])
        self.quiet = bool(arrays["lossy.quiet"])
        self.tally.traffic = arrays["lossy.traffic"].copy()
        self.inbox.take_over(arrays)


# A protocol of vectors for compiled rounds, in compiled or plain Python code.

ADAPTED, RECEIVED, BOX = range(3)
"""The numbers of a protocol in plain Python: the addresses of its methods and of the shared memory."""


def vectors_form(
    nodes: Sequence[VectorNode], begun: Callable[[int], tuple[Evaluated, Array]]
) -> HandedVectors | PlainVectors:
    """Return a protocol's compiled functions, or, if it has none, functions that call its methods.

    Parameters
    ----------
    nodes : sequence of VectorNode
        The nodes, by index.
    begun : callable
        Returns a node's evaluation at its samples at the start of a round, and their targets, for the node's index.
    """
    try:
        return HandedVectors(nodes, handed_over(nodes[0].rule, "protocol"))
    except NotCompiledError:
        return PlainVectors(nodes, begun)


class HandedStates:
    """The nodes' states of a protocol with compiled functions, which update them in arrays.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes, by index.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def pack(self, place: int) -> Array:
        """Return a node's state as a vector."""
        return packed(self._nodes[place].links)

    def unpack(self, place: int, vector: Array) -> None:
        """Set a node's state from a vector."""
        node = self._nodes[place]
        node.links = unpacked(node.links, vector)


class HandedVectors(HandedStates):
    """A protocol with compiled functions.

    Parameters
    ----------
    nodes : sequence of VectorNode
        The nodes, by index.
    rule : CompiledParameterRule
        The protocol's compiled functions.
    """

    synced: ClassVar[bool] = False
    """Whether nodes are updated during rounds."""

    def __init__(self, nodes: Sequence[VectorNode], rule: CompiledParameterRule) -> None:
        super().__init__(nodes)
        self.rule = rule
        self.sent = place_of(nodes[0].links, rule.sent)
        """The offset of the sent vector in a node's state."""
        self._following: list[Any] = [None] * len(nodes)  # the states that are views of the nodes' vectors
        self._anew = holds_numbers(nodes[0].links)

    def unpack(self, place: int, vector: Array) -> None:
        """Make a node's state a view of its vector: once, or at every call if the state contains numbers."""
        node = self._nodes[place]
        if node.links is not self._following[place] or self._anew:
            node.links = self._following[place] = in_vector(node.links, vector)


class PlainVectors:
    """A protocol whose Python methods are called with evaluations and messages of compiled rounds.

    A node's state remains a Python object. The node's vector contains the parts that rounds read: weights, sent vector
    and node index. As in :mod:`~kernelswarm.agents.learners.plain`, Python is called with integers, and other arguments
    are passed in a box, a shared memory at a known address.

    Parameters
    ----------
    nodes, begun
        See :func:`vectors_form`.
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
    """Return the parts of the box for received messages: the node's known vector, the neighbours', and their counts."""
    end = width + degree * width
    return box[:width], box[width:end].reshape(degree, width), box[end : end + degree]


@njit_no_refcount
def adapt(given: PhaseArguments) -> None:
    """Call the protocol's ``adapt`` for a node, and copy its sent vector."""
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
