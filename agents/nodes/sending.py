"""Compiled functions of nodes on non-ideal links and clocks, apart from their steps.

Each awake node takes up the newest points of its neighbours, draws its samples, and sends.
"""

import math

import numpy as np

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line_of, rows_of, table_of
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    Buffers,
    Counts,
    Kept,
    Links,
    LossyExchange,
    Mail,
    Network,
    Own,
    Realized,
    VectorExchange,
)
from kernelswarm.agents.nodes.drawing import Laid
from kernelswarm.agents.nodes.inbox import NO_ANSWER, POINTS, SENT, SILENT
from kernelswarm.agents.nodes.learning import evaluate_in
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import (
    answered_values,
    carried_points,
    newest_arrived,
    own_values,
    sent_points,
)
from kernelswarm.agents.nodes.replay_buffer import draw, keep
from kernelswarm.arrays import Array, Booleans
from kernelswarm.protocols.core.compiling import force_inline
from kernelswarm.protocols.links.distortion import EXACT, SCALE_BITS, distort


@force_inline
def keep_points(i: int, points: Array, buffers: Buffers) -> None:
    """Insert points (n, p) that node i has drawn or received into its buffer."""
    room, counts = buffers.ranks.shape[1], line_of(buffers.counts, i, 3)
    kept, ranks = table_of(buffers.points, i, room), line_of(buffers.ranks, i, room)
    keep(kept, ranks, counts, points, buffers.key[0], buffers.key[1])


@force_inline
def draw_replayed(i: int, replayed: Array, buffers: Buffers) -> int:
    """Fill in the points (ceil(r), p) that node i replays, and return their number."""
    kept, counts = table_of(buffers.points, i, buffers.ranks.shape[1]), line_of(buffers.counts, i, 3)
    return int(draw(kept, counts, buffers.rate, replayed, buffers.keys[i, 0], buffers.keys[i, 1]))


@force_inline
def count_step(i: int, now: int, taken: int, network: Network, own: Own, counts: Counts) -> None:
    """Count node i's step on ``taken`` points, and its edges with constraint values."""
    links = network.links
    counts.learned[i] += taken > 0
    counts.completed[i] += now >= PRIMING
    for e in range(links.start[i], links.start[i + 1] if own.samples[0, i] else links.start[i]):
        counts.constraint_rounds[e] += not np.isnan(network.work.constraint_values[e - links.start[i]])


@force_inline
def take_up(i: int, now: int, network: Network, own: Own, exchange: LossyExchange) -> None:
    """Copy the newest points of node i's neighbours and the samples of its next step into place."""
    links = network.links
    mail, kept, _, terms = exchange
    slots, (_, memory, room, _) = mail.points.shape[0], kept.points.shape
    for e in range(links.start[i], links.start[i + 1]):
        sent = newest_arrived(mail, e, now, terms.reach, terms.reach)
        if sent != ABSENT:
            then = sent % slots
            newest = carried_points(mail, then, e, links.other[e])
            copy_matrix(newest, table_of(kept.received_points, e, room))
            if terms.replays and kept.received_at[e] != mail.carried[then, e]:
                keep_points(i, newest, own.buffers)
            kept.received_at[e], kept.received_sent[e] = mail.carried[then, e], len(newest)
    kept.learning[i], at = kept.following[i], kept.following[i] % memory
    samples, sent = kept.samples[i, at], kept.sent[i, at]
    kept.own_samples[i], kept.own_sent[i] = samples, sent
    copy_matrix(table_of(kept.points, i * memory + at, sent), table_of(kept.own_points, i, sent))
    copy_matrix(table_of(kept.targets, i * memory + at, samples), table_of(kept.own_targets, i, samples))


