"""Figures for a notebook: they show themselves, whether or not pyplot knows them."""

from __future__ import annotations

import io
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernelswarm.simulations.core.errors import InputError

DOTS = 80
"""Dots an inch of what a notebook shows: a picture of 6 by 4 inches takes some 30 kB."""


class Picture(Figure):
    """A figure that a notebook shows when it is the value of a cell."""

    def _repr_png_(self) -> bytes:
        return png(self)


def picture(width: float = 6.4, height: float = 4.0) -> tuple[Figure, Axes]:
    """Make a figure of a size in inches, with one pair of axes."""
    figure = Picture(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def figure_of(axes: Axes) -> Figure:
    """Return the figure that axes of the user's lie in; raises InputError where they are none."""
    if not isinstance(axes, Axes):
        raise InputError(f"ax is a {type(axes).__name__} and must be matplotlib axes: take them from plt.subplots()")
    return cast(Figure, axes.get_figure(root=True))


def png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, bbox_inches=None, metadata={"Software": None})
    return buffer.getvalue()
