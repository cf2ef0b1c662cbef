"""The contract of a reproduction: its request, its claims, its figures as data, and the rows that it compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Figure

    from kernelswarm.simulations.reproductions.pieces import Shelf
else:
    Figure = "matplotlib.figure.Figure"  # which is not imported before something is drawn

Item = TypeVar("Item")
ByDraw = Sequence[float] | Array
"""A number of each draw."""


@dataclass(frozen=True)
class Claim:
    """One row of a reproduction's table.

    Attributes
    ----------
    quantity : str
        What is measured, in the paper's words: "test error, COLK".
    published : str
        The paper's value, ordering or bound with its place: "4.36% (figure 2)"; empty if it prints none.
    measured : str
        The value here, with its spread where several sets were drawn.
    settings : str
        What distinguishes this row's run: learner, kernel, step size, budget, passes.
    holds : bool or None
        Whether the paper's claim is true here, or None if it cannot be checked or there is no claim.
    """

    quantity: str
    published: str
    measured: str
    settings: str
    holds: bool | None = None


def count(claims: Sequence[Claim]) -> dict[str, int]:
    """Count claims that ``hold``, that ``fail``, that are published and ``unchecked``, and rows with ``no_claim``."""
    verdicts = [claim.holds for claim in claims]
    open_ones = sum(claim.holds is None and bool(claim.published) for claim in claims)
    return {
        "hold": verdicts.count(True),
        "fail": verdicts.count(False),
        "unchecked": open_ones,
        "no_claim": verdicts.count(None) - open_ones,
    }


def errs_more(errors: ByDraw, others: ByDraw) -> bool | None:
    """Tell whether errors are larger than others of the same draws, by more than twice the difference's standard error.

    None with fewer than three draws.
    """
    if len(errors) < 3:
        return None
    differences = np.subtract(errors, others)
    return bool(np.mean(differences) > 2.0 * np.std(differences, ddof=1) / len(differences) ** 0.5)


def beyond(errors: ByDraw, others: ByDraw, unit: float = 1.0) -> str:
    """Write by how much errors are larger than others of the same draws, with the difference's standard error.

    Examples
    --------
    >>> beyond([0.3, 0.4, 0.5], [0.1, 0.2, 0.2], 100.0)
    'a difference of 23 ± 3.3'
    """
    differences = unit * np.subtract(errors, others)
    error = f" ± {np.std(differences, ddof=1) / len(differences) ** 0.5:.2g}" if len(differences) > 1 else ""
    return f"a difference of {np.mean(differences):.2g}{error}"


def spread(values: ByDraw, form: str, deviation: str = "") -> str:
    """Write a mean with the standard deviation over the draws, in a format or two.

    Examples
    --------
    >>> spread([1.0, 2.0], ".3g", ".1g"), spread([1.0], ".2f")
    ('1.5 ± 0.7', '1.00')
    """
    mean = f"{np.mean(values):{form}}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):{deviation or form}}"


@dataclass
class Reproduction:
    """What a reproduction found.

    Attributes
    ----------
    claims : sequence of Claim
        The rows of the table, the paper's claims among them.
    notes : sequence of str
        One paragraph each: missing data and their substitutes, and attempts to make a failed claim hold.
    figures : mapping of str to Figure
        By file name without ending; made with ``matplotlib.figure.Figure``.
    arrays : mapping of str to array
        The numbers behind the figures, (name) -> array, written to ``numbers.npz``.
    """

    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the user asks of a reproduction.

    Attributes
    ----------
    data : Path or None
        The file or folder of the data, if needed; the reproduction refuses missing files.
    quick : bool
        Fewer sets, samples and passes: a look in a minute, whose numbers are no reproduction; the table says so.
    seed : int
        Seed of everything that is drawn.
    tell : callable
        ``tell(what, share)`` is called with the present piece and the share in [0, 1] of the whole that is done.
    jobs : int
        Processes at a time, for reproductions made of pieces (`pieces.py`).
    shelf : Shelf or None
        Where they keep the pieces that have ended, to go on from.
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    tell: Callable[[str, float], None] = lambda what, share: None
    jobs: int = 1
    shelf: Shelf | None = None

    def each(self, items: Collection[Item], words: Callable[[Item], str] = str) -> Iterator[Item]:
        """Yield the items in turn, and say which it is and what share of them has ended."""
        for place, item in enumerate(items):
            self.tell(words(item), place / len(items))
            yield item

    def draws(self, count: int) -> Iterator[int]:
        """Yield the numbers of so many draws, as :meth:`each` does."""
        return self.each(range(count), lambda draw: f"draw {draw + 1} of {count}")

    def part(self, begin: float, end: float) -> Request:
        """Return the request of a part, whose shares lie from ``begin`` to ``end`` of the whole."""
        return replace(self, tell=lambda what, share: self.tell(what, begin + (end - begin) * share))


class Reproduce(Protocol):
    """A reproduction: the function ``reproduce`` of its file, whose docstring begins with its subject."""

    def __call__(self, request: Request) -> Reproduction:
        """Run the paper's experiment.

        Raises
        ------
        InputError
            The data are missing or differ from the published ones: names the file and where it is published.
        """
        ...


@dataclass(frozen=True)
class Finding:
    """A finished reproduction: its subject, time (ISO 8601 in UTC), duration, and folder, if any."""

    name: str
    sentence: str
    request: Request
    reproduction: Reproduction
    started: str
    seconds: float
    folder: Path | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The rows of the table."""
        return tuple(self.reproduction.claims)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, as of :func:`count`."""
        return count(self.claims)


# Figures as data: panels, each with its curves, and how they are drawn.


@dataclass(frozen=True)
class Curve:
    """Values over places; a line across the axes where ``x`` is left out, and one along them where ``y`` is.

    Attributes
    ----------
    look : mapping
        Further keys of matplotlib's lines.
    band : tuple of array or None
        Lower and upper ends of a shade.
    spread : array or None
        Half the lengths of error bars.
    """

    x: npt.ArrayLike | None
    y: npt.ArrayLike | None
    color: str
    label: str | None = None
    dash: Any = "-"
    marker: str = ""
    size: float = 4
    look: Mapping[str, Any] = field(default_factory=dict)
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    spread: npt.ArrayLike | None = None

    def draw(self, axes: Axes) -> None:
        look = {"color": self.color, "linestyle": self.dash, "label": self.label, **self.look}
        if self.x is None:
            axes.axhline(self.y, **look)  # type: ignore[arg-type]
        elif self.y is None:
            axes.axvline(self.x, **look)  # type: ignore[arg-type]
        elif self.spread is not None:
            axes.errorbar(self.x, self.y, self.spread, marker=self.marker, markersize=self.size, **look)
        else:
            axes.plot(self.x, self.y, marker=self.marker, markersize=self.size, **look)
        if self.band is not None:
            axes.fill_between(self.x, *self.band, color=self.color, alpha=0.2, linewidth=0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Panel:
    """Curves with their axes.

    Attributes
    ----------
    log, plain : str
        The logarithmic axes, and those of them with plain numbers at 1, 2 and 5 of each decade: "", "x", "y" or "xy".
    ticks : sequence of float
        Numbers that are written at a logarithmic x axis, where powers of ten are too few.
    words : sequence of str
        What is written at 0, 1, ... of the x axis.
    legend : mapping or None
        Keys of the legend in it; None for none.
    axes : mapping
        Further properties of matplotlib's axes.
    bins : int
        Numbers at a linear x axis, at most; as many as fit where it is 0.
    """

    curves: Sequence[Curve]
    title: str = ""
    x: str = ""
    y: str = ""
    log: str = ""
    plain: str = ""
    ticks: Sequence[float] = ()
    words: Sequence[str] = ()
    legend: Mapping[str, Any] | None = None
    axes: Mapping[str, Any] = field(default_factory=dict)
    bins: int = 0

    def draw(self, axes: Axes) -> None:
        """Draw the curves, and say what they are."""
        for curve in self.curves:
            curve.draw(axes)
        axes.set(**{f"{axis}scale": "log" for axis in self.log}, title=self.title, xlabel=self.x, ylabel=self.y)
        for axis in self.plain:
            _in_numbers(axes.xaxis if axis == "x" else axes.yaxis)
        if self.words:
            axes.set_xticks(range(len(self.words)), self.words)
        if self.ticks:
            axes.set_xticks(list(self.ticks), [f"{place:g}" for place in self.ticks])
            axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.set(**self.axes)
        if self.bins:
            axes.locator_params(axis="x", nbins=self.bins)
        if self.legend is not None:
            axes.legend(**self.legend)


def _in_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def drawn(
    panels: Sequence[Panel],
    size: Sequence[float],
    columns: int = 0,
    below: int = 0,
    heading: str = "",
    of_all: bool = False,
    **subplots: Any,
) -> Figure:
    """Draw panels in rows of so many, all in one row when left out.

    ``size`` is that of the figure, or of a panel with what stands above and below all, in inches. ``below`` is
    the number of columns of a legend under them: of the first panel's curves, or of all with other labels.
    """
    from matplotlib.figure import Figure

    columns = columns or len(panels)
    rows = -(-len(panels) // columns)
    width, height, *more = size
    whole = (width * columns, height * rows + more[0]) if more else (width, height)
    figure = Figure(figsize=whole, layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
    for place in places[len(panels) :]:
        place.remove()
    for place, panel in zip(places, panels, strict=False):
        panel.draw(place)
    if below:
        pairs = [
            pair
            for place in places[: None if of_all else 1]
            for pair in zip(*place.get_legend_handles_labels(), strict=True)
        ]
        entries = {label: handle for handle, label in pairs}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=below)
    if heading:
        figure.suptitle(heading)
    return figure
