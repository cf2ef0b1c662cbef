"""Measurements go to disk as they come: in bounded memory, readable after a kill, and the same tables in the end."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import measurements
from kernelswarm.simulations.records.measurements import (
    FLUSH_ROWS,
    GROUP_ROWS,
    InMemory,
    OnDisk,
    StoredTable,
    batches,
    stream,
    write_table,
)
from kernelswarm.simulations.records.result import Columns
from kernelswarm.simulations.records.run_folder import read
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.command_line import SMALL, Command
from tests.helpers.drivers import driving

GENERATOR = np.random.default_rng(7)
NODES = 20


def evaluation(round: int, nodes: int = NODES) -> dict[str, Columns]:
    """Return the rows of one evaluation, with all that is hard to keep."""
    risk = GENERATOR.normal(size=nodes) * 10.0 ** GENERATOR.integers(-300, 300, nodes)
    risk[0] = np.nan
    rows = {"round": np.full(nodes, round), "node": np.arange(nodes), "risk": risk}
    return {"nodes": rows, "edges": {}, "network": {"round": np.array([round]), "risk": np.array([np.inf])}}


def assert_equal(found: Any, wanted: Any) -> None:
    assert list(found) == list(wanted)
    for name in wanted:
        assert found[name].dtype == wanted[name].dtype
        np.testing.assert_array_equal(found[name], wanted[name])


def test_files_hold_what_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "FLUSH_ROWS", 70)  # several evaluations at a time,
    monkeypatch.setattr(measurements, "BATCH_ROWS", 30)  # in several batches
    kept, stored = InMemory(), OnDisk(tmp_path)
    for round in range(1, 30):
        rows = evaluation(round)
        kept.add(rows)
        stored.add(rows)
    for name, table in stored.tables().items():
        assert_equal(table, kept.tables()[name])
        write_table(table, tmp_path / f"{name}.parquet")
        assert_equal(StoredTable(tmp_path / f"{name}.parquet"), kept.tables()[name])
    assert len(list(batches(stream(tmp_path, "nodes")))) > 3


def test_memory_does_not_grow_with_the_evaluations(tmp_path: Path) -> None:
    def most(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        stored = OnDisk(folder)
        rows = {"nodes": {name: np.zeros(FLUSH_ROWS // 10) for name in ("round", "node", "risk", "error")}, "edges": {}}
        tracemalloc.start()
        for _ in range(count):
            stored.add(rows | {"network": {"round": np.array([1])}})
        write_table(stored.tables()["nodes"], folder / "nodes.parquet")
        peak = tracemalloc.get_traced_memory()[1] + pyarrow.default_memory_pool().bytes_allocated()
        tracemalloc.stop()
        return peak

    most(10)
    short, long = most(100), most(400)
    assert (tmp_path / "400" / "measured" / "nodes.arrows").stat().st_size > 60e6
    assert long < short + 2e6


@pytest.mark.parametrize("rows", [0, 1, GROUP_ROWS + 10])
def test_a_stored_table_is_written_as_one_in_memory(rows: int, tmp_path: Path) -> None:
    stored = OnDisk(tmp_path)
    columns = {"round": np.arange(rows), "risk": GENERATOR.normal(size=rows)}
    stored.add({"nodes": columns if rows else {}})
    write_table(stored.tables()["nodes"], tmp_path / "stored.parquet")
    write_table(columns if rows else {}, tmp_path / "memory.parquet")
    assert_equal(StoredTable(tmp_path / "stored.parquet"), dict(StoredTable(tmp_path / "memory.parquet")))


def test_a_stream_that_ends_in_the_middle_of_a_batch_keeps_those_before(tmp_path: Path) -> None:
    stored = OnDisk(tmp_path)
    ends = []
    for round in range(1, 4):
        stored.add(evaluation(round))
        stored.sync()
        ends.append(stream(tmp_path, "nodes").stat().st_size)
    content = stream(tmp_path, "nodes").read_bytes()
    for size in range(0, len(content) + 1, 5):
        stream(tmp_path, "nodes").write_bytes(content[:size])
        found = StoredTable(stream(tmp_path, "nodes")).get("round", np.empty(0))
        assert len(found) == NODES * sum(size >= end for end in ends)


def test_rows_before_a_round_are_taken_up(tmp_path: Path) -> None:
    kept, stored = InMemory(), OnDisk(tmp_path)
    for round in range(1, 8):
        rows = evaluation(round)
        stored.add(rows)
        if round < 5:
            kept.add(rows)
    stored.tables()
    with stream(tmp_path, "nodes").open("ab") as file:
        file.write(b"half a batch")
    again, rows = OnDisk(tmp_path, before=5), evaluation(5)
    for tables in (kept, again):
        tables.add(rows)
    assert_equal(again.tables()["nodes"], kept.tables()["nodes"])


def test_rows_wait_in_memory_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "FLUSH_ROWS", 1)
    kept, stored = InMemory(), OnDisk(tmp_path)
    opened = Path.open

    def full(path: Path, *arguments: Any) -> Any:
        file = opened(path, *arguments)
        file.seek(0, os.SEEK_END)
        file.write(b"half a batch")
        file.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    for round in range(1, 6):
        rows = evaluation(round)
        kept.add(rows)
        with monkeypatch.context() as patch:
            if round in (2, 3):
                patch.setattr(Path, "open", full)
                with pytest.warns(UserWarning, match="stay in memory, they could not be written: No space left"):
                    stored.add(rows)
                with pytest.raises(SimulationError, match="measured could not be written: No space left"):
                    stored.tables()
            else:
                stored.add(rows)
    assert_equal(stored.tables()["nodes"], kept.tables()["nodes"])


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(SMALL)
    return call


def kill_after(evaluations: int, *changes: str) -> Path:
    """Run small.toml in a process that is killed once so many evaluations are on the disk."""
    words = ["run", "small.toml", "--out", "killed", "--set", "rounds=100000000", *changes]
    folder = Path("killed")

    def call() -> None:
        measurements.FLUSH_SECONDS = 0.05  # in that process alone: several evaluations at a time still
        main(words)

    with driving(call, Path("errors")) as driver:
        while driver.exitcode is None:
            driver.join(0.02)
            if len(StoredTable(stream(folder, "network")).get("round", ())) >= evaluations:
                break
    assert driver.exitcode == -signal.SIGKILL
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kill a run with checkpoints once for all tests, which copy its folder."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("killed")
        patch.chdir(place)
        Path("small.toml").write_text(SMALL)
        return place / kill_after(60, "--set", "checkpoint_every=50")


@pytest.mark.usefixtures("sketched")
def test_a_killed_run_can_be_read_drawn_and_opened_elsewhere(call: Command) -> None:
    folder = kill_after(60)
    with pytest.raises(InputError, match=r"it lacks nodes.parquet, .*the measurements until then"):
        read(folder)
    found = read(folder, partial=True)
    assert found.summary["status"] == "unfinished" and not found.models
    done = len(found.network["round"])
    assert done >= 60
    whole = simulate(Experiment.from_file("small.toml", [f"rounds={2 * done}"]))
    for table, width in (("nodes", 3), ("network", 1), ("edges", 6)):
        ours, theirs = getattr(found, table), getattr(whole, table)
        assert list(ours) == list(theirs)
        for column in set(ours) - {"seconds"}:
            np.testing.assert_array_equal(ours[column][: width * done], theirs[column])
    answer = call("plot", "killed")
    assert answer.code == 0 and "killed/figures/risk.png" in answer.out
    assert len(pyarrow.ipc.open_stream(folder / "measured" / "network.arrows").read_all()) == done


@pytest.mark.usefixtures("call")
def test_a_killed_run_that_is_resumed_ends_as_the_whole_one(saved: Path) -> None:
    folder = shutil.copytree(saved, Path("killed"))
    done = int(read(folder, partial=True).final["round"] or 0) + 60
    result = resume(folder, [f"rounds={done}"]).result
    assert not (folder / "measured").exists()
    whole = simulate(Experiment.from_file("small.toml", [f"rounds={done}"]))
    assert result.summary["digest"] == whole.summary["digest"]
    for table in ("nodes", "network", "edges"):
        ours, theirs = getattr(read(folder), table), getattr(whole, table)
        assert_equal(*({name: found[name] for name in found if name != "seconds"} for found in (ours, theirs)))


def test_checkpoints_do_not_grow_with_the_evaluations(call: Command) -> None:
    changes = ["checkpoint_every=50", "evaluate_every=1", "learner.budget={epsilon=10.0}"]
    sizes = {}
    for rounds in (50, 250):
        experiment = Experiment.from_file("small.toml", [*changes, f"rounds={rounds}"])
        folder = run(experiment, f"run of {rounds}").folder
        sizes[rounds] = (folder / "checkpoints" / f"round_{rounds:08d}.npz").stat().st_size
    assert sizes[250] < 1.2 * sizes[50]


@pytest.mark.usefixtures("call")
def test_a_run_whose_measurements_are_lost_is_not_resumed(saved: Path) -> None:
    folder = shutil.copytree(saved, Path("killed"))
    for name in measurements.TABLES:
        stream(folder, name).unlink()
    wanted = r"killed/measured lacks (\d+) of the \1 evaluations before round \d+: kernelswarm run .* starts it anew"
    with pytest.raises(InputError, match=wanted):
        resume(folder)
