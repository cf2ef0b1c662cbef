"""What the rows to learn from say of their columns: which words there are, when time begins, what stands for gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import CodedColumn, Coding, Missing
from kernelswarm.simulations.core.messages import shown

Array = npt.NDArray[np.float64]

TimesAs = Literal["days", "cycles"]
"""What times become: days, or hours, weekdays and seasons too."""


def learn(
    name: str, parts: Sequence[Array], columns: Sequence[CodedColumn], missing: Missing, times: TimesAs = "days"
) -> Coding:
    """Learn how columns become numbers.

    Parameters
    ----------
    name
        What messages call the data.
    parts
        The rows that are learned from, (n_i, columns) each, with nan for gaps.
    columns
        What the columns hold, with all of their words.
    missing
        What is done about gaps.
    times
        What times become.

    Raises
    ------
    ValueError
        No row has a value of a column.
    """
    found = []
    for place, column in enumerate(columns):
        values = np.concatenate([part[:, place] for part in parts])
        known = values[~np.isnan(values)]
        if not len(known):
            raise ValueError(
                f"{name}: column {shown(column.name)} has no value in any row that is learned from: leave it out "
                "with stream.drop"
            )
        found.append(_learned(column, values, known, missing, times))
    return Coding(tuple(found), missing)


def _learned(column: CodedColumn, values: Array, known: Array, missing: Missing, times: TimesAs) -> CodedColumn:
    if column.kind == "words":
        kept = np.unique(known).astype(np.intp)
        values = np.where(np.isnan(values), np.nan, np.searchsorted(kept, values))
        column = replace(column, words=tuple(column.words[place] for place in kept))
    if column.kind in ("time", "clock"):
        column = replace(column, cycles=times == "cycles")
    if column.kind == "time":
        column = replace(column, origin=float(known.min()))
    if missing in ("mean", "last"):
        from sklearn.impute import SimpleImputer

        average = "mean" if column.kind in ("number", "time", "clock", "duration") else "most_frequent"
        filling = SimpleImputer(strategy=average).fit(values[:, None])
        column = replace(column, fill=float(filling.statistics_[0]))
    return column
