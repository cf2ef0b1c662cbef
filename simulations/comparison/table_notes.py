"""The notes above and below a comparison's table: common values, differences and warnings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.simulations.core.errors import last_words, listed, shown, toml
from kernelswarm.simulations.experiment.changes import entries, value_at
from kernelswarm.simulations.experiment.judging import Judgement, Tuned, lower, standard_error
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE
from kernelswarm.simulations.records.outcome import CHANGE, FEWEST, RANKED, label
from kernelswarm.simulations.records.result import measured_in

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment.variation import Cell
    from kernelswarm.simulations.records.outcome import Comparison, Difference, Row

# Notes on tuned, and on untuned, step sizes and penalties of rows.

GIVEN = ("learner.step_size", "protocol.penalty", "protocol.ridge", "protocol.gamma")
"""Keys for which one number rarely suits all rows."""


def tuned_keys(comparison: Comparison) -> list[str]:
    """Return the keys that were tuned in any row."""
    return list(dict.fromkeys(key for cell in comparison.cells if cell.tuned for key in cell.tuned.keys))


def tuned_columns(comparison: Comparison) -> list[list[str]]:
    """Return a column with heading for each tuned key, with the value of each row."""
    keys = tuned_keys(comparison)
    return [
        [heading, *(_value(cell, key) for cell in comparison.cells)]
        for key, heading in zip(keys, last_words(keys), strict=True)
    ]


def as_cells(cell: Cell) -> list[str]:
    """Return a row's tuned values, its number of pilots, the keys whose optimum may lie beyond the grid, and the risk
    of the judging pilots with its standard error."""
    found = cell.tuned or Tuned()
    values = [f"{key} = {_value(cell, key)}" for key in found.keys]
    judged = [] if found.judgement is None else [found.judgement.chosen.mean(), standard_error(found.judgement.chosen)]
    sides = "; ".join(f"{key} {side}" for key, side in found.edges.items())
    return ["; ".join(values), str(found.pilots), sides, *([repr(float(one)) for one in judged] or ["", ""])]


def notes_on_tuning(comparison: Comparison) -> list[str]:
    """Return sentences on the tuning of rows and on optima at the edge of the tried values."""
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
    lines += [_judged(comparison, place, tuned.judgement) for place, tuned in found if tuned.judgement is not None]
    lines += _below(comparison)
    for place, tuned in found:
        for key, side in tuned.edges.items():
            beyond = "higher" if side == "high" else "lower"
            value = _value(comparison.cells[place], key)
            lines.append(
                f"edge: {_named_row(comparison, place)}: no {beyond} {key} than {value} was tried near the row's other "
                "values, and the optimum may lie there"
            )
    return lines


def _judges(found: Mapping[int, Tuned]) -> str:
    """Return the seeds of the judging pilots, and their share of the row's pilots."""
    judgement = next((one.judgement for one in found.values() if one.judgement is not None), None)
    if judgement is None:
        return ""
    seeds = len(judgement.after)
    last = judgement.first + seeds - 1
    return (
        f"; {seeds} or {2 * seeds} of them judge the best candidate and the row as it is afresh, with seeds "
        f"{judgement.first} to {last}"
    )


def _judged(comparison: Comparison, place: int, judgement: Judgement) -> str:
    """Describe the risk of the best candidate in the judging pilots, and whether it was taken."""
    row = _named_row(comparison, place)
    if judgement.holds:
        return f"judged: {row}: {'; '.join(filter(None, [judgement.sentence, judgement.worse]))}"
    why = "no other did better" if judgement.after == judgement.before else "the best gains no more than luck"
    return f"judged: {row} stays as it is, since {why}: {judgement.sentence}"


def _below(comparison: Comparison) -> list[str]:
    """Return notes on untuned rows with lower risks than tuned rows."""
    lines = []
    for group in comparison.groups():
        for place in group:
            beaten = [_named_row(comparison, other) for other in group if _errs_less(comparison, place, other)]
            if beaten:
                lines.append(
                    f"below: {_named_row(comparison, place)} errs less untuned than tuned {'; '.join(beaten)}, by more "
                    "than one standard error of paired seeds"
                )
    return lines


