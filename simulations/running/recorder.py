"""The reports of an evaluation as rows of the three tables of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.flooding import flooded_share
from kernelswarm.protocols.parameters.contract import AddressedRule, AnyRule
from kernelswarm.simulations.core.data_description import Labels
from kernelswarm.simulations.nodes.faulty import sound
from kernelswarm.simulations.records.measured_table import MeasuredTable
from kernelswarm.simulations.records.measurements import InMemory, Measurements
from kernelswarm.simulations.records.result import Columns
from kernelswarm.simulations.round.bands import BANDS
from kernelswarm.simulations.round.measure import BYTES, Report
from kernelswarm.simulations.running.network import Network
from kernelswarm.simulations.streams.flooded import FloodedSource
from kernelswarm.simulations.streams.travelling import TravellingSamples

Array = npt.NDArray[np.float64]

AT_ONCE = 2**16
"""Values of functions that are compared at a time: they stay in the processor's cache."""

WHOLE = {
    "nodes": {"round", "node", "samples", "model_order", "scalars_sent", "bytes_sent", "rebuilds"},
    "network": {"round", "learning", "messages", "scalars_sent", "bytes_sent", "delivered", "lost", "late", "waiting"},
    "edges": {"round", "source", "target", "sent", "delivered", "lost", "late"},
}
"""Columns of whole numbers, by table."""

MEANS = (
    *("samples", "risk", "error", "global_risk", "global_error", "progressive_risk", "model_order"),
    *BANDS,
)
"""Columns of nodes whose means are columns of the network's table."""


