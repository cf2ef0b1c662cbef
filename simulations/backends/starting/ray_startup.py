"""Workers of a Ray that is started here, forked from one process, and the memory that an actor takes."""

from __future__ import annotations

import json
import os
import pkgutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelswarm.simulations.backends.starting.inside_ray import DRAWS, WORKER, launched_by, runs
from kernelswarm.simulations.backends.starting.worker_launcher import RAYS_OWN, SERVER
from kernelswarm.simulations.machine.memory import FORKED_BYTES, PROCESS_BYTES
from kernelswarm.simulations.machine.temporarily import environment

SCRIPTS = Path(__file__).parent / "fork_server.py", Path(__file__).parent / "worker_launcher.py"
"""The fork server, and the launcher that the raylet runs for a fork."""

OURS = ("kernelswarm.agents.", "kernelswarm.protocols.", "kernelswarm.simulations.streams.")
"""The modules of the driver that actors import, beside their class."""

ENVIRONMENTS = "UV", "RAY_RUNTIME_ENV_HOOK"
"""Variables of what gives workers an environment of their own, so that they are not forked: ``uv run`` sets the first,
which Ray's own hook goes by, and the second names a hook of the user's."""


def as_file(script: Path, folder: Path) -> Path:
    """Return where a script is a file: its own place, or, where this package lies in an archive, a copy in a folder."""
    if script.is_file():
        return script
    source = pkgutil.get_data(__package__ or "", script.name)
    assert source is not None
    copy = folder / script.name
    copy.write_bytes(source)
    return copy


class ForkServer:
    """The process from which the workers of a Ray that is started here are forked: ``fork_server.py`` says how.

    Where it cannot be, on other systems than Linux and with versions of Ray that name their worker otherwise, and
    where it ends, workers start as Ray starts them.

    Parameters
    ----------
    folder : Path
        Of its socket, and of what it says when it fails; other users may not enter it.
    module : str
        That has the class of the actors.
    """

    def __init__(self, folder: Path, module: str) -> None:
        self._folder, self._path = folder, folder / "forks"
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # by the raylet
        if sys.platform != "linux":
            return
        given = {
            "path": sys.path,
            "modules": [module, *sorted(name for name in list(sys.modules) if name.startswith(OURS))],
            "numba": "kernelswarm.inside_numba",
            "worker": WORKER,
            "draws": DRAWS,
        }
        with socket.socket(socket.AF_UNIX) as listener, Path(folder, "forks.err").open("wb") as errors:
            listener.bind(str(self._path))
            listener.listen(1024)
            descriptor, script = listener.fileno(), as_file(SCRIPTS[0], folder)
            self._process = subprocess.Popen(
                # The folder tells whose server it is.
                [sys.executable, script, json.dumps(given | {"descriptor": descriptor}), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[descriptor],
                # Ctrl-C is for the driver. No session of its own: Linux shares cores out among sessions, and actors
                # wait by yielding, which would be to one another alone.
                process_group=0,
            )

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let a raylet that is started inside have its workers forked."""
        if self._process is None:
            yield
            return
        with launched_by(str(as_file(SCRIPTS[1], self._folder))) as rays_own:
            self._asked = bool(rays_own)
            with environment({SERVER: str(self._path), RAYS_OWN: rays_own} if rays_own else {}):
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
    """Return about the memory of an actor on this machine, before it has learned anything.

    Parameters
    ----------
    server : ForkServer, optional
        Of the Ray that has been started here; left out where none has been. A Ray that runs already is the user's, and
        starts its workers itself.
    """
    forked = server.serves if server is not None else sys.platform == "linux" and not runs()
    return FORKED_BYTES if forked and not any(map(os.environ.get, ENVIRONMENTS)) else PROCESS_BYTES
