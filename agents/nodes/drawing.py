"""Samples for many rounds at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.nodes.agent import Agent
from kernelswarm.agents.nodes.arrays import Links, ends_of
from kernelswarm.agents.nodes.node import Ahead, Node, UnevenDraws, follow_bands, keep_errors
from kernelswarm.agents.nodes.pooled_bands import UnreliablePooledBands
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.contract import fulfils

AHEAD = 2**22
"""Maximum number of values drawn ahead for all nodes together."""

LONGEST = 256
"""Maximum number of rounds for which samples are drawn ahead."""

NOT_KEPT = np.zeros((0, 0, 0, 0))


class Drawn(NamedTuple):
    """The samples that nodes have drawn for T rounds."""

    samples: Sequence[tuple[Array, Array]]  # (V,) all points (n, p) and targets (n, q) of each node
    counts: Integers  # (T, V) the number of samples of each round


class Batches(NamedTuple):
    """The samples of T rounds, followed by the points that nodes replay."""

    points: Array  # (V + outside, T, n, p)
    targets: Array  # (V, T, b, q)
    samples: Integers  # (T, V) the number of samples
    sent: Integers  # (T, V + outside) the number of points, replayed points included

    def since(self, at: int) -> "Batches":
        """Return views of the batches of a round and all later ones."""
        return Batches(self.points[:, at:], self.targets[:, at:], self.samples[at:], self.sent[at:])

    def followed_by(self, drawn: Drawn) -> "Batches":
        """Return the first two batches, followed by the drawn samples.

        Batches of other blocks and replayed points are not yet known.
        """
        nodes, rounds = len(self.targets), len(drawn.counts)
        points = np.zeros((len(self.points), rounds + 2, *self.points.shape[2:]))
        targets = np.zeros((nodes, rounds + 2, *self.targets.shape[2:]))
        points[:, :2], targets[:, :2] = self.points[:, :2], self.targets[:, :2]
        sent = np.zeros((rounds + 2, len(points)), dtype=np.int64)
        part_in(drawn, points[:nodes, 2:], targets[:, 2:])
        sent[:2], sent[2:, :nodes] = self.sent[:2], drawn.counts
        return Batches(points, targets, np.concatenate([self.samples[:2], drawn.counts]), sent)

    def behind(self) -> list[tuple[Array, Array]]:
        """Return the samples after the first two rounds as they were drawn: points (n, p) and targets (n, q) of each
        node."""
        there = np.arange(self.points.shape[2]) < self.samples[2:, :, np.newaxis]  # (T - 2, V, n)
        found = zip(self.points, self.targets, there.swapaxes(0, 1), strict=False)
        return [(x[2:][some], y[2:][some[:, : y.shape[1]]]) for x, y, some in found]


class Laid(NamedTuple):
    """The samples of T rounds, by round, with room for the largest batch at each node."""

    points: Array  # (T, V, b, p)
    targets: Array  # (T, V, b, q)
    counts: Integers  # (T, V) the number of samples

    @staticmethod
    def nothing(nodes: int, size: int, inputs: int, columns: int) -> "Laid":
        """Return empty arrays for batches of up to ``size`` samples."""
        points, targets = np.zeros((0, nodes, size, inputs)), np.zeros((0, nodes, size, columns))
        return Laid(points, targets, np.zeros((0, nodes), dtype=np.int64))

    @staticmethod
    def of(drawn: Drawn, size: int) -> "Laid":
        """Return the samples drawn by nodes, with room for batches of up to ``size`` samples."""
        points, targets = (np.zeros((*drawn.counts.shape, size, each.shape[1])) for each in drawn.samples[0])
        part_in(drawn, points.swapaxes(0, 1), targets.swapaxes(0, 1))
        return Laid(points, targets, drawn.counts)

    def followed_by(self, later: "Laid") -> "Laid":
        """Return these samples followed by later ones."""
        return Laid._make(map(np.concatenate, zip(self, later, strict=True)))

    def behind(self, cursors: Sequence[int]) -> list[tuple[Array, Array]]:
        """Return the remaining points (n, p) and targets (n, q) of each node after ``cursors`` (V,) used rounds."""
        there = np.arange(self.points.shape[2]) < self.counts[:, :, np.newaxis]
        each = ((slice(at, None), i) for i, at in enumerate(cursors))
        return [(self.points[those][there[those]], self.targets[those][there[those]]) for those in each]

    def again(self, agents: Sequence[Node], cursors: Sequence[int], rounds: int) -> Drawn:
        """Draw samples for more rounds, including those that remain after ``cursors`` (V,) used rounds."""
        for agent, left in zip(agents, self.behind(cursors), strict=True):
            put_back(agent, *left)
        return draw_rounds(agents, rounds, self.points.shape[2], self.points.shape[3] + self.targets.shape[3])


def follow_steps(
    nodes: Sequence[Node],
    predicted: Array,
    targets: Array,
    counts: Integers,
    first: Sequence[int],
    reached: Sequence[int],
    rounds: int,
) -> None:
    """Adapt each node's band to its steps in some rounds.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes, with bands.
    predicted, targets, counts : Array
        (T, V, b, C), (T, V, b, q) and (T, V): predictions before each step, targets, and numbers of samples.
    first, reached : sequence of int
        The first step of each node, and the step after its last.
    rounds : int
        The number of rounds of these steps.
    """
    pool, begin = nodes[0].pool, min(first)
    if isinstance(pool, UnreliablePooledBands):
        learned = slice(begin, max(*reached, begin + 1))
        pool.follow_steps(
            *by_nodes(predicted[learned], targets[learned]), counts[learned], np.array(first) - begin, rounds
        )
        return
    taken = list(zip(first, reached, strict=True))
    alike = len(set(taken)) == 1
    for i, (begin, end) in enumerate(taken[:1] if alike else taken):
        learned, some = slice(begin, end), slice(None) if alike else slice(i, i + 1)
        known = by_nodes(predicted[learned, some], targets[learned, some])
        follow_bands(nodes[some], *known, counts[learned, some], 0, end - begin)


def keep_errors_of_steps(
    nodes: Sequence[Node],
    points: Array,
    predicted: Array,
    targets: Array,
    counts: Integers,
    first: Sequence[int],
    reached: Sequence[int],
) -> None:
    """Store each node's errors at its steps; arguments as in :func:`follow_steps`."""
    for i, (node, begin, end) in enumerate(zip(nodes, first, reached, strict=True)):
        at, values, wanted = (array[np.newaxis, begin:end, i] for array in (points, predicted, targets))
        keep_errors([node], at, values, wanted, counts[begin:end, i : i + 1], 0, end - begin)


