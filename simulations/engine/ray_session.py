"""The interface to Ray: its processes, and the compiled graph or the calls that run the rounds."""

from __future__ import annotations

import inspect
import logging
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import environment, in_turn
from kernelswarm.simulations.core.interruption import HANGUP, take_sigterm_back, waiting
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.engine import inside_ray
from kernelswarm.simulations.engine.engine import advance
from kernelswarm.simulations.engine.host import Host, Whereabouts
from kernelswarm.simulations.engine.partition import placed
from kernelswarm.simulations.engine.ray_startup import (
    LOOPBACK,
    MARK,
    NICENESS,
    ON_A_CLUSTER,
    ONE_THREAD,
    QUIET,
    Attempt,
    ForkServer,
    answers,
    comes_back,
    end_processes_of,
    is_late,
    private_folder,
    require_cluster,
)
from kernelswarm.simulations.engine.remote_engine import ENDED, IN_FLIGHT, WARMING, Transport, Trouble
from kernelswarm.simulations.engine.shared_memory import Notes, made_by, opened, remove
from kernelswarm.simulations.engine.shipping import surroundings

CHANNEL_BYTES = 16_384
"""A channel's first size; Ray enlarges it when a message needs more."""

STORE_BYTES = 256 * 2**20
"""The shared memory of a Ray started here, for channels and held-out data; taken only as it is used."""

SILENT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
"""Ray's own words stay away from the terminal."""

ANSWER_SECONDS = 5.0
"""Seconds for a process to report its state after a failure."""

SLOWED = (
    "; Ray starts them at niceness 15, behind all other work, unless RAY_worker_niceness=0 is set before ray.init() or "
    "for ray start"
)
SENT = (
    "a kernelswarm that comes with a runtime_env compiles anew there: install it, and leave it out of the runtime_env"
)
"""Why processes may start late of a Ray that was not started here."""

LOOKED_EVERY = 1.0
"""Seconds between two looks at Ray's own processes, at least."""

ENDING_SECONDS = 10.0
"""Seconds for the actors to leave a compiled graph."""


class _Actor(Host):
    """A host as a Ray actor."""

    def __init__(self, search_path: Sequence[str]) -> None:
        inside_ray.prepare_actor(CHANNEL_BYTES)
        super().__init__(search_path)


