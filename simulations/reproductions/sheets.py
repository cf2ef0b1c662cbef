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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    drawn,
    spread,
)
from kernelswarm.simulations.reproductions.walks import SLACK, slope


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
def tables(name: str) -> Mapping[str, Any]:
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


def combined(
    words: str, axes: Mapping[str, Iterable[Any]], keys: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
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
    values: Mapping[str, Any]

    def given(self, *values: Mapping[str, Any], **more: Any) -> Sheet:
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
        entry = tables(self.name)[kind][key]
        keys = {name: value for name, value in entry.items() if name not in ("panels", "heading")}
        panels = [
            self.given(line, panel=name)._panel(panel)
            for panel in entry["panels"]
            for name, line in self._lines(panel.get("each"))
        ]
        return drawn(panels, heading=self.filled(entry.get("heading", "")), **keys, **more)

    def found(
        self, claims: Sequence[Claim], arrays: Mapping[str, Array], figures: Mapping[str, Figure] | None = None
    ) -> Reproduction:
        """Return the reproduction with these rows, the sheet's notes and its figures."""
        own = {key: self.figure(key) for key in tables(self.name).get("figures", {})}
        return Reproduction(claims, self.notes(), {**own, **(figures or {})}, arrays)

    def _panel(self, entry: Mapping[str, Any]) -> Panel:
        title, x, y = (self.filled(entry.get(key, "")) for key in ("title", "x", "y"))
        keys = {key: entry[key] for key in ("log", "plain", "legend", "bins") if key in entry}
        if "words" in entry:
            keys["words"] = self.values[entry["words"]]
        if "ticks" in entry:
            keys["ticks"] = self._numbers(entry["ticks"])[:: entry.get("every", 1)].tolist()
        limits = {key: self._limits(value) for key, value in entry.get("axes", {}).items()}
        curves = [curve for each in entry["curves"] for curve in self._curves(each)]
        return Panel(curves, title, x, y, **keys, axes=limits)

    def _limits(self, value: Any) -> Any:
        """Return both ends of an axis by their name, or as they stand there, free where one is left out or NaN."""
        ends = self.values[value] if isinstance(value, str) else [*value, math.nan][:2]
        return tuple(None if math.isnan(end) else end for end in ends)

    def _lines(self, table: str | None) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Return the lines of a table of the values or of the sheet by their names; one without keys for none."""
        if table is None:
            return [("", {})]
        name = self.filled(table)
        found: Mapping[str, Any] = self.values[name] if name in self.values else tables(self.name)[name]
        return found.items()

    def _curves(self, entry: Mapping[str, Any]) -> Iterator[Curve]:
        """Yield the curve of an entry, or one for each line of the table that it names."""
        if "each" in entry:
            keys = {key: value for key, value in entry.items() if key != "each"}
            for name, line in self._lines(entry["each"]):
                yield from self.given(line, each=name)._curves({**line, **keys})
            return
        of = entry.get("of", "mean")
        x, y, spread = (self._numbers(entry[key], of) if key in entry else None for key in ("x", "y", "spread"))
        color, dash, band = entry.get("color", "blue"), entry.get("dash", "-"), None
        color = vars(style).get(color.upper(), color)
        keys = {key: entry[key] for key in ("marker", "size", "look") if key in entry}
        if entry.get("label"):
            keys["label"] = self.filled(entry["label"])
        if "band" in entry:
            draws = self.values[entry["y"]]
            band = (draws.min(axis=0), draws.max(axis=0)) if len(draws) > 1 else None
        if y is not None:
            y = entry.get("unit", 1.0) * y
        yield Curve(x, y, color, dash=dash if isinstance(dash, str) else tuple(dash), band=band, spread=spread, **keys)
        if x is not None and y is not None and "rate" in entry:  # the proved exponent, through the middle
            line = y[len(x) // 2] * (x / x[len(x) // 2]) ** entry["rate"]
            yield Curve(x, line, style.GREY, f"slope {entry['rate']:g}", "--")

    def _numbers(self, value: Any, of: str = "mean") -> npt.NDArray[Any]:
        """Return numbers by their name, of draws (draws, n) their "mean" or "median", or of "each" a column."""
        found = np.asarray(self.values[self.filled(value)] if isinstance(value, str) else value)
        if found.ndim < 2:
            return found
        return found.T if of == "each" else np.asarray(getattr(np, of)(found, axis=0))
