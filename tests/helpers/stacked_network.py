"""A whole network of ensembles in plain numpy: copies that learn alone, and the shares by which they are mixed.

Each copy is run as a network of its own, under its protocol, by the product: that is what the copies of an ensemble
are, and other references hold these networks to their formulas. Shares, and what neighbours receive, are written
anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.nodes.conformal_band import empty_band, follow
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood, Predictions
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.unreliable_messages import PRIMING, Messages
from tests.helpers.unreliable_vectors import GrownError

NO_MORE, LEAST, SMALL = 1.0, 1e-30, 1e-9
"""How far the logarithm of a share moves in a round, what a share is at least, and which shares hold others up."""


@dataclass
class Shares:
    """What a node knows of its copies."""

    count: int
    products: Array = field(init=False)
    slopes: Array = field(init=False)
    losses: Array = field(init=False)
    own: Array = field(init=False)
    samples: int = 0
    weight: float = 0.0
    rounds: int = 0
    received: Array = field(init=False)

    def __post_init__(self) -> None:
        self.received = np.zeros((0, self.count))
        self.products, self.slopes = np.zeros((self.count, self.count)), np.zeros(self.count)
        self.losses, self.own = np.zeros(self.count), np.full(self.count, 1.0 / self.count)

    def receive(self, received: Array) -> None:
        """Receive the logarithms of neighbours' shares, (deg, K)."""
        self.received = received

    def send(self) -> Array:
        """Return the logarithms of the node's own."""
        return np.log(self.own)

    def mixture_weights(self) -> Array:
        """Return its own shares times the geometric mean of its neighbours'."""
        logs = np.log(self.own) + (self.received.mean(axis=0) if len(self.received) else 0.0)
        found = np.exp(logs - logs.max())
        return np.asarray(found / found.sum())

    def learn(self, values: Array, mixture: Array, targets: Array, loss: Any) -> None:
        """Add the samples of a round, (n, q), at which copies say ``values`` (K, n, C), and take a Newton step."""
        self.rounds += 1
        self.samples += len(targets)
        self.weight += self.rounds * len(targets)
        bend, slopes = loss.curvature, loss.derivatives(mixture, targets)
        self.products = self.products + self.rounds * bend * np.einsum("jnc,knc->jk", values, values)
        self.slopes = self.slopes + self.rounds * np.einsum("jnc,nc->j", values, bend * mixture - slopes)
        lost = [np.sum(loss.values(each, targets)) for each in values]
        self.losses = self.losses + self.rounds * np.array(lost)
        best, scale = self.losses.min(), self.samples / self.weight
        if loss.task == "regression":
            if best <= 0.0:
                return
            scale /= 2.0 * best / self.weight  # the variance of a Gaussian likelihood
        self.own = stepped(scale * self.products, scale * self.slopes, self.own)


def stepped(products: Array, slopes: Array, shares: Array) -> Array:
    """Return shares after a Newton step to the minimum of ``q' P q / 2 - h' q + sum q log q`` on the simplex.

    In the logarithms of shares, d = q u, the step solves ``(I + S P S) S u + nu S 1 = -S slope`` with ``1' S S u = 0``,
    S the roots of the shares.
    """
    roots, count = np.sqrt(shares), len(shares)
    slope = products @ shares - slopes + np.log(shares)
    system = np.zeros((count + 1, count + 1))
    system[:count, :count] = np.eye(count) + roots[:, np.newaxis] * products * roots
    system[:count, count] = system[count, :count] = roots
    moved = np.linalg.solve(system, np.append(-roots * slope, 0.0))[:count] / roots
    longest = np.abs(moved[shares > SMALL]).max(initial=0.0)
    moved = np.clip(moved * (NO_MORE / max(NO_MORE, longest)), -NO_MORE, NO_MORE)
    found = np.maximum(shares * np.exp(moved), LEAST)
    return np.asarray(found / found.sum())


