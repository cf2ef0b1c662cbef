"""A node with several copies of its learner, each under a protocol of its own, that answers with their mixture."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.contract import Averageable, Function
from kernelswarm.agents.learners.contract import Learner, PredictiveVariance
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.node import Draws, Node, Tally
from kernelswarm.agents.node.snapshot import arrays_of, put
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, Rule, StackedRule

Array = npt.NDArray[np.float64]


class StackedAgent(Node):
    """A node whose copies learn from the same samples, each as it would alone.

    In a round the node first weighs its copies by what they say of its samples, then each takes its step. A message
    holds the points once, the values of all copies that communicate, and the logarithms of the copies' shares. Rounds
    run in arrays (:class:`~kernelswarm.agents.populations.stacked_population.StackedPopulation`).

    Parameters
    ----------
    neighborhood, slots, source, inputs, outputs, targets
        As of :class:`~kernelswarm.agents.node.node.Node`.
    learner : Learner
        The learner that there are copies of; its functions are :class:`Averageable`.
    rule : StackedRule
        The protocol.
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
    ) -> None:
        super().__init__(neighborhood, slots, learner, rule, rule.communicates, source, inputs, outputs, targets)
        self.rule = rule
        self.ensemble = [self._copy(neighborhood, slots, member) for member in rule.members]
        self.state = self.ensemble[0].state
        self.links = rule.begin(neighborhood)

    def gather(self) -> None:
        """Take over the copies' points in flight, and the state of the first, which may have begun anew."""
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
        """Return None: the variance of a mixture does not follow from those of its copies."""
        return None

    def restart_tally(self) -> Tally:
        """Return the sums since the last call and start new ones, the copies' too."""
        for copy in self.ensemble:
            copy.restart_tally()
        return super().restart_tally()

    def sent(self) -> int:
        """Return the count of numbers that the copies have sent, with the points of each."""
        return sum(copy.tally.scalars_sent for copy in self.ensemble)

    def besides(self, rounds: int, points: int) -> int:
        """Return the count of numbers that the node has sent beyond its copies: mixture weights, and points once.

        Parameters
        ----------
        rounds : int
            In how many rounds.
        points : int
            The numbers of the points that one copy has sent to each neighbour in them.
        """
        talking = sum(bool(copy.neighbors) for copy in self.ensemble)
        return len(self.neighbors) * (rounds * len(self.ensemble) - max(0, talking - 1) * points)

    def add_up(self, rounds: int, scalars: int) -> None:
        """Take over the copies' sums after some rounds, in which the node has sent so many numbers."""
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

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            f"copies.{k}.{name}": array
            for k, copy in enumerate(self.ensemble)
            for name, array in arrays_of(copy).items()
        }

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        for k, copy in enumerate(self.ensemble):
            start = f"copies.{k}."
            own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            put(copy, own)

    def _copy(self, neighborhood: Neighborhood, slots: Sequence[int], member: Rule) -> Agent:
        """Return a copy under one protocol."""
        return Agent(neighborhood, slots, self.learner, member, self.source, *self._sizes())

    def _sizes(self) -> tuple[int, int, int]:
        return self.width, self.outputs, self.targets.shape[1]
