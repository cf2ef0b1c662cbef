"""The plots of a comparison: curves of cells with bands over seeds, final figures as dots, and differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from kernelswarm.arrays import Array
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.sheet import Sheet, keep_outer_labels, legend_entries, refuse_unknown
from kernelswarm.simulations.figures.style import Stroke
from kernelswarm.simulations.records.outcome import LEVEL, RANKED, label
from kernelswarm.simulations.records.result import AGAINST, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.outcome import Comparison

COLUMNS = ("risk", "error", "global_risk", "global_error", "model_order", "disagreement", "violation")
"""The quantities plotted against samples, with one file each."""

MARKERS = 8  # on each curve
NAME = 36  # characters per line of a cell's name next to its dots


def names(comparison: Comparison) -> list[str]:
    """Return the name of each cell for its line of dots, wrapped."""
    every = range(len(comparison.keys))
    return [style.wrapped(label(comparison, cell.labels, every) or cell.protocol, NAME) for cell in comparison.cells]


@dataclass(frozen=True)
class Curve:
    """One cell in a panel."""

    label: str
    stroke: Stroke
    series: Series | None  # over the seeds; None if all runs failed
    unfinished: tuple[Series, ...] = ()  # of each failed run, up to its failure

    @property
    def learning_curves(self) -> tuple[Series, ...]:
        """All curves of the cell."""
        return self.unfinished if self.series is None else (self.series, *self.unfinished)


@dataclass(frozen=True)
class Panel:
    """The cells that share one pair of axes."""

    title: str
    config: Mapping[str, Any]
    curves: tuple[Curve, ...]
    facts: Mapping[str, Any]


def cell_strokes(comparison: Comparison) -> list[Stroke]:
    """Return the stroke of each cell; cells that differ only in their panel have the same stroke."""
    inner, _ = _grouping(comparison)
    names = [label(comparison, cell.labels, inner) for cell in comparison.cells]
    distinct = list(dict.fromkeys(names))
    protocols = [comparison.cells[names.index(name)].protocol for name in distinct]
    found = dict(zip(distinct, style.strokes(protocols), strict=True))
    return [found[name] for name in names]


def panels(comparison: Comparison, column: str, against: str = "samples") -> list[Panel]:
    """Group the cells with measurements of ``column`` into panels; empty without measurements or if all are zero.

    Cells with a single measurement, such as a batch solution, or with a single x-value, such as nodes that send
    nothing, are drawn only beside curves of other cells.
    """
    inner, outer = _grouping(comparison)
    strokes = cell_strokes(comparison)
    gathered: dict[str, list[Curve]] = {}
    configs: dict[str, Mapping[str, Any]] = {}
    for place, cell in enumerate(comparison.cells):
        series = comparison.series(place, column, 1, against)
        unfinished = tuple(comparison.unfinished(place, column, against))
        learning_curves = [one for one in (series, *unfinished) if one is not None]
        if not learning_curves or (column == "disagreement" and not any(np.any(one.values) for one in learning_curves)):
            continue
        title = label(comparison, cell.labels, outer)
        runs = [run for run in comparison.runs if run.cell == place]
        failed = sum(bool(run.failure) for run in runs)
        name = label(comparison, cell.labels, inner) or cell.protocol
        if failed:
            name += " (failed)" if failed == len(runs) else f" ({failed} of {len(runs)} failed)"
        gathered.setdefault(title, []).append(Curve(name, strokes[place], series, unfinished))
        configs.setdefault(title, cell.config)
    return [
        Panel(title, configs[title], tuple(found), comparison.facts)
        for title, found in gathered.items()
        if any(np.ptp(learning_curve.samples) > 0 for curve in found for learning_curve in curve.learning_curves)
    ]


def _grouping(comparison: Comparison) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of keys whose values share a panel, and of keys that separate panels.

    If each panel would have a single curve, all cells share one panel.
    """
    inner = comparison.inner
    outer = tuple(place for place in range(len(comparison.keys)) if place not in inner)
    titles = {label(comparison, cell.labels, outer) for cell in comparison.cells}
    if outer and len(titles) == len(comparison.cells):
        return tuple(range(len(comparison.keys))), ()
    return inner, outer


def reach(panel: Panel) -> list[Array]:
    """Return the x-values of all curves with more than one x-value."""
    return [
        learning_curve.samples
        for curve in panel.curves
        for learning_curve in curve.learning_curves
        if np.ptp(learning_curve.samples) > 0
    ]


