"""A node that exchanges vectors on unreliable links."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.node.vectors import VectorNode
from kernelswarm.protocols.contract import Neighborhood, requirement_of
from kernelswarm.protocols.links.links import bytes_of
from kernelswarm.protocols.unreliable.realization import Conditions

Array = npt.NDArray[np.float64]


class LossyVectorNode(VectorNode):
    """A node that exchanges vectors on unreliable links or with a clock of its own.

    It is the :class:`VectorNode` as long as every vector arrives in time. Of each neighbour it takes the newest vector
    that has arrived; where there is none that is new, the edge counts nothing in the round, or, with ``on_missing
    = "repeat"``, that vector once more. A trigger keeps the node from sending while its vector is no farther than the
    threshold from the one that it sent last. A node that is not awake does nothing. All that happens in arrays
    (:class:`~kernelswarm.agents.compiled.lossy_vector_population.LossyVectorPopulation`).

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        As of :class:`VectorNode`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.conditions = conditions
        self.inbox = Inbox(conditions, neighborhood, self.neighbors)
        self._neighborhood = neighborhood
        self.sent_at = NO_ANSWER
        """The round in which its present vector was ready to be sent."""
        self.used = np.full(degree, NO_ANSWER)
        """The rounds of the last vectors that it has received."""
        self.last_sent: Array = self._sent()[0]
        """The vector that its neighbours know."""
        self.quiet = False
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        self.asks = np.array(neighborhood.asks[:degree] or (True,) * degree, dtype=np.bool_)
        self.asked = np.array(neighborhood.asked[:degree] or (True,) * degree, dtype=np.bool_)

    @property
    def message_bytes(self) -> float:
        return bytes_of(self.width, 0, 0, 1, self.conditions.links.bits)

    def begin_anew(self) -> None:
        """Reset the node to its state before the first round; samples drawn and not learned from stay."""
        self.state = self.learner.init(self._inputs, self.outputs)
        self.links = self.rule.begin(self._neighborhood, self._linear.coefficients(self.state).copy())
        self.bound_noise()
        self.begun = self.round
        self.own = self.learner.evaluate(self.state, self.points)
        self.adapt()
        self.last_sent, self.quiet = self._sent()[0], False

    def remedy(self) -> str:
        """Name the protocol's limits on unreliable links, else the keys to lower."""
        realization = not (self.conditions.links.ideal and self.conditions.clock.ideal)
        return (requirement_of(self.rule) if realization else None) or super().remedy()

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        assert self.tally.traffic is not None
        return {
            "lossy.now": np.array([self.now, self.sent_at]),
            "lossy.begun": np.array(self.begun),
            "lossy.used": self.used.copy(),
            "lossy.quiet": np.array(self.quiet),
            "lossy.last_sent": self.last_sent.copy(),
            "lossy.traffic": self.tally.traffic.copy(),
            **self.inbox.arrays(),
        }

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        self.now, self.sent_at = arrays["lossy.now"].tolist()
        self.used, self.last_sent = arrays["lossy.used"].copy(), arrays["lossy.last_sent"].copy()
        self.begun = int(arrays["lossy.begun"])
        self.quiet = bool(arrays["lossy.quiet"])
        self.tally.traffic = arrays["lossy.traffic"].copy()
        self.inbox.take_over(arrays)
