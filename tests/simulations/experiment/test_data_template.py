"""The experiment that init --data writes is for the data: it has their task, and it runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command, commands

random = np.random.default_rng(0)
POINTS = random.normal(size=(60, 2))
TARGETS: dict[str, tuple[Any, str, str]] = {
    "numbers": (POINTS.sum(axis=1), "regression", "squared"),
    "two classes": (np.where(POINTS[:, 0] > 0.0, "yes", "no"), "classification", "logistic"),
    "three classes": (np.arange(60) % 3, "classification", "multiclass_logistic"),
    "two columns": (POINTS, "regression", "squared"),
}


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return commands(capsys)


@pytest.mark.parametrize("kind", TARGETS)
def test_the_task_is_found_and_the_file_runs_as_it_is(call: Command, kind: str) -> None:
    targets, task, loss = TARGETS[kind]
    np.savez("data.npz", x=POINTS, y=targets)
    Path("here").mkdir()
    answer = call("init", "here/mine.toml", "--data", "data.npz")
    assert (answer.code, answer.err) == (0, "")
    assert "60 rows, 2 inputs" in answer.out and task in answer.out
    assert "next: kernelswarm suggest here/mine.toml" in answer.out
    experiment = Experiment.from_file("here/mine.toml")  # the path of the data is relative to it
    described = experiment.to_dict()
    assert (described["stream"]["task"], described["learner"]["loss"]) == (task, loss)
    result = simulate(experiment)
    assert result.summary["status"] == "done"
    assert result.summary["rounds"] == described["rounds"]
    assert (result.final["risk"] or 9.0) < (result.final["constant_risk"] or 0.0) or kind == "three classes"


def test_nodes_that_the_rows_name_are_the_network(call: Command) -> None:
    np.savez("data.npz", x=POINTS, y=POINTS[:, 0], node=np.repeat(["a", "b", "c", "d"], 15))
    assert "at 4 nodes that the rows name" in call("init", "--data", "data.npz").out
    assert len(simulate(Experiment.from_file("experiment.toml")).graph) == 4


def test_many_whole_numbers_are_quantities(call: Command) -> None:
    np.savez("data.npz", x=np.ones((300, 1)), y=np.arange(300))
    assert "a regression" in call("init", "--data", "data.npz").out
    np.savez("few.npz", x=np.ones((7, 1)), y=[210_000, 180_000, 305_000, 180_000, 99_000, 150_000, 410_000])
    assert "a regression" in call("init", "few.toml", "--data", "few.npz").out


def test_inputs_that_are_words_are_left_out_and_one_that_is_mistyped_is_refused(call: Command) -> None:
    rows = [f"{k},{'flat' if k % 3 else 'hut'},{k % 7},{2 * k}.5" for k in range(40)]
    Path("data.csv").write_text("a,kind,c,y\n" + "\n".join(rows))
    answer = call("init", "--data", "data.csv")
    assert (answer.code, answer.err) == (
        0,
        "",
    ) and "2 inputs, a regression, without kind, which holds words" in answer.out
    experiment = Experiment.from_file("experiment.toml")
    assert experiment.to_dict()["stream"]["features"] == ["a", "c"]
    result = simulate(experiment)
    assert result.summary["status"] == "done"
    deviation = result.summary["facts"]["deviation_of_y"]
    assert f"standardized: 1 stands for {deviation:.4g} of y\n" in as_text(result)
    Path("typo.csv").write_text("a,kind,c,y\n" + "\n".join(rows).replace("7,flat,0", "7,flat,O"))
    refused = call("init", "typo.toml", "--data", "typo.csv")
    assert refused.code == 2 and 'column "c" holds "O", which is not a number' in refused.err
    Path("words.csv").write_text("kind,y\n" + "\n".join(f"flat,{k}" for k in range(9)))
    refused = call("init", "words.toml", "--data", "words.csv")
    assert refused.code == 2 and 'column "kind" holds "flat"' in refused.err


def test_the_target_column_is_named_and_what_is_wrong_is_said(call: Command) -> None:
    Path("data.csv").write_text("a,b\n" + "\n".join(f"{k},{k * 0.5}" for k in range(30)))
    refused = call("init", "--data", "data.csv")
    assert (
        refused.code == 2
        and "set target to one or more of a, b with --target" in refused.err
        and not Path("experiment.toml").exists()
    )
    assert "1 input, a regression" in call("init", "--data", "data.csv", "--target", "b").out
    again = call("init", "--data", "data.csv", "--target", "b")
    assert again.code == 2 and "exists already" in again.err
    assert 'did you mean "data.csv"' in call("init", "other.toml", "--data", "date.csv").err
    Path("data.csv").write_text("y,b\nno,1\nyes,nothing\n")
    assert "--target" not in call("init", "other.toml", "--data", "data.csv").err