def silent(panels: Sequence[Panel]) -> bool:
    """Tell whether any curve has several values at a single x-value, such as 0 bytes sent."""
    learning_curves = [
        learning_curve for panel in panels for curve in panel.curves for learning_curve in curve.learning_curves
    ]
    return any(
        len(learning_curve.samples) > 1 and not np.ptp(learning_curve.samples) for learning_curve in learning_curves
    )


def caption(comparison: Comparison, also: str = "", spread: bool = True) -> str:
    """Return the common settings of all cells, and the statistic over the seeds, as a title."""
    about = []
    for part in ("protocol", "topology", "stream", "learner"):
        tables = [cell.config.get(part, {}) for cell in comparison.cells]
        name = _shared(map(style.called, tables))
        nodes = _shared(table.get("nodes", "") if isinstance(table, Mapping) else "" for table in tables)
        if name:
            about.append(name + (f", {nodes} nodes" if nodes and part == "topology" else ""))
    seeds = len({run.seed for run in comparison.runs})
    texts = [f"mean ± one standard deviation of {seeds} seeds"] if seeds > 1 and spread else []
    return "\n".join(line for line in (" · ".join(about), ", ".join(filter(None, [*texts, also]))) if line)


def _shared(values: Iterable[Any]) -> str:
    """Return the common value of all cells, or an empty text if they differ."""
    different = set(map(str, values))
    return different.pop() if len(different) == 1 else ""


def curves(axes: Axes, panel: Panel, column: str, against: str = "samples") -> list[Array]:
    """Plot each cell's mean over seeds with a band of one standard deviation on either side; return the bands.

    A single measurement is a horizontal line, and so is the last value of a curve with a single x-value. Failed runs
    are thin dashed lines that end in a cross. If they grow without bound, they end at twice the maximum of the other
    curves, which would otherwise look flat.
    """
    bounds = []
    import matplotlib

    ends = [bound for samples in reach(panel) for bound in samples[[0, -1]]]
    for place, curve in enumerate(panel.curves):
        series, stroke = curve.series, curve.stroke
        if series is None:
            continue
        if not np.ptp(series.samples):
            span = np.array([min(ends), max(ends)])
            series = Series(span, np.repeat(series.values[-1:], 2, axis=0))
        low, high = series.deviations()
        bounds += [low, high]
        if series.values.shape[1] > 1:
            axes.fill_between(series.samples, low, high, color=stroke.color, alpha=0.13, linewidth=0)
            for edge in (low, high):  # edges distinguish overlapping bands
                axes.plot(series.samples, edge, color=stroke.color, linestyle=stroke.dash, linewidth=0.6, alpha=0.7)
        step = max(1, len(series.samples) // MARKERS)
        axes.plot(
            series.samples,
            series.mean,
            color=stroke.color,
            linestyle=stroke.dash,
            marker=stroke.marker,
            markersize=0.75 * matplotlib.rcParams["lines.markersize"],
            markevery=(place * step // max(len(panel.curves), 1), step),  # next to each other on equal curves
            label=curve.label,
        )
    ceiling = 2.0 * max((float(bound.max()) for bound in bounds), default=np.inf)
    for curve in panel.curves:
        for place, failed in enumerate(curve.unfinished):
            name = curve.label if curve.series is None and place == 0 else None
            bounds.append(_failed(axes, failed, curve.stroke, ceiling, name))
    axes.set_title(panel.title)
    axes.set_xlabel(style.column_label(AGAINST[against], dict(panel.config)))
    axes.set_ylabel(style.column_label(column, dict(panel.config), panel.facts))
    return bounds


def _failed(axes: Axes, series: Series, stroke: Stroke, ceiling: float, name: str | None) -> Array:
    """Draw a failed run's series until it exceeds the ceiling, and return the drawn values."""
    values = series.mean
    beyond = np.flatnonzero(values > ceiling)
    shown = np.minimum(values[: beyond[0] + 1 if len(beyond) else None], ceiling)
    axes.plot(
        series.samples[: len(shown)],
        shown,
        color=stroke.color,
        linestyle=(0, (2, 2)),
        linewidth=1.1,
        marker="x",
        markevery=[len(shown) - 1],
        label=name,
    )
    return np.asarray(shown, dtype=np.float64)


def measured(comparison: Comparison) -> list[str]:
    """Return the quantities with final figures in any cell, in the order of ``COLUMNS``, without duplicates."""
    rows = comparison.rows()
    names = [column for column in (*COLUMNS, "bytes_sent") if column not in comparison.repeated]
    found = [column for column in names if any(np.isfinite(row.mean[column]) for row in rows)]
    zeros = ("disagreement", "bytes_sent")  # zero without communication
    return [column for column in found if column not in zeros or any(row.mean[column] > 0 for row in rows)]


def dots(axes: Axes, comparison: Comparison, column: str, named: bool) -> None:
    """Plot final figures of one quantity: each cell's mean with one standard deviation, and its seeds faintly."""
    rows, strokes = comparison.rows(), cell_strokes(comparison)
    drawn = []
    for place, (row, stroke) in enumerate(zip(rows, strokes, strict=True)):
        mean, deviation = row.mean[column], row.deviation[column]
        values = np.array([run.final.get(column, np.nan) for run in comparison.done(place)], dtype=np.float64)
        values = values[np.isfinite(values)]
        if not len(values):
            if row.failed and not row.done:
                axes.text(0.02, place, "failed", transform=axes.get_yaxis_transform(), va="center", color=style.GREY)
            continue
        drawn.append(values)
        axes.plot(values, np.full(len(values), place), "|", color=style.GREY, markersize=9, alpha=0.8)
        spread = deviation if np.isfinite(deviation) else 0.0
        left = min(spread, max(mean - float(values.min()), 0.0))  # not below the seeds: the axis may be logarithmic
        axes.errorbar(
            mean, place, xerr=[[left], [spread]], color=stroke.color, marker=stroke.marker, markersize=6, capsize=3
        )
    style.scale(axes, drawn, axis="x")
    if column == "bytes_sent":
        style.units(axes, "bytes")
    if axes.get_xscale() == "linear":
        axes.locator_params(axis="x", nbins=5)
        if axes.get_xlim()[0] == 0:
            axes.set_xlim(left=-0.04 * axes.get_xlim()[1])  # room for the marker of a zero
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), list(map(style.literal, names(comparison))) if named else [""] * len(rows))
    axes.set_xlabel(style.column_label(column, dict(comparison.cells[0].config), comparison.facts))


