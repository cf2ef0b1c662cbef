"""The round of :class:`~kernelswarm.agents.node.lossy.LossyAgent`, for all agents of a block, in compiled code.

As in :mod:`~kernelswarm.agents.compiled.rounds` nothing is computed otherwise than there, and no part is known. Each
node that is awake steps on what it gathers, with the same text as on ideal links, publishes and sends.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import NOTHING, ROOM, WANTS, evaluate_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.scratch import Scratch
from kernelswarm.agents.arithmetic.views import table
from kernelswarm.agents.compiled.arrays import (
    DONE,
    EVALUATE,
    PAUSED,
    RETURNED,
    Air,
    Exchange,
    Kept,
    Links,
    Network,
    Own,
    Realized,
    Received,
    first_row,
)
from kernelswarm.agents.compiled.learning import learner_of, learning, summing
from kernelswarm.agents.compiled.receiving import before, gather, has_arrived, points_of, receive
from kernelswarm.agents.compiled.rounds import draw_replayed, keep_points
from kernelswarm.agents.node.inbox import POINTS, SENT, SILENT
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.protocols.compiling import force_inline, nogil
from kernelswarm.protocols.links.distortion import EXACT, SCALE_BITS, distort

Array = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

learn, sum_rows = learning(ideal=False), summing(ideal=False)


@nogil(makes_arrays=False)
def run_lossy_rounds(
    network: Network,
    own: Own,
    received: Received,
    exchange: Exchange,
    spare: Scratch,
    ahead: tuple[Array, Array],  # (V, T, b, p) and (V, T, b, q), samples drawn ahead
    realized: Realized,
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int, float]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    nodes, states, links, counts = len(network.kinds.of), network.states, network.links, exchange.counts
    air, awake = exchange.air, realized.awake
    for now in range(first, first + count):
        place = now - PRIMING - realized.first
        for i in range(nodes):
            if awake[i, place]:
                reason = waits(i, now, ahead[0].shape[1], network, exchange)
                if reason != DONE:
                    return reason, now - first, i, 0.0
        receive(links, air, counts, network.coupling.symmetric, exchange.terms, awake, place, now)
        for i in range(nodes):
            states.turn[0], states.turn[1] = now - first, i
            if awake[i, place]:
                gathered = gather(i, now, network, own, exchange)
                reason, curvature = learn(
                    i, counts.cursor[i], counts.completed[i] + 1, gathered, network, own, received, spare, diverged
                )
                if reason != DONE:
                    return reason, now - first, i, curvature
                counts.learned[i] += 1
                counts.completed[i] += 1
                for d in range(links.start[i + 1] - links.start[i]):
                    if not np.isnan(network.work.constraint_values[d]):
                        counts.constraint_rounds[links.start[i] + d] += 1
        for i in range(nodes):
            states.turn[1] = i
            if awake[i, place]:
                publish(i, now, network, own, exchange)
                draw_next(i, now, network, own, exchange, ahead)
                send(i, now, place, network, exchange, realized.active)
            else:
                send_nothing(i, links, air, now)
        for e in range(realized.deliveries.shape[0]):
            air.deliveries[now % air.points.shape[0], e] = realized.deliveries[e, place]
    return DONE, count, 0, 0.0


@force_inline
def waits(i: int, now: int, ahead: int, network: Network, exchange: Exchange) -> int:
    """Return why node i cannot take a step with the ``ahead`` samples that were drawn, or DONE where it can."""
    kept, links, counts = exchange.kept, network.links, network.states.counts
    if exchange.terms.forgets and kept.following[i] != now - 1 and kept.begun[i] != now:
        return RETURNED
    degree, size = links.start[i + 1] - links.start[i], kept.values.shape[1]
    most = size * (1 + (2 if network.coupling.symmetric else 1) * degree)
    full = exchange.counts.cursor[i] == ahead
    return PAUSED if counts[i, WANTS] != NOTHING or counts[i, ROOM] < most or full else DONE


@force_inline
def publish(i: int, now: int, network: Network, own: Own, exchange: Exchange) -> None:
    """Evaluate node i's function at the samples that follow and at the newest points of its neighbours."""
    links, coupling, work = network.links, network.coupling, network.work
    air, kept, counts, terms = exchange
    slots, size, inputs = air.points.shape[0], air.points.shape[2], air.points.shape[3]
    outputs, columns, memory = kept.values.shape[2], kept.rows.shape[1], kept.points.shape[1]
    begin, degree = links.start[i], links.start[i + 1] - links.start[i]
    evaluate = evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])
    tools, numbers, state, integers, _ = learner_of(i, network)
    answer, sample = size * outputs, size * inputs
    kept.learning[i] = kept.following[i]
    place = first_row(i, begin, size, True)
    width, kept_at = kept.targets.shape[3], i * memory + kept.learning[i] % memory
    own_points = table(kept.own_points, i * sample, size, inputs)
    copy_matrix(table(kept.points, kept_at * sample, size, inputs), own_points)
    samples = kept.targets.shape[2]
    wanted = table(kept.own_targets, i * samples * width, samples, width)
    copy_matrix(table(kept.targets, kept_at * samples * width, samples, width), wanted)
    values = table(kept.values, i * answer, size, outputs)
    evaluate(tools, numbers, state, integers, own_points, table(kept.rows, place * columns, size, columns), values)
    copy_matrix(values, table(kept.predicted, kept_at * answer, size, outputs))
    for d in range(degree):
        e = begin + d
        then = now % slots
        for sent in range(now - 1, max(now - terms.reach - 1, -1), -1):
            then = before(then, slots)
            if has_arrived(air, e, sent, then, now, terms.reach):
                received = table(kept.received_points, e * sample, size, inputs)
                copy_matrix(points_of(air, then, e, links.other[e]), received)
                if terms.replayed and kept.received_at[e] != air.carried[then, e]:
                    keep_points(i, received, own.buffers)
                kept.received_at[e] = air.carried[then, e]
                break
        evaluate(
            tools,
            numbers,
            state,
            integers,
            table(kept.received_points, e * sample, size, inputs),
            table(kept.rows, (place + size * (1 + d)) * columns, size, columns),
            table(kept.received_values, e * answer, size, outputs),
        )
    if not coupling.implicit or not degree:
        return
    taken = size * (1 + degree) if coupling.symmetric else size
    points, found = table(work.points, 0, taken, inputs), table(work.values, 0, taken, outputs)
    copy_matrix(own_points, points)
    copy_matrix(values, found)
    if taken > size:
        edges = size * degree
        copy_matrix(table(kept.received_points, begin * sample, edges, inputs), table(points, sample, edges, inputs))
        copy_matrix(table(kept.received_values, begin * answer, edges, outputs), table(found, answer, edges, outputs))
    rows, eta = table(kept.rows, place * columns, taken, columns), own.step_sizes[i, counts.cursor[i] + 1, 0]
    sum_rows(i, 0, points, rows, found, eta, network, own, kept.received_row_sums)


