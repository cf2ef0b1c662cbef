"""The round of :class:`~kernelswarm.agents.node.agent.Agent`, for all agents of a block, in compiled code over arrays.

Nothing is computed otherwise than there: the functions that the parts hand over compute with the same numbers in the
same order, so that both ways give the same bits. The round knows no part; it calls functions by their addresses.

Arrays of V nodes come first by node, arrays of E directed edges first by edge: those of node i are
``links.start[i] : links.start[i + 1]``, its neighbours in sorted order. Nodes of other blocks that are heard from
follow as V, V + 1, ...; answers to them as edges E, E + 1, ...
"""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    ALWAYS,
    NOTHING,
    ORDER,
    ROOM,
    WANTS,
    evaluate_at,
    gradient_at,
    inner_at,
    loss_derivatives_at,
    loss_values_at,
    repack_at,
    step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.arithmetic.scratch import Scratch, capacity_of, fits, put_back
from kernelswarm.agents.arithmetic.views import cube, fetch, line, table
from kernelswarm.agents.compiled.arrays import Coupling, Kinds, Links, Messages, States, Sums
from kernelswarm.protocols.compiled import advance_at, constraints_at, coupling_gradient_at, neighbor_gradient_at
from kernelswarm.protocols.compiling import cached_njit, force_inline, nogil
from kernelswarm.protocols.coupling import mean_square_differences_in, total
from kernelswarm.protocols.first_class import NONE
from kernelswarm.protocols.limits import clip_pulls, gather_in, own_products, pair_row_sums_in, step_damping

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FETCHED = 512
"""Numbers of a state, and of its rows, that are fetched while the node before is at its turn: what comes after them is
fetched by itself."""

LARGE = 2**16
"""Numbers of all states together from which on this pays: fewer stay in the cache next to the processor."""

DONE, PAUSED, FULL, LARGE_VALUES, UNSTABLE = range(5)
"""Why rounds end; paused, some node wants room, its factor looked at, or steps that are not compiled; full, arrays are
too short to go on within a round."""

EVALUATE, INNER, GRADIENT, STEP, LOSS_VALUES, LOSS_DERIVATIVES, REPACK, PLACE = range(8)
"""The functions of a learner, by their addresses."""

COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR, ADVANCE, CONSTRAINT_VALUES = range(4)
"""The functions of a protocol."""


