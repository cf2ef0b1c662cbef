"""What a compiled graph takes of shared memory is known before, and refused where it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.engine import shared_memory
from kernelswarm.simulations.engine.block import AgentPlan, Block
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.remote_engine import IN_FLIGHT
from kernelswarm.simulations.engine.shared_memory import SPARE, message_bytes, require_semaphores, semaphores_of
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has shared memory as a folder")


def plans_of(protocol: object, nodes: int = 4, **keys: object) -> list[AgentPlan]:
    learner = Polk(kernel=Gaussian(0.3), step_size=Constant(0.2), batch_size=3)
    described = Experiment(
        topology=nx.cycle_graph(nodes), learner=learner, protocol=protocol, **{"stream": SineRegression(), **keys}
    )
    return list(open_network(described).plans)


def room(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Leave so many pages of shared memory free."""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_frsize=4096, f_bavail=pages))


@linux
@pytest.mark.usefixtures("kept_ray")
@pytest.mark.parametrize("rounds", [2, 8])
def test_it_is_what_ray_makes(rounds: int) -> None:
    from ray._private import worker

    assert worker._global_node is not None
    store = worker._global_node.all_processes["raylet"][0].process.pid
    before = len(shared_memory.made_by([store]))
    with Ray(rounds_per_execution=rounds).start(plans_of(Consensus()), lambda *word: None) as engine:
        engine.run(5)
        assert len(shared_memory.made_by([store])) - before == semaphores_of(4, rounds, IN_FLIGHT)


@pytest.mark.parametrize(
    "protocol",
    [
        Consensus(),
        Consensus(0.2, form="symmetric", step="implicit"),
        Proximity(form="symmetric", step="implicit"),
    ],
)
@pytest.mark.parametrize("stream", [SineRegression(), GaussianMixture()])
def test_no_message_is_longer_than_its_bound(protocol: object, stream: object) -> None:
    keys = {"loss": MulticlassLogistic()} if isinstance(stream, GaussianMixture) else {}
    learner = Polk(kernel=Gaussian(0.3), step_size=Constant(0.2), batch_size=3, **keys)
    described = Experiment(topology=nx.cycle_graph(4), stream=stream, learner=learner, protocol=protocol)
    plans = list(open_network(described).plans)
    blocks = [Block(plans[:2]), Block(plans[2:])]
    sent = [block.send() for block in blocks]
    bound = message_bytes(plans, 2)
    for _ in range(4):
        sent = [block.advance(other) for block, other in zip(blocks, reversed(sent), strict=True)]
        for message in sent:
            header = 8 * (1 + 2 * (7 + 2 * 1))  # of two nodes, each with one neighbour outside
            assert 0 < len(message) <= bound + header
    assert len(sent[0]) > bound / 4  # no bound that says nothing


@linux
def test_the_message_names_what_is_missing_and_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = semaphores_of(70, 8, 2)
    room(monkeypatch, needed + SPARE)
    require_semaphores(needed, 70, 70)
    room(monkeypatch, 256)
    with pytest.raises(InputError) as refused:
        require_semaphores(needed, 70, 70)
    assert str(refused.value) == (
        'backend.transport = "compiled": the semaphores of 70 actors take 9.9 MB of /dev/shm, and 1.0 MB are free '
        "there: give it 10 MB or more (docker run --shm-size=10m), set backend.nodes_per_actor = 10 or more, set a "
        'lower backend.rounds_per_execution, backend.transport = "calls", which is slower, or backend.name = "serial", '
        "with the same models"
    )
    require_semaphores(semaphores_of(7, 8, 2) - SPARE, 7, 70)


@linux
def test_no_shared_memory_at_all_is_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", tmp_path / "nothing")
    with pytest.raises(InputError, match=r"0\.0 MB are free there"):
        require_semaphores(1, 1, 1)


@linux
def test_long_messages_count_twice_and_plain_calls_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of(Consensus())
    needed = semaphores_of(4, 8, IN_FLIGHT)
    room(monkeypatch, needed + SPARE)
    Ray().require_room(plans)
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_backend.CHANNEL_BYTES", 16)
    with pytest.raises(InputError, match=r"semaphores of 4 actors take 1\.2 MB"):
        Ray().require_room(plans)
    Ray(transport="calls").require_room(plans)
    room(monkeypatch, 2 * needed + SPARE)
    Ray().require_room(plans)


@linux
def test_the_command_refuses_ten_actors_on_a_megabyte_in_one_paragraph(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(SMALL.replace("nodes = 3", "nodes = 10"))
    small = "mount -t tmpfs -o size=1m tmpfs /dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", small], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small /dev/shm")
    command = f"{small} && exec {sys.executable} -m kernelswarm run experiment.toml --backend ray --out run"
    run = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=300,
    )
    assert run.returncode == 2
    output = " ".join(run.stderr.split())
    assert "the semaphores of 10 actors take 1.4 MB of /dev/shm, and 1.0 MB are free there" in output
    assert "Traceback" not in run.stderr and "\n\n" not in run.stderr.strip()
    assert not list(tmp_path.glob("ray-*"))
