"""Nodes with several copies of their learner held in arrays, so that whole rounds run in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes.agent import LossyAgent
from kernelswarm.agents.nodes.arrays import ABSENT, NO_VARIANCES, Flight, Kinds
from kernelswarm.agents.nodes.drawing import NOT_KEPT, Laid, ahead, draw_rounds
from kernelswarm.agents.nodes.filling import joined, kinds_of, outside_of
from kernelswarm.agents.nodes.lossy_filling import (
    MessageLayout,
    counts_of,
    mail_of,
    packets_of,
    realization_of,
    realized_from,
    send_again,
    terms_of,
)
from kernelswarm.agents.nodes.lossy_population import LossyPopulation
from kernelswarm.agents.nodes.mixture_weights import (
    Ensemble,
    MixtureExchange,
    mixture_work,
    update_lossy_mixture_weights,
    update_mixture_weights,
)
from kernelswarm.agents.nodes.node import DIVERGED, PRIMING, DivergenceError, follow_bands
from kernelswarm.agents.nodes.population import Population
from kernelswarm.agents.nodes.stacked import BYTES, LossyStackedAgent, StackedAgent
from kernelswarm.agents.nodes.vector_population import NO_DUALS
from kernelswarm.agents.parts.plain_parts import AtTurn, fill, kept
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import Predictions
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import array_of
from kernelswarm.protocols.ensemble.stacking import LEARN, MIXTURE_WEIGHTS, RECEIVE, SEND, CompiledStackedRule
from kernelswarm.protocols.parameters.contract import packed, unpacked

# A protocol with copies for compiled rounds, whether it is compiled or not.


def ensembles_form(nodes: Sequence[StackedAgent]) -> HandedEnsembles | PlainEnsembles:
    """Return the compiled functions of the nodes' protocol, or functions that call its methods."""
    try:
        return HandedEnsembles(nodes, handed_over(nodes[0].rule, "protocol"))
    except NotCompiledError:
        return PlainEnsembles(nodes)


class HandedEnsembles:
    """A protocol with compiled functions, which change the nodes' states in arrays.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        By their places.
    rule : CompiledStackedRule
        Its compiled functions.
    """

    def __init__(self, nodes: Sequence[StackedAgent], rule: CompiledStackedRule) -> None:
        self._nodes, self.rule = nodes, rule

    def pack(self, place: int) -> Array:
        """Return a node's state of the protocol as a vector."""
        return packed(self._nodes[place].links)

    def unpack(self, place: int, vector: Array) -> None:
        """Set a node's state of the protocol from a vector."""
        node = self._nodes[place]
        node.links = unpacked(node.links, vector)


