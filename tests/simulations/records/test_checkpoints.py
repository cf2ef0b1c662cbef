"""A checkpoint holds all that an agent is, is written whole or not at all, and does not hide damage."""

from __future__ import annotations

import os
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.snapshot import Snapshot
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import checkpoints
from kernelswarm.simulations.records.checkpoints import Checkpoint, Damaged, newest, paths, write
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Progress, resume, run, simulate
from tests.helpers.equality import same
from tests.helpers.halves import plans_of

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
TABLES: dict[str, Any] = {
    "rounds": 40,
    "evaluate_every": 15,
    "checkpoint_every": 10,
    "topology": GRAPH,
    "stream": {"name": "sensor_field", "noise": 0.3},
    "learner": {"name": "polk", "step_size": 0.2, "kernel": {"name": "gaussian", "bandwidth": 0.2}, "batch_size": 2},
    "protocol": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "symmetric", "step": "implicit"},
    "evaluation": {"local_samples": 20, "global_samples": 30},
}


def experiment(**keys: Any) -> Experiment:
    return Experiment.from_dict({**TABLES, **keys})


def engine(size: int = 4, plain: bool = False, **keys: Any) -> SerialEngine:
    return SerialEngine(partition(plans_of(experiment(**keys), plain), size))


def assert_same(found: dict[int, Snapshot], wanted: dict[int, Snapshot]) -> None:
    assert list(found) == list(wanted)
    for node, (arrays, source) in wanted.items():
        assert source == found[node].source
        assert sorted(arrays) == sorted(found[node].arrays)
        assert same({name: found[node].arrays[name] for name in arrays}, arrays), node


@pytest.fixture
def taken() -> Checkpoint:
    """A checkpoint of a few rounds, with all that one can hold."""
    advanced = engine(2)  # blocks that have drawn ahead
    advanced.run(30)
    edges = np.array(sorted(GRAPH.edges), dtype=np.int64)
    config = {**experiment().to_dict(), "protocol": {"name": "proximity", "dual_max": np.inf}}
    return Checkpoint(
        30, 1.5, 2.5, "2026-01-01T00:00:00+00:00", config, None, {"numpy": "2"}, edges, 2, advanced.snapshot()
    )


def test_a_file_holds_everything(taken: Checkpoint, tmp_path: Path) -> None:
    found = checkpoints.read(write(taken, tmp_path / "checkpoints"))
    assert_same(found.snapshots, taken.snapshots)
    assert "ahead_points" in found.snapshots[0].arrays
    for name in ("round", "seconds", "wall", "started", "config", "folder", "versions", "evaluations"):
        assert getattr(found, name) == getattr(taken, name)
    np.testing.assert_array_equal(found.edges, taken.edges)


def test_a_file_is_a_numpy_archive_without_pickles(taken: Checkpoint, tmp_path: Path) -> None:
    path = write(taken, tmp_path)
    assert path == tmp_path / "round_00000030.npz"
    with np.load(path, allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)
        factor = archive["agents/learner.factor/float64-2/values"]
    assert factor.size == sum(taken.snapshots[node].arrays["learner.factor"].size for node in GRAPH)
    assert zipfile.ZipFile(path).testzip() is None


def test_flipped_bits_are_noticed_wherever_they_are(taken: Checkpoint, tmp_path: Path) -> None:
    path = write(taken, tmp_path)
    content = path.read_bytes()
    ends = [0, *(len(content) - back for back in (64 + 22, 64 + 1, 64, 1))]  # of the archive, and of the checksum
    for place in [*ends, *np.random.default_rng(0).integers(0, len(content), 60)]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(Damaged, match="its checksum does not match its content"):
            checkpoints.read(path)


@pytest.mark.parametrize("left", [0, 1, 64, 65, 0.5, -64, -1])
def test_a_file_that_is_cut_off_is_noticed(left: float, taken: Checkpoint, tmp_path: Path) -> None:
    path = write(taken, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(left * len(content)) if 0 < left < 1 else int(left)])
    with pytest.raises(Damaged, match=r"it ends after|its checksum does not match"):
        checkpoints.read(path)


