"""What makes a Ray that is started here come and go sooner: what it does without, workers that are forked, and an actor
that is made ahead.

Ray's classes are handed in: this file does not import it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from kernelswarm.simulations.backends.starting.worker_launcher import SERVER
from kernelswarm.simulations.machine.memory import FORKED_BYTES, PROCESS_BYTES
from kernelswarm.simulations.machine.temporarily import attribute, environment

UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
"""The methods that start what serves a dashboard, also where there is none, what asks a cloud for machines, and what
forwards logs to the driver. Starting and ending Ray would wait for them, two seconds and one."""

SCRIPTS = Path(__file__).parent / "fork_server.py", Path(__file__).parent / "worker_launcher.py"
"""What serves forks, and what the raylet runs to have one."""

OURS = ("kernelswarm.agents.", "kernelswarm.protocols.", "kernelswarm.simulations.streams.")
"""What actors import of what the driver has imported, beside their class."""

ENVIRONMENTS = "UV", "RAY_RUNTIME_ENV_HOOK"
"""Variables of what gives workers an environment of their own, so that they are not forked: ``uv run`` sets the first,
which Ray's own hook goes by, and the second names a hook of the user's."""

_LAUNCHER = "SETUP_WORKER_FILENAME"
_NAME = "DAGDriverProxyActor"


@contextmanager
def lean(node: Any) -> Iterator[None]:
    """Let Ray start without what a single run has no use for.

    Parameters
    ----------
    node : class
        Ray's ``Node``. What a version of Ray does not have is not asked for.

    Examples
    --------
    >>> class Node:
    ...     def start_monitor(self):
    ...         return "started"
    >>> with lean(Node):
    ...     Node().start_monitor()
    >>> Node().start_monitor()
    'started'
    """
    with ExitStack() as changes:
        for name in UNUSED:
            if hasattr(node, name):
                changes.enter_context(attribute(node, name, _nothing))
        yield


class ForkServer:
    """The process from which the workers of a Ray that is started here are forked: ``fork_server.py`` says how.

    Where it cannot be, on other systems than Linux and with versions of Ray that are told otherwise what to run, and
    where it ends, workers start as Ray starts them.

    Parameters
    ----------
    folder : Path
        Of its socket, and of what it says when it fails; other users may not enter it.
    module : str
        That has the class of the actors.
    """

    def __init__(self, folder: Path, module: str) -> None:
        self._path = folder / "forks"
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # by the raylet
        if sys.platform != "linux":
            return
        given = {
            "path": sys.path,
            "modules": [module, *sorted(name for name in sys.modules if name.startswith(OURS))],
            "worker": "ray._private.workers.default_worker",
        }
        with socket.socket(socket.AF_UNIX) as listener, Path(folder, "forks.err").open("wb") as said:
            listener.bind(str(self._path))
            listener.listen(1024)
            descriptor = listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPTS[0]), json.dumps(given | {"descriptor": descriptor})],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=[descriptor],
                # Ctrl-C is for the driver. No session of its own: Linux shares cores out among sessions, and actors
                # wait by yielding, which would be to one another alone.
                process_group=0,
            )

    @contextmanager
    def used(self, constants: Any) -> Iterator[None]:
        """Let a raylet that is started inside have its workers forked; ``constants`` is Ray's module of that name."""
        self._asked = self._process is not None and hasattr(constants, _LAUNCHER)
        if not self._asked:
            yield
            return
        with environment({SERVER: str(self._path)}), attribute(constants, _LAUNCHER, str(SCRIPTS[1])):
            yield

    @property
    def serves(self) -> bool:
        """Whether workers that start now are forked."""
        return self._asked and self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End the server; workers go on."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.kill()
            self._process.wait()


def actor_bytes(server: ForkServer | None = None) -> int:
    """Return what an actor will take of this machine's memory, about, before it has learned anything.

    Parameters
    ----------
    server : ForkServer, optional
        Of the Ray that has been started here; left out where none has been. A Ray that runs already is the user's, and
        starts its workers itself.
    """
    ray: Any = sys.modules.get("ray")
    if server is not None:
        forked = server.serves
    else:
        forked = sys.platform == "linux" and (ray is None or not ray.is_initialized())
    return FORKED_BYTES if forked and not any(map(os.environ.get, ENVIRONMENTS)) else PROCESS_BYTES


class DriversActor:
    """The actor that a compiled graph makes for its driver, started before the graph and kept for the next one.

    Its process takes half a second to start, through which each graph would wait. It holds nothing of a graph's.

    Parameters
    ----------
    graphs : class
        Ray's ``CompiledDAG``; one of a version that has no such actor is left as it is.
    strategy : object
        Where the actor is to be: on the driver's machine.

    Examples
    --------
    >>> class Actor:
    ...     @classmethod
    ...     def options(cls, **given):
    ...         return cls
    ...     @classmethod
    ...     def remote(cls):
    ...         return "an actor"
    >>> class Graph:
    ...     DAGDriverProxyActor = Actor
    >>> ahead = DriversActor(Graph, None)
    >>> Actor.remote = None
    >>> with ahead.taken():
    ...     Graph.DAGDriverProxyActor.options(num_cpus=0).remote()
    'an actor'
    """

    def __init__(self, graphs: Any, strategy: object) -> None:
        self._graphs = graphs
        self._actor: Any = None
        if hasattr(graphs, _NAME):
            self._actor = graphs.DAGDriverProxyActor.options(scheduling_strategy=strategy).remote()

    def taken(self) -> AbstractContextManager[None]:
        """Let the graph that is made inside take this actor in place of a new one."""
        return nullcontext() if self._actor is None else attribute(self._graphs, _NAME, self)

    def options(self, **given: object) -> DriversActor:
        """Stand in for the class of the actor."""
        return self

    def remote(self) -> Any:
        """Return the actor."""
        return self._actor


def _nothing(*given: object, **named: object) -> None:
    """Do nothing."""
