"""The agents that one process hosts, with the messages between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kernelswarm.agents.learners.contract import FeatureLearner, Learner
from kernelswarm.agents.nodes.agent import Agent, LossyAgent
from kernelswarm.agents.nodes.node import PRIMING, Node
from kernelswarm.agents.nodes.pooled_bands import PooledBands, PoolMember, UnreliablePooledBands
from kernelswarm.agents.nodes.populating import populated
from kernelswarm.agents.nodes.snapshot import Snapshot, restore, take
from kernelswarm.agents.nodes.stacked import StackedAgent
from kernelswarm.agents.nodes.stacked_population import StackedPopulation
from kernelswarm.agents.nodes.summaries import SummaryNode, width_of_message
from kernelswarm.agents.nodes.summaries_population import SummaryPopulation
from kernelswarm.agents.nodes.vectors import LossyVectorNode, VectorNode
from kernelswarm.protocols.contract import Neighborhood, Rule, StackedRule, fulfils
from kernelswarm.protocols.links.realization import Conditions
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.parameters.neighbours import combination
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.data.contract import HeldOut, NodeSource
from kernelswarm.simulations.engine.crossing import (
    Crossing,
    StackedCrossing,
    SummaryCrossing,
    with_bands,
    without_bands,
)
from kernelswarm.simulations.engine.measure import BYTES, Report, measure
from kernelswarm.simulations.engine.model_arrays import LearnedFunction, LearnedFunctions


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """The parts of one agent; the plan is sent to the process that will host the agent."""

    neighborhood: Neighborhood
    slots: tuple[int, ...]
    learner: Learner
    rule: AnyRule
    source: NodeSource
    inputs: int
    outputs: int
    targets: int
    evaluated: tuple[tuple[int, NodeSource], ...]
    """The nodes, with their streams, on whose held-out data the function is measured: itself, or all of them."""
    steps: int = 1
    """The steps that the agent takes in a round of the network: one, or one for each node whose samples it learns
    from."""
    conditions: Conditions | None = None
    """Links and clock; None if both are ideal."""
    level: float | None = None
    """The level of the agent's band; None without a band."""
    banded: bool = False
    """Whether the band is conformal, and so adapted by the agent's samples."""
    pooled: bool = False
    """Whether neighbours pool their bands."""
    varying: bool = False
    """Whether the noise in a band from the variance may vary with the input."""

    def begin(self) -> Any:
        """Return the agent's first link state; raises ValueError if the protocol does not fit the agent."""
        if fulfils(self.rule, ParameterRule):
            state = self.learner.init(self.inputs, self.outputs)
            assert fulfils(self.learner, FeatureLearner)
            return self.rule.begin(self.neighborhood, self.learner.coefficients(state))
        if fulfils(self.rule, StackedRule):
            return self.rule.begin(self.neighborhood)
        return None if fulfils(self.rule, SummaryRule) else cast(Rule, self.rule).init(self.neighborhood)

    @property
    def sends_vectors(self) -> bool:
        """Whether messages are vectors, whose length does not depend on mini-batches."""
        return fulfils(self.rule, ParameterRule) or fulfils(self.rule, SummaryRule)

    def vector_length(self) -> int:
        """Return the number of values in a message of such a protocol."""
        if fulfils(self.rule, SummaryRule):
            return width_of_message(self.rule, self.learner, self.inputs, self.outputs, self.targets, self.conditions)
        return len(cast(ParameterRule, self.rule).send(self.begin()))

    def build(self) -> Node:
        agent = self._build()
        if self.level is not None:
            agent.keep_band(self.level, self.banded, self.pooled, self.varying)
        return agent

    def _build(self) -> Node:
        known, sizes = (self.neighborhood, self.slots, self.learner), (self.inputs, self.outputs, self.targets)
        if fulfils(self.rule, ParameterRule):
            if self.conditions is None:
                return VectorNode(*known, self.rule, self.source, *sizes)
            return LossyVectorNode(*known, self.rule, self.source, *sizes, conditions=self.conditions)
        if fulfils(self.rule, StackedRule):
            return StackedAgent(*known, self.rule, self.source, *sizes, conditions=self.conditions)
        if fulfils(self.rule, SummaryRule):
            return SummaryNode(*known, self.rule, self.source, *sizes, conditions=self.conditions)
        parts = (*known, cast(Rule, self.rule), self.source, *sizes)
        if self.conditions is None:
            return Agent(*parts, steps=self.steps)
        return LossyAgent(*parts, conditions=self.conditions)


def pool_bands(plans: Sequence[AgentPlan], agents: Sequence[Node]) -> PooledBands | None:
    """Move the pooled bands of agents into one array, and return it, or None without pooled bands."""
    level, outputs, conditions = plans[0].level, plans[0].outputs, plans[0].conditions
    if level is None or not plans[0].pooled or not (conditions or any(agent.neighbors for agent in agents)):
        return None
    members = []
    for agent, known in zip(agents, (plan.neighborhood for plan in plans), strict=True):
        weights = combination("metropolis", known)
        members.append(PoolMember(agent.node, agent.neighbors, weights, agent.distinct, known))
    pool = (
        PooledBands(members, outputs, level)
        if conditions is None
        else UnreliablePooledBands(members, outputs, level, conditions, PRIMING)
    )
    for agent, band in zip(agents, pool.bands, strict=True):
        agent.band, agent.pool = band, pool
    return pool


