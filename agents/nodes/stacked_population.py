"""Nodes with several copies of their learner, held in arrays, so that whole rounds run in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes.arrays import LARGE_VALUES, RETURNED, Flight, edges_at
from kernelswarm.agents.nodes.drawing import NOT_KEPT, follow_steps
from kernelswarm.agents.nodes.filling import (
    MessageLayout,
    joined,
    kinds_of,
)
from kernelswarm.agents.nodes.messages import Messages
from kernelswarm.agents.nodes.mixture_weights import (
    Ensemble,
    Outcomes,
    mixture_work,
    update_mixture_weights,
)
from kernelswarm.agents.nodes.node import DIVERGED, DivergenceError, follow_bands
from kernelswarm.agents.nodes.population import population_of
from kernelswarm.agents.nodes.stacked import BYTES, StackedAgent
from kernelswarm.agents.nodes.turns import settle
from kernelswarm.agents.nodes.vectors import HandedStates
from kernelswarm.agents.parts.plain_parts import AtTurn, fill, kept
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import Predictions
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import array_of
from kernelswarm.protocols.ensemble.stacking import LEARN, MIXTURE_WEIGHTS, RECEIVE, SEND, CompiledStackedRule

# The functions of a protocol with copies for compiled rounds, in compiled or plain Python code.


def ensembles_form(nodes: Sequence[StackedAgent]) -> HandedEnsembles | PlainEnsembles:
    """Return the compiled functions of the nodes' protocol, or functions that call its methods."""
    try:
        return HandedEnsembles(nodes, handed_over(nodes[0].rule, "protocol"))
    except NotCompiledError:
        return PlainEnsembles(nodes)


class HandedEnsembles(HandedStates):
    """A protocol with compiled functions.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        The nodes, by index.
    rule : CompiledStackedRule
        The protocol's compiled functions.
    """

    def __init__(self, nodes: Sequence[StackedAgent], rule: CompiledStackedRule) -> None:
        super().__init__(nodes)
        self.rule = rule


class PlainEnsembles:
    """A protocol whose Python methods are called by compiled rounds.

    A node's state remains a Python object, and its vector contains the node's index.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        The nodes, by index.
    """

    def __init__(self, nodes: Sequence[StackedAgent]) -> None:
        self._nodes, self._name = nodes, type(nodes[0].rule).__name__
        methods = self._learn, self._receive, self._send, self._mixture_weights
        self.rule = CompiledStackedRule(*methods, numbers=np.zeros(0))

    def pack(self, place: int) -> Array:
        """Return a node's index as a vector."""
        return np.array([float(place)])

    def unpack(self, place: int, vector: Array) -> None:
        """Do nothing: the node holds its state."""

    def _learn(
        self,
        _numbers: Array,
        vector: Array,
        values: Array,
        losses: Array,
        mixture: Array,
        gradients: Array,
        curvature: float,
        regression: int,
    ) -> None:
        node = self._nodes[int(vector[0])]
        arrays = kept(values), kept(losses), kept(mixture), kept(gradients)
        seen = Predictions(*arrays, curvature, bool(regression))
        node.links = node.rule.learn(node.links, seen)

    def _receive(self, _numbers: Array, vector: Array, sent: Array) -> None:
        node = self._nodes[int(vector[0])]
        node.links = node.rule.receive(node.links, kept(sent))

    def _send(self, _numbers: Array, vector: Array, sent: Array) -> None:
        node = self._nodes[int(vector[0])]
        fill(sent, node.rule.send(node.links), f"{self._name}.send")

    def _mixture_weights(self, _numbers: Array, vector: Array, found: Array) -> None:
        node = self._nodes[int(vector[0])]
        fill(found, node.rule.mixture_weights(node.links), f"{self._name}.mixture_weights")


