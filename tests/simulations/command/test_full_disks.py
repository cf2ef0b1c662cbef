"""A disk that is full while figures are drawn ends a command with a sentence, and leaves what was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that is too long fails, as on a full disk
from kernelswarm.simulations.command.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit elsewhere")
def test_a_figure_that_finds_no_room_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL)
    command = [sys.executable, "-B", "-c", LIMITED]  # modules that Python compiled would be cut short too
    environment = {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    words = ["run", "mine.toml", "--out", "mine", "--no-figures"]
    assert subprocess.run([*command, "1000000000", *words], cwd=tmp_path, env=environment).returncode == 0
    limited = [*command, "20000", "plot", "mine"]
    done = subprocess.run(limited, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "kernelswarm: mine/figures/risk.png could not be written: File too large"
    assert "Traceback" not in done.stderr and not list((tmp_path / "mine" / "figures").iterdir())
    assert (tmp_path / "mine" / "nodes.parquet").exists()
