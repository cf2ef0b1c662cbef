"""Final figures of a run, and the trials of a search and of a suggestion, for the terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.command.progress import duration
from kernelswarm.simulations.comparison.pilots import Trial
from kernelswarm.simulations.comparison.search import BEST, TABLE, Search
from kernelswarm.simulations.comparison.suggest import Suggestion
from kernelswarm.simulations.core.data_description import DOUBTS
from kernelswarm.simulations.core.errors import called, last_words, number_of, some, toml
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE, short
from kernelswarm.simulations.records.result import held_out_in, measured_in, own_error

if TYPE_CHECKING:
    from kernelswarm.simulations.records.result import Result

# The final figures of a run, for the terminal.


def as_text(result: Result, width: int = 100) -> str:
    """Return the final figures as aligned lines, and under them, wrapped to ``width``, the run's warnings."""
    from kernelswarm.simulations.engine.scores import BANDS
    from kernelswarm.simulations.records.result import TWINS, repeated

    summary, final = result.summary, result.final
    nodes = number_of(summary["nodes"], "node")
    lines = [("protocol", f"{called(summary['protocol'])} on {called(result.config['topology'])}, {nodes}")]
    compiled = summary.get("compile_seconds") or 0.0
    after = f", after {compiled:.0f} s of compiling, once" if compiled >= 1.0 else ""
    seconds = summary["wall_seconds"] - compiled
    span = f"{seconds:.3g} s" if seconds < 100 else duration(seconds)
    lines.append(("rounds", f"{summary['rounds']:,} in {span}{after}"))
    named = {
        "risk": "risk",
        "constant_risk": "constant risk",
        "error": "error",
        "global_risk": "pooled risk",
        "global_error": "pooled error",
        "bayes_error": "Bayes error",
        "model_order": "model order",
        "disagreement": "disagreement",
        "violation": "violation",
        "coverage": "coverage",
        "global_coverage": "pooled coverage",
        "width": "band width",
        "global_width": "pooled band width",
    }
    facts = summary["facts"]
    for name in repeated([final]):
        named[TWINS[name]] += f", {named.pop(name).removeprefix('pooled ')}"
    bands = {name: float(result.network[name][-1]) for name in BANDS if len(result.network.get(name, ()))}
    known = {**facts, **final, **bands}
    lines += [
        (name, f"{known[key]:.4g}")
        for key, name in named.items()
        if known.get(key) is not None and known[key] == known[key]
    ]
    regions = _by_region(summary.get("coverage") or [])
    lines += [("coverage by region", regions)] if regions else []
    error = own_error(final, facts, ", ".join(result.data.targets.names))
    lines += [("rmse", error)] if error else []
    units = measured_in(facts, result.config, known=bool(error))
    lines += [("unit", units)] if units else []
    if "held_out" in facts:
        lines.append(("held out", held_out_in(result)))
    if "task_chosen" in facts:
        lines.append(("task", str(facts["task_chosen"])))
    if "gaps" in facts:
        lines.append(("gaps", str(facts["gaps"])))
    lines += [("warning", str(facts[name])) for name in DOUBTS if name in facts]
    ends = summary.get("used_up")
    if ends is not None and ends["first"] < ends["last"]:
        lines.append(
            ("own data", f"used up after {ends['first']:,} (first node) to {number_of(ends['last'], 'round')} (last)")
        )
    fitted = summary["backend"]
    if "landmarks" in fitted:
        lines.append(("fitted to", f"{fitted['rows']:,} of {number_of(fitted['samples'], 'sample')}"))
        lines.append(("regularization", f"{fitted['regularization']:.3g}, chosen by {fitted['chosen_by']}"))
    private = summary.get("privacy")
    if private is not None:
        lines.append(("privacy", private["words"]))
    rate = summary.get("node_rounds_per_second")
    if rate is not None:
        lines.append(
            ("node-rounds/s", f"{rate:,.0f}, in the {final['seconds']:.3g} s from the first round to the last")
        )
    wide = max(len(name) for name, _ in lines)
    table = "\n".join(f"{name:<{wide}}  {value}" for name, value in lines)
    return "\n\n".join([table, *(textwrap.fill(sentence, width) for sentence in result.verdict.values())])


