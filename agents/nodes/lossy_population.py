"""Agents on unreliable links and clocks, held in arrays."""

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes import drawing
from kernelswarm.agents.nodes.agent import LossyAgent
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    DONE,
    LARGE_VALUES,
    PAUSED,
    RETURNED,
    Buffers,
    Flight,
    LossyExchange,
    Own,
    Received,
)
from kernelswarm.agents.nodes.filling import (
    NO_BUFFERS,
    buffers_of,
    coupling_of,
    kinds_of,
    links_of,
    matrix_of,
    outside_of,
    sent_points,
    sums_of,
    workspace,
)
from kernelswarm.agents.nodes.inbox import LastSent
from kernelswarm.agents.nodes.lossy_filling import (
    MessageLayout,
    counts_of,
    kept_of,
    mail_of,
    packets_of,
    realization_of,
    realized_from,
    sealed,
    terms_of,
    widened,
)
from kernelswarm.agents.nodes.lossy_rounds import resume, run_lossy_rounds
from kernelswarm.agents.nodes.node import DIVERGED, Node
from kernelswarm.agents.nodes.population import Population
from kernelswarm.agents.parts.plain_parts import AtTurn, rule_form
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.replay import replay_of

ROOM_AT_FIRST = 16
"""Dictionary points for which there is room at first beside those of a step; doubled when used up."""


