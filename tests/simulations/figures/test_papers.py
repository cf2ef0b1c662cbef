"""Figures for papers: formats, widths, letters and captions, what is drawn and over which axis, paired differences."""

from __future__ import annotations

import datetime
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures import cells, curves, functions, plots
from kernelswarm.simulations.figures.sheet import STYLES, Drawing
from kernelswarm.simulations.records.outcome import RANKED, gather
from kernelswarm.simulations.records.result import Result
from tests.simulations.figures.test_plots import FIELD, SINE, believable, pictures
from tests.simulations.figures.test_readable_figures import failed

PAPERS = ["paper", "two_column"]


def sending(protocol: Any = "consensus", share: float = 1.0, **more: Any) -> Result:
    """A run that has sent bytes."""
    result = believable(protocol, **more)
    scalars = share * np.asarray(result.network["scalars_sent"])
    return _with_columns(result, scalars_sent=scalars, bytes_sent=8 * scalars)


def _with_columns(result: Result, **columns: Any) -> Result:
    result.network = {**result.network, **columns}
    return result


def noisy(protocol: str, seeds: int) -> list[Result]:
    """Runs whose risks differ between seeds by more than rounding."""
    found = []
    for seed in range(seeds):
        result = sending(protocol, seed=seed)
        shift = np.random.default_rng([seed, len(protocol)]).normal()
        result.summary["final"]["risk"] += 0.1 * shift
        found.append(result)
    return found


def drawn_for_a_paper(folder: Path) -> list[Path]:
    """The figures of a run for a paper, one of a kind: model order and disagreement are curves as the risk is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "_stacked", lambda sheet, result, name, panels: None)
        return plots.draw(sending(parts=SINE), folder, "pdf,svg", "paper")


@pytest.fixture(scope="module")
def of_a_paper(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Figures as PDF and SVG; tests of what is on the screen draw them as PNG."""
    return drawn_for_a_paper(tmp_path_factory.mktemp("paper"))


