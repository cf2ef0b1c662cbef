"""Many agents held in arrays, so that whole rounds run in compiled code: the fast way to compute what the agents
define.

The agents remain what they are: their functions become views of the arrays, and before anybody looks at them they are
settled, brought up to date.
"""

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.arithmetic.abi import ROOM
from kernelswarm.agents.arithmetic.scratch import Scratch
from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes import drawing
from kernelswarm.agents.nodes.agent import Agent
from kernelswarm.agents.nodes.arrays import DONE, FULL, LARGE_VALUES, PAUSED, REPACK, Buffers, Flight, Network, Own
from kernelswarm.agents.nodes.drawing import NOT_KEPT
from kernelswarm.agents.nodes.filling import (
    NO_BUFFERS,
    buffers_of,
    coupling_of,
    find_states,
    kinds_of,
    links_of,
    look_at,
    nothing_received,
    outside_of,
    sent_points,
    states_of,
    sums_of,
    with_spare,
    workspace,
)
from kernelswarm.agents.nodes.node import DIVERGED, PRIMING, Node, follow_bands
from kernelswarm.agents.nodes.rounds import run_rounds
from kernelswarm.agents.parts.plain_parts import AtTurn, rule_form
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import NONE
from kernelswarm.protocols.replay import replay_of

FIRST_POINTS = 8
"""The dictionary points of each node for which arrays have room at first, beside those of a step."""

UNUSED = 2**20
"""Numbers, 8 MB, that may always lie unused so that all states have room for the same number of points."""

UNUSED_TIMES = 4
"""The unused numbers allowed in large networks, as a multiple of the used ones."""


