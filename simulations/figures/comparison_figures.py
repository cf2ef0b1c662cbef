"""The figures of a comparison: courses of its cells, final figures, also over drawn values, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import cells, style
from kernelswarm.simulations.figures.sheet import Sheet, keep_outer_labels, legend_entries, refuse_unknown
from kernelswarm.simulations.records.outcome import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.outcome import Comparison

# Final figures of a comparison over the drawn values of a key.


FAILED = 0.97
"""The height at which failed cells stand, as a share of the panel's."""


def final_scatter(axes: Axes, comparison: Comparison, column: str, key: str) -> list[Array]:
    """Draw one quantity over the drawn values of one key, and return the drawn values.

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


COLUMNS = 3  # of panels side by side
CURVES = 12  # draws with a curve each; more have the figure over their values alone


def learning_curves(sheet: Sheet, comparison: Comparison) -> None:
    """Draw each quantity in a figure of its own, or the chosen ones as the rows of one figure."""
    asked, against = sheet.drawing.columns, sheet.drawing.against
    if asked:
        refuse_unknown(asked, [run.network for run in comparison.runs])
        _rows(sheet, comparison, asked, sheet.drawing.named("-".join(asked)), against)
        return
    if against == "samples" and any(draws.count > CURVES for draws in comparison.drawn.values()):
        return
    for column in (column for column in cells.COLUMNS if column not in comparison.repeated):
        rows = [column]
        if column == "disagreement" and len(cells.panels(comparison, column, against)) <= COLUMNS:
            rows = ["risk", column]  # nodes that agree on something wrong agree all the same
        _rows(sheet, comparison, rows, sheet.drawing.named(column), against)
    if against == "samples":
        for column in ("error", "risk"):
            if _rows(sheet, comparison, [column], f"{column}-bytes", "bytes"):
                break


def final(sheet: Sheet, comparison: Comparison) -> None:
    """Draw the final figures, a panel for each quantity and a line for each cell."""
    measured = cells.measured(comparison)
    if not measured:
        return
    page = _sizes(3.0, cells.names(comparison))
    several = len({run.seed for run in comparison.runs}) > 1
    for ending, some in sheet.pages(measured, *page):
        figure, axes, columns = sheet.grid(len(some), COLUMNS, *page, shape="lines")
        for place, (ax, column) in enumerate(zip(axes, some, strict=True)):
            cells.dots(ax, comparison, column, named=place % columns == 0)
        sheet.title(figure, cells.caption(comparison, "ticks: the seeds" if several else ""))
        sheet.save(figure, f"final{ending}")


def drawn(sheet: Sheet, comparison: Comparison) -> None:
    """Draw final figures over the drawn values: a figure for each quantity, a panel for each drawn key."""
    keys = [key for key in comparison.drawn if len({cell.drawn.get(key) for cell in comparison.cells} - {None}) > 1]
    for column in cells.measured(comparison) if keys else ():
        width = 4.2 if len(keys) > 1 else 6.4
        figure, axes, columns = sheet.grid(len(keys), COLUMNS, width, 3.2)
        values = []
        for ax, key in zip(axes, keys, strict=True):
            if ax is not axes[0]:
                ax.sharey(axes[0])
            values += final_scatter(ax, comparison, column, key)
        for place, ax in enumerate(axes):
            style.scale(ax, values)
            if place % columns:
                ax.set_ylabel("")
        sheet.title(figure, cells.caption(comparison))
        sheet.legend(figure, legend_entries(axes))
        sheet.save(figure, f"drawn-{column}")


def differences(sheet: Sheet, comparison: Comparison) -> None:
    """Draw each cell's risks and errors less its reference's with the same seed."""
    found = cells.to_references(comparison)
    if not found:
        return
    names = cells.pair_names(comparison, found)
    texts = "bar: 95% interval of the mean difference; filled: supported by the paired seeds; ticks: the seeds"
    page = _sizes(3.6, list(names.values()))
    for ending, some in sheet.pages(list(found), *page):
        figure, axes, columns = sheet.grid(len(some), 2, *page, shape="lines")
        for place, (ax, figured) in enumerate(zip(axes, some, strict=True)):
            cells.intervals(ax, comparison, found[figured], names, figured, named=place % columns == 0)
        sheet.title(figure, "\n".join(filter(None, [cells.caption(comparison, spread=False), texts])))
        sheet.save(figure, f"differences{ending}")


def _sizes(width: float, names: Sequence[str]) -> tuple[float, float, float]:
    """Return width and height of a panel with a line for each name, and the margin that the names need."""
    lines = max(name.count("\n") + 1 for name in names)
    longest = max(len(line) for name in names for line in name.split("\n"))
    return width, 1.0 + (0.2 + 0.14 * lines) * len(names), 0.075 * longest


def _rows(sheet: Sheet, comparison: Comparison, columns: Sequence[str], name: str, against: str) -> bool:
    """Draw quantities below one another, a panel for each network or other key that is no protocol."""
    rows = {column: cells.panels(comparison, column, against) for column in columns}
    subject = rows[columns[-1]]
    if not subject:
        return False
    count = len(subject)
    # Every row has the panels of the last one, its subject, where it has measured them too.
    titles = [panel.title for panel in subject]
    rows = {column: [one for one in panels if one.title in titles] for column, panels in rows.items()}
    rows = {column: panels for column, panels in rows.items() if len(panels) == count}
    side = 2 if count == 4 else min(count, COLUMNS)
    single, beside = len(rows) == 1, count > 1 and side == count
    figure, axes, side = sheet.grid(
        len(rows) * count,
        columns=min(len(rows), COLUMNS) if count == 1 and sheet.drawing.columns else side,
        width=4.2 if count > 1 or sheet.drawing.columns else 6.4,
        height=3.2 if single else 2.6,
        share=True if single else "row" if beside else False,
    )
    for row, (column, panels) in enumerate(rows.items()):
        mine = axes[row * count : (row + 1) * count]
        bounds = []
        for ax, panel in zip(mine, panels, strict=True):
            bounds += cells.curves(ax, panel, column, against)
            ax.set_title(sheet.panel_title(figure, ax.get_title(), side) if row == 0 or side != count else "")
        for ax in mine:
            style.scale(ax, bounds)  # they share an axis, so that what all of them hold decides
            if against in ("scalars", "bytes"):
                style.scale(ax, [np.concatenate(cells.reach(panel)) for panel in panels], axis="x")
                style.units(ax, against)
    if single or beside:  # also where a paper is so narrow that they stand below one another
        keep_outer_labels(axes, side)
    texts = (
        "horizontal: the last value of what sends nothing, or is measured once"
        if cells.silent(list(rows.values())[-1])
        else ""
    )
    sheet.title(figure, cells.caption(comparison, texts))
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, name)
    return True
