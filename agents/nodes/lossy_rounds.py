"""The round on links and by clocks that are not ideal, for all agents of a block, in compiled code.

As in :mod:`~kernelswarm.agents.nodes.rounds` no part is known. Each node that is awake steps on what it gathers,
with the same text as on ideal links, publishes and sends.
"""

import math

import numpy as np

from kernelswarm.agents.arithmetic.abi import NOTHING, ROOM, WANTS, evaluate_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.scratch import Scratch
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.nodes.arrays import (
    DONE,
    EVALUATE,
    PAUSED,
    RETURNED,
    Kept,
    Links,
    LossyExchange,
    Mail,
    Network,
    Own,
    Realized,
    Received,
    first_row,
)
from kernelswarm.agents.nodes.drawing import Laid
from kernelswarm.agents.nodes.inbox import POINTS, SENT, SILENT
from kernelswarm.agents.nodes.learning import learner_of, learning, summing
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import (
    answered_values,
    before,
    carried_points,
    gather,
    has_arrived,
    own_values,
    receive,
    sent_points,
)
from kernelswarm.agents.nodes.rounds import draw_replayed, keep_points
from kernelswarm.arrays import Array, Booleans
from kernelswarm.protocols.core.compiling import force_inline, nogil
from kernelswarm.protocols.links.distortion import EXACT, SCALE_BITS, distort

learn, sum_rows = learning(ideal=False), summing(ideal=False)


@nogil(makes_arrays=False)
def run_lossy_rounds(
    network: Network,
    own: Own,
    received: Received,
    exchange: LossyExchange,
    spare: Scratch,
    ahead: Laid,
    predicted: Array,  # (T, V, b, C) filled with f at the samples before each step; or (0, 0, 0, 0)
    realized: Realized,
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int, float]:
    """Run ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    nodes, states, links, counts = len(network.kinds.of), network.states, network.links, exchange.counts
    mail, awake = exchange.mail, realized.awake
    for now in range(first, first + count):
        place = now - PRIMING - realized.first
        for i in range(nodes):
            if awake[i, place]:
                reason = waits(i, now, len(ahead.counts), network, own, exchange)
                if reason != DONE:
                    return reason, now - first, i, 0.0
        receive(links, mail, counts, network.coupling.symmetric, exchange.terms, awake, place, now)
        for i in range(nodes):
            states.turn[0], states.turn[1] = now - first, i
            if awake[i, place]:
                gathered = gather(i, now, network, own, exchange)
                if len(predicted):
                    keep_predicted(i, counts.cursor[i], own, predicted)
                completed = counts.completed[i] + 1
                reason, curvature = learn(i, 0, completed, gathered, network, own, received, spare, diverged)
                if reason != DONE:
                    return reason, now - first, i, curvature
                counts.learned[i] += gathered.taken > 0
                counts.completed[i] += now >= PRIMING
                for e in range(links.start[i], links.start[i + 1] if own.samples[0, i] else links.start[i]):
                    counts.constraint_rounds[e] += not np.isnan(network.work.constraint_values[e - links.start[i]])
        for i in range(nodes):
            states.turn[1] = i
            if awake[i, place]:
                publish(i, now, network, own, exchange)
                draw_next(i, now, network, own, exchange, ahead)
                send(i, now, place, network, exchange, realized.active)
            else:
                send_nothing(i, links, mail, now)
        for e in range(realized.deliveries.shape[0]):
            mail.deliveries[now % mail.points.shape[0], e] = realized.deliveries[e, place]
    return DONE, count, 0, 0.0


@nogil(makes_arrays=False)
def resume(
    network: Network,
    own: Own,
    exchange: LossyExchange,
    realized: Realized,
    now: int,  # round of the network that comes next
    evaluates: Booleans,  # (V,)
    sends: bool,
) -> None:
    """Evaluate some nodes' functions at points in flight, and send the messages of the round before again."""
    kept = exchange.kept
    for i in range(len(network.kinds.of)):
        network.states.turn[1] = i
        if evaluates[i]:
            evaluate_in_flight(i, network, own, kept)
        if sends and kept.following[i] == now - 1:
            put_out(i, now - 1, now - 1 - PRIMING - realized.first, network, exchange, realized.active)


