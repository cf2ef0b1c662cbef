"""The round of all nodes of a block that send vectors, in compiled code.

A round ends with the receipt of the vectors that were sent on its samples: a node receives, ends its round, and
evaluates the next samples before it sends. Whether links are ideal is a constant; on other links vectors are sent like
points and values (:mod:`~kernelswarm.agents.nodes.receiving`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kernelswarm.agents.arithmetic.abi import (
    GradientArguments,
    StepArguments,
    gradient_at,
    loss_derivatives_at,
    loss_values_at,
    place_at,
    step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.scratch import States
from kernelswarm.agents.arithmetic.views import line, line_of, rows_of, table, table_of
from kernelswarm.agents.functions.kernel_sum import combine_into
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    DONE,
    GRADIENT,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    PAUSED,
    PLACE,
    RETURNED,
    STEP,
    Kinds,
    Links,
    Realized,
    VectorExchange,
)
from kernelswarm.agents.nodes.inbox import SILENT
from kernelswarm.agents.nodes.learning import admit, evaluate_in, learner_of
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import newest_arrived, receive
from kernelswarm.agents.nodes.sending import deliver, returned, send_nothing, send_vector
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import NONE, Compiled
from kernelswarm.protocols.core.compiling import force_inline, inline_always, nogil
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import PhaseArguments, phase_at
from kernelswarm.protocols.parameters.neighbours import squared_distance

LONG_LOOPS = True

ADAPT_START, ADAPT_FINISH, RECEIVE_START, RECEIVE_FINISH = range(4)
"""The functions of a protocol, as indices of their addresses."""


class Phases(NamedTuple):
    """The protocol."""

    functions: Integers  # (4,) addresses
    numbers: Array
    lambdas: Array  # (K, L) regularization of each feature, by kind of learner
    weights: int  # L C, the length of the weights at the start of a node's vector
    sent: int  # the start of the sent part in a node's vector
    implicit: bool


class Vectors(NamedTuple):
    """The nodes' vectors, the vectors sent, and evaluations."""

    known: Array  # (total length,) by node, in the protocol's layout: the weights (L, C) first
    begins: Integers  # (V + 1,) the start of each node's vector
    last_sent: Array  # (V + outside, n) the vectors that the neighbours have received
    rows: Array  # (V b, R) at the nodes' next samples, with room for b samples of each node
    values: Array  # (1, V, b, C) at the next samples; with bands (rounds + 2, V, b, C), at the samples of all rounds
    scratch: Array  # working memory of steps


class VectorSums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    largest_target: Array  # (V,) of the whole run
    samples: Integers  # (V,) of the whole run


class Samples(NamedTuple):
    """Samples drawn ahead, and the sizes of the steps on them; b is the largest batch of any node."""

    points: Array  # (rounds + 2, V, b, p), by round, in the order in which they are read
    targets: Array  # (rounds + 2, V, b, q)
    counts: Integers  # (rounds + 2, V) the number of samples
    step_sizes: Array  # (rounds + 1, V, k)
    batch_sizes: Integers  # (V,) samples of a complete batch


class Work(NamedTuple):
    """Working memory of a node's round."""

    rows: Array  # (b, R)
    values: Array  # (b, C)
    gradient: Array  # (b, C)
    rates: Array  # (b,)
    stiffness: Array  # (b,)
    losses: Array  # (b,)
    moved: Array  # (L C,) weights during a round
    sizes: Array  # (k,) sizes of the step
    received: Array  # (deg n,) deg is the largest degree
    counts: Array  # (deg,) the weight of each received vector by its age


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


def vector_rounds(ideal: bool) -> Compiled:
    """Return the function that runs rounds on ideal or other links."""

    @nogil(makes_arrays=False)
    def run(
        network: VectorNetwork,
        exchange: VectorExchange,  # None on ideal links, like ``realized``
        realized: Realized,
        first: int,  # the first round, as index of its samples; on unreliable links as round of the run
        count: int,
        diverged: float,
        primes: bool,  # on ideal links, whether to only adapt to the samples, which are already evaluated
    ) -> tuple[int, int, int]:
        """Run ``count`` rounds; returns why they ended, the rounds completed, and the node at the end."""
        links, vectors, nodes, place = network.links, network.vectors, len(network.kinds.of), 0
        turn, learns, adapts = network.states.turn, not primes, True
        for now in range(first, first + count):
            turn[0], at = now - first, now
            if not ideal:
                awake, place = realized.awake, now - PRIMING - realized.first
                learns, adapts = now >= PRIMING, now >= PRIMING - 1
                for i in range(nodes):
                    if returned(i, now, place, awake, exchange):
                        return RETURNED, now - first, i
                    if awake[i, place] and exchange.counts.cursor[i] == network.samples.points.shape[0] - 2:
                        return PAUSED, now - first, 0
                receive(links, exchange.mail, exchange.counts, False, exchange.terms, awake, place, now)
                take_sent(now - 1, vectors.last_sent, exchange)
            for i in range(nodes if learns else 0):
                if ideal or awake[i, place]:
                    turn[1] = i
                    if ideal:
                        gather(i, network)
                    else:
                        gather_arrived(i, now, network, exchange)
                        at = exchange.counts.cursor[i]
                    if not end_round(i, at, network, diverged):
                        return LARGE_VALUES, now - first, i
                    if not ideal:
                        network.sums.samples[i] += network.samples.counts[at, i]
                        exchange.counts.learned[i] += 1
                        exchange.counts.cursor[i] += 1
            for i in range(nodes):
                if ideal or awake[i, place]:
                    turn[1] = i
                    following = now + 1
                    if not ideal:
                        exchange.counts.cursor[i] += adapts and not learns
                        following = exchange.counts.cursor[i]
                    if learns:
                        see(i, following, network)
                    if adapts:
                        adapt(i, following, network)
                    begin, width = vectors.begins[i] + network.phases.sent, vectors.last_sent.shape[1]
                    vector = line(vectors.known, begin, width)
                    if ideal:
                        for k in range(width):
                            vectors.last_sent[i, k] = vector[k]
                    else:
                        post(i, now, place, vector, network, exchange, realized)
                else:
                    send_nothing(i, links, exchange.mail, now)
            if not ideal:
                deliver(now, place, realized, exchange.mail)
        return DONE, count, 0

    return run