@force_inline
def draw_next(i: int, now: int, network: Network, own: Own, exchange: Exchange, ahead: tuple[Array, Array]) -> None:
    """Draw node i's next samples, and behind them the points that it replays, once what it sent is in its buffer."""
    _, kept, counts, terms = exchange
    _, memory, size, inputs = kept.points.shape
    samples, width, cursor = kept.targets.shape[2], kept.targets.shape[3], counts.cursor[i]
    ahead_points, ahead_targets = ahead
    row, batch = i * memory + now % memory, i * ahead_points.shape[1] + cursor
    drawn = table(ahead_points, batch * samples * inputs, samples, inputs)
    wanted = table(ahead_targets, batch * samples * width, samples, width)
    copy_matrix(drawn, table(kept.points, row * size * inputs, samples, inputs))
    copy_matrix(wanted, table(kept.targets, row * samples * width, samples, width))
    kept.drawn_at[i, now % memory] = now
    counts.cursor[i] += 1
    kept.following[i] = now
    if not terms.replayed:
        return
    if terms.noise_on_points > 0.0 or terms.bound_on_points < np.inf:
        released = table(network.work.points, 0, samples, inputs)
        copy_matrix(drawn, released)
        first, second = terms.node_keys[i, 0], terms.node_keys[i, 1]
        bound, noise = terms.bound_on_points, terms.noise_on_points
        distort(released, bound, noise, terms.quantile, EXACT, first, second, now, POINTS)
        drawn = released
    keep_points(i, drawn, own.buffers)
    replayed = table(kept.points, (row * size + samples) * inputs, size - samples, inputs)
    draw_replayed(i, replayed, own.buffers)


