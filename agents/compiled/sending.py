"""What an agent in arrays evaluates for its neighbours, and what it sends."""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import evaluate_at, inner_at
from kernelswarm.agents.arithmetic.copying import copy_matrix
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.compiled.arrays import Coupling, Kinds, Links, States
from kernelswarm.agents.compiled.lossy_arrays import Air, Counts, Kept, Terms, Workspace, first_row
from kernelswarm.agents.compiled.receiving import before, has_arrived, points_of
from kernelswarm.agents.compiled.rounds import EVALUATE, INNER
from kernelswarm.agents.node.inbox import SENT, SILENT
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.protocols.compiling import force_inline
from kernelswarm.protocols.limits import own_products, pair_row_sums_in
from kernelswarm.protocols.links.distortion import EXACT, SCALE_BITS

Array = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@force_inline
def prepare(
    i: int,
    states: States,
    kinds: Kinds,
    links: Links,
    air: Air,
    kept: Kept,
    counts: Counts,
    coupling: Coupling,
    terms: Terms,
    scratch: Array,
    work: Workspace,
    step_sizes: Array,
    now: int,
) -> None:
    """Evaluate node i's function at the samples that follow and at the newest points of its neighbours."""
    slots, size, inputs = air.points.shape[0], air.points.shape[2], air.points.shape[3]
    outputs, columns, memory = kept.values.shape[2], kept.rows.shape[1], kept.points.shape[1]
    begin, degree = links.start[i], links.start[i + 1] - links.start[i]
    kind = kinds.of[i]
    evaluate = evaluate_at(kinds.functions[kind, EVALUATE])
    tools = line(kinds.tools, kind * kinds.tools.shape[1], kinds.tools.shape[1])
    numbers = line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind])
    state = line(states.storage, states.begins[i], states.lengths[i])
    integers = line(states.counts, i * states.counts.shape[1], states.counts.shape[1])
    answer, sample = size * outputs, size * inputs
    kept.learning[i] = kept.following[i]
    place = first_row(i, begin, size, True)
    width, kept_at = kept.targets.shape[3], i * memory + kept.learning[i] % memory
    own_points = table(kept.own_points, i * sample, size, inputs)
    copy_matrix(table(kept.points, kept_at * sample, size, inputs), own_points)
    wanted = table(kept.own_targets, i * size * width, size, width)
    copy_matrix(table(kept.targets, kept_at * size * width, size, width), wanted)
    own = table(kept.values, i * answer, size, outputs)
    evaluate(tools, numbers, state, integers, own_points, table(kept.rows, place * columns, size, columns), own)
    copy_matrix(own, table(kept.predicted, kept_at * answer, size, outputs))
    for d in range(degree):
        e = begin + d
        then = now % slots
        for sent in range(now - 1, max(now - terms.reach - 1, -1), -1):
            then = before(then, slots)
            if has_arrived(air, e, sent, then, now, terms.reach):
                kept.received_at[e] = air.carried[then, e]
                received = points_of(air, then, e, links.other[e])
                copy_matrix(received, table(kept.received_points, e * sample, size, inputs))
                break
        at = place + size * (1 + d)
        evaluate(
            tools,
            numbers,
            state,
            integers,
            table(kept.received_points, e * sample, size, inputs),
            table(kept.rows, at * columns, size, columns),
            table(kept.received_values, e * answer, size, outputs),
        )
    if not coupling.implicit or not degree:
        return
    taken = size * (1 + degree) if coupling.symmetric else size
    stepped, found = table(work.points, 0, taken, inputs), table(work.values, 0, taken, outputs)
    copy_matrix(own_points, table(stepped, 0, size, inputs))
    copy_matrix(own, table(found, 0, size, outputs))
    if coupling.symmetric:
        for d in range(degree):
            at, e = size * (1 + d), begin + d
            copy_matrix(
                table(kept.received_points, e * sample, size, inputs), table(stepped, at * inputs, size, inputs)
            )
            copy_matrix(
                table(kept.received_values, e * answer, size, outputs), table(found, at * outputs, size, outputs)
            )
    gram, row_sums = table(scratch, 0, taken, taken), line(work.row_sums, 0, taken)
    rows = table(kept.rows, place * columns, taken, columns)
    inner_at(kinds.functions[kind, INNER])(tools, numbers, state, integers, stepped, rows, found, gram)
    kept.products[i, 0], kept.products[i, 1] = own_products(gram, size)
    pair_row_sums_in(gram, size, degree, step_sizes[i, counts.cursor[i] + 1, 0], row_sums)
    for k in range(size):
        kept.row_sums[i, k] = row_sums[k]
    if coupling.symmetric:
        for d in range(degree):
            for k in range(size):
                kept.received_row_sums[begin + d, k] = row_sums[size * (1 + d) + k]


