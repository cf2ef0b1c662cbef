"""The figure of rivals: what an error costs in bytes, and which methods are worth it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.networks.front import Point, corners, front
from kernelswarm.simulations.reproductions.networks.methods import Family
from kernelswarm.simulations.reproductions.panels import Curve, Panel, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS: Mapping[Family, tuple[str, str, str]] = {
    "values": (style.BLUE, "o", "values of functions"),
    "vectors": (style.VERMILLION, "^", "weights"),
    "summaries": (style.GREEN, "s", "means"),
    "nulls": (style.PURPLE, "D", "null: samples or their sums, once"),
}
"""Colour, marker and words of what is sent."""

LEVELS: Mapping[Family, tuple[str, str, str]] = {
    "alone": (style.ORANGE, "--", "null: best learner alone"),
    "one learner": (style.BLACK, ":", "best learner with all samples"),
}
"""Colour, dashes and words of what is no network."""

COLUMNS = 2

SHOWN = 1.3
"""How many times the error of the best learner alone is drawn at most."""


def draw(streams: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw each method's error against its bytes, with the front of each family and of all, a panel for each stream.

    Methods that err more than the best learner alone are worth no byte: what errs :data:`SHOWN` times as much is left
    out. Corners of the common front are named at the left, where nothing is cheaper than the first of them.
    """
    columns = min(COLUMNS, len(streams))
    rows = -(-len(streams) // columns)
    panels = [
        Panel(list(_curves(points)), stream, "MB sent by all nodes", "error", log="xy")
        for stream, points in streams.items()
    ]
    figure = drawn(panels, (5.8 * columns, 4.2 * rows + 0.6), columns, below=2 * columns, of_all=True)
    for axes, points in zip(figure.axes, streams.values(), strict=True):
        left, right = axes.get_xlim()
        axes.set_xlim(left / (right / left) ** 0.7, right)
        named = [point for point in corners(front(points)) if point.bytes]
        for number, point in enumerate(named, 1):
            place, offset = (point.bytes / 1e6, point.error), (-4, -3)
            axes.annotate(
                f"{number}", place, offset, textcoords="offset points", ha="right", va="top", fontsize=8, weight="bold"
            )
        names = "\n".join(f"{number} {point.method}" for number, point in enumerate(named, 1))
        axes.text(0.02, 0.8, names, transform=axes.transAxes, va="top", fontsize=7.5)
    return figure


def _curves(points: Sequence[Point]) -> Iterator[Curve]:
    """Yield the lines of what is no network, each family's points with its front, and the common front."""
    level = min((point.error for point in points if point.family == "alone"), default=float("inf"))
    points = [point for point in points if point.error <= SHOWN * level]
    for family, (color, dash, words) in LEVELS.items():
        errors = [point.error for point in points if point.family == family]
        if errors:
            yield Curve(None, min(errors), color, words, dash, look={"linewidth": 1.2})
    for family, (color, marker, words) in LOOKS.items():
        shown = [point for point in points if point.family == family]
        yield _curve(shown, color, None, marker, 3, linestyle="", alpha=0.4)
        yield _curve(front(shown), color, words, marker, 5, linewidth=1.0)
    common = [point for point in front(points) if point.bytes]
    yield _curve(common, style.BLACK, "front of all", "", 0, linewidth=4.0, alpha=0.25)


def _curve(points: Sequence[Point], color: str, label: str | None, marker: str, size: float, **look: object) -> Curve:
    """Return the errors over bytes: between two budgets the cheaper one holds."""
    places = [point.bytes / 1e6 for point in points]
    look = {"drawstyle": "steps-post", **look}
    return Curve(places, [point.error for point in points], color, label, "-", marker, size, look)