def test_figures_are_the_same_bytes_in_every_format(
    of_a_paper: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {"format": "png,pdf,svg", "columns": "risk,error", "against": "bytes"}
    first = [*of_a_paper, *plots.draw(sending(), tmp_path / "a", **every)]

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime.datetime:
            return datetime.datetime(2031, 5, 6, tzinfo=tz)

    monkeypatch.setattr(datetime, "datetime", Later)
    second = drawn_for_a_paper(tmp_path / "b")
    second += plots.draw(sending(), tmp_path / "c", **every)
    names = [path.name for path in first]
    assert {"risk.pdf", "risk.svg", "functions.pdf", "network.svg", "error-bytes.svg"} <= set(names)
    assert {f"risk-error-bytes.{ending}" for ending in ("png", "pdf", "svg")} <= set(names)
    assert names == [path.name for path in second]
    assert sorted(of_a_paper) == sorted(of_a_paper[0].parent.iterdir())
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_letters_stay_letters(of_a_paper: list[Path]) -> None:
    for path in of_a_paper:
        content = path.read_bytes()
        if path.suffix == ".pdf":
            assert b"/Type3" not in content and b"/FontFile2" in content, path.name
            assert b"Date" not in content
        if path.suffix == ".svg":
            assert b"<text" in content and b"dc:date" not in content
    assert b"samples a node" in (of_a_paper[0].parent / "risk.svg").read_bytes()


@pytest.mark.parametrize("style", PAPERS)
def test_figures_of_papers_are_as_wide_as_their_columns(style: str, tmp_path: Path, blank: list[str]) -> None:
    runs = [sending(name, seed=seed) for name in ("isolated", "proximity") for seed in (0, 1)]
    drawn = plots.draw(runs[-1], tmp_path / "run", "pdf", style) + plots.draw_many(
        runs, tmp_path / "many", "pdf", style
    )
    points = 72 * (STYLES[style].width or 0.0)
    for path in drawn:
        if path.suffix == ".pdf":
            (box,) = re.findall(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", path.read_bytes())
            assert float(box[0]) == pytest.approx(points, abs=0.1), path.name
            assert float(box[1]) <= 9.5 * 72
    assert len(blank) > 10
    assert not any(blank)


@pytest.mark.parametrize("style", [*PAPERS, "screen"])
def test_the_name_of_an_axis_has_its_numbers_beside_it(style: str, tmp_path: Path, laid_out: list[Figure]) -> None:
    runs = [sending(name, nodes=count) for count in (4, 5) for name in ("isolated", "consensus")]
    plots.draw_many(runs, tmp_path, "pdf", style)
    axes = [ax for figure in laid_out for ax in figure.axes if ax.get_xlabel() == "samples a node"]
    assert len(axes) > 5
    assert all(ax.xaxis.get_tick_params()["labelbottom"] for ax in axes)


@pytest.mark.parametrize("style", [*PAPERS, "screen"])
def test_print_is_large_enough_and_covers_nothing(
    style: str, tmp_path: Path, laid_out: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    plots.draw(sending("proximity"), tmp_path, "pdf", style)
    plots.draw_many(noisy("isolated", 2) + noisy("consensus", 2), tmp_path, "pdf", style)
    monkeypatch.setattr(curves, "learning_curves", lambda sheet, result: None)  # of which it has no others
    monkeypatch.setattr(functions, "PANELS", 5)  # which fill no row whole, and leave a node out
    plots.draw(sending(parts=FIELD), tmp_path, "pdf", style)
    assert len(laid_out) > 15
    assert len(laid_out[-1].axes) == 5
    slack = 0 if style == "screen" else 1
    for figure in laid_out:
        panels = [ax.get_window_extent() for ax in figure.axes]
        legends = [*figure.legends, *(legend for ax in figure.axes if (legend := ax.get_legend()))]
        both = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
        texts = [*figure.texts, *(axis.label for axis in both), *(ax.title for ax in figure.axes)]
        texts = [text for text in texts if text.get_text()]
        for box in (drawn.get_window_extent() for drawn in [*legends, *texts]):
            assert box.x0 >= -slack and box.x1 <= figure.bbox.x1 + slack
            assert box.y0 >= -slack and box.y1 <= figure.bbox.y1 + slack
            assert not any(box.overlaps(panel.padded(-2)) for panel in panels)
        for axis in both:
            shown = [label for label in axis.get_ticklabels() if label.get_visible() and label.get_text()]
            spans = [label.get_window_extent() for label in shown]
            assert not any(one.padded(-1).overlaps(other.padded(-1)) for one, other in pairwise(spans))
        sizes = [label.get_fontsize() for axis in both for label in axis.get_ticklabels()]
        assert min([*sizes, *(text.get_fontsize() for text in texts)]) >= 7.0


def test_captions_of_figures_from_before_stay(tmp_path: Path) -> None:
    runs = [sending(name) for name in ("isolated", "consensus")]
    plots.draw_many(runs, tmp_path, "svg", "paper")
    before = (tmp_path / "captions.txt").read_text().splitlines()
    (tmp_path / "final.svg").unlink()
    plots.draw_many(runs, tmp_path, "svg", "paper", columns=["risk", "error"])
    after = (tmp_path / "captions.txt").read_text().splitlines()
    assert len(before) > 4
    assert after[:-1] == [line for line in before if not line.startswith("final: ")]
    assert after[-1].startswith("risk-error: ")


@pytest.mark.usefixtures("sketched")
def test_captions_say_what_titles_would(tmp_path: Path) -> None:
    result = failed(sending(), 3)
    drawn = plots.draw(result, tmp_path, "png", "paper")
    assert drawn[-1].name == "captions.txt"
    lines = dict(line.split(": ", 1) for line in drawn[-1].read_text("utf-8").splitlines())
    assert set(lines) == {path.stem for path in drawn[:-1]}
    assert lines["network"].startswith(
        "consensus (symmetric) · ring, 6 nodes · gaussian mixture · polk · seed 0; failed after round 75"
    )


def test_chosen_columns_are_the_panels_of_one_figure(tmp_path: Path, figures: list[Figure]) -> None:
    result = sending("proximity")
    drawn = plots.draw(result, tmp_path, columns="risk, violation,bytes_sent", against="rounds")
    assert pictures(drawn) == {"risk-violation-bytes_sent-rounds.png"}
    (figure,) = figures
    for ax, column in zip(figure.axes, ("risk", "violation", "bytes_sent"), strict=True):
        (line,) = ax.lines
        np.testing.assert_allclose(line.get_xdata(), result.network["round"])
        np.testing.assert_allclose(line.get_ydata(), result.network[column])
        assert ax.get_xlabel() == "rounds"
    assert pictures(plots.draw_many([result, sending("isolated")], tmp_path, columns=["error"])) == {"error.png"}


def test_errors_stand_over_the_bytes_that_were_sent_by_then(tmp_path: Path, sketched: list[Figure]) -> None:
    runs = [
        sending("isolated", 0.0),
        sending("consensus"),
        sending("centralized", 0.1),
        sending("consensus", 2.0, seed=1),
    ]
    drawn = plots.draw_many(runs, tmp_path)
    place = [path.name for path in drawn].index("error-bytes.png")
    (ax,) = sketched[place].axes
    lines = {line.get_label(): line for line in ax.lines if not str(line.get_label()).startswith("_")}
    assert list(lines) == ["isolated", "consensus", "centralized"]
    # Two seeds of consensus: the mean of both, and of what both have sent.
    bytes_sent = np.mean([run.network["bytes_sent"] for run in (runs[1], runs[3])], axis=0)
    np.testing.assert_allclose(lines["consensus"].get_xdata(), bytes_sent)
    errors = np.mean([run.network["error"] for run in (runs[1], runs[3])], axis=0)
    np.testing.assert_allclose(lines["consensus"].get_ydata(), errors)
    # What sends nothing has one place; its last error is a line across.
    level = np.asarray(lines["isolated"].get_ydata())
    np.testing.assert_allclose(level, runs[0].network["error"][-1])
    assert np.ptp(np.asarray(lines["isolated"].get_xdata())) > 0
    assert "the last value of what sends nothing" in " ".join(sketched[place].get_suptitle().split())


@pytest.mark.usefixtures("sketched")
def test_nothing_sent_has_no_figure_of_it(tmp_path: Path) -> None:
    silent = [sending("isolated", 0.0, parts=SINE, seed=seed) for seed in (0, 1)]
    for runs in (silent[:1], silent, [believable(parts=SINE)]):  # the last one is without the column
        drawn = plots.draw_many(runs, tmp_path)
        assert "risk.png" in {path.name for path in drawn}
        assert "error-bytes.png" not in {path.name for path in drawn}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"format": "pgn"}, 'format = "pgn" is unknown; did you mean "png"?'),
        ({"format": ""}, "format is empty"),
        ({"style": "papers"}, 'style = "papers" is unknown; did you mean "paper"?'),
        ({"against": "byte"}, 'against = "byte" is unknown'),
        ({"columns": "risk,eror"}, 'columns = "eror" was not measured; did you mean "error"?'),
    ],
)
def test_what_is_not_known_is_refused(words: dict[str, Any], message: str, tmp_path: Path) -> None:
    for runs in ([sending()], [sending()] * 2):
        with pytest.raises(InputError, match=re.escape(message)):
            plots.draw_many(runs, tmp_path, **words)
    assert Drawing.asked(("png", "svg", "png")).formats == ("png", "svg")


