"""A comparison as a table for LaTeX: one format of numbers in each column, rules of the package booktabs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison.figures_as_text import ColumnFormat, column_format
from kernelswarm.simulations.comparison.supported import supported
from kernelswarm.simulations.comparison.table_columns import (
    Column,
    Figure,
    bold,
    figure_columns,
    label_columns,
    runs_column,
)
from kernelswarm.simulations.comparison.table_notes import above, under

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison

MARKS = {"worse_than_constant": r"\dagger", "nothing_learned": r"\ddagger", "everything_kept": r"\S"}


def as_latex(comparison: Comparison, columns: Sequence[str] = (), spread: bool = True) -> str:
    r"""Return a ``tabular`` that needs the package ``booktabs``; what bold numbers and marks mean is in its comments.

    The numbers of a column have the same decimals and the same power of ten, which stands in its heading.

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
    notes = [*above(comparison), *explained, *bold(comparison), *supported(comparison), *under(comparison, rows)]
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
    chosen = column_format([(one.mean, one.deviation if spread else math.nan) for one in column.figures])
    heading = escape(column.heading)
    if chosen.exponent:
        heading += rf" ($\times 10^{{{chosen.exponent}}}$)"
    return [heading, *(_cell(one, chosen, spread) for one in column.figures)]


def _cell(figure: Figure, chosen: ColumnFormat, spread: bool) -> str:
    if not math.isfinite(figure.mean):
        return "--"
    center = chosen.number(figure.mean)
    text = rf"\mathbf{{{center}}}" if figure.best else center
    if spread and math.isfinite(figure.deviation) and chosen.spreads:
        text += rf" \pm {chosen.number(figure.deviation)}"
    said = "".join(MARKS[kind] for kind in figure.marks)
    return f"${text}^{{{said}}}$" if said else f"${text}$"


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