@force_inline
def send(
    i: int,
    now: int,
    place: int,  # of the round among those of ``active``
    network: Network,
    exchange: Exchange,
    active: Booleans,
) -> None:
    """Send what there is to say at node i, with the points that it has drawn."""
    links, coupling = network.links, network.coupling
    air, kept, _, terms = exchange
    slots, size, inputs = air.points.shape[0], air.points.shape[2], air.points.shape[3]
    outputs, memory = kept.values.shape[2], kept.points.shape[1]
    begin, degree, slot = links.start[i], links.start[i + 1] - links.start[i], now % slots
    sample, answer = size * inputs, size * outputs
    drawn = table(kept.points, (i * memory + now % memory) * sample, size, inputs)
    sent = slot * air.points.shape[1] + i
    copy_matrix(drawn, table(air.points, sent * sample, size, inputs))
    copy_matrix(table(kept.values, i * answer, size, outputs), table(air.own, sent * answer, size, outputs))
    for k in range(size):
        air.own_row_sums[slot, i, k] = kept.row_sums[i, k]
    air.previous[slot, i] = kept.learning[i]
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING)) if terms.threshold > 0.0 else 0.0
    for d in range(degree):
        e = begin + d
        if terms.threshold > 0.0:
            kept.quiet[e] = kept.last_sent[e] and moved(i, e, network, kept) <= threshold
            if active[e, place] and not kept.quiet[e]:
                kept.last_sent[e] = True
                received = table(kept.received_points, e * sample, size, inputs)
                copy_matrix(received, table(kept.last_sent_points, e * sample, size, inputs))
                copy_matrix(
                    table(kept.received_values, e * answer, size, outputs),
                    table(kept.last_sent_values, e * answer, size, outputs),
                )
        back = links.reverse[e]
        outgoing = table(air.answers, (slot * air.answers.shape[1] + back) * answer, size, outputs)
        copy_matrix(table(kept.received_values, e * answer, size, outputs), outgoing)
        for k in range(size):
            air.answer_row_sums[slot, back, k] = kept.received_row_sums[e, k]
        silent = kept.quiet[e] or not active[e, place]
        air.answered[slot, back] = SILENT if silent else kept.received_at[e]
        if coupling.duals >= 0:
            air.duals[slot, e] = links.state[coupling.rows * begin + coupling.duals * degree + d]
        if not silent:
            count_message(i, e, network, exchange)


@force_inline
def count_message(i: int, e: int, network: Network, exchange: Exchange) -> None:
    """Count what node i's message on edge e holds."""
    coupling = network.coupling
    _, kept, counts, terms = exchange
    size, inputs, outputs = kept.points.shape[2], kept.points.shape[3], kept.values.shape[2]
    counts.traffic[e, SENT] += 1
    asks, asked = kept.asks[e], kept.asked[e]
    carries = asks and terms.carries_points
    points = size * inputs if carries else 0
    values = size * outputs if asked else 0
    others, scales = 0, int(carries) + int(asked)
    if coupling.symmetric:
        limited = size if coupling.implicit else 0
        others = limited if asked else 0
        if asks:
            values += size * outputs
            others += int(coupling.sends_duals) + limited
            scales += 1
    counts.scalars[i] += points + values + others
    if terms.bits == EXACT:
        counts.bytes[i] += 8.0 * (points + values + others)
    else:
        bits = terms.bits * (points + values) + SCALE_BITS * (others + scales)
        counts.bytes[i] += math.ceil(bits / 8)


@force_inline
def moved(i: int, e: int, network: Network, kept: Kept) -> float:
    """Return how far node i's function has moved where it last answered on edge e."""
    size, outputs = kept.last_sent_values.shape[1], kept.last_sent_values.shape[2]
    tools, numbers, state, counts, _ = learner_of(i, network)
    values = table(network.work.values, 0, size, outputs)
    evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])(
        tools,
        numbers,
        state,
        counts,
        kept.last_sent_points[e],
        table(network.work.rows, 0, size, network.work.rows.shape[1]),
        values,
    )
    farthest = 0.0
    for k in range(size):
        for c in range(outputs):
            farthest = max(farthest, abs(values[k, c] - kept.last_sent_values[e, k, c]))
    return farthest


@force_inline
def send_nothing(i: int, links: Links, air: Air, now: int) -> None:
    """Have node i send nothing."""
    slot = now % air.points.shape[0]
    air.previous[slot, i] = SILENT
    for e in range(links.start[i], links.start[i + 1]):
        air.answered[slot, links.reverse[e]] = SILENT
