"""A comparison of drawn values: the same in one go, in parts and extended; its files hold what was drawn."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest

from kernelswarm.simulations.comparison.compare import compare, read
from kernelswarm.simulations.experiment.variation import RandomValues, draw
from kernelswarm.simulations.figures import cells, plots, sheet
from kernelswarm.simulations.figures.plots import draw_comparison
from kernelswarm.simulations.report import tables as report
from tests.helpers.small_comparisons import counts, experiment, figures, killed

STEP, PENALTY = "learner.step_size", "protocol.penalty"
FEW, MANY = {STEP: "log:0.05:0.5:2"}, {STEP: "log:0.05:0.5:3"}


def test_in_parts_resumed_and_extended_it_is_what_it_is_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "draw_comparison", lambda *_: [])
    small = experiment(rounds=10, evaluate_every=5)
    whole = compare(small, MANY, 2, jobs=1)
    parts = tmp_path / "parts"
    killed(parts, small, FEW, 2, share=0.5)
    again = compare(small, MANY, 2, jobs=1, out=parts)
    assert counts(again)["reused"] >= 1 and sum(counts(again).values()) == 6
    assert figures(again) == figures(whole)
    found = read(parts)
    assert figures(found) == figures(whole) and found.drawn == {STEP: RandomValues("log", 0.05, 0.5, 3)}
    values = sorted(draw({STEP: RandomValues("log", 0.05, 0.5, 3)}, 3)[STEP])
    for run in again.runs:
        assert run.folder is not None
        config = tomllib.loads((run.folder / "config.toml").read_text("utf-8"))
        assert config["learner"]["step_size"] == values[run.cell]
    rows = list(csv.DictReader((parts / "comparison.csv").read_text("utf-8").splitlines()))
    assert [float(row[STEP]) for row in rows] == values
    text = (parts / "comparison.txt").read_text("utf-8")
    assert "drawn: learner.step_size = log:0.05:0.5:3" in text
    column = [line.split()[0] for line in text.splitlines() if line[:1] == "0"][:3]
    assert column == [f"{value:#.3g}" for value in values]
    # Another seed draws others, in the same folder.
    other = compare(small.other({**small.to_dict(), "seed": 4}), FEW, 1, jobs=1, out=parts)
    assert [cell.drawn[STEP] for cell in other.cells] == sorted(
        draw({STEP: RandomValues("log", 0.05, 0.5, 2)}, 4)[STEP]
    )


def test_figures_stand_over_each_drawn_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vary = {**FEW, PENALTY: "uniform:0.01:0.1:2", "protocol.name": ["isolated", "consensus"]}
    monkeypatch.setattr(sheet, "save", lambda figure, path: path)
    found = compare(experiment(rounds=10, evaluate_every=5), vary, 1, jobs=1)
    drawn = {path.stem for path in draw_comparison(found, tmp_path)}
    assert {"drawn-risk", "drawn-error", "drawn-model_order", "risk"} <= drawn
    steps, penalties = report.of_comparison(found)[0]["columns"][:2]  # of the page, which sorts by numbers
    assert steps["cells"] == pytest.approx([cell.drawn[STEP] for cell in found.cells])
    assert penalties["cells"][0] is None and penalties["shown"][0] == "–"
    monkeypatch.setattr(cells, "CURVES", 1)
    drawn = {path.stem for path in draw_comparison(found, tmp_path / "many")}
    assert "drawn-risk" in drawn and "risk" not in drawn
