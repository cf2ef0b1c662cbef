"""On a cluster of several Ray nodes: the serial backend's bits, all nodes at work, and code goes where it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelswarm import Experiment, read_run, simulate
from kernelswarm.simulations.arrival import OWN, PARCEL
from kernelswarm.simulations.checkpoint import paths, round_of
from tests.raylets import Raylets, raylets

ROOT = Path(__file__).parent.parent

EXPERIMENT = """\
rounds = 30
evaluate_every = 10
checkpoint_every = 10
[topology]
name = "ring"
nodes = 4
[stream]
name = "sine_regression"
[learner]
name = "polk"
step_size = 0.2
kernel = { bandwidth = 0.1 }
[protocol]
name = "own_of_cluster:Own"
penalty = 0.5
"""

MODULE = """\
import json
import os
from dataclasses import dataclass
from pathlib import Path

from own_of_cluster_too import PLACE
from kernelswarm.protocols.consensus import Consensus


@dataclass(frozen=True)
class Own(Consensus):
    def init(self, neighborhood):
        import ray

        if ray.is_initialized():
            node = ray.get_runtime_context().get_node_id()
            Path(PLACE, f"seen_{os.getpid()}_{neighborhood.node}").write_text(json.dumps([node, __file__]))
        return super().init(neighborhood)
"""


def kernelswarm(*words: str | Path, folder: Path) -> subprocess.Popen[str]:
    """Start the command in an empty folder beside the experiment, so that its modules are not in the current one."""
    (folder / "elsewhere").mkdir()
    code = "from kernelswarm.simulations.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder / "elsewhere",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )


@contextmanager
def running(folder: Path, *words: str, niceness: int = 0) -> Iterator[tuple[Raylets, subprocess.Popen[str]]]:
    """Write the experiment, and run it on a cluster of two Ray nodes; on leaving, both have ended."""
    (folder / "x.toml").write_text(EXPERIMENT)
    (folder / "own_of_cluster.py").write_text(MODULE)
    (folder / "own_of_cluster_too.py").write_text(f"PLACE = {str(folder)!r}\n")
    with raylets(2, niceness) as cluster:
        address = ["--address", cluster.address, "--set", "backend.nodes_per_actor=2"]
        run = kernelswarm("run", "../x.toml", *address, "--out", "../out", "--no-figures", *words, folder=folder)
        try:
            yield cluster, run
        finally:
            run.kill()


def seen(folder: Path) -> list[tuple[str, str]]:
    """Return where the experiment's own protocol was made: each time the machine, and the file of its module."""
    return [tuple(json.loads(path.read_text())) for path in folder.glob("seen_*")]


def test_a_cluster_has_the_serial_backends_bits_and_uses_all_its_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # and put back afterwards: the experiment's own modules are found there
    with running(tmp_path) as (_, run):
        _, errors = run.communicate(timeout=200)
    assert (run.returncode, errors) == (0, "")
    made = seen(tmp_path)
    assert len(made) == 4
    assert sorted(Counter(machine for machine, _ in made).values()) == [2, 2]
    assert {Path(file).parts[-3:] for _, file in made} == {(PARCEL, OWN, "own_of_cluster.py")}
    result = read_run(tmp_path / "out")
    assert result.summary["backend"]["processes"] == 2
    assert result.summary["digest"] == simulate(Experiment.from_file(tmp_path / "x.toml")).summary["digest"]


def test_a_machine_that_fails_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    rounds = ["rounds=1500", "evaluate_every=500", "checkpoint_every=50"]
    words = [word for change in rounds for word in ("--set", change)]
    with running(tmp_path, *words, niceness=15) as (cluster, run):
        deadline = time.monotonic() + 200.0
        while not any(round_of(path) >= 100 for path in paths(tmp_path / "out" / "checkpoints")):
            assert run.poll() is None and time.monotonic() < deadline, run.communicate()[1]
            time.sleep(0.02)
        before = {machine for machine, _ in seen(tmp_path)}
        cluster.remove(1)
        _, errors = run.communicate(timeout=200)
    assert run.returncode == 0, errors
    assert "replaced, and going on from round " in errors
    assert errors.count("the actors of this cluster run at niceness 15") == 1
    summary = read_run(tmp_path / "out").summary
    assert summary["recoveries"] >= 1
    assert summary["digest"] == simulate(Experiment.from_file(tmp_path / "x.toml", rounds)).summary["digest"]
    assert len(before) == 2
