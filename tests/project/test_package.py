"""What people install: the wheel, the source distribution, and the program that runs from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.helpers.checkout import ROOT

PACKAGES = ["agents", "graphs", "protocols", "simulations"]


def page_files() -> list[Path]:
    """What the page of a report and reproductions are made of besides modules."""
    found = [
        path
        for folder, kinds in {"report": (".html", ".css", ".js"), "reproductions": (".toml",)}.items()
        for path in (ROOT / "simulations" / folder).iterdir()
        if path.suffix in kinds
    ]
    assert {path.suffix for path in found} == {".html", ".css", ".js", ".toml"}
    return found


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was built from it, not from the checkout."""
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"  # a copy: setuptools leaves its own folders beside what it builds
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "runs")
    shutil.copytree(ROOT, source, symlinks=True, ignore=ignored)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", cwd=source)
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it, which sees this one's libraries but not its kernelswarm."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    # pip first and the path to the libraries after it, or pip would take the kernelswarm there for an old version.
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",  # five hundred modules, of which a few are imported
        wheel,
        cwd=folder,
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


def test_wheel_holds_every_module_under_the_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {
        f"kernelswarm/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    own = {f"kernelswarm/{path.name}" for path in (ROOT / "kernelswarm").glob("*.py")}
    page = {f"kernelswarm/{path.relative_to(ROOT).as_posix()}" for path in page_files()}
    assert packed == modules | own | page | {"kernelswarm/py.typed"}


def test_source_distribution_holds_each_file_once(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "kernelswarm/__init__.py", "kernelswarm/py.typed"} <= packed
    assert {"constraints.txt", "tests/conftest.py", "tests/project/test_package.py"} <= packed
    assert {
        path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    } <= packed
    assert {path.relative_to(ROOT).as_posix() for path in page_files()} <= packed
    assert not any(name.startswith(f"kernelswarm/{package}") for name in packed for package in PACKAGES)


def test_installed_program_lists_its_parts(environment: Path, tmp_path: Path) -> None:
    listing = run(environment / "bin" / "kernelswarm", "list", cwd=tmp_path)
    assert "consensus" in listing and "proximity" in listing


def test_modules_come_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    code = """
import importlib, importlib.util
for room in ("", ".agents", ".graphs", ".protocols", ".simulations", ".simulations.data"):
    print(importlib.import_module("kernelswarm" + room).__file__)
assert not any(importlib.util.find_spec(room) for room in ("agents", "graphs", "protocols", "simulations"))
"""
    files = run(environment / "bin" / "python", "-c", code, cwd=tmp_path).split()
    assert len(files) == 6
    assert all(Path(file).is_relative_to(environment) for file in files), files


def test_wheel_names_its_licence_and_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [
            archive.read(name).decode() for name in archive.namelist() if name.endswith("dist-info/METADATA")
        ]
        names = archive.namelist()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert any(name.endswith("licenses/LICENSE") for name in names)
