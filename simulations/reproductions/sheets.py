"""The sheet of a reproduction, ``NAME.toml`` beside its module: rows, published numbers, claims, figures and notes.

A text has names in braces for constants of the module, and for values of a run. Their formats are Python's, and for
arrays also a reduction before it (``{errors:max .2g}``), ``±`` before the format of the standard deviation over the
draws (``{errors:.3g±.1g}``), and what stands between the numbers behind it (``{errors:.3g| / }``).
"""

from __future__ import annotations

import math
import string
import tomllib
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Figure, Reproduction, Table, spread
from kernelswarm.simulations.reproductions.walks import SLACK, slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


@dataclass(frozen=True)
class Row:
    """A learner of a paper's table or figure.

    Attributes
    ----------
    label : str
        How tables and figures call it.
    learner : Learner
        As its table describes it.
    settings : str
        What distinguishes it, in words.
    error, order : float or None
        What is printed of its error and model order.
    place : str
        What is printed of its error, in words with its place.
    near : float
        How far an error may lie from the printed one.
    rival : bool
        Whether the paper claims that it errs more than its own method.
    control : bool
        Whether no paper has it.
    tuned : bool
        Whether its step size is the best of several on samples that are used for nothing else.
    passes : int
        Over the samples.
    most : int or None
        The samples that it learns from; all where left out.
    """

    label: str
    learner: Any
    settings: str = ""
    error: float | None = None
    order: int | None = None
    place: str = ""
    near: float = math.nan
    rival: bool = False
    control: bool = False
    tuned: bool = False
    passes: int = 1
    most: int | None = None


@cache
def tables(name: str) -> Table:
    """Return all that the sheet of a reproduction holds."""
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


def rows(name: str, part: str = "") -> tuple[Row, ...]:
    """Return the rows of a sheet or of a part of it; keys of ``shared`` are laid under each learner's."""
    found = tables(name)[part] if part else tables(name)
    shared = found.get("shared", {})
    return tuple(
        Row(label, **{**entry, "learner": build("learner", {**shared, **entry["learner"]})})
        for label, entry in found["rows"].items()
    )


def combined(words: str, axes: Mapping[str, Iterable[Any]], keys: Table, base: Table) -> dict[str, dict[str, Any]]:
    """Return the experiments of a grid, which every combination of its axes' values makes of a base, by their words.

    An axis has one of the experiment's keys, or for each of its values several keys with what they become.
    """
    found = {}
    for values in product(*axes.values()):
        at, table = dict(zip(axes, values, strict=True)), dict(base)
        for axis in filter(at.__contains__, keys):
            key, value = keys[axis], at[axis]
            for place, entry in ({key: value} if isinstance(key, str) else key[str(value)]).items():
                table = changed(table, place, entry)
        found[words.format(**at)] = table
    return found


class Words(string.Formatter):
    """Formats of numbers and of arrays, (draws, n) by the means over the draws."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Write a value."""
        if isinstance(value, dict):
            return ", ".join(f"{name} {format(each, format_spec)}" for name, each in value.items())
        if not isinstance(value, (list, tuple, np.ndarray)):
            return str(format(value, format_spec))
        head, _, rest = format_spec.partition(" ")
        if head in ("mean", "min", "max", "median", "sum", "len"):
            return format(len(value) if head == "len" else getattr(np, head)(value), rest)
        form, _, between = format_spec.partition("|")
        if "±" in form:
            return spread(value, *form.split("±"))
        means = np.mean(value, axis=0) if np.ndim(value) > 1 else value
        return (between or ", ").join(format(each, form) for each in means)


