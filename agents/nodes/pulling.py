"""Pulls of neighbours on a node in arrays, at own points, at neighbours' points and at points with late answers, and
differences of the answers.

The functions for ideal and for other links share their code: the kind of links is a constant.
"""

from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.abi import ORDER, loss_values_at
from kernelswarm.agents.arithmetic.views import cube, line, line_of, rows_of, table, table_of
from kernelswarm.agents.nodes.agent import learn_from_one_in, learn_from_surer_in
from kernelswarm.agents.nodes.arrays import (
    ABSENT,
    CONSTRAINT_VALUES,
    COUPLING_GRADIENT,
    COUPLING_GRADIENT_AT_NEIGHBOR,
    DONE,
    JUDGE,
    LOSS_VALUES,
    UNSTABLE,
    Gathered,
    Network,
    Own,
    Received,
    answer_over,
)
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import constraints_at, coupling_gradient_at, neighbor_gradient_at
from kernelswarm.protocols.core.addresses import NONE, Compiled
from kernelswarm.protocols.core.compiling import force_inline, inline_always
from kernelswarm.protocols.coupling import clip_pulls, gather_in, mean_square_differences_in, step_damping, total


class Answered(NamedTuple):
    """The neighbours' answers at the points of a node's step, and the node's row sums there."""

    answers: Array  # (degree, n, C)
    row_sums: Array  # (n,)


@inline_always
def edges_of(i: int, network: Network) -> Array:
    """Return the protocol's matrix (k, deg) of node i's edges."""
    start, rows = network.links.start, network.coupling.rows
    return table(network.links.state, rows * start[i], rows, start[i + 1] - start[i])


def answers_of(ideal: bool) -> Compiled:
    """Return the function that finds the answers of a node's neighbours, on ideal or other links."""

    @force_inline
    def answer(i: int, values: Array, network: Network, own: Own, received: Received) -> Answered:
        """Return the answers at the points of node i's step.

        Without a prompt answer they are its own ``values`` (n, C), or NaN for a protocol that judges answers.
        """
        links, work, room, (size, outputs) = network.links, network.work, own.values.shape[1], values.shape
        begin, degree = links.start[i], links.start[i + 1] - links.start[i]
        if ideal:
            answers = cube(received.answers, begin * room * outputs, degree, size, outputs)
            row_sums = line(own.row_sums, i * room, size)
        else:
            answers, row_sums = cube(work.lossy.answers, 0, degree, size, outputs), line(work.row_sums, 0, size)
            judged = network.coupling.functions[JUDGE] != NONE
            for d in range(degree):
                at = work.lossy.answer_at[d]
                prompt = at != ABSENT and work.lossy.earlier_at[d] == ABSENT
                taken = table_of(received.answers, at, size) if prompt else values
                for k in range(size):
                    for c in range(outputs):
                        answers[d, k, c] = taken[k, c] if prompt or not judged else np.nan
        return Answered(answers, row_sums)

    return answer


def weighing_of(ideal: bool) -> Compiled:
    """Return the function that weighs pulls by the age of their answers, on ideal or other links."""

    @force_inline
    def weigh(
        i: int, pulls: Array, bounds: Array, own_row_sums: Array, network: Network, own: Own, received: Received
    ) -> None:
        """Weigh the pulls (degree, n, C) and their bounds (degree, n), and fill in the row sums of each pair."""
        links, coupling, work = network.links, network.coupling, network.work
        (degree, size), outputs, room = bounds.shape, pulls.shape[2], own.values.shape[1]
        row_sums = table(work.pair_row_sums, 0, degree, size)
        for d in range(degree):
            if ideal:
                at, share = links.start[i] * room + d * size, 1.0
            else:
                at = work.lossy.answer_at[d]
                share = work.lossy.answer_share[d] if at != ABSENT and work.lossy.earlier_at[d] == ABSENT else 0.0
                for k in range(size):
                    bounds[d, k] = bounds[d, k] * share if share > 0.0 else 0.0
                    for c in range(outputs):
                        pulls[d, k, c] = pulls[d, k, c] * share if share > 0.0 else 0.0
            if coupling.implicit:
                if not ideal:
                    at *= room
                others = line(received.answer_row_sums, at, size) if coupling.symmetric else own_row_sums
                for k in range(size):
                    row_sums[d, k] = own_row_sums[k] + others[k] if share > 0.0 else 0.0

    return weigh