@force_inline
def draw_next(i: int, now: int, network: Network, own: Own, exchange: LossyExchange, ahead: Laid) -> None:
    """Keep node i's values, draw the next samples, insert them into its buffer with the noise of sent points, and draw
    the replayed points."""
    _, kept, counts, terms = exchange
    _, memory, room, _ = kept.points.shape
    cursor, at, taken, links = counts.cursor[i], now % memory, kept.own_sent[i], network.links
    values = table_of(kept.predicted, i * memory + kept.learning[i] % memory, taken)
    copy_matrix(table_of(kept.values, i, taken), values)
    row, batch, samples = i * memory + at, cursor * ahead.counts.shape[1] + i, ahead.counts[cursor, i]
    drawn = table_of(ahead.points, batch, samples)
    copy_matrix(drawn, table_of(kept.points, row, samples))
    copy_matrix(table_of(ahead.targets, batch, samples), table_of(kept.targets, row, samples))
    kept.drawn_at[i, at], kept.samples[i, at], kept.sent[i, at] = now, samples, samples
    counts.cursor[i] += 1
    kept.following[i] = now
    if not terms.replays or links.start[i + 1] == links.start[i]:
        return
    if terms.noise_on_points > 0.0 or terms.bound_on_points < np.inf:
        released = rows_of(network.work.points, 0, samples)
        copy_matrix(drawn, released)
        first, second = terms.node_keys[i, 0], terms.node_keys[i, 1]
        bound, noise = terms.bound_on_points, terms.noise_on_points
        distort(released, bound, noise, terms.quantile, EXACT, first, second, now, POINTS)
        drawn = released
    keep_points(i, drawn, own.buffers)
    replayed = rows_of(kept.points, row * room + samples, math.ceil(own.buffers.rate))
    kept.sent[i, at] = samples + draw_replayed(i, replayed, own.buffers)


@force_inline
def send(i: int, now: int, place: int, network: Network, exchange: LossyExchange, active: Booleans) -> None:
    """Send node i's answers and new points on the edges with a firing trigger; priming messages are not counted.

    ``place`` is the column of the round in ``active``.
    """
    links = network.links
    mail, _, _, terms = exchange
    slot = now % mail.points.shape[0]
    if terms.threshold > 0.0:
        keep_quiet(i, now, place, network, exchange, active)
    put_out(i, now, place, network, exchange, active)
    for e in range(links.start[i], links.start[i + 1] if now >= PRIMING else links.start[i]):
        if mail.answered[slot, links.reverse[e]] != SILENT:
            count_message(i, e, mail.sent[slot, i], network, exchange)


@force_inline
def keep_quiet(i: int, now: int, place: int, network: Network, exchange: LossyExchange, active: Booleans) -> None:
    """Find the edges on which node i's values moved too little to be sent, and store the values sent on the others."""
    links, (_, kept, _, terms) = network.links, exchange
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING))
    for e in range(links.start[i], links.start[i + 1]):
        kept.quiet[e] = kept.last_sent[e] > 0 and moved(i, e, network, kept) <= threshold
        if active[e, place] and not kept.quiet[e]:
            count = kept.last_sent[e] = kept.received_sent[e]
            copy_matrix(table_of(kept.received_points, e, count), table_of(kept.last_sent_points, e, count))
            copy_matrix(table_of(kept.received_values, e, count), table_of(kept.last_sent_values, e, count))


@force_inline
def put_out(i: int, now: int, place: int, network: Network, exchange: LossyExchange, active: Booleans) -> None:
    """Write node i's messages of a round into their slot."""
    links, coupling, (mail, kept, _, _) = network.links, network.coupling, exchange
    memory, begin, degree = kept.points.shape[1], links.start[i], links.start[i + 1] - links.start[i]
    slot, at, count, certain = now % mail.points.shape[0], now % memory, kept.own_sent[i], coupling.certainty > 0.0
    mail.sent[slot, i], mail.samples[slot, i], mail.evaluated[slot, i] = kept.sent[i, at], kept.samples[i, at], count
    copy_matrix(table_of(kept.points, i * memory + at, kept.sent[i, at]), sent_points(mail, slot, i))
    copy_matrix(table_of(kept.values, i, count), own_values(mail, slot, i))
    for k in range(count):
        mail.own_row_sums[slot, i, k] = kept.row_sums[i, k]
        if certain:
            mail.own_variances[slot, i, k] = kept.variances[i, k]
    mail.previous[slot, i] = kept.learning[i]
    for d in range(degree):
        e = begin + d
        count, back = kept.received_sent[e], links.reverse[e]
        mail.answered_points[slot, back] = count
        copy_matrix(table_of(kept.received_values, e, count), answered_values(mail, slot, back))
        for k in range(count):
            mail.answer_row_sums[slot, back, k] = kept.received_row_sums[e, k]
            if certain:
                mail.answer_variances[slot, back, k] = kept.received_variances[e, k]
        mail.answered[slot, back] = SILENT if kept.quiet[e] or not active[e, place] else kept.received_at[e]
        if coupling.duals >= 0:
            mail.duals[slot, e] = links.state[coupling.rows * begin + coupling.duals * degree + d]


