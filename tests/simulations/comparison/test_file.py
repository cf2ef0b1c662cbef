"""What suggest prints, and what it does to the file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import SMALL, Command

FILE = SMALL.replace('step_size = 0.2\nkernel = { name = "gaussian", bandwidth = 0.1 }', 'kernel = "gaussian"  # wide')


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(f"# ours\n{FILE}")
    return call


def test_the_choice_is_printed_and_written_and_the_rest_stays(call: Command) -> None:
    path = Path("small.toml")
    path.chmod(0o640)
    before = path.read_text()
    dry = call("suggest", path, "--dry-run", "--jobs", 1)
    assert (dry.code, dry.err) == (0, "")
    assert path.read_text() == before
    answer = call("suggest", path, "--jobs", 1)
    assert answer.out.startswith(dry.out)
    after = path.read_text()
    assert after.startswith("# ours\n") and "# wide" in after
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(entry for entry in os.listdir() if "small" in entry) == ["small.toml"]
    chosen = dict(line.strip().split(" = ", 1) for line in dry.out.splitlines() if line.startswith("  learner."))
    assert set(chosen) == {"learner.kernel.bandwidth", "learner.step_size.scale"}  # the others were given
    tables = tomllib.loads(after)
    assert tables["learner"]["kernel"] == {"name": "gaussian", "bandwidth": float(chosen["learner.kernel.bandwidth"])}
    assert tables["learner"]["budget"] == {"epsilon": 0.01}
    assert {**tables, "learner": None} == {**tomllib.loads(before), "learner": None}
    lines = dry.out.splitlines()
    assert lines[0].split() == ["rounds", "risk", "model", "order", "bandwidth", "step_size.scale"]
    assert sum(line.startswith("*") for line in lines) == 1
    assert simulate(Experiment.from_file(path)).summary["status"] == "done"


def test_changed_keys_are_those_of_the_pilots_alone(call: Command) -> None:
    path = Path("small.toml")
    before = tomllib.loads(path.read_text())
    changes = ["--set", "learner.kernel.bandwidth=0.2", "--set", "protocol.name=isolated", "--rounds", 5]
    answer = call("suggest", path, *changes, "--jobs", 1)
    assert answer.code == 0
    header = answer.out.splitlines()[0].split()
    assert "step_size.scale" in header and "bandwidth" not in header  # a number given so is kept
    after = tomllib.loads(path.read_text())
    assert after["learner"].pop("step_size", None) is not None or "stays as it is" in answer.out
    assert after == before
    refused = call("suggest", path, "--set", "learner.kernel.bandwith=0.2")
    assert refused.code == 2 and 'did you mean "bandwidth"' in refused.err


def test_numbers_are_tried_when_all_are_asked_for(call: Command) -> None:
    Path("small.toml").write_text(SMALL)
    refused = call("suggest", "small.toml")
    assert refused.code == 2 and "--all tries those too" in refused.err
    answer = call("suggest", "small.toml", "--all", "--rounds", 2, "--jobs", 1, "--pooled")
    assert answer.code == 0
    assert "pooled risk" in answer.out.splitlines()[0]
    assert "penalty" in answer.out.splitlines()[0]


def test_what_run_refuses_suggest_refuses_in_the_same_words(call: Command) -> None:
    for wrong in (FILE.replace("nodes = 3", "nodes = 0"), FILE.replace("rounds = 4", "rounds = -1"), "learner ="):
        Path("small.toml").write_text(wrong)
        run, suggest = call("run", "small.toml"), call("suggest", "small.toml")
        assert (suggest.code, suggest.err) == (run.code, run.err) == (2, run.err)
        assert run.err
    missing = call("suggest", "smal.toml")
    assert missing.code == 2 and "did you mean small.toml" in missing.err
    Path("small.toml").write_text(FILE.replace('"gaussian"', '"my_parts:Kernel"'))
    assert "safe mode" in call("suggest", "small.toml", "--safe").err


def test_a_file_that_cannot_be_replaced_is_left_whole(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Path("small.toml").read_bytes()

    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    answer = call("suggest", "small.toml", "--jobs", 1, "--rounds", 2)
    assert answer.code == 2 and "small.toml cannot be written: No space left" in answer.err
    assert Path("small.toml").read_bytes() == before
