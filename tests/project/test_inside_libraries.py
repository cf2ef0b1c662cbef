"""What a new numba or Ray may not have any more: runs are the same without it, and only two files know of it."""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelswarm import inside_numba, simulate
from tests.helpers.checkout import ROOT
from tests.helpers.renamed import renamed

EXPERIMENT = {
    "topology": {"name": "ring", "nodes": 3},
    "stream": "sine_regression",
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, "step_size": 0.3},
    "protocol": "consensus",
    "rounds": 6,
    "seed": 0,
}

RUN = """
import os
from kernelswarm import simulate
if hasattr(os, "sched_setaffinity"):  # no other process compiles beside this one
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
print(simulate(**EXPERIMENT).summary["digest"])
"""

FUNCTIONS = """
import numpy as np
from numba import types
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.core.addresses import MATRIX, VECTOR_OUT, address, at, sole

SUMS = types.void(MATRIX, VECTOR_OUT)
sums_at = at(SUMS)

@njit_no_refcount
def sums(matrix: ReadOnly, found):
    for i in range(len(matrix)):
        found[i] = 0.0
        for entry in matrix[i]:
            found[i] += entry

@cached_njit
def called(place: int, matrix: ReadOnly):
    found = np.empty(len(matrix))
    sums_at(place)(matrix, found)
    return found

matrix = np.arange(6.0).reshape(3, 2)
frozen = matrix.copy()
frozen.flags.writeable = False
for given in (matrix, frozen):
    found = np.empty(3)
    sole(sums, SUMS)(given, found)
    assert found.tolist() == called(address(sums, SUMS), given).tolist() == [1.0, 5.0, 9.0]
"""
"""Functions that no other process has kept, since they are in no file: they are compiled as this numba lets them be."""

OPTIONAL = [
    "_pass_builder",
    "_function_pass_manager",
    "_tm",
    "global_compiler_lock",
    "_nrt",
    "_insert",
    "_code",
    "_cache",
    "_reduce",
    "_rebuild",
]
"""Names of numba's without which functions are compiled in its own way."""

OF_FILES = ["_nrt", "_cache", "_reduce", "_rebuild"]
"""Those of them without which nothing that was kept can be loaded, or only what has been compiled otherwise."""

FORCED = sorted({path.rpartition(".")[2] for paths in inside_numba.NEEDED.values() for path in paths} - {"compile"})
"""Names without which nothing is compiled; the word compile stands for too much else to be renamed."""

OF_RAY = [
    "ENABLE_RAY_CLUSTER",
    "start_api_server",
    "start_monitor",
    "start_log_monitor",
    "SETUP_WORKER_FILENAME",
    "_torch_available",
    "dag_output_channels",
    "ensure_registered_as_reader",
    "DAGDriverProxyActor",
    "_temp_dir",
]


@functools.cache
def digest() -> str:
    return str(simulate(**EXPERIMENT).summary["digest"])


def said_by(program: str, folder: Path, library: str, names: Sequence[str], **environment: str) -> tuple[str, set[str]]:
    """Run a program with a copy of a library that has other names: its output, and what it says it does without."""
    assert renamed(library, names, folder) >= len(names) // 2
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout, set(re.findall(r"RuntimeWarning: .* has no (.*), which kernelswarm", found.stderr))


TOGETHER = [["_pass_builder", "_insert"], ["_function_pass_manager", "_code"], ["_tm"], ["global_compiler_lock"]]
"""Names that are missed one by one, two in a process where one has nothing to do with the other."""


@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
def test_without_a_name_functions_are_compiled_and_runs_are_the_same(names: Sequence[str], tmp_path: Path) -> None:
    out, missing = said_by(FUNCTIONS + RUN.replace("EXPERIMENT", str(EXPERIMENT)), tmp_path, "numba", names)
    assert out == f"{digest()}\n"
    assert len(missing) == len(names)
    assert all(any(name in text for text in missing) for name in names)


def test_every_name_is_missed_by_itself() -> None:
    assert sorted([*OF_FILES, *itertools.chain(*TOGETHER)]) == sorted(OPTIONAL)


KEPT = """
import numpy as np
from kernelswarm.protocols.coupling import clip_pulls
print(*clip_pulls(np.ones((3, 2)), np.ones(3), np.ones(3), 1))
"""


