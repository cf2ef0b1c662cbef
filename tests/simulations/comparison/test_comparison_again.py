"""Comparisons that are given again: what has ended is read, what was stopped goes on, and only what is new is run."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.comparison.compare import compare, read
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.parallel import end_with_parent
from kernelswarm.simulations.experiment.experiment import Experiment, build_experiment
from kernelswarm.simulations.running import simulation as running
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.drivers import driving
from tests.helpers.small_comparisons import PROTOCOLS, TABLE, counts, experiment, figures, killed
from tests.helpers.unhurried import PAUSE

pytestmark = pytest.mark.usefixtures("no_figures")


# What is reused


def test_the_same_comparison_again_runs_nothing_and_gives_the_very_table(
    tmp_path: Path, never: Callable[[], None]
) -> None:
    first = compare(experiment(), PROTOCOLS, seeds=2, jobs=1, out=tmp_path / "out")
    texts = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    never()
    reports: list[ComparisonProgress] = []
    again = compare(experiment(), PROTOCOLS, seeds=2, jobs=1, out=tmp_path / "out", observe=reports.append)
    assert (counts(first), counts(again)) == ({"new": 4}, {"reused": 4})
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == texts
    assert repr(again.rows()) == repr(first.rows())  # the seconds too, which are those of the runs
    assert figures(again) == figures(first) == figures(read(tmp_path / "out"))
    assert (reports[-1].done, reports[-1].total, reports[-1].share) == (4, 4, 1.0)


def test_seeds_values_and_keys_are_added_and_the_rest_is_reused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    compare(experiment(), {"protocol.name": ["consensus"]}, jobs=1, out=out)
    asked: list[tuple[dict[str, Any], int, dict[str, int]]] = [
        ({"protocol.name": ["consensus"]}, 2, {"reused": 1, "new": 1}),
        (PROTOCOLS, 2, {"reused": 2, "new": 2}),
        # With a second key, whose values hold the one that the experiment has, all cells have other labels.
        ({**PROTOCOLS, "topology.edge_probability": [0.7, 0.9]}, 2, {"reused": 4, "new": 4}),
        ({"topology.edge_probability": [0.9], **PROTOCOLS}, 1, {"reused": 2}),
        ({"protocol": [{"name": "isolated"}, {"name": "consensus", "penalty": 0.05}]}, 3, {"reused": 4, "new": 2}),
    ]
    for vary, seeds, expected in asked:
        found = compare(experiment(), vary, seeds, jobs=1, out=out)
        assert counts(found) == expected
        assert figures(found) == figures(compare(experiment(), vary, seeds, jobs=1))
    found = compare(experiment(seed=4), PROTOCOLS, 2, jobs=1, out=out)
    assert counts(found) == {"reused": 4}  # another first seed only counts others of the same runs
    assert [run.seed for run in found.runs] == [4, 5] * 2
    folders = [path.parent for path in out.glob("runs/*/*/summary.json")]
    assert len(folders) == 10
    for folder in folders:  # each lies in the folder of its cell, with the other seeds
        config = tomllib.loads((folder / "config.toml").read_text())
        assert folder.name == f"seed_{config['seed']}"


@pytest.mark.parametrize("saved", [True, False])
def test_more_rounds_go_on_where_there_is_a_checkpoint_and_begin_again_elsewhere(tmp_path: Path, saved: bool) -> None:
    every = 30 if saved else 0
    compare(experiment(checkpoint_every=every), PROTOCOLS, seeds=2, jobs=1, out=tmp_path / "out")
    longer = experiment(rounds=70, checkpoint_every=every)
    found = compare(longer, PROTOCOLS, seeds=3, jobs=1, out=tmp_path / "out")
    assert counts(found) == ({"resumed": 4, "new": 2} if saved else {"new": 6})
    assert figures(found) == figures(compare(longer, PROTOCOLS, seeds=3, jobs=1))
    with pytest.raises(InputError, match=r"rounds is 40 and was 70 .*more rounds, not fewer"):
        compare(experiment(), PROTOCOLS, jobs=1, out=tmp_path / "out")


def test_varied_rounds_are_cells_of_their_own(tmp_path: Path) -> None:
    every = experiment(checkpoint_every=20)
    compare(every, {"rounds": [20, 40]}, jobs=1, out=tmp_path / "out")
    found = compare(every, {"rounds": [20, 40, 60]}, jobs=1, out=tmp_path / "out")
    assert counts(found) == {"reused": 2, "new": 1}
    assert figures(found) == figures(compare(every, {"rounds": [20, 40, 60]}, jobs=1))


def test_diverged_runs_are_results_and_broken_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tried: Experiment, *rest: Any, **more: Any) -> Any:
        result = simulate(tried, *rest, **more)
        if tried.seed == 4:
            result.summary |= {"status": "failed", "reason": "node 1 failed in round 3", "failure": "broken"}
            raise SimulationError("node 1 failed in round 3", partial=result)
        return result

    vary = {"protocol.as_published": [False, True]}
    diverging = experiment(
        rounds=60,
        topology={"name": "complete", "nodes": 8},
        stream={"name": "sensor_field", "noise": 3.0},
        learner={**TABLE["learner"], "step_size": 0.5},
        protocol="proximity",
    )
    monkeypatch.setattr(running, "simulate", broken)
    first = compare(diverging, vary, seeds=2, jobs=1, out=tmp_path / "out")
    assert sorted((run.seed, bool(run.failure)) for run in first.runs if run.cell == 0) == [(3, False), (4, True)]
    monkeypatch.setattr(running, "simulate", simulate)
    again = compare(diverging, vary, seeds=2, jobs=1, out=tmp_path / "out")
    assert [run.origin for run in again.runs] == ["reused", "new", "reused", "reused"]
    assert ["diverged" in run.failure for run in again.runs] == [False, False, True, True]
    assert figures(again) == figures(compare(diverging, vary, seeds=2, jobs=1))


# What was stopped


@pytest.mark.parametrize(("every", "state"), [(0, "new"), (7, "resumed")])
def test_a_comparison_that_was_killed_goes_on_where_it_was(tmp_path: Path, every: int, state: str) -> None:
    tried = experiment(checkpoint_every=every)
    killed(tmp_path / "out", tried, PROTOCOLS, 3, 0.58)  # in the midst of the fourth of six runs
    found = compare(tried, PROTOCOLS, 3, jobs=1, out=tmp_path / "out")
    assert [run.origin for run in found.runs] == ["reused"] * 3 + [state] + ["new"] * 2
    assert figures(found) == figures(compare(tried, PROTOCOLS, 3, jobs=1))


def test_a_comparison_on_data_in_memory_is_read_and_gone_on_with_from_its_folder(tmp_path: Path) -> None:
    x = np.linspace(0.0, 1.0, 120)[:, None]
    tried = build_experiment(
        topology={"name": "ring", "nodes": 3},
        data=(x, np.sin(6.0 * x)),
        learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}},
        protocol="isolated",
        rounds=20,
    )
    out = tmp_path / "out"
    first = compare(tried, PROTOCOLS, jobs=1, out=out)
    moved = out.rename(tmp_path / "moved")
    for found in (
        read(moved),
        compare(Experiment.from_file(moved / "experiment.toml"), PROTOCOLS, jobs=1, out=moved),
        compare(tried, PROTOCOLS, jobs=1, out=moved),
    ):
        assert [run.digest for run in found.runs] == [run.digest for run in first.runs]
        assert {run.origin for run in found.runs} == {"reused"}
    longer = compare(Experiment.from_file(moved / "experiment.toml"), PROTOCOLS, 2, jobs=1, out=moved)
    assert counts(longer) == {"reused": len(first.runs), "new": len(first.runs)}
    whole = compare(tried, PROTOCOLS, 2, jobs=1)
    assert [run.digest for run in longer.runs] == [run.digest for run in whole.runs]


LONG = {"rounds": 60, "evaluate_every": 30, "checkpoint_every": 2}
UNHURRIED = {"name": "tests.helpers.unhurried:Unhurried", "penalty": 0.05}


@pytest.fixture(scope="module")
def undisturbed() -> list[Any]:
    return figures(compare(experiment(**LONG, protocol=UNHURRIED), {}, 4, jobs=1))


def forked() -> None:
    """Begin as a process does that is started anew: without what its parent does at SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_processes_that_were_stopped_leave_what_they_did(
    tmp_path: Path, number: signal.Signals, undisturbed: list[Any]
) -> None:
    tried = experiment(**LONG, protocol=UNHURRIED)
    file, out = tmp_path / "experiment.toml", tmp_path / "out"
    file.write_text(tomli_w.dumps(tried.to_dict()))
    words = ["compare", str(file), "--seeds", "4", "--jobs", "2", "--out", str(out)]

    def command() -> None:
        os.environ[PAUSE] = "0.005"  # of five nodes: a run takes a second and a half
        parallel.start_method = lambda: multiprocessing.get_context("fork")  # type: ignore[assignment,return-value]
        parallel.end_with_parent = forked
        main(words)

    def some() -> bool:
        """One run has ended, and another one is in its first half: it does not end before it is stopped."""
        ended = len(list(out.glob("runs/*/*/summary.json")))
        newest = {path.parent.parent: 0 for path in out.glob("runs/*/*/checkpoints/*.npz")}
        for path in out.glob("runs/*/*/checkpoints/*.npz"):
            run = path.parent.parent
            newest[run] = max(newest.get(run, 0), int(path.stem.removeprefix("round_")))
        half = LONG["rounds"] // 2
        return ended >= 1 and any(
            0 < rounds < half and not (run / "summary.json").exists() for run, rounds in newest.items()
        )

    errors = tmp_path / "errors"
    os.mkfifo(errors)
    with driving(command, errors) as driver, errors.open() as pipe:
        while not some() and driver.exitcode is None:
            driver.join(0.02)
        assert driver.pid is not None
        if number == signal.SIGINT:
            os.killpg(driver.pid, number)  # as the terminal does
        else:
            os.kill(driver.pid, number)
        output = pipe.read()  # ends when the last process has closed its output
        driver.join(60)
    assert driver.exitcode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGINT:
        assert re.search(
            rf"stopped by Ctrl-C; \d of 4 runs have ended and are in {out}: the same command goes on", output
        )
        assert "Traceback" not in output, output
    found = compare(tried, {}, 4, jobs=1, out=out)
    kept = counts(found)
    assert kept.get("reused", 0) >= 1 and kept.get("resumed", 0) >= 1 and sum(kept.values()) == 4
    assert figures(found) == undisturbed


