"""Workers of a Ray started here, forked from one process, and the memory of an actor."""

from __future__ import annotations

import errno
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import environment
from kernelswarm.simulations.core.machine import FORKED_BYTES, PROCESS_BYTES
from kernelswarm.simulations.engine.inside_ray import DRAWS, WORKER, launched_by, runs
from kernelswarm.simulations.engine.worker_launcher import RAYS_OWN, SERVER

SCRIPTS = Path(__file__).parent / "fork_server.py", Path(__file__).parent / "worker_launcher.py"
"""The fork server, and the launcher that the raylet runs for a fork."""

OURS = ("kernelswarm.agents.", "kernelswarm.protocols.", "kernelswarm.simulations.data.")
"""The modules of the driver that actors import in addition to their class."""

ENVIRONMENTS = "UV", "RAY_RUNTIME_ENV_HOOK"
"""Variables that give workers a separate environment, so that they are not forked: ``uv run`` sets the first for Ray's
own hook, and the second names a hook of the user."""


def as_file(script: Path, folder: Path) -> Path:
    """Return the path of a script, or of a copy in ``folder`` if this package is in an archive."""
    if script.is_file():
        return script
    source = pkgutil.get_data(__package__ or "", script.name)
    assert source is not None
    copy = folder / script.name
    copy.write_bytes(source)
    return copy


class ForkServer:
    """The process from which the workers of a Ray started here are forked, see ``fork_server.py``.

    Ray starts workers itself on systems other than Linux, with versions of Ray that name their worker differently, and
    after the end of this process.

    Parameters
    ----------
    folder : Path
        The folder of its socket and of its error messages, inaccessible to other users.
    module : str
        The module with the class of the actors.
    """

    def __init__(self, folder: Path, module: str) -> None:
        self._folder, self._path = folder, folder / "forks"
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # whether the raylet uses it
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
                # The folder identifies the server's driver.
                [sys.executable, script, json.dumps(given | {"descriptor": descriptor}), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[descriptor],
                # Ctrl-C is for the driver. The session is not changed: Linux divides cores between sessions, and actors
                # wait by yielding, which would then be to each other only.
                process_group=0,
            )

    @contextmanager
    def used(self) -> Iterator[None]:
        """Fork the workers of a raylet that is started inside the context."""
        if self._process is None:
            yield
            return
        with launched_by(str(as_file(SCRIPTS[1], self._folder))) as rays_own:
            self._asked = bool(rays_own)
            with environment({SERVER: str(self._path), RAYS_OWN: rays_own} if rays_own else {}):
                yield

    @property
    def serves(self) -> bool:
        """Whether new workers are forked."""
        return self._asked and self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End the server; workers continue."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.kill()
            self._process.wait()


def actor_bytes(server: ForkServer | None = None) -> int:
    """Return the approximate memory of an actor on this machine before the first round.

    Parameters
    ----------
    server : ForkServer, optional
        The server of a Ray started here. A Ray started by the user starts its workers itself.
    """
    forked = server.serves if server is not None else sys.platform == "linux" and not runs()
    return FORKED_BYTES if forked and not any(map(os.environ.get, ENVIRONMENTS)) else PROCESS_BYTES


# The errors of a start of Ray that fails.

HOME = ": Ray writes into the folder that HOME names, set HOME to one that may be written"


class Attempt:
    """An attempt to start Ray: if it fails, its files are removed, and the message gives the reason.

    Ray raises errors of the class Exception itself if one of its processes does not start, and StopIteration if no
    further file can be opened.

    Parameters
    ----------
    undo : callable
        Removes all files of the attempt.
    last_line : callable
        Returns the line of an error's text with its name.
    """

    def __init__(self, undo: Callable[[], None], last_line: Callable[[BaseException], str]) -> None:
        self._undo, self._last_line = undo, last_line

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._undo()
        if type(error) is Exception or isinstance(error, OSError | RuntimeError | StopIteration):
            cause = self._last_line(error) + (HOME if _is_of_home(error) else "") + (LATE if is_late(error) else "")
            raise SimulationError(f"Ray could not be started on this machine: {cause}") from error


LATE = (
    ", in two attempts: run it while less else runs here, raise backend.patience, of which a start may take 15 times "
    'as much, or set backend.name = "serial", with the same models'
)


def is_late(error: BaseException | None) -> bool:
    """Tell whether one of Ray's processes did not start in time, the only error with exactly this class."""
    return type(error) is Exception


def _is_of_home(error: BaseException) -> bool:
    """Tell whether a file in the user's home folder could not be written."""
    if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EROFS):
        return False
    return str(error.filename).startswith(os.path.expanduser("~"))


# Whether a Ray cluster answers at an address, and encrypted or not, before Ray waits for it for minutes.

SECONDS = 5.0
"""Seconds for an answer of the address."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04" + b"\x00" * 5
"""The start of a gRPC connection, its settings: servers without TLS answer with theirs, servers with TLS hang up."""


def require_cluster(address: str) -> None:
    """Raise an error if nothing listens at an address, or if only one side uses TLS.

    Parameters
    ----------
    address : str
        "host:port".

    Raises
    ------
    InputError
        Only one side uses TLS.
    OSError, ValueError
        Nothing listens there, or the address is invalid.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        answer = None
        with suppress(TimeoutError):
            answer = _answer(connection)
    encrypts = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    if answer == b"" and not encrypts:
        raise InputError(
            f"backend.address = {address!r}: the Ray cluster there wants TLS: set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, "
            "RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT here too, as docs/cluster.md says"
        )
    if answer and encrypts:
        raise InputError(
            f"backend.address = {address!r}: the Ray cluster there has no TLS, and RAY_USE_TLS = "
            f"{os.environ['RAY_USE_TLS']!r} asks for it: start the cluster with the same, or unset RAY_USE_TLS"
        )


