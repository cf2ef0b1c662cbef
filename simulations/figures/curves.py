"""One run against samples or bytes sent: risk, error, model order, disagreement, constraint violation, duals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.engine.scores import BANDS
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.series import AGAINST, Series, over_edges, over_network, over_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

    from kernelswarm.simulations.records.result import Result


def run_color(result: Result) -> str:
    """Return the colour of the run's protocol."""
    return style.protocol_color(str(result.config.get("protocol", {}).get("name", "")))


def _banded(axes: Axes, series: Series, color: Any, dash: Any, label: str, alpha: float = 0.2) -> None:
    """Draw the mean over nodes or edges, and under it the band that holds the middle 80% of them."""
    low, high = series.quantiles()
    axes.fill_between(series.samples, low, high, color=color, alpha=alpha, linewidth=0)
    axes.plot(series.samples, series.mean, color=color, linestyle=dash, label=label or None)


MEANS = ("risk", "error", "global_risk", "global_error", "progressive_risk", "model_order", *BANDS)
"""Columns of the network's table that are means over the nodes."""


def horizontal(axes: Axes, result: Result, against: str) -> None:
    """Name the horizontal axis."""
    axes.set_xlabel(style.column_label(AGAINST[against], result.config))
    style.units(axes, against)


def learning_curve(axes: Axes, result: Result, column: str, against: str = "samples") -> bool:
    """Draw any measured column: a mean of the nodes with their band, others as they are; False without numbers."""
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
    """Draw ``sum_edges [sum_t (h - gamma)]_+`` (SURVEY eq. 21); False when the protocol has no constraints."""
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
    """Draw the constraint values h_ij beside their tolerances gamma_ij; False when the protocol has no tolerances."""
    values, tolerances = over_edges(result, "constraint", against), over_edges(result, "tolerance", against)
    if values is None or tolerances is None:
        return False
    _banded(axes, values, run_color(result), "-", "difference h")
    _banded(axes, tolerances, style.GREY, "--", "tolerance γ", alpha=0.25)
    style.scale(axes, [*values.quantiles(), *tolerances.quantiles()])
    horizontal(axes, result, against)
    axes.set_ylabel("mean square difference")
    return True


# Links and clock of a run: which nodes were awake when, and what became of messages.

NAMED = 30  # nodes; of more the axis counts them

DELIVERIES = {"delivered": style.GREEN, "lost": style.VERMILLION, "late": style.ORANGE}
"""The fates of messages, by the columns of the tables, with their colours."""

WORDS = {"delivered": "delivered", "lost": "lost", "late": "dropped as too late"}


def has_clock(result: Result) -> bool:
    """Tell whether the run has a clock by which nodes sleep, or rounds that bring them no sample."""
    if "rows_without_sample" in result.facts:
        return True
    clock = result.config.get("clock", "synchronous")
    return (clock.get("name") if isinstance(clock, Mapping) else clock) != "synchronous"


def awake(result: Result, batch_sizes: Mapping[int, int]) -> tuple[Array, Array] | None:
    """Return the share of rounds in which each node drew samples, between one evaluation and the next.

    Parameters
    ----------
    result : Result
        The run.
    batch_sizes : dict of int to int
        What each node draws in a round in which it is awake.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    shares : array (V, T)
        In the order of the nodes' labels, or None if the table of nodes lacks some.
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
    """Return the messages of a round that were sent and that met each fate, means between two evaluations.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    messages : dict of str to array (T,)
        ``messages``, which are all that were sent, ``delivered``, ``lost`` and ``late``; None where links are ideal.
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
    """Draw a line of colours for each node, the darker, the more of the rounds it was awake."""
    # A mesh and not an image: evaluations may be unevenly far apart.
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
    """Draw what became of the messages of a round, one above the other, under a line of those sent."""
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