def test_ctrl_c_between_rounds_says_how_to_go_on(tmp_path: Path) -> None:
    tried = experiment(checkpoint_every=10)

    def observe(progress: ComparisonProgress) -> None:
        if progress.share >= 0.3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(SimulationError, match=r"stopped by Ctrl-C after round \d+ of 40; 1 of 4 runs have ended"):
        compare(tried, PROTOCOLS, 2, jobs=1, out=tmp_path / "out", observe=observe)
    assert counts(compare(tried, PROTOCOLS, 2, jobs=1, out=tmp_path / "out")) == {"reused": 1, "resumed": 1, "new": 2}


def test_ctrl_c_in_the_last_round_of_a_run_stops_the_comparison_and_loses_nothing(tmp_path: Path) -> None:
    tried = experiment(checkpoint_every=10)
    reports: list[float] = []

    def observe(progress: ComparisonProgress) -> None:
        if progress.share == 0.25 and progress.done == 0:  # all rounds of the first of four runs, which has not ended
            reports.append(progress.share)
            if len(reports) == 1:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as stop:
        compare(tried, PROTOCOLS, 2, jobs=1, out=tmp_path / "out", observe=observe)
    resumed, left = stop.value.__notes__
    assert resumed.endswith("goes on from round 40") and left.startswith("0 of 4 runs have ended")
    assert reports and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    found = compare(tried, PROTOCOLS, 2, jobs=1, out=tmp_path / "out")
    assert counts(found) == {"resumed": 1, "new": 3}
    assert figures(found) == figures(compare(tried, PROTOCOLS, 2, jobs=1))


