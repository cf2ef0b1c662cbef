"""A whole network that sends vectors on links and by clocks of all kinds, in plain numpy, from the formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.linear import Linear
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.nodes.conformal_band import empty_band, follow
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import Penalized
from kernelswarm.protocols.parameters.summed_duals import SummedDuals
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.unreliable_messages import PRIMING, Messages
from tests.helpers.vector_duals import Dkla, Domkl, Odkla
from tests.helpers.vector_rules import Arrived, Diffusion, Ditto, Known, Mocha, Multitask, Rule, Samples, Tracking
from tests.helpers.vector_sums import DiffusionRls, Drfgp

RULES: dict[str, Callable[..., Rule]] = {
    "Diffusion": Diffusion,
    "GradientTracking": Tracking,
    "Odkla": Odkla,
    "Dkla": Dkla,
    "DiffusionRls": DiffusionRls,
    "Drfgp": Drfgp,
    "Domkl": Domkl,
    "Multitask": Multitask,
    "Mocha": Mocha,
    "Ditto": Ditto,
}
"""By the names of the classes that describe them in experiments."""


FORMULAS = RandomFeatures, Linear, Raker
"""Learners whose steps are written anew; all others are asked."""


class AskedSamples:
    """The samples of a node whose learner is in plain Python, which is asked for its steps."""

    def __init__(self, learner: Any, state: Any, points: Array, targets: Array, implicit: bool) -> None:
        self.learner, self.state, self.points, self.targets, self.implicit = learner, state, points, targets, implicit
        self.features, self.batch_size, self.loss = (
            learner.evaluate(state, points).rows,
            learner.batch_size,
            learner.loss,
        )
        self.eta: float = learner.eta(state)
        self.lambdas = np.zeros(self.features.shape[1])
        self.lambdas[: learner.regularized(state)] = learner.regularization

    def descend(self, weights: Array) -> Array:
        """Return where a step of the learner leads."""
        count = len(self.targets)
        if not count:
            return weights
        self.learner.place(self.state, weights, 0)
        own, part = Evaluated(self.points, self.features, self.features @ weights), min(1.0, count / self.batch_size)
        slopes = [part * self.learner.gradient(self.state, own, self.targets)]
        curvatures = [part * self.loss.curvature] if self.implicit else None
        self.learner.step(self.state, [own], slopes, curvatures, self.targets, self.eta)
        found: Array = self.learner.coefficients(self.state).copy()
        return found

    def gradient(self, weights: Array) -> Array:
        """Return where it leads, in units of its size."""
        return np.asarray((weights - self.descend(weights)) / self.eta)


class GrownError(ArithmeticError):
    """Values are far beyond the targets: it names the node, its round, and the largest of both."""


class Asked(Rule):
    """A protocol in plain Python, of which each method is asked where it stands in a round."""

    def __init__(self, known: Known, rule: Any, neighborhood: Neighborhood) -> None:
        self.rule, self.known = rule, rule.begin(neighborhood, known.weights)
        super().__init__(known)

    def adapt(self, samples: Any) -> None:
        self.known = self.rule.adapt(self.known, samples)
        self.weights = self.rule.weights(self.known)

    def send(self) -> Array:
        return np.array(self.rule.send(self.known), dtype=np.float64).reshape(-1)

    def receive(self, arrived: Arrived, samples: Any) -> None:
        self.known = self.rule.receive(self.known, Received(*arrived), samples)
        self.weights = self.rule.weights(self.known)


@dataclass
class Node:
    """A node, what it has drawn, what it has sent, and what it has counted."""

    plan: AgentPlan
    rule: Rule
    state: Any
    """Its learner's, of which the formulas take the features alone."""
    last_sent: Array
    samples: Any = None
    drawn: tuple[Array, Array] = (np.zeros((0, 0)), np.zeros((0, 0)))
    """The points and targets of the samples."""
    predicted: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """The values there of the function that saw them."""
    following: tuple[Array, Array] | None = None
    sent_at: int = -1
    learned: int = 0
    begun: int = 0
    used: dict[int, int] = field(default_factory=dict)
    """The round of the newest message of each neighbour that it has taken."""
    loss: float = 0.0
    counted: int = 0
    """The samples that it has learned from."""
    target: float = 0.0
    """The largest of their targets."""
    band: Array | None = None
    """Its conformal band, where it has one."""
    scalars: int = 0
    size: float = 0.0
    """The bytes that it has sent."""


