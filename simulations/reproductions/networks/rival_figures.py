"""The figure of rivals: the error of each method over what it has sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from kernelswarm.simulations.reproductions.networks.methods import LearningCurve

Array = npt.NDArray[np.float64]


class Measured(Protocol):
    """A method's runs on a stream."""

    @property
    def learning_curves(self) -> Sequence[LearningCurve]:
        """One for each seed."""
        ...


COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b", "#7f7f7f", "#bcbd22")
DASHES = ("-", "--", ":", (0, (5, 1, 1, 1, 1, 1)))
"""Of what sends; what sends nothing is a level line of dashes and dots."""


def draw(found: Mapping[tuple[str, str], Measured]) -> Figure:
    """Draw the median error over seeds of every method against the bytes sent so far, a panel for each stream."""
    from matplotlib.figure import Figure

    streams = list(dict.fromkeys(stream for stream, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))
    looks = {
        method: {
            "color": COLORS[k % len(COLORS)],
            "marker": style.MARKERS[k % len(COLORS)],
            "linestyle": DASHES[k // len(COLORS) % len(DASHES)],
        }
        for k, method in enumerate(methods)
    }
    columns = min(3, len(streams))
    rows = -(-len(streams) // columns)
    beside = (2, 4, 5)[columns - 1]  # names of methods in a row under the panels
    height = 3.4 * rows + 0.25 * -(-len(methods) // beside)
    figure = Figure(figsize=(4.2 * columns, height), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for spare in axes[len(streams) :]:
        spare.remove()
    drawn = {}
    for ax, stream in zip(axes, streams, strict=False):
        for (name, method), tuned in found.items():
            if name != stream:
                continue
            error = np.median([learning_curve.error for learning_curve in tuned.learning_curves], axis=0)
            sent = np.median([learning_curve.bytes for learning_curve in tuned.learning_curves], axis=0) / 1e6
            look = {**looks[method], "markersize": 5, "markevery": [-1]}
            if sent[-1] > 0.0:
                (drawn[method],) = ax.plot(sent, error, **look, linewidth=1.4)
            else:
                drawn[method] = ax.axhline(error[-1], **{**look, "linestyle": "-."}, linewidth=1.2)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("MB sent by all nodes")
        ax.set_ylabel("error")
        ax.set_title(stream)
    figure.legend(
        [drawn[method] for method in methods if method in drawn],
        [method for method in methods if method in drawn],
        loc="outside lower center",
        ncols=beside,
        handlelength=3.2,  # dashes on both sides of the marker
    )
    return figure
