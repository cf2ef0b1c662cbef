"""One input: the learned functions of the nodes beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.figures.learned import Learned, Reopened

Array = npt.NDArray[np.float64]
GRID = 400
FAINT = 0.22  # of a band
CURVES = 200  # of nodes; more would only cover one another

T = TypeVar("T")


def some(items: Sequence[T]) -> Sequence[T]:
    """Return the items, or as many evenly spaced ones as can be drawn."""
    return items if len(items) <= CURVES else [items[len(items) * place // CURVES] for place in range(CURVES)]


def interval(learned: Learned, stream: Reopened) -> Array:
    """Return a grid (n, 1) over the inputs the nodes have seen: the held-out samples, or else the dictionaries."""
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
    """Return the truth of each node on the grid, (n, q) each; None where it is not known.

    Of more nodes than can be drawn there are the first ones only.
    """
    found = []
    for position in range(min(CURVES, learned.result.graph.number_of_nodes())):
        truth = stream.truth(position, grid)
        if truth is None:
            return None
        found.append(truth)
    return found


def shared(found: list[Array] | None) -> bool:
    """Tell whether all nodes have the same truth, or none that is known."""
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
    """Draw one output of every node's function, the one truth over them, and some held-out samples under them."""
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
    """Draw the band of a node that knows it around its curve; its part that is far outside is cut off."""
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
    """Draw the function of one node, its own truth and its dictionary as ticks on the lower edge; return the curves."""
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
