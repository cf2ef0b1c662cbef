"""A step of an agent in arrays with what there is to hear of its neighbours."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import (
    ORDER,
    evaluate_at,
    gradient_at,
    inner_at,
    loss_derivatives_at,
    loss_values_at,
    step_at,
)
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import cube, line, table
from kernelswarm.agents.compiled.arrays import Coupling, Kinds, Links, States, Sums
from kernelswarm.agents.compiled.lossy_arrays import ABSENT, Air, Counts, Kept, Terms, Workspace, first_row
from kernelswarm.agents.compiled.receiving import find_answer, find_values, points_of
from kernelswarm.agents.compiled.rounds import (
    ADVANCE,
    CONSTRAINT_VALUES,
    COUPLING_GRADIENT,
    COUPLING_GRADIENT_AT_NEIGHBOR,
    DONE,
    EVALUATE,
    GRADIENT,
    INNER,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    STEP,
    UNSTABLE,
)
from kernelswarm.protocols.compiled import advance_at, constraints_at, coupling_gradient_at, neighbor_gradient_at
from kernelswarm.protocols.compiling import force_inline
from kernelswarm.protocols.coupling import mean_square_differences_in, total
from kernelswarm.protocols.first_class import NONE
from kernelswarm.protocols.limits import clip_pulls, gather_in, pair_row_sums_in, step_damping
from kernelswarm.protocols.links.distortion import EXACT, rounded_up

Array = npt.NDArray[np.float64]


@force_inline
def learn(
    i: int,
    states: States,
    kinds: Kinds,
    links: Links,
    air: Air,
    kept: Kept,
    sums: Sums,
    counts: Counts,
    coupling: Coupling,
    terms: Terms,
    scratch: Array,
    work: Workspace,
    step_sizes: Array,
    now: int,
    diverged: float,
) -> tuple[int, float]:
    """Take node i's step with what there is to hear; returns why it cannot, and the curvature."""
    slots, size, inputs = air.points.shape[0], air.points.shape[2], air.points.shape[3]
    outputs, columns, memory = kept.values.shape[2], kept.rows.shape[1], kept.points.shape[1]
    width = kept.targets.shape[3]
    begin, degree = links.start[i], links.start[i + 1] - links.start[i]
    kind = kinds.of[i]
    functions = kinds.functions[kind]
    tools = line(kinds.tools, kind * kinds.tools.shape[1], kinds.tools.shape[1])
    numbers = line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind])
    loss_numbers = line(kinds.loss_numbers, kind * kinds.loss_numbers.shape[1], kinds.loss_number_counts[kind])
    state = line(states.storage, states.begins[i], states.lengths[i])
    integers = line(states.counts, i * states.counts.shape[1], states.counts.shape[1])
    answer, sample = size * outputs, size * inputs
    own = table(kept.values, i * answer, size, outputs)
    wanted = table(kept.own_targets, i * size * width, size, width)
    fresh_points = table(kept.own_points, i * sample, size, inputs)
    largest = sums.largest_target[i]
    for k in range(size):
        for c in range(width):
            largest = max(largest, abs(wanted[k, c]))
    sums.largest_target[i] = largest
    for k in range(size):
        for c in range(outputs):
            if not abs(own[k, c]) <= diverged * (1.0 + largest):
                return LARGE_VALUES, 0.0
    losses = work.losses
    values_of = loss_values_at(functions[LOSS_VALUES])
    values_of(loss_numbers, own, wanted, losses)
    loss = total(losses)
    sums.loss[i] += loss
    sums.samples[i] += size
    # What there is to hear, and the points of the step: the node's own, those of neighbours, and late ones of its own.
    stepped, rows, joined, mine = work.points, work.rows, work.gradients, work.values
    answers_from, values_from, is_late = work.answers_from, work.values_from, work.is_late
    for d in range(degree):
        answers_from[d], values_from[d], is_late[d] = ABSENT, ABSENT, False
    evaluate = evaluate_at(functions[EVALUATE])
    copy_matrix(fresh_points, table(stepped, 0, size, inputs))
    place = first_row(i, begin, size, True)
    copy_matrix(table(kept.rows, place * columns, size, columns), table(rows, 0, size, columns))
    copy_matrix(own, table(mine, 0, size, outputs))
    whole, fresh, late, taken = True, 0, 0, size
    for d in range(degree):
        e = begin + d
        if kept.asks[e]:
            answers_from[d] = find_answer(air, terms, line(kept.drawn_at, i * memory, memory), kept.used[e, 0], e, now)
        if answers_from[d] == ABSENT:
            whole = False
        else:
            kept.used[e, 0] = answers_from[d]
            is_late[d] = air.answered[answers_from[d] % slots, e] != kept.learning[i]
            late += is_late[d]
            fresh += not is_late[d]
    if coupling.symmetric:
        for d in range(degree):
            e = begin + d
            j = links.other[e]
            if kept.asked[e]:
                values_from[d] = find_values(air, terms, kept.used[e, 1], e, j, now)
            if values_from[d] == ABSENT:
                whole = False
                continue
            kept.used[e, 1] = values_from[d]
            previous = air.previous[values_from[d] % slots, j]
            there = table(stepped, taken * inputs, size, inputs)
            there_rows, there_values = (
                table(rows, taken * columns, size, columns),
                table(mine, taken * outputs, size, outputs),
            )
            if previous == kept.received_at[e]:
                copy_matrix(table(kept.received_points, e * sample, size, inputs), there)
                at = place + size * (1 + d)
                copy_matrix(table(kept.rows, at * columns, size, columns), there_rows)
                copy_matrix(table(kept.received_values, e * answer, size, outputs), there_values)
            else:
                whole = False
                slot = values_from[d] % slots
                if air.carried[slot, e] != previous:
                    slot = previous % slots
                copy_matrix(points_of(air, slot, e, j), there)
                evaluate(tools, numbers, state, integers, there, there_rows, there_values)
            taken += size
    before_late = taken
    for d in range(degree):
        if is_late[d]:
            e = begin + d
            answered = air.answered[answers_from[d] % slots, e]
            there = table(stepped, taken * inputs, size, inputs)
            copy_matrix(table(kept.points, (i * memory + answered % memory) * sample, size, inputs), there)
            there_rows, there_values = (
                table(rows, taken * columns, size, columns),
                table(mine, taken * outputs, size, outputs),
            )
            evaluate(tools, numbers, state, integers, there, there_rows, there_values)
            taken += size
    sizes = work.sizes
    for n in range(len(sizes)):
        sizes[n] = step_sizes[i, counts.cursor[i], n]
    eta = sizes[0]
    rate = eta / size
    limited = coupling.implicit and degree > 0
    row_sums = line(work.row_sums, 0, taken)
    for k in range(taken):
        row_sums[k] = 0.0
    if limited and whole and late == 0:
        for k in range(size):
            row_sums[k] = kept.row_sums[i, k]
        if coupling.symmetric:
            for d in range(degree):
                for k in range(size):
                    row_sums[size * (1 + d) + k] = kept.received_row_sums[begin + d, k]
    elif limited:
        gram = table(scratch, 0, taken, taken)
        inner_at(functions[INNER])(
            tools,
            numbers,
            state,
            integers,
            table(stepped, 0, taken, inputs),
            table(rows, 0, taken, columns),
            table(mine, 0, taken, outputs),
            gram,
        )
        pair_row_sums_in(gram, size, fresh, eta, row_sums)
    gradient = table(joined, 0, size, outputs)
    if functions[GRADIENT] == NONE:
        loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, own, wanted, gradient)
    else:
        gradient_at(functions[GRADIENT])(
            tools,
            numbers,
            state,
            integers,
            scratch,
            fresh_points,
            table(rows, 0, size, columns),
            own,
            wanted,
            sizes,
            gradient,
        )
    curvature, part = kinds.curvature[kind], 1.0
    linear = kinds.linear[kind] != 0
    edges = table(links.state, coupling.rows * begin, coupling.rows, degree)
    rates, stiffness = line(work.rates, 0, taken), line(work.stiffness, 0, taken)
    constraint_values, excess_loss = line(work.constraint_values, 0, degree), line(work.excess_loss, 0, degree)
    for d in range(degree):
        constraint_values[d] = excess_loss[d] = np.nan
    if degree:
        answers = cube(work.answers, 0, degree, size, outputs)
        pull, far = cube(work.pull, 0, degree, size, outputs), cube(work.far, 0, degree, size, outputs)
        stiff, bound = table(work.stiff, 0, degree, size), table(work.bounds, 0, degree, size)
        both, pulling, summed = table(work.ends, 0, degree, size), work.pulling, work.summed
        for k in range(size):
            summed[k] = 0.0
            for d in range(degree):
                both[d, k] = 0.0
        coupling_gradient = coupling_gradient_at(coupling.functions[COUPLING_GRADIENT])
        for d in range(degree):
            for k in range(size):
                for c in range(outputs):
                    answers[d, k, c] = own[k, c]
            if answers_from[d] != ABSENT and not is_late[d]:
                slot = answers_from[d] % slots
                for k in range(size):
                    for c in range(outputs):
                        answers[d, k, c] = air.answers[slot, begin + d, k, c]
                    if limited:
                        both[d, k] = row_sums[k] + (
                            air.answer_row_sums[slot, begin + d, k] if coupling.symmetric else row_sums[k]
                        )
        coupling_gradient(coupling.numbers, edges, own, answers, pull, stiff)
        for d in range(degree):
            received = answers_from[d] != ABSENT and not is_late[d]
            damped = 1.0 / (1.0 + terms.damping * (now - 1 - answers_from[d])) if received else 0.0
            for k in range(size):
                stiff[d, k] = stiff[d, k] * damped if received else 0.0
                if received:
                    summed[k] += stiff[d, k]
                for c in range(outputs):
                    pull[d, k, c] = pull[d, k, c] * damped if received else 0.0
        at = before_late
        for d in range(degree):
            if not is_late[d]:
                continue
            e, slot = begin + d, answers_from[d] % slots
            damped = 1.0 / (1.0 + terms.damping * (now - 1 - answers_from[d]))
            values = table(mine, at * outputs, size, outputs)
            there, ends = answers, line(work.losses, 0, size)  # the answers have been taken
            for k in range(size):
                ends[k] = 0.0
            for other in range(degree):
                for k in range(size):
                    for c in range(outputs):
                        there[other, k, c] = air.answers[slot, e, k, c] if other == d else values[k, c]
            coupling_gradient(coupling.numbers, edges, values, there, far, bound)
            pushed, bounds = table(joined, at * outputs, size, outputs), line(bound, d * size, size)
            for k in range(size):
                bounds[k] *= damped
                for c in range(outputs):
                    pushed[k, c] = far[d, k, c] * damped
                if limited:
                    ends[k] = row_sums[at + k] + (
                        air.answer_row_sums[slot, e, k] if coupling.symmetric else row_sums[at + k]
                    )
            strength, bounded = clip_pulls(pushed, bounds, ends, size)
            if not coupling.implicit and rate * kinds.gain[kind] * strength >= 2.0:
                return UNSTABLE, strength
            for k in range(size):
                summed[k] += strength
                stiffness[at + k] = 0.0 if linear else bounded
            at += size
        whole_strength = 0.0
        for k in range(size):
            whole_strength = max(whole_strength, summed[k])
        _, bounded = gather_in(pull, stiff, both, size, pulling)
        if coupling.implicit:
            gain, reach = kept.products[i, 0], kept.products[i, 1]
            part = step_damping(rate, gain, reach, curvature, whole_strength, integers[ORDER], sums.samples[i])
            if not linear:
                curvature += bounded
        elif rate * kinds.gain[kind] * (kinds.quadratic_curvature[kind] + whole_strength) >= 2.0:
            return UNSTABLE, kinds.quadratic_curvature[kind] + whole_strength
        for k in range(size):
            for c in range(outputs):
                gradient[k, c] += pulling[k, c] / part
        at = before_late
        for d in range(degree):
            if answers_from[d] == ABSENT:
                continue
            e, slot = begin + d, answers_from[d] % slots
            received_answer = cube(air.answers, (slot * air.answers.shape[1] + e) * answer, 1, size, outputs)
            values, before_learning, targets = own, own, wanted
            if is_late[d]:
                values = table(mine, at * outputs, size, outputs)
                answered = air.answered[slot, e] % memory
                before_learning = values
                if air.answered[slot, e] != kept.following[i]:
                    before_learning = table(kept.predicted, (i * memory + answered) * answer, size, outputs)
                targets = table(kept.targets, (i * memory + answered) * size * width, size, width)
                for k in range(at, at + size):
                    for c in range(outputs):
                        joined[k, c] /= part
                at += size
            if coupling.functions[CONSTRAINT_VALUES] == NONE:
                mean_square_differences_in(values, received_answer, line(constraint_values, d, 1))
            else:
                constraints_at(coupling.functions[CONSTRAINT_VALUES])(
                    values, received_answer, line(constraint_values, d, 1)
                )
            if coupling.compares_losses and sums.samples[i] <= sums.distinct[i]:
                values_of(loss_numbers, before_learning, targets, losses)
                before = total(losses)
                values_of(loss_numbers, table(received_answer, 0, size, outputs), targets, losses)
                excess_loss[d] = (total(losses) - before) / size
    for k in range(size):
        stiffness[k] = curvature
    at = size
    for d in range(degree):
        if values_from[d] == ABSENT:
            continue
        e, slot = begin + d, values_from[d] % slots
        j = links.other[e]
        pushed, bounds = table(joined, at * outputs, size, outputs), line(work.bounds, 0, size)
        ends = line(work.ends, 0, size)
        for k in range(size):
            ends[k] = 0.0
        dual = air.duals[slot, links.reverse[e]] if coupling.sends_duals else 0.0
        if terms.bits != EXACT and 0.0 < dual < np.inf:
            dual = rounded_up(dual)
        neighbor_gradient_at(coupling.functions[COUPLING_GRADIENT_AT_NEIGHBOR])(
            coupling.numbers,
            edges,
            d,
            dual,
            table(mine, at * outputs, size, outputs),
            air.own[slot, j],
            pushed,
            bounds,
        )
        damped = 1.0 / (1.0 + terms.damping * (now - 1 - values_from[d]))
        for k in range(size):
            bounds[k] *= damped
            for c in range(outputs):
                pushed[k, c] *= damped
            if limited:
                ends[k] = row_sums[at + k] + air.own_row_sums[slot, j, k]
        strength, bounded = clip_pulls(pushed, bounds, ends, size)
        if not coupling.implicit and rate * kinds.gain[kind] * strength >= 2.0:
            return UNSTABLE, strength
        for k in range(size):
            stiffness[at + k] = 0.0 if linear else bounded
            for c in range(outputs):
                pushed[k, c] /= part
        at += size
    sizes[0] = eta * part
    for k in range(taken):
        rates[k] = sizes[0] / size
    sums.compression_error[i] += step_at(functions[STEP])(
        tools,
        numbers,
        state,
        integers,
        scratch,
        table(stepped, 0, taken, inputs),
        table(rows, 0, taken, columns),
        table(joined, 0, taken, outputs),
        rates,
        stiffness,
        coupling.implicit,
        sizes,
        own,
        wanted,
    )
    counts.learned[i] += 1
    counts.completed[i] += 1
    if degree:
        if coupling.functions[ADVANCE] != NONE:
            advance_at(coupling.functions[ADVANCE])(
                coupling.tools,
                coupling.numbers,
                edges,
                constraint_values,
                line(excess_loss, 0, degree if coupling.compares_losses else 0),
                eta,
                kinds.curvature[kind],
                size,
                counts.completed[i],
            )
        for d in range(degree):
            if not np.isnan(constraint_values[d]):
                sums.constraint_values[begin + d] += constraint_values[d]
                counts.constraint_rounds[begin + d] += 1
                if coupling.duals >= 0:
                    sums.violation[begin + d] += constraint_values[d] - edges[coupling.tolerances, d]
    return DONE, 0.0
