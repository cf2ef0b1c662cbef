"""Figures of one run, of several, and of a comparison, as PNG files."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelswarm.simulations.figures import curves, functions, regions, style
from kernelswarm.simulations.figures.learned import Learned, Reopened, rebuild, reopen
from kernelswarm.simulations.ground.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result

PANELS = 12  # nodes shown one by one at most
REGIONS = 6
COLUMNS = 3  # of panels side by side
ENTRY = 60  # characters in a line of a legend
TITLE = 12  # characters in an inch of a panel's title
BAND = "line: mean, band: the middle 80% of the nodes or edges"


def draw(result: Result, folder: Path) -> list[Path]:
    """Draw the figures of one run into ``folder`` and return their paths.

    A figure whose quantity the run did not measure (no duals without constraints, no decision regions in 784
    dimensions) is left out. Figures that evaluate the models need the run's own parts; when these cannot be built, or
    the data cannot be opened again, a warning or a line in the figure says so. docs/figures.md describes each file.

    Parameters
    ----------
    result : Result
        The run.
    folder : Path
        Made when it is missing; files of the same names are replaced.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        learned: Learned | None = rebuild(result)
    except InputError as error:
        warnings.warn(f"the models are not drawn, their configuration cannot be built here: {error}", stacklevel=2)
        learned = None
    with look():
        drawn = [
            _risk(result, folder),
            _stacked(result, folder, "model_order", [curves.model_order]),
            _stacked(result, folder, "disagreement", [_risk_panel, curves.disagreement]),
            _stacked(result, folder, "constraints", [curves.violation, curves.duals, curves.constraints]),
            _network(result, learned, folder),
        ]
        if learned is not None and learned.nodes and learned.inputs in (1, 2):
            stream = reopen(learned)
            classifies = style.task(result.config) == "classification"
            if learned.inputs == 1 and not classifies:
                drawn.append(_functions(learned, stream, folder))
            elif learned.inputs == 2 and classifies:
                drawn.append(_regions(learned, stream, folder))
    return [path for path in drawn if path is not None]


