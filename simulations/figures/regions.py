"""Two inputs: the classes a node decides for, with the points of its dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.functions import some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from kernelswarm.simulations.figures.learned import Learned, Reopened

Array = npt.NDArray[np.float64]
GRID = 200  # points along each side


def window(learned: Learned, stream: Reopened) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) that holds what the nodes have seen, the outermost half percent aside."""
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
    """Return the number of classes, which a binary loss with its single output does not show."""
    if stream.source is not None and stream.source.classes is not None:
        return stream.source.classes
    return max(learned.outputs, 2)


def leanings(weights: Array) -> npt.NDArray[np.int64]:
    """Return the class each dictionary point argues for most: its largest weight, or the sign of its only one."""
    if weights.shape[1] == 1:
        return np.asarray(weights[:, 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(weights, axis=1), dtype=np.int64)


def regions(axes: Axes, learned: Learned, node: int, sides: tuple[float, float, float, float], classes: int) -> None:
    """Colour the plane by the node's decision and mark its dictionary points by the class they argue for."""
    from matplotlib.colors import ListedColormap

    left, right, bottom, top = sides
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    plane = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    decided = learned.decide(node, plane)[:, 0].reshape(GRID, GRID)
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
    """Draw the borders of the best possible decision, where the stream knows it."""
    left, right, bottom, top = sides
    x, y = np.linspace(left, right, GRID), np.linspace(bottom, top, GRID)
    truth = stream.truth(position, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    if truth is None:
        return
    _borders(axes, x, y, truth[:, 0].reshape(GRID, GRID), classes, BAYES)


LEARNED: dict[str, Any] = {"colors": [style.BLACK], "linewidths": 0.5, "linestyles": "-"}
BAYES: dict[str, Any] = {"colors": [style.BLACK], "linewidths": 1.2, "linestyles": "--"}


def _borders(axes: Axes, x: Array, y: Array, decided: Array, classes: int, look: dict[str, Any]) -> None:
    """Draw the borders between classes, each once: dashes drawn twice would close one another's gaps."""
    for k in range(classes):
        mine = np.ma.masked_where(decided < k, (decided == k).astype(np.float64))
        if mine.count() and mine.min() < mine.max():
            axes.contour(x, y, mine, levels=[0.5], **look)


def region_color(label: int) -> Any:
    """Return the colour of the region of class ``label``."""
    return style.lighter(style.CLASS_COLORS[label % len(style.CLASS_COLORS)], 0.6)


def point_style(label: int) -> dict[str, Any]:
    """Return how a dictionary point of class ``label`` is drawn: colour and shape both tell the class."""
    return {
        "marker": style.CLASS_MARKERS[label % len(style.CLASS_MARKERS)],
        "markerfacecolor": style.CLASS_COLORS[label % len(style.CLASS_COLORS)],
        "markeredgecolor": style.BLACK,
        "markeredgewidth": 0.7,
        "markersize": 5.5,
    }


def legend_entries(names: Sequence[str], marked: bool, known: bool) -> list[Line2D | Patch]:
    """Return one legend entry per class, a mark or else a patch, and one for the best decision when it is ``known``."""
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
