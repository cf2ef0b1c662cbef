"""Nodes that send vectors on unreliable links and clocks, held in arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import ABSENT, DONE, PAUSED, RETURNED, Flight, VectorExchange
from kernelswarm.agents.compiled.drawing import follow_steps, put_back
from kernelswarm.agents.compiled.lossy_filling import (
    MessageLayout,
    counts_of,
    mail_of,
    packets_of,
    realization_of,
    realized_from,
    sealed,
    send_again,
    terms_of,
)
from kernelswarm.agents.compiled.lossy_vector_rounds import VectorLinks, run_lossy_vector_rounds
from kernelswarm.agents.compiled.vector_population import NO_DUALS, VectorPopulation
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.node.inbox import POINTS, SILENT
from kernelswarm.agents.node.lossy_vectors import LossyVectorNode
from kernelswarm.agents.node.node import DIVERGED, PRIMING
from kernelswarm.agents.plain.turn import AtTurn
from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.links.distortion import EXACT, distort
from kernelswarm.protocols.unreliable.faults import misreport_in

Array = npt.NDArray[np.float64]


class LossyVectorPopulation(VectorPopulation):
    """Nodes in arrays whose vectors may be late, changed or lost, and that may sleep.

    Parameters
    ----------
    agents : sequence of LossyVectorNode
        In sorted order of their labels.
    """

    def __init__(self, agents: Sequence[LossyVectorNode]) -> None:
        super().__init__(agents)
        self.agents: Sequence[LossyVectorNode] = agents
        first, labels = agents[0], [agent.node for agent in agents] + self._outside
        conditions = first.conditions.links
        self._terms = terms_of(agents, self.links, labels)._replace(
            bound_on_points=float(conditions.clip.on("vectors")), noise_on_points=float(conditions.noise_on("vectors"))
        )
        self._realization = realization_of(agents, self.links, labels)
        self._layout = MessageLayout(1, self._width, 0)
        self._mail = mail_of(agents, self.links, self.places, self._layout)
        self._counts = counts_of(agents, self.links)
        self._counts.cursor[:] = self._at
        self._vectors.last_sent[: len(agents)] = [agent.last_sent for agent in agents]
        self._exchange = VectorExchange(
            sent_at=np.array([agent.sent_at for agent in agents], dtype=np.int64),
            begun=np.full(len(agents), ABSENT),
            quiet=np.array([agent.quiet for agent in agents], dtype=np.bool_),
            used=np.concatenate([agent.used for agent in agents]),
            asks=np.concatenate([agent.asks for agent in agents]),
            asked=np.concatenate([agent.asked for agent in agents]),
        )
        sends = (self._exchange.sent_at == self._now - 1) & ~self._exchange.quiet
        sent = np.array([agent.rule.send(agent.links) for agent in agents]).reshape(len(agents), -1)
        send_again(self._mail, self.links, self._realization, self._now, sends, sent, self._exchange.asked)

    def flight(self) -> Flight:
        """Return the messages sent last, with room for those received next."""
        mail, slot = self._mail, (self._now - 1) % len(self._mail.points)
        none = np.zeros((0, 1, self.agents[0].outputs))
        row_sums, ones = none[:, :, 0], self._ones
        sent = mail.points[slot], none, none, row_sums, row_sums, NO_DUALS, NO_DUALS
        return Flight(*sent, ones, ones, ones, mail.previous[slot], mail.answered[slot])

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds; raises as VectorPopulation."""
        left, self.completed, realized = rounds, 0, self._realization
        while left:
            (happens, place), primes = realized_from(realized, self._now), self._now < PRIMING
            count, before = min(left, happens.awake.shape[1] - place), self._reached()
            with AtTurn(self, self._states.turn):
                reason, completed, node = run_lossy_vector_rounds(
                    self._network(),
                    VectorLinks(
                        self._mail, self._exchange, self._counts, self._terms, float(self.agents[0].message_bytes)
                    ),
                    happens,
                    self._now,
                    count,
                    DIVERGED,
                )
            if primes and (pool := self.agents[0].pool) is not None:
                for _ in range(completed):
                    pool.average()
            elif self._banded:
                outcomes = self._vectors.values, self._samples.targets, self._samples.counts
                follow_steps(self.agents, *outcomes, before, self._reached(), completed)
            self._now += completed
            self.completed += completed
            left -= completed
            if reason == PAUSED:
                self._draw(left)
            elif reason == RETURNED:
                self._begin_anew()
            elif reason != DONE:
                self.sync()
                self._check_values(node, int(self._counts.cursor[node]))

    def sync(self) -> None:
        counts = self._counts
        for i, agent in enumerate(self.agents):
            self._sync(i, *self._learned(i))
            agent.tally.scalars_sent += int(counts.scalars[i])
            agent.tally.bytes_sent += float(counts.bytes[i])
            agent.tally.traffic = counts.traffic[self.links.start[i] : self.links.start[i + 1]].copy()
        counts.learned[:], counts.scalars[:], counts.bytes[:] = 0, 0, 0.0

    def _learned(self, i: int) -> tuple[int, int]:
        """Return the rounds in which node i has learned since :meth:`sync`, and the samples in them."""
        end, rounds = int(self._counts.cursor[i]), int(self._counts.learned[i])
        return rounds, int(self._samples.counts[end - rounds : end, i].sum())

    def scatter(self) -> list[tuple[Array, Array]]:
        """Hand all arrays back to the nodes, after :meth:`sync`; returns the samples drawn ahead, by node."""
        left, mail, exchange, links = super().scatter(), self._mail, self._exchange, self.links
        slot = (self._now - 1) % len(mail.points)
        for i, agent in enumerate(self.agents):
            edges = range(int(links.start[i]), int(links.start[i + 1]))
            agent.sent_at, agent.quiet = int(exchange.sent_at[i]), bool(exchange.quiet[i])
            agent.used = exchange.used[edges.start : edges.stop].copy()
            agent.last_sent = self._vectors.last_sent[i].copy()
            if mail.previous[slot, i] != SILENT:  # it has just been sent
                agent.last_sent = self._as_received(i, mail.points[slot, i])
            reach, bits = agent.inbox.reach, self._terms.bits
            agent.inbox.packets = [packets_of(mail, links, e, self._layout, self._now, reach, bits) for e in edges]
            agent.inbox.last = mail.last[edges.start : edges.stop].copy()
        return left

    def _as_received(self, i: int, vector: Array) -> Array:
        """Return a vector that node i has just sent, (1, n), as its faults and the links will change it, (n,)."""
        terms, received, sent = self._terms, vector.copy(), self._now - 1
        (first, second), faults = terms.node_keys[i].tolist(), slice(*terms.fault_start[i : i + 2].tolist())
        misreport_in(received, terms.faults[faults], first, second, sent, POINTS)
        bound, noise = terms.bound_on_points, terms.noise_on_points
        if terms.bits != EXACT or noise > 0.0 or bound < np.inf:
            called(distort, received, bound, noise, terms.quantile, terms.bits, first, second, sent, POINTS)
        found: Array = received[0]
        return found

    def _learned_from(self, i: int) -> int:
        """Return the place of the samples that node i learned from last, at the begin of a round."""
        return int(self._counts.cursor[i])

    def _reached(self) -> list[int]:
        """Return the place of the samples that each node learns from next."""
        reached: list[int] = self._counts.cursor.tolist()
        return reached

    def _begin_anew(self) -> None:
        """Reset the nodes that come back in the round to come."""
        exchange, now, sizes = self._exchange, self._now, self._samples.step_sizes
        awake = self._realization.awake[:, self._realization.look(now - PRIMING)]
        for i in np.flatnonzero(awake & (exchange.sent_at != now - 1) & (exchange.begun != now)).tolist():
            agent, form, at = self.agents[i], self._forms[i], int(self._counts.cursor[i])
            self._sync(i, *self._learned(i))
            self._counts.learned[i] = 0
            agent.points, agent.targets = map(sealed, self._batch(i, at))
            agent.begin_anew()
            form.move(agent.state, self._states.storage[i], 0)
            self._known(i)[:], self._vectors.last_sent[i] = self._protocol.pack(i), agent.last_sent
            self._keep_evaluated(i, agent.own, at)
            first = form.step_sizes(0, len(sizes) - at)
            sizes[at:, i, : first.shape[1]] = first
            if isinstance(form, PlainLearner):
                form.follow(agent.state, sizes[at:, i])
            due = self._mail.due[:, self.links.start[i] : self.links.start[i + 1]]
            due[due < now] = ABSENT
            exchange.quiet[i], exchange.begun[i] = False, now

    def _draw(self, rounds: int) -> None:
        """Draw the samples of at most ``rounds`` further rounds."""
        self.sync()
        for agent, left in zip(self.agents, self._behind(self._reached()), strict=True):
            put_back(agent, *left)
        self._draw_on(rounds, self._now, 0)
        self._counts.cursor[:] = 0
