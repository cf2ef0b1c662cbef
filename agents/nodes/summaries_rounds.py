"""The rounds of nodes that send cells, for all nodes of a block at once."""

from typing import NamedTuple

import numpy as np

from kernelswarm.agents.nodes.cells import (
    HOPS,
    ORIGIN,
    VERSION,
    Cells,
    Known,
    choose,
    learn,
    mark,
    publish,
    take_in,
    write,
)
from kernelswarm.agents.nodes.inbox import DELIVERED, LOST_ON_THE_WAY, SENT, TOO_LATE
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.chance import uniform
from kernelswarm.protocols.core.compiling import ReadOnly, ReadOnlyIntegers, cached_njit
from kernelswarm.protocols.links.realization import LOST

REPEATS, WHICH = 8, 9
"""Streams of random numbers of an edge in a round, after those of losses and delays."""


class CellMail(NamedTuple):
    """The messages of nodes, by edge."""

    sent: Array  # (E, W) the last message of the node
    speaks: Booleans  # (E,) whether the node sent a message in the last round
    received: Array  # (E, W) the message of the last round
    arrived: Booleans  # (E,) whether there was such a message
    bodies: Array  # (E, S, W) the messages on their way to the node, by slot of the round in which they were sent
    rounds: Integers  # (E, S) that round, -1 for no message
    due: Integers  # (E, S) the round of arrival
    begun: Integers  # (V,) the round of the node's last reset, -1 for never
    begun_there: Integers  # (E,) the same for the other end, as far as known
    traffic: Integers  # (E, 4) counts of messages, by their fate


def empty_mail(degree: int, rounds: int, width: int) -> CellMail:
    """Return an empty buffer for a node's messages of ``rounds`` rounds and ``width`` numbers each."""
    return CellMail(
        np.zeros((degree, width)),
        np.zeros(degree, dtype=np.bool_),
        np.zeros((degree, width)),
        np.zeros(degree, dtype=np.bool_),
        np.zeros((degree, rounds, width)),
        np.full((degree, rounds), -1, dtype=np.int64),
        np.zeros((degree, rounds), dtype=np.int64),
        np.full(1, -1, dtype=np.int64),
        np.full(degree, -1, dtype=np.int64),
        np.zeros((degree, 4), dtype=np.int64),
    )


@cached_njit
def cells_at(cells: Cells, i: int) -> Cells:
    """Return a view of a node's cells, from the arrays of all nodes."""
    return Cells(
        cells.points[i],
        cells.targets[i],
        cells.weights[i],
        cells.spread[i],
        cells.published[i],
        cells.used[i],
    )


@cached_njit
def known_at(known: Known, i: int, start: ReadOnlyIntegers) -> Known:
    """Return a view of a node's known cells, from the arrays of all nodes."""
    return Known(
        known.heads[i],
        known.points[i],
        known.targets[i],
        known.weights[i],
        known.there[start[i] : start[i + 1]],
        known.weights_there[start[i] : start[i + 1]],
        known.used[i],
    )


@cached_njit
def learn_all(
    cells: Cells,
    own: Cells,
    known: Known,
    start: ReadOnlyIntegers,
    released_points: ReadOnly,  # (V, b, p) samples as they enter the cells that are sent
    released_targets: ReadOnly,  # (V, b, C)
    points: ReadOnly,  # (V, b, p)
    targets: ReadOnly,  # (V, b, C)
    new: ReadOnlyIntegers,  # (V,) the number of new samples, -1 for none, -2 for sleeping nodes
    lengths: ReadOnly,  # (V, p)
    near: float,
    forgetting: ReadOnly,  # (V,)
    now: int,
    growth: float,
    least: float,
) -> None:
    """Add the samples of a round to the cells of awake nodes, and publish grown cells."""
    for i in range(len(new)):
        if new[i] >= -1:
            sent = cells_at(cells, i)
            if new[i] >= 0:
                x, y = released_points[i, : new[i]], released_targets[i, : new[i]]
                learn(sent, x, y, lengths[i], near, forgetting[i], True)
                x, y = points[i, : new[i]], targets[i, : new[i]]
                learn(cells_at(own, i), x, y, lengths[i], near, forgetting[i], False)
            publish(sent, known_at(known, i, start), now, growth, least)


