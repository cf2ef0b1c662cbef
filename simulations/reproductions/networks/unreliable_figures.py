"""The figures of networks on unreliable links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.networks.forms import Strength
from kernelswarm.simulations.reproductions.networks.frontier import NEAR, Priced, cheapest, shares
from kernelswarm.simulations.reproductions.networks.problems import Outcome
from kernelswarm.simulations.reproductions.networks.sweeps import SWEEPS, Found, over_isolated, tested, values_of
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ISOLATED = style.PROTOCOLS["isolated"][0]

HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def _size(panels: int, columns: int, height: float = 2.9) -> tuple[float, float]:
    return 3.6 * columns, height * -(-panels // columns) + 0.7


def draw_sweeps(found: Found, measure: str) -> Figure:
    """Draw the "error" or the "disagreement" against every condition, as shares of that of isolated nodes."""
    panels = []
    for name, points in values_of(found).items():
        curves = []
        for protocol in ("consensus", "proximity"):
            color, dash, marker = style.PROTOCOLS[protocol]
            cells = [("ideal", 0.0), *((name, value) for value in points)]
            table = np.array(
                [
                    [over_isolated(found, kind, problem, protocol, value, measure) for kind, value in cells]
                    for problem in tested(found)
                ]
            )
            places = np.arange(len(cells))
            curves += [Curve(places, line, color, look={"linewidth": 0.6, "alpha": 0.4}) for line in table]
            curves.append(Curve(places, np.median(table, axis=0), color, protocol, dash, marker, 5))
        curves.append(Curve(None, 1.0, ISOLATED, "isolated, same clock", "--", look={"linewidth": 1.2}))
        ticks = ["ideal", *(f"{value:g}" for value in points)]
        y = f"{measure}, isolated = 1"
        panels.append(Panel(curves, "", SWEEPS[name].words, y, "y", "y", words=ticks))
    heading = (
        f"{measure} of networks on unreliable links, over that of isolated nodes with the same clock\n"
        "thin: each stream on each graph (median over seeds); thick: the median of these"
    )
    return drawn(panels, _size(len(panels), 3), 3, 3, heading)


def draw_strained(found: Mapping[tuple[Strength, int], Outcome], isolated: float) -> Figure:
    """Draw the error of explicit steps near what they bear against the delay; stopped runs lie on the upper edge."""
    delays = sorted({delay for _, delay in found})
    penalties = sorted({strength.penalty for strength, _ in found})
    dampings = sorted({strength.damping for strength, _ in found})
    colors = dict(zip(penalties, (style.SKY, style.GREEN, style.VERMILLION, style.PURPLE), strict=False))
    dashes = dict(zip(dampings, ("-", "--", ":"), strict=False))
    edge, panels, places = HIGHEST * isolated, [], np.arange(len(delays))
    for form in ("symmetric", "one_sided"):
        curves = []
        for strength in dict.fromkeys(strength for strength, _ in found if strength.form == form):
            errors = np.array([found[strength, delay].error for delay in delays])
            shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
            label = f"{strength.step}, penalty {strength.penalty:g}"
            if strength.step == "implicit":
                curves.append(Curve(places, shown, style.BLACK, label, "-", "D"))
            else:
                label += f", damping {strength.damping:g}"
                curves.append(Curve(places, shown, colors[strength.penalty], label, dashes[strength.damping], "o"))
            beyond = np.flatnonzero(~(errors < edge))
            curves.append(
                Curve(beyond, np.full(len(beyond), edge), style.BLACK, None, "none", "x", 9, look={"zorder": 3})
            )
        curves.append(Curve(None, isolated, ISOLATED, "isolated", "--", look={"linewidth": 1.2}))
        ticks = [str(delay) for delay in delays]
        panels.append(Panel(curves, form.replace("_", "-"), "delay in rounds", "error", "y", "y", words=ticks))
    heading = f"consensus, sine, ring; crosses: stopped, or above {HIGHEST:g} times the error of isolated nodes"
    return drawn(panels, _size(2, 2, 3.8), below=2, heading=heading, of_all=True)


def draw_bytes(found: Priced) -> Figure:
    """Draw the error against the bytes, both as shares of those of ideal links, and mark the least bytes."""
    cells = list(dict.fromkeys((problem, batch) for problem, batch, _ in found))
    bits = sorted({thrift.bits for _, _, thrift in found}, reverse=True)
    triggers = sorted({(thrift.decay < 1.0, thrift.threshold) for _, _, thrift in found})
    colors, markers = (
        dict(zip(bits, style.CLASS_COLORS, strict=False)),
        dict(zip(triggers, style.CLASS_MARKERS, strict=False)),
    )
    panels = []
    for problem, batch in cells:
        cost = shares(found, problem, batch)
        curves = []
        for thrift, (sent, error) in cost.items():
            marker = markers[thrift.decay < 1.0, thrift.threshold]
            curves.append(Curve([sent], [error], colors[thrift.bits], None, "none", marker, 6))
        sent, error = cost[cheapest(cost)]
        curves += [
            Curve([sent], [error], style.BLACK, marker="o", size=15, look={"markerfacecolor": "none"}),
            Curve(None, NEAR, style.BLACK, dash=":", look={"linewidth": 1.0}),
            Curve(0.25, None, style.BLACK, dash=":", look={"linewidth": 1.0}),
        ]
        title = f"{problem.words}, {batch} {'sample' if batch == 1 else 'samples'} a round"
        panels.append(Panel(curves, title, "bytes, ideal links = 1", "error, ideal links = 1", "xy", "xy"))
    words = [("exact" if count == 64 else f"{count} bits", colors[count], "s") for count in bits]
    for fades, threshold in triggers:
        label = f"trigger {threshold:g}{', shrinking' if fades else ''}" if threshold else "no trigger"
        words.append((label, style.GREY, markers[fades, threshold]))
    legend = [Curve([], [], color, label, "none", marker, 6) for label, color, marker in words]
    panels[0] = replace(panels[0], curves=[*panels[0].curves, *legend])
    heading = (
        f"circles: the least bytes within {NEAR - 1:.0%} of the error of ideal links\n"
        "dotted: that error, and a quarter of the bytes"
    )
    columns = min(len(cells), 2)
    return drawn(panels, _size(len(cells), columns, 3.4), columns, 4, heading)