class Population:
    """Agents in arrays, which run their rounds together.

    Parameters
    ----------
    agents : sequence of Agent
        In sorted order of their labels.
    """

    answers = True
    """Whether nodes answer their neighbours one by one."""
    completed = 0
    """The rounds completed by the last call of :meth:`run`, also where that has raised."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.agents = agents
        self.room, self._buffers = sent_points(agents), buffers_of(agents)
        self._outside = outside_of(agents)
        places = {agent.node: i for i, agent in enumerate(agents)}
        places |= {node: len(agents) + k for k, node in enumerate(self._outside)}
        self.places = places
        rule = agents[0].rule
        form = self._rule_form = rule_form(rule, [agent.links for agent in agents if agent.neighbors])
        self.links = links_of(agents, places, form)
        self._coupling = coupling_of(rule, form, self.links)
        self.symmetric, self.sends_duals = self._coupling.symmetric, self._coupling.sends_duals
        self._forms = learner_forms([agent.learner for agent in agents])
        self._kinds = kinds_of(agents, self._forms, self._coupling.certainty > 0.0)
        self._repacks = self._kinds.functions[self._kinds.of, REPACK] != NONE
        self.batch_sizes = drawing.batch_sizes_of(agents, places)
        self.batches = drawing.in_flight(agents, places, self._outside, self.batch_sizes, self.room)
        self._taken = drawing.stepped_on(self.links, self.batch_sizes + replay_of(rule).most, self.symmetric)  # at most
        self._most = int(self._taken.max())
        self._reserves = self._wanted_reserves(np.array(self._orders()))
        self._received = nothing_received(agents, self.links, len(places))
        self._products = np.zeros((len(agents), 2))
        self._step_sizes = drawing.sizes_ahead(agents, self._forms, 0, 1)
        self._steps, self._synced = np.zeros((2, len(agents)), dtype=np.int64)
        self._make_room()
        self._sums = sums_of(agents, len(self.links.other))
        self._at = self._counted = 0  # the next round's samples, and the first not counted yet
        self._now = agents[0].now
        self._since_sync = np.zeros((3, len(places)), dtype=np.int64)  # samples, rounds with any, points sent
        self.predicted = NOT_KEPT
        """f at the samples of each round before the step on them, filled by rounds where it has room."""
        self._banded = any(agent.band is not None for agent in agents)
        self._answer()

    def flight(self) -> Flight:
        """Return the messages sent last, with room for those received next."""
        points, received, edges = self.batches.points[:, self._at + 1], self._received, len(self.links.other)
        values, answers, row_sums, answer_row_sums, duals, variances, answer_variances = received
        sent = points, values, answers, row_sums, answer_row_sums, duals[:edges], duals
        counts = self.batches.sent[self._at], self.batches.sent[self._at + 1], self.batches.samples[self._at + 1]
        return Flight(*sent, *counts, variances=variances, answer_variances=answer_variances)

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound.
        """
        left, self.completed = rounds, 0
        while left:
            if self._at >= self.batches.points.shape[1] - 2:
                self.load(self.draw(self.agents, left))
            count = min(left, self.batches.points.shape[1] - 2 - self._at)
            reason, completed, node, curvature = self._run_rounds(self._at, count)
            if self._banded:
                follow_bands(self.agents, self.predicted, *self.outcomes, self._at, completed)
            self._at += completed
            self._now += completed
            self.completed += completed
            left -= completed
            if reason == PAUSED:
                self._maintain()
            elif reason != DONE:
                self.sync()
                agent = self.agents[node]
                if reason == LARGE_VALUES:
                    agent.check_values(self._received.values[node, : self.batches.samples[self._at, node]])
                agent.check_stability(float(self._work.rates[0]), curvature)

    def _answer(self) -> None:
        """Evaluate the functions at the points in flight, as at the end of the round before."""
        self._run_rounds(self._at - 1, 1, learned=True)

    def _run_rounds(self, first: int, count: int, learned: bool = False) -> tuple[int, int, int, float]:
        """Run rounds whose samples have been drawn; returns as :func:`run_rounds`, but never FULL."""
        completed, since = 0, len(self.agents) if learned else 0
        while True:
            with AtTurn(self, self._states.turn, completed):
                reason, rounds, node, curvature = run_rounds(
                    self._network(),
                    self._own(NO_BUFFERS if learned else self._buffers),
                    self._received,
                    self._spare_scratch,
                    self.predicted,
                    first + completed,
                    count - completed,
                    self._now - PRIMING + completed,
                    DIVERGED,
                    since,
                )
            completed += rounds
            if reason != FULL:
                return reason, completed, node, curvature
            since = node
            self._make_way(learned=since == len(self.agents))

    def _network(self) -> Network:
        return Network(self._states, self._kinds, self.links, self._coupling, self._sums, self._work, self._scratch)

    def _own(self, buffers: Buffers = NO_BUFFERS) -> Own:
        return Own(
            points=self.batches.points,
            targets=self.batches.targets,
            step_sizes=self._step_sizes,
            values=self._received.values,
            rows=self._rows,
            row_begins=self._row_begins,
            row_sums=self._received.row_sums,
            products=self._products,
            buffers=buffers,
            earlier_values=NOT_KEPT,
            earlier_targets=NOT_KEPT,
            variances=self._received.variances,
            answer_variances=self._received.answer_variances,
            samples=self.batches.samples,
            sent=self.batches.sent,
            batch_sizes=self.batch_sizes,
            most=self._taken,
            steps=self._steps,
        )

    @property
    def outcomes(self) -> tuple[Array, Integers]:
        """The targets, (V, T, b, q), of the samples in flight and drawn ahead, and their numbers, (T, V)."""
        return self.batches.targets, self.batches.samples

    def sync(self) -> None:
        self._sync_states()
        self._count()
        rounds = max(0, self._now - PRIMING) - self.agents[0].round
        links, sums = self.links, self._sums
        since = [*self._since_sync, drawing.at_neighbors(self.links, self._since_sync[2])]
        for i, (agent, *counted) in enumerate(zip(self.agents, *(each.tolist() for each in since), strict=False)):
            tally, (samples, learned, own, others) = agent.tally, counted
            agent.now = self._now
            agent.round += rounds
            agent.samples += samples
            agent.largest_target = float(sums.largest_target[i])
            tally.rounds += rounds
            tally.samples += samples
            tally.loss = float(sums.loss[i])
            tally.compression_error = float(sums.compression_error[i])
            if agent.neighbors:
                edges = slice(int(links.start[i]), int(links.start[i + 1]))
                tally.constraint_rounds += learned
                tally.constraint_values = sums.constraint_values[edges].copy()
                tally.violation = sums.violation[edges].copy()
                tally.scalars_sent += agent.scalars_sent(rounds, own, others)
                assert self._rule_form is not None
                rows = self._coupling.rows
                matrix = links.state[rows * edges.start : rows * edges.stop].reshape(rows, -1)
                agent.links = self._rule_form.unpack(agent.links, matrix)
        self._since_sync[:] = 0

    def _count(self) -> None:
        """Count the samples that nodes have learned from, in how many rounds, and the points that all have sent."""
        learned, self._counted = slice(self._counted, self._at), self._at
        samples, nodes = self.batches.samples[learned], len(self.agents)
        self._since_sync[0, :nodes] += samples.sum(axis=0)
        self._since_sync[1, :nodes] += (samples > 0).sum(axis=0)
        self._since_sync[2] += self.batches.sent[learned].sum(axis=0)

    def restart_sums(self) -> None:
        """Begin new sums after a report."""
        self._sums = sums_of(self.agents, len(self.links.other))

    def scatter(self) -> list[tuple[Array, Array]]:
        """Hand the samples in flight back to the agents, after :meth:`sync`; returns those drawn ahead, by agent."""
        return drawing.hand_over(self.agents, self.places, self.batches.since(self._at))

    def draw(self, agents: Sequence[Node], rounds: int) -> drawing.Laid:
        """Draw the samples of at most ``rounds`` further rounds from the sources of these nodes, or of their owners."""
        columns = self.batches.points.shape[3] + self.batches.targets.shape[3]
        return drawing.draw_rounds(agents, drawing.ahead(rounds, self._now - PRIMING, agents), self.room, columns)

    def load(self, drawn: drawing.Laid, beside: "Population | None" = None) -> None:
        """Take over samples behind those in flight; of one ``beside``, which learns from the same, where they fit."""
        self._count()
        batches = None if beside is None else beside.batches
        if batches is None or batches.points.shape[::2] != self.batches.points.shape[::2]:
            batches = self.batches.since(self._at).followed_by(drawn)
        self.batches, self._at, self._counted = batches, 0, 0
        self.predicted = np.zeros((*self.outcomes[0].shape[:3], self.agents[0].outputs)) if self._banded else NOT_KEPT
        stepped, rounds = self._steps - self._synced, batches.points.shape[1] - 1
        samples = None if self.symmetric or len(self._buffers.keys) else batches.samples  # all that steps are on
        self._step_sizes = drawing.sizes_ahead(self.agents, self._forms, stepped, rounds, samples)
        self._steps[:], self._synced = 0, -stepped

    def _maintain(self) -> None:
        """Do the maintenance that states ask for, and give them more room."""
        if (self._repacks | (self._states.counts[:, ROOM] >= self._taken)).all():
            self._look()  # most pauses: no state needs room
            return
        self._sync_states()
        orders = np.array(self._orders())
        if (~self._repacks & (orders > self._reserves)).any():
            self._reserves = self._wanted_reserves(self._grown(orders))
            self._make_room()
            self._answer()

    def _make_room(self) -> None:
        """Move the states, after :meth:`_sync_states`, into arrays of the present capacity, with room for rows."""
        self._rows = np.zeros((1, 0))  # the rows are evaluated again
        self._make_states()
        each = zip(self._forms, self.agents, self._capacities(), strict=True)
        columns = np.array([form.columns(agent.state, capacity) for form, agent, capacity in each])
        lengths = np.where(self._repacks, 0, self._taken * columns)  # rounds place those of repacked states
        self._row_begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._rows = np.zeros((1, int(self._row_begins[-1])))
        self._make_work(int(columns.max()))

    def _make_way(self, learned: bool) -> None:
        """Within a round, make more room: for states, or, once all nodes have ``learned``, for rows, which are then
        evaluated again."""
        self._sync_states()
        needed = int(self._row_begins[-1])
        if learned and needed > self._rows.size:
            for room in (0, needed + needed // 4):  # not both the old and the new ones at once
                self._rows = np.zeros((1, room))
        if not learned or max(self._orders()) > self._spare_scratch.capacity:
            self._make_states()
            self._make_work(self._work.rows.shape[1])

    def _make_work(self, columns: int) -> None:
        """Make the working memory of rounds; states that are not repacked have rows of up to ``columns`` columns."""
        widest, sizes = max(columns, self._spare_scratch.capacity), self._step_sizes.shape[2]
        self._work = workspace(self.agents, self.links, self._most, self.room, widest, sizes, ideal=True)

    def _make_states(self) -> None:
        """Move the agents' states, after :meth:`_sync_states`, into arrays of the present capacity, and make scratch
        memory."""
        capacity = largest = int((self._taken + self._reserves).max())
        length = 0
        if self._repacks.any():
            capacity = max(capacity, int(with_spare(self._orders()).max()) + self._most)
            largest = int(with_spare([capacity])[0])
            one_of_each = {id(form): i for i, form in enumerate(self._forms) if self._repacks[i]}
            length = max(self._forms[i].length(self.agents[i].state, largest) for i in one_of_each.values())
        self._spare_scratch = Scratch(np.zeros(length), capacity, np.zeros(1, dtype=np.int64))
        self._states = states_of(self.agents, self._forms, self._capacities(), self._taken, packed=True, spare=length)
        self._spare_scratch.free[0] = self._states.begins[-1] + self._states.lengths[-1]
        self._laid = self._states.begins.copy()
        each = zip(self._forms, self.agents, self._taken.tolist(), strict=True)
        most = max(form.scratch(agent.state, largest, taken) for form, agent, taken in each)
        self._scratch = np.zeros(max(most, self._most**2))

    def _sync_states(self) -> None:
        """Bring the agents' states up to date, and do the maintenance that they ask for."""
        stepped, self._synced = (self._steps - self._synced).tolist(), self._steps.copy()
        find_states(self._states, self._laid, self.agents, self._forms)
        for agent, form, counts, steps in zip(self.agents, self._forms, self._states.counts, stepped, strict=True):
            form.sync(agent.state, counts, steps)
        self._look()

    def _look(self) -> None:
        """Maintain the states that ask for it, brought up to date but for their counts of steps."""
        find_states(self._states, self._laid, self.agents, self._forms)
        look_at(self._states, self.agents, self._forms, self._repacks, self._taken, self._reserves)

    def _orders(self) -> list[int]:
        return [form.order(agent.state) for form, agent in zip(self._forms, self.agents, strict=True)]

    def _capacities(self) -> list[int]:
        """Return the number of points for which each state has room; those of a step depend on the node's degree."""
        spared = np.maximum(with_spare(self._orders()), FIRST_POINTS)
        found: list[int] = np.where(self._repacks, spared, self._taken + self._reserves).tolist()
        return found

    def _wanted_reserves(self, wanted: Integers) -> Integers:
        """Return the points for which each state gets room beside those of a step, (V,), at least ``wanted`` (V,).

        The same number for all, so that arrays seldom grow, unless much more of them would lie unused than used.
        """
        own = np.maximum(wanted, self._at_first)
        alike = np.full(len(own), own.max())
        lengths = [
            [
                form.length(agent.state, room)
                for form, agent, room in zip(self._forms, self.agents, reserves, strict=True)
            ]
            for reserves in (own.tolist(), alike.tolist())
        ]
        used, taken = map(sum, lengths)
        return own if taken - used > max(UNUSED, UNUSED_TIMES * used) else alike

    @property
    def _at_first(self) -> int:
        """The least number of points for which a state has room, beside those of a step."""
        return FIRST_POINTS

    def _grown(self, orders: Integers) -> Integers:
        """Return the points for which states of these model orders get room when arrays grow."""
        return orders * 3 // 2