def teaching_of(ideal: bool) -> Compiled:
    """Return the function that uses answers with smaller variances as observations, on ideal or other links."""

    @force_inline
    def learn_from_surer(
        i: int, samples: int, values: Array, answers: Array, network: Network, own: Own, received: Received
    ) -> None:
        """Convert answers with smaller variances to observations, and remove them from the pulls."""
        work, room, (degree, size, outputs) = network.work, own.values.shape[1], answers.shape
        batch_size = own.batch_sizes[i]
        if ideal:
            variances = line_of(own.variances, i, size)
            others = table(received.answer_variances, network.links.start[i] * room, degree, size)
        else:
            variances, others = line(work.lossy.variances, 0, size), table(work.lossy.answer_variances, 0, degree, size)
            for d in range(degree):
                at = work.lossy.answer_at[d]
                prompt = at != ABSENT and work.lossy.earlier_at[d] == ABSENT
                their_variances = line_of(received.answer_variances, at, size) if prompt else variances
                for k in range(size):
                    others[d, k] = their_variances[k] if prompt else np.inf
        learn_from_surer_in(
            network.coupling.certainty,
            variances,
            others,
            values,
            answers,
            cube(work.pull, 0, degree, size, outputs),
            table(work.bounds, 0, degree, size),
            samples,
            (samples / batch_size if samples < batch_size else 1.0, (size - samples) / batch_size),
            rows_of(work.taught, 0, size),
        )

    return learn_from_surer


def pulls_of(ideal: bool) -> Compiled:
    """Return the function that adds the pull of answers to a node's gradient, on ideal or other links."""

    answer, weigh, learn_from_surer = answers_of(ideal), weighing_of(ideal), teaching_of(ideal)

    @force_inline
    def pull(
        i: int, t: int, rate: float, gathered: Gathered, network: Network, own: Own, received: Received
    ) -> tuple[int, float, float]:
        """Add the pull of the answers at the points of step ``t``; returns DONE or why the step is impossible, the
        curvature, and the damping of the step."""
        kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
        outputs, samples, size = own.values.shape[2], own.samples[t, i], own.sent[t, i]
        degree, kind = links.start[i + 1] - links.start[i], kinds.of[i]
        values, edges = table_of(own.values, i, size), edges_of(i, network)
        pulls, bounds = cube(work.pull, 0, degree, size, outputs), table(work.bounds, 0, degree, size)
        row_sums, pulling = table(work.pair_row_sums, 0, degree, size), work.pulling
        batch_size = own.batch_sizes[i]
        answered = answer(i, values, network, own, received)
        coupling_gradient_at(coupling.functions[COUPLING_GRADIENT])(
            coupling.numbers, edges, values, answered.answers, pulls, bounds
        )
        weigh(i, pulls, bounds, answered.row_sums, network, own, received)
        if coupling.certainty > 0.0:
            learn_from_surer(i, samples, values, answered.answers, network, own, received)
        if ideal and not samples:
            return DONE, 0.0, 1.0
        strength, limited = gather_in(pulls, bounds, row_sums, batch_size, pulling, 0, samples)
        if not ideal:
            reason, strength = pull_late(i, batch_size, rate, strength, gathered, network, received)
            if reason != DONE or not samples:
                return reason, strength, 1.0
        curvature, part = kinds.curvature[kind], 1.0
        if coupling.implicit:
            order, seen = network.states.counts[i, ORDER], network.sums.samples[i]
            part = step_damping(rate, own.products[i, 0], own.products[i, 1], curvature, strength, order, seen)
            if kinds.linear[kind] == 0:
                curvature += limited
        elif rate * kinds.gain[kind] * (kinds.quadratic_curvature[kind] + strength) >= 2.0:
            return UNSTABLE, kinds.quadratic_curvature[kind] + strength, 1.0
        for k in range(samples):
            for c in range(outputs):
                work.gradients[k, c] += pulling[k, c] / part
        return DONE, curvature, part

    return pull


@force_inline
def pull_at_replayed(i: int, t: int, rate: float, part: float, network: Network, own: Own) -> tuple[int, float]:
    """Fill in the pulls at replayed points; returns DONE or why the step is impossible, and the curvature."""
    kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
    samples, size, outputs = own.samples[t, i], own.sent[t, i], own.values.shape[2]
    batch_size, degree = own.batch_sizes[i], links.start[i + 1] - links.start[i]
    kind, pulling = kinds.of[i], work.pulling
    pulls, bounds = cube(work.pull, 0, degree, size, outputs), table(work.bounds, 0, degree, size)
    row_sums = table(work.pair_row_sums, 0, degree, size)
    strength, limited = gather_in(pulls, bounds, row_sums, batch_size, pulling, samples, size)
    if not coupling.implicit and rate * kinds.gain[kind] * strength >= 2.0:
        return UNSTABLE, strength
    weight = (size - samples) / batch_size
    for k in range(samples, size):
        work.stiffness[k] = 0.0 if kinds.linear[kind] else limited * weight
        for c in range(outputs):
            work.gradients[k, c] = pulling[k, c] * weight / part
    return DONE, 0.0