def test_a_file_of_another_version_says_which(
    taken: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(replace(taken, versions={"kernelswarm": "9.1"}), tmp_path)
    monkeypatch.setattr(checkpoints, "FORMAT", 0)
    with pytest.raises(InputError, match=r"has the format 5, and this .* reads 0: resume the run with kernelswarm 9.1"):
        checkpoints.read(path)


def test_the_last_two_stay(taken: Checkpoint, tmp_path: Path) -> None:
    for round in (0, 5, 100_000_000, 99_999_999):
        write(replace(taken, round=round), tmp_path)
    assert [checkpoints.round_of(path) for path in paths(tmp_path)] == [99_999_999, 100_000_000]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round_100000000.npz", "round_99999999.npz"]


@pytest.mark.parametrize("step", [(os, "fsync"), (Path, "replace")], ids=["fsync", "replace"])
def test_a_failure_before_the_file_has_its_name_leaves_nothing(
    step: tuple[object, str], taken: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        assert len(list(tmp_path.iterdir())) == 2
        raise OSError(28, "No space left on device")

    first = write(taken, tmp_path)
    monkeypatch.setattr(*step, full)
    with pytest.raises(OSError, match="No space left"):
        write(replace(taken, round=40), tmp_path)
    assert list(tmp_path.iterdir()) == [first]
    checkpoints.read(first)


def test_what_a_killed_process_leaves_is_no_checkpoint_and_is_removed(taken: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    first = write(taken, folder)
    half = folder / ".round_00000040.npz.0123abcd.part"
    half.write_bytes(first.read_bytes()[:1000])
    assert paths(folder) == [first]
    assert newest(tmp_path).round == 30
    second = write(replace(taken, round=40), folder)
    assert sorted(folder.iterdir()) == [first, second]


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 33)
    spoil(folder / "checkpoints" / "round_00000030.npz")
    wanted = r"round_00000030.npz is damaged, its checksum does not match its content: going on from round 20 instead"
    with pytest.warns(UserWarning, match=wanted):
        result = resume(folder).result
    assert result.summary["digest"] == simulate(experiment()).summary["digest"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest(folder).round == 40


def test_damaged_checkpoints_without_a_sound_one_are_refused(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 33)
    for path in paths(folder / "checkpoints"):
        spoil(path)
    wanted = (
        r"holds no sound checkpoint: .*30.npz is damaged, .*20.npz is damaged, .*; kernelswarm run .* starts it anew"
    )
    with pytest.raises(InputError, match=wanted):
        resume(folder)


def interrupted(folder: Path, round: int) -> Path:
    def observe(progress: Progress) -> None:
        if progress.done >= round:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment(), folder, observe)
    return folder


def test_a_full_disk_ends_no_run_that_has_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = checkpoints.write

    def full(taken: Checkpoint, folder: Path) -> Path:
        if taken.round >= 20:
            raise OSError(28, "No space left on device")
        return saved(taken, folder)

    monkeypatch.setattr(checkpoints, "write", full)
    with pytest.warns(UserWarning, match="could not be written") as caught:
        result = run(experiment(), tmp_path / "run").result
    assert [str(warning.message) for warning in caught] == [
        f"the checkpoint of round {round} could not be written: No space left on device; the run goes on, and its last "
        "checkpoint is of round 10"
        for round in (20, 30, 40)
    ]
    assert result.summary["digest"] == simulate(experiment()).summary["digest"]


def test_a_disk_that_is_full_from_the_beginning_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(taken: Checkpoint, folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write", full)
    with pytest.raises(SimulationError, match="the checkpoint of round 0 could not be written: No space left"):
        run(experiment(), tmp_path / "run")


def test_other_versions_are_named(tmp_path: Path) -> None:
    folder = interrupted(tmp_path / "run", 33)
    since = newest(folder)
    write(replace(since, versions={**since.versions, "numpy": "1.0"}), folder / "checkpoints")
    with pytest.warns(UserWarning, match=r"other versions .* \(numpy 1.0 then and .* now\): last digits may differ"):
        resume(folder)


@pytest.mark.parametrize("learner", ["polk", "newton", "okfeb", "random_features"])  # one of each layout
def test_snapshots_are_copies_that_say_all(learner: str) -> None:
    keys: dict[str, Any] = {"learner": {"name": learner, "step_size": 0.1, "batch_size": 2}}
    advanced, again = engine(**keys), engine(**keys)
    advanced.run(12)
    then = advanced.snapshot()
    advanced.run(9)
    again.restore(then, 12)
    assert_same(again.snapshot(), then)
    again.run(9)
    assert_same(again.snapshot(), advanced.snapshot())


def test_what_is_saved_does_not_depend_on_who_is_asked() -> None:
    # Long enough for dictionaries to change so often that factors are looked at.
    keys = {"learner": {**TABLES["learner"], "batch_size": 6, "budget": {"epsilon": 0.05}}}
    plain, arrays = engine(plain=True, **keys), engine(**keys)
    looked = 0
    changes = np.zeros(4)
    for _ in range(80):
        plain.run(1)
        arrays.run(1)
        wanted = without_ahead(plain.snapshot())
        assert_same(without_ahead(arrays.snapshot()), wanted)
        now = np.array([taken.arrays["learner.progress"][1] for taken in wanted.values()])
        looked += int((now < changes).sum())
        changes = now
    assert looked > 0


def without_ahead(found: dict[int, Snapshot]) -> dict[int, Snapshot]:
    """Count samples that were drawn for rounds to come as not drawn yet."""
    whole = {}
    for node, (arrays, source) in found.items():
        kept = {name: array for name, array in arrays.items() if not name.startswith("ahead_")}
        drawn = len(arrays["ahead_points"]) if "ahead_points" in arrays else 0
        whole[node] = Snapshot(kept, {**source, "samples": source["samples"] - drawn})
    return whole


@dataclass(frozen=True)
class Remembering(Consensus):
    """A rule whose links are nothing that can be saved."""

    def init(self, neighborhood: Any) -> Any:
        return {"strength": super().init(neighborhood)}


@dataclass(frozen=True)
class Forgetful:
    """A learner with nothing but a batch size."""

    batch_size: int = 1


class Endless:
    """A source without a state."""

    def state(self) -> dict[str, object]:
        return {"generator": object()}


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (
            {"rule": Remembering()},
            r"protocols that can be saved, and of Remembering a link state holds dict, .*: see docs/contributing.md",
        ),
        ({"learner": Forgetful()}, "learners that can be saved, and Forgetful has no snapshot"),
        ({"source": Endless()}, "a state of plain numbers, and Endless has none"),
    ],
    ids=["protocol", "learner", "source"],
)
def test_what_cannot_be_saved_is_refused(part: dict[str, Any], wanted: str) -> None:
    plans = [replace(plan, **part) for plan in open_network(experiment()).plans]
    with pytest.raises(InputError, match=wanted):
        checkpoints.refuse_unsaved(plans)