@pytest.mark.usefixtures("kept_ray")
def test_a_comparison_goes_on_with_another_backend(tmp_path: Path) -> None:
    ray = {"name": "ray", "nodes_per_actor": 3}
    tried = experiment(checkpoint_every=7, backend=ray)
    killed(tmp_path / "out", tried, PROTOCOLS, 1, 0.8)
    found = compare(tried, PROTOCOLS, 2, out=tmp_path / "out")
    assert counts(found) == {"reused": 1, "resumed": 1, "new": 2}
    alone = compare(experiment(), PROTOCOLS, 2, jobs=1, out=tmp_path / "out")
    assert counts(alone) == {"reused": 4}
    wanted = compare(experiment(), PROTOCOLS, 2, jobs=1)
    for one, other in zip(found.runs, wanted.runs, strict=True):
        assert (one.digest, one.outcome) == (other.digest, other.outcome)


def test_a_damaged_run_begins_again(tmp_path: Path) -> None:
    first = compare(experiment(), PROTOCOLS, jobs=1, out=tmp_path / "out")
    damaged = tmp_path / "out/runs/consensus/seed_3/network.parquet"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    (tmp_path / "out/runs/isolated/seed_3/summary.json").unlink()
    with pytest.warns(UserWarning, match=r"network\.parquet is damaged .*; it begins again"):
        found = compare(experiment(), PROTOCOLS, jobs=1, out=tmp_path / "out")
    assert counts(found) == {"new": 2}
    assert figures(found) == figures(first)


def test_damaged_checkpoints_begin_again(tmp_path: Path) -> None:
    tried = experiment(checkpoint_every=7)
    killed(tmp_path / "out", tried, {}, 1, 0.6)
    for path in tmp_path.glob("out/runs/all/seed_3/checkpoints/*.npz"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="no sound checkpoint.*it begins again"):
        found = compare(tried, {}, jobs=1, out=tmp_path / "out")
    assert figures(found) == figures(compare(tried, {}, jobs=1))


# What is refused
