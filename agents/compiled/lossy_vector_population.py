"""Nodes that send vectors on unreliable links and clocks, held in arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import ABSENT, DONE, PAUSED, RETURNED, Flight, Realized, VectorExchange
from kernelswarm.agents.compiled.drawing import follow_steps, put_back
from kernelswarm.agents.compiled.lossy_filling import (
    MessageLayout,
    counts_of,
    mail_of,
    packets_of,
    realization_of,
    sealed,
    terms_of,
)
from kernelswarm.agents.compiled.lossy_vector_rounds import VectorLinks, run_lossy_vector_rounds
from kernelswarm.agents.compiled.vector_population import NO_DUALS, VectorPopulation
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.node.inbox import SILENT
from kernelswarm.agents.node.lossy_vectors import LossyVectorNode
from kernelswarm.agents.node.node import DIVERGED, PRIMING, Outgoing
from kernelswarm.agents.plain.turn import AtTurn

Array = npt.NDArray[np.float64]


class LossyVectorPopulation(VectorPopulation):
    """Nodes in arrays whose vectors may be late, changed or lost, and that may sleep.

    Parameters
    ----------
    agents : sequence of LossyVectorNode
        In sorted order of their labels, past the rounds that prime the network.
    messages : mapping of int to Outgoing
        The last messages of these nodes and of the outside ones that send to them, by label.
    """

    def __init__(self, agents: Sequence[LossyVectorNode], messages: Mapping[int, Outgoing]) -> None:
        super().__init__(agents, messages)
        self.agents: Sequence[LossyVectorNode] = agents
        first, labels = agents[0], [agent.node for agent in agents] + self._outside
        self._now = first.now
        conditions = first.conditions.links
        self._terms = terms_of(agents, self.links, labels)._replace(
            bound_on_points=float(conditions.clip.on("vectors")), noise_on_points=float(conditions.noise_on("vectors"))
        )
        self._realization = realization_of(agents, self.links, labels)
        self._layout = MessageLayout(1, self._width, 0)
        self._mail = mail_of(agents, self.links, self.places, self._layout, messages)
        self._counts = counts_of(agents, self.links)
        self._vectors.last_sent[: len(agents)] = [agent.last_sent for agent in agents]
        self._exchange = VectorExchange(
            sent_at=np.array([agent.sent_at for agent in agents], dtype=np.int64),
            begun=np.full(len(agents), ABSENT),
            quiet=np.array([agent.quiet for agent in agents], dtype=np.bool_),
            used=np.concatenate([agent.used for agent in agents]),
            asks=np.concatenate([agent.asks for agent in agents]),
            asked=np.concatenate([agent.asked for agent in agents]),
        )

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
            place = realized.look(self._now - PRIMING)
            count, before = min(left, realized.awake.shape[1] - place), self._reached()
            with AtTurn(self, self._states.turn):
                reason, completed, node = run_lossy_vector_rounds(
                    self._network(),
                    VectorLinks(
                        self._mail, self._exchange, self._counts, self._terms, float(self.agents[0].message_bytes)
                    ),
                    Realized(realized.awake, realized.deliveries, realized.active, realized.first),
                    self._now,
                    count,
                    DIVERGED,
                )
            if self._banded:
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
        """Bring the nodes up to date."""
        counts = self._counts
        for i, agent in enumerate(self.agents):
            self._sync(i, *self._learned(i))
            agent.now = self._now
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
                last_sent = mail.points[slot, i].copy()
                agent.inbox.distort_own(last_sent, self._now - 1)
                agent.last_sent = last_sent[0]
            reach, bits = agent.inbox.reach, self._terms.bits
            agent.inbox.packets = [packets_of(mail, links, e, self._layout, self._now, reach, bits) for e in edges]
            agent.inbox.last = mail.last[edges.start : edges.stop].copy()
        return left

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
            points, targets = self._batch(i, at)
            agent.evaluate(sealed(points), ())
            agent.targets = sealed(targets)
            agent.begin_anew(now)
            form.move(agent.state, self._states.storage[i], 0)
            self._known(i)[:], self._vectors.last_sent[i] = self._protocol.pack(i), agent.last_sent
            assert agent.own is not None
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
