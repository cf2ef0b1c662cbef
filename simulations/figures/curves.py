"""One run against samples or bytes sent: risk, error, model order, disagreement, constraint violation, duals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.engine.scores import BANDS
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.sheet import Sheet, legend_entries, refuse_unknown
from kernelswarm.simulations.records.result import AGAINST, Series, over_edges, over_network, over_nodes, repeated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

    from kernelswarm.simulations.records.result import Result


def run_color(result: Result) -> str:
    """Return the colour of the run's protocol."""
    return style.protocol_color(str(result.config.get("protocol", {}).get("name", "")))


def _banded(axes: Axes, series: Series, color: Any, dash: Any, label: str, alpha: float = 0.2) -> None:
    """Plot the mean over nodes or edges with a band of their central 80%."""
    low, high = series.quantiles()
    axes.fill_between(series.samples, low, high, color=color, alpha=alpha, linewidth=0)
    axes.plot(series.samples, series.mean, color=color, linestyle=dash, label=label or None)


MEANS = ("risk", "error", "global_risk", "global_error", "progressive_risk", "model_order", *BANDS)
"""Columns of the network's table that are means over the nodes."""


def horizontal(axes: Axes, result: Result, against: str) -> None:
    """Label the x-axis."""
    axes.set_xlabel(style.column_label(AGAINST[against], result.config))
    style.units(axes, against)


def learning_curve(axes: Axes, result: Result, column: str, against: str = "samples") -> bool:
    """Plot any measured column, with a band for means over nodes; False without numbers."""
    series = over_nodes(result, column, against) if column in MEANS else over_network(result, column, against)
    if series is None or not np.ptp(series.samples):
        return False
    _banded(axes, series, run_color(result), "-", "mean of the nodes" if series.values.shape[1] > 1 else "")
    style.scale(axes, [*series.quantiles()])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label(column, result.config, result.facts))
    return True


def own_and_pooled(axes: Axes, result: Result, column: str, against: str = "samples") -> bool:
    """Draw ``column`` on the nodes' own data and ``global_<column>`` on the pooled; False when neither was measured."""
    own, pooled = over_nodes(result, column, against), over_nodes(result, f"global_{column}", against)
    drawn = [series for series in (own, pooled) if series is not None]
    if own is not None:
        _banded(axes, own, run_color(result), "-", "own data")
    if pooled is not None:
        _banded(axes, pooled, style.GREY, "--", "pooled data", alpha=0.25)
    if drawn:
        bounds = [series.quantiles()[0] for series in drawn] + [series.quantiles()[1] for series in drawn]
        constant = result.final.get("constant_risk") if column == "risk" and own is not None else None
        if constant is not None:
            axes.axhline(constant, color=style.BLACK, linestyle=":", linewidth=1.0, label="best constant, own data")
            bounds.append(np.array([constant]))
        style.scale(axes, bounds)
        horizontal(axes, result, against)
        axes.set_ylabel(style.column_label(column, result.config, result.facts))
    return bool(drawn)


def model_order(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the mean model order, its band over the nodes and the largest model; False when it was not measured."""
    series = over_nodes(result, "model_order", against)
    if series is None:
        return False
    _banded(axes, series, run_color(result), "-", "mean of the nodes")
    if series.values.shape[1] > 1 and np.ptp(series.values, axis=1).any():
        axes.plot(series.samples, series.values.max(axis=1), color=style.GREY, linestyle=":", label="largest model")
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True)
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("model_order", result.config))
    return True


def disagreement(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the mean over edges of the mean-square difference of neighbours; False when it was not measured."""
    series = over_network(result, "disagreement", against)
    if series is None or not np.any(series.values):
        return False
    axes.plot(series.samples, series.mean, color=run_color(result))
    style.scale(axes, [series.mean])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("disagreement", result.config, result.facts))
    return True


