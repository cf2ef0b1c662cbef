"""The learning curves of a page: x-axes, and panels of lines with bands."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.outcome import label
from kernelswarm.simulations.records.result import repeated
from kernelswarm.simulations.report.tables import finite, number, numbers, some

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison, Run
    from kernelswarm.simulations.records.result import Result, Table


OVER = {"round": "rounds", "samples": "samples a node", "bytes_sent": "bytes sent", "seconds": "seconds"}
"""The x-axes of curves: columns of the network's table, with their names."""

ROWS = 400
"""Maximum number of evaluations in a curve; from more, evenly spaced ones are taken."""

COLUMNS = ("risk", "error", "global_risk", "global_error", "disagreement", "model_order", "violation", "bytes_sent")
"""The quantities of a comparison, with one panel each."""

PANELS = (
    *(("risk", "global_risk"), ("error", "global_error"), ("coverage", "global_coverage"), ("width", "global_width")),
    *(("disagreement",), ("model_order",), ("violation",)),
)
"""The quantities of a run that share a panel."""

BYTES = ("bytes_sent",)

LOOKS = {"consensus": (0, 0), "isolated": (1, 1), "proximity": (2, 2), "batch": (3, 1), "centralized": (8, 2)}
"""Colour and dash of protocols, with the same colours as in figures."""

STRANGERS = (5, 4, 7)
"""The colours of other protocols, in alphabetical order."""

POOLED = 6
"""The colour of figures on pooled data, which no protocol uses."""

COLORS = 8
"""Number of colours, which are used in turn."""


def of_run(result: Result) -> dict[str, Any]:
    """Return the curves of a run: means over the nodes, with bands of the central 80% of the nodes.

    Returns
    -------
    dict
        ``over``, the x-axes; ``learning_curves``, the values of each x-axis at the evaluations; ``panels``, with lines
        that refer to these values by number.
    """
    network = result.network
    rows = some(len(network.get("round", ())), ROWS)
    panels = []
    ((color, _),) = _looks([str((result.config.get("protocol") or {}).get("name", ""))])
    twice = repeated([network])
    for columns in (*PANELS, BYTES):
        lines = []
        for place, column in enumerate(columns):
            if column in twice or column not in network or not finite(network[column]) or not np.any(network[column]):
                continue
            name = ("own data", "pooled data")[place] if len(columns) > 1 else "network"
            line = {
                "label": name,
                "course": 0,
                "color": POOLED if place else color,
                "dash": place,
                **_mean(network[column][rows]),
            }
            if column in result.nodes and columns != BYTES:  # the network's bytes are a sum, not a mean, over nodes
                spread = over_nodes(
                    result.nodes, column, np.asarray(network["round"])[rows], sorted(result.graph.nodes)
                )
                line |= _band(*_quantiles(spread))
            lines.append(line)
        if lines:
            title = (
                style.column_label(columns[0], result.config, result.facts)
                if columns != BYTES
                else "bytes sent (network)"
            )
            panels.append({"column": columns[0], "title": title, "lines": lines, "levels": _levels(result, columns[0])})
    learning_curve = {name: numbers(network[name][rows]) for name in OVER if name in network}
    left = _left(len(rows), len(network.get("round", ())))
    return _of([learning_curve], panels, f"line: mean of the nodes; band: the middle 80% of them{left}")


