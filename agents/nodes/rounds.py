"""The round of all agents of a block, in compiled code over arrays.

The round contains no code of parts; it calls functions by their addresses. A part's compiled functions compute with the
same numbers in the same order as its methods, so rounds that call the methods give the same bits.

In a round each node takes its step on gathered points (:mod:`~kernelswarm.agents.nodes.learning`), and then publishes
its values at its next samples and its answers at its neighbours' points. On links and clocks that are not ideal,
messages are received before the steps (:mod:`~kernelswarm.agents.nodes.receiving`) and sent after them
(:mod:`~kernelswarm.agents.nodes.sending`). Whether links are ideal is a compile-time constant.
"""

import math

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING, ORDER, ROOM, WANTS
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.arithmetic.scratch import Scratch, fits
from kernelswarm.agents.arithmetic.views import fetch, line_of, rows_of, table, table_of
from kernelswarm.agents.nodes.arrays import (
    DONE,
    FULL,
    PAUSED,
    REPACK,
    RETURNED,
    Gathered,
    Links,
    LossyExchange,
    Network,
    Own,
    Realized,
    Received,
    answer_over,
    first_row,
)
from kernelswarm.agents.nodes.drawing import Laid
from kernelswarm.agents.nodes.learning import evaluate_in, learning, summing
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.pulling import edges_of
from kernelswarm.agents.nodes.receiving import gather_arrived, receive
from kernelswarm.agents.nodes.sending import (
    count_step,
    deliver,
    draw_next,
    draw_replayed,
    keep_points,
    put_out,
    send,
    send_nothing,
    take_up,
)
from kernelswarm.arrays import Array, Booleans
from kernelswarm.protocols.core.addresses import NONE, Compiled
from kernelswarm.protocols.core.compiling import force_inline, njit_no_refcount, nogil

FETCHED = 512
"""Numbers of a state and of its rows to prefetch during the previous node; the processor fetches what follows them."""

LARGE = 2**16
"""Minimum size of all states, in numbers, for which prefetching pays; smaller ones stay in the nearest cache."""


@force_inline
def gather(i: int, t: int, network: Network, own: Own, exchange: LossyExchange) -> Gathered:
    """Concatenate the points of node i and its neighbours, in the symmetric form."""
    rounds, links, at = own.points.shape[1], network.links, own.sent[t, i]
    if network.coupling.symmetric:
        copy_matrix(table_of(own.points, i * rounds + t, at), network.work.points)
        for e in range(links.start[i], links.start[i + 1]):
            count = own.sent[t, links.other[e]]
            points = table_of(own.points, links.other[e] * rounds + t, count)
            copy_matrix(points, rows_of(network.work.points, at, count))
            at += count
    return Gathered(at, 0)


def waiting(ideal: bool) -> Compiled:
    """Return the function that tells whether a node can take a step, on ideal or other links."""

    @force_inline
    def waits(i: int, now: int, network: Network, own: Own, exchange: LossyExchange, ahead: Laid) -> int:
        """Return DONE if node i can take its next step, or the reason for interrupting the rounds."""
        counts, kinds = network.states.counts, network.kinds
        short = counts[i, ROOM] < own.most[i]
        if ideal:
            short = short and kinds.functions[kinds.of[i], REPACK] == NONE
        else:
            kept = exchange.kept
            if exchange.terms.forgets and kept.following[i] != now - 1 and kept.begun[i] != now:
                return RETURNED
            short = short or exchange.counts.cursor[i] == len(ahead.counts)
        return PAUSED if counts[i, WANTS] != NOTHING or short else DONE

    return waits


