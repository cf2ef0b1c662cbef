"""Compiled updates of the mixture weights of nodes with copies.

In a round a node receives its neighbours' mixture weights, and updates its own from the copies' predictions at its
samples. The copies' learning does not depend on the weights, so the weights are updated after all copies have run some
rounds. Nodes and edges are indexed as in :mod:`~kernelswarm.agents.nodes.arrays`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import cube, line, line_of, rows_of, table_of
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    DONE,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    RETURNED,
    Kinds,
    Links,
    Realized,
    VectorExchange,
)
from kernelswarm.agents.nodes.filling import zeros
from kernelswarm.agents.nodes.learning import admit
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.agents.nodes.receiving import newest_arrived, receive
from kernelswarm.agents.nodes.sending import deliver, returned, send_nothing, send_vector
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import force_inline, nogil
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.ensemble.stacking import learn_at, mixture_weights_at, receive_at, send_at

LEARN, RECEIVE, SEND, MIXTURE_WEIGHTS = range(4)
"""The functions of a protocol with copies, as indices of their addresses."""


class Ensemble(NamedTuple):
    """The mixture weights of the nodes' K copies."""

    functions: Integers  # (4,) addresses
    numbers: Array  # the protocol's numbers
    states: Array  # (V, most)
    lengths: Integers  # (V,)
    logs: Array  # (V + outside, K) the logarithms last sent by each node
    received: Array  # (E, K) the logarithms last received from each neighbour
    regression: Integers  # (V,) whether the task is regression, and not classification
    loss: Array  # (V,) sums since the last report
    largest_target: Array  # (V,) of the whole run
    samples: Array  # (V,) of the whole run
    distinct: Array  # (V,) the number of different samples
    turn: Integers  # (2,) the rounds completed in a call, and the present node, for errors of Python code


class MixtureWork(NamedTuple):
    """The working memory of updates of mixture weights; ``deg`` is the largest degree."""

    received: Array  # (deg, K) the neighbours' logarithms
    values: Array  # (K, b, C) the copies' values at the node's samples
    mixture: Array  # (b, C) the values of their mixture; kept if they are too large
    gradients: Array  # (b, C)
    losses: Array  # (b,)
    lost: Array  # (K,) the losses of the copies
    mixture_weights: Array  # (K,)


def mixture_work(links: Links, members: int, size: int, outputs: int) -> MixtureWork:
    """Return the working memory for the mixture weights of ``members`` copies at these links."""
    known = {"d": int(np.diff(links.start).max(initial=0)), "K": members, "b": size, "C": outputs}
    names = "received dK, values KbC, mixture bC, gradients bC, losses b, lost K, mixture_weights K"
    return MixtureWork(**zeros(names, known))


class Outcomes(NamedTuple):
    """The copies' values at samples, ordered by node or by round: ``(A, B)`` is (V, T) or (T, V)."""

    predicted: Array  # (K, A, B, b, C)
    targets: Array  # (A, B, b, q)
    samples: Integers  # (T, V) the number of samples
    mixtures: Array  # (A, B, b, C) filled with the mixtures' values at the samples, unless it is (0, 0, 0, 0)
    by_nodes: bool


@nogil(makes_arrays=False)
def update_mixture_weights(
    ensemble: Ensemble,
    kinds: Kinds,
    links: Links,
    outcomes: Outcomes,
    work: MixtureWork,
    exchange: VectorExchange,
    realized: Realized,
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int]:
    """Update mixture weights for ``count`` rounds; returns the reason of the end, the rounds completed and the node."""
    mail, counts, terms, awake = exchange.mail, exchange.counts, exchange.terms, realized.awake
    nodes, members = len(ensemble.lengths), ensemble.logs.shape[1]
    for now in range(first, first + count):
        place = now - PRIMING - realized.first
        ensemble.turn[0] = now - first
        for i in range(nodes):
            if returned(i, now, place, awake, exchange):
                return RETURNED, now - first, i
        receive(links, mail, counts, False, terms, awake, place, now)
        for i in range(nodes):
            ensemble.turn[1] = i
            if awake[i, place]:
                if now >= PRIMING:
                    degree = gather(i, now, links, ensemble, work, exchange)
                    if not weigh(i, counts.cursor[i], degree, ensemble, kinds, outcomes, work, diverged):
                        return LARGE_VALUES, now - first, i
                    counts.learned[i] += 1
                counts.cursor[i] += 1
        for i in range(nodes):  # after all nodes have received the previous logarithms
            if awake[i, place]:
                logs, state = line_of(ensemble.logs, i, members), line_of(ensemble.states, i, ensemble.lengths[i])
                send_at(ensemble.functions[SEND])(ensemble.numbers, state, logs)
                send_vector(i, now, place, logs, links, exchange, realized.active)
            else:
                send_nothing(i, links, mail, now)
        deliver(now, place, realized, mail)
    return DONE, count, 0


@force_inline
def weigh(
    i: int,
    t: int,  # the index of its samples
    degree: int,  # the number of neighbours with a message
    ensemble: Ensemble,
    kinds: Kinds,
    outcomes: Outcomes,
    work: MixtureWork,
    diverged: float,
) -> bool:
    """Update node i's mixture weights from its neighbours' weights and its samples of a round; False if the values of
    its mixture are too large."""
    predicted, targets, samples, mixtures, by_nodes = outcomes
    (members, rows, columns, _, outputs), size = predicted.shape, samples[t, i]
    place = i * columns + t if by_nodes else t * columns + i
    functions, numbers, mixture_weights = ensemble.functions, ensemble.numbers, work.mixture_weights
    values, losses = cube(work.values, 0, members, size, outputs), line(work.losses, 0, size)
    mixture, gradients = rows_of(work.mixture, 0, size), rows_of(work.gradients, 0, size)
    kind, state = kinds.of[i], line_of(ensemble.states, i, ensemble.lengths[i])
    loss_numbers = line_of(kinds.loss_numbers, kind, kinds.loss_number_counts[kind])
    wanted = table_of(targets, place, size)
    receive_at(functions[RECEIVE])(numbers, state, rows_of(work.received, 0, degree))
    if not size:
        return True
    mixture_weights_at(functions[MIXTURE_WEIGHTS])(numbers, state, mixture_weights)
    values_of = loss_values_at(kinds.functions[kind, LOSS_VALUES])
    for k in range(members):
        own = table_of(predicted, k * rows * columns + place, size)
        copy_matrix(own, table_of(values, k, size))
        values_of(loss_numbers, own, wanted, losses)
        work.lost[k] = total(losses)
        for n in range(size):
            for c in range(outputs):
                part = mixture_weights[k] * own[n, c]
                mixture[n, c] = mixture[n, c] + part if k else part
    if not admit(i, mixture, wanted, ensemble.largest_target, diverged):
        return False
    if len(mixtures):
        copy_matrix(mixture, table_of(mixtures, place, size))
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
def gather(i: int, now: int, links: Links, ensemble: Ensemble, work: MixtureWork, exchange: VectorExchange) -> int:
    """Find the last message of each neighbour of node i, of any age; returns the number of asked neighbours."""
    mail, received, reach, known = exchange.mail, ensemble.received, exchange.terms.reach, 0
    for e in range(links.start[i], links.start[i + 1]):
        sent = newest_arrived(mail, e, now, reach, reach)
        for k in range(received.shape[1]):
            if sent != ABSENT:
                received[e, k] = mail.points[sent % mail.points.shape[0], links.other[e], 0, k]
            if exchange.asks[e]:
                work.received[known, k] = received[e, k]
        known += exchange.asks[e]
    return known
