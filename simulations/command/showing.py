"""The commands that show what runs have left, plot, animate, tables and report, and reproduce --all."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated

import typer

from kernelswarm.simulations.command import options
from kernelswarm.simulations.command.options import (
    Against,
    Columns,
    Debug,
    Formats,
    Safe,
    StyleName,
    given,
    place_option,
)
from kernelswarm.simulations.command.printing import show, warnings_in_one_line
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.interruption import in_words


def plot(
    runs: Annotated[list[Path], given("RUN...", "Run folders, or the folder of a comparison.")],
    out: Annotated[
        Path | None,
        place_option("Folder for the figures; RUN/figures for one run or comparison, ./figures for several runs."),
    ] = None,
    format: Formats = "png",
    style: StyleName = "screen",
    columns: Columns = "",
    against: Against = "samples",
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Draw the figures of a run, also of one that goes on, or of several runs on the same axes."""
    from kernelswarm.simulations.figures.plots import draw_comparison, draw_many
    from kernelswarm.simulations.records import run_folder

    options.drawing(format, style, columns, against)  # refused before anything is read
    whole = options.comparison(runs[0]) if len(runs) == 1 else None
    if whole is not None:
        target = runs[0] / "figures" if out is None else out
        run_folder.check_place(target, new=False)
        with warnings_in_one_line():
            drawn = draw_comparison(whole, target, format, style, columns, against)
        show(*drawn)
        return
    folders = [folder for run in runs for folder in run_folder.folders_in(run)]
    results = [run_folder.read(folder, partial=True) for folder in folders]
    target = (folders[0] / "figures" if len(folders) == 1 else Path("figures")) if out is None else out
    run_folder.check_place(target, new=False)
    with warnings_in_one_line():
        drawn = draw_many(results, target, format, style, columns, against)
    show(*drawn)


def animate(
    run: Annotated[Path, given("RUN", "The run folder; the run may go on.")],
    out: Annotated[
        Path | None, place_option("A .gif file, or .mp4 where ffmpeg is installed; RUN/figures/learning.gif.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long the network learns in it.")] = 8.0,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Draw a run as a moving picture: nodes by their risk, edges by the difference of their ends, growing curves."""
    from kernelswarm.simulations.figures.animation import animate as drawn
    from kernelswarm.simulations.records import run_folder

    with warnings_in_one_line():
        show(drawn(run_folder.read(run, partial=True), out or run / "figures" / "learning.gif", seconds))


def tables(
    folder: Annotated[Path, given("FOLDER", "The folder of a comparison.")],
    columns: Annotated[
        str, typer.Option(metavar="C1,C2", help="Measured columns, such as error,bytes_sent; the usual when left out.")
    ] = "",
    latex: Annotated[bool, typer.Option("--latex", help="For LaTeX, with the package booktabs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="In Markdown.")] = False,
    spread: Annotated[bool, typer.Option(help="Show standard deviations over the seeds (LaTeX).")] = True,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Print the table of a comparison with chosen columns: as text, for LaTeX or in Markdown."""
    from kernelswarm.simulations.comparison import tables as written
    from kernelswarm.simulations.comparison.compare import read
    from kernelswarm.simulations.comparison.tables import as_latex

    with warnings_in_one_line():
        found, chosen = read(folder, safe=safe), options.words(columns)
        if latex:
            show(as_latex(found, chosen, spread), end="")
        elif markdown:
            show(written.as_markdown(found, chosen), end="")
        else:
            show(written.as_text(found, get_terminal_size((100, 24)).columns, columns=chosen), end="")


def report(
    folder: Annotated[Path, given("FOLDER", "The folder of a run or of a comparison.")],
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Write one page about a run or a comparison, report.html in its folder, to look through in a browser."""
    from kernelswarm.simulations.report import page

    with warnings_in_one_line():
        show(page.write(folder))


def all_reproductions(
    name: str | None, data: Path | None, out: Path | None, quick: bool, seed: int, jobs: int | None, quiet: bool
) -> None:
    """Run all reproductions and print what became of them: a line for each, and where the page is."""
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.reproductions import overview
    from kernelswarm.simulations.reproductions.overview import reproduce_all

    if name is not None:
        raise InputError(f"--all runs all reproductions: leave out {name}, or leave out --all")
    place = Path("reproductions") / ("all-quick" if quick else "all") if out is None else out
    with in_words(), progress.watch_comparison(quiet) as observe, warnings_in_one_line():
        found = reproduce_all(place, data, quick, seed, jobs, observe)
    lines = [overview.COLUMNS, *overview.rows(found.outcomes)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(text.rjust(wide) for text, wide in zip(others, widths[1:], strict=True))]
        show("  ".join(cells).rstrip())
    for outcome in found.outcomes:
        if outcome.cause:
            show(f"{outcome.state}: {outcome.name}: {outcome.cause}")
    show("", *overview.summary(found.outcomes), f"page  {found.folder / 'index.html'}, and index.md")
    if found.failed:
        raise SimulationError(f"{len(found.failed)} of {len(found.outcomes)} reproductions failed, see above")
