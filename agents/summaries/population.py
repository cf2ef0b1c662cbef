"""The rounds of nodes that pass on weighted means of samples, on links and by clocks of all kinds."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.drawing import Laid, ahead
from kernelswarm.agents.compiled.filling import links_of, outside_of
from kernelswarm.agents.compiled.lossy_filling import realization_of
from kernelswarm.agents.node.inbox import DELIVERED, LOST_ON_THE_WAY, POINTS, SENT, TOO_LATE
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.agents.summaries.cells import learn
from kernelswarm.agents.summaries.known import ORIGIN, choose, publish
from kernelswarm.agents.summaries.node import SummaryNode
from kernelswarm.protocols.chance import uniform
from kernelswarm.protocols.unreliable.faults import SpokenFaults, misreport_in
from kernelswarm.protocols.unreliable.realization import LOST, NODE, keys_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BYTES = 8
"""Of a number that is sent."""

REPAIR = 0.05
"""The share of messages that repeat a cell on links that are not ideal, by default."""

REPEATS, WHICH = 8, 9
"""The uses of random numbers of an edge in a round, behind those of its losses and delays."""


class SummaryPopulation:
    """Nodes whose cells travel. A message that is sent in a round arrives in the next, or later where links delay it.

    Parameters
    ----------
    agents : sequence of SummaryNode
        In sorted order of their labels.
    """

    answers = symmetric = sends_duals = False
    completed = 0

    def __init__(self, agents: Sequence[SummaryNode]) -> None:
        self.agents = agents
        first = agents[0]
        outside = outside_of(agents)
        self.places = {agent.node: i for i, agent in enumerate(agents)}
        self.places |= {node: len(agents) + k for k, node in enumerate(outside)}
        self.links = links_of(agents, self.places, None)
        self.now = first.now
        self._size = max(agent.learner.batch_size for agent in agents)
        self._ahead = Laid.nothing(len(agents), self._size, first.inputs, first.targets.shape[1])
        self._cursor = np.zeros(len(agents), dtype=np.int64)
        labels = np.array(list(self.places), dtype=np.int64)
        conditions, key = first.conditions, first.key
        self._realization = None if conditions is None else realization_of(agents, self.links, labels.tolist())
        self._max_age = 0 if conditions is None else conditions.links.max_age
        self._listens = conditions is not None and conditions.clock.listens
        self._faults = SpokenFaults(() if conditions is None else conditions.faults, labels.tolist())
        senders = np.repeat(labels[: len(agents)], np.diff(self.links.start))
        self._edge_keys = keys_of(*key, senders, labels[self.links.other])
        self._node_keys = keys_of(*key, labels[: len(agents)], np.full(len(agents), NODE, dtype=np.int64))
        repair = first.rule.repair
        self._repair = (0.0 if conditions is None else REPAIR) if repair == "auto" else float(repair)
        self._delays = self._delays_in(self.now - 1)
        self.received: dict[int, Array] = {}
        """The messages that were sent to the nodes in the last round, by the edge on which they are received."""
        self._pass_on()

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's values grow without bound.
        """
        self.completed = 0
        while self.completed < rounds:
            if self.now >= PRIMING:
                self._round(rounds - self.completed)
            else:
                self._average_bands()
            self.now += 1
            self.completed += 1
            for agent in self.agents:
                agent.now = self.now

    def _round(self, left: int) -> None:
        """Deliver what is due, let nodes learn that are awake, and send."""
        place = 0 if self._realization is None else self._realization.look(self.now - PRIMING)
        awake = [True] * len(self.agents) if self._realization is None else self._realization.awake[:, place].tolist()
        self._dispatch()
        self._begin_anew(awake)
        self._deliver(awake)
        if any(self._cursor[i] == len(self._ahead.counts) for i in range(len(self.agents)) if awake[i]):
            self._ahead = self._ahead.again(self.agents, self._cursor.tolist(), ahead(left, self.now))
            self._cursor[:] = 0
        self._average_bands()
        for i, agent in enumerate(self.agents):
            if awake[i]:
                at = self._cursor[i]
                points, targets = (part[at, i, : self._ahead.counts[at, i]] for part in self._ahead[:2])
                self._cursor[i] += 1
                self._learn(agent, points, targets)
        self._send(awake, place)

    def _average_bands(self) -> None:
        """Average the bands of neighbours, where they are pooled."""
        if (pool := self.agents[0].pool) is not None:
            pool.average()

    def _learn(self, agent: SummaryNode, points: Array, targets: Array) -> None:
        """Have a node predict its samples, and put those into its cells that it has not seen before."""
        agent.refresh()
        values, tally = agent.predict(points), agent.tally
        if len(points):
            agent.largest_target = max(agent.largest_target, float(np.abs(targets).max()))
            agent.check_values(values)
            agent.follow_band(values, targets)
            tally.loss += float(agent.learner.loss.values(values, targets).sum())
            new = int(min(len(points), max(agent.distinct - agent.samples, 0)))
            near = agent.rule.resolution**2
            learn(agent.cells, points[:new], agent.aims(targets[:new]), agent.lengths, near, agent.forgetting)
            agent.samples += len(points)
        publish(agent.cells, agent.known, self.now, agent.rule.growth, float(agent.rule.least))
        tally.samples += len(points)
        tally.rounds += 1
        agent.round += 1
        agent.sent_at, agent.present = self.now, None

    def _send(self, awake: Sequence[bool], place: int) -> None:
        """Choose the cell that each node passes on to each neighbour."""
        for i, agent in enumerate(self.agents):
            agent.outgoing = [None] * len(agent.neighbors)
            rows = self._faults.rows[self._faults.start[i] : self._faults.start[i + 1]]
            assert agent.tally.traffic is not None
            for d in range(len(agent.neighbors) if awake[i] else 0):
                edge = int(self.links.start[i]) + d
                if not agent.asked[d] or not (self._realization is None or self._realization.active[edge, place]):
                    continue
                m = choose(agent.known, d, agent.neighbors[d], agent.rule.reach)
                m = self._repeated(agent, d, edge) if m < 0 else m
                if m < 0:
                    continue
                message = agent.outgoing[d] = agent.message(m, d)
                if len(rows) and agent.known.heads[m, ORIGIN] == agent.node:  # a liar says what it measured otherwise
                    spoken = message[np.newaxis, 3 + agent.inputs : 3 + agent.inputs + agent.columns]
                    misreport_in(spoken, rows, int(self._node_keys[i, 0]), int(self._node_keys[i, 1]), self.now, POINTS)
                agent.tally.traffic[d, SENT] += 1
                agent.tally.scalars_sent += len(message)
                agent.tally.bytes_sent += BYTES * len(message)
        self._delays = self._delays_in(self.now)
        self._pass_on()

    def _pass_on(self) -> None:
        """Put the messages between nodes of this block where they are received."""
        for i, agent in enumerate(self.agents):
            for d, message in enumerate(agent.outgoing):
                edge = int(self.links.start[i]) + d
                if message is not None and self.links.other[edge] < len(self.agents):
                    self.received[int(self.links.reverse[edge])] = message

    def _delays_in(self, sent: int) -> Integers:
        """Return the delay of the message on each edge in a round, or LOST."""
        if self._realization is None or sent < PRIMING:
            return np.zeros(len(self.links.other), dtype=np.int64)
        place = self._realization.look(sent - PRIMING)  # which may draw more rounds
        return self._realization.deliveries[:, place].copy()

    def _repeated(self, agent: SummaryNode, d: int, edge: int) -> int:
        """Return the place of a cell to repeat to a neighbour, now and then; -1 for none."""
        first, second = self._edge_keys[edge].tolist()
        if not self._repair or uniform(first, second, REPEATS * 2**32 + self.now) >= self._repair:
            return -1
        m = int(uniform(first, second, WHICH * 2**32 + self.now) * int(agent.known.used[0]))
        origin, _, hops, version = agent.known.heads[m].tolist()
        far = 0 < agent.rule.reach <= hops
        return -1 if version < 0 or origin == agent.neighbors[d] or far else m

    def _dispatch(self) -> None:
        """Give the links what was sent in the round before."""
        for edge, message in sorted(self.received.items()):
            i, d = self._owner(edge)
            delay, agent = int(self._delays[edge]), self.agents[i]
            assert agent.tally.traffic is not None
            if delay == LOST:
                agent.tally.traffic[d, LOST_ON_THE_WAY] += 1
            elif delay > self._max_age:
                agent.tally.traffic[d, TOO_LATE] += 1
            else:
                agent.mail[d][self.now - 1] = self.now + delay, message
        self.received = {}

    def _deliver(self, awake: Sequence[bool]) -> None:
        """Have nodes take in the messages that arrive now, in the order in which they were sent."""
        for i, agent in enumerate(self.agents):
            received = awake[i] or self._listens
            assert agent.tally.traffic is not None
            for d, packets in enumerate(agent.mail):
                for sent in sorted(at for at, (due, _) in packets.items() if due == self.now):
                    _, message = packets.pop(sent)
                    agent.tally.traffic[d, DELIVERED if received else LOST_ON_THE_WAY] += 1
                    if received:
                        agent.take_in(d, message)

    def _begin_anew(self, awake: Sequence[bool]) -> None:
        """Reset the nodes that come back without memory."""
        for i, agent in enumerate(self.agents):
            if agent.forgets and awake[i] and 0 <= agent.sent_at < self.now - 1:
                agent.begin_anew()
                agent.begun = self.now
                for packets in agent.mail:
                    packets.clear()

    def _owner(self, edge: int) -> tuple[int, int]:
        i = int(np.searchsorted(self.links.start, edge, side="right")) - 1
        return i, edge - int(self.links.start[i])

    def sync(self) -> None:
        """Bring the nodes up to date: they always are."""

    def restart_sums(self) -> None:
        """Begin new sums after a report: the nodes hold them."""

    def scatter(self) -> list[tuple[Array, Array]]:
        """Return the samples drawn ahead, by node: all else is with the nodes."""
        return self._ahead.behind(self._cursor.tolist())
