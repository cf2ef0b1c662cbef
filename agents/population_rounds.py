"""The round of :class:`~kernelswarm.agents.agent.Agent`, for all agents of a block, in compiled code over arrays.

Nothing is computed otherwise than there: the functions that the parts hand over compute with the same numbers in the
same order, so that both ways give the same bits. The round knows no part; it calls functions by their addresses.

Arrays of V nodes come first by node, arrays of E directed edges first by edge: those of node i are
``links.start[i] : links.start[i + 1]``, its neighbours in sorted order. Nodes of other blocks that are heard from
follow as V, V + 1, ...; answers to them as edges E, E + 1, ...
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled import (
    NOTHING,
    ROOM,
    WANTS,
    evaluate_at,
    gradient_at,
    loss_derivatives_at,
    loss_values_at,
    step_at,
)
from kernelswarm.agents.copying import copy_matrix
from kernelswarm.agents.tables import table
from kernelswarm.protocols.compiled import advance_at, couple_at, couple_back_at
from kernelswarm.protocols.coupling import mean_square_gaps_in, total
from kernelswarm.protocols.first_class import NONE

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DONE, PAUSED, LARGE_VALUES, UNSTABLE = range(4)
"""Why rounds end; paused, some node wants room, its factor looked at, or steps that are not compiled."""

EVALUATE, GRADIENT, STEP, LOSS_VALUES, LOSS_DERIVATIVES = range(5)
"""The functions of a learner, by their addresses."""

COUPLE, COUPLE_BACK, ADVANCE = range(3)
"""The functions of a protocol."""


class States(NamedTuple):
    """The nodes' states, as their learners lay them out."""

    storage: Array  # (V, length)
    counts: Integers  # (V, the most that any has)


class Kinds(NamedTuple):
    """The different learners."""

    of: Integers  # (V,) the kind of each node
    functions: Integers  # (K, 5) addresses
    tools: Integers  # (K, most) addresses that those call
    numbers: Array  # (K, most)
    number_counts: Integers  # (K,)
    loss_numbers: Array  # (K, most)
    loss_number_counts: Integers  # (K,)
    quadratic_curvature: Array  # (K,) l'' where it is exact, else 0
    curvature: Array  # (K,) the bound on l''
    gain: Array  # (K,) sup kappa(x, x); 0 where unbounded


class Links(NamedTuple):
    """The directed edges."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the neighbour
    reverse: Integers  # (E,) where the answer to the neighbour goes
    state: Array  # (k E,) the protocol's matrices (k, deg), node by node
    sent: Array  # (E + outside,) dual variables as they were sent, by the edge that they belong to


class Messages(NamedTuple):
    """What is in flight: each node's values at its own points, and the answers to its neighbours."""

    values: Array  # (V + outside, b, C)
    answers: Array  # (E + outside, b, C)
    rows: Array  # (N, R) of all points that the nodes step on next, node by node: its own, then its neighbours'


class Sums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    compression_error: Array  # (V,)
    largest_target: Array  # (V,) of the whole run
    gaps: Array  # (E,)
    violation: Array  # (E,) of the whole run


class Coupling(NamedTuple):
    """The protocol."""

    functions: Integers  # (3,) addresses
    tools: Integers  # addresses that those call
    numbers: Array
    rows: int  # k, of the matrices that hold the links' state
    duals: int  # the row of the dual variables, -1 where there are none
    tolerances: int  # that of the tolerances
    symmetric: bool
    implicit: bool
    sends_duals: bool
    compares_losses: bool


