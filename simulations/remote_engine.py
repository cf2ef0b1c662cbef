"""The engine whose agents live in other processes, free of the library that starts them and carries the messages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import numpy as np

from kernelswarm.agents.agent import DivergenceError
from kernelswarm.simulations.block import AgentPlan
from kernelswarm.simulations.engine import EngineError, Snapshots
from kernelswarm.simulations.host import Whereabouts
from kernelswarm.simulations.measure import Report
from kernelswarm.simulations.model_arrays import Functions
from kernelswarm.simulations.rounds import PRIMING, block_neighbors
from kernelswarm.simulations.streams.contract import HeldOut

Tell = Callable[[str, int, int], None]

IN_FLIGHT = 2
"""Executions handed out before the end of the first is waited for, so that no process waits for the driver."""

ASLEEP = 0.9
"""The share of an execution's time through which the driver sleeps: where it waits, it polls, and would take the actors
a core."""

NAP = 1.0
"""Seconds, at most, that it sleeps at a time: then it hears of what has failed."""

ALONE = 16
"""Where no messages cross, an execution holds this many times ``rounds_per_execution`` rounds."""

STARTING = 60.0
"""Seconds, at least, that a process may take to start."""

WARMING = 5
"""How many times longer than usual the first execution may take: a user's own code may have to compile."""


class Trouble(RuntimeError):
    """An answer did not come: the call raised, its process died, or the time was over."""

    def __init__(self, cause: str, late: bool) -> None:
        super().__init__(cause)
        self.late = late


class Transport(Protocol):
    """What takes all hosts through an execution of some rounds; raises Trouble."""

    def submit(self, rounds: int) -> Any:
        """Hand an execution out, and return what to wait for."""

    def collect(self, execution: Any, timeout: float) -> Sequence[int]:
        """Wait until an execution has ended, and return the rounds that each host has lived by then."""

    def close(self) -> None:
        """Free what it holds."""


class Processes(Protocol):
    """Where hosts live: actors whose methods are called as ``actor.method.remote(...)``; raises Trouble."""

    def cores(self) -> int:
        """Return the cores of all machines."""

    def host(self, place: int) -> Any:
        """Return the actor at a place, a new one if need be."""

    def connect(self, kind: str, hosts: Sequence[Any], neighbors: Sequence[Sequence[int]], levels: int) -> Transport:
        """Make a transport; ``levels`` is the most rounds in which messages cross in one execution."""

    def share(self, value: Any) -> Any:
        """Place a value where all hosts can read it."""

    def gather(self, answers: Sequence[Any], timeout: float) -> list[Any]:
        """Wait for the values of all answers."""

    def ready(self, answers: Collection[Any], timeout: float) -> list[Any]:
        """Wait until some answers are there, and return them; none when the time is over."""

    def inquire(self, hosts: Sequence[Any]) -> tuple[dict[int, Whereabouts], list[int]]:
        """Ask hosts where they are: what those say that answer, and the places of those that are dead."""

    def keep_logs(self) -> str:
        """Leave the logs on the disk, and return words that say where, to be put behind a sentence."""


