"""A comparison as a table: for the terminal, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelswarm.simulations.outcome import CHANGE, METRICS
from kernelswarm.simulations.variation import NOT_APPLICABLE

if TYPE_CHECKING:
    from kernelswarm.simulations.comparison import Comparison, Row

HEADINGS = {
    "risk": "risk",
    CHANGE: "risk change",
    "error": "error",
    "global_risk": "pooled risk",
    "global_error": "pooled error",
    "model_order": "model order",
    "disagreement": "disagreement",
    "violation": "violation",
    "scalars_sent": "scalars sent",
    "seconds": "seconds",
}
NEUTRAL = {"disagreement", "scalars_sent"}
"""Columns without a best value: nodes that never talk send least, and equally wrong ones agree."""


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write ``comparison.txt``, ``.csv``, ``.md``, ``.tex`` and ``runs.csv`` into ``folder`` and return their paths."""
    texts = {
        "comparison.txt": as_text(comparison, width=10_000),
        "comparison.csv": as_csv(comparison),
        "comparison.md": as_markdown(comparison),
        "comparison.tex": as_latex(comparison),
        "runs.csv": runs_csv(comparison),
    }
    return [replace(Path(folder) / name, text) for name, text in texts.items()]


def replace(path: Path, text: str) -> Path:
    """Write ``text`` under a temporary name and rename it, so that a crash leaves no half file."""
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)
    return path


