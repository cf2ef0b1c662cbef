"""Processes of a comparison: one that dies loses its own run, and none outlives what it was started for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from kernelswarm.simulations.core import parallel
from tests.helpers import interrupts
from tests.helpers.checkout import ROOT


def square_or_die(task: int, tell: Callable[[float], None]) -> int:
    tell(0.5)
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def test_a_killed_process_loses_its_own_task_only() -> None:
    reports: list[list[float]] = []
    found = dict(parallel.answers(square_or_die, [0, 1, 2, 3], 2, lambda shares: reports.append(list(shares))))
    lost = found.pop(2)
    assert found == {0: 0, 1: 1, 3: 9}
    assert isinstance(lost, parallel.Lost) and "SIGKILL" in lost.cause and "memory" in lost.cause
    assert multiprocessing.active_children() == []


def its_part(task: int, tell: Callable[[float], None]) -> int:
    return parallel.cores()


def test_processes_share_the_cores() -> None:
    """So that none takes a thread for each core, of which there is one for each process."""
    whole = parallel.cores()
    assert set(dict(parallel.answers(its_part, [0], 1, lambda shares: None)).values()) == {whole}
    assert set(dict(parallel.answers(its_part, [0, 1, 2], 2, lambda shares: None)).values()) == {max(1, whole // 2)}
    assert parallel.cores() == whole


def test_processes_end_with_the_iteration() -> None:
    answers = parallel.answers(square_or_die, [0, 1, 3, 4, 5], 2, lambda shares: None)
    next(answers)
    assert multiprocessing.active_children() != []
    answers.close()
    assert multiprocessing.active_children() == []


def test_an_unguarded_script_is_refused_with_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from kernelswarm.simulations.core import parallel\n"
        "print(list(parallel.answers(print, [1, 2], 2, lambda shares: None, what='the choir')))\n"
    )
    run = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert 'if __name__ == "__main__"' in last and "each reads this script again" in last
    assert "the processes of the choir could not start" in last
    assert run.stderr.count("Traceback") == 1  # the script's own: its processes say nothing


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import itertools
            from kernelswarm.simulations.core import parallel

            def endless(task, tell):
                for k in itertools.count():
                    tell(k / (k + 1))

            if __name__ == "__main__":
                say = lambda shares: min(shares) > 0 and print("running", flush=True)
                list(parallel.answers(endless, [1, 2], 2, say, every=0.01))
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=interrupts.listen,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # ends when the last process has closed its output
    assert process.returncode != 0
    assert errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors  # the parent's own, none of its processes
