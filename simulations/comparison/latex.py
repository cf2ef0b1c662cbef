"""A comparison as a table for LaTeX: the digits of the table on a terminal, rules of the package booktabs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison.figures_as_text import rounded
from kernelswarm.simulations.comparison.supported import supported
from kernelswarm.simulations.comparison.table_columns import (
    Column,
    Figure,
    bold,
    figure_columns,
    label_columns,
    once,
    runs_column,
)
from kernelswarm.simulations.comparison.table_notes import above, under

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison

MARKS = {
    "worse_than_constant": r"\dagger",
    "nothing_learned": r"\ddagger",
    "everything_kept": r"\S",
    "in_parts": r"\P",
    "own_crowded_out": r"\|",
    "targets_below_zero": r"\#",
}


def as_latex(comparison: Comparison, columns: Sequence[str] = (), spread: bool = True) -> str:
    r"""Return a ``tabular`` that needs the package ``booktabs``; what bold numbers and marks mean is in its comments.

    Numbers have the digits that the table on a terminal gives them, bold ones too, and so do means without their
    deviations. A power of ten that all numbers of a column have stands in its heading.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    columns : sequence of str
        The measured columns that are shown, in this order; the usual ones when left out.
    spread : bool
        Whether the standard deviations over the seeds are shown.
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
    powers = {rounded(one.mean, one.deviation)[2] for one in column.figures if math.isfinite(one.mean) and one.mean}
    shared = powers.pop() if len(powers) == 1 else 0
    heading = escape(column.heading)
    if shared:
        heading += rf" ($\times 10^{{{shared}}}$)"
    return [heading, *(_cell(one, spread, shared) for one in column.figures)]


def _cell(figure: Figure, spread: bool, shared: int) -> str:
    if not math.isfinite(figure.mean):
        return "--"
    center, deviation, power = rounded(figure.mean, figure.deviation)
    text = rf"\mathbf{{{center}}}" if figure.best else center
    if spread and deviation:
        text += rf" \pm {deviation}"
    if power and not shared:
        text = (rf"({text})" if spread and deviation else text) + rf" \times 10^{{{power}}}"
    texts = "".join(MARKS[kind] for kind in figure.marks)
    return f"${text}^{{{texts}}}$" if texts else f"${text}$"


def escape(text: str) -> str:
    """Return ``text`` so that LaTeX prints it as it is, on one line.

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
    return f"{{}}{written}" if written.startswith(("[", "*")) else written  # which would be an argument of \\
