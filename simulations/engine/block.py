"""The agents that one process hosts, with the messages between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

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


@dataclass(frozen=True)
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
    """Links and clock, where they are not ideal."""
    level: float | None = None
    """The share of targets that should lie within the agent's band; None without a band."""
    banded: bool = False
    """Whether that is a conformal band, which its samples adapt."""
    pooled: bool = False
    """Whether neighbours pool these bands."""
    varying: bool = False
    """Whether the noise of a band from the variance varies with the input, where the agent's errors show it."""

    def begin(self) -> Any:
        """Return the agent's first link state; raises ValueError where the protocol cannot work."""
        if fulfils(self.rule, ParameterRule):
            state = self.learner.init(self.inputs, self.outputs)
            assert fulfils(self.learner, FeatureLearner)
            return self.rule.begin(self.neighborhood, self.learner.coefficients(state))
        if fulfils(self.rule, StackedRule):
            return self.rule.begin(self.neighborhood)
        return None if fulfils(self.rule, SummaryRule) else cast(Rule, self.rule).init(self.neighborhood)

    @property
    def sends_vectors(self) -> bool:
        """Whether all messages have one length, whatever the batches are."""
        return fulfils(self.rule, ParameterRule) or fulfils(self.rule, SummaryRule)

    def vector_length(self) -> int:
        """Return how many numbers a message of such a protocol has."""
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

    Messages between its own nodes are passed unchanged. Those to another block are sent as one string
    of bytes a round: for every node with neighbours outside, in sorted order, its message with the answers for those
    neighbours.

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
        # By the nodes of other blocks and the slots of their messages: the directed edge on which they are received.
        self._wanted: dict[int, dict[int, int]] = {}
        received = [pair for agent in self._agents for pair in zip(agent.neighbors, agent.slots, strict=True)]
        for edge, (other, slot) in enumerate(received):
            if other not in inside:
                self._wanted.setdefault(other, {})[slot] = edge
        # Which slots of a node's message leave the block, for each node that has such slots.
        self._boundary = [
            (place, tuple(k for k, other in enumerate(agent.neighbors) if other not in inside))
            for place, agent in enumerate(self._agents)
        ]
        self._boundary = [(place, slots) for place, slots in self._boundary if slots]
        self._move()
        self._reported = False  # since the last round: the reported sums are still there
        self.done = 0
        """The rounds that this block has run, those included that primed the network."""

    @property
    def outside(self) -> tuple[int, ...]:
        """The labels of the nodes in other blocks that send to this block, sorted."""
        inside = set(self.nodes)
        return tuple(sorted({other for agent in self._agents for other in agent.neighbors} - inside))

    def send(self) -> bytes:
        """Pack what this block's nodes last sent to other blocks; before the first round there are no points in it."""
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
            When a node's iteration grows without bound.
        """
        self._run(1, incoming)
        return self.send()

    def run(self, rounds: int) -> None:
        """Run some rounds of a block that receives from no other one; raises as :meth:`advance` does."""
        while rounds:
            rounds -= self._run(rounds)

    def _run(self, rounds: int, incoming: Sequence[bytes] = ()) -> int:
        """Run up to so many rounds, and return how many."""
        self._begin_sums()
        if self._pool is not None:
            parted = [without_bands(message) for message in incoming]
            incoming = [message for message, _ in parted]
            for _, sent in parted:
                self._pool.receive(sent)
        # An agent that takes several steps a round receives nothing. Those that prime it are single ones.
        primed = self.done >= PRIMING
        done, steps = (rounds, self._steps) if primed else (1, 1)
        population, failed = self._population, True
        self._crossing.scatter(incoming)
        try:
            population.run(done * steps)
            failed = False
        finally:
            if failed:  # the round that failed is the next one
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
        """The block's agents, as they are now."""
        self._population.sync()
        if self._pool is not None:
            for agent, numbers in zip(self._agents, self._pool.counted(), strict=True):
                agent.tally.scalars_sent += numbers
                if agent.tally.traffic is not None:
                    agent.tally.bytes_sent += BYTES * numbers
        return self._agents

    def report(self, pooled: HeldOut) -> Report:
        """Measure each node's function on its own held-out data and on ``pooled``.

        A second call before the next round returns the same; new sums begin with that round, or after a snapshot.
        """
        self._reported = True
        return measure(self.agents, self._evaluated, pooled)

    def _begin_sums(self) -> None:
        """Begin new sums after a report, which has brought the agents up to date."""
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
        """Set new agents, which have not learned yet, to the states in snapshots."""
        self._reported = False
        if self._pool is not None:
            self._pool.counted()  # of rounds that are run again
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
                duals = duals.copy()  # of a node that goes on
            found[agent.node] = LearnedFunction(agent.function.arrays(), duals, arrays)
        return found
