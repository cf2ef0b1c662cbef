"""A node's step in arrays, on links of all kinds: checks, gradients, damping, step, constraint values, dual update.

The points of the step have been gathered. On ideal links, received values are in the arrays of the previous round; on
unreliable links, the places of the used messages are given. The kind of links is a constant of each function, so rounds
on ideal links are compiled without the code for unreliable links.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    ORDER,
    ROOM,
    GradientArguments,
    StepArguments,
    evaluate_at,
    gradient_at,
    inner_at,
    loss_derivatives_at,
    loss_values_at,
    repack_at,
    step_at,
)
from kernelswarm.agents.arithmetic.scratch import Scratch, capacity_of, put_back
from kernelswarm.agents.arithmetic.views import line, line_of, rows_of, table, table_of
from kernelswarm.agents.nodes.arrays import (
    ADVANCE,
    DONE,
    EVALUATE,
    GRADIENT,
    INNER,
    JUDGE,
    LARGE_VALUES,
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    REPACK,
    STEP,
    Gathered,
    Network,
    Own,
    Received,
    answer_over,
)
from kernelswarm.agents.nodes.pulling import constraints_of, edges_of, pull_at_replayed, pulls_at_neighbors_of, pulls_of
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import advance_at, judge_at
from kernelswarm.protocols.core.addresses import NONE, Compiled
from kernelswarm.protocols.core.compiling import force_inline
from kernelswarm.protocols.coupling import own_products, pair_row_sums_in, total


class LearnerArguments(NamedTuple):
    """The arguments of a node's learner and its loss."""

    tools: Any
    numbers: Array
    state: Array
    counts: Any
    loss_numbers: Array


class OwnPoints(NamedTuple):
    """A node's own points of a step, samples first, and its function there."""

    points: Array  # (n, p)
    targets: Array  # (b, q)
    values: Array  # (b, C) at the samples
    rows: Array  # (N, R) of all points of the step, own points first


@force_inline
def learner_of(i: int, network: Any) -> LearnerArguments:
    """Return views of the arguments of node i's learner and its loss."""
    states, kinds = network.states, network.kinds
    kind = kinds.of[i]
    return LearnerArguments(
        line_of(kinds.tools, kind, kinds.tools.shape[1]),
        line_of(kinds.numbers, kind, kinds.number_counts[kind]),
        line(states.storage, states.begins[i], states.lengths[i]),
        line_of(states.counts, i, states.counts.shape[1]),
        line_of(kinds.loss_numbers, kind, kinds.loss_number_counts[kind]),
    )


@force_inline
def evaluate_in(i: int, points: Array, rows: Array, values: Array, network: Any) -> None:
    """Evaluate node i's function at points, and keep their rows."""
    tools, numbers, state, counts, _ = learner_of(i, network)
    evaluate = evaluate_at(network.kinds.functions[network.kinds.of[i], EVALUATE])
    evaluate(tools, numbers, state, counts, points, rows, values)


@force_inline
def admit(i: int, values: Array, targets: Array, largest_target: Array, diverged: float) -> bool:
    """Tell whether a node's values, (b, C), are not far larger than all its targets so far, updated by (b, q)."""
    largest = largest_target[i]
    for k in range(targets.shape[0]):
        for c in range(targets.shape[1]):
            largest = max(largest, abs(targets[k, c]))
    largest_target[i] = largest
    for k in range(values.shape[0]):
        for c in range(values.shape[1]):
            if not abs(values[k, c]) <= diverged * (1.0 + largest):
                return False
    return True


