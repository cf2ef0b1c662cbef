"""Nodes that send vectors, held in arrays, so that whole rounds run in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from kernelswarm.agents.learners.contract import Evaluated, FeatureLearner
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.learners.plain_features import PlainFeatures, feature_form, learner_forms
from kernelswarm.agents.nodes.arrays import DONE, PAUSED, Flight, Terms, VectorExchange, edges_at
from kernelswarm.agents.nodes.drawing import (
    Drawn,
    Laid,
    ahead,
    draw_rounds,
    follow_steps,
    put_back,
)
from kernelswarm.agents.nodes.filling import (
    MessageLayout,
    counts_of,
    kinds_of,
    links_of,
    outside_of,
    places_of_nodes,
    sealed,
    sizes_ahead,
    states_of,
    zeros,
)
from kernelswarm.agents.nodes.inbox import POINTS, SILENT
from kernelswarm.agents.nodes.messages import Messages
from kernelswarm.agents.nodes.node import DIVERGED, PRIMING
from kernelswarm.agents.nodes.turns import run_by_turns, settle
from kernelswarm.agents.nodes.vector_rounds import (
    Phases,
    Samples,
    VectorNetwork,
    Vectors,
    VectorSums,
    Work,
    run_lossy_vector_rounds,
    run_vector_rounds,
    slot_of,
)
from kernelswarm.agents.nodes.vectors import LossyVectorNode, VectorNode, lambdas_of, vectors_form
from kernelswarm.agents.parts.plain_parts import AtTurn
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.callbacks import array_of, called
from kernelswarm.protocols.links.distortion import EXACT, distort
from kernelswarm.protocols.links.faults import misreport_in
from kernelswarm.protocols.parameters.contract import PHASE, AddressedRule, CompiledParameterRule

NO_DUALS = np.zeros(0)


class VectorPopulation:
    """Nodes in arrays that run their rounds together, like :class:`~kernelswarm.agents.nodes.population.Population`.

    On links that are not ideal, vectors may be late, changed or lost, and nodes may sleep.

    Parameters
    ----------
    agents : sequence of VectorNode
        In sorted order of their labels.
    """

    answers = symmetric = sends_duals = False
    completed = 0

    def __init__(self, agents: Sequence[VectorNode]) -> None:
        self.agents = agents
        self.now = agents[0].now
        for agent in agents if not self.now else ():
            agent.begin()
        self._outside = outside_of(agents)
        places = self.places = places_of_nodes(agents, self._outside)
        self._batch_sizes = np.array([agent.learner.batch_size for agent in agents], dtype=np.int64)
        self._protocol = vectors_form(agents, self._begun)
        self.links = links_of(agents, places, None)
        self._ones = np.ones(len(places), dtype=np.int64)  # the number of vectors that each node sends
        self._forms = learner_forms([agent.learner for agent in agents], feature_form)
        self._kinds = kinds_of(agents, self._forms)
        vectors, sent = [self._protocol.pack(i) for i in range(len(agents))], self._protocol.sent
        self._width = sent.stop - sent.start
        last_sent = np.zeros((len(places), self._width))
        last_sent[: len(agents)] = [vector[sent] for vector in vectors]
        for agent in agents:
            agent.own = agent.learner.evaluate(agent.state, agent.points)
        own = agents[0].own
        self._phases = _phases(agents, self._protocol.rule, sent.start)
        self._states = states_of(agents, self._forms, [0] * len(agents), self._batch_sizes)
        each, room = zip(agents, self._forms, self._batch_sizes.tolist(), strict=True), int(self._batch_sizes.max())
        scratch = max(form.scratch(agent.state, 0, size) for agent, form, size in each)
        self._vectors = Vectors(
            np.concatenate(vectors),
            np.cumsum([0, *map(len, vectors)]),
            last_sent,
            np.zeros((len(agents) * room, own.rows.shape[1])),
            np.zeros((1, len(agents), room, own.values.shape[1])),
            np.zeros(scratch),
        )
        for i, agent in enumerate(agents):
            self._keep_evaluated(i, agent.own, 0)
        self._banded = any(agent.band is not None for agent in agents)
        self._counts = counts_of(agents, self.links)
        self._counts.cursor[:] = 0 if self.now >= PRIMING else -1  # 0 after the adaptation to the first samples
        laid, following = (
            Laid.of(Drawn(drawn, np.array([[len(x) for x, _ in drawn]])), room)
            for drawn in ([(agent.points, agent.targets) for agent in agents], [agent.following for agent in agents])
        )
        self._take_on(
            laid.followed_by(following), sizes_ahead(agents, self._forms, 0, 1, by_rounds=True).swapaxes(0, 1)
        )
        self._lossy = [agent for agent in agents if isinstance(agent, LossyVectorNode)]
        self._messages: Messages | None = None
        self._exchange: VectorExchange | None = None
        if self._lossy:
            self._open_messages(self._lossy)
        self.restart_sums()

    def _open_messages(self, agents: Sequence[LossyVectorNode]) -> None:
        """Take over the messages of nodes on links that are not ideal."""
        first, layout = agents[0], MessageLayout(1, self._width, 0)
        messages = self._messages = Messages(agents, self.links, self.places, layout, self._counts)
        conditions = first.conditions.links
        messages.terms = messages.terms._replace(
            bound_on_points=float(conditions.clip.on("vectors")), noise_on_points=float(conditions.noise_on("vectors"))
        )
        self._vectors.last_sent[: len(agents)] = [agent.last_sent for agent in agents]
        quiet, used = np.array([agent.quiet for agent in agents]), np.concatenate([agent.used for agent in agents])
        sent_at = np.array([agent.sent_at for agent in agents], dtype=np.int64)
        exchange = self._exchange = messages.exchange(sent_at, quiet, used, False, float(first.message_bytes))
        sends = (exchange.sent_at == self.now - 1) & ~quiet
        sent = np.array([agent.rule.send(agent.links) for agent in agents]).reshape(len(agents), -1)
        messages.send_again(self.now, sends, sent, exchange.asked)

    def flight(self) -> Flight:
        """Return the messages sent last, with room for the messages received next."""
        if self._messages is not None:
            return self._messages.flight(self.now)
        vectors = self._vectors.last_sent
        last_sent = vectors.reshape(len(vectors), 1, self._width)  # a new axis would have another type for the compiler
        none, ones = np.zeros((0, 1, self.agents[0].outputs)), self._ones
        return Flight(last_sent, none, none, none[:, :, 0], none[:, :, 0], NO_DUALS, NO_DUALS, ones, ones, ones)

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound.
        """
        run_by_turns(self, rounds)

    def take(self, left: int) -> tuple[int, int, int, float]:
        """Run at most ``left`` rounds; returns as :func:`run_vector_rounds`."""
        before = self._reached()
        if max(before) == len(self._samples.counts) - 2:
            return PAUSED, 0, 0, 0.0
        with AtTurn(self, self._states.turn):
            if self._messages is None:
                reason, completed, node = self._run_rounds(left, before[0])
            else:
                happens, count = self._messages.rounds(self.now, left)
                reason, completed, node = run_lossy_vector_rounds(
                    self._network(), self._exchange, happens, self.now, count, DIVERGED, False
                )
        if self.now < PRIMING and (pool := self.agents[0].pool) is not None:
            for _ in range(completed):
                pool.average()
        elif self._banded:
            outcomes = self._vectors.values, self._samples.targets, self._samples.counts
            follow_steps(self.agents, *outcomes, before, self._reached(), completed)
        return reason, completed, node, 0.0

    def _run_rounds(self, left: int, at: int) -> tuple[int, int, int]:
        """Run at most ``left`` rounds on ideal links, from the samples ``at`` on; in the last priming round nodes adapt
        to their first samples."""
        primes = self.now < PRIMING
        if primes and self.now < PRIMING - 1:
            return DONE, 1, 0
        count = 1 if primes else min(left, len(self._samples.counts) - 2 - at)
        found: tuple[int, int, int] = run_vector_rounds(self._network(), None, None, at, count, DIVERGED, primes)
        self._counts.cursor[:] += found[1]
        if not primes:
            self._counts.learned[:] += found[1]
            self._sums.samples[:] += self._samples.counts[at : at + found[1]].sum(axis=0)
        return found

    def begin_anew(self) -> None:
        """Reset the nodes that return in the next round."""
        assert self._messages is not None and self._exchange is not None
        exchange, now, sizes = self._exchange, self.now, self._samples.step_sizes
        for i in self._messages.returning(now, exchange.sent_at, exchange.begun).tolist():
            agent, form, at = self._lossy[i], self._forms[i], int(self._counts.cursor[i])
            self._sync(i)
            agent.points, agent.targets = map(sealed, self._batch(i, at))
            agent.begin_anew()
            form.move(agent.state, self._states.storage[i], 0)
            self._known(i)[:], self._vectors.last_sent[i] = self._protocol.pack(i), agent.last_sent
            self._keep_evaluated(i, agent.own, at)
            first = form.step_sizes(0, len(sizes) - at)
            sizes[at:, i, : first.shape[1]] = first
            if isinstance(form, PlainLearner):
                form.follow(agent.state, sizes[at:, i])
            self._messages.forget(i, now)
            exchange.quiet[i], exchange.begun[i] = False, now

    def fail(self, node: int, curvature: float) -> None:
        """Raise a node's error about its values at its samples."""
        self.sync()
        at = self._reached()[node]
        values = self._vectors.values[slot_of(at, self._vectors.values), node]
        self.agents[node].check_values(values[: self._samples.counts[at, node]])

    def _network(self) -> VectorNetwork:
        return VectorNetwork(
            self._states,
            self._kinds,
            self.links,
            self._vectors,
            self._sums,
            self._phases,
            self._samples,
            self._work,
        )

    def sync(self) -> None:
        counts = self._counts
        for i, agent in enumerate(self.agents):
            rounds = self._sync(i)
            if self._messages is not None:
                agent.tally.scalars_sent += int(counts.scalars[i])
                agent.tally.bytes_sent += float(counts.bytes[i])
                agent.tally.traffic = counts.traffic[edges_at(self.links, i)].copy()
            elif not fulfils(agent.rule, AddressedRule):  # such protocols count their own numbers
                agent.tally.scalars_sent += rounds * self._width * len(agent.neighbors)
        counts.scalars[:], counts.bytes[:] = 0, 0.0

    def _sync(self, i: int) -> int:
        """Update a node from the arrays, and return the number of rounds with steps since the last update."""
        agent, rounds = self.agents[i], int(self._counts.learned[i])
        self._counts.learned[i] = 0
        if not self._protocol.synced:
            self._forms[i].sync(agent.state, self._states.counts[i], rounds)
            self._protocol.unpack(i, self._known(i))
            agent.round += rounds
        settle(agent, i, self.now, rounds, int(self._sums.samples[i]) - agent.samples, self._sums)
        return rounds

    def _known(self, i: int) -> Array:
        """Return a view of a node's vector: weights and further state of the protocol."""
        return self._vectors.known[self._vectors.begins[i] : self._vectors.begins[i + 1]]

    def restart_sums(self) -> None:
        """Start new sums after a report."""
        self._sums = VectorSums(
            np.array([agent.tally.loss for agent in self.agents], dtype=np.float64),
            np.array([agent.largest_target for agent in self.agents], dtype=np.float64),
            np.array([agent.samples for agent in self.agents], dtype=np.int64),
        )

    def scatter(self) -> list[tuple[Array, Array]]:
        """Store the samples in flight in the nodes, after :meth:`sync`; returns those drawn ahead, by node."""
        reached = self._reached()
        for i, (agent, at) in enumerate(zip(self.agents, reached, strict=True)):
            (agent.points, agent.targets), agent.following = self._batch(i, at), self._batch(i, at + 1)
        if self._messages is not None and self._exchange is not None:
            self._hand_back(self._messages, self._exchange)
        return self._behind(reached)

    def _hand_back(self, messages: Messages, exchange: VectorExchange) -> None:
        """Store received and sent messages in the nodes."""
        mail = exchange.mail
        messages.hand_back(self.now)
        slot = (self.now - 1) % len(mail.points)
        for i, agent in enumerate(self._lossy):
            agent.sent_at, agent.quiet = int(exchange.sent_at[i]), bool(exchange.quiet[i])
            agent.used = exchange.used[edges_at(self.links, i)].copy()
            agent.last_sent = self._vectors.last_sent[i].copy()
            if mail.previous[slot, i] != SILENT:  # sent in the last round
                agent.last_sent = self._as_received(exchange.terms, i, mail.points[slot, i])

    def _as_received(self, terms: Terms, i: int, vector: Array) -> Array:
        """Return a vector (1, n) that node i has just sent, as changed by its faults and the links, (n,)."""
        received, sent = vector.copy(), self.now - 1
        (first, second), faults = terms.node_keys[i].tolist(), slice(*terms.fault_start[i : i + 2].tolist())
        misreport_in(received, terms.faults[faults], first, second, sent, POINTS)
        bound, noise = terms.bound_on_points, terms.noise_on_points
        if terms.bits != EXACT or noise > 0.0 or bound < np.inf:
            called(distort, received, bound, noise, terms.quantile, terms.bits, first, second, sent, POINTS)
        found: Array = received[0]
        return found

    def _batch(self, i: int, at: int) -> tuple[Array, Array]:
        """Return the points (n, p) and targets (n, q) of node i in a round."""
        points, targets, counts, *_ = self._samples
        there = slice(counts[at, i])
        return points[at, i, there].copy(), targets[at, i, there].copy()

    def _behind(self, reached: Sequence[int]) -> list[tuple[Array, Array]]:
        """Return each node's samples after its two batches in flight, as they were drawn."""
        points, targets, counts, *_ = self._samples
        return Laid(points, targets, counts).behind([at + 2 for at in reached])

    def _keep_evaluated(self, i: int, own: Evaluated, at: int) -> None:
        """Take over node i's evaluation at the samples of a round, which are those of its next step."""
        vectors, count = self._vectors, len(own.values)
        begin, slot = i * vectors.values.shape[2], slot_of(at, vectors.values)
        vectors.values[slot, i, :count], vectors.rows[begin : begin + count] = own.values, own.rows
        form, agent = self._forms[i], self.agents[i]
        if isinstance(form, PlainFeatures):
            form.begin(agent.state, agent.round - agent.begun, own)

    def _begun(self, i: int) -> tuple[Evaluated, Array]:
        """Return node i's evaluation at its samples at the start of a round, and their targets."""
        (*_, room, _), form, at = self._vectors.values.shape, self._forms[i], int(self._counts.cursor[i])
        at += 0 if self._lossy else 1 + int(self._states.turn[0])  # on ideal links cursors move only after the rounds
        points, targets = self._batch(i, at)
        if isinstance(form, PlainFeatures):
            return form.own(self.agents[i].state), targets
        rows, values = self._vectors.rows[i * room :], self._vectors.values[slot_of(at, self._vectors.values), i]
        return Evaluated(points, rows[: len(points)].copy(), values[: len(points)].copy()), targets

    def _reached(self) -> list[int]:
        """Return the index of the samples of each node's next step."""
        reached: list[int] = self._counts.cursor.tolist()
        return reached

    def pause(self, left: int) -> None:
        """Draw the samples of at most ``left`` further rounds, after the samples in flight."""
        points, targets, counts, *_ = self._samples
        reached, stepped = self._reached(), 0 if self._protocol.synced else self._counts.learned
        if min(reached) < len(counts) - 2:  # some node slept
            for agent, behind in zip(self.agents, self._behind(reached), strict=True):
                put_back(agent, *behind)
        now, nodes = np.add.outer((0, 1), reached), np.arange(len(self.agents))
        in_flight = Laid(points[now, nodes], targets[now, nodes], counts[now, nodes])
        columns = points.shape[3] + targets.shape[3]
        further = draw_rounds(self.agents, ahead(left, max(0, self.now - PRIMING)), points.shape[2], columns)
        laid = in_flight.followed_by(Laid.of(further, points.shape[2]))
        if self._banded:
            values = np.zeros((len(laid.counts), *self._vectors.values.shape[1:]))
            values[0] = self._vectors.values[slot_of(1, self._vectors.values) * now[0], nodes]
            self._vectors = self._vectors._replace(values=values)
        sizes = sizes_ahead(self.agents, self._forms, stepped, len(further.counts) + 1, by_rounds=True)
        self._take_on(laid, sizes.swapaxes(0, 1))
        self._counts.cursor[:] = 0
        if self._protocol.synced:  # `sizes_ahead` may have set learners to their last evaluation
            for agent in self.agents:
                agent.place()

    def _take_on(self, laid: Laid, sizes: Array) -> None:
        """Take over samples, and the sizes of the steps on them."""
        self._samples = Samples(laid.points, laid.targets, laid.counts, sizes, self._batch_sizes)
        self._work = self._workspace()

    def _workspace(self) -> Work:
        """Return the working memory of rounds on the present samples."""
        (size, outputs), columns = self._vectors.values.shape[2:], self._vectors.rows.shape[1]
        widest = max(len(agent.neighbors) for agent in self.agents)
        known = {"b": size, "C": outputs, "R": columns, "w": self._phases.weights, "r": widest * self._width}
        known["k"] = self._samples.step_sizes.shape[2]
        names = "rows bR, values bC, gradient bC, rates b, stiffness b, losses b, moved w, sizes k, received r"
        return Work(**zeros(names, known), counts=np.ones(widest))


def _phases(agents: Sequence[VectorNode], rule: CompiledParameterRule, sent: int) -> Phases:
    """Return the functions and numbers of a protocol."""
    first = agents[0]
    both = (rule.adapt, rule.receive)
    starts = [NONE if phase is None or phase.start is None else address(phase.start, PHASE) for phase in both]
    ends = [NONE if phase is None else address(phase.finish, PHASE) for phase in both]
    columns = first.own.rows.shape[1]
    learners = {agent.learner: agent for agent in agents}.values()
    return Phases(
        functions=array_of([starts[0], ends[0], starts[1], ends[1]]),
        numbers=np.asarray(rule.numbers, dtype=np.float64),
        lambdas=np.stack([lambdas_of(cast(FeatureLearner, node.learner), node.state, columns) for node in learners]),
        weights=int(np.size(first.rule.weights(first.links))),
        sent=sent,
        implicit=first.rule.step == "implicit",
    )