class RemoteEngine:
    """Agents in other processes, one block of them in each.

    Parameters
    ----------
    blocks : sequence of sequences of AgentPlan
        The agents of each process.
    processes : Processes
        Where they live.
    transport : {"compiled", "calls"}
        How messages get from one to another.
    rounds_per_execution : int
        Rounds between two words from the processes.
    patience : float
        Seconds after which silence counts as a failure, beside 50 times what the rounds took so far.
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
        self._lived = 0  # rounds, those included that primed the network
        self.pids: list[int] = []
        self._processes = processes
        self._kind = transport
        self._patience = patience
        self._rounds_per_execution = rounds_per_execution
        self._pace: float | None = None  # seconds a round takes; a slow one is remembered for a while
        self._quickest = 0.0  # seconds a round takes when nothing comes between; 0 where it is not known
        self._hosts: list[Any] = []
        self._transport: Transport | None = None
        self._shared: tuple[HeldOut, Any] | None = None

    def begin(self, tell: Tell) -> None:
        """Make the agents in their processes, and prime the network."""
        heard = block_neighbors(self.blocks)
        linked = any(heard)
        # A block that hears no other one hears itself, which sends it nothing: a call in a graph needs some input.
        neighbors = [others or [place] for place, others in enumerate(heard)]
        self._largest = self._rounds_per_execution * (1 if linked else ALONE)
        levels = self._rounds_per_execution if linked else 1
        with self._watched():
            self.pids = self._load(tell)
            self._transport = self._processes.connect(self._kind, self._hosts, neighbors, levels)
            self._live(PRIMING)

    def run(self, rounds: int) -> None:
        """Take every agent through ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound.
        EngineError
            When a process dies, hangs or raises.
        """
        with self._watched():
            self._live(rounds)

    def report(self, pooled: HeldOut) -> list[Report]:
        """Measure every node, in sorted order of the labels."""
        with self._watched():
            if self._shared is None or not _same(self._shared[0], pooled):
                self._shared = pooled, self._processes.share(pooled)
            held_out = self._shared[1]
            answers = [host.report.remote(held_out) for host in self._hosts]
            entries = [entry for found in self._processes.gather(answers, WARMING * self._patience) for entry in found]
        return sorted(entries, key=lambda entry: entry.node)

    def functions(self) -> Functions:
        """Return the arrays of every learner's function, and its dual variables."""
        with self._watched():
            answers = [host.functions.remote() for host in self._hosts]
            found = self._processes.gather(answers, WARMING * self._patience)
        return {node: function for functions in found for node, function in functions.items()}

    def snapshot(self) -> Snapshots:
        """Copy what all agents are, by their labels."""
        with self._watched():
            answers = [host.snapshot.remote() for host in self._hosts]
            found = self._processes.gather(answers, WARMING * self._patience)
        return {node: taken for snapshots in found for node, taken in snapshots.items()}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Put the agents, before their first round, where the snapshots were taken, after so many rounds."""
        with self._watched():
            answers = []
            for host, block in zip(self._hosts, self.blocks, strict=True):
                labels = [plan.neighborhood.node for plan in block]
                answers.append(host.restore.remote({label: snapshots[label] for label in labels}, round))
            self._processes.gather(answers, WARMING * self._patience)
            self._lived = round + PRIMING
            self.rounds = round

    def describe(self) -> dict[str, object]:
        """Return the number of processes and how they exchange messages."""
        return {
            "processes": len(self.blocks),
            "transport": self._kind,
            "rounds_per_execution": self._rounds_per_execution,
        }

    def close(self) -> None:
        """Free the transport; the processes go on."""
        if self._transport is not None:
            self._transport.close()

    def _load(self, tell: Tell) -> list[int]:
        """Start the processes a few at a time, each of which takes a second of a core, and make their agents."""
        total, cores = len(self.blocks), self._processes.cores()
        # Where every core has several processes, moving between cores costs a fifth of the rounds: cold caches.
        crowded = total >= 2 * cores
        waiting: dict[Any, int] = {}
        pids: dict[int, int] = {}
        while len(pids) < total:
            while len(self._hosts) < total and len(waiting) < 2 * cores + 2:
                place = len(self._hosts)
                self._hosts.append(self._processes.host(place))
                loading = self._hosts[place].load.remote(self.blocks[place], place if crowded else None)
                waiting[loading] = place
            limit = max(STARTING, self._patience)
            ready = self._processes.ready(waiting, limit)
            if not ready:
                raise EngineError(self._nodes(waiting.values()), 0, f"no process started within {limit:g} s")
            for answer, pid in zip(ready, self._processes.gather(ready, self._patience), strict=True):
                pids[waiting.pop(answer)] = pid
            tell("starting", len(pids), total)
        return [pids[place] for place in range(total)]

    def _live(self, rounds: int) -> None:
        transport = self._transport
        assert transport is not None
        submitted: deque[tuple[int, Any]] = deque()
        ended = time.perf_counter()  # the execution before
        while rounds or submitted:
            while rounds and len(submitted) < IN_FLIGHT:
                count = min(rounds, self._largest)
                submitted.append((count, transport.submit(count)))
                rounds -= count
            count, execution = submitted.popleft()
            time.sleep(max(0.0, min(NAP, ended + ASLEEP * self._quickest * count - time.perf_counter())))
            clock = time.perf_counter()
            pace = self._pace
            limit = WARMING * self._patience if pace is None else self._patience + 50 * pace * self._largest
            lived = transport.collect(execution, limit)
            self._lived += count
            if any(rounds_of_host != self._lived for rounds_of_host in lived):
                raise Trouble("a process has not lived through all rounds", late=False)
            now = time.perf_counter()
            took, waited, ended = now - ended, now - clock, now
            self._pace = max(0.8 * (pace or 0.0), took / count)
            if pace is not None:  # the first execution compiles and tells nothing
                # Where nothing was left to wait for, it slept too long; one slow execution is not to make it do so.
                known = self._quickest or took / count
                self._quickest = 0.5 * known if waited < 0.02 * took else min(took / count, 1.2 * known)
            self.rounds = max(0, self._lived - PRIMING)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self.sound = False  # and so it stays if this fails, or is interrupted somewhere in a round
        try:
            yield
        except Trouble as trouble:
            found, dead = self._processes.inquire(self._hosts)
            raise self._blame(trouble, found, dead) from trouble
        self.sound = True

    def _blame(self, trouble: Trouble, found: Mapping[int, Whereabouts], dead: Sequence[int]) -> Exception:
        """Find out what has happened: an agent raised, a process died, hangs, or does not answer."""
        failures = [(answer.failure, place) for place, answer in found.items() if answer.failure is not None]
        if failures:
            # Whatever failed after the first is its consequence.
            failure, place = min(failures, key=lambda pair: (pair[0].round, pair[1]))
            if isinstance(failure.cause, DivergenceError):
                return failure.cause
            nodes = self._nodes([place]) if failure.node is None else (failure.node,)
            return EngineError(nodes, failure.round, failure.cause)
        # A node that is missing is waited for by neighbours who have lived through the round that it does not complete.
        current = max(self.rounds + 1, min((answer.round for answer in found.values()), default=0))
        if dead and not self.pids:
            return EngineError(self._nodes(dead), 0, f"their processes did not start: {trouble}")
        if dead:
            cause = f"{self._named(dead)} ended without a word: killed, out of memory, or crashed"
            return EngineError(self._nodes(dead), current, cause + self._processes.keep_logs())
        silent = [place for place in range(len(self._hosts)) if place not in found]
        if trouble.late and self.pids:
            slow = silent or [place for place, answer in found.items() if answer.busy] or list(found)
            return EngineError(self._nodes(slow), current, f"no word from {self._named(slow)}")
        return EngineError(self._nodes(silent or range(len(self._hosts))), current, str(trouble))

    def _nodes(self, places: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted(plan.neighborhood.node for place in places for plan in self.blocks[place]))

    def _named(self, places: Sequence[int]) -> str:
        return " and ".join(f"process {self.pids[place]}" for place in places[:3])


def _same(one: HeldOut, other: HeldOut) -> bool:
    pairs = ((one.points, other.points), (one.targets, other.targets), (one.truth, other.truth))
    return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