run_vector_rounds, run_lossy_vector_rounds = vector_rounds(ideal=True), vector_rounds(ideal=False)


@force_inline
def gather(i: int, network: VectorNetwork) -> None:
    """Copy the vectors sent by node i's neighbours."""
    links, last_sent = network.links, network.vectors.last_sent
    width = last_sent.shape[1]
    for e in range(links.start[i + 1] - links.start[i]):
        j = links.other[links.start[i] + e]
        for k in range(width):
            network.work.received[e * width + k] = last_sent[j, k]


@force_inline
def take_sent(sent: int, last_sent: Array, exchange: VectorExchange) -> None:
    """Keep the vectors sent in a round, as changed by the links, which change them equally for all receivers."""
    mail = exchange.mail
    slot = sent % mail.points.shape[0]
    for i in range(len(exchange.sent_at)):
        if mail.previous[slot, i] != SILENT:
            for k in range(last_sent.shape[1]):
                last_sent[i, k] = mail.points[slot, i, 0, k]


@force_inline
def gather_arrived(i: int, now: int, network: VectorNetwork, exchange: VectorExchange) -> None:
    """Find the newest vector that has arrived from each neighbour of node i, and its weight."""
    links, vectors, work, mail, terms = network.links, network.vectors, network.work, exchange.mail, exchange.terms
    slots, width = mail.points.shape[0], vectors.last_sent.shape[1]
    begin = links.start[i]
    for d in range(links.start[i + 1] - begin):
        e, newest = begin + d, ABSENT
        if exchange.asks[e]:
            newest = newest_arrived(mail, e, now, terms.max_age + 1, terms.reach)
        received = line(work.received, d * width, width)
        work.counts[d] = 0.0
        vector = line_of(vectors.last_sent, i, width)
        if newest != ABSENT and (newest != exchange.used[e] or terms.repeats):
            exchange.used[e] = newest
            work.counts[d] = 1.0 / (1.0 + terms.damping * (now - 1 - newest))
            vector = line_of(mail.points, (newest % slots) * mail.points.shape[1] + links.other[e], width)
        for k in range(width):
            received[k] = vector[k]


@force_inline
def post(
    i: int,
    now: int,
    place: int,
    vector: Array,
    network: VectorNetwork,
    exchange: VectorExchange,
    realized: Realized,
) -> None:
    """Send node i's vector, unless a trigger withholds it because it has moved too little."""
    terms, last_sent = exchange.terms, line_of(network.vectors.last_sent, i, len(vector))
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING)) if terms.threshold > 0.0 else 0.0
    exchange.quiet[i] = False
    if threshold > 0.0 and now >= PRIMING:
        exchange.quiet[i] = math.sqrt(squared_distance(vector, last_sent)) <= threshold
    if exchange.quiet[i]:
        exchange.sent_at[i] = now
        send_nothing(i, network.links, exchange.mail, now)
    else:
        send_vector(i, now, place, vector, network.links, exchange, realized.active)


@inline_always
def slot_of(t: int, values: Array) -> int:
    """Return the index of the values of a round: 0, or with bands, which keep all rounds, the round."""
    return t if values.shape[0] > 1 else 0


@inline_always
def given_of(i: int, t: int, degree: int, sent: int, network: VectorNetwork) -> PhaseArguments:
    """Return the arguments of a phase of node i, with its samples t, ``degree`` vectors of neighbours, and ``sent``
    numbers of its own vector; fills in the step sizes."""
    _, kinds, _, vectors, _, phases, samples, work = network
    columns, size, place = vectors.rows.shape[1], samples.counts[t, i], t * samples.targets.shape[1] + i
    for n in range(len(work.sizes)):
        work.sizes[n] = samples.step_sizes[t, i, n]
    return PhaseArguments(
        phases.numbers,
        line(vectors.known, vectors.begins[i], vectors.begins[i + 1] - vectors.begins[i]),
        line_of(vectors.last_sent, i, sent),
        table(work.received, 0, degree, vectors.last_sent.shape[1]),
        line(work.counts, 0, degree),
        work.sizes[0],
        work.moved,
        line_of(phases.lambdas, kinds.of[i], columns),
        rows_of(vectors.rows, i * samples.targets.shape[2], size),
        table_of(samples.targets, place, size),
        samples.batch_sizes[i],
    )


