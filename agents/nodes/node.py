"""The common part of all nodes: learner, samples and sums. Nodes are the only mutable objects."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.contract import Learner, LearnerWithVariance, PredictiveVariance, VaryingVariance
from kernelswarm.agents.nodes import conformal_band
from kernelswarm.agents.nodes.conformal_band import ConstantBand
from kernelswarm.agents.nodes.pooled_bands import PooledBands
from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, fulfils, recorded, strengths_of
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.least_squares import learn_at_most

PRIMING = 2
"""Rounds that only fill the links: points are sent in round 0, answered in round 1 and learned from in round 2."""

DIVERGED = 1e8
"""Multiple of (1 + the largest target so far) above which values count as divergence."""


class DivergenceError(ArithmeticError):
    """A learner's values or dual variables grow without bound; the message names the key to lower."""

    def __init__(self, node: int, round: int, cause: str, remedy: str) -> None:
        super().__init__(node, round, cause, remedy)
        self.node = node
        self.round = round
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"node {self.node} diverged in round {self.round}: {self.cause}: {self.remedy}"


class Draws(Protocol):
    """The samples of one node, in the order of its steps."""

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) with their targets (b, q); fewer, and finally none, at the end of the data."""
        ...


@runtime_checkable
class UnevenDraws(Draws, Protocol):
    """Samples whose draws may be short although more samples follow."""

    def draw_each(self, draws: int, count: int) -> tuple[Array, Array, Integers]:
        """Return the concatenated points and targets of ``draws`` draws, and the size of each draw, (draws,)."""
        ...


@dataclass(slots=True)
class Tally:
    """Sums since the last report; from ``violation`` on, sums over the whole run.

    ``constraint_rounds`` counts the rounds in which an edge delivered something. On links that are not ideal,
    ``bytes_sent`` is counted, and ``traffic`` (deg, 4) holds the numbers of messages sent to each neighbour, and of its
    messages that were delivered, lost and dropped as too old.
    """

    rounds: int = 0
    samples: int = 0
    loss: float = 0.0
    compression_error: float = 0.0
    constraint_values: Array = field(default_factory=lambda: np.zeros(0))
    constraint_rounds: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    violation: Array = field(default_factory=lambda: np.zeros(0))
    scalars_sent: int = 0
    bytes_sent: float = 0.0
    traffic: Integers | None = None

    @staticmethod
    def of(degree: int) -> Tally:
        """Return zero sums for ``degree`` edges."""
        return Tally(
            constraint_values=np.zeros(degree),
            constraint_rounds=np.zeros(degree, dtype=np.int64),
            violation=np.zeros(degree),
        )


class Node(ABC):
    """A node between rounds: its learner, its samples, and the points in flight.

    Rounds run in arrays, into which nodes are moved before the first round. Nodes are updated from the arrays when they
    are requested.

    Parameters
    ----------
    neighborhood : Neighborhood
        The node's label, its neighbours and its facts about links.
    slots : sequence of int
        The index of this node in each neighbour's list of neighbours.
    learner : Learner
        The local learner.
    rule : object
        The protocol.
    talks : bool
        Whether neighbours exchange messages.
    source : Draws
        The node's samples.
    inputs, outputs, targets : int
        p, C and q.
    steps : int
        Steps of the node per round of the network.
    """

    __slots__ = (
        "_described",
        "_steps",
        "band",
        "distinct",
        "errors",
        "following",
        "largest_target",
        "learner",
        "level",
        "links",
        "neighbors",
        "node",
        "now",
        "outputs",
        "points",
        "pool",
        "received_points",
        "round",
        "samples",
        "slots",
        "source",
        "state",
        "tally",
        "targets",
        "width",
    )

    links: Any
    """The state of the node's links: arrays, numbers and tuples of them."""

    def __init__(
        self,
        neighborhood: Neighborhood,
        slots: Sequence[int],
        learner: Learner,
        rule: Any,
        talks: bool,
        source: Draws,
        inputs: int,
        outputs: int,
        targets: int,
        steps: int = 1,
    ) -> None:
        self.node = neighborhood.node
        self.neighbors = neighborhood.neighbors if talks else ()
        self.slots = tuple(slots) if talks else ()
        self.learner = learner
        self.source = source
        self.outputs = outputs
        self.width = inputs
        """The columns of its messages to all neighbours: p for points, or the length of a vector."""
        self._described = rule
        self._steps = steps
        self.state = learner.init(inputs, outputs)
        self.round = 0
        self.now = 0
        """The next round of the network, priming rounds included."""
        self.samples = 0
        self.distinct = neighborhood.distinct
        self.largest_target = 0.0
        self.tally = Tally.of(len(self.neighbors))
        self.points, self.targets = np.zeros((0, inputs)), np.zeros((0, targets))
        """The data of its next step, empty at first: samples followed by replayed points, (b + r, p), and the samples'
        targets, (b, q)."""
        self.following = self.points, self.targets
        """The data of the step after it."""
        self.received_points = [self.points] * len(self.neighbors)
        """The points of each neighbour that the node answers."""
        self.level: float | None = None
        """The nominal coverage of its band; None without a band."""
        self.band: Array | None = None
        """The conformal band, (C, 5), or (C, 12) if pooled; None without a conformal band."""
        self.errors: ProgressiveErrors | None = None
        """Its last errors, if its noise may vary with the input."""
        self.pool: PooledBands | None = None
        """The bands of all nodes of this process, if they are pooled."""
        self.bound_noise()

    def bound_noise(self) -> None:
        """Restrict the noise estimate to samples that the node has not learned from."""
        learner = self.learner
        if fulfils(learner, LearnerWithVariance):
            learn_at_most(learner.noise(self.state), self.distinct // self.learner.batch_size)

    def keep_band(self, level: float, conformally: bool, pooled: bool = False, varying: bool = False) -> None:
        """Keep a band of this level. A conformal band adapts to the samples from now on. A band from the variance has,
        with ``varying``, noise that varies with the input if the node's errors support it."""
        self.level = level
        self.errors = ProgressiveErrors(self.points.shape[1], self.outputs, self.distinct) if varying else None
        self.band = conformal_band.empty_band(self.outputs, level, pooled) if conformally else None

    def follow_band(self, values: Array, targets: Array, rounds: int = 1) -> None:
        """Adapt the conformal band, if any, to rounds, from their values before the steps."""
        if self.band is not None and len(targets):
            assert self.level is not None
            conformal_band.follow(self.band, values, targets, self.level, self.distinct, rounds)

    def duals(self) -> Array | None:
        """Return the dual variables of the node's directed edges, (deg,), or None."""
        found: Array | None = self._described.duals(self.links)
        return found

    def record(self) -> LinkRecord:
        """Return the record of the node's directed edges."""
        return recorded(self._described, self.links, len(self.neighbors))

    @property
    def times(self) -> float:
        """How often each distinct sample was seen on average, at least 1."""
        return max(1.0, self.samples / self.distinct) if self.distinct else 1.0

    def check_values(self, values: Array) -> None:
        """Raise DivergenceError if the function's values are far larger than the targets."""
        if not _largest(values) <= DIVERGED * (1.0 + self.largest_target):
            raise DivergenceError(
                self.node,
                self.round // self._steps + 1,
                f"its values reached {_largest(values):.3g} where targets reach {self.largest_target:.3g}",
                self.remedy(),
            )

    def fail(self, error: BaseException) -> NoReturn:
        """Raise the exception of a part at this node's turn in compiled code; the stack identifies the node."""
        raise error

    def remedy(self) -> str:
        """Name the keys to lower if the function grows without bound, with their values."""
        lower = f"lower learner.step_size = {self.learner.eta(self.state):g}"
        return lower + _or_lower("learner", self.learner) + self.coupling_remedy()

    def coupling_remedy(self) -> str:
        return _or_lower("protocol", self._described) if self.neighbors else ""

    @abstractmethod
    def further_arrays(self) -> dict[str, AnyArray]:
        """Return the changing arrays of this kind of node for a snapshot."""

    @abstractmethod
    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`; the sums of the run are restored before."""

    def restart_tally(self) -> Tally:
        """Return the sums since the last call and start new ones; the violation and the scalars keep running."""
        tally = self.tally
        self.tally = Tally.of(len(self.neighbors))
        self.tally.violation[:] = tally.violation
        self.tally.scalars_sent, self.tally.bytes_sent = tally.scalars_sent, tally.bytes_sent
        self.tally.traffic = tally.traffic
        return tally

    @property
    def function(self) -> Function:
        """The node's current function."""
        return self.learner.function(self.state)

    def posterior(self) -> PredictiveVariance | None:
        """Return the posterior of the node's function, or None if there is none."""
        learner = self.learner
        found = learner.posterior(self.state) if fulfils(learner, LearnerWithVariance) else None
        if found is None:
            return None
        found = found.thinned(self.times)
        if self.errors is None or not fulfils(found, VaryingVariance):
            return found
        return found.following(*self.errors.newest())

    def constant_band(self) -> ConstantBand | None:
        """Return the present conformal band, or None without one or before the first step."""
        if self.band is None or self.level is None:
            return None
        radii = conformal_band.radii(self.band)
        return ConstantBand(self.level, radii) if np.isfinite(radii).all() else None


def keep_errors(
    nodes: Sequence[Node], points: Array, predicted: Array, targets: Array, samples: Integers, first: int, rounds: int
) -> None:
    """Store the errors of nodes in some rounds from the first on.

    ``points`` (V, T, n, p), ``predicted`` and ``targets``, both (V, T, b, C), hold samples, predictions before the
    steps, and targets; ``samples`` (T, V) holds the numbers of samples.
    """
    learned, room = slice(first, first + rounds), np.arange(targets.shape[2])
    for i, node in enumerate(nodes):
        if node.errors is not None:
            there = room < samples[learned, i, np.newaxis]
            errors = targets[i, learned][there] - predicted[i, learned][there]
            node.errors.add(points[i, learned, : len(room)][there], errors)


def follow_bands(
    nodes: Sequence[Node], predicted: Array, targets: Array, samples: Integers, first: int, rounds: int
) -> None:
    """Adapt the nodes' bands to some rounds from the first on.

    ``predicted`` and ``targets``, both (V, T, b, C), hold the predictions before the steps, and the targets;
    ``samples`` (T, V) holds the numbers of samples.
    """
    pool = nodes[0].pool
    if pool is not None:
        pool.follow(predicted, targets, samples, first, rounds)
        return
    for i, node in enumerate(nodes):
        at = first
        for count, alike in groupby(samples[first : first + rounds, i].tolist()):
            some, known = slice(at, at + len(list(alike))), slice(count)
            values, wanted = (array[i, some, known].reshape(-1, array.shape[3]) for array in (predicted, targets))
            node.follow_band(values, wanted, some.stop - some.start)
            at = some.stop


def _or_lower(table: str, part: object) -> str:
    """Continue "lower ..." with the keys that strengthen a part's pull."""
    return "".join(
        f" or {table}.{key} = {value:g}" if value < math.inf else f", or set {table}.{key}"
        for key, value in strengths_of(part).items()
    )


@cached_njit
def _largest(values: ReadOnly) -> float:
    """Compute ``max |values|``; NaN if any value is NaN."""
    largest = 0.0
    for value in values.flat:
        magnitude = abs(value)
        if not magnitude <= largest:
            if math.isnan(magnitude):
                return magnitude
            largest = magnitude
    return largest


# A node's last errors before its steps, for learning noise that varies with the input.

MOST_ERRORS = 500
"""The number of errors kept; the fit to them, at each evaluation, takes some milliseconds."""


class ProgressiveErrors:
    """The last errors of a node before its steps, with the inputs.

    Parameters
    ----------
    inputs, outputs : int
        p and C.
    distinct : float
        The number of the node's distinct samples; repeated rows are not added.
    """

    def __init__(self, inputs: int, outputs: int, distinct: float) -> None:
        self._inputs, self._distinct = inputs, distinct
        self.rows = np.zeros((0, inputs + outputs))
        """Inputs and errors, (n, p + C), the newest last."""
        self.seen = 0

    def add(self, points: Array, errors: Array) -> None:
        """Add the errors (n, C) before the steps on points (n, p), in the order of the steps."""
        new = int(min(len(points), max(0.0, self._distinct - self.seen)))
        self.seen += new
        self.rows = np.concatenate([self.rows, np.hstack([points[:new], errors[:new]])])[-MOST_ERRORS:]

    def newest(self) -> tuple[Array, Array]:
        """Return points (n, p) and errors (n, C) of the newest half of all samples.

        Older errors belong to a function learned from few samples.
        """
        kept = self.rows[max(0, len(self.rows) - (self.seen + 1) // 2) :]
        return np.ascontiguousarray(kept[:, : self._inputs]), np.ascontiguousarray(kept[:, self._inputs :])


# Samples drawn before the steps on them.


class Ahead:
    """Samples drawn ahead, followed by further samples of their source."""

    def __init__(self, points: Array, targets: Array, source: Draws) -> None:
        self.source = source
        self._points, self._targets = points, targets

    @property
    def left(self) -> tuple[Array, Array]:
        """The remaining samples drawn ahead: points (n, p) and targets (n, q)."""
        return self._points, self._targets

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) with their targets (b, q); fewer at the end of the data."""
        points, targets = self._points[:count], self._targets[:count]
        self._points, self._targets = self._points[count:], self._targets[count:]
        more = self.source.draw(count - len(points))
        return np.concatenate([points, more[0]]), np.concatenate([targets, more[1]])
