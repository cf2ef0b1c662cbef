"""Processes that are killed or hang are replaced, and the run ends with the models of one in which nothing happened."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.engine import ray_session
from kernelswarm.simulations.engine.ray_backend import Ray, RayEngine
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.remote_engine import Trouble
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.checkpoints import newest
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import Progress, run, simulate
from tests.helpers.checkout import ROOT
from tests.helpers.halves import Dying
from tests.simulations.engine.test_ray_failures import by_process, children, needs_proc

ROUNDS, EVERY = 120, 25


def described(backend: object, **keys: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "rounds": ROUNDS,
            "evaluate_every": 40,
            "checkpoint_every": EVERY,
            "topology": {"name": "ring", "nodes": 4},
            "stream": "sine_regression",
            "learner": {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.3}},
            "protocol": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "symmetric", "step": "implicit"},
            "backend": backend,
            **keys,
        }
    )


@pytest.fixture(scope="module")
def undisturbed() -> Result:
    return simulate(described(Serial()))


@pytest.fixture
def engines(kept_ray: None, monkeypatch: pytest.MonkeyPatch) -> list[RayEngine]:
    """The engines of the simulations, as they begin."""
    begun: list[RayEngine] = []
    begin = RayEngine.begin

    def noticed(engine: RayEngine, *given: Any) -> None:
        begun.append(engine)
        begin(engine, *given)

    monkeypatch.setattr(RayEngine, "begin", noticed)
    return begun


def actors() -> list[int]:
    """Return the processes of all actors, whether they are known of or not."""
    return [pid for pid, name in by_process(children(os.getpid()), "comm").items() if name.startswith(b"ray::_Actor")]


def same(result: Result, undisturbed: Result) -> bool:
    tables = [(result.nodes, undisturbed.nodes), (result.edges, undisturbed.edges)]
    return result.summary["digest"] == undisturbed.summary["digest"] and all(
        list(one[column]) == list(other[column]) for one, other in tables for column in other
    )


def disturbed(experiment: Experiment, folder: Path, harm: Callable[[], None], phase: str, done: int) -> Result:
    """Run an experiment and do some harm once, when it says that it is so far."""
    left = [harm]

    def observe(progress: Progress) -> None:
        if left and progress.phase == phase and progress.done >= done:
            left.pop()()

    with pytest.warns(UserWarning, match="replaced, and going on from"):
        result = run(experiment, folder, observe).result
    assert not left
    assert result.summary["recoveries"] == 1
    return result


@needs_proc
@pytest.mark.parametrize(
    ("phase", "done", "transport"),
    [
        ("starting", 1, "compiled"),  # before there is a transport of either kind
        ("starting", 2, "calls"),
        ("running", 30, "compiled"),
        ("running", 30, "calls"),
        ("evaluating", 40, "compiled"),
    ],
)
def test_a_killed_actor_is_replaced(
    phase: str, done: int, transport: str, engines: list[RayEngine], undisturbed: Result, tmp_path: Path
) -> None:
    victims: list[int] = []

    def kill() -> None:
        victims.append(actors()[-1])
        os.kill(victims[0], signal.SIGKILL)

    backend = Ray(transport=transport, rounds_per_execution=4, nodes_per_actor=2)  # type: ignore[arg-type]
    result = disturbed(described(backend), tmp_path / "run", kill, phase, done)
    assert same(result, undisturbed)
    before, after = set(engines[-2].pids), set(engines[-1].pids)
    assert victims[0] not in after
    assert not before or len(before & after) == 1  # the other has gone on


def test_an_actor_killed_while_a_checkpoint_is_taken_is_replaced(
    engines: list[RayEngine], undisturbed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, taken = RayEngine.snapshot, []

    def deadly(engine: RayEngine) -> Any:
        taken.append(engine.rounds)
        if len(taken) == 3:
            os.kill(engine.pids[1], signal.SIGKILL)
        return snapshot(engine)

    monkeypatch.setattr(RayEngine, "snapshot", deadly)
    with pytest.warns(UserWarning, match=f"going on from round {EVERY}"):
        result = run(described(Ray(nodes_per_actor=2)), tmp_path / "run").result
    assert taken[:4] == [0, EVERY, 2 * EVERY, 2 * EVERY]
    assert same(result, undisturbed)


def test_an_actor_that_hangs_is_replaced(
    engines: list[RayEngine], undisturbed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_session, "ANSWER_SECONDS", 1.0)  # that one never answers
    stopped: list[int] = []

    def stop() -> None:
        stopped.append(engines[-1].pids[1])
        os.kill(stopped[0], signal.SIGSTOP)

    backend = Ray(patience=2.0, rounds_per_execution=1, nodes_per_actor=2)
    result = disturbed(described(backend), tmp_path / "run", stop, "running", 60)
    assert same(result, undisturbed)
    assert stopped[0] not in engines[-1].pids


def test_without_checkpoints_all_begins_again(engines: list[RayEngine], undisturbed: Result) -> None:
    def observe(progress: Progress) -> None:
        if progress.phase == "evaluating" and len(engines) == 1:
            os.kill(engines[-1].pids[0], signal.SIGKILL)

    with pytest.warns(UserWarning, match="replaced, and going on from the first round"):
        result = simulate(described(Ray(nodes_per_actor=2), checkpoint_every=0), observe)
    assert same(result, undisturbed)
    assert list(result.network["round"]) == [40, 80, 120]


def test_progress_to_a_checkpoint_starts_the_count_again(undisturbed: Result, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="replaced"):
        result = run(described(Dying(rounds=EVERY + 5, times=1)), tmp_path / "run").result
    assert result.summary["recoveries"] == 4
    assert same(result, undisturbed)


@pytest.mark.parametrize("times", [0, 2])
def test_processes_that_die_again_and_again_end_the_run(times: int, tmp_path: Path) -> None:
    experiment = described(Dying(rounds=EVERY + 5, times=times), checkpoint_every=60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(SimulationError) as failure:
            run(experiment, tmp_path / "run")
    assert len(caught) == times
    assert failure.value.partial is not None
    assert failure.value.partial.summary["recoveries"] == times
    assert "goes on from round 0" in str(failure.value)
    assert newest(tmp_path / "run").round == 0


WHOLE_RAY = """
    import os, signal
    from pathlib import Path
    from kernelswarm.simulations.engine import ray_session
    from kernelswarm.simulations.engine.ray_backend import Ray
    from kernelswarm.simulations.engine.inside_ray import process_of
    from tests.simulations.running.test_recovery import described, run

    ray_session.LOOKED_EVERY = 0.0
    left = {40: "gcs_server", 80: "raylet"}

    def observe(progress):
        if progress.phase == "evaluating" and progress.done in left:
            os.kill(process_of(left.pop(progress.done)), signal.SIGKILL)

    print(run(described(Ray(nodes_per_actor=2, restarts=2)), Path("run"), observe).result.summary["digest"], left)
"""


@needs_proc
def test_a_ray_of_which_the_head_is_killed_is_started_anew(undisturbed: Result, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WHOLE_RAY)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        | {"PYTHONPATH": str(ROOT)},
    )
    assert ended.stdout.splitlines()[-1:] == [f"{undisturbed.summary['digest']} {{}}"], ended.stderr
    assert re.search(r"Ray's gcs_server, process \d+, ended without a word.*replaced", ended.stderr)
    assert ended.stderr.count("replaced, and going on from") == 2


def test_where_no_machine_of_a_cluster_is_left_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "a", "Alive": False, "Resources": {"CPU": 2.0}}])
    with pytest.raises(Trouble, match="no machine of Ray's is left"):
        RaySession().host(0)
