"""The figures of networks on unreliable links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.networks.forms import Strength
from kernelswarm.simulations.reproductions.networks.frontier import NEAR, Priced, cheapest, shares
from kernelswarm.simulations.reproductions.networks.problems import Outcome, Problem
from kernelswarm.simulations.reproductions.networks.sweeps import SWEEPS, Found, over_isolated, tested, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

ISOLATED = style.PROTOCOLS["isolated"][0]

HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def _panels(count: int, columns: int, height: float = 2.9) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    rows = -(-count // columns)
    figure = Figure(figsize=(3.6 * columns, height * rows + 0.7), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def _in_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_sweeps(found: Found, measure: str) -> Figure:
    """Draw the "error" or the "disagreement" against every condition, as shares of that of isolated nodes."""
    values = values_of(found)
    figure, axes = _panels(len(values), 3)
    for ax, (name, points) in zip(axes, values.items(), strict=True):
        for protocol in ("consensus", "proximity"):
            color, dash, marker = style.PROTOCOLS[protocol]
            table = np.array(
                [
                    [
                        over_isolated(found, kind, problem, protocol, value, measure)
                        for kind, value in [("ideal", 0.0), *((name, value) for value in points)]
                    ]
                    for problem in tested(found)
                ]
            )
            places = np.arange(len(points) + 1)
            for line in table:
                ax.plot(places, line, color=color, linewidth=0.6, alpha=0.4)
            middle = np.median(table, axis=0)
            ax.plot(places, middle, color=color, linestyle=dash, marker=marker, markersize=5, label=protocol)
        ax.axhline(1.0, color=ISOLATED, linestyle="--", linewidth=1.2, label="isolated, same clock")
        ax.set_yscale("log")
        _in_numbers(ax.yaxis)
        ax.set_xticks(range(len(points) + 1), ["ideal", *(f"{value:g}" for value in points)])
        ax.set_xlabel(SWEEPS[name].words)
        ax.set_ylabel(f"{measure}, isolated = 1")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    figure.suptitle(
        f"{measure} of networks on unreliable links, over that of isolated nodes with the same clock\n"
        "thin: each stream on each graph (median over seeds); thick: the median of these"
    )
    return figure


def draw_strained(found: Mapping[tuple[Strength, int], Outcome], isolated: float) -> Figure:
    """Draw the error of explicit steps near what they bear against the delay; stopped runs lie on the upper edge."""
    forms = ("symmetric", "one_sided")
    figure, axes = _panels(len(forms), len(forms), 3.8)
    delays = sorted({delay for _, delay in found})
    penalties = sorted({strength.penalty for strength, _ in found})
    dampings = sorted({strength.damping for strength, _ in found})
    colors = dict(zip(penalties, (style.SKY, style.GREEN, style.VERMILLION, style.PURPLE), strict=False))
    dashes = dict(zip(dampings, ("-", "--", ":"), strict=False))
    edge = HIGHEST * isolated
    for ax, form in zip(axes, forms, strict=True):
        for strength in dict.fromkeys(strength for strength, _ in found if strength.form == form):
            errors = np.array([found[strength, delay].error for delay in delays])
            shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
            implicit = strength.step == "implicit"
            ax.plot(
                range(len(delays)),
                shown,
                color=style.BLACK if implicit else colors[strength.penalty],
                linestyle="-" if implicit else dashes[strength.damping],
                marker="D" if implicit else "o",
                markersize=4,
                label=(
                    f"implicit, penalty {strength.penalty:g}"
                    if implicit
                    else f"explicit, penalty {strength.penalty:g}, damping {strength.damping:g}"
                ),
            )
            beyond = np.flatnonzero(~(errors < edge))
            ax.plot(beyond, np.full(len(beyond), edge), "x", color=style.BLACK, markersize=9, zorder=3)
        ax.axhline(isolated, color=ISOLATED, linestyle="--", linewidth=1.2, label="isolated")
        ax.set_yscale("log")
        _in_numbers(ax.yaxis)
        ax.set_title(form.replace("_", "-"))
        ax.set_xticks(range(len(delays)), [str(delay) for delay in delays])
        ax.set_xlabel("delay in rounds")
        ax.set_ylabel("error")
    entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=2)
    figure.suptitle(f"consensus, sine, ring; crosses: stopped, or above {HIGHEST:g} times the error of isolated nodes")
    return figure


def draw_bytes(found: Priced) -> Figure:
    """Draw the error against the bytes, both as shares of those of ideal links, and mark the least bytes."""
    cells: list[tuple[Problem, int]] = list(dict.fromkeys((problem, batch) for problem, batch, _ in found))
    figure, axes = _panels(len(cells), min(len(cells), 2), 3.4)
    bits = sorted({thrift.bits for _, _, thrift in found}, reverse=True)
    triggers = sorted({(thrift.decay < 1.0, thrift.threshold) for _, _, thrift in found})
    for ax, (problem, batch) in zip(axes, cells, strict=True):
        cost = shares(found, problem, batch)
        for place, count in enumerate(bits):
            for rank, (fades, threshold) in enumerate(triggers):
                points = [
                    share
                    for thrift, share in cost.items()
                    if (thrift.bits, thrift.decay < 1.0, thrift.threshold) == (count, fades, threshold)
                ]
                ax.plot(
                    *np.array(points).T,
                    linestyle="none",
                    color=style.CLASS_COLORS[place],
                    marker=style.CLASS_MARKERS[rank],
                    markersize=6,
                )
        best = cost[cheapest(cost)]
        ax.plot(*best, marker="o", markersize=15, markerfacecolor="none", color=style.BLACK)
        ax.axhline(NEAR, color=style.BLACK, linestyle=":", linewidth=1.0)
        ax.axvline(0.25, color=style.BLACK, linestyle=":", linewidth=1.0)
        ax.set_xscale("log")
        ax.set_yscale("log")
        for axis in (ax.xaxis, ax.yaxis):
            _in_numbers(axis)
        ax.set_xlabel("bytes, ideal links = 1")
        ax.set_ylabel("error, ideal links = 1")
        ax.set_title(f"{problem.words}, {batch} {'sample' if batch == 1 else 'samples'} a round")
    _bytes_legend(figure, bits, triggers)
    figure.suptitle(
        f"circles: the least bytes within {NEAR - 1:.0%} of the error of ideal links\n"
        "dotted: that error, and a quarter of the bytes"
    )
    return figure


def _bytes_legend(figure: Figure, bits: Sequence[int], triggers: Sequence[tuple[bool, float]]) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], linestyle="none", marker="s", color=style.CLASS_COLORS[place]) for place in range(len(bits))
    ]
    labels = ["exact" if count == 64 else f"{count} bits" for count in bits]
    entries += [
        Line2D([], [], linestyle="none", color=style.GREY, marker=style.CLASS_MARKERS[rank])
        for rank in range(len(triggers))
    ]
    labels += [
        "no trigger" if not threshold else f"trigger {threshold:g}{', shrinking' if fades else ''}"
        for fades, threshold in triggers
    ]
    figure.legend(entries, labels, loc="outside lower center", ncols=4)
