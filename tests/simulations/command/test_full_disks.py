"""A disk that is full while figures are drawn ends a command with a sentence, and leaves what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL, Command

CALLS = """
import pathlib, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from kernelswarm import read_comparison, read_run
from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.core.errors import SimulationError, InputError
from kernelswarm.simulations.figures.animation import animate
from kernelswarm.simulations.figures.plots import draw
from kernelswarm.simulations.records.model_files import save
from kernelswarm.simulations.report import page
found, result = read_comparison("many"), read_run("mine")
calls = {
    "comparison": lambda: tables.write(found, pathlib.Path("many")),
    "animation": lambda: animate(result, "out/run.gif"),
    "figure": lambda: draw(result, pathlib.Path("out/figures")),
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


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit elsewhere")
def test_what_finds_no_room_is_one_sentence_and_leaves_nothing(call: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    assert call("run", "mine.toml", "--out", "mine", "--no-figures").code == 0
    varied = "protocol.name=isolated,consensus"
    assert call("compare", "mine.toml", "--vary", varied, "--seeds", "1", "--jobs", "1", "--out", "many").code == 0
    before = files(tmp_path)
    # In a process of its own, whose files may have no more than 200 bytes; compiled modules would be cut short too.
    environment = {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    command = [sys.executable, "-B", "-c", CALLS, "200"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line, start in zip(
        done.stdout.splitlines(),
        (
            "comparison many/comparison.txt could not be",
            "animation out/run.gif could not be",
            "figure out/figures/risk.png could not be",
            "model out/model.npz cannot be",
            "report mine/report.html could not be",
        ),
        strict=True,
    ):
        assert line.startswith(f"{start} written: ")
    assert files(tmp_path) == before