def evaluating(ideal: bool) -> Compiled:
    """Return the function that evaluates a node's function at points in flight, on ideal or other links."""
    sum_rows = summing(ideal)

    @force_inline
    def evaluate(i: int, t: int, network: Network, own: Own, received: Received, exchange: LossyExchange) -> None:
        """Evaluate node i's function at its own and its neighbours' points, with row sums for implicit steps."""
        kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
        rounds, size, begin, kind = own.points.shape[1], own.sent[t, i], links.start[i], kinds.of[i]
        degree, symmetric, together, end = links.start[i + 1] - begin, coupling.symmetric, False, size
        points, values = table_of(own.points, i * rounds + t, size), table_of(own.values, i, size)
        if ideal:
            every_row, place, row_sums = own.rows, own.row_begins[i], received.answer_row_sums
            columns = (own.row_begins[i + 1] - place) // own.most[i]
            # Rows of repacked states are kernel rows, whose bits do not depend on the other rows of a call.
            repacked = kinds.functions[kind, REPACK] != NONE
            together = symmetric and repacked and points.shape[1] <= NARROW and kinds.apart[kind] == 0
        else:
            kept = exchange.kept
            every_row, columns, row_sums = kept.rows, kept.rows.shape[1], kept.received_row_sums
            place = first_row(i, begin, own.values.shape[1]) * columns
        if ideal and together:
            taken = gather(i, t, network, own, exchange).taken
            if taken:
                every, found = rows_of(work.points, 0, taken), rows_of(work.values, 0, taken)
                evaluate_in(i, every, table(every_row, place, taken, columns), found, network)
            copy_matrix(rows_of(work.values, 0, size), values)
        elif size:
            evaluate_in(i, points, table(every_row, place, size, columns), values, network)
        copies = coupling.implicit and degree > 0 and not together
        if copies:
            copy_matrix(points, work.points)
            copy_matrix(values, work.values)
        for e in range(begin, begin + degree):
            if ideal:
                count = own.sent[t, links.other[e]]
                fresh = table_of(own.points, links.other[e] * rounds + t, count)
                answer = rows_of(received.answers, answer_over(e, t, links, own), count)
            else:
                count = kept.received_sent[e]
                fresh, answer = table_of(kept.received_points, e, count), table_of(kept.received_values, e, count)
            if ideal and together:
                copy_matrix(rows_of(work.values, end, count), answer)
            elif count:
                if ideal and not symmetric:  # rows of a neighbour's points are not kept
                    rows = table(work.rows, 0, count, columns)
                else:
                    rows = table(every_row, place + end * columns, count, columns)
                evaluate_in(i, fresh, rows, answer, network)
                if copies and symmetric:
                    copy_matrix(fresh, rows_of(work.points, end, count))
                    copy_matrix(answer, rows_of(work.values, end, count))
            end += count
        if not symmetric:
            end = size
        if coupling.implicit and degree and end:
            every, found = rows_of(work.points, 0, end), rows_of(work.values, 0, end)
            eta = own.step_sizes[i, own.steps[i], 0]
            sum_rows(i, t, every, table(every_row, place, end, columns), found, eta, network, own, row_sums)

    return evaluate


evaluate_kept = evaluating(ideal=False)


def rounds(ideal: bool) -> Compiled:
    """Return the function that runs rounds on ideal or other links."""
    learn, evaluate, waits = learning(ideal), evaluating(ideal) if ideal else evaluate_kept, waiting(ideal)
    collect = gather if ideal else gather_arrived

    @nogil(makes_arrays=False)
    def run(
        network: Network,
        own: Own,
        received: Received,
        exchange: LossyExchange,  # None on ideal links, like ``ahead`` and ``realized``
        spare: Scratch,
        ahead: Laid,
        predicted: Array,  # filled with f at the samples before each step: (V, T, b, C), else (T, V, b, C); or empty
        realized: Realized,
        first: int,  # the first round, as index in the batches; on unreliable links as round of the run
        count: int,
        completed: int,  # rounds of the run before this call
        diverged: float,
        since: int,  # the number of nodes that have already learned in the first round, 0 on unreliable links
    ) -> tuple[int, int, int, float]:
        """Run ``count`` rounds; returns why they ended, the rounds completed, and the node and curvature at the end."""
        states, links, nodes, place, at = network.states, network.links, len(network.kinds.of), 0, 0
        for now in range(first, first + count):
            done = states.turn[0] = now - first
            if ideal:
                at = now
            else:
                place = now - PRIMING - realized.first
            for i in range(0 if since == 0 or done else nodes, nodes):
                if ideal or realized.awake[i, place]:
                    reason = waits(i, now, network, own, exchange, ahead)
                    if reason != DONE:
                        return reason, done, i, 0.0
            if not ideal:
                symmetric, awake = network.coupling.symmetric, realized.awake
                receive(links, exchange.mail, exchange.counts, symmetric, exchange.terms, awake, place, now)
            for i in range(0 if done else since, nodes):
                if not (ideal or realized.awake[i, place]):
                    continue
                states.turn[1] = i
                if ideal:
                    prefetch(i + 1, network, own)
                gathered = collect(i, now, network, own, exchange)
                kept_at, steps = i * predicted.shape[1] + now, completed + done + 1
                if ideal:
                    counts = line_of(states.counts, i, states.counts.shape[1])
                    if counts[ROOM] < gathered.taken and not fits(
                        spare, counts, gathered.taken, states.storage.shape[1]
                    ):
                        return FULL, done, i, 0.0
                else:
                    kept_at = exchange.counts.cursor[i] * nodes + i
                    steps = exchange.counts.completed[i] + 1
                if len(predicted):
                    size = own.samples[at, i]
                    copy_matrix(table_of(own.values, i, size), table_of(predicted, kept_at, size))
                reason, curvature = learn(i, at, steps, gathered, network, own, received, spare, diverged)
                if reason != DONE:
                    return reason, done, i, curvature
                if not ideal:
                    count_step(i, now, gathered.taken, network, own, exchange.counts)
            if ideal and lay_rows(network, own) > spare.capacity:
                return FULL, done, nodes, 0.0
            for i in range(nodes):
                states.turn[1] = i
                if ideal:
                    evaluate(i, now + 1, network, own, received, exchange)
                elif realized.awake[i, place]:
                    take_up(i, now, network, own, exchange)
                    evaluate(i, 0, network, own, received, exchange)
                    draw_next(i, now, network, own, exchange, ahead)
                    send(i, now, place, network, exchange, realized.active)
                else:
                    send_nothing(i, links, exchange.mail, now)
            if ideal:
                if len(own.buffers.keys):
                    for i in range(nodes):
                        replay(i, now + 2, links, own)
                if network.coupling.sends_duals:
                    send_duals(network)
            else:
                deliver(now, place, realized, exchange.mail)
        return DONE, count, 0, 0.0

    return run


