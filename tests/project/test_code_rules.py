"""Rules of the code that every file keeps: its names, nothing pickled, no broad except."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernelswarm.ranges import ranges_of
from kernelswarm.simulations.engine.ray_startup import OURS
from tests.helpers.checkout import ROOT
from tests.helpers.sharing_out import SLOW_FIRST, TOGETHER
from tests.helpers.syntax_trees import (
    FILES,
    calls,
    forget,
    imported,
    importers,
    in_every_file,
    layer,
    name,
    nodes,
)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Keep no syntax trees for the files of tests to come: Python would look through millions of nodes for garbage."""
    yield
    forget()


def test_nothing_is_pickled() -> None:
    assert importers("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "ray.cloudpickle") == set()
    for path in FILES:
        for call, function in calls(path):
            allowed = [key for key in call.keywords if key.arg == "allow_pickle" and ast.unparse(key.value) != "False"]
            assert not allowed, f"{name(path)}, line {call.lineno}: {function} opens a pickle"
            assert function.split(".")[-1] not in {"to_pickle", "read_pickle"}


@in_every_file(FILES)
def test_no_text_is_run_as_code(path: Path) -> None:
    """Two files start scripts: the one that serves forks, and in a fork Ray's own worker."""
    wrong = [
        f"line {call.lineno}: {function}"
        for call, function in calls(path)
        if function in {"eval", "exec", "compile", "__import__"}
        or function in {"os.system", "os.popen", "builtins.eval", "builtins.exec", "runpy.run_path", "runpy.run_module"}
    ]
    wrong += [f"line {line}: {full}" for line, full in imported(path) if full.split(".")[0] in {"subprocess", "runpy"}]
    scripts = {
        "simulations/engine/ray_startup.py": ["subprocess"],
        "simulations/engine/fork_server.py": ["runpy", "runpy.run_path"],
    }
    assert sorted(text.rpartition(": ")[2] for text in wrong) == scripts.get(name(path), [])


@in_every_file(FILES)
def test_only_the_table_of_names_imports_what_a_text_names(path: Path) -> None:
    """It asks first whether it may; the others import modules whose names they hold themselves."""
    found = {function for _, function in calls(path) if function.startswith("importlib.") or function == "__import__"}
    allowed = {
        "simulations/experiment/registry.py": {"importlib.import_module", "importlib.invalidate_caches"},
        "simulations/estimators/rows.py": {"importlib.import_module"},
        "simulations/engine/inside_ray.py": {"importlib.import_module"},
        "simulations/engine/fork_server.py": {"importlib.import_module"},
        "simulations/reproductions/catalogue.py": {"importlib.import_module"},
        "simulations/core/notebook.py": {"importlib.import_module"},
    }
    modules = {
        "importlib.metadata.version",
        "importlib.metadata.distributions",
        "importlib.util.find_spec",
    }  # which see what is installed and run nothing
    assert found - modules <= allowed.get(name(path), set())


@in_every_file(FILES)
def test_no_except_is_broad(path: Path) -> None:
    broad = [
        node.lineno
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {"Exception", "BaseException"} & set(ast.unparse(node.type).strip("()").split(", ")))
    ]
    assert not broad, f"broad excepts in lines {broad}"


def parts() -> list[tuple[str, str, str]]:
    from kernelswarm.simulations.experiment.parts import PARTS

    return [(kind, key, target) for kind, table in PARTS.items() for key, target in table.items()]


def test_every_name_is_a_frozen_dataclass() -> None:
    for kind, key, target in parts():
        module, _, attribute = target.partition(":")
        part = getattr(importlib.import_module(module), attribute)
        assert is_dataclass(part) and part.__dataclass_params__.frozen, f"{kind} {key!r} is {target}"
        assert set(ranges_of(part)) <= {field.name for field in fields(part)}


def defined(path: Path) -> Iterator[str]:
    """The names of the classes and of the types that a file defines."""
    whole = nodes(path)[0]
    assert isinstance(whole, ast.Module)
    for node in whole.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


@pytest.mark.parametrize(
    "idea",
    ["Tracking", "Functions", "Rule", "Learned", "Draws", "LearningCurve", "Mail", "Exchange", "Stepping", "Listener"],
)
def test_a_name_stands_for_one_idea(idea: str) -> None:
    assert len([path for path in FILES if idea in defined(path)]) <= 1


@in_every_file(FILES)
def test_rounds_are_run_and_by_no_other_word(path: Path) -> None:
    functions = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef)}
    assert not functions & {"live", "_live", "lived", "_lived", "_lived_through", "_advanced", "_finish"}


def test_no_learner_keeps_the_functions_of_others() -> None:
    learners = {
        f"kernelswarm.agents.learners.baselines.{stem}" for stem in ("bsgd", "npbsgd", "dual_sgd", "projectron", "bpa")
    }
    baselines = [path for path in FILES if layer(path) == "agents/learners/baselines"]
    assert not {full for path in baselines for _, full in imported(path) if full.rpartition(".")[0] in learners}


def test_what_is_named_by_the_begin_of_its_path_is_there() -> None:
    """A file that moves leaves such names behind: tests come in another order, and actors import for themselves."""
    tests = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    begins = [f"tests/{start}" for start in SLOW_FIRST]
    begins += [member.partition("::")[0] for members in TOGETHER.values() for member in members]
    assert [begin for begin in begins if not any(path.startswith(begin) for path in tests)] == []
    assert [name for name in OURS if find_spec(name.removesuffix(".")) is None] == []
