"""Run folders: written whole or not at all, read back as they were, and every damage named."""

from __future__ import annotations

import errno
import math
import os
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import networkx as nx
import numpy as np
import pytest
from pyarrow import parquet

from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.core import files as checksums
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.engine.model_arrays import digest
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.result import MeasuredTable, Result
from kernelswarm.simulations.records.run_folder import FILES, MEASURED, check_place, read, write
from tests.helpers.command_line import SMALL

GENERATOR = np.random.default_rng(3)


@pytest.fixture
def result() -> Result:
    """A result with everything that is hard to keep: NaN, huge and tiny numbers, an empty model, odd labels."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_node(3, pos=(0.1, -1.0 / 3.0), sensor="north", height=2.5)
    graph.add_node(10, pos=(0.0, 1.0))
    graph.add_node(0, pos=(1e-300, 2.0))
    graph.add_edge(3, 10, weight=1 / 3)
    graph.add_edge(0, 3)
    models = {
        "points_3": GENERATOR.normal(size=(4, 2)),
        "weights_3": GENERATOR.normal(size=(4, 5)),
        "points_10": np.zeros((0, 2)),
        "weights_10": np.zeros((0, 5)),
        "dual_3_10": np.array(0.1),
    }
    return Result(
        config={"seed": 1, "rate": 1e-6, "limit": math.inf, "topology": {"name": "ring"}, "node": [{"nodes": [0, 3]}]},
        graph=graph,
        nodes={
            "round": np.array([25, 25]),
            "node": np.array([3, 10]),
            "samples": np.array([25, 0]),
            "risk": np.array([0.1, math.nan]),
        },
        network={
            "round": np.array([25]),
            "samples": np.array([25]),
            "risk": np.array([1e-300]),
            "violation": np.array([math.inf]),
        },
        edges={},
        models=models,
        summary={"status": "done", "reason": None, "final": {"risk": 0.1 + 0.2}, "digest": digest(models)},
    )


def assert_equal_arrays(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype and array.shape == right[name].shape
        np.testing.assert_array_equal(array, right[name])


def test_what_is_read_is_what_was_written(result: Result, tmp_path: Path) -> None:
    again = read(write(result, tmp_path / "run"))
    assert again.config == result.config
    assert again.summary == result.summary
    for table in ("nodes", "network", "edges", "models"):
        assert_equal_arrays(getattr(result, table), getattr(again, table))
    assert dict(again.graph.nodes(data=True)) == dict(result.graph.nodes(data=True))
    assert nx.utils.edges_equal(again.graph.edges(data=True), result.graph.edges(data=True))


def test_taken_name_gets_a_number(result: Result, tmp_path: Path) -> None:
    (tmp_path / "run-3").mkdir()
    (tmp_path / "run-3" / "mine.txt").write_text("mine")
    written = [write(result, tmp_path / "run").name for _ in range(3)]
    assert written == ["run", "run-2", "run-4"]
    assert (tmp_path / "run-3" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("cause", "raised", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), SimulationError, "not be written: No space left on device"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
    ],
)
def test_a_write_that_ends_early_leaves_nothing(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: BaseException, raised: Any, message: str
) -> None:
    monkeypatch.setattr(run_folder, "write_arrays", Mock(side_effect=cause))
    with pytest.raises(raised, match=message):
        write(result, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(name: str, result: Result, tmp_path: Path) -> None:
    folder = write(result, tmp_path / "run")
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"run is no complete run folder, .* it lacks {name}"):
        read(folder)


@pytest.mark.parametrize("damage", ["half", "garbage", "empty"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_file_is_named(name: str, damage: str, result: Result, tmp_path: Path) -> None:
    folder = write(result, tmp_path / "run")
    path = folder / name
    whole = path.read_bytes()
    if name == "config.toml" and damage != "garbage":
        damage = "half"
        whole = b"seed = [1,\n" * 2  # the first half of a TOML file is often one
    path.write_bytes({"half": whole[: len(whole) // 2], "garbage": b"\xff\x00{[<" * 40, "empty": b""}[damage])
    with pytest.raises(InputError, match=rf"{name} is damaged\b.*\S"):
        read(folder)
    if name != checksums.SUMS:  # nor is a file believed because its checksum fits
        checksums.write(folder, [entry for entry in FILES if entry != checksums.SUMS])
        with pytest.raises(InputError, match=rf"{name} is damaged or is no such file: \S"):
            read(folder)


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in MEASURED for column in MEASURED[table]])
def test_a_column_that_is_missing_is_named(table: str, column: str, result: Result, tmp_path: Path) -> None:
    result.edges = MeasuredTable({"round": np.array([25]), "source": np.array([3]), "target": np.array([10])})
    folder = write(result, tmp_path / "run")
    path = folder / f"{table}.parquet"
    parquet.write_table(parquet.read_table(path).drop_columns([column]), path)
    checksums.replace(folder, path.name, path.read_bytes())
    with pytest.raises(InputError, match=rf'{table}\.parquet is damaged.*: it lacks the column "{column}"'):
        read(folder)


def test_changed_model_is_noticed(result: Result, tmp_path: Path) -> None:
    folder = write(result, tmp_path / "run")
    models = dict(result.models)
    np.savez_compressed(folder / "models.npz", allow_pickle=False, **models)
    with pytest.raises(InputError, match=r"models\.npz is damaged or was changed"):
        read(folder)
    checksums.replace(folder, "models.npz", (folder / "models.npz").read_bytes())
    read(folder)  # other bytes in the file, the same arrays
    models["weights_3"] = np.nextafter(models["weights_3"], np.inf)
    np.savez(folder / "models.npz", allow_pickle=False, **models)
    checksums.replace(folder, "models.npz", (folder / "models.npz").read_bytes())
    with pytest.raises(InputError, match="its digest differs from the one in summary"):
        read(folder)


def test_pickle_is_not_opened(result: Result, tmp_path: Path) -> None:
    folder = write(result, tmp_path / "run")
    np.savez(folder / "models.npz", **{"points_3": np.array([{"a": 1}], dtype=object)})
    checksums.replace(folder, "models.npz", (folder / "models.npz").read_bytes())
    with pytest.raises(InputError, match="pickles, which are not read"):
        read(folder)


@pytest.mark.parametrize(("name", "message"), [("nothing", "there is no run folder"), ("file", "is not a folder")])
def test_what_is_no_folder_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_digest_depends_on_names_types_shapes_and_bytes() -> None:
    base = {"a": np.arange(6.0), "b": np.zeros(2)}
    others: list[dict[str, Any]] = [
        {"a": np.arange(6.0)},
        {"a": np.arange(6.0), "c": np.zeros(2)},
        {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros(2)},
        {"a": np.arange(6), "b": np.zeros(2)},
        {"a": np.arange(6.0), "b": -np.zeros(2)},
    ]
    assert digest(base) == digest({"b": base["b"], "a": base["a"]})
    assert len({digest(base), *map(digest, others)}) == 1 + len(others)


def test_place_is_checked_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_place(tmp_path / "new" / "deep")
    check_place(tmp_path)
    with pytest.raises(InputError, match=r"file/run cannot be made: .*file is a file: name another folder with --out"):
        check_place(tmp_path / "file" / "run")


@pytest.mark.usefixtures("blank")
@pytest.mark.parametrize(("umask", "folders", "files"), [(0o077, 0o700, 0o600), (0o027, 0o750, 0o640)])
def test_modes_are_those_that_the_umask_gives(tmp_path: Path, umask: int, folders: int, files: int) -> None:
    table = {**tomllib.loads(SMALL), "checkpoint_every": 2}
    before = os.umask(umask)
    try:
        compare(Experiment.from_dict(table), {"protocol.penalty": [0.5]}, jobs=1, out=tmp_path / "out")
    finally:
        os.umask(before)
    found = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert {path.name for path in found} >= {"checkpoints", "figures", "index.json", "experiment.toml", *FILES}
    for path in found:
        assert path.stat().st_mode & 0o777 == (folders if path.is_dir() else files), path
