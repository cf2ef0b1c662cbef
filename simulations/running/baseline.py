"""The figures of nodes that learn a constant alone, and the risk beyond which a run has no result."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.plain_parts import loss_values
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.errors import number_of
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source
from kernelswarm.simulations.data.pooled import members
from kernelswarm.simulations.engine.measure import AT_ONCE, Report
from kernelswarm.simulations.engine.scores import by_sample
from kernelswarm.simulations.records.result import amount

# The risk of the best constant prediction: what whoever has learned anything should be better than.


def risks_of(loss: Loss, constants: Sequence[Array], held_out: Sequence[HeldOut]) -> list[float]:
    """Compute the risk of predicting a constant (C,) at every point, of each constant on its own data; NaN without
    data.

    Where the loss allows it, constants that have as much data are computed together.
    """
    found: list[float] = []
    together = by_sample(loss)
    for (size, *_), places in groupby(range(len(constants)), lambda k: (len(held_out[k].targets), together or k)):
        some = list(places)
        found += _risks(loss, [constants[k] for k in some], [held_out[k] for k in some], size)
    return found


def _risks(loss: Loss, constants: Sequence[Array], held_out: Sequence[HeldOut], size: int) -> list[float]:
    if not size:
        return [float("nan")] * len(constants)
    grid = grid_of(loss)
    areas = [0.0 if grid is None else grid.volume * len(grid.points) * float(each.sum()) for each in constants]
    # Read-only targets, as streams hand them out, would have the loss compiled a second time.
    losses = loss_values(
        loss, np.repeat(np.stack(constants), size, axis=0), np.concatenate([data.targets for data in held_out])
    )
    means = losses.reshape(len(constants), size).mean(axis=1).tolist()
    return [mean + area for mean, area in zip(means, areas, strict=True)]


def risk_of(loss: Loss, constant: Array, held_out: HeldOut) -> float:
    """Compute the risk of predicting ``constant`` (C,) at every point; NaN without data."""
    return risks_of(loss, [constant], [held_out])[0]


def best_constant(loss: Loss, outputs: int, rows: HeldOut) -> Array:
    """Return the constant prediction (C,) of least risk.

    It is ``argmin_c mean_n l(c, y_n)`` over the targets of some rows: by the loss's own closed form, such as the mean
    for the squared loss and the log frequencies for the logistic ones, or else by a search that uses values only, so
    that kinks do no harm.

    Parameters
    ----------
    loss : Loss
        The loss, convex in its prediction.
    outputs : int
        C, the values of a prediction.
    rows : HeldOut
        At least one sample.
    """
    closed = getattr(loss, "constant", None)
    if closed is not None:
        return np.asarray(closed(rows.targets, outputs), dtype=np.float64)
    from scipy.optimize import minimize

    start = np.zeros(outputs)
    if loss.task == "regression" and rows.targets.shape[1] == outputs:
        start = np.median(rows.targets, axis=0)

    def risk(constant: Array) -> float:
        return risk_of(loss, constant, rows)

    found = minimize(risk, start, method="Powell", options={"xtol": 1e-8, "ftol": 1e-12})
    return np.atleast_1d(np.asarray(found.x, dtype=np.float64))


# The samples that nodes learned from, drawn again when a run has ended.

LATEST = 256
"""Samples that stand for a node's endless data: the latest, of data that may drift."""


