"""The common style of all figures: colours that colour-blind readers can distinguish, names and scales of axes."""

from __future__ import annotations

import itertools
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core import errors
from kernelswarm.simulations.records.result import SHARE, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

    from kernelswarm.agents.parts.losses import Loss
    from kernelswarm.simulations.records.result import Result


# Okabe and Ito (2008), and two dark colours of Tol; yellow is last, since it is hardly visible on white.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, YELLOW = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#F0E442",
)
GREY, INDIGO, WINE = "#8C8C8C", "#332288", "#882255"
CLASS_COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, INDIGO, GREY, WINE, YELLOW)
CLASS_MARKERS = "osD^vPX<>*"

# One colour, dash and marker per protocol in every figure, so that a reader learns them once.
PROTOCOLS: dict[str, tuple[str, Any, str]] = {
    "isolated": (ORANGE, "--", "s"),
    "consensus": (BLUE, "-", "o"),
    "proximity": (GREEN, "-.", "^"),
    "centralized": (BLACK, ":", "D"),
    "batch": (PURPLE, (0, (5, 1, 1, 1, 1, 1)), "v"),
}
OTHER_COLORS = (VERMILLION, SKY, INDIGO, WINE)  # grey is pooled data
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = "o^svDPX<>*"
SWEEP = 5  # curves of one protocol; with more, shades show their order

RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.prop_cycle": f"cycler(color={list(CLASS_COLORS)})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.dpi": 150,
    "figure.titlesize": 11,
    "font.family": "DejaVu Sans",  # included in matplotlib, so the same pixels on every machine
    "font.size": 9,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class Stroke:
    """The style of one curve: colour, dashes and marker."""

    color: Any
    dash: Any
    marker: str


def protocol_color(name: str, others: Sequence[str] = ()) -> str:
    """Return the colour of protocol ``name``; unknown ones have colours by their place in ``others``, sorted."""
    if name in PROTOCOLS:
        return PROTOCOLS[name][0]
    strangers = sorted({*others, name} - set(PROTOCOLS))
    return OTHER_COLORS[strangers.index(name) % len(OTHER_COLORS)]


def strokes(protocols: Sequence[str]) -> list[Stroke]:
    """Return one stroke per curve, given the protocol of each curve.

    Curves of different protocols differ in colour, dashes and marker. Curves of the same protocol have shades of its
    colour, and differ in dashes and marker; for many curves, as in a sweep, shades go from dark to light in order.
    While there are enough markers, no two curves share one, for readers who cannot distinguish some colours.
    """
    drawn: list[Stroke] = []
    single = {PROTOCOLS[name][2] for name in PROTOCOLS if protocols.count(name) == 1}
    markers = itertools.cycle([marker for marker in MARKERS if marker not in single])
    for position, name in enumerate(protocols):
        color = protocol_color(name, protocols)
        alike = [k for k, other in enumerate(protocols) if other == name]
        if len(alike) == 1:
            strangers = sorted(set(protocols) - set(PROTOCOLS))
            place = 4 + strangers.index(name) if name not in PROTOCOLS else 0
            _, dash, marker = PROTOCOLS.get(name, (color, DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]))
            drawn.append(Stroke(color, dash, marker))
        else:
            rank = alike.index(position)
            if len(alike) <= SWEEP:
                share = 0.55 * math.ceil(rank / 2) / math.ceil((len(alike) - 1) / 2)
                shade = lighter(color, share) if rank % 2 else darker(color, share)
            else:
                share = 1.4 * (rank / (len(alike) - 1) - 0.5)  # from -0.7 to 0.7
                shade = lighter(color, share) if share > 0 else darker(color, -share)
            drawn.append(Stroke(shade, DASHES[rank % len(DASHES)], next(markers)))
    return drawn


def lighter(color: str, share: float) -> tuple[float, float, float]:
    """Mix ``color`` with white; ``share`` in [0, 1] is the part of white."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    return (red + (1 - red) * share, green + (1 - green) * share, blue + (1 - blue) * share)


def darker(color: str, share: float) -> tuple[float, float, float]:
    """Mix ``color`` with black; ``share`` in [0, 1] is the part of black."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    return red * (1 - share), green * (1 - share), blue * (1 - share)


