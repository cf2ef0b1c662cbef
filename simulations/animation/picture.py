"""The frames of an animation: the network with its colours of the moment, beside curves that grow."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.figures import curves, functions, network, regions, style
from kernelswarm.simulations.figures.run_figures import title
from kernelswarm.simulations.records.series import over_network, over_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.text import Text

    from kernelswarm.simulations.animation.moments import Moment
    from kernelswarm.simulations.figures.learned import Learned, Reopened
    from kernelswarm.simulations.records.result import Result

Pixels = npt.NDArray[np.uint8]

SIZE = (9.6, 5.4)  # inches
NODES = 6  # whose functions are drawn at the end
DARK = 0.55  # luminance of a node whose name is white


class Picture:
    """The network and two curves of a run, drawn once, and then changed from moment to moment.

    Parameters
    ----------
    result : Result
        The run.
    shown : sequence of Moment
        All moments: colours and axes mean the same in each of them.
    dots : int
        Dots in an inch.
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
        """Return the picture of a moment, (height, width, 3)."""
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
    """A line that is drawn up to some samples, with a dot at its end."""

    def __init__(self, axes: Axes, samples: Any, values: Any, **look: Any) -> None:
        self._samples, self._values = np.asarray(samples), np.asarray(values)
        (self._line,) = axes.plot(self._samples, self._values, **look)
        (self._dot,) = axes.plot([], [], "o", color=look["color"], markersize=5)

    def until(self, samples: float) -> None:
        count = int(np.searchsorted(self._samples, samples, side="right"))
        self._line.set_data(self._samples[:count], self._values[:count])
        self._dot.set_data(self._samples[max(count - 1, 0) : count], self._values[max(count - 1, 0) : count])


def closing(
    result: Result, moment: Moment, shown: Sequence[Moment], learned: Learned, stream: Reopened, dots: int
) -> Pixels | None:
    """Return a last picture with what some nodes have learned, functions of one input or regions of two; else None."""
    classifies = style.task(result.config) == "classification"
    if not learned.nodes or learned.inputs != (2 if classifies else 1):
        return None
    figure = _page(dots)
    risks = network.final_risks(result)
    chosen = regions.chosen(learned.nodes, risks, 2 if classifies else NODES)
    left, right = _halves(figure, result)
    ax = left.add_subplot()
    _network(left, ax, result, shown, moment)
    ax.set_title(f"after round {moment.round:,}")
    names = style.node_names(result)
    if classifies:
        classes, sides = regions.class_count(learned, stream), regions.window(learned, stream)
        order = sorted(result.graph.nodes)
        for place, node in enumerate(chosen):
            ax = right.add_subplot(2, 1, place + 1)
            regions.regions(ax, learned, node, sides, classes)
            regions.bayes(ax, stream, order.index(node), sides, classes)
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
    """Divide a page into the network's half and the other one, under the run's title."""
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
        axes.legend(loc="upper right")
    axes.set_ylabel(style.column_label("risk", result.config, result.facts))
    axes.set_xlabel(style.column_label("samples", result.config))
    _freeze(axes)


def _disagreement(axes: Axes, result: Result) -> Iterator[_Curve]:
    """The disagreement, or the model order of nodes that do not talk."""
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
    """Keep the axes as the whole curves ask for while these grow."""
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())