@pytest.mark.parametrize("name", OF_FILES)
def test_without_a_name_that_files_take_functions_are_compiled_and_compute_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    out, missing = said_by(FUNCTIONS + KEPT, tmp_path, "numba", [name], NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert out == "1.0 1.0\n"
    (text,) = missing
    assert name in text
    assert any((tmp_path / "kept").rglob("*.nbc")) == (name == "_nrt")


def test_without_any_of_them_all_is_compiled_each_time_and_computes_the_same(tmp_path: Path) -> None:
    """Functions, and no run: that would take minutes, and shows for each name alone what it is to show."""
    (tmp_path / "kept").mkdir()
    out, missing = said_by(FUNCTIONS + KEPT, tmp_path, "numba", OPTIONAL, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert out == "1.0 1.0\n"
    assert missing == {"option _nrt", "_insert or _code", "global_compiler_lock", "_cache"}
    assert list((tmp_path / "kept").rglob("*.nbc")) == []


def test_without_what_compilation_takes_nothing_is_compiled_and_runs_are_the_same(tmp_path: Path) -> None:
    out, missing = said_by(FUNCTIONS + RUN.replace("EXPERIMENT", str(EXPERIMENT)), tmp_path, "numba", FORCED)
    assert out == f"{digest()}\n"
    (text,) = missing
    assert {*text.split(" and no ")} == {*FORCED, *inside_numba.ROUTINES}


@pytest.mark.parametrize("module", sorted(inside_numba.NEEDED))
def test_each_module_that_compilation_takes_is_asked_for(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = inside_numba._found
    monkeypatch.setattr(inside_numba, "_found", lambda place, path: None if place == module else there(place, path))
    inside_numba._say.cache_clear()
    with pytest.warns(RuntimeWarning, match="nothing is compiled"):
        assert not inside_numba._compiles()


@pytest.mark.parametrize("names", [OF_RAY, ["experimental_compile"]], ids=["started otherwise", "no compiled graphs"])
def test_without_names_of_rays_actors_compute_the_same(names: Sequence[str], tmp_path: Path) -> None:
    program = RUN.replace("EXPERIMENT", str(EXPERIMENT | {"backend": {"name": "ray", "nodes_per_actor": 2}}))
    out, missing = said_by(program, tmp_path, "ray", names)
    assert out == f"{digest()}\n"
    # Two are missed only where an actor dies, and one is said by the actors.
    silent = {"dag_output_channels", "ensure_registered_as_reader", "_torch_available"}
    assert all(any(name in text for text in missing) for name in {*names} - silent)


PUBLIC = {
    "numba.extending",
    "numba.core.cgutils",
    "numba.core.config",
    "numba.core.errors",
    "numba.core.event",
    "numba.core.types",
}
"""Modules of numba's that its manual tells of."""

MEANT_FOR_USE = {"_asdict", "_fields", "_getvalue", "_make", "_replace", "_exit", "_current_frames"}
"""Of named tuples, of the structures that numba's manual has extensions use, and of the system."""

INSIDE = {"kernelswarm/inside_numba.py", "simulations/engine/inside_ray.py"}
SOURCES = [
    path for room in ("agents", "graphs", "protocols", "simulations") for path in sorted((ROOT / room).rglob("*.py"))
] + sorted((ROOT / "kernelswarm").glob("*.py"))


DEFINED = re.compile(
    r"\b(?:def|class) (_[a-z]\w*)|\bself\.(_[a-z]\w*)(?=[^=\n(]*=[^=])|^ *(_[a-z]\w*)(?=[^=\n(]*=[^=])|\"(_[a-z]\w*)\"",
    re.MULTILINE,
)
"""What a file may mean by such a name of its own: a function, an attribute, a variable, a slot."""

USED = re.compile(r"(?<![\w`])(?!self\.|cls\.)[\w)\]]*\.(_[a-z]\w*)|\bfrom (numba\.[\w.]+) import ([^\n]*)")


def test_two_files_alone_use_what_is_no_interface() -> None:
    """As the texts say, which takes a tenth of the time of syntax trees."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES}
    assert {*texts} >= INSIDE
    others = {name: text for name, text in texts.items() if name not in INSIDE}
    ours = {word for text in others.values() for found in DEFINED.findall(text) for word in found} | MEANT_FOR_USE
    wrong = []
    for name, text in others.items():
        for attribute, module, imported in USED.findall(text):
            if attribute and attribute not in ours:
                wrong.append(f"{name}: {attribute}")
            full = [module] if module != "numba.core" else [f"{module}.{word}" for word in re.findall(r"\w+", imported)]
            wrong += [f"{name}: {part}" for part in full if module and part not in PUBLIC]
        wrong += [f"{name}: {part}" for part in re.findall(r"\bray\._\w+", text)]
    assert wrong == []


def test_every_name_of_these_two_files_is_tried_without() -> None:
    """Those that begin with an underscore; others are looked for as one can read there."""
    for name, tried in zip(sorted(INSIDE), ([*OPTIONAL, *FORCED], OF_RAY), strict=True):
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        ours = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - ours
        own = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self" and node.attr.startswith("_")
        }
        assert {attr for attr in used if re.match(r"_[a-z]", attr)} - own <= {*tried}
