"""The round of nodes that send vectors, for all of a block, in compiled code.

A round ends when the vectors that were sent on its samples are received: a node receives, ends its round, and sees the
samples of the next before it sends. What it learns from what it has received, and what it does before it sends, has one
text for links of all kinds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kernelswarm.agents.arithmetic.abi import (
    GradientArguments,
    StepArguments,
    evaluate_at,
    gradient_at,
    loss_derivatives_at,
    loss_values_at,
    place_at,
    step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.scratch import States
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.nodes.arrays import (
    DONE,
    EVALUATE,
    GRADIENT,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    PAUSED,
    PLACE,
    RETURNED,
    STEP,
    Counts,
    Kinds,
    Links,
    Mail,
    Realized,
    Terms,
    VectorExchange,
)
from kernelswarm.agents.nodes.inbox import NO_ANSWER, SENT, SILENT
from kernelswarm.agents.nodes.learning import admit
from kernelswarm.agents.nodes.lossy_rounds import send_nothing
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import before, has_arrived, receive
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.addresses import NONE
from kernelswarm.protocols.core.compiling import force_inline, inline_always, nogil
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import PhaseArguments, phase_at
from kernelswarm.protocols.parameters.neighbours import squared_distance

LONG_LOOPS = True

ADAPT_START, ADAPT_FINISH, RECEIVE_START, RECEIVE_FINISH = range(4)
"""The functions of a protocol, by their addresses."""


class Phases(NamedTuple):
    """The protocol."""

    functions: Integers  # (4,) addresses
    numbers: Array
    lambdas: Array  # (K, L) each kind of learner's regularization of each feature
    weights: int  # L C, with which a node's vector begins
    sent: int  # where the part that it sends begins in it
    implicit: bool


class Vectors(NamedTuple):
    """The nodes' vectors, the vectors sent, and evaluations."""

    known: Array  # (length of all,) node by node, as the protocol lays it out: the weights (L, C) first
    begins: Integers  # (V + 1,) where each node's begins
    last_sent: Array  # (V + outside, n) the vectors that their neighbours have received
    rows: Array  # (V b, R) at the nodes' next samples, with room for b of each node
    values: Array  # (1, V, b, C) there; with bands (rounds + 2, V, b, C), of all rounds
    scratch: Array  # working memory of steps


class VectorSums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    largest_target: Array  # (V,) of the whole run


class Samples(NamedTuple):
    """Samples that were drawn ahead, and the sizes of the steps on them; b is the largest batch of any node."""

    points: Array  # (rounds + 2, V, b, p), by rounds, in the order in which they are read
    targets: Array  # (rounds + 2, V, b, q)
    counts: Integers  # (rounds + 2, V) the number of samples
    step_sizes: Array  # (rounds + 1, V, k)
    batch_sizes: Integers  # (V,) samples of a whole batch


class Work(NamedTuple):
    """The working memory of a node's round."""

    rows: Array  # (b, R)
    values: Array  # (b, C)
    gradient: Array  # (b, C)
    rates: Array  # (b,)
    stiffness: Array  # (b,)
    losses: Array  # (b,)
    moved: Array  # (L C,) weights during a round
    sizes: Array  # (k,) of the step
    received: Array  # (deg n,) deg is the largest degree
    counts: Array  # (deg,) the weight of each of them by its age
    nothing: Array  # (0, n)


class VectorNetwork(NamedTuple):
    """The arguments of all rounds."""

    states: States
    kinds: Kinds
    links: Links
    vectors: Vectors
    sums: VectorSums
    phases: Phases
    samples: Samples
    work: Work


@nogil(makes_arrays=False)
def run_vector_rounds(
    network: VectorNetwork,
    first: int,  # the first round, by its place in the samples
    count: int,
    diverged: float,
    primes: bool,  # whether the first samples, which nodes have seen, are only adapted to
) -> tuple[int, int, int]:
    """Run ``count`` rounds; returns why it stopped, the rounds completed, and the node there."""
    states, kinds, links, vectors, _, phases, _, work = network
    last_sent, width = vectors.last_sent, vectors.last_sent.shape[1]
    for t in range(first, first + count):
        states.turn[0] = t - first
        for i in range(0 if primes else len(kinds.of)):
            states.turn[1] = i
            for e in range(links.start[i + 1] - links.start[i]):
                j = links.other[links.start[i] + e]
                for k in range(width):
                    work.received[e * width + k] = last_sent[j, k]
            if not end_round(i, t, network, diverged):
                return LARGE_VALUES, t - first, i
        for i in range(len(kinds.of)):
            states.turn[1] = i
            if not primes:
                see(i, t + 1, network)
            adapt(i, t + 1, network)
            for k in range(width):
                last_sent[i, k] = vectors.known[vectors.begins[i] + phases.sent + k]
    return DONE, count, 0


