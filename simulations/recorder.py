"""The three tables of a run, grown by one evaluation at a time."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Rule
from kernelswarm.simulations.measure import Report
from kernelswarm.simulations.network import Network
from kernelswarm.simulations.result import Columns

Array = npt.NDArray[np.float64]

WHOLE = {
    "nodes": {"round", "node", "samples", "model_order", "scalars_sent", "rebuilds"},
    "network": {"round", "messages", "scalars_sent", "bytes_sent"},
    "edges": {"round", "source", "target"},
}
"""Columns of whole numbers, by table."""

BYTES = 8
"""Bytes of a scalar: everything travels as float64."""


class Recorder:
    """Collects reports and turns them into the columns of ``nodes``, ``network`` and ``edges``.

    Parameters
    ----------
    network : Network
        The network that is measured.
    rule : Rule
        Its protocol.
    """

    def __init__(self, network: Network, rule: Rule) -> None:
        self._network = network
        self._rule = rule
        self._edges = sorted(network.graph.edges)
        self._tables: dict[str, list[dict[str, float]]] = {"nodes": [], "network": [], "edges": []}

    @property
    def last(self) -> dict[str, float] | None:
        """The last row of the network's table."""
        rows = self._tables["network"]
        return rows[-1] if rows else None

    def add(self, round: int, reports: Sequence[Report], seconds: float) -> None:
        """Record one evaluation after ``round`` rounds, ``seconds`` after the first began."""
        self._tables["nodes"] += [{"round": round, "node": report.node, **report.figures} for report in reports]
        constrained = []
        if self._rule.communicates:
            for report in reports:
                columns = zip(
                    report.neighbors, report.gaps, report.tolerances, report.duals, report.violation, strict=True
                )
                for target, gap, tolerance, dual, violation in columns:
                    constrained.append(violation)
                    self._tables["edges"].append(
                        {
                            "round": round,
                            "source": report.node,
                            "target": target,
                            "constraint": gap,
                            "tolerance": tolerance,
                            "dual": dual,
                            "violation": violation,
                        }
                    )
        means = {
            name: float(np.nanmean([report.figures[name] for report in reports]))
            if any(np.isfinite(report.figures[name]) for report in reports)
            else float("nan")
            for name in ("samples", "risk", "error", "global_risk", "global_error", "progressive_risk", "model_order")
        }
        scalars, messages = self._traffic(round, reports)
        self._tables["network"].append(
            {
                "round": round,
                **means,
                "disagreement": self._disagreement(reports),
                # SURVEY eq. 21 clips the sum over time of each edge, not its terms.
                "violation": float(np.sum(np.maximum(constrained, 0.0))) if constrained else float("nan"),
                "messages": messages,
                "scalars_sent": scalars,
                "bytes_sent": BYTES * scalars,
                "seconds": seconds,
            }
        )

    def restore(self, tables: Mapping[str, Columns]) -> None:
        """Take up what :meth:`tables` returned."""
        for name, columns in tables.items():
            values = [column.tolist() for column in columns.values()]
            self._tables[name] = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]

    def tables(self) -> dict[str, Columns]:
        """Return the tables as columns."""
        tables: dict[str, Columns] = {}
        for name, rows in self._tables.items():
            columns: Columns = {}
            for column in rows[0] if rows else ():
                kind = np.int64 if column in WHOLE[name] else np.float64
                columns[column] = np.array([row[column] for row in rows], dtype=kind)
            tables[name] = columns
        return tables

    def _disagreement(self, reports: Sequence[Report]) -> float:
        """Average ``||f_i(x) - f_j(x)||^2`` over the edges and the pooled held-out points."""
        if not self._edges:
            return 0.0
        values = {report.node: report.common for report in reports}
        gaps = [np.sum((values[i] - values[j]) ** 2) / max(len(values[i]), 1) for i, j in self._edges]
        return float(np.mean(gaps))

    def _traffic(self, round: int, reports: Sequence[Report]) -> tuple[float, float]:
        if self._rule.pooled:
            # Every sample travels to the one learner.
            width = self._network.source.inputs + self._network.source.targets
            return sum(report.figures["samples"] for report in reports) * width, round * float(len(reports))
        scalars = sum(report.figures["scalars_sent"] for report in reports)
        directed = 2.0 * len(self._edges) if self._rule.communicates else 0.0
        return scalars, round * directed