def of_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the curves of a comparison.

    Lines are means over the seeds, with one standard deviation on either side. There is one panel for each quantity;
    failed runs have separate curves.

    Returns
    -------
    dict
        In the form of :func:`of_run`.
    """
    every = range(len(comparison.keys))
    learning_curves: list[dict[str, list[Any]]] = []
    longest = max((len(run.network.get("round", ())) for run in comparison.runs), default=0)
    panels: dict[str, list[dict[str, Any]]] = {column: [] for column in COLUMNS if column not in comparison.repeated}
    looks = _looks([cell.protocol for cell in comparison.cells])
    for place, cell in enumerate(comparison.cells):
        name = label(comparison, cell.labels, every) or cell.protocol
        groups: list[tuple[str, list[Run]]] = [(name, [group[0] for group in comparison.distinct(place)])]
        failed = [run for run in comparison.runs if run.cell == place and run.failure]
        groups += [(f"{name}, seed {run.seed} (failed)", [run]) for run in failed]
        for called, runs in groups:
            measured = [run.network for run in runs if len(run.network.get("round", ()))]
            if not measured:
                continue
            count = min(len(table["round"]) for table in measured)
            rows = some(count, ROWS)
            learning_curves.append({over: numbers(np.mean(_gathered(measured, over, rows), axis=0)) for over in OVER})
            look = {
                "label": called,
                "course": len(learning_curves) - 1,
                "color": looks[place][0],
                "dash": looks[place][1],
            }
            for column, lines in panels.items():
                values = _gathered(measured, column, rows)
                if finite(values) and np.any(values):
                    lines.append({**look, "failed": bool(runs[0].failure), **_mean(np.mean(values, axis=0))})
                    if len(values) > 1:
                        lines[-1] |= _band(*_deviations(values))
    config = dict(comparison.cells[0].config)
    titles = {column: style.column_label(column, config, comparison.facts) for column in COLUMNS} | {
        "bytes_sent": "bytes sent (network)"
    }
    found = [
        {"column": column, "title": titles[column], "lines": lines, "levels": []}
        for column, lines in panels.items()
        if lines
    ]
    left = _left(min(longest, ROWS), longest)
    return _of(learning_curves, found, f"line: mean over seeds; band: one standard deviation on either side{left}")


def over_nodes(table: Table, column: str, rounds: AnyArray, nodes: Sequence[int]) -> Array:
    """Return a column of the nodes' table as a matrix (rounds, nodes), both ascending; NaN for missing rows."""
    found = np.full((len(rounds), len(nodes)), np.nan)
    if not found.size:
        return found
    row = np.minimum(np.searchsorted(rounds, table["round"]), len(rounds) - 1)
    place = np.searchsorted(nodes, table["node"])
    wanted = rounds[row] == table["round"]
    found[row[wanted], place[wanted]] = np.asarray(table[column], dtype=np.float64)[wanted]
    return found


def _looks(protocols: Sequence[str]) -> list[tuple[int, int]]:
    """Return colour and dash of each cell, by its protocol if all protocols differ, else by its place."""
    if len(set(protocols)) < len(protocols):
        return [(place % COLORS, place) for place in range(len(protocols))]
    strangers = sorted(set(protocols) - set(LOOKS))
    others = {name: (STRANGERS[k % len(STRANGERS)], k // len(STRANGERS)) for k, name in enumerate(strangers)}
    return [{**LOOKS, **others}[name] for name in protocols]


def _of(learning_curves: Sequence[Mapping[str, Any]], panels: Sequence[Mapping[str, Any]], band: str) -> dict[str, Any]:
    known = {name for learning_curve in learning_curves for name, values in learning_curve.items() if any(values)}
    return {
        "over": [{"name": name, "label": words} for name, words in OVER.items() if name in known],
        "courses": list(learning_curves),
        "panels": list(panels),
        "band": band,
    }


def _left(kept: int, count: int) -> str:
    """Return the end of a sentence with the number of drawn evaluations; empty if all are drawn."""
    return f"; {kept:,} of the {count:,} evaluations are drawn" if kept < count else ""


def _levels(result: Result, column: str) -> list[dict[str, Any]]:
    """Return the horizontal lines of a panel: the risk of the best constant and the lowest possible one."""
    constant, bayes = result.final.get("constant_risk"), (result.summary.get("facts") or {}).get("bayes_error")
    if column == "risk" and constant is not None:
        return [{"label": "best constant", "value": number(constant)}]
    if column == "error" and isinstance(bayes, int | float):
        return [{"label": "Bayes error", "value": number(bayes)}]
    return []


def _gathered(tables: Sequence[Table], column: str, rows: Integers) -> Array:
    """Return a column of several runs at the same rows, (runs, rows); NaN for runs without the column."""
    nothing = np.full(len(rows), np.nan)
    return np.array(
        [np.asarray(table[column], dtype=np.float64)[rows] if column in table else nothing for table in tables]
    )


def _mean(values: npt.ArrayLike) -> dict[str, Any]:
    return {"mean": numbers(values)}


def _band(low: Array, high: Array) -> dict[str, Any]:
    return {"low": numbers(low), "high": numbers(high)} if finite(low) else {}


def _quantiles(values: Array) -> tuple[Array, Array]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rounds without any number
        low, high = np.nanquantile(values, [0.1, 0.9], axis=1)
    return low, high


def _deviations(values: Array) -> tuple[Array, Array]:
    """Return mean - s and mean + s over the runs, clipped to the range of the runs, as in figures."""
    mean, deviation = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    return np.maximum(mean - deviation, values.min(axis=0)), np.minimum(mean + deviation, values.max(axis=0))
