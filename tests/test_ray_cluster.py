"""On a cluster of several Ray nodes: the serial backend's bits, all nodes at work, and code goes where it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelswarm import Experiment, read_run, simulate
from kernelswarm.simulations.arrival import OWN, PARCEL
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


def undisturbed(cluster: Raylets, folder: Path) -> None:
    """Let the run in a folder go on."""


@pytest.mark.parametrize("meanwhile", [undisturbed])
def test_a_cluster_has_the_serial_backends_bits_and_uses_all_its_nodes(
    meanwhile: Callable[[Raylets, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # and put back afterwards: the experiment's own modules are found there
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    (tmp_path / "own_of_cluster.py").write_text(MODULE)
    (tmp_path / "own_of_cluster_too.py").write_text(f"PLACE = {str(tmp_path)!r}\n")
    with raylets(2) as cluster:
        words = ["run", "../x.toml", "--address", cluster.address, "--out", "../out", "--no-figures"]
        words += ["--set", "backend.nodes_per_actor=2"]
        run = kernelswarm(*words, folder=tmp_path)
        try:
            meanwhile(cluster, tmp_path / "out")
            _, errors = run.communicate(timeout=200)
        finally:
            run.kill()
    assert (run.returncode, errors) == (0, "")
    result = read_run(tmp_path / "out")
    assert result.summary["backend"]["processes"] == 2
    assert result.summary["digest"] == simulate(Experiment.from_file(tmp_path / "x.toml")).summary["digest"]
    seen = [json.loads(path.read_text()) for path in tmp_path.glob("seen_*")]
    assert len(seen) == 4
    assert sorted(Counter(machine for machine, _ in seen).values()) == [2, 2]
    assert {Path(file).parts[-3:] for _, file in seen} == {(PARCEL, OWN, "own_of_cluster.py")}