HEAD_SECONDS = 25.0
"""Seconds for a disconnected head to come back, after which its cluster counts as lost: a minute later Ray's own
processes end too."""


def answers(address: str) -> bool:
    """Tell whether something listens at "host:port"."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=SECONDS):
        return True
    return False


def comes_back(address: str) -> bool:
    """Wait for a reply of a cluster's head, and tell whether there was one."""
    until = time.monotonic() + HEAD_SECONDS
    while not (there := answers(address)) and time.monotonic() < until:
        time.sleep(0.5)
    return there


def _answer(connection: socket.socket) -> bytes:
    """Return the first bytes from a server; empty if it closes the connection."""
    try:
        connection.sendall(PREFACE)
        return connection.recv(9)
    except (BrokenPipeError, ConnectionResetError):
        return b""


# The number of files that Ray opens for some actors, and the limit of this process.

EACH = 5
"""Files that the raylet, the process with the most files, opens for each actor; the driver opens 2."""

REST = 100
"""Further files: 54 for a compiled graph, and about 30 if messages do not fit into the object store."""


def require_files(actors: int, nodes: int) -> None:
    """Raise the limit of this process's open files to the number needed by the actors.

    Ray also raises the limit, but after starting the processes from which actors are forked.

    Raises
    ------
    InputError
        The system does not permit this limit.
    """
    if sys.platform == "win32":
        return
    import resource  # not everywhere

    needed = EACH * actors + REST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and needed > hard:
        fitting = (hard - REST) // EACH
        fewer = f"set backend.nodes_per_actor = {-(-nodes // fitting):,} or more, " if fitting > 0 else ""
        raise InputError(
            f"backend.nodes_per_actor: Ray opens about {needed:,} files for {actors:,} actors, and the system allows "
            f"{hard:,} (ulimit -Hn): raise that limit (docker run --ulimit nofile={needed}, or nofile in "
            f'/etc/security/limits.conf), {fewer}or set backend.name = "serial", with the same models'
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


# The processes of a Ray started here, found and ended if Ray could not end them itself.
#
# If a driver is killed while Ray starts, the remaining processes continue to start, and create Ray's folder again after
# its removal. They are found by an environment variable with the name of the folder.

MARK = "KERNELSWARM_RAY"
"""The environment variable with the folder of the Ray that a process belongs to."""


TITLE = b"ray::"
"""The prefix of the names of Ray's workers."""


def processes_of(folder: Path) -> list[int]:
    """List the processes of the Ray with this folder; empty on systems without /proc.

    Processes that another thread of the driver starts meanwhile also have the variable, but neither have the folder
    among their arguments nor a parent that does.
    """
    mark, named = os.fsencode(f"{MARK}={folder}"), os.fsencode(folder)
    parents: dict[int, int] = {}
    found: set[int] = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if int(place.name) != os.getpid() and mark in (place / "environ").read_bytes().split(b"\0"):
                words = (place / "cmdline").read_bytes()
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if named in words or words.startswith(TITLE):
                    found.add(int(place.name))
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {process for process, parent in parents.items() if parent in found}
    return sorted(found)


def end_processes_of(folder: Path) -> bool:
    """End the processes of the Ray with this folder, and return whether all are gone in time."""
    until = time.monotonic() + SECONDS
    while found := processes_of(folder):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


# The folder of a Ray started here, which other users of the machine may not enter.
#
# Ray lets everyone read and write its own folder, with logs, sockets and sessions, even if the folder is given.

PREFIX = "ray-"

LONGEST = 103 - len("/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Maximum bytes of its path, with one folder for Ray in it: systems allow a socket's path 107, or 103 on macOS."""


def private_folder() -> Path:
    """Make a folder with mode 0700 in the place of Ray's own: below RAY_TMPDIR, TMPDIR or /tmp.

    If the path would leave too little of the permitted length of a socket's path, the folder is below /tmp.

    Raises
    ------
    OSError
        No folder can be made.

    Examples
    --------
    >>> folder = private_folder()
    >>> oct(folder.stat().st_mode & 0o777), len(str(folder)) <= LONGEST
    ('0o700', True)
    >>> folder.rmdir()
    """
    places = [os.environ.get("RAY_TMPDIR"), tempfile.gettempdir(), "/tmp"]
    fitting = [place for place in places if place and len(os.fsencode(place)) + len(f"/{PREFIX}12345678") <= LONGEST]
    existing = [place for place in fitting if Path(place).is_dir()]
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=existing[0] if existing else None))


# The environment variables for starting or finding Ray, and of its processes.

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Otherwise the raylet's messages about processes go to standard output; the engine's errors contain them.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    # Many actors on few cores are intended.
    "RAY_worker_maximum_startup_concurrency": "100000",
    # A record of every call, for the dashboard: 3 kB each, up to 100,000 of them.
    "RAY_task_events_report_interval_ms": "0",
}
ON_A_CLUSTER = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""Ray's default is 60: after so many seconds without the head its library ends the driver, without a message."""

NICENESS = "RAY_worker_niceness"
"""Ray's default is 15: other work on the machine then takes the cores, and actors wait for each other for minutes."""

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With this setting, the default on these systems, no part of a Ray listens to other machines."""
