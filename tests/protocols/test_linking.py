"""Long compiled functions are compiled once and called by name, by callers that are loaded from the disk too."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.protocols.linking import LONG
from tests.helpers.checkout import ROOT
from tests.helpers.long_functions import called_twice, copied, long, short

LOADED = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from kernelswarm.simulations.machine.compiling import heard
import tests.helpers.long_functions as functions
with heard() as compilation:
    print(getattr(functions, sys.argv[1])(3.0, 1))
print(compilation.functions)
"""


def code(function: Any) -> tuple[str, str]:
    """What a compiled function's own module holds, and the name of the function in it."""
    (found,) = function.overloads.values()
    return str(found.library._get_module_for_linking()), found.fndesc.llvm_func_name


def defined(module: str) -> str:
    return "\n".join(line for line in module.splitlines() if line.startswith("define"))


def test_what_is_long_is_not_copied_into_its_callers() -> None:
    for times in (1, 4):
        assert long(3.0, times) == long.py_func(3.0, times)  # type: ignore[attr-defined]
        assert called_twice(3.0, times) == long(3.0, times) + long(4.0, times)
        assert copied(3.0, times) == called_twice(3.0, times) + 1.0
    module, name = code(long)
    assert name in defined(module), "the name is spelled as it is looked for below"
    assert module.count("\n") > LONG
    for caller in (called_twice, copied):
        module, _ = code(caller)
        assert name not in module
        assert "tests.helpers.long_functions.long(" in module, "it is called by its name"
        assert defined(module).count("short") == 0


def test_what_is_short_is_copied() -> None:
    assert short(2.0) == 5.0
    assert long(3.0, 0) == short(3.0)
    module, _ = code(long)
    assert "long_functions.short(" not in module
    declared = [line for line in module.splitlines() if line.startswith("declare")]
    assert any("tanh" in line for line in declared), "what is called by name is declared"
    assert not any("short" in line for line in declared)


@pytest.mark.parametrize("caller", [called_twice, copied])
def test_errors_come_through(caller: Any) -> None:
    with pytest.raises(ValueError, match="no negative times"):
        caller(3.0, -1)


def alone(folder: Path, function: str) -> list[str]:
    """Call a function in a process of its own: what it returns, and how many functions were compiled for that."""
    found = subprocess.run(
        [sys.executable, "-c", LOADED, function],
        env={"NUMBA_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_callers_find_it_in_processes_that_load_them(tmp_path: Path) -> None:
    first, twice = str(called_twice(3.0, 1)), str(copied(3.0, 1))
    assert alone(tmp_path, "called_twice") == [first, "3"], "the long one, the short one and their caller"
    assert alone(tmp_path, "called_twice") == [first, "0"], "all of them are loaded"
    assert alone(tmp_path, "copied") == [twice, "1"], "it is copied into this one as it was loaded"
    assert alone(tmp_path, "copied") == [twice, "0"], "which knows too what has to be there"
    (kept,) = (file for file in tmp_path.rglob("*.nbc") if "long_functions.long-" in file.name)
    kept.unlink()
    assert alone(tmp_path, "copied") == [twice, "1"], "what is gone is compiled again"


def test_what_is_closed_to_others_is_loaded_for_those_that_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelswarm.protocols.linking import Callee

    function: Any = long
    called_twice(3.0, 1)
    ((arguments, kept),) = function.overloads.items()
    function.disable_compile()
    monkeypatch.setattr(function, "overloads", {})
    Callee(function.__module__, function.__name__, arguments)()
    assert not function._can_compile
    assert function.overloads[arguments] is not kept
    function.disable_compile(False)
    assert called_twice(3.0, 1) == long.py_func(3.0, 1) + long.py_func(4.0, 1)  # type: ignore[attr-defined]
