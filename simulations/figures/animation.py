"""Animations of a run, as GIF or, with ffmpeg, as MP4."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.errors import InputError, SimulationError, number_of, shown
from kernelswarm.simulations.core.files import whole_file
from kernelswarm.simulations.figures import curves, functions, network, style
from kernelswarm.simulations.figures.curves import title
from kernelswarm.simulations.figures.learned import rebuild, reopen
from kernelswarm.simulations.figures.network import Edge, node_risks, over_pairs
from kernelswarm.simulations.figures.sheet import look
from kernelswarm.simulations.records.result import over_network, over_nodes, rows_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.text import Text

    from kernelswarm.simulations.figures.learned import Learned, Reopened
    from kernelswarm.simulations.records.result import Result

# The measurements of a run for each frame of its animation.


@dataclass(frozen=True)
class Moment:
    """One evaluation.

    Parameters
    ----------
    round : int
        The round of the evaluation.
    samples : float
        Mean number of samples of a node.
    risks : dict of int to float
        The risk of each node on its own data.
    differences, duals : dict of (int, int) to float
        For each edge, as mean over both directions: the mean square difference of its nodes, and the dual variable.
    """

    round: int
    samples: float
    risks: dict[int, float]
    differences: dict[Edge, float]
    duals: dict[Edge, float]


def moments(result: Result, most: int) -> list[Moment]:
    """Return the evaluations of a run, or ``most`` evenly spaced ones with the first and the last.

    Raises
    ------
    InputError
        The run has fewer than two evaluations.
    """
    rounds = np.unique(result.network.get("round", np.empty(0, dtype=np.int64)))
    if len(rounds) < 2:
        raise InputError(
            f"the run was measured {number_of(len(rounds), 'time')}, and an animation shows at least two: choose a "
            "smaller evaluate_every"
        )
    places = np.unique(np.linspace(0, len(rounds) - 1, min(most, len(rounds))).round().astype(int))
    found = []
    for round in rounds[places].tolist():
        edges = rows_at(result.edges, round)
        samples = rows_at(result.network, round)["samples"]
        found.append(
            Moment(
                int(round),
                float(samples[0]),
                node_risks(rows_at(result.nodes, round)),
                over_pairs(edges, "constraint"),
                over_pairs(edges, "dual"),
            )
        )
    return found


# The frames of an animation: the network with present colours, and growing curves.

Pixels = npt.NDArray[np.uint8]

SIZE = (9.6, 5.4)  # inches
NODES = 6  # whose functions are drawn at the end
DARK = 0.55  # luminance of a node whose name is white


class Picture:
    """The network and two curves of a run, drawn once and updated for each frame.

    Parameters
    ----------
    result : Result
        The run.
    shown : sequence of Moment
        All moments, which determine the common scales of colours and axes.
    dots : int
        Dots per inch.
    """

    def __init__(self, result: Result, shown: Sequence[Moment], dots: int) -> None:
        from matplotlib.collections import LineCollection, PathCollection

        self._result = result
        self._figure = _page(dots)
        left, right = _halves(self._figure, result)
        ax = left.add_subplot()
        self._bars = _network(left, ax, result, shown, shown[0])
        self._nodes = next(drawn for drawn in ax.collections if isinstance(drawn, PathCollection))
        self._lines = next(drawn for drawn in ax.collections if isinstance(drawn, LineCollection))
        self._names: list[Text] = list(ax.texts)
        self._edges = network.drawn_edges(result)
        self._thin = float(np.max(self._lines.get_linewidth(), initial=0.0))
        self._opacity = float(np.min(np.asarray(self._lines.get_color())[:, 3], initial=1.0))
        self._strongest = max(chain.from_iterable(moment.duals.values() for moment in shown), default=0.0)
        self._title = ax
        self._growing = [
            curve
            for place, panel in enumerate((_risks, _disagreement))
            for curve in panel(right.add_subplot(2, 1, place + 1), result)
        ]
        self._title.set_title(_moment(shown[-1]))  # the longest
        self._figure.draw_without_rendering()
        self._figure.set_layout_engine("none")  # all frames have the layout of this one

    def frame(self, moment: Moment) -> Pixels:
        """Return the image of a moment, (height, width, 3)."""
        node_bar, edge_bar = self._bars
        missing = (*style.lighter(style.GREY, 0.5), 1.0)
        if node_bar is not None:
            order = sorted(self._result.graph.nodes)
            faces = [node_bar.to_rgba(moment.risks[node]) if node in moment.risks else missing for node in order]
            self._nodes.set_facecolor(faces)
            for text, face in zip(self._names, faces, strict=False):
                if text.get_verticalalignment() == "center":  # names inside their nodes
                    text.set_color("white" if np.dot([0.299, 0.587, 0.114], face[:3]) < DARK else "black")
        if edge_bar is not None:
            grey = (*style.lighter(style.GREY, 0.0), 1.0)
            found = moment.differences
            colors = np.array([edge_bar.to_rgba(found[edge]) if edge in found else grey for edge in self._edges])
            colors[:, 3] *= self._opacity
            self._lines.set_color(list(colors))
        if self._strongest > 0.0:
            share = np.array([moment.duals.get(edge, 0.0) for edge in self._edges]) / self._strongest
            self._lines.set_linewidth((self._thin * (1.0 + 2.0 * share) / 3.0).tolist())
        self._title.set_title(_moment(moment))
        for curve in self._growing:
            curve.until(moment.samples)
        return _pixels(self._figure)


def _moment(moment: Moment) -> str:
    return f"round {moment.round:,} · {number_of(round(moment.samples), 'sample')} a node"


class _Curve:
    """A line that is drawn up to the present samples, with a dot at its end; the rest is faint."""

    def __init__(self, axes: Axes, samples: Any, values: Any, **look: Any) -> None:
        self._samples, self._values = np.asarray(samples), np.asarray(values)
        axes.plot(self._samples, self._values, **{**look, "label": None, "alpha": 0.25, "linewidth": 1.0})
        (self._line,) = axes.plot(self._samples, self._values, **look)
        (self._dot,) = axes.plot([], [], "o", color=look["color"], markersize=5)

    def until(self, samples: float) -> None:
        count = int(np.searchsorted(self._samples, samples, side="right"))
        self._line.set_data(self._samples[:count], self._values[:count])
        self._dot.set_data(self._samples[max(count - 1, 0) : count], self._values[max(count - 1, 0) : count])


def closing(
    result: Result, moment: Moment, shown: Sequence[Moment], learned: Learned, stream: Reopened, dots: int
) -> Pixels | None:
    """Return a last image with the functions of some nodes, of one input or regions of two inputs, or None."""
    classifies = style.task(result.config) == "classification"
    if not learned.nodes or learned.inputs != (2 if classifies else 1):
        return None
    figure = _page(dots)
    risks = network.final_risks(result)
    chosen = functions.chosen(learned.nodes, risks, 2 if classifies else NODES)
    left, right = _halves(figure, result)
    ax = left.add_subplot()
    _network(left, ax, result, shown, moment)
    ax.set_title(f"after round {moment.round:,}")
    names = style.node_names(result)
    if classifies:
        classes, sides = functions.class_count(learned, stream), functions.window(learned, stream)
        order = sorted(result.graph.nodes)
        for place, node in enumerate(chosen):
            ax = right.add_subplot(2, 1, place + 1)
            functions.regions(ax, learned, node, sides, classes)
            functions.bayes(ax, stream, order.index(node), sides, classes)
            ax.set_title(f"what node {style.short(names[node])} decides, {('lowest', 'highest')[place]} risk")
    else:
        ax, points = right.add_subplot(), functions.interval(learned, stream)
        found = functions.truths(learned, stream, points)
        for place, node in enumerate(chosen):
            color = style.CLASS_COLORS[place % len(style.CLASS_COLORS)]
            ax.plot(points, learned.evaluate(node, points)[:, 0], color=color, label=f"node {style.short(names[node])}")
        if found is not None and functions.shared(found):
            ax.plot(points, found[0][:, 0], color=style.BLACK, linestyle="--", label="truth")
        ax.set_title("what nodes have learned")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
    return _pixels(figure)


def _page(dots: int) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=SIZE, layout="constrained", dpi=dots)


def _pixels(figure: Figure) -> Pixels:
    written = io.BytesIO()
    style.without_formulas(figure)
    figure.savefig(written, format="rgba", dpi=figure.dpi)
    wide, high = (round(side * figure.dpi) for side in SIZE)
    return np.frombuffer(written.getvalue(), dtype=np.uint8).reshape(high, wide, 4)[..., :3].copy()


def _halves(figure: Figure, result: Result) -> tuple[SubFigure, SubFigure]:
    """Divide a page into halves, the first for the network, under the run's title."""
    figure.suptitle(title(result))
    halves = figure.subfigures(1, 2, squeeze=False, width_ratios=[1.1, 1.0])
    return halves[0, 0], halves[0, 1]


