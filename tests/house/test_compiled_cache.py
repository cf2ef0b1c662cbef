"""What is kept compiled never outlives the sources that it came from, and outlives the change of others."""

import os
import shutil
import subprocess
import sys

import pytest

from kernelswarm.compiled_cache import drop_stale
from tests.helpers.checkout import ROOT

ROOTED = "kernelswarm"  # of modules that are made up here


def written(path, age, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def kept(source, age, function="f-1"):
    """The two files that numba keeps of a function."""
    names = [f"{source.stem}.{function}.py311.{kind}" for kind in ("nbi", "nbc")]
    return [written(source.parent / "__pycache__" / name, age) for name in names]


def there(files):
    return [file.exists() for file in files]


def test_compiled_functions_older_than_what_they_call_are_dropped(tmp_path):
    caller = written(tmp_path / "first" / "caller.py", 50, f"from {ROOTED}.second.called import g\n")
    written(tmp_path / "second" / "called.py", 10)
    old, fresh = kept(caller, 20), kept(caller, 5, "g-1")
    other = written(tmp_path / "first" / "__pycache__" / "caller.cpython-311.pyc", 90)
    drop_stale(tmp_path, ["first", "second"])
    assert there(old) == [False, False]
    assert there(fresh) == [True, True]
    assert other.exists()


@pytest.mark.parametrize(
    "line",
    [
        f"from {ROOTED}.rooms.inner import called",
        f"from {ROOTED}.rooms.inner import (\n    another,\n    called,\n)",
        f"from {ROOTED}.rooms.inner.called import (\n    f,\n)",
        f"def f():\n    from {ROOTED}.rooms.inner.called import f",
        f"from {ROOTED}.rooms.between import h",
    ],
)
def test_every_way_to_come_by_a_function_counts(tmp_path, line):
    written(tmp_path / "rooms" / "inner" / "called.py", 10)
    written(tmp_path / "rooms" / "between.py", 50, f"from {ROOTED}.rooms.inner import called as same\n")
    old = kept(written(tmp_path / "rooms" / "caller.py", 50, f"{line}\n"), 20)
    drop_stale(tmp_path, ["rooms"])
    assert there(old) == [False, False]


def test_what_holds_nothing_of_a_changed_file_is_kept(tmp_path):
    first = written(tmp_path / "rooms" / "first.py", 50, f"from {ROOTED}.rooms.third import h\n")
    second = written(tmp_path / "rooms" / "second.py", 50, f"from {ROOTED}.rooms.first import f\n")
    third = written(tmp_path / "rooms" / "third.py", 50)
    files = {source: kept(source, 30) for source in (first, second, third)}
    written(first, 20, first.read_text())
    drop_stale(tmp_path, ["rooms"])
    assert [there(files[source]) for source in (first, second, third)] == [[False] * 2, [False] * 2, [True] * 2]
    written(third, 10)  # what was found to be fresh is not taken for fresh after a later change
    drop_stale(tmp_path, ["rooms"])
    assert there(files[third]) == [False, False]


def test_functions_of_files_that_are_gone_are_dropped(tmp_path):
    written(tmp_path / "rooms" / "called.py", 10)
    old = kept(tmp_path / "rooms" / "removed.py", 20)
    drop_stale(tmp_path, ["rooms"])
    assert there(old) == [False, False]


def test_other_folders_and_those_without_anything_compiled_are_left_alone(tmp_path):
    old = kept(tmp_path / "elsewhere" / "caller.py", 20)
    called = written(tmp_path / "rooms" / "called.py", 10)
    drop_stale(tmp_path, ["rooms", "nowhere"])
    assert there(old) == [True, True]
    assert list(called.parent.iterdir()) == [called]


CALLS = f"""
import os, sys
import numba  # once for all, which takes longer than what is done with it
for line in sys.stdin:
    if not os.fork():
        from {ROOTED}.agents.caller import f
        print(f(1.0), sum(f.stats.cache_hits.values()), flush=True)
        os._exit(0)
    os.wait()
"""
"""For each line, a new process that imports the caller and calls it."""


def test_a_change_in_a_called_file_is_computed_with(tmp_path):
    """With numba itself: the caller's own file stays as it is, and the function inside the one it calls changes."""
    package = tmp_path / "kernelswarm"
    (package / "protocols").mkdir(parents=True)
    (package / "agents").mkdir()
    shutil.copy(ROOT / "kernelswarm" / "compiled_cache.py", package)
    (package / "__init__.py").write_text(
        "from pathlib import Path\nfrom kernelswarm.compiled_cache import drop_stale\n"
        "drop_stale(Path(__file__).parent, ['agents', 'protocols'])\n"
    )
    compiled = "import numba\n{line}\n@numba.njit(cache=True)\ndef {name}(x):\n    return {value}\n"
    called, other = package / "protocols" / "called.py", package / "protocols" / "other.py"
    line = f"from {ROOTED}.protocols.called import g"
    (package / "agents" / "caller.py").write_text(compiled.format(line=line, name="f", value="g(x)"))

    program = [sys.executable, "-c", CALLS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, cwd=tmp_path, text=True, bufsize=1, **pipes) as calls:

        def answer():
            print(file=calls.stdin, flush=True)
            return calls.stdout.readline().split()

        for value, hits in (("x + 1.0", 0), ("x + 1.0", 1), ("x + 5.0", 0)):
            text = compiled.format(line="", name="g", value=value)
            if not called.exists() or called.read_text() != text:
                called.write_text(text)
            assert answer() == [str(eval(value, {"x": 1.0})), str(hits)]
        other.write_text("changed = True\n")  # which nobody imports
        assert answer() == ["6.0", "1"]
