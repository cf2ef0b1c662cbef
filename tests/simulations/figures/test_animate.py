"""Animations: what each frame shows, how large the file is, and what is refused."""

from __future__ import annotations

import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from PIL import Image

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures import animation as module
from kernelswarm.simulations.figures.animation import Picture, animate, moments
from kernelswarm.simulations.figures.network import drawn_edges
from kernelswarm.simulations.figures.sheet import look
from kernelswarm.simulations.records.result import Result
from tests.simulations.figures.test_plots import SINE, believable


def test_a_moment_holds_what_was_measured_then() -> None:
    result = believable("proximity")
    found = moments(result, 60)
    assert [moment.round for moment in found] == result.network["round"].tolist()
    for moment in found:
        nodes, edges = (table["round"] == moment.round for table in (result.nodes, result.edges))
        np.testing.assert_array_equal(list(moment.risks.values()), result.nodes["risk"][nodes])
        for (i, j), gap in moment.differences.items():
            ends = (result.edges["source"], result.edges["target"])
            both = edges & (((ends[0] == i) & (ends[1] == j)) | ((ends[0] == j) & (ends[1] == i)))
            assert both.sum() == 2
            assert gap == pytest.approx(np.mean(result.edges["constraint"][both]))
            assert moment.duals[i, j] == pytest.approx(np.mean(result.edges["dual"][both]))


def briefly(result: Result, rows: int = 3) -> Result:
    """The same run, measured so many times: every moment is a picture that is drawn."""
    last = np.unique(result.network["round"])[rows - 1]
    tables = [
        {name: column[table["round"] <= last] for name, column in table.items()} if table else table
        for table in (result.nodes, result.network, result.edges)
    ]
    return replace(result, nodes=tables[0], network=tables[1], edges=tables[2])


Pictures = tuple[list[np.ndarray], np.ndarray | None]


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    """Three moments and what was learned, for all tests of what is made of pictures: to draw them takes longest."""
    result = briefly(believable())
    frames, last = module._frames(result, moments(result, 60), 40)
    for picture in [*frames, last]:
        assert picture is not None
        picture.flags.writeable = False
    return frames, last