def _network(figure: SubFigure, ax: Axes, result: Result, shown: Sequence[Moment], moment: Moment) -> Any:
    scales = (
        network.scale(list(chain.from_iterable(one.risks.values() for one in shown))),
        network.scale(list(chain.from_iterable(one.differences.values() for one in shown))),
    )
    bars = network.draw(ax, result, moment.risks, moment.differences, moment.duals, scales=scales)
    labels = (
        f"node: {style.column_label('risk', result.config, result.facts)}",
        "edge: mean square difference at the node's samples",
    )
    for bar, label in zip(bars, labels, strict=True):
        if bar is not None:
            style.ticks(figure.colorbar(bar, ax=ax, location="bottom", shrink=0.85, aspect=40, pad=0.02, label=label))
    return bars


def _risks(axes: Axes, result: Result) -> Iterator[_Curve]:
    own, pooled = over_nodes(result, "risk"), over_nodes(result, "global_risk")
    looks = {"own data": (own, curves.run_color(result), "-"), "pooled data": (pooled, style.GREY, "--")}
    drawn = [series for series in (own, pooled) if series is not None]
    for label, (series, color, dash) in looks.items():
        if series is not None:
            yield _Curve(axes, series.samples, series.mean, color=color, linestyle=dash, label=label)
    if drawn:
        style.scale(axes, [series.mean for series in drawn])
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # above: curves go everywhere
    axes.set_ylabel(style.column_label("risk", result.config, result.facts))
    axes.set_xlabel(style.column_label("samples", result.config))
    _freeze(axes)


