"""The columns of a comparison's table, whatever it is written in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison.figures_as_text import HEADINGS
from kernelswarm.simulations.comparison.supported import best
from kernelswarm.simulations.comparison.table_notes import marks
from kernelswarm.simulations.comparison.tuning_notes import tuned_columns
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, shown
from kernelswarm.simulations.records.series import TWINS

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison, Row


@dataclass(frozen=True)
class Figure:
    """One cell of the table.

    Parameters
    ----------
    mean, deviation : float
        Over the seeds; NaN where there is none.
    best : bool
        Whether the seeds support that it is lower than all others under the same circumstances.
    marks : tuple of str
        The kinds of verdict that are marked at it.
    """

    mean: float
    deviation: float
    best: bool
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """A column of figures with its heading."""

    name: str
    heading: str
    figures: tuple[Figure, ...]


def figure_columns(comparison: Comparison, rows: Sequence[Row], chosen: Sequence[str] = ()) -> list[Column]:
    """Return the columns that hold a number in some row.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    rows : sequence of Row
        Its rows, which hold the chosen columns.
    chosen : sequence of str
        The measured columns in their order; those of ``HEADINGS`` when left out, but for errors that are the risks.

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
    """Return the names of all figures that some run has ended with."""
    return {name for run in comparison.runs for name, value in run.final.items() if math.isfinite(value)}


def label_columns(comparison: Comparison, rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns of varied values, and of those that each row was tuned to, each with its heading."""
    if not comparison.keys:
        return [["experiment", *("as given" for _ in rows)], *tuned_columns(comparison)]
    headings = [key.removesuffix(".name") for key in comparison.keys]
    varied = [[heading, *(row.labels[place] for row in rows)] for place, heading in enumerate(headings)]
    return [*varied, *tuned_columns(comparison)]


def runs_column(rows: Sequence[Row]) -> list[str]:
    """Return the column that counts the runs."""
    return ["runs", *map(_count, rows)]


def once(comparison: Comparison, chosen: Sequence[str] = ()) -> list[str]:
    """Return which columns are left out since they are others once more; nothing where columns are chosen."""
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
