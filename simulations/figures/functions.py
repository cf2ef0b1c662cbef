"""Plots of learned functions of one input, with the truth, and of classes over two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.figures import curves, style
from kernelswarm.simulations.figures.curves import title
from kernelswarm.simulations.figures.network import final_risks
from kernelswarm.simulations.figures.sheet import Sheet, keep_outer_labels, legend_entries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from kernelswarm.simulations.figures.learned import Learned, Reopened

GRID = 400
FAINT = 0.22  # of a band
CURVES = 200  # nodes; more curves would only cover each other

T = TypeVar("T")


def some(items: Sequence[T]) -> Sequence[T]:
    """Return all items, or ``CURVES`` evenly spaced ones."""
    return items if len(items) <= CURVES else [items[len(items) * place // CURVES] for place in range(CURVES)]


def interval(learned: Learned, stream: Reopened) -> Array:
    """Return a grid (n, 1) over the range of the held-out samples, or else of the dictionaries."""
    seen: list[Array] = []
    for position, node in some(list(enumerate(sorted(learned.result.graph.nodes)))):
        held_out = stream.held_out(position)
        if held_out is not None:
            seen.append(held_out.points[:, 0])
        elif node in learned.nodes:
            seen.append(learned.points(node)[:, 0])
    together = np.concatenate([*seen, np.zeros(0)])
    low, high = (float(together.min()), float(together.max())) if len(together) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, GRID)[:, None]


def truths(learned: Learned, stream: Reopened, grid: Array) -> list[Array] | None:
    """Return the truth of each node on the grid, (n, q) each, or None if unknown.

    The list is limited to the first nodes if there are more than can be drawn.
    """
    found = []
    for position in range(min(CURVES, learned.result.graph.number_of_nodes())):
        truth = stream.truth(position, grid)
        if truth is None:
            return None
        found.append(truth)
    return found


def shared(found: list[Array] | None) -> bool:
    """Tell whether all nodes have the same truth, or no known truth."""
    return found is None or all(np.array_equal(found[0], truth) for truth in found[1:])


def limits(values: list[Array]) -> tuple[float, float]:
    """Return the range of the curves, with a margin, for the vertical axis."""
    together = np.concatenate([np.ravel(v) for v in values])
    low, high = float(together.min()), float(together.max())
    margin = 0.08 * (high - low) or 0.5
    return low - margin, high + margin


def all_nodes(
    axes: Axes, learned: Learned, stream: Reopened, grid: Array, truth: Array | None, output: int, color: Any
) -> None:
    """Plot one output of all nodes' functions, their common truth, and some held-out samples."""
    shown = some(learned.nodes)
    curves = [learned.evaluate(node, grid)[:, output] for node in shown]
    every = some(range(learned.result.graph.number_of_nodes()))
    held_out = [found for position in every if (found := stream.held_out(position)) is not None]
    if held_out and truth is not None:
        x = np.concatenate([found.points[:20, 0] for found in held_out])
        y = np.concatenate([found.targets[:20, output] for found in held_out])
        axes.plot(x, y, ".", color=style.GREY, alpha=0.35, markersize=3, zorder=1, label="held-out samples")
    for place, curve in enumerate(curves):
        among = f" of {len(learned.nodes):,}" if len(shown) < len(learned.nodes) else ""
        label = None if place else f"{len(curves)}{among} nodes" if len(curves) > 1 else "learned"
        axes.plot(grid[:, 0], curve, color=color, alpha=0.55, linewidth=1.1, zorder=2, label=label)
        _band(axes, learned, shown[place], grid, curve, output, color, FAINT / len(shown) ** 0.5, not place)
    if truth is not None:
        axes.plot(
            grid[:, 0], truth[:, output], color=style.BLACK, linestyle="--", linewidth=1.6, zorder=3, label="truth"
        )
    values = [*curves, *([] if truth is None else [truth[:, output]])]
    if learned.has_bands:
        close(axes, values)
    else:
        axes.set_ylim(*limits(values))


def _band(
    axes: Axes,
    learned: Learned,
    node: int,
    grid: Array,
    curve: Array,
    output: int,
    color: Any,
    alpha: float,
    named: bool,
) -> None:
    """Draw the band of a node, if it has one, around its curve, clipped far outside."""
    half = learned.half_width(node, grid)
    if half is None:
        return
    label = f"{100.0 * learned.level:g}% band" if named else None
    low, high = curve - half[:, output], curve + half[:, output]
    axes.fill_between(grid[:, 0], low, high, color=color, alpha=alpha, linewidth=0.0, zorder=0, label=label)


def close(axes: Axes, values: list[Array]) -> None:
    """Let the vertical axis include the bands, unless they dwarf the curves."""
    low, high = limits(values)
    room = 0.75 * (high - low)
    below, above = axes.get_ylim()
    axes.set_ylim(max(below, low - room), min(above, high + room))


