"""The part of the round that nodes with copies have beside their copies', in compiled code over arrays.

In a round a node receives its neighbours' mixture weights, and updates its own by the copies' predictions of its
samples. What copies learn does not depend on their weights, so that this follows when all of them have run
some rounds. Nodes and edges are counted as in :mod:`~kernelswarm.agents.nodes.arrays`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import cube, line, table
from kernelswarm.agents.nodes.arrays import (
    DONE,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    RETURNED,
    Counts,
    Kinds,
    Links,
    Mail,
    Realized,
    Terms,
)
from kernelswarm.agents.nodes.inbox import NO_ANSWER, SENT, SILENT
from kernelswarm.agents.nodes.lossy_rounds import send_nothing
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import before, has_arrived, receive
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.core.compiling import force_inline, nogil
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.ensemble.stacking import learn_at, mixture_weights_at, receive_at, send_at

LEARN, RECEIVE, SEND, MIXTURE_WEIGHTS = range(4)
"""The functions of a protocol with copies, by their addresses."""


class Ensemble(NamedTuple):
    """The mixture weights of the nodes' K copies."""

    functions: Integers  # (4,) addresses
    numbers: Array  # the protocol's
    states: Array  # (V, most)
    lengths: Integers  # (V,)
    logs: Array  # (V + outside, K) the logarithms that each node sent last
    regression: Integers  # (V,) whether numbers are learned, and not classes
    loss: Array  # (V,) sums since the last report
    largest_target: Array  # (V,) of the whole run
    samples: Array  # (V,) of the whole run
    distinct: Array  # (V,) the number of different samples
    turn: Integers  # (2,) the rounds completed in a call, and the node at its turn: for errors of Python code


class MixtureWork(NamedTuple):
    """The working memory of updates of mixture weights; ``deg`` is the largest degree."""

    received: Array  # (deg, K) the neighbours' logarithms
    values: Array  # (K, b, C) of its copies at its samples
    mixture: Array  # (b, C) of their mixture; left there where it is too large
    gradients: Array  # (b, C)
    losses: Array  # (b,)
    lost: Array  # (K,) the losses of the copies
    mixture_weights: Array  # (K,)


def mixture_work(links: Links, members: int, size: int, outputs: int) -> MixtureWork:
    """Return the working memory for the mixture weights of ``members`` copies at these links."""
    return MixtureWork(
        received=np.zeros((int(np.diff(links.start).max(initial=0)), members)),
        values=np.zeros((members, size, outputs)),
        mixture=np.zeros((size, outputs)),
        gradients=np.zeros((size, outputs)),
        losses=np.zeros(size),
        lost=np.zeros(members),
        mixture_weights=np.zeros(members),
    )


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


class Outcomes(NamedTuple):
    """The copies' values at samples, which lie by nodes or by rounds: ``(A, B)`` is (V, T) or (T, V)."""

    predicted: Array  # (K, A, B, b, C)
    targets: Array  # (A, B, b, q)
    samples: Integers  # (T, V) the number of samples
    mixtures: Array  # (A, B, b, C) filled with the mixtures' values at the samples; or (0, 0, 0, 0)
    by_nodes: bool


@nogil(makes_arrays=False)
def update_mixture_weights(
    ensemble: Ensemble,
    kinds: Kinds,
    links: Links,
    outcomes: Outcomes,
    work: MixtureWork,
    exchange: MixtureExchange,
    realized: Realized,
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int]:
    """Update mixture weights for ``count`` rounds; returns why it stopped, the rounds completed, and the node there."""
    mail, counts, terms, awake = exchange.mail, exchange.counts, exchange.terms, realized.awake
    nodes, slots = len(ensemble.lengths), mail.points.shape[0]
    for now in range(first, first + count):
        place = now - PRIMING - realized.first
        ensemble.turn[0] = now - first
        for i in range(nodes if terms.forgets else 0):
            if awake[i, place] and exchange.sent_at[i] != now - 1 and exchange.begun[i] != now:
                return RETURNED, now - first, i
        receive(links, mail, counts, False, terms, awake, place, now)
        for i in range(nodes):
            ensemble.turn[1] = i
            if awake[i, place]:
                if now >= PRIMING:
                    degree = gather(i, now, links, work, exchange)
                    if not weigh(i, counts.cursor[i], degree, ensemble, kinds, outcomes, work, diverged):
                        return LARGE_VALUES, now - first, i
                    counts.learned[i] += 1
                counts.cursor[i] += 1
        for i in range(nodes):  # after all have received the logarithms before
            if awake[i, place]:
                fill_logs(i, ensemble)
                send(i, now, links, ensemble.logs, exchange, realized.active, place)
            else:
                send_nothing(i, links, mail, now)
        for e in range(realized.deliveries.shape[0]):
            mail.deliveries[now % slots, e] = realized.deliveries[e, place]
    return DONE, count, 0


