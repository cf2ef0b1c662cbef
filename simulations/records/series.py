"""Columns of a result as arrays over time, with the mean and the band that a figure draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kernelswarm.simulations.records.result import Result, Table


AGAINST = {"samples": "samples", "rounds": "round", "scalars": "scalars_sent", "bytes": "bytes_sent"}
"""The abscissae of learning curves, with their columns in ``result.network``; numbers sent are of the whole network
since the first round."""


TWINS = {"error": "risk", "global_error": "global_risk"}
"""Errors, and the risks that they are once more in a regression with the squared loss on targets as observed."""


def repeated(tables: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the columns of ``TWINS`` that hold nothing but the numbers of their twin, in all tables that have them.

    Parameters
    ----------
    tables : iterable of dict of str to array or number
        Measurements of one or of several runs, a row for each evaluation, or last figures; None is not measured.
    """
    found: dict[str, bool] = {}
    for table in tables:
        for column, twin in TWINS.items():
            values, others = (np.asarray(table.get(name), dtype=np.float64) for name in (column, twin))
            if np.isfinite(values).any():
                same = np.allclose(values, others, rtol=1e-12, atol=0.0, equal_nan=True)
                found[column] = found.get(column, True) and same
    return frozenset(column for column, same in found.items() if same)


@dataclass(frozen=True)
class Series:
    """Several learning curves of one quantity over the same samples: one column per node, edge or seed."""

    samples: Array  # (T,) samples a node has seen, or what else of AGAINST
    values: Array  # (T, S)

    @property
    def mean(self) -> Array:
        """The mean over the courses, (T,)."""
        return np.asarray(np.mean(self.values, axis=1), dtype=np.float64)

    def quantiles(self, lower: float = 0.1, upper: float = 0.9) -> tuple[Array, Array]:
        """Return the two quantiles over the courses, (T,) each."""
        low, high = np.quantile(self.values, [lower, upper], axis=1)
        return low, high

    def deviations(self) -> tuple[Array, Array]:
        """Return mean - s and mean + s, with s the standard deviation over the courses (n - 1 in the denominator).

        Neither leaves the range of the curves, so a band on a logarithmic axis stays positive. A single curve has
        s = 0.
        """
        mean = self.mean
        if self.values.shape[1] < 2:
            return mean, mean
        deviation = np.std(self.values, axis=1, ddof=1)
        low = np.maximum(mean - deviation, self.values.min(axis=1))
        high = np.minimum(mean + deviation, self.values.max(axis=1))
        return np.minimum(low, mean), np.maximum(high, mean)  # rounding must not lift the band off the mean


def _table(columns: Table, column: str, keys: tuple[str, ...]) -> tuple[Array, Array] | None:
    """Arrange a long column as (rounds, one column per key); None where it is missing or has no number at all."""
    if column not in columns or len(columns["round"]) == 0:
        return None
    values = np.asarray(columns[column], dtype=np.float64)
    rounds, row = np.unique(np.asarray(columns["round"]), return_inverse=True)
    names = np.stack([np.asarray(columns[key]) for key in keys], axis=1)
    _, place = np.unique(names, axis=0, return_inverse=True)
    table = np.full((len(rounds), int(place.max()) + 1), np.nan)
    table[row, np.ravel(place)] = values
    table = table[:, np.isfinite(table).any(axis=0)]
    return (rounds.astype(np.float64), table) if table.size else None


def over_nodes(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.nodes``, one curve per node; None where the run did not measure it."""
    table = _table(result.nodes, column, ("node",))
    samples = _table(result.nodes, "samples", ("node",))
    if table is None or samples is None:
        return None
    if against != "samples":
        return _over(result, table, against)
    return _complete(Series(samples[1].mean(axis=1), table[1]))


def over_edges(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.edges``, one curve per directed edge; None where the protocol has no such thing."""
    table = _table(result.edges, column, ("source", "target"))
    return None if table is None else _over(result, table, against)


def over_network(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.network``, a single curve; None where the run did not measure it."""
    along = AGAINST[against]
    if column not in result.network or along not in result.network:
        return None
    values = np.asarray(result.network[column], dtype=np.float64)
    return _complete(Series(np.asarray(result.network[along], dtype=np.float64), values[:, None]))


def _over(result: Result, table: tuple[Array, Array], against: str) -> Series | None:
    """Return the courses of a table over what the network's row of each round says; None where it does not say it."""
    along = AGAINST[against]
    if along not in result.network:
        return None
    known = np.asarray(result.network["round"], dtype=np.float64)
    return _complete(Series(np.interp(table[0], known, np.asarray(result.network[along], dtype=np.float64)), table[1]))


def _complete(series: Series) -> Series | None:
    """Drop the rows with a value that is not finite; None when fewer than two rows stay: a point is no curve."""
    kept = np.isfinite(series.values).all(axis=1)
    return Series(series.samples[kept], series.values[kept]) if kept.sum() >= 2 else None


def rows_at(columns: Table, round: int) -> Table:
    """Return the rows of an evaluated round, in their order."""
    chosen = columns.get("round", np.empty(0)) == round
    return {name: values[chosen] for name, values in columns.items()}


def last_rows(columns: Table) -> Table:
    """Return the rows of the last evaluated round, in their order."""
    rounds = columns.get("round", np.empty(0))
    if not len(rounds):
        return columns
    return rows_at(columns, np.max(rounds))