class Asked:
    """What a node knows of its copies under a protocol in plain Python, each method of which is asked."""

    def __init__(self, rule: Any, neighborhood: Neighborhood) -> None:
        self.rule, self.known = rule, rule.begin(neighborhood)

    def receive(self, received: Array) -> None:
        self.known = self.rule.receive(self.known, received)

    def send(self) -> Array:
        return np.array(self.rule.send(self.known))

    def mixture_weights(self) -> Array:
        return np.array(self.rule.mixture_weights(self.known))

    def learn(self, values: Array, mixture: Array, targets: Array, loss: Any) -> None:
        lost = np.array([np.sum(loss.values(each, targets)) for each in values])
        gradients, numbers = loss.derivatives(mixture, targets), loss.task == "regression"
        seen = Predictions(values, lost, mixture, gradients, loss.curvature, numbers)
        self.known = self.rule.learn(self.known, seen)


@dataclass
class Node:
    """A node and its copies' shares."""

    plan: AgentPlan
    shares: Shares | Asked
    received: dict[int, Array]
    """The last message of each neighbour that it asks, as far as one was received."""
    sent_at: int = -1
    learned: int = 0
    samples: int = 0
    loss: float = 0.0
    band: Array | None = None
    """Its conformal band, where it has one."""
    target: float = 0.0
    """The largest of their targets."""
    following: tuple[Array, Array] | None = None


class StackedNetwork:
    """The nodes of an experiment under ``stacking``, or under a protocol of ensembles in plain Python."""

    diverged = 1e8
    """How far beyond the targets values may be."""

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.rule: Any = plans[0].rule
        self.messages, self.members = Messages(plans), self.rule.members
        self.alone = [self.copies(experiment, k) for k in range(len(self.members))]
        self.nodes = {plan.neighborhood.node: self.begin(plan) for plan in plans}
        self.now = 0

    def copies(self, experiment: Experiment, k: int) -> SerialEngine:
        """Return the network of the copies under one protocol."""
        plans = open_network(experiment).plans
        return SerialEngine([[replace(plan, rule=self.members[k]) for plan in plans]])

    def begin(self, plan: AgentPlan) -> Node:
        """Return a node before the first round."""
        known, asks = plan.neighborhood, plan.neighborhood.asks or (True,) * len(plan.neighborhood.neighbors)
        asked = tuple(j for j, each in zip(known.neighbors, asks, strict=True) if each)
        formulas = isinstance(self.rule, Stacking)
        shares = Shares(len(self.members)) if formulas else Asked(self.rule, replace(known, neighbors=asked))
        return Node(plan, shares, dict.fromkeys(asked, shares.send()))

    def functions(self, label: int) -> list[Function]:
        """Return the copies' functions."""
        place = self.messages.labels.index(label)
        return [engine.blocks[0].agents[place].function for engine in self.alone]

    def first_to_grow(self, rounds: int) -> str:
        """Return what is said of the first node whose mixture, or one of whose copies, is far beyond the targets."""
        for _ in range(rounds + PRIMING):
            found: list[tuple[int, int, str]] = []
            try:
                self.round()
            except GrownError as error:
                found.append((error.args[0], 0, error.args[1]))
            for k, engine in enumerate(self.alone if self.now >= PRIMING else ()):
                try:
                    engine.run(1)
                except DivergenceError as error:
                    found.append((error.node, 1 + k, str(error)))
            if found:
                return min(found)[2]
            self.now += 1
        raise AssertionError("nothing has grown")

    def run(self, rounds: int) -> None:
        """Live through rounds, those before the first among the first call's."""
        for _ in range(rounds if self.now else rounds + PRIMING):
            self.round()
            if self.now >= PRIMING:
                for engine in self.alone:
                    engine.run(1)
            self.now += 1

    def round(self) -> None:
        """Run a round: who is awake receives, and weighs its copies by the samples that it learns from."""
        now, messages = self.now, self.messages
        awake = [label for label in messages.labels if messages.awake(label, now)]
        fresh = [label for label in awake if messages.forgets and self.nodes[label].sent_at != now - 1]
        for label in fresh:
            begun = self.begin(self.nodes[label].plan)
            self.nodes[label].shares, self.nodes[label].received = begun.shares, begun.received
            messages.forget(label)
        messages.arrive(now, awake)
        for label in awake:
            node = self.nodes[label]
            if now >= PRIMING:
                for j in node.received:
                    there = messages.arrived[j, label]
                    if there:
                        node.received[j] = there[max(there)]
                node.shares.receive(np.array(list(node.received.values())).reshape(-1, len(self.members)))
                self.learn(label, node, label in fresh)
            if now:
                node.following = node.plan.source.draw(node.plan.learner.batch_size)
            node.sent_at = now
        for label in awake:
            messages.send(label, now, self.nodes[label].shares.send())

    def learn(self, label: int, node: Node, fresh: bool) -> None:
        """Weigh the copies by the samples of a round, before these learn from them."""
        assert node.following is not None
        (points, targets), plan = node.following, node.plan
        node.learned += 1
        if not len(targets):
            return
        node.samples += len(targets)
        learner: Any = plan.learner
        new: Function = learner.function(learner.init(plan.inputs, plan.outputs))
        functions = [new] * len(self.members) if fresh else self.functions(label)
        values = np.stack([function.values(points) for function in functions])
        mixture = np.tensordot(node.shares.mixture_weights(), values, 1)
        node.target = max(node.target, float(np.abs(targets).max()))
        largest = float(np.abs(mixture).max())
        if largest > self.diverged * (1.0 + node.target):
            where = f"node {label} diverged in round {node.learned}: its values reached {largest:.3g}"
            raise GrownError(label, f"{where} where targets reach {node.target:.3g}")
        if plan.banded:
            level, known = plan.level or 0.0, plan.neighborhood.distinct
            node.band = empty_band(mixture.shape[1], level) if node.band is None else node.band
            follow(node.band, mixture, targets, level, known, 1)
        node.loss += float(np.sum(learner.loss.values(mixture, targets)))
        if node.samples <= plan.neighborhood.distinct:
            node.shares.learn(values, mixture, targets, learner.loss)