@force_inline
def judge(i: int, targets: Array, completed: int, network: Network) -> None:
    """Let the protocol judge the answers after their comparison with node i's values at its samples."""
    links, coupling, work, size = network.links, network.coupling, network.work, targets.shape[0]
    if coupling.functions[JUDGE] == NONE:
        return
    degree = links.start[i + 1] - links.start[i]
    losses, zeros = line(work.losses, 0, size), rows_of(work.pulling, 0, size)
    zeros[:] = 0.0
    loss_values = loss_values_at(network.kinds.functions[network.kinds.of[i], LOSS_VALUES])
    loss_values(learner_of(i, network).loss_numbers, zeros, targets, losses)
    judge_at(coupling.functions[JUDGE])(
        edges_of(i, network),
        line(work.differences, 0, degree),
        line(work.excess_loss, 0, degree if coupling.compares_losses else 0),
        total(losses) / size,
        network.kinds.curvature[network.kinds.of[i]],
        completed,
    )


def following(ideal: bool) -> Compiled:
    """Return the function that updates a protocol's link states after a step, on ideal or other links."""

    @force_inline
    def follow(i: int, eta: float, batch_size: int, completed: int, network: Network) -> None:
        """Update the link states of node i's edges with the protocol, and sum their constraint values."""
        links, coupling, sums, work = network.links, network.coupling, network.sums, network.work
        begin, degree = links.start[i], links.start[i + 1] - links.start[i]
        edges = edges_of(i, network)
        if coupling.functions[ADVANCE] != NONE:
            advance_at(coupling.functions[ADVANCE])(
                coupling.tools,
                coupling.numbers,
                edges,
                line(work.constraint_values, 0, degree),
                line(work.excess_loss, 0, degree if coupling.compares_losses else 0),
                eta,
                network.kinds.curvature[network.kinds.of[i]],
                batch_size,
                completed,
            )
        for d in range(degree):
            if not ideal and np.isnan(work.constraint_values[d]):
                continue  # no answer arrived
            sums.constraint_values[begin + d] += work.constraint_values[d]
            if coupling.duals >= 0:
                sums.violation[begin + d] += work.constraint_values[d] - edges[coupling.tolerances, d]

    return follow


def samples_of(ideal: bool) -> Compiled:
    """Return the function that finds a node's own samples of a step, on ideal or other links."""

    @force_inline
    def sample_of(i: int, at: int, taken: int, own: Own) -> OwnPoints:
        """Return views of node i's samples of a round, for a step on ``taken`` points."""
        size, place = own.samples[at, i], i * own.points.shape[1] + at
        row, columns = 0, own.rows.shape[1]
        if ideal:
            row = own.row_begins[i]
            columns = (own.row_begins[i + 1] - row) // own.most[i]
        return OwnPoints(
            table_of(own.points, place, own.sent[at, i]),
            table_of(own.targets, place, size),
            table_of(own.values, i, size),
            table(own.rows, row, taken, columns),
        )

    return sample_of


