"""The tables of a page: heading, cells and formatted text of each column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Integers
from kernelswarm.simulations.comparison.table_notes import (
    HEADINGS,
    MARKS,
    pair,
    row_name,
    tuned_columns,
)
from kernelswarm.simulations.comparison.tables import bold, figure_columns
from kernelswarm.simulations.records.outcome import METRICS
from kernelswarm.simulations.records.result import TWINS, last_rows, repeated

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result, Table

# Numbers for a page: few digits, few rows, and null for missing values.

EXACT = 17
"""Significant digits that identify a float64."""

TABLE = 6
"""Significant digits in the rows of tables and in curves of the whole network."""

MANY = 4
"""Significant digits in large tables."""

COLOR = 3
"""Significant digits of numbers shown only as a colour or as a point of a small plot."""


def number(value: Any, digits: int = EXACT) -> float | int | str | None:
    """Round a number to significant digits, to an int if whole; None if not finite. Text is unchanged.

    Examples
    --------
    >>> number(0.123456, 3), number(16.0), number(float("nan")), number("north")
    (0.123, 16, None, 'north')
    """
    if isinstance(value, str):
        return value
    value = float(value)
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def numbers(values: npt.ArrayLike, digits: int = TABLE) -> list[Any]:
    """Return an array of any shape as nested lists of :func:`number`."""
    found = np.asarray(values)
    if found.ndim > 1:
        return [numbers(row, digits) for row in found]
    return [number(value, digits) for value in found.tolist()]


def some(count: int, most: int) -> Integers:
    """Return all places below ``count``, or ``most`` evenly spaced ones with the first and the last.

    Examples
    --------
    >>> some(3, 5), some(9, 3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, max(most, 2)).round().astype(np.int64))


def finite(values: Sequence[Any] | AnyArray) -> bool:
    """Tell whether any value is a finite number."""
    return bool(np.isfinite(np.asarray(values, dtype=np.float64)).any())


Column = dict[str, Any]
"""``label``; ``cells``, by which the column is sorted; ``shown``, where it is not the cell itself; and ``mixed``, where
the numbers are of different quantities."""

ROWS = 4_000
"""Maximum number of rows of a table; from more, evenly spaced ones are taken."""

APART = ("round",)

WINDOWS = {"progressive_risk": " (since the evaluation before)"}
"""The time spans of final figures that are neither the whole run nor its end."""


def of_run(result: Result) -> list[dict[str, Any]]:
    """Return the final figures of a run, its nodes and its edges after the last round."""
    final = {name: value for name, value in result.final.items() if name != "round"}
    facts = {
        name: value for name, value in (result.summary.get("facts") or {}).items() if isinstance(value, int | float)
    }
    order = [*METRICS, *facts, *final]  # the usual figures first
    twice = repeated([final])
    known = {name: value for name, value in {**final, **facts}.items() if value is not None and name not in twice}
    known = {name: known[name] for name in dict.fromkeys(order) if name in known}
    figures = {
        "name": "final",
        "title": "Final figures",
        "columns": [
            {"label": "figure", "cells": [_heading(name) + WINDOWS.get(name, "") for name in known]},
            {"label": "value", "cells": [number(value) for value in known.values()], "mixed": True},
        ],
        "note": "; ".join(f"{_heading(name)} is {_heading(TWINS[name])}" for name in TWINS if name in twice),
    }
    covered = _coverage(result.summary.get("coverage") or [])
    nodes, edges = _last("nodes", "Nodes after the last round", result.nodes), None
    if len(result.edges.get("round", ())):
        edges = _last("edges", "Directed edges after the last round", _named(result))
    return [table for table in (figures, covered, nodes, edges) if table is not None and table["columns"]]


