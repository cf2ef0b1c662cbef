"""A node with several copies of its learner, each under its own protocol, that answers with their mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from kernelswarm.agents.functions.contract import Averageable, Function
from kernelswarm.agents.learners.contract import Learner, PredictiveVariance
from kernelswarm.agents.nodes.agent import Agent, LossyAgent
from kernelswarm.agents.nodes.inbox import NO_ANSWER, Inbox
from kernelswarm.agents.nodes.node import Draws, Node, Tally
from kernelswarm.agents.nodes.snapshot import arrays_of, put
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, StackedRule
from kernelswarm.protocols.links.clocks import Synchronous
from kernelswarm.protocols.links.links import IDEAL, Links
from kernelswarm.protocols.links.realization import Conditions

PERFECT = Conditions(Links(max_age=0), Synchronous(), (0, 0))
"""Conditions of ideal links, for messages about copies."""

BYTES = 8.0
"""Bytes of a share, which is sent without rounding."""


class StackedAgent(Node):
    """A node whose copies learn from the same samples, each as it would alone.

    In a round the node first updates its mixture weights from the copies' predictions at its samples, and then each
    copy takes its step. A message holds the points once, the values of all communicating copies, and the logarithms of
    the copies' shares. Link conditions are the same for all copies. For each neighbour the node keeps the newest
    received mixture weights, of any age; neighbours that it does not ask have none. A sleeping node does nothing.
    Rounds run in arrays (:class:`~kernelswarm.agents.nodes.stacked_population.StackedPopulation`).

    Parameters
    ----------
    neighborhood, slots, source, inputs, outputs, targets
        See :class:`~kernelswarm.agents.nodes.node.Node`.
    learner : Learner
        The learner that is copied; its functions are :class:`Averageable`.
    rule : StackedRule
        The protocol.
    conditions : Conditions or None
        Links and clock, or None if they are ideal.
    """

    def __init__(
        self,
        neighborhood: Neighborhood,
        slots: Sequence[int],
        learner: Learner,
        rule: StackedRule,
        source: Draws,
        inputs: int,
        outputs: int,
        targets: int,
        conditions: Conditions | None = None,
    ) -> None:
        super().__init__(neighborhood, slots, learner, rule, rule.communicates, source, inputs, outputs, targets)
        self.rule = rule
        self.ensemble = [
            Agent(neighborhood, slots, learner, member, source, inputs, outputs, targets)
            if conditions is None
            else LossyAgent(
                neighborhood, slots, learner, member, source, inputs, outputs, targets, conditions=conditions
            )
            for member in rule.members
        ]
        for copy in [copy for copy in self.ensemble if copy.neighbors][1:]:
            copy.without_points = True
        self.state = self.ensemble[0].state
        degree = len(self.neighbors)
        if conditions is None:
            self.conditions = PERFECT
        else:
            self.conditions = replace(conditions, links=replace(conditions.links, quantization=IDEAL.quantization))
            self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        self.inbox = Inbox(self.conditions, neighborhood, self.neighbors)
        neighbors = np.array(self.neighbors, dtype=np.int64)[self.inbox.asks]
        self._asking = replace(neighborhood, neighbors=tuple(neighbors.tolist()))
        self.sent_at = NO_ANSWER
        """The last round in which it was awake."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Give all copies the same weight, and forget the neighbours' mixture weights."""
        self.links = self.rule.begin(self._asking)
        self.received = np.tile(self.rule.send(self.links), (len(self.neighbors), 1))
        """The mixture weights last received from each neighbour, (deg, K)."""

    def gather(self) -> None:
        """Take over the copies' points in flight, and the first copy's state, which may have been reset."""
        first = self.ensemble[0]
        self.state = first.state
        self.points, self.targets, self.following = first.points, first.targets, first.following
        self.received_points = self.ensemble[-1].received_points

    def duals(self) -> Array | None:
        """Return the dual variables of the last copy's directed edges, (deg,), or None."""
        return self.ensemble[-1].duals()

    def record(self) -> LinkRecord:
        return self.ensemble[-1].record()

    @property
    def function(self) -> Function:
        first, *others = [cast(Averageable, copy.function) for copy in self.ensemble]
        return first.averaged(others, self.rule.mixture_weights(self.links))

    def posterior(self) -> PredictiveVariance | None:
        """Return None: the variance of a mixture does not follow from its copies' variances."""
        return None

    def restart_tally(self) -> Tally:
        """Return the sums since the last call and start new ones, also for the copies."""
        for copy in self.ensemble:
            copy.restart_tally()
        return super().restart_tally()

    def sent(self) -> tuple[int, float]:
        """Return the numbers of scalars and bytes sent by the copies."""
        tallies = [copy.tally for copy in self.ensemble]
        return sum(tally.scalars_sent for tally in tallies), sum(tally.bytes_sent for tally in tallies)

    def add_up(self, rounds: int, scalars: int) -> None:
        """Take over the copies' sums after ``rounds`` rounds, in which the node has sent ``scalars`` numbers."""
        tally, last = self.tally, self.ensemble[-1].tally
        tally.rounds += rounds
        tally.scalars_sent += scalars
        errors = np.array([copy.tally.compression_error for copy in self.ensemble])
        tally.compression_error = float(self.rule.mixture_weights(self.links) @ errors)
        tally.constraint_values, tally.constraint_rounds, tally.violation = (
            last.constraint_values.copy(),
            last.constraint_rounds.copy(),
            last.violation.copy(),
        )

    def further_arrays(self) -> dict[str, AnyArray]:
        """Return the snapshots of all copies; on unreliable links, also the mixture weights received."""
        arrays = {
            f"copies.{k}.{name}": array
            for k, copy in enumerate(self.ensemble)
            for name, array in arrays_of(copy).items()
        }
        if self.tally.traffic is not None:  # on ideal links all messages arrive in the next round
            arrays |= {
                "lossy.now": np.array([self.now, self.sent_at]),
                "lossy.received": self.received.copy(),
                "lossy.traffic": self.tally.traffic.copy(),
                **self.inbox.arrays,
            }
        return arrays

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`."""
        for k, copy in enumerate(self.ensemble):
            start = f"copies.{k}."
            own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            put(copy, own)
        self.sent_at = self.now - 1
        if "lossy.now" in arrays:
            self.now, self.sent_at = arrays["lossy.now"].tolist()
            self.received, self.tally.traffic = arrays["lossy.received"].copy(), arrays["lossy.traffic"].copy()
            self.inbox.take_over(arrays)
