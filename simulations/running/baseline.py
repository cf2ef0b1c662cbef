"""The risk of the best constant prediction, and advice for runs that do worse."""

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
from kernelswarm.simulations.engine.comparing import AT_ONCE
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.engine.scores import by_sample
from kernelswarm.simulations.records.result import amount

# The risk of the best constant prediction: a learned function should have a lower one.


def risks_of(loss: Loss, constants: Sequence[Array], held_out: Sequence[HeldOut]) -> list[float]:
    """Compute the risk of each constant prediction (C,) on the data set beside it; NaN for an empty data set.

    Data sets of equal size are evaluated together if the loss allows it.
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
    # Streams return read-only targets, for which numba would compile the loss a second time.
    losses = loss_values(
        loss, np.repeat(np.stack(constants), size, axis=0), np.concatenate([data.targets for data in held_out])
    )
    means = losses.reshape(len(constants), size).mean(axis=1).tolist()
    return [mean + area for mean, area in zip(means, areas, strict=True)]


def risk_of(loss: Loss, constant: Array, held_out: HeldOut) -> float:
    """Compute the risk of predicting ``constant`` (C,) at every point; NaN without data."""
    return risks_of(loss, [constant], [held_out])[0]


def best_constant(loss: Loss, outputs: int, rows: HeldOut) -> Array:
    """Return the constant prediction (C,) with the lowest risk.

    The constant is ``argmin_c mean_n l(c, y_n)`` over the targets. It is computed by the closed form of the loss if
    there is one (the mean for the squared loss, log frequencies for the logistic losses), else by a derivative-free
    search, which also copes with kinks.

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
"""Number of samples that represent an endless stream: the latest ones, since the data may drift."""


class TrainingRows:
    """The samples that the nodes of a network learned from, drawn again from their sources.

    Parameters
    ----------
    source : Source
        The opened stream, from which no node has drawn yet.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        # The state of most sources is a count of samples: it need not be stored for a million nodes.
        self._starts: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, NodeSource] = {}
        for place, node in enumerate(source.nodes):
            if not (hasattr(node, "state") and hasattr(node, "restore")):
                self._copies[place] = copy.deepcopy(node)  # a user's source without checkpoints
            elif not _counts(state := node.state()) or state["samples"]:
                self._starts[place] = state

    def of(self, place: int, samples: int) -> HeldOut:
        """Return the training rows of the node at ``place`` after ``samples`` draws.

        Finite data: the rows of the first epoch, or all rows if the node has not learned from any. Endless data: the
        last ``LATEST`` samples, or the first ``LATEST`` if the node has drawn fewer. The state of the source is
        restored.
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
    """Tell whether a source's state consists of the number of drawn samples alone."""
    return list(state) == ["samples"] and type(state["samples"]) is int


@dataclass(frozen=True)
class Baseline:
    """Risks of constant predictions, as means over the nodes; NaN without held-out data.

    Attributes
    ----------
    constant : float
        Held-out risk of the best constant, which is fitted to each node's training rows.
    zero : float
        Held-out risk of the initial function: 0, or 1 for learners of positive functions.
    each : dict of int to float
        Held-out risk of each node's best constant, by label.
    constant_learned, zero_learned : float
        The two risks on the training rows. They show the scale of the data even if a constant happens to fit the few
        held-out rows.
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
    """Compute the risk of each node's best constant on the node's held-out data.

        c_i = argmin_c mean_n l(c, y_n)  over the training rows of node i

    A constant fitted to the held-out rows would be an unfair baseline: for a single row, it is the target.

    Parameters
    ----------
    report : Report
        The report of the last evaluation.
    sources, learners : mappings
        The place and the source of each evaluated node, and its learner, by label.
    rows : TrainingRows
        The nodes' training rows.
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
    own: HeldOut  # its training rows


def _with_every_class(rows: HeldOut, outputs: int) -> HeldOut:
    """Return the targets with one more of each class, so that no class has the probability 0.

    This is Laplace's rule of succession.
    """
    classes = np.arange(max(outputs, 2), dtype=np.float64)[:, None]
    return HeldOut(rows.points, np.concatenate([rows.targets, classes]))


# Advice for a run that did worse than a constant, by the facts about its data and its learner.

FEW = 200
"""With fewer rows in a node, values found by "auto" are guesses, and a search improves on them."""

NODES = 20
"""Maximum number of nodes whose rows are examined."""

APART = 10.0
"""A column is unscaled if its standard deviation is above this number or below its inverse, or if its mean is this many
deviations from 0.
"""


class Odd(NamedTuple):
    """A column that is used without scaling although its mean or deviation is far from 0 or 1."""

    name: str
    key: str
    mean: float
    deviation: float


def advice(
    source: Source, rows: TrainingRows, stream: Mapping[str, Any], learner: Mapping[str, Any], offline: bool
) -> str:
    """Return the advice for the first cause that applies.

    The causes are: the user's data was not standardized and has a scale far from 1; the nodes have few rows; else the
    keys of the learner.

    Parameters
    ----------
    source : Source
        The opened stream.
    rows : TrainingRows
        The nodes' training rows.
    stream, learner : mapping
        The keys and values of the experiment's stream, and of the learner as far as they matter.
    offline : bool
        Whether a batch solver fits the function, without steps and without pilot runs.
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
    """Return the first column of the user's data that should have been standardized and was not, or None."""
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