def _by_region(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the least and the greatest coverage of the fifths by each number; empty without bands."""
    found: dict[str, list[float]] = {}
    for part in parts:
        if "to" in part:
            found.setdefault(str(part["by"]), []).append(part["coverage"])
    return "; ".join(f"{min(each):.3f} to {max(each):.3f} by {by}" for by, each in found.items())


# The trials and the result of a search, as text.

SHOWN = 12
"""Trials that are printed, the best ones."""


def search_as_text(search: Search) -> str:
    """Return the table of the best trials, how the others ended, and the best values."""
    done = [place for place in search.order if search.trials[place].value is not None]
    rows = [["trial", search.by, "model order", *search.space.keys]]
    columns = [_column(search, number, done[:SHOWN]) for number in range(len(search.space.keys))]
    for place, values in zip(done[:SHOWN], zip(*columns, strict=True), strict=True):
        figures = search.trials[place].figures
        order = f"{figures['model_order']:.1f}" if "model_order" in figures else ""
        rows.append([f"{place + 1}", f"{figures[search.by]:.4g}", order, *values])
    lines = _aligned(rows)
    failures = list(dict.fromkeys(trial.failure for trial in search.trials if trial.failure))
    failed = sum(bool(trial.failure) for trial in search.trials)
    given_up = len(search.trials) - len(done) - failed
    lines += ["", f"{len(search.trials)} trials: {len(done)} done, {given_up} given up, {failed} failed"]
    lines += [f"failed: {some(failures[:1])}"] if failures else []
    lines.append("best")
    for key, label in zip(search.space.keys, search.labels[done[0]], strict=True):
        lines += [f"  {key} = {label}"] if label != NOT_APPLICABLE else []
    lines.append(f"experiment  {search.folder / BEST}")
    lines.append(f"trials      {search.folder / TABLE}")
    return "\n".join(line.rstrip() for line in lines)


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return rows of cells as lines, each column aligned at its right."""
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(size) for cell, size in zip(row, wide, strict=True)) for row in rows]


def _column(search: Search, number: int, places: list[int]) -> list[str]:
    """Return a key's values in some trials, numbers of a range with as many digits as tell them apart."""
    labels = [search.labels[place][number] for place in places]
    key = search.space.keys[number]
    if key not in search.space.ranges:
        return labels
    numbers = [search.space.ranges[key].rounded(search.trials[place].proposal[key]) for place in places]
    return [label if label == NOT_APPLICABLE else texts for label, texts in zip(labels, short(numbers), strict=True)]


# The trials and the choice of a suggestion, as text.

FAILURES_SHOWN = 2
"""Causes of failures that are printed; many differ in the node and the round only."""


def suggestion_as_text(suggestion: Suggestion) -> str:
    """Return the table of all candidates, the best of the longest pilots first, and the choice with its reason."""
    keys = [entry.key for entry in suggestion.ranges]
    risk = "pooled risk" if suggestion.pooled else "risk"
    rows = [["", "rounds", risk, "model order", *last_words(keys)]]
    for trial in suggestion.trials:
        mark = "*" if trial is suggestion.chosen else ""
        rows.append([mark, f"{trial.rounds:,}", *_figures(trial, suggestion.pooled), *_values(trial, keys)])
    lines = _aligned(rows)
    failures = [trial.figures.failure for trial in suggestion.trials if trial.figures.failure]
    lines += ["", *(f"failed: {failure}" for failure in list(dict.fromkeys(failures))[:FAILURES_SHOWN])]
    if len(failures) > FAILURES_SHOWN:
        lines.append(f"failed: {len(failures)} pilots in all")
    lines.append(f"{len(suggestion.trials)} candidates, {suggestion.node_rounds:,} node-rounds")
    lines.append(f"chosen  {suggestion.reason}")
    lines += [f"  {key} = {toml(value)}" for key, value in suggestion.chosen.values.items()]
    return "\n".join(line.rstrip() for line in lines)


def _figures(trial: Trial, pooled: bool) -> list[str]:
    risk = trial.figures.pooled_risk if pooled else trial.figures.risk
    return ["failed", ""] if math.isinf(risk) else [f"{risk:.4g}", f"{trial.figures.model_order:.1f}"]


def _values(trial: Trial, keys: list[str]) -> list[str]:
    return [_number(trial.values[key]) if key in trial.values else "as it is" for key in keys]


def _number(value: Any) -> str:
    """Return a value; of a part its name and number.

    Examples
    --------
    >>> _number(0.5), _number({"name": "auto", "scale": 0.5})
    ('0.5', '0.5 auto')
    """
    return f"{toml(value['scale'])} {value['name']}" if isinstance(value, Mapping) else toml(value)
