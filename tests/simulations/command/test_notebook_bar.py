"""A notebook shows a bar for what takes long, and nothing else does; it goes away, and changes no bit."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kernelswarm import compare, simulate
from kernelswarm.simulations.command import notebook_bar
from kernelswarm.simulations.core.errors import SimulationError
from tests.helpers.small_comparisons import experiment


class Cell:
    """In the place of a cell's output: what it shows, one after another."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw and display_id and not self.shown
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        self.shown.append(data)

    @property
    def shares(self) -> list[float]:
        return [float(share) for one in self.shown for share in re.findall(r'value="([\d.]+)"', str(one))]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    found = Cell()
    shell: Any = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=found.display))  # type: ignore[misc]
    monkeypatch.setattr(notebook_bar, "WAITS", 0.0)
    monkeypatch.setattr(notebook_bar, "REFRESHED", 0.0)
    return found


def test_a_bar_grows_to_the_end_and_goes_away(cell: Cell) -> None:
    found = simulate(experiment())
    assert cell.shares == sorted(cell.shares) and cell.shares[-1] == 1.0
    assert f"risk {found.final['risk']:.4g}" in cell.shown[-2]["text/plain"]
    assert cell.shown[-1] == {"text/plain": ""}


def test_a_comparison_has_one_bar_for_all_its_runs(cell: Cell) -> None:
    compare(experiment(), {"protocol.name": ["isolated", "consensus"]}, seeds=2, jobs=1)
    assert cell.shares[-1] == 1.0 and "4 of 4 runs" in cell.shown[-2]["text/plain"]
    assert cell.shown[-1] == {"text/plain": ""}


def test_a_bar_goes_away_where_a_run_fails(cell: Cell) -> None:
    def broken(state: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(SimulationError):
        simulate(experiment(), callbacks=[broken])
    assert cell.shown[-1] == {"text/plain": ""}


def test_no_bar_is_shown_of_what_is_watched_is_short_or_runs_elsewhere(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(experiment(), lambda progress: None)
    monkeypatch.setattr(notebook_bar, "WAITS", 60.0)
    simulate(experiment())
    monkeypatch.setattr(notebook_bar, "WAITS", 0.0)
    shell = SimpleNamespace()  # a terminal's, without a kernel
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[misc]
    simulate(experiment())
    monkeypatch.delitem(sys.modules, "IPython")
    simulate(experiment())
    assert cell.shown == []
