"""A node whose neighbours exchange vectors: the weights of features that all of them share."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.functions.features import combine
from kernelswarm.agents.learners.contract import Evaluated, FeatureLearner, Learner
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.learners.second_order.posterior import Posterior
from kernelswarm.agents.node.node import Draws, Node
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, recorded
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.parameters.contract import AddressedRule, InformedRule, ParameterRule, Received
from kernelswarm.protocols.solving.least_squares import curvature
from kernelswarm.protocols.solving.noise_variance import learn_at_most, noise_of

Array = npt.NDArray[np.float64]


def lambdas_of(learner: FeatureLearner, state: Any, features: int) -> Array:
    """Return a learner's regularization of each feature, 0 for those that it leaves free."""
    lambdas = np.zeros(features)
    lambdas[: learner.regularized(state)] = learner.regularization
    return lambdas


class RoundSamples:
    """The samples of a node's round, as its rule sees them.

    They are :class:`~kernelswarm.protocols.parameters.contract.Samples`.

    Parameters
    ----------
    learner : Learner
        A learner that is linear in its features.
    state
        Its state, with which it steps.
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
        """Return the weights (L, C) after a step of the learner on the samples; without samples, as they are."""
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

    A round ends when the vectors are received that were sent on its samples. Rounds run in arrays
    (:class:`~kernelswarm.agents.compiled.vector_population.VectorPopulation`). Here is what the node is between them,
    and what rounds ask of a rule in plain Python.

    Parameters
    ----------
    neighborhood, slots, source, inputs, outputs, targets
        As of :class:`~kernelswarm.agents.node.node.Node`.
    learner : Learner
        A learner that is linear in its features.
    rule : ParameterRule
        The protocol.
    """

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
        """What a rule in plain Python sees of its samples."""
        self._linear = cast(FeatureLearner, learner)
        self.links = rule.begin(neighborhood, self._linear.coefficients(self.state).copy())
        self.bound_noise()
        self._implicit = rule.step == "implicit"
        self._inputs = inputs
        self._nodes = neighborhood.nodes
        self.begun = 0
        """The rounds after which the learner began anew, last."""
        self.width = self._sent().shape[1]

    def begin(self) -> None:
        """Draw the samples of the first two rounds."""
        size = self.learner.batch_size
        (self.points, self.targets), self.following = self.source.draw(size), self.source.draw(size)

    def adapt(self) -> None:
        """Update the protocol's state by the samples of the next round, before the node sends."""
        self.links = self.rule.adapt(self.links, self._samples())
        self.place()

    def receive(self, received: Received) -> None:
        """Update the protocol's state by the vectors received, which ends the round."""
        if fulfils(self.rule, AddressedRule):
            self.tally.scalars_sent += self.width * self.rule.receivers(self.links)
        self.links = self.rule.receive(self.links, received, self._samples())
        self.round += 1
        self.place()

    def place(self) -> None:
        """Set the learner's weights to the protocol's, after as many steps as rounds since it began."""
        self._linear.place(self.state, self.rule.weights(self.links), self.round - self.begun)

    def bound_noise(self) -> None:
        """Estimate the noise from samples only that the node has not learned from."""
        rule = self._described
        if hasattr(self, "links") and fulfils(rule, InformedRule):
            learn_at_most(rule.information(self.links).noise, self.distinct // self.learner.batch_size)

    def posterior(self) -> Posterior | None:
        """Return the predictive variance; None for protocols that do not solve least squares.

        The sums are means over the nodes, which all of them have learned from: V times as much is known.
        """
        if not fulfils(self.rule, InformedRule):
            return None
        known, function = self.rule.information(self.links), self.function
        lambdas = lambdas_of(self._linear, self.state, len(self._linear.coefficients(self.state)))
        matrix = curvature(known.sums, known.ridge, lambdas)
        root, failed = lapack.dpotrf(matrix, lower=0, clean=1)
        if failed:  # sums received with noise may be those of no samples
            return None
        noise, units = noise_of(known.noise), 1.0 / self._nodes
        return Posterior(function, np.ascontiguousarray(root), None, known.ridge, units, noise).thinned(self.times)

    def duals(self) -> Array | None:
        """Return the dual variables of the node's directed edges, (deg,), or None."""
        return self.rule.duals(self.links)

    def record(self) -> LinkRecord:
        return recorded(self.rule, self.links, len(self.neighbors))

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return nothing: the points in flight follow from the protocol's state."""
        return {}

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over nothing."""

    def _sent(self) -> Array:
        return np.array(self.rule.send(self.links), dtype=np.float64).reshape(1, -1)

    def _samples(self) -> RoundSamples:
        return RoundSamples(self.learner, self.state, self.own, self.targets, self._implicit)
