"""Nodes with several copies of their learner, on links and by clocks that are not ideal, held in arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import ABSENT, NO_VARIANCES, Flight
from kernelswarm.agents.compiled.drawing import NOT_KEPT, Laid, ahead
from kernelswarm.agents.compiled.lossy_filling import (
    MessageLayout,
    counts_of,
    mail_of,
    packets_of,
    realization_of,
    realized_from,
    send_again,
    terms_of,
)
from kernelswarm.agents.compiled.lossy_population import LossyPopulation
from kernelswarm.agents.compiled.vector_population import NO_DUALS
from kernelswarm.agents.node.lossy import LossyAgent
from kernelswarm.agents.node.lossy_stacked import BYTES, LossyStackedAgent
from kernelswarm.agents.node.node import DIVERGED, DivergenceError
from kernelswarm.agents.plain.turn import AtTurn
from kernelswarm.agents.populations.lossy_mixture_weights import MixtureExchange, update_lossy_mixture_weights
from kernelswarm.agents.populations.mixture_weights import mixture_work
from kernelswarm.agents.populations.plain_ensembles import ensembles_form
from kernelswarm.agents.populations.stacked_population import ensemble_of, kinds_of_nodes

Array = npt.NDArray[np.float64]


class LossyStackedPopulation:
    """Nodes with copies in arrays, whose messages may be late or lost, and that may sleep.

    The copies under one protocol are a :class:`~kernelswarm.agents.compiled.lossy_population.LossyPopulation`. All of
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
