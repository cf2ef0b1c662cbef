"""A reproduction as a table, for the terminal and for files, and as a folder."""

from __future__ import annotations

import datetime
import io
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kernelswarm.simulations.comparison.tables import comma_separated, markdown
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.machine import one_thread, versions
from kernelswarm.simulations.figures.sheet import look, save
from kernelswarm.simulations.records.run_folder import check_place, take_name, unfinished_folder, write_summary
from kernelswarm.simulations.reproductions.catalogue import describe, find
from kernelswarm.simulations.reproductions.contract import Claim, Finding, Request
from kernelswarm.simulations.reproductions.pieces import Shelf, stamp

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


# Running a reproduction, and describing its result.


def reproduce(
    name: str,
    data: str | Path | None = None,
    out: str | Path | None = None,
    quick: bool = False,
    seed: int = 0,
    observe: Callable[[str, float], None] | None = None,
    jobs: int = 1,
) -> Finding:
    """Run the experiment of a paper and compare its published numbers with measured ones.

    Parameters
    ----------
    name : str
        A name that ``kernelswarm reproduce`` lists.
    data : str or Path, optional
        The file or folder of the data, for a reproduction that needs one.
    out : str or Path, optional
        Folder for the table, the numbers and the figures; a taken name gets a number. Nothing is written when left out.
        Long ones keep their pieces beside it until they end: the same call goes on after an interruption.
    quick : bool
        Fewer sets, samples and passes: shows how the result looks, and reproduces nothing.
    seed : int
        Seed of everything that is drawn, not negative.
    observe : callable, optional
        Called with the present piece and the share in [0, 1] of the whole that is done.
    jobs : int
        Processes at a time, for the long ones that use several. A script calls this function with more than one under
        ``if __name__ == "__main__":``, because each process reads the script again.

    Returns
    -------
    Finding
        A claim that does not hold is a result: it raises nothing.

    Raises
    ------
    InputError
        An unknown name, data that is missing or not needed, a negative seed, or a place that cannot be written.
    SimulationError
        The folder could not be written.
    """
    run = find(name)
    entry = describe(name)
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative: use 0 or any larger integer")
    if data is not None and not entry.data:
        raise InputError(f"{name} needs no data: leave out --data {data}")
    if data is None and entry.needs_data:
        raise InputError(f"{name} needs data: name it with --data ({entry.data})")
    if data is not None and not Path(data).exists():
        raise InputError(f"there is no file or folder {data} ({name} needs {entry.data})")
    if out is not None:
        check_place(Path(out))
    if jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    place = None if data is None else Path(data)
    shelf = None if out is None else _shelf(name, Path(out), place, quick, seed)
    request = Request(place, quick, seed, jobs=jobs, shelf=shelf)
    if observe is not None:
        request = replace(request, tell=observe)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    try:
        with one_thread(), look():  # the same bits, and the same pictures, on every machine
            found = run(request)
    except KeyboardInterrupt as stop:
        if shelf is not None and shelf.folder.is_dir():
            stop.add_note(f"what has ended is in {shelf.folder}: the same command goes on with the rest")
        raise
    finding = Finding(name, entry.sentence, request, found, started, time.perf_counter() - begin)
    if out is not None:
        finding = replace(finding, folder=write(finding, Path(out)))
        if shelf is not None:
            shelf.clear()
    return finding


def _shelf(name: str, out: Path, data: Path | None, quick: bool, seed: int) -> Shelf:
    asked = {"name": name, "quick": quick, "seed": seed, "data": stamp(data), "version": versions()["kernelswarm"]}
    return Shelf(out.parent / f".{out.name}.pieces", asked)
