"""The trials and the choice of a suggestion, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernelswarm.simulations.core.messages import last_words, toml
from kernelswarm.simulations.suggestion.suggest import Suggestion
from kernelswarm.simulations.suggestion.trials import Trial

SHOWN = 2
"""Causes of failures that are printed; many differ in the node and the round only."""


def as_text(suggestion: Suggestion) -> str:
    """Return the table of all candidates, the best of the longest pilots first, and the choice with its reason."""
    keys = [entry.key for entry in suggestion.ranges]
    risk = "pooled risk" if suggestion.pooled else "risk"
    rows = [["", "rounds", risk, "model order", *last_words(keys)]]
    for trial in suggestion.trials:
        mark = "*" if trial is suggestion.chosen else ""
        rows.append([mark, f"{trial.rounds:,}", *_figures(trial, suggestion.pooled), *_values(trial, keys)])
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(size) for cell, size in zip(row, wide, strict=True)) for row in rows]
    failures = [trial.figures.failure for trial in suggestion.trials if trial.figures.failure]
    lines += ["", *(f"failed: {failure}" for failure in list(dict.fromkeys(failures))[:SHOWN])]
    if len(failures) > SHOWN:
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
