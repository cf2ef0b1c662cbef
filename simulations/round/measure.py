"""What is measured of one node: its risk and error on its own distribution and on the pooled one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.contract import CompressingLearner
from kernelswarm.agents.node.node import Node
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.protocols.ground.fulfilling import fulfils
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BYTES = 8
"""Bytes of a scalar that is sent as it is: float64."""


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
    gaps, violation, tolerances, duals : Array
        One entry for each directed edge: the mean constraint value since the last report, the running sum of
        ``h - gamma``, the tolerance gamma and the dual variable mu.
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
    gaps: Array
    violation: Array
    tolerances: Array
    duals: Array
    common: Array
    standing: Standing
    traffic: Integers | None = None


def mean_risk(loss: Loss, values: Array, held_out: HeldOut) -> float:
    """Compute the mean loss of ``values`` (n, C) on held-out data; NaN where there is none."""
    return float(loss.values(values, held_out.targets).mean()) if len(values) else float("nan")


def integral(loss: Loss, function: Function) -> float:
    """Compute the part of the risk that is no sample's: a loss's integral over its box; 0 for losses without one."""
    grid = grid_of(loss)
    return 0.0 if grid is None else grid.volume * float(np.sum(function.values(grid.points)))


def mean_error(loss: Loss, values: Array, held_out: HeldOut) -> float:
    """Compute the rate of wrong classes, or the mean squared distance to the targets, noise-free where known.

    NaN without data, and where the targets are events and their density is not known.
    """
    if not len(values) or (grid_of(loss) is not None and held_out.truth is None):
        return float("nan")
    decided = loss.decide(values)
    if loss.task == "regression":
        truth = held_out.targets if held_out.truth is None else held_out.truth
        return float(np.sum((decided - truth) ** 2) / len(values))
    return np.count_nonzero(decided[:, 0] != held_out.targets[:, 0]) / len(values)


def report(agent: Node, evaluated: tuple[tuple[int, NodeSource], ...], pooled: HeldOut) -> Iterable[Report]:
    """Measure an agent's function on the held-out data of each node it stands for, and on what is :func:`writeable`.

    Its sums stay as they are.
    """
    tally = agent.tally
    function = agent.function
    loss = agent.learner.loss
    common = function.values(pooled.points)
    area = integral(loss, function)
    record = agent.record()
    violation = np.where(np.isnan(record.tolerances), np.nan, tally.violation)
    heard = tally.gap_rounds > 0
    gaps = np.where(heard, tally.gaps / np.where(heard, tally.gap_rounds, 1), np.nan)
    shared = {
        "global_risk": mean_risk(loss, common, pooled) + area,
        "global_error": mean_error(loss, common, pooled),
        "progressive_risk": tally.loss / tally.samples if tally.samples else float("nan"),
        "model_order": float(function.order),
        "compression_error": tally.compression_error / tally.rounds if tally.rounds else 0.0,
        "scalars_sent": float(tally.scalars_sent),
        "bytes_sent": float(BYTES * tally.scalars_sent) if tally.traffic is None else tally.bytes_sent,
        "rebuilds": float(getattr(agent.state, "rebuilds", 0)),
    }
    standing = _standing(agent, function)
    samples = agent.samples // len(evaluated)
    for node, source in evaluated:
        held_out = writeable(source.held_out(samples))
        values = function.values(held_out.points)
        figures = {
            "samples": float(samples),
            "risk": mean_risk(loss, values, held_out) + area,
            "error": mean_error(loss, values, held_out),
            **shared,
        }
        edges = (gaps, violation, record.tolerances, record.duals)
        yield Report(node, agent.neighbors, figures, *edges, common, standing, tally.traffic)


def writeable(held_out: HeldOut) -> HeldOut:
    """Copy what is read-only: to the compiler it is another type than the samples of the rounds, and the kernel and the
    loss would be compiled a second time for it."""
    return HeldOut(np.array(held_out.points), np.array(held_out.targets), held_out.truth)


def _standing(agent: Node, function: Function) -> Standing:
    learner = agent.learner
    return Standing(
        unchanged=not function.weights.any(),
        compression_budget=(
            float(learner.compression_budget(agent.state)) if fulfils(learner, CompressingLearner) else None
        ),
        remedy=agent.remedy(),
    )
