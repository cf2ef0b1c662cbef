"""The round of nodes that send vectors on links and by clocks that are not ideal, for all of a block.

Messages travel as those of points and values do (:mod:`~kernelswarm.agents.compiled.receiving`), and nodes learn as on
ideal links (:mod:`~kernelswarm.agents.compiled.vector_rounds`): here is what lies between.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import line
from kernelswarm.agents.compiled.arrays import (
    DONE,
    LARGE_VALUES,
    PAUSED,
    RETURNED,
    Counts,
    Mail,
    Realized,
    Terms,
    VectorExchange,
)
from kernelswarm.agents.compiled.lossy_rounds import send_nothing
from kernelswarm.agents.compiled.receiving import before, has_arrived, receive
from kernelswarm.agents.compiled.vector_rounds import VectorNetwork, adapt, end_round, see
from kernelswarm.agents.node.inbox import NO_ANSWER, SENT, SILENT
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.protocols.compiling import force_inline, nogil
from kernelswarm.protocols.parameters.mixing import squared_distance

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LONG_LOOPS = True
Booleans = npt.NDArray[np.bool_]


class VectorLinks(NamedTuple):
    """The further arguments of rounds on unreliable links."""

    mail: Mail
    exchange: VectorExchange
    counts: Counts
    terms: Terms
    message: float  # bytes


@nogil(makes_arrays=False)
def run_lossy_vector_rounds(
    network: VectorNetwork,
    lossy: VectorLinks,
    realized: Realized,
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int]:
    """Run ``count`` rounds; returns why it stopped, the rounds completed, and the node there."""
    states, kinds, links, vectors, _, _, samples, _ = network
    mail, exchange, counts, terms, _ = lossy
    awake, deliveries = realized.awake, realized.deliveries
    nodes, slots, width = len(kinds.of), mail.points.shape[0], vectors.last_sent.shape[1]
    for now in range(first, first + count):
        place = now - PRIMING - realized.first
        for i in range(nodes):
            if awake[i, place]:
                if terms.forgets and exchange.sent_at[i] != now - 1 and exchange.begun[i] != now:
                    return RETURNED, now - first, i
                if counts.cursor[i] == samples.points.shape[0] - 2:
                    return PAUSED, now - first, 0
        receive(links, mail, counts, False, terms, awake, place, now)
        for i in range(nodes):
            if (
                mail.previous[(now - 1) % slots, i] != SILENT
            ):  # all receivers get the vector as the links have changed it
                for k in range(width):
                    vectors.last_sent[i, k] = mail.points[(now - 1) % slots, i, 0, k]
        for i in range(nodes):
            if not awake[i, place]:
                send_nothing(i, links, mail, now)
                continue
            states.turn[0], states.turn[1] = now - first, i
            at = counts.cursor[i]
            if now >= PRIMING:
                gather(i, now, network, lossy)
                if not end_round(i, at, network, diverged):
                    return LARGE_VALUES, now - first, i
                counts.learned[i] += 1
                see(i, at + 1, network)
            if now >= PRIMING - 1:
                adapt(i, at + 1, network)
                counts.cursor[i] += 1
            send_vector(i, now, network, lossy, realized.active, place)
        for e in range(deliveries.shape[0]):
            mail.deliveries[now % slots, e] = deliveries[e, place]
    return DONE, count, 0


@force_inline
def gather(i: int, now: int, network: VectorNetwork, lossy: VectorLinks) -> None:
    """Find the newest vector that has arrived from each of node i's neighbours, and its weight."""
    links, vectors, work = network.links, network.vectors, network.work
    mail, exchange, _, terms, _ = lossy
    slots, places, width = mail.points.shape[0], mail.points.shape[1], vectors.last_sent.shape[1]
    begin = links.start[i]
    for d in range(links.start[i + 1] - begin):
        e, newest = begin + d, NO_ANSWER
        if exchange.asks[e]:
            slot = now % slots
            for sent in range(now - 1, max(now - 2 - terms.max_age, -1), -1):
                slot = before(slot, slots)
                if has_arrived(mail, e, sent, slot, now, terms.reach):
                    newest = sent
                    break
        received = line(work.received, d * width, width)
        if newest == NO_ANSWER or (newest == exchange.used[e] and not terms.repeats):
            work.counts[d] = 0.0
            for k in range(width):
                received[k] = vectors.last_sent[i, k]
            continue
        exchange.used[e] = newest
        work.counts[d] = 1.0 / (1.0 + terms.damping * (now - 1 - newest))
        vector = line(mail.points, ((newest % slots) * places + links.other[e]) * width, width)
        for k in range(width):
            received[k] = vector[k]


@force_inline
def send_vector(i: int, now: int, network: VectorNetwork, lossy: VectorLinks, active: Booleans, place: int) -> None:
    """Send node i's vector if it has moved far enough, and count it."""
    links, vectors = network.links, network.vectors
    mail, exchange, counts, terms, message = lossy
    slot, width = now % mail.points.shape[0], vectors.last_sent.shape[1]
    begin = vectors.begins[i] + network.phases.sent
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING)) if terms.threshold > 0.0 else 0.0
    exchange.quiet[i] = False
    if threshold > 0.0 and now >= PRIMING:
        vector, last_sent = line(vectors.known, begin, width), line(vectors.last_sent, i * width, width)
        exchange.quiet[i] = math.sqrt(squared_distance(vector, last_sent)) <= threshold
    exchange.sent_at[i] = now
    if exchange.quiet[i]:
        send_nothing(i, links, mail, now)
        return
    mail.previous[slot, i] = NO_ANSWER
    for k in range(width):
        mail.points[slot, i, 0, k] = vectors.known[begin + k]
    for e in range(links.start[i], links.start[i + 1]):
        sends = active[e, place] and exchange.asked[e]
        mail.answered[slot, links.reverse[e]] = NO_ANSWER if sends else SILENT
        if sends and now >= PRIMING:
            counts.traffic[e, SENT] += 1
            counts.scalars[i] += width
            counts.bytes[i] += message