@force_inline
def send(
    i: int,
    states: States,
    kinds: Kinds,
    links: Links,
    air: Air,
    kept: Kept,
    counts: Counts,
    coupling: Coupling,
    terms: Terms,
    work: Workspace,
    ahead: tuple[Array, Array],
    active: Booleans,
    place: int,
    now: int,
) -> None:
    """Draw node i's next samples, and send what there is to say."""
    slots, size, inputs = air.points.shape[0], air.points.shape[2], air.points.shape[3]
    outputs, memory = kept.values.shape[2], kept.points.shape[1]
    begin, degree = links.start[i], links.start[i + 1] - links.start[i]
    slot, cursor = now % slots, counts.cursor[i]
    ahead_points, ahead_targets = ahead
    width, sample, answer = kept.targets.shape[3], size * inputs, size * outputs
    drawn = table(ahead_points, (i * ahead_points.shape[1] + cursor) * sample, size, inputs)
    wanted = table(ahead_targets, (i * ahead_points.shape[1] + cursor) * size * width, size, width)
    row = i * memory + now % memory
    copy_matrix(drawn, table(kept.points, row * sample, size, inputs))
    copy_matrix(wanted, table(kept.targets, row * size * width, size, width))
    kept.drawn_at[i, now % memory] = now
    counts.cursor[i] += 1
    kept.following[i] = now
    sent = slot * air.points.shape[1] + i
    copy_matrix(drawn, table(air.points, sent * sample, size, inputs))
    copy_matrix(table(kept.values, i * answer, size, outputs), table(air.own, sent * answer, size, outputs))
    for k in range(size):
        air.own_row_sums[slot, i, k] = kept.row_sums[i, k]
    air.previous[slot, i] = kept.learning[i]
    threshold = terms.threshold * math.pow(terms.decay, float(now - PRIMING)) if terms.threshold > 0.0 else 0.0
    for d in range(degree):
        e = begin + d
        if terms.threshold > 0.0:
            kept.quiet[e] = kept.last_sent[e] and moved(i, e, states, kinds, kept, work) <= threshold
            if active[e, place] and not kept.quiet[e]:
                kept.last_sent[e] = True
                received = table(kept.received_points, e * sample, size, inputs)
                copy_matrix(received, table(kept.last_sent_points, e * sample, size, inputs))
                copy_matrix(
                    table(kept.received_values, e * answer, size, outputs),
                    table(kept.last_sent_values, e * answer, size, outputs),
                )
        back = links.reverse[e]
        outgoing = table(air.answers, (slot * air.answers.shape[1] + back) * answer, size, outputs)
        copy_matrix(table(kept.received_values, e * answer, size, outputs), outgoing)
        for k in range(size):
            air.answer_row_sums[slot, back, k] = kept.received_row_sums[e, k]
        silent = kept.quiet[e] or not active[e, place]
        air.answered[slot, back] = SILENT if silent else kept.received_at[e]
        if coupling.duals >= 0:
            air.duals[slot, e] = links.state[coupling.rows * begin + coupling.duals * degree + d]
        if not silent:
            counts.traffic[e, SENT] += 1
            asks, asked = kept.asks[e], kept.asked[e]
            points = size * inputs if asks else 0
            values = size * outputs if asked else 0
            others, scales = 0, int(asks) + int(asked)
            if coupling.symmetric:
                limited = size if coupling.implicit else 0
                others = limited if asked else 0
                if asks:
                    values += size * outputs
                    others += int(coupling.sends_duals) + limited
                    scales += 1
            counts.scalars[i] += points + values + others
            if terms.bits == EXACT:
                counts.bytes[i] += 8.0 * (points + values + others)
            else:
                bits = terms.bits * (points + values) + SCALE_BITS * (others + scales)
                counts.bytes[i] += math.ceil(bits / 8)


@force_inline
def moved(i: int, e: int, states: States, kinds: Kinds, kept: Kept, work: Workspace) -> float:
    """Return how far node i's function has moved where it last answered on edge e."""
    size, outputs = kept.last_sent_values.shape[1], kept.last_sent_values.shape[2]
    kind = kinds.of[i]
    values = work.last_sent_values
    evaluate_at(kinds.functions[kind, EVALUATE])(
        line(kinds.tools, kind * kinds.tools.shape[1], kinds.tools.shape[1]),
        line(kinds.numbers, kind * kinds.numbers.shape[1], kinds.number_counts[kind]),
        line(states.storage, states.begins[i], states.lengths[i]),
        line(states.counts, i * states.counts.shape[1], states.counts.shape[1]),
        kept.last_sent_points[e],
        work.last_sent_rows,
        values,
    )
    farthest = 0.0
    for k in range(size):
        for c in range(outputs):
            farthest = max(farthest, abs(values[k, c] - kept.last_sent_values[e, k, c]))
    return farthest