def of_comparison(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the tables of a comparison: rows over their seeds, runs, and paired differences."""
    return [
        table for table in (_rows(comparison), _pairs(comparison), _runs(comparison)) if table["columns"][0]["cells"]
    ]


def _heading(name: str) -> str:
    """Return the heading of a column, the same as in printed tables if they have the column."""
    return HEADINGS.get(name, name.replace("global", "pooled").replace("_", " "))


def _coverage(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table of the coverage of bands by node and region; without columns if there are no bands."""
    columns: list[Column] = [
        {"label": "held-out rows", "cells": [_part(part) for part in parts]},
        {"label": "number", "cells": [part["rows"] for part in parts]},
        {"label": "coverage", "cells": [number(part["coverage"], TABLE) for part in parts]},
        {"label": "at least", "cells": [number(part["least"], TABLE) for part in parts]},
        {"label": "at most", "cells": [number(part["most"], TABLE) for part in parts]},
        {"label": "beyond chance", "cells": ["yes" if part["off"] else "no" for part in parts]},
    ]
    return {
        "name": "coverage",
        "title": "Coverage of the bands by node and by region",
        "columns": columns if parts else [],
        "note": "fifths by the prediction, and by the input whose fifths differ most from the level; 95% binomial "
        "intervals of rows that differ; beyond chance: with all parts that were looked at, and a fifth of the misses",
    }


def _part(part: Mapping[str, Any]) -> str:
    if part["by"] == "node":
        return f"node {part['from']}, the farthest of {part['of']}"
    return f"{part['by']} {part['from']:.4g} to {part['to']:.4g}" if "to" in part else str(part["by"])


def _named(result: Result) -> Table:
    """Return the last rows of the edges' table, with nodes' names in place of labels if there are any."""
    if result.data.nodes is None:
        return result.edges
    rows, names = last_rows(result.edges), result.node_names
    return {**rows, **{end: np.array([names[node] for node in rows[end].tolist()]) for end in ("source", "target")}}


def _last(name: str, title: str, table: Table) -> dict[str, Any]:
    rows = last_rows(table)
    twice = repeated([rows])
    kept = some(len(rows.get("round", ())), ROWS)
    columns: list[Column] = [
        {
            "label": _heading(column),
            "cells": [number(value, TABLE) for value in np.asarray(values)[kept].tolist()],
        }
        for column, values in rows.items()
        if column not in (*APART, *twice) and (values.dtype.kind in "US" or finite(values))
    ]
    count = len(rows.get("round", ()))
    return {
        "name": name,
        "title": title,
        "columns": columns,
        "note": f"{len(kept):,} of the {count:,} rows, evenly spaced" if len(kept) < count else "",
    }


def _rows(comparison: Comparison) -> dict[str, Any]:
    rows = comparison.rows()
    columns = _labels(comparison, range(len(rows)))
    columns += [{"label": heading, "cells": values} for heading, *values in tuned_columns(comparison)]
    for column in figure_columns(comparison, rows):
        shown = [
            " ".join([pair(one.mean, one.deviation, column.plain), *(MARKS[kind] for kind in one.marks)])
            for one in column.figures
        ]
        columns.append(
            {
                "label": column.heading,
                "cells": [number(one.mean) for one in column.figures],
                "shown": shown,
                "best": [place for place, one in enumerate(column.figures) if one.best],
            }
        )
    columns.append({"label": "runs", "cells": [row.done for row in rows]})
    if any(row.failed for row in rows):
        columns.append({"label": "failed", "cells": [row.failed for row in rows]})
    return {
        "name": "rows",
        "title": "Final figures: mean ± standard deviation over seeds",
        "columns": columns,
        "note": " ".join(bold(comparison)),
    }


def _runs(comparison: Comparison) -> dict[str, Any]:
    runs = comparison.runs
    columns = _labels(comparison, [run.cell for run in runs])
    columns.append({"label": "seed", "cells": [run.seed for run in runs]})
    for name in (name for name in METRICS if name not in comparison.repeated):
        values = [run.final.get(name, math.nan) for run in runs]
        if finite(values):
            columns.append({"label": _heading(name), "cells": [number(value) for value in values]})
    folders = [
        run.folder.relative_to(comparison.folder).as_posix() if run.folder and comparison.folder else "" for run in runs
    ]
    columns.append({"label": "folder", "cells": folders})
    for heading, texts in (
        ("verdict", ["; ".join(run.verdict.values()) for run in runs]),
        ("failed", [run.failure for run in runs]),
    ):
        if any(texts):
            columns.append({"label": heading, "cells": texts})
    return {"name": "runs", "title": "Runs", "columns": columns, "note": ""}


def _pairs(comparison: Comparison) -> dict[str, Any]:
    found = [one for one in comparison.differences() if one.figure not in comparison.repeated]
    kept = [found[place] for place in some(len(found), ROWS)] if found else []
    outer = [comparison.keys[place].removesuffix(".name") for place in comparison.outer]
    circumstances = [comparison.circumstances(one.better) for one in kept]
    columns: list[Column] = [
        {"label": "figure", "cells": [HEADINGS[one.figure] for one in kept]},
        *({"label": key, "cells": [labels[place] for labels in circumstances]} for place, key in enumerate(outer)),
        {"label": "lower", "cells": [row_name(comparison, one.better) for one in kept]},
        {"label": "higher", "cells": [row_name(comparison, one.worse) for one in kept]},
        {
            "label": "by",
            "cells": [number(one.mean) for one in kept],
            "shown": [pair(one.mean, one.deviation, plain=True) for one in kept],
        },
        {
            "label": "in seeds",
            "cells": [one.wins for one in kept],
            "shown": [f"{one.wins} of {one.seeds}" for one in kept],
        },
        {"label": "p", "cells": [number(one.chance) for one in kept]},
        {"label": "supported", "cells": ["yes" if one.supported else "no" for one in kept]},
    ]
    note = f"{len(kept):,} of the {len(found):,} pairs, evenly spaced" if len(kept) < len(found) else ""
    return {"name": "pairs", "title": "Pairs of rows, seed by seed", "columns": columns, "note": note}


def _labels(comparison: Comparison, places: Sequence[int]) -> list[Column]:
    """Return one column for each varied key, for the cells at ``places``; without varied keys, a placeholder."""
    if not comparison.keys:
        return [{"label": "experiment", "cells": ["as given"] * len(places)}]
    columns = []
    for key_place, key in enumerate(comparison.keys):
        shown = [comparison.cells[place].labels[key_place] for place in places]
        column: Column = {"label": key.removesuffix(".name"), "cells": shown}
        if key in comparison.drawn:  # sorted by number
            values = [comparison.cells[place].drawn.get(key, math.nan) for place in places]
            column |= {"cells": [number(value) for value in values], "shown": shown}
        columns.append(column)
    return columns