class TrainingRows:
    """The samples that the nodes of a network learned from, drawn again from their sources.

    Parameters
    ----------
    source : Source
        The opened stream, from which no node has drawn yet.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        # Most sources count their samples; a million states of these would be kept for nothing.
        self._starts: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, NodeSource] = {}
        for place, node in enumerate(source.nodes):
            if not (hasattr(node, "state") and hasattr(node, "restore")):
                self._copies[place] = copy.deepcopy(node)  # of the user's own, without checkpoints
            elif not _counts(state := node.state()) or state["samples"]:
                self._starts[place] = state

    def of(self, place: int, samples: int) -> HeldOut:
        """Return the different rows among the first ``samples`` of the node at a place, or what stands for them.

        Of finite data these are its rows, those of later epochs left out, and all of them for a node that has learned
        from none; of endless data the last ``LATEST``, or the first of a node that has had fewer. The source stands
        afterwards where it stood before.
        """
        node = self._source.nodes[place]
        count, start = LATEST, self._starts.get(place, {"samples": max(0, samples - LATEST)})
        if self._source.lengths is not None:
            distinct = self._source.lengths[place] // self._source.epochs
            count, start = min(samples, distinct) or distinct, self._starts.get(place, {"samples": 0})
        if place in self._copies:
            points, targets = copy.deepcopy(self._copies[place]).draw(count)
        else:
            present = node.state()
            node.restore(start)
            points, targets = node.draw(count)
            node.restore(present)
        return HeldOut(points, targets)


def _counts(state: dict[str, Any]) -> bool:
    """Whether a state is nothing but the number of samples that were drawn."""
    return list(state) == ["samples"] and type(state["samples"]) is int


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
    constant: Array
    start: Array
    held_out: HeldOut
    own: HeldOut  # what it learned from


def _with_every_class(rows: HeldOut, outputs: int) -> HeldOut:
    """Return targets with one more of each class: without it a class that did not occur would be held for impossible.

    It is Laplace's rule of succession.
    """
    classes = np.arange(max(outputs, 2), dtype=np.float64)[:, None]
    return HeldOut(rows.points, np.concatenate([rows.targets, classes]))


# Advice for a run that did worse than a constant, by the facts about its data and its learner.

FEW = 200
"""Rows of a node below which words such as "auto" are guesses that a search improves on."""

NODES = 20
"""Nodes whose rows are looked at, at most."""

APART = 10.0
"""A column is in a unit of its own where its deviation is so many times from 1, or its mean so many deviations from
0."""


class Odd(NamedTuple):
    """A column that is learned from as it stands, although its numbers are far from 0 and 1."""

    name: str
    key: str
    mean: float
    deviation: float


def advice(
    source: Source, rows: TrainingRows, stream: Mapping[str, Any], learner: Mapping[str, Any], offline: bool
) -> str:
    """Return the advice for the first cause that applies.

    Own numbers that were taken literally, in a unit far from 1; few rows; or else keys of the learner.

    Parameters
    ----------
    source : Source
        The opened stream.
    rows : TrainingRows
        What the nodes learned from.
    stream, learner : mapping
        The keys of the experiment's stream, and those of its learner that count, with their values.
    offline : bool
        Whether a batch solver fits the function: it has neither steps nor pilots.
    """
    found = odd_column(source, rows, stream)
    if found is not None:
        return (
            f"{found.name} was taken literally, with mean {amount(found.mean)} and standard deviation "
            f"{amount(found.deviation)}: leave out stream.{found.key} = false, so that it is centred and scaled"
        )
    keys = " and ".join(f"learner.{key}" for key in ("kernel", "step_size") if key in learner) or "the learner"
    fewest = FEW if source.fewest is None else source.fewest
    if offline:
        few = f", from which a node has {number_of(fewest, 'row')}" if fewest < FEW else ""
        return f"compare {keys} with the scale of inputs and targets{few}"
    if fewest < FEW:
        return (
            f"a node has {number_of(fewest, 'row')} to learn from: kernelswarm suggest finds {keys} that suit few rows"
        )
    if source.description.inputs.mean is None:
        return f"compare the scale of inputs and targets with {keys}, or let kernelswarm suggest try values for them"
    return f"let kernelswarm suggest try values for {keys}"


def odd_column(source: Source, rows: TrainingRows, stream: Mapping[str, Any]) -> Odd | None:
    """Return the first column of own data that is taken literally and should not be, or None."""
    off = [key for key in ("standardize_targets", "standardize") if stream.get(key) is False]
    if not off:
        return None
    parts = [rows.of(place, 0) for place in members(len(source.nodes), NODES)]
    found: list[Odd] = []
    if source.classes is None and stream.get("standardize_targets") in (False, "auto"):
        found += _odd(off[0], source.description.targets, np.concatenate([part.targets for part in parts]))
    if "standardize" in off:
        found += _odd("standardize", source.description.inputs, np.concatenate([part.points for part in parts]))
    return found[0] if found else None


def _odd(key: str, variables: Variables, values: Array) -> Iterator[Odd]:
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    for column in np.flatnonzero((deviation > APART) | (deviation < 1.0 / APART) | (np.abs(mean) > APART * deviation)):
        own = values[:, column]
        if variables.is_scaled(int(column)) or np.all((own == 0.0) | (own == 1.0)) or np.all(own == own[0]):
            continue
        name = variables.names[column] if variables.names else f"column {column}"
        yield Odd(name, key, float(mean[column]), float(deviation[column]))
