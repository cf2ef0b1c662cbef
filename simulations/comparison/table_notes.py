"""The notes above and under a comparison's table: common values of all rows, differences, and warnings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.comparison import tuning_notes
from kernelswarm.simulations.comparison.figures_as_text import HEADINGS, pair
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE
from kernelswarm.simulations.records.outcome import CHANGE, RANKED
from kernelswarm.simulations.records.target_units import measured_in

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment.variation import Cell
    from kernelswarm.simulations.records.outcome import Comparison, Row

MARKS = {
    "worse_than_constant": "†",
    "nothing_learned": "‡",
    "everything_kept": "§",
    "in_parts": "¶",
    "own_crowded_out": "‖",
    "targets_below_zero": "#",
}
"""Marks of a verdict, beside the figure that it is about."""

MARKED = {
    "worse_than_constant": "risk",
    "nothing_learned": "model_order",
    "everything_kept": "model_order",
    "in_parts": "disagreement",
    "own_crowded_out": "model_order",
    "targets_below_zero": "risk",
}
"""The figure that a verdict is about."""

NUMBERS = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
"""In which reasons may differ that are one."""

APART = ("seed", "backend", "compare")
"""Tables of an experiment in which a comparison's rows may differ: they change no figure, or are repeated."""


def above(comparison: Comparison) -> list[str]:
    """Return the notes before a comparison of rows: their step, and keys that differ by defaults."""
    return [*_drawn(comparison), *_step_form(comparison), *_warnings(comparison)]


