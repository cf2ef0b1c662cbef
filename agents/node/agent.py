"""One node of the network: the only mutable object, whatever machine it runs on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.contract import Evaluation, Learner, together
from kernelswarm.agents.learners.descent import share
from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.contract import Neighborhood, Rule, strengths_of
from kernelswarm.protocols.coupling import mean_square_gaps, total
from kernelswarm.protocols.limits import gather_in, own_products, own_share, pair_loads_in, restrain

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

PRIMING = 2
"""Rounds that only fill the links: points are sent in the first, answered in the second, learned from in the third."""

DIVERGED = 1e8
"""Values larger than this multiple of (1 + the largest target seen) are taken for divergence."""


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
    """The samples of one node, in the order in which it learns from them."""

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return the next points (b, p) with their targets (b, q); fewer, at last none, when the data is used up."""
        ...


@dataclass(slots=True)
class Outgoing:
    """What a node sends in one round, its neighbours in sorted order.

    Attributes
    ----------
    points : Array
        The points of the node's next round, (b, p): neighbours evaluate their functions there.
    own : Array or None
        The node's values at the points it sent before, (b, C); symmetric form only.
    answers : list of Array
        The node's values at each neighbour's points, (b_j, C). Where steps are symmetric and implicit, a last column
        of these and of ``own`` says the node's load at the point.
    duals : Array or None
        The dual variables of the node's edges, (deg,); symmetric proximity only.
    stamps : Array or None
        Where links are not ideal, (1 + deg,): the round of the message whose points ``own`` is at, and, for each
        neighbour, that of the message whose points its answer is at, or what is said instead.
    """

    points: Array
    own: Array | None
    answers: Sequence[Array | None]
    duals: Array | None
    stamps: Array | None = None


@dataclass(slots=True)
class Tally:
    """Sums since the last report, and, from the violation on, of the whole run.

    ``gap_rounds`` are the rounds in which an edge had something to say. Where links are not ideal, ``bytes_sent`` is
    counted, and ``traffic`` (deg, 4) holds the messages to this node that were sent, delivered, lost and dropped as too
    old.
    """

    rounds: int = 0
    samples: int = 0
    loss: float = 0.0
    compression_error: float = 0.0
    gaps: Array = field(default_factory=lambda: np.zeros(0))
    gap_rounds: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    violation: Array = field(default_factory=lambda: np.zeros(0))
    scalars_sent: int = 0
    bytes_sent: float = 0.0
    traffic: Integers | None = None

    @staticmethod
    def of(degree: int) -> "Tally":
        """Return sums that begin, for so many edges."""
        return Tally(gaps=np.zeros(degree), gap_rounds=np.zeros(degree, dtype=np.int64), violation=np.zeros(degree))


def loads_sent(rule: Rule) -> int:
    """Return the columns that messages have behind the values: 1 for the loads of pairs, where both ends limit them."""
    return int(rule.communicates and rule.form == "symmetric" and rule.step == "implicit")


