"""A node with several copies of its learner on links, and by a clock, that are not ideal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.heard import NO_ANSWER, SENT, SILENT, Inbox
from kernelswarm.agents.node.node import PRIMING, Outgoing
from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.agents.node.weathered import WeatheredAgent
from kernelswarm.protocols.contract import Neighborhood, Rule
from kernelswarm.protocols.weather.weather import Conditions

Array = npt.NDArray[np.float64]

BYTES = 8.0
"""Of a number that is sent as it is."""


class WeatheredStackedAgent(StackedAgent):
    """A node on links that lose and delay messages, and by a clock.

    It is the :class:`StackedAgent` as long as every message arrives in time. All copies meet the same weather, each as
    it would alone, since they travel in one message. Of each neighbour's opinion on the copies the node keeps the
    newest that has arrived, however old. A node that is not awake does nothing.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs
        As of :class:`StackedAgent`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        self._conditions = conditions
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.inbox = Inbox(conditions, neighborhood, self.neighbors, 0)
        self.now = 0
        """The round of the network that comes next, those included that prime it."""
        self.sent_at = NO_ANSWER
        """The round in which it was awake last."""
        self.heard = np.tile(self.rule.say(self.links), (degree, 1))
        """What each neighbour said last of its copies, as far as is known here, (deg, K)."""
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)

    def advance(self, incoming: Sequence[Outgoing]) -> Outgoing:
        """Live through one round with what the neighbours sent, and return what this node sends."""
        now, traffic = self.now, self.tally.traffic
        assert traffic is not None
        self.now += 1
        awake = self.inbox.awake(now - PRIMING)
        for e, (message, slot) in enumerate(zip(incoming, self.slots, strict=bool(incoming))):
            self.inbox.take(e, message.copies[-1], slot, now, traffic[e])
        self.inbox.deliver(now, awake, traffic)
        learns = awake and self.own is not None
        if learns:
            for e in range(len(self.neighbors)):
                newest = self.inbox.newest(e, now)
                if newest is not None:
                    self.heard[e] = newest.points[0]
            self._weigh(self.heard)
            self.round += 1
        if awake:
            self.hand(*self.source.draw(self.learner.batch_size))
            self.sent_at = now
        sent = self.sent()
        self._advance_copies(incoming)
        self.gather()
        if learns:
            assert self.following is not None
            self.add_up(1, sent, self.following[0].size)
            traffic[:, SENT] += 1
            self.tally.bytes_sent = BYTES * self.tally.scalars_sent
        return self.outgoing()

    def outgoing(self) -> Outgoing:
        """Return what all copies send, and what neighbours hear of their shares, if the node is awake."""
        sent = super().outgoing()
        sent.copies[-1].stamps = np.full(
            1 + len(self.neighbors), float(NO_ANSWER if self.sent_at == self.now - 1 else SILENT)
        )
        return sent

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the snapshots of all copies, and what the node has heard of its neighbours'."""
        assert self.tally.traffic is not None
        return {
            **super().further_arrays(),
            "weather.now": np.array([self.now, self.sent_at]),
            "weather.heard": self.heard.copy(),
            "weather.traffic": self.tally.traffic.copy(),
            **self.inbox.arrays(),
        }

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        super().take_further(arrays)
        self.now, self.sent_at = arrays["weather.now"].tolist()
        self.heard, self.tally.traffic = arrays["weather.heard"].copy(), arrays["weather.traffic"].copy()
        self.inbox.take_over(arrays)

    def _copy(self, neighborhood: Neighborhood, slots: Sequence[int], member: Rule, inputs: int) -> Agent:
        """Return a copy under one protocol."""
        parts = (slots, self.learner, member, self._handed, inputs, self.outputs)
        return WeatheredAgent(neighborhood, *parts, conditions=self._conditions)
