"""Workers are forked from one process and become what was to be started; where none serves, Ray starts its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kernelswarm.simulations.engine.ray_startup import SCRIPTS
from kernelswarm.simulations.engine.worker_launcher import RAYS_OWN, SERVER, plain

SOON = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")

RAY = """\
import os
class ObjectID:
    @classmethod
    def from_random(cls):
        return cls()
    def binary(self):
        return {name}
"""

WORKER = """\
import json, os, signal, sys
import ray
if __name__ == "__main__":
    say = {
        "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgrp(), "folder": os.getcwd(), "path": sys.path[0],
        "arguments": sys.argv, "environment": os.environ.get("GIVEN"), "niceness": os.nice(0),
        "blocked": sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "open": len(os.listdir("/proc/self/fd")),
        "ray": ray.__file__, "imported": "imported_first" in sys.modules,
    }
    print(json.dumps(say))
    sys.exit(3)
"""

OWN_LAUNCHER = """\
import json, os, sys
print(json.dumps({"arguments": sys.argv, "pid": os.getpid()}))
"""

Serve = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what stands in for Ray, its package, its worker and its launcher, and for numba."""
    (tmp_path / "imported_first.py").touch()
    (tmp_path / "tables.py").write_text("def fill_tables():\n    pass\n")  # numba's take half a second to fill
    (tmp_path / "stand_in_worker.py").write_text(WORKER)
    (tmp_path / "setup_worker.py").write_text(OWN_LAUNCHER)
    return tmp_path


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Start fork servers whose Ray gives what it makes names by some expression."""
    servers = []

    def served(name: str) -> subprocess.Popen[bytes]:
        (folder / "ray.py").write_text(RAY.format(name=name))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "s"))
            listener.listen()
            given = {
                "descriptor": listener.fileno(),
                "path": [str(folder), *sys.path],
                "modules": ["imported_first"],
                "numba": "tables",
                "worker": "stand_in_worker",
                "draws": "ObjectID",
            }
            servers.append(
                subprocess.Popen(
                    [sys.executable, str(SCRIPTS[0]), json.dumps(given)],
                    stdin=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[listener.fileno()],
                )
            )
        return servers[-1]

    yield served
    for server in servers:
        server.kill()
        server.wait()


def launched(folder: Path, *words: str, server: str = "s") -> subprocess.Popen[bytes]:
    """Start the launcher as a raylet does, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPTS[1]), str(folder / "stand_in_worker.py"), *words, "--language=PYTHON"],
        stdout=subprocess.PIPE,
        cwd=folder,
        env={"PATH": os.environ["PATH"], SERVER: str(folder / server), RAYS_OWN: "setup_worker.py", "GIVEN": "a word"},
        process_group=0,
        preexec_fn=as_a_raylet,
    )


def as_a_raylet() -> None:
    os.nice(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def test_a_fork_is_what_was_to_be_started(folder: Path, serve: Serve) -> None:
    server = serve("os.urandom(28)")
    niceness = os.nice(0)
    found = []
    for number in range(2):
        launcher = launched(folder, f"--number={number}", "--serialized-runtime-env-context={}")
        assert launcher.stdout is not None
        worker = json.loads(launcher.communicate(timeout=SOON)[0])
        assert worker["parent"] == server.pid
        assert worker["group"] == worker["pid"] != launcher.pid
        assert worker["arguments"] == [str(folder / "stand_in_worker.py"), f"--number={number}"]
        assert worker["folder"] == worker["path"] == str(folder)
        assert worker["environment"] == "a word"
        assert worker["niceness"] == min(19, niceness + 1)
        assert worker["blocked"] == [signal.SIGINT]
        assert worker["open"] == 4  # its standard streams, and the folder that it lists
        assert Path(worker["ray"]).parent == folder
        assert worker["imported"]
        found.append(worker["pid"])
    assert found[0] != found[1]
    assert server.poll() is None
    assert not any(unburied(pid) for pid in found)


def unburied(pid: int) -> bool:
    """Say whether a process has ended and its parent has not asked how."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # even if it was there when it was looked for
        return False


def test_the_server_ends_with_its_driver(folder: Path, serve: Serve) -> None:
    server = serve("os.urandom(28)")
    launched(folder).communicate(timeout=SOON)
    assert server.poll() is None
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(SOON) == 0


def test_where_forks_would_share_names_ray_starts_its_own(folder: Path, serve: Serve) -> None:
    server = serve('b"one for all of them, 28 long"')
    launcher = launched(folder, "--number=0")
    worker = json.loads(launcher.communicate(timeout=SOON)[0])
    assert worker["pid"] == launcher.pid
    assert worker["arguments"][1:] == [str(folder / "stand_in_worker.py"), "--number=0", "--language=PYTHON"]
    assert server.wait(SOON) == 1
    assert server.stderr is not None
    assert b"cannot be forked" in server.stderr.read()


def test_where_nothing_serves_ray_starts_its_own(folder: Path) -> None:
    launcher = launched(folder, "--number=0")
    assert json.loads(launcher.communicate(timeout=SOON)[0])["pid"] == launcher.pid


def test_where_the_folder_of_ray_is_gone_no_worker_starts(folder: Path) -> None:
    launcher = launched(folder, "--number=0", server="gone/s")
    assert launcher.communicate(timeout=SOON)[0] == b""
    assert launcher.returncode == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--language=PYTHON"], True),
        (["--language=PYTHON", "--serialized-runtime-env-context={}"], True),
        (["--language=PYTHON", "--serialized-runtime-env-context="], True),
        (["--language=PYTHON", f'--serialized-runtime-env-context={{"py_executable": "{sys.executable}"}}'], True),
        (["--language=PYTHON", '--serialized-runtime-env-context={"env_vars": {}}'], True),
        (["--language=PYTHON", '--serialized-runtime-env-context={"py_executable": "/another/python"}'], False),
        (["--language=PYTHON", '--serialized-runtime-env-context={"env_vars": {"A": "1"}}'], False),
        (["--language=JAVA"], False),
        ([], False),
    ],
)
def test_only_workers_without_an_environment_of_their_own_are_forked(words: list[str], expected: bool) -> None:
    assert plain(["worker.py", *words]) is expected
