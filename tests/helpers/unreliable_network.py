"""The round on unreliable links as the docs state it: every function a plain sum, every message kept as it was sent.

What becomes of messages, who is awake, and the noise of numbers is the realization of the experiment. All else is from
`docs/links.md` and `docs/mathematics.md`, for the squared loss and the squared distance, and nothing is compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.nodes.replay_buffer import ReplayBuffer
from kernelswarm.arrays import Array
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.realization import LOST, Realization
from kernelswarm.protocols.replay import certainty_of, replay_of
from tests.helpers.changed_messages import Changes
from tests.helpers.dense_functions import Expansion, Filter
from tests.helpers.naive_network import limited, own_part

PRIMING = 2
"""Rounds before the first, in which points are sent, and answered, over ideal links."""
NEVER = -1


class Evaluation(NamedTuple):
    """A node's function at some points: values, the row sums of its pairs, and its variances."""

    values: Array
    row_sums: Array
    variances: Array

    @staticmethod
    def nothing() -> Evaluation:
        return Evaluation(np.zeros((0, 1)), np.zeros(0), np.zeros(0))


class Message(NamedTuple):
    """A message on a directed edge, and the rounds that it speaks of."""

    sent: int
    due: int
    carried: int  # when the points were drawn that it brings
    about: int  # when those were drawn at which its sender's own values are
    answered: int  # when those were drawn that it answers
    points: Array
    own: Evaluation
    answer: Evaluation
    dual: float


class Pair(NamedTuple):
    """Points at which a node and one neighbour meet in a step, with the neighbour's function there."""

    edge: int
    points: Array
    reply: Evaluation
    share: float  # what is left of the pull at the age of the message
    dual: float
    answered: int


@dataclass
class Node:
    """What a node knows and keeps."""

    plan: Any
    source: Any
    function: Any
    duals: Array
    averages: Array
    buffer: ReplayBuffer | None
    drawn: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    predicted: dict[int, Array] = field(default_factory=dict)
    learning: int = NEVER
    following: int = NEVER
    samples: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        self.neighbors: tuple[int, ...] = self.plan.neighborhood.neighbors
        self.degree = len(self.neighbors)
        self.asks = self.plan.neighborhood.asks or (True,) * self.degree
        self.asked = self.plan.neighborhood.asked or (True,) * self.degree
        self.mail: list[list[Message]] = [[] for _ in self.neighbors]
        self.last = [NEVER] * self.degree  # the rounds of the last messages that it sent
        self.received = [(NEVER, np.zeros((0, 1)))] * self.degree
        self.used = np.full((self.degree, 2), NEVER)
        self.last_answer: list[tuple[Array, Array] | None] = [None] * self.degree
        self.traffic = np.zeros((self.degree, 4), dtype=np.int64)  # sent to a neighbour; then of it: come, lost, late
        self.scalars = 0

    @property
    def own(self) -> tuple[Array, Array]:
        """The points of the step to come, and the targets of the first of them."""
        return self.drawn[self.learning] if self.learning != NEVER else (np.zeros((0, 1)), np.zeros((0, 1)))