# Paired differences: each cell minus its reference, for each seed.


@dataclass(frozen=True)
class Against:
    """The difference of a cell to its reference in one figure.

    Parameters
    ----------
    cell : int
        The place of the cell.
    seeds : array (n,)
        The cell's figure minus the reference's, for each common seed; repeated seeds count once.
    supported : bool
        Whether the paired seeds support the difference, see ``Comparison.differences``.
    """

    cell: int
    seeds: Array
    supported: bool

    @property
    def mean(self) -> float:
        """The mean difference; negative if the cell is better."""
        return float(np.mean(self.seeds))

    @property
    def margin(self) -> float:
        """Half the width of the 95% interval of the mean difference, by Student's t; NaN for one seed."""
        count = len(self.seeds)
        if count < 2:
            return math.nan
        return float(stdtrit(count - 1, 1.0 - LEVEL / 2.0) * np.std(self.seeds, ddof=1) / math.sqrt(count))


def to_references(comparison: Comparison) -> dict[str, list[Against]]:
    """Return, for each risk and error, the cells with at least two seeds in common with their reference."""
    found: dict[str, list[Against]] = {}
    supported = {(one.figure, frozenset((one.better, one.worse))) for one in comparison.differences() if one.supported}
    finals = [
        {run.seed: (place, run.final) for place, runs in enumerate(comparison.distinct(cell)) for run in runs}
        for cell in range(len(comparison.cells))
    ]
    for figure in (figure for figure in RANKED if figure not in comparison.repeated):
        for cell in range(len(comparison.cells)):
            reference = comparison.reference(cell)
            if reference == cell:
                continue
            mine, others = finals[cell], finals[reference]
            different = {
                (mine[seed][0], others[seed][0]): mine[seed][1].get(figure, math.nan)
                - others[seed][1].get(figure, math.nan)
                for seed in sorted(mine.keys() & others.keys())
            }
            seeds = np.array([value for value in different.values() if math.isfinite(value)])
            if len(seeds) > 1:
                known = (figure, frozenset((cell, reference))) in supported
                found.setdefault(figure, []).append(Against(cell, seeds, known))
    return found


