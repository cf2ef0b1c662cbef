"""What is shown of runs that go on: under the bar on a terminal, in plain lines every so often elsewhere."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from kernelswarm.simulations.command import progress
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.engine.engine import Pace, Paces
from kernelswarm.simulations.running.state import Progress

ROW = {"round": 100, "risk": 0.25, "model_order": 17.0, "disagreement": 0.03, "messages": 4000.0}
RUN = Progress("running", 200, 500, ROW, 50.0, remaining=6.0)
COMPARISON = ComparisonProgress(3, 12, 1, 0.3, "isolated, seed 0: risk 0.25", 200.0)


def written(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress, "LINES_EVERY", 30.0)  # which the suite has put beyond all tests
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_run_says_risk_disagreement_pace_memory_and_time_left() -> None:
    line = progress.of_run(RUN, "0.30 GB")
    # 40 messages in each of the measured rounds, 50 rounds a second, 300 rounds to go.
    assert line == (
        "round 200 of 500, 50 rounds/s, 2,000 messages/s, 6 s to go, "
        "risk 0.25, model order 17.0, disagreement 0.03, 0.30 GB"
    )
    alone = Progress("running", 200, 500, {**ROW, "disagreement": 0.0, "messages": 0.0}, 50.0)
    assert "disagreement" not in progress.of_run(alone, "") and "messages" not in progress.of_run(alone, "")
    assert progress.of_run(Progress("starting", 1, 4, None, 0.0), "") == "starting"
    assert progress.slowest(RUN) == ""


def test_on_a_terminal_the_figures_stand_under_the_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    with progress.watch_run(False, console) as observe:
        assert observe is not None
        observe(replace(RUN, paces=Paces((Pace((7,), 0.0031), Pace((1, 2, 5), 0.002)), 0.0012, 40)))
    shown = written(console)
    slowest = "slowest: node 7 3.1 ms, nodes 1, 2, ... 2 ms a round; median of 40 processes 1.2 ms"
    for text in (
        slowest,
        "200/500",
        "risk 0.25, model order 17.0, disagreement 0.03",
        "50 rounds/s, 2,000 messages/s",
        " GB",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("watch", "word", "text"),
    [
        (progress.watch_run, RUN, "round 200 of 500"),
        (
            progress.watch_comparison,
            COMPARISON,
            "3 of 12 runs, 1 failed, 30% of all rounds, 3 min 20 s to go",
        ),
    ],
)
def test_elsewhere_there_is_a_line_every_so_often(watch: Any, word: Any, text: str, clock: list[float]) -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with watch(False, console) as observe:
        for now in (0.0, 29.0, 31.0, 32.0, 60.0, 62.0):
            clock[0] = now
            observe(word)
    lines = written(console).splitlines()
    assert len(lines) == 2  # at 31 and 62 seconds
    assert all(line.startswith(f"kernelswarm: {text}") for line in lines)


def test_a_reproduction_says_every_so_often_what_is_done_and_when_it_will_end(clock: list[float]) -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with progress.watch_reproduction(False, console) as observe:
        assert observe is not None
        for now, share in ((0.0, 0.0), (29.0, 0.1), (40.0, 0.25), (41.0, 0.26), (300.0, 0.75)):
            clock[0] = now
            observe(f"part {now:g}", share)
    lines = written(console).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("kernelswarm: 25% done, 2 min 0 s to go, part 40, ")  # three times the 40 s so far
    assert lines[1].startswith("kernelswarm: 75% done, 1 min 40 s to go, part 300, ")
    assert all(line.endswith(" GB") for line in lines)
    assert progress.of_share("steps", 0.0, 50.0, "") == "0% done, steps"  # no pace, and no time to go
