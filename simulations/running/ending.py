"""The result of a simulation: its models, its tables and its summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.links.clocks import forgets
from kernelswarm.protocols.parameters.contract import AddressedRule, AnyRule
from kernelswarm.simulations.core.machine import versions
from kernelswarm.simulations.core.node_names import node_names
from kernelswarm.simulations.data.contract import HeldOut, NodeSource
from kernelswarm.simulations.data.pooled import FloodedSource, TravellingSamples
from kernelswarm.simulations.engine.measure import BYTES, NO_EDGES, Report
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions, digest, model_arrays
from kernelswarm.simulations.engine.nodes import places_without_data, sound, without_data
from kernelswarm.simulations.engine.scores import BANDS
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.measurements import InMemory, Measurements
from kernelswarm.simulations.records.result import Columns, MeasuredTable, Result
from kernelswarm.simulations.running import regions, verdict
from kernelswarm.simulations.running import unsuited as kernel_reach
from kernelswarm.simulations.running.baseline import Baseline, TrainingRows, advice, baseline
from kernelswarm.simulations.running.forecast import privacy_of
from kernelswarm.simulations.running.network import Network
from kernelswarm.simulations.running.unsuited import unsuited

# Reports of evaluations as rows of the three tables of a run.


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
"""Columns of the nodes' table; the network's table has their means."""


class Recorder:
    """Turns reports into the columns of ``nodes``, ``network`` and ``edges``.

    If some nodes are faulty, the network's row is measured over the sound nodes and the edges between them. The nodes'
    rows and the numbers of messages include all nodes.

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
        Number of rows of the network's table.
    last : dict of str to float or None
        The last row of the network's table.
    report : Report or None
        The report of that row, without columns of edges and without distances between neighbours.
    """

    def __init__(self, network: Network, rule: AnyRule) -> None:
        self._network = network
        self._rule = rule
        self._edges = network.adjacency.labelled_edges
        labels = network.adjacency.labels
        self._sound = sound(network.experiment, labels.tolist())
        self._compared = self._sound[np.searchsorted(labels, self._edges)].all(axis=1)
        self._names = network.source.description.nodes
        self.measurements: Measurements = InMemory()
        self._seen = np.zeros(len(labels))  # samples of each node at the previous evaluation
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
            "disagreement": self._disagreement(report.squares),
            # SURVEY eq. 21 clips the sum over time of each edge, not its terms.
            "violation": float(np.sum(np.maximum(constrained, 0.0))) if len(constrained) else float("nan"),
            **traffic,
            "seconds": seconds,
        }
        nodes: dict[str, Sequence[float] | Array | AnyArray] = {
            "round": np.full(len(report.nodes), round),
            "node": report.nodes,
            **({} if self._names is None else {"name": self._names}),
            **figures,
        }
        self.report = replace(report, edges={}, ends=NO_EDGES, squares=np.zeros(0))
        network = {name: [value] for name, value in self.last.items()}
        return {"nodes": _typed("nodes", nodes), "edges": edges, "network": _typed("network", network)}

    def _mean(self, figures: Array) -> float:
        """Return the mean of the sound nodes' figures; NaN if all are missing."""
        if self._network.experiment.faults:
            figures = figures[self._sound]
        return float(np.nanmean(figures)) if np.isfinite(figures).any() else float("nan")

    def keep(self, rows: Mapping[str, Columns]) -> None:
        """Record the rows of the last evaluation, which may have callbacks' columns."""
        assert self.last is not None
        added = rows["network"].keys() - self.last.keys()
        self.last |= {name: column[0].item() for name, column in rows["network"].items() if name in added}
        self.evaluations += 1
        self.measurements.add(rows)

    def resume(self, measurements: Measurements) -> None:
        """Continue after the measurements of a resumed run."""
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

    def _disagreement(self, squares: Array) -> float:
        """Average the mean squared distances of neighbours' functions, (E,), over the edges between sound nodes.

        0 for a single function; NaN for several functions without an edge.
        """
        if len(self._network.plans) == 1:
            return 0.0
        return float(np.mean(squares[self._compared])) if self._compared.any() else float("nan")

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
        """Count the messages of the first rounds on ideal links."""
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
    columns: dict[str, AnyArray] = {"round": np.full(len(sources), round), "source": sources, **report.edges}
    if report.traffic is not None:
        # The target of a directed edge counts its deliveries, in the row of the opposite edge.
        back = np.lexsort((sources, targets))
        columns |= {"sent": report.traffic[:, 0]}
        columns |= {name: report.traffic[back, k] for k, name in enumerate(("delivered", "lost", "late"), 1)}
    return _typed("edges", columns)


def _typed(table: str, columns: Mapping[str, Sequence[float] | AnyArray]) -> Columns:
    return {
        name: np.asarray(values, dtype=None if name == "name" else np.int64 if name in WHOLE[table] else np.float64)
        for name, values in columns.items()
    }


