"""What is kept compiled is loaded as long as all that it comes from has the same contents, and no longer."""

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from numba.core import codegen

from kernelswarm import kept_code
from kernelswarm.kept_code import KeptCode, places
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.sources import stamp
from tests.helpers.checkout import ROOT

LONG_AGO = 1e9  # in September 2001

CALLS = """
import os, sys, warnings
from kernelswarm.protocols.core import addresses as first_class  # once for all
from kernelswarm.simulations.core.compiling import keep_by_contents
from numba import njit, types
njit(lambda x: x + 1.0)(1.0)
for line in sys.stdin:
    if not os.fork():
        sys.path.insert(0, line.rstrip())
        from pkg import caller
        from pkg.caller import f
        if hasattr(caller, "numba"):
            keep_by_contents("pkg.caller")  # as when a part of the module is taken
        elif not hasattr(f, "kept"):
            first_class.ready(f, types.float64(types.float64))
        print(f(1.0), sum(f.stats.cache_hits.values()), flush=True)
        os._exit(0)
    os.wait()
"""
"""For each line, a new process that imports the caller from the folder in it and calls it."""

DECORATED = {
    "cached_njit": "from kernelswarm.protocols.core.compiling import cached_njit as compiled\n",
    "numba's, called by address": "from numba import njit\ncompiled = njit(cache=True)\n",
    "numba's, called from Python": "import numba\ncompiled = numba.njit(cache=True)\n",
}


@contextmanager
def processes(**environment):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    env.pop("NUMBA_CACHE_DIR", None)
    with subprocess.Popen([sys.executable, "-c", CALLS], text=True, bufsize=1, env=env, **pipes) as calls:

        def answer(folder):
            print(folder, file=calls.stdin, flush=True)
            value, hits = calls.stdout.readline().split()
            return float(value), int(hits)

        yield answer
        calls.stdin.close()


@pytest.fixture(scope="module")
def answer():
    with processes() as found:
        yield found


def package(folder, line, call, style="cached_njit", **more):
    """Write a package whose ``caller`` calls what is in another of its files."""
    called = folder / "pkg" / "called.py"
    called.parent.mkdir(parents=True)
    files = {"__init__": "", "caller": f"{line}\n\n\n@compiled\ndef f(x):\n    return {call}\n", **more}
    for name, text in files.items():
        (folder / "pkg" / f"{name}.py").write_text(DECORATED[style] + text)
    change(called, "x + 1.0", style)
    return called


def change(called, value, style="cached_njit", date=None):
    called.write_text(f"{DECORATED[style]}STEP = {value.split()[-1]}\n\n\n@compiled\ndef g(x):\n    return {value}\n")
    if date is not None:
        os.utime(called, (date, date))


MADE = """from pkg.called import g


def made(inner):
    @compiled
    def f(x):
        return inner(x)

    return f"""
WAYS = {
    "a function": ("from pkg.called import g", "g(x)", {}),
    "a relative name": ("from .called import (  # a comment, with ) in it\n    g,\n)", "g(x)", {}),
    "a module": ("from pkg import called", "called.g(x)", {}),
    "a module by its whole name": ("import pkg.called", "pkg.called.g(x)", {}),
    "a constant": ("import os; from pkg.called import STEP as size", "x + size", {}),
    "through another file": (
        "from pkg.between import h",
        "h(x)",
        {"between": "from pkg.called import g\n\n\n@compiled\ndef h(x):\n    return g(x)\n"},
    ),
    "a function that is closed over": (
        MADE,
        "x\n\n\nf = made(g)",
        {},
    ),
    "a function inside a function that is closed over": (
        MADE,
        "x\n\n\nf = made(made(g))",
        {},
    ),
    "through the package": ("from pkg import g", "g(x)", {"__init__": "from pkg.called import \\\n    g\n"}),
}
CASES = [(way, "cached_njit") for way in WAYS]
CASES += product(["a function", "a module", "through another file"], list(DECORATED)[1:])


@pytest.mark.parametrize(("way", "style"), CASES)
def test_a_change_in_a_called_file_is_computed_with_whatever_its_date(tmp_path, answer, way, style):
    line, call, more = WAYS[way]
    called = package(tmp_path, line, call, style, **more)
    assert answer(tmp_path) == (2.0, 0)
    assert answer(tmp_path) == (2.0, 1)
    change(called, "x + 5.0", style, LONG_AGO)
    assert answer(tmp_path) == (6.0, 0)
    assert answer(tmp_path) == (6.0, 1)


def test_what_is_only_touched_copied_or_not_imported_is_loaded(tmp_path, answer):
    first = tmp_path / "first"
    called = package(first, "from pkg.called import g", "g(x)")
    answer(first)
    called.touch()
    (called.parent / "other.py").write_text("changed = True\n")  # which nobody imports
    assert answer(first) == (2.0, 1)
    subprocess.run(["cp", "-a", first, tmp_path / "second"], check=True)
    assert answer(tmp_path / "second") == (2.0, 1)
    change(tmp_path / "second" / "pkg" / "called.py", "x + 7.0", date=LONG_AGO)
    assert answer(tmp_path / "second") == (8.0, 0)
    assert answer(first) == (2.0, 1)