class RaySession:
    """A Ray, started here or found running, with actors that serve one simulation after another."""

    def __init__(self) -> None:
        self._address: str | None = None
        self._open = self._started = False
        self._process = os.getpid()  # the process that uses it
        self._private: Path | None = None  # folder of a Ray started here
        self.forks: ForkServer | None = None  # forks its workers
        self._folder = ""  # folder of its session
        self._hosts: list[Any] = []
        self._kind: Any = None  # of actor: its class is sent to each process once
        self._drivers: inside_ray.DriversActor | None = None  # shared by successive graphs
        self._store: int | None = None  # the process of a Ray started here that makes the channels
        self._own: dict[str, int] = {}  # the processes without which a Ray started here does not run, by name
        self._head = ""  # the address of a Ray's that runs without this process
        self._looked = 0.0  # time of the last check
        self._notes = Notes()
        self.actors = 0  # actors of the present simulation

    def open(
        self, address: str | None, processes: int, ship: bool, niceness: int, seconds: float = WARMING * 20.0
    ) -> None:
        """Connect to the cluster at an address, or start a Ray for some processes; keep a running one.

        If a process of Ray does not start within ``seconds``, there is a second attempt.
        """
        self._notes.clear_up()
        if self._open and address == self._address and self._ended() is None:
            self._renew()
            return
        self.close()
        variables = QUIET if address is None else QUIET | ON_A_CLUSTER
        try:
            with in_turn(), environment(variables):  # some of it is read once
                import ray
        except ImportError as error:
            raise InputError(f'backend.name = "ray" needs the package ray, which does not load: {error}') from error
        self._address, self._open = address, True
        if ray.is_initialized():
            self._head = ray.get_runtime_context().gcs_address
            return
        self._started = True
        if address is not None:
            with surroundings(ONE_THREAD, ship) as runtime_env, environment(variables):
                try:
                    if address != "auto":
                        require_cluster(address)
                    ray.init(address=address, runtime_env=runtime_env, **SILENT)
                except InputError:
                    raise
                except (OSError, RuntimeError, ValueError) as error:
                    raise InputError(
                        f"backend.address = {address!r}: no Ray cluster answers there ({_last_line(error)}): start one "
                        "with ray start --head, set RAY_AUTH_MODE=token if it has tokens, and RAY_USE_TLS=1 if it has "
                        "TLS, or leave the address out"
                    ) from error
            self._head = ray.get_runtime_context().gcs_address
            take_sigterm_back()
            return
        try:
            self._start(processes, niceness, seconds)
        except SimulationError as error:
            if not is_late(error.__cause__):
                raise
            ray.shutdown()  # it still counts as started
            self._start(processes, niceness, seconds)

    def _start(self, processes: int, niceness: int, seconds: float) -> None:
        """Start a Ray on this machine; each of its processes may take ``seconds`` to start."""
        import ray

        with Attempt(self._remove_files, _last_line):
            self._private = private_folder()
            self._notes.note([], self._private)
            own = {NICENESS: str(niceness), MARK: str(self._private)}
            variables = environment(QUIET | LOOPBACK | ONE_THREAD | own)
            slow = inside_ray.patient(seconds)
            # SIGHUP of a closed terminal goes to all processes, but only the driver reacts to it.
            with in_turn(), variables, inside_ray.loopback(), inside_ray.lean(), waiting(HANGUP), slow:
                self.forks = ForkServer(self._private, __name__)
                with self.forks.used():
                    start = partial(
                        ray.init,
                        address="local",
                        num_cpus=min(cores(), processes),
                        num_gpus=0,
                        include_dashboard=False,
                        object_store_memory=STORE_BYTES,
                        **SILENT,
                    )
                    context: Any = inside_ray.started_in(self._private / "r", start)  # which Ray opens to everyone
        take_sigterm_back()
        self._folder = context.address_info["session_dir"]
        found = {name: inside_ray.process_of(name) for name in ("raylet", "gcs_server")}
        self._own = {name: process for name, process in found.items() if process is not None}
        self._store = self._own.get("raylet")
        self._notes.note([] if self._store is None else [self._store], self._private)

    def _renew(self) -> None:
        """Send new module search paths to the actors; if one of them has died, end all."""
        try:
            self.gather([host.find_modules.remote(sys.path) for host in self._hosts], ANSWER_SECONDS)
        except Trouble:
            self.discard()

    def _ended(self, there: Callable[[str], bool] = answers) -> str | None:
        """Return the dead process of a local Ray, or a text on an unreachable head of a cluster, or None."""
        self._looked = time.monotonic()
        for name, process in self._own.items():
            if not inside_ray.is_alive(process):
                return f"Ray's {name}, process {process}, ended without a word: {ENDED}"
        if self._head and not there(self._head):
            return (
                f"the head of the Ray cluster at {self._head} does not answer: go on when the cluster is there again, "
                "or without it, with --set backend.name=serial"
            )
        return None

    def require_running(self) -> None:
        """Raise Trouble if Ray has died, since a minute later its library would end this process.

        The head of a cluster may be cut off for a while.
        """
        if time.monotonic() - self._looked < LOOKED_EVERY:
            return
        ended = self._ended(comes_back)
        if ended is not None:
            raise Trouble(ended, late=False, final=bool(self._head))

    @property
    def found(self) -> bool:
        """Whether Ray runs without this process, or was started by the user's own script."""
        return bool(self._head)

    def slowed(self) -> str:
        """Return the reason why processes of a found Ray may start late, as the end of a sentence."""
        import ray

        if not self.found:
            return ""
        sent = {"working_dir", "py_modules"} & set(ray.get_runtime_context().runtime_env)
        return SLOWED + (f"; {SENT}" if sent else "")

    def __len__(self) -> int:
        return len(self._hosts)

    def cores(self) -> int:
        import ray

        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return max(1, int(resources.get("CPU", 1)))

    def host(self, place: int) -> Any:
        """Return the existing or a new actor at a place; raises Trouble if no machine is left."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if place == len(self._hosts):
            # No core is reserved, since waiting takes none; Ray then spreads only actors with a required placement.
            machines: Any = ray.nodes()  # type: ignore[no-untyped-call]
            if not any(machine["Alive"] for machine in machines):
                raise Trouble("no machine of Ray's is left", late=False)
            machine = NodeAffinitySchedulingStrategy(placed(machines, self.actors)[place], soft=False)
            if self._kind is None:
                self._kind = ray.remote(_Actor)
            self._hosts.append(self._kind.options(num_cpus=0, scheduling_strategy=machine).remote(sys.path))
        return self._hosts[place]

    def foresee(self, kind: str) -> None:
        """Start the driver's actor of a compiled graph in advance."""
        if kind == "compiled" and self._drivers is None:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
            self._drivers = inside_ray.DriversActor(here)

    def connect(self, kind: str, hosts: Sequence[Any], neighbors: Sequence[Sequence[int]], levels: int) -> Transport:
        with _troubles():
            if kind == "calls" or not inside_ray.graphs_compile():
                return _Calls(hosts, neighbors, levels)
            with nullcontext() if self._drivers is None else self._drivers.taken():
                return _Compiled(hosts, neighbors, levels, self._store)

    def share(self, value: Any) -> Any:
        import ray

        return ray.put(value)

    def gather(self, answers: Sequence[Any], timeout: float) -> list[Any]:
        import ray

        with _troubles():
            return list(ray.get(answers, timeout=timeout))

    def ready(self, answers: Collection[Any], timeout: float) -> list[Any]:
        import ray

        return ray.wait(list(answers), timeout=timeout)[0]

    def inquire(self, hosts: Sequence[Any]) -> tuple[dict[int, Whereabouts], list[int]]:
        """Query all hosts; return the replies and the indices of dead hosts."""
        import ray
        from ray.exceptions import RayActorError

        places = {host.whereabouts.remote(): place for place, host in enumerate(hosts)}
        found: dict[int, Whereabouts] = {}
        dead: list[int] = []
        for answer in ray.wait(list(places), num_returns=len(places), timeout=ANSWER_SECONDS)[0] if places else ():
            try:
                found[places[answer]] = ray.get(answer)
            except RayActorError:
                dead.append(places[answer])
        return found, dead

    def discard(self, places: Collection[int] | None = None) -> None:
        """End the actors at given indices, or all of them, at once; the remaining ones move up."""
        ended = range(len(self._hosts)) if places is None else places
        if ended:
            import ray

            if self._store is None:
                _remove_semaphores([self._hosts[place] for place in ended])
            for place in ended if self._ended() is None else ():  # a Ray that has died takes its actors with it
                ray.kill(self._hosts[place])
            self._hosts = [host for place, host in enumerate(self._hosts) if place not in ended]
            self._drivers = None  # may be lost too

    def keep_logs(self) -> str:
        """Leave the logs of a Ray started here on the disk."""
        kept, self._private = self._private is not None, None
        return f"; Ray's logs are in {self._folder}/logs" if kept else ""

    def close(self) -> None:
        """End the actors, and Ray if it was started here; in a fork, leave this to the process that owns it."""
        if self._process != os.getpid():
            return
        self.discard()
        if self._started:
            import ray

            # Newer versions can wait until the processes are gone.
            waits = "wait_for_processes" in inspect.signature(ray.shutdown).parameters
            ray.shutdown(**({"wait_for_processes": True} if waits else {}))
        if self._store is not None:
            remove(made_by([self._store]))
        self._remove_files()
        self._open = self._started = False
        self._kind = self._drivers = self._store = None
        self._own, self._head = {}, ""

    def _remove_files(self) -> None:
        if self.forks is not None:
            self.forks.close()
            self.forks = None
        if self._private is not None:
            end_processes_of(self._private)  # of a Ray that has not started or not ended
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None
        self._notes.forget()


