"""A node whose neighbours exchange points and function values."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner, TeachableLearner, together
from kernelswarm.agents.node.node import DivergenceError, Draws, Node, Outgoing
from kernelswarm.agents.node.replay_buffer import ReplayBuffer
from kernelswarm.protocols.contract import Exchange, LinkRecord, Neighborhood, Rule
from kernelswarm.protocols.core.certainty import certainty_of
from kernelswarm.protocols.limits import own_products, pair_row_sums_in
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

    Points travel one round ahead of their answers. Two calls of :meth:`prime` prime the network: the first only sends
    points, the second answers them. All further rounds run in arrays, into which the node then moves.

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
        The steps that it takes in a round of the network.
    """

    __slots__ = (
        "_certainty",
        "_gain",
        "_limited",
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
        self._limited = rule.step == "implicit" and bool(self.neighbors)
        self._certainty = certainty_of(rule) if self._limited else 0.0
        self._gain = learner.gain
        self.own_products = 0.0, 0.0  # of the samples evaluated: the means of kappa(x, x) and of the row sums
        self.row_sums = NOTHING  # of the pairs at its own points, then at its neighbours'; where steps are limited
        self.variances = NOTHING  # at the same points; where these travel
        replay = replay_of(rule)
        self.buffer = ReplayBuffer(replay, inputs, neighborhood) if replay.points and self.neighbors else None

    def prime(self, incoming: Sequence[Outgoing]) -> Outgoing:
        """Take one of the two rounds that prime the network, and return what this node sends."""
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

    def scalars_sent(self, rounds: int, own: int, others: int) -> int:
        """Count what is sent in some rounds: to each neighbour the node's ``own`` points, and answers at the ``others``
        of all together; symmetric, also its values there, row sums and dual variables."""
        degree = len(self.neighbors)
        count = degree * own * self.width + others * self.outputs
        if self._symmetric:
            count += degree * (own * self.outputs + rounds * self.rule.sends_duals)
            count += columns_behind_values(self.rule) * (degree * own + others)
        return count

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