@inline_always
def slot_of(t: int, values: Array) -> int:
    """Return the place of the values of a round: 0, or with bands, which keep all rounds, that of the round."""
    return t if values.shape[0] > 1 else 0


@force_inline
def end_round(i: int, t: int, network: VectorNetwork, diverged: float) -> bool:
    """Have node i learn from its samples t and from the vectors at the front of ``work.received``; False where it
    diverges."""
    states, kinds, links, vectors, sums, phases, samples, work = network
    storage, known, targets, rule = states.storage, vectors.known, samples.targets, phases.functions
    nodes, room, wide = targets.shape[1], targets.shape[2], targets.shape[3]
    length, width, outputs = storage.shape[1], vectors.last_sent.shape[1], vectors.values.shape[3]
    columns, degree = vectors.rows.shape[1], links.start[i + 1] - links.start[i]
    kind, sizes, size = kinds.of[i], work.sizes, samples.counts[t, i]
    wanted = table(targets, (t * nodes + i) * room * wide, size, wide)
    if size:
        begin, losses = (slot_of(t, vectors.values) * nodes + i) * room * outputs, line(work.losses, 0, size)
        own = table(vectors.values, begin, size, outputs)
        if not admit(i, own, wanted, sums.largest_target, diverged):
            return False
        loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
        loss_values_at(kinds.functions[kind, LOSS_VALUES])(loss_numbers, own, wanted, losses)
        sums.loss[i] += total(losses)
    for n in range(len(sizes)):
        sizes[n] = samples.step_sizes[t, i, n]
    state = line(known, vectors.begins[i], vectors.begins[i + 1] - vectors.begins[i])
    given = PhaseArguments(
        phases.numbers,
        state,
        line(vectors.last_sent, i * width, width),
        table(work.received, 0, degree, width),
        line(work.counts, 0, degree),
        sizes[0],
        work.moved,
        line(phases.lambdas, kind * columns, columns),
        table(vectors.rows, i * room * columns, size, columns),
        wanted,
        samples.batch_sizes[i],
    )
    if rule[RECEIVE_START] != NONE:
        phase_at(rule[RECEIVE_START])(given)
        descend(i, t, network)
    phase_at(rule[RECEIVE_FINISH])(given)
    place_at(kinds.functions[kind, PLACE])(
        line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind]),
        line(storage, i * length, length),
        line(state, 0, phases.weights),
    )
    return True


@force_inline
def see(i: int, t: int, network: VectorNetwork) -> None:
    """Evaluate node i's function at its samples t."""
    states, kinds, _, vectors, _, _, samples, _ = network
    storage, points, kind = states.storage, samples.points, kinds.of[i]
    nodes, room, inputs, size = points.shape[1], points.shape[2], points.shape[3], samples.counts[t, i]
    columns, outputs = vectors.rows.shape[1], vectors.values.shape[3]
    evaluate_at(kinds.functions[kind, EVALUATE])(
        line(kinds.tools, kind * kinds.tools.shape[1], kinds.tools.shape[1]),
        line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind]),
        line(storage, i * storage.shape[1], storage.shape[1]),
        line(states.counts, i * states.counts.shape[1], states.counts.shape[1]),
        table(points, (t * nodes + i) * room * inputs, size, inputs),
        table(vectors.rows, i * room * columns, size, columns),
        table(vectors.values, (slot_of(t, vectors.values) * nodes + i) * room * outputs, size, outputs),
    )


