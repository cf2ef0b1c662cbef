"""Notes of a comparison's table on its rows' steps and penalties: the choice for each, or that none was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.simulations.core.messages import last_words, shown, toml
from kernelswarm.simulations.experiment.changes import value_at
from kernelswarm.simulations.experiment.judging import Tuned, lower, standard_error
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE
from kernelswarm.simulations.records.outcome import label

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment.variation import Cell
    from kernelswarm.simulations.records.outcome import Comparison

GIVEN = ("learner.step_size", "protocol.penalty", "protocol.ridge", "protocol.gamma")
"""Keys that suit one row and not the next, where they are numbers."""


def tuned_keys(comparison: Comparison) -> list[str]:
    """Return the keys that were tuned in some row."""
    return list(dict.fromkeys(key for cell in comparison.cells if cell.tuned for key in cell.tuned.keys))


def tuned_columns(comparison: Comparison) -> list[list[str]]:
    """Return a column with its heading for each key that was tuned: what each row has."""
    keys = tuned_keys(comparison)
    return [
        [heading, *(_value(cell, key) for cell in comparison.cells)]
        for key, heading in zip(keys, last_words(keys), strict=True)
    ]


def as_cells(cell: Cell) -> list[str]:
    """Return a row's tuned values, its number of pilots, the keys whose optimum may lie beyond, and what the pilots
    that judge it risk, with the standard error."""
    found = cell.tuned or Tuned()
    values = [f"{key} = {_value(cell, key)}" for key in found.keys]
    judged = [] if found.judgement is None else [found.judgement.chosen.mean(), standard_error(found.judgement.chosen)]
    sides = "; ".join(f"{key} {side}" for key, side in found.edges.items())
    return ["; ".join(values), str(found.pilots), sides, *([repr(float(one)) for one in judged] or ["", ""])]


def notes(comparison: Comparison) -> list[str]:
    """Return how rows were tuned, which optimum lies at the edge of what was tried, or that none was tuned."""
    found = [(place, cell.tuned) for place, cell in enumerate(comparison.cells) if cell.tuned is not None]
    if not found:
        return _untuned(comparison)
    counts = sorted({tuned.pilots for _, tuned in found if tuned.pilots})
    if not counts:
        return ["tuned: no row has a step size, penalty, ridge or tolerance to tune"]
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    seeds = next(tuned.seeds for _, tuned in found if tuned.seeds)
    with_seeds = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 2 else " and ".join(map(str, seeds))
    lines = [
        f"tuned: each row by the same search, {number} pilot runs a row with seeds {with_seeds}, "
        f"none of which is measured{_judges(dict(found))}"
    ]
    lines += _not_tuned(comparison, dict(found))
    lines += [_judged(comparison, place, tuned) for place, tuned in found if tuned.pilots]
    lines += _below(comparison)
    for place, tuned in found:
        for key, side in tuned.edges.items():
            beyond = "higher" if side == "high" else "lower"
            value = _value(comparison.cells[place], key)
            lines.append(
                f"edge: {_named(comparison, place)}: no {beyond} {key} than {value} was tried near the row's other "
                "values, and the optimum may lie there"
            )
    return lines


def _judges(found: Mapping[int, Tuned]) -> str:
    """Return the seeds of the pilots that judge, and how many of the row's pilots these are."""
    judgement = next((one.judgement for one in found.values() if one.judgement is not None), None)
    if judgement is None:
        return ""
    seeds = len(judgement.after)
    last = judgement.first + seeds - 1
    return (
        f"; {seeds} or {2 * seeds} of them judge the best candidate and the row as it is afresh, with seeds "
        f"{judgement.first} to {last}"
    )


def _judged(comparison: Comparison, place: int, tuned: Tuned) -> str:
    """Return the risk of what was found on pilots that did not choose it, and whether it was taken."""
    row, judgement = _named(comparison, place), tuned.judgement
    if judgement is None:
        return f"not judged: {row} was tuned by an earlier version, which had no pilots for it; compare again has them"
    if judgement.holds:
        return f"judged: {row}: {'; '.join(filter(None, [judgement.sentence, judgement.worse]))}"
    why = "no other did better" if judgement.after == judgement.before else "the best gains no more than luck"
    return f"judged: {row} stays as it is, since {why}: {judgement.sentence}"


def _below(comparison: Comparison) -> list[str]:
    """Return which rows err less as they are than others do with what was found for them."""
    lines = []
    for group in comparison.groups():
        for place in group:
            beaten = [_named(comparison, other) for other in group if _errs_less(comparison, place, other)]
            if beaten:
                lines.append(
                    f"below: {_named(comparison, place)} errs less untuned than tuned {'; '.join(beaten)}, by more "
                    "than one standard error of paired seeds"
                )
    return lines


def _errs_less(comparison: Comparison, place: int, other: int) -> bool:
    """Return whether a row as it is errs less than another one tuned: in pilots, or measured if it has none."""
    one, tuned = (comparison.cells[row].tuned for row in (place, other))
    if place == other or one is None or tuned is None or tuned.judgement is None:
        return False
    if one.judgement is not None:
        return lower(one.judgement.given, tuned.judgement.chosen)
    name = "global_risk" if tuned.judgement.pooled else "risk"
    ones, others = ({run.seed: run.final.get(name, np.nan) for run in comparison.done(row)} for row in (place, other))
    shared = [seed for seed in ones if seed in others]
    found = [np.array([risks[seed] for seed in shared]) for risks in (ones, others)]
    return not one.pilots and len(shared) > 1 and lower(*found)


def _not_tuned(comparison: Comparison, found: Mapping[int, Tuned]) -> list[str]:
    fixed = [_named(comparison, place) for place, tuned in found.items() if not tuned.pilots]
    return [f"not tuned, since they have no such key: {'; '.join(fixed)}"] if fixed else []


def _untuned(comparison: Comparison) -> list[str]:
    """Return a note on numbers that were given once for rows with different protocols or learners."""
    once = []
    for key in GIVEN:
        if any(varied == key or varied.startswith(f"{key}.") for varied in comparison.keys):
            continue  # its values are what is compared
        numbers = [
            (number, toml({part: cell.config[part] for part in ("learner", "protocol")}))
            for cell in comparison.cells
            if (number := _number(value_at(cell.config, key))) is not None
        ]
        for number in dict.fromkeys(number for number, _ in numbers):
            if len({parts for other, parts in numbers if other == number}) > 1:
                once.append(f"{key} = {shown(number)}")
    if not once:
        return []
    return [f"untuned: {', '.join(once)} was given once for rows that may want others; --tune finds each row's own"]


def _number(value: Any) -> float | None:
    """Return the number of a key, or of the schedule there; None of a word, of what data decide, and of none."""
    if isinstance(value, Mapping):
        value = (
            None
            if value.get("name") in ("auto", "relative")
            else next((value[key] for key in ("initial", "scale", "value") if key in value), None)
        )
    return float(value) if isinstance(value, int | float) and value > 0.0 else None


def _value(cell: Cell, key: str) -> str:
    value = value_at(cell.config, key)
    return NOT_APPLICABLE if value is None else f"{value:g}" if isinstance(value, float) else toml(value)


def _named(comparison: Comparison, place: int) -> str:
    every = range(len(comparison.keys))
    return label(comparison, comparison.cells[place].labels, every) or "the experiment"