class UnreliableNetwork:
    """The nodes of an opened network, round by round."""

    def __init__(self, network: Any) -> None:
        plans = network.plans
        self.rule, self.conditions, self.links = plans[0].rule, plans[0].conditions, plans[0].conditions.links
        self.symmetric, self.implicit = self.rule.form == "symmetric", self.rule.step == "implicit"
        self.certainty, self.proximity = certainty_of(self.rule), hasattr(self.rule, "gamma")
        self.lessons, self.margin = 0, np.inf
        self.nodes = {plan.neighborhood.node: self._node(plan) for plan in plans}
        self.changes = Changes(self.conditions, list(self.nodes))
        self.edges = [(i, j) for i, node in self.nodes.items() for j in node.neighbors]  # i receives from j
        receivers, senders = np.array(self.edges, dtype=np.int64).T
        attributes = tuple(each for plan in plans for each in plan.neighborhood.edges)
        distances = [plan.neighborhood.distances for plan in plans]
        known = None if any(each is None for each in distances) else np.concatenate(distances)
        facts = EdgeFacts(senders.copy(), receivers.copy(), known, attributes)
        self.realization = Realization(self.conditions, np.array(list(self.nodes), dtype=np.int64), facts)
        self.dropped: list[tuple[Node, int, int]] = []  # counted when they would have come
        self.now = 0
        self.run(PRIMING)

    def _node(self, plan: Any) -> Node:
        replay, degree = replay_of(self.rule), len(plan.neighborhood.neighbors)
        buffer = ReplayBuffer(replay, plan.inputs, plan.neighborhood) if replay.points and degree else None
        return Node(plan, plan.source, self._function(plan), np.zeros(degree), np.zeros(degree), buffer)

    def _function(self, plan: Any) -> Any:
        return Filter(plan.learner, plan.learner.ridge) if hasattr(plan.learner, "ridge") else Expansion(plan.learner)

    def run(self, rounds: int) -> None:
        for now in range(self.now, self.now + rounds):
            for receiver, place, fate in self.dropped:
                receiver.traffic[place, fate] += 1
            self.dropped.clear()
            awake = {i: now < PRIMING or bool(self._real("awake", k, now)) for k, i in enumerate(self.nodes)}
            for i, node in self.nodes.items():
                if awake[i] and getattr(self.conditions.clock, "memory", True) is False and node.following != now - 1:
                    self._forget(node, now)
                self._deliver(node, now, awake[i] or self.conditions.clock.listens)
            running = [node for i, node in self.nodes.items() if awake[i]]
            for node in running:
                if node.learning != NEVER:
                    self._learn(node, now)
            for node in running:
                self._publish(node, now)
        self.now += rounds

    def _real(self, what: str, place: int, now: int) -> Any:
        at = self.realization.look(now - PRIMING)
        return getattr(self.realization, what)[place, at]

    def _deliver(self, node: Node, now: int, awake: bool) -> None:
        """Count what comes in this round, and lose it where nobody is there."""
        for e, mail in enumerate(node.mail):
            node.traffic[e, 1 if awake else 2] += sum(one.due == now and one.sent >= PRIMING for one in mail)
            node.mail[e] = [one for one in mail if awake or one.due != now]

    def _forget(self, node: Node, now: int) -> None:
        node.function = self._function(node.plan)
        node.duals, node.averages = np.zeros(node.degree), np.zeros(node.degree)
        node.mail = [[one for one in each if one.due >= now] for each in node.mail]
        node.drawn = {at: node.drawn[at] for at in (node.learning, node.following)}
        node.predicted = {node.learning: node.function.values(node.own[0])}
        node.last_answer = [None] * node.degree
        if node.buffer is not None:
            node.buffer.forget()

    def _arrived(self, node: Node, e: int, now: int, reach: int) -> list[Message]:
        """Return what has come on an edge and was sent within so many rounds, the newest first."""
        come = [one for one in node.mail[e] if one.due <= now and one.sent >= now - 1 - reach]
        return sorted(come, key=lambda one: -one.sent)

    def _answer(self, node: Node, e: int, now: int) -> Pair | None:
        """Return the pairs at the node's own points, of this step or an earlier one, that a neighbour answered."""
        oldest = now - self.links.memory(self.conditions.transit)
        for one in self._arrived(node, e, now, self.links.max_age):
            if one.answered not in node.drawn or one.answered < oldest:
                continue
            if one.sent == node.used[e, 0] and self.links.on_missing == "skip":
                return None
            if not len(one.answer.values):
                continue
            node.used[e, 0] = one.sent
            points = node.drawn[one.answered][0]
            return Pair(e, points, one.answer, self._left(now, one), float(node.duals[e]), one.answered)
        return None

    def _values(self, node: Node, e: int, now: int) -> Pair | None:
        """Return the pairs at a neighbour's own points, which have come with this message or an earlier one."""
        for one in self._arrived(node, e, now, self.links.max_age):
            come = self._arrived(node, e, now, self.links.reach - 1)
            source = one if one.carried == one.about else next((each for each in come if each.sent == one.about), None)
            if source is None or source.carried != one.about or one.about == NEVER:
                continue
            if one.sent == node.used[e, 1] and self.links.on_missing == "skip":
                return None
            if not len(one.own.values):
                continue
            node.used[e, 1] = one.sent
            return Pair(e, source.points, one.own, self._left(now, one), one.dual, one.about)
        return None

    def _left(self, now: int, one: Message) -> float:
        return 1.0 / (1.0 + self.links.damping * (now - 1 - one.sent))

    def _strength(self, pair: Pair) -> float:
        return pair.share * (2.0 * pair.dual if self.proximity else self.rule.strength)

    def _learn(self, node: Node, now: int) -> None:
        function, (points, targets), learner = node.function, node.own, node.plan.learner
        size, b, batches = len(targets), learner.batch_size, node.plan.neighborhood.batch_sizes
        eta = b if self.certainty else learner.step_size.value
        node.samples, node.steps = node.samples + size, node.steps + 1
        edges = range(node.degree)
        asked = [e for e in edges if node.asks[e] and len(points)]
        answers = [pair for pair in (self._answer(node, e, now) for e in asked) if pair is not None]
        about = [e for e in edges if node.asked[e] and self.symmetric]
        back = [pair for pair in (self._values(node, e, now) for e in about) if pair is not None]
        prompt = [pair for pair in answers if pair.answered == node.learning]
        late = [pair for pair in answers if pair.answered != node.learning]
        sets = [points] * len(prompt) + [pair.points for pair in (*back, *late)]
        moves = [(points, np.zeros((len(points), 1)))]
        lessons = [self._lessons(node, points, [pair.reply for pair in prompt])]
        strengths = np.zeros(size)
        kinds = [("prompt", each) for each in prompt] + [("back", each) for each in back]
        for kind, pair in [*kinds, *(("late", each) for each in late)]:
            own_batch = batches[pair.edge] if kind == "back" else b
            pull = np.full(len(pair.points), self._strength(pair))
            if kind == "prompt":
                strengths += self._alike(node, pair)[:size] * pull[:size]
            elif kind == "late":
                strengths += np.max(self._alike(node, pair) * pull)
            if self.implicit:
                mine = eta * sum(np.abs(function.inner(pair.points, x)).sum(axis=1) for x in sets)
                both = mine + (pair.reply.row_sums if self.symmetric else mine)
                pull = limited(pull, both, own_batch)
            apart = function.values(pair.points) - pair.reply.values
            move = -eta / own_batch * np.reshape(pull * self._alike(node, pair), (-1, 1)) * apart
            if kind == "prompt":
                moves[0] = points, moves[0][1] + move
            else:
                moves.append((pair.points, move))
                lessons.append(self._lessons(node, pair.points, [pair.reply]))
        part = 1.0
        if self.implicit and node.degree and size:
            gram = function.inner(points[:size], points[:size])
            gain, spread = np.mean(np.diag(gram)), np.mean(np.abs(gram).sum(axis=1))
            part = own_part(eta / b, gain, spread, 2.0, np.max(strengths), function.order, node.samples)
        compared = self._compared(node, answers) if size else []
        x, weights = (np.concatenate(each) for each in zip(*moves, strict=True))
        taught = [lesson for each in lessons for lesson in each]
        self.lessons += len(taught)
        own = points[:size], targets
        function.step(x, weights, own, part * eta / b, part * eta, implicit=self.implicit, lessons=taught)
        if self.proximity and size:
            self._ascend(node, compared, eta * min(1.0, size / b))

    def _alike(self, node: Node, pair: Pair) -> Array:
        """Return 1 where both ends are about as sure, or nobody says how sure it is, and 0 elsewhere."""
        if not self.certainty:
            return np.ones(len(pair.points))
        mine, theirs = np.diag(node.function.inner(pair.points, pair.points)), pair.reply.variances
        for ratio in (mine / theirs / self.certainty, theirs / mine / self.certainty):
            self.margin = min(self.margin, float(np.min(np.abs(ratio - 1.0))))
        return np.where((mine > self.certainty * theirs) | (theirs > self.certainty * mine), 0.0, 1.0)

    def _lessons(self, node: Node, points: Array, replies: Sequence[Evaluation]) -> list[tuple[Array, Array, float]]:
        """Return what the surest neighbour says at each point where it is surer than the node, and how sure it leaves
        one."""
        found: list[tuple[Array, Array, float]] = []
        mine = np.diag(node.function.inner(points, points)) if self.certainty and replies else ()
        for k, variance in enumerate(mine):
            best = min(replies, key=lambda each: each.variances[k])
            if variance > self.certainty * best.variances[k]:
                found.append((points[k], best.values[k], self.certainty * best.variances[k]))
        return found

    def _compared(self, node: Node, answers: Sequence[Pair]) -> list[tuple[int, float, float]]:
        """Return the edges that samples say something of, with the mean square difference, and by how much more loss
        the neighbour predicts the targets than the node did before it learned them."""
        found = []
        for pair in answers:
            targets, values = node.drawn[pair.answered][1], node.function.values(pair.points)
            if not len(targets):
                continue
            known, size = node.predicted.get(pair.answered, values), len(targets)
            excess = (pair.reply.values[:size] - targets) ** 2 - (known[:size] - targets) ** 2
            apart = np.sum((values - pair.reply.values) ** 2, axis=1)
            found.append((pair.edge, float(np.mean(apart)), float(np.mean(excess))))
        return found

    def _ascend(self, node: Node, compared: list[tuple[int, float, float]], eta: float) -> None:
        rule, bound = self.rule, self.rule.dual_max
        for e, apart, excess in compared:
            if rule.gamma.adapts:
                beta = min(1.0, max(rule.gamma.rate, 2.0 / (node.steps + 1)))
                node.averages[e] += beta * (excess - node.averages[e])
                tolerance = rule.gamma.scale * max(0.0, node.averages[e])
                bound = min(rule.dual_max, node.plan.learner.batch_size / (2.0 * eta * node.degree))
            else:
                tolerance = rule.gamma.value
            raised = (1.0 - rule.delta * eta**2) * node.duals[e] + rule.ascent * eta * (apart - tolerance)
            node.duals[e] = min(max(0.0, raised), bound)

    def _publish(self, node: Node, now: int) -> None:
        """Speak of the function as it is now, with the samples of a later step."""
        node.learning = node.following
        new = []
        for e in range(node.degree):
            newest = next(iter(self._arrived(node, e, now, self.links.reach - 1)), None)
            if newest is not None and newest.carried != node.received[e][0]:
                new.append(newest.points)
            if newest is not None:
                node.received[e] = newest.carried, newest.points
        points, targets = node.source.draw(node.plan.learner.batch_size)
        if node.buffer is not None:
            for each in (*new, self.changes.released(points, self._label(node), now)):
                node.buffer.keep(each)
            points = np.concatenate([points, node.buffer.draw()])
        node.following, node.drawn[now] = now, (points, targets)
        mine = node.own[0]
        if node.learning != NEVER:
            node.predicted[node.learning] = node.function.values(mine)
        received_points = [each for _, each in node.received]
        sets = [mine] * node.degree + (received_points if self.symmetric else [])
        for e, other in enumerate(node.neighbors):
            k, back = self.edges.index((self._label(node), other)), self.edges.index((other, self._label(node)))
            quiet = self._quiet(node, e, now)
            if quiet or (now >= PRIMING and not self._real("active", k, now)):
                continue
            node.last_answer[e] = received_points[e], node.function.values(received_points[e])
            carried = now
            if self.symmetric and node.learning != NEVER and node.last[e] != node.learning:
                carried = node.learning
            node.last[e] = now
            delay = 0 if now < PRIMING else int(self._real("deliveries", back, now))
            receiver = self.nodes[other]
            place = receiver.neighbors.index(self._label(node))
            if now >= PRIMING:
                node.traffic[e, 0] += 1
                node.scalars += self._size(node, e, len(points), len(mine), len(received_points[e]))
            if delay == LOST or delay > self.links.max_age:
                self.dropped.append((receiver, place, 2 if delay == LOST else 3))
                continue
            rounds = now, now + 1 + delay, carried, node.learning, node.received[e][0]
            message = Message(
                *rounds, *self._contents(node, other, carried, received_points[e], sets, float(node.duals[e]))
            )
            receiver.mail[place].append(message)

    def _size(self, node: Node, e: int, points: int, own: int, answered: int) -> int:
        """Count the numbers of a message, of one input and one output: nobody is asked on edges of one direction."""
        limits = int(self.symmetric and self.implicit) + (self.certainty > 0.0)
        size = points if node.asks[e] else 0
        if self.symmetric and node.asks[e]:
            size += (1 + limits) * own + self.proximity
        return size + (1 + limits) * answered if node.asked[e] else size

    def _label(self, node: Node) -> int:
        label: int = node.plan.neighborhood.node
        return label

    def _quiet(self, node: Node, e: int, now: int) -> bool:
        """Tell whether the function has hardly moved where the node answered the neighbour last."""
        trigger, last_answer = self.links.trigger, node.last_answer[e]
        if now < PRIMING or not trigger.threshold or last_answer is None or not len(last_answer[0]):
            return False
        moved = np.max(np.abs(node.function.values(last_answer[0]) - last_answer[1]))
        return bool(moved <= trigger.threshold * trigger.decay ** (now - PRIMING))

    def _contents(
        self, node: Node, receiver: int, carried: int, received_points: Array, sets: Sequence[Array], dual: float
    ) -> tuple[Array, Evaluation, Evaluation, float]:
        """Return points, own values, answer and dual variable as they arrive."""
        sender, now, changes = self._label(node), node.following, self.changes
        points, targets = node.drawn[carried]
        own, answer = self._tell(node, node.own[0], sets), self._tell(node, received_points, sets)
        return (
            changes.points(points, len(points) - len(targets), sender, carried),
            own._replace(values=changes.own(own.values, sender, now)),
            answer._replace(values=changes.answer(answer.values, sender, receiver, now)),
            changes.limit(dual),
        )

    def _tell(self, node: Node, points: Array, sets: Sequence[Array]) -> Evaluation:
        eta = node.plan.learner.batch_size if self.certainty else node.plan.learner.step_size.value
        inner = node.function.inner
        row_sums = eta * sum((np.abs(inner(points, x)).sum(axis=1) for x in sets), np.zeros(len(points)))
        limits = np.array([self.changes.limit(each) for each in row_sums])
        return Evaluation(node.function.values(points), limits, np.diag(inner(points, points)))
