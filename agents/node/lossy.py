"""A node on unreliable links that may sleep."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.node.remembered import LastSent, recalled, remembered
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.unreliable.realization import Conditions

Array = npt.NDArray[np.float64]


class LossyAgent(Agent):
    """A node on unreliable links or with a clock of its own.

    It learns as the :class:`Agent` as long as every message arrives in time. Where one does not, its edge takes no part
    in the round's step (or the last message takes it once more). What arrives late couples the two functions at the
    points that it is about, where the node evaluates its present function. A node that is not awake does nothing: it
    draws no sample, and its neighbours receive nothing.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        As of :class:`Agent`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.conditions = conditions
        self._neighborhood = neighborhood
        self.inbox = Inbox(conditions, neighborhood, self.neighbors)
        self.drawn: dict[int, tuple[Array, Array]] = {}
        """The node's own samples by the round in which it sent their points."""
        self.predicted: dict[int, Array] = {}
        """What its function predicted there before it learned from them, by the same rounds."""
        self.sent_at = NO_ANSWER, NO_ANSWER
        """The rounds in which it sent the points that it learns from next, and those that follow."""
        self.received_at = np.full(degree, NO_ANSWER)
        """The rounds in which the neighbours' points were drawn that it has evaluated."""
        self.used = np.full((degree, 2), NO_ANSWER)
        """The rounds of the last messages whose answers, and whose own values, it has learned from."""
        self.last_sent: list[LastSent | None] = [None] * degree
        self.quiet = np.zeros(degree, dtype=np.bool_)
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        self.without_points = False
        """Whether its points travel in the message of another copy of the learner."""
        self.asks = neighborhood.asks[:degree] or (True,) * degree
        self.asked = neighborhood.asked[:degree] or (True,) * degree

    def begin_anew(self) -> None:
        """Reset the learner and the links to their state before the first round."""
        self.state, self.links = self.learner.init(self.width, self.outputs), self.rule.init(self._neighborhood)
        self.bound_noise()
        if self.buffer is not None:
            self.buffer.forget()

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the messages received and sent, and the rounds of the node's samples."""
        tally = self.tally
        assert tally.traffic is not None
        arrays: dict[str, npt.NDArray[Any]] = {
            "lossy.now": np.array([self.now, *self.sent_at]),
            "lossy.received_at": self.received_at.copy(),
            "lossy.used": self.used.copy(),
            "lossy.quiet": self.quiet.copy(),
            "lossy.traffic": tally.traffic.copy(),
        }
        arrays |= remembered(self.drawn, self.predicted, self.last_sent) | self.inbox.arrays()
        return arrays | super().further_arrays()

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        self.now, *sent_at = arrays["lossy.now"].tolist()
        self.sent_at = sent_at[0], sent_at[1]
        self.received_at, self.used = arrays["lossy.received_at"].copy(), arrays["lossy.used"].copy()
        self.quiet = arrays["lossy.quiet"].copy()
        self.tally.traffic = arrays["lossy.traffic"].copy()
        self.drawn, self.predicted, self.last_sent = recalled(arrays, len(self.neighbors))
        self.inbox.take_over(arrays)
        super().take_further(arrays)
