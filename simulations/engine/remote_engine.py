"""The engine of agents in other processes, independent of the library for processes and messages."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import numpy as np

from kernelswarm.agents.nodes.node import PRIMING, DivergenceError
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.engine import EngineError, LostError, Pace, Paces, Snapshots, block_neighbors
from kernelswarm.simulations.engine.failures import Sent
from kernelswarm.simulations.engine.host import Whereabouts
from kernelswarm.simulations.engine.measure import Report, joined
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions

Tell = Callable[[str, int, int], None]

SLOWEST = 2
"""Maximum number of processes that are named as slow."""

RECENT = 0.2
"""The weight of the last execution in the exponential average of a process's pace."""

IN_FLIGHT = 2
"""Number of executions in flight, so that no process waits for the driver."""

ASLEEP = 0.9
"""The share of an execution's time for which the driver sleeps, since polling would take a core from the actors."""

NAP = 1.0
"""The longest sleep in seconds, after which the driver checks for failures."""

ALONE = 16
"""Without messages between processes, an execution has this many times ``rounds_per_execution`` rounds."""

AT_ONCE = 4
"""Processes per core that start at a time: fewer leave a core idle at the end, and more would delay the first
answers."""

STARTING = 60.0
"""Minimum seconds before a process that has not started is checked; if it is not dead, the wait continues."""

WARMING = 15
"""The factor of ``patience`` for the first call of each kind, in which users' code may be compiled."""

USUAL = 50
"""The factor of a call's usual time, to which ``patience`` is added."""

ENDED = "killed, out of memory, or crashed"
"""The possible causes of a process's end."""


class Trouble(RuntimeError):
    """Raised for a missing answer: the call raised an error, its process died, or the time is over.

    The error is final if no process can be started in place of a lost one.
    """

    def __init__(self, cause: str, late: bool, final: bool = False) -> None:
        super().__init__(cause)
        self.late, self.final = late, final


class Transport(Protocol):
    """The transport, which runs an execution of some rounds on all hosts; raises Trouble."""

    def submit(self, rounds: int) -> Any:
        """Start an execution, and return its handle."""

    def collect(self, execution: Any, timeout: float) -> Sequence[tuple[int, float]]:
        """Wait for the end of an execution; return the results of each host's ``finish``."""

    def primed(self) -> None:
        """Record the end of the first executions, after which all their resources exist."""

    def close(self) -> bool:
        """Free its resources, and return whether all processes released them in time."""


class Processes(Protocol):
    """A session with hosts: actors whose methods are called as ``actor.method.remote(...)``; raises Trouble."""

    def cores(self) -> int:
        """Return the cores of all machines."""

    def host(self, place: int) -> Any:
        """Return the actor at an index, a new one if needed."""

    def foresee(self, kind: str) -> None:
        """Announce the kind of transport, so that its processes start together with the hosts."""

    def connect(self, kind: str, hosts: Sequence[Any], neighbors: Sequence[Sequence[int]], levels: int) -> Transport:
        """Create a transport; ``levels`` is the maximum number of rounds with crossing messages in an execution."""

    def share(self, value: Any) -> Any:
        """Put a value into memory that all hosts can read."""

    def gather(self, answers: Sequence[Any], timeout: float) -> list[Any]:
        """Wait for the values of all answers."""

    def ready(self, answers: Collection[Any], timeout: float) -> list[Any]:
        """Wait until some answers are available, and return them; empty after the timeout."""

    def inquire(self, hosts: Sequence[Any]) -> tuple[dict[int, Whereabouts], list[int]]:
        """Query all hosts; return the replies and the indices of dead hosts."""

    def require_running(self) -> None:
        """Raise Trouble if the hosts' runtime has died."""

    def slowed(self) -> str:
        """Return the reason why processes start late, as the end of a sentence; empty if unknown."""

    def keep_logs(self) -> str:
        """Keep the logs on the disk, and return their place as the end of a sentence."""