def by_nodes(predicted: Array, targets: Array) -> tuple[Array, Array]:
    """Return arrays by round, (T, V, b, .), as arrays by node, (V, T, b, .)."""
    return np.ascontiguousarray(predicted.swapaxes(0, 1)), np.ascontiguousarray(targets.swapaxes(0, 1))


def part_in(drawn: Drawn, points: Array, targets: Array) -> None:
    """Fill drawn samples into the points (V, T, n, p) and targets (V, T, b, q) of batches."""
    size = targets.shape[2]
    there = np.arange(size) < drawn.counts.T[:, :, np.newaxis]
    for batches, each in zip((points[:, :, :size], targets), zip(*drawn.samples, strict=True), strict=True):
        samples = np.concatenate(each)
        if samples.size == batches.size:  # no gaps: indexing each sample takes three times their memory
            batches[:] = samples.reshape(batches.shape)
        else:
            batches[there] = samples


def ahead(rounds: int, completed: int, agents: Sequence[Node] = ()) -> int:
    """Return the number of rounds to draw ahead: at least ``rounds``, and as many as have been run, so that short runs
    draw few unused samples and long runs draw seldom; before the first round, as many as prime the network.

    Uneven samples are not drawn ahead, since snapshots do not contain their numbers in each round.
    """
    if any(fulfils(agent.source, UnevenDraws) for agent in agents):
        return rounds
    return max(rounds, min(abs(completed), LONGEST))


