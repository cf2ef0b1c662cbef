"""Whatever happens to an actor ends the run with a message that says what, and leaves no process behind."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.machine import FORKED_BYTES
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.engine import shared_memory
from kernelswarm.simulations.engine.engine import EngineError
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.ray_startup import SCRIPTS
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers import interrupts
from tests.helpers.brittle import Brittle
from tests.helpers.checkout import ROOT

PAIRS = Ray(nodes_per_actor=2)
"""Two actors for four nodes: a failure that is no death ends them all, and each takes a second of a core to start."""

SOON = 10.0
"""Seconds in which a failure must be reported, and processes gone."""

pytestmark = pytest.mark.usefixtures("kept_ray")  # until a test fails, as most here do

needs_proc = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches processes through Linux's pidfd")


def quiet(phase: str, done: int, total: int) -> None:
    pass


def experiment(protocol, **keys):
    learner = Polk(kernel=Gaussian(0.3), step_size=Constant(0.2))
    return Experiment(topology=nx.cycle_graph(4), stream=SineRegression(), learner=learner, protocol=protocol, **keys)


def plans_of(protocol):
    return open_network(experiment(protocol)).plans


class Watch:
    """Processes, and whether they have gone."""

    def __init__(self, pids):
        self.pids, self.handles = pids, {}
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended already
                self.handles[pid] = os.pidfd_open(pid)

    def left_after(self, seconds):
        end = time.monotonic() + seconds
        left = []
        for pid, handle in self.handles.items():
            if not select.select([handle], [], [], max(0.0, end - time.monotonic()))[0]:
                left.append(pid)
            os.close(handle)
        return list(by_process(left, "cmdline").items())


@pytest.mark.parametrize("transport", ["compiled", "calls"])
@pytest.mark.parametrize(
    ("way", "cause"),
    [
        ("raises", r"LookupError: there is no such key \(brittle.py, line \d+\)"),
        ("raises_what_cannot_travel", r"UnpicklableError: mine alone \(brittle.py, line \d+\)"),
        ("exits", r"SystemExit: 3 \(brittle.py, line \d+\)"),
        ("dies", r"process \d+ ended without a word: killed, out of memory, or crashed"),
    ],
)
def test_a_node_that_fails_is_named_with_the_round_and_the_cause(way, cause, transport):
    backend = replace(PAIRS, transport=transport, rounds_per_execution=4)
    # 11 is neither the first nor the last round of an execution.
    with backend.start(plans_of(Brittle(way=way, node=3, at=11)), quiet) as engine:
        engine.run(10)
        clock = time.monotonic()
        with pytest.raises(EngineError) as failure:
            engine.run(30)
        assert time.monotonic() - clock < SOON
    # A process that dies names all of its nodes; what is raised is of one of them alone.
    assert failure.value.nodes == ((2, 3) if way == "dies" else (3,))
    assert failure.value.round == 11
    assert re.fullmatch(cause, failure.value.cause)


@pytest.mark.parametrize(
    ("way", "cause", "nodes"),
    [("raises", "LookupError", (2,)), ("dies", "did not start", (2, 3))],
    ids=["raises", "dies"],
)
def test_a_node_that_cannot_be_made_is_named(way, cause, nodes):
    plans = plans_of(Brittle(way=way, at=0, driver=os.getpid()))
    with pytest.raises(EngineError, match=cause) as failure, PAIRS.start(plans, quiet):
        pass
    assert failure.value.nodes == nodes
    assert failure.value.round == 0


def test_a_node_that_hangs_is_noticed():
    backend = replace(PAIRS, patience=2.0, rounds_per_execution=1)
    with backend.start(plans_of(Brittle(way="hangs", node=3, at=30)), quiet) as engine:
        engine.run(29)
        wanted = r"no word from process \d+, which is in hangs \(brittle.py, line \d+\)"
        with pytest.raises(EngineError, match=wanted) as failure:
            engine.run(5)
    assert failure.value.nodes == (2, 3)
    assert failure.value.round == 30


@needs_proc
def test_a_process_that_is_stopped_is_said_not_to_answer():
    backend = replace(PAIRS, patience=2.0, rounds_per_execution=1)
    with backend.start(plans_of(Consensus()), quiet) as engine:
        engine.run(5)
        stopped = Watch([engine.pids[1]])
        os.kill(engine.pids[1], signal.SIGSTOP)
        with pytest.raises(
            EngineError, match=rf"no word from process {engine.pids[1]}, which does not answer"
        ) as failure:
            engine.run(5)
    assert failure.value.nodes == (2, 3)
    assert stopped.left_after(SOON) == []


@needs_proc
def test_a_failed_run_leaves_no_actor_behind_and_the_next_one_has_new_ones():
    with PAIRS.start(plans_of(Brittle(at=2)), quiet) as engine:
        actors = Watch(engine.pids)
        with pytest.raises(EngineError):
            engine.run(5)
    assert actors.left_after(SOON) == []
    with PAIRS.start(plans_of(Consensus()), quiet) as engine:
        engine.run(5)
        assert set(engine.pids).isdisjoint(actors.pids)


@needs_proc
def test_an_actor_killed_between_two_runs_is_named():
    with PAIRS.start(plans_of(Consensus()), quiet) as engine:
        os.kill(engine.pids[1], signal.SIGKILL)
        with pytest.raises(EngineError) as failure:
            engine.run(20)
    assert failure.value.nodes == (2, 3)


def test_a_failed_simulation_keeps_what_was_measured():
    backend = replace(PAIRS, rounds_per_execution=4)
    described = experiment(Brittle(at=25), rounds=40, evaluate_every=10, backend=backend)
    with pytest.raises(SimulationError, match=r"node 2 failed in round 25: LookupError") as failure:
        simulate(described)
    assert failure.value.node == 2
    assert failure.value.partial is not None
    assert list(failure.value.partial.network["round"]) == [10, 20]


def test_an_address_where_no_cluster_answers_is_refused(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # as in a user's process, which has no Ray to shut down
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    nobody = "127.0.0.1:1"
    refusal = re.escape(f"backend.address = '{nobody}': no Ray cluster answers there")
    with closing(RaySession()) as session, pytest.raises(InputError, match=f"^{refusal}"):
        session.open(nobody, 2, True, 0)


OWN_RAY = """
    from kernelswarm.simulations.engine.engine import EngineError
    from kernelswarm.simulations.engine.ray_backend import Ray, keep_ray
    from pathlib import Path
    from tests.simulations.engine.test_ray_failures import Brittle, Consensus, plans_of, quiet, rows

    with keep_ray():
        for way, together in (("dies", 2), ("raises", 4)):  # the actor that is left takes all nodes
            try:
                with Ray(nodes_per_actor=together).start(plans_of(Brittle(way=way)), quiet) as engine:
                    engine.run(20)
            except EngineError as error:
                print(error, flush=True)
        try:
            with Ray(nodes_per_actor=2).start(plans_of(Consensus()), quiet) as engine:
                print("running", *engine.pids, flush=True)
                servers = [rows(pid, "status")["PPid"] for pid in engine.pids]
                while True:
                    engine.run(100)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    print([pid for pid in servers if Path(f"/proc/{pid}").exists()])
    """


def by_process(pids, name):
    """Read a file of the process folder of each of some processes that still run, by process."""
    found = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # such as a helper of Ray that has done its work
            found[pid] = Path(f"/proc/{pid}/{name}").read_bytes()
    return found


def of_processes(pids, name):
    """Read a file of the process folder of each of some processes that still run."""
    return list(by_process(pids, name).values())


def children(pid):
    """Find all processes that descend from one."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found = [pid]
    for process in found:
        found += parents.get(process, [])
    return found[1:]


