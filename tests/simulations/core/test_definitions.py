"""Parts that a notebook defines, or a program that was typed in, travel to the processes of a comparison."""

import subprocess
import sys
import threading
from ast import literal_eval
from dataclasses import make_dataclass
from types import ModuleType

import pytest

from kernelswarm.simulations.core.compiling import hidden_script, is_script, packed
from kernelswarm.simulations.core.errors import InputError
from tests.helpers.checkout import ROOT

PROGRAM = """
import threading
from dataclasses import dataclass
from kernelswarm import build_experiment, compare, simulate
from kernelswarm.agents.parts.losses import Squared

SIZE = 2.0
lock = threading.Lock()

def sized(values):
    return SIZE * values

@dataclass(frozen=True)
class Mine(Squared):
    def values(self, predictions, targets):
        {locked}
        return sized(super().values(predictions, targets))

learner = {{"name": "polk", "step_size": 0.3, "loss": Mine(), "kernel": {{"name": "gaussian", "bandwidth": 0.1}}}}
experiment = build_experiment(topology={{"name": "ring", "nodes": 3}}, stream="sine_regression", learner=learner,
                              protocol="consensus", rounds=5)
if __name__ == "__main__":
    vary = {{"protocol.name": ["isolated", "consensus"]}}
    found = [compare(experiment, vary, jobs=jobs, out={out}) for jobs in {jobs}]
    print([[run.digest or run.failure for run in each.runs] for each in found])
"""


def typed_in(folder, jobs, out=None, locked=""):
    text = PROGRAM.format(jobs=jobs, out=out, locked=locked)
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=folder, env=env)


def test_processes_know_the_classes_of_a_program_in_no_file(tmp_path) -> None:
    run = typed_in(tmp_path, [1, 2])
    assert run.returncode == 0, run.stderr
    one, two = literal_eval(run.stdout)
    assert one == two
    assert all(len(digest) == 64 for digest in one)


def test_runs_with_folders_know_them_too(tmp_path) -> None:
    run = typed_in(tmp_path, [2], out=repr(str(tmp_path / "out")))
    assert run.returncode == 0, run.stderr
    ((first, second),) = literal_eval(run.stdout)
    assert len(first) == len(second) == 64


def test_what_cannot_travel_is_refused_in_words(tmp_path) -> None:
    run = typed_in(tmp_path, [2], locked="lock.acquire()")
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("kernelswarm.simulations.core.errors.InputError: sending Mine, defined in this program")
    assert "cannot pickle" in last


def test_a_class_that_was_defined_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    first, again = (make_dataclass("Mine", ["size"], namespace={"__module__": "__main__"}) for _ in range(2))
    notebook.Mine = first  # type: ignore[attr-defined]
    assert packed([{"loss": [first(2.0)]}]) and packed(["__main__:Mine"]) and not packed(["sine_regression", 3.0])
    notebook.Mine = again  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="Mine was defined again after a part was made of it"):
        packed([first(2.0)])


def test_a_script_is_hidden_by_one_thread_at_a_time_and_is_there_afterwards() -> None:
    script, hidden, goes_on, order = sys.modules["__main__"], threading.Event(), threading.Event(), []

    def first() -> None:
        with hidden_script():
            hidden.set()
            assert goes_on.wait(60)
            order.append("first")

    def second() -> None:
        with hidden_script():
            order.append("second")

    def third() -> None:
        found.append(is_script())

    was, found = is_script(), []
    threads = [threading.Thread(target=hide) for hide in (first, second, third)]
    threads[0].start()
    assert hidden.wait(60)
    for thread in threads[1:]:
        thread.start()
        thread.join(0.2)
        assert (order, found) == ([], [])
    goes_on.set()
    for thread in threads:
        thread.join(60)
    assert order == ["first", "second"]
    assert found == [was]
    assert sys.modules["__main__"] is script