class _Compiled:
    """The rounds as a compiled graph: channels from actor to actor, and from and to the driver at its ends."""

    def __init__(
        self, hosts: Sequence[Any], neighbors: Sequence[Sequence[int]], levels: int, store: int | None
    ) -> None:
        from ray.dag import InputNode, MultiOutputNode

        # A graph with dead actors would write their tracebacks to the terminal when it is taken down.
        self._log = logging.getLogger("ray.dag.compiled_dag_node")
        self._log.setLevel(logging.CRITICAL + 1)
        self._hosts, self._store = hosts, store
        self._opened: set[Path] = set()  # semaphores, on a cluster whose store serves others too
        with InputNode() as rounds:
            sent = [host.send.bind(rounds) for host in hosts]
            steps, last = [host.advance.bind for host in hosts], [host.finish.bind for host in hosts]
            graph: Any = MultiOutputNode(_unrolled(sent, steps, last, neighbors, levels))
        self._graph = inside_ray.compiled(graph, IN_FLIGHT)

    def submit(self, rounds: int) -> Any:
        with _troubles():
            return self._graph.execute(rounds)

    def collect(self, execution: Any, timeout: float) -> list[tuple[int, float]]:
        return _answers(execution, timeout)

    def primed(self) -> None:
        import ray

        if self._store is None:
            found: list[list[Path]] = []
            with suppress(Trouble), _troubles():
                found = ray.get([host.semaphores.remote() for host in self._hosts], timeout=ANSWER_SECONDS)
            self._opened = {*opened(), *(path for paths in found for path in paths)}

    def close(self) -> bool:
        if self._store is not None:
            left = self._ended()
            if left:
                remove(made_by([self._store]))
            return left
        _remove_semaphores(self._hosts)
        remove(self._opened)  # also of actors that have died together
        return self._ended()

    def _ended(self) -> bool:
        # Teardown waits forever for an actor that does not leave its part of the graph, until the actor ends.
        ending = threading.Thread(target=self._take_down, daemon=True)
        ending.start()
        ending.join(ENDING_SECONDS)
        return not ending.is_alive()

    def _take_down(self) -> None:
        self._graph.teardown()
        self._log.setLevel(logging.NOTSET)


