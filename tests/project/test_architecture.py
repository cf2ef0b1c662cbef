"""The layers, the one direction of imports between them and what each may touch, read from the syntax trees."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from tests.helpers.checkout import ROOT
from tests.helpers.syntax_trees import (
    FILES,
    calls,
    forget,
    imported,
    importers,
    in_every_file,
    layer,
    module,
    name,
    nodes,
    package,
)

LAYERS = (  # each imports only from itself and from those before it
    "protocols/core",
    "protocols",
    "protocols/links",
    "protocols/parameters",
    "protocols/ensemble",
    "graphs/given",
    "graphs",
    "agents/arithmetic",
    "agents/parts",
    "agents/functions",
    "agents/learners",
    "agents/nodes",
    "simulations/core",
    "simulations/data",
    "simulations/experiment",
    "simulations/engine",
    "simulations/records",
    "simulations/running",
    "simulations/figures",
    "simulations/comparison",
    "simulations/report",
    "simulations/estimators",
    "simulations/reproductions",
    "simulations/command",
    "simulations/testing",
)
PACKAGES = {  # and of the others it sees
    "protocols": {"protocols"},
    "agents": {"agents", "protocols"},
    "graphs": {"graphs"},
    "simulations": {"simulations", "agents", "protocols", "graphs"},
}
BELOW = {
    "RefusedKey",
    "arrays",
    "refused_key",
    "ranges",
    "shallow_json",
    "inside_numba",
    "kept_code",
    "last_bits",
}  # seen by all
LIBRARIES = {  # package -> the only libraries it uses besides the standard one
    "protocols": {"numpy", "scipy", "numba", "llvmlite"},
    "agents": {"numpy", "scipy", "numba", "llvmlite"},
    "graphs": {"networkx", "numba", "numpy", "scipy"},
}
HEAVY = {"llvmlite", "matplotlib", "networkx", "numba", "pandas", "pyarrow", "ray", "sklearn"}


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Keep no syntax trees for the files of tests to come: Python would look through millions of nodes for garbage."""
    yield
    forget()


def test_every_layer_has_files() -> None:
    assert {layer(path) for path in FILES if path.name != "__init__.py"} == set(LAYERS)


def test_tests_lie_in_the_layers_of_what_they_test() -> None:
    places = {layer(path) for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"}
    # Helpers and specimens, what holds for the project, for every part, and for all that comes from outside.
    others = {"tests/helpers", "tests/project", "tests/contracts", "tests/simulations/boundaries"}
    assert {place.removeprefix("tests/") for place in places - others} <= set(LAYERS)
    assert others <= places


def test_programs_in_the_tests_import_what_is_there() -> None:
    """Also those in strings, which other processes run: they fail late, and in few tests."""
    stale = []
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for imported_from, attribute in re.findall(r"from kernelswarm\.([\w.]+) import (\w+)", text):
            folder = ROOT / "kernelswarm" / imported_from.replace(".", "/")
            there = folder / attribute if folder.is_dir() else folder
            if not (there.is_dir() or there.with_suffix(".py").is_file()):
                stale.append(f"{path.relative_to(ROOT)}: from kernelswarm.{imported_from} import {attribute}")
    assert stale == []


@in_every_file(FILES)
def test_imports_follow_the_one_direction(path: Path) -> None:
    wrong = []
    for line, full in imported(path):
        if full == "kernelswarm" or full.startswith("kernelswarm."):
            target = full.removeprefix("kernelswarm").lstrip(".").split(".")[0]
            if target not in {*PACKAGES[package(path)], *BELOW}:
                wrong.append(f"line {line}: {full}")
    assert not wrong, f"{package(path)}/ sees only {sorted(PACKAGES[package(path)])}"


@functools.cache
def sources() -> dict[str, Path]:
    return {module(path): path for path in FILES if path.name != "__init__.py"}


def seen(path: Path) -> set[Path]:
    """The files that a file imports, at any time and for types only too."""
    found = set()
    for _, full in imported(path):
        for known in (full, full.rpartition(".")[0]):
            if known in sources():
                found.add(sources()[known])
    return found


@in_every_file(FILES)
def test_a_layer_imports_only_layers_before_it(path: Path) -> None:
    if path.name == "__init__.py":
        return
    place = LAYERS.index(layer(path))
    above = [name(other) for other in seen(path) if LAYERS.index(layer(other)) > place]
    assert not above, f"{layer(path)} stands before the layers of {above}"


def test_no_files_import_one_another_in_a_circle() -> None:
    graph = nx.DiGraph((name(path), name(other)) for path in sources().values() for other in seen(path))
    assert graph.number_of_edges() > len(sources())
    assert list(nx.simple_cycles(graph)) == []


@in_every_file([path for path in FILES if package(path) in LIBRARIES])
def test_layers_keep_to_their_libraries(path: Path) -> None:
    known = LIBRARIES[package(path)] | {"kernelswarm"} | sys.stdlib_module_names
    wrong = [f"line {line}: {full}" for line, full in imported(path) if full.split(".")[0] not in known]
    assert not wrong, f"{package(path)}/ uses only {sorted(LIBRARIES[package(path)])}"


@in_every_file([path for path in FILES if package(path) in {"agents", "protocols"}])
def test_learners_and_protocols_touch_no_files(path: Path) -> None:
    modules = {"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "urllib"}
    functions = {
        "open",
        "print",
        "load",
        "save",
        "savez",
        "savez_compressed",
        "loadtxt",
        "savetxt",
        "fromfile",
        "tofile",
    }
    wrong = [f"line {line}: {full}" for line, full in imported(path) if full.split(".")[0] in modules]
    wrong += [
        f"line {call.lineno}: {function}"
        for call, function in calls(path)
        if function in {"open", "print"} or (function.startswith("np.") and function.split(".")[-1] in functions)
    ]
    assert not wrong


@in_every_file(FILES)
def test_imports_are_absolute(path: Path) -> None:
    relative = [node.lineno for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.level > 0]
    assert not relative, f"relative imports in lines {relative}"


@pytest.mark.parametrize(
    ("library", "modules"),
    [
        ("ray", ["ray"]),
        ("pyplot", ["matplotlib.pyplot"]),
    ],
)
def test_one_file_imports(library: str, modules: list[str]) -> None:
    files = importers(*modules)
    assert len(files) == 1, f"{library} is imported in {sorted(files)}"
    assert files.pop().startswith("simulations/")


def test_one_layer_imports_the_command_line_library() -> None:
    assert {file.rpartition("/")[0] for file in importers("typer", "click", "argparse")} == {"simulations/command"}


@pytest.mark.parametrize(
    "statement",
    [
        "import kernelswarm",
        "import kernelswarm.testing",
        "from kernelswarm.simulations.command.cli import main; main(['--help'])",
    ],
    ids=["import", "testing", "--help"],
)
def test_heavy_libraries_load_only_where_they_are_used(statement: str) -> None:
    code = f"""
import atexit, sys
atexit.register(lambda: print("loaded", *sorted({HEAVY!r} & set(sys.modules))))
{statement}
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].split() == ["loaded"]


def test_every_folder_is_packaged_and_linked() -> None:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in FILES}
    packaged = {"kernelswarm"} | {"kernelswarm." + ".".join(folder.parts) for folder in folders}
    assert set(tables["packages"]) == packaged
    for top in PACKAGES:
        assert (ROOT / "kernelswarm" / top).resolve() == ROOT / top
