"""The figure of rivals: the error of each method over what it has sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelswarm.simulations.reproductions.networks.methods import LearningCurve

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b", "#7f7f7f", "#bcbd22")
DASHES = ("-", "--", ":", (0, (5, 1, 1, 1, 1, 1)))
"""Of what sends; what sends nothing is a level line of dashes and dots."""


def draw(found: Mapping[tuple[str, str], Sequence[LearningCurve]]) -> Figure:
    """Draw the median error over seeds of every method against the bytes sent so far, a panel for each stream."""
    streams = list(dict.fromkeys(stream for stream, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))
    looks = {
        method: (COLORS[k % len(COLORS)], style.MARKERS[k % len(COLORS)], DASHES[k // len(COLORS) % len(DASHES)])
        for k, method in enumerate(methods)
    }
    columns = min(3, len(streams))
    rows = -(-len(streams) // columns)
    beside = (2, 4, 5)[columns - 1]  # names of methods in a row under the panels
    panels = []
    for stream in streams:
        curves = []
        for (name, method), runs in found.items():
            ended = [run for run in runs if np.isfinite(run.error).all()]
            if name != stream or not ended:
                continue
            error, sent = (np.median([getattr(run, of) for run in ended], axis=0) for of in ("error", "bytes"))
            color, marker, dash = looks[method]
            look: dict[str, Any] = {"markevery": [-1]}
            if sent[-1] > 0.0:
                curve = Curve(sent / 1e6, error, color, method, dash, marker, 5, {**look, "linewidth": 1.4})
            else:
                look |= {"linewidth": 1.2, "marker": marker, "markersize": 5}
                curve = Curve(None, error[-1], color, method, "-.", look=look)
            curves.append(curve)
        panels.append(Panel(curves, stream, "MB sent by all nodes", "error", log="xy"))
    figure = drawn(panels, (4.2 * columns, 3.4 * rows + 0.25 * -(-len(methods) // beside)), columns)
    handles = [dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)) for axes in figure.axes]
    labels = {method: of[method] for method in methods for of in handles if method in of}
    figure.legend(
        list(labels.values()),
        list(labels),
        loc="outside lower center",
        ncols=beside,
        handlelength=3.2,  # dashes on both sides of the marker
    )
    return figure
