"""Nodes with several copies of their learner held in arrays, so that whole rounds run in compiled code."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import Kinds
from kernelswarm.agents.compiled.drawing import NOT_KEPT, ahead, draw_rounds
from kernelswarm.agents.compiled.filling import joined, kinds_of, outside_of
from kernelswarm.agents.compiled.population import Population
from kernelswarm.agents.learners.forms import learner_forms
from kernelswarm.agents.node.node import DIVERGED, PRIMING, DivergenceError, follow_bands
from kernelswarm.agents.node.stacked import StackedAgent
from kernelswarm.agents.plain.turn import AtTurn
from kernelswarm.agents.populations.mixture_weights import Ensemble, mixture_work, update_mixture_weights
from kernelswarm.agents.populations.plain_ensembles import HandedEnsembles, PlainEnsembles, ensembles_form
from kernelswarm.protocols.core.callbacks import array_of
from kernelswarm.protocols.ensemble.compiled import LEARN, MIXTURE_WEIGHTS, RECEIVE, SEND
from kernelswarm.protocols.first_class import address

Array = npt.NDArray[np.float64]


class StackedPopulation:
    """Nodes with copies in arrays, which run their rounds together.

    The copies under one protocol are a :class:`~kernelswarm.agents.compiled.population.Population`, and all of them
    learn from the same samples for some rounds. Then the nodes update their mixture weights by the copies' values.

    Parameters
    ----------
    agents : sequence of StackedAgent
        In sorted order of their labels.
    """

    completed = 0

    def __init__(self, agents: Sequence[StackedAgent]) -> None:
        self.agents = agents
        first = agents[0]
        self.populations = [Population([agent.ensemble[k] for agent in agents]) for k in range(len(first.ensemble))]
        self._outside = outside_of(agents)
        self._widest = max(self.populations, key=lambda each: len(each.links.other))  # of a copy that communicates
        self.places = {agent.node: i for i, agent in enumerate(agents)}
        self.places |= {node: len(agents) + k for k, node in enumerate(self._outside)}
        self._links = self._widest.links
        self._kinds = kinds_of_nodes(agents)
        self._outputs = first.outputs
        self._batches = self._widest.batches
        self._predicted = np.zeros((0, 0, 0, 0, 0))
        self._banded, self._mixtures = any(agent.band is not None for agent in agents), NOT_KEPT
        room = self._batches.targets.shape[2]
        self._work = mixture_work(self._links, len(self.populations), room, self._outputs)
        self._protocol = ensembles_form(agents)
        self._ensemble = ensemble_of(agents, self._protocol, len(self.places))
        self.restart_sums()
        self._sent = [agent.sent() for agent in agents]  # at the last call of :meth:`sync`
        self._at = 0  # the next round, by its place in the batches
        self._now = first.now
        self._counted = 0  # the first round whose samples are not counted yet
        self._since_sync = np.zeros((2, len(agents)), dtype=np.int64)  # samples and points

    @property
    def logs(self) -> Array:
        """The logarithms of mixture weights sent last, with room for those received next, (V + outside, K)."""
        return self._ensemble.logs

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound.
        """
        left, self.completed = rounds, 0
        while left:
            known = self._batches.points.shape[1] - 2 - self._at
            if not known:
                self._draw(left)
                continue
            count = min(left, known if self._now >= PRIMING else 1)
            self._run_rounds(count)
            self._at += count
            self._now += count
            self.completed += count
            left -= count

    def sync(self) -> None:
        for each in self.populations:
            each.sync()
        self._count()
        rounds = max(0, self._now - PRIMING) - self.agents[0].round
        known, since = self._ensemble, self._since_sync.T.tolist()
        for i, (agent, (samples, points)) in enumerate(zip(self.agents, since, strict=True)):
            self._protocol.unpack(i, known.states[i])
            agent.now = self._now
            agent.round += rounds
            agent.samples += samples
            agent.tally.samples += samples
            agent.tally.loss = float(known.loss[i])
            agent.largest_target = float(known.largest_target[i])
            agent.add_up(rounds, agent.sent() - self._sent[i] + agent.besides(rounds, points * agent.width))
            self._sent[i] = agent.sent()
        self._since_sync[:] = 0

    def _count(self) -> None:
        """Count the samples that nodes have learned from, and the points of a copy that communicates."""
        learned, self._counted = slice(self._counted, self._at), self._at
        counted = self._batches.samples, self._batches.sent[:, : len(self.agents)]
        self._since_sync += np.stack([counts[learned].sum(axis=0) for counts in counted])

    def restart_sums(self) -> None:
        """Begin new sums after a report."""
        for each in self.populations:
            each.restart_sums()
        self._ensemble.loss[:] = [agent.tally.loss for agent in self.agents]

    def scatter(self) -> list[tuple[Array, Array]]:
        """Hand the samples in flight back to the nodes, after :meth:`sync`; returns those drawn ahead, by node."""
        for each in self.populations:
            each.scatter()
        for agent in self.agents:
            agent.gather()
        return self._batches.since(self._at).behind()

    def _draw(self, rounds: int) -> None:
        """Draw the samples of at most ``rounds`` further rounds."""
        self._count()
        ensemble, nodes, widest = len(self.populations), len(self.agents), self._widest
        columns = self._batches.points.shape[3] + self._batches.targets.shape[3] + ensemble * self._outputs
        drawn = draw_rounds(self.agents, ahead(rounds, self._now - PRIMING), widest.room, columns)
        self._batches = widest.batches.since(self._at).followed_by(*drawn)
        self._predicted = np.zeros((ensemble, nodes, *self._batches.targets.shape[1:3], self._outputs))
        self._mixtures = np.zeros(self._predicted.shape[1:]) if self._banded else NOT_KEPT
        for each, predicted in zip(self.populations, self._predicted, strict=True):
            alike = each.room == widest.room and len(each.places) == len(widest.places)
            own = self._batches if alike else each.batches.since(self._at).followed_by(*drawn)
            each.load(own, predicted)
        self._at = self._counted = 0

    def _run_rounds(self, count: int) -> None:
        """Run some rounds whose samples have been drawn."""
        errors: list[DivergenceError] = []
        for each in self.populations:
            failed = True
            try:
                each.run(count)
                failed = False
            except DivergenceError as error:
                errors.append(error)
                count = error.round - (self._now - PRIMING)  # another copy may diverge before
                failed = False
            finally:
                self.completed += each.completed if failed else 0
        completed, place = count, -1
        if self._now >= PRIMING:  # before, nobody has anything to weigh
            with AtTurn(self, self._ensemble.turn):
                completed, place = update_mixture_weights(
                    self._ensemble,
                    self._kinds,
                    self._links,
                    self._predicted,
                    self._batches.targets,
                    self._batches.samples,
                    self._mixtures,
                    self._work,
                    self._at,
                    count,
                    DIVERGED,
                )
        if self._banded:
            follow_bands(self.agents, self._mixtures, *self._batches[1:3], self._at, completed)
        first = min(errors, key=lambda error: (error.round, error.node), default=None)
        if place >= 0:
            agent = self.agents[place]
            agent.round = self._now - PRIMING + completed
            if first is None or (agent.round + 1, agent.node) <= (first.round, first.node):
                agent.largest_target = float(self._ensemble.largest_target[place])
                agent.check_values(self._work.mixture[: self._batches.samples[self._at + completed, place]])
        if first is not None:
            raise first


