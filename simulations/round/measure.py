"""What is measured of nodes: their risks and errors on their own distributions and on the pooled one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Featured
from kernelswarm.agents.learners.contract import CompressingLearner
from kernelswarm.agents.node.node import Node
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.round.bands import band_figures, posterior_of, progressive
from kernelswarm.simulations.round.scores import scores
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BYTES = 8
"""Bytes of a scalar that is sent as it is: float64."""

NONE, NOWHERE = np.empty(0), np.empty((0, 0))

AT_ONCE = 64
"""Nodes that are measured together: what they are measured on stays near the processor."""

Evaluated = tuple[tuple[int, NodeSource], ...]
"""The nodes, with their streams, on whose held-out data a function is measured."""


@dataclass(frozen=True)
class Standing:
    """What is to be known of a node's learner to judge its figures.

    Attributes
    ----------
    unchanged : bool
        Whether the function is the one that it started from: a combination of nothing, or with weights that are all 0.
    compression_budget : float or None
        The Hilbert norm that compression of the step to come may lose; None for learners that do not compress.
    remedy : str
        The keys to lower where the function grows without bound.
    """

    unchanged: bool
    compression_budget: float | None
    remedy: str


@dataclass(frozen=True)
class Report:
    """One node at one evaluation.

    Attributes
    ----------
    node : int
        The node's label.
    neighbors : tuple of int
        The targets of its directed edges; empty where the protocol sends nothing.
    figures : dict of str to float
        The columns of ``nodes.parquet`` beside the round and the node.
    constraint_values, violation, tolerances, duals : Array
        One entry for each directed edge: the mean constraint value since the last report, the running sum of
        ``h - gamma``, the tolerance gamma and the dual variable mu.
    weights : Array or None
        How much each neighbour counts, (deg,), with a defence that may leave some out.
    common : Array
        The function's values at the pooled points, (n, C).
    standing : Standing
        What is to be known of the learner.
    traffic : Integers or None
        Where links are not ideal, what became of messages in the whole run: those that were sent to each neighbour,
        and those from it that were delivered, lost, and dropped as too old, (deg, 4).
    """

    node: int
    neighbors: tuple[int, ...]
    figures: dict[str, float]
    constraint_values: Array
    violation: Array
    tolerances: Array
    duals: Array
    common: Array
    standing: Standing
    traffic: Integers | None = None
    weights: Array | None = None

    def told(self) -> "Report":
        """Return it without what a report need not hold once it is in the tables."""
        return Report(
            self.node, self.neighbors, self.figures, NONE, NONE, NONE, NONE, NOWHERE, self.standing, self.traffic
        )


def reports(agents: Sequence[Node], evaluated: Sequence[Evaluated], pooled: HeldOut) -> list[Report]:
    """Measure each agent's function on the held-out data of each node it stands for, and on pooled data.

    The agents have one protocol. Their sums stay as they are.
    """
    pooled = writeable(pooled)
    common = _at_common_points(agents, pooled.points)
    found: list[Report] = []
    for start in range(0, len(agents), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        found += _reports(agents[some], evaluated[some], pooled, common[some])
    return found


def _reports(
    agents: Sequence[Node], evaluated: Sequence[Evaluated], pooled: HeldOut, common: Sequence[Array]
) -> list[Report]:
    """Measure some agents, whose values at the pooled points are there."""
    areas = [_integral(agent) for agent in agents]
    on_pooled = scores(agents, common, [pooled] * len(agents))
    edges = _edges(agents)
    standings = _standings(agents)
    each = [agent for agent, nodes in zip(agents, evaluated, strict=True) for _ in nodes]
    held_out = [
        writeable(source.held_out(agent.samples // len(nodes)))
        for agent, nodes in zip(agents, evaluated, strict=True)
        for _, source in nodes
    ]
    values = _values(each, held_out)
    own = iter(zip(scores(each, values, held_out), values, held_out, strict=True))
    found: list[Report] = []
    for agent, nodes, area, (risk, error), edge, standing, at_pooled in zip(
        agents, evaluated, areas, on_pooled, edges, standings, common, strict=True
    ):
        shared = {"global_risk": risk + area, "global_error": error, **_sums(agent)}
        samples, posterior = float(agent.samples // len(nodes)), posterior_of(agent)
        shared |= band_figures(agent, posterior, at_pooled, pooled, "global_") | progressive(agent)
        for node, _ in nodes:
            (risk, error), at_own, data = next(own)
            figures = {"samples": samples, "risk": risk + area, "error": error, **shared}
            figures |= band_figures(agent, posterior, at_own, data)
            found.append(
                Report(
                    node,
                    agent.neighbors,
                    figures,
                    edge.constraint_values,
                    edge.violation,
                    edge.tolerances,
                    edge.duals,
                    at_pooled,
                    standing,
                    agent.tally.traffic,
                    edge.weights,
                )
            )
    return found


def _at_common_points(agents: Sequence[Node], points: Array) -> list[Array]:
    """Evaluate all functions at the same points (n, p), each (n, C): features that they share are computed once."""
    found: list[Array] = []
    features, known = points, None
    for agent in agents:
        function = agent.function
        if not fulfils(function, Featured):
            found.append(function.values(points))
            continue
        if known is None or not function.shares_features(known):
            features, known = function.features(points), function
        found.append(function.combined(features))
    return found


def _values(agents: Sequence[Node], held_out: Sequence[HeldOut]) -> list[Array]:
    """Evaluate each agent's function on held-out data."""
    found: list[Array] = []
    for agent, data in zip(agents, held_out, strict=True):
        found.append(agent.function.values(data.points))
    return found


