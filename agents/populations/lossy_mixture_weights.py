"""The part of the round that nodes with copies have beside their copies', on links that are not ideal.

What nodes say of their copies travels as vectors do (:mod:`~kernelswarm.agents.compiled.receiving`), and is weighed as
on ideal links (:mod:`~kernelswarm.agents.populations.mixture_weights`): here is what lies between.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import Air, Counts, Kinds, Links, Realized, Terms
from kernelswarm.agents.compiled.lossy_rounds import send_nothing
from kernelswarm.agents.compiled.receiving import before, has_arrived, receive
from kernelswarm.agents.node.inbox import NO_ANSWER, SENT, SILENT
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.agents.populations.mixture_weights import Ensemble, MixtureWork, fill_logs, keep_mixture, weigh
from kernelswarm.protocols.compiling import force_inline, nogil

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


class MixtureExchange(NamedTuple):
    """What nodes with copies keep of what they have received and sent of their copies' shares."""

    air: Air
    counts: Counts
    terms: Terms
    received: Array  # (E, K) what each neighbour said last, as far as is known
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    sent_at: Integers  # (V,) the rounds in which the nodes were awake last
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT


@nogil(makes_arrays=False)
def update_lossy_mixture_weights(
    ensemble: Ensemble,
    kinds: Kinds,
    links: Links,
    predicted: Array,  # (K, V, 1, b, C)
    targets: Array,  # (V, 1, b, q)
    samples: Integers,  # (V,)
    mixtures: Array,  # (V, 1, b, C) for what mixtures predict at the samples, or (0, 0, 0, 0)
    work: MixtureWork,
    exchange: MixtureExchange,
    realized: Realized,
    now: int,  # round of the network
    diverged: float,
) -> int:
    """Have the nodes that are awake weigh their copies; returns the one whose mixture is too large, or -1."""
    air, counts, slots, place = (
        exchange.air,
        exchange.counts,
        exchange.air.points.shape[0],
        now - PRIMING - realized.first,
    )
    receive(links, air, counts, False, exchange.terms, realized.awake, place, now)
    nodes = predicted.shape[1]
    for i in range(nodes):
        ensemble.turn[1] = i
        if realized.awake[i, place]:
            degree = gather(i, now, links, work, exchange)
            if not weigh(i, 0, degree, samples[i], ensemble, kinds, predicted, targets, work, diverged):
                return i
            keep_mixture(i, 0, samples[i], mixtures, work)
            counts.learned[i] += 1
            counts.cursor[i] += 1
    for i in range(nodes):
        if realized.awake[i, place]:
            fill_logs(i, ensemble)
            send(i, now, links, ensemble.logs, exchange, realized.active, place)
        else:
            send_nothing(i, links, air, now)
    for e in range(realized.deliveries.shape[0]):
        air.deliveries[now % slots, e] = realized.deliveries[e, place]
    return -1


@force_inline
def gather(i: int, now: int, links: Links, work: MixtureWork, exchange: MixtureExchange) -> int:
    """Find what each of node i's neighbours has said last, however old; returns of how many there is any."""
    air, received, reach, slots = exchange.air, exchange.received, exchange.terms.reach, exchange.air.points.shape[0]
    known = 0
    for e in range(links.start[i], links.start[i + 1]):
        slot = now % slots
        for sent in range(now - 1, max(now - reach - 1, -1), -1):
            slot = before(slot, slots)
            if has_arrived(air, e, sent, slot, now, reach):
                for k in range(received.shape[1]):
                    received[e, k] = air.points[slot, links.other[e], 0, k]
                break
        if exchange.asks[e]:
            for k in range(received.shape[1]):
                work.received[known, k] = received[e, k]
            known += 1
    return known


@force_inline
def send(i: int, now: int, links: Links, logs: Array, exchange: MixtureExchange, active: Booleans, place: int) -> None:
    """Have node i say what its copies are worth, and count it."""
    air, counts, members = exchange.air, exchange.counts, logs.shape[1]
    slot = now % air.points.shape[0]
    exchange.sent_at[i], air.previous[slot, i] = now, NO_ANSWER
    for k in range(members):
        air.points[slot, i, 0, k] = logs[i, k]
    for e in range(links.start[i], links.start[i + 1]):
        there = active[e, place]
        air.answered[slot, links.reverse[e]] = NO_ANSWER if there else SILENT
        counts.traffic[e, SENT] += there
        if there and exchange.asked[e]:
            counts.scalars[i] += members
