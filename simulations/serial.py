"""The serial backend: all agents in this process, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from kernelswarm.simulations.block import AgentPlan, Block
from kernelswarm.simulations.engine import Snapshots
from kernelswarm.simulations.measure import Report
from kernelswarm.simulations.model_arrays import Functions
from kernelswarm.simulations.rounds import PRIMING, advance, block_neighbors
from kernelswarm.simulations.streams.contract import HeldOut


class SerialEngine:
    """Agents that live in this process.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        One block holds them all, unless the messages between blocks are wanted too.
    compiled : bool
        Whether rounds run in compiled code where the parts allow it.
    """

    def __init__(self, blocks: Sequence[Sequence[AgentPlan]], compiled: bool = True) -> None:
        self.blocks = [Block(plans, compiled) for plans in blocks]
        self._neighbors = block_neighbors(blocks)
        self._steps = [block.advance for block in self.blocks]
        self._outgoing = [block.send() for block in self.blocks]
        self.run(PRIMING)

    def run(self, rounds: int) -> None:
        """Take every agent through ``rounds`` rounds; raises DivergenceError when one grows without bound."""
        if len(self.blocks) == 1:
            self.blocks[0].run(rounds)
            return
        for _ in range(rounds):
            self._outgoing = advance(self._steps, self._neighbors, self._outgoing)

    def report(self, pooled: HeldOut) -> list[Report]:
        """Measure every node, in sorted order of the labels."""
        return sorted((entry for block in self.blocks for entry in block.report(pooled)), key=lambda entry: entry.node)

    def functions(self) -> Functions:
        """Return every learner's dictionary, weights and dual variables."""
        return {node: function for block in self.blocks for node, function in block.functions().items()}

    def snapshot(self) -> Snapshots:
        """Copy what all agents are, by their labels."""
        return {node: taken for block in self.blocks for node, taken in block.snapshot().items()}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Put the agents, before their first round, where the snapshots were taken."""
        for block in self.blocks:
            block.restore(snapshots)
        self._outgoing = [block.send() for block in self.blocks]

    def describe(self) -> dict[str, object]:
        """Return the backend's name."""
        return {"name": "serial", "processes": 1}


@dataclass(frozen=True)
class Serial:
    """All agents in one process, one after the other: the fastest for small networks, the reference for the others."""

    restarts: ClassVar[int] = 0

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing: starting takes no time."""
        return nullcontext()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[SerialEngine]:
        """Make the agents and prime the network."""
        tell("starting", 0, 1)
        yield SerialEngine([plans])