@dataclass(frozen=True)
class Ending:
    """The end of a simulation.

    Attributes
    ----------
    status : str
        "done", "stopped early" or "failed".
    reason, failure : str or None
        The cause of a failure, as a sentence and as a keyword.
    rounds : int
        Number of finished rounds.
    started : str
        Time of the start, in UTC.
    wall_seconds, compile_seconds : float
        Elapsed seconds, and the part spent on compilation.
    backend : mapping
        The backend's entry in the summary.
    recoveries : int
        Number of times that lost processes were replaced.
    """

    status: str
    reason: str | None
    failure: str | None
    rounds: int
    started: str
    wall_seconds: float
    compile_seconds: float
    backend: Mapping[str, object]
    recoveries: int


def baseline_of(network: Network, recorder: Recorder, rows: TrainingRows) -> Baseline:
    """Return the risks of constant predictions on the held-out data of the sound nodes at the last evaluation.

    The network's table leaves out faulty nodes, and so does the verdict.
    """
    if recorder.report is None:
        return Baseline()
    labels = network.adjacency.labels.tolist()
    learners = dict.fromkeys(labels, network.plans[0].learner)  # the one learner of a pooled network
    learners |= {plan.neighborhood.node: plan.learner for plan in network.plans}
    return baseline(recorder.report, _sound_sources(network), rows, learners, network.outputs)


def _sound_sources(network: Network) -> dict[int, tuple[int, NodeSource]]:
    """Return the place and the source of each node without faults, by its label."""
    labels = network.adjacency.labels.tolist()
    each = zip(labels, enumerate(network.source.nodes), sound(network.experiment, labels), strict=True)
    return {label: source for label, source, is_sound in each if is_sound}


def _held_out(network: Network, report: Report) -> dict[int, HeldOut]:
    """Return the held-out data of the sound nodes' bands, by label; empty without bands."""
    if not report.inside:
        return {}
    samples = dict(zip(report.nodes.tolist(), report.figures["samples"].tolist(), strict=True))
    return {label: source.held_out(int(samples[label])) for label, (_, source) in _sound_sources(network).items()}


def result_of(
    network: Network,
    recorder: Recorder,
    functions: LearnedFunctions,
    ending: Ending,
    base: Baseline,
    rows: TrainingRows,
) -> Result:
    """Return the result of a simulation; ``functions`` is empty if it failed."""
    experiment = network.experiment
    models = arrays_of(network, functions)
    final = dict(recorder.last or {})
    if final:
        final["constant_risk"] = base.constant
        final |= _own_error(network, final["error"])
    if functions and experiment.evaluation.rkhs_distance:
        final["rkhs_distance"] = _distance(network, functions)
    config = network.described().to_dict()
    parts = network.adjacency.parts
    offline = experiment.protocol.offline is not None
    findings: dict[str, str] = {}
    covered: list[dict[str, Any]] = []
    if ending.reason is None and recorder.report is not None:  # there was an evaluation
        findings, covered = _judged(network, recorder.report, base, rows, config)
    if ending.reason is None:
        findings |= verdict.apart(parts, experiment.protocol)
    spent = final.get("seconds", 0.0)
    summary: dict[str, Any] = {
        "status": ending.status,
        "reason": ending.reason,
        "failure": ending.failure,
        "protocol": config["protocol"]["name"],
        "form": experiment.protocol.form if experiment.protocol.communicates else None,
        "step": experiment.protocol.step,
        "topology": config["topology"]["name"],
        "stream": config["stream"]["name"],
        "nodes": network.adjacency.number_of_nodes(),
        "edges": network.adjacency.number_of_edges(),
        "parts": len(parts),
        "rounds": ending.rounds,
        "seed": experiment.seed,
        "automatic": network.automatic,
        "verdict": findings,
        "final": {name: value if math.isfinite(value) else None for name, value in final.items()},
        **({"coverage": covered} if covered else {}),
        "used_up": _used_up(network, ending.rounds),
        "facts": dict(network.source.facts),
        "privacy": _privacy(network),
        "wall_seconds": ending.wall_seconds,
        "compile_seconds": ending.compile_seconds,
        "node_rounds_per_second": ending.rounds * len(network.source.nodes) / spent if spent and not offline else None,
        "backend": dict(ending.backend),
        "recoveries": ending.recoveries,
        "versions": versions(),
        "digest": digest(models),
        "started": ending.started,
    }
    tables = recorder.tables()
    return Result(
        config,
        network.adjacency,
        tables["nodes"],
        tables["network"],
        tables["edges"],
        models,
        summary,
        network.source.description,
    )


