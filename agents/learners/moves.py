"""The changes of a second-order step to the dictionary, to the information on it, and to the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.abi import (
    LOSS_DERIVATIVES,
    LOSS_VALUES,
    StepArguments,
    loss_derivatives_at,
    loss_values_at,
)
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables, split
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.learners import information, observations
from kernelswarm.agents.learners.observations import (
    RENEWED,
    Memory,
    Moved,
    Terms,
    exchange,
    settle,
    take_in,
    weigh_sums,
)
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import NONE, address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.parameters.least_squares import learn_noise

LONG_LOOPS = True


@cached_njit
def part_ways(
    gradients: Array,  # (N, C), of losses plus coupling; overwritten with the weights of a first-order step
    slopes: Array,  # (n, C), derivatives of the losses alone, at the node's own samples
    values: ReadOnly,  # (n, C)
    curvatures: Array,  # (n,)
    rates: ReadOnly,  # (N,)
    part: float,
    aims: Array,  # (n, C)
    pulls: Array,  # (N, C)
) -> bool:
    """Separate the targets of own samples, ``f - l' / r``, from the weights of the neighbours' pulls.

    Returns whether there are nonzero pulls.
    """
    size, outputs = gradients.shape
    count, coupled = len(slopes), False
    for n in range(size):
        for c in range(outputs):
            pull = gradients[n, c]
            if n < count:
                pull -= part * slopes[n, c]
                aims[n, c] = values[n, c] - slopes[n, c] / curvatures[n]
            coupled = coupled or pull != 0.0
            pulls[n, c] = -rates[n] * pull
            gradients[n, c] *= -rates[n]
    return coupled


@cached_njit
def withhold(weights: Array, pulls: ReadOnly, offered: ReadOnly) -> None:
    """Remove the loss's part from the first-order step (N, C) at own samples whose entry of ``offered`` (n,) is 0."""
    for n in range(len(offered)):
        if offered[n] == 0.0:
            copy_vector(pulls[n], weights[n])


@inline_always
def choose(
    komp_work: Array,  # (5, capacity)
    work: Array,  # size: `room`; on return it begins with the points' former indices
    tables: Tables,
    before: int,
    new_weights: Array,  # (N, C), of the first-order step
    cross: Array,  # (N, M or more)
    gram: Array,  # (N, N)
    epsilon: float,
    limit: float,
) -> tuple[Moved, float, int]:
    """Choose the dictionary by KOMP, and update its factor.

    KOMP compresses f plus the part of a first-order step outside the span of the dictionary. Thus old points are judged
    by the change of f without them, and new points by their contribution outside the span.

    Returns the moves of the points, the compression error, and the number of changes of the factor.
    """
    weights, factor = tables.weights, tables.factor
    capacity, size = len(factor), len(new_weights)
    origins, arrivals = table(work, 0, capacity, 1), table(work, 2 * capacity, size, 1)
    for j in range(before):
        origins[j, 0] = j
    for n in range(size):
        arrivals[n, 0] = before + n
    outputs = new_weights.shape[1]
    if size == 1:
        # KOMP also needs the point's projection.
        split(factor, before, line(cross, 0, before), gram[0, 0], komp_work[1], komp_work[2])
        for j in range(before):
            for c in range(outputs):
                weights[j, c] -= komp_work[2, j] * new_weights[0, c]
    else:
        first = 2 * capacity + size * (1 + capacity)
        sums, change = table(work, first, capacity, outputs), table(work, first + capacity * outputs, capacity, outputs)
        weigh_sums(cross, new_weights, before, sums)
        information.project(factor, before, sums, change)
        for j in range(before):
            for c in range(outputs):
                weights[j, c] -= change[j, c]
    # KOMP moves points and never looks at them: given their indices, it returns the former index of each staying point.
    places = Tables(origins, weights, factor, tables.precision)
    added = Added(arrivals, new_weights, cross, gram)
    order, error, changes = komp.project_in(komp_work, places, before, added, 1.0, epsilon, limit, 0, size == 1)
    return Moved(work, factor, before, order, count_kept(origins, before, order), cross, gram), error, changes


@cached_njit
def count_kept(origins: Array, before: int, order: int) -> int:
    """Return the number of points that were in the dictionary before the step."""
    kept = 0
    while kept < order and origins[kept, 0] < before:
        kept += 1
    return kept


@cached_njit
def leaving_points(moved: Moved, points: Array) -> Array:
    """Return the leaving points, (r, p); called before the points are reordered."""
    found = np.empty((moved.before - moved.kept, points.shape[1]))
    stays = place = 0
    for j in range(moved.before):
        if stays < moved.kept and moved.work[stays] == j:
            stays += 1
            continue
        copy_vector(points[j], found[place])
        place += 1
    return found


@inline_always
def apply_moves(
    tables: Tables,
    memory: Memory,
    moved: Moved,
    changes: int,
    new_points: ReadOnly,  # (N, p)
    leaving: Array,  # (r, before), the kernel between leaving and all earlier points; no rows unless new points enter
    terms: Terms,
    ridge: float,
    forgetting: float,  # not used if the memory is adaptive
    cursor: float,
) -> float:
    """Update the information after changes of the dictionary, add pulls, samples and taught observations, and solve.

    Returns the coordinate whose ridge is renewed next.
    """
    known, adaptive = memory.known, len(memory.window) > 0
    if changes:
        if adaptive:
            follow_information(memory.recent, moved, leaving, ridge)
        follow_information(known, moved, leaving, ridge)
        follow(table(moved.work, 0, len(tables.points), 1), moved.before, moved.order, tables.points, new_points)
    if adaptive:
        cursor = observations.learn(memory, moved, terms, ridge, cursor)
    else:
        share = forgetting ** len(terms.aims)
        take_in(known, moved, terms, terms.aims, share)
        learn_noise(known.noise, terms.aims, terms.curvatures, terms.of_weight_one, 1.0 - share)
        cursor = settle(known, moved, ridge, 1.0 - share, cursor, terms.taught)
    information.solve(known.root, known.moments, moved.order, tables.weights)
    return cursor