@force_inline
def pull_late(
    i: int, batch_size: int, rate: float, strength: float, gathered: Gathered, network: Network, received: Received
) -> tuple[int, float]:
    """Fill in the pulls of late answers at the answered points; returns DONE or why the step is impossible, and the
    strength of all pulls."""
    kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
    lossy = work.lossy
    outputs, edges = received.answers.shape[-1], edges_of(i, network)
    degree, kind = links.start[i + 1] - links.start[i], kinds.of[i]
    at, judged = gathered.prompt, coupling.functions[JUDGE] != NONE
    for d in range(degree if gathered.taken > at else 0):
        if lossy.earlier_at[d] == ABSENT:
            continue
        size, place = lossy.earlier_sent[d], lossy.answer_at[d]
        # The array of prompt answers may be overwritten, but not the array of their pulls if points are replayed.
        answers, pulls = cube(lossy.answers, 0, degree, size, outputs), cube(lossy.pull, 0, degree, size, outputs)
        bounds, both, weight = (
            table(lossy.bounds, 0, degree, size),
            line(lossy.pair_row_sums, 0, size),
            size / batch_size,
        )
        values, answer = rows_of(work.values, at, size), table_of(received.answers, place, size)
        for other in range(degree):
            for k in range(size):
                for c in range(outputs):
                    absent = np.nan if judged else values[k, c]
                    answers[other, k, c] = answer[k, c] if other == d else absent
        coupling_gradient_at(coupling.functions[COUPLING_GRADIENT])(
            coupling.numbers, edges, values, answers, pulls, bounds
        )
        pushed, bound = rows_of(work.gradients, at, size), line_of(bounds, d, size)
        for k in range(size):
            bound[k] *= lossy.answer_share[d]
            for c in range(outputs):
                pushed[k, c] = pulls[d, k, c] * lossy.answer_share[d]
            both[k] = 0.0
        if coupling.certainty > 0.0:
            mine, theirs = line(lossy.variances, at, size), line_of(received.answer_variances, place, size)
            taught = rows_of(work.taught, at, size)
            learn_from_one_in(coupling.certainty, mine, theirs, values, answer, pushed, bound, weight, taught)
        if coupling.implicit:
            own_row_sums = line(work.row_sums, at, size)
            others = own_row_sums
            if coupling.symmetric:
                others = line_of(received.answer_row_sums, place, size)
            for k in range(size):
                both[k] = own_row_sums[k] + others[k]
        one, limited = clip_pulls(pushed, bound, both, batch_size)
        if not coupling.implicit and rate * kinds.gain[kind] * one >= 2.0:
            return UNSTABLE, one
        strength += one
        for k in range(size):
            work.stiffness[at + k] = 0.0 if kinds.linear[kind] else limited * weight
            for c in range(outputs):
                pushed[k, c] *= weight
        at += size
    return DONE, strength


