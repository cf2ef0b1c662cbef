"""The trials and the result of a search, as text."""

from __future__ import annotations

from kernelswarm.simulations.core.messages import some
from kernelswarm.simulations.experiment.draws import short
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE
from kernelswarm.simulations.search.search import BEST, TABLE, Search

SHOWN = 12
"""Trials that are printed, the best ones."""


def as_text(search: Search) -> str:
    """Return the table of the best trials, how the others ended, and the best values."""
    done = [place for place in search.order if search.trials[place].value is not None]
    rows = [["trial", search.by, "model order", *search.space.keys]]
    columns = [_column(search, number, done[:SHOWN]) for number in range(len(search.space.keys))]
    for place, values in zip(done[:SHOWN], zip(*columns, strict=True), strict=True):
        figures = search.trials[place].figures
        order = f"{figures['model_order']:.1f}" if "model_order" in figures else ""
        rows.append([f"{place + 1}", f"{figures[search.by]:.4g}", order, *values])
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(size) for cell, size in zip(row, wide, strict=True)) for row in rows]
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


def _column(search: Search, number: int, places: list[int]) -> list[str]:
    """Return a key's values in some trials, numbers of a range with as many digits as tell them apart."""
    labels = [search.labels[place][number] for place in places]
    key = search.space.keys[number]
    if key not in search.space.ranges:
        return labels
    numbers = [search.space.ranges[key].rounded(search.trials[place].proposal[key]) for place in places]
    return [label if label == NOT_APPLICABLE else texts for label, texts in zip(labels, short(numbers), strict=True)]
