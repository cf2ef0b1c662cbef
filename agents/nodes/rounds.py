"""The round of all agents of a block, in compiled code over arrays.

The round knows no part; it calls functions by their addresses. A part's compiled functions compute with the same
numbers in the same order as its methods, so that rounds that call these have the same bits.

A round is each node's step on what it gathers (:mod:`~kernelswarm.agents.nodes.learning`), and then what each
publishes: its values at the samples that follow, and its answers at its neighbours'.
"""

import math

from kernelswarm.agents.arithmetic.abi import ALWAYS, NOTHING, ORDER, ROOM, WANTS, evaluate_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.arithmetic.scratch import Scratch, fits
from kernelswarm.agents.arithmetic.views import fetch, line, table
from kernelswarm.agents.nodes.arrays import (
    DONE,
    EVALUATE,
    FULL,
    PAUSED,
    REPACK,
    Buffers,
    Coupling,
    Gathered,
    Links,
    Network,
    Own,
    Received,
    answer_over,
)
from kernelswarm.agents.nodes.learning import learner_of, learning, summing
from kernelswarm.agents.nodes.replay_buffer import draw, keep
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import NONE
from kernelswarm.protocols.core.compiling import force_inline, njit_no_refcount, nogil

FETCHED = 512
"""Numbers of a state and of its rows to prefetch during the node before; the processor fetches what follows them."""

LARGE = 2**16
"""The size of all states from which on this pays, in numbers: smaller ones stay in the nearest cache."""

learn, sum_rows = learning(ideal=True), summing(ideal=True)


@nogil(makes_arrays=False)
def run_rounds(
    network: Network,
    own: Own,
    received: Received,
    spare: Scratch,
    predicted: Array,  # (V, rounds, b, C) filled with f at the samples before each step; or (0, 0, 0, 0)
    first: int,  # the first round, by its place in the batches
    count: int,
    completed: int,  # rounds of the run before this call
    diverged: float,
    since: int,  # the number of nodes that have already learned in the first round
) -> tuple[int, int, int, float]:
    """Run ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    states, nodes, room, outputs = network.states, len(network.kinds.of), own.values.shape[1], own.values.shape[2]
    kept, replays = predicted.shape[2] * outputs, len(own.buffers.keys) > 0
    kept_rounds, large = predicted.shape[1], states.storage.size > LARGE
    for t in range(first, first + count):
        states.turn[0] = t - first
        for i in range(0 if since == 0 or t > first else nodes, nodes):
            if waits(i, network, own):
                return PAUSED, t - first, 0, 0.0
        for i in range(since if t == first else 0, nodes):
            states.turn[1] = i
            if large and i + 1 < nodes:
                fetch(states.storage, states.begins[i + 1], min(states.lengths[i + 1], FETCHED))
                length = own.row_begins[i + 2] - own.row_begins[i + 1]
                fetch(own.rows, own.row_begins[i + 1], min(length, FETCHED))
            gathered = Gathered(gather(i, t, network, own), 0)
            counts = line(states.counts, i * states.counts.shape[1], states.counts.shape[1])
            if counts[ROOM] < gathered.taken and not fits(spare, counts, gathered.taken, states.storage.shape[1]):
                return FULL, t - first, i, 0.0
            if kept_rounds:
                size = own.samples[t, i]
                values = table(own.values, i * room * outputs, size, outputs)
                copy_matrix(values, table(predicted, (i * kept_rounds + t) * kept, size, outputs))
            reason, curvature = learn(
                i, t, completed + t - first + 1, gathered, network, own, received, spare, diverged
            )
            if reason != DONE:
                return reason, t - first, i, curvature
        if lay_rows(network, own) > spare.capacity:
            return FULL, t - first, nodes, 0.0
        for i in range(nodes):
            states.turn[1] = i
            publish(i, t + 1, network, own, received)
        if replays:
            for i in range(nodes):
                if network.links.start[i + 1] > network.links.start[i]:
                    replay(i, t + 2, network.links, own)
        if network.coupling.sends_duals:
            send_duals(network.links, network.coupling)
    return DONE, count, 0, 0.0


@force_inline
def waits(i: int, network: Network, own: Own) -> bool:
    """Tell whether node i needs maintenance or room before its next step, which rounds cannot give."""
    counts, kinds = network.states.counts, network.kinds
    short = counts[i, ROOM] < own.most[i] and kinds.functions[kinds.of[i], REPACK] == NONE
    return bool(counts[i, WANTS] != NOTHING or short)


@force_inline
def gather(i: int, t: int, network: Network, own: Own) -> int:
    """Copy node i's points and its neighbours' side by side, in the symmetric form; returns the number of points."""
    rounds, room, inputs, links = own.points.shape[1], own.points.shape[2], own.points.shape[3], network.links
    at = own.sent[t, i]
    if network.coupling.symmetric:
        whole = room * inputs
        copy_matrix(table(own.points, (i * rounds + t) * whole, at, inputs), network.work.points)
        for e in range(links.start[i], links.start[i + 1]):
            count = own.sent[t, links.other[e]]
            points = table(own.points, (links.other[e] * rounds + t) * whole, count, inputs)
            copy_matrix(points, table(network.work.points, at * inputs, count, inputs))
            at += count
    return int(at)


@force_inline
def publish(i: int, t: int, network: Network, own: Own, received: Received) -> None:
    """Evaluate node i's function at its points of a round and its neighbours', with row sums for implicit steps."""
    kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
    room, inputs, outputs, rounds = own.points.shape[2], own.points.shape[3], own.values.shape[2], own.points.shape[1]
    kind, begin, degree = kinds.of[i], links.start[i], links.start[i + 1] - links.start[i]
    place, size = own.row_begins[i], own.sent[t, i]
    columns, taken = (own.row_begins[i + 1] - place) // own.most[i], size
    evaluate = evaluate_at(kinds.functions[kind, EVALUATE])
    tools, numbers, state, counts, _ = learner_of(i, network)
    values = table(own.values, i * room * outputs, size, outputs)
    if coupling.symmetric:
        taken = gather(i, t, network, own)
        # Rows of repacked states are kernel rows: each has the same bits whichever others are computed with it.
        together = kinds.functions[kind, REPACK] != NONE and inputs <= NARROW and kinds.apart[kind] == 0
        evaluate_gathered(i, 0, taken if together else size, columns, network, own)
        after = size
        for e in range(begin, begin + degree):
            if not together:
                evaluate_gathered(i, after, own.sent[t, links.other[e]], columns, network, own)
            after += own.sent[t, links.other[e]]
        copy_matrix(table(work.values, 0, size, outputs), values)
        after = size
        for e in range(begin, begin + degree):
            count = own.sent[t, links.other[e]]
            answer = table(received.answers, answer_over(e, t, links, own) * outputs, count, outputs)
            copy_matrix(table(work.values, after * outputs, count, outputs), answer)
            after += count
    else:
        if size:
            fresh = table(own.points, (i * rounds + t) * room * inputs, size, inputs)
            evaluate(tools, numbers, state, counts, fresh, table(own.rows, place, size, columns), values)
            if coupling.implicit:
                copy_matrix(fresh, table(work.points, 0, size, inputs))
                copy_matrix(values, table(work.values, 0, size, outputs))
        for e in range(begin, begin + degree):
            count = own.sent[t, links.other[e]]
            if count:
                fresh = table(own.points, (links.other[e] * rounds + t) * room * inputs, count, inputs)
                answer = table(received.answers, answer_over(e, t, links, own) * outputs, count, outputs)
                evaluate(tools, numbers, state, counts, fresh, table(work.rows, 0, count, columns), answer)
    if coupling.implicit and degree and taken:
        rows = table(own.rows, place, taken, columns)
        points, found = table(work.points, 0, taken, inputs), table(work.values, 0, taken, outputs)
        eta = own.step_sizes[i, own.steps[i], 0]
        sum_rows(i, t, points, rows, found, eta, network, own, received.answer_row_sums)


@force_inline
def evaluate_gathered(i: int, after: int, count: int, columns: int, network: Network, own: Own) -> None:
    """Evaluate node i's function at ``count`` of its gathered points, if there are any."""
    work, inputs, outputs = network.work, own.points.shape[3], own.values.shape[2]
    tools, numbers, state, counts, _ = learner_of(i, network)
    if count:
        evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])(
            tools,
            numbers,
            state,
            counts,
            table(work.points, after * inputs, count, inputs),
            table(own.rows, own.row_begins[i] + after * columns, count, columns),
            table(work.values, after * outputs, count, outputs),
        )