def one_node(axes: Axes, learned: Learned, node: int, grid: Array, truth: Array | None, color: Any) -> list[Array]:
    """Plot one node's function, its truth and, as ticks, its dictionary; return the curves."""
    curve = learned.evaluate(node, grid)[:, 0]
    axes.plot(grid[:, 0], curve, color=color, linewidth=1.5, label="learned")
    _band(axes, learned, node, grid, curve, 0, color, FAINT, named=True)
    if truth is not None:
        axes.plot(grid[:, 0], truth[:, 0], color=style.BLACK, linestyle="--", linewidth=1.2, label="truth")
    points = learned.points(node)
    drawn = [curve, *([] if truth is None else [truth[:, 0]])]
    if not len(points):
        return drawn
    axes.plot(
        points[:, 0],
        np.full(len(points), 0.02),
        "|",
        color=style.VERMILLION,
        markersize=7,
        transform=axes.get_xaxis_transform(),
        label="dictionary",
    )
    return drawn


# Decision regions over two inputs, with the points of the dictionary.

SIDE = 200  # points along each side


def window(learned: Learned, stream: Reopened) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) of the nodes' inputs, without the outermost half percent."""
    seen: list[Array] = []
    for position, node in some(list(enumerate(sorted(learned.result.graph.nodes)))):
        held_out = stream.held_out(position)
        if held_out is not None:
            seen.append(held_out.points)
        elif node in learned.nodes:
            seen.append(learned.points(node))
    together = np.concatenate([*seen, np.zeros((0, 2))])
    if len(together) < 2:
        return -1.0, 1.0, -1.0, 1.0
    low, high = np.quantile(together, [0.005, 0.995], axis=0)
    margin = 0.08 * np.where(high > low, high - low, 1.0)
    (left, bottom), (right, top) = low - margin, high + margin
    return float(left), float(right), float(bottom), float(top)


def chosen(nodes: list[int], risks: dict[int, float], count: int) -> list[int]:
    """Return at most ``count`` nodes from the lowest risk to the highest, evenly spaced in rank."""
    ranked = sorted(nodes, key=lambda node: (risks.get(node, np.inf), node))
    places = np.unique(np.linspace(0, len(ranked) - 1, min(count, len(ranked))).round().astype(int))
    return [ranked[place] for place in places]


def class_count(learned: Learned, stream: Reopened) -> int:
    """Return the number of classes, which may exceed the number of outputs."""
    if stream.source is not None and stream.source.classes is not None:
        return stream.source.classes
    return max(learned.outputs, 2)