class _Calls:
    """The rounds as actor calls whose arguments are the results of other calls."""

    def __init__(self, hosts: Sequence[Any], neighbors: Sequence[Sequence[int]], levels: int) -> None:
        self._hosts, self._neighbors, self._levels = hosts, neighbors, levels

    def submit(self, rounds: int) -> Any:
        sent = [host.send.remote(rounds) for host in self._hosts]
        steps, last = [host.advance.remote for host in self._hosts], [host.finish.remote for host in self._hosts]
        return _unrolled(sent, steps, last, self._neighbors, min(rounds, self._levels))

    def collect(self, execution: Any, timeout: float) -> list[tuple[int, float]]:
        return _answers(execution, timeout)

    def primed(self) -> None:
        pass

    def close(self) -> bool:
        return True


def _answers(execution: Any, timeout: float) -> list[tuple[int, float]]:
    import ray

    with _troubles():
        return list(ray.get(execution, timeout=timeout))


def _unrolled(sent: Any, steps: Any, last: Any, neighbors: Sequence[Sequence[int]], levels: int) -> list[Any]:
    """Build the graph of one execution: messages in flight are sent, the rounds follow, and the last answers end it."""
    for level in range(levels):
        sent = advance(steps if level < levels - 1 else last, neighbors, sent)
    return list(sent)


def _remove_semaphores(hosts: Sequence[Any]) -> None:
    """Remove the semaphores of this driver's graph on a cluster; open ones stay usable for their processes."""
    import ray

    remove(opened())
    with suppress(Trouble), _troubles():
        ray.get([host.remove_semaphores.remote() for host in hosts], timeout=ANSWER_SECONDS)


@contextmanager
def _troubles() -> Iterator[None]:
    from ray.exceptions import GetTimeoutError, RayChannelTimeoutError, RayError

    try:
        yield
    except RayError as error:
        raise Trouble(_last_line(error), isinstance(error, GetTimeoutError | RayChannelTimeoutError)) from error
    except (KeyboardInterrupt, SystemExit) as interruption:
        # Frames in its traceback may refer to a channel's memory after the end of Ray, which would crash at exit.
        traceback.clear_frames(interruption.__traceback__)
        raise


def _last_line(error: BaseException) -> str:
    """Return the line of a remote traceback that names the exception."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