@force_inline
def replay(i: int, t: int, links: Links, own: Own) -> None:
    """Put the points received into node i's buffer, then draw replayed points behind its samples of a round."""
    rounds, room, inputs, samples = own.points.shape[1], own.points.shape[2], own.points.shape[3], own.samples[t, i]
    buffers, whole = own.buffers, room * inputs
    for e in range(links.start[i], links.start[i + 1]):
        begin = (links.other[e] * rounds + t - 1) * whole
        keep_points(i, table(own.points, begin, own.sent[t - 1, links.other[e]], inputs), buffers)
    begin = (i * rounds + t) * whole
    keep_points(i, table(own.points, begin, samples, inputs), buffers)
    replayed = table(own.points, begin + samples * inputs, math.ceil(buffers.rate), inputs)
    own.sent[t, i] = samples + draw_replayed(i, replayed, buffers)


@force_inline
def keep_points(i: int, points: Array, buffers: Buffers) -> None:
    """Put points (n, p) that node i has drawn or received into its buffer."""
    room, inputs = buffers.ranks.shape[1], points.shape[1]
    kept, ranks = table(buffers.points, i * room * inputs, room, inputs), line(buffers.ranks, i * room, room)
    keep(kept, ranks, line(buffers.counts, 3 * i, 3), points, buffers.key[0], buffers.key[1])


@force_inline
def draw_replayed(i: int, replayed: Array, buffers: Buffers) -> int:
    """Fill in the points (ceil(r), p) that node i replays, and return how many there are."""
    room, inputs = buffers.ranks.shape[1], replayed.shape[1]
    kept, counts = table(buffers.points, i * room * inputs, room, inputs), line(buffers.counts, 3 * i, 3)
    return int(draw(kept, counts, buffers.rate, replayed, buffers.keys[i, 0], buffers.keys[i, 1]))


@njit_no_refcount
def send_duals(links: Links, coupling: Coupling) -> None:
    """Copy the dual variables to where neighbours read them."""
    for i in range(len(links.start) - 1):
        begin, degree = links.start[i], links.start[i + 1] - links.start[i]
        edges = table(links.state, coupling.rows * begin, coupling.rows, degree)
        for e in range(degree):
            links.sent[begin + e] = edges[coupling.duals, e]


@force_inline
def lay_rows(network: Network, own: Own) -> int:
    """Fill in where each node's rows begin, by the present size of repacked states.

    Returns the largest size of such a state, or an impossible one where the array of rows is too short.
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
