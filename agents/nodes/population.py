"""Agents held in arrays, so that whole rounds run in compiled code.

The agents' functions become views of the arrays; before the agents are read, they are updated from the arrays.
"""

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.arithmetic.abi import ROOM
from kernelswarm.agents.arithmetic.scratch import Scratch
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.learners.plain_features import learner_forms
from kernelswarm.agents.nodes import drawing
from kernelswarm.agents.nodes.agent import Agent, LossyAgent
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    FULL,
    REPACK,
    Buffers,
    Flight,
    LossyExchange,
    Network,
    Own,
    Received,
    edges_at,
)
from kernelswarm.agents.nodes.drawing import NOT_KEPT
from kernelswarm.agents.nodes.filling import (
    NO_BUFFERS,
    MessageLayout,
    buffers_of,
    coupling_of,
    find_states,
    kept_of,
    kinds_of,
    links_of,
    look_at,
    matrix_of,
    nothing_received,
    outside_of,
    places_of_nodes,
    sealed,
    sent_points,
    sizes_ahead,
    states_of,
    sums_of,
    widened,
    with_spare,
    workspace,
)
from kernelswarm.agents.nodes.inbox import stacked
from kernelswarm.agents.nodes.messages import Messages
from kernelswarm.agents.nodes.node import DIVERGED, PRIMING, Node, follow_bands, keep_errors
from kernelswarm.agents.nodes.rounds import resume, run_lossy_rounds, run_rounds
from kernelswarm.agents.nodes.turns import run_by_turns, settle
from kernelswarm.agents.parts.plain_parts import AtTurn, rule_form
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.addresses import NONE
from kernelswarm.protocols.replay import replay_of

FIRST_POINTS = 8
"""Minimum room for dictionary points of each node at first, in addition to a step's points."""

UNUSED = 2**20
"""Numbers, 8 MB, that may be unused so that all states have room for the same number of points."""

UNUSED_TIMES = 4
"""In large networks, the allowed unused numbers as a multiple of the used ones."""


