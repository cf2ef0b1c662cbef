"""Names with letters that a terminal or a locale does not have end no command: they are shown with their escapes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL

ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
WITHOUT_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def call(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kernelswarm", *words]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHON"))}
    path = {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    return subprocess.run(
        command, cwd=folder, env=inherited | path | environment, capture_output=True, encoding="utf-8", timeout=300
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "net.csv").write_text("Zürich,東京\n東京,Ελλάδα\n", encoding="utf-8")
    text = SMALL.replace('name = "ring"\nnodes = 3', 'name = "file"\npath = "net.csv"')
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in Unicode")
def test_names_of_nodes_are_shown_with_escapes(here: Path) -> None:
    for environment in (ASCII, WITHOUT_UTF8):
        done = call(here, environment, "check", "mine.toml")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert r"Z\xfcrich" in done.stdout and r"\u6771\u4eac" in done.stdout
    done = call(here, ASCII, "run", "mine.toml", "--out", "läuft", "--no-figures")
    assert done.returncode == 0 and r"run folder  l\xe4uft" in done.stdout
    assert (here / "läuft" / "nodes.parquet").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in Unicode")
def test_a_path_that_the_locale_cannot_name_is_refused_before_anything_runs(here: Path) -> None:
    done = call(here, WITHOUT_UTF8, "run", "mine.toml", "--out", "läuft")
    assert done.returncode == 2 and done.stdout == ""
    assert "not in the encoding of this locale, ascii: set PYTHONUTF8=1 or LC_ALL=C.UTF-8" in done.stderr
    inside = here / "Ordner ä"
    inside.mkdir()
    for name in ("mine.toml", "net.csv"):
        (here / name).rename(inside / name)
    done = call(inside, WITHOUT_UTF8, "run", "mine.toml")
    assert done.returncode == 2 and "or those of its folder are not in the encoding" in done.stderr
    assert not (inside / "runs").exists()
