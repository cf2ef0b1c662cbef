"""The agents that one process hosts, with the messages between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.agent import Agent, Outgoing
from kernelswarm.agents.learner import Learner
from kernelswarm.protocols.contract import Neighborhood, Rule
from kernelswarm.simulations.measure import Report, report
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource
from kernelswarm.simulations.wire import Reader, pack

Array = npt.NDArray[np.float64]
Expansions = dict[int, tuple[Array, Array, Array | None]]


@dataclass(frozen=True)
class AgentPlan:
    """All that one agent is made of; it travels to the process that will host the agent."""

    neighborhood: Neighborhood
    slots: tuple[int, ...]
    learner: Learner
    rule: Rule
    source: NodeSource
    inputs: int
    outputs: int
    evaluated: tuple[tuple[int, NodeSource], ...]
    """The nodes, with their streams, on whose held-out data the function is measured: itself, or all of them."""

    def build(self) -> Agent:
        """Make the agent."""
        return Agent(self.neighborhood, self.slots, self.learner, self.rule, self.source, self.inputs, self.outputs)


class Block:
    """Some nodes of the network, living through rounds together.

    Messages between its own nodes are handed over as they are. What crosses to another block travels as one string
    of bytes a round: for every node with neighbours outside, in sorted order, its message with the answers for those
    neighbours.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The block's agents, in sorted order of their labels.
    """

    def __init__(self, plans: Sequence[AgentPlan]) -> None:
        self.agents = [plan.build() for plan in plans]
        self._evaluated = [plan.evaluated for plan in plans]
        self.nodes = tuple(agent.node for agent in self.agents)
        inside = set(self.nodes)
        wanted: dict[int, set[int]] = {}
        for agent in self.agents:
            for other, slot in zip(agent.neighbors, agent.slots, strict=True):
                if other not in inside:
                    wanted.setdefault(other, set()).add(slot)
        self._reader = Reader(plans[0].inputs, plans[0].outputs, wanted)
        # Which slots of a node's message leave the block, for each node that has such slots.
        self._boundary = [
            (place, tuple(k for k, other in enumerate(agent.neighbors) if other not in inside))
            for place, agent in enumerate(self.agents)
        ]
        self._boundary = [(place, slots) for place, slots in self._boundary if slots]
        self._messages: dict[int, Outgoing] = {}

    @property
    def outside(self) -> tuple[int, ...]:
        """The labels of the nodes in other blocks that this block hears from, sorted."""
        inside = set(self.nodes)
        return tuple(sorted({other for agent in self.agents for other in agent.neighbors} - inside))

    def send(self) -> bytes:
        """Pack what this block's nodes last sent to other blocks; before the first round there is nothing in it."""
        if not self._messages:
            return b""
        return pack([(self.nodes[place], self._messages[self.nodes[place]], slots) for place, slots in self._boundary])

    def advance(self, *incoming: bytes) -> bytes:
        """Live through one round with the other blocks' packed messages, and return this block's.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound.
        """
        messages = self._messages
        for packed in incoming:
            messages.update(self._reader.read(packed))
        if messages:
            sent = [agent.advance([messages[other] for other in agent.neighbors]) for agent in self.agents]
        else:
            sent = [agent.advance(()) for agent in self.agents]
        self._messages = dict(zip(self.nodes, sent, strict=True))
        return self.send()

    def report(self, pooled: HeldOut) -> list[Report]:
        """Measure each node's function on its own held-out data and on ``pooled``, and start new sums."""
        return [
            entry
            for agent, evaluated in zip(self.agents, self._evaluated, strict=True)
            for entry in report(agent, evaluated, pooled)
        ]

    def functions(self) -> Expansions:
        """Return each learner's dictionary (M, p), weights (M, C) and dual variables (deg,)."""
        found: Expansions = {}
        for agent in self.agents:
            function = agent.function
            found[agent.node] = (function.points.copy(), function.weights.copy(), agent.rule.duals(agent.links))
        return found