class Population:
    """Agents in arrays that run their rounds together.

    Parameters
    ----------
    agents : sequence of Agent
        In sorted order of their labels.
    """

    answers = True
    """Whether nodes answer each neighbour individually."""
    _at_first, _growth = FIRST_POINTS, 3
    """Minimum room of a state, in points in addition to a step's; room of grown states, in halves of their order."""
    completed = 0
    """The rounds completed by the last call of :meth:`run`, even if it raised."""
    predicted: Array
    """f at the samples of each round before the step on them, filled by rounds unless it is empty."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.agents, self.now = agents, agents[0].now
        self.room, self._buffers = sent_points(agents), buffers_of(agents)
        self._outside = outside_of(agents)
        self.places = places_of_nodes(agents, self._outside)
        rule = agents[0].rule
        form = self._rule_form = rule_form(rule, [agent.links for agent in agents if agent.neighbors])
        self.links = links_of(agents, self.places, form)
        self._coupling = coupling_of(rule, form, self.links)
        self.symmetric, self.sends_duals = self._coupling.symmetric, self._coupling.sends_duals
        self._forms = learner_forms([agent.learner for agent in agents])
        self._kinds = kinds_of(agents, self._forms, self._coupling.certainty > 0.0)
        self.batch_sizes = drawing.batch_sizes_of(agents, self.places)
        self._step_sizes = sizes_ahead(agents, self._forms, 0, 1)
        self._steps, self._synced = np.zeros((2, len(agents)), dtype=np.int64)
        self._sums = sums_of(agents, len(self.links.other))
        self._banded, self._errs = (
            any(getattr(agent, kept) is not None for agent in agents) for kept in ("band", "errors")
        )
        self.predicted = NOT_KEPT
        self._open(self.batch_sizes + replay_of(rule).most)

    def _open(self, sent: Integers) -> None:
        """Make the arrays that depend on the kind of links; nodes send up to ``sent`` points, (V + outside,)."""
        agents = self.agents
        self._repacks = self._kinds.functions[self._kinds.of, REPACK] != NONE
        self.batches = drawing.in_flight(agents, self.places, self._outside, self.batch_sizes, self.room)
        self._taken = drawing.stepped_on(self.links, sent, self.symmetric)  # at most
        self._most = int(self._taken.max())
        self._reserves = self._wanted_reserves(np.array(self._orders()))
        self._received = nothing_received(agents, self.links, len(self.places))
        self._products = np.zeros((len(agents), 2))
        self._make_room()
        self._at = self._counted = 0  # the round of the next samples, and the first uncounted round
        self._since_sync = np.zeros((3, len(self.places)), dtype=np.int64)  # samples, rounds with any, points sent
        self._answer()

    def flight(self) -> Flight:
        """Return the messages sent last, with room for the next received messages."""
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
            A node's iteration grows without bound.
        """
        run_by_turns(self, rounds)

    def take(self, left: int) -> tuple[int, int, int, float]:
        """Run at most ``left`` rounds; returns as :func:`run_rounds`."""
        if self._at >= self.batches.points.shape[1] - 2:
            self.load(self.draw(self.agents, left))
        found = self._run_rounds(self._at, min(left, self.batches.points.shape[1] - 2 - self._at))
        if self._banded:
            follow_bands(self.agents, self.predicted, *self.outcomes, self._at, found[1])
        if self._errs:
            keep_errors(self.agents, self.batches.points, self.predicted, *self.outcomes, self._at, found[1])
        self._at += found[1]
        return found

    def pause(self, left: int) -> None:
        """Do the maintenance that states request, and enlarge them."""
        self._maintain()

    def begin_anew(self) -> None:
        """Do nothing: no node forgets."""

    def fail(self, node: int, curvature: float) -> None:
        """Raise a node's error about its values at its samples, or about its step."""
        own = self._own()
        values = own.values[node, : own.samples[self._at, node]]
        self.sync()
        agent = self.agents[node]
        agent.check_values(values)
        agent.check_stability(float(self._work.rates[0]), curvature)

    def _answer(self) -> None:
        """Evaluate the functions at the points in flight, as at the end of the previous round."""
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
                    None,
                    self._spare_scratch,
                    None,
                    self.predicted,
                    None,
                    first + completed,
                    count - completed,
                    self.now - PRIMING + completed,
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
        """The targets, (V, T, b, q), of samples in flight and drawn ahead, and the numbers of samples, (T, V)."""
        return self.batches.targets, self.batches.samples

    def sync(self) -> None:
        self._sync_states()
        self._count()
        rounds = max(0, self.now - PRIMING) - self.agents[0].round
        since = [*self._since_sync, drawing.at_neighbors(self.links, self._since_sync[2])]
        for i, (agent, *counted) in enumerate(zip(self.agents, *(each.tolist() for each in since), strict=False)):
            tally, (samples, learned, own, others) = agent.tally, counted
            agent.round += rounds
            settle(agent, i, self.now, rounds, samples, self._sums)
            tally.compression_error = float(self._sums.compression_error[i])
            if agent.neighbors:
                tally.constraint_rounds += learned
                tally.scalars_sent += agent.scalars_sent(rounds, own, others)
                self._sync_links(i)
        self._since_sync[:] = 0

    def _sync_links(self, i: int) -> None:
        """Update a node's sums of constraint values and its link state."""
        agent, edges, rows = self.agents[i], edges_at(self.links, i), self._coupling.rows
        agent.tally.constraint_values = self._sums.constraint_values[edges].copy()
        agent.tally.violation = self._sums.violation[edges].copy()
        assert self._rule_form is not None
        matrix = self.links.state[rows * edges.start : rows * edges.stop].reshape(rows, -1)
        agent.links = self._rule_form.unpack(agent.links, matrix)

    def _count(self) -> None:
        """Count the samples of the nodes' steps, the rounds with samples, and the points that all nodes sent."""
        learned, self._counted = slice(self._counted, self._at), self._at
        samples, nodes = self.batches.samples[learned], len(self.agents)
        self._since_sync[0, :nodes] += samples.sum(axis=0)
        self._since_sync[1, :nodes] += (samples > 0).sum(axis=0)
        self._since_sync[2] += self.batches.sent[learned].sum(axis=0)

    def restart_sums(self) -> None:
        """Start new sums after a report."""
        self._sums = sums_of(self.agents, len(self.links.other))

    def scatter(self) -> list[tuple[Array, Array]]:
        """Store the samples in flight in the agents, after :meth:`sync`; returns those drawn ahead, by agent."""
        return drawing.hand_over(self.agents, self.places, self.batches.since(self._at))

    def draw(self, agents: Sequence[Node], rounds: int) -> drawing.Drawn:
        """Draw the samples of at most ``rounds`` further rounds from the sources of these nodes, or of their owners."""
        columns = self.batches.points.shape[3] + self.batches.targets.shape[3]
        return drawing.draw_rounds(agents, drawing.ahead(rounds, self.now - PRIMING, agents), self.room, columns)

    def load(self, drawn: drawing.Drawn, beside: "Population | None" = None) -> None:
        """Append samples to those in flight; shares the arrays of ``beside``, with the same samples, if they fit."""
        self._count()
        batches = None if beside is None else beside.batches
        if batches is None or batches.points.shape[::2] != self.batches.points.shape[::2]:
            batches = self.batches.since(self._at).followed_by(drawn)
        self.batches, self._at, self._counted = batches, 0, 0
        kept = (*self.outcomes[0].shape[:3], self.agents[0].outputs)
        self.predicted = np.zeros(kept) if self._banded or self._errs else NOT_KEPT
        stepped, rounds = self._steps - self._synced, batches.points.shape[1] - 1
        samples = None if self.symmetric or len(self._buffers.keys) else batches.samples  # the points of all steps
        self._step_sizes = sizes_ahead(self.agents, self._forms, stepped, rounds, samples)
        self._steps[:], self._synced = 0, -stepped

    def _maintain(self) -> None:
        """Do the maintenance that states request, and enlarge them."""
        if (self._repacks | (self._states.counts[:, ROOM] >= self._taken)).all():
            self._look()  # most pauses: no state needs room
            return
        self._sync_states()
        orders = np.array(self._orders())
        if (~self._repacks & (orders > self._reserves)).any():
            self._reserves = self._wanted_reserves(orders * self._growth // 2)
            self._make_room()
            self._answer()

    def _make_room(self) -> None:
        """Move the states, after :meth:`_sync_states`, into arrays of the present capacity, and make room for rows."""
        self._rows = np.zeros((1, 0))  # rows are evaluated again
        self._make_states()
        each = zip(self._forms, self.agents, self._capacities(), strict=True)
        columns = np.array([form.columns(agent.state, capacity) for form, agent, capacity in each])
        lengths = np.where(self._repacks, 0, self._taken * columns)  # rounds place rows of repacked states
        self._row_begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._rows = np.zeros((1, int(self._row_begins[-1])))
        self._make_work(int(columns.max()))

    def _make_way(self, learned: bool) -> None:
        """Make more room within a round: for states, or, once all nodes have ``learned``, for rows, which are then
        evaluated again."""
        self._sync_states()
        needed = int(self._row_begins[-1])
        if learned and needed > self._rows.size:
            for room in (0, needed + needed // 4):  # frees the old rows before the new ones are made
                self._rows = np.zeros((1, room))
        if not learned or max(self._orders()) > self._spare_scratch.capacity:
            self._make_states()
            self._make_work(self._work.rows.shape[1])

    def _make_work(self, columns: int) -> None:
        """Make the working memory of rounds; rows of states that are not repacked have up to ``columns`` columns."""
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
        """Update the agents' states, and do the maintenance that they request."""
        stepped, self._synced = (self._steps - self._synced).tolist(), self._steps.copy()
        find_states(self._states, self._laid, self.agents, self._forms)
        for agent, form, counts, steps in zip(self.agents, self._forms, self._states.counts, stepped, strict=True):
            form.sync(agent.state, counts, steps)
        self._look()

    def _look(self) -> None:
        """Maintain the states that request it; the agents are updated except for their step counts."""
        find_states(self._states, self._laid, self.agents, self._forms)
        look_at(self._states, self.agents, self._forms, self._repacks, self._taken, self._reserves)

    def _orders(self) -> list[int]:
        return [form.order(agent.state) for form, agent in zip(self._forms, self.agents, strict=True)]

    def _capacities(self) -> list[int]:
        """Return the number of points for which each state has room; it depends on the node's degree."""
        spared = np.maximum(with_spare(self._orders()), FIRST_POINTS)
        found: list[int] = np.where(self._repacks, spared, self._taken + self._reserves).tolist()
        return found

    def _wanted_reserves(self, wanted: Integers) -> Integers:
        """Return the room of each state in addition to a step's points, (V,), at least ``wanted`` (V,).

        It is equal for all states, so that arrays grow rarely, unless the unused numbers would far exceed the used.
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


# Agents with unreliable links and clocks, held in arrays.

ROOM_AT_FIRST = 16
"""Minimum room for dictionary points at first, in addition to a step's points; doubled when used up."""


class LossyPopulation(Population):
    """Agents in arrays that may sleep, with messages that may be late, changed or lost.

    Parameters
    ----------
    agents : sequence of LossyAgent
        In sorted order of their labels.
    """

    agents: Sequence[LossyAgent]
    _at, _at_first, _growth = 0, ROOM_AT_FIRST, 4

    def _open(self, sent: Integers) -> None:
        agents = self.agents
        first, replays = agents[0], replay_of(agents[0].rule).most > 0
        self._repacks = np.zeros(len(agents), dtype=np.bool_)
        # A node's own points, as many again for each late answer, and the neighbours' points.
        late = sent[: len(agents)] * np.diff(self.links.start)
        self._taken = drawing.stepped_on(self.links, sent, self.symmetric) + late
        self._most = max(int(self._taken.max()), self.room)  # triggers evaluate at the last answered points too
        self._reserves = self._wanted_reserves(np.array(self._orders()))
        self._make_states()
        layout = MessageLayout(
            self.room,
            first.width,
            first.outputs,
            self.symmetric,
            self.symmetric and self._coupling.implicit,
            self.sends_duals and self._coupling.duals >= 0,
            self._coupling.certainty > 0.0,
        )
        self._messages = Messages(agents, self.links, self.places, layout)
        terms = self._messages.terms._replace(replays=replays, carries_points=not first.without_points)
        mail, self._counts = self._messages.mail, self._messages.counts
        self._kept = kept_of(agents, self.links, self._columns())
        self._exchange = LossyExchange(mail, self._kept, self._counts, terms)
        values = mail.own, mail.answers, mail.own_row_sums, mail.answer_row_sums, mail.duals
        self._received = Received(*values, mail.own_variances, mail.answer_variances)
        size, columns = self._kept.targets.shape[2:]
        self._ahead = drawing.Laid.nothing(len(agents), size, first.width, columns)
        self._points, self._outcomes = self._ahead.points, (self._ahead.targets, self._ahead.counts)
        self._bands_at = self._counts.cursor.tolist()  # the first steps that bands have not followed
        self._unfollowed = 0  # the rounds since then
        self._make_work(self._columns())
        if self.now:
            self._resume(np.ones(len(agents), dtype=np.bool_), sends=True)

    def flight(self) -> Flight:
        """Return the messages sent last, with room for the next received messages."""
        return self._messages.flight(self.now)

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds; raises as Population."""
        super().run(rounds)
        self._follow_bands()

    def take(self, left: int) -> tuple[int, int, int, float]:
        """Run at most ``left`` rounds; returns as :func:`run_lossy_rounds`."""
        happens, count = self._messages.rounds(self.now, left)
        with AtTurn(self, self._states.turn):
            found: tuple[int, int, int, float] = run_lossy_rounds(
                self._network(),
                self._own(self._buffers),
                self._received,
                self._exchange,
                self._spare_scratch,
                self._ahead,
                self.predicted,
                happens,
                self.now,
                count,
                0,
                DIVERGED,
                0,
            )
        self._unfollowed += found[1]
        return found

    def pause(self, left: int) -> None:
        """Draw samples if a node has none left, do the maintenance that states request, and enlarge them."""
        if (self._counts.cursor == len(self._ahead.counts)).any():
            self.load(self.draw(self.agents, left))
        self._maintain()

    def fail(self, node: int, curvature: float) -> None:
        """Raise a node's error about its values at its samples, or about its step."""
        self._follow_bands()
        super().fail(node, curvature)

    def _resume(self, evaluates: Booleans, sends: bool) -> None:
        """Evaluate functions of some nodes, (V,), at points in flight, and put the last messages into their slot."""
        happened, place = self._messages.happens(self.now - 1)
        arrays, mail = (self._network(), self._own(), self._received, self._exchange), self._exchange.mail
        with AtTurn(self, self._states.turn):
            resume(*arrays, happened, self.now, evaluates, sends)
        mail.deliveries[(self.now - 1) % len(mail.points)] = happened.deliveries[:, place]

    def _follow_bands(self) -> None:
        """Adapt bands to the steps since the last call; doing so at every pause would cost more."""
        if not (self._banded or self._errs) or not self._unfollowed:
            return
        known, reached = (self.predicted, *self.outcomes), self._counts.cursor.tolist()
        if self._banded:
            drawing.follow_steps(self.agents, *known, self._bands_at, reached, self._unfollowed)
        if self._errs:
            drawing.keep_errors_of_steps(self.agents, self._points, *known, self._bands_at, reached)
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

    @property
    def outcomes(self) -> tuple[Array, Integers]:
        """The targets, (T, V, b, q), of samples in flight and drawn ahead, and the numbers of samples, (T, V)."""
        return self._outcomes

    def sync(self) -> None:
        self._sync_states()
        sums, counts = self._sums, self._counts
        for i, agent in enumerate(self.agents):
            tally, steps = agent.tally, int(counts.completed[i]) - agent.round
            agent.round += steps
            settle(agent, i, self.now, steps, int(sums.samples[i]) - agent.samples, sums)
            tally.compression_error = float(sums.compression_error[i])
            tally.scalars_sent += int(counts.scalars[i])
            tally.bytes_sent += float(counts.bytes[i])
            edges = edges_at(self.links, i)
            tally.traffic = counts.traffic[edges].copy()
            if agent.neighbors:
                tally.constraint_rounds = counts.constraint_rounds[edges].copy()
                self._sync_links(i)
        counts.scalars[:], counts.bytes[:] = 0, 0.0

    def restart_sums(self) -> None:
        """Start new sums after a report."""
        super().restart_sums()
        self._counts.constraint_rounds[:] = 0

    def scatter(self) -> list[tuple[Array, Array]]:
        """Store the content of all arrays in the agents, after :meth:`sync`; returns samples drawn ahead, by agent."""
        kept, memory = self._kept, self._kept.points.shape[1]
        self._messages.hand_back(self.now)
        for i, agent in enumerate(self.agents):
            edges, learning, following = edges_at(self.links, i), int(kept.learning[i]), int(kept.following[i])
            oldest = max(0, following - agent.inbox.memory)
            rounds = [at for at in sorted(kept.drawn_at[i].tolist()) if at >= oldest]
            places = [(i, at % memory) for at in rounds]
            points = [kept.points[k][: kept.sent[k]] for k in places]
            targets = [kept.targets[k][: kept.samples[k]] for k in places]
            later = rounds.index(following)
            earlier = [kept.predicted[k][: kept.sent[k]] for k in places if k != places[later]]
            answered = [e for e in range(edges.start, edges.stop) if kept.last_sent[e] != ABSENT]
            agent.memory = {
                "lossy.drawn": np.array(rounds, dtype=np.int64),
                **stacked("lossy.drawn_points", points),
                **stacked("lossy.drawn_targets", targets),
                "lossy.predicted": np.array([at for at in rounds if at != following], dtype=np.int64),
                **stacked("lossy.predicted_values", earlier),
                "lossy.last_sent": np.array(answered, dtype=np.int64) - edges.start,
                **stacked("lossy.last_sent_points", [kept.last_sent_points[e, : kept.last_sent[e]] for e in answered]),
                **stacked("lossy.last_sent_values", [kept.last_sent_values[e, : kept.last_sent[e]] for e in answered]),
            }
            agent.sent_at, agent.following = (learning, following), (sealed(points[later]), sealed(targets[later]))
            agent.points = sealed(kept.own_points[i, : kept.own_sent[i]])
            agent.targets = sealed(kept.own_targets[i, : kept.own_samples[i]])
            received = zip(kept.received_points[edges], kept.received_sent[edges], strict=True)
            agent.received_points = [sealed(fresh[:count]) for fresh, count in received]
            agent.received_at, agent.used = kept.received_at[edges].copy(), kept.used[edges].copy()
            agent.quiet = kept.quiet[edges].copy()
        return self._ahead.behind(self._counts.cursor.tolist())

    def begin_anew(self) -> None:
        """Reset the nodes that return in the next round and are not yet reset for it."""
        kept, now = self._kept, self.now
        back = self._messages.returning(now, kept.following, kept.begun)
        for i in back.tolist():
            agent, form = self.agents[i], self._forms[i]
            edges = edges_at(self.links, i)
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
            self._messages.forget(i, now)
            kept.last_sent[edges], kept.quiet[edges], kept.begun[i] = ABSENT, False, now
        if len(back):
            self._resume(np.isin(np.arange(len(self.agents)), back), sends=False)
        for i in back.tolist():
            learning = int(kept.learning[i])
            remembered = (kept.drawn_at[i] == learning) | (kept.drawn_at[i] == kept.following[i])
            kept.predicted[i, kept.drawn_at[i] == learning] = kept.values[i]
            kept.drawn_at[i, ~remembered] = ABSENT

    def draw(self, agents: Sequence[Node], rounds: int) -> drawing.Drawn:
        """Draw the samples of at most ``rounds`` further rounds from the sources of these nodes, or of their owners."""
        return self._ahead.again(agents, self._counts.cursor.tolist(), drawing.ahead(rounds, self.now))

    def load(self, drawn: drawing.Drawn, beside: Population | None = None) -> None:
        """Take over samples that were drawn ahead, and the sizes of the steps on them."""
        size = self._ahead.points.shape[2]
        ahead = beside._ahead if isinstance(beside, LossyPopulation) else drawing.Laid.of(drawn, size)
        self._follow_bands()
        self._sync_states()
        kept, following = self._kept, (np.arange(len(self.agents)), self._kept.following % self._kept.samples.shape[1])
        samples = np.concatenate([[kept.own_samples, kept.samples[following]], ahead.counts])
        self._outcomes = np.concatenate([[kept.own_targets, kept.targets[following]], ahead.targets]), samples
        if self._banded or self._errs:
            self.predicted = np.zeros((*samples.shape, *ahead.targets.shape[2:3], self.agents[0].outputs))
        if self._errs:
            size = ahead.points.shape[2]
            flying = kept.own_points[:, :size], kept.points[following][:, :size]
            self._points = np.concatenate([flying, ahead.points])
        self._ahead, self._bands_at = ahead, [0] * len(self.agents)
        self._counts.cursor[:], self._steps[:] = 0, 0
        alone = not self.symmetric and not self._exchange.terms.replays  # steps use own samples only, prompt or late
        steps = len(ahead.counts) + 1
        self._step_sizes = sizes_ahead(self.agents, self._forms, 0, steps, samples if alone else None)
        self._work = self._work._replace(sizes=np.zeros(self._step_sizes.shape[2]))

    def _make_room(self) -> None:
        self._make_states()
        self._kept = self._kept._replace(rows=widened(self._kept.rows, self._columns()))
        self._exchange = self._exchange._replace(kept=self._kept)
        self._make_work(self._columns())

    def _answer(self) -> None:
        """Do nothing: rows keep their values when they are widened."""

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


def population_of(agents: Sequence[Agent]) -> Population:
    """Move agents into arrays."""
    lossy = [agent for agent in agents if isinstance(agent, LossyAgent)]
    return LossyPopulation(lossy) if lossy else Population(agents)
