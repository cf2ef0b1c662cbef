"""A reproduction as a table, for the terminal and for files, and as a folder."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.simulations.comparison.tables import comma_separated, markdown
from kernelswarm.simulations.figures.sheet import look, save
from kernelswarm.simulations.records.run_folder import take_name, unfinished_folder, write_summary

if TYPE_CHECKING:
    from kernelswarm.simulations.reproductions.contract import Claim, Finding

HEADINGS = ("quantity", "published", "measured", "settings", "holds")
QUICK = "quick: fewer sets, samples and passes, whose numbers are no reproduction"
VERDICTS = {True: "yes", False: "no", None: ""}
"""What the last column says of a claim."""


def as_text(finding: Finding, width: int = 100) -> str:
    """Return the table for a terminal, long cells wrapped, with the notes as paragraphs under it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, leading=1)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for claim in finding.claims:
        table.add_row(*map(Text, cells(claim)))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
    drawn = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    paragraphs = [f"{finding.name}: {finding.sentence}", *_marks(finding)]
    notes = [verdict(finding), *finding.reproduction.notes]
    wrapped = [textwrap.fill(" ".join(text.split()), width) for text in [*paragraphs, *notes]]
    return "\n\n".join([*wrapped[: len(paragraphs)], drawn, *wrapped[len(paragraphs) :]]) + "\n"


def as_markdown(finding: Finding) -> str:
    marks = [f"**{markdown(mark)}**" for mark in _marks(finding)]
    notes = map(markdown, [verdict(finding), *finding.reproduction.notes])
    table = markdown_table(finding.claims)
    parts = [f"# {finding.name}", markdown(finding.sentence), *marks, table, *notes]
    return "\n\n".join(parts) + "\n"


def markdown_table(claims: Sequence[Claim]) -> str:
    rows = [HEADINGS, *map(cells, claims)]
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(HEADINGS), *lines[1:]])


def as_csv(finding: Finding) -> str:
    """Return the table as CSV, with a column that says whether it is of a quick run."""
    quick = VERDICTS[finding.request.quick]
    return comma_separated([[*HEADINGS, "quick"], *([*cells(claim), quick] for claim in finding.claims)])


def verdict(finding: Finding) -> str:
    """Say in a sentence how many of the checked claims hold."""
    held, failed = finding.counts["hold"], finding.counts["fail"]
    if held + failed == 0:
        return "None of these claims can be checked."
    return f"{held} of {held + failed} checked claims hold."


def write(finding: Finding, folder: Path) -> Path:
    """Write the folder of a reproduction and return it; a taken name gets a number, ``name-2``, ``name-3``, ...

    It holds ``table.csv``, ``table.md``, ``numbers.npz``, each figure as PNG and PDF, and ``summary.json``. All are
    written to a folder beside it, which gets its name when it is complete.

    Raises
    ------
    SimulationError
        The disk is full or the place may not be written; nothing is left behind.
    """
    from kernelswarm.simulations.machine.versions import versions

    request, found = finding.request, finding.reproduction
    with unfinished_folder(folder.parent, folder) as unfinished:
        (unfinished / "table.csv").write_text(as_csv(finding), encoding="utf-8", newline="\n")
        (unfinished / "table.md").write_text(as_markdown(finding), encoding="utf-8", newline="\n")
        np.savez(unfinished / "numbers.npz", allow_pickle=False, **found.arrays)
        with look():
            for name, figure in found.figures.items():
                if request.quick:
                    figure.text(0.995, 0.005, "quick", ha="right", va="bottom", fontsize=7, color="0.4")
                for ending in ("png", "pdf"):
                    save(figure, unfinished / f"{name}.{ending}")
        summary = {
            "name": finding.name,
            "shows": finding.sentence,
            "quick": request.quick,
            "seed": request.seed,
            "data": request.data,
            "claims": finding.counts,
            "notes": list(found.notes),
            "figures": list(found.figures),
            "started": finding.started,
            "seconds": finding.seconds,
            "versions": versions(),
        }
        write_summary(summary, unfinished)
        return take_name(unfinished, folder)


def cells(claim: Claim) -> list[str]:
    """Return a row of the table, a cell for each of ``HEADINGS``."""
    words = (claim.quantity, claim.published, claim.measured, claim.settings)
    return [*(" ".join(text.split()) for text in words), VERDICTS[claim.holds]]


def _marks(finding: Finding) -> list[str]:
    return [QUICK] if finding.request.quick else []