@force_inline
def count_message(i: int, e: int, sent: int, network: Network, exchange: LossyExchange) -> None:
    """Count the numbers and bytes of node i's message on edge e, with ``size`` points."""
    coupling, (_, kept, counts, terms) = network.coupling, exchange
    size, answered, outputs = kept.own_sent[i], kept.received_sent[e], kept.values.shape[2]
    counts.traffic[e, SENT] += 1
    asks, asked = kept.asks[e], kept.asked[e]
    carries = asks and terms.carries_points
    points = sent * kept.points.shape[3] if carries else 0
    values = answered * outputs if asked else 0
    others, scales = 0, int(carries) + int(asked)
    if coupling.symmetric:
        behind = int(coupling.implicit) + int(coupling.certainty > 0.0)  # row sums, and variances
        others = behind * answered if asked else 0
        if asks:
            values += size * outputs
            others += int(coupling.sends_duals) + behind * size
            scales += 1
    counts.scalars[i] += points + values + others
    if terms.bits == EXACT:
        counts.bytes[i] += 8.0 * (points + values + others)
    else:
        bits = terms.bits * (points + values) + SCALE_BITS * (others + scales)
        counts.bytes[i] += math.ceil(bits / 8)


@force_inline
def moved(i: int, e: int, network: Network, kept: Kept) -> float:
    """Return the largest change of node i's function at the points last answered on edge e."""
    size, work = kept.last_sent[e], network.work
    values, before = rows_of(work.values, 0, size), table_of(kept.last_sent_values, e, size)
    evaluate_in(i, table_of(kept.last_sent_points, e, size), rows_of(work.rows, 0, size), values, network)
    farthest = 0.0
    for k in range(size):
        for c in range(values.shape[1]):
            farthest = max(farthest, abs(values[k, c] - before[k, c]))
    return farthest


@force_inline
def returned(i: int, now: int, place: int, awake: Booleans, exchange: VectorExchange) -> bool:
    """Tell whether node i, which sends vectors, returns from sleep without its function and is not yet reset."""
    back = exchange.terms.forgets and awake[i, place]
    return back and exchange.sent_at[i] != now - 1 and exchange.begun[i] != now


@force_inline
def send_vector(
    i: int, now: int, place: int, vector: Array, links: Links, exchange: VectorExchange, active: Booleans
) -> None:
    """Send node i's vector and count it; priming messages are not counted."""
    mail, counts = exchange.mail, exchange.counts
    slot = now % mail.points.shape[0]
    exchange.sent_at[i], mail.previous[slot, i] = now, NO_ANSWER
    for k in range(len(vector)):
        mail.points[slot, i, 0, k] = vector[k]
    for e in range(links.start[i], links.start[i + 1]):
        sends = active[e, place] and (exchange.asked[e] or exchange.everywhere)
        mail.answered[slot, links.reverse[e]] = NO_ANSWER if sends else SILENT
        if sends and now >= PRIMING:
            counts.traffic[e, SENT] += 1
            if exchange.asked[e]:
                counts.scalars[i] += len(vector)
                counts.bytes[i] += exchange.message


@force_inline
def deliver(now: int, place: int, realized: Realized, mail: Mail) -> None:
    """Set the arrivals of the messages of a round from the realized links."""
    for e in range(realized.deliveries.shape[0]):
        mail.deliveries[now % mail.points.shape[0], e] = realized.deliveries[e, place]


@force_inline
def send_nothing(i: int, links: Links, mail: Mail, now: int) -> None:
    """Mark that node i sends nothing."""
    slot = now % mail.points.shape[0]
    mail.previous[slot, i] = SILENT
    for e in range(links.start[i], links.start[i + 1]):
        mail.answered[slot, links.reverse[e]] = SILENT
