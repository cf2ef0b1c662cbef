"""Figures as data: panels, each with its curves, and how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from kernelswarm.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """Values over places; a line across the axes where ``x`` is left out, and one along them where ``y`` is.

    Attributes
    ----------
    look : mapping
        Further keys of matplotlib's lines.
    band : tuple of array or None
        Lower and upper ends of a shade.
    spread : array or None
        Half the lengths of error bars.
    """

    x: npt.ArrayLike | None
    y: npt.ArrayLike | None
    color: str
    label: str | None = None
    dash: Any = "-"
    marker: str = ""
    size: float = 4
    look: Mapping[str, Any] = field(default_factory=dict)
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    spread: npt.ArrayLike | None = None

    def draw(self, axes: Axes) -> None:
        look = {"color": self.color, "linestyle": self.dash, "label": self.label, **self.look}
        if self.x is None:
            axes.axhline(self.y, **look)  # type: ignore[arg-type]
        elif self.y is None:
            axes.axvline(self.x, **look)  # type: ignore[arg-type]
        elif self.spread is not None:
            axes.errorbar(self.x, self.y, self.spread, marker=self.marker, markersize=self.size, **look)
        else:
            axes.plot(self.x, self.y, marker=self.marker, markersize=self.size, **look)
        if self.band is not None:
            axes.fill_between(self.x, *self.band, color=self.color, alpha=0.2, linewidth=0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Panel:
    """Curves with their axes.

    Attributes
    ----------
    log, plain : str
        The logarithmic axes, and those of them with plain numbers at 1, 2 and 5 of each decade: "", "x", "y" or "xy".
    ticks : sequence of float
        Numbers that are written at a logarithmic x axis, where powers of ten are too few.
    words : sequence of str
        What is written at 0, 1, ... of the x axis.
    legend : mapping or None
        Keys of the legend in it; None for none.
    axes : mapping
        Further properties of matplotlib's axes.
    """

    curves: Sequence[Curve]
    title: str = ""
    x: str = ""
    y: str = ""
    log: str = ""
    plain: str = ""
    ticks: Sequence[float] = ()
    words: Sequence[str] = ()
    legend: Mapping[str, Any] | None = None
    axes: Mapping[str, Any] = field(default_factory=dict)

    def draw(self, axes: Axes) -> None:
        for curve in self.curves:
            curve.draw(axes)
        axes.set(**{f"{axis}scale": "log" for axis in self.log}, title=self.title, xlabel=self.x, ylabel=self.y)
        for axis in self.plain:
            _in_numbers(axes.xaxis if axis == "x" else axes.yaxis)
        if self.words:
            axes.set_xticks(range(len(self.words)), self.words)
        if self.ticks:
            axes.set_xticks(list(self.ticks), [f"{place:g}" for place in self.ticks])
            axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.set(**self.axes)
        if self.legend is not None:
            axes.legend(**self.legend)


def _in_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def drawn(
    panels: Sequence[Panel],
    size: tuple[float, float],
    columns: int = 0,
    below: int = 0,
    heading: str = "",
    of_all: bool = False,
    **subplots: Any,
) -> Figure:
    """Draw panels in rows of so many, all in one row when left out.

    ``below`` is the number of columns of a legend under them: of the first panel's curves, or of all with other labels.
    """
    from matplotlib.figure import Figure

    figure, columns = Figure(figsize=size, layout="constrained"), columns or len(panels)
    places = figure.subplots(-(-len(panels) // columns), columns, squeeze=False, **subplots).ravel()
    for place in places[len(panels) :]:
        place.remove()
    for place, panel in zip(places, panels, strict=False):
        panel.draw(place)
    if below:
        pairs = [
            pair
            for place in places[: None if of_all else 1]
            for pair in zip(*place.get_legend_handles_labels(), strict=True)
        ]
        entries = {label: handle for handle, label in pairs}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=below)
    if heading:
        figure.suptitle(heading)
    return figure


def mean_curve(x: npt.ArrayLike, draws: Array, color: str, label: str | None = None, **look: Any) -> Curve:
    """Return the means over draws, (draws, n)."""
    return Curve(x, draws.mean(axis=0), color, label, **look)
