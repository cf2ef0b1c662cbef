"""A call in a process beside this one leaves what it does on the disk, and nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from kernelswarm.simulations.core.parallel import Tell, answers
from kernelswarm.simulations.engine.cache_warmup import beside
from tests.helpers.checkout import ROOT


def processes() -> set[int]:
    """Return the processes that this one has started, but for the one that counts what they share."""
    children = psutil.Process().children()
    return {child.pid for child in children if "resource_tracker" not in " ".join(child.cmdline())}


def test_a_call_is_made_and_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with beside(os.mkdir, str(folder)) as wait:
        assert wait()
        assert folder.is_dir()


def test_an_exception_is_no_return_and_is_not_printed(tmp_path: Path, capfd) -> None:
    with beside(os.mkdir, str(tmp_path)) as wait:  # which is there
        assert not wait()
    assert capfd.readouterr() == ("", "")


def test_a_call_that_is_not_waited_for_is_ended() -> None:
    before = processes()
    began = time.monotonic()
    with beside(time.sleep, 600) as _:
        assert processes() - before
    assert processes() == before
    assert time.monotonic() - began < 300


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    lines = [
        "import os",
        "from kernelswarm.simulations.engine.cache_warmup import beside",
        "print('read')",
        f"with beside(os.mkdir, {str(tmp_path / 'made')!r}) as wait:",
        "    assert wait()",
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (ended.stdout, ended.stderr) == ("read\n", "")
    assert (tmp_path / "made").is_dir()


def test_a_process_that_serves_another_starts_none(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    for _, answer in answers(_made_beside, [str(folder)], 1, lambda shares: None):
        assert answer is False
    assert not folder.exists()


def _made_beside(folder: str, tell: Tell) -> bool:
    with beside(os.mkdir, folder) as wait:
        return wait()
