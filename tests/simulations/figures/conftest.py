"""What tests of figures share: the figures themselves, as they are saved."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from kernelswarm.simulations.figures import sheet


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved while the test runs."""
    saved: list[Figure] = []
    save = sheet.save

    def keep(figure: Figure, path: Path) -> Path:
        saved.append(figure)
        return save(figure, path)

    monkeypatch.setattr(sheet, "save", keep)
    return saved


@pytest.fixture
def laid_out(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be saved while the test runs, laid out as for a file: the pixels take longest."""
    saved: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        saved.append(figure)
        figure.draw_without_rendering()
        return path

    monkeypatch.setattr(sheet, "save", keep)
    return saved