@cached_njit
def send_all(
    known: Known,
    mail: CellMail,
    start: ReadOnlyIntegers,  # (V + 1,)
    neighbor: ReadOnlyIntegers,  # (E,) the label of the other end
    keys: ReadOnlyIntegers,  # (E, 2)
    may: Booleans,  # (E,) whether the node may send on the edge
    now: int,
    reach: int,
    repair: float,
) -> None:
    """Choose the cell that each node sends to each neighbour, and assume that the neighbour receives it."""
    for i in range(len(start) - 1):
        own = known_at(known, i, start)
        for e in range(start[i], start[i + 1]):
            mail.speaks[e] = False
            if not may[e]:
                continue
            d = e - start[i]
            m = choose(own, d, neighbor[e], reach)
            if m < 0 and repair > 0.0:
                m = repeated(own, neighbor[e], keys[e, 0], keys[e, 1], now, reach, repair)
            if m >= 0:
                mail.speaks[e] = True
                mail.sent[e, -1] = mail.begun[i]  # overwritten unless nodes may forget
                write(own, m, mail.sent[e])
                mark(own, d, m, own.heads[m, VERSION], own.weights[m])
                mail.traffic[e, SENT] += 1


@cached_njit
def repeated(known: Known, neighbor: int, first: int, second: int, now: int, reach: int, repair: float) -> int:
    """Return the index of a cell to repeat to a neighbour, with probability ``repair``; -1 for none."""
    if uniform(first, second, REPEATS * 2**32 + now) >= repair:
        return -1
    m = int(uniform(first, second, WHICH * 2**32 + now) * known.used[0])
    far = 0 < reach <= known.heads[m, HOPS]
    return -1 if known.heads[m, VERSION] < 0 or known.heads[m, ORIGIN] == neighbor or far else m


@cached_njit
def dispatch(mail: CellMail, delays: ReadOnlyIntegers, now: int) -> None:
    """Pass the messages of the previous round to the links, which delay or lose each of them."""
    slots = mail.rounds.shape[1]
    for e in range(len(mail.arrived)):
        if mail.arrived[e]:
            if delays[e] == LOST:
                mail.traffic[e, LOST_ON_THE_WAY] += 1
            elif delays[e] >= slots:
                mail.traffic[e, TOO_LATE] += 1
            else:
                slot = (now - 1) % slots
                mail.rounds[e, slot], mail.due[e, slot] = now - 1, now + delays[e]
                mail.bodies[e, slot] = mail.received[e]
        mail.arrived[e] = False


@cached_njit
def deliver(
    known: Known,
    mail: CellMail,
    start: ReadOnlyIntegers,  # (V + 1,)
    receives: Booleans,  # (V,)
    now: int,
    own: int,
    budget: int,
    forget: bool,
) -> bool:
    """Add the messages that arrive in this round to the nodes' knowledge, in the order in which they were sent.

    Returns False if a node has no room for a message; this and later messages are left for another call.
    """
    slots = mail.rounds.shape[1]
    for i in range(len(start) - 1):
        mine = known_at(known, i, start)
        for e in range(start[i], start[i + 1]):
            d = e - start[i]
            for sent in range(max(now - slots, 0), now):
                slot = sent % slots
                if mail.rounds[e, slot] != sent or mail.due[e, slot] != now:
                    continue
                if receives[i]:
                    body = mail.bodies[e, slot]
                    if forget and body[-1] > mail.begun_there[e]:
                        mail.begun_there[e] = int(body[-1])
                        mine.there[d], mine.weights_there[d] = -1, 0.0
                    if not take_in(mine, d, body, own, budget):
                        return False
                mail.traffic[e, DELIVERED if receives[i] else LOST_ON_THE_WAY] += 1
                mail.rounds[e, slot] = -1
    return True


@cached_njit
def weights_of(known: Known, weights: Array) -> None:
    """Compute the number of samples in all cells known to each node, (V,)."""
    for i in range(len(weights)):
        weights[i] = 0.0
        for m in range(known.used[i, 0]):
            weights[i] += known.weights[i, m]
