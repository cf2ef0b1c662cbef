"""The table of a comparison as text, CSV, Markdown, HTML and LaTeX."""

from __future__ import annotations

import csv
import html
import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.comparison.table_notes import (
    HEADINGS,
    MARKS,
    SENTENCES,
    above,
    as_cells,
    best,
    explanation,
    marks,
    pair,
    plainly,
    rounded,
    row_name,
    supported,
    tuned_columns,
    tuned_keys,
    under,
)
from kernelswarm.simulations.core.errors import InputError, nearest, shown, visible
from kernelswarm.simulations.core.files import write_text
from kernelswarm.simulations.core.notebook import html_table
from kernelswarm.simulations.records.outcome import METRICS
from kernelswarm.simulations.records.result import TWINS, MeasuredTable

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison, Row

# The columns of a comparison's table, for all formats.


@dataclass(frozen=True)
class Figure:
    """One cell of the table.

    Parameters
    ----------
    mean, deviation : float
        Mean and standard deviation over the seeds; NaN without values.
    best : bool
        Whether the seeds support that the figure is lower than all others under the same circumstances.
    marks : tuple of str
        The kinds of warnings that are marked at the figure.
    """

    mean: float
    deviation: float
    best: bool
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column of figures with a heading."""

    name: str
    heading: str
    figures: tuple[Figure, ...]

    @property
    def plain(self) -> bool:
        """Whether the numbers are written without powers of ten."""
        return plainly(one.mean for one in self.figures)


def figure_columns(comparison: Comparison, rows: Sequence[Row], chosen: Sequence[str] = ()) -> list[Column]:
    """Return the columns with a number in any row.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    rows : sequence of Row
        The rows, with the chosen columns.
    chosen : sequence of str
        The measured columns in order; by default ``HEADINGS``, without errors that equal the risks.

    Raises
    ------
    InputError
        A chosen column was not measured.
    """
    known = {name for row in rows for name, mean in row.mean.items() if math.isfinite(mean)}
    for name in chosen:
        if name not in known:
            listed = [*(key for key in HEADINGS if key in known), *sorted(measured(comparison) - set(HEADINGS))]
            raise InputError(
                f"columns = {shown(name)} has no figure{nearest(name, listed)} (known: {', '.join(listed)})"
            )
    of = best(comparison)
    return [
        Column(
            name,
            HEADINGS.get(name, name.replace("_", " ")),
            tuple(
                Figure(
                    row.mean[name],
                    row.deviation[name],
                    place in of.get(name, ()) and math.isfinite(row.mean[name]),
                    tuple(marks(row, name)),
                )
                for place, row in enumerate(rows)
            ),
        )
        for name in (chosen or (name for name in HEADINGS if name not in comparison.repeated))
        if name in known
    ]


def measured(comparison: Comparison) -> set[str]:
    """Return the names of all final figures of any run."""
    return {name for run in comparison.runs for name, value in run.final.items() if math.isfinite(value)}


def label_columns(comparison: Comparison, rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns of varied and of tuned values, each with its heading."""
    if not comparison.keys:
        return [["experiment", *("as given" for _ in rows)], *tuned_columns(comparison)]
    headings = [key.removesuffix(".name") for key in comparison.keys]
    varied = [[heading, *(row.labels[place] for row in rows)] for place, heading in enumerate(headings)]
    return [*varied, *tuned_columns(comparison)]


def runs_column(rows: Sequence[Row]) -> list[str]:
    """Return the column that counts the runs."""
    return ["runs", *map(_count, rows)]


def once(comparison: Comparison, chosen: Sequence[str] = ()) -> list[str]:
    """Return the columns that are left out because they repeat others; none if columns are chosen."""
    left = [] if chosen else [name for name in TWINS if name in comparison.repeated]
    return [f"{HEADINGS[name]}: the same numbers as {HEADINGS[TWINS[name]]} in all runs, shown once" for name in left]


def bold(comparison: Comparison) -> list[str]:
    """Return the meaning of bold numbers, if there are any."""
    if not any(best(comparison).values()):
        return []
    return ["bold: lower than in all other rows under the same circumstances, as the paired seeds support"]


