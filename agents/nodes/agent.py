"""A node that exchanges points and function values with its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.views import cube, table
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.nodes.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.nodes.node import DivergenceError, Draws, Node
from kernelswarm.agents.nodes.replay_buffer import ReplayBuffer
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.protocols.contract import Exchange, Neighborhood, Rule
from kernelswarm.protocols.core.compiling import ReadOnly, force_inline, inline_always, njit_no_refcount
from kernelswarm.protocols.links.realization import Conditions
from kernelswarm.protocols.replay import certainty_of, replay_of


def columns_behind_values(rule: Exchange) -> int:
    """Return the number of message columns after the values: 1 for row sums of pairs, if both ends limit pulls, plus 1
    for variances, if they are sent."""
    limited = rule.communicates and rule.form == "symmetric" and rule.step == "implicit"
    return int(limited) + int(limited and certainty_of(rule) > 0.0)


class Agent(Node):
    """A node that sends its points, and answers its neighbours' points with its function values there.

    Points travel one round ahead of their answers. Two rounds prime the network: the first only sends points, the
    second answers them.

    Parameters
    ----------
    neighborhood : Neighborhood
        The node's label, its neighbours and its facts about links.
    slots : sequence of int
        The index of this node in each neighbour's list of neighbours.
    learner : Learner
        The local learner.
    rule : Rule
        The protocol.
    source : Draws
        The node's samples.
    inputs, outputs, targets : int
        p, C and q.
    steps : int
        Steps of the node per round of the network.
    """

    __slots__ = (
        "_gain",
        "_symmetric",
        "batch_sizes",
        "buffer",
        "rule",
        "without_points",
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
        targets: int,
        steps: int = 1,
    ) -> None:
        super().__init__(neighborhood, slots, learner, rule, rule.communicates, source, inputs, outputs, targets, steps)
        self.rule = rule
        self.batch_sizes = neighborhood.batch_sizes
        """b of each neighbour."""
        self.links = rule.init(neighborhood)
        self.without_points = False
        """Whether the message of another copy of the learner carries its points."""
        self._symmetric = rule.form == "symmetric"
        self._gain = learner.gain
        replay = replay_of(rule)
        self.buffer = ReplayBuffer(replay, inputs, neighborhood) if replay.points and self.neighbors else None

    def scalars_sent(self, rounds: int, own: int, others: int) -> int:
        """Count the scalars sent in some rounds: to each neighbour, the ``own`` points and answers at its points; in
        the symmetric form also values at own points, row sums and dual variables. ``others`` sums the neighbours'
        points."""
        degree = len(self.neighbors)
        count = degree * own * self.width * (not self.without_points) + others * self.outputs
        if self._symmetric:
            count += degree * (own * self.outputs + rounds * self.rule.sends_duals)
            count += columns_behind_values(self.rule) * (degree * own + others)
        return count

    def check_stability(self, rate: float, curvature: float) -> None:
        """Raise DivergenceError if explicit steps of size ``eta / b = rate`` amplify errors."""
        # A quadratic term of curvature r at one point multiplies the error there by 1 - eta/b r kappa(x, x) per round.
        if self._gain is not None and rate * self._gain * curvature >= 2.0:
            raise DivergenceError(
                self.node,
                self.round // self._steps + 1,
                f"the explicit step needs step_size / batch_size * curvature below 2, and it is "
                f"{rate * self._gain * curvature:.3g} (curvature {curvature:.3g})",
                'use protocol.step = "implicit", or lower learner.step_size' + self.coupling_remedy(),
            )

    def further_arrays(self) -> dict[str, AnyArray]:
        """Return the points kept for replay; pending evaluations are computed again."""
        return {} if self.buffer is None else self.buffer.arrays()

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`."""
        if self.buffer is not None:
            self.buffer.take_over(arrays)


# A node on unreliable links that may sleep.


REMEMBERED = "lossy.drawn", "lossy.predicted", "lossy.last_sent"
"""Prefixes of the names of the node's memory in a snapshot."""


