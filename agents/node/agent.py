"""A node whose neighbours exchange points and function values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.node.node import DivergenceError, Draws, Node
from kernelswarm.agents.node.replay_buffer import ReplayBuffer
from kernelswarm.protocols.contract import Exchange, LinkRecord, Neighborhood, Rule, recorded
from kernelswarm.protocols.core.certainty import certainty_of
from kernelswarm.protocols.replay import replay_of

Array = npt.NDArray[np.float64]


def columns_behind_values(rule: Exchange) -> int:
    """Return the columns that messages have behind the values: 1 for the row sums of pairs, where both ends limit
    them, and 1 more for variances, where these travel."""
    limited = rule.communicates and rule.form == "symmetric" and rule.step == "implicit"
    return int(limited) + int(limited and certainty_of(rule) > 0.0)


class Agent(Node):
    """A node that sends its points, and answers its neighbours' with its function's values there.

    Points travel one round ahead of their answers. Two rounds prime the network: the first only sends points, the
    second answers them.

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
    inputs, outputs, targets : int
        p, C and q.
    steps : int
        The steps that it takes in a round of the network.
    """

    __slots__ = (
        "_gain",
        "_symmetric",
        "batch_sizes",
        "buffer",
        "rule",
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
        self._symmetric = rule.form == "symmetric"
        self._gain = learner.gain
        replay = replay_of(rule)
        self.buffer = ReplayBuffer(replay, inputs, neighborhood) if replay.points and self.neighbors else None

    def duals(self) -> Array | None:
        """Return the dual variables of the node's directed edges, (deg,), or None."""
        return self.rule.duals(self.links)

    def record(self) -> LinkRecord:
        return recorded(self.rule, self.links, len(self.neighbors))

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