class Block:
    """Some nodes of the network, which run their rounds together.

    Messages between the block's nodes are arrays. Messages to another block are sent as one byte string per round: for
    each node with neighbours in other blocks, in sorted order, its message with the answers for these neighbours.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The block's agents, in sorted order of their labels.
    """

    def __init__(self, plans: Sequence[AgentPlan]) -> None:
        self._agents = [plan.build() for plan in plans]
        self._pool = pool_bands(plans, self._agents)
        self._steps = plans[0].steps
        self._evaluated = [plan.evaluated for plan in plans]
        self.nodes = tuple(agent.node for agent in self._agents)
        inside = set(self.nodes)
        # The receiving directed edge, by sending node in another block and by slot of its message.
        self._wanted: dict[int, dict[int, int]] = {}
        received = [pair for agent in self._agents for pair in zip(agent.neighbors, agent.slots, strict=True)]
        for edge, (other, slot) in enumerate(received):
            if other not in inside:
                self._wanted.setdefault(other, {})[slot] = edge
        labels = np.array([plan.neighborhood.node for plan in plans])
        others = [np.array(plan.neighborhood.neighbors, dtype=np.int64) for plan in plans]
        ends = np.column_stack([np.repeat(labels, list(map(len, others))), np.concatenate(others)])
        self._edges = np.sort(ends[(ends[:, 0] < ends[:, 1]) | ~np.isin(ends[:, 1], labels)], axis=1)
        # The slots of messages that leave the block, by node.
        self._boundary = [
            (place, tuple(k for k, other in enumerate(agent.neighbors) if other not in inside))
            for place, agent in enumerate(self._agents)
        ]
        self._boundary = [(place, slots) for place, slots in self._boundary if slots]
        self._move()
        self._reported = False  # whether the sums since the last report are unchanged
        self.done = 0
        """Number of rounds of this block, including the rounds that prime the network."""

    @property
    def outside(self) -> tuple[int, ...]:
        """The labels of the nodes in other blocks that send to this block, sorted."""
        inside = set(self.nodes)
        return tuple(sorted({other for agent in self._agents for other in agent.neighbors} - inside))

    def send(self) -> bytes:
        """Pack the last messages to other blocks; before the first round, messages have no points."""
        sent = self._crossing.gather()
        if self._pool is None or not self._boundary:
            return sent
        places = [place for place, _ in self._boundary]
        bands = self._pool.sent_by(places)
        return with_bands(sent, {self.nodes[place]: bands[k] for k, place in enumerate(places)})

    def advance(self, *incoming: bytes) -> bytes:
        """Run one round with the other blocks' packed messages, and return this block's.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound.
        """
        self._run(1, incoming)
        return self.send()

    def run(self, rounds: int) -> None:
        """Run rounds of a block that receives from no other block; raises as :meth:`advance`."""
        while rounds:
            rounds -= self._run(rounds)

    def _run(self, rounds: int, incoming: Sequence[bytes] = ()) -> int:
        """Run at most ``rounds`` rounds, and return their number."""
        self._begin_sums()
        if self._pool is not None:
            parted = [without_bands(message) for message in incoming]
            incoming = [message for message, _ in parted]
            for _, sent in parted:
                self._pool.receive(sent)
        # Agents with several steps per round receive nothing. The rounds that prime them have single steps.
        primed = self.done >= PRIMING
        done, steps = (rounds, self._steps) if primed else (1, 1)
        population, failed = self._population, True
        self._crossing.scatter(incoming)
        try:
            population.run(done * steps)
            failed = False
        finally:
            if failed:  # the failed round is not counted
                self.done += population.completed // steps
        self.done += done
        return done

    def _move(self) -> None:
        """Move the agents, as they are, into arrays."""
        population = self._population = populated(self._agents)
        crossing: Any = Crossing
        if isinstance(population, StackedPopulation):
            crossing = StackedCrossing
        elif isinstance(population, SummaryPopulation):
            crossing = SummaryCrossing
        self._crossing: Crossing = crossing(population, self._boundary, self._wanted)

    @property
    def agents(self) -> list[Node]:
        """The present agents of the block."""
        self._population.sync()
        if self._pool is not None:
            for agent, numbers in zip(self._agents, self._pool.counted(), strict=True):
                agent.tally.scalars_sent += numbers
                if agent.tally.traffic is not None:
                    agent.tally.bytes_sent += BYTES * numbers
        return self._agents

    def report(self, pooled: HeldOut) -> Report:
        """Measure each node's function on its own held-out data and on ``pooled``.

        A second call before the next round returns the same report. New sums begin with the next round, or after a
        snapshot.
        """
        self._reported = True
        return measure(self.agents, self._evaluated, pooled, self._edges)

    def _begin_sums(self) -> None:
        """Begin new sums after a report, in which the agents were updated."""
        if not self._reported:
            return
        self._reported = False
        for agent in self._agents:
            agent.restart_tally()
        self._population.restart_sums()

    def snapshot(self) -> dict[int, Snapshot]:
        self._begin_sums()
        agents, drawn = self.agents, self._population.scatter()
        return {agent.node: take(agent, ahead) for agent, ahead in zip(agents, drawn, strict=True)}

    def restore(self, snapshots: Mapping[int, Snapshot]) -> None:
        """Restore new agents from snapshots."""
        self._reported = False
        if self._pool is not None:
            self._pool.counted()  # repeated rounds do not count twice
        for agent in self._agents:
            restore(agent, snapshots[agent.node])
        self.done = max(self.done, PRIMING)
        self._move()

    def functions(self) -> LearnedFunctions:
        """Return the arrays of each learner's function, its dual variables (deg,), its variance and its band."""
        found: LearnedFunctions = {}
        for agent in self.agents:
            known = [part.arrays() for part in (agent.posterior(), agent.constant_band()) if part is not None]
            arrays = {name: array for part in known for name, array in part.items()}
            duals = agent.duals()
            if duals is not None:
                duals = duals.copy()  # the node continues to change them
            found[agent.node] = LearnedFunction(agent.function.arrays(), duals, arrays)
        return found