def violation(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw ``sum_edges [sum_t (h - gamma)]_+`` (SURVEY eq. 21); returns False if the protocol has no constraints."""
    series = over_network(result, "violation", against)
    if series is None:
        return False
    axes.plot(series.samples, series.mean, color=run_color(result))
    style.scale(axes, [series.mean])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("violation", result.config))
    return True


def duals(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the duals mu_ij of the directed edges: their mean, their band and the largest; False without duals."""
    series = over_edges(result, "dual", against)
    if series is None:
        return False
    _banded(axes, series, run_color(result), "-", "mean of the edges")
    axes.plot(series.samples, series.values.max(axis=1), color=style.GREY, linestyle=":", label="largest")
    axes.set_ylim(bottom=0)
    horizontal(axes, result, against)
    axes.set_ylabel("dual μ")
    return True


def constraints(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw constraint values h_ij and their tolerances gamma_ij; returns False if the protocol has no tolerances."""
    values, tolerances = over_edges(result, "constraint", against), over_edges(result, "tolerance", against)
    if values is None or tolerances is None:
        return False
    _banded(axes, values, run_color(result), "-", "difference h")
    _banded(axes, tolerances, style.GREY, "--", "tolerance γ", alpha=0.25)
    style.scale(axes, [*values.quantiles(), *tolerances.quantiles()])
    horizontal(axes, result, against)
    axes.set_ylabel("mean square difference")
    return True


# Links and clock of a run: the activity of nodes and the fates of messages.

NAMED = 30  # nodes; of more the axis counts them

DELIVERIES = {"delivered": style.GREEN, "lost": style.VERMILLION, "late": style.ORANGE}
"""The fates of messages, by the columns of the tables, with their colours."""

WORDS = {"delivered": "delivered", "lost": "lost", "late": "dropped as too late"}


def has_clock(result: Result) -> bool:
    """Tell whether nodes of the run sleep or have rounds without samples."""
    if "rows_without_sample" in result.facts:
        return True
    clock = result.config.get("clock", "synchronous")
    return (clock.get("name") if isinstance(clock, Mapping) else clock) != "synchronous"


def awake(result: Result, batch_sizes: Mapping[int, int]) -> tuple[Array, Array] | None:
    """Return the share of rounds in which each node drew samples, between successive evaluations.

    Parameters
    ----------
    result : Result
        The run.
    batch_sizes : dict of int to int
        Number of samples of each node in an awake round.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    shares : array (V, T)
        Shares in the order of the nodes' labels, or None if the nodes' table lacks rows.
    """
    evaluated = np.unique(np.asarray(result.nodes.get("round", np.empty(0))))
    nodes = sorted(result.graph.nodes)
    rows = np.asarray(result.nodes.get("node", np.empty(0))).tolist()
    if not len(evaluated) or len(rows) != len(evaluated) * len(nodes) or set(rows) != set(nodes):
        return None
    samples = np.zeros((len(nodes), len(evaluated) + 1))
    place = {node: row for row, node in enumerate(nodes)}
    columns = 1 + np.searchsorted(evaluated, np.asarray(result.nodes["round"]))
    samples[[place[node] for node in rows], columns] = result.nodes["samples"]
    rounds = np.concatenate([[0.0], evaluated.astype(np.float64)])
    sizes = np.array([batch_sizes[node] for node in nodes], dtype=np.float64)
    return rounds, np.diff(samples, axis=1) / (np.diff(rounds) * sizes[:, None])


def deliveries(result: Result) -> tuple[Array, dict[str, Array]] | None:
    """Return the mean numbers of messages per round, sent and by fate, between successive evaluations.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    messages : dict of str to array (T,)
        ``messages``, the number of all sent messages, ``delivered``, ``lost`` and ``late``; None for ideal links.
    """
    if any(name not in result.network for name in ("messages", *DELIVERIES)) or not len(result.network["round"]):
        return None
    rounds = np.concatenate([[0.0], np.asarray(result.network["round"], dtype=np.float64)])
    counts = {
        name: np.diff(np.asarray(result.network[name], dtype=np.float64), prepend=0.0) / np.diff(rounds)
        for name in ("messages", *DELIVERIES)
    }
    return (rounds, counts) if counts["messages"].any() else None


def draw_awake(axes: Axes, result: Result, rounds: Array, shares: Array) -> QuadMesh:
    """Draw a line for each node, darker for larger shares of awake rounds."""
    # A mesh rather than an image, since evaluations may be unevenly spaced.
    names = list(style.node_names(result).values())
    image = axes.pcolormesh(rounds, np.arange(len(names) + 1) - 0.5, shares, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    if len(names) <= NAMED:
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", labelsize=7 if len(names) <= 15 else 5.5)
    axes.set_ylabel("node" if len(names) <= NAMED else "nodes, in their order")
    axes.set_xlabel("rounds")
    return image


def draw_deliveries(axes: Axes, rounds: Array, counts: Mapping[str, Array]) -> None:
    """Draw the stacked fates of the messages per round, below a line of sent messages."""
    base = np.zeros(len(rounds) - 1)
    for name, color in DELIVERIES.items():
        if counts[name].any():
            top = base + counts[name]
            axes.stairs(top, rounds, baseline=base, fill=True, color=style.lighter(color, 0.35), label=WORDS[name])
            base = top
    axes.stairs(counts["messages"], rounds, color=style.BLACK, linewidth=1.2, label="sent")
    axes.set_xlim(rounds[0], rounds[-1])
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("messages a round")
    axes.set_xlabel("rounds")


# The figures of one run: its measurements over time, and its final network.

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
    _stacked(sheet, result, "model_order", [model_order])
    _stacked(sheet, result, "disagreement", [_risk_panel, disagreement])
    _stacked(sheet, result, "constraints", [violation, duals, constraints])
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
    """Draw the nodes' activity and the fates of messages if clock or links are not ideal."""
    met = deliveries(result)
    slept = None
    # With one learner of all samples, only the number of awake nodes is known.
    if learned is not None and has_clock(result) and not learned.experiment.protocol.pooled:
        sizes = {node: learned.experiment.learner_for(node).batch_size for node in result.graph.nodes}
        slept = awake(result, sizes)
    if slept is not None and np.all(slept[1] == 1.0):
        slept = None
    count = (met is not None) + (slept is not None)
    if not count:
        return
    figure, axes, _ = sheet.grid(count, columns=1, width=7.0, height=3.0 if count == 1 else 2.6, share="column")
    if slept is not None:
        image = draw_awake(axes[0], result, *slept)
        figure.colorbar(image, ax=axes[0], label="share of rounds awake")
    if met is not None:
        draw_deliveries(axes[-1], *met)
    if count == 2:
        axes[0].set_xlabel("")
    sheet.title(figure, f"{title(result)}\nmeans between two evaluations")
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, "timeline")


def title(result: Result) -> str:
    """Return the title of a run: protocol, network, stream, learner and seed, and whether it stopped early."""
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
    """Plot the risk, and the error if it differs, on the nodes' own and on the pooled data."""
    panels = [_risk_panel] if "error" in repeated([result.network]) else [_risk_panel, _error_panel]
    _panels(sheet, result, sheet.drawing.named("risk"), panels)


def _cost(sheet: Sheet, result: Result) -> None:
    """Plot the error, or else the risk, against the bytes sent by the network."""
    sent = result.network.get("bytes_sent")
    if sent is None or not len(sent) or not sent[-1] > 0:
        return

    def panel(column: str, axes: Axes, result: Result, against: str) -> bool:
        return own_and_pooled(axes, result, column, "bytes")

    for column in ("error", "risk"):
        if _panels(sheet, result, f"{column}-bytes", [partial(panel, column)]):
            return


def _panels(sheet: Sheet, result: Result, name: str, panels: Sequence[Panel]) -> bool:
    """Draw the panels that have data side by side; return False, without a figure, if none has."""
    kept = _with_data(panels, result, sheet.drawing.against)
    if not kept:
        return False
    # A page with one panel has the width of a page with two.
    figure, axes, _ = sheet.grid(len(kept), columns=3, width=4.4 if len(panels) > 1 else 6.4, height=3.6)
    for ax, panel in zip(axes, kept, strict=True):
        panel(ax, result, sheet.drawing.against)
    sheet.title(figure, f"{title(result)}\n{BAND}")
    sheet.legend(figure, legend_entries(axes))
    sheet.save(figure, name)
    return True


def _stacked(sheet: Sheet, result: Result, name: str, panels: Sequence[Panel]) -> None:
    """Plot panels above one another with a common x-axis; no figure if the last panel has no data."""
    against = sheet.drawing.against
    kept = _with_data(panels, result, against)
    if not kept or kept[-1] is not panels[-1]:
        return
    if sheet.style.width is not None:  # legends next to the panels would leave them no room
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
    return own_and_pooled(axes, result, "risk", against)


def _error_panel(axes: Axes, result: Result, against: str) -> bool:
    return own_and_pooled(axes, result, "error", against)


def _course(column: str, axes: Axes, result: Result, against: str) -> bool:
    return learning_curve(axes, result, column, against)
