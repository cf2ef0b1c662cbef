"""A disk that is full while figures are drawn ends a command with a sentence, and leaves what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL, Command

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that is too long fails, as on a full disk
from kernelswarm.simulations.command.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


CALLS = """
import pathlib, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from kernelswarm import read_comparison, read_run
from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.core.errors import SimulationError, InputError
from kernelswarm.simulations.figures.animation import animate
from kernelswarm.simulations.records.model_files import save
from kernelswarm.simulations.report import page
found, result = read_comparison("many"), read_run("mine")
calls = {
    "comparison": lambda: tables.write(found, pathlib.Path("many")),
    "animation": lambda: animate(result, "out/run.gif"),
    "model": lambda: save(result.model(0), pathlib.Path("out/model.npz")),
    "report": lambda: page.write("mine"),
}
pathlib.Path("out").mkdir()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
for name, call in calls.items():
    try:
        call()
    except (SimulationError, InputError) as error:
        print(name, error)
"""


def files(folder: Path) -> dict[Path, bytes]:
    """Return all files and what is in them, without what matplotlib keeps."""
    found = (path for path in folder.rglob("*") if path.is_file() and folder / "matplotlib" not in path.parents)
    return {path: path.read_bytes() for path in found}


def written_under(limit: int, folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program, in a process of its own, whose files may have no more bytes than that."""
    command = [sys.executable, "-B", "-c", program, str(limit), *words]  # compiled modules would be cut short too
    environment = {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(folder / "matplotlib")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit elsewhere")
def test_tables_films_models_and_pages_that_find_no_room_are_one_sentence(call: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    assert call("run", "mine.toml", "--out", "mine", "--no-figures").code == 0
    varied = "protocol.name=isolated,consensus"
    assert call("compare", "mine.toml", "--vary", varied, "--seeds", "1", "--jobs", "1", "--out", "many").code == 0
    before = files(tmp_path)
    done = written_under(200, tmp_path, CALLS)
    assert done.returncode == 0, done.stderr
    for line, start in zip(
        done.stdout.splitlines(),
        (
            "comparison many/comparison.txt could not be",
            "animation out/run.gif could not be",
            "model out/model.npz cannot be",
            "report mine/report.html could not be",
        ),
        strict=True,
    ):
        assert line.startswith(f"{start} written: ")
    assert files(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit elsewhere")
def test_a_figure_that_finds_no_room_is_one_sentence(call: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    assert call("run", "mine.toml", "--out", "mine", "--no-figures").code == 0
    done = written_under(20_000, tmp_path, LIMITED, "plot", "mine")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "kernelswarm: mine/figures/risk.png could not be written: File too large"
    assert "Traceback" not in done.stderr and not list((tmp_path / "mine" / "figures").iterdir())
    assert (tmp_path / "mine" / "nodes.parquet").exists()