@nogil(makes_arrays=True)
def run_rounds(
    states: States,
    kinds: Kinds,
    links: Links,
    messages: Messages,
    sums: Sums,
    coupling: Coupling,
    scratch_state: Scratch,
    scratch: Array,  # what the steps work with
    points: Array,  # (V + outside, rounds + 2, b, p) of the samples learned from in each round
    targets: Array,  # (V, rounds + 2, b, q)
    step_sizes: Array,  # (V, rounds + 1, k)
    predicted: Array,  # (V, rounds, b, C) for the values at samples before they are learned from, or (0, 0, 0, 0)
    first: int,  # among these rounds
    count: int,
    completed: int,  # rounds of the whole run before
    diverged: float,
    since: int,  # the nodes that have learned in the first of these rounds
) -> tuple[int, int, int, float]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    # Each taken out of its tuple once: that counts references.
    storage, all_counts, begins, lengths, turn = (
        states.storage,
        states.counts,
        states.begins,
        states.lengths,
        states.turn,
    )
    kind_of, functions_of, tools_of, numbers_of = kinds.of, kinds.functions, kinds.tools, kinds.numbers
    number_counts, loss_numbers_of, loss_number_counts = (
        kinds.number_counts,
        kinds.loss_numbers,
        kinds.loss_number_counts,
    )
    starts, others, reverse, link_state, sent = links.start, links.other, links.reverse, links.state, links.sent
    all_values, all_answers, all_rows, row_begins = (
        messages.values,
        messages.answers,
        messages.rows,
        messages.row_begins,
    )
    all_row_sums, answer_row_sums, products = messages.row_sums, messages.answer_row_sums, messages.products
    rule, rule_tools, rule_numbers, kept = coupling.functions, coupling.tools, coupling.numbers, coupling.rows
    symmetric, implicit, compares = coupling.symmetric, coupling.implicit, coupling.compares_losses
    nodes, integers = len(kind_of), all_counts.shape[1]
    rounds, size, inputs = points.shape[1], points.shape[2], points.shape[3]
    outputs, width = all_values.shape[2], targets.shape[3]
    large = storage.size > LARGE
    sample, answer, tool_count = size * inputs, size * outputs, tools_of.shape[1]
    widest, columns, kept_rounds = 0, 0, predicted.shape[1]
    for i in range(nodes):
        widest = max(widest, starts[i + 1] - starts[i])
        columns = max(columns, (row_begins[i + 1] - row_begins[i]) // size, scratch_state.capacity)
    most = size * (1 + widest) if symmetric else size
    joined_points, joined = np.empty((most, inputs)), np.empty((most, outputs))
    unused, pulling = np.empty((size, columns)), np.empty((size, outputs))
    rates, stiffness, losses = np.empty(most), np.empty(most), np.empty(size)
    pulls, curvatures = np.empty(widest * answer), np.empty(widest * size)
    pair_row_sums, step_row_sums, sizes = np.zeros(widest * size), np.empty(most), np.empty(step_sizes.shape[2])
    constraint_values, excess_loss = np.empty(widest), np.empty(widest)
    for t in range(first, first + count):
        turn[0] = t - first
        for i in range(0 if since == 0 or t > first else nodes, nodes):
            taken = size * (1 + starts[i + 1] - starts[i]) if symmetric else size
            needs_room = all_counts[i, ROOM] < taken and functions_of[kind_of[i], REPACK] == NONE
            if all_counts[i, WANTS] != NOTHING or needs_room:
                return PAUSED, t - first, 0, 0.0
        for i in range(since if t == first else 0, nodes):
            turn[1] = i
            begin, degree = starts[i], starts[i + 1] - starts[i]
            taken = size * (1 + degree) if symmetric else size
            kind = kind_of[i]
            if large and i + 1 < nodes:
                fetch(storage, begins[i + 1], min(lengths[i + 1], FETCHED))
                fetch(all_rows, row_begins[i + 1], min(row_begins[i + 2] - row_begins[i + 1], FETCHED))
            tools = line(tools_of, kind * tool_count, tool_count)
            numbers = line(numbers_of, kind * numbers_of.shape[1], number_counts[kind])
            loss_numbers = line(loss_numbers_of, kind * loss_numbers_of.shape[1], loss_number_counts[kind])
            state = line(storage, begins[i], lengths[i])
            counts = line(all_counts, i * integers, integers)
            repack, benched, capacity = functions_of[kind, REPACK], counts[ROOM] < taken, capacity_of(counts)
            if benched and not fits(scratch_state, counts, taken, storage.shape[1]):
                return FULL, t - first, i, 0.0
            own = table(all_values, i * answer, size, outputs)
            wanted = table(targets, (i * rounds + t) * size * width, size, width)
            stepped = table(points, (i * rounds + t) * sample, size, inputs)
            gradient = table(joined, 0, size, outputs)
            for n in range(len(sizes)):
                sizes[n] = step_sizes[i, t, n]
            place = row_begins[i]
            columns = (row_begins[i + 1] - place) // taken
            if kept_rounds:
                copy_matrix(own, table(predicted, (i * kept_rounds + t) * answer, size, outputs))
            # The checks of Agent._update, in its order.
            largest = sums.largest_target[i]
            for k in range(size):
                for c in range(width):
                    largest = max(largest, abs(wanted[k, c]))
            sums.largest_target[i] = largest
            sums.samples[i] += size
            for k in range(size):
                for c in range(outputs):
                    if not abs(own[k, c]) <= diverged * (1.0 + largest):
                        return LARGE_VALUES, t - first, i, 0.0
            values_of = loss_values_at(functions_of[kind, LOSS_VALUES])
            values_of(loss_numbers, own, wanted, losses)
            loss = total(losses)
            if functions_of[kind, GRADIENT] == NONE:
                loss_derivatives_at(functions_of[kind, LOSS_DERIVATIVES])(loss_numbers, own, wanted, gradient)
            else:
                gradient_at(functions_of[kind, GRADIENT])(
                    tools,
                    numbers,
                    state,
                    counts,
                    scratch,
                    stepped,
                    table(all_rows, place, size, columns),
                    own,
                    wanted,
                    sizes,
                    gradient,
                )
            eta = sizes[0]
            rate = eta / size
            curvature, strength, taken_strength, part = kinds.curvature[kind], 0.0, 0.0, 1.0
            edges = table(link_state, kept * begin, kept, degree)
            answers = cube(all_answers, begin * answer, degree, size, outputs)
            if degree:
                pull, stiff = cube(pulls, 0, degree, size, outputs), table(curvatures, 0, degree, size)
                coupling_gradient_at(rule[COUPLING_GRADIENT])(rule_numbers, edges, own, answers, pull, stiff)
                row_sums = table(pair_row_sums, 0, degree, size)
                if implicit:
                    for e in range(degree):
                        for k in range(size):
                            at_other_end = answer_row_sums[begin + e, k] if symmetric else all_row_sums[i, k]
                            row_sums[e, k] = all_row_sums[i, k] + at_other_end
                strength, taken_strength = gather_in(pull, stiff, row_sums, size, pulling)
                if implicit:
                    part = step_damping(
                        rate, products[i, 0], products[i, 1], curvature, strength, counts[ORDER], sums.samples[i]
                    )
                    if kinds.linear[kind] == 0:
                        curvature += taken_strength
                elif rate * kinds.gain[kind] * (kinds.quadratic_curvature[kind] + strength) >= 2.0:
                    return UNSTABLE, t - first, i, kinds.quadratic_curvature[kind] + strength
                for k in range(size):
                    for c in range(outputs):
                        gradient[k, c] += pulling[k, c] / part
            sums.loss[i] += loss
            sizes[0] = eta * part
            for k in range(taken):
                rates[k] = sizes[0] / size
            for k in range(size):
                stiffness[k] = curvature
            if taken > size:
                copy_matrix(stepped, joined_points)
                for e in range(begin, begin + degree):
                    j, back = others[e], reverse[e]
                    after = size * (1 + e - begin)
                    pushed = table(joined, after * outputs, size, outputs)
                    bounds = line(curvatures, 0, size)
                    neighbor_gradient_at(rule[COUPLING_GRADIENT_AT_NEIGHBOR])(
                        rule_numbers,
                        edges,
                        e - begin,
                        sent[back],
                        table(all_answers, back * answer, size, outputs),
                        table(all_values, j * answer, size, outputs),
                        pushed,
                        bounds,
                    )
                    both = line(pair_row_sums, 0, size)
                    for k in range(size):
                        both[k] = answer_row_sums[back, k] + all_row_sums[j, k] if implicit else 0.0
                    strength, taken_strength = clip_pulls(pushed, bounds, both, size)
                    if not implicit and rate * kinds.gain[kind] * strength >= 2.0:
                        return UNSTABLE, t - first, i, strength
                    for k in range(size):
                        for c in range(outputs):
                            pushed[k, c] /= part
                    received = table(points, (j * rounds + t) * sample, size, inputs)
                    copy_matrix(received, table(joined_points, after * inputs, size, inputs))
                    for k in range(after, after + size):
                        stiffness[k] = 0.0 if kinds.linear[kind] else taken_strength
                stepped = table(joined_points, 0, taken, inputs)
            if benched:
                repack_at(repack)(state, counts, scratch_state.storage, inputs, outputs, counts[ORDER] + taken)
                state = scratch_state.storage
            sums.compression_error[i] += step_at(functions_of[kind, STEP])(
                tools,
                numbers,
                state,
                counts,
                scratch,
                stepped,
                table(all_rows, place, taken, columns),
                table(joined, 0, taken, outputs),
                line(rates, 0, taken),
                line(stiffness, 0, taken),
                implicit,
                sizes,
                own,
                wanted,
            )
            if benched:
                put_back(i, repack, storage, begins, lengths, counts, scratch_state, capacity, taken, inputs, outputs)
            if not degree:
                continue
            if rule[CONSTRAINT_VALUES] == NONE:
                mean_square_differences_in(own, answers, constraint_values)
            else:
                constraints_at(rule[CONSTRAINT_VALUES])(own, answers, line(constraint_values, 0, degree))
            if compares:
                new = sums.samples[i] <= sums.distinct[i]
                for e in range(degree):
                    values_of(loss_numbers, table(answers, e * answer, size, outputs), wanted, losses)
                    excess_loss[e] = (total(losses) - loss) / size if new else np.nan
            if rule[ADVANCE] != NONE:
                advance_at(rule[ADVANCE])(
                    rule_tools,
                    rule_numbers,
                    edges,
                    line(constraint_values, 0, degree),
                    line(excess_loss, 0, degree if compares else 0),
                    eta,
                    kinds.curvature[kind],
                    size,
                    completed + t - first + 1,
                )
            for e in range(degree):
                sums.constraint_values[begin + e] += constraint_values[e]
                if coupling.duals >= 0:
                    sums.violation[begin + e] += constraint_values[e] - edges[coupling.tolerances, e]
        if lay_rows(states, kinds, links, messages, symmetric, size) > scratch_state.capacity:
            return FULL, t - first, nodes, 0.0
        for i in range(nodes):
            turn[1] = i
            kind, begin, degree = kind_of[i], starts[i], starts[i + 1] - starts[i]
            taken = size * (1 + degree) if symmetric else size
            evaluate = evaluate_at(functions_of[kind, EVALUATE])
            tools = line(tools_of, kind * tool_count, tool_count)
            numbers = line(numbers_of, kind * numbers_of.shape[1], number_counts[kind])
            state = line(storage, begins[i], lengths[i])
            counts = line(all_counts, i * integers, integers)
            place = row_begins[i]
            columns = (row_begins[i + 1] - place) // taken
            own = table(all_values, i * answer, size, outputs)
            fresh = table(points, (i * rounds + t + 1) * sample, size, inputs)
            stepped, found = table(joined_points, 0, taken, inputs), table(joined, 0, taken, outputs)
            if symmetric:
                copy_matrix(fresh, stepped)
                for e in range(begin, begin + degree):
                    after = size * (1 + e - begin)
                    fresh = table(points, (others[e] * rounds + t + 1) * sample, size, inputs)
                    copy_matrix(fresh, table(joined_points, after * inputs, size, inputs))
                # Rows of repacked states are a kernel's, and come out the same whichever others are asked for.
                together = functions_of[kind, REPACK] != NONE and inputs <= NARROW and kinds.apart[kind] == 0
                at_once = taken if together else size
                for after in range(0, taken, at_once):
                    rows = table(all_rows, place + after * columns, at_once, columns)
                    fresh = table(joined_points, after * inputs, at_once, inputs)
                    evaluated = table(joined, after * outputs, at_once, outputs)
                    evaluate(tools, numbers, state, counts, fresh, rows, evaluated)
                copy_matrix(table(joined, 0, size, outputs), own)
                for e in range(begin, begin + degree):
                    evaluated = table(all_answers, reverse[e] * answer, size, outputs)
                    copy_matrix(table(joined, size * (1 + e - begin) * outputs, size, outputs), evaluated)
            else:
                evaluate(tools, numbers, state, counts, fresh, table(all_rows, place, size, columns), own)
                if implicit:
                    copy_matrix(fresh, stepped)
                    copy_matrix(own, found)
                for e in range(begin, begin + degree):
                    fresh = table(points, (others[e] * rounds + t + 1) * sample, size, inputs)
                    evaluated = table(all_answers, reverse[e] * answer, size, outputs)
                    evaluate(tools, numbers, state, counts, fresh, table(unused, 0, size, columns), evaluated)
            if not implicit or not degree:
                continue
            rows = table(all_rows, row_begins[i], taken, columns)
            gram = table(scratch, 0, taken, taken)
            inner_at(functions_of[kind, INNER])(tools, numbers, state, counts, stepped, rows, found, gram)
            products[i, 0], products[i, 1] = own_products(gram, size)
            pair_row_sums_in(gram, size, degree, step_sizes[i, t + 1, 0], line(step_row_sums, 0, taken))
            for k in range(size):
                all_row_sums[i, k] = step_row_sums[k]
            if symmetric:
                for e in range(degree):
                    for k in range(size):
                        answer_row_sums[reverse[begin + e], k] = step_row_sums[size * (1 + e) + k]
        if coupling.sends_duals:
            send_duals(links, coupling)
    return DONE, count, 0, 0.0


@cached_njit
def send_duals(links: Links, coupling: Coupling) -> None:
    """Copy the dual variables to where neighbours hear them."""
    for i in range(len(links.start) - 1):
        begin, degree = links.start[i], links.start[i + 1] - links.start[i]
        edges = table(links.state, coupling.rows * begin, coupling.rows, degree)
        for e in range(degree):
            links.sent[begin + e] = edges[coupling.duals, e]


@force_inline
def lay_rows(states: States, kinds: Kinds, links: Links, messages: Messages, symmetric: bool, size: int) -> int:
    """Say where the rows of each node begin, as long as those of repacked states are now; returns the most points of
    such a state, or, where the rows are not long enough, more than there may be."""
    before, widest, begins = messages.row_begins[0], 0, messages.row_begins
    for i in range(len(kinds.of)):
        taken = size * (1 + links.start[i + 1] - links.start[i]) if symmetric else size
        length, before = begins[i + 1] - before, begins[i + 1]
        if kinds.functions[kinds.of[i], REPACK] != NONE:
            length = taken * states.counts[i, ORDER]
            widest = max(widest, states.counts[i, ORDER])
        begins[i + 1] = begins[i] + length
    return widest if begins[len(kinds.of)] <= messages.rows.shape[1] else ALWAYS