def draw_many(results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw several runs on the same axes into ``folder``: one curve per configuration, with its spread over seeds.

    Runs that differ only in their seed belong to one curve; the curves are named by the keys in which their
    configurations differ. A single run is drawn as :func:`draw` draws it.
    """
    if len(results) == 1:
        return draw(results[0], folder)
    from kernelswarm.simulations.records.outcome import gather

    return draw_comparison(gather(results), folder)


def draw_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Draw a comparison into ``folder``: each quantity against samples, a curve per cell; the final figures as dots."""
    from kernelswarm.simulations.figures import cells

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    with look():
        for column in cells.COLUMNS:
            path = _courses(comparison, column, folder)
            drawn += [] if path is None else [path]
        measured = cells.measured(comparison)
        if measured:
            names = cells.longest_name(comparison)
            lines = max(1.0, -(-names // cells.NAME))
            figure, axes = _grid(
                len(measured),
                columns=COLUMNS,
                width=3.0,
                height=1.0 + (0.2 + 0.14 * lines) * len(comparison.cells),
                margin=0.075 * names,
            )
            for place, (ax, column) in enumerate(zip(axes, measured, strict=True)):
                cells.dots(ax, comparison, column, named=place % COLUMNS == 0)
            figure.suptitle(cells.caption(comparison, "ticks: the seeds"))
            drawn.append(save(figure, folder / "final.png"))
    return drawn


def _courses(comparison: Comparison, column: str, folder: Path) -> Path | None:
    """One quantity against samples, a panel for each network or other key that is no protocol."""
    from kernelswarm.simulations.figures import cells

    rows = {column: cells.panels(comparison, column)}
    count = len(rows[column])
    if not count:
        return None
    columns = 2 if count == 4 else min(count, COLUMNS)
    if column == "disagreement" and count <= COLUMNS:
        # Nodes that agree on something wrong agree all the same, so the risk stands above it.
        titles = {panel.title for panel in rows[column]}
        risks = [panel for panel in cells.panels(comparison, "risk") if panel.title in titles]
        rows = {"risk": risks, **rows} if len(risks) == count else rows
    figure, axes = _grid(
        len(rows) * count,
        columns=columns,
        width=4.2 if count > 1 else 6.4,
        height=3.2 if len(rows) == 1 else 2.6,
        share=True if len(rows) == 1 else "row",
    )
    for row, (name, panels) in enumerate(rows.items()):
        mine = axes[row * count : (row + 1) * count]
        bounds = [bound for ax, panel in zip(mine, panels, strict=True) for bound in cells.curves(ax, panel, name)]
        for ax in mine:
            ax.set_title(style.wrapped(ax.get_title(), int(TITLE * figure.get_figwidth() / columns)))
            style.scale(ax, bounds)  # they share an axis, so that what all of them hold decides
            if row:
                ax.set_title("")
    _keep_outer_labels(axes, columns)
    figure.suptitle(cells.caption(comparison))
    _legend(figure, _entries(axes))
    return save(figure, folder / f"{column}.png")


def _risk(result: Result, folder: Path) -> Path | None:
    """Risk beside error, each on the nodes' own and on the pooled distribution."""
    figure, axes = _grid(2, columns=2, width=4.4, height=3.6)
    kept = [ax for ax, column in zip(axes, ("risk", "error"), strict=True) if curves.own_and_pooled(ax, result, column)]
    if not kept:
        return None
    for ax in axes:
        if ax not in kept:
            ax.remove()
    figure.suptitle(f"{title(result)}\n{BAND}")
    _legend(figure, _entries(kept))
    return save(figure, folder / "risk.png")


def _risk_panel(axes: Axes, result: Result) -> bool:
    return curves.own_and_pooled(axes, result, "risk")


def _stacked(result: Result, folder: Path, name: str, panels: Sequence[Callable[[Axes, Result], bool]]) -> Path | None:
    """Draw panels above one another on one axis of samples; no figure when the last panel, its subject, has no data."""
    figure = _figure(6.4, 1.1 + 2.5 * len(panels))
    kept: list[Axes] = []
    for panel in panels:
        ax = figure.add_subplot(len(panels), 1, len(kept) + 1)
        if panel(ax, result):
            kept.append(ax)
        else:
            ax.remove()
            if panel is panels[-1]:
                return None
    for ax in kept:
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    figure.suptitle(f"{title(result)}\n{BAND}")
    return save(figure, folder / f"{name}.png")


def _network(result: Result, learned: Learned | None, folder: Path) -> Path | None:
    """The network with one colour bar for the nodes' risk and one for the edges: differences, or what is delivered."""
    from kernelswarm.simulations.figures import network

    figure = _figure(7.4, 5.6)
    network.with_bars(figure.add_subplot(), result, learned)
    count, lines = result.graph.number_of_edges(), len(network.drawn_edges(result))
    figure.suptitle(title(result) + (f"\n{lines:,} of the {count:,} edges are drawn" if lines < count else ""))
    return save(figure, folder / "network.png")


def _functions(learned: Learned, stream: Reopened, folder: Path) -> Path:
    """All nodes on one pair of axes when they share a truth, else one panel a node."""
    grid = functions.interval(learned, stream)
    found = functions.truths(learned, stream, grid)
    color = curves.run_color(learned.result)
    data, names = learned.result.data, learned.result.node_names
    if functions.shared(found):
        figure, axes = _grid(learned.outputs, columns=COLUMNS, width=6.4 if learned.outputs == 1 else 4.2, height=3.8)
        for output, ax in enumerate(axes):
            functions.all_nodes(ax, learned, stream, grid, None if found is None else found[0], output, color)
            ax.set_xlabel(data.inputs.name(0, "input x"))
            ax.set_ylabel(
                data.targets.name(output, "target y" if learned.outputs == 1 else f"target y, column {output}")
            )
        note = ""
    else:
        order = sorted(learned.result.graph.nodes)
        shown = order[:PANELS]
        columns = min(len(shown), 4)
        figure, axes = _grid(len(shown), columns=columns, width=2.7, height=2.1, share=True)
        for ax, node in zip(axes, shown, strict=True):
            functions.one_node(ax, learned, node, grid, None if found is None else found[order.index(node)], color)
            ax.set_title(f"node {names[node]}")
            ax.set_xlabel(data.inputs.name(0, "input x"))
            ax.set_ylabel(data.targets.name(0, "target y"))
        _keep_outer_labels(axes, columns)
        note = f"\nthe first {len(shown)} of {len(order)} nodes" if len(shown) < len(order) else ""
    figure.suptitle(title(learned.result) + note + _without(stream))
    _legend(figure, _entries(axes))
    return save(figure, folder / "functions.png")


def _regions(learned: Learned, stream: Reopened, folder: Path) -> Path:
    """A few nodes from the lowest risk to the highest, one panel each."""
    from kernelswarm.simulations.figures.network import final_risks

    risks = final_risks(learned.result)
    classes, sides = regions.class_count(learned, stream), regions.window(learned, stream)
    shown = regions.chosen(learned.nodes, risks, REGIONS)
    width = {1: 6.4, 2: 4.4}.get(len(shown), 3.1)
    figure, axes = _grid(len(shown), columns=COLUMNS, width=width, height=0.93 * width, share=True)
    order = sorted(learned.result.graph.nodes)
    data, names = learned.result.data, learned.result.node_names
    for ax, node in zip(axes, shown, strict=True):
        regions.regions(ax, learned, node, sides, classes)
        regions.bayes(ax, stream, order.index(node), sides, classes)
        risk = f", risk {style.readable(risks[node])}" if node in risks else ""
        ax.set_title(f"node {names[node]}{risk}, {learned.size(node)}")
        ax.set_xlabel(data.inputs.name(0, "first input"))
        ax.set_ylabel(data.inputs.name(1, "second input"))
    _keep_outer_labels(axes, COLUMNS)
    which = ""
    if len(shown) > 1:
        which = f"{len(shown)} of {len(learned.nodes)} nodes, from the lowest risk to the highest"
    marks = "marks: the dictionary" if learned.written_in_points else ""
    said = "; ".join(filter(None, (which, marks)))
    figure.suptitle(title(learned.result) + (f"\n{said}" if said else "") + _without(stream))
    known = stream.source is not None and stream.source.truth is not None
    labels = [data.class_name(k) for k in range(classes)]
    entries = regions.legend_entries(labels, marked=learned.written_in_points, known=known)
    _legend(figure, {str(entry.get_label()): entry for entry in entries})
    return save(figure, folder / "regions.png")


@contextmanager
def look() -> Iterator[None]:
    """The project's style whatever the user's matplotlibrc says, so that a run draws the same picture everywhere."""
    import matplotlib.pyplot as plt

    with plt.rc_context():
        plt.rcdefaults()
        plt.rcParams.update(style.RC)
        yield


def _figure(width: float, height: float) -> Figure:
    # Not plt.figure: it would open the user's windows, and these figures only ever become files.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _grid(
    count: int, columns: int, width: float, height: float, share: bool | Literal["row"] = False, margin: float = 0.3
) -> tuple[Figure, list[Axes]]:
    """Make ``count`` panels of ``width`` by ``height`` inches, row by row, with a margin for what is beside them."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = _figure(width * columns + margin, height * rows + 0.9)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=bool(share), sharey=share)
    axes = list(grid.ravel())
    for spare in axes[count:]:
        spare.remove()
    if share and rows > 1:
        # The panels above the removed ones are the lowest of their columns and keep their labels.
        for ax in axes[count - columns : count]:
            ax.xaxis.set_tick_params(labelbottom=True)
    return figure, axes[:count]


def _keep_outer_labels(axes: Sequence[Axes], columns: int) -> None:
    """Leave the names of the axes at the left and lower edge of a grid of panels only."""
    for place, ax in enumerate(axes):
        if place + columns < len(axes):
            ax.set_xlabel("")
        if place % columns:
            ax.set_ylabel("")


def _entries(axes: Sequence[Axes]) -> dict[str, Any]:
    """Gather what the panels drew by its label, each label once."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    return entries


def _legend(figure: Figure, entries: dict[str, Any]) -> None:
    """Put one legend for all panels under them, in as many columns as fit."""
    if entries:
        entries = {style.wrapped(label, ENTRY): handle for label, handle in entries.items()}
        longest = max(len(line) for label in entries for line in label.split("\n"))
        columns = max(1, int(figure.get_figwidth() * 13) // (longest + 8))
        lines = sum(label.count("\n") + 1 for label in entries) / columns
        figure.set_figheight(figure.get_figheight() + 0.2 * max(0.0, lines - 3))  # at the cost of no panel
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=min(len(entries), columns)
        )


def title(result: Result) -> str:
    """Name the run: protocol, network, stream, learner and seed, and whether it stopped before its end."""
    config, count = result.config, result.graph.number_of_nodes()
    protocol, stream, learner = (config.get(part, {}) for part in ("protocol", "stream", "learner"))
    form = protocol.get("form", "as published" if protocol.get("as_published") else "")
    topology = str(result.summary.get("topology") or config.get("topology", {}).get("name", "network")).replace(
        "_", " "
    )
    about = [
        str(protocol.get("name", "")) + (f" ({form.replace('_', '-')})" if form else ""),
        f"{topology}, {count} node{'s' if count != 1 else ''}",
        *(str(part.get("name", "")).replace("_", " ") for part in (stream, learner)),
        f"seed {config.get('seed', 0)}",
    ]
    failed = f"\nfailed after round {result.summary.get('rounds', 0):,}" if result.failed else ""
    if result.summary.get("status") == "unfinished":
        failed = f"\nunfinished, measured until round {result.summary['rounds']:,}"
    if result.summary.get("status") == "stopped early":
        failed = f"\nstopped early, after round {result.summary['rounds']:,}"
    return " · ".join(part for part in about if part) + failed


def _without(stream: Reopened) -> str:
    """Say in the figure why it has no truth; empty when the stream could be opened."""
    return f"\nwithout truth and samples: {stream.missing[:90]}" if stream.source is None else ""


def save(figure: Figure, path: Path) -> Path:
    """Write the figure, as PNG or PDF by the path's ending, under a temporary name and rename it.

    Neither software version nor date goes into the file, so that equal figures are equal files.
    """
    ending = path.suffix.removeprefix(".")
    partial = path.with_name(f".{path.name}.part")
    figure.savefig(partial, format=ending, metadata={"CreationDate" if ending == "pdf" else "Software": None})
    os.replace(partial, path)
    return path