def _count(row: Row) -> str:
    same = sum(len(seeds) - 1 for seeds in row.equal)
    text = f"{row.done} of {row.done + same + row.failed}" if row.failed or same else str(row.done)
    return f"{text}, {same} equal" if same else text


# LaTeX tables, with the digits of the text table and the rules of the package booktabs.

LATEX_MARKS = {
    "worse_than_constant": r"\dagger",
    "nothing_learned": r"\ddagger",
    "everything_kept": r"\S",
    "in_parts": r"\P",
    "own_crowded_out": r"\|",
    "targets_below_zero": r"\#",
}


def as_latex(comparison: Comparison, columns: Sequence[str] = (), spread: bool = True) -> str:
    r"""Return a ``tabular`` for the package ``booktabs``; comments explain bold numbers and marks.

    Numbers have the same digits as in the text table, with and without deviations. A power of ten common to all numbers
    of a column is in the heading.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    columns : sequence of str
        The measured columns to show, in this order; by default the usual ones.
    spread : bool
        Whether to show the standard deviations over the seeds.
    """
    rows = comparison.rows(columns)
    labels = [[escape(text) for text in column] for column in label_columns(comparison, rows)]
    figures = figure_columns(comparison, rows, columns)
    table = [*labels, *(_written(column, spread) for column in figures), runs_column(rows)]
    lines = [" & ".join(line) + r" \\" for line in zip(*table, strict=True)]
    several = spread and any(row.done > 1 for row in rows)
    explained = ["mean and standard deviation over seeds"] if several else []
    notes = [*above(comparison), *explained, *bold(comparison), *supported(comparison)]
    notes += [*once(comparison, columns), *under(comparison, rows)]
    return "\n".join(
        [
            *(f"% {' '.join(note.split())}" for note in notes),
            rf"\begin{{tabular}}{{{'l' * len(labels)}{'r' * (len(table) - len(labels))}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _written(column: Column, spread: bool) -> list[str]:
    plain, numbers = column.plain, [one for one in column.figures if math.isfinite(one.mean) and one.mean]
    powers = {rounded(one.mean, one.deviation, plain)[2] for one in numbers}
    shared = powers.pop() if len(powers) == 1 else 0
    heading = escape(column.heading)
    if shared:
        heading += rf" ($\times 10^{{{shared}}}$)"
    return [heading, *(_cell(one, spread, shared, plain) for one in column.figures)]


def _cell(figure: Figure, spread: bool, shared: int, plain: bool) -> str:
    if not math.isfinite(figure.mean):
        return "--"
    center, deviation, power = rounded(figure.mean, figure.deviation, plain)
    text = rf"\mathbf{{{center}}}" if figure.best else center
    if spread and deviation:
        text += rf" \pm {deviation}"
    if power and not shared:
        text = (rf"({text})" if spread and deviation else text) + rf" \times 10^{{{power}}}"
    texts = "".join(LATEX_MARKS[kind] for kind in figure.marks)
    return f"${text}^{{{texts}}}$" if texts else f"${text}$"


def escape(text: str) -> str:
    """Escape text for LaTeX, on one line.

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
    written = "".join(special.get(character, character) for character in " ".join(text.split()))
    return f"{{}}{written}" if written.startswith(("[", "*")) else written  # otherwise an argument of \\


OWN = ("rmse",)
"""Figures that only runs with users' data have; other runs have empty columns in the CSV files."""

EXACT = (*HEADINGS, "scalars_sent", "constant_risk", *OWN)
"""Columns of the CSV file. The additional columns are often redundant: the risk of the best constant is equal in many
rows, scalars are proportional to bytes without rounding, and rmse is the error in another unit.
"""


def write(comparison: Comparison, folder: Path) -> list[Path]:
    """Write ``comparison.txt``, ``.csv``, ``.md``, ``.tex``, ``runs.csv`` and ``pairs.csv``, and return their paths."""
    texts = {
        "comparison.txt": visible(as_text(comparison, width=10_000, most=None)),  # may be shown in a terminal
        "comparison.csv": as_csv(comparison),
        "comparison.md": as_markdown(comparison),
        "comparison.tex": as_latex(comparison),
        "runs.csv": runs_csv(comparison),
        "pairs.csv": pairs_csv(comparison),
    }
    return [write_text(Path(folder) / name, text) for name, text in texts.items()]


def as_text(comparison: Comparison, width: int = 100, most: int | None = SENTENCES, columns: Sequence[str] = ()) -> str:
    """Return the table as text with aligned columns; columns beyond ``width`` follow in further blocks.

    The notes above the table have common values and unintended differences. The notes below have supported differences,
    reasons of failures, equal runs, and the meanings of marks.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    width : int
        Maximum number of characters in a line.
    most : int, optional
        Maximum number of sentences on supported differences, after which only the number of further ones is given; None
        for all.
    columns : sequence of str
        The measured columns to show, in this order; by default the usual ones.
    """
    rows = comparison.rows(columns)
    labels = label_columns(comparison, rows)
    chosen = figure_columns(comparison, rows, columns)
    figures = [[column.heading, *(_shown(one, column.plain, "", "") for one in column.figures)] for column in chosen]
    figures.append(runs_column(rows))
    head = sum(_wide(column) + 2 for column in labels)
    blocks: list[list[list[str]]] = [[]]
    for column in figures:
        if blocks[-1] and head + sum(_wide(other) + 2 for other in [*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    text = "\n\n".join(_aligned(labels, block) for block in blocks)
    head_lines = above(comparison)
    texts = [line for sentence in supported(comparison, most) for line in _folded(sentence, width)]
    notes = [
        *explanation(rows, [column.name for column in chosen]),
        *once(comparison, columns),
        *under(comparison, rows),
    ]
    lines = [*head_lines, *([""] if head_lines else []), text, "", *texts, *([""] if texts else []), *notes]
    return "\n".join(lines) + "\n"


def as_csv(comparison: Comparison) -> str:
    """Return all figures at full precision, with a column for the mean and one for the deviation of each metric."""
    return comma_separated(_exact_lines(comparison))


def as_table(comparison: Comparison) -> MeasuredTable:
    """Return the columns of the CSV file as arrays of integers, numbers or text; NaN for unmeasured figures."""
    header, *lines = _exact_lines(comparison)
    figures = {f"{name}_{kind}" for name in EXACT for kind in ("mean", "std")}
    columns = zip(header, zip(*lines, strict=True), strict=True)
    return MeasuredTable({name: _typed(entries, name in figures) for name, entries in columns})


def _typed(entries: Sequence[str], figures: bool) -> AnyArray:
    if figures:
        return np.array([float(entry or "nan") for entry in entries])
    for kind in (int, float):
        try:
            return np.array([kind(entry) for entry in entries])
        except ValueError:
            continue
    return np.array(entries)


def _exact_lines(comparison: Comparison) -> list[list[str]]:
    """Return the header and the lines of the CSV file."""
    header = [
        *comparison.keys,
        *(f"{name}_{kind}" for name in EXACT for kind in ("mean", "std")),
        "runs",
        "equal",
        "failed",
        "reason",
        "verdict",
        "best",
    ]
    of = best(comparison)
    if tuned := tuned_keys(comparison):
        header += ["tuned", "pilots", "edges", "pilot_risk", "pilot_risk_error"]
    lines = [
        [
            *comparison.exact(place),
            *(_exact(figures[name]) for name in EXACT for figures in (row.mean, row.deviation)),
            str(row.done),
            str(sum(len(seeds) - 1 for seeds in row.equal)),
            str(row.failed),
            "; ".join(row.reasons),
            "; ".join(row.verdicts),
            "; ".join(name for name, cells in of.items() if place in cells),
            *(as_cells(comparison.cells[place]) if tuned else ()),
        ]
        for place, row in enumerate(comparison.rows(OWN))
    ]
    return [header, *lines]


def runs_csv(comparison: Comparison) -> str:
    """Return the final figures of each run at full precision."""
    header = [*comparison.keys, "seed", *METRICS, *OWN, "digest", "verdict", "folder", "reason"]
    lines = []
    for run in comparison.runs:
        folder = "" if run.folder is None else str(run.folder)
        if run.folder is not None and comparison.folder is not None:
            folder = run.folder.relative_to(comparison.folder).as_posix()
        figures = [_exact(run.final.get(name, math.nan)) for name in (*METRICS, *OWN)]
        texts = [run.digest, "; ".join(run.verdict), folder, run.failure]
        lines.append([*comparison.exact(run.cell), str(run.seed), *figures, *texts])
    return comma_separated([header, *lines])


def pairs_csv(comparison: Comparison) -> str:
    """Return all paired differences at full precision, see ``Comparison.differences``."""
    header = ["figure", *(comparison.keys[place] for place in comparison.outer), "better", "worse", "mean", "std"]
    header += ["wins", "seeds", "p", "supported"]
    lines = [
        [
            one.figure,
            *comparison.circumstances(one.better),
            row_name(comparison, one.better),
            row_name(comparison, one.worse),
            *map(_exact, (one.mean, one.deviation)),
            str(one.wins),
            str(one.seeds),
            _exact(one.chance),
            str(int(one.supported)),
        ]
        for one in comparison.differences()
    ]
    return comma_separated([header, *lines])


def as_markdown(comparison: Comparison, columns: Sequence[str] = ()) -> str:
    """Return a Markdown table; means that beat all others under the same circumstances are bold.

    ``columns`` as in :func:`as_text`.
    """
    rows = comparison.rows(columns)
    labels, table = _columns(comparison, rows, columns, markdown, "**", "**")
    lines = [f"| {' | '.join(line)} |" for line in zip(*table, strict=True)]
    rule = "|" + " --- |" * labels + " ---: |" * (len(table) - labels)
    head = "".join(f"{markdown(note)}\n\n" for note in above(comparison))
    texts = [*bold(comparison), *supported(comparison)]
    notes = "".join(f"\n{markdown(note)}\n" for note in [*texts, *once(comparison, columns), *under(comparison, rows)])
    return head + "\n".join([lines[0], rule, *lines[1:]]) + "\n" + notes


def as_html(comparison: Comparison) -> str:
    """Return the table of :func:`as_markdown` as HTML, with the sentences of :func:`as_text`."""
    rows = comparison.rows()
    labels, table = _columns(comparison, rows, (), html.escape, "<b>", "</b>")
    notes = [*bold(comparison), *supported(comparison, SENTENCES), *once(comparison), *under(comparison, rows)]
    head, foot = ("".join(f"<p>{html.escape(note)}</p>" for note in some) for some in (above(comparison), notes))
    return head + html_table(table, labels) + foot


def _columns(
    comparison: Comparison, rows: Sequence[Row], chosen: Sequence[str], escaped: Callable[[str], str], *bold: str
) -> tuple[int, list[list[str]]]:
    """Return the number of text columns, and all columns with escaped text and with marks around the best numbers."""
    labels = [[escaped(text) for text in column] for column in label_columns(comparison, rows)]
    figures = [
        [column.heading, *(_shown(one, column.plain, *bold) for one in column.figures)]
        for column in figure_columns(comparison, rows, chosen)
    ]
    return len(labels), [*labels, *figures, runs_column(rows)]


def _shown(figure: Figure, plain: bool, begin: str, end: str) -> str:
    text = pair(figure.mean, figure.deviation, plain)
    text = f"{begin}{text}{end}" if figure.best else text
    return " ".join([text, *(MARKS[kind] for kind in figure.marks)])


def _folded(sentence: str, width: int) -> list[str]:
    kept = sentence.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(kept, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _wide(column: Sequence[str]) -> int:
    return max(len(cell) for cell in column)


def _aligned(labels: Sequence[Sequence[str]], figures: Sequence[Sequence[str]]) -> str:
    left = [[cell.ljust(_wide(column)) for cell in column] for column in labels]
    right = [[cell.rjust(_wide(column)) for cell in column] for column in figures]
    lines = ["  ".join(line).rstrip() for line in zip(*left, *right, strict=True)]
    rule = "  ".join("-" * _wide(column) for column in [*labels, *figures])
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return " ".join(text.split()).replace("|", r"\|").replace("*", r"\*").replace("_", r"\_")


def _exact(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""


def comma_separated(lines: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as CSV text."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
