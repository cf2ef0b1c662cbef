"""The serial backend: all agents in this process, large networks in several threads of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Literal, Protocol

from kernelswarm.agents.node.node import PRIMING, DivergenceError
from kernelswarm.agents.populations.populating import in_python
from kernelswarm.protocols.compiling import uncollected
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.simulations.backends.partition import partition
from kernelswarm.simulations.backends.side_by_side import SideBySide
from kernelswarm.simulations.machine.parallel import cores
from kernelswarm.simulations.round.block import AgentPlan, Block
from kernelswarm.simulations.round.engine import EngineError, Snapshots
from kernelswarm.simulations.round.failures import describe, node_at_work
from kernelswarm.simulations.round.measure import Report, joined
from kernelswarm.simulations.round.model_arrays import LearnedFunctions
from kernelswarm.simulations.round.rounds import block_neighbors
from kernelswarm.simulations.streams.contract import HeldOut

NODES_OF_A_THREAD = 500
"""Nodes, at least, for which "auto" takes a thread: with fewer, a round of most protocols is over too soon."""


class SerialEngine:
    """Agents in this process.

    An exception of theirs, which can only come from a user's own part, is raised as EngineError: it names the node and
    the round.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        One block holds them all, unless the messages between blocks are wanted too.
    """

    def __init__(self, blocks: Sequence[Sequence[AgentPlan]]) -> None:
        self.blocks: list[Block] = []
        self._labels = tuple(sorted(plan.neighborhood.node for plans in blocks for plan in plans))
        self._earlier = 0  # rounds before those that the agents have run here
        with uncollected():  # all that is made here stays
            with Named(self, working=False):
                self.blocks += [Block(plans) for plans in blocks]
                self._rounds = SideBySide(self.blocks, block_neighbors(blocks))
            self.run(PRIMING)

    def run(self, rounds: int) -> None:
        """Take every agent through ``rounds`` rounds; raises DivergenceError or EngineError when one fails."""
        with Named(self, working=True):
            self._rounds.run(rounds)

    def report(self, pooled: HeldOut) -> Report:
        with Named(self, working=False):
            return joined([block.report(pooled) for block in self.blocks])

    def functions(self) -> LearnedFunctions:
        with Named(self, working=False), uncollected():
            return {node: function for block in self.blocks for node, function in block.functions().items()}

    def snapshot(self) -> Snapshots:
        with Named(self, working=False):
            return {node: taken for block in self.blocks for node, taken in block.snapshot().items()}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Put the agents, before their first round, where the snapshots were taken."""
        with Named(self, working=False):
            for block in self.blocks:
                block.restore(snapshots)
            self._rounds.send_again()
        self._earlier = round

    def close(self) -> None:
        self._rounds.close()

    def failed(self, error: Exception, working: bool) -> EngineError:
        """Return the error for an agent's exception, in the round after the last whole one if ``at_work``."""
        node = node_at_work(error.__traceback__)
        done = min((block.done for block in self.blocks), default=0) + working
        round = self._earlier + max(0, done - PRIMING)
        return EngineError(self._labels if node is None else (node,), round, describe(error))

    def paces(self) -> None:
        """Return nothing: there is one process."""

    def describe(self) -> dict[str, object]:
        return {"name": "serial", "processes": 1, "threads": len(self.blocks)}


class Failing(Protocol):
    """An engine that knows which node failed, and in which round."""

    def failed(self, error: Exception, working: bool) -> EngineError:
        """Return the error for an agent's exception, in the round after the last whole one if ``at_work``."""
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
    """All agents in one process: the fastest for networks that one machine holds, the reference for all others.

    Parameters
    ----------
    threads : int or "auto"
        Threads, at most, that rounds run in, each with a block of nodes that has few neighbours in the others: at least
        1; "auto" takes one for each core, and no more than one for each 500 nodes. The results do not depend on it. One
        is taken where rounds call a part in plain Python, which Python's lock keeps from running beside each other.
    """

    threads: int | Literal["auto"] = "auto"

    restarts: ClassVar[int] = 0
    elsewhere: ClassVar[bool] = False

    ranges: ClassVar = {"threads": Range("[1, inf)", "", "auto")}

    def __post_init__(self) -> None:
        check_ranges(self)

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing: starting takes no time."""
        return nullcontext()

    def size(self, nodes: int) -> int:
        """Return the most nodes of a block where rounds are compiled."""
        threads = max(1, min(cores(), nodes // NODES_OF_A_THREAD)) if self.threads == "auto" else self.threads
        return -(-nodes // min(threads, nodes))

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[SerialEngine]:
        tell("starting", 0, 1)
        size = self.size(len(plans))
        if size < len(plans) and in_python([plan.learner for plan in plans], plans[0].rule) is not None:
            size = len(plans)
        with closing(SerialEngine(partition(plans, size))) as engine:
            yield engine