def learning(ideal: bool) -> Compiled:
    """Return the function that takes a node's step, on ideal or other links."""
    sample_of, pull, pull_at_neighbors = samples_of(ideal), pulls_of(ideal), pulls_at_neighbors_of(ideal)
    compare, take, follow, weigh_sets = constraints_of(ideal), steps_of(ideal), following(ideal), weighing(ideal)

    @force_inline
    def learn(
        i: int,
        at: int,  # the round, as index in the batches: 0 on unreliable links
        completed: int,  # steps of the whole run, including this one
        gathered: Gathered,
        network: Network,
        own: Own,
        received: Received,
        spare: Scratch,
        diverged: float,
    ) -> tuple[int, float]:
        """Take node i's step on its gathered points; returns DONE or why it is impossible, and the curvature."""
        kinds, links, sums, work = network.kinds, network.links, network.sums, network.work
        sample, size, sent, sizes = (
            sample_of(i, at, gathered.taken, own),
            own.samples[at, i],
            own.sent[at, i],
            work.sizes,
        )
        functions, degree = kinds.functions[kinds.of[i]], links.start[i + 1] - links.start[i]
        batch_size = own.batch_sizes[i]
        for n in range(len(sizes)):
            sizes[n] = own.step_sizes[i, own.steps[i], n]
        eta, share = sizes[0], 1.0 if size >= batch_size else size / batch_size
        rate, curvature, part, loss = eta / batch_size, kinds.curvature[kinds.of[i]], 1.0, 0.0
        work.rates[0] = rate  # read by the report of an unstable step
        if size:
            sums.samples[i] += size
            if not admit(i, sample.values, sample.targets, sums.largest_target, diverged):
                return LARGE_VALUES, 0.0
            losses = line(work.losses, 0, size)
            loss_values_at(functions[LOSS_VALUES])(
                learner_of(i, network).loss_numbers, sample.values, sample.targets, losses
            )
            loss = total(losses)
            sums.loss[i] += loss
            descend(i, sample, network)
        if degree and size:
            compare(i, sent, sample.targets, loss, gathered, network, own, received)
            judge(i, sample.targets, completed, network)
        if degree and sent:
            reason, curvature, part = pull(i, at, rate, gathered, network, own, received)
            if reason != DONE:
                return reason, curvature
        for k in range(size):
            work.stiffness[k] = curvature * share
            if share < 1.0:
                for c in range(work.gradients.shape[1]):
                    work.gradients[k, c] *= share
        if sent > size:
            reason, strength = pull_at_replayed(i, at, rate, part, network, own)
            if reason != DONE:
                return reason, strength
        if network.coupling.symmetric:
            reason, strength = pull_at_neighbors(i, at, eta, part, network, own, received)
            if reason != DONE:
                return reason, strength
        if not ideal:
            for k in range(gathered.prompt, gathered.taken):
                for c in range(work.gradients.shape[1]):
                    work.gradients[k, c] /= part
        sizes[0] = eta * part
        if gathered.taken:
            weigh_sets(i, at, gathered, network, own)
            own.steps[i] += 1
            take(i, gathered.taken, sample, network, spare)
        if degree and size:
            follow(i, eta * share, batch_size, completed, network)
        return DONE, 0.0

    return learn


@force_inline
def descend(i: int, sample: OwnPoints, network: Network) -> None:
    """Fill in the gradient of the loss at node i's own samples."""
    functions, work = network.kinds.functions[network.kinds.of[i]], network.work
    points, targets, values, rows = sample
    tools, numbers, state, counts, loss_numbers = learner_of(i, network)
    gradient = rows_of(work.gradients, 0, values.shape[0])
    if functions[GRADIENT] == NONE:
        loss_derivatives_at(functions[LOSS_DERIVATIVES])(loss_numbers, values, targets, gradient)
    else:
        at_samples = table(rows, 0, values.shape[0], rows.shape[1])
        given = GradientArguments(
            tools, numbers, state, counts, network.scratch, points, at_samples, values, targets, work.sizes
        )
        gradient_at(functions[GRADIENT])(given, gradient)


def weighing(ideal: bool) -> Compiled:
    """Return the function that weighs the points of a step, on ideal or other links."""

    @force_inline
    def weigh_sets(i: int, at: int, gathered: Gathered, network: Network, own: Own) -> None:
        """Fill in the rates of the points of node i's step, ``eta / n`` in each set of n points."""
        links, work, eta = network.links, network.work, network.work.sizes[0]
        size, sent, begin = own.samples[at, i], own.sent[at, i], links.start[i]
        weigh_set(0, size, eta, work.rates)
        weigh_set(size, sent - size, eta, work.rates)
        place, degree = sent, links.start[i + 1] - begin
        if network.coupling.symmetric:
            for d in range(degree):
                count = own.sent[at, links.other[begin + d]] if ideal else work.lossy.values_sent[d]
                weigh_set(place, count, eta, work.rates)
                place += count
        if not ideal and gathered.taken > gathered.prompt:
            for d in range(degree):
                weigh_set(place, work.lossy.earlier_sent[d], eta, work.rates)
                place += work.lossy.earlier_sent[d]

    return weigh_sets