def draw_rounds(agents: Sequence[Node], rounds: int, size: int, columns: int) -> Drawn:
    """Draw samples for up to ``rounds`` rounds; the data may end in the last of them or before.

    Parameters
    ----------
    agents : sequence of Node
        The nodes that draw, each with its own batch size, at most ``size``.
    rounds : int
        At least 1.
    columns : int
        p + q, the length of a sample.
    """
    known = min(rounds, LONGEST, AHEAD // (len(agents) * size * columns) + 1)
    drawn: list[tuple[Array, Array]] = []
    sizes = [agent.learner.batch_size for agent in agents]
    counts = np.repeat(np.array([sizes], dtype=np.int64), known, axis=0)
    for i, (agent, b) in enumerate(zip(agents, sizes, strict=True)):
        if fulfils(agent.source, UnevenDraws):
            points, targets, counts[:, i] = agent.source.draw_each(known, b)
        else:
            points, targets = agent.source.draw(known * b)
            if len(points) < known * b:
                counts[:, i] = np.clip(len(points) - b * np.arange(known), 0, b)
        drawn.append((points, targets))
    return Drawn(drawn, counts)


def batch_sizes_of(agents: Sequence[Agent], places: Mapping[int, int]) -> Integers:
    """Return b of the agents and of the nodes outside that send to them, (V + outside,)."""
    sizes = np.zeros(len(places), dtype=np.int64)
    for agent in agents:
        sizes[places[agent.node]] = agent.learner.batch_size
        for other, size in zip(agent.neighbors, agent.batch_sizes, strict=False):
            sizes[places[other]] = size
    return sizes


def put_back(agent: Node, points: Array, targets: Array) -> None:
    """Put samples that were drawn too early, (n, p) and (n, q), back at the front of a node's source."""
    while isinstance(agent.source, Ahead):  # at most one such source remains, however often samples are put back
        left = agent.source.left
        if len(left[0]):
            points, targets = np.concatenate([points, left[0]]), np.concatenate([targets, left[1]])
        agent.source = agent.source.source
    if len(points):
        agent.source = Ahead(points, targets, agent.source)


def in_flight(
    agents: Sequence[Agent], places: Mapping[int, int], outside: Sequence[int], sizes: Integers, room: int
) -> Batches:
    """Return the batches of the agents' next step and of the step after it, and the neighbours' points of the first.

    Batches have up to ``sizes`` samples, (V + outside,), and nodes send up to ``room`` points. The last messages of
    nodes outside are not yet known.
    """
    points = np.zeros((len(places), 2, room, agents[0].width))
    targets = np.zeros((len(agents), 2, int(sizes.max()), agents[0].targets.shape[1]))
    samples, sent = np.zeros((2, len(agents)), dtype=np.int64), np.zeros((2, len(places)), dtype=np.int64)
    for i, agent in enumerate(agents):
        for at, (x, y) in enumerate(((agent.points, agent.targets), agent.following)):
            points[i, at, : len(x)], targets[i, at, : len(y)] = x, y
            samples[at, i], sent[at, i] = len(y), len(x)
    elsewhere = set(outside)
    for agent in agents if elsewhere else ():
        for other, x in zip(agent.neighbors, agent.received_points, strict=True):
            if other in elsewhere:
                points[places[other], 0, : len(x)], sent[0, places[other]] = x, len(x)
    return Batches(points, targets, samples, sent)


def hand_over(agents: Sequence[Agent], places: Mapping[int, int], batches: Batches) -> list[tuple[Array, Array]]:
    """Store the first batch as points of the updated agents, with their neighbours' points, and the second as following
    batch; returns the samples drawn after these two: points (n, p) and targets (n, q) of each agent."""
    points, targets, samples, sent = batches
    for i, agent in enumerate(agents):
        agent.points, agent.targets = points[i, 0, : sent[0, i]].copy(), targets[i, 0, : samples[0, i]].copy()
        agent.following = points[i, 1, : sent[1, i]].copy(), targets[i, 1, : samples[1, i]].copy()
        agent.received_points = [
            points[k, 0, : sent[0, k]].copy() for k in (places[other] for other in agent.neighbors)
        ]
    return batches.behind()


def at_neighbors(links: Links, counts: Integers) -> Integers:
    """Return the sum over each node's neighbours, (V,), of counts at each node, (V + outside,)."""
    found = np.bincount(ends_of(links), counts[links.other], minlength=len(links.start) - 1)
    return np.asarray(found, dtype=np.int64)


def stepped_on(links: Links, sent: Integers, symmetric: bool) -> Integers:
    """Return the number of points of each node's step, (V,), if nodes send ``sent`` points, (V + outside,)."""
    return sent[: len(links.start) - 1] + at_neighbors(links, sent) * symmetric