class Network:
    """The nodes of an experiment whose protocol sends vectors.

    Parameters
    ----------
    experiment : Experiment
        Its learner is linear in its features, or has those of several kernels.
    """

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.messages, rule = Messages(plans), cast(Any, plans[0].rule)
        self.labels, self.links = self.messages.labels, self.messages.conditions.links
        self.level = plans[0].level or 0.0
        self.sums = isinstance(rule, SummedDuals)
        self.described: Any = rule.rule if isinstance(rule, SummedDuals) else rule
        self.nodes = {plan.neighborhood.node: self.begin(plan) for plan in plans}
        self.now = 0

    def begin(self, plan: AgentPlan) -> Node:
        """Return a node before the first round."""
        rule = self.rule(plan)
        return Node(plan, rule, plan.learner.init(plan.inputs, plan.outputs), rule.send())

    def rule(self, plan: AgentPlan) -> Rule:
        """Return what a node knows before the first round."""
        learner: Any = plan.learner
        count = learner.init(plan.inputs, plan.outputs).function.coefficients.size // plan.outputs
        keys = {key: value for key, value in vars(self.described).items() if key != "penalty"}
        if isinstance(self.described, Penalized):
            keys["penalty"] = self.described.strength
        kernels = len(learner.factors) if hasattr(learner, "factors") else 0
        shape = (kernels, count // kernels, plan.outputs) if kernels else (count, plan.outputs)
        degrees = np.array(plan.neighborhood.degrees, dtype=np.float64)
        known = Known(np.zeros(shape), degrees, self.links.max_age + 2)
        formulas = [RULES[kind.__name__] for kind in type(self.described).__mro__ if kind.__name__ in RULES]
        if not formulas:
            return Asked(known, self.described, plan.neighborhood)
        return formulas[0](known, sums=self.sums, **keys)

    def run(self, rounds: int) -> None:
        """Live through rounds, those before the first among the first call's."""
        for _ in range(rounds if self.now else rounds + PRIMING):
            self.round()
            self.now += 1

    def round(self) -> None:
        """Live through a round: messages arrive, and who is awake ends its round and begins the next."""
        now, messages = self.now, self.messages
        awake = [label for label in self.labels if messages.awake(label, now)]
        for label in awake:
            if messages.forgets and self.nodes[label].sent_at != now - 1:
                self.begin_anew(label)
        messages.arrive(now, awake)
        for label in awake:
            node = self.nodes[label]
            if node.samples is not None:
                self.learn(label, node)
            if node.following is not None:
                self.see(node, *node.following)
            node.following = node.plan.source.draw(node.plan.learner.batch_size)
            node.sent_at = now
        for label in awake:
            self.send(label, self.nodes[label])

    def begin_anew(self, label: int) -> None:
        """Forget all but the samples that were drawn, and what is on its way."""
        node, fresh = self.nodes[label], self.begin(self.nodes[label].plan)
        node.rule, node.begun, node.state = fresh.rule, node.learned, fresh.state
        self.messages.forget(label)
        self.see(node, *node.drawn)
        node.last_sent = node.rule.send()

    def see(self, node: Node, points: Array, targets: Array) -> None:
        """Have a node see samples, before it sends."""
        node.drawn = points, targets
        node.samples = self.samples(node)
        features = node.samples.features
        node.predicted = features @ node.rule.weights.reshape(features.shape[1], -1)
        node.rule.adapt(node.samples)
        self.place(node)

    def place(self, node: Node) -> None:
        """Have a learner in plain Python be where its node is."""
        learner: Any = node.plan.learner
        if not isinstance(learner, FORMULAS):
            learner.place(node.state, node.rule.weights, node.learned - node.begun)

    def samples(self, node: Node) -> Any:
        """Return a node's samples as its rule sees them."""
        learner: Any = node.plan.learner
        (points, targets), implicit = node.drawn, self.described.step == "implicit"
        if not isinstance(learner, FORMULAS):
            return AskedSamples(learner, node.state, points, targets, implicit)
        units = math.sqrt(len(node.rule.weights)) if node.rule.weights.ndim == 3 else 1.0
        features, schedule, steps = node.state.function.features(points), learner.step_size, node.learned - node.begun
        offset, lambdas = getattr(schedule, "offset", None), np.zeros(features.shape[1])
        eta = schedule.initial / (1.0 + steps / offset) if offset else schedule.value
        lambdas[: learner.regularized(node.state)] = learner.regularization
        return Samples(units * features, targets, learner.batch_size, eta, lambdas, learner.loss, implicit)

    def learn(self, label: int, node: Node) -> None:
        """End a round with the newest vector of each neighbour that has arrived."""
        links, now, samples = self.links, self.now, node.samples
        learner: Any = node.plan.learner
        values = node.predicted
        node.target = max(node.target, float(np.abs(samples.targets).max(initial=0.0)))
        largest = float(np.abs(values).max(initial=0.0))
        if largest > 1e8 * (1.0 + node.target):
            raise GrownError(
                f"node {label} diverged in round {node.learned + 1}: its values reached {largest:.3g} where targets "
                f"reach {node.target:.3g}"
            )
        if node.plan.banded and len(values):
            node.band = empty_band(values.shape[1], self.level) if node.band is None else node.band
            follow(node.band, values, samples.targets, self.level, node.plan.neighborhood.distinct, 1)
        node.loss += float(np.sum(learner.loss.values(values, samples.targets)))
        node.counted += len(samples.targets)
        vectors, counts = [node.last_sent], []
        for j in self.messages.neighbors[label]:
            there = self.messages.arrived[j, label]
            newest = max((sent for sent in there if sent >= now - 1 - links.max_age), default=None)
            if newest is None or (newest == node.used.get(j) and links.on_missing == "skip"):
                vectors.append(node.last_sent)
                counts.append(0.0)
                continue
            node.used[j] = newest
            vectors.append(there[newest])
            counts.append(1.0 / (1.0 + links.damping * (now - 1 - newest)))
        if isinstance(samples, AskedSamples):  # of which the step size may depend on the steps before
            samples = self.samples(node)
        node.rule.receive(Arrived(node.last_sent, np.array(vectors)[1:], np.array(counts)), samples)
        node.learned += 1
        self.place(node)

    def send(self, label: int, node: Node) -> None:
        """Send a node's vector, unless it is near the one that it sent last."""
        links, now, vector = self.links, self.now, node.rule.send()
        trigger = links.trigger
        if now >= PRIMING and trigger.threshold:
            distance = float(np.linalg.norm(vector - node.last_sent))
            if distance <= trigger.threshold * trigger.decay ** (now - PRIMING):
                return
        node.last_sent = self.messages.changed(label, now, vector)
        count = self.messages.send(label, now, node.last_sent)
        node.scalars += count * len(vector)
        bits = links.bits * len(vector) + 16
        node.size += count * (math.ceil(bits / 8) if links.bits < 64 else 8 * len(vector))


def assert_as_the_formulas_say(
    experiment: Experiment, stops: tuple[int, ...], rtol: float = 1e-9, atol: float = 1e-11
) -> Network:
    """Hold what nodes learn, send and count after each of some numbers of rounds to the reference, and return that."""
    engine, wanted = SerialEngine([open_network(experiment).plans]), Network(experiment)
    for count in stops:
        engine.run(count)
        wanted.run(count)
        for agent in engine.blocks[0].agents:
            node = wanted.nodes[agent.node]
            found = agent.learner.coefficients(agent.state)
            np.testing.assert_allclose(found, node.rule.weights, rtol=rtol, atol=atol)
            assert agent.round == node.learned
            if node.band is not None and not node.plan.pooled:
                np.testing.assert_allclose(agent.band, node.band, rtol=max(rtol, 1e-9), atol=atol)
            tally = agent.tally
            np.testing.assert_allclose(tally.loss, node.loss, rtol=max(rtol, 1e-9), atol=atol)
            assert (tally.samples, tally.scalars_sent) == (node.counted, node.scalars)
            if tally.traffic is None:
                continue
            assert tally.bytes_sent == node.size
            for e, j in enumerate(agent.neighbors):
                assert tally.traffic[e].tolist() == wanted.messages.seen_by(agent.node, j)
    return wanted