@force_inline
def adapt(i: int, t: int, network: VectorNetwork) -> None:
    """Let node i adapt its state by its samples t, which it has seen, before it sends."""
    _, kinds, _, vectors, _, phases, samples, work = network
    known, rule, kind, sizes = vectors.known, phases.functions, kinds.of[i], work.sizes
    (_, nodes, room, _), size, columns = samples.points.shape, samples.counts[t, i], vectors.rows.shape[1]
    if rule[ADAPT_FINISH] == NONE:
        return
    for n in range(len(sizes)):
        sizes[n] = samples.step_sizes[t, i, n]
    wide, none = samples.targets.shape[3], line(work.counts, 0, 0)
    given = PhaseArguments(
        phases.numbers,
        line(known, vectors.begins[i], vectors.begins[i + 1] - vectors.begins[i]),
        none,
        work.nothing,
        none,
        sizes[0],
        work.moved,
        line(phases.lambdas, kind * columns, columns),
        table(vectors.rows, i * room * columns, size, columns),
        table(samples.targets, (t * nodes + i) * room * wide, size, wide),
        samples.batch_sizes[i],
    )
    if rule[ADAPT_START] != NONE:
        phase_at(rule[ADAPT_START])(given)
        descend(i, t, network)
    phase_at(rule[ADAPT_FINISH])(given)


@force_inline
def descend(i: int, t: int, network: VectorNetwork) -> None:
    """Take node i's learner's step on its samples t from the weights that are moved; without samples they stay."""
    states, kinds, _, vectors, _, phases, samples, work = network
    weights, sizes, size = work.moved, work.sizes, samples.counts[t, i]
    if size == 0:
        return
    nodes, room, inputs = samples.points.shape[1], samples.points.shape[2], samples.points.shape[3]
    wide, outputs, kind = samples.targets.shape[3], work.values.shape[1], kinds.of[i]
    columns, features = vectors.rows.shape[1], len(weights) // outputs
    functions = line(kinds.functions, kind * kinds.functions.shape[1], kinds.functions.shape[1])
    tools = line(kinds.tools, kind * kinds.tools.shape[1], kinds.tools.shape[1])
    numbers = line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind])
    counts = line(states.counts, i * states.counts.shape[1], states.counts.shape[1])
    points = table(samples.points, (t * nodes + i) * room * inputs, size, inputs)
    targets = table(samples.targets, (t * nodes + i) * room * wide, size, wide)
    rows, kept = table(vectors.rows, i * room * columns, size, columns), table(work.rows, 0, size, columns)
    values, gradient = table(work.values, 0, size, outputs), table(work.gradient, 0, size, outputs)
    rates, stiffness = line(work.rates, 0, size), line(work.stiffness, 0, size)
    combine_into(rows, table(weights, 0, features, outputs), features, values)
    if functions[GRADIENT] == NONE:
        loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
        loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, values, targets, gradient)
    else:
        asked = GradientArguments(
            tools, numbers, weights, counts, vectors.scratch, points, rows, values, targets, sizes
        )
        gradient_at(functions[GRADIENT])(asked, gradient)
    weigh(sizes[0], kinds.curvature[kind], samples.batch_sizes[i], gradient, rates, stiffness)
    copy_matrix(rows, kept)
    given = StepArguments(
        tools,
        numbers,
        weights,
        counts,
        vectors.scratch,
        points,
        kept,
        gradient,
        rates,
        stiffness,
        phases.implicit,
        sizes,
        values,
        targets,
    )
    step_at(functions[STEP])(given)


@force_inline
def weigh(eta: float, curvature: float, batch_size: int, gradient: Array, rates: Array, stiffness: Array) -> None:
    """Fill in the rates and curvatures of a node's samples; a part of a batch makes the step as much smaller."""
    size = len(rates)
    share = 1.0 if size >= batch_size else size / batch_size
    for k in range(size):
        rates[k] = eta / size
        stiffness[k] = curvature * share
        if share < 1.0:
            for c in range(gradient.shape[1]):
                gradient[k, c] *= share


# The round of nodes that send vectors on links and by clocks that are not ideal, for all of a block.
#
# Messages travel as those of points and values do (:mod:`~kernelswarm.agents.nodes.receiving`), and nodes learn as
# on ideal links (:mod:`~kernelswarm.agents.nodes.vector_rounds`): here is what lies between.


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