def under(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Return the units of figures, how rows were tuned, why runs failed, which are the same, and what marks mean."""
    notes = [*_units(comparison), *tuning_notes.notes(comparison)]
    for row in rows:
        cell = _cell(comparison, row)
        notes += [f"failed: {cell}: {reason}" for reason in _alike(row.reasons)]
    for row in rows:
        notes += [f"equal: {_cell(comparison, row)}: {_repeated(seeds)}" for seeds in row.equal]
    for kind, mark in MARKS.items():
        texts: dict[str, list[str]] = {}
        for place, row in enumerate(rows):
            if kind in row.verdicts:
                part = "" if row.verdicts[kind][0] == row.done else f", {row.verdicts[kind][0]} of {row.done} runs"
                texts.setdefault(_verdict(comparison, place, row, kind), []).append(f"{_cell(comparison, row)}{part}")
        notes += [f"{mark} {'; '.join(cells)}: {sentence}" for sentence, cells in texts.items()]
    return notes


def _alike(reasons: Sequence[str]) -> list[str]:
    """Return the first of the reasons that differ in their numbers alone, with how many there are.

    Examples
    --------
    >>> _alike(["node 3 diverged", "killed", "node 5 diverged"])
    ['node 3 diverged (and 1 more run alike)', 'killed']
    """
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        groups.setdefault(NUMBERS.sub("0", reason), []).append(reason)
    return [
        first + (f" (and {len(others)} more run{'s' * (len(others) > 1)} alike)" if others else "")
        for first, *others in groups.values()
    ]


def _verdict(comparison: Comparison, place: int, row: Row, kind: str) -> str:
    """Return a verdict's sentence; of several runs the means that stand in the table, before the first one's."""
    sentence = row.verdicts[kind][1]
    if row.done == 1:
        return sentence
    seed = next(run.seed for run in comparison.done(place) if kind in run.verdict)
    figure = MARKED[kind]
    means = f"{HEADINGS[figure]} {pair(row.mean[figure], row.deviation[figure])}"
    if kind == "worse_than_constant":
        means += f", of the best constant {pair(row.mean['constant_risk'], row.deviation['constant_risk'])}"
    return f"{means}; seed {seed}: {sentence}"


def explanation(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the meanings of the columns of these names."""
    several = any(row.done > 1 for row in rows)
    lines = ["mean ± standard deviation over seeds"] if several else []
    if any(name in RANKED for name in names):
        lines.append(
            "risk and error are measured on the nodes' own data, the pooled ones on the data of all nodes together"
        )
    if CHANGE in names and any(math.isfinite(row.mean[CHANGE]) for row in rows):
        lines.append(
            "risk change: against the isolated nodes, or else the first row, under the same circumstances and with the "
            "same seed; negative is better"
        )
    return lines


def marks(row: Row, column: str) -> list[str]:
    """Return the kinds of verdict that are marked at a column's figure."""
    return [kind for kind in MARKS if MARKED[kind] == column and kind in row.verdicts]


def differing_keys(comparison: Comparison) -> dict[str, dict[str, list[Any]]]:
    """Return the keys that are not compared and yet differ between rows; tuned ones have columns of their own.

    Rows that name different parts are compared as these parts, and differ unasked in a key that several of the parts
    have, with other values. Rows of the same part differ as they were asked to.

    Returns
    -------
    dict
        For each dotted key, its values by the names of the parts.
    """
    tables = [
        dict(_entries({key: value for key, value in cell.config.items() if key not in APART}))
        for cell in comparison.cells
    ]
    found: dict[str, dict[str, list[Any]]] = {}
    asked = [key.removesuffix(".name") for key in comparison.keys]
    tuned = tuning_notes.tuned_keys(comparison)
    for key in sorted({key for table in tables for key in table}):
        above, _, last = key.rpartition(".")
        if key in comparison.keys or key in tuned or (last == "name" and above in asked):
            continue
        if any(key.startswith(f"{other.removesuffix('.name')}.") for other in found if other.endswith(".name")):
            continue  # of a part that is itself another one
        values: dict[str, list[Any]] = {}
        for table in tables:
            if key in table:
                part = above.rpartition(".")[0] if last == "name" else above
                of = values.setdefault(str(table.get(f"{part}.name", "")), [])
                of += [table[key]] if table[key] not in of else []
        if len(values) > 1 and last != "name" and above not in asked:
            continue  # a key of parts inside that are others: a name it shares with theirs means something else
        if any(sorted(map(str, of)) != sorted(map(str, next(iter(values.values())))) for of in values.values()):
            found[key] = values
    return found


def _units(comparison: Comparison) -> list[str]:
    """Return notes on the unit of risk and error where targets were standardized, and on rows with another one."""
    texts: dict[str, list[int]] = {}
    for place, cell in enumerate(comparison.cells):
        facts = [run.facts for run in comparison.done(place)]
        if facts:  # other seeds learn from other rows, and have nearly the same deviations
            texts.setdefault(measured_in(facts[0], cell.config), []).append(place)
    if not any(texts):
        return []
    own = any("rmse" in run.final for run in comparison.runs)
    beside = "; rmse, in the CSV files or as a column, is in the unit of the data" if own else ""
    lines = []
    for units, cells in texts.items():
        where = "" if len(texts) == 1 else f"{'; '.join(_named(comparison, cells))}: "
        lines.append(f"{where}{units or 'risk and error are in the unit of the data'}{beside if units else ''}")
    return lines


def _named(comparison: Comparison, cells: Sequence[int]) -> list[str]:
    return [_cell(comparison, comparison.cells[place]) for place in cells]


def _step_form(comparison: Comparison) -> list[str]:
    first = {run.cell: run for run in comparison.runs[::-1] if run.step}
    steps = {run.step for run in first.values()}
    forms = {run.form for run in first.values()}
    if forms == {""}:
        return []  # nobody communicates: there is no coupling for a step to be explicit or implicit in
    texts = [f"step = {next(iter(steps))}"] if len(steps) == 1 else []
    if len(forms - {""}) == 1:
        where = " where nodes communicate" if "" in forms else ""
        texts.append(f"form = {next(iter(forms - {''}))}{where}")
    return [f"all rows: {', '.join(texts)}"] if texts and len(first) > 1 else []


def _drawn(comparison: Comparison) -> list[str]:
    texts = [f"{key} = {draws}" for key, draws in comparison.drawn.items()]
    together = " together" if len(texts) > 1 else ""
    return [f"drawn{together}: {', '.join(texts)}; all digits are in the CSV files"] if texts else []


def _warnings(comparison: Comparison) -> list[str]:
    lines = []
    for key, values in differing_keys(comparison).items():
        parts: dict[str, list[str]] = {}
        for part, of in values.items():
            parts.setdefault(" and ".join(map(shown, of)), []).append(part)
        texts = "; ".join(f"{value} in {', '.join(names)}" for value, names in parts.items())
        lines.append(f"warning: rows differ in {key.removesuffix('.name')}, which is not compared: {texts}")
    return lines


def _repeated(seeds: Sequence[int]) -> str:
    named = ", ".join(map(str, seeds))
    return f"the runs with seeds {named} are the same to the last bit, and count as one: the seed changes nothing here"


def _cell(comparison: Comparison, row: Row | Cell) -> str:
    names = zip(comparison.keys, row.labels, strict=True)
    cell = ", ".join(f"{key.removesuffix('.name')} = {label}" for key, label in names if label != NOT_APPLICABLE)
    return cell or "the experiment"


def _entries(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