@cached_njit
def follow_information(known: Information, moved: Moved, leaving: Array, ridge: float) -> None:
    """Remove the leaving points from the information, and add the new ones."""
    root, moments, _ = known
    before, order, kept = moved.before, moved.order, moved.kept
    product = line(moved.work, len(root), len(root))
    if kept < before and kept < order:
        total = before - kept + order - kept
        exchange(known, moved, leaving, ridge, np.empty(total * (len(root) + total + 1)))
    elif kept < before:
        information.keep(root, moments, before, line(moved.work, 0, len(root)), kept, product)
    else:
        for place in range(kept, order):
            information.append(root, moments, place, moved.factor, ridge, product)


@cached_njit
def room(capacity: int, size: int, outputs: int) -> int:
    """Return the size, in numbers, of the working memory of :func:`choose` and :func:`apply_moves`."""
    return 2 * capacity + size * (1 + capacity) + (2 * outputs + RENEWED) * capacity + RENEWED * outputs


@cached_njit
def follow(origins: Array, before: int, order: int, points: Array, new_points: ReadOnly) -> None:
    """Reorder the points as KOMP has reordered their indices."""
    for place in range(order):
        origin = int(origins[place, 0])
        if origin >= before:
            copy_vector(new_points[origin - before], points[place])
        elif place < origin:
            copy_vector(points[origin], points[place])


@cached_njit
def products(root: Array, factor: Array, order: int, rows: ReadOnly, ridge: float, reach: float, gram: Array) -> None:
    """Overwrite the kernel between points (n, n) with the change of f at each point for a weight of 1 at each point."""
    information.uncertainty(root, factor, order, rows, ridge, gram)
    for n in range(len(gram)):
        for m in range(len(gram)):
            gram[n, m] *= reach


# The terms of a step's own samples and of the neighbours' pulls, in compiled code.

RIDGE, FORGETTING, BATCH_SIZE, CURVATURE, OF_WEIGHT_ONE, REACH, OWN, LOSS_NUMBERS, FIRST = range(9)
"""Indices among the learner's numbers: lambda, the forgetting factor, b, the loss's largest curvature, the curvature of
a sample of weight 1 (0 without sample weights), the reach of a pull, a number of the learner's own, the count of the
loss's numbers, and the first of the loss's numbers."""


def numbers_of(learner: Any, own: float, forgetting: float = 1.0) -> Array:
    """Return the learner's numbers; ``own`` is a number of its own, and ``forgetting`` is 0 if it is adaptive."""
    loss = loss_form(learner.loss)
    head = [learner.penalty, forgetting, learner.batch_size, learner.loss.curvature]
    head += [learner.of_weight_one, learner.reach, own]
    return np.concatenate([np.array([*head, len(loss.numbers)], dtype=np.float64), loss.numbers])


def tools_of(learner: Any) -> tuple[int, int]:
    """Return the addresses of the loss's derivatives and of its curvatures."""
    loss = loss_form(learner.loss)
    bends: Callable[..., Any] | None = loss.curvatures
    return address(loss.derivatives, LOSS_DERIVATIVES), NONE if bends is None else address(bends, LOSS_VALUES)


@cached_njit
def terms_room(points: int, outputs: int) -> int:
    """Return the size, in numbers, of the working memory of `terms`."""
    return points * (3 * outputs + 1)


class Asked(NamedTuple):
    """A learner's numbers for its loss and for the neighbours' pulls."""

    loss_numbers: Array
    curvature: float  # the loss's largest
    of_weight_one: float
    batch_size: float
    reach: float


@inline_always
def asked_in(own: Array) -> Asked:
    """Return the numbers of the learner's loss and pulls by name."""
    return Asked(
        line(own, FIRST, int(own[LOSS_NUMBERS])), own[CURVATURE], own[OF_WEIGHT_ONE], own[BATCH_SIZE], own[REACH]
    )


@inline_always
def terms(given: StepArguments, asked: Asked, work: Array, derivatives: int) -> Terms:
    """Separate the terms of own samples from the neighbours' pulls, in the working memory ``work`` (`terms_room`).

    An own sample has a curvature and an aim ``f - l' / r``, and its gradient holds the pull beside the loss's slope.
    ``derivatives`` is the index of the address of the loss's derivatives; the address of its curvatures follows. The
    gradients are overwritten with the weights of a first-order step.
    """
    values, targets, gradients, bends = given.values, given.targets, given.gradients, given.tools[derivatives + 1]
    count, outputs = values.shape
    slopes, aims = table(work, 0, count, outputs), table(work, count * outputs, count, outputs)
    curvatures = line(work, 2 * count * outputs, count)
    pulls = table(work, count * (2 * outputs + 1), len(gradients), outputs)
    loss_derivatives_at(given.tools[derivatives])(asked.loss_numbers, values, targets, slopes)
    if bends == NONE:
        for n in range(count):
            curvatures[n] = asked.curvature
    else:
        loss_values_at(bends)(asked.loss_numbers, values, targets, curvatures)
    part = 1.0 if count >= asked.batch_size else count / asked.batch_size  # as descent.share
    coupled = part_ways(gradients, slopes, values, curvatures, given.rates, part, aims, pulls)
    unit = asked.reach if given.implicit else 0.0
    return Terms(coupled, pulls, unit, curvatures, asked.of_weight_one, aims, given.taught)
