"""The part of the round that nodes with copies have beside their copies', in compiled code over arrays.

In a round a node receives its neighbours' mixture weights, and updates its own by the copies' predictions of its
samples. What copies learn does not depend on their weights, so that this follows when all of them have run
some rounds. Nodes and edges are counted as in :mod:`~kernelswarm.agents.compiled.arrays`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import cube, line, table
from kernelswarm.agents.compiled.arrays import LOSS_DERIVATIVES, LOSS_VALUES, Kinds, Links
from kernelswarm.protocols.compiling import force_inline, nogil
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.ensemble.compiled import learn_at, mixture_weights_at, receive_at, send_at

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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


@nogil(makes_arrays=False)
def update_mixture_weights(
    ensemble: Ensemble,
    kinds: Kinds,
    links: Links,
    predicted: Array,  # (K, V, rounds, b, C)
    targets: Array,  # (V, rounds, b, q) of the samples learned from in each round
    samples: Integers,  # (rounds, V) the number of samples
    mixtures: Array,  # (V, rounds, b, C) filled with the mixtures' values at the samples; or (0, 0, 0, 0)
    work: MixtureWork,
    first: int,  # the first round, by its place in ``targets``
    count: int,
    diverged: float,
) -> tuple[int, int]:
    """Update mixture weights for ``count`` rounds; returns the rounds completed, and the node with a large mixture."""
    nodes, logs = predicted.shape[1], ensemble.logs
    members = logs.shape[1]
    for t in range(first, first + count):
        ensemble.turn[0] = t - first
        for i in range(nodes):
            ensemble.turn[1] = i
            begin, degree = links.start[i], links.start[i + 1] - links.start[i]
            for e in range(degree):
                for k in range(members):
                    work.received[e, k] = logs[links.other[begin + e], k]
            if not weigh(i, t, degree, samples[t, i], ensemble, kinds, predicted, targets, work, diverged):
                return t - first, i
            keep_mixture(i, t, samples[t, i], mixtures, work)
        for i in range(nodes):  # after all have received the logarithms before
            fill_logs(i, ensemble)
    return count, -1


@force_inline
def weigh(
    i: int,
    t: int,  # the round, by its place in ``predicted``
    degree: int,  # the number of neighbours with a message
    size: int,  # the number of its samples
    ensemble: Ensemble,
    kinds: Kinds,
    predicted: Array,
    targets: Array,
    work: MixtureWork,
    diverged: float,
) -> bool:
    """Update node i's mixture weights by its neighbours' and by its samples of a round; False where its mixture is too
    large."""
    members, nodes, rounds, room, outputs = predicted.shape
    width, most = targets.shape[3], ensemble.states.shape[1]
    functions, numbers, mixture_weights = ensemble.functions, ensemble.numbers, work.mixture_weights
    values, losses = cube(work.values, 0, members, size, outputs), line(work.losses, 0, size)
    mixture, gradients = table(work.mixture, 0, size, outputs), table(work.gradients, 0, size, outputs)
    kind, state = kinds.of[i], line(ensemble.states, i * most, ensemble.lengths[i])
    loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
    wanted = table(targets, (i * rounds + t) * room * width, size, width)
    receive_at(functions[RECEIVE])(numbers, state, table(work.received, 0, degree, members))
    if not size:
        return True
    mixture_weights_at(functions[MIXTURE_WEIGHTS])(numbers, state, mixture_weights)
    values_of = loss_values_at(kinds.functions[kind, LOSS_VALUES])
    for k in range(members):
        own = table(predicted, ((k * nodes + i) * rounds + t) * room * outputs, size, outputs)
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
def keep_mixture(i: int, t: int, size: int, mixtures: Array, work: MixtureWork) -> None:
    """Keep the values of node i's mixture at its samples of a round, where bands need them."""
    _, rounds, room, outputs = mixtures.shape
    if rounds:
        kept = table(mixtures, (i * rounds + t) * room * outputs, size, outputs)
        copy_matrix(table(work.mixture, 0, size, outputs), kept)


@force_inline
def fill_logs(i: int, ensemble: Ensemble) -> None:
    """Fill in the logarithms that node i sends from now on."""
    members, most = ensemble.logs.shape[1], ensemble.states.shape[1]
    state = line(ensemble.states, i * most, ensemble.lengths[i])
    send_at(ensemble.functions[SEND])(ensemble.numbers, state, line(ensemble.logs, i * members, members))