class LossyAgent(Agent):
    """A node with unreliable links or with its own clock.

    It learns like :class:`Agent` while every message arrives in time. If a message is missing, its edge is left out of
    the round's step, or the last message is used again. A late message couples the two functions at the points that it
    refers to, where the node evaluates its present function. A sleeping node does nothing: it draws no sample, and its
    neighbours receive nothing.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        See :class:`Agent`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.conditions = conditions
        self._neighborhood = neighborhood
        self.inbox = Inbox(conditions, neighborhood, self.neighbors)
        self.memory: dict[str, AnyArray] = {}
        """Samples by the rounds in which their points were sent, predictions there before the steps on them, and the
        last answers to neighbours, in the format of snapshots; empty at first."""
        self.sent_at = NO_ANSWER, NO_ANSWER
        """The rounds in which the points of its next step and of the step after it were sent."""
        self.received_at = np.full(degree, NO_ANSWER)
        """The rounds in which the evaluated points of each neighbour were drawn."""
        self.used = np.full((degree, 2), NO_ANSWER)
        """The rounds of the last messages from whose answers, and from whose own values, it has learned."""
        self.quiet = np.zeros(degree, dtype=np.bool_)
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)

    def begin_anew(self) -> None:
        """Reset the learner and the links to their state before the first round."""
        self.state, self.links = self.learner.init(self.width, self.outputs), self.rule.init(self._neighborhood)
        self.bound_noise()
        if self.buffer is not None:
            self.buffer.forget()

    def further_arrays(self) -> dict[str, AnyArray]:
        """Return the messages received and sent, and the rounds of the node's samples."""
        tally = self.tally
        assert tally.traffic is not None
        arrays: dict[str, AnyArray] = {
            "lossy.now": np.array([self.now, *self.sent_at]),
            "lossy.received_at": self.received_at.copy(),
            "lossy.used": self.used.copy(),
            "lossy.quiet": self.quiet.copy(),
            "lossy.traffic": tally.traffic.copy(),
        }
        return arrays | self.memory | self.inbox.arrays | super().further_arrays()

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`."""
        self.now, *sent_at = arrays["lossy.now"].tolist()
        self.sent_at = sent_at[0], sent_at[1]
        self.received_at, self.used = arrays["lossy.received_at"].copy(), arrays["lossy.used"].copy()
        self.quiet = arrays["lossy.quiet"].copy()
        self.tally.traffic = arrays["lossy.traffic"].copy()
        self.memory = {name: array for name, array in arrays.items() if name.startswith(REMEMBERED)}
        self.inbox.take_over(arrays)
        super().take_further(arrays)


# Pairs of neighbours with similar variances pull; otherwise the end with the larger variance learns from the other.

TIE = 1e-6
"""Relative tolerance for ties of variances: a learned value leaves s times the teacher's variance up to rounding, which
must not decide whether it is learned again."""


@inline_always
def _surer(ratio: float, mine: float, theirs: float) -> bool:
    """Tell whether a neighbour's variance is smaller by more than the ratio; both ends decide alike."""
    return 0.0 < ratio * theirs * (1.0 + TIE) < mine


@njit_no_refcount
def learn_from_surer_in(
    ratio: float,
    variances: ReadOnly,
    others: ReadOnly,
    values: ReadOnly,
    answers: ReadOnly,
    pulls: Array,
    curvatures: Array,
    samples: int,
    weights: tuple[float, float],
    taught: Array,
) -> None:
    """Find the pairs with similar variances, which pull, and the pairs in which the less certain end learns.

    With v_i and v_j the variances of a node and a neighbour at a point, the node learns from the neighbour with the
    least v_j if ``v_i > s v_j``. The pair does not pull then, nor if ``v_j > s v_i``.

    Parameters
    ----------
    ratio : float
        s, above 1.
    variances, others : Array
        v_i (n,), and v_j of each neighbour (deg, n), in one unit.
    values, answers : Array
        The node's values (n, C), and each neighbour's, (deg, n, C).
    pulls, curvatures : Array
        The pulls of each neighbour (deg, n, C) and their curvatures (deg, n), set to 0 for pairs that do not pull.
    samples : int
        Number of own samples, which are the first points.
    weights : tuple of float
        The weights of gaps at samples and at other points in the choice of the dictionary.
    taught : Array
        (n, 2 C + 1), filled: the learned value, the weighted gap ``f_i - f_j``, and the resulting variance ``s v_j``;
        the variance is 0 if nothing is learned.
    """
    degree, size, outputs = answers.shape
    for k in range(size):
        best = -1
        for j in range(degree):
            if _surer(ratio, variances[k], others[j, k]):
                if best < 0 or others[j, k] < others[best, k]:
                    best = j
            elif not _surer(ratio, others[j, k], variances[k]):
                continue
            curvatures[j, k] = 0.0
            for c in range(outputs):
                pulls[j, k, c] = 0.0
        taught[k, 2 * outputs] = ratio * others[best, k] if best >= 0 else 0.0
        weight = weights[0] if k < samples else weights[1]
        for c in range(outputs):
            taught[k, c] = answers[best, k, c] if best >= 0 else 0.0
            taught[k, outputs + c] = weight * (values[k, c] - answers[best, k, c]) if best >= 0 else 0.0


@force_inline
def learn_from_one_in(
    ratio: float,
    variances: ReadOnly,
    others: ReadOnly,
    values: ReadOnly,
    answers: ReadOnly,
    pulls: Array,
    curvatures: Array,
    weight: float,
    taught: Array,
) -> None:
    """Do the same at points that are no samples, for a single neighbour with variances (n,).

    Its values and pulls are (n, C), and their curvatures (n,).
    """
    size, outputs = answers.shape
    learn_from_surer_in(
        ratio,
        variances,
        table(others, 0, 1, size),
        values,
        cube(answers, 0, 1, size, outputs),
        cube(pulls, 0, 1, size, outputs),
        table(curvatures, 0, 1, size),
        0,
        (1.0, weight),
        taught,
    )