@force_inline
def keep_predicted(i: int, cursor: int, own: Own, predicted: Array) -> None:
    """Copy node i's values at its samples before it learns from them."""
    size, (_, room, outputs), (_, nodes, most, _) = own.samples[0, i], own.values.shape, predicted.shape
    values = table(own.values, i * room * outputs, size, outputs)
    copy_matrix(values, table(predicted, (cursor * nodes + i) * most * outputs, size, outputs))


@force_inline
def waits(i: int, now: int, ahead: int, network: Network, own: Own, exchange: LossyExchange) -> int:
    """Return why node i cannot take a step with the samples drawn for ``ahead`` rounds, or DONE where it can."""
    kept, counts = exchange.kept, network.states.counts
    if exchange.terms.forgets and kept.following[i] != now - 1 and kept.begun[i] != now:
        return RETURNED
    full = exchange.counts.cursor[i] == ahead or counts[i, ROOM] < own.most[i]
    return PAUSED if counts[i, WANTS] != NOTHING or full else DONE


@force_inline
def publish(i: int, now: int, network: Network, own: Own, exchange: LossyExchange) -> None:
    """Evaluate node i's function at its following samples and at the newest points of its neighbours."""
    links = network.links
    mail, kept, _, terms = exchange
    slots, room, inputs = mail.points.shape[0], mail.points.shape[2], mail.points.shape[3]
    outputs, kept_at = kept.values.shape[2], take_up(i, kept)
    for e in range(links.start[i], links.start[i + 1]):
        then = now % slots
        for sent in range(now - 1, max(now - terms.reach - 1, -1), -1):
            then = before(then, slots)
            if has_arrived(mail, e, sent, then, now, terms.reach):
                newest = carried_points(mail, then, e, links.other[e])
                copy_matrix(newest, table(kept.received_points, e * room * inputs, room, inputs))
                if terms.replays and kept.received_at[e] != mail.carried[then, e]:
                    keep_points(i, newest, own.buffers)
                kept.received_at[e], kept.received_sent[e] = mail.carried[then, e], len(newest)
                break
    evaluate_in_flight(i, network, own, kept)
    answer, taken = room * outputs, kept.own_sent[i]
    values = table(kept.values, i * answer, taken, outputs)
    copy_matrix(values, table(kept.predicted, kept_at * answer, taken, outputs))


@force_inline
def evaluate_in_flight(i: int, network: Network, own: Own, kept: Kept) -> None:
    """Evaluate node i's function at its next samples and at its neighbours' points."""
    links, work, room = network.links, network.work, kept.values.shape[1]
    inputs, outputs, columns = kept.points.shape[3], kept.values.shape[2], kept.rows.shape[1]
    begin, degree = links.start[i], links.start[i + 1] - links.start[i]
    evaluate = evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])
    tools, numbers, state, integers, _ = learner_of(i, network)
    answer, sample, place, taken = room * outputs, room * inputs, first_row(i, begin, room), kept.own_sent[i]
    own_points, values = (
        table(kept.own_points, i * sample, taken, inputs),
        table(kept.values, i * answer, taken, outputs),
    )
    if taken:
        rows = table(kept.rows, place * columns, taken, columns)
        evaluate(tools, numbers, state, integers, own_points, rows, values)
    limited = network.coupling.implicit and degree > 0
    if limited:
        copy_matrix(own_points, work.points)
        copy_matrix(values, work.values)
    end = taken
    for e in range(begin, begin + degree):
        count = kept.received_sent[e]
        if not count:
            continue
        points, found = (
            table(kept.received_points, e * sample, count, inputs),
            table(kept.received_values, e * answer, count, outputs),
        )
        rows = table(kept.rows, (place + end) * columns, count, columns)
        evaluate(tools, numbers, state, integers, points, rows, found)
        if limited and network.coupling.symmetric:
            copy_matrix(points, table(work.points, end * inputs, count, inputs))
            copy_matrix(found, table(work.values, end * outputs, count, outputs))
        end += count
    if network.coupling.symmetric:
        taken = end
    if limited and taken:
        points, found = table(work.points, 0, taken, inputs), table(work.values, 0, taken, outputs)
        rows, eta = table(kept.rows, place * columns, taken, columns), own.step_sizes[i, own.steps[i], 0]
        sum_rows(i, 0, points, rows, found, eta, network, own, kept.received_row_sums)


