"""A process that has imported the modules of Ray's workers, and forks a worker at each request of the raylet.

The imports take a second of a core and 100 MB, which each worker would need; a fork has them at once and shares them.
This file runs as a script, with all locations among its arguments.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 5.0
"""Maximum seconds between the start and the end of a request."""

Request = Mapping[str, Any]


def main(descriptor: int, path: Sequence[str], modules: Sequence[str], numba: str, worker: str, draws: str) -> None:
    """Import modules, then fork a worker for each request, until the standard input ends with the driver.

    In a worker it ends with the worker.
    Parameters
    ----------
    descriptor : int
        The file descriptor of the socket for requests.
    path : sequence of str
        The driver's module search path.
    modules : sequence of str
        The modules to import at once.
    numba : str
        The module that fills numba's tables, as the first compiled or loaded function does.
    worker : str
        The module of Ray that a worker runs, imported with the first request.
    draws : str
        Ray's class of names that are drawn from a separate generator.
    """
    sys.path[:] = path
    gc.disable()
    for name in modules:
        importlib.import_module(name)
    tables = importlib.import_module(numba)
    tables.fill_tables()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps children
    with socket.socket(fileno=descriptor) as listener:
        ours = _forked(listener, worker, draws)
    if ours is not None:
        _become(ours)


def _forked(listener: socket.socket, worker: str, draws: str) -> Request | None:
    """Fork for each request; return the request in the fork, and None in the server at its end."""
    prepared = False
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE)
            try:
                _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
                request: Request = json.load(connection.makefile("rb"))
            except (OSError, ValueError):  # the requesting process has ended
                continue
            if not prepared:
                _prepare(request, worker, draws)
                prepared = True
            forked = not os.fork()
            for place, descriptor in enumerate(descriptors):
                if forked:
                    os.dup2(descriptor, place)
                os.close(descriptor)
            if forked:
                if request["leads"]:  # the raylet ends workers by process group
                    os.setpgid(0, 0)
                connection.send(b"\1")
                return request
    return None


def _prepare(request: Request, worker: str, draws: str) -> None:
    """Import a worker's modules, in the raylet's environment, which Ray reads as it is imported.

    Raises
    ------
    RuntimeError
        Names generated in forks would collide.
    """
    os.environ.clear()
    os.environ.update(request["environment"])
    importlib.import_module(worker)
    if not _names_differ(draws):
        raise RuntimeError("this version of Ray has drawn names as it was imported: its workers cannot be forked")
    gc.collect()
    gc.freeze()  # existing objects are not scanned again, and their memory stays shared


def _names_differ(draws: str) -> bool:
    """Tell whether two forks draw different names; they do not if the generator was started before the forks."""
    names = []
    if not hasattr(sys.modules["ray"], draws):
        return False
    for _ in range(2):
        reading, writing = os.pipe()
        if not os.fork():
            os.write(writing, getattr(sys.modules["ray"], draws).from_random().binary())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as answer:
            names.append(answer.read())
    return names[0] != names[1] and all(names)


def _become(request: Request) -> None:
    """Continue in place of the requesting process: with its environment, as the script that it was to run."""
    import numpy as np

    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.nice(request["niceness"] - os.nice(0))
    np.random.seed()  # noqa: NPY002 - for a user's own part that draws from it: forks would draw the same
    sys.argv = request["arguments"]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