def zipped(folder, archive):
    """Put what is in a folder into an archive from which it can be imported."""
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(folder.rglob("*.py")):
            opened.write(path, path.relative_to(folder))
    return archive


def test_what_lies_in_an_archive_is_kept_in_the_users_folder(tmp_path):
    called = package(tmp_path / "files", "from pkg.called import g", "g(x)")
    archive = zipped(tmp_path / "files", tmp_path / "pkg.zip")
    (tmp_path / "home").mkdir()
    with processes(XDG_CACHE_HOME=str(tmp_path / "home")) as answer:
        assert answer(archive) == (2.0, 0)
        assert answer(archive) == (2.0, 1)
        change(called, "x + 5.0", date=LONG_AGO)
        zipped(tmp_path / "files", archive)
        assert answer(archive) == (6.0, 0)
        assert answer(archive) == (6.0, 1)
    assert list((tmp_path / "home").rglob("*.nbc"))


DAMAGE = {
    "empty": lambda contents: b"",
    "cut": lambda contents: contents[: len(contents) // 2],
    "cut in its beginning": lambda contents: contents[:40],
    "garbage": lambda contents: b"\x80\x04garbage" * 99,
    "a bit": lambda contents: contents[:-9] + bytes([contents[-9] ^ 1]) + contents[-8:],
}


def test_damaged_files_are_not_there(tmp_path, answer):
    package(tmp_path, "from pkg.called import g", "g(x)")
    answer(tmp_path)
    for name, damage in DAMAGE.items():
        files = sorted((tmp_path / "pkg" / "__pycache__").glob("*.nbc"))
        assert len(files) == 2
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        assert answer(tmp_path) == (2.0, 0), name
        assert answer(tmp_path) == (2.0, 1), name


def unwritable(folder):
    """Leave no folder for what is kept beside a source: root may write wherever there is one."""
    (folder / "pkg" / "__pycache__").write_text("")


def test_what_lies_where_nothing_can_be_written_is_loaded(tmp_path, answer):
    package(tmp_path, "from pkg.called import g", "g(x)")
    answer(tmp_path)
    kept = tmp_path / "pkg" / "__pycache__"
    (tmp_path / "pkg").chmod(0o555)
    kept.chmod(0o555)
    try:
        assert answer(tmp_path) == (2.0, 1)
    finally:
        kept.chmod(0o755)
        (tmp_path / "pkg").chmod(0o755)


@pytest.mark.parametrize("home", ["", "relative", "/no/such/home"])
def test_without_a_home_it_is_kept_in_a_private_folder_and_nowhere_else(tmp_path, home):
    package(tmp_path / "code", "from pkg.called import g", "g(x)")
    unwritable(tmp_path / "code")
    (tmp_path / "temporary").mkdir()
    before = sorted(Path.cwd().iterdir())
    with processes(HOME=home, TMPDIR=str(tmp_path / "temporary"), XDG_CACHE_HOME="") as answer:
        assert answer(tmp_path / "code") == (2.0, 0)
        assert answer(tmp_path / "code") == (2.0, 1)
    (private,) = (tmp_path / "temporary").iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    assert sorted(Path.cwd().iterdir()) == before
    assert not Path("/no").exists() and not Path("/.cache/numba").exists()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = tmp_path / f"kernelswarm-{os.getuid()}"
    source = str(tmp_path / "source.py")
    assert not any(place.is_relative_to(tmp_path / folder) for place in places(source))
    assert any(place.is_relative_to(folder) for place in places(source, make=True))
    folder.chmod(0o777)
    assert not any(place.is_relative_to(folder) for place in places(source))


def test_without_any_folder_functions_are_compiled_and_it_is_said_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(kept_code, "places", lambda file, make=False: iter([tmp_path / "file"]))
    kept_code._say_once.cache_clear()

    def third(x):
        return x / 3.0

    def fourth(x):
        return x / 4.0

    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as caught:
        assert [cached_njit(third)(6.0), cached_njit(fourth)(6.0)] == [2.0, 1.5]
    assert len(caught) == 1
    kept_code._say_once.cache_clear()


def test_a_function_whose_machine_code_is_lost_is_computed_and_not_kept(tmp_path, monkeypatch):
    """llvmlite hands it over from a search in a set, which ends early where garbage is collected meanwhile."""
    monkeypatch.setattr(kept_code, "places", lambda file, make=False: iter([tmp_path]))

    def fifth(x):
        return x / 5.0

    def is_lost(library):
        library._compiled_object = None
        return compiled_object(library)

    compiled_object = codegen.CPUCodeLibrary._get_compiled_object
    monkeypatch.setattr(codegen.CPUCodeLibrary, "_get_compiled_object", is_lost)
    assert cached_njit(fifth)(10.0) == 2.0
    assert not list(tmp_path.iterdir())


def test_functions_in_no_file_are_compiled_each_time():
    names = {}
    exec(compile("def f(x):\n    return x + 2.0\n", "<a cell>", "exec"), names)
    kept = KeptCode(names["f"])
    assert kept.cache_path is None and not kept.is_there
    assert cached_njit(names["f"])(1.0) == 3.0


STAMPS = """
import sys
from pathlib import Path
import kernelswarm
from kernelswarm.sources import stamp
root = Path(kernelswarm.__file__).parent
for name in sys.argv[1:]:
    print(stamp(f"kernelswarm.{name}", str(root.joinpath(*name.split(".")).with_suffix(".py"))).hex())
"""


def test_every_compiled_layer_depends_on_what_it_calls_and_on_nothing_that_calls_it(tmp_path):
    """In a copy of the package, with dates that say nothing."""
    copy = tmp_path / "kernelswarm"
    ignored = shutil.ignore_patterns("__pycache__", "simulations")
    shutil.copytree(ROOT / "kernelswarm", copy, ignore=ignored, symlinks=False)
    modules = ["agents.nodes.rounds", "agents.learners.polk", "protocols.coupling", "graphs.adjacency"]

    def stamps():
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-c", STAMPS, *modules]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=tmp_path).stdout.split()

    def changed(place):
        before, file = stamps(), copy / place
        dates = file.stat()
        file.write_text(file.read_text() + "\n# changed\n")
        os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))
        return {name for name, one, other in zip(modules, before, stamps(), strict=True) if one != other}

    assert changed("protocols/coupling.py") == {"agents.nodes.rounds", "protocols.coupling"}
    assert changed("agents/parts/budgets.py") == {"agents.learners.polk"}
    assert changed("protocols/core/compiling.py") == set(modules) - {"graphs.adjacency"}
    assert changed("__init__.py") == set()


