"""The time to go that whoever watches a comparison is shown."""

from __future__ import annotations

import pytest

from kernelswarm.simulations.comparison import comparison_runs
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress, Watcher
from kernelswarm.simulations.records.outcome import Run


class Clock:
    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(comparison_runs, "time", clock)
    return clock


def ended() -> Run:
    return Run(0, 0, {}, {"risk": 0.5}, failure="")


def test_time_to_go_follows_the_pace_since_the_first_rounds_and_is_not_said_without_one(clock: Clock) -> None:
    reports: list[ComparisonProgress] = []
    watcher = Watcher(["a", "b", "c", "d"], {0: ended()}, reports.append)
    clock.now += 30.0  # processes start
    watcher.show_progress()
    watcher.on_progress(1, 0.4)
    watcher.show_progress()  # the first rounds say nothing of how long they took
    clock.now += 2.0
    watcher.show_progress()
    assert [word.remaining for word in reports] == [None, None, None]
    watcher.on_progress(1, 0.8)
    watcher.on_progress(2, 0.4)
    watcher.show_progress()  # .8 of a run in 2 s, and 1.8 runs to go
    assert reports[-1].remaining == pytest.approx(4.5)
    clock.now += 5.0
    watcher.ended(1, ended())
    watcher.on_progress(2, 1.0)
    watcher.ended(3, ended())
    assert reports[-1].share == 1.0
    assert reports[-1].remaining is None  # the figures of a run are no rounds
    watcher.ended(2, ended())
    assert reports[-1].remaining == 0.0
