"""The result of a simulation that has ended: its models, its tables, and the summary of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.protocols.clocks.presence import forgets
from kernelswarm.simulations.machine.versions import versions
from kernelswarm.simulations.nodes.faulty import sound
from kernelswarm.simulations.nodes.without_data import places_without_data, without_data
from kernelswarm.simulations.observing import kernel_reach, verdict
from kernelswarm.simulations.observing.advice import advice
from kernelswarm.simulations.observing.baseline import Baseline, baseline
from kernelswarm.simulations.observing.training_rows import TrainingRows
from kernelswarm.simulations.observing.unsuited.together import unsuited
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.round.model_arrays import LearnedFunctions, digest, model_arrays
from kernelswarm.simulations.running.forecast import privacy_of
from kernelswarm.simulations.running.network import Network
from kernelswarm.simulations.running.recorder import Recorder


@dataclass(frozen=True)
class Ending:
    """The end of a simulation.

    Attributes
    ----------
    status : str
        "done", "stopped early" or "failed".
    reason, failure : str or None
        Why it failed, in a sentence and in a word.
    rounds : int
        The rounds that are done.
    started : str
        When it began, in UTC.
    wall_seconds, compile_seconds : float
        The time that it took, and the part of it for compilation.
    backend : mapping
        The backend's entry in the summary.
    recoveries : int
        How often lost processes were replaced.
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
    """Return the figures of nodes that learn nothing, on the data of the last evaluation; faulty nodes are left out.

    The tables show the sound nodes only, and a verdict is about what they show.
    """
    if recorder.report is None:
        return Baseline()
    labels = network.adjacency.labels.tolist()
    learners = dict.fromkeys(labels, network.plans[0].learner)  # the one learner of a pooled network
    learners |= {plan.neighborhood.node: plan.learner for plan in network.plans}
    each = zip(labels, enumerate(network.source.nodes), sound(network.experiment, labels), strict=True)
    sources = {label: source for label, source, is_sound in each if is_sound}
    return baseline(recorder.report, sources, rows, learners, network.outputs)


def result_of(
    network: Network,
    recorder: Recorder,
    functions: LearnedFunctions,
    ending: Ending,
    base: Baseline,
    rows: TrainingRows,
) -> Result:
    """Return a simulation's result; ``functions`` are empty where it failed, ``base`` is its baseline."""
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
    findings, report = {}, recorder.report
    if ending.reason is None and report is not None:  # there is a measurement
        # A batch solver takes the loss and the kernel, and no steps.
        keys = {key: value for key, value in config["learner"].items() if not offline or key in ("loss", "kernel")}
        findings = verdict.findings(
            report,
            base,
            experiment.protocol,
            keys,
            lambda: advice(network.source, rows, config["stream"], keys, offline),
            forgets(experiment.clock),
        )
        findings |= unsuited(network.plans, experiment.protocol, network.source, rows, report)
        findings |= kernel_reach.finding(network.plans)
        places = network.adjacency.cut_off(places_without_data(experiment, network.adjacency))
        far = network.adjacency.labels[places].tolist()
        findings |= verdict.unreached(report, without_data(experiment), experiment.protocol, far)
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
        "verdict": findings,
        "final": {name: value if math.isfinite(value) else None for name, value in final.items()},
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


def arrays_of(network: Network, functions: LearnedFunctions) -> dict[str, Any]:
    """Return the arrays of functions by the names that a result has for them."""
    neighbors = {plan.neighborhood.node: plan.neighborhood.neighbors for plan in network.plans}
    return model_arrays(functions, neighbors)


def _own_error(network: Network, error: float) -> dict[str, float]:
    """Return the root mean square error in the unit of the target, of a regression on own data with one target."""
    source = network.source
    if source.facts.get("task") != "regression" or source.targets != 1 or not math.isfinite(error):
        return {}
    return {"rmse": math.sqrt(error) * float(source.description.targets.scale[0])}


def _used_up(network: Network, rounds: int) -> dict[str, int] | None:
    """Return the rounds after which the first and the last node had no samples left; None if all have some."""
    ends = [end for end in network.ends if end]  # without those of nodes that have no data
    return None if not ends or min(ends) >= rounds else {"first": min(ends), "last": min(max(ends), rounds)}


def _privacy(network: Network) -> dict[str, Any] | None:
    """Return the privacy of a sample in the messages, and a text on what that covers; None without noise."""
    links = network.experiment.links
    found = privacy_of(links, network.plans, network.source)
    if found is None:
        return None
    each = {"sample": found.sample, "answer": found.answer}
    epsilons = {name: None if spent is None else spent.epsilon(links.delta) for name, spent in each.items()}
    return {**epsilons, "delta": links.delta, "": found.text(links.delta)}


def _distance(network: Network, functions: LearnedFunctions) -> float:
    """Average ``||f_i - f_j||`` over the edges; NaN without any, or where functions are of different spaces."""
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