def open_files(pids):
    """Find what processes that still run have open, as /proc names it."""
    found = set()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # such as a helper of Ray that has done its work
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(FileNotFoundError, ProcessLookupError):
                    found.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return found


def listening(pids):
    """Find the addresses, as /proc writes them, at which processes listen for connections over the network."""
    sockets = open_files(pids)
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def temporary_files(pids):
    """Return the files and named sockets that processes have open in the folder for temporary files."""
    opened = open_files(pids)
    sockets = {name for name in opened if name.startswith("socket:")}
    paths = {Path(name) for name in opened if name.startswith(f"{tempfile.gettempdir()}/") and Path(name).exists()}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        row = line.split(maxsplit=7)
        if len(row) == 8 and row[7].startswith("/") and f"socket:[{row[6]}]" in sockets:
            paths.add(Path(row[7]))
    return paths


def rows(pid, name):
    """Return the numbers that a file of a process's folder names."""
    text = Path(f"/proc/{pid}/{name}").read_text()
    return {word: int(number) for word, number in re.findall(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


def assert_forks_that_share_what_is_imported(actors, driver):
    """Actors come from the fork server, in the session of their driver, and take no more than is counted for them."""
    for pid in actors:
        server = rows(pid, "status")["PPid"]
        assert Path(f"/proc/{server}/cmdline").read_text().split("\0")[1] == str(SCRIPTS[0])
        # In a session of its own it would share a core's time out among the actors alone, which wait by yielding it.
        assert os.getsid(server) == os.getsid(driver)
        kinds = rows(pid, "smaps_rollup")
        assert kinds["Private_Dirty"] < kinds["Shared_Dirty"] + kinds["Shared_Clean"]
        own = 1024 * (kinds["Private_Dirty"] + kinds["Private_Clean"])
        assert 0.5 * FORKED_BYTES < own < FORKED_BYTES  # what is counted before they start


@needs_proc
def test_a_ray_started_here_is_quiet_forks_its_actors_stays_on_this_machine_and_ends_with_ctrl_c():
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWN_RAY)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=interrupts.listen,
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
    )
    assert driver.stdout is not None
    assert driver.stderr is not None
    try:
        lines = [driver.stdout.readline() for _ in range(3)]
        actors = [int(pid) for pid in lines[2].split()[1:]]
        watch = Watch(children(driver.pid))
        processes = list(watch.handles)
        assert {b"raylet\n", b"gcs_server\n"} <= set(of_processes(processes, "comm"))
        words = of_processes(processes, "cmdline")
        for unused in (b"/monitor.py", b"/log_monitor.py", b"/dashboard.py"):
            assert not any(unused in line for line in words)
        loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
        found = listening(processes)
        assert found and found <= loopback
        files = temporary_files(processes)
        assert {"raylet", "plasma_store"} <= {path.name for path in files if path.is_socket()}
        assert any(path.suffix == ".log" for path in files)
        for path in files:  # of which Ray lets everyone write those folders that it makes
            assert any(folder.stat().st_mode & 0o077 == 0 for folder in path.parents), path
        (store,) = (pid for pid in processes if of_processes([pid], "comm") == [b"raylet\n"])
        assert shared_memory.made_by([store])
        assert len(actors) == 2
        assert_forks_that_share_what_is_imported(actors, driver.pid)
        clock = time.monotonic()
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the driver and all it has started
        rest, errors = driver.communicate(timeout=3 * SOON)
        assert time.monotonic() - clock < SOON
        assert watch.left_after(SOON) == []
        assert shared_memory.made_by([store]) == []
    finally:
        driver.kill()
    kept = re.fullmatch(r"nodes 2, 3 failed in round 11: process \d+ ended .*; Ray's logs are in (.*)/logs\n", lines[0])
    assert kept
    private = Path(kept[1]).parent.parent
    assert private.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(private)
    assert re.fullmatch(r"node 2 failed in round 11: LookupError: .*\n", lines[1])
    assert lines[2].startswith("running ")
    assert rest == "interrupted\n[]\n"
    assert errors == ""
    assert driver.returncode == 0
