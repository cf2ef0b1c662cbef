"""What a run folder's reader accepts is what was written: no flipped bit, and no cut, goes unnoticed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernelswarm import read_run
from kernelswarm.simulations.core import files
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.run_folder import FILES
from kernelswarm.simulations.running.simulation import resume, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(experiment(), tmp_path_factory.mktemp("runs") / "x").folder


def experiment(**tables: object) -> Experiment:
    learner = {"name": "polk", "budget": {"epsilon": 0.05}, "kernel": {"name": "gaussian", "bandwidth": 0.2}}
    return Experiment.from_dict(
        {
            "rounds": 12,
            "evaluate_every": 3,
            "checkpoint_every": 4,
            "topology": {"name": "ring", "nodes": 4},
            "stream": "sine_regression",
            "learner": learner,
            "protocol": "proximity",
            **tables,
        }
    )


def flipped(path: Path, random: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    content[random.integers(len(content))] ^= 1 << int(random.integers(8))
    path.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed(name: str, finished: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(FILES.index(name))
    read_run(finished)
    for k in range(25):
        copy = tmp_path / str(k)
        shutil.copytree(finished, copy, ignore=shutil.ignore_patterns("checkpoints"))
        flipped(copy / name, random)
        with pytest.raises(InputError, match="damaged"):
            read_run(copy)


def test_the_checksums_are_those_of_the_standard_tool(finished: Path) -> None:
    output = subprocess.run(["sha256sum", "-c", files.SUMS], cwd=finished, capture_output=True, text=True, check=True)
    assert output.stdout.count(": OK") == len(FILES) - 1


@pytest.mark.parametrize("table", ["nodes", "network", "edges"])
def test_every_flipped_bit_of_what_goes_on_is_noticed(table: str, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    folder = unfinished(tmp_path)
    wanted = read_run(folder, partial=True)
    stream = folder / "measured" / f"{table}.arrows"
    content = stream.read_bytes()
    for _ in range(40):
        flipped(stream, random)
        with pytest.raises(InputError, match=r"arrows is damaged .*checksum"):
            read_run(folder, partial=True)
        stream.write_bytes(content)
    sums = stream.with_name(f"{stream.name}.crc32")
    lines = sums.read_bytes()
    for _ in range(40):
        flipped(sums, random)
        try:
            found = read_run(folder, partial=True)
        except InputError:
            pass
        else:  # a line that is no line any more ends what is known to be whole
            rows = len(getattr(found, table).get("round", ()))
            assert rows < len(getattr(wanted, table)["round"])
            for name, column in getattr(found, table).items():
                np.testing.assert_array_equal(column, getattr(wanted, table)[name][:rows])
        sums.write_bytes(lines)


def unfinished(tmp_path: Path) -> Path:
    """A run that its writer has left in the middle."""
    from kernelswarm.simulations.records.checkpoints import Checkpoints
    from kernelswarm.simulations.running.simulation import Progress, simulate

    class Left(Exception):
        pass

    def observe(progress: Progress) -> None:
        if progress.phase == "evaluating" and progress.done == 9:
            checkpoints.measured.sync()  # type: ignore[union-attr]
            raise Left

    checkpoints = Checkpoints(tmp_path / "left", {})
    with pytest.raises(Left):
        simulate(experiment(), observe, checkpoints)
    checkpoints.close()
    return checkpoints.folder


def test_a_finished_run_that_goes_on_can_be_read_all_the_time(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    shutil.copytree(finished, folder)
    first = read_run(folder)

    def observe(progress: object) -> None:
        read_run(folder)

    longer = resume(folder, ["rounds=20"], observe).result
    assert read_run(folder).summary["rounds"] == 20 == longer.summary["rounds"]
    assert first.summary["rounds"] == 12


def test_a_file_can_be_replaced_at_any_moment(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    files.write(tmp_path, ["a"])
    files.replace(tmp_path, "a", b"new")
    files.check(tmp_path, ["a"])
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(InputError, match="a is damaged or was changed"):
        files.check(tmp_path, ["a"])