@numba.njit(cache=True)
def live(
    states: States,
    kinds: Kinds,
    links: Links,
    messages: Messages,
    sums: Sums,
    coupling: Coupling,
    scratch: Array,  # what the steps work with
    points: Array,  # (V + outside, rounds + 2, b, p) of the samples learned from in each round
    targets: Array,  # (V, rounds + 2, b, q)
    step_sizes: Array,  # (V, rounds)
    first: int,  # among these rounds
    count: int,
    lived: int,  # rounds of the whole run before
    diverged: float,
) -> tuple[int, int, int, float]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    nodes = len(kinds.of)
    size, inputs = points.shape[2], points.shape[3]
    outputs, columns = messages.values.shape[2], messages.rows.shape[1]
    symmetric = coupling.symmetric
    most, widest = size, 0
    for i in range(nodes):
        most = max(most, points_taken(links, i, size, symmetric))
        widest = max(widest, links.start[i + 1] - links.start[i])
    joined_points = np.empty((most, inputs))
    joined = np.empty((most, outputs))
    theirs_unused = np.empty((size, columns))
    pulling = np.empty((size, outputs))
    rates, stiffness, losses = np.empty(most), np.empty(most), np.empty(size)
    gaps, excess = np.empty(widest), np.empty(widest if coupling.compares_losses else 0)
    for t in range(first, first + count):
        for i in range(nodes):
            counts = states.counts[i]
            if counts[WANTS] != NOTHING or counts[ROOM] < points_taken(links, i, size, symmetric):
                return PAUSED, t - first, 0, 0.0
        for i in range(nodes):
            begin, end = links.start[i], links.start[i + 1]
            degree = end - begin
            kind = kinds.of[i]
            functions, tools = kinds.functions[kind], kinds.tools[kind]
            numbers = kinds.numbers[kind, : kinds.number_counts[kind]]
            loss_numbers = kinds.loss_numbers[kind, : kinds.loss_number_counts[kind]]
            state, counts = states.storage[i], states.counts[i]
            own = messages.values[i]
            wanted = targets[i, t]
            # The checks of Agent._update, in its order.
            largest = sums.largest_target[i]
            for target in wanted.flat:
                largest = max(largest, abs(target))
            sums.largest_target[i] = largest
            for value in own.flat:
                if not abs(value) <= diverged * (1.0 + largest):
                    return LARGE_VALUES, t - first, i, 0.0
            values_of = loss_values_at(functions[LOSS_VALUES])
            values_of(loss_numbers, own, wanted, losses)
            loss = total(losses)
            gradient = joined[:size]
            if functions[GRADIENT] == NONE:
                loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, own, wanted, gradient)
            else:
                gradient_at(functions[GRADIENT])(tools, numbers, state, counts, points[i, t], own, wanted, gradient)
            eta = step_sizes[i, t]
            rate = eta / size
            curvature = 0.0
            edges = table(links.state, coupling.rows * begin, coupling.rows, degree)
            answers = messages.answers[begin:end]
            if degree:
                curvature = couple_at(coupling.functions[COUPLE])(coupling.numbers, edges, own, answers, pulling)
                for k in range(size):
                    for c in range(outputs):
                        gradient[k, c] += pulling[k, c]
                explicit = kinds.quadratic_curvature[kind] + curvature
                if not coupling.implicit and rate * kinds.gain[kind] * explicit >= 2.0:
                    return UNSTABLE, t - first, i, explicit
            sums.loss[i] += loss
            taken = points_taken(links, i, size, symmetric)
            for k in range(taken):
                rates[k] = rate
            for k in range(size):
                stiffness[k] = kinds.curvature[kind] + curvature
            stepped = points[i, t]
            if taken > size:
                copy_matrix(stepped, joined_points)
                for e in range(begin, end):
                    j, back = links.other[e], links.reverse[e]
                    place = size * (1 + e - begin)
                    strength = couple_back_at(coupling.functions[COUPLE_BACK])(
                        coupling.numbers,
                        edges,
                        e - begin,
                        links.sent[back],
                        messages.answers[back],
                        messages.values[j],
                        joined[place : place + size],
                    )
                    if not coupling.implicit and rate * kinds.gain[kind] * strength >= 2.0:
                        return UNSTABLE, t - first, i, strength
                    copy_matrix(points[j, t], joined_points[place:])
                    for k in range(place, place + size):
                        stiffness[k] = strength
                stepped = joined_points[:taken]
            rows = messages.rows[first_row(links, i, size, symmetric) :][:taken]
            sums.compression_error[i] += step_at(functions[STEP])(
                tools,
                numbers,
                state,
                counts,
                scratch,
                stepped,
                rows,
                joined[:taken],
                rates[:taken],
                stiffness[:taken],
                coupling.implicit,
                eta,
            )
            if not degree:
                continue
            mean_square_gaps_in(own, answers, gaps)
            if coupling.compares_losses:
                for e in range(degree):
                    values_of(loss_numbers, answers[e], wanted, losses)
                    excess[e] = (total(losses) - loss) / size
            if coupling.functions[ADVANCE] != NONE:
                advance_at(coupling.functions[ADVANCE])(
                    coupling.tools,
                    coupling.numbers,
                    edges,
                    gaps[:degree],
                    excess[:degree],
                    eta,
                    kinds.curvature[kind],
                    size,
                    lived + t - first + 1,
                )
            for e in range(degree):
                sums.gaps[begin + e] += gaps[e]
                if coupling.duals >= 0:
                    sums.violation[begin + e] += gaps[e] - edges[coupling.tolerances, e]
        for i in range(nodes):
            kind = kinds.of[i]
            evaluate = evaluate_at(kinds.functions[kind, EVALUATE])
            tools = kinds.tools[kind]
            numbers = kinds.numbers[kind, : kinds.number_counts[kind]]
            state, counts = states.storage[i], states.counts[i]
            place = first_row(links, i, size, symmetric)
            rows = messages.rows[place : place + size]
            evaluate(tools, numbers, state, counts, points[i, t + 1], rows, messages.values[i])
            for e in range(links.start[i], links.start[i + 1]):
                rows = theirs_unused
                if symmetric:
                    place += size
                    rows = messages.rows[place : place + size]
                theirs = points[links.other[e], t + 1]
                evaluate(tools, numbers, state, counts, theirs, rows, messages.answers[links.reverse[e]])
        if coupling.sends_duals:
            send_duals(links, coupling)
    return DONE, count, 0, 0.0


@numba.njit(cache=True)
def send_duals(links: Links, coupling: Coupling) -> None:
    """Copy the dual variables to where neighbours hear them."""
    for i in range(len(links.start) - 1):
        begin, degree = links.start[i], links.start[i + 1] - links.start[i]
        edges = table(links.state, coupling.rows * begin, coupling.rows, degree)
        for e in range(degree):
            links.sent[begin + e] = edges[coupling.duals, e]


@numba.njit(cache=True)
def points_taken(links: Links, i: int, size: int, symmetric: bool) -> int:
    """Return the number of points in a step of node i: its own, and its neighbours' in the symmetric form."""
    return size * (1 + links.start[i + 1] - links.start[i]) if symmetric else size


@numba.njit(cache=True)
def first_row(links: Links, i: int, size: int, symmetric: bool) -> int:
    """Return where the rows of the points that node i steps on begin."""
    return size * (i + links.start[i]) if symmetric else size * i
