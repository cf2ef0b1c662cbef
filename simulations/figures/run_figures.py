"""The figures of one run: its measurements over time, and its network at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.figures import curves, style
from kernelswarm.simulations.figures.sheet import Sheet, legend_entries, refuse_unknown
from kernelswarm.simulations.records.series import repeated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.figures.learned import Learned
    from kernelswarm.simulations.records.result import Result

    Panel = Callable[[Axes, Result, str], bool]

BAND = "line: mean, band: the middle 80% of the nodes or edges"


def learning_curves(sheet: Sheet, result: Result) -> None:
    """Draw the measurements of a run over time: all the usual figures, or one with the given columns."""
    asked, against = sheet.drawing.columns, sheet.drawing.against
    if asked:
        refuse_unknown(asked, [result.network])
        _panels(sheet, result, sheet.drawing.named("-".join(asked)), [partial(_course, column) for column in asked])
        return
    _risk(sheet, result)
    _stacked(sheet, result, "model_order", [curves.model_order])
    _stacked(sheet, result, "disagreement", [_risk_panel, curves.disagreement])
    _stacked(sheet, result, "constraints", [curves.violation, curves.duals, curves.constraints])
    if against == "samples":
        _cost(sheet, result)


def network(sheet: Sheet, result: Result, learned: Learned | None) -> None:
    """Draw the network, a colour bar for the nodes' risk and one for the edges: differences, or shares delivered."""
    from kernelswarm.simulations.figures import network

    figure = sheet.figure(7.4, 5.6)
    network.with_bars(figure.add_subplot(), result, learned)
    count, lines = result.graph.number_of_edges(), len(network.drawn_edges(result))
    sheet.title(figure, title(result) + (f"\n{lines:,} of the {count:,} edges are drawn" if lines < count else ""))
    sheet.save(figure, "network")


def deliveries_and_activity(sheet: Sheet, result: Result, learned: Learned | None) -> None:
    """Draw who was awake when and what became of messages, where a run has a clock or links that are not ideal."""
    met = curves.deliveries(result)
    slept = None
    # One learner of all samples tells only how many nodes were awake, not which.
    if learned is not None and curves.has_clock(result) and not learned.experiment.protocol.pooled:
        sizes = {node: learned.experiment.learner_for(node).batch_size for node in result.graph.nodes}
        slept = curves.awake(result, sizes)
    if slept is not None and np.all(slept[1] == 1.0):
        slept = None
    count = (met is not None) + (slept is not None)
    if not count:
        return
    figure, axes, _ = sheet.grid(count, columns=1, width=7.0, height=3.0 if count == 1 else 2.6, share="column")
    if slept is not None:
        image = curves.draw_awake(axes[0], result, *slept)
        figure.colorbar(image, ax=axes[0], label="share of rounds awake")
    if met is not None:
        curves.draw_deliveries(axes[-1], *met)
    if count == 2:
        axes[0].set_xlabel("")
    sheet.title(figure, f"{title(result)}\nmeans between two evaluations")
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, "timeline")


def title(result: Result) -> str:
    """Name the run: protocol, network, stream, learner and seed, and whether it stopped before its end."""
    config, count = result.config, result.graph.number_of_nodes()
    protocol, stream, learner = (config.get(part, {}) for part in ("protocol", "stream", "learner"))
    form = protocol.get("form", "as published" if protocol.get("as_published") else "")
    topology = style.called(config.get("topology") or result.summary.get("topology") or "network")
    about = [
        style.called(protocol) + (f" ({form.replace('_', '-')})" if form else ""),
        f"{topology}, {count} node{'s' if count != 1 else ''}",
        *(style.called(part) for part in (stream, learner)),
        f"seed {config.get('seed', 0)}",
    ]
    failed = f"\nfailed after round {result.summary.get('rounds', 0):,}" if result.failed else ""
    if result.summary.get("status") == "unfinished":
        failed = f"\nunfinished, measured until round {result.summary['rounds']:,}"
    if result.summary.get("status") == "stopped early":
        failed = f"\nstopped early, after round {result.summary['rounds']:,}"
    return " · ".join(part for part in about if part) + failed


def _risk(sheet: Sheet, result: Result) -> None:
    """Risk beside error where this is another number, each on the nodes' own and on the pooled distribution."""
    panels = [_risk_panel] if "error" in repeated([result.network]) else [_risk_panel, _error_panel]
    _panels(sheet, result, sheet.drawing.named("risk"), panels)


def _cost(sheet: Sheet, result: Result) -> None:
    """The error, or without one the risk, against the bytes that the network has sent."""
    sent = result.network.get("bytes_sent")
    if sent is None or not len(sent) or not sent[-1] > 0:
        return

    def panel(column: str, axes: Axes, result: Result, against: str) -> bool:
        return curves.own_and_pooled(axes, result, column, "bytes")

    for column in ("error", "risk"):
        if _panels(sheet, result, f"{column}-bytes", [partial(panel, column)]):
            return


def _panels(sheet: Sheet, result: Result, name: str, panels: Sequence[Panel]) -> bool:
    """Draw the panels that have data side by side; return False, without a figure, if none has."""
    kept = _with_data(panels, result, sheet.drawing.against)
    if not kept:
        return False
    # A page of one panel is as wide as one of two.
    figure, axes, _ = sheet.grid(len(kept), columns=3, width=4.4 if len(panels) > 1 else 6.4, height=3.6)
    for ax, panel in zip(axes, kept, strict=True):
        panel(ax, result, sheet.drawing.against)
    sheet.title(figure, f"{title(result)}\n{BAND}")
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, name)
    return True


def _stacked(sheet: Sheet, result: Result, name: str, panels: Sequence[Panel]) -> None:
    """Draw panels above one another on one axis; no figure when the last panel, its subject, has no data."""
    against = sheet.drawing.against
    kept = _with_data(panels, result, against)
    if not kept or kept[-1] is not panels[-1]:
        return
    if sheet.style.width is not None:  # legends beside the panels would leave them no room
        _panels(sheet, result, sheet.drawing.named(name), panels)
        return
    figure = sheet.figure(6.4, 1.1 + 2.5 * len(panels))
    for place, panel in enumerate(kept):
        ax = figure.add_subplot(len(panels), 1, place + 1)
        panel(ax, result, against)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)
    sheet.title(figure, f"{title(result)}\n{BAND}")
    sheet.save(figure, sheet.drawing.named(name))


def _with_data(panels: Sequence[Panel], result: Result, against: str) -> list[Panel]:
    from matplotlib.figure import Figure

    return [panel for panel in panels if panel(Figure().add_subplot(), result, against)]


def _risk_panel(axes: Axes, result: Result, against: str) -> bool:
    return curves.own_and_pooled(axes, result, "risk", against)


def _error_panel(axes: Axes, result: Result, against: str) -> bool:
    return curves.own_and_pooled(axes, result, "error", against)


def _course(column: str, axes: Axes, result: Result, against: str) -> bool:
    return curves.learning_curve(axes, result, column, against)