def _integral(agent: Node) -> float:
    """Compute the part of the risk that is no sample's: a loss's integral over its box; 0 for losses without one."""
    grid = grid_of(agent.learner.loss)
    return 0.0 if grid is None else grid.volume * float(np.sum(agent.function.values(grid.points)))


class _Edges(NamedTuple):
    """What a report says of a node's directed edges."""

    constraint_values: Array
    violation: Array
    tolerances: Array
    duals: Array
    weights: Array | None


def _edges(agents: Sequence[Node]) -> list[_Edges]:
    tallies, records = [agent.tally for agent in agents], [agent.record() for agent in agents]
    tolerances = np.concatenate([record.tolerances for record in records])
    rounds = np.concatenate([tally.constraint_rounds for tally in tallies])
    violation = np.where(np.isnan(tolerances), np.nan, np.concatenate([tally.violation for tally in tallies]))
    constraint_values = np.concatenate([tally.constraint_values for tally in tallies])
    constraint_values = np.where(rounds > 0, constraint_values / np.where(rounds > 0, rounds, 1), np.nan)
    ends = np.cumsum([0, *(len(agent.neighbors) for agent in agents)]).tolist()
    return [
        _Edges(constraint_values[first:last], violation[first:last], record.tolerances, record.duals, record.weights)
        for record, first, last in zip(records, ends, ends[1:], strict=False)
    ]


def _sums(agent: Node) -> dict[str, float]:
    tally = agent.tally
    return {
        "progressive_risk": tally.loss / tally.samples if tally.samples else float("nan"),
        "model_order": float(agent.function.order),
        "compression_error": tally.compression_error / tally.rounds if tally.rounds else 0.0,
        "scalars_sent": float(tally.scalars_sent),
        "bytes_sent": float(BYTES * tally.scalars_sent) if tally.traffic is None else tally.bytes_sent,
        "rebuilds": float(getattr(agent.state, "rebuilds", 0)),
    }


def writeable(held_out: HeldOut) -> HeldOut:
    """Copy what is read-only: to the compiler it is another type than the samples of the rounds, and the kernel and the
    loss would be compiled a second time for it."""
    return HeldOut(np.array(held_out.points), np.array(held_out.targets), held_out.truth)


def _standings(agents: Sequence[Node]) -> list[Standing]:
    remedies: dict[tuple[object, ...], str] = {}  # most nodes have the same one
    found: list[Standing] = []
    for agent in agents:
        learner, state = agent.learner, agent.state
        key = type(agent), id(learner), learner.eta(state), bool(agent.neighbors)
        if key not in remedies:
            remedies[key] = agent.remedy()
        budget = float(learner.compression_budget(state)) if fulfils(learner, CompressingLearner) else None
        found.append(Standing(not agent.function.weights.any(), budget, remedies[key]))
    return found