run_rounds, run_lossy_rounds = rounds(ideal=True), rounds(ideal=False)


@nogil(makes_arrays=False)
def resume(
    network: Network,
    own: Own,
    received: Received,
    exchange: LossyExchange,
    realized: Realized,
    now: int,  # the next round of the network
    evaluates: Booleans,  # (V,)
    sends: bool,
) -> None:
    """Evaluate some nodes' functions at points in flight, and send the messages of the previous round again."""
    for i in range(len(network.kinds.of)):
        network.states.turn[1] = i
        if evaluates[i]:
            evaluate_kept(i, 0, network, own, received, exchange)
        if sends and exchange.kept.following[i] == now - 1:
            put_out(i, now - 1, now - 1 - PRIMING - realized.first, network, exchange, realized.active)


@force_inline
def prefetch(i: int, network: Network, own: Own) -> None:
    """Prefetch the state and rows of node i, if it exists and all states together are large."""
    states = network.states
    if i < len(network.kinds.of) and states.storage.size > LARGE:
        fetch(states.storage, states.begins[i], min(states.lengths[i], FETCHED))
        fetch(own.rows, own.row_begins[i], min(own.row_begins[i + 1] - own.row_begins[i], FETCHED))


@force_inline
def replay(i: int, t: int, links: Links, own: Own) -> None:
    """Put received and own points into node i's buffer, and append replayed points to its samples of a round."""
    rounds, inputs, samples, buffers = own.points.shape[1], own.points.shape[3], own.samples[t, i], own.buffers
    if links.start[i + 1] == links.start[i]:
        return
    for e in range(links.start[i], links.start[i + 1]):
        other = links.other[e]
        keep_points(i, table_of(own.points, other * rounds + t - 1, own.sent[t - 1, other]), buffers)
    place = i * rounds + t
    keep_points(i, table_of(own.points, place, samples), buffers)
    begin = place * own.points.shape[2] + samples
    replayed = table(own.points, begin * inputs, math.ceil(buffers.rate), inputs)
    own.sent[t, i] = samples + draw_replayed(i, replayed, buffers)


@njit_no_refcount
def send_duals(network: Network) -> None:
    """Copy the dual variables to the array that neighbours read."""
    links, coupling = network.links, network.coupling
    for i in range(len(links.start) - 1):
        edges = edges_of(i, network)
        for e in range(edges.shape[1]):
            links.sent[links.start[i] + e] = edges[coupling.duals, e]


@force_inline
def lay_rows(network: Network, own: Own) -> int:
    """Fill in the starts of the nodes' rows, from the present orders of repacked states.

    Returns the largest such order, or an impossible one if the array of rows is too short.
    """
    kinds, counts, begins = network.kinds, network.states.counts, own.row_begins
    before, widest = begins[0], 0
    for i in range(len(kinds.of)):
        length, before = begins[i + 1] - before, begins[i + 1]
        if kinds.functions[kinds.of[i], REPACK] != NONE:
            length = own.most[i] * counts[i, ORDER]
            widest = max(widest, counts[i, ORDER])
        begins[i + 1] = begins[i] + length
    return widest if begins[len(kinds.of)] <= own.rows.shape[1] else ALWAYS
