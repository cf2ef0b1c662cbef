"""Coverage of bands on held-out targets, by node and by region, with its uncertainty.

Regions are fifths of the held-out rows, sorted by the prediction or by one input; equal numbers fall into one region.
Coverage by regions of the inputs is called feature-stratified coverage (Angelopoulos and Bates 2023, section 3.1), and
the input with the farthest fifth is the worst slab (Cauchois, Gupta and Duchi 2021) along the axes. Intervals are exact
binomial intervals (Clopper and Pearson 1934) for the number of distinct rows: a row held by several nodes counts once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import number_of
from kernelswarm.simulations.core.node_names import node_names
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.measure import Report

BANDS_OFF = "bands_off"
"""The warning about bands that miss their level in a region or at a node, beyond chance."""

REGIONS = 5

UNSURE = 0.05
"""The probability that a run with correct bands has any part that counts as wrong."""

TOLERATED = 0.2
"""A part may miss the level by this share of ``1 - level``: with many rows, tiny deviations are significant."""

INPUTS = 50
"""With more inputs than this, regions are by the prediction alone: too many comparisons would detect nothing."""


class Rows(NamedTuple):
    """The concatenated held-out rows of all nodes.

    Attributes
    ----------
    node : Integers
        The place of each row's node, (N,).
    same : Integers
        The index of each row among the distinct rows, (N,).
    points, values : Array
        (N, p) and (N, C), in the data's units.
    inside : Array
        1 if a target lies in its band, else 0, (N, C).
    """

    node: Integers
    same: Integers
    points: Array
    values: Array
    inside: Array


def interval(inside: float, count: int, unsure: float) -> tuple[float, float]:
    """Return the ends of the exact binomial interval of a share, with the error probability ``unsure``.

    Examples
    --------
    >>> [round(end, 4) for end in interval(9.0, 10, 0.05)]
    [0.555, 0.9975]
    """
    outside = count - inside
    least = float(betaincinv(inside, outside + 1.0, 0.5 * unsure)) if inside > 0.0 else 0.0
    most = float(betaincinv(inside + 1.0, outside, 1.0 - 0.5 * unsure)) if outside > 0.0 else 1.0
    return least, most


def coverage(
    report: Report, held_out: Mapping[int, HeldOut], level: float, data: DataDescription
) -> list[dict[str, Any]]:
    """Return the coverage of all rows, of the node farthest from the level, and of regions.

    Parameters
    ----------
    report : Report
        The report of the last evaluation, with ``inside``.
    held_out : mapping
        The held-out data of each judged node.
    level : float
        The nominal share of targets inside the bands.
    data : DataDescription
        The names and units of the columns.

    Returns
    -------
    list of dict
        One entry per part: ``by`` names the family ("all rows", "node", a prediction or an input), ``from`` and ``to``
        delimit the part, ``rows`` is the number of distinct rows, ``coverage`` has the 95% interval from ``least`` to
        ``most``, and ``off`` tells whether the part misses the level beyond chance. For ``off``, parts are compared at
        the level `UNSURE` with a Bonferroni correction over the four families and over the parts of each family. Empty
        if there are no bands.
    """
    rows = _rows(report, held_out, data)
    if rows is None:
        return []
    families = 4 if 0 < rows.points.shape[1] <= INPUTS else 3
    unsure = UNSURE / families
    found = [_judged(rows, np.ones(len(rows.node), dtype=np.bool_), rows.inside, level, unsure) | {"by": "all rows"}]
    each = np.unique(rows.node)
    if len(each) > 1:
        own = node_names(report.nodes.tolist(), data.nodes)
        parts = [
            _judged(rows, rows.node == place, rows.inside, level, unsure / len(each))
            | {"by": "node", "from": own[int(report.nodes[place])], "of": len(each)}
            for place in each.tolist()
        ]
        off = sum(part["off"] for part in parts)
        found.append(_farthest(parts, level) | {"nodes_off": off})
    names = [data.targets.name(column, f"target {column + 1}") for column in range(rows.values.shape[1])]
    several = len(names) > 1
    predictions = [
        (f"prediction of {name}" if several else "prediction", rows.values[:, column], rows.inside[:, [column]])
        for column, name in enumerate(names)
    ]
    found += _regions(rows, predictions, level, unsure)
    if families == 4:
        columns = [
            (data.inputs.name(column, f"input {column + 1}"), rows.points[:, column], rows.inside)
            for column in range(rows.points.shape[1])
        ]
        found += _regions(rows, columns, level, unsure)
    return found


def finding(parts: Sequence[Mapping[str, Any]], level: float, remedy: str) -> dict[str, str]:
    """Return a warning, by ``BANDS_OFF``, if bands miss their level beyond chance in some part; else empty."""
    off = {str(part["by"]): _farthest([one for one in parts if one["by"] == part["by"]], level) for part in parts}
    off = {by: part for by, part in off.items() if part["off"]}
    if not off:
        return {}
    texts = []
    for part in off.values():
        where = f"{part['by']} {part['from']:.3g} to {part['to']:.3g}" if "to" in part else str(part["by"])
        if part["by"] == "node":
            where = f"{number_of(part['nodes_off'], 'node')} of {part['of']}, farthest node {part['from']}"
        texts.append(f"{part['coverage']:.3f} ({part['least']:.3f} to {part['most']:.3f}) at {where}")
    return {
        BANDS_OFF: f"bands of level {level:g} miss it beyond chance: they cover {'; '.join(texts)} (95% binomial "
        f"intervals): {remedy}"
    }


def _rows(report: Report, held_out: Mapping[int, HeldOut], data: DataDescription) -> Rows | None:
    """Return the rows of the nodes with bands and held-out data; None without such nodes."""
    taken = [
        (place, held_out[node], report.inside[place])
        for place, node in enumerate(report.nodes.tolist())
        if node in held_out and place < len(report.inside) and np.isfinite(report.inside[place][1]).all()
    ]
    taken = [(place, rows, found) for place, rows, found in taken if len(rows.points)]
    if not taken:
        return None
    keys = [
        hash((point.tobytes(), target.tobytes()))
        for _, rows, _ in taken
        for point, target in zip(rows.points, rows.targets, strict=True)
    ]
    points = np.concatenate([rows.points for _, rows, _ in taken])
    return Rows(
        np.repeat([place for place, _, _ in taken], [len(rows.points) for _, rows, _ in taken]),
        np.unique(keys, return_inverse=True)[1],
        data.inputs.raw(points),
        data.targets.raw(np.concatenate([found[0] for _, _, found in taken])),
        np.concatenate([found[1] for _, _, found in taken]),
    )


def _judged(rows: Rows, some: Booleans, inside: Array, level: float, unsure: float) -> dict[str, Any]:
    count, share = len(np.unique(rows.same[some])), float(inside[some].mean())
    least, most = interval(share * count, count, 0.05)
    lowest, highest = interval(share * count, count, unsure)
    tolerated = TOLERATED * (1.0 - level)
    off = highest < level - tolerated or lowest > level + tolerated
    return {"rows": count, "coverage": share, "least": least, "most": most, "off": off}


def _regions(
    rows: Rows, columns: Sequence[tuple[str, Array, Array]], level: float, unsure: float
) -> list[dict[str, Any]]:
    """Return the regions of the column with the region farthest from the level; empty if all columns are constant."""
    best: list[dict[str, Any]] = []
    for name, values, inside in columns:
        edges = np.unique(np.quantile(values, np.arange(1, REGIONS) / REGIONS, method="lower"))
        of = np.searchsorted(edges, values)
        parts = []
        for region in np.unique(of).tolist():
            some = of == region
            ends = {"by": name, "from": float(values[some].min()), "to": float(values[some].max())}
            parts.append(ends | _judged(rows, some, inside, level, unsure / (REGIONS * len(columns))))
        if len(parts) > 1 and (not best or _far(_farthest(parts, level), level) > _far(_farthest(best, level), level)):
            best = parts
    return best


def _farthest(parts: Sequence[Any], level: float) -> Any:
    return max(parts, key=lambda part: _far(part, level))


def _far(part: Mapping[str, Any], level: float) -> float:
    """Return the distance of a coverage from the level, in binomial standard deviations."""
    far: float = abs(part["coverage"] - level) * math.sqrt(part["rows"])
    return far