def _band_remedy(network: Network, covered: Sequence[Mapping[str, Any]]) -> str:
    """Return the remedy for bands that miss their level."""
    plan = network.plans[0]
    if plan.banded:
        return (
            "conformal bands hold their level over all rows of a node, with one width for all inputs: where regions "
            'matter more, the squared loss and learner.name = "newton" with evaluation.bands = "auto" let it vary'
        )
    if not plan.varying and not plan.sends_vectors:
        return 'set evaluation.noise = "auto", with which the noise varies where errors show it'
    if any(part["by"] == "all rows" and part["off"] for part in covered):
        return 'evaluation.bands = "conformal" holds the level over all rows of a node, with one width for all inputs'
    return "more samples, or a smaller budget, tell how the noise varies; where a band matters, take its own coverage"


def _judged(
    network: Network, report: Report, base: Baseline, rows: TrainingRows, config: Mapping[str, Any]
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return the warnings about the last evaluation, and the coverage of bands by node and region."""
    experiment = network.experiment
    offline = experiment.protocol.offline is not None
    # A batch solver uses the learner's loss and kernel only.
    keys = {key: value for key, value in config["learner"].items() if not offline or key in ("loss", "kernel")}
    findings = verdict.findings(
        report,
        base,
        experiment.protocol,
        keys,
        lambda: _defence(experiment) or advice(network.source, rows, config["stream"], keys, offline),
        forgets(experiment.clock),
        str(network.source.facts.get("held_out", "")),
    )
    findings |= unsuited(network.plans, experiment.protocol, network.source, rows, report)
    names = node_names(network.adjacency.labels.tolist(), network.source.description.nodes)
    findings |= kernel_reach.finding(network.plans, names)
    places = network.adjacency.cut_off(places_without_data(experiment, network.adjacency))
    far = network.adjacency.labels[places].tolist()
    findings |= verdict.unreached(report, without_data(experiment), experiment.protocol, far)
    covered = regions.coverage(
        report, _held_out(network, report), experiment.evaluation.level, network.source.description
    )
    findings |= regions.finding(covered, experiment.evaluation.level, _band_remedy(network, covered))
    return findings, covered


def _defence(experiment: Experiment) -> str:
    """Return the remedy against faulty nodes if the protocol is not robust; else an empty text."""
    if not experiment.faults or getattr(experiment.protocol, "robust", "") != "none":
        return ""
    return 'some nodes are faulty, and their neighbours take what they send: try protocol.robust = "trust"'


def arrays_of(network: Network, functions: LearnedFunctions) -> dict[str, Any]:
    """Return the functions' arrays by their names in a result."""
    neighbors = {plan.neighborhood.node: plan.neighborhood.neighbors for plan in network.plans}
    return model_arrays(functions, neighbors)


def _own_error(network: Network, error: float) -> dict[str, float]:
    """Return the root mean square error in the target's unit, for regressions of the user's data with one target."""
    source = network.source
    if source.facts.get("task") != "regression" or source.targets != 1 or not math.isfinite(error):
        return {}
    return {"rmse": math.sqrt(error) * float(source.description.targets.scale[0])}


def _used_up(network: Network, rounds: int) -> dict[str, int] | None:
    """Return the rounds after which the data of the first and of the last node was used up; None if no data was."""
    ends = [end for end in network.ends if end]  # nodes without data are left out
    return None if not ends or min(ends) >= rounds else {"first": min(ends), "last": min(max(ends), rounds)}


def _privacy(network: Network) -> dict[str, Any] | None:
    """Return the privacy of a sample in the messages, with a text on its scope; None without noise."""
    links = network.experiment.links
    found = privacy_of(links, network.plans, network.source)
    if found is None:
        return None
    each = {"sample": found.sample, "answer": found.answer}
    epsilons = {name: None if spent is None else spent.epsilon(links.delta) for name, spent in each.items()}
    return {**epsilons, "delta": links.delta, "": found.text(links.delta)}


def _distance(network: Network, functions: LearnedFunctions) -> float:
    """Average ``||f_i - f_j||`` over the edges; NaN without edges or for functions of different spaces."""
    if len(functions) == 1:
        return 0.0
    learners = {plan.neighborhood.node: plan.learner for plan in network.plans}
    found = {node: learners[node].function_from(learned.arrays) for node, learned in functions.items()}
    edges = network.adjacency.labelled_edges.tolist()
    if not edges:
        return math.nan
    sums = {node: function for node, function in found.items() if type(function) is KernelSum}
    if len(sums) < len(found) or any(function.kernel != one.kernel for one, function in pairwise(sums.values())):
        return float(np.mean([found[i].distance(found[j]) for i, j in edges]))
    squares = {node: function.inner(function) for node, function in sums.items()}
    apart = [sums[i].apart(sums[j], squares[i], squares[j]) for i, j in edges]
    return float(np.mean(apart))