def assert_as_the_formulas_say(
    experiment: Experiment, stops: tuple[int, ...], rtol: float = 1e-9, blocks: list[list[int]] | None = None
) -> StackedNetwork:
    """Hold the shares, functions and counts of nodes after each of some numbers of rounds to the reference."""
    plans, wanted = open_network(experiment).plans, StackedNetwork(experiment)
    engine = SerialEngine([[plans[k] for k in block] for block in blocks] if blocks else [plans])
    probes = np.random.default_rng(0).uniform(size=(9, plans[0].inputs))
    for count in stops:
        engine.run(count)
        wanted.run(count)
        for agent in [agent for block in engine.blocks for agent in block.agents]:
            node, known = wanted.nodes[agent.node], agent.links
            shares = node.shares.mixture_weights()
            for found, formula in (
                (wanted.rule.send(known), node.shares.send()),
                (wanted.rule.mixture_weights(known), shares),
            ):
                np.testing.assert_allclose(found, formula, rtol=rtol, atol=1e-12)
            functions = [function.values(probes) for function in wanted.functions(agent.node)]
            mixture = np.tensordot(shares, np.stack(functions), 1)
            np.testing.assert_allclose(agent.function.values(probes), mixture, rtol=rtol, atol=1e-11)
            assert (agent.round, agent.samples) == (node.learned, node.samples)
            if node.band is not None:
                np.testing.assert_allclose(agent.band, node.band, rtol=rtol)
            np.testing.assert_allclose(agent.tally.loss, node.loss, rtol=rtol)
            if agent.tally.traffic is not None:
                for e, j in enumerate(agent.neighbors):
                    assert agent.tally.traffic[e].tolist() == wanted.messages.seen_by(agent.node, j)
    return wanted