def kinds_of_nodes(agents: Sequence[StackedAgent]) -> Kinds:
    """Return the functions and the numbers of the different learners of the nodes' copies."""
    return kinds_of(agents, learner_forms([agent.learner for agent in agents]))


def ensemble_of(
    agents: Sequence[StackedAgent],
    protocol: HandedEnsembles | PlainEnsembles,
    places: int,
) -> Ensemble:
    """Return the nodes' mixture weights, with room for those of their neighbours in other blocks."""
    functions = zip(protocol.rule[:4], (LEARN, RECEIVE, SEND, MIXTURE_WEIGHTS), strict=True)
    states = [protocol.pack(i) for i in range(len(agents))]
    logs = np.zeros((places, len(agents[0].ensemble)))
    logs[: len(agents)] = [agent.rule.send(agent.links) for agent in agents]
    return Ensemble(
        functions=array_of([address(*each) for each in functions]),
        numbers=protocol.rule.numbers,
        states=joined(states, np.float64),
        lengths=np.array([len(state) for state in states], dtype=np.int64),
        logs=logs,
        regression=np.array([agent.learner.loss.task == "regression" for agent in agents], dtype=np.int64),
        loss=np.zeros(len(agents)),
        largest_target=np.array([agent.largest_target for agent in agents]),
        samples=np.array([agent.samples for agent in agents], dtype=np.float64),
        distinct=np.array([agent.distinct for agent in agents], dtype=np.float64),
        turn=np.zeros(2, dtype=np.int64),
    )
