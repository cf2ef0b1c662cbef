"""The Ray backend: blocks of agents as actors whose messages travel through a compiled graph, past the driver."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, Literal

from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.machine import free, require_memory
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.ray_session import CHANNEL_BYTES, RaySession
from kernelswarm.simulations.engine.ray_startup import actor_bytes, require_files
from kernelswarm.simulations.engine.remote_engine import IN_FLIGHT, WARMING, RemoteEngine
from kernelswarm.simulations.engine.shared_memory import message_bytes, require_semaphores, semaphores_of

# Turns of threads that simulate on Ray: a process has only one Ray.


class Turns:
    """A lock for one thread at a time, kept by paused simulations and shared by simulations of the same thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: list[object] = []
        self._thread: int | None = None  # the thread with the turn
        self._process: int | None = None  # the process that has used Ray

    def take(self, holder: object) -> None:
        """Wait for the turn, and keep it until :meth:`leaving` ends for this holder.

        Raises
        ------
        InputError
            This process is a fork of a process that has used Ray, without Ray's threads.
        """
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise InputError(
                f'backend.name = "ray": this process is a fork of process {self._process}, which has used Ray before, '
                'and Ray does not work in such a fork: start it by multiprocessing.get_context("spawn"), before the '
                'other one uses Ray, or set backend.name = "serial"'
            )
        here = threading.get_ident()
        with self._changed:
            if not any(known is holder for known in self._holders):
                if self._holders and self._thread != here:
                    warnings.warn(
                        "another thread of this process simulates on Ray: this one waits until that has ended",
                        stacklevel=2,
                    )
                    self._changed.wait_for(lambda: not self._holders or self._thread == here)
                self._thread = here
                self._holders.append(holder)

    @contextmanager
    def leaving(self, holder: object) -> Iterator[None]:
        """Release the turn, if it was taken, at the end of the context, in any thread."""
        try:
            yield
        finally:
            with self._changed:
                self._holders[:] = [known for known in self._holders if known is not holder]
                self._changed.notify_all()