class PlainEnsembles:
    """A protocol whose methods are called by compiled rounds.

    A node's state stays a Python object, and its vector holds the node's place.

    Parameters
    ----------
    nodes : sequence of StackedAgent
        By their places.
    """

    def __init__(self, nodes: Sequence[StackedAgent]) -> None:
        self._nodes, self._name = nodes, type(nodes[0].rule).__name__
        methods = self._learn, self._receive, self._send, self._mixture_weights
        self.rule = CompiledStackedRule(*methods, numbers=np.zeros(0))

    def pack(self, place: int) -> Array:
        """Return a node's place as a vector."""
        return np.array([float(place)])

    def unpack(self, place: int, vector: Array) -> None:
        """Do nothing: the node has its state."""

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
    """Nodes with copies in arrays, which run their rounds together.

    The copies under one protocol are a :class:`~kernelswarm.agents.nodes.population.Population`, and all of them
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


# Nodes with several copies of their learner, on links and by clocks that are not ideal, held in arrays.


class LossyStackedPopulation:
    """Nodes with copies in arrays, whose messages may be late or lost, and that may sleep.

    The copies under one protocol are a :class:`~kernelswarm.agents.nodes.lossy_population.LossyPopulation`. All of
    them run one round at a time, after the nodes have updated their mixture weights by the copies' values.

    Parameters
    ----------
    agents : sequence of LossyStackedAgent
        In sorted order of their labels.
    """

    completed = 0
    answers = symmetric = sends_duals = False
    """The layout of messages that hold mixture weights alone."""

    def __init__(self, agents: Sequence[LossyStackedAgent]) -> None:
        self.agents = agents
        first = agents[0]
        self.populations = [_copies(agents, k) for k in range(len(first.ensemble))]
        talking = max(self.populations, key=lambda each: len(each.links.other))
        self.places, self.links = talking.places, talking.links
        labels, members = list(self.places), len(self.populations)
        self._kinds = kinds_of_nodes(agents)
        size, columns = max(agent.learner.batch_size for agent in agents), first.targets.shape[1]
        self._protocol = ensembles_form(agents)
        self._ensemble = ensemble_of(agents, self._protocol, len(labels))
        self._work = mixture_work(self.links, members, size, first.outputs)
        self._layout, self._ones = MessageLayout(1, members, 0), np.ones(len(labels), dtype=np.int64)
        self._exchange = MixtureExchange(
            mail=mail_of(agents, self.links, self.places, self._layout),
            counts=counts_of(agents, self.links),
            terms=terms_of(agents, self.links, labels),
            received=np.concatenate([np.zeros((0, members)), *[agent.received for agent in agents]]),
            asks=np.concatenate([agent.asks for agent in agents]),
            asked=np.concatenate([agent.asked for agent in agents]),
            sent_at=np.array([agent.sent_at for agent in agents], dtype=np.int64),
            begun=np.full(len(agents), ABSENT),
        )
        self._sent = [(agent.sent(), agent.bytes_of_copies()) for agent in agents]
        self._realization = realization_of(agents, self.links, labels)
        self._now = first.now
        sends = self._exchange.sent_at == self._now - 1
        everywhere = np.ones(len(self.links.other), dtype=np.bool_)
        said = self._ensemble.logs[: len(agents)]
        send_again(self._exchange.mail, self.links, self._realization, self._now, sends, said, everywhere)
        self._ahead = Laid.nothing(len(agents), size, first.width, columns)
        self._ensemble.loss[:] = [agent.tally.loss for agent in self.agents]
        banded = any(agent.band is not None for agent in agents)
        self._mixtures = np.zeros((len(agents), 1, size, first.outputs)) if banded else NOT_KEPT

    def flight(self) -> Flight:
        """Return the mixture weights sent last, with room for those received next."""
        mail, slot, nothing = (
            self._exchange.mail,
            (self._now - 1) % len(self._exchange.mail.points),
            np.zeros((0, 1, 0)),
        )
        return Flight(
            mail.points[slot],
            nothing,
            nothing,
            NO_VARIANCES,
            NO_VARIANCES,
            NO_DUALS,
            NO_DUALS,
            self._ones,
            self._ones,
            self._ones,
            mail.previous[slot],
            mail.answered[slot],
        )

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound.
        """
        self.completed = 0
        while self.completed < rounds:
            if (self._exchange.counts.cursor == len(self._ahead.counts)).any():
                self._draw(rounds - self.completed)
            if self._exchange.terms.forgets:
                self._begin_anew()
            self._run_round()
            self._now += 1
            self.completed += 1

    def sync(self) -> None:
        for each in self.populations:
            each.sync()
        known, counts = self._ensemble, self._exchange.counts
        for i, agent in enumerate(self.agents):
            steps, numbers, edges = int(counts.learned[i]), int(counts.scalars[i]), self._edges(i)
            agent.now, agent.sent_at = self._now, int(self._exchange.sent_at[i])
            self._protocol.unpack(i, known.states[i])
            agent.round += steps
            agent.tally.samples += int(known.samples[i]) - agent.samples
            agent.samples = int(known.samples[i])
            agent.tally.loss = float(known.loss[i])
            agent.largest_target = float(known.largest_target[i])
            agent.received = self._exchange.received[edges].copy()
            agent.tally.traffic = counts.traffic[edges].copy()
            sent, size = self._sent[i]
            agent.add_up(steps, agent.sent() - sent + numbers)
            agent.tally.bytes_sent += agent.bytes_of_copies() - size + BYTES * numbers
            self._sent[i] = agent.sent(), agent.bytes_of_copies()
        counts.learned[:], counts.scalars[:] = 0, 0

    def restart_sums(self) -> None:
        """Begin new sums after a report."""
        for each in self.populations:
            each.restart_sums()
        self._ensemble.loss[:] = [agent.tally.loss for agent in self.agents]

    def scatter(self) -> list[tuple[Array, Array]]:
        """Hand all arrays back to the nodes, after :meth:`sync`; returns the samples drawn ahead, by node."""
        for each in self.populations:
            each.scatter()
        mail, terms = self._exchange.mail, self._exchange.terms
        for i, agent in enumerate(self.agents):
            agent.gather()
            edges = self._edges(i)
            given = self._layout, self._now, terms.reach, terms.bits
            agent.inbox.packets = [packets_of(mail, self.links, e, *given) for e in range(edges.start, edges.stop)]
            agent.inbox.last = mail.last[edges].copy()
        return self._ahead.behind(self._exchange.counts.cursor.tolist())

    def _edges(self, i: int) -> slice:
        return slice(int(self.links.start[i]), int(self.links.start[i + 1]))

    def _draw(self, rounds: int) -> None:
        """Draw the samples of at most ``rounds`` further rounds."""
        cursors = self._exchange.counts.cursor
        self._ahead = self._ahead.again(self.agents, cursors.tolist(), ahead(rounds, self._now))
        cursors[:] = 0
        for each in self.populations:
            each.hand(self._ahead)

    def _begin_anew(self) -> None:
        """Reset the nodes that come back in the round to come, and their copies."""
        for each in self.populations:
            each.begin_anew()
        exchange, now = self._exchange, self._now
        happens, place = realized_from(self._realization, now)
        awake = happens.awake[:, place]
        for i in np.flatnonzero(awake & (exchange.sent_at != now - 1) & (exchange.begun != now)).tolist():
            agent, edges = self.agents[i], self._edges(i)
            agent.begin_anew()
            state = self._protocol.pack(i)
            self._ensemble.states[i, : len(state)] = state
            exchange.received[edges] = agent.received
            due = exchange.mail.due[:, edges]
            due[due < now] = ABSENT
            exchange.begun[i] = now

    def _run_round(self) -> None:
        """Update the nodes' mixture weights, then take the copies' steps; raises for the first node that cannot."""
        happens, at = realized_from(self._realization, self._now)
        flights = [each.in_flight for each in self.populations]
        samples = flights[0][2].copy()  # the copies' steps move on to the next ones
        errors: list[tuple[int, DivergenceError]] = []
        with AtTurn(self, self._ensemble.turn):
            place = update_lossy_mixture_weights(
                self._ensemble,
                self._kinds,
                self.links,
                np.stack([values for values, _, _ in flights])[:, :, np.newaxis],
                flights[0][1][:, np.newaxis],
                samples,
                self._mixtures,
                self._work,
                self._exchange,
                happens,
                self._now,
                DIVERGED,
            )
        if self._mixtures.size and place < 0:
            if (pool := self.agents[0].pool) is not None:
                pool.average()
            for i in np.flatnonzero(happens.awake[:, at]).tolist():
                known = slice(int(samples[i]))
                self.agents[i].follow_band(self._mixtures[i, 0, known], flights[0][1][i, known])
        for each in self.populations:
            try:
                each.run(1)
            except DivergenceError as error:
                errors.append((self.places[error.node], error))
        first = min(errors, key=lambda entry: entry[0], default=None)
        if place >= 0 and (first is None or place <= first[0]):
            self.sync()
            self.agents[place].check_values(self._work.mixture[: samples[place]])
        if first is not None:
            raise first[1]


def _copies(agents: Sequence[LossyStackedAgent], k: int) -> LossyPopulation:
    """Move the nodes' copies under one protocol into arrays."""
    return LossyPopulation([copy for agent in agents if isinstance(copy := agent.ensemble[k], LossyAgent)])