class LossyPopulation(Population):
    """Agents in arrays whose messages may be late, changed or lost, and that may sleep.

    Parameters
    ----------
    agents : sequence of LossyAgent
        In sorted order of their labels.
    """

    def __init__(self, agents: Sequence[LossyAgent]) -> None:
        self.agents: Sequence[LossyAgent] = agents
        first = agents[0]
        self.room, self._buffers = sent_points(agents), buffers_of(agents)
        self._outside = outside_of(agents)
        labels = [agent.node for agent in agents] + self._outside
        self.places = {label: place for place, label in enumerate(labels)}
        self.batch_sizes = drawing.batch_sizes_of(agents, self.places)
        self._now = first.now
        rule, form = first.rule, rule_form(first.rule, [agent.links for agent in agents if agent.neighbors])
        self.links = links_of(agents, self.places, form)
        self._rule_form = form
        self._coupling = coupling_of(rule, form, self.links)
        self.symmetric, self.sends_duals = self._coupling.symmetric, self._coupling.sends_duals
        self._forms = learner_forms([agent.learner for agent in agents])
        certain = self._coupling.certainty > 0.0
        self._kinds = kinds_of(agents, self._forms, certain)
        self._repacks = np.zeros(len(agents), dtype=np.bool_)
        sent = self.batch_sizes + replay_of(rule).most
        # A node's own points, and as many for each late answer, and those of neighbours.
        late = sent[: len(agents)] * np.diff(self.links.start)
        self._taken = drawing.stepped_on(self.links, sent, self.symmetric) + late
        self._most = max(int(self._taken.max()), self.room)  # the points answered last are evaluated too, for triggers
        self._reserves = self._wanted_reserves(np.array(self._orders()))
        self._make_states()
        self._sums = sums_of(agents, len(self.links.other))
        self._steps = np.zeros(len(agents), dtype=np.int64)
        terms = terms_of(agents, self.links, labels)
        self._terms = terms._replace(replays=replay_of(rule).most > 0, carries_points=not first.without_points)
        self._realization = realization_of(agents, self.links, labels)
        self._layout = MessageLayout(
            self.room,
            first.width,
            first.outputs,
            self.symmetric,
            self.symmetric and self._coupling.implicit,
            self.sends_duals and self._coupling.duals >= 0,
            certain,
        )
        self._mail = mail_of(agents, self.links, self.places, self._layout)
        self._kept = kept_of(agents, self.links, self._columns())
        self._counts = counts_of(agents, self.links)
        size, columns = self._kept.targets.shape[2:]
        self._ahead = drawing.Laid.nothing(len(agents), size, first.width, columns)
        self._banded, self.predicted = any(agent.band is not None for agent in agents), drawing.NOT_KEPT
        self._outcomes = self._ahead.targets, self._ahead.counts
        self._bands_at = self._counts.cursor.tolist()  # the steps that bands have followed
        self._unfollowed = 0  # the rounds since
        self._step_sizes = drawing.sizes_ahead(agents, self._forms, 0, 1)
        self._make_work(self._columns())
        if self._now:
            self._resume(np.ones(len(agents), dtype=np.bool_), sends=True)

    def flight(self) -> Flight:
        """Return the messages sent last, with room for those received next."""
        mail = self._mail
        slot = (self._now - 1) % len(mail.points)
        return Flight(
            mail.points[slot],
            mail.own[slot],
            mail.answers[slot],
            mail.own_row_sums[slot],
            mail.answer_row_sums[slot],
            mail.duals[slot, : len(self.links.other)],
            mail.duals[slot],
            mail.evaluated[slot],
            mail.sent[slot],
            mail.samples[slot],
            mail.previous[slot],
            mail.answered[slot],
            mail.answered_points[slot],
            mail.own_variances[slot],
            mail.answer_variances[slot],
        )

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds; raises as Population."""
        left, self.completed, realized = rounds, 0, self._realization
        while left:
            happens, place = realized_from(realized, self._now)
            count = min(left, happens.awake.shape[1] - place)
            with AtTurn(self, self._states.turn):
                reason, completed, node, curvature = run_lossy_rounds(
                    self._network(),
                    self._own(self._buffers),
                    self._received_so_far(),
                    LossyExchange(self._mail, self._kept, self._counts, self._terms),
                    self._spare_scratch,
                    self._ahead,
                    self.predicted,
                    happens,
                    self._now,
                    count,
                    DIVERGED,
                )
            self._now += completed
            self.completed += completed
            left -= completed
            self._unfollowed += completed
            if reason == PAUSED:
                if (self._counts.cursor == len(self._ahead.counts)).any():
                    self.load(self.draw(self.agents, left))
                self._maintain()
            elif reason == RETURNED:
                self.begin_anew()
            elif reason != DONE:
                self._follow_bands()
                self.sync()
                agent = self.agents[node]
                if reason == LARGE_VALUES:
                    agent.check_values(self._kept.values[node, : self._kept.own_samples[node]])
                agent.check_stability(float(self._work.rates[0]), curvature)
        self._follow_bands()

    def _resume(self, evaluates: Booleans, sends: bool) -> None:
        """Evaluate functions of some nodes, (V,), at what is in flight, and put what was sent last into its slot."""
        exchange = LossyExchange(self._mail, self._kept, self._counts, self._terms)
        happened, place = realized_from(self._realization, self._now - 1)
        with AtTurn(self, self._states.turn):
            resume(self._network(), self._own(), exchange, happened, self._now, evaluates, sends)
        self._mail.deliveries[(self._now - 1) % len(self._mail.points)] = happened.deliveries[:, place]

    def _follow_bands(self) -> None:
        """Adapt bands to the steps since the last call; not at every pause of rounds, which would cost more."""
        if self._banded and self._unfollowed:
            reached = self._counts.cursor.tolist()
            drawing.follow_steps(self.agents, self.predicted, *self.outcomes, self._bands_at, reached, self._unfollowed)
            self._bands_at, self._unfollowed = reached, 0

    def _own(self, buffers: Buffers = NO_BUFFERS) -> Own:
        kept = self._kept
        return Own(
            points=kept.own_points[:, np.newaxis],
            targets=kept.own_targets[:, np.newaxis],
            step_sizes=self._step_sizes,
            values=kept.values,
            rows=self._work.rows,
            row_begins=np.zeros(0, dtype=np.int64),
            row_sums=kept.row_sums,
            products=kept.products,
            buffers=buffers,
            earlier_values=kept.predicted,
            earlier_targets=kept.targets,
            variances=kept.variances,
            answer_variances=kept.received_variances,
            samples=kept.own_samples[np.newaxis],
            sent=kept.own_sent[np.newaxis],
            neighbor_points=kept.received_sent,
            batch_sizes=self.batch_sizes,
            most=self._taken,
            steps=self._steps,
        )

    def _received_so_far(self) -> Received:
        mail = self._mail
        row_sums, variances = (mail.own_row_sums, mail.answer_row_sums), (mail.own_variances, mail.answer_variances)
        return Received(mail.own, mail.answers, *row_sums, mail.duals, *variances)

    @property
    def outcomes(self) -> tuple[Array, Integers]:
        """The targets, (T, V, b, q), of the samples in flight and drawn ahead, and their numbers, (T, V)."""
        return self._outcomes

    def sync(self) -> None:
        self._sync_states()
        links, sums, counts = self.links, self._sums, self._counts
        for i, agent in enumerate(self.agents):
            tally, steps = agent.tally, int(counts.completed[i]) - agent.round
            agent.now = self._now
            agent.round += steps
            samples, agent.samples = int(sums.samples[i]) - agent.samples, int(sums.samples[i])
            agent.largest_target = float(sums.largest_target[i])
            tally.rounds += steps
            tally.samples += samples
            tally.loss = float(sums.loss[i])
            tally.compression_error = float(sums.compression_error[i])
            tally.scalars_sent += int(counts.scalars[i])
            tally.bytes_sent += float(counts.bytes[i])
            edges = slice(int(links.start[i]), int(links.start[i + 1]))
            tally.traffic = counts.traffic[edges].copy()
            if agent.neighbors:
                tally.constraint_rounds = counts.constraint_rounds[edges].copy()
                tally.constraint_values, tally.violation = (
                    sums.constraint_values[edges].copy(),
                    sums.violation[edges].copy(),
                )
                assert self._rule_form is not None
                rows = self._coupling.rows
                matrix = links.state[rows * edges.start : rows * edges.stop].reshape(rows, -1)
                agent.links = self._rule_form.unpack(agent.links, matrix)
        counts.scalars[:], counts.bytes[:] = 0, 0.0

    def restart_sums(self) -> None:
        """Begin new sums after a report."""
        super().restart_sums()
        self._counts.constraint_rounds[:] = 0

    def scatter(self) -> list[tuple[Array, Array]]:
        """Hand all arrays back to the agents, after :meth:`sync`; returns the samples drawn ahead, by agent."""
        links, kept, memory = self.links, self._kept, self._kept.points.shape[1]
        for i, agent in enumerate(self.agents):
            edges = range(int(links.start[i]), int(links.start[i + 1]))
            learning, following = int(kept.learning[i]), int(kept.following[i])
            oldest = max(0, following - agent.inbox.memory)
            agent.drawn = {
                at: (sealed(kept.points[i, k, : kept.sent[i, k]]), sealed(kept.targets[i, k, : kept.samples[i, k]]))
                for at, k in ((at, at % memory) for at in sorted(kept.drawn_at[i].tolist()))
                if at >= oldest
            }
            agent.predicted = {
                at: sealed(kept.predicted[i, at % memory, : len(points)])
                for at, (points, _) in agent.drawn.items()
                if at != following
            }
            agent.sent_at = learning, following
            agent.points = sealed(kept.own_points[i, : kept.own_sent[i]])
            agent.targets = sealed(kept.own_targets[i, : kept.own_samples[i]])
            agent.received_points = [sealed(kept.received_points[e, : kept.received_sent[e]]) for e in edges]
            agent.following = agent.drawn[following]
            agent.received_at = kept.received_at[edges.start : edges.stop].copy()
            agent.used = kept.used[edges.start : edges.stop].copy()
            agent.quiet = kept.quiet[edges.start : edges.stop].copy()
            agent.last_sent = [
                LastSent(kept.last_sent_points[e, :count].copy(), kept.last_sent_values[e, :count].copy())
                if count != ABSENT
                else None
                for e, count in zip(edges, kept.last_sent[edges.start : edges.stop].tolist(), strict=True)
            ]
            reach, bits = agent.inbox.reach, self._terms.bits
            agent.inbox.packets = [
                packets_of(self._mail, links, e, self._layout, self._now, reach, bits) for e in edges
            ]
            agent.inbox.last = self._mail.last[edges.start : edges.stop].copy()
            if self.symmetric:
                others = links.other[edges.start : edges.stop].tolist()
                agent.inbox.latest = [sealed(self._mail.latest[j, : self._mail.latest_sent[j]]) for j in others]
        return self._ahead.behind(self._counts.cursor.tolist())

    @property
    def _at_first(self) -> int:
        return ROOM_AT_FIRST

    def _grown(self, orders: Integers) -> Integers:
        return orders * 2

    def begin_anew(self) -> None:
        """Reset the nodes that come back in the round to come and have not been reset for it."""
        kept, now = self._kept, self._now
        happens, place = realized_from(self._realization, now)
        back = happens.awake[:, place] & (kept.following != now - 1) & (kept.begun != now)
        for i in np.flatnonzero(back).tolist():
            agent, form = self.agents[i], self._forms[i]
            edges = slice(int(self.links.start[i]), int(self.links.start[i + 1]))
            agent.begin_anew()
            capacity, begins = self._capacities()[i], self._states.begins
            own = self._states.storage.reshape(-1)[begins[i] : begins[i] + self._states.lengths[i]]
            own[:] = 0.0
            form.move(agent.state, own, capacity)
            known = form.counts(agent.state, capacity, self._taken[i])
            self._states.counts[i, : len(known)] = known
            if self._rule_form is not None and agent.neighbors:
                rows = self._coupling.rows
                matrix = self.links.state[rows * edges.start : rows * edges.stop]
                if self._rule_form.forget is not None:
                    self._rule_form.forget(matrix.reshape(rows, -1))
                matrix[:] = matrix_of(self._rule_form, agent).reshape(-1)
            if len(self._ahead.counts):
                sizes = form.step_sizes(form.steps(agent.state), self._step_sizes.shape[1])
                self._step_sizes[i, :, : sizes.shape[1]] = sizes
            if isinstance(form, PlainLearner):
                form.follow(agent.state, self._step_sizes[i])
            self._counts.learned[i] = self._steps[i] = 0
            due = self._mail.due[:, edges]
            due[due < now] = ABSENT
            kept.last_sent[edges], kept.quiet[edges], kept.begun[i] = ABSENT, False, now
        if back.any():
            self._resume(back, sends=False)
        for i in np.flatnonzero(back).tolist():
            learning = int(kept.learning[i])
            remembered = (kept.drawn_at[i] == learning) | (kept.drawn_at[i] == kept.following[i])
            kept.predicted[i, kept.drawn_at[i] == learning] = kept.values[i]
            kept.drawn_at[i, ~remembered] = ABSENT

    def draw(self, agents: Sequence[Node], rounds: int) -> drawing.Laid:
        """Draw the samples of at most ``rounds`` further rounds from the sources of these nodes, or of their owners."""
        return self._ahead.again(agents, self._counts.cursor.tolist(), drawing.ahead(rounds, self._now))

    def load(self, drawn: drawing.Laid, beside: Population | None = None) -> None:
        """Take over samples that were drawn ahead, and the sizes of the steps on them."""
        self._follow_bands()
        self._sync_states()
        kept, following = self._kept, (np.arange(len(self.agents)), self._kept.following % self._kept.samples.shape[1])
        samples = np.concatenate([[kept.own_samples, kept.samples[following]], drawn.counts])
        self._outcomes = np.concatenate([[kept.own_targets, kept.targets[following]], drawn.targets]), samples
        if self._banded:
            self.predicted = np.zeros((*samples.shape, *drawn.targets.shape[2:3], self.agents[0].outputs))
        self._ahead, self._bands_at = drawn, [0] * len(self.agents)
        self._counts.cursor[:], self._steps[:] = 0, 0
        alone = not self.symmetric and not self._terms.replays  # steps are on own samples, prompt or late, alone
        steps = len(drawn.counts) + 1
        self._step_sizes = drawing.sizes_ahead(self.agents, self._forms, 0, steps, samples if alone else None)
        self._work = self._work._replace(sizes=np.zeros(self._step_sizes.shape[2]))

    def _make_room(self) -> None:
        self._make_states()
        self._kept = self._kept._replace(rows=widened(self._kept.rows, self._columns()))
        self._make_work(self._columns())

    def _answer(self) -> None:
        """Do nothing: rows are kept where they are widened."""

    def _columns(self) -> int:
        each = zip(self._forms, self.agents, self._capacities(), strict=True)
        return max(form.columns(agent.state, capacity) for form, agent, capacity in each)

    def _make_work(self, columns: int) -> None:
        sizes = self._step_sizes.shape[2]
        self._work = workspace(self.agents, self.links, self._most, self._most, columns, sizes, ideal=False)

    def _sync_states(self) -> None:
        learned = self._counts.learned.tolist()
        self._counts.learned[:] = 0
        for agent, form, counts, steps in zip(self.agents, self._forms, self._states.counts, learned, strict=True):
            form.sync(agent.state, counts, steps)
        self._look()