@force_inline
def weigh_set(begin: int, count: int, eta: float, rates: Array) -> None:
    """Fill in the rates of one set of points."""
    if count:
        rate = eta / count
        for k in range(begin, begin + count):
            rates[k] = rate


def steps_of(ideal: bool) -> Compiled:
    """Return the function that takes a learner's step, on ideal or other links."""

    @force_inline
    def take(i: int, taken: int, sample: OwnPoints, network: Network, spare: Scratch) -> None:
        """Take node i's step with the gradients at ``taken`` points, in scratch memory if its state has no room."""
        functions, work = network.kinds.functions[network.kinds.of[i]], network.work
        points, targets, values, rows = sample
        outputs, inputs = values.shape[1], points.shape[1]
        tools, numbers, state, counts, _ = learner_of(i, network)
        if not ideal or taken > points.shape[0]:
            points = rows_of(work.points, 0, taken)
        repack, in_scratch, capacity = functions[REPACK], False, 0
        if ideal:
            in_scratch, capacity = counts[ROOM] < taken, capacity_of(counts)
            if in_scratch:
                repack_at(repack)(state, counts, spare.storage, inputs, outputs, counts[ORDER] + taken)
                state = spare.storage
        certain = network.coupling.certainty > 0.0 and network.links.start[i + 1] > network.links.start[i]
        given = StepArguments(
            tools,
            numbers,
            state,
            counts,
            network.scratch,
            points,
            rows,
            rows_of(work.gradients, 0, taken),
            line(work.rates, 0, taken),
            line(work.stiffness, 0, taken),
            network.coupling.implicit,
            work.sizes,
            values,
            targets,
            rows_of(work.taught, 0, taken if certain else 0),
        )
        network.sums.compression_error[i] += step_at(functions[STEP])(given)
        if ideal and in_scratch:
            put_back(i, repack, network.states, counts, spare, capacity, taken, inputs, outputs)

    return take


def summing(ideal: bool) -> Compiled:
    """Return the function that sums the inner products at the points of a node's next implicit step."""

    @force_inline
    def sum_rows(
        i: int,
        t: int,
        points: Array,
        rows: Array,
        values: Array,
        eta: float,
        network: Network,
        own: Own,
        others: Array,
    ) -> None:
        """Fill in node i's row sums, ``own.row_sums``, and ``others`` at its neighbours' points; also its variances if
        they are sent."""
        links, work, symmetric = network.links, network.work, network.coupling.symmetric
        certain, reach = network.coupling.certainty > 0.0, network.kinds.reach[network.kinds.of[i]]
        size, at, taken, degree = own.samples[t, i], own.sent[t, i], len(points), links.start[i + 1] - links.start[i]
        tools, numbers, state, counts, _ = learner_of(i, network)
        gram, row_sums = table(network.scratch, 0, taken, taken), line(work.row_sums, 0, taken)
        inner_at(network.kinds.functions[network.kinds.of[i], INNER])(
            tools, numbers, state, counts, points, rows, values, gram
        )
        own.products[i, 0], own.products[i, 1] = own_products(gram, size)
        pair_row_sums_in(gram, at, degree, eta, row_sums)
        for k in range(at):
            own.row_sums[i, k] = row_sums[k]
            if certain:
                own.variances[i, k] = gram[k, k] / reach
        if symmetric:
            for e in range(links.start[i], links.start[i + 1]):
                if ideal:
                    count, place = own.sent[t, links.other[e]], answer_over(e, t, links, own)
                else:
                    count, place = own.neighbor_points[e], e * own.values.shape[1]
                answered = line(others, place, count)
                for k in range(count):
                    answered[k] = row_sums[at + k]
                if certain:
                    variances = line(own.answer_variances, place, count)
                    for k in range(count):
                        variances[k] = gram[at + k, at + k] / reach
                at += count

    return sum_rows
