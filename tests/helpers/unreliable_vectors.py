"""A whole network that sends vectors on links and by clocks of all kinds, in plain numpy, from the formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from kernelswarm.protocols.parameters.penalties import Penalized
from kernelswarm.protocols.parameters.summed_duals import SummedDuals
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.running.network import open_network
from tests.helpers.unreliable_messages import PRIMING, Messages
from tests.helpers.vector_duals import Dkla, Domkl, Odkla
from tests.helpers.vector_rules import Array, Diffusion, Ditto, Heard, Known, Mocha, Multitask, Rule, Samples, Tracking
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


@dataclass
class Node:
    """A node, what it has drawn, what it has sent, and what it has counted."""

    plan: AgentPlan
    rule: Rule
    features: Callable[[Array], Array]
    regularized: int
    """How many of the features, from the first, are regularised."""
    last_sent: Array
    samples: Samples | None = None
    following: tuple[Array, Array] | None = None
    sent_at: int = -1
    learned: int = 0
    begun: int = 0
    used: dict[int, int] = field(default_factory=dict)
    """The round of the newest message of each neighbour that it has taken."""
    loss: float = 0.0
    counted: int = 0
    """The samples that it has learned from."""
    scalars: int = 0
    size: float = 0.0
    """The bytes that it has sent."""


class Network:
    """The nodes of an experiment whose protocol sends vectors.

    Parameters
    ----------
    experiment : Experiment
        Its learner has one kind of features, without an intercept, or those of several kernels.
    """

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.messages, rule = Messages(plans), cast(Any, plans[0].rule)
        self.labels, self.links = self.messages.labels, self.messages.conditions.links
        self.sums = isinstance(rule, SummedDuals)
        self.described: Any = rule.rule if isinstance(rule, SummedDuals) else rule
        self.nodes = {plan.neighborhood.node: self.begin(plan) for plan in plans}
        self.now = 0

    def begin(self, plan: AgentPlan) -> Node:
        """Return a node before the first round."""
        learner: Any = plan.learner
        state = learner.init(plan.inputs, plan.outputs)
        function = state.function
        rule = self.rule(plan)
        units = math.sqrt(len(rule.weights)) if rule.weights.ndim == 3 else 1.0
        shrunk = learner.regularized(state)
        return Node(plan, rule, lambda points: units * function.features(points), shrunk, rule.send())

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
        return RULES[type(self.described).__name__](known, sums=self.sums, **keys)

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
                self.learn(label, node, node.samples)
            if node.following is not None:
                node.samples = self.samples(node, *node.following)
                node.rule.adapt(node.samples)
            node.following = node.plan.source.draw(node.plan.learner.batch_size)
            node.sent_at = now
        for label in awake:
            self.send(label, self.nodes[label])

    def begin_anew(self, label: int) -> None:
        """Forget all but the samples that were drawn, and what is on its way."""
        node, fresh = self.nodes[label], self.begin(self.nodes[label].plan)
        node.rule, node.begun = fresh.rule, node.learned
        self.messages.forget(label)
        assert node.samples is not None
        node.samples = node.samples._replace(eta=self.eta(node))
        node.rule.adapt(node.samples)
        node.last_sent = node.rule.send()

    def eta(self, node: Node) -> float:
        schedule: Any = node.plan.learner.step_size
        steps = node.learned - node.begun
        offset = getattr(schedule, "offset", None)
        return float(schedule.initial / (1.0 + steps / offset) if offset else schedule.value)

    def samples(self, node: Node, points: Array, targets: Array) -> Samples:
        learner: Any = node.plan.learner
        drawn = node.features(points), targets, learner.batch_size, self.eta(node)
        lambdas = np.zeros(drawn[0].shape[1])
        lambdas[: node.regularized] = learner.regularization
        return Samples(*drawn, lambdas, learner.loss, self.described.step == "implicit")

    def learn(self, label: int, node: Node, samples: Samples) -> None:
        """End a round with the newest vector of each neighbour that has arrived."""
        links, now = self.links, self.now
        learner: Any = node.plan.learner
        weights = node.rule.weights.reshape(samples.features.shape[1], -1)
        node.loss += float(np.sum(learner.loss.values(samples.features @ weights, samples.targets)))
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
        node.rule.receive(Heard(node.last_sent, np.array(vectors)[1:], np.array(counts)), samples)
        node.learned += 1

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
            tally = agent.tally
            np.testing.assert_allclose(tally.loss, node.loss, rtol=max(rtol, 1e-9), atol=atol)
            assert (tally.samples, tally.scalars_sent) == (node.counted, node.scalars)
            if tally.traffic is None:
                continue
            assert tally.bytes_sent == node.size
            for e, j in enumerate(agent.neighbors):
                assert tally.traffic[e].tolist() == wanted.messages.seen_by(agent.node, j)
    return wanted