def spans_decades(values: Iterable[Array], decades: float = 1.5) -> bool:
    """Tell whether the values are positive, except for a few zeros, and span ``decades`` powers of ten."""
    together = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values] or [np.zeros(0)])
    together = together[np.isfinite(together)]
    positive = together[together > 0]
    if len(positive) < 2 or np.any(together < 0) or len(positive) < 0.8 * len(together):
        return False
    return bool(np.log10(positive.max() / positive.min()) >= decades)


def scale(axes: Axes, values: Iterable[Array], axis: str = "y") -> None:
    """Make an axis logarithmic if its values span decades, and start it at zero if they start close to zero."""
    listed = [np.ravel(np.asarray(v, dtype=float)) for v in values]
    if spans_decades(listed):
        axes.set_yscale("log", nonpositive="mask") if axis == "y" else axes.set_xscale("log", nonpositive="mask")
        return
    finite = np.concatenate([*listed, np.zeros(0)])
    finite = finite[np.isfinite(finite)]
    if len(finite) and finite.min() >= 0 and finite.min() <= 0.5 * finite.max():
        limits = (0.0, None) if finite.max() > 0.0 else (-0.05, 1.0)  # zeros are visible only off the axis
        axes.set_ylim(*limits) if axis == "y" else axes.set_xlim(*limits)


def units(axes: Axes, against: str) -> None:
    """Format the ticks of a horizontal axis: bytes as kB, MB and so on, scalars as k and M."""
    from matplotlib.ticker import EngFormatter, NullFormatter

    if against in ("scalars", "bytes"):
        axes.xaxis.set_major_formatter(
            EngFormatter("B" if against == "bytes" else "", sep="" if against != "bytes" else " ")
        )
        axes.xaxis.set_minor_formatter(NullFormatter())
        if axes.get_xscale() == "linear":
            axes.locator_params(axis="x", nbins=5)