def test_differences_are_those_of_the_paired_test(tmp_path: Path, sketched: list[Figure]) -> None:
    runs = [*noisy("isolated", 7), *noisy("consensus", 7), *noisy("proximity", 6)]
    comparison = gather(runs)
    found = cells.to_references(comparison)
    assert list(found) == list(RANKED)
    for one in found["risk"]:
        protocol = comparison.cells[one.cell].protocol
        mine = [run.summary["final"]["risk"] for run in runs if run.config["protocol"]["name"] == protocol]
        alone = [run.summary["final"]["risk"] for run in runs[:7]][: len(mine)]
        test = stats.ttest_rel(mine, alone)
        low, high = test.confidence_interval(0.95)
        assert one.mean == pytest.approx(np.mean(np.subtract(mine, alone)))
        assert (one.mean - one.margin, one.mean + one.margin) == (pytest.approx(low), pytest.approx(high))
        assert not one.supported or test.pvalue < 0.05
    assert "differences.png" in {path.name for path in plots.draw_comparison(comparison, tmp_path)}
    supported = {one.cell: one.supported for one in found["global_error"]}
    assert any(supported.values())  # without noise every seed agrees
    drawn = [line for line in sketched[-1].axes[-1].lines if line.get_marker() in "o^"]
    faces = [to_hex(line.get_markerfacecolor()) != to_hex("white") for line in drawn]
    assert faces == list(supported.values())


def test_one_seed_has_no_differences() -> None:
    assert cells.to_references(gather([sending("isolated"), sending("consensus")])) == {}


def test_many_cells_are_spread_over_pages(
    tmp_path: Path, sketched: list[Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "learning_curves", lambda sheet, comparison: None)  # which have no line for a cell
    sweep = [sending({"name": "consensus", "penalty": float(k)}) for k in range(30)]
    drawn = plots.draw_many(sweep, tmp_path, "pdf", "paper")
    finals = [figure for path, figure in zip(drawn, sketched, strict=False) if path.name.startswith("final")]
    assert len(finals) == len(cells.measured(gather(sweep)))
    assert all(figure.get_figheight() < 9.5 for figure in finals)
    assert [len(ax.get_yticks()) for figure in finals for ax in figure.axes] == [30] * len(finals)


def test_final_values_have_the_bytes_that_the_table_has() -> None:
    sweep = [sending({"name": "consensus", "penalty": float(k)}) for k in range(2)]
    for place, result in enumerate(sweep):
        result.summary["final"] |= {"scalars_sent": 100.0 + place, "bytes_sent": 800.0 + 8 * place}
    measured = cells.measured(gather(sweep))
    assert "bytes_sent" in measured
    assert "scalars_sent" not in measured


def test_a_sweep_goes_from_dark_to_light() -> None:
    from matplotlib.colors import rgb_to_hsv, to_rgb

    from kernelswarm.simulations.figures.style import strokes

    lights = [np.mean(to_rgb(stroke.color)) for stroke in strokes(["consensus"] * 12)]
    assert np.all(np.diff(lights) > 0)
    assert all(rgb_to_hsv(to_rgb(stroke.color))[1] > 0.2 for stroke in strokes(["consensus"] * 12))