def _disagreement(axes: Axes, result: Result) -> Iterator[_Curve]:
    """Draw the disagreement, or the model order of isolated nodes."""
    series, column = over_network(result, "disagreement"), "disagreement"
    if series is None or not np.any(series.values):
        series, column = over_network(result, "model_order"), "model_order"
    if series is not None:
        yield _Curve(axes, series.samples, series.mean, color=curves.run_color(result))
        style.scale(axes, [series.mean])
    axes.set_ylabel(style.column_label(column, result.config, result.facts))
    axes.set_xlabel(style.column_label("samples", result.config))
    _freeze(axes)


def _freeze(axes: Axes) -> None:
    """Fix the limits of the axes to the complete curves."""
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())


MOST = 60  # moments
LARGEST = 5_000_000  # bytes of a GIF
COLORS = 128  # of a GIF
HOLD = 2.0  # seconds for which the last images are shown


def animate(result: Result, path: Path | str, seconds: float = 8.0, dots: int = 100) -> Path:
    """Animate a run: nodes coloured by risk, edges by the difference of their nodes, and growing curves.

    The width of an edge increases with its dual variable. Functions of one input, or classes over two inputs, are shown
    at the end if the result has models. From many evaluations, evenly spaced ones are shown, and fewer if a GIF would
    exceed 5 MB.

    Parameters
    ----------
    result : Result
        The run, complete or unfinished.
    path : Path or str
        A file name with the ending ``.gif`` or ``.mp4``; an existing file is replaced.
    seconds : float
        Duration of the learning in the animation.
    dots : int
        Dots in an inch of 9.6 times 5.4 inches.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        The run has fewer than two evaluations, the ending is unknown, or ffmpeg is missing for MP4.
    SimulationError
        The file cannot be written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in (".gif", ".mp4"):
        raise InputError(f"{shown(str(path))} must end in .gif or .mp4")
    if not 0.0 < seconds < float("inf"):
        raise InputError(f"seconds = {seconds!r} must be positive")
    if ending == ".mp4" and not can_film():
        raise InputError(
            f"{path} needs ffmpeg, which is not installed here: install it, or name a file that ends in .gif"
        )
    found = moments(result, MOST)
    frames, last = _frames(result, found, dots)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{path} could not be written: {error.strerror or error}") from error
    with whole_file(path) as partial:
        if ending == ".mp4":
            _film(frames, last, partial, seconds, dots)
        else:
            _gif(frames, last, partial, seconds)
    return path


def can_film() -> bool:
    """Return whether ffmpeg is installed."""
    from matplotlib.animation import FFMpegWriter

    return bool(FFMpegWriter.isAvailable())


def _frames(result: Result, found: Sequence[Moment], dots: int) -> tuple[list[Pixels], Pixels | None]:
    """Return the images of all moments, and the last image with the learned functions."""
    with look():
        picture = Picture(result, found, dots)
        frames = [picture.frame(moment) for moment in found]
        try:
            learned = rebuild(result)
        except InputError as error:
            warnings.warn(f"the models are not drawn, their configuration cannot be built here: {error}", stacklevel=3)
            return frames, None
        if not learned.nodes:
            return frames, None
        return frames, closing(result, found[-1], found, learned, reopen(learned), dots)


def _gif(frames: Sequence[Pixels], last: Pixels | None, path: Path, seconds: float) -> None:
    """Write frames as a GIF; every second frame is left out while the file is too large."""
    from PIL import Image

    while True:
        shown = [*frames, *([] if last is None else [last])]
        # One palette for all frames, from the first, middle and last one; otherwise equal places would flicker.
        sample = np.concatenate([shown[place] for place in (0, len(shown) // 2, -1)])
        palette = Image.fromarray(sample).quantize(COLORS, dither=Image.Dither.NONE)
        images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in shown]
        each = max(20, round(1000 * seconds / len(frames)))  # milliseconds; below 20 viewers fall back to 100
        times = [each] * len(images)
        for place in (-1, -2)[: 1 if last is None else 2]:
            times[place] = round(1000 * HOLD)
        images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True)
        if path.stat().st_size <= LARGEST or len(frames) <= 2:
            return
        frames = [*frames[:-1:2], frames[-1]]


def _film(frames: Sequence[Pixels], last: Pixels | None, path: Path, seconds: float, dots: int) -> None:
    from matplotlib.animation import FFMpegWriter
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    high, wide, _ = frames[0].shape
    rate = max(1, round(len(frames) / seconds))
    held = round(HOLD * rate)
    figure = Figure(figsize=(wide / dots, high / dots), dpi=dots)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    image = axes.imshow(frames[0], interpolation="nearest", aspect="auto")
    # Players want the colours of a film at half the resolution.
    writer = FFMpegWriter(fps=rate, codec="h264", extra_args=["-pix_fmt", "yuv420p"])
    with writer.saving(figure, str(path), dots):
        for frame in [*frames, *[frames[-1]] * held, *([] if last is None else [last] * held)]:
            image.set_data(frame)
            writer.grab_frame()
