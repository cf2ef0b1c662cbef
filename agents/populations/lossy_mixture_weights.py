"""The part of the round that nodes with copies have beside their copies', on links that are not ideal.

What nodes say of their copies travels as vectors do (:mod:`~kernelswarm.agents.compiled.receiving`), and is weighed as
on ideal links (:mod:`~kernelswarm.agents.populations.mixture_weights`): here is what lies between.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import Counts, Kinds, Links, Mail, Realized, Terms
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
    """The logarithms of mixture weights that nodes with copies have received and sent."""

    mail: Mail
    counts: Counts
    terms: Terms
    received: Array  # (E, K) the last received from each neighbour
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
    mixtures: Array,  # (V, 1, b, C) filled with the mixtures' values at the samples; or (0, 0, 0, 0)
    work: MixtureWork,
    exchange: MixtureExchange,
    realized: Realized,
    now: int,  # round of the network
    diverged: float,
) -> int:
    """Update the mixture weights of the nodes awake; returns the node whose mixture is too large, or -1."""
    mail, counts, slots, place = (
        exchange.mail,
        exchange.counts,
        exchange.mail.points.shape[0],
        now - PRIMING - realized.first,
    )
    receive(links, mail, counts, False, exchange.terms, realized.awake, place, now)
    nodes = predicted.shape[1]
    for i in range(nodes):
        ensemble.turn[1] = i
        if realized.awake[i, place]:
            if now >= PRIMING:
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
            send_nothing(i, links, mail, now)
    for e in range(realized.deliveries.shape[0]):
        mail.deliveries[now % slots, e] = realized.deliveries[e, place]
    return -1


@force_inline
def gather(i: int, now: int, links: Links, work: MixtureWork, exchange: MixtureExchange) -> int:
    """Find the last message of each of node i's neighbours, however old; returns the number of those with any."""
    mail, received, reach, slots = exchange.mail, exchange.received, exchange.terms.reach, exchange.mail.points.shape[0]
    known = 0
    for e in range(links.start[i], links.start[i + 1]):
        slot = now % slots
        for sent in range(now - 1, max(now - reach - 1, -1), -1):
            slot = before(slot, slots)
            if has_arrived(mail, e, sent, slot, now, reach):
                for k in range(received.shape[1]):
                    received[e, k] = mail.points[slot, links.other[e], 0, k]
                break
        if exchange.asks[e]:
            for k in range(received.shape[1]):
                work.received[known, k] = received[e, k]
            known += 1
    return known


@force_inline
def send(i: int, now: int, links: Links, logs: Array, exchange: MixtureExchange, active: Booleans, place: int) -> None:
    """Send the logarithms of node i's mixture weights, and count the message."""
    mail, counts, members = exchange.mail, exchange.counts, logs.shape[1]
    slot = now % mail.points.shape[0]
    exchange.sent_at[i], mail.previous[slot, i] = now, NO_ANSWER
    for k in range(members):
        mail.points[slot, i, 0, k] = logs[i, k]
    for e in range(links.start[i], links.start[i + 1]):
        there = active[e, place]
        mail.answered[slot, links.reverse[e]] = NO_ANSWER if there else SILENT
        counts.traffic[e, SENT] += there and now >= PRIMING
        if there and now >= PRIMING and exchange.asked[e]:
            counts.scalars[i] += members
