"""The figures of nodes that learn a constant alone, and the risk beyond which a run has no result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.observing.constant import best_constant, risks_of
from kernelswarm.simulations.observing.training_rows import TrainingRows
from kernelswarm.simulations.round.measure import AT_ONCE, Report
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource


@dataclass(frozen=True)
class Baseline:
    """The figures of nodes that learn nothing, means over the nodes; NaN without held-out data.

    Attributes
    ----------
    constant : float
        The risk on the nodes' held-out data of the constant that is best on the rows that each learned from.
    zero : float
        The risk there of the function that learners begin with: 0, or 1 where all functions are positive.
    each : dict of int to float
        The risk of each node's constant.
    constant_learned, zero_learned : float
        The risks of the two on the rows that were learned from: they tell the scale of the data also where the few
        held-out rows happen to be met by a constant.
    """

    constant: float = math.nan
    zero: float = math.nan
    each: Mapping[int, float] = field(default_factory=dict)
    constant_learned: float = 0.0
    zero_learned: float = 0.0


def baseline(
    report: Report,
    sources: Mapping[int, tuple[int, NodeSource]],
    rows: TrainingRows,
    learners: Mapping[int, Learner],
    outputs: int,
) -> Baseline:
    """Compute the risk of the constant prediction of each node on the data that its risk was measured on.

        c_i = argmin_c mean_n l(c, y_n)  over the rows that node i learned from

    A constant fitted to the held-out rows themselves would know what nobody can: of a single one, the target.

    Parameters
    ----------
    report : Report
        Of the last evaluation.
    sources, learners : mappings
        The place and the data of each node that counts, and the learner of each.
    rows : TrainingRows
        What the nodes learned from.
    outputs : int
        C.
    """
    found: list[_Node] = []
    for label, samples in zip(report.nodes.tolist(), report.figures["samples"].astype(np.int64).tolist(), strict=True):
        if label not in sources:
            continue
        (place, source), learner = sources[label], learners[label]
        held_out = source.held_out(samples)
        if not len(held_out.targets):
            continue
        own = rows.of(place, samples)
        own = own if len(own.targets) else held_out
        loss = learner.loss
        constant = best_constant(loss, outputs, own if loss.task == "regression" else _with_every_class(own, outputs))
        if fulfils(learner, ValueLearner):
            constant = constant / (1.0 - learner.discount)  # the value of a chain with the same reward everywhere
        start = np.full(outputs, getattr(learner, "start", 0.0))
        found.append(_Node(label, loss, constant, start, held_out, own))
    if not found:
        return Baseline()
    kinds: tuple[list[float], ...] = [], [], [], []
    for _, together in groupby(enumerate(found), lambda each: (id(each[1].loss), each[0] // AT_ONCE)):
        some = [node for _, node in together]
        constants, zeros = [node.constant for node in some], [node.start for node in some]
        unseen, learned = [node.held_out for node in some], [node.own for node in some]
        pairs = (constants, unseen), (zeros, unseen), (constants, learned), (zeros, learned)
        for risks, pair in zip(kinds, pairs, strict=True):
            risks += risks_of(some[0].loss, *pair)
    means = [math.fsum(risks) / len(risks) for risks in kinds]
    each = dict(zip((node.label for node in found), kinds[0], strict=True))
    return Baseline(means[0], means[1], each, means[2], means[3])


class _Node(NamedTuple):
    """A node with held-out data."""

    label: int
    loss: Loss
    constant: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    held_out: HeldOut
    own: HeldOut  # what it learned from


def _with_every_class(rows: HeldOut, outputs: int) -> HeldOut:
    """Return targets with one more of each class: without it a class that did not occur would be held for impossible.

    It is Laplace's rule of succession.
    """
    classes = np.arange(max(outputs, 2), dtype=np.float64)[:, None]
    return HeldOut(rows.points, np.concatenate([rows.targets, classes]))