def pulls_at_neighbors_of(ideal: bool) -> Compiled:
    """Return the function that fills in the pulls at the neighbours' points, on ideal or other links."""

    @force_inline
    def pull_at_neighbors(
        i: int, t: int, eta: float, part: float, network: Network, own: Own, received: Received
    ) -> tuple[int, float]:
        """Fill in pulls at the neighbours' points; returns DONE or why the step is impossible, and the curvature."""
        kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
        begin, degree, kind = links.start[i], links.start[i + 1] - links.start[i], kinds.of[i]
        edges = edges_of(i, network)
        at = own.sent[t, i]
        for d in range(degree):
            samples = own.batch_sizes[links.other[begin + d]]
            size = own.sent[t, links.other[begin + d]] if ideal else work.lossy.values_sent[d]
            if not size:
                continue
            bounds, both = line(work.bounds, 0, size), line(work.pair_row_sums, 0, size)
            rate, weight = eta / samples, size / samples
            if ideal:
                place, dual = links.other[begin + d], received.duals[links.reverse[begin + d]]
                back = answer_over(begin + d, t, links, own)
                mine, own_row_sums = rows_of(received.answers, back, size), line(received.answer_row_sums, back, size)
            else:
                place, dual = work.lossy.values_at[d], work.lossy.duals[d]
                mine, own_row_sums = rows_of(work.values, at, size), line(work.row_sums, at, size)
            pushed, theirs = rows_of(work.gradients, at, size), table_of(received.values, place, size)
            neighbor_gradient_at(coupling.functions[COUPLING_GRADIENT_AT_NEIGHBOR])(
                coupling.numbers, edges, d, dual, mine, theirs, pushed, bounds
            )
            if not ideal:
                for k in range(size):
                    bounds[k] *= work.lossy.values_share[d]
                    for c in range(pushed.shape[1]):
                        pushed[k, c] *= work.lossy.values_share[d]
            if coupling.certainty > 0.0:
                own_variances = (
                    line(own.answer_variances, back, size) if ideal else line(work.lossy.variances, at, size)
                )
                their_variances = line_of(received.variances, place, size)
                taught = rows_of(work.taught, at, size)
                learn_from_one_in(
                    coupling.certainty, own_variances, their_variances, mine, theirs, pushed, bounds, weight, taught
                )
            row_sums = line_of(received.row_sums, place, size)
            for k in range(size):
                both[k] = own_row_sums[k] + row_sums[k] if coupling.implicit else 0.0
            strength, limited = clip_pulls(pushed, bounds, both, samples)
            if not coupling.implicit and rate * kinds.gain[kind] * strength >= 2.0:
                work.rates[0] = rate
                return UNSTABLE, strength
            for k in range(size):
                work.stiffness[at + k] = 0.0 if kinds.linear[kind] else limited * weight
                for c in range(pushed.shape[1]):
                    pushed[k, c] = pushed[k, c] * weight / part
            at += size
        return DONE, 0.0

    return pull_at_neighbors


def constraints_of(ideal: bool) -> Compiled:
    """Return the function that compares a node's values with its neighbours' answers, on ideal or other links."""

    @force_inline
    def compare(
        i: int,
        own_sent: int,
        targets: Array,
        loss: float,
        gathered: Gathered,
        network: Network,
        own: Own,
        received: Received,
    ) -> None:
        """Fill in the constraint values and the excess losses of a node's edges, NaN for missing answers."""
        kinds, links, coupling, work = network.kinds, network.links, network.coupling, network.work
        own_size, room, outputs = len(targets), own.values.shape[1], own.values.shape[2]
        begin, degree, kind = links.start[i], links.start[i + 1] - links.start[i], kinds.of[i]
        loss_numbers = line_of(kinds.loss_numbers, kind, kinds.loss_number_counts[kind])
        loss_values = loss_values_at(kinds.functions[kind, LOSS_VALUES])
        new = network.sums.samples[i] <= network.sums.distinct[i]
        at = gathered.prompt
        for d in range(degree):
            size, sent, before = own_size, own_sent, loss
            values, wanted = table_of(own.values, i, sent), targets
            at_answer = begin * room + d * sent
            if not ideal:
                place = work.lossy.answer_at[d]
                at_answer = place * room
                work.constraint_values[d] = work.differences[d] = work.excess_loss[d] = np.nan
                if place == ABSENT:
                    continue
                earlier = work.lossy.earlier_at[d]
                if earlier != ABSENT:
                    size, sent = work.lossy.earlier_samples[d], work.lossy.earlier_sent[d]
                    values = rows_of(work.values, at, sent)
                    at += sent
                    if not size:
                        continue  # replayed points have no targets
                    wanted = table_of(own.earlier_targets, earlier, size)
                    predicted = rows_of(values, 0, size)
                    if work.lossy.predicted_at[d] != ABSENT:
                        predicted = table_of(own.earlier_values, earlier, size)
                    if coupling.compares_losses and new:
                        losses = line(work.losses, 0, size)
                        loss_values(loss_numbers, predicted, wanted, losses)
                        before = total(losses)
            answer = cube(received.answers, at_answer * outputs, 1, sent, outputs)
            mean_square_differences_in(values, answer, line(work.differences, d, 1))
            if coupling.functions[CONSTRAINT_VALUES] == NONE:
                work.constraint_values[d] = work.differences[d]
            else:
                constraints_at(coupling.functions[CONSTRAINT_VALUES])(
                    values, answer, line(work.constraint_values, d, 1)
                )
            for compared in (work.constraint_values, work.differences):
                if np.isnan(compared[d]):
                    compared[d] = np.inf  # NaN would mean a missing answer
            if coupling.compares_losses:
                work.excess_loss[d] = np.nan
                if new:
                    losses = line(work.losses, 0, size)
                    loss_values(loss_numbers, rows_of(answer, 0, size), wanted, losses)
                    excess = (total(losses) - before) / size
                    work.excess_loss[d] = np.inf if np.isnan(excess) else excess

    return compare