class Recorder:
    """Turns reports into the columns of ``nodes``, ``network`` and ``edges``.

    With faulty nodes, the network's measurements are those of the sound nodes and of the edges between them. The nodes'
    own rows, and the messages counted, are of all nodes.

    Parameters
    ----------
    network : Network
        The network.
    rule : AnyRule
        Its protocol.

    Attributes
    ----------
    measurements : Measurements
        The store of the rows; at first in memory.
    evaluations : int
        Rows of the network's table.
    last : dict of str to float or None
        The last row.
    report : Report or None
        The report behind it, without values at pooled points and columns of edges.
    """

    def __init__(self, network: Network, rule: AnyRule) -> None:
        self._network = network
        self._rule = rule
        self._edges = network.adjacency.labelled_edges
        labels = network.adjacency.labels
        self._sound = sound(network.experiment, labels.tolist())
        self._compared = np.searchsorted(labels, self._edges)
        if network.experiment.faults:
            self._compared = self._compared[self._sound[self._compared].all(axis=1)]
        self._names = network.source.description.nodes
        self.measurements: Measurements = InMemory()
        self._seen = np.zeros(len(labels))  # the samples of each node at the evaluation before
        self.evaluations = 0
        self.last: dict[str, float] | None = None
        self.report: Report | None = None

    def add(self, round: int, report: Report, seconds: float) -> None:
        """Record one evaluation after ``round`` rounds, ``seconds`` after the first began."""
        self.keep(self.rows(round, report, seconds))

    def rows(self, round: int, report: Report, seconds: float) -> dict[str, Columns]:
        """Return the rows of one evaluation after ``round`` rounds, ``seconds`` after the first began."""
        flooded = [plan.source for plan in self._network.plans if isinstance(plan.source, FloodedSource)]
        if flooded:
            sent = np.array([float(source.scalars_sent(round)) for source in flooded])
            report = replace(report, figures={**report.figures, "scalars_sent": sent, "bytes_sent": BYTES * sent})
        edges = _edge_columns(round, report) if self._rule.communicates else {}
        constrained = edges.get("violation", np.empty(0))
        figures = report.figures
        means = {name: self._mean(figures[name]) for name in MEANS if name in figures}
        traffic = self._traffic(round, report)
        learning = int(np.sum(figures["samples"] > self._seen))
        self._seen = figures["samples"]
        self.last = {
            "round": round,
            "learning": learning,
            **means,
            "disagreement": self._disagreement(report.common),
            # SURVEY eq. 21 clips the sum over time of each edge, not its terms.
            "violation": float(np.sum(np.maximum(constrained, 0.0))) if len(constrained) else float("nan"),
            **traffic,
            "seconds": seconds,
        }
        nodes: dict[str, Sequence[float] | Array | Labels] = {
            "round": np.full(len(report.nodes), round),
            "node": report.nodes,
            **({} if self._names is None else {"name": self._names}),
            **figures,
        }
        self.report = replace(report, edges={}, common=[])
        network = {name: [value] for name, value in self.last.items()}
        return {"nodes": _typed("nodes", nodes), "edges": edges, "network": _typed("network", network)}

    def _mean(self, figures: Array) -> float:
        """Return the mean of the sound nodes' figures; NaN where none has one."""
        if self._network.experiment.faults:
            figures = figures[self._sound]
        return float(np.nanmean(figures)) if np.isfinite(figures).any() else float("nan")

    def keep(self, rows: Mapping[str, Columns]) -> None:
        """Record the rows of the last evaluation, perhaps with columns of the user's own."""
        assert self.last is not None
        added = rows["network"].keys() - self.last.keys()
        self.last |= {name: column[0].item() for name, column in rows["network"].items() if name in added}
        self.evaluations += 1
        self.measurements.add(rows)

    def resume(self, measurements: Measurements) -> None:
        """Continue after the measurements of a run that is resumed."""
        self.measurements = measurements
        tables = measurements.tables()
        rows, nodes = tables["network"], tables["nodes"]
        self.evaluations = len(rows["round"]) if rows else 0
        self.last = {name: values[-1].item() for name, values in rows.items()} or None
        if self.last is not None:
            latest = nodes["round"] == self.last["round"]
            self._seen = np.asarray(nodes["samples"][latest], dtype=np.float64)

    def tables(self) -> dict[str, MeasuredTable]:
        return self.measurements.tables()

    def _disagreement(self, values: Sequence[Array]) -> float:
        """Average ``||f_i(x) - f_j(x)||^2`` over the edges, of all parts, and the pooled held-out points.

        0 for a single node; NaN for several without an edge.
        """
        if not len(self._compared):
            return 0.0 if len(values) == 1 else float("nan")
        count = max(len(values[0]), 1)
        together = max(1, AT_ONCE // max(values[0].size, 1))  # edges
        squares = []
        for start in range(0, len(self._compared), together):
            ends = self._compared[start : start + together].tolist()
            apart = np.array([values[i] for i, _ in ends]) - np.array([values[j] for _, j in ends])
            squares.append(np.sum((apart**2).reshape(len(ends), -1), axis=1) / count)
        return float(np.mean(np.concatenate(squares)))

    def _traffic(self, round: int, report: Report) -> dict[str, float]:
        travelling = self._network.plans[0].source
        if isinstance(travelling, TravellingSamples):
            found = travelling.traffic(round)
            return {
                "messages": found.messages,
                "scalars_sent": found.scalars,
                "bytes_sent": found.bytes,
                "delivered": found.delivered,
                "lost": found.lost,
                "late": found.late,
                "waiting": found.messages - found.delivered - found.lost - found.late,
            }
        if self._rule.pooled:
            # Every sample is sent to the one learner.
            width = self._network.source.inputs + self._network.source.targets
            scalars = sum(report.figures["samples"].tolist()) * width
            messages = round * float(len(report.nodes))
            return {"messages": messages, "scalars_sent": scalars, "bytes_sent": BYTES * scalars}
        sent = {name: sum(report.figures[name].tolist()) for name in ("scalars_sent", "bytes_sent")}
        if report.traffic is None:
            return {"messages": self._messages(round, sent["scalars_sent"]), **sent}
        messages, delivered, lost, late = report.traffic.sum(axis=0).tolist()
        arrived = {"delivered": delivered, "lost": lost, "late": late, "waiting": messages - delivered - lost - late}
        return {"messages": messages, **sent, **arrived}

    def _messages(self, round: int, scalars: float) -> float:
        """Count the messages of so many rounds on ideal links."""
        nodes = self._network.adjacency.number_of_nodes()
        if flooded_share(self._rule):  # one on each edge of a tree of each part
            return round * 2.0 * (nodes - len(self._network.adjacency.parts))
        plan = self._network.plans[0]
        if fulfils(self._rule, AddressedRule) and not plan.pooled:
            return scalars / plan.vector_length()
        return round * 2.0 * len(self._edges) if self._rule.communicates else 0.0


def _edge_columns(round: int, report: Report) -> Columns:
    sources, targets = np.repeat(report.nodes, report.degrees), report.edges["target"]
    if not len(sources):
        return {}
    columns: dict[str, npt.NDArray[Any]] = {"round": np.full(len(sources), round), "source": sources, **report.edges}
    if report.traffic is not None:
        # Deliveries at the target of a directed edge are counted at the target, at the opposite edge.
        back = np.lexsort((sources, targets))
        columns |= {"sent": report.traffic[:, 0]}
        columns |= {name: report.traffic[back, k] for k, name in enumerate(("delivered", "lost", "late"), 1)}
    return _typed("edges", columns)


def _typed(table: str, columns: Mapping[str, Sequence[float] | npt.NDArray[Any]]) -> Columns:
    return {
        name: np.asarray(values, dtype=None if name == "name" else np.int64 if name in WHOLE[table] else np.float64)
        for name, values in columns.items()
    }
