"""A node whose neighbours exchange points and function values."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated, Learner, TeachableLearner, parted_at, together
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.node.node import DivergenceError, Draws, Node, Outgoing
from kernelswarm.agents.node.replay_buffer import ReplayBuffer
from kernelswarm.agents.node.terms import NO_PULLS, OwnPulls, Taught, Terms, own_pulls
from kernelswarm.protocols.contract import Exchange, LinkRecord, Neighborhood, Pull, Rule
from kernelswarm.protocols.core.certainty import certainty_of
from kernelswarm.protocols.coupling import mean_constraint_values, total
from kernelswarm.protocols.limits import clip_pulls, own_products, pair_row_sums_in, step_damping
from kernelswarm.protocols.replay import replay_of

Array = npt.NDArray[np.float64]

NOTHING = np.zeros(0)
NOTHING.flags.writeable = False


def columns_behind_values(rule: Exchange) -> int:
    """Return the columns that messages have behind the values: 1 for the row sums of pairs, where both ends limit
    them, and 1 more for variances, where these travel."""
    limited = rule.communicates and rule.form == "symmetric" and rule.step == "implicit"
    return int(limited) + int(limited and certainty_of(rule) > 0.0)


class Agent(Node):
    """A node that sends its points, and answers its neighbours' with its function's values there.

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

    __slots__ = (
        "_bounded_curvature",
        "_certainty",
        "_constrained",
        "_gain",
        "_implicit",
        "_limited",
        "_loss_curvature",
        "_symmetric",
        "batch_sizes",
        "buffer",
        "own_products",
        "row_sums",
        "rule",
        "variances",
    )

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
        super().__init__(neighborhood, slots, learner, rule, rule.communicates, source, inputs, outputs, steps)
        self.rule = rule
        self.batch_sizes = neighborhood.batch_sizes
        """b of each neighbour."""
        self.links = rule.init(neighborhood)
        self._symmetric = rule.form == "symmetric"
        self._implicit = rule.step == "implicit"
        self._limited = self._implicit and bool(self.neighbors)
        self._certainty = certainty_of(rule) if self._limited else 0.0
        self._constrained = rule.duals(self.links) is not None
        # Only these terms of the local loss are exact in an implicit step, and only these can make an explicit one
        # unstable.
        self._loss_curvature = learner.loss.curvature if learner.loss.quadratic else 0.0
        self._bounded_curvature = learner.loss.curvature
        self._gain = learner.gain
        self.own_products = 0.0, 0.0  # of the samples evaluated: the means of kappa(x, x) and of the row sums
        self.row_sums = NOTHING  # of the pairs at its own points, then at its neighbours'; where steps are limited
        self.variances = NOTHING  # at the same points; where these travel
        replay = replay_of(rule)
        self.buffer = ReplayBuffer(replay, inputs, neighborhood) if replay.points and self.neighbors else None

    def advance(self, incoming: Sequence[Outgoing]) -> Outgoing:
        """Live through one round with what the neighbours sent, in sorted order, and return what this node sends.

        Raises
        ------
        DivergenceError
            When the values, or the strength of the coupling, say that the iteration grows without bound.
        """
        if self.targets is not None:
            self._update(incoming)
        received = [message.points for message in incoming]
        if self.following is not None:
            points, self.targets = self.following
            self.evaluate(points, received)
        self.following = self.draw(received)
        return self.outgoing()

    def draw(self, received: Sequence[Array]) -> tuple[Array, Array]:
        """Draw the samples of the round to come, and the points to replay in it.

        Parameters
        ----------
        received : sequence of Array
            The neighbours' points that are new, which may be replayed from now on.

        Returns
        -------
        tuple of Array
            The samples' points with those to replay behind them, (b + r, p), and the samples' targets (b, q).
        """
        points, targets = self.source.draw(self.learner.batch_size)
        if self.buffer is not None:
            for entry in (*received, self.released(points)):
                self.buffer.keep(entry)
            points = np.concatenate([points, self.buffer.draw()])
        points.flags.writeable = False  # shared with every neighbour in this process
        return points, targets

    def released(self, points: Array) -> Array:
        """Return points of samples as they are sent, which is how they may be sent again."""
        return points

    def duals(self) -> Array | None:
        """Return the dual variables of the node's directed edges, (deg,), or None."""
        return self.rule.duals(self.links)

    def record(self) -> LinkRecord:
        """Return what is to be recorded of the node's directed edges."""
        return self.rule.record(self.links, len(self.neighbors))

    def evaluate(self, points: Array, theirs: Sequence[Array]) -> None:
        """Evaluate the function at the node's own points, samples and replayed ones, (b + r, p), and at each
        neighbour's, for the step to come."""
        learner = self.learner
        self.own = learner.evaluate(self.state, points)
        self.theirs = [learner.evaluate(self.state, received) for received in theirs]
        for evaluation in self.theirs:
            evaluation.values.flags.writeable = False
        if not self._limited:
            return
        stepped = together([self.own, *self.theirs]) if self._symmetric else self.own
        gram = learner.inner(self.state, stepped)
        self.row_sums = np.empty(len(gram))
        samples = len(points) if self.buffer is None or self.targets is None else len(self.targets)
        self.own_products = own_products(gram, samples)
        pair_row_sums_in(gram, len(points), len(self.neighbors), learner.eta(self.state), self.row_sums)
        self.row_sums.flags.writeable = False
        if self._certainty:
            self.variances = self.variances_of(gram)

    def variances_of(self, gram: Array) -> Array:
        """Return the variances at points from their inner products, (n, n), in units of the noise."""
        return gram.diagonal() / cast(TeachableLearner, self.learner).reach

    def clear(self) -> None:
        """Forget what is in flight, which others keep until the node evaluates its function again."""
        self.own, self.theirs, self.targets, self.following, self.row_sums = None, [], None, None, NOTHING

    def outgoing(self) -> Outgoing:
        """Return what the node sends: what it has evaluated, and the points that follow."""
        assert self.following is not None
        duals = self.rule.duals(self.links) if self.rule.sends_duals else None
        own, answers = None, [evaluation.values for evaluation in self.theirs]
        if self.own is not None and self._symmetric:
            own = self.own.values
            if self._limited:
                sets = [self.own, *self.theirs]
                row_sums = np.split(self.row_sums, np.cumsum([len(entry.points) for entry in sets])[:-1])
                columns = [[entry.values, load] for entry, load in zip(sets, row_sums, strict=True)]
                if self._certainty:
                    ends = np.cumsum([len(entry.points) for entry in sets])[:-1]
                    for column, variances in zip(columns, np.split(self.variances, ends), strict=True):
                        column.append(variances)
                own, *answers = map(np.column_stack, columns)
        points, targets = self.following
        return Outgoing(points, own, answers, duals, replayed=len(points) - len(targets))

    def _update(self, incoming: Sequence[Outgoing]) -> None:
        own, targets = self.own, self.targets
        assert own is not None and targets is not None
        learner, rule = self.learner, self.rule
        size, degree = len(targets), len(self.neighbors)
        samples, replayed = parted_at(own, size)
        part, eta = share(size, learner.batch_size), learner.eta(self.state)
        rate = eta / learner.batch_size
        terms, pulls, taken, taught = Terms(), NO_PULLS, 1.0, Taught(self._certainty, self.outputs)
        constraint_values: Array | None = None
        excess_loss: Array | None = None
        if degree and len(own.points):
            answers, row_sums = self._answers(own, incoming)
            coupling = rule.coupling_gradient(self.links, own.values, answers)
            if self._certainty:
                coupling = self._learn_from_surer(taught, own, answers, incoming, coupling, size)
            pulls = own_pulls(coupling, row_sums, size, learner.batch_size)
        if size:
            loss = self.admit(samples.values, targets)
            gradient = learner.gradient(self.state, samples, targets)
            curvature = self._bounded_curvature
            if degree:
                taken = self.damping(rate, pulls.samples[0])
                if self._implicit and not learner.linear:
                    curvature += pulls.samples[1]
                gradient = gradient + pulls.pulling[:size] / taken
                constraint_values = mean_constraint_values(rule, own.values, answers)
                if rule.compares_losses:
                    # Neighbour by neighbour, as compiled rounds do: a loss may round a larger array otherwise.
                    losses = [total(learner.loss.values(answer[:size], targets)) for answer in answers]
                    excess_loss = np.array([(theirs - loss) / size for theirs in losses])
                    if not self.sees_new:
                        excess_loss[:] = np.nan
            terms.add(samples, gradient, curvature, part)
        if replayed is not None:
            self.add_replayed(terms, replayed, pulls, rate, taken)
        self._add_others(terms, incoming, eta, taken, taught)
        others = sum(len(evaluation.points) for evaluation in self.theirs)
        self.tally.scalars_sent += self.scalars_sent(1, len(own.points), others)
        if terms.evaluations:
            curvatures = terms.curvatures if self._implicit else None
            given = self.state, terms.evaluations, terms.gradients, curvatures, targets, eta * taken
            info = learner.step(*given, *taught.together())
            self.tally.compression_error += info.compression_error
        self.tally.rounds += 1
        self.round += 1
        if constraint_values is not None:
            self._advance_links(constraint_values, excess_loss, eta * part)

    def damping(self, rate: float, stiffness: float) -> float:
        """Return the part of its step that the node takes on its samples, where the coupling has a curvature there."""
        if not self._implicit:
            self.check_stability(rate, self._loss_curvature + stiffness)
            return 1.0
        order = self.learner.function(self.state).order
        return step_damping(rate, *self.own_products, self._bounded_curvature, stiffness, order, self.samples)

    def add_replayed(self, terms: Terms, replayed: Evaluated, pulls: OwnPulls, rate: float, taken: float) -> None:
        """Add the term of the points that the node replays: nothing but its neighbours' pulls."""
        stiffness, limited = pulls.replayed
        if not self._implicit:
            self.check_stability(rate, stiffness)
        count = len(replayed.points)
        pulling = pulls.pulling[len(pulls.pulling) - count :]
        curvature = 0.0 if self.learner.linear else limited
        terms.add(replayed, pulling, curvature, count / self.learner.batch_size, taken)

    def _answers(self, own: Evaluated, incoming: Sequence[Outgoing]) -> tuple[Array, Array]:
        """Return the neighbours' values at the node's points, (deg, n, C), and both ends' row sums, (deg, n)."""
        count, degree = len(own.points), len(self.neighbors)
        answers, row_sums = np.empty((degree, count, self.outputs)), np.zeros((degree, count))
        for j, (message, slot) in enumerate(zip(incoming, self.slots, strict=True)):
            answer = message.answers[slot]
            assert answer is not None
            answers[j] = answer[:, : self.outputs]
            if self._limited:
                mine = self.row_sums[:count]
                row_sums[j] = mine + (answer[:, self.outputs] if self._symmetric else mine)
        return answers, row_sums

    def _learn_from_surer(
        self, taught: Taught, own: Evaluated, answers: Array, incoming: Sequence[Outgoing], coupling: Pull, size: int
    ) -> Pull:
        """Note what surer neighbours teach at the node's own points, and return the pulls of the others."""
        pulls, bounds = (np.array(part) for part in coupling)
        answered = enumerate(message.answers[slot] for message, slot in zip(incoming, self.slots, strict=True))
        heard = [(e, answer[:, -1]) for e, answer in answered if answer is not None]
        mine, batch_size = self.variances[: len(own.points)], self.learner.batch_size
        taught.add_own(mine, heard, own.values, answers, pulls, bounds, size, batch_size)
        return Pull(pulls, bounds)

    def _add_others(self, terms: Terms, incoming: Sequence[Outgoing], eta: float, taken: float, taught: Taught) -> None:
        """Add the terms of the neighbours' points, in the symmetric form."""
        if not self._symmetric:
            return
        assert self.own is not None
        before = len(self.own.points)
        for j, (message, slot, evaluation) in enumerate(zip(incoming, self.slots, self.theirs, strict=True)):
            count, batch_size = len(evaluation.points), self.batch_sizes[j]
            if not count:
                continue
            assert message.own is not None
            dual = 0.0 if message.duals is None else float(message.duals[slot])
            theirs = np.ascontiguousarray(message.own[:, : self.outputs])
            pull, stiff = self.rule.coupling_gradient_at_neighbor(self.links, j, evaluation.values, theirs, dual)
            pull = np.array(pull)
            both = np.zeros(count)
            if self._limited:
                both = self.row_sums[before : before + count] + message.own[:, self.outputs]
            if self._certainty:
                stiff = np.array(stiff)
                mine = self.variances[before : before + count]
                taught.add_one(mine, message.own[:, -1], evaluation.values, theirs, pull, stiff, batch_size)
            stiffness, limited = clip_pulls(pull, stiff, both, batch_size)
            if not self._implicit:
                self.check_stability(eta / batch_size, stiffness)
            terms.add(evaluation, pull, 0.0 if self.learner.linear else limited, count / batch_size, taken)
            before += count

    def scalars_sent(self, rounds: int, own: int, others: int) -> int:
        """Count what is sent in some rounds: to each neighbour the node's ``own`` points, and answers at the ``others``
        of all together; symmetric, also its values there, row sums and dual variables."""
        degree = len(self.neighbors)
        count = degree * own * self.width + others * self.outputs
        if self._symmetric:
            count += degree * (own * self.outputs + rounds * self.rule.sends_duals)
            count += columns_behind_values(self.rule) * (degree * own + others)
        return count

    def _advance_links(self, constraint_values: Array, excess_loss: Array | None, eta: float) -> None:
        """Take over what the samples say of the edges, (deg,); NaN of those that said nothing."""
        tally, rule = self.tally, self.rule
        self.links = rule.advance(self.links, constraint_values, excess_loss, eta, self.round)
        received = ~np.isnan(constraint_values)
        tally.constraint_values += np.where(received, constraint_values, 0.0)
        tally.constraint_rounds += received
        if self._constrained:
            apart = constraint_values - rule.record(self.links, len(constraint_values)).tolerances
            tally.violation += np.where(received, apart, 0.0)

    def check_stability(self, rate: float, curvature: float) -> None:
        """Raise DivergenceError where an explicit step of size ``eta / b = rate`` multiplies errors."""
        # A quadratic term of curvature r at one point multiplies the error there by 1 - eta/b r kappa(x, x) a round.
        if self._gain is not None and rate * self._gain * curvature >= 2.0:
            raise DivergenceError(
                self.node,
                self.round // self._steps + 1,
                f"the explicit step needs step_size / batch_size * curvature below 2, and it is "
                f"{rate * self._gain * curvature:.3g} (curvature {curvature:.3g})",
                'use protocol.step = "implicit", or lower learner.step_size' + self.coupling_remedy(),
            )

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the points that it keeps to replay; what is in flight is computed again."""
        return {} if self.buffer is None else self.buffer.arrays()

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        if self.buffer is not None:
            self.buffer.take_over(arrays)