def pair_names(comparison: Comparison, found: Mapping[str, Sequence[Against]]) -> dict[int, str]:
    """Return the wrapped name of each cell for its line of differences, by place."""
    every = range(len(comparison.keys))
    named: dict[int, str] = {}
    for one in sorted({one.cell for several in found.values() for one in several}):
        cell, reference = comparison.cells[one], comparison.cells[comparison.reference(one)]
        inner = label(comparison, reference.labels, comparison.inner) or reference.protocol
        own = label(comparison, cell.labels, every) or cell.protocol
        named[one] = style.wrapped(f"{own} − {inner}", NAME)
    return named


def intervals(
    axes: Axes,
    comparison: Comparison,
    differences: Sequence[Against],
    names: Mapping[int, str],
    figure: str,
    named: bool,
) -> None:
    """Plot each cell's mean difference with its interval, and its seeds faintly; lower is better.

    Markers are filled if the seeds support the difference.
    """
    strokes, places = cell_strokes(comparison), {cell: place for place, cell in enumerate(names)}
    axes.axvline(0.0, color=style.BLACK, linewidth=0.8)
    for one in differences:
        place, stroke = places[one.cell], strokes[one.cell]
        axes.plot(one.seeds, np.full(len(one.seeds), place), "|", color=style.GREY, markersize=9, alpha=0.8)
        axes.errorbar(
            one.mean,
            place,
            xerr=one.margin,
            color=stroke.color,
            marker=stroke.marker,
            markerfacecolor=stroke.color if one.supported else "white",
            markersize=6,
            capsize=3,
        )
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [style.literal(name) for name in names.values()] if named else [""] * len(names))
    axes.set_xlabel(f"difference in {style.column_label(figure, dict(comparison.cells[0].config), comparison.facts)}")


# The figures of a comparison: courses of its cells, final figures, also over drawn values, and paired differences.

# Final figures of a comparison over the drawn values of a key.


FAILED = 0.97
"""The height of failed cells, as a share of the panel's height."""


def final_scatter(axes: Axes, comparison: Comparison, column: str, key: str) -> list[Array]:
    """Plot one quantity against the drawn values of one key, and return the plotted values.

    Cells that differ only in drawn keys have one colour: means with one standard deviation over the seeds, joined by
    lines if this is the only drawn key. Cells without the key are horizontal lines, and failed cells are crosses.
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
            # Not below half of the mean, since longer bars have no end on a logarithmic axis.
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
        elif len(known) == 1:  # several cells, with other drawn keys, have no common line
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
    """Return the name of each cell from the keys that were not drawn."""
    listed = [place for place, key in enumerate(comparison.keys) if key not in comparison.drawn]
    return [label(comparison, cell.labels, listed) for cell in comparison.cells]


def _mark(axes: Axes, low: float, high: float) -> None:
    """Label a short logarithmic axis at 1, 2 and 5 times the powers of ten, so that it has labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.03)
    if high / low < 1e3:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


ABREAST = 3  # panels side by side
CURVES = 12  # draws with a curve each; more draws have only the figure against their values


def learning_curves(sheet: Sheet, comparison: Comparison) -> None:
    """Plot each quantity in its own figure, or the chosen quantities as rows of one figure."""
    asked, against = sheet.drawing.columns, sheet.drawing.against
    if asked:
        refuse_unknown(asked, [run.network for run in comparison.runs])
        _rows(sheet, comparison, asked, sheet.drawing.named("-".join(asked)), against)
        return
    if against == "samples" and any(draws.count > CURVES for draws in comparison.drawn.values()):
        return
    for column in (column for column in COLUMNS if column not in comparison.repeated):
        rows = [column]
        if column == "disagreement" and len(panels(comparison, column, against)) <= ABREAST:
            rows = ["risk", column]  # agreement alone does not show a low risk
        _rows(sheet, comparison, rows, sheet.drawing.named(column), against)
    if against == "samples":
        for column in ("error", "risk"):
            if _rows(sheet, comparison, [column], f"{column}-bytes", "bytes"):
                break


def final(sheet: Sheet, comparison: Comparison) -> None:
    """Plot the final figures, with a panel for each quantity and a line for each cell."""
    found = measured(comparison)
    if not found:
        return
    page = _sizes(3.0, names(comparison))
    several = len({run.seed for run in comparison.runs}) > 1
    for ending, some in sheet.pages(found, *page):
        figure, axes, columns = sheet.grid(len(some), ABREAST, *page, shape="lines")
        for place, (ax, column) in enumerate(zip(axes, some, strict=True)):
            dots(ax, comparison, column, named=place % columns == 0)
        sheet.title(figure, caption(comparison, "ticks: the seeds" if several else ""))
        sheet.save(figure, f"final{ending}")