class Agent:
    """A node: its learner, its stream, its links, and the messages in flight.

    A round is one call of :meth:`advance`: learn from the samples of the round with the neighbours' answers, then
    answer the points that the neighbours sent, and send the points of the round to come. Points therefore travel one
    round ahead of their answers. Two calls prime the network before the first update: the first only sends points,
    the second only answers them.

    Parameters
    ----------
    neighborhood : Neighborhood
        The node's label, its neighbours and what is known of its links.
    slots : sequence of int
        The place of this node among each neighbour's own neighbours.
    learner : Learner
        The local learner.
    rule : Rule
        The protocol.
    source : Draws
        The node's samples.
    inputs, outputs : int
        p and C.
    steps : int
        How often it is taken through :meth:`advance` in a round of the network.
    """

    def __init__(
        self,
        neighborhood: Neighborhood,
        slots: Sequence[int],
        learner: Learner,
        rule: Rule,
        source: Draws,
        inputs: int,
        outputs: int,
        steps: int = 1,
    ) -> None:
        self.node = neighborhood.node
        self.neighbors = neighborhood.neighbors if rule.communicates else ()
        self.slots = tuple(slots) if rule.communicates else ()
        self.learner = learner
        self.rule = rule
        self.source = source
        self.outputs = outputs
        self._batch_sizes = neighborhood.batch_sizes
        self._steps = steps
        self.state = learner.init(inputs, outputs)
        self.links: Any = rule.init(neighborhood)
        self.round = 0
        self.samples = 0
        self.largest_target = 0.0
        degree = len(self.neighbors)
        self.tally = Tally.of(degree)
        self._symmetric = rule.form == "symmetric"
        self._implicit = rule.step == "implicit"
        self._limited = self._implicit and bool(self.neighbors)
        self._constrained = rule.duals(self.links) is not None
        # Only these terms of the local loss are exact in an implicit step, and only these can make an explicit one
        # unstable.
        self._loss_curvature = learner.loss.curvature if learner.loss.quadratic else 0.0
        self._bounded_curvature = learner.loss.curvature
        self._gain = learner.gain
        self.following: tuple[Array, Array] | None = None  # sent, not answered yet
        self.targets: Array | None = None  # of the points that the neighbours are answering
        self.own: Evaluation | None = None
        self.theirs: list[Evaluation] = []
        self.own_products = 0.0, 0.0  # of the samples evaluated: the means of kappa(x, x) and of the row sums
        self.loads = np.zeros(0)  # of the pairs at its samples, then at its neighbours'; where steps are limited

    def advance(self, incoming: Sequence[Outgoing]) -> Outgoing:
        """Live through one round with what the neighbours sent, in sorted order, and return what this node sends.

        Raises
        ------
        DivergenceError
            When the values, or the strength of the coupling, say that the iteration grows without bound.
        """
        if self.targets is not None:
            self._update(incoming)
        if self.following is not None:
            points, self.targets = self.following
            self.evaluate(points, [message.points for message in incoming])
        points, targets = self.source.draw(self.learner.batch_size)
        points.flags.writeable = False  # shared with every neighbour in this process
        self.following = (points, targets)
        return self.outgoing()

    def evaluate(self, points: Array, theirs: Sequence[Array]) -> None:
        """Evaluate the function at the node's own points (b, p) and at each neighbour's, for the step to come."""
        learner = self.learner
        self.own = learner.evaluate(self.state, points)
        self.theirs = [learner.evaluate(self.state, heard) for heard in theirs]
        for evaluation in self.theirs:
            evaluation.values.flags.writeable = False
        if not self._limited:
            return
        stepped = together([self.own, *self.theirs]) if self._symmetric else self.own
        gram = learner.inner(self.state, stepped)
        self.loads = np.empty(len(gram))
        self.own_products = own_products(gram, len(points))
        pair_loads_in(gram, len(points), len(self.neighbors), learner.eta(self.state), self.loads)
        self.loads.flags.writeable = False

    def outgoing(self) -> Outgoing:
        """Return what the node sends: what it has evaluated, and the points that follow."""
        assert self.following is not None
        duals = self.rule.duals(self.links) if self.rule.sends_duals else None
        answers: Sequence[Array | None] = [evaluation.values for evaluation in self.theirs]
        if self.own is None or not self._symmetric:
            return Outgoing(self.following[0], None, answers, duals)
        if not self._limited:
            return Outgoing(self.following[0], self.own.values, answers, duals)
        sets = [self.own, *self.theirs]
        loads = np.split(self.loads, np.cumsum([len(entry.points) for entry in sets])[:-1])
        own, *answers = [np.column_stack([entry.values, load]) for entry, load in zip(sets, loads, strict=True)]
        return Outgoing(self.following[0], own, answers, duals)

    def _update(self, incoming: Sequence[Outgoing]) -> None:
        own, targets = self.own, self.targets
        assert own is not None and targets is not None
        learner, rule, tally = self.learner, self.rule, self.tally
        size = len(targets)
        part = share(size, learner.batch_size)
        eta = learner.eta(self.state)
        evaluations: list[Evaluation] = []
        gradients: list[Array] = []
        curvatures: list[float] = []
        gaps: Array | None = None
        excess: Array | None = None
        degree = len(self.neighbors)
        taken = 1.0
        if size:
            loss = self._admit(own.values, targets)
            gradient = learner.gradient(self.state, own, targets)
            curvature = self._bounded_curvature
            if degree:
                answers = np.empty((degree, size, self.outputs))
                loads = np.zeros((degree, size))
                for j, (message, slot) in enumerate(zip(incoming, self.slots, strict=True)):
                    answer = message.answers[slot]
                    assert answer is not None
                    answers[j] = answer[:, : self.outputs]
                    if self._limited:
                        loads[j] = self.loads[:size] + (answer[:, -1] if self._symmetric else self.loads[:size])
                pulls = rule.couple(self.links, own.values, answers)
                pulling = np.empty_like(own.values)
                stiffness, limited = gather_in(*pulls, loads, learner.batch_size, pulling)
                rate = eta / learner.batch_size
                if self._implicit:
                    order = learner.function(self.state).order
                    taken = own_share(rate, *self.own_products, self._bounded_curvature, stiffness, order, self.samples)
                    if not learner.linear:
                        curvature += limited
                else:
                    self.check_stability(rate, self._loss_curvature + stiffness)
                gradient = gradient + pulling / taken
                gaps = mean_square_gaps(own.values, answers)
                if rule.compares_losses:
                    losses = learner.loss.values(answers.reshape(-1, self.outputs), np.concatenate([targets] * degree))
                    excess = np.array([(total(row) - loss) / size for row in losses.reshape(degree, size)])
            evaluations.append(own)
            gradients.append(gradient if part == 1.0 else gradient * part)
            curvatures.append(curvature if part == 1.0 else curvature * part)
        before = size
        for j, (message, slot, evaluation) in enumerate(zip(incoming, self.slots, self.theirs, strict=True)):
            # What this round cost: its points to each neighbour and its answer to each; symmetric, its own values too.
            tally.scalars_sent += own.points.size + evaluation.values.size
            if self._symmetric:
                tally.scalars_sent += own.values.size + (message.duals is not None)
                if self._limited:
                    tally.scalars_sent += size + len(evaluation.points)
            if self._symmetric and len(evaluation.points):
                assert message.own is not None
                dual = 0.0 if message.duals is None else float(message.duals[slot])
                count = len(evaluation.points)
                theirs = np.ascontiguousarray(message.own[:, : self.outputs])
                pull, stiff = rule.couple_back(self.links, j, evaluation.values, theirs, dual)
                pull = np.array(pull)
                both = np.zeros(count)
                if self._limited:
                    both = self.loads[before : before + count] + message.own[:, -1]
                stiffness, limited = restrain(pull, stiff, both, self._batch_sizes[j])
                if not self._implicit:
                    self.check_stability(eta / self._batch_sizes[j], stiffness)
                there = share(count, self._batch_sizes[j])
                evaluations.append(evaluation)
                gradients.append((pull if there == 1.0 else pull * there) / taken)
                curvatures.append(0.0 if learner.linear else limited * there)
                before += count
        if evaluations:
            implicit = curvatures if self._implicit else None
            info = learner.step(self.state, evaluations, gradients, implicit, targets, eta * taken)
            tally.compression_error += info.compression_error
        tally.rounds += 1
        self.round += 1
        if gaps is not None:
            self.links = rule.advance(self.links, gaps, excess, eta * part, self.round)
            tally.gaps += gaps
            tally.gap_rounds += 1
            if self._constrained:
                tally.violation += gaps - rule.record(self.links, len(gaps)).tolerances

    def _admit(self, values: Array, targets: Array) -> float:
        """Count the samples of a round, and return the sum of their losses; raises as :meth:`check_values`."""
        largest = _largest(targets)
        if largest > self.largest_target:
            self.largest_target = largest
        self.check_values(values)
        loss = total(self.learner.loss.values(values, targets))
        self.tally.loss += loss
        self.tally.samples += len(targets)
        self.samples += len(targets)
        return loss

    def check_values(self, values: Array) -> None:
        """Raise DivergenceError where the function's values are far beyond the targets."""
        if not _largest(values) <= DIVERGED * (1.0 + self.largest_target):
            raise DivergenceError(
                self.node,
                self.round // self._steps + 1,
                f"its values reached {_largest(values):.3g} where targets reach {self.largest_target:.3g}",
                self.remedy(),
            )

    def remedy(self) -> str:
        """Name the keys to lower where the function grows without bound, with their values."""
        lower = f"lower learner.step_size = {self.learner.eta(self.state):g}"
        return lower + _or_lower("learner", self.learner) + self._coupling_remedy()

    def check_stability(self, rate: float, curvature: float) -> None:
        """Raise DivergenceError where an explicit step of size ``eta / b = rate`` multiplies errors."""
        # A quadratic term of curvature r at one point multiplies the error there by 1 - eta/b r kappa(x, x) a round.
        if self._gain is not None and rate * self._gain * curvature >= 2.0:
            raise DivergenceError(
                self.node,
                self.round // self._steps + 1,
                f"the explicit step needs step_size / batch_size * curvature below 2, and it is "
                f"{rate * self._gain * curvature:.3g} (curvature {curvature:.3g})",
                'use protocol.step = "implicit", or lower learner.step_size' + self._coupling_remedy(),
            )

    def _coupling_remedy(self) -> str:
        return _or_lower("protocol", self.rule) if self.neighbors else ""

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what rounds change of the node beside what every node has, for a snapshot."""
        return {}

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned; the sums of the run are those of the snapshot already."""

    def restart_tally(self) -> Tally:
        """Return the sums since the last call and start new ones; the violation and the scalars keep running."""
        tally = self.tally
        self.tally = replace(
            Tally.of(len(self.neighbors)),
            violation=tally.violation.copy(),
            scalars_sent=tally.scalars_sent,
            bytes_sent=tally.bytes_sent,
            traffic=tally.traffic,
        )
        return tally

    @property
    def function(self) -> Function:
        """The node's current function."""
        return self.learner.function(self.state)


def _or_lower(table: str, part: Learner | Rule) -> str:
    """Go on with "lower ..." by the keys that make a part pull harder."""
    return "".join(
        f" or {table}.{key} = {value:g}" if value < math.inf else f", or set {table}.{key}"
        for key, value in strengths_of(part).items()
    )


@jitted
def _largest(values: Array) -> float:
    """Compute ``max |values|``; NaN if any value is."""
    largest = 0.0
    for value in values.flat:
        magnitude = abs(value)
        if not magnitude <= largest:
            if math.isnan(magnitude):
                return magnitude
            largest = magnitude
    return largest
