"""The differences that a comparison's paired seeds support, in words: rows, sizes and numbers of seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison.figures_as_text import HEADINGS, pair
from kernelswarm.simulations.records.outcome import CHANGE, RANKED, label
from kernelswarm.simulations.records.paired_differences import FEWEST

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.paired_differences import Difference

SENTENCES = 12
"""Sentences under the table on a terminal."""

HEAD = "supported by paired seeds (sign-flip test; 1 line in 20 may name a difference where there is none):"

WHOLE = {
    "open": "no supported difference between {}",
    "equal": "{} are equal in every seed",
    "few": f"fewer than {FEWEST} seeds shared by {{}}",
}
"""The sentence where it is true of all pairs of rows."""

PART = {
    "open": "no supported difference to {}",
    "equal": "equal to {} in every seed",
    "few": f"fewer than {FEWEST} seeds shared with {{}}",
}
"""The sentence on the best row and the rows for which it is true."""

AT_LEAST = f"at least {FEWEST} seeds are needed to tell which row is better"


def best(comparison: Comparison) -> dict[str, set[int]]:
    """Return for each column the rows that beat all others under the same circumstances, as the seeds support.

    Less is better in the figures of ``RANKED`` only. The row with the best risk has the best change of it, unless the
    change is held against that row.
    """
    beaten: dict[str, dict[int, set[int]]] = {figure: {} for figure in RANKED}
    present: dict[str, set[int]] = {figure: set() for figure in RANKED}
    for one in comparison.differences():
        present[one.figure] |= {one.better, one.worse}
        if one.supported:
            beaten[one.figure].setdefault(one.better, set()).add(one.worse)
    found: dict[str, set[int]] = {figure: set() for figure in RANKED}
    for group in comparison.groups():
        for figure in RANKED:
            alike = present[figure] & set(group)
            found[figure] |= {cell for cell in alike if beaten[figure].get(cell, set()) == alike - {cell}}
    return found | {CHANGE: {cell for cell in found["risk"] if comparison.reference(cell) != cell}}


def supported(comparison: Comparison, most: int | None = None) -> list[str]:
    """Return the supported differences: a line on the test, and a sentence for each figure and group.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    most : int, optional
        Sentences; of the others only the number is given. None for all of them.
    """
    found = comparison.differences()
    if not found:
        return []
    seeds = max(one.seeds for one in found)
    if seeds < FEWEST:
        asked = len({run.seed for run in comparison.runs})
        if asked < FEWEST:
            odds = f"; of two rows that do not differ, one is ahead in all of {asked} once in {2 ** (asked - 1)} times"
            return [f"{AT_LEAST}: --seeds {FEWEST} or more{odds if asked > 1 else ''}"]
        return [f"{AT_LEAST}, and no two rows share more than {seeds} with runs that ended and are not the same"]
    sentences = []
    for figure in (figure for figure in RANKED if figure not in comparison.repeated):
        for group in comparison.groups():
            alike = [one for one in found if one.figure == figure and one.better in group]
            if alike:
                sentences.append(_sentence(comparison, alike))
    shown = sentences if most is None else sentences[:most]
    lines = [HEAD, *shown]
    if left := len(sentences) - len(shown):
        place = "Comparison.differences()" if comparison.folder is None else comparison.folder / "comparison.txt"
        lines.append(f"and {left} more in {place}")
    return [*lines, *_hint(comparison, found)]


def row_name(comparison: Comparison, cell: int) -> str:
    """Return the name of a row among those under the same circumstances."""
    return label(comparison, comparison.cells[cell].labels, comparison.inner) or "the experiment"


def _sentence(comparison: Comparison, alike: Sequence[Difference]) -> str:
    """Return sentences on the rows that the best row beats and does not beat, then on those that others beat."""
    figure = alike[0].figure
    cells = sorted({cell for one in alike for cell in (one.better, one.worse)})
    names = {cell: _quoted(row_name(comparison, cell)) for cell in cells}
    kinds: dict[str, list[Difference]] = {}
    for one in alike:
        kinds.setdefault(_kind(one), []).append(one)
    wins = kinds.get("supported", [])
    if len(kinds) == 1 and not wins:
        texts = WHOLE[next(iter(kinds))].format(_and([names[cell] for cell in cells]))
    else:
        losses = {cell: sum(one.worse == cell for one in wins) for cell in cells}
        first = min(cells, key=lambda cell: (losses[cell], _mean(comparison, cell, figure), cell))
        of_first = [one for one in wins if one.better == first]
        clauses = [_amounts(names, of_first) if of_first else f"lowest in {names[first]}"]
        for kind, text in PART.items():
            rivals = [
                names[one.worse if one.better == first else one.better]
                for one in kinds.get(kind, ())
                if first in (one.better, one.worse)
            ]
            clauses += [text.format(_and(rivals))] if rivals else []
        for cell in cells:
            beaten = [names[one.worse] for one in wins if one.better == cell != first]
            clauses += [f"{names[cell]} beats {_and(beaten)}"] if beaten else []
        texts = "; ".join(clauses)
    return f"{_where(comparison, cells[0])}{HEADINGS[figure]}: {texts}"


def _amounts(names: Mapping[int, str], wins: Sequence[Difference]) -> str:
    """Return a row's leads over others, largest first, and their numbers of seeds; once if they are equal."""
    ordered = sorted(wins, key=lambda one: -one.mean)
    counts = [f"in {one.wins} of {one.seeds} seeds" for one in ordered]
    once = len(set(counts)) == 1
    words = [
        f"{names[one.worse]} by {pair(one.mean, one.deviation)}{'' if once else f' {count}'}"
        for one, count in zip(ordered, counts, strict=True)
    ]
    each = f"{', each' if len(wins) > 1 else ''} {counts[0]}" if once else ""
    return f"{names[ordered[0].better]} beats {_and(words)}{each}"


def _kind(one: Difference) -> str:
    if one.seeds < FEWEST:
        return "few"
    if one.mean == one.deviation == 0.0:
        return "equal"
    return "supported" if one.supported else "open"


def _mean(comparison: Comparison, cell: int, figure: str) -> float:
    """Return the mean of a figure over the runs that have it."""
    found = [run.final.get(figure, math.nan) for run in comparison.done(cell)]
    finite = [number for number in found if math.isfinite(number)]
    return math.fsum(number / len(finite) for number in finite)


def _hint(comparison: Comparison, found: Sequence[Difference]) -> list[str]:
    """Return a note on differences with one sign in all seeds, which more seeds may support; or nothing."""
    counted = [one for one in found if one.figure not in comparison.repeated]
    agreed = [one for one in counted if _kind(one) == "open" and one.wins == one.seeds]
    if not agreed:
        return []
    seeds = max(one.seeds for one in agreed)
    rows = max(len(group) for group in comparison.groups())
    count = f"{len(agreed)} differences have" if len(agreed) > 1 else "one difference has"
    return [
        f"{count} the same sign in all seeds and not enough of them: among {rows} rows chance alone has some such; "
        f"--seeds {2 * seeds} tells more"
    ]


def _where(comparison: Comparison, cell: int) -> str:
    """Return the circumstances of a row that others do not have, as the beginning of a sentence."""
    labels = comparison.cells[cell].labels
    counted = [
        place
        for place in range(len(comparison.keys))
        if place not in comparison.inner and len({other.labels[place] for other in comparison.cells}) > 1
    ]
    text = label(comparison, labels, counted)
    return f"{text}, " if text else ""


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
