"""Runs that a signal stops before their first checkpoint, or before the command has begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import checkpoints
from kernelswarm.simulations.records.checkpoints import Checkpoints
from kernelswarm.simulations.records.run_folder import read
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL, Answer, Command
from tests.helpers.drivers import driving


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(SMALL)
    return call


def killed_as_it_begins() -> None:
    """Run in a process whose end this is."""
    begin = Checkpoints.begin

    def begun(*arguments: Any) -> Any:
        begin(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    Checkpoints.begin = begun  # type: ignore[method-assign]
    main(["run", "small.toml", "--out", "here", "--no-figures", "--set", "checkpoint_every=2"])


@pytest.fixture
def stopped(call: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[[signal.Signals, int], Answer]:
    """Run until the run folder has just been made, and get a signal then."""

    def run_until(number: signal.Signals, every: int) -> Answer:
        begin = Checkpoints.begin

        def begun(*arguments: Any) -> Any:
            measured = begin(*arguments)
            signal.raise_signal(number)
            return measured

        before = signal.getsignal(number)  # of a Ray that was started in this process, where one was
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Checkpoints, "begin", begun)
                every_few = f"checkpoint_every={every}"
                return call("run", "small.toml", "--out", "here", "--no-figures", "--set", every_few)
        finally:
            signal.signal(number, before)

    return run_until


STOPS = pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 130)])


@STOPS
def test_a_signal_before_the_first_checkpoint_waits_for_it(
    number: signal.Signals, code: int, stopped: Callable[[signal.Signals, int], Answer], call: Command
) -> None:
    ended = stopped(number, 2)
    assert ended.code == code, ended.err
    assert "after round 0 of 4; kernelswarm resume here goes on from round 0" in ended.err
    assert call("resume", "here", "--no-figures").code == 0
    assert read("here").summary["digest"] == simulate(Experiment.from_file("small.toml")).summary["digest"]


@STOPS
def test_a_signal_without_checkpoints_says_what_is_left(
    number: signal.Signals, code: int, stopped: Callable[[signal.Signals, int], Answer]
) -> None:
    ended = stopped(number, 0)
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert "kernelswarm run here/config.toml begins it anew" in ended.err


def test_a_run_killed_before_its_first_checkpoint_is_begun_again_in_its_folder(call: Command) -> None:
    with driving(killed_as_it_begins, Path("errors")) as killed:
        killed.join(300)
    assert killed.exitcode == -signal.SIGKILL
    assert not checkpoints.paths(Path("here/checkpoints"))
    refused = call("resume", "here", "--set", "seed=3")
    assert (refused.code, refused.out) == (2, "") and "seed is 3 and was 0 when the run began" in refused.err
    assert call("resume", "here", "--no-figures").code == 0
    assert not Path("here-2").exists()
    assert read("here").summary["digest"] == simulate(Experiment.from_file("small.toml")).summary["digest"]


def test_ctrl_c_while_the_command_line_is_imported_ends_in_words(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")  # as a signal does there
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from kernelswarm.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (130, "kernelswarm: stopped by Ctrl-C\n")


def test_the_script_begins_where_ctrl_c_is_handled() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert table["project"]["scripts"] == {"kernelswarm": "kernelswarm.__main__:main"}