def _errs_less(comparison: Comparison, place: int, other: int) -> bool:
    """Tell whether an untuned row has a lower risk than a tuned one: in pilots, or measured without pilots."""
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
    fixed = [_named_row(comparison, place) for place, tuned in found.items() if not tuned.pilots]
    return [f"not tuned, since they have no such key: {'; '.join(fixed)}"] if fixed else []


def _untuned(comparison: Comparison) -> list[str]:
    """Return a note on values that rows with different protocols or learners have in common."""
    once = []
    for key in GIVEN:
        if any(varied == key or varied.startswith(f"{key}.") for varied in comparison.keys):
            continue  # the key is varied
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
    """Return the number of a key or its schedule; None for words, resolved values and missing keys."""
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


def _named_row(comparison: Comparison, place: int) -> str:
    every = range(len(comparison.keys))
    return label(comparison, comparison.cells[place].labels, every) or "the experiment"


# Names and formats of a comparison's figures.

HEADINGS = {
    "risk": "risk",
    CHANGE: "risk change",
    "error": "error",
    "global_risk": "pooled risk",
    "global_error": "pooled error",
    "model_order": "model order",
    "disagreement": "disagreement",
    "violation": "violation",
    "bytes_sent": "bytes sent",
    "seconds": "seconds",
}
"""The columns of the table, with their headings."""


def plainly(means: Iterable[float]) -> bool:
    """Tell whether a column has numbers without powers of ten, because some of them need none."""
    return any(1e-3 <= abs(mean) < 1e6 for mean in means)


def pair(mean: float, deviation: float, plain: bool = False) -> str:
    """Format a mean with its deviation; the deviation has two significant digits, and the mean the same decimals.

    ``plain`` numbers between 1e-8 and 1e9 have no power of ten, like the other numbers of their column.

    Examples
    --------
    >>> pair(0.41234, 0.0123), pair(1523456.0, 20000.0), pair(16.0, float("nan"))
    ('0.412 ± 0.012', '(1.523 ± 0.020)e6', '16')
    >>> pair(0.000166, 0.000054), pair(0.000166, 0.000054, plain=True)
    ('(1.66 ± 0.54)e-4', '0.000166 ± 0.000054')
    """
    if not math.isfinite(mean):
        return "–"
    center, spread, exponent = rounded(mean, deviation, plain)
    suffix = f"e{exponent}" if exponent else ""
    if not spread:
        return center + suffix
    return f"({center} ± {spread}){suffix}" if suffix else f"{center} ± {spread}"


def rounded(mean: float, deviation: float, plain: bool = False) -> tuple[str, str, int]:
    """Return mean and deviation with the same decimals, and their common power of ten; a missing deviation is ""."""
    # Equal runs have a deviation of rounding size, which must not lead to sixteen digits.
    spread = deviation if math.isfinite(deviation) and deviation > 1e-12 * abs(mean) else 0.0
    largest = max(abs(mean), spread)
    magnitude = math.floor(math.log10(largest)) if largest > 0 else 0
    exponent = 0 if (-8 <= magnitude < 9 if plain else -3 <= magnitude < 6) else magnitude
    mean, spread, magnitude = mean / 10.0**exponent, spread / 10.0**exponent, magnitude - exponent
    wanted = 1 - math.floor(math.log10(spread)) if spread > 0 else 3 - magnitude
    decimals = max(0, min(wanted, 3 - magnitude))
    if spread == 0:
        center = f"{mean:.{decimals}f}"
        return center.rstrip("0").rstrip(".") if "." in center else center, "", exponent
    return f"{mean:.{decimals}f}", f"{spread:.{decimals}f}", exponent


MARKS = {
    "worse_than_constant": "†",
    "nothing_learned": "‡",
    "everything_kept": "§",
    "in_parts": "¶",
    "own_crowded_out": "‖",
    "targets_below_zero": "#",
}
"""Marks of warnings, beside the figures that they concern."""

MARKED = {
    "worse_than_constant": "risk",
    "nothing_learned": "model_order",
    "everything_kept": "model_order",
    "in_parts": "disagreement",
    "own_crowded_out": "model_order",
    "targets_below_zero": "risk",
}
"""The figure that a warning concerns."""