class StackedPopulation:
    """Nodes with copies in arrays that run their rounds together.

    The copies under one protocol are a :class:`~kernelswarm.agents.nodes.population.Population`. All copies learn from
    the same samples for some rounds; then the nodes update their mixture weights from the copies' values. On unreliable
    links mixture weights are sent like vectors; on ideal links all of them arrive in their round.

    Parameters
    ----------
    agents : sequence of StackedAgent
        In sorted order of their labels.
    """

    completed = 0
    answers = symmetric = sends_duals = False
    """The layout of messages that contain only mixture weights."""

    def __init__(self, agents: Sequence[StackedAgent]) -> None:
        self.agents = agents
        first = agents[0]
        self.populations = [population_of([agent.ensemble[k] for agent in agents]) for k in range(len(first.ensemble))]
        self._talking = max(self.populations, key=lambda each: len(each.links.other))
        self.places, self.links = self._talking.places, self._talking.links
        labels, members = list(self.places), len(self.populations)
        self._kinds = kinds_of(agents, learner_forms([agent.learner for agent in agents]))
        self._protocol = ensembles_form(agents)
        self._ensemble = ensemble_of(agents, self._protocol, len(labels))
        self._work = mixture_work(self.links, members, self._talking.outcomes[0].shape[2], first.outputs)
        messages = self._messages = Messages(agents, self.links, self.places, MessageLayout(1, members, 0))
        sent_at, none = np.array([agent.sent_at for agent in agents], dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._exchange = messages.exchange(sent_at, none > 0, none, True, 0.0)
        self._sent = [agent.sent() for agent in agents]  # at the last call of :meth:`sync`
        self.now = first.now
        everywhere = np.ones(len(self.links.other), dtype=np.bool_)
        logs, sends = self._ensemble.logs[: len(agents)], self._exchange.sent_at == self.now - 1
        messages.send_again(self.now, sends, logs, everywhere)
        self._drawn = 0  # the number of rounds with drawn samples
        self._ensemble.loss[:] = [agent.tally.loss for agent in agents]
        self._banded, self._late = any(agent.band is not None for agent in agents), first.tally.traffic is not None

    def flight(self) -> Flight:
        """Return the mixture weights sent last, with room for the weights received next."""
        return self._messages.flight(self.now)

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound.
        """
        self.completed = 0
        while self.completed < rounds:
            known = self._drawn - int(self._exchange.counts.cursor.max())
            if known:
                self._run_rounds(min(rounds - self.completed, known))
            else:
                self._draw(rounds - self.completed)

    def sync(self) -> None:
        for each in self.populations:
            each.sync()
        known, counts = self._ensemble, self._exchange.counts
        for i, agent in enumerate(self.agents):
            steps, numbers, edges = int(counts.learned[i]), int(counts.scalars[i]), edges_at(self.links, i)
            agent.sent_at = int(self._exchange.sent_at[i])
            self._protocol.unpack(i, known.states[i])
            agent.round += steps
            settle(agent, i, self.now, 0, int(known.samples[i]) - agent.samples, known)
            agent.received = known.received[edges].copy()
            (scalars, size), (sent, sent_size) = agent.sent(), self._sent[i]
            agent.add_up(steps, scalars - sent + numbers)
            if self._late:
                agent.tally.traffic = counts.traffic[edges].copy()
                agent.tally.bytes_sent += size - sent_size + BYTES * numbers
            self._sent[i] = scalars, size
        counts.learned[:], counts.scalars[:] = 0, 0

    def restart_sums(self) -> None:
        """Start new sums after a report."""
        for each in self.populations:
            each.restart_sums()
        self._ensemble.loss[:] = [agent.tally.loss for agent in self.agents]

    def scatter(self) -> list[tuple[Array, Array]]:
        """Store the content of all arrays in the nodes, after :meth:`sync`; returns samples drawn ahead, by node."""
        drawn = [each.scatter() for each in self.populations]
        self._messages.hand_back(self.now)
        for agent in self.agents:
            agent.gather()
        return drawn[0]

    def _draw(self, rounds: int) -> None:
        """Draw the samples of at most ``rounds`` further rounds."""
        talking = self._talking
        drawn = talking.draw(self.agents, rounds)
        talking.load(drawn)
        for each in self.populations:
            if each is not talking:
                each.load(drawn, talking)
        targets, samples = talking.outcomes
        predicted = np.zeros((len(self.populations), *targets.shape[:3], self.agents[0].outputs))
        for each, part in zip(self.populations, predicted, strict=True):
            each.predicted = part
        mixtures = np.zeros(predicted.shape[1:]) if self._banded else NOT_KEPT
        self._outcomes = Outcomes(predicted, targets, samples, mixtures, not self._late)
        self._drawn = len(drawn.counts)
        self._exchange.counts.cursor[:] = 0

    def _begin_anew(self) -> None:
        """Reset the nodes that return in the next round."""
        exchange, now = self._exchange, self.now
        for i in self._messages.returning(now, exchange.sent_at, exchange.begun).tolist():
            agent, edges = self.agents[i], edges_at(self.links, i)
            agent.begin_anew()
            state = self._protocol.pack(i)
            self._ensemble.states[i, : len(state)] = state
            self._ensemble.received[edges] = agent.received
            self._messages.forget(i, now)
            exchange.begun[i] = now

    def _run_rounds(self, count: int) -> None:
        """Run some rounds whose samples have been drawn; raises for the first node that diverges."""
        errors: list[tuple[int, int, DivergenceError]] = []
        for each in self.populations:
            failed = True
            try:
                each.run(count)
                failed = False
            except DivergenceError as error:
                errors.append((each.completed, error.node, error))
                count = each.completed + 1  # another copy may diverge earlier
                failed = False
            finally:
                self.completed += each.completed if failed else 0
        first, done = min(errors, key=lambda entry: entry[:2], default=None), 0
        while done < count:
            completed, node = self._update(count - done)
            done += completed
            if node >= 0 and (first is None or (done, self.agents[node].node) <= first[:2]):
                self.sync()
                at = self._exchange.counts.cursor[node], node
                self.agents[node].check_values(self._work.mixture[: self._outcomes.samples[at]])
            if node >= 0:
                break
        if first is not None:
            raise first[2]

    def _update(self, count: int) -> tuple[int, int]:
        """Update mixture weights for some rounds; returns their number, and the node with a large mixture, or -1."""
        happens, count = self._messages.rounds(self.now, count)
        cursor, outcomes = self._exchange.counts.cursor, self._outcomes
        before = cursor.tolist()
        with AtTurn(self, self._ensemble.turn):
            reason, completed, node = update_mixture_weights(
                self._ensemble,
                self._kinds,
                self.links,
                outcomes,
                self._work,
                self._exchange,
                happens,
                self.now,
                count,
                DIVERGED,
            )
        if self._banded:
            known = outcomes.mixtures, outcomes.targets, outcomes.samples
            if self._late:
                follow_steps(self.agents, *known, before, cursor.tolist(), completed)
            else:
                follow_bands(self.agents, *known, before[0], completed)
        self.now += completed
        self.completed += completed
        if reason == RETURNED:
            self._begin_anew()
        return completed, node if reason == LARGE_VALUES else -1


def ensemble_of(
    agents: Sequence[StackedAgent],
    protocol: HandedEnsembles | PlainEnsembles,
    places: int,
) -> Ensemble:
    """Return the nodes' mixture weights, with room for the weights of neighbours in other blocks."""
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
        received=np.concatenate([logs[:0], *[agent.received for agent in agents]]),
        regression=np.array([agent.learner.loss.task == "regression" for agent in agents], dtype=np.int64),
        loss=np.zeros(len(agents)),
        largest_target=np.array([agent.largest_target for agent in agents]),
        samples=np.array([agent.samples for agent in agents], dtype=np.float64),
        distinct=np.array([agent.distinct for agent in agents], dtype=np.float64),
        turn=np.zeros(2, dtype=np.int64),
    )