def leanings(weights: Array) -> Integers:
    """Return the class of each dictionary point: its largest weight, or the sign of its only weight."""
    if weights.shape[1] == 1:
        return np.asarray(weights[:, 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(weights, axis=1), dtype=np.int64)


def regions(axes: Axes, learned: Learned, node: int, sides: tuple[float, float, float, float], classes: int) -> None:
    """Colour the plane by the node's decision, and mark its dictionary points by their class."""
    from matplotlib.colors import ListedColormap

    left, right, bottom, top = sides
    x, y = np.linspace(left, right, SIDE), np.linspace(bottom, top, SIDE)
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    decided = learned.decide(node, plane)[:, 0].reshape(SIDE, SIDE)
    palette = [region_color(k) for k in range(classes)]
    axes.imshow(
        decided,
        origin="lower",
        extent=sides,
        cmap=ListedColormap(palette),
        vmin=-0.5,
        vmax=classes - 0.5,
        interpolation="nearest",
        aspect="auto",
    )
    _borders(axes, x, y, decided, classes, LEARNED)
    points = learned.points(node)
    leaning = leanings(learned.weights(node)[: len(points)])
    for k in range(classes if len(points) else 0):
        mine = points[leaning == k]
        axes.plot(mine[:, 0], mine[:, 1], **point_style(k), linestyle="none", clip_on=True)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.grid(visible=False)


def bayes(axes: Axes, stream: Reopened, position: int, sides: tuple[float, float, float, float], classes: int) -> None:
    """Draw the borders of the Bayes decision, if known to the stream."""
    left, right, bottom, top = sides
    x, y = np.linspace(left, right, SIDE), np.linspace(bottom, top, SIDE)
    truth = stream.truth(position, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    if truth is None:
        return
    _borders(axes, x, y, truth[:, 0].reshape(SIDE, SIDE), classes, BAYES)


LEARNED: dict[str, Any] = {"colors": [style.BLACK], "linewidths": 0.5, "linestyles": "-"}
BAYES: dict[str, Any] = {"colors": [style.BLACK], "linewidths": 1.2, "linestyles": "--"}


def _borders(axes: Axes, x: Array, y: Array, decided: Array, classes: int, look: dict[str, Any]) -> None:
    """Draw each border between classes once, since dashes drawn twice would fill their gaps."""
    for k in range(classes):
        mine = np.ma.masked_where(decided < k, (decided == k).astype(np.float64))
        if mine.count() and mine.min() < mine.max():
            axes.contour(x, y, mine, levels=[0.5], **look)


def region_color(label: int) -> Any:
    """Return the colour of the region of class ``label``."""
    return style.lighter(style.CLASS_COLORS[label % len(style.CLASS_COLORS)], 0.6)


def point_style(label: int) -> dict[str, Any]:
    """Return colour and shape of the dictionary points of class ``label``."""
    return {
        "marker": style.CLASS_MARKERS[label % len(style.CLASS_MARKERS)],
        "markerfacecolor": style.CLASS_COLORS[label % len(style.CLASS_COLORS)],
        "markeredgecolor": style.BLACK,
        "markeredgewidth": 0.7,
        "markersize": 5.5,
    }


def class_entries(names: Sequence[str], marked: bool, known: bool) -> list[Line2D | Patch]:
    """Return one legend entry per class, a mark or a patch, and one for the Bayes decision if it is ``known``."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Line2D | Patch]
    if marked:
        entries = [Line2D([], [], linestyle="none", label=name, **point_style(k)) for k, name in enumerate(names)]
    else:
        entries = [Patch(color=region_color(k), label=name) for k, name in enumerate(names)]
    if known:
        entries.append(Line2D([], [], color=style.BLACK, linestyle="--", linewidth=1.0, label="best decision (Bayes)"))
    return entries


# The figures of the learned functions: functions of one input, regions of two.

PANELS = 12  # maximum number of nodes in separate panels
REGIONS = 6
COLUMNS = 3  # panels side by side


def all_functions(sheet: Sheet, learned: Learned, stream: Reopened) -> None:
    """Plot all nodes in one panel if they have a common truth, else one panel per node."""
    grid = interval(learned, stream)
    found = truths(learned, stream, grid)
    color = curves.run_color(learned.result)
    data, names = learned.result.data, style.node_names(learned.result)
    if shared(found):
        figure, axes, columns = sheet.grid(
            learned.outputs, columns=COLUMNS, width=6.4 if learned.outputs == 1 else 4.2, height=3.8
        )
        for output, ax in enumerate(axes):
            all_nodes(ax, learned, stream, grid, None if found is None else found[0], output, color)
            ax.set_xlabel(style.short(data.inputs.name(0, "input x")))
            ax.set_ylabel(
                style.short(
                    data.targets.name(output, "target y" if learned.outputs == 1 else f"target y, column {output}")
                )
            )
        note = ""
    else:
        order = sorted(learned.result.graph.nodes)
        shown = order[:PANELS]
        figure, axes, columns = sheet.grid(len(shown), columns=4, width=2.7, height=2.1, share=True)
        drawn: list[Array] = []
        for ax, node in zip(axes, shown, strict=True):
            truth = None if found is None else found[order.index(node)]
            drawn += one_node(ax, learned, node, grid, truth, color)
            ax.set_title(f"node {style.short(names[node])}")
            ax.set_xlabel(style.short(data.inputs.name(0, "input x")))
            ax.set_ylabel(style.short(data.targets.name(0, "target y")))
        if learned.has_bands:
            close(axes[0], drawn)
        keep_outer_labels(axes, columns)
        note = f"\nthe first {len(shown)} of {len(order)} nodes" if len(shown) < len(order) else ""
    sheet.title(figure, title(learned.result) + note + _without(stream))
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, "functions")


def some_regions(sheet: Sheet, learned: Learned, stream: Reopened) -> None:
    """Plot a few nodes from the lowest to the highest risk, one panel each."""
    risks = final_risks(learned.result)
    classes, sides = class_count(learned, stream), window(learned, stream)
    shown = chosen(learned.nodes, risks, REGIONS)
    width = {1: 6.4, 2: 4.4}.get(len(shown), 3.1)
    figure, axes, columns = sheet.grid(
        len(shown), columns=COLUMNS, width=width, height=0.93 * width, share=True, shape="square"
    )
    order = sorted(learned.result.graph.nodes)
    data, names = learned.result.data, style.node_names(learned.result)
    for ax, node in zip(axes, shown, strict=True):
        regions(ax, learned, node, sides, classes)
        bayes(ax, stream, order.index(node), sides, classes)
        risk = f", risk {style.readable(risks[node])}" if node in risks else ""
        ax.set_title(sheet.panel_title(figure, f"node {style.short(names[node])}{risk}, {learned.size(node)}", columns))
        ax.set_xlabel(style.short(data.inputs.name(0, "first input")))
        ax.set_ylabel(style.short(data.inputs.name(1, "second input")))
    keep_outer_labels(axes, columns)
    which = ""
    if len(shown) > 1:
        which = f"{len(shown)} of {len(learned.nodes)} nodes, from the lowest risk to the highest"
    marks = "marks: the dictionary" if learned.written_in_points else ""
    texts = "; ".join(filter(None, (which, marks)))
    sheet.title(figure, title(learned.result) + (f"\n{texts}" if texts else "") + _without(stream))
    known = stream.source is not None and stream.source.truth is not None
    labels = [data.class_name(k) for k in range(classes)]
    entries = class_entries(labels, marked=learned.written_in_points, known=known)
    sheet.legend(figure, {str(entry.get_label()): entry for entry in entries})
    sheet.save(figure, "regions")


def _without(stream: Reopened) -> str:
    """Return the note of the figure on its missing truth; empty when the stream could be opened."""
    return f"\nwithout truth and samples: {stream.missing[:90]}" if stream.source is None else ""
