"""Final figures of a comparison over the drawn values of a key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.outcome import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.outcome import Comparison

Array = npt.NDArray[np.float64]

FAILED = 0.97
"""The height at which failed cells stand, as a share of the panel's."""


def final(axes: Axes, comparison: Comparison, column: str, key: str) -> list[Array]:
    """Draw one quantity over the drawn values of one key, and return what was drawn.

    Cells that differ in drawn keys alone have one colour: means with one standard deviation over the seeds, joined
    where no other key was drawn with this one. What does not have the key is a horizontal line, what failed a cross.
    """
    names = _names(comparison)
    distinct = list(dict.fromkeys(names))
    strokes = style.strokes([comparison.cells[names.index(name)].protocol for name in distinct])
    rows = comparison.rows()
    drawn: list[Array] = []
    alone = len(comparison.drawn) == 1
    for name, stroke in zip(distinct, strokes, strict=True):
        mine = [place for place, other in enumerate(names) if other == name]
        known = [place for place in mine if math.isfinite(rows[place].mean[column])]
        placed = [place for place in known if key in comparison.cells[place].drawn]
        placed.sort(key=lambda place: comparison.cells[place].drawn[key])
        failed = [place for place in mine if rows[place].failed and not rows[place].done]
        for place in failed:
            if key in comparison.cells[place].drawn:
                at = comparison.cells[place].drawn[key]
                axes.plot(at, FAILED, "x", color=stroke.color, transform=axes.get_xaxis_transform())
        if placed:
            values = np.array([comparison.cells[place].drawn[key] for place in placed])
            means = np.array([rows[place].mean[column] for place in placed])
            spread = np.nan_to_num(np.array([rows[place].deviation[column] for place in placed]))
            # Not below the half of the mean: the axis may be logarithmic, where a longer bar has no end.
            below = np.minimum(spread, np.where(means > 0.0, means / 2.0, spread))
            axes.errorbar(
                values,
                means,
                yerr=[below, spread],
                color=stroke.color,
                linestyle=stroke.dash if alone else "none",
                marker=stroke.marker,
                markersize=5,
                linewidth=1.2,
                capsize=2,
                label=name or None,
            )
            drawn += [means - below, means + spread]
        elif len(known) == 1:  # of several, which other drawn keys tell apart, none stands for all
            means = np.array([rows[known[0]].mean[column]])
            axes.axhline(float(means[0]), color=stroke.color, linestyle=stroke.dash, linewidth=1.2, label=name or None)
            drawn.append(means)
    if comparison.drawn[key].scale == "log":
        axes.set_xscale("log")
        _mark(axes, comparison.drawn[key].low, comparison.drawn[key].high)
    axes.set_xlabel(key)
    axes.set_ylabel(style.column_label(column, dict(comparison.cells[0].config), comparison.facts))
    return drawn


def _names(comparison: Comparison) -> list[str]:
    """Return the name of each cell by its keys that were not drawn."""
    listed = [place for place, key in enumerate(comparison.keys) if key not in comparison.drawn]
    return [label(comparison, cell.labels, listed) for cell in comparison.cells]


def _mark(axes: Axes, low: float, high: float) -> None:
    """Number a logarithmic axis at 1, 2 and 5 times the powers of ten where it is short: else it may have no number."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.03)
    if high / low < 1e3:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