def drawn(sheet: Sheet, comparison: Comparison) -> None:
    """Plot final figures against drawn values, with a figure for each quantity and a panel for each drawn key."""
    keys = [key for key in comparison.drawn if len({cell.drawn.get(key) for cell in comparison.cells} - {None}) > 1]
    for column in measured(comparison) if keys else ():
        width = 4.2 if len(keys) > 1 else 6.4
        figure, axes, columns = sheet.grid(len(keys), ABREAST, width, 3.2)
        values = []
        for ax, key in zip(axes, keys, strict=True):
            if ax is not axes[0]:
                ax.sharey(axes[0])
            values += final_scatter(ax, comparison, column, key)
        for place, ax in enumerate(axes):
            style.scale(ax, values)
            if place % columns:
                ax.set_ylabel("")
        sheet.title(figure, caption(comparison))
        sheet.legend(figure, legend_entries(axes))
        sheet.save(figure, f"drawn-{column}")


def differences(sheet: Sheet, comparison: Comparison) -> None:
    """Plot each cell's risks and errors minus the reference's with the same seed."""
    found = to_references(comparison)
    if not found:
        return
    names = pair_names(comparison, found)
    texts = "bar: 95% interval of the mean difference; filled: supported by the paired seeds; ticks: the seeds"
    page = _sizes(3.6, list(names.values()))
    for ending, some in sheet.pages(list(found), *page):
        figure, axes, columns = sheet.grid(len(some), 2, *page, shape="lines")
        for place, (ax, figured) in enumerate(zip(axes, some, strict=True)):
            intervals(ax, comparison, found[figured], names, figured, named=place % columns == 0)
        sheet.title(figure, "\n".join(filter(None, [caption(comparison, spread=False), texts])))
        sheet.save(figure, f"differences{ending}")


def _sizes(width: float, names: Sequence[str]) -> tuple[float, float, float]:
    """Return width and height of a panel with a line for each name, and the margin for the names."""
    lines = max(name.count("\n") + 1 for name in names)
    longest = max(len(line) for name in names for line in name.split("\n"))
    return width, 1.0 + (0.2 + 0.14 * lines) * len(names), 0.075 * longest


def _rows(sheet: Sheet, comparison: Comparison, columns: Sequence[str], name: str, against: str) -> bool:
    """Plot quantities as rows, with a panel for each value of other keys than the protocol's."""
    rows = {column: panels(comparison, column, against) for column in columns}
    subject = rows[columns[-1]]
    if not subject:
        return False
    count = len(subject)
    # Each row has the panels of the last row, as far as they were measured.
    titles = [panel.title for panel in subject]
    rows = {column: [one for one in found if one.title in titles] for column, found in rows.items()}
    rows = {column: found for column, found in rows.items() if len(found) == count}
    side = 2 if count == 4 else min(count, ABREAST)
    single, beside = len(rows) == 1, count > 1 and side == count
    figure, axes, side = sheet.grid(
        len(rows) * count,
        columns=min(len(rows), ABREAST) if count == 1 and sheet.drawing.columns else side,
        width=4.2 if count > 1 or sheet.drawing.columns else 6.4,
        height=3.2 if single else 2.6,
        share=True if single else "row" if beside else False,
    )
    for row, (column, found) in enumerate(rows.items()):
        mine = axes[row * count : (row + 1) * count]
        bounds = []
        for ax, panel in zip(mine, found, strict=True):
            bounds += curves(ax, panel, column, against)
            ax.set_title(sheet.panel_title(figure, ax.get_title(), side) if row == 0 or side != count else "")
        for ax in mine:
            style.scale(ax, bounds)  # by the values of all panels, which share an axis
            if against in ("scalars", "bytes"):
                style.scale(ax, [np.concatenate(reach(panel)) for panel in found], axis="x")
                style.units(ax, against)
    if single or beside:  # also if panels are stacked on a narrow paper
        keep_outer_labels(axes, side)
    texts = (
        "horizontal: the last value of what sends nothing, or is measured once"
        if silent(list(rows.values())[-1])
        else ""
    )
    sheet.title(figure, caption(comparison, texts))
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, name)
    return True
