"""The serial backend: all agents in this process, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Protocol

from kernelswarm.agents.node.node import PRIMING, DivergenceError
from kernelswarm.simulations.round.block import AgentPlan, Block
from kernelswarm.simulations.round.engine import EngineError, Snapshots
from kernelswarm.simulations.round.failures import describe, node_at_work
from kernelswarm.simulations.round.measure import Report
from kernelswarm.simulations.round.model_arrays import LearnedFunctions
from kernelswarm.simulations.round.rounds import advance, block_neighbors
from kernelswarm.simulations.streams.contract import HeldOut


class SerialEngine:
    """Agents that live in this process.

    An exception of theirs, which can only come from a user's own part, is raised as EngineError: it names the node and
    the round.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        One block holds them all, unless the messages between blocks are wanted too.
    compiled : bool
        Whether rounds run in compiled code where the parts allow it.
    """

    def __init__(self, blocks: Sequence[Sequence[AgentPlan]], compiled: bool = True) -> None:
        self.blocks: list[Block] = []
        self._labels = tuple(sorted(plan.neighborhood.node for plans in blocks for plan in plans))
        self._earlier = 0  # rounds before those that the agents have run here
        with Named(self, working=False):
            self.blocks += [Block(plans, compiled) for plans in blocks]
            self._neighbors = block_neighbors(blocks)
            self._steps = [block.advance for block in self.blocks]
            self._outgoing = [block.send() for block in self.blocks]
        self.run(PRIMING)

    def run(self, rounds: int) -> None:
        """Take every agent through ``rounds`` rounds; raises DivergenceError or EngineError when one fails."""
        with Named(self, working=True):
            if len(self.blocks) == 1:
                self.blocks[0].run(rounds)
                return
            for _ in range(rounds):
                self._outgoing = advance(self._steps, self._neighbors, self._outgoing)

    def report(self, pooled: HeldOut) -> list[Report]:
        """Measure every node, in sorted order of the labels."""
        with Named(self, working=False):
            reports = [entry for block in self.blocks for entry in block.report(pooled)]
        return sorted(reports, key=lambda entry: entry.node)

    def functions(self) -> LearnedFunctions:
        """Return every learner's dictionary, weights and dual variables."""
        with Named(self, working=False):
            return {node: function for block in self.blocks for node, function in block.functions().items()}

    def snapshot(self) -> Snapshots:
        """Copy what all agents are, by their labels."""
        with Named(self, working=False):
            return {node: taken for block in self.blocks for node, taken in block.snapshot().items()}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Put the agents, before their first round, where the snapshots were taken."""
        with Named(self, working=False):
            for block in self.blocks:
                block.restore(snapshots)
            self._outgoing = [block.send() for block in self.blocks]
        self._earlier = round

    def failed(self, error: Exception, working: bool) -> EngineError:
        """Return what to raise for an exception of an agent, in the round after the last whole one if at work."""
        node = node_at_work(error.__traceback__)
        done = min((block.done for block in self.blocks), default=0) + working
        round = self._earlier + max(0, done - PRIMING)
        return EngineError(self._labels if node is None else (node,), round, describe(error))

    def paces(self) -> None:
        """Return nothing: there is one process."""

    def describe(self) -> dict[str, object]:
        """Return the backend's name."""
        return {"name": "serial", "processes": 1}


class Failing(Protocol):
    """An engine that knows which node failed, and in which round."""

    def failed(self, error: Exception, working: bool) -> EngineError:
        """Return what to raise for an exception of an agent, in the round after the last whole one if at work."""
        ...


class Named:
    """The border to code that may be a user's own: an exception from there leaves as EngineError."""

    def __init__(self, engine: Failing, working: bool) -> None:
        self._engine = engine
        self._working = working

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, DivergenceError):
            raise self._engine.failed(error, self._working) from error


@dataclass(frozen=True)
class Serial:
    """All agents in one process, one after the other: the fastest for small networks, the reference for the others."""

    restarts: ClassVar[int] = 0
    elsewhere: ClassVar[bool] = False

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing: starting takes no time."""
        return nullcontext()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[SerialEngine]:
        """Make the agents and prime the network."""
        tell("starting", 0, 1)
        yield SerialEngine([plans])