@force_inline
def weigh(
    i: int,
    t: int,  # the place of its samples
    degree: int,  # the number of neighbours with a message
    ensemble: Ensemble,
    kinds: Kinds,
    outcomes: Outcomes,
    work: MixtureWork,
    diverged: float,
) -> bool:
    """Update node i's mixture weights by its neighbours' and by its samples of a round; False where its mixture is too
    large."""
    predicted, targets, samples, mixtures, by_nodes = outcomes
    (members, rows, columns, room, outputs), size = predicted.shape, samples[t, i]
    width, most, place = targets.shape[3], ensemble.states.shape[1], i * columns + t if by_nodes else t * columns + i
    functions, numbers, mixture_weights = ensemble.functions, ensemble.numbers, work.mixture_weights
    values, losses = cube(work.values, 0, members, size, outputs), line(work.losses, 0, size)
    mixture, gradients = table(work.mixture, 0, size, outputs), table(work.gradients, 0, size, outputs)
    kind, state = kinds.of[i], line(ensemble.states, i * most, ensemble.lengths[i])
    loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
    wanted = table(targets, place * room * width, size, width)
    receive_at(functions[RECEIVE])(numbers, state, table(work.received, 0, degree, members))
    if not size:
        return True
    mixture_weights_at(functions[MIXTURE_WEIGHTS])(numbers, state, mixture_weights)
    values_of = loss_values_at(kinds.functions[kind, LOSS_VALUES])
    for k in range(members):
        own = table(predicted, (k * rows * columns + place) * room * outputs, size, outputs)
        copy_matrix(own, table(values, k * size * outputs, size, outputs))
        values_of(loss_numbers, own, wanted, losses)
        work.lost[k] = total(losses)
        for n in range(size):
            for c in range(outputs):
                part = mixture_weights[k] * own[n, c]
                mixture[n, c] = mixture[n, c] + part if k else part
    largest = ensemble.largest_target[i]
    for n in range(size):
        for c in range(width):
            largest = max(largest, abs(wanted[n, c]))
    ensemble.largest_target[i] = largest
    for n in range(size):
        for c in range(outputs):
            if not abs(mixture[n, c]) <= diverged * (1.0 + largest):
                return False
    if len(mixtures):
        copy_matrix(mixture, table(mixtures, place * room * outputs, size, outputs))
    values_of(loss_numbers, mixture, wanted, losses)
    ensemble.loss[i] += total(losses)
    ensemble.samples[i] += size
    if ensemble.samples[i] <= ensemble.distinct[i]:
        loss_derivatives_at(kinds.functions[kind, LOSS_DERIVATIVES])(loss_numbers, mixture, wanted, gradients)
        learn_at(functions[LEARN])(
            numbers,
            state,
            values,
            work.lost,
            mixture,
            gradients,
            kinds.curvature[kind],
            ensemble.regression[i],
        )
    return True


@force_inline
def fill_logs(i: int, ensemble: Ensemble) -> None:
    """Fill in the logarithms that node i sends from now on."""
    members, most = ensemble.logs.shape[1], ensemble.states.shape[1]
    state = line(ensemble.states, i * most, ensemble.lengths[i])
    send_at(ensemble.functions[SEND])(ensemble.numbers, state, line(ensemble.logs, i * members, members))


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
