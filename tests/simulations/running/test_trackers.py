"""Trackers: they receive each row of the network's table at its round, and change nothing that is learned."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.state import State
from kernelswarm.simulations.running.trackers import find, mlflow_place, tracked
from tests.helpers.command_line import SMALL, commands
from tests.helpers.small_comparisons import experiment, finite


class Received:
    """In the place of tensorboardX's writer."""

    last: Received

    def __init__(self, folder: str, flush_secs: float) -> None:
        self.folder = folder
        self.scalars: dict[str, list[tuple[int, float]]] = {}
        self.texts: list[str] = []
        self.closed = False
        Received.last = self

    def add_scalar(self, name: str, value: float, round: int) -> None:
        self.scalars.setdefault(name, []).append((round, value))

    def add_text(self, name: str, text: str, round: int) -> None:
        self.texts.append(text)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Received))  # type: ignore[misc]


def test_a_tracker_receives_every_finite_figure_and_changes_no_bit(library: None, tmp_path: Path) -> None:
    small = experiment(rounds=10, evaluate_every=5)
    with tracked("tensorboard", tmp_path / "here", small) as callback:
        result = simulate(small, callbacks=[callback])
    writer = Received.last
    assert result.summary["digest"] == simulate(small).summary["digest"]
    received = {(name, value, round) for name, scalars in writer.scalars.items() for round, value in scalars}
    assert received == finite(result)
    assert writer.folder == str(tmp_path / "here") and writer.closed
    assert "    bandwidth = 0.2" in writer.texts[0].splitlines()


def test_what_was_received_is_written_when_a_run_breaks(library: None, tmp_path: Path) -> None:
    small = experiment(rounds=10, evaluate_every=5)

    def broken(state: State) -> None:
        raise ValueError

    with pytest.raises(SimulationError), tracked("tensorboard", tmp_path, small) as callback:
        simulate(small, callbacks=[callback, broken])
    assert [round for round, _ in Received.last.scalars["risk"]] == [5] and Received.last.closed


def test_unknown_trackers_and_missing_libraries_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with (
        pytest.raises(InputError, match=r"needs tensorboardX.*pip install kernelswarm\[trackers\]"),
        tracked("tensorboard", tmp_path / "here", experiment()),
    ):
        pass
    for name, extra in (("mlflow", "mlflow"), ("wandb", "wandb")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InputError, match=rf"needs {name}.*pip install kernelswarm\[{extra}\]"):
            find(name)
    with (
        pytest.raises(InputError, match='track = "tensorbord" is unknown; did you mean "tensorboard"'),
        tracked("tensorbord", tmp_path / "here", experiment()),
    ):
        pass
    assert not any(tmp_path.iterdir())


def test_the_command_writes_beside_the_run(
    library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL)
    answer = commands(capsys)("run", "small.toml", "--out", "runs/one", "--no-figures", "--track", "tensorboard")
    assert answer.code == 0
    assert Received.last.folder == str(Path("runs/tensorboard/one"))
    assert [round for round, _ in Received.last.scalars["risk"]] == [2, 4]
    assert "tracked     runs/tensorboard/one" in answer.out


def test_the_library_itself_writes_an_event_file(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="an extra")
    event_pb2: Any = pytest.importorskip("tensorboardX.proto.event_pb2")
    small = experiment(rounds=10, evaluate_every=5)
    with tracked("tensorboard", tmp_path, small) as callback:
        result = simulate(small, callbacks=[callback])
    (path,) = tmp_path.glob("events*")
    data, risks = path.read_bytes(), []
    while data:  # a record: its length in 8 bytes, 4 of a checksum, the event, 4 of a checksum
        length = int.from_bytes(data[:8], "little")
        event = event_pb2.Event.FromString(data[12 : 12 + length])
        risks += [(event.step, value.simple_value) for value in event.summary.value if value.tag == "risk"]
        data = data[16 + length :]
    wanted = zip(result.network["round"].tolist(), np.float32(result.network["risk"]).tolist(), strict=True)
    assert risks == list(wanted)


@pytest.mark.parametrize("letter", ["%", "#", "?"])
def test_a_folder_that_would_be_another_part_of_an_address_is_refused(
    letter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match=r"needs an address, and .*mlflow\.db is none .*: use another --out"):
        mlflow_place(tmp_path / f"50{letter}20off" / "run")
    assert mlflow_place(tmp_path / f"50{letter}20off").startswith("sqlite:///")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost")
    assert mlflow_place(tmp_path / f"50{letter}20off" / "run") == "http://localhost"
