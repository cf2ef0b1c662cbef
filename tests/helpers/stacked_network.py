"""A whole network of ensembles in plain numpy: copies that learn alone, and the shares by which they are mixed.

Each copy is run as a network of its own, under its protocol, by the product: that is what the copies of an ensemble
are, and other references hold these networks to their formulas. Shares, and what neighbours hear of them, are written
anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.running.network import open_network
from tests.helpers.unreliable_messages import PRIMING, Array, Messages

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

    def __post_init__(self) -> None:
        self.products, self.slopes = np.zeros((self.count, self.count)), np.zeros(self.count)
        self.losses, self.own = np.zeros(self.count), np.full(self.count, 1.0 / self.count)

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


@dataclass
class Node:
    """A node and its copies' shares."""

    plan: AgentPlan
    shares: Shares
    heard: dict[int, Array]
    """The logarithms of the shares of each neighbour that it asks, as they were heard last."""
    sent_at: int = -1
    learned: int = 0
    samples: int = 0
    loss: float = 0.0
    following: tuple[Array, Array] | None = None

    def mixture_weights(self) -> Array:
        """Return its own shares times the geometric mean of its neighbours'."""
        logs = np.log(self.shares.own)
        if self.heard:
            logs = logs + np.mean(list(self.heard.values()), axis=0)
        found = np.exp(logs - logs.max())
        return np.asarray(found / found.sum())


class StackedNetwork:
    """The nodes of an experiment under ``stacking``."""

    def __init__(self, experiment: Experiment) -> None:
        plans = open_network(experiment).plans
        self.messages, self.members = Messages(plans), plans[0].rule.members  # type: ignore[union-attr]
        self.alone = [self.copies(experiment, k) for k in range(len(self.members))]
        self.nodes = {plan.neighborhood.node: self.begin(plan) for plan in plans}
        self.now = 0

    def copies(self, experiment: Experiment, k: int) -> SerialEngine:
        """Return the network of the copies under one protocol."""
        plans = open_network(experiment).plans
        return SerialEngine([[replace(plan, rule=self.members[k]) for plan in plans]])

    def begin(self, plan: AgentPlan) -> Node:
        """Return a node before the first round."""
        known, count = plan.neighborhood, len(self.members)
        asks = known.asks or (True,) * len(known.neighbors)
        alike = np.full(count, -np.log(count))
        return Node(plan, Shares(count), {j: alike for j, each in zip(known.neighbors, asks, strict=True) if each})

    def functions(self, label: int) -> list[Function]:
        """Return the copies' functions."""
        place = self.messages.labels.index(label)
        return [engine.blocks[0].agents[place].function for engine in self.alone]

    def run(self, rounds: int) -> None:
        """Live through rounds, those before the first among the first call's."""
        for _ in range(rounds if self.now else rounds + PRIMING):
            self.round()
            if self.now >= PRIMING:
                for engine in self.alone:
                    engine.run(1)
            self.now += 1

    def round(self) -> None:
        """Live through a round: who is awake hears, and weighs its copies by the samples that it learns from."""
        now, messages = self.now, self.messages
        awake = [label for label in messages.labels if messages.awake(label, now)]
        fresh = [label for label in awake if messages.forgets and self.nodes[label].sent_at != now - 1]
        for label in fresh:
            begun = self.begin(self.nodes[label].plan)
            self.nodes[label].shares, self.nodes[label].heard = begun.shares, begun.heard
            messages.forget(label)
        messages.arrive(now, awake)
        for label in awake:
            node = self.nodes[label]
            if now >= PRIMING:
                for j in node.heard:
                    there = messages.arrived[j, label]
                    if there:
                        node.heard[j] = there[max(there)]
                self.learn(label, node, label in fresh)
            if now:
                node.following = node.plan.source.draw(node.plan.learner.batch_size)
            node.sent_at = now
        for label in awake:
            messages.send(label, now, np.log(self.nodes[label].shares.own))

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
        mixture = np.tensordot(node.mixture_weights(), values, 1)
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
            node, links = wanted.nodes[agent.node], agent.links
            np.testing.assert_allclose(links.mixture_weights, node.shares.own, rtol=rtol, atol=1e-13)
            shares = agent.rule.mixture_weights(links)  # type: ignore[attr-defined]
            np.testing.assert_allclose(shares, node.mixture_weights(), rtol=rtol, atol=1e-13)
            functions = [function.values(probes) for function in wanted.functions(agent.node)]
            mixture = np.tensordot(node.mixture_weights(), np.stack(functions), 1)
            np.testing.assert_allclose(agent.function.values(probes), mixture, rtol=rtol, atol=1e-11)
            assert (agent.round, agent.samples) == (node.learned, node.samples)
            np.testing.assert_allclose(agent.tally.loss, node.loss, rtol=rtol)
            if agent.tally.traffic is not None:
                for e, j in enumerate(agent.neighbors):
                    assert agent.tally.traffic[e].tolist() == wanted.messages.seen_by(agent.node, j)
    return wanted