@dataclass(frozen=True)
class Sheet:
    """The texts, claims and figures of a reproduction, with the values that they are filled with."""

    name: str
    values: Table

    def given(self, *values: Table, **more: Any) -> Sheet:
        """Return the sheet with further values."""
        return Sheet(self.name, ChainMap(more, *map(dict, values), dict(self.values)))

    def filled(self, text: str) -> str:
        """Return a text with the values for its names."""
        return Words().vformat(text, (), ChainMap({"SLACK": SLACK}, dict(self.values)))

    def notes(self, key: str = "notes") -> list[str]:
        """Return the paragraphs that stand below the table."""
        paragraphs = tables(self.name)[key].strip().split("\n\n")
        return [self.filled(" ".join(paragraph.split())) for paragraph in paragraphs]

    def claim(self, key: str, holds: object = None, **values: Any) -> Claim:
        """Return a row of the table.

        A sheet has its quantity, what is published, what is measured, and the settings. A fifth entry is a rate: the
        slope of ``y`` against ``x`` through logarithms, in the mean over the draws, which must be at ``least``, or at
        ``most``, the proved exponent, and is not judged without either.
        """
        entry = tables(self.name)["claims"][key]
        if isinstance(entry[-1], dict):
            x, y = (np.asarray(self.values[entry[-1][axis]]) for axis in "xy")
            slopes = [slope(x, line) for line in np.atleast_2d(y)]
            mean, least, most = float(np.mean(slopes)), entry[-1].get("least"), entry[-1].get("most")
            values |= {"slope": slopes if y.ndim > 1 else slopes[0]}
            if least is not None:
                holds = mean >= least - SLACK
            elif most is not None:
                holds = mean <= most + SLACK
        quantity, published, measured, settings = map(self.given(values).filled, entry[:4])
        return Claim(quantity, published, measured, settings, None if holds is None else bool(holds))

    def claims(self, **holds: object) -> list[Claim]:
        """Return all rows in the sheet's order with their verdicts; those without one judge nothing."""
        return [self.claim(key, holds.get(key)) for key in tables(self.name)["claims"]]

    def figure(self, key: str, kind: str = "figures", **more: Any) -> Figure:
        """Draw a figure of the sheet, with further keys of :func:`drawn`."""
        return drawn(self, **tables(self.name)[kind][key], **more)

    def lines(self, table: str) -> Table:
        """Return a table of the values or of the sheet."""
        name = self.filled(table)
        found: Table = self.values[name] if name in self.values else tables(self.name)[name]
        return found

    def numbers(self, value: Any, of: str = "mean") -> npt.NDArray[Any]:
        """Return numbers by their name, of draws (draws, n) their "mean" or "median", or of "each" a column."""
        found = np.asarray(self.values[self.filled(value)] if isinstance(value, str) else value)
        if found.ndim < 2:
            return found
        return found.T if of == "each" else np.asarray(getattr(np, of)(found, axis=0))

    def found(
        self, claims: Sequence[Claim], arrays: Mapping[str, Array], figures: Mapping[str, Figure] | None = None
    ) -> Reproduction:
        """Return the reproduction with these rows, the sheet's notes and its figures."""
        own = {key: self.figure(key) for key in tables(self.name).get("figures", {})}
        return Reproduction(claims, self.notes(), {**own, **(figures or {})}, arrays)


# Figures as data: panels, each with its curves.