@pytest.fixture
def drawn_before(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take these pictures in place of those that a call asks for."""
    monkeypatch.setattr(module, "_frames", lambda result, found, dots: pictures)


@pytest.fixture(scope="module")
def drawn(pictures: Pictures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of these pictures, for all tests that look at such a one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_frames", lambda result, found, dots: pictures)
        return animate(briefly(believable()), tmp_path_factory.mktemp("drawn") / "a.gif", dots=40)


def test_of_many_evaluations_an_even_selection_is_shown() -> None:
    rounds = [moment.round for moment in moments(believable(), 3)]
    assert rounds == [25, 125, 200] or rounds == [25, 100, 200]


def test_colours_curves_and_widths_are_those_of_the_moment() -> None:
    result = briefly(believable("proximity"))
    found = moments(result, 60)
    with look():
        picture = Picture(result, found, 50)
        frames = [picture.frame(moment) for moment in found]
        figure = picture._figure
        ax = next(ax for ax in figure.axes if any(isinstance(c, PathCollection) for c in ax.collections))
        dots = next(drawn for drawn in ax.collections if isinstance(drawn, PathCollection))
        lines = next(drawn for drawn in ax.collections if isinstance(drawn, LineCollection))
        for moment in (found[0], found[-1]):
            picture.frame(moment)
            risks = [moment.risks[node] for node in sorted(result.graph)]
            np.testing.assert_allclose(dots.get_facecolor(), picture._bars[0].to_rgba(risks))
            gaps = [moment.differences[edge] for edge in drawn_edges(result)]
            np.testing.assert_allclose(lines.get_color(), picture._bars[1].to_rgba(gaps))
            duals = np.array([moment.duals[edge] for edge in drawn_edges(result)])
            order = np.argsort(duals)
            assert np.all(np.diff(np.asarray(lines.get_linewidth())[order]) >= 0)
            panel = next(ax for ax in figure.axes if ax.get_ylabel().startswith("risk") and ax.lines)
            faint, risk, pale, pooled = (line for line in panel.lines if line.get_linestyle() != "None")
            for whole, name in ((faint, "risk"), (pale, "global_risk")):  # also in the first picture
                np.testing.assert_allclose(whole.get_ydata(), result.network[name])
            seen = result.network["samples"] <= moment.samples
            np.testing.assert_allclose(risk.get_ydata(), result.network["risk"][seen])
            np.testing.assert_allclose(pooled.get_ydata(), result.network["global_risk"][seen])
            legend = panel.get_legend()
            assert legend is not None and legend.get_window_extent().y0 >= panel.get_window_extent().y1
    assert len({frame.shape for frame in frames}) == 1
    assert all((one != other).any() for one, other in pairwise(frames))


def frames_of(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        found = []
        for place in range(image.n_frames):
            image.seek(place)
            found.append(np.asarray(image.convert("RGB"), dtype=int))
        return found


def test_the_file_has_a_frame_for_each_moment_and_one_for_what_was_learned(drawn: Path, tmp_path: Path) -> None:
    functions = animate(briefly(believable(parts=SINE)), tmp_path / "new" / "a.gif", dots=50)
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["a.gif"]
    for path, shape in ((drawn, (216, 384, 3)), (functions, (270, 480, 3))):  # drawn has the regions of classes
        found = frames_of(path)
        assert len(found) == 3 + 1
        assert found[0].shape == shape


def test_without_models_no_frame_shows_what_was_learned(tmp_path: Path) -> None:
    result = briefly(believable())
    result.models.clear()
    assert len(frames_of(animate(result, tmp_path / "a.gif", dots=40))) == 3


def test_the_same_run_gives_the_same_file(drawn: Path, tmp_path: Path) -> None:
    other = animate(briefly(believable()), tmp_path / "b.gif", dots=40)
    assert drawn.read_bytes() == other.read_bytes()


@pytest.mark.usefixtures("drawn_before")
def test_a_file_that_would_be_too_large_shows_fewer_moments(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", drawn.stat().st_size - 1)
    fewer = animate(briefly(believable()), tmp_path / "fewer.gif", dots=40)
    assert fewer.stat().st_size < drawn.stat().st_size
    first, last = frames_of(fewer), frames_of(drawn)
    assert len(first) < len(last)
    assert np.abs(first[-1] - last[-1]).mean() < 1.0  # the last moment stays, but for the palette


def test_nodes_that_do_not_talk_are_shown_too(tmp_path: Path) -> None:
    assert len(frames_of(animate(briefly(believable("isolated")), tmp_path / "a.gif", dots=40))) == 4


@pytest.mark.usefixtures("drawn_before")
def test_a_film_needs_ffmpeg_and_gets_every_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="needs ffmpeg"):
        animate(believable(), tmp_path / "a.mp4", dots=40)
    program = tmp_path / "ffmpeg"  # keeps the pixels that it is given
    program.write_text('#!/bin/sh\nfor last; do :; done\n/bin/cat > "$last"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = animate(briefly(believable()), tmp_path / "a.mp4", seconds=1.5, dots=40)
    pixels = 384 * 216 * 4
    # Three moments at two a second; the last one and what was learned stand two seconds longer.
    assert path.stat().st_size == (3 + 4 + 4) * pixels


@pytest.mark.parametrize(
    ("name", "seconds", "message"),
    [("a.avi", 8.0, "must end in .gif or .mp4"), ("a.gif", 0.0, "seconds = 0.0 must be positive")],
)
def test_what_cannot_be_written_is_refused(name: str, seconds: float, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        animate(believable(), tmp_path / name, seconds)


def test_a_run_that_was_measured_once_is_refused(tmp_path: Path) -> None:
    result = believable()
    once = Result(result.config, result.graph, network={name: column[:1] for name, column in result.network.items()})
    with pytest.raises(InputError, match="measured 1 time"):
        animate(once, tmp_path / "a.gif")
