"""No semaphore stays in shared memory: not after a run, a failure, a stop or a kill; and nobody else's is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelswarm.simulations.engine import shared_memory
from kernelswarm.simulations.engine.inside_ray import process_of
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.shared_memory import Notes
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers import interrupts
from tests.simulations.engine.test_orphans import ended
from tests.simulations.engine.test_ray_failures import Watch, by_process, children, needs_proc

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory is no folder here")

EXPERIMENT = {
    "rounds": 20,
    "evaluate_every": 10**7,  # an endless run is not to fill the memory
    "topology": {"name": "path", "nodes": 2},
    "stream": "sine_regression",
    "learner": {"name": "polk", "budget": {"epsilon": 0.01}},
    "protocol": "consensus",
    "backend": {"name": "ray"},
}
DRIVER = f"""
import signal, sys
from kernelswarm import Experiment, simulate
from kernelswarm.simulations.engine import ray_session
started = ray_session.RaySession.connect
def connect(self, *given):
    transport = started(self, *given)
    print(self._store, flush=True)
    sys.stdin.readline()
    return transport
ray_session.RaySession.connect = connect
sys.stdin.readline()
said = []
def say(progress):
    if progress.phase == "running" and not said:
        said.append(print("running", flush=True))
try:
    for rounds in sys.argv[1:]:
        said.clear()
        simulate(Experiment.from_dict({EXPERIMENT!r} | {{"rounds": int(rounds)}}), say)
except SystemExit:
    print(signal.getitimer(signal.ITIMER_REAL)[0])
    raise
"""
"""Waits for a line before it begins, and for another each time that its graph is there; says when rounds are done."""

ENDLESS = 10**9
SOON = 15.0
"""Seconds in which all processes of a driver that is killed must be gone."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let drivers keep their notes in a folder of their own; its name is short, since Ray's sockets are in it too."""
    with tempfile.TemporaryDirectory(prefix="ks") as place:
        monkeypatch.setenv("TMPDIR", place)
        yield Path(place) / f"kernelswarm-{os.getuid()}"


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start drivers, which wait only where a pipe is given, and end at last those that a failed test has left."""
    drivers: list[subprocess.Popen[str]] = []

    def started(*rounds: int, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", DRIVER, *map(str, rounds)]
        # A driver receives Ctrl-C, wherever the tests run.
        drivers.append(
            subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, text=True, preexec_fn=interrupts.listen)
        )
        return drivers[-1]

    yield started
    for driver in drivers:
        driver.kill()
        driver.communicate()


def go_on(driver: subprocess.Popen[str]) -> None:
    """Give a driver the line that it waits for."""
    assert driver.stdin is not None
    print(file=driver.stdin, flush=True)


@contextmanager
def at_rest(processes: Sequence[int]) -> Iterator[None]:
    """Stop processes meanwhile: actors that wait for their next round poll, and would take the cores."""
    try:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def made_by_store_of(driver: subprocess.Popen[str]) -> int:
    """Wait until the driver's graph is there, and return who makes its channels."""
    assert driver.stdout is not None
    return int(driver.stdout.readline())


def runs(driver: subprocess.Popen[str]) -> None:
    """Wait until the driver's actors have done some rounds."""
    assert driver.stdout is not None
    assert driver.stdout.readline() == "running\n"


def assert_no_actor_outlives(driver: subprocess.Popen[str]) -> None:
    """Kill a driver, and see all of its Ray end soon."""
    names = {pid: name.decode() for pid, name in by_process(children(driver.pid), "comm").items()}
    # Agents that Ray itself starts look for their raylet once a minute, and then end too, and so does a spare worker
    # that is only starting when the raylet goes.
    late = [pid for pid, name in names.items() if name.startswith(("ray::Dashboard", "ray::Runtime"))]
    late += [
        pid
        for pid, name in names.items()
        if not name.startswith("ray::") and b"default_worker" in by_process([pid], "cmdline").get(pid, b"")
    ]
    assert sum(name.startswith("ray::_Actor") for name in names.values()) == 2
    watch = Watch([pid for pid in names if pid not in late])
    clock = time.monotonic()
    driver.kill()
    driver.wait(60)
    assert watch.left_after(SOON) == []
    assert time.monotonic() - clock < SOON


