"""kernelswarm in a zip archive on the search path runs on Ray too, and says that it does not travel from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine import bootstrap
from kernelswarm.simulations.engine.shipping import pack
from tests.helpers.checkout import ROOT

BOTH = """
import sys

sys.path.insert(0, sys.argv[1])
import kernelswarm

assert kernelswarm.__file__.startswith(sys.argv[1])
table = dict(topology={"name": "path", "nodes": 2}, stream="sine_regression", protocol="consensus", rounds=5,
             learner={"name": "polk", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.1}})
print(*(kernelswarm.simulate(**table, backend=name).summary["digest"] for name in ("serial", "ray")))
"""


def zipped(archive: Path) -> Path:
    """Put the package into an archive."""
    with zipfile.ZipFile(archive, "w") as opened:
        for place, folders, names in os.walk(ROOT / "kernelswarm", followlinks=True):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                opened.write(Path(place, name), Path(place, name).relative_to(ROOT))
    return archive


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Ray starts its processes itself")
def test_a_run_on_ray_from_an_archive_has_the_serial_backends_bits(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ks") as place:  # a short name, since Ray's sockets are in it
        run = subprocess.run(
            [sys.executable, "-P", "-c", BOTH, str(zipped(tmp_path / "package.zip"))],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            # To compile it all would take a minute.
            env={"TMPDIR": place, "HOME": str(tmp_path), "PATH": os.environ["PATH"], "NUMBA_DISABLE_JIT": "1"},
            timeout=280,
        )
        assert run.returncode == 0, run.stderr
        serial, ray = run.stdout.split()
        assert ray == serial
        assert not list(Path(place).glob("ray-*"))


def test_it_does_not_travel_from_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "__file__", str(tmp_path / "package.zip" / "arrival.py"))
    with pytest.raises(InputError, match=r"^backend\.ship: kernelswarm is in an archive .*: unpack it, or install it"):
        pack(tmp_path)