@force_inline
def take_up(i: int, kept: Kept) -> int:
    """Use the following samples for node i's next step; returns their index among its kept points."""
    _, memory, room, inputs = kept.points.shape
    at = kept.following[i] % memory
    kept.learning[i], kept_at = kept.following[i], i * memory + at
    samples, sent = kept.samples[i, at], kept.sent[i, at]
    kept.own_samples[i], kept.own_sent[i] = samples, sent
    sample = room * inputs
    copy_matrix(table(kept.points, kept_at * sample, sent, inputs), table(kept.own_points, i * sample, sent, inputs))
    most, width = kept.targets.shape[2], kept.targets.shape[3]
    wanted = table(kept.targets, kept_at * most * width, samples, width)
    copy_matrix(wanted, table(kept.own_targets, i * most * width, samples, width))
    return int(kept_at)


@force_inline
def draw_next(i: int, now: int, network: Network, own: Own, exchange: LossyExchange, ahead: Laid) -> None:
    """Draw node i's next samples, put them into its buffer as they are sent, and draw the points it replays."""
    _, kept, counts, terms = exchange
    _, memory, room, inputs = kept.points.shape
    most, width, cursor, at = kept.targets.shape[2], kept.targets.shape[3], counts.cursor[i], now % memory
    row, batch, samples = i * memory + at, cursor * ahead.counts.shape[1] + i, ahead.counts[cursor, i]
    drawn = table(ahead.points, batch * most * inputs, samples, inputs)
    wanted = table(ahead.targets, batch * most * width, samples, width)
    copy_matrix(drawn, table(kept.points, row * room * inputs, samples, inputs))
    copy_matrix(wanted, table(kept.targets, row * most * width, samples, width))
    kept.drawn_at[i, at], kept.samples[i, at], kept.sent[i, at] = now, samples, samples
    counts.cursor[i] += 1
    kept.following[i] = now
    if not terms.replays or network.links.start[i + 1] == network.links.start[i]:
        return
    if terms.noise_on_points > 0.0 or terms.bound_on_points < np.inf:
        released = table(network.work.points, 0, samples, inputs)
        copy_matrix(drawn, released)
        first, second = terms.node_keys[i, 0], terms.node_keys[i, 1]
        bound, noise = terms.bound_on_points, terms.noise_on_points
        distort(released, bound, noise, terms.quantile, EXACT, first, second, now, POINTS)
        drawn = released
    keep_points(i, drawn, own.buffers)
    replayed = table(kept.points, (row * room + samples) * inputs, math.ceil(own.buffers.rate), inputs)
    kept.sent[i, at] = samples + draw_replayed(i, replayed, own.buffers)