def ticks(bar: Colorbar) -> None:
    """Mark a logarithmic colour bar at the powers of ten, and at 2 and 5 times the powers if there is room."""
    from matplotlib.colors import LogNorm

    if not isinstance(bar.norm, LogNorm) or bar.norm.vmin is None or bar.norm.vmax is None:
        return
    low, high = float(bar.norm.vmin), float(bar.norm.vmax)
    steps = (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    places = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    bar.set_ticks(places, labels=[f"{place:.4g}" for place in places])
    bar.minorticks_off()


def readable(value: float) -> str:
    """Write a number for a title or a legend: three significant digits, thousands with commas."""
    if not np.isfinite(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:#.3g}".rstrip(".")
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.2e}"


def short(name: object, most: int = 32) -> str:
    """Return a user's name on one line of at most ``most`` characters.

    Examples
    --------
    >>> short("two\\nlines"), short("x" * 40, 8)
    ('two lines', 'xxxxxxx…')
    """
    text = " ".join(str(name).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def literal(text: str) -> str:
    """Escape a text for matplotlib, so that it is not parsed as a formula.

    Examples
    --------
    >>> print(literal("$x_1$"))
    \\$x_1\\$
    """
    return text.replace("$", r"\$")


def distinct(names: Iterable[object], most: int = 32) -> list[str]:
    """Shorten names like `short`, but keep them distinct.

    If shortened names are equal, their common beginning is removed, or they are cut in the middle.

    Examples
    --------
    >>> distinct(["sensor of field 1", "sensor of field 2"], 9)
    ['…1', '…2']
    """
    texts = [short(name, sys.maxsize) for name in names]
    first, last = min(texts, default=""), max(texts, default="")  # their common beginning is common to all
    differ = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    start = first.rfind(" ", 0, next(differ, 0)) + 1
    head, tail = (most - 1) // 2, most // 2
    forms = (
        [short(text, most) for text in texts],
        [f"…{short(text[start:], most - 1)}" for text in texts],
        [text if len(text) <= most else f"{text[:head]}…{text[-tail:]}" for text in texts],
    )
    return max(forms, key=lambda form: len(set(form)))  # the first of equally good forms


def node_names(result: Result, most: int = 32) -> dict[int, str]:
    """Return the name of each node, `distinct` and `literal`."""
    return dict(zip(result.node_names, map(literal, distinct(result.node_names.values(), most)), strict=True))


def without_formulas(figure: Figure) -> None:
    """Show users' names literally, since matplotlib reads text between two $ as a formula."""
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    numbers = {text for tick in figure.findobj(Tick) for text in (tick.label1, tick.label2)}
    for text in figure.findobj(Text):
        if text not in numbers:
            text.set_parse_math(False)
            text.set_text(text.get_text().replace(r"\$", "$"))  # undoes `literal`


def fit_name(axes: Axes) -> None:
    """Wrap the label of a y-axis if it is longer than the user's axes are high."""
    label = axes.yaxis.label
    letter = 0.6 * float(label.get_fontsize()) / 72.0  # inches
    height = axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted()).height
    axes.set_ylabel(wrapped(axes.get_ylabel(), max(8, int(height / letter))))


def wrapped(text: str, width: int) -> str:
    """Break a long text into lines of at most ``width`` characters, at spaces if possible.

    A key and its value remain on one line if they fit: ``penalty = 0.1``.
    """
    whole = re.sub(r" = (?=\S)", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}", text)
    longest = max(map(len, whole.split(" ")), default=0)
    kept = whole if longest <= width else text
    return textwrap.fill(kept, width, break_on_hyphens=False).replace("\N{NO-BREAK SPACE}", " ")


def task(config: dict[str, Any]) -> str:
    """Return "regression" or "classification" by the experiment's loss; "regression" if its module is missing here."""
    from kernelswarm.simulations.core.errors import InputError
    from kernelswarm.simulations.experiment.parts import build

    try:
        loss: Loss = build("loss", config.get("learner", {}).get("loss", "squared"), "learner.loss")
    except InputError:  # a module that is missing, or must not be imported
        return "regression"
    return "regression" if loss.task == "regression" else "classification"


def loss_name(config: dict[str, Any]) -> str:
    """Return the loss in words: ``multiclass_logistic`` becomes "multiclass logistic"."""
    loss = config.get("learner", {}).get("loss", "squared")
    name = str(loss.get("name", "") if isinstance(loss, dict) else loss)
    return name.rpartition(":")[2].replace("_", " ")


def column_label(column: str, config: dict[str, Any], facts: Mapping[str, Any] | None = None) -> str:
    """Return the label of an axis for a measured column, with its unit, which may be in a summary's ``facts``."""
    unit = unit_of(config, facts)
    error = "fraction misclassified" if task(config) == "classification" else "mean square error"
    loss = f"{loss_name(config)} loss"
    square = "mean square"
    if unit == SHARE:
        error = loss = square = unit
    elif unit:
        error, loss, square = (f"{words}, {unit}" for words in (error, loss, square))
    words = {
        "risk": f"risk ({loss})",
        "global_risk": f"pooled risk ({loss})",
        "progressive_risk": f"progressive risk ({loss})",
        "error": f"error ({error})",
        "global_error": f"pooled error ({error})",
        "model_order": "model order (points or features a node)",
        "disagreement": f"disagreement ({square})",
        "violation": "constraint violation (sum)",
        "coverage": "coverage (targets within the band)",
        "global_coverage": "pooled coverage (targets within the band)",
        "progressive_coverage": "progressive coverage",
        "width": "width of the band",
        "global_width": "pooled width of the band",
        "log_density": "log density (mean of targets)",
        "global_log_density": "pooled log density (mean of targets)",
        "regret": "regret against a batch solution",
        "dynamic_regret": "regret against the truth",
        "scalars_sent": "scalars sent (network)",
        "bytes_sent": "bytes sent (network)",
        "round": "rounds",
        "seconds": "time (s)",
        "samples": "samples a node",
    }
    return words.get(column, column.replace("_", " "))


def called(table: Any) -> str:
    """Return the name in titles of a part, from its table or name; for data from a file, the file's name.

    Examples
    --------
    >>> called("sensor_field"), called({"name": "file", "path": "data/wine.csv", "epochs": 3})
    ('sensor field', 'wine.csv')
    """
    name = table.get("name", "") if isinstance(table, Mapping) else table
    found = errors.called(table)
    return found.replace("_", " ") if found == name else found
