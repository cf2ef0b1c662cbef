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

# The turns of threads that simulate on Ray: a process has one Ray, which one of them starts and ends.


class Turns:
    """The turn of one thread at a time. A simulation that pauses keeps it, and a second one in its thread shares it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: list[object] = []
        self._thread: int | None = None  # the thread that has its turn
        self._process: int | None = None  # that has used Ray, or has been forked from one that has

    def take(self, holder: object) -> None:
        """Wait until no other thread has the turn, and have it until :meth:`leaving` ends for this holder.

        Raises
        ------
        InputError
            In a fork of a process in which one has been taken: Ray's threads are not there, and it would wait for them.
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
        """Leave the turn, where it has been taken, at the end: in whatever thread that comes."""
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
        A compiled graph of several rounds; or one actor call for each block and round, many times slower, for
        platforms where Ray has no compiled graphs.
    address : str, optional
        "auto" or "host:port" of a running cluster; left out, a Ray for this machine alone is started and ended again.
    ship : bool
        Whether kernelswarm and the user's own modules travel to the machines of a cluster; where the same kernelswarm
        is installed, that one is used.
    rounds_per_execution : int
        Rounds that the compiled graph holds, at least 1: more are faster in long runs and take longer to compile.
    patience : float
        Seconds > 0 after which silent processes count as hung, beside 50 times what the same took before; 15 times as
        many where that is not known, since a user's own code may have to compile, and in a start of Ray.
    niceness : int
        Of the actors where a Ray is started here, 0 to 19. Ray's own is 15: beside other work its rounds hardly go on,
        since actors wait for one another by polling.
    restarts : int
        How often, without a checkpoint in between, processes that died or hang are replaced, all going on from the last
        checkpoint, or else from the first round; not negative, and 0 ends the run instead.
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
        """Return the most nodes of a network of so many that an actor hosts."""
        return -(-nodes // cores) if self.nodes_per_actor == "auto" else self.nodes_per_actor

    def require_room(self, plans: Sequence[AgentPlan]) -> None:
        """Refuse more actors for a network than this machine has memory, files and semaphores for, if they live on it.

        Raises
        ------
        InputError
            With the requirement, the present value, and the ways out.
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
            # Ray makes a buffer anew, with other semaphores, for a message that it is too small for.
            enlarged = crosses and message_bytes(plans, size) > 0.9 * CHANNEL_BYTES
            require_semaphores(needed * (1 + enlarged), actors, nodes)

    def kept(self) -> AbstractContextManager[None]:
        """Keep Ray, and its actors, for the starts to come inside."""
        return keep_ray()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[RayEngine]:
        """Start the actors and prime the network; on leaving, the actors end, and a Ray that was started here too.

        Inside :func:`keep_ray` both stay for the next simulation, unless this one fails. Other threads that simulate on
        Ray wait until this has ended.

        Raises
        ------
        InputError
            When there is no cluster at the address, or no room on this machine for so many actors; in a fork of a
            process that has used Ray.
        SimulationError
            When Ray cannot be started.
        DivergenceError, EngineError
            As the engine's rounds.
        """
        # The actors read this file too, and have no use for networkx.
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
                    pass  # a fork: all of it is another process's
                elif engine is None:
                    session.discard()
                else:
                    if not engine.sound:
                        session.discard(engine.lost or None)  # where some are lost, the others take up new agents
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
    """Keep Ray and its actors between the simulations inside: processes start once and take up new agents in each."""
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
        """Make the agents in their processes, and prime the network; says where these have little of their machines."""
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