def as_text(comparison: Comparison, width: int = 100) -> str:
    """Return the table in aligned columns; columns that do not fit into ``width`` follow in further blocks.

    The reasons of failed runs stand under it.
    """
    rows = comparison.rows()
    labels = _label_columns(comparison, rows)
    figures = [
        [heading, *cells]
        for heading, cells in _figure_columns(comparison, rows, lambda mean, spread, best: pair(mean, spread))
    ]
    figures.append(["runs", *(_count(row) for row in rows)])
    head = sum(_wide(column) + 2 for column in labels)
    blocks: list[list[list[str]]] = [[]]
    for column in figures:
        if blocks[-1] and head + sum(_wide(other) + 2 for other in [*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    text = "\n\n".join(_aligned(labels, block) for block in blocks)
    return "\n".join([text, "", *_explanation(rows), *_notes(comparison, rows)]) + "\n"


def as_csv(comparison: Comparison) -> str:
    """Return all figures at full precision: for each metric a column for its mean and one for its deviation."""
    header = [
        *comparison.keys,
        *(f"{name}_{kind}" for name in HEADINGS for kind in ("mean", "std")),
        "runs",
        "failed",
        "reason",
    ]
    lines = [
        [
            *row.labels,
            *(_exact(figures[name]) for name in HEADINGS for figures in (row.mean, row.deviation)),
            str(row.done),
            str(row.failed),
            "; ".join(row.reasons),
        ]
        for row in comparison.rows()
    ]
    return comma_separated([header, *lines])


def runs_csv(comparison: Comparison) -> str:
    """Return the final figures of every single run at full precision."""
    header = [*comparison.keys, "seed", *METRICS, "folder", "reason"]
    lines = []
    for run in comparison.runs:
        folder = "" if run.folder is None else str(run.folder)
        if run.folder is not None and comparison.folder is not None:
            folder = run.folder.relative_to(comparison.folder).as_posix()
        figures = [_exact(run.final.get(name, math.nan)) for name in METRICS]
        lines.append([*comparison.cells[run.cell].labels, str(run.seed), *figures, folder, run.failure])
    return comma_separated([header, *lines])


def as_markdown(comparison: Comparison) -> str:
    """Return a Markdown table; the best mean of each column under the same circumstances is bold."""

    def cell(mean: float, spread: float, best: bool) -> str:
        return f"**{pair(mean, spread)}**" if best else pair(mean, spread)

    rows = comparison.rows()
    labels = [[markdown(text) for text in column] for column in _label_columns(comparison, rows)]
    columns = [
        *labels,
        *([heading, *cells] for heading, cells in _figure_columns(comparison, rows, cell)),
        ["runs", *map(_count, rows)],
    ]
    lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
    rule = "|" + " --- |" * len(labels) + " ---: |" * (len(columns) - len(labels))
    notes = "".join(f"\n{markdown(note)}\n" for note in _notes(comparison, rows))
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n" + notes


def as_latex(comparison: Comparison) -> str:
    """Return a ``tabular`` that needs the package ``booktabs``; the best means are bold as in :func:`as_markdown`."""

    def cell(mean: float, spread: float, best: bool) -> str:
        if not math.isfinite(mean):
            return "--"
        center, deviation, exponent = _rounded(mean, spread)
        text = rf"\mathbf{{{center}}}" if best else center
        text += rf" \pm {deviation}" if deviation else ""
        if exponent:
            text = rf"({text}) \times 10^{{{exponent}}}" if deviation else rf"{text} \times 10^{{{exponent}}}"
        return f"${text}$"

    rows = comparison.rows()
    labels = [[escape(text) for text in column] for column in _label_columns(comparison, rows)]
    columns = [
        *labels,
        *([heading, *cells] for heading, cells in _figure_columns(comparison, rows, cell)),
        ["runs", *map(_count, rows)],
    ]
    lines = [" & ".join(line) + r" \\" for line in zip(*columns, strict=True)]
    return "\n".join(
        [
            *(f"% {' '.join(note.split())}" for note in _notes(comparison, rows)),
            rf"\begin{{tabular}}{{{'l' * len(labels)}{'r' * (len(columns) - len(labels))}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def escape(text: str) -> str:
    """Return ``text`` so that LaTeX prints it as it is.

    Examples
    --------
    >>> escape("penalty_max = 5%")
    'penalty\\\\_max = 5\\\\%'
    """
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        **{character: rf"\{character}" for character in "&%$#_{}"},
    }
    return "".join(special.get(character, character) for character in text)


def pair(mean: float, deviation: float) -> str:
    """Write a mean with its deviation: two significant digits of the deviation decide how many the mean has.

    Examples
    --------
    >>> pair(0.41234, 0.0123), pair(1523456.0, 20000.0), pair(16.0, float("nan"))
    ('0.412 ± 0.012', '(1.523 ± 0.020)e6', '16')
    """
    if not math.isfinite(mean):
        return "–"
    center, spread, exponent = _rounded(mean, deviation)
    suffix = f"e{exponent}" if exponent else ""
    if not spread:
        return center + suffix
    return f"({center} ± {spread}){suffix}" if suffix else f"{center} ± {spread}"


def _rounded(mean: float, deviation: float) -> tuple[str, str, int]:
    """Return mean and deviation with the same decimals, and the power of ten taken out of both; no deviation is ""."""
    # Equal runs leave a deviation at rounding level, which must not ask for sixteen digits of the mean.
    spread = deviation if math.isfinite(deviation) and deviation > 1e-12 * abs(mean) else 0.0
    largest = max(abs(mean), spread)
    magnitude = math.floor(math.log10(largest)) if largest > 0 else 0
    exponent = magnitude if magnitude >= 6 or magnitude < -3 else 0
    mean, spread, magnitude = mean / 10.0**exponent, spread / 10.0**exponent, magnitude - exponent
    wanted = 1 - math.floor(math.log10(spread)) if spread > 0 else 3 - magnitude
    decimals = max(0, min(wanted, 3 - magnitude))
    if spread == 0:
        center = f"{mean:.{decimals}f}"
        return center.rstrip("0").rstrip(".") if "." in center else center, "", exponent
    return f"{mean:.{decimals}f}", f"{spread:.{decimals}f}", exponent


def _figure_columns(
    comparison: Comparison, rows: Sequence[Row], cell: Callable[[float, float, bool], str]
) -> list[tuple[str, list[str]]]:
    """Return the columns that hold a number in some row, each with its heading; ``cell`` hears which means are best."""
    groups: dict[int, list[Row]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(comparison.reference(place), []).append(row)
    columns = []
    for name in HEADINGS:
        if not any(math.isfinite(row.mean[name]) for row in rows):
            continue
        best: list[Row] = []
        for alike in groups.values() if name not in NEUTRAL else ():
            means = [row.mean[name] for row in alike if math.isfinite(row.mean[name])]
            if len(means) > 1 and min(means) < max(means):
                best += [row for row in alike if row.mean[name] == min(means)]
        cells = [cell(row.mean[name], row.deviation[name], any(row is one for one in best)) for row in rows]
        columns.append((HEADINGS[name], cells))
    return columns


def _label_columns(comparison: Comparison, rows: Sequence[Row]) -> list[list[str]]:
    if not comparison.keys:
        return [["experiment", *("as given" for _ in rows)]]
    headings = [key.removesuffix(".name") for key in comparison.keys]
    return [[heading, *(row.labels[place] for row in rows)] for place, heading in enumerate(headings)]


def _count(row: Row) -> str:
    return f"{row.done} of {row.done + row.failed}" if row.failed else str(row.done)


def _notes(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    notes = []
    for row in rows:
        names = zip(comparison.keys, row.labels, strict=True)
        cell = ", ".join(f"{key.removesuffix('.name')} = {label}" for key, label in names if label != NOT_APPLICABLE)
        notes += [f"failed: {cell or 'the experiment'}: {reason}" for reason in row.reasons]
    return notes


def _explanation(rows: Sequence[Row]) -> list[str]:
    several = any(row.done > 1 for row in rows)
    lines = ["mean ± standard deviation over seeds"] if several else []
    lines.append(
        "risk and error are measured on the nodes' own data, the pooled ones on the data of all nodes together"
    )
    if any(math.isfinite(row.mean[CHANGE]) for row in rows):
        lines.append(
            "risk change: against the isolated nodes, or else the first row, under the same circumstances and with the "
            "same seed; negative is better"
        )
    return lines


def _wide(column: Sequence[str]) -> int:
    return max(len(cell) for cell in column)


def _aligned(labels: Sequence[Sequence[str]], figures: Sequence[Sequence[str]]) -> str:
    left = [[cell.ljust(_wide(column)) for cell in column] for column in labels]
    right = [[cell.rjust(_wide(column)) for cell in column] for column in figures]
    lines = ["  ".join(line).rstrip() for line in zip(*left, *right, strict=True)]
    rule = "  ".join("-" * _wide(column) for column in [*labels, *figures])
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown(text: str) -> str:
    """Return ``text`` in one line so that Markdown shows it as it is."""
    return " ".join(text.split()).replace("|", r"\|").replace("*", r"\*").replace("_", r"\_")


def _exact(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""


def comma_separated(lines: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
