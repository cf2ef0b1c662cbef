"""What tests of comparisons share: no figures, and no run where none should begin."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelswarm.simulations.figures import plots
from kernelswarm.simulations.running import simulation as running


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take longer than these runs, and are drawn from what the tests look at."""
    monkeypatch.setattr(plots, "draw_comparison", lambda comparison, folder, *how: [])


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let no run begin from here on."""
    return lambda: monkeypatch.setattr(running, "simulate", lambda *_, **__: pytest.fail("it ran"))
