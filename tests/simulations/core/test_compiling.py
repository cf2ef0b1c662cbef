"""Compiling is said once and counted apart: it is no part of the time that a run takes."""

from __future__ import annotations

import importlib
import io
import sys
import time
from pathlib import Path
from typing import Any

import numba
import pytest
from rich.console import Console

from kernelswarm.simulations.command import progress
from kernelswarm.simulations.comparison import compare as module
from kernelswarm.simulations.comparison import comparison_runs
from kernelswarm.simulations.core.compiling import Compilation, waiting, watch_compilation
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import Progress, simulate

TABLE: dict[str, Any] = {
    "rounds": 60,
    "evaluate_every": 20,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sine_regression"},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}},
    "protocol": {"name": "consensus"},
    "evaluation": {"local_samples": 20, "global_samples": 40},
}

jitted = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def compile_something() -> None:
    @numba.njit
    def inner(value: float) -> float:
        return value + 1.0

    @numba.njit
    def outer(value: float) -> float:
        return float(inner(value) * 2.0)

    assert outer(1.0) == 4.0


@jitted
def test_what_is_compiled_is_counted_and_timed() -> None:
    counts: list[int] = []
    with watch_compilation(lambda compilation: counts.append(compilation.functions)) as compilation:
        assert (compilation.functions, compilation.seconds) == (0, 0.0)
        clock = time.perf_counter()
        compile_something()
        spent = time.perf_counter() - clock
    assert compilation.functions >= 2
    assert counts == sorted(counts)
    assert 0.0 < compilation.seconds <= spent  # one inside the other is not counted twice
    before = compilation.seconds
    compile_something()  # nobody listens any more
    assert compilation.seconds == before


@jitted
def test_functions_that_are_loaded_from_the_disk_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cached_by_the_tests_of_compiling"
    text = "import numba\n@numba.njit(cache=True)\ndef f(x):\n    return x + 1.0\n"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    counts = []
    for _ in range(2):
        monkeypatch.delitem(sys.modules, name, raising=False)  # imported anew, as by another process
        function = importlib.import_module(name).f
        with watch_compilation() as compilation:
            assert function(1.0) == 2.0
        counts.append(compilation.functions)
    assert counts == [1, 0]


@jitted
def test_compiling_is_no_part_of_a_runs_seconds_or_rate() -> None:
    compiled = 0.0

    def observe(seen: Progress) -> None:
        nonlocal compiled
        if seen.phase == "running" and not compiled:
            with watch_compilation() as compilation, waiting():
                time.sleep(0.5)
            compiled = compilation.seconds

    simulate(Experiment.from_dict(TABLE))  # so that the second one only loads
    summary = simulate(Experiment.from_dict(TABLE), observe).summary
    assert compiled >= 0.5
    assert summary["compile_seconds"] == pytest.approx(compiled, rel=0.05)
    seconds = summary["final"]["seconds"]
    assert seconds + summary["compile_seconds"] <= summary["wall_seconds"]
    assert summary["node_rounds_per_second"] == pytest.approx(4 * 60 / seconds)


@jitted
@pytest.mark.parametrize("watch", [progress.watch_run, progress.watch_comparison, progress.watch_reproduction])
@pytest.mark.parametrize("terminal", [False, True], ids=["file", "terminal"])
def test_long_compiling_is_said_also_where_there_is_no_terminal(
    watch: Any, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "WORTH_A_WORD", 60.0)
    shown = io.StringIO()
    with watch(False, Console(file=shown, force_terminal=terminal, width=150)), waiting():
        pass
    assert "compiling" not in shown.getvalue()  # too short to be worth a word
    monkeypatch.setattr(progress, "WORTH_A_WORD", 0.0)
    shown = io.StringIO()
    with watch(False, Console(file=shown, force_terminal=terminal, width=150)):
        for _ in range(2):
            with waiting(), waiting():  # as numba announces a function, and one inside it
                pass
    assert "compiling, once" in shown.getvalue()
    if not terminal:
        assert shown.getvalue().count("\n") == 1
    shown = io.StringIO()
    with watch(True, Console(file=shown, force_terminal=terminal)), waiting():
        pass
    assert shown.getvalue() == ""


def test_a_comparison_compiles_once_before_its_processes_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[str] = []
    monkeypatch.setattr(
        comparison_runs, "warm_cache", lambda plans, apart: rehearsed.append(type(plans[0].learner).__name__)
    )
    vary = {"learner.name": ["polk", "ogd"], "protocol.name": ["isolated", "consensus"]}
    module.compare(Experiment.from_dict({**TABLE, "rounds": 2}), vary, jobs=1)
    assert rehearsed == []
    comparison_runs.compile_once(list(module._tasks(Experiment.from_dict(TABLE), module.cells(TABLE, vary), 2)))
    assert sorted(rehearsed) == ["Ogd", "Polk"]


def test_the_time_of_a_compilation_that_goes_on_is_known() -> None:
    compilation = Compilation()
    compilation.begin()
    compilation.begin()
    assert 0.0 < compilation.seconds < compilation.seconds
    compilation.end()
    compilation.end()
    assert compilation.seconds == compilation.seconds
    assert compilation.functions == 2
