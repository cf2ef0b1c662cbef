"""The rounds of nodes that send weighted means of samples, on links and clocks of all kinds."""

from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.nodes.cells import PLACES, Cells, laid, roomier
from kernelswarm.agents.nodes.drawing import Laid, ahead
from kernelswarm.agents.nodes.filling import links_of, outside_of, places_of_nodes, realization_of
from kernelswarm.agents.nodes.inbox import POINTS
from kernelswarm.agents.nodes.node import DIVERGED, PRIMING
from kernelswarm.agents.nodes.summaries import SummaryNode
from kernelswarm.agents.nodes.summaries_rounds import (
    CellMail,
    cells_at,
    deliver,
    dispatch,
    known_at,
    learn_all,
    send_all,
    weights_of,
)
from kernelswarm.agents.parts.plain_parts import compares_alike
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.callbacks import called
from kernelswarm.protocols.links.distortion import EXACT, QUANTILE, distort
from kernelswarm.protocols.links.faults import SpokenFaults, misreport_in
from kernelswarm.protocols.links.links import Clip
from kernelswarm.protocols.links.realization import NODE, keys_of

BYTES = 8
"""Bytes of a sent number."""

REPAIR = 0.05
"""The default probability of repeating a cell on links that are not ideal."""

OWN_SAMPLES = 2**32 - 2
"""In place of the receiver's label in the key of the noise on a node's own samples."""

TARGETS = 2
"""The stage of the random numbers of the noise on targets."""

REFRESH = 2.0
"""Predictions before a step use the last fitted function; it is fitted again if the known samples have grown or shrunk
by this factor."""