NUMBERS = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
"""Numbers, in which equal reasons may differ."""

APART = ("seed", "backend", "compare")
"""Tables in which rows may differ without a note: they do not change figures."""


def above(comparison: Comparison) -> list[str]:
    """Return the notes above the table: common step, and keys that differ by defaults."""
    return [*_drawn(comparison), *_step_form(comparison), *_warnings(comparison)]


def under(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Return the notes below the table: units, tuning, reasons of failures, equal runs, and meanings of marks."""
    notes = [*_units(comparison), *_fixed(comparison), *notes_on_tuning(comparison)]
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
    """Merge reasons that differ in their numbers only: the first reason, with the count of the others.

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
    """Return the sentence of a warning; for several runs, the means in the table and then the first run's sentence."""
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
    """Return the meanings of columns, by name."""
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
    """Return the kinds of warnings that are marked at a column's figure."""
    return [kind for kind in MARKS if MARKED[kind] == column and kind in row.verdicts]


def differing_keys(comparison: Comparison) -> dict[str, dict[str, list[Any]]]:
    """Return the keys that differ between rows although they are neither varied nor tuned.

    If rows have different parts, a key that several of these parts have with different values differs unintentionally.
    Rows with the same part differ only as requested.

    Returns
    -------
    dict
        For each dotted key, its values by the names of the parts.
    """
    tables = [
        dict(entries({key: value for key, value in cell.config.items() if key not in APART}))
        for cell in comparison.cells
    ]
    found: dict[str, dict[str, list[Any]]] = {}
    asked = [key.removesuffix(".name") for key in comparison.keys]
    tuned = tuned_keys(comparison)
    for key in sorted({key for table in tables for key in table}):
        above, _, last = key.rpartition(".")
        if key in comparison.keys or key in tuned or (last == "name" and above in asked):
            continue
        if any(key.startswith(f"{other.removesuffix('.name')}.") for other in found if other.endswith(".name")):
            continue  # key of a part that itself differs
        values: dict[str, list[Any]] = {}
        for table in tables:
            if key in table:
                part = above.rpartition(".")[0] if last == "name" else above
                of = values.setdefault(str(table.get(f"{part}.name", "")), [])
                of += [table[key]] if table[key] not in of else []
        if len(values) > 1 and last != "name" and above not in asked:
            continue  # key of different inner parts: the same name may have another meaning
        if any(sorted(map(str, of)) != sorted(map(str, next(iter(values.values())))) for of in values.values()):
            found[key] = values
    return found


def _units(comparison: Comparison) -> list[str]:
    """Return notes on the units of risk and error for standardized targets, and on rows with other units."""
    texts: dict[str, list[int]] = {}
    for place, cell in enumerate(comparison.cells):
        facts = [run.facts for run in comparison.done(place)]
        if facts:  # other seeds have other rows, and nearly the same deviations
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


def _fixed(comparison: Comparison) -> list[str]:
    """Return notes on random choices, networks and test rows that are equal for all seeds."""
    if len({run.seed for run in comparison.runs}) < 2:
        return []
    tables = [table for cell in comparison.cells for table in (cell.config, *cell.config.get("node", ()))]
    found = [entry for table in tables for entry in entries(table)]
    draws: dict[str, list[str]] = {}
    for key, value in found:
        if key.endswith(".seed") and isinstance(value, int):
            draws.setdefault(key, []).append(str(value))
    lines = [
        f"{key} = {' or '.join(dict.fromkeys(values))} is one draw for all seeds, and what is found holds for it "
        "alone: leave the key out to draw anew with each seed"
        for key, values in draws.items()
    ]
    files = {
        "network": ("topology.name", "file") in found,
        "test rows": any(key == "stream.test_path" for key, _ in found),
    }
    if any(files.values()):
        what = " and ".join(name for name, given in files.items() if given)
        lines.append(f"all seeds have the same {what}, from a file")
    return lines


def _named(comparison: Comparison, cells: Sequence[int]) -> list[str]:
    return [_cell(comparison, comparison.cells[place]) for place in cells]


def _step_form(comparison: Comparison) -> list[str]:
    first = {run.cell: run for run in comparison.runs[::-1] if run.step}
    steps = {run.step for run in first.values()}
    forms = {run.form for run in first.values()}
    if forms == {""}:
        return []  # without communication, there is no explicit or implicit coupling
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


# Sentences on the supported differences of a comparison: rows, sizes and numbers of seeds.

SENTENCES = 12
"""Maximum number of sentences below the table in a terminal."""

HEAD = "supported by paired seeds (sign-flip test; 1 line in 20 may name a difference where there is none):"

WHOLE = {
    "open": "no supported difference between {}",
    "equal": "{} are equal in every seed",
    "few": f"fewer than {FEWEST} seeds shared by {{}}",
}
"""The sentence if all pairs of rows are concerned."""

PART = {
    "open": "no supported difference to {}",
    "equal": "equal to {} in every seed",
    "few": f"fewer than {FEWEST} seeds shared with {{}}",
}
"""The sentence on the best row and the concerned rows."""

AT_LEAST = f"at least {FEWEST} seeds are needed to tell which row is better"


def best(comparison: Comparison) -> dict[str, set[int]]:
    """Return, for each column, the rows with supported differences to all others under the same circumstances.

    Lower is better in the figures of ``RANKED`` only. The row with the best risk also has the best change of risk,
    unless it is the reference of the change.
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
    """Return the supported differences: a sentence on the test, and sentences for each figure and group.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    most : int, optional
        Maximum number of sentences, after which only the number of further ones is given; None for all.
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
    """Return the name of a row among the rows under the same circumstances."""
    return label(comparison, comparison.cells[cell].labels, comparison.inner) or "the experiment"


def _sentence(comparison: Comparison, alike: Sequence[Difference]) -> str:
    """Return sentences on the rows that the best row beats or does not beat, and on differences among the others."""
    figure = alike[0].figure
    cells = sorted({cell for one in alike for cell in (one.better, one.worse)})
    names = {cell: _quoted(row_name(comparison, cell)) for cell in cells}
    kinds: dict[str, list[Difference]] = {}
    for one in alike:
        kinds.setdefault(_kind(one), []).append(one)
    wins = kinds.get("supported", [])
    if len(kinds) == 1 and not wins:
        texts = WHOLE[next(iter(kinds))].format(listed([names[cell] for cell in cells], "and"))
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
            clauses += [text.format(listed(rivals, "and"))] if rivals else []
        for cell in cells:
            beaten = [names[one.worse] for one in wins if one.better == cell != first]
            clauses += [f"{names[cell]} beats {listed(beaten, 'and')}"] if beaten else []
        texts = "; ".join(clauses)
    return f"{_where(comparison, cells[0])}{HEADINGS[figure]}: {texts}"


def _amounts(names: Mapping[int, str], wins: Sequence[Difference]) -> str:
    """Describe the differences to other rows, largest first, with their numbers of seeds; equal numbers once."""
    ordered = sorted(wins, key=lambda one: -one.mean)
    counts = [f"in {one.wins} of {one.seeds} seeds" for one in ordered]
    once = len(set(counts)) == 1
    words = [
        f"{names[one.worse]} by {pair(one.mean, one.deviation)}{'' if once else f' {count}'}"
        for one, count in zip(ordered, counts, strict=True)
    ]
    each = f"{', each' if len(wins) > 1 else ''} {counts[0]}" if once else ""
    return f"{names[ordered[0].better]} beats {listed(words, 'and')}{each}"


def _kind(one: Difference) -> str:
    if one.seeds < FEWEST:
        return "few"
    if one.mean == one.deviation == 0.0:
        return "equal"
    return "supported" if one.supported else "open"


def _mean(comparison: Comparison, cell: int, figure: str) -> float:
    """Return the mean of a figure over the runs with this figure."""
    found = [run.final.get(figure, math.nan) for run in comparison.done(cell)]
    finite = [number for number in found if math.isfinite(number)]
    return math.fsum(number / len(finite) for number in finite)


def _hint(comparison: Comparison, found: Sequence[Difference]) -> list[str]:
    """Return a note on differences with the same sign in all seeds, which more seeds may support; or an empty list."""
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
    """Return the circumstances that distinguish a row, as the beginning of a sentence."""
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