def drawn(
    said: Sheet,
    panels: Sequence[Table],
    size: Sequence[float],
    columns: int = 0,
    below: int = 0,
    heading: str = "",
    of_all: bool = False,
    **subplots: Any,
) -> Figure:
    """Draw panels in rows of so many, all in one row when left out; one with ``each`` for every line of that table.

    ``size`` is that of the figure, or of a panel with what stands above and below all, in inches. ``below`` is
    the number of columns of a legend under them: of the first panel's curves, or of all with other labels.
    """
    from matplotlib.figure import Figure

    chosen = [
        (said.given(line, panel=name), panel)
        for panel in panels
        for name, line in (said.lines(panel["each"]) if "each" in panel else {"": {}}).items()
    ]
    columns = columns or len(chosen)
    rows = -(-len(chosen) // columns)
    width, height, *more = size
    whole = (width * columns, height * rows + more[0]) if more else (width, height)
    figure = Figure(figsize=whole, layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
    for place in places[len(chosen) :]:
        place.remove()
    for place, (of, panel) in zip(places, chosen, strict=False):
        _draw_panel(of, panel, place)
    if below:
        pairs = [
            pair
            for place in places[: None if of_all else 1]
            for pair in zip(*place.get_legend_handles_labels(), strict=True)
        ]
        entries = {label: handle for handle, label in pairs}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=below)
    if heading:
        figure.suptitle(said.filled(heading))
    return figure


def _draw_panel(said: Sheet, panel: Table, axes: Axes) -> None:
    """Draw the curves of a panel, and say what they are.

    ``log`` and ``plain`` are the logarithmic axes, and those of them with plain numbers at 1, 2 and 5 of each decade.
    ``ticks`` are written at a logarithmic x axis where powers of ten are too few, ``words`` at 0, 1, ... of it. A
    linear one has at most so many numbers as ``bins``. ``axes`` has the ends of axes.
    """
    for curve in panel["curves"]:
        _draw_curve(said, curve, axes)
    title, x, y = (said.filled(panel.get(key, "")) for key in ("title", "x", "y"))
    axes.set(**{f"{axis}scale": "log" for axis in panel.get("log", "")}, title=title, xlabel=x, ylabel=y)
    for axis in panel.get("plain", ""):
        _in_numbers(axes.xaxis if axis == "x" else axes.yaxis)
    if "words" in panel:
        words = said.values[panel["words"]]
        axes.set_xticks(range(len(words)), words)
    if "ticks" in panel:
        ticks = said.numbers(panel["ticks"])[:: panel.get("every", 1)].tolist()
        axes.set_xticks(ticks, [f"{place:g}" for place in ticks])
        axes.tick_params(axis="x", which="minor", labelbottom=False)
    axes.set(**{key: _ends(said, value) for key, value in panel.get("axes", {}).items()})
    if "bins" in panel:
        axes.locator_params(axis="x", nbins=panel["bins"])
    if "legend" in panel:
        axes.legend(**panel["legend"])


def _ends(said: Sheet, value: Any) -> Any:
    """Return both ends of an axis by their name, or as they stand there, free where one is left out or NaN."""
    ends = said.values[value] if isinstance(value, str) else [*value, math.nan][:2]
    return tuple(None if math.isnan(end) else end for end in ends)


def _in_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_curve(said: Sheet, curve: Table, axes: Axes) -> None:
    """Draw values over places, or a curve for each line of the table ``each``.

    It is a line across the axes where ``x`` is left out, and one along them where ``y`` is. ``look`` has further keys
    of matplotlib's lines, ``spread`` half the lengths of error bars, ``rate`` a proved exponent, whose line goes
    through the middle. With ``band`` a shade lies between the draws' least and largest values.
    """
    if "each" in curve:
        keys = {key: value for key, value in curve.items() if key != "each"}
        for name, line in said.lines(curve["each"]).items():
            _draw_curve(said.given(line, each=name), {**line, **keys}, axes)
        return
    of, color, dash = curve.get("of", "mean"), curve.get("color", "blue"), curve.get("dash", "-")
    x, y, spread = (said.numbers(curve[key], of) if key in curve else None for key in ("x", "y", "spread"))
    look: Table = {
        "color": vars(style).get(color.upper(), color),
        "linestyle": dash if isinstance(dash, str) else tuple(dash),
        "label": said.filled(curve["label"]) if curve.get("label") else None,
        **curve.get("look", {}),
    }
    marks: Table = {"marker": curve.get("marker", ""), "markersize": curve.get("size", 4)}
    if y is None:
        axes.axvline(x, **look)  # type: ignore[arg-type]
        return
    y = curve.get("unit", 1.0) * y
    if x is None:
        axes.axhline(y, **look)
    elif spread is not None:
        axes.errorbar(x, y, spread, **marks, **look)
    else:
        axes.plot(x, y, **marks, **look)
    if x is None:
        return
    draws = np.asarray(said.values[curve["y"]] if "band" in curve else [])
    if len(draws) > 1:
        axes.fill_between(x, draws.min(axis=0), draws.max(axis=0), color=look["color"], alpha=0.2, linewidth=0)
    if "rate" in curve:
        line = y[len(x) // 2] * (x / x[len(x) // 2]) ** curve["rate"]
        axes.plot(x, line, color=style.GREY, linestyle="--", label=f"slope {curve['rate']:g}", marker="", markersize=4)
