"""One process at a time holds a folder, on every system, and no longer than it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.files import held


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_platform_goes_without_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    with held(tmp_path):  # what serves this system is chosen here
        pass
    monkeypatch.setattr(sys, "platform", platform)
    with held(tmp_path):
        with pytest.raises(InputError, match=f"written by process {os.getpid()} on "), held(tmp_path):
            pass
        assert not (tmp_path / "lock").read_text()  # Windows would not let another process read a name in there
    with held(tmp_path):
        pass


def test_a_lock_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    lines = "\n".join(
        [
            "import os, sys",
            "from pathlib import Path",
            "from kernelswarm.simulations.core.files import held",
            "with held(Path(sys.argv[1])):",
            "    print('held', flush=True)",
            "    sys.stdin.readline()",
            "    os._exit(1)",
        ]
    )
    words = [sys.executable, "-c", lines, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"written by process {other.pid} on "), held(tmp_path):
            pass
        other.stdin.write("\n")
        other.stdin.close()
        assert other.wait(60) == 1
    with held(tmp_path):
        pass
