"""Figures of one run, of several, and of a comparison, as PNG, PDF or SVG files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures import curves, functions, style
from kernelswarm.simulations.figures.learned import Learned, rebuild, reopen
from kernelswarm.simulations.figures.sheet import Drawing, Sheet, look

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result


def draw(
    result: Result,
    folder: Path | str,
    format: str | Sequence[str] = "png",
    style: str = "screen",
    columns: str | Sequence[str] = (),
    against: str = "samples",
) -> list[Path]:
    """Draw the figures of one run into ``folder`` and return their paths.

    Figures of unmeasured quantities (duals without constraints, decision regions in 784 dimensions) are left out.
    Figures that evaluate models need the run's parts and data. If these are not available, there is a warning or a line
    in the figure. docs/figures.md describes each file.

    Parameters
    ----------
    result : Result
        The run.
    folder : Path or str
        The folder, created if it is missing; files with the same names are replaced.
    format : str or sequence of str
        "png", "pdf" or "svg", or several of these.
    style : {"screen", "paper", "two_column"}
        The size of the figures: for the screen, for one column of a paper, or for both columns. For papers, titles are
        written to ``captions.txt``.
    columns : str or sequence of str
        Columns of ``result.network``, plotted as panels of a single figure instead of the usual figures.
    against : {"samples", "rounds", "scalars", "bytes"}
        The x-axis: samples per node, rounds, or scalars or bytes sent by the whole network.

    Raises
    ------
    InputError
        A format, style or column is unknown.
    """
    drawing = Drawing.asked(format, style, columns, against)
    sheet = Sheet(Path(folder), drawing)
    with look(drawing.style):
        curves.learning_curves(sheet, result)
        if drawing.usual:
            _at_the_end(sheet, result)
        return sheet.finished()


def _at_the_end(sheet: Sheet, result: Result) -> None:
    """Draw the figures that need the run's parts: links and clock, network, final models."""
    try:
        learned: Learned | None = rebuild(result)
    except InputError as error:
        warnings.warn(f"the models are not drawn, their configuration cannot be built here: {error}", stacklevel=3)
        learned = None
    curves.deliveries_and_activity(sheet, result, learned)
    curves.network(sheet, result, learned)
    if learned is None or not learned.nodes or learned.inputs not in (1, 2):
        return
    classifies = style.task(result.config) == "classification"
    if learned.inputs == 1 and not classifies:
        functions.all_functions(sheet, learned, reopen(learned))
    elif learned.inputs == 2 and classifies:
        functions.some_regions(sheet, learned, reopen(learned))


def draw_many(
    results: Sequence[Result],
    folder: Path | str,
    format: str | Sequence[str] = "png",
    style: str = "screen",
    columns: str | Sequence[str] = (),
    against: str = "samples",
) -> list[Path]:
    """Draw several runs on the same axes into ``folder``: one curve per configuration, with its spread over seeds.

    Runs that differ only in their seed form one curve. Curves are named by the keys in which the experiments differ. A
    single run is plotted by :func:`draw`, which describes the other parameters.
    """
    if len(results) == 1:
        return draw(results[0], folder, format, style, columns, against)
    from kernelswarm.simulations.records.outcome import gather

    return draw_comparison(gather(results), folder, format, style, columns, against)


def draw_comparison(
    comparison: Comparison,
    folder: Path | str,
    format: str | Sequence[str] = "png",
    style: str = "screen",
    columns: str | Sequence[str] = (),
    against: str = "samples",
) -> list[Path]:
    """Draw a comparison into ``folder``: each quantity as curves, one per cell; the final figures as dots.

    If values were drawn, the final figures are also plotted against them. For each risk and error, the paired
    differences to the reference of each cell are plotted; see
    :meth:`~kernelswarm.simulations.records.outcome.Comparison.reference`. :func:`draw` describes the other parameters.
    """
    from kernelswarm.simulations.figures import cells

    drawing = Drawing.asked(format, style, columns, against)
    sheet = Sheet(Path(folder), drawing)
    with look(drawing.style):
        cells.learning_curves(sheet, comparison)
        if drawing.usual:
            cells.final(sheet, comparison)
            cells.drawn(sheet, comparison)
            cells.differences(sheet, comparison)
        return sheet.finished()
