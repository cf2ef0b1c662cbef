"""The command with which a raylet starts a worker: it requests a worker from the fork server.

This file runs as a script, and imports only the standard library, which takes a fiftieth of a second.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

SERVER = "KERNELSWARM_FORK_SERVER"
"""The environment variable with the path of the fork server's socket."""

RAYS_OWN = "KERNELSWARM_RAYS_OWN_LAUNCHER"
"""The environment variable with the name of Ray's own launcher, which is in the folder of the worker's script."""

CONTEXT, LANGUAGE = "--serialized-runtime-env-context=", "--language="
"""The arguments that Ray's own launcher reads and removes."""


def main(arguments: list[str]) -> None:
    """Fork a worker through the server; start one as Ray does if there is no server or a fork is not sufficient."""
    server = os.environ.get(SERVER, "")
    if server and not Path(server).parent.is_dir():  # Ray has ended: a worker would create its folders again
        return
    place = next(place for place, word in enumerate(arguments) if word.endswith(".py"))
    worker = [word for word in arguments[place:] if not word.startswith((CONTEXT, LANGUAGE))]
    if not (plain(arguments) and forked(server, worker)):
        launcher = str(Path(arguments[place]).with_name(os.environ[RAYS_OWN]))
        os.execv(sys.executable, [sys.executable, launcher, *arguments])


def forked(server: str, arguments: list[str]) -> bool:
    """Request a worker with these arguments and this process's environment; tell whether a fork server answered."""
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "leads": os.getpgrp() == os.getpid(),
        "niceness": os.nice(0),
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server)
            socket.send_fds(connection, [b"\0"], [0, 1, 2])
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            return bool(connection.recv(1))
    except OSError:
        return False


def plain(arguments: list[str]) -> bool:
    """Tell whether the arguments start a Python worker without a separate environment."""
    contexts = [json.loads(word.removeprefix(CONTEXT) or "{}") for word in arguments if word.startswith(CONTEXT)]
    usual = {"py_executable": sys.executable}
    asked = [(key, value) for context in contexts for key, value in context.items() if value]
    return f"{LANGUAGE}PYTHON" in arguments and all(usual.get(key) == value for key, value in asked)


if __name__ == "__main__":
    main(sys.argv[1:])
