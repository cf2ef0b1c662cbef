"""The serial backend: all agents in this process, large networks in several threads of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from kernelswarm.agents.nodes.node import PRIMING, DivergenceError
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.core.callbacks import taking
from kernelswarm.protocols.core.compiling import uncollected
from kernelswarm.ranges import Range, Ranged
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.block import AgentPlan, Block
from kernelswarm.simulations.engine.engine import EngineError, Snapshots, advance, block_neighbors
from kernelswarm.simulations.engine.failures import describe, node_at_work
from kernelswarm.simulations.engine.measure import Report, joined
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions
from kernelswarm.simulations.engine.partition import partition

# Blocks of one process in threads, if that is faster than one after the other.

WORTHWHILE = 4e-4
"""Minimum seconds that threads must save, since they need about this time to wake up and to wait for the interpreter
lock.
"""

WINDOW = 16
"""Number of threaded calls after which their time is compared with sequential calls. If threads are slower, because
other work has the cores, they pause for this many calls, then for twice as many, and so on.
"""

LONGEST_PAUSE = 256
"""Maximum number of calls in a pause."""


class Ended(NamedTuple):
    """The result of a call, or the divergence of a node in it, and its processor time."""

    answer: Any
    divergence: DivergenceError | None
    seconds: float


class SideBySide:
    """Runs the rounds of blocks, with one thread for each if earlier calls show that this is faster.

    Messages cross between blocks once per round, as between processes, and each block writes to its own arrays only. So
    the results do not depend on the timing of threads.

    Parameters
    ----------
    blocks : sequence of Block
        At least one block.
    neighbors : sequence of sequence of int
        The places of the blocks that send to each block.
    """

    def __init__(self, blocks: Sequence[Block], neighbors: Sequence[Sequence[int]]) -> None:
        self._blocks = blocks
        self._neighbors = neighbors
        self._outgoing = [block.send() for block in blocks]
        self._turn = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._saved = 0.0  # seconds per round that threads would have saved in earlier calls
        self._gains: list[float] = []  # seconds saved by threads since the last check
        self._pause = self._last_pause = 0  # calls without threads

    def run(self, rounds: int) -> None:
        """Take every block through ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound. The error concerns the first such round and, in this round, the node
            with the lowest label, as in a single block.
        """
        with ExitStack() as failed:
            failed.callback(self.close)  # no further rounds after a failure
            if any(self._neighbors):
                for _ in range(rounds):
                    self._outgoing = self._call_all(1, [block.advance for block in self._blocks], self._outgoing)
            elif rounds:  # no messages between blocks
                self._call_all(rounds, [partial(block.run, rounds) for block in self._blocks], self._outgoing)
            failed.pop_all()

    def send_again(self) -> None:
        """Read the last messages of blocks again, after these were moved."""
        self._outgoing = [block.send() for block in self._blocks]

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _call_all(self, rounds: int, calls: Sequence[Callable[..., Any]], outgoing: Sequence[bytes]) -> list[Any]:
        """Call every block with its neighbours' messages, for some rounds, and return the answers."""
        beside = self._saved * rounds >= WORTHWHILE and not self._pause
        self._pause = max(0, self._pause - 1)
        began = time.perf_counter()
        begin = self._submit if beside else _timed
        ended = self._ended(advance([partial(begin, call) for call in calls], self._neighbors, outgoing))
        seconds = [each.seconds for each in ended]
        self._saved = (sum(seconds) - max(seconds)) / rounds
        if beside:
            self._gains.append(sum(seconds) - (time.perf_counter() - began))
        if len(self._gains) == WINDOW:
            longer = min(max(2 * self._last_pause, WINDOW), LONGEST_PAUSE)
            self._pause = self._last_pause = 0 if sum(self._gains) > 0.0 else longer
            self._gains.clear()
        return [each.answer for each in ended]

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Ended]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._blocks), "kernelswarm", initializer=_compute_as_main_does)
        return self._threads.submit(self._in_turn, copy_context().run, _timed, call, *arguments)

    def _in_turn(self, call: Callable[..., Ended], *arguments: Any) -> Ended:
        with taking(self._turn):
            return call(*arguments)

    @staticmethod
    def _ended(calls: Sequence[Future[Ended] | Ended]) -> list[Ended]:
        """Wait for all calls, and raise the first divergence among them."""
        futures = [call for call in calls if isinstance(call, Future)]
        try:
            ended = [call.result() if isinstance(call, Future) else call for call in calls]
        finally:
            wait(futures)  # also after Ctrl-C, so that no thread continues in the background
        errors = [each.divergence for each in ended if each.divergence is not None]
        if errors:
            raise min(errors, key=lambda error: (error.round, error.node))
        return ended


def _timed(call: Callable[..., Any], *arguments: Any) -> Ended:
    began = time.thread_time()
    try:
        answer, divergence = call(*arguments), None
    except DivergenceError as error:  # another block may have an earlier divergence
        answer, divergence = None, error
    return Ended(answer, divergence, time.thread_time() - began)


def _compute_as_main_does() -> None:
    """Limit linear algebra to one thread: under OpenMP each thread must set this itself."""
    one_thread().__enter__()


NODES_OF_A_THREAD = 500
"""Minimum number of nodes per thread for "auto": with fewer nodes, rounds are too short."""


class SerialEngine:
    """Agents in this process.

    Exceptions of agents, which only users' parts can cause, are raised as EngineError with the node and the round.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        One block with all agents, unless messages between blocks are required too.
    """

    def __init__(self, blocks: Sequence[Sequence[AgentPlan]]) -> None:
        self.blocks: list[Block] = []
        self._labels = tuple(sorted(plan.neighborhood.node for plans in blocks for plan in plans))
        self._earlier = 0  # rounds before this engine
        with uncollected():  # all objects created here remain
            with Named(self, working=False):
                self.blocks += [Block(plans) for plans in blocks]
                self._rounds = SideBySide(self.blocks, block_neighbors(blocks))
            self.run(PRIMING)

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds of every agent; raises DivergenceError or EngineError if one fails."""
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
        """Restore the agents, before their first round, from snapshots."""
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
    """A context that turns exceptions of possibly user-defined code into EngineError."""

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
class Serial(Ranged):
    """All agents in one process: the fastest backend for networks that fit on one machine.

    Parameters
    ----------
    threads : int or "auto"
        Maximum number >= 1 of threads for rounds, each with a block of nodes; "auto" takes one per core, and at most
        one per 500 nodes. The results do not depend on the number. If rounds call a part in plain Python, one thread is
        used, because of Python's global lock.
    """

    threads: int | Literal["auto"] = "auto"

    restarts: ClassVar[int] = 0
    elsewhere: ClassVar[bool] = False

    ranges: ClassVar = {"threads": Range("[1, inf)", "", "auto")}

    def kept(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, since starting takes no time."""
        return nullcontext()

    def size(self, nodes: int) -> int:
        """Return the maximum number of nodes of a block for compiled rounds."""
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
