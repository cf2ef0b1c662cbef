"""The command line's libraries of linear algebra start no threads, unless the user's environment asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm.simulations.core.machine import ONE_THREAD, one_thread_from_the_start
from tests.helpers.checkout import ROOT

GRAPH = """\
import os
import networkx
import scipy.linalg

def ring():
    print("threads:", len(os.listdir("/proc/self/task")))
    return networkx.cycle_graph(4)
"""
EXPERIMENT = """\
protocol = "consensus"
learner = "polk"
stream = "sine_regression"
topology = "own_graph:ring"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux tells them")
@pytest.mark.parametrize(("asked", "alone"), [(None, True), ("2", False)])
def test_commands_compute_in_as_many_threads_as_the_user_asks_for(
    asked: str | None, alone: bool, tmp_path: Path
) -> None:
    if asked is not None and (os.cpu_count() or 1) < int(asked):
        pytest.skip("a library starts no more threads than there are cores")
    (tmp_path / "own_graph.py").write_text(GRAPH)
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    others = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    run = subprocess.run(
        [sys.executable, "-c", "from kernelswarm.simulations.command.cli import main; main(['check', 'x.toml'])"],
        cwd=tmp_path,
        env={**others, "PYTHONPATH": str(ROOT)} | ({} if asked is None else {"OPENBLAS_NUM_THREADS": asked}),
        capture_output=True,
        text=True,
        check=True,
    )
    threads = int(run.stdout.partition("threads: ")[2].split()[0])
    assert threads == 1 if alone else threads > 1


def test_the_environment_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    with one_thread_from_the_start():
        assert {name: os.environ[name] for name in ONE_THREAD} == {**ONE_THREAD, "OMP_NUM_THREADS": "7"}
    assert dict(os.environ) == before
