"""What travels to a cluster, and what a process there makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm import InputError
from kernelswarm.simulations.engine import shipping
from kernelswarm.simulations.engine.bootstrap import LIBRARY, OWN, PARCEL, digest
from kernelswarm.simulations.engine.shipping import JOB, pack, surroundings
from kernelswarm.simulations.experiment.parts import build
from tests.helpers.checkout import ROOT

VARIABLES = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

ARRIVE = f"""
import sys
sys.path[:0] = sys.argv[2:]
sys.path.insert(0, sys.argv[1])  # as Ray does with py_modules
import {PARCEL}
{PARCEL}.arrive()
import kernelswarm
import kernelswarm.protocols.core.callbacks
import kernelswarm.simulations.data.curves
print(kernelswarm.__file__)
import mine, package_of_mine.late
print(mine.NAME, package_of_mine.late.NAME)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module and a package of a user's own, loaded from a folder that disappears from the path again."""
    folder = tmp_path / "own"
    (folder / "package_of_mine").mkdir(parents=True)
    (folder / "mine.py").write_text("NAME = 'mine'\n")
    (folder / "package_of_mine/__init__.py").write_text("")
    (folder / "package_of_mine/late.py").write_text("NAME = 'late'\n")
    (folder / "package_of_mine/data.bin").write_bytes(b"0" * 100)
    with monkeypatch.context() as change:
        change.syspath_prepend(folder)
        for name in ("mine", "package_of_mine"):
            monkeypatch.delitem(sys.modules, name, raising=False)
            __import__(name)


def arrived(parcel: Path, *path: Path) -> list[str]:
    words = [sys.executable, "-c", ARRIVE, parcel.parent, *path]
    run = subprocess.run(words, cwd=parcel, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.usefixtures("own")
def test_code_that_is_missing_or_another_is_taken_from_the_parcel(tmp_path: Path) -> None:
    parcel = pack(tmp_path / "parcel")
    other = tmp_path / "other"
    (other / "kernelswarm").mkdir(parents=True)
    (other / "kernelswarm/__init__.py").write_text("raise ImportError('an old version')\n")
    (other / "mine.py").write_text("NAME = 'an old version'\n")
    sent = parcel / LIBRARY / "kernelswarm/__init__.py"
    assert arrived(parcel, other) == [str(sent), "mine late"]
    assert not list((parcel / OWN).rglob("*.bin"))


@pytest.mark.usefixtures("own")
def test_the_same_code_is_used_where_it_is_installed(tmp_path: Path) -> None:
    """Compiled functions lie beside it, which a copy would have to make again in every process."""
    assert arrived(pack(tmp_path / "parcel"), ROOT) == [str(ROOT / "kernelswarm/__init__.py"), "mine late"]


def test_digests_follow_links_and_see_every_change(tmp_path: Path) -> None:
    parcel = pack(tmp_path)
    library = parcel / LIBRARY / "kernelswarm"
    same = digest(library)
    assert digest(ROOT / "kernelswarm") == same == (parcel / "digest").read_text()  # there the packages are links
    changed = library / "simulations/data/file.py"
    changed.write_text(changed.read_text() + "\n")
    assert digest(library) != same


def test_only_code_of_ones_own_travels(tmp_path: Path) -> None:
    found = {name.parts[0] for name, _ in shipping.own_modules()}
    assert "tests" in found
    assert not {"numpy", "ray", "pytest", "kernelswarm", "json", "__main__"} & {
        name.removesuffix(".py") for name in found
    }


@pytest.mark.usefixtures("own")
def test_much_code_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LARGEST", 1000)
    with pytest.raises(InputError, match=r"backend.ship: your own modules, .* travel: .* set backend.ship = false"):
        pack(tmp_path / "parcel")


def test_what_a_submitted_job_has_set_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JOB, raising=False)
    with surroundings(VARIABLES, ship=True) as plain:
        assert plain["env_vars"] == VARIABLES
        (folder,) = plain["py_modules"]
        assert (Path(folder) / "__init__.py").is_file()
        assert plain["worker_process_setup_hook"] == f"{PARCEL}.arrive"
    assert not Path(folder).exists()
    with surroundings(VARIABLES, ship=False) as nothing:
        assert nothing == {"env_vars": VARIABLES}
    for given, shipped in (
        ({"working_dir": "gcs://x.zip"}, True),
        ({"py_modules": ["gcs://x.zip"]}, False),
        ({"worker_process_setup_hook": "x.y"}, False),
    ):
        job = {"runtime_env": {**given, "env_vars": {"OMP_NUM_THREADS": "4", "OTHER": "1"}}}
        monkeypatch.setenv(JOB, json.dumps(job))
        with surroundings(VARIABLES, ship=True) as found:
            assert found["env_vars"] == {"MKL_NUM_THREADS": "1"}
            assert ("py_modules" in found) == ("worker_process_setup_hook" in found) == shipped
    monkeypatch.setenv(JOB, json.dumps({"runtime_env": None, "metadata": {}}))
    with surroundings(VARIABLES, ship=True) as found:
        assert found["env_vars"] == VARIABLES


def test_the_key_is_checked() -> None:
    assert build("backend", {"name": "ray", "ship": False}).ship is False
    with pytest.raises(InputError, match=r'backend.ship = "code" must be true or false'):
        build("backend", {"name": "ray", "ship": "code"})
