"""A comparison as a table: for the terminal, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison.table_notes import MARKS, above, explanation, marks, under
from kernelswarm.simulations.records.outcome import CHANGE, METRICS

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison, Row

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
EXACT = (*HEADINGS, "constant_risk")
"""Columns of the CSV file: the risk of the best constant prediction is the same for many rows."""

RANKED = ("risk", CHANGE, "error", "global_risk", "global_error")
"""Columns with a best value. Others have none: nodes that never talk send least, equally wrong ones agree, and a small
model or a short time is worth what it costs in risk."""


LATEX_MARKS = {"worse_than_constant": r"\dagger", "nothing_learned": r"\ddagger", "everything_kept": r"\S"}


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

    What all rows share, and where they differ unasked, stands above it; under it the reasons of failed runs, runs that
    are the same, and what the marks mean.
    """
    rows = comparison.rows()
    labels = _label_columns(comparison, rows)
    figures = [[heading, *cells] for heading, cells in _figure_columns(comparison, rows, _plain)]
    figures.append(["runs", *(_count(row) for row in rows)])
    head = sum(_wide(column) + 2 for column in labels)
    blocks: list[list[list[str]]] = [[]]
    for column in figures:
        if blocks[-1] and head + sum(_wide(other) + 2 for other in [*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    text = "\n\n".join(_aligned(labels, block) for block in blocks)
    head_lines = above(comparison)
    lines = [*head_lines, *([""] if head_lines else []), text, "", *explanation(rows), *under(comparison, rows)]
    return "\n".join(lines) + "\n"


def as_csv(comparison: Comparison) -> str:
    """Return all figures at full precision: for each metric a column for its mean and one for its deviation."""
    header = [
        *comparison.keys,
        *(f"{name}_{kind}" for name in EXACT for kind in ("mean", "std")),
        "runs",
        "equal",
        "failed",
        "reason",
        "verdict",
    ]
    lines = [
        [
            *row.labels,
            *(_exact(figures[name]) for name in EXACT for figures in (row.mean, row.deviation)),
            str(row.done),
            str(sum(len(seeds) - 1 for seeds in row.equal)),
            str(row.failed),
            "; ".join(row.reasons),
            "; ".join(row.verdicts),
        ]
        for row in comparison.rows()
    ]
    return comma_separated([header, *lines])


def runs_csv(comparison: Comparison) -> str:
    """Return the final figures of every single run at full precision."""
    header = [*comparison.keys, "seed", *METRICS, "digest", "verdict", "folder", "reason"]
    lines = []
    for run in comparison.runs:
        folder = "" if run.folder is None else str(run.folder)
        if run.folder is not None and comparison.folder is not None:
            folder = run.folder.relative_to(comparison.folder).as_posix()
        figures = [_exact(run.final.get(name, math.nan)) for name in METRICS]
        said = [run.digest, "; ".join(run.verdict), folder, run.failure]
        lines.append([*comparison.cells[run.cell].labels, str(run.seed), *figures, *said])
    return comma_separated([header, *lines])


def as_markdown(comparison: Comparison) -> str:
    """Return a Markdown table; the best mean of each column under the same circumstances is bold."""

    def cell(mean: float, spread: float, best: bool, kinds: Sequence[str]) -> str:
        text = pair(mean, spread)
        return " ".join([f"**{text}**" if best else text, *(MARKS[kind] for kind in kinds)])

    rows = comparison.rows()
    labels = [[markdown(text) for text in column] for column in _label_columns(comparison, rows)]
    columns = [
        *labels,
        *([heading, *cells] for heading, cells in _figure_columns(comparison, rows, cell)),
        ["runs", *map(_count, rows)],
    ]
    lines = [f"| {' | '.join(line)} |" for line in zip(*columns, strict=True)]
    rule = "|" + " --- |" * len(labels) + " ---: |" * (len(columns) - len(labels))
    head = "".join(f"{markdown(note)}\n\n" for note in above(comparison))
    notes = "".join(f"\n{markdown(note)}\n" for note in under(comparison, rows))
    return head + "\n".join([lines[0], rule, *lines[1:]]) + "\n" + notes


def as_latex(comparison: Comparison) -> str:
    """Return a ``tabular`` that needs the package ``booktabs``; the best means are bold as in :func:`as_markdown`."""

    def cell(mean: float, spread: float, best: bool, kinds: Sequence[str]) -> str:
        if not math.isfinite(mean):
            return "--"
        center, deviation, exponent = _rounded(mean, spread)
        text = rf"\mathbf{{{center}}}" if best else center
        text += rf" \pm {deviation}" if deviation else ""
        if exponent:
            text = rf"({text}) \times 10^{{{exponent}}}" if deviation else rf"{text} \times 10^{{{exponent}}}"
        said = "".join(LATEX_MARKS[kind] for kind in kinds)
        return f"${text}^{{{said}}}$" if said else f"${text}$"

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
            *(f"% {' '.join(note.split())}" for note in [*above(comparison), *under(comparison, rows)]),
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


def _plain(mean: float, deviation: float, best: bool, kinds: Sequence[str]) -> str:
    return " ".join([pair(mean, deviation), *(MARKS[kind] for kind in kinds)])


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
    comparison: Comparison, rows: Sequence[Row], cell: Callable[[float, float, bool, Sequence[str]], str]
) -> list[tuple[str, list[str]]]:
    """Return the columns that hold a number in some row, each with its heading.

    ``cell`` hears which means are best, and which verdicts are to be marked at a figure. A risk that has not fallen
    is no best change.
    """
    groups: dict[int, list[Row]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(comparison.reference(place), []).append(row)
    columns = []
    for name in HEADINGS:
        if not any(math.isfinite(row.mean[name]) for row in rows):
            continue
        best: list[Row] = []
        for alike in groups.values() if name in RANKED else ():
            means = [row.mean[name] for row in alike if math.isfinite(row.mean[name])]
            if name == CHANGE:
                best += [row for row in alike if row.mean[name] == min(means, default=0.0) < 0.0]
            elif len(means) > 1 and min(means) < max(means):
                best += [row for row in alike if row.mean[name] == min(means)]
        cells = [
            cell(row.mean[name], row.deviation[name], any(row is one for one in best), marks(row, name)) for row in rows
        ]
        columns.append((HEADINGS[name], cells))
    return columns


def _label_columns(comparison: Comparison, rows: Sequence[Row]) -> list[list[str]]:
    if not comparison.keys:
        return [["experiment", *("as given" for _ in rows)]]
    headings = [key.removesuffix(".name") for key in comparison.keys]
    return [[heading, *(row.labels[place] for row in rows)] for place, heading in enumerate(headings)]


def _count(row: Row) -> str:
    same = sum(len(seeds) - 1 for seeds in row.equal)
    text = f"{row.done} of {row.done + same + row.failed}" if row.failed or same else str(row.done)
    return f"{text}, {same} equal" if same else text


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