@force_inline
def send(i: int, now: int, place: int, network: Network, exchange: LossyExchange, active: Booleans) -> None:
    """Send node i's answers and its new points on the edges whose trigger fires; rounds that prime are not counted.

    ``place`` is that of the round among the rounds of ``active``.
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
    """Find the edges on which node i's values have moved too little to be sent, and keep the values sent on others."""
    links, (_, kept, _, terms) = network.links, exchange
    _, room, inputs = kept.received_points.shape
    outputs = kept.received_values.shape[2]
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING))
    for e in range(links.start[i], links.start[i + 1]):
        kept.quiet[e] = kept.last_sent[e] > 0 and moved(i, e, network, kept) <= threshold
        if active[e, place] and not kept.quiet[e]:
            count, sample, answer = kept.received_sent[e], e * room * inputs, e * room * outputs
            kept.last_sent[e] = count
            received, values = (
                table(kept.received_points, sample, count, inputs),
                table(kept.received_values, answer, count, outputs),
            )
            copy_matrix(received, table(kept.last_sent_points, sample, count, inputs))
            copy_matrix(values, table(kept.last_sent_values, answer, count, outputs))


@force_inline
def put_out(i: int, now: int, place: int, network: Network, exchange: LossyExchange, active: Booleans) -> None:
    """Put node i's messages of a round into their slot."""
    links, coupling, (mail, kept, _, _) = network.links, network.coupling, exchange
    slots, room, inputs = mail.points.shape[0], mail.points.shape[2], mail.points.shape[3]
    outputs, memory = kept.values.shape[2], kept.points.shape[1]
    begin, degree, slot = links.start[i], links.start[i + 1] - links.start[i], now % slots
    sample, answer, at, count = room * inputs, room * outputs, now % memory, kept.own_sent[i]
    mail.sent[slot, i], mail.samples[slot, i], mail.evaluated[slot, i] = kept.sent[i, at], kept.samples[i, at], count
    copy_matrix(table(kept.points, (i * memory + at) * sample, kept.sent[i, at], inputs), sent_points(mail, slot, i))
    copy_matrix(table(kept.values, i * answer, count, outputs), own_values(mail, slot, i))
    certain = coupling.certainty > 0.0
    for k in range(count):
        mail.own_row_sums[slot, i, k] = kept.row_sums[i, k]
        if certain:
            mail.own_variances[slot, i, k] = kept.variances[i, k]
    mail.previous[slot, i] = kept.learning[i]
    for d in range(degree):
        e = begin + d
        count, back = kept.received_sent[e], links.reverse[e]
        mail.answered_points[slot, back] = count
        copy_matrix(table(kept.received_values, e * answer, count, outputs), answered_values(mail, slot, back))
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
    coupling = network.coupling
    _, kept, counts, terms = exchange
    size, answered, inputs, outputs = (
        kept.own_sent[i],
        kept.received_sent[e],
        kept.points.shape[3],
        kept.values.shape[2],
    )
    counts.traffic[e, SENT] += 1
    asks, asked = kept.asks[e], kept.asked[e]
    carries = asks and terms.carries_points
    points = sent * inputs if carries else 0
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
    """Return how far node i's function has moved at the points that it last answered on edge e."""
    _, room, inputs = kept.last_sent_points.shape
    size, outputs = kept.last_sent[e], kept.last_sent_values.shape[2]
    tools, numbers, state, counts, _ = learner_of(i, network)
    values = table(network.work.values, 0, size, outputs)
    evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])(
        tools,
        numbers,
        state,
        counts,
        table(kept.last_sent_points, e * room * inputs, size, inputs),
        table(network.work.rows, 0, size, network.work.rows.shape[1]),
        values,
    )
    farthest = 0.0
    for k in range(size):
        for c in range(outputs):
            farthest = max(farthest, abs(values[k, c] - kept.last_sent_values[e, k, c]))
    return farthest


@force_inline
def send_nothing(i: int, links: Links, mail: Mail, now: int) -> None:
    """Mark that node i sends nothing."""
    slot = now % mail.points.shape[0]
    mail.previous[slot, i] = SILENT
    for e in range(links.start[i], links.start[i + 1]):
        mail.answered[slot, links.reverse[e]] = SILENT
