"""A backend's process with its block of agents, independent of the message library."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from kernelswarm.agents.nodes.node import PRIMING, DivergenceError
from kernelswarm.agents.nodes.snapshot import Snapshot
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine import shared_memory
from kernelswarm.simulations.engine.block import AgentPlan, Block
from kernelswarm.simulations.engine.failures import describe, line_at_work, node_at_work
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions

NOTHING = b"-"
"""The message of a block without messages, or of a skipped round. It is not empty, since Ray would wait forever for
empty messages from another machine.
"""


class HostError(RuntimeError):
    """An exception in a block of agents, described by :meth:`Host.whereabouts`."""


@dataclass(frozen=True)
class Failure:
    """An exception in a block of agents: the active node, if any, the round, and the description."""

    node: int | None
    round: int
    cause: str | DivergenceError


@dataclass(frozen=True)
class Whereabouts:
    """The state of a host: its present or last round, its current line, and its failure, if any.

    Rounds that prime the network count as round 0.
    """

    round: int
    line: str | None
    failure: Failure | None


class Loaded(NamedTuple):
    """The process of a host: its id and its niceness."""

    process: int
    niceness: int


class Host:
    """One block of agents that runs rounds on demand, with byte strings as messages between blocks.

    An execution is one call of :meth:`send` with the number of rounds, then calls of :meth:`advance`, one for each
    round except the last, and one call of :meth:`finish`. Calls beyond the number of rounds pass empty messages.
    Between executions, the messages in flight stay in the block.

    An exception of an agent ends the host's rounds and is stored for :meth:`whereabouts`. It is not raised here, since
    message libraries lose some exceptions, for example those of unpicklable classes.

    Parameters
    ----------
    search_path : sequence of str
        The driver's module search path, which may contain users' parts.
    """

    def __init__(self, search_path: Sequence[str] = ()) -> None:
        self._block: Block | None = None
        self._left = self._done = 0
        self._failure: Failure | None = None
        self._work = _Work(self._fail)
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self.find_modules(search_path)

    def find_modules(self, search_path: Sequence[str]) -> None:
        """Add the driver's module search path."""
        sys.path.extend(place for place in search_path if place not in sys.path)

    def load(self, plans: Sequence[AgentPlan], core: int | None = None) -> Loaded:
        """Create a block's agents in place of earlier ones, and return the identity of this process.

        The process is pinned to ``core``, taken modulo the number of cores; None means no pinning.
        """
        # With more threads, matrix products would have another order of summation than in the driver.
        threadpool_limits(1)
        self._stay(core)
        self._block, self._failure = None, None
        self._left = self._done = 0
        with self._work:
            self._block = Block(plans)
            return Loaded(os.getpid(), os.nice(0) if hasattr(os, "nice") else 0)
        raise HostError("the agents cannot be made")

    def send(self, rounds: int) -> bytes:
        """Start an execution of ``rounds`` rounds, and return the messages of the previous round."""
        self._left = rounds if self._failure is None else 0
        self._work.seconds = 0.0
        with self._work:
            return self.block.send() or NOTHING
        return NOTHING

    def advance(self, *incoming: bytes) -> bytes:
        """Run one round, if one is left, with the other blocks' messages, and return this block's."""
        if not self._left:
            return NOTHING
        self._left -= 1
        self._done += 1
        with self._work:
            return self.block.advance(*[message for message in incoming if message != NOTHING]) or NOTHING
        return NOTHING

    def finish(self, *incoming: bytes) -> tuple[int, float]:
        """Run all remaining rounds: one, or any number if no other block sends to this block.

        Returns
        -------
        int
            Number of finished rounds, including the rounds that prime the network; -1 after a failure.
        float
            Working seconds of this execution, without waiting for other blocks.
        """
        while self._left:
            self.advance(*incoming)
        return self._done if self._failure is None else -1, self._work.seconds

    def report(self, pooled: HeldOut) -> Report:
        with self._work:
            return self.block.report(pooled)
        raise HostError("the agents cannot be measured")

    def functions(self) -> LearnedFunctions:
        """Return the arrays of the learners' functions, and their dual variables."""
        with self._work:
            return self.block.functions()
        raise HostError("the agents have no functions")

    def snapshot(self) -> dict[int, Snapshot]:
        with self._work:
            return self.block.snapshot()
        raise HostError("the agents cannot be copied")

    def restore(self, snapshots: Mapping[int, Snapshot], round: int) -> None:
        """Restore the agents, before their first round, from snapshots taken after ``round`` rounds."""
        with self._work:
            self.block.restore(snapshots)
            self._done = round + PRIMING
            return
        raise HostError("the agents cannot be restored")

    def semaphores(self) -> list[Path]:
        """List the open semaphores of this process."""
        return shared_memory.opened()

    def remove_semaphores(self) -> None:
        """Remove the open semaphores of this process, which can still use them."""
        shared_memory.remove(shared_memory.opened())

    def whereabouts(self) -> Whereabouts:
        """Return the state of the host, also during a round in another thread."""
        return Whereabouts(self._round(), self._work.line(), self._failure)

    @property
    def block(self) -> Block:
        if self._block is None:
            raise HostError("no agents have been loaded")
        return self._block

    def _round(self) -> int:
        return max(0, self._done - PRIMING)

    def _stay(self, core: int | None) -> None:
        if self._cores:
            chosen = self._cores if core is None else [self._cores[core % len(self._cores)]]
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), chosen)

    def _fail(self, error: BaseException, trace: TracebackType | None) -> None:
        self._left = 0
        cause = error if isinstance(error, DivergenceError) else describe(error)
        self._failure = Failure(node_at_work(trace), self._round(), cause)


class _Work:
    """A context for the agents' work, which measures its time and stores its failure.

    It is separate from the host, since Ray wraps every method of an actor's class.
    """

    def __init__(self, fail: Callable[[BaseException, TracebackType | None], None]) -> None:
        self.seconds = self._began = 0.0
        self._thread: int | None = None  # the working thread
        self._fail = fail

    def line(self) -> str | None:
        """Return the current line of the working thread, or None; called from another thread."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread)
        return None if frame is None else line_at_work(frame)

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._thread = None
        self.seconds += time.perf_counter() - self._began
        if error is None:
            return False
        self._fail(error, trace)
        return True
