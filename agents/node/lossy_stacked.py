"""A node with several copies of its learner on unreliable links."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.protocols.contract import Neighborhood, Rule
from kernelswarm.protocols.links.links import IDEAL
from kernelswarm.protocols.unreliable.realization import Conditions

Array = npt.NDArray[np.float64]

BYTES = 8.0
"""Of a share, which is sent as it is."""


class LossyStackedAgent(StackedAgent):
    """A node with several copies of its learner on unreliable links or with a clock of its own.

    It is the :class:`StackedAgent` as long as every message arrives in time. All copies meet the same link conditions,
    each as it would alone, since they travel in one message. Of each neighbour's opinion on the copies the node keeps
    the newest that has arrived, however old; where it does not ask a neighbour, that has none. A node that is not awake
    does nothing.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        As of :class:`StackedAgent`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        self._conditions = conditions
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        asks = np.array(neighborhood.asks[:degree] or (True,) * degree, dtype=np.bool_)
        self.asks, self.asked = asks, np.array(neighborhood.asked[:degree] or (True,) * degree, dtype=np.bool_)
        self._asking = replace(neighborhood, neighbors=tuple(np.array(self.neighbors, dtype=np.int64)[asks].tolist()))
        as_it_is = replace(conditions, links=replace(conditions.links, quantization=IDEAL.quantization))
        self.conditions = as_it_is
        """Links and clock, of what it says of its copies."""
        self.inbox = Inbox(as_it_is, neighborhood, self.neighbors)
        self.sent_at = NO_ANSWER
        """The round in which it was awake last."""
        self.begin_anew()
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        talking = [cast(LossyAgent, copy) for copy in self.ensemble if copy.neighbors]
        for copy in talking[1:]:
            copy.without_points = True

    def begin_anew(self) -> None:
        """Give all copies the same weight, and forget the neighbours' mixture weights."""
        self.links = self.rule.begin(self._asking)
        self.received = np.tile(self.rule.send(self.links), (len(self.neighbors), 1))
        """What each neighbour sent last of its copies, as far as is known here, (deg, K)."""

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the snapshots of all copies, and the mixture weights received from neighbours."""
        assert self.tally.traffic is not None
        return {
            **super().further_arrays(),
            "lossy.now": np.array([self.now, self.sent_at]),
            "lossy.received": self.received.copy(),
            "lossy.traffic": self.tally.traffic.copy(),
            **self.inbox.arrays(),
        }

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        super().take_further(arrays)
        self.now, self.sent_at = arrays["lossy.now"].tolist()
        self.received, self.tally.traffic = arrays["lossy.received"].copy(), arrays["lossy.traffic"].copy()
        self.inbox.take_over(arrays)

    def bytes_of_copies(self) -> float:
        """Return the bytes that the copies have sent, with the points counted once."""
        return sum(copy.tally.bytes_sent for copy in self.ensemble)

    def _copy(self, neighborhood: Neighborhood, slots: Sequence[int], member: Rule) -> Agent:
        """Return a copy under one protocol."""
        parts = (slots, self.learner, member, self.source, *self._sizes())
        return LossyAgent(neighborhood, *parts, conditions=self._conditions)
