"""Paired differences: each cell of a comparison less its reference, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.figures.cells import NAME, cell_strokes
from kernelswarm.simulations.records.outcome import RANKED, label
from kernelswarm.simulations.records.paired_differences import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.outcome import Comparison

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Against:
    """A cell held against its reference in one figure.

    Parameters
    ----------
    cell : int
        Its place.
    seeds : array (n,)
        Its figure less that of the reference, for each seed that both have; seeds that repeat another one count once.
    supported : bool
        Whether the paired seeds support the difference, see ``Comparison.differences``.
    """

    cell: int
    seeds: Array
    supported: bool

    @property
    def mean(self) -> float:
        """The mean difference; negative where the cell is better."""
        return float(np.mean(self.seeds))

    @property
    def margin(self) -> float:
        """Half the width of the interval that holds the mean difference with 95%, by Student's t; NaN for one seed."""
        count = len(self.seeds)
        if count < 2:
            return math.nan
        return float(stdtrit(count - 1, 1.0 - LEVEL / 2.0) * np.std(self.seeds, ddof=1) / math.sqrt(count))


def to_references(comparison: Comparison) -> dict[str, list[Against]]:
    """Return, for each risk and error, the cells that share two seeds or more with their reference."""
    found: dict[str, list[Against]] = {}
    supported = {(one.figure, frozenset((one.better, one.worse))) for one in comparison.differences() if one.supported}
    finals = [
        {run.seed: (place, run.final) for place, runs in enumerate(comparison.distinct(cell)) for run in runs}
        for cell in range(len(comparison.cells))
    ]
    for figure in (figure for figure in RANKED if figure not in comparison.repeated):
        for cell in range(len(comparison.cells)):
            reference = comparison.reference(cell)
            if reference == cell:
                continue
            mine, others = finals[cell], finals[reference]
            different = {
                (mine[seed][0], others[seed][0]): mine[seed][1].get(figure, math.nan)
                - others[seed][1].get(figure, math.nan)
                for seed in sorted(mine.keys() & others.keys())
            }
            seeds = np.array([value for value in different.values() if math.isfinite(value)])
            if len(seeds) > 1:
                known = (figure, frozenset((cell, reference))) in supported
                found.setdefault(figure, []).append(Against(cell, seeds, known))
    return found


def names(comparison: Comparison, found: Mapping[str, Sequence[Against]]) -> dict[int, str]:
    """Return the name of each cell beside its differences, in lines, by its place."""
    every = range(len(comparison.keys))
    named: dict[int, str] = {}
    for one in sorted({one.cell for several in found.values() for one in several}):
        cell, reference = comparison.cells[one], comparison.cells[comparison.reference(one)]
        inner = label(comparison, reference.labels, comparison.inner) or reference.protocol
        own = label(comparison, cell.labels, every) or cell.protocol
        named[one] = style.wrapped(f"{own} − {inner}", NAME)
    return named


def intervals(
    axes: Axes,
    comparison: Comparison,
    differences: Sequence[Against],
    names: Mapping[int, str],
    figure: str,
    named: bool,
) -> None:
    """Draw each cell's mean difference with its interval, and its seeds faintly; the better, the further to the left.

    Markers are filled where the seeds support the difference.
    """
    strokes, places = cell_strokes(comparison), {cell: place for place, cell in enumerate(names)}
    axes.axvline(0.0, color=style.BLACK, linewidth=0.8)
    for one in differences:
        place, stroke = places[one.cell], strokes[one.cell]
        axes.plot(one.seeds, np.full(len(one.seeds), place), "|", color=style.GREY, markersize=9, alpha=0.8)
        axes.errorbar(
            one.mean,
            place,
            xerr=one.margin,
            color=stroke.color,
            marker=stroke.marker,
            markerfacecolor=stroke.color if one.supported else "white",
            markersize=6,
            capsize=3,
        )
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [style.literal(name) for name in names.values()] if named else [""] * len(names))
    axes.set_xlabel(f"difference in {style.column_label(figure, dict(comparison.cells[0].config), comparison.facts)}")
