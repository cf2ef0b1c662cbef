"""What is left of a Ray whose driver was killed is ended and removed by the next run, and no other Ray's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.ray_backend import Turns
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.ray_startup import MARK, end_processes_of, processes_of
from kernelswarm.simulations.engine.shared_memory import Notes
from tests.helpers.checkout import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in Linux's /proc")

ORPHAN = """
import os, subprocess, sys, time
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) if "parent" in sys.argv else None
print(child.pid if child else 0, flush=True)
while True:
    time.sleep(0.01)
    if "writes" in sys.argv:
        os.makedirs(os.path.join(sys.argv[1], "r", "logs"), exist_ok=True)
"""
"""A process that stands for one of Ray's; it may have a child, and make the folder again."""

Start = Callable[..., "tuple[int, int]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process of the Ray with a folder, and return it and its child."""
    started = []

    def one(folder: Path, *words: str, mark: Path | None = None) -> tuple[int, int]:
        given = [sys.executable, "-c", ORPHAN, *words]
        started.append(
            subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=os.environ | {MARK: str(mark or folder)})
        )
        assert started[-1].stdout is not None
        return started[-1].pid, int(started[-1].stdout.readline())

    yield one
    for process in started:
        process.kill()
        process.communicate()


def ended() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def noted(folder: Path, driver: str, files: Path, more: str = "") -> Path:
    """Write the note of a driver that has a folder and does not know yet which process makes its channels."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / driver).write_text(f"\n{files}{more}")
    return folder / driver


def killed(folder: Path, more: str = "") -> tuple[Path, Notes, Path]:
    """Return the folder of a driver that was killed, the notes, and its own."""
    files, notes = folder / "ray-killed", Notes(folder / "notes")
    files.mkdir()
    return files, notes, noted(notes.folder, f"{ended()}-123", files, more)


def test_processes_are_known_by_the_folder_that_they_name_and_by_their_parents(start: Start, tmp_path: Path) -> None:
    ours, other = tmp_path / "ray-ours", tmp_path / "ray-other"
    parent, child = start(ours, str(ours), "parent")
    start(ours, str(other), mark=other)
    start(ours)  # as another thread of the driver may have started meanwhile
    assert processes_of(ours) == sorted([parent, child])
    assert end_processes_of(ours)
    assert processes_of(ours) == []
    assert len(processes_of(other)) == 1


def test_the_folder_of_a_killed_driver_does_not_come_again(start: Start, tmp_path: Path) -> None:
    files, live = tmp_path / "ray-killed", tmp_path / "ray-live"
    for folder in (files, live):
        folder.mkdir()
    late, _ = start(files, str(files), "writes")
    working, _ = start(live, str(live), "writes")
    notes = Notes(tmp_path / "notes")
    noted(notes.folder, f"{ended()}-123", files)
    notes.note([], live)  # this process is a driver that lives
    notes.clear_up()
    assert processes_of(files) == []
    assert not files.exists()
    assert processes_of(live) == [working] and live.exists()
    assert len(list(notes.folder.iterdir())) == 1
    os.waitpid(late, 0)


def test_what_cannot_be_removed_stays_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, notes, note = killed(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda folder, ignore_errors: None)
        notes.clear_up()
    assert note.exists()
    notes.clear_up()
    assert not note.exists() and not files.exists()


def test_a_number_that_has_come_again_is_another_process(tmp_path: Path) -> None:
    files, notes, note = killed(tmp_path)
    note.write_text(f"{os.getpid()}-123\n{files}\n")  # began at another time than this process
    notes.clear_up()
    assert not files.exists() and not note.exists()


def test_the_folder_of_a_driver_in_another_container_stays(tmp_path: Path) -> None:
    files, notes, note = killed(tmp_path, "\npid:[1]")  # where this number may be a live driver's
    notes.clear_up()
    assert files.exists() and note.exists()


def test_a_fork_leaves_its_parents_ray_alone_and_is_refused_one(tmp_path: Path) -> None:
    files, notes = tmp_path / "ray-live", Notes(tmp_path / "notes")
    files.mkdir()
    notes.note([], files)
    session, turns = RaySession(), Turns()
    session._private, session._notes = files, notes
    with turns.leaving(session):
        turns.take(session)
        child = os.fork()
        if not child:
            code = 1
            try:
                session.close()
                turns.take(object())
            except InputError as error:
                code = 0 if "is a fork of process" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert files.exists()
    assert len(list(notes.folder.iterdir())) == 1
    session.close()
    assert not files.exists()
    assert not list(notes.folder.iterdir())


FORKING = """
import os, sys, threading
from kernelswarm import Experiment, simulate
table = {"rounds": 10**9, "evaluate_every": 10**7, "topology": {"name": "path", "nodes": 2},
         "stream": "sine_regression", "learner": {"name": "polk", "budget": {"epsilon": 0.01}},
         "protocol": "consensus", "backend": {"name": "ray"}}
said = []

def say(progress):
    if progress.phase == "running" and not said:
        said.append(print(os.getpid(), flush=True))

def run():
    simulate(Experiment.from_dict(table), say)

if not os.fork():
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    os._exit(1)
sys.stdin.readline()
"""


def test_a_killed_child_that_simulates_in_a_thread_leaves_nothing_though_its_parent_lives(tmp_path: Path) -> None:
    live = tmp_path / "ray-live"
    live.mkdir()
    with tempfile.TemporaryDirectory(prefix="ks") as place:  # a short name, since Ray's sockets are in it
        notes = Notes(Path(place) / f"kernelswarm-{os.getuid()}")
        notes.note([], live)
        command, pipes = [sys.executable, "-c", FORKING], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        parent = subprocess.Popen(command, **pipes, text=True, cwd=ROOT, env=os.environ | {"TMPDIR": place})
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            (files,) = Path(place).glob("ray-*")
            working = processes_of(files)
            assert len(working) >= 5  # the raylet, its store of names, the server of forks, two actors
            notes.clear_up()  # by others, while it runs
            assert set(working) <= set(processes_of(files)) and files.exists()
        finally:
            os.kill(child, signal.SIGKILL)
        while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.02)
        notes.clear_up()  # what the next run begins with
        assert parent.poll() is None
        parent.communicate("\n")
        assert processes_of(files) == []
        assert not files.exists()
        assert live.exists()
        assert len(list(notes.folder.iterdir())) == 1