@dataclass(frozen=True)
class Ray:
    """Agents as Ray actors, on this machine or on a cluster, that exchange their messages in shared memory.

    Parameters
    ----------
    nodes_per_actor : int or "auto"
        Nodes of the network that share an actor, at least 1; "auto" makes one actor for each core.
    transport : {"compiled", "calls"}
        A compiled graph of several rounds, or one actor call per block and round. Calls are many times slower, for
        platforms without Ray's compiled graphs.
    address : str, optional
        "auto" or "host:port" of a running cluster; by default, a Ray on this machine is started and ended.
    ship : bool
        Whether kernelswarm and the user's modules are sent to the machines of a cluster. If the same kernelswarm is
        installed there, the installed one is used.
    rounds_per_execution : int
        Number >= 1 of rounds in the compiled graph: more rounds are faster in long runs and take longer to compile.
    patience : float
        Seconds > 0 after which silent processes count as hung, in addition to 50 times the previous duration of the
        same call. The first call of each kind, in which users' code may be compiled, and the start of Ray have 15 times
        as many seconds.
    niceness : int
        Niceness, 0 to 19, of the actors of a Ray started here. With Ray's default, 15, rounds hardly proceed while
        other work runs, since actors wait for one another by polling.
    restarts : int
        Maximum number >= 0 of successive replacements of dead or hung processes without a new checkpoint. All agents
        then continue from the last checkpoint, or from the first round. With 0, the run ends instead.
    """

    nodes_per_actor: int | Literal["auto"] = 1
    transport: Literal["compiled", "calls"] = "compiled"
    address: str | None = None
    ship: bool = True
    rounds_per_execution: int = 8
    patience: float = 20.0
    restarts: int = 3
    niceness: int = 0

    ranges: ClassVar = {
        "nodes_per_actor": Range("[1, inf)", "", "auto"),
        "rounds_per_execution": Range("[1, inf)"),
        "patience": Range("(0, inf]", "it is in seconds"),
        "restarts": Range("[0, inf)", "0 ends a run when a process dies"),
        "niceness": Range("[0, 19]", "0 takes as much of the cores as others get"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.address is not None and (not self.address or "://" in self.address):
            raise RefusedKey(
                "address",
                f'= {self.address!r} must be "auto" or "host:port" of a cluster that this machine belongs to: '
                "compiled graphs do not work through a Ray Client",
            )

    @property
    def elsewhere(self) -> bool:
        return self.address is not None

    def size(self, nodes: int, cores: int) -> int:
        """Return the maximum number of nodes of an actor, in a network of ``nodes`` nodes."""
        return -(-nodes // cores) if self.nodes_per_actor == "auto" else self.nodes_per_actor

    def require_room(self, plans: Sequence[AgentPlan]) -> None:
        """Raise an error if this machine hosts the actors and lacks memory, files or semaphores for them.

        Raises
        ------
        InputError
            There is too little room; the message has the requirement, the present value and the remedies.
        """
        if self.address is not None:
            return
        kept, nodes = _kept.get(), len(plans)
        there, server = (0, None) if kept is None else (len(kept), kept.forks)
        size = self.size(nodes, cores())
        actors = -(-nodes // size)
        require_memory(actors - there, nodes, free(), actor_bytes(server))
        require_files(max(actors, there), nodes)
        if self.transport == "compiled":
            crosses = actors > 1 and plans[0].rule.communicates
            needed = semaphores_of(actors, self.rounds_per_execution if crosses else 0, IN_FLIGHT)
            # For larger messages, Ray creates a new buffer with other semaphores.
            enlarged = crosses and message_bytes(plans, size) > 0.9 * CHANNEL_BYTES
            require_semaphores(needed * (1 + enlarged), actors, nodes)

    def kept(self) -> AbstractContextManager[None]:
        """Keep Ray and its actors for further starts inside the context."""
        return keep_ray()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[RayEngine]:
        """Start the actors and prime the network; at the end, the actors end, and so does a Ray started here.

        Inside :func:`keep_ray`, both remain for the next simulation unless this one fails. Other threads wait for the
        end of this simulation.

        Raises
        ------
        InputError
            There is no cluster at the address, or no room on this machine for the actors, or this process is a fork of
            a process that has used Ray.
        SimulationError
            Ray cannot be started.
        DivergenceError, EngineError
            As in the engine's rounds.
        """
        # Imported here, since actors import this file and do not need networkx.
        from kernelswarm.simulations.engine.cache_warmup import warm_cache
        from kernelswarm.simulations.engine.partition import partition

        tell("starting", 0, 1)
        kept = _kept.get()
        with _session() as own:
            session = own if kept is None else kept
            _turns.take(session)
            engine, process = None, os.getpid()
            try:
                self.require_room(plans)
                processes = len(plans) if self.nodes_per_actor == 1 else cores()
                session.open(self.address, processes, self.ship, self.niceness, WARMING * self.patience)
                engine = RayEngine(partition(plans, self.size(len(plans), session.cores())), session, self)
                engine.begin(tell, lambda: warm_cache(plans))
                yield engine
            finally:
                if os.getpid() != process:
                    pass  # in a fork, everything belongs to another process
                elif engine is None:
                    session.discard()
                else:
                    if not engine.sound:
                        session.discard(engine.lost or None)  # remaining actors can host new agents
                    if not engine.close():
                        session.discard()


_turns = Turns()


@contextmanager
def _session() -> Iterator[RaySession]:
    session = RaySession()
    with _turns.leaving(session), closing(session):
        yield session


_kept: ContextVar[RaySession | None] = ContextVar("kept", default=None)


@contextmanager
def keep_ray() -> Iterator[None]:
    """Keep Ray and its actors between simulations inside the context, so that processes start only once."""
    if _kept.get() is not None:
        yield
        return
    with _session() as session:
        token = _kept.set(session)
        try:
            yield
        finally:
            _kept.reset(token)


class RayEngine(RemoteEngine):
    """Agents in Ray actors, one block of them in each."""

    def __init__(self, blocks: Sequence[Sequence[AgentPlan]], session: RaySession, backend: Ray) -> None:
        super().__init__(blocks, session, backend.transport, backend.rounds_per_execution, backend.patience)
        self._nodes_per_actor = backend.nodes_per_actor
        self._found = session.found
        session.actors = len(blocks)

    def begin(self, tell: Callable[[str, int, int], None], meanwhile: Callable[[], None] = lambda: None) -> None:
        """Create the agents in their processes and prime the network; warn if other work slows the processes."""
        super().begin(tell, meanwhile)
        if self._found and self.niceness > (os.nice(0) if hasattr(os, "nice") else 0):
            warnings.warn(
                f"the actors of this cluster run at niceness {self.niceness}: where its machines have anything else to "
                "do, rounds may take many times as long; start it with RAY_worker_niceness=0 ray start ..., or set "
                "that before ray.init()",
                stacklevel=2,
            )

    def describe(self) -> dict[str, object]:
        return {"name": "ray", "nodes_per_actor": self._nodes_per_actor, **super().describe()}