@force_inline
def end_round(i: int, t: int, network: VectorNetwork, diverged: float) -> bool:
    """Update node i with its samples t and the vectors at the front of ``work.received``; returns False if it
    diverges."""
    _, kinds, links, vectors, sums, phases, _, work = network
    given = given_of(i, t, links.start[i + 1] - links.start[i], vectors.last_sent.shape[1], network)
    kind, size, rule = kinds.of[i], len(given.targets), phases.functions
    _, numbers, state, _, loss_numbers = learner_of(i, network)
    if size:
        own = table_of(vectors.values, slot_of(t, vectors.values) * vectors.values.shape[1] + i, size)
        if not admit(i, own, given.targets, sums.largest_target, diverged):
            return False
        losses = line(work.losses, 0, size)
        loss_values_at(kinds.functions[kind, LOSS_VALUES])(loss_numbers, own, given.targets, losses)
        sums.loss[i] += total(losses)
    if rule[RECEIVE_START] != NONE:
        phase_at(rule[RECEIVE_START])(given)
        descend(i, t, network)
    phase_at(rule[RECEIVE_FINISH])(given)
    place_at(kinds.functions[kind, PLACE])(numbers, state, line(given.state, 0, phases.weights))
    return True


@force_inline
def see(i: int, t: int, network: VectorNetwork) -> None:
    """Evaluate node i's function at its samples t."""
    vectors, samples = network.vectors, network.samples
    nodes, room, size = samples.points.shape[1], samples.points.shape[2], samples.counts[t, i]
    values = table_of(vectors.values, slot_of(t, vectors.values) * nodes + i, size)
    evaluate_in(
        i, table_of(samples.points, t * nodes + i, size), rows_of(vectors.rows, i * room, size), values, network
    )


@force_inline
def adapt(i: int, t: int, network: VectorNetwork) -> None:
    """Let node i adapt its state to its evaluated samples t, before it sends."""
    rule = network.phases.functions
    if rule[ADAPT_FINISH] == NONE:
        return
    given = given_of(i, t, 0, 0, network)
    if rule[ADAPT_START] != NONE:
        phase_at(rule[ADAPT_START])(given)
        descend(i, t, network)
    phase_at(rule[ADAPT_FINISH])(given)


@force_inline
def descend(i: int, t: int, network: VectorNetwork) -> None:
    """Take a step of node i's learner on its samples t from the weights ``work.moved``; without samples, no step."""
    _, kinds, _, vectors, _, phases, samples, work = network
    weights, sizes, size = work.moved, work.sizes, samples.counts[t, i]
    if size == 0:
        return
    place, functions = t * samples.points.shape[1] + i, kinds.functions[kinds.of[i]]
    features = len(weights) // work.values.shape[1]
    tools, numbers, _, counts, loss_numbers = learner_of(i, network)
    points, targets = table_of(samples.points, place, size), table_of(samples.targets, place, size)
    rows, kept = rows_of(vectors.rows, i * samples.points.shape[2], size), rows_of(work.rows, 0, size)
    values, gradient = rows_of(work.values, 0, size), rows_of(work.gradient, 0, size)
    rates, stiffness, scratch = line(work.rates, 0, size), line(work.stiffness, 0, size), vectors.scratch
    combine_into(rows, table(weights, 0, features, values.shape[1]), features, values)
    if functions[GRADIENT] == NONE:
        loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, values, targets, gradient)
    else:
        asked = GradientArguments(tools, numbers, weights, counts, scratch, points, rows, values, targets, sizes)
        gradient_at(functions[GRADIENT])(asked, gradient)
    weigh(sizes[0], kinds.curvature[kinds.of[i]], samples.batch_sizes[i], gradient, rates, stiffness)
    copy_matrix(rows, kept)
    given = StepArguments(
        tools,
        numbers,
        weights,
        counts,
        scratch,
        points,
        kept,
        gradient,
        rates,
        stiffness,
        phases.implicit,
        sizes,
        values,
        targets,
        table(scratch, 0, 0, 1),  # nobody teaches
    )
    step_at(functions[STEP])(given)


@force_inline
def weigh(eta: float, curvature: float, batch_size: int, gradient: Array, rates: Array, stiffness: Array) -> None:
    """Fill in the rates and curvatures of a node's samples; a partial batch makes the step proportionally smaller."""
    size = len(rates)
    share = 1.0 if size >= batch_size else size / batch_size
    for k in range(size):
        rates[k] = eta / size
        stiffness[k] = curvature * share
        if share < 1.0:
            for c in range(gradient.shape[1]):
                gradient[k, c] *= share
