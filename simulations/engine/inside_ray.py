"""The private names of Ray in use, with a check that each exists: a new version may lack it.

If a name is missing, Ray's own behaviour is kept: it takes longer, or more memory, with the same results. A warning is
given once (docs/decisions/0045).
"""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from kernelswarm.simulations.core.files import attribute, environment

UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
"""Methods that start the dashboard's server (also without a dashboard), the cloud's autoscaler and the forwarding of
logs. Start and end of Ray would wait for them, for two seconds and one second."""

WORKER = "ray._private.workers.default_worker"
"""The module that a worker runs."""

DRAWS = "ObjectID"
"""Ray's class of names that are drawn from a separate generator."""

ASKED_EVERY = 0.1
"""Seconds between two queries whether the raylet has registered."""

LONGEST = 3600.0
"""Seconds for an unlimited wait."""

PORT_SECONDS = "RAY_gcs_server_port_wait_time_s"
"""The variable with the seconds until Ray's first process must listen."""

_CONSTANTS, _ACTOR = "ray._private.ray_constants", "DAGDriverProxyActor"


def _found(module: str, path: str = "") -> Any:
    """Return a module of Ray, or an attribute of it, or None if it is missing."""
    try:
        value: Any = importlib.import_module(module)
    except ImportError:
        return None
    for name in path.split(".") if path else ():
        value = getattr(value, name, None)
    return value


def runs() -> bool:
    """Tell whether this process already uses a Ray; waits if another thread is importing it."""
    return "ray" in sys.modules and bool(_found("ray").is_initialized())


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


@cache
def _say(missing: str, instead: str) -> None:
    warnings.warn(
        f"Ray {importlib.metadata.version('ray')} has no {missing}, which kernelswarm knows of older versions: "
        f"{instead}. constraints.txt of kernelswarm names a version that has it",
        RuntimeWarning,
        stacklevel=2,
    )


@contextmanager
def loopback() -> Iterator[None]:
    """Keep a Ray that is started inside the context from listening to other machines."""
    constants = _found(_CONSTANTS)
    if not hasattr(constants, "ENABLE_RAY_CLUSTER"):
        _say("ENABLE_RAY_CLUSTER", "on Linux other machines reach its ports, which a firewall can close")
        yield
        return
    # It was read from the environment when ray was imported, here or elsewhere.
    with attribute(constants, "ENABLE_RAY_CLUSTER", False):
        yield


@contextmanager
def lean() -> Iterator[None]:
    """Let Ray start without services that a single run does not use."""
    node = _found("ray._private.node", "Node")
    with ExitStack() as changes:
        for name in UNUSED:
            if hasattr(node, name):
                changes.enter_context(attribute(node, name, _nothing))
            else:
                _say(name, "it takes longer to start and to end")
        yield


@contextmanager
def launched_by(script: str) -> Iterator[str]:
    """Let a raylet that is started inside the context run a script in place of Ray's worker launcher; yields its file.

    If Ray has no such option, this is "", and Ray starts workers as usual.
    """
    constants = _found(_CONSTANTS)
    own = getattr(constants, "SETUP_WORKER_FILENAME", "")
    if not own or not _is_there(WORKER):
        _say("SETUP_WORKER_FILENAME or default_worker", "actors take longer to start, and more memory")
        yield ""
        return
    with attribute(constants, "SETUP_WORKER_FILENAME", script):
        yield own


def started_in(folder: Path, start: Callable[..., Any]) -> Any:
    """Start Ray with its files in a folder, by a call of ``ray.init``."""
    try:
        return start(_temp_dir=str(folder))
    except RuntimeError as unknown:
        if "_temp_dir" not in str(unknown):
            raise
    _say("_temp_dir", "its files are where it puts them, and others of this machine may read them")
    return start()


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Give the raylet of a Ray that is started inside the context time to register, as long as it is alive.

    Ray's own limit is 30 seconds, which on a busy machine is too short.
    """
    services = _found("ray._private.services")
    asked = getattr(services, "get_node", None)
    if asked is None:
        _say("get_node", "a start that takes more than 30 seconds fails")
        yield
        return
    until = time.monotonic() + seconds

    def get_node(*given: Any) -> Any:
        while True:
            try:
                return asked(*given)
            except RuntimeError:  # it has not registered
                if time.monotonic() > until or process_of("raylet") is None:
                    raise
            time.sleep(ASKED_EVERY)

    with attribute(services, "get_node", get_node), environment({PORT_SECONDS: f"{min(seconds, LONGEST):.0f}"}):
        yield


def process_of(name: str) -> int | None:
    """Return the process with this name, such as "raylet", of the last Ray that was started here."""
    found = [child for child in psutil.Process().children() if child.name().startswith(name) and is_alive(child.pid)]
    return max(found, key=psutil.Process.create_time).pid if found else None


def is_alive(process: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def prepare_actor(channel_bytes: int) -> None:
    """Set, in an actor, the initial size of its channels, and that messages contain no tensors."""
    graphs, channels = _found("ray.dag", "DAGContext"), _found("ray.experimental.channel", "ChannelContext")
    if graphs is not None:
        graphs.get_current().buffer_size_bytes = channel_bytes
    # If torch is installed, every actor would load it, 300 MB each, to look for tensors in the messages.
    if hasattr(channels, "_torch_available"):
        channels.get_current()._torch_available = False
    else:
        _say("_torch_available", "where torch is installed each actor loads it")


def graphs_compile() -> bool:
    """Tell whether rounds can be a compiled graph, with the given number of them in flight."""
    compiles = _found("ray.dag", "DAGNode.experimental_compile")
    ends = [_found("ray.dag", name) for name in ("InputNode", "MultiOutputNode")]
    if compiles is None or None in ends or "_max_inflight_executions" not in inspect.signature(compiles).parameters:
        _say(
            "experimental_compile with _max_inflight_executions",
            'rounds are actor calls, as with transport = "calls", which takes longer',
        )
        return False
    return True


def compiled(graph: Any, in_flight: int) -> Any:
    """Compile a graph, and prepare the channels of its results for reading."""
    found = graph.experimental_compile(_max_inflight_executions=in_flight)
    # Ray does this at the first result, and in another thread when an actor dies: both at once end this process.
    for channel in getattr(found, "dag_output_channels", None) or ():
        if hasattr(channel, "ensure_registered_as_reader"):
            channel.ensure_registered_as_reader()
    return found


class DriversActor:
    """The actor that a compiled graph makes for its driver, started before the graph and kept for the next one.

    Its process takes half a second to start, for which each graph would wait. It has no data of a graph.

    Parameters
    ----------
    strategy : object
        The placement of the actor, on the driver's machine.
    """

    def __init__(self, strategy: object) -> None:
        self._graphs = _found("ray.dag.compiled_dag_node", "CompiledDAG")
        self._actor: Any = None
        if hasattr(self._graphs, _ACTOR):
            self._actor = getattr(self._graphs, _ACTOR).options(scheduling_strategy=strategy).remote()
        else:
            _say(_ACTOR, "the first rounds begin later")

    def taken(self) -> AbstractContextManager[None]:
        """Let a graph that is made inside the context use this actor instead of a new one."""
        return nullcontext() if self._actor is None else attribute(self._graphs, _ACTOR, self)

    def options(self, **given: object) -> DriversActor:
        """Return this object, in place of the actor's class."""
        return self

    def remote(self) -> Any:
        return self._actor


def _nothing(*given: object, **named: object) -> None:
    """Do nothing."""