def test_what_is_edited_after_it_was_loaded_is_kept_as_what_it_was(tmp_path, monkeypatch):
    """A module that is loaded computes what its file said then; the next process must not take it for the new text."""
    file = tmp_path / "edited_later.py"
    file.write_text(
        "from kernelswarm.protocols.core.compiling import cached_njit\n\n\n@cached_njit\ndef f(x):\n    return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import edited_later

    before = stamp("edited_later", str(file))
    file.write_text(file.read_text() + "\n\nadded = 1\n")
    assert stamp("edited_later", str(file)) == before
    edited_later.f.enable_caching()  # as a module does that is loaded again
    assert stamp("edited_later", str(file)) != before
    del sys.modules["edited_later"]


SIMULATION = """
from kernelswarm import simulate
learner = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, "step_size": 0.3}
result = simulate(topology={"name": "ring", "nodes": 3}, stream="sine_regression", learner=learner,
                  protocol={"name": "consensus", "penalty": 10.0}, rounds=5, seed=0)
print(result.summary["final"]["risk"])
"""


def test_simulations_run_with_compilation_switched_off():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ways = ({}, {"NUMBA_DISABLE_JIT": "1"})
    command = [sys.executable, "-c", SIMULATION]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env={**env, **way}) for way in ways]
    assert runs[0].stdout == runs[1].stdout


APART = """
import sys
sys.path.insert(0, sys.argv[1])
from pkg.caller import added
found = None
for each in sys.argv[2:]:
    found = added(float(each), found)
print(found(1.0))
"""


def test_functions_of_one_name_that_two_processes_have_kept_do_not_run_for_each_other(tmp_path):
    # Each process gives its function the same number, by which numba's names for linking differ.
    code = """
def added(factor, other=None):
    @compiled
    def alone(x):
        return factor * x

    if other is None:
        return alone

    @compiled
    def both(x):
        return alone(x) + 10.0 * other(x)

    return both
"""
    package(tmp_path, "", "x", caller=code)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)

    def found(*factors):
        command = [sys.executable, "-c", APART, str(tmp_path), *map(str, factors)]
        return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)

    assert [found(3), found(5), found(3, 5), found(5, 3)] == [3.0, 5.0, 35.0, 53.0]


TUPLES = """
import sys
sys.path.insert(0, sys.argv[1])
from pkg.caller import first, turned
import one, other
for name in sys.argv[2:]:
    state = {"one": one, "other": other}[name].State(1.0, 2.0)
    print(first(state), type(turned(state)) is type(state))
"""


def test_functions_of_named_tuples_of_one_name_do_not_run_for_each_other(tmp_path):
    # As the states of two pages of numpy in two files: numba writes both types alike.
    code = """
@compiled
def first(state):
    return state.first

@compiled
def turned(state):
    return state
"""
    package(tmp_path, "", "x", caller=code)
    for name, fields in (("one", "first, second"), ("other", "second, first")):
        text = "from typing import NamedTuple\n\nclass State(NamedTuple):\n" + "".join(
            f"    {field}: float\n" for field in fields.split(", ")
        )
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)

    def found(*names):
        command = [sys.executable, "-c", TUPLES, str(tmp_path), *names]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split()

    assert [found("one"), found("other")] == [["1.0", "True"], ["2.0", "True"]]
    assert found("one", "other") == ["1.0", "True", "2.0", "True"]
    assert found("other", "one") == ["2.0", "True", "1.0", "True"]