@needs_proc
@pytest.mark.usefixtures("kept_ray")
def test_a_killed_driver_leaves_no_actor_and_the_next_one_removes_its_semaphores_and_own_when_it_ends_or_is_ended(
    start: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    killed, following = start(ENDLESS), start(20, ENDLESS, stdin=subprocess.PIPE)
    store = made_by_store_of(killed)
    runs(killed)
    assert_no_actor_outlives(killed)
    assert shared_memory.made_by([store])
    (files,) = folder.parent.glob("ray-*")
    # This process is a driver that lives, with a graph and a note.
    alive = process_of("raylet")
    assert alive is not None
    notes = Notes(folder)
    notes.note([alive])
    plans = open_network(Experiment.from_dict(EXPERIMENT)).plans
    with Ray().start(plans, lambda *word: None) as engine, at_rest(engine.pids):
        before = shared_memory.made_by([alive])
        go_on(following)
        own = made_by_store_of(following)
        assert shared_memory.made_by([own])  # there is something to remove
        assert not shared_memory.made_by([store])
        assert not files.exists()
        go_on(following)
        runs(following)
        second = made_by_store_of(following)
        assert not shared_memory.made_by([own])
        assert shared_memory.made_by([second])
        go_on(following)
        runs(following)
        following.send_signal(signal.SIGTERM)
        assert following.stdout is not None
        assert following.stdout.readline() == "0.0\n"  # nothing will abort it if ending takes long
        following.wait(60)
        assert following.returncode == signal.SIGTERM  # as an exit code: it has ended by itself
        assert not shared_memory.made_by([second])
        assert before and shared_memory.made_by([alive]) == before
    assert len(list(folder.glob("*"))) == 1
    notes.forget()
    assert not list(folder.glob("*"))


@pytest.mark.usefixtures("ray_session")
def test_none_is_left_in_a_ray_that_was_there_before() -> None:
    import ray

    (machine,) = ray.nodes()  # type: ignore[no-untyped-call]
    pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
    before = set(shared_memory.made_by(pids))
    found = simulate(Experiment.from_dict(EXPERIMENT))
    assert found.summary["backend"]["processes"] == 2 and machine["Alive"]
    assert set(shared_memory.made_by(pids)) <= before


def test_only_what_is_noted_and_dead_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shm"
    shared.mkdir()
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", shared)
    alive, dead = os.getpid(), ended()
    for process in (alive, dead, dead + 10**7):
        (shared / f"sem.hdr{process}-1").touch()
        (shared / f"sem.obj{process}-2").touch()
    (shared / f"sem.other{dead}-1").touch()
    folder = tmp_path / "notes"
    notes = Notes(folder)
    notes.clear_up()  # nothing is noted
    assert len(list(shared.iterdir())) == 7
    folder.mkdir(mode=0o700)
    (folder / f"{dead}-123").write_text(f"{alive} {dead} nonsense")
    notes.clear_up()
    assert {path.name for path in shared.iterdir()} == {
        f"sem.hdr{alive}-1",
        f"sem.obj{alive}-2",
        f"sem.hdr{dead + 10**7}-1",
        f"sem.obj{dead + 10**7}-2",
        f"sem.other{dead}-1",
    }


def test_the_files_of_one_that_was_killed_stay_while_a_process_of_its_ray_lives(tmp_path: Path) -> None:
    dead, files, folder = ended(), tmp_path / "files", tmp_path / "notes"
    (files / "r").mkdir(parents=True)
    folder.mkdir(mode=0o700)
    note = folder / f"{dead}-123"
    for process, kept in ((os.getpid(), True), (dead, False)):
        note.write_text(f"{process}\n{files}")
        Notes(folder).clear_up()
        assert files.exists() == note.exists() == kept


def test_a_note_that_another_driver_has_just_removed_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir(mode=0o700)
    gone = folder / "4194303-1"
    gone.symlink_to(folder / "nowhere")  # it is listed, and cannot be read
    Notes(folder).clear_up()
    assert not gone.is_symlink()


def test_notes_that_others_may_write_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, folder = tmp_path / "shm", tmp_path / "notes"
    shared.mkdir()
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", shared)
    dead = ended()
    (shared / f"sem.hdr{dead}-1").touch()
    (folder / f"{dead}-123").write_text(str(dead))
    Notes(folder).clear_up()
    assert (shared / f"sem.hdr{dead}-1").exists()
