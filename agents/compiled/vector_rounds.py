"""The round of :class:`~kernelswarm.agents.node.vectors.VectorNode`, for all nodes of a block, in compiled code.

As in :mod:`~kernelswarm.agents.compiled.rounds` nothing is computed otherwise than there. The neighbours of node i are
``other[start[i] : start[i + 1]]``; nodes of other blocks that are heard from follow as V, V + 1, ...
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.signatures import (
    evaluate_at,
    gradient_at,
    loss_derivatives_at,
    loss_values_at,
    step_at,
)
from kernelswarm.agents.arithmetic.tables import line, table
from kernelswarm.agents.compiled.rounds import (
    DONE,
    EVALUATE,
    GRADIENT,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    STEP,
    Kinds,
    States,
)
from kernelswarm.protocols.compiling import absorbed, jitted
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.first_class import NONE
from kernelswarm.protocols.states.compiled import phase_at

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ADAPT_START, ADAPT_FINISH, HEAR_START, HEAR_FINISH = range(4)
"""The functions of a protocol, by their addresses."""


class Phases(NamedTuple):
    """The protocol."""

    functions: Integers  # (4,) addresses
    numbers: Array
    sent: int  # where in a node's vector that part begins which it sends
    implicit: bool


class Vectors(NamedTuple):
    """What nodes know, what they have sent, and what they compute with."""

    known: Array  # (V, most) as the protocol lays it out: the weights (L, C) first
    said: Array  # (V + outside, n)
    rows: Array  # (V b, R) of the points that the nodes learn from next
    values: Array  # (V, b, C) there
    scratch: Array  # what the steps work with


class VectorSums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    largest_target: Array  # (V,) of the whole run


class Samples(NamedTuple):
    """Samples that were drawn ahead, and the sizes of the steps on them."""

    points: Array  # (V, rounds + 2, b, p)
    targets: Array  # (V, rounds + 2, b, q)
    step_sizes: Array  # (V, rounds + 1, k)


class Work(NamedTuple):
    """What a step works with."""

    rows: Array  # (b, R)
    values: Array  # (b, C)
    gradient: Array  # (b, C)
    rates: Array  # (b,)
    stiffness: Array  # (b,)


@jitted
def live_by_vectors(
    states: States,
    kinds: Kinds,
    start: Integers,  # (V + 1,)
    other: Integers,  # (E,)
    vectors: Vectors,
    sums: VectorSums,
    phases: Phases,
    samples: Samples,
    first: int,  # among these rounds
    count: int,
    diverged: float,
) -> tuple[int, int, int]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, and the node there."""
    # Each taken out of its tuple once: that counts references.
    storage, all_counts = states.storage, states.counts
    known, said, all_rows, all_values = vectors.known, vectors.said, vectors.rows, vectors.values
    points, targets, step_sizes = samples.points, samples.targets, samples.step_sizes
    kind_of, functions_of, rule, rule_numbers = kinds.of, kinds.functions, phases.functions, phases.numbers
    tools_of, numbers_of, number_counts = kinds.tools, kinds.numbers, kinds.number_counts
    loss_numbers_of, loss_number_counts = kinds.loss_numbers, kinds.loss_number_counts
    nodes, length, integers, width = len(kind_of), storage.shape[1], all_counts.shape[1], said.shape[1]
    rounds, size, inputs, outputs = points.shape[1], points.shape[2], points.shape[3], all_values.shape[2]
    columns, wide, most, tool_count = all_rows.shape[1], targets.shape[3], known.shape[1], tools_of.shape[1]
    widest = 0
    for i in range(nodes):
        widest = max(widest, start[i + 1] - start[i])
    all_heard, counted, nothing = np.empty(widest * width), np.ones(widest), np.zeros((0, width))
    moved, losses, sizes = np.empty(length), np.empty(size), np.empty(step_sizes.shape[2])
    work = Work(
        np.empty((size, columns)), np.empty((size, outputs)), np.empty((size, outputs)), np.empty(size), np.empty(size)
    )
    for t in range(first, first + count):
        for i in range(nodes):
            kind, degree = kind_of[i], start[i + 1] - start[i]
            tools = line(tools_of, kind * tool_count, tool_count)
            numbers = line(numbers_of, kind * numbers_of.shape[1], number_counts[kind])
            loss_numbers = line(loss_numbers_of, kind * loss_numbers_of.shape[1], loss_number_counts[kind])
            own = table(all_values, i * size * outputs, size, outputs)
            wanted = table(targets, (i * rounds + t) * size * wide, size, wide)
            # The checks of Node.admit, in its order.
            largest = sums.largest_target[i]
            for k in range(size):
                for c in range(wide):
                    largest = max(largest, abs(wanted[k, c]))
            sums.largest_target[i] = largest
            for k in range(size):
                for c in range(outputs):
                    if not abs(own[k, c]) <= diverged * (1.0 + largest):
                        return LARGE_VALUES, t - first, i
            loss_values_at(functions_of[kind, LOSS_VALUES])(loss_numbers, own, wanted, losses)
            sums.loss[i] += total(losses)
            for e in range(degree):
                j = other[start[i] + e]
                for k in range(width):
                    all_heard[e * width + k] = said[j, k]
            heard, counts = table(all_heard, 0, degree, width), line(counted, 0, degree)
            for n in range(len(sizes)):
                sizes[n] = step_sizes[i, t, n]
            state = line(known, i * most, most)
            if rule[HEAR_START] != NONE:
                phase_at(rule[HEAR_START])(rule_numbers, state, heard, counts, sizes[0], moved)
                descend(
                    line(functions_of, kind * functions_of.shape[1], functions_of.shape[1]),
                    tools,
                    numbers,
                    loss_numbers,
                    line(all_counts, i * integers, integers),
                    vectors.scratch,
                    table(points, (i * rounds + t) * size * inputs, size, inputs),
                    table(all_rows, i * size * columns, size, columns),
                    wanted,
                    sizes,
                    kinds.curvature[kind],
                    phases.implicit,
                    moved,
                    work,
                )
            phase_at(rule[HEAR_FINISH])(rule_numbers, state, heard, counts, sizes[0], moved)
            for k in range(length):
                storage[i, k] = state[k]
        for i in range(nodes):
            kind = kind_of[i]
            tools = line(tools_of, kind * tool_count, tool_count)
            numbers = line(numbers_of, kind * numbers_of.shape[1], number_counts[kind])
            loss_numbers = line(loss_numbers_of, kind * loss_numbers_of.shape[1], loss_number_counts[kind])
            node_counts, state = line(all_counts, i * integers, integers), line(known, i * most, most)
            fresh = table(points, (i * rounds + t + 1) * size * inputs, size, inputs)
            rows = table(all_rows, i * size * columns, size, columns)
            own = table(all_values, i * size * outputs, size, outputs)
            evaluate_at(functions_of[kind, EVALUATE])(
                tools, numbers, line(storage, i * length, length), node_counts, fresh, rows, own
            )
            if rule[ADAPT_FINISH] != NONE:
                for n in range(len(sizes)):
                    sizes[n] = step_sizes[i, t + 1, n]
                if rule[ADAPT_START] != NONE:
                    phase_at(rule[ADAPT_START])(rule_numbers, state, nothing, counted[:0], sizes[0], moved)
                    descend(
                        line(functions_of, kind * functions_of.shape[1], functions_of.shape[1]),
                        tools,
                        numbers,
                        loss_numbers,
                        node_counts,
                        vectors.scratch,
                        fresh,
                        rows,
                        table(targets, (i * rounds + t + 1) * size * wide, size, wide),
                        sizes,
                        kinds.curvature[kind],
                        phases.implicit,
                        moved,
                        work,
                    )
                phase_at(rule[ADAPT_FINISH])(rule_numbers, state, nothing, counted[:0], sizes[0], moved)
            for k in range(width):
                said[i, k] = state[phases.sent + k]
    return DONE, count, 0


@absorbed
def descend(
    functions: Integers,
    tools: Integers,
    numbers: Array,
    loss_numbers: Array,
    counts: Integers,
    scratch: Array,
    points: Array,
    rows: Array,
    targets: Array,
    sizes: Array,
    curvature: float,
    implicit: bool,
    weights: Array,  # (L C,), changed
    work: Work,
) -> None:
    """Take the learner's step from these weights."""
    values, gradient, rates, stiffness = work.values, work.gradient, work.rates, work.stiffness
    size, outputs = values.shape
    features = len(weights) // outputs
    komp.combine(rows, table(weights, 0, features, outputs), features, values)
    if functions[GRADIENT] == NONE:
        loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, values, targets, gradient)
    else:
        gradient_at(functions[GRADIENT])(
            tools, numbers, weights, counts, scratch, points, rows, values, targets, sizes, gradient
        )
    for k in range(size):
        rates[k] = sizes[0] / size
        stiffness[k] = curvature
    copy_matrix(rows, work.rows)
    step_at(functions[STEP])(
        tools,
        numbers,
        weights,
        counts,
        scratch,
        points,
        work.rows,
        gradient,
        rates,
        stiffness,
        implicit,
        sizes,
        values,
        targets,
    )