class RemoteEngine:
    """Agents in other processes, with one block in each.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        The agents of each process.
    processes : Processes
        The session that holds the hosts.
    transport : {"compiled", "calls"}
        The transport of messages.
    rounds_per_execution : int
        Number of rounds between two answers of the processes.
    patience : float
        Seconds without an answer that count as a failure, in addition to ``USUAL`` times the previous duration of the
        call.
    """

    def __init__(
        self,
        blocks: Sequence[Sequence[AgentPlan]],
        processes: Processes,
        transport: Literal["compiled", "calls"],
        rounds_per_execution: int,
        patience: float,
    ) -> None:
        self.blocks = blocks
        self.rounds = 0
        self.sound = True
        self.lost: list[int] = []  # the indices of processes that died or hang
        self._done = 0  # rounds, including those that primed the network
        self.pids: list[int] = []
        self.niceness = 0  # the maximum over processes
        self._processes = processes
        self._kind = transport
        self._patience = patience
        self._rounds_per_execution = rounds_per_execution
        self._pace: float | None = None  # seconds per round; a slow one is remembered for a while
        self._answered: dict[str, float] = {}  # the maximum seconds for the answers to each kind of call
        self._quickest = 0.0  # seconds of a round without interruptions; 0 if unknown
        self._worked: Array | None = None  # (blocks,) seconds per round of each block, with more weight on recent ones
        self._rounds_since_sync = False  # whether it includes more than the first rounds, which load functions
        self._hosts: list[Any] = []
        self._transport: Transport | None = None
        self._shared: tuple[HeldOut, Any] | None = None

    def begin(self, tell: Tell, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Make the agents in their processes, and prime the network; ``meanwhile`` is called while processes start."""
        senders = block_neighbors(self.blocks)
        linked = any(senders)
        # A block without senders receives its own empty messages: a call in a graph needs some input.
        neighbors = [others or [place] for place, others in enumerate(senders)]
        self._largest = self._rounds_per_execution * (1 if linked else ALONE)
        levels = self._rounds_per_execution if linked else 1
        with self._watched():
            self._start(meanwhile)
            self.pids = self._load(tell)
            self._transport = self._processes.connect(self._kind, self._hosts, neighbors, levels)
            self._run(PRIMING)
            self._transport.primed()

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds of every agent.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound.
        EngineError
            An agent raises an exception.
        LostError
            A process dies or hangs.
        """
        with self._watched():
            self._run(rounds)

    def report(self, pooled: HeldOut) -> Report:
        with self._watched():
            if self._shared is None or not _same(self._shared[0], pooled):
                self._shared = pooled, self._processes.share(pooled)
            held_out = self._shared[1]
            return joined(self._ask("report", [(held_out,)] * len(self._hosts)))

    def functions(self) -> LearnedFunctions:
        """Return the arrays of every learner's function, and its dual variables."""
        with self._watched():
            found = self._ask("functions", [()] * len(self._hosts))
        return {node: function for functions in found for node, function in functions.items()}

    def snapshot(self) -> Snapshots:
        with self._watched():
            found = self._ask("snapshot", [()] * len(self._hosts))
        return {node: taken for snapshots in found for node, taken in snapshots.items()}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Set the agents, before their first round, to snapshots that were taken after ``round`` rounds."""
        blocks = [[plan.neighborhood.node for plan in block] for block in self.blocks]
        with self._watched():
            self._ask("restore", [({label: snapshots[label] for label in labels}, round) for labels in blocks])
            self._done = round + PRIMING
            self.rounds = round

    def paces(self) -> Paces | None:
        """Return the durations of the processes' last rounds, which they report at the end."""
        if self._worked is None or len(self.blocks) < 2:
            return None
        order = np.argsort(-self._worked, kind="stable")[:SLOWEST].tolist()
        slowest = tuple(Pace(self._nodes([place]), float(self._worked[place])) for place in order)
        return Paces(slowest, float(np.median(self._worked)), len(self.blocks))

    def describe(self) -> dict[str, object]:
        """Return the number of processes and how they exchange messages."""
        return {
            "processes": len(self.blocks),
            "transport": self._kind,
            "rounds_per_execution": self._rounds_per_execution,
        }

    def close(self) -> bool:
        """Free the transport, and return whether the processes released it in time; they continue."""
        return self._transport is None or self._transport.close()

    def _start(self, meanwhile: Callable[[], None]) -> None:
        """Start the first processes, and call ``meanwhile``."""
        for place in range(min(len(self.blocks), AT_ONCE * self._processes.cores())):
            self._hosts.append(self._processes.host(place))
        self._processes.foresee(self._kind)
        meanwhile()

    def _load(self, tell: Tell) -> list[int]:
        """Make the agents in their processes, and start the other processes, each for a second of a core."""
        total, cores = len(self.blocks), self._processes.cores()
        # With several processes on every core, moving between cores costs a fifth of the rounds, due to cold caches.
        crowded = total >= 2 * cores
        waiting: dict[Any, int] = {}
        pids: dict[int, int] = {}
        loading = 0
        while len(pids) < total:
            while loading < total and len(waiting) < AT_ONCE * cores:
                if loading == len(self._hosts):
                    self._hosts.append(self._processes.host(loading))
                with Sent(self.blocks[loading]):
                    answer = self._hosts[loading].load.remote(self.blocks[loading], loading if crowded else None)
                waiting[answer] = loading
                loading += 1
            ready = self._wait_for_one(waiting, total)
            for answer, loaded in zip(ready, self._processes.gather(ready, self._patience), strict=True):
                pids[waiting.pop(answer)] = loaded.process
                self.niceness = max(self.niceness, loaded.niceness)
            tell("starting", len(pids), total)
        return [pids[place] for place in range(total)]

    def _wait_for_one(self, waiting: Mapping[Any, int], total: int) -> list[Any]:
        """Wait until one of some processes has started: long on a busy machine, but not for dead processes."""
        limit = max(STARTING, self._patience)
        for attempt in range(WARMING):
            ready = self._processes.ready(waiting, limit)
            if ready:
                return ready
            _, dead = self._processes.inquire([self._hosts[place] for place in waiting.values()])
            if dead:
                break
            if not attempt:
                warnings.warn(
                    f"still waiting for {len(waiting)} of {total} processes to start after {limit:g} s{_busy()}"
                    f"{self._processes.slowed()}",
                    stacklevel=2,
                )
        text = f"none has answered within {(attempt + 1) * limit:g} s{_busy()}{self._processes.slowed()}"
        raise Trouble(text, late=True)

    def _ask(self, question: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every host, and return the answers."""
        clock = time.perf_counter()
        asked = [getattr(host, question).remote(*given) for host, given in zip(self._hosts, arguments, strict=True)]
        answers = self._processes.gather(asked, self._limit(self._answered.get(question)))
        self._answered[question] = max(self._answered.get(question, 0.0), time.perf_counter() - clock)
        return answers

    def _limit(self, usual: float | None) -> float:
        """Return the seconds without an answer that count as a failure, given the usual time, or None if unknown."""
        return WARMING * self._patience if usual is None else self._patience + USUAL * usual

    def _run(self, rounds: int) -> None:
        transport = self._transport
        assert transport is not None
        submitted: deque[tuple[int, Any]] = deque()
        ended = time.perf_counter()  # the end of the previous execution
        while rounds or submitted:
            while rounds and len(submitted) < IN_FLIGHT:
                count = min(rounds, self._largest)
                submitted.append((count, transport.submit(count)))
                rounds -= count
            count, execution = submitted.popleft()
            if self._rounds_since_sync:
                time.sleep(max(0.0, min(NAP, ended + ASLEEP * self._quickest * count - time.perf_counter())))
            clock = time.perf_counter()
            pace = self._pace
            self._processes.require_running()
            done = transport.collect(execution, self._limit(None if pace is None else pace * self._largest))
            self._done += count
            if any(rounds_of_host != self._done for rounds_of_host, _ in done):
                raise Trouble("a process has not run all rounds", late=False)
            now = time.perf_counter()
            took, waited, ended = now - ended, now - clock, now
            self._pace = max(0.8 * (pace or 0.0), took / count)
            if pace is not None:  # the first execution compiles and is not typical
                # If there was nothing left to wait for, the sleep was too long. One slow execution must not cause that.
                self._rounds_since_sync = self._quickest > 0.0
                known = self._quickest or took / count
                self._quickest = 0.5 * known if waited < 0.02 * took else min(took / count, 1.2 * known)
            if self._rounds_since_sync:  # the first rounds load compiled code
                worked = np.array([seconds for _, seconds in done]) / count
                self._worked = worked if self._worked is None else self._worked + RECENT * (worked - self._worked)
            self.rounds = max(0, self._done - PRIMING)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self.sound = False  # remains so after a failure, or an interruption within a round
        try:
            yield
        except Trouble as trouble:
            raise self._failure(trouble) from trouble
        self.sound = True

    def _failure(self, trouble: Trouble) -> Exception:
        try:
            self._processes.require_running()
            found, dead = self._processes.inquire(self._hosts)
        except Trouble as worse:
            trouble, found, dead = worse, {}, []
        if trouble.final:
            self.lost = list(range(len(self._hosts)))
            return EngineError(self._nodes(self.lost), self.rounds + 1, str(trouble))
        return self._blame(trouble, found, dead)

    def _blame(self, trouble: Trouble, found: Mapping[int, Whereabouts], dead: Sequence[int]) -> Exception:
        """Diagnose a failure: an agent raised, a process died, hangs, or does not answer."""
        failures = [(answer.failure, place) for place, answer in found.items() if answer.failure is not None]
        if failures:
            # Later failures are consequences of the first.
            failure, place = min(failures, key=lambda pair: (pair[0].round, pair[1]))
            if isinstance(failure.cause, DivergenceError):
                return failure.cause
            nodes = self._nodes([place]) if failure.node is None else (failure.node,)
            return EngineError(nodes, failure.round, failure.cause)
        silent = [place for place in range(len(self._hosts)) if place not in found and place not in dead]
        busy = [place for place, answer in found.items() if answer.line] if trouble.late else []
        self.lost = sorted({*dead, *silent, *busy}) or list(range(len(self._hosts)))
        if not self.pids:
            why = ENDED if dead else str(trouble)
            return LostError(self._nodes(dead or self.lost), 0, f"their processes did not start: {why}")
        # Neighbours that wait for a missing node have run the round that it does not complete.
        current = max(self.rounds + 1, min((answer.round for answer in found.values()), default=0))
        if dead:
            cause = f"{self._named(dead)} ended without a word: {ENDED}{self._processes.keep_logs()}"
            return LostError(self._nodes(dead), current, cause)
        if trouble.late:
            # A busy process keeps the others waiting; a silent one may only be slow to answer.
            late = busy or self.lost
            doing = f", which is in {found[busy[0]].line}" if busy else ", which does not answer" if silent else ""
            return LostError(self._nodes(late), current, f"no word from {self._named(late)}{doing}")
        return LostError(self._nodes(self.lost), current, str(trouble))

    def _nodes(self, places: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted(plan.neighborhood.node for place in places for plan in self.blocks[place]))

    def _named(self, places: Sequence[int]) -> str:
        return " and ".join(f"process {self.pids[place]}" for place in places[:3])


def _busy() -> str:
    """Return the load of this machine, as the end of a sentence; empty if unknown."""
    if not hasattr(os, "getloadavg"):
        return ""
    return f": this machine has a load of {os.getloadavg()[0]:.1f} on {cores()} cores"


def _same(one: HeldOut, other: HeldOut) -> bool:
    pairs = ((one.points, other.points), (one.targets, other.targets), (one.truth, other.truth))
    return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
