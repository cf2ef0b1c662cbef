"""The part of the round that nodes with copies have beside their copies', in compiled code over arrays.

Nothing is computed otherwise than in :class:`~kernelswarm.agents.node.stacked.StackedAgent`. What copies learn does not
depend on what they count, so that this follows when all of them have lived through some rounds. Nodes and edges are
counted as in :mod:`~kernelswarm.agents.compiled.rounds`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.signatures import loss_derivatives_at, loss_values_at
from kernelswarm.agents.arithmetic.tables import line, table
from kernelswarm.agents.compiled.arrays import Kinds, Links
from kernelswarm.agents.compiled.rounds import LOSS_DERIVATIVES, LOSS_VALUES
from kernelswarm.protocols.compiling import released
from kernelswarm.protocols.copies.compiled import hear_at, learn_at, say_at, shares_at
from kernelswarm.protocols.coupling import total

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LEARN, HEAR, SAY, SHARES = range(4)
"""The functions of a protocol with copies, by their addresses."""


class Copies(NamedTuple):
    """What nodes know of their K copies."""

    functions: Integers  # (4,) addresses
    numbers: Array  # the protocol's
    states: Array  # (V, most)
    lengths: Integers  # (V,)
    logs: Array  # (V + outside, K) what each node said last
    regression: Integers  # (V,) whether numbers are learned, and not classes
    loss: Array  # (V,) sums since the last report
    largest_target: Array  # (V,) of the whole run
    samples: Array  # (V,) of the whole run
    distinct: Array  # (V,) so many of the samples differ
    turn: Integers  # (2,) the rounds completed in a call, and the node that is at its turn: for what Python code raises


@released(makes_arrays=True)
def weigh(
    copies: Copies,
    kinds: Kinds,
    links: Links,
    said: Array,  # (K, V, rounds, b, C)
    targets: Array,  # (V, rounds, b, q) of the samples learned from in each round
    mixture: Array,  # (b, C) where it is left when it is too large
    first: int,  # among these rounds
    count: int,
    diverged: float,
) -> tuple[int, int]:
    """Weigh copies through ``count`` rounds; returns the rounds completed, and the node whose mixture is too large."""
    members, nodes, rounds, size, outputs = said.shape
    answer, width, most = size * outputs, targets.shape[3], copies.states.shape[1]
    functions, numbers, logs = copies.functions, copies.numbers, copies.logs
    values, gradients, losses = np.empty((members, size, outputs)), np.empty((size, outputs)), np.empty(size)
    shares, lost = np.empty(members), np.empty(members)
    widest = 0
    for i in range(nodes):
        widest = max(widest, links.start[i + 1] - links.start[i])
    heard = np.empty((widest, members))
    for t in range(first, first + count):
        copies.turn[0] = t - first
        for i in range(nodes):
            copies.turn[1] = i
            begin, degree = links.start[i], links.start[i + 1] - links.start[i]
            kind, state = kinds.of[i], line(copies.states, i * most, copies.lengths[i])
            loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
            wanted = table(targets, (i * rounds + t) * size * width, size, width)
            for e in range(degree):
                for k in range(members):
                    heard[e, k] = logs[links.other[begin + e], k]
            hear_at(functions[HEAR])(numbers, state, table(heard, 0, degree, members))
            shares_at(functions[SHARES])(numbers, state, shares)
            values_of = loss_values_at(kinds.functions[kind, LOSS_VALUES])
            for k in range(members):
                own = table(said, ((k * nodes + i) * rounds + t) * answer, size, outputs)
                copy_matrix(own, table(values, k * answer, size, outputs))
                values_of(loss_numbers, own, wanted, losses)
                lost[k] = total(losses)
                for n in range(size):
                    for c in range(outputs):
                        part = shares[k] * own[n, c]
                        mixture[n, c] = mixture[n, c] + part if k else part
            largest = copies.largest_target[i]
            for n in range(size):
                for c in range(width):
                    largest = max(largest, abs(wanted[n, c]))
            copies.largest_target[i] = largest
            for n in range(size):
                for c in range(outputs):
                    if not abs(mixture[n, c]) <= diverged * (1.0 + largest):
                        return t - first, i
            values_of(loss_numbers, mixture, wanted, losses)
            copies.loss[i] += total(losses)
            copies.samples[i] += size
            if copies.samples[i] > copies.distinct[i]:
                continue
            loss_derivatives_at(kinds.functions[kind, LOSS_DERIVATIVES])(loss_numbers, mixture, wanted, gradients)
            learn_at(functions[LEARN])(
                numbers, state, values, lost, mixture, gradients, kinds.curvature[kind], copies.regression[i]
            )
        for i in range(nodes):  # when all have heard what was said before
            state = line(copies.states, i * most, copies.lengths[i])
            say_at(functions[SAY])(numbers, state, line(logs, i * members, members))
    return count, -1