class SummaryPopulation:
    """Nodes that send cells. A message arrives in the next round, or later if links delay it.

    The changing state of all nodes is kept in common arrays, of which the nodes have views.

    Parameters
    ----------
    agents : sequence of SummaryNode
        In sorted order of their labels.
    """

    answers = symmetric = sends_duals = False
    completed = 0

    def __init__(self, agents: Sequence[SummaryNode]) -> None:
        self.agents = agents
        first, count = agents[0], len(agents)
        self.places = places_of_nodes(agents, outside_of(agents))
        self.links = links_of(agents, self.places, None)
        self.now = first.now
        self._size = max(agent.learner.batch_size for agent in agents)
        self._ahead = Laid.nothing(count, self._size, first.inputs, first.targets.shape[1])
        self._cursor = np.zeros(count, dtype=np.int64)
        self._lay_out()
        labels = np.array(list(self.places), dtype=np.int64)
        conditions, key = first.conditions, first.key
        self._realization = None if conditions is None else realization_of(agents, self.links, labels.tolist())
        self._listens = conditions is not None and conditions.clock.listens
        self._faults = SpokenFaults(() if conditions is None else conditions.faults, labels.tolist())
        self._owner = np.repeat(np.arange(count), np.diff(self.links.start))
        self._edge_keys = keys_of(*key, labels[self._owner], labels[self.links.other])
        self._node_keys = keys_of(*key, labels[:count], np.full(count, NODE, dtype=np.int64))
        self._changed = conditions is not None and (
            conditions.links.noise.scale > 0.0 or conditions.links.clip != Clip()
        )
        self._noise_keys = keys_of(*key, labels[:count], np.full(count, OWN_SAMPLES, dtype=np.int64))
        repair = first.rule.repair
        self._repair = (0.0 if conditions is None else REPAIR) if repair == "auto" else float(repair)
        self._labels, self._neighbor = labels[:count], labels[self.links.other]
        self._asked = np.concatenate([agent.asked for agent in agents])
        self._inside = np.flatnonzero(self.links.other < count)
        self._lengths = np.stack([agent.lengths for agent in agents])
        self._forgetting = np.array([agent.forgetting for agent in agents])
        self._distinct = np.array([agent.distinct for agent in agents])
        self._weights = np.zeros(count)
        self.cells = Cells(*(np.stack(parts) for parts in zip(*(agent.cells for agent in agents), strict=True)))
        self._widen_own(max(len(agent.own.weights) for agent in agents))
        self.mail = CellMail._make(
            np.concatenate(parts) for parts in zip(*(agent.mail for agent in agents), strict=True)
        )
        """The messages, including messages from other blocks, which blocks write here."""
        self._widen(max(len(agent.known.heads) for agent in agents))
        self._begin()
        self._delays = self._delays_in(self.now - 1)
        self._pass_on()

    def _widen(self, room: int) -> None:
        """Make room for ``room`` known cells at each node."""
        self.known = laid([agent.known for agent in self.agents], room)
        for i, agent in enumerate(self.agents):
            edges = slice(self.links.start[i], self.links.start[i + 1])
            agent.cells = cells_at(self.cells, i)
            agent.known = known_at(self.known, i, self.links.start)
            agent.mail = CellMail._make(
                part[i : i + 1] if part is self.mail.begun else part[edges] for part in self.mail
            )
            agent.tally.traffic = agent.mail.traffic

    def _widen_own(self, room: int) -> None:
        """Make room for ``room`` cells of own samples for the nodes' own fits."""
        each = [roomier(agent.own, room) for agent in self.agents]
        self.own = Cells(*(np.stack(parts) for parts in zip(*each, strict=True)))
        for i, agent in enumerate(self.agents):
            agent.own = cells_at(self.own, i)

    def _begin(self) -> None:
        """Start the sums over the rounds of a call."""
        count, agents = len(self.agents), self.agents
        self._loss = np.array([agent.tally.loss for agent in agents])
        self._rounds = np.zeros(count, dtype=np.int64)
        self._samples = np.array([agent.samples for agent in agents])
        self._largest = np.array([agent.largest_target for agent in agents])
        self._sent_at = np.array([agent.sent_at for agent in agents])
        self._fitted_at = np.array([agent.fitted_at for agent in agents])
        self._messages = np.zeros(len(self._owner), dtype=np.int64)

    def _hand_over(self) -> None:
        """Update the nodes from the arrays."""
        messages = np.bincount(self._owner, self._messages, len(self.agents)).astype(np.int64)
        for i, agent in enumerate(self.agents):
            tally, sent = agent.tally, int(messages[i]) * agent.width_of_message
            tally.loss = float(self._loss[i])
            tally.samples += int(self._samples[i]) - agent.samples
            tally.rounds += int(self._rounds[i])
            tally.scalars_sent += sent
            tally.bytes_sent += BYTES * sent
            agent.samples, agent.largest_target = int(self._samples[i]), float(self._largest[i])
            agent.sent_at, agent.fitted_at = int(self._sent_at[i]), float(self._fitted_at[i])
            agent.round += int(self._rounds[i])
            agent.now, agent.present = self.now, None

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            A node's values grow without bound.
        """
        self.completed = 0
        self._begin()
        try:
            while self.completed < rounds:
                if self.now >= PRIMING:
                    self._round(rounds - self.completed)
                else:
                    self._average_bands()
                self.now += 1
                self.completed += 1
        finally:
            self._hand_over()

    def _round(self, left: int) -> None:
        """Deliver due messages, let awake nodes learn, and send."""
        awake, may = np.ones(len(self.agents), dtype=np.bool_), self._asked
        if self._realization is not None:
            place = self._realization.look(self.now - PRIMING)
            awake = self._realization.awake[:, place]
            may = may & awake[self._owner] & self._realization.active[:, place]
        dispatch(self.mail, self._delays, self.now)
        self._begin_anew(awake)
        self._deliver(awake | self._listens)
        if (self._cursor[awake] == len(self._ahead.counts)).any():
            self._draw(left)
        self._average_bands()
        self._refresh(awake)
        self._learn(awake)
        self._send(may)

    def _average_bands(self) -> None:
        """Average the bands of neighbours if they are pooled."""
        if (pool := self.agents[0].pool) is not None:
            pool.average()

    def _deliver(self, receives: Booleans) -> None:
        """Add the messages that arrive in this round to the nodes' knowledge."""
        rule, first = self.agents[0].rule, self.agents[0]
        rest = receives, self.now, rule.cells, rule.budget, first.forgets
        while not deliver(self.known, self.mail, self.links.start, *rest):
            self._widen(2 * self.known.heads.shape[1])

    def _draw(self, left: int) -> None:
        """Draw samples for more rounds."""
        drawn = self._ahead.again(self.agents, self._cursor.tolist(), ahead(left, self.now))
        self._ahead = Laid.of(drawn, self._size)
        self._cursor[:] = 0
        self._lay_out()
        for i, agent in enumerate(self.agents):
            there = np.arange(self._size) < self._ahead.counts[:, i, np.newaxis]
            targets = self._ahead.targets[:, i]
            self._aims[:, i][there] = agent.aims(targets[there])
            self._aimed[:, i] = np.abs(targets * there[:, :, np.newaxis]).max(axis=(1, 2), initial=0.0)
            self._predict(i)

    def _lay_out(self) -> None:
        """Allocate arrays for values derived from drawn samples, for each round and node."""
        shape, first = self._ahead.targets.shape[:3], self.agents[0]
        self._aims, self._values = np.zeros((*shape, first.columns)), np.zeros((*shape, first.outputs))
        self._reached, self._aimed, self._losses = (np.zeros(shape[:2]) for _ in range(3))

    def _predict(self, i: int) -> None:
        """Compute a node's predictions at the drawn samples, and their losses."""
        agent, later = self.agents[i], slice(self._cursor[i], None)
        there = np.arange(self._size) < self._ahead.counts[later, i, np.newaxis]
        points, targets = self._ahead.points[later, i], self._ahead.targets[later, i]
        values = self._values[later, i]
        if compares_alike(agent.learner):
            values[there] = agent.predict(points[there])
        else:
            for t, n in enumerate(there.sum(axis=1).tolist()):
                values[t, :n] = agent.predict(points[t, :n])
        losses = np.zeros(there.shape)
        losses[there] = agent.learner.loss.values(values[there], targets[there])
        self._losses[later, i] = losses.sum(axis=1)
        self._reached[later, i] = np.abs(values).max(axis=(1, 2), initial=0.0)

    def _refresh(self, awake: Booleans) -> None:
        """Fit the predicting functions again if the known samples have changed much since the last fit.

        The number of samples at the last fit fades per round like the samples; otherwise a fit would be kept forever
        once the weights stop growing.
        """
        weights_of(self.known, self._weights)
        self._fitted_at[awake] *= self._forgetting[awake]
        more = (self._weights > REFRESH * self._fitted_at) | (self._weights * REFRESH < self._fitted_at)
        for i in np.flatnonzero(awake & more).tolist():
            agent = self.agents[i]
            agent.now = self.now
            agent.fitted, self._fitted_at[i] = agent.fit(), self._weights[i]
            self._predict(i)

    def _learn(self, awake: Booleans) -> None:
        """Add the samples that nodes have not seen before to their cells."""
        rule, nodes = self.agents[0].rule, np.flatnonzero(awake)
        at = self._cursor[nodes]
        counts = self._ahead.counts[at, nodes]
        self._largest[nodes] = np.maximum(self._largest[nodes], self._aimed[at, nodes])
        self._check(nodes, at)
        if self.agents[0].band is not None:
            for i, t, n in zip(nodes.tolist(), at.tolist(), counts.tolist(), strict=True):
                if n:
                    self.agents[i].follow_band(self._values[t, i, :n], self._ahead.targets[t, i, :n])
        self._loss[nodes] += self._losses[at, nodes]
        new = np.full(len(self.agents), -2)
        unseen = np.maximum(self._distinct[nodes] - self._samples[nodes], 0)
        new[nodes] = np.where(counts > 0, np.minimum(counts, unseen), -1)
        points = np.zeros((len(self.agents), *self._ahead.points.shape[2:]))
        aims = np.zeros((len(self.agents), *self._aims.shape[2:]))
        points[nodes], aims[nodes] = self._ahead.points[at, nodes], self._aims[at, nodes]
        released_points, released_aims = self._released(points, aims, new) if self._changed else (points, aims)
        lengths, near, least = self._lengths, rule.resolution**2, float(rule.least)
        known, room = (self.known, self.links.start), self.own.weights.shape[1]
        if room < rule.own and int(self.own.used.max()) + self._size > room:
            self._widen_own(min(rule.own, max(2 * room, room + self._size)))
        learn_all(
            self.cells,
            self.own,
            *known,
            released_points,
            released_aims,
            points,
            aims,
            new,
            lengths,
            near,
            self._forgetting,
            self.now,
            rule.growth,
            least,
        )
        self._samples[nodes] += counts
        self._cursor[nodes] += 1
        self._rounds[nodes] += 1
        self._sent_at[nodes] = self.now

    def _released(self, points: Array, aims: Array, new: Integers) -> tuple[Array, Array]:
        """Return the samples of a round as they enter the cells that are sent, clipped and with noise."""
        assert self.agents[0].conditions is not None
        links, released = self.agents[0].conditions.links, (points.copy(), aims.copy())
        quantile = address(links.noise.quantile, QUANTILE)
        parts = ("points", links.clip.points, POINTS), ("values", links.clip.values, TARGETS)
        for i in np.flatnonzero(new > 0).tolist():
            first, second = self._noise_keys[i].tolist()
            for array, (what, bound, stage) in zip(released, parts, strict=True):
                place = first, second, self.now, stage
                called(distort, array[i, : new[i]], bound, links.noise_on(what), quantile, EXACT, *place)
        return released

    def _check(self, nodes: Integers, at: Integers) -> None:
        """Raise DivergenceError if a node's values are far larger than the targets."""
        far = ~(self._reached[at, nodes] <= DIVERGED * (1.0 + self._largest[nodes]))
        for i, t in zip(nodes[far].tolist(), at[far].tolist(), strict=True):
            agent = self.agents[i]
            agent.round += int(self._rounds[i])
            self._rounds[i] = 0
            agent.largest_target = float(self._largest[i])
            agent.check_values(self._values[t, i, : self._ahead.counts[t, i]])

    def _send(self, may: Booleans) -> None:
        """Choose and send a cell for each pair of a node and its neighbour."""
        rule, mail = self.agents[0].rule, self.mail
        keys = self._neighbor, self._edge_keys
        send_all(self.known, mail, self.links.start, *keys, may, self.now, rule.reach, self._repair)
        self._messages += mail.speaks
        for i in np.flatnonzero(np.diff(self._faults.start[: len(self.agents) + 1])).tolist():
            self._misreport(i)
        self._delays = self._delays_in(self.now)
        self._pass_on()

    def _misreport(self, i: int) -> None:
        """Apply a node's message faults to messages with its own cells."""
        rows, agent = self._faults.rows[self._faults.start[i] : self._faults.start[i + 1]], self.agents[i]
        first, second = self._node_keys[i].tolist()
        targets = slice(3 + agent.inputs, 3 + agent.inputs + agent.columns)
        for e in np.flatnonzero(agent.mail.speaks).tolist():
            message = agent.mail.sent[e]
            if int(message[0]) // PLACES**2 == agent.node:
                misreport_in(message[np.newaxis, targets], rows, first, second, self.now, POINTS)

    def _pass_on(self) -> None:
        """Copy messages between nodes of this block to their receivers."""
        there, mail = self.links.reverse[self._inside], self.mail
        mail.received[there], mail.arrived[there] = mail.sent[self._inside], mail.speaks[self._inside]

    def _delays_in(self, sent: int) -> Integers:
        """Return the delay of the message on each edge in a round, or LOST."""
        if self._realization is None or sent < PRIMING:
            return np.zeros(len(self.links.other), dtype=np.int64)
        place = self._realization.look(sent - PRIMING)  # may draw more rounds
        return self._realization.deliveries[:, place].copy()

    def _begin_anew(self, awake: Booleans) -> None:
        """Reset the nodes that return without memory."""
        if not self.agents[0].forgets:
            return
        for i in np.flatnonzero(awake & (self._sent_at >= 0) & (self._sent_at < self.now - 1)).tolist():
            self.agents[i].begin_anew()
            self.mail.begun[i], self._fitted_at[i] = self.now, 0.0
            self._predict(i)

    def sync(self) -> None:
        """Do nothing: the nodes are always up to date."""

    def restart_sums(self) -> None:
        """Do nothing: the nodes hold the sums."""

    def scatter(self) -> list[tuple[Array, Array]]:
        """Return the samples drawn ahead, by node; the nodes hold the rest."""
        return self._ahead.behind(self._cursor.tolist())
