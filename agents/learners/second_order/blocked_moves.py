"""Large steps of :mod:`~kernelswarm.agents.learners.second_order.moves`, by matrix products."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.arithmetic.blocks import blocked_komp, blocked_projection
from kernelswarm.agents.arithmetic.blocks.routines import product
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.functions.informed_expansion import Information
from kernelswarm.agents.learners.second_order import (
    blocked_information,
    blocked_rotations,
    information,
    moves,
    taking_in,
)
from kernelswarm.agents.learners.second_order.taking_in import RENEWED, Terms
from kernelswarm.agents.learners.second_order.taught import absorb_taught
from kernelswarm.protocols.compiling import ReadOnly, inline_always
from kernelswarm.protocols.solving.noise_variance import learn_noise

Array = npt.NDArray[np.float64]
LONG_LOOPS = True


class Numbers(NamedTuple):
    """The learner's numbers in a step."""

    epsilon: float
    limit: float
    ridge: float
    forgetting: float


@inline_always
def move(
    tables: Tables,
    known: Information,
    before: int,
    at: Added,  # the step's points, with the weights of the first-order step
    values: ReadOnly,  # (n, C), f at the samples
    terms: Terms,
    numbers: Numbers,
    cursor: float,
) -> tuple[int, float, int, float]:
    """Choose the dictionary, have the information follow, add pulls, samples and what was taught, and solve.

    Returns the points that there are, the error of the choice, the changes of the factor, and the coordinate whose
    ridge is renewed next.
    """
    root, moments, _ = known
    capacity, size, ridge = len(root), len(at.points), numbers.ridge
    origins, arrivals = np.empty((capacity, 1)), np.empty((size, 1))
    for j in range(before):
        origins[j, 0] = j
    for n in range(size):
        arrivals[n, 0] = before + n
    entering, projections, rest = blocked_projection.offered(tables.factor, before, at.cross, at.gram, at.weights)
    offered = np.empty((len(entering), at.weights.shape[1]))
    for i in range(len(entering)):
        copy_vector(at.weights[entering[i]], offered[i])
    shift = product(projections, True, len(entering), before, offered)
    for j in range(before):
        for c in range(shift.shape[1]):
            tables.weights[j, c] -= shift[j, c]
    # KOMP moves points and never looks at them: given their places, it tells where each of those that stay was.
    places = Tables(origins, tables.weights, tables.factor, tables.precision)
    added = Added(arrivals, at.weights, at.cross, at.gram)
    order, error, changes, done = blocked_komp.compress(
        places, before, added, entering, projections, rest, 1.0, numbers.epsilon, numbers.limit
    )
    if not done:
        order, error, changes = komp.project(places, before, added, 1.0, numbers.epsilon, numbers.limit, 0)
    stays = np.empty(order, np.int64)
    for k in range(order):
        stays[k] = int(origins[k, 0])
    features, sums, gone = blocked_information.follow(
        root, moments, stays, before, entering, projections, rest, at.gram, at.cross, ridge
    )
    if changes:
        moves.follow(origins, before, order, tables.points, at.points)
    cursor = take_in(tables, known, order, features, sums, gone, values, terms, numbers, cursor)
    blocked_information.solve(root, moments, order, tables.weights)
    return order, error, changes, cursor


@inline_always
def take_in(
    tables: Tables,
    known: Information,
    order: int,
    features: Array,  # (r + N, M) as of `blocked_information.follow`
    sums: Array,  # (r + N, C)
    gone: int,  # r
    values: ReadOnly,
    terms: Terms,
    numbers: Numbers,
    cursor: float,
) -> float:
    """Add pulls, samples and what was taught to the information, which has followed the dictionary.

    Returns the coordinate whose ridge is renewed next.
    """
    root, moments, noise = known
    factor, aims, bends = tables.factor, terms.aims, terms.curvatures
    count, capacity, outputs = len(aims), len(root), moments.shape[1]
    fresh = features[gone:]
    untaught = fresh.copy() if len(terms.taught) else fresh
    lost = 1.0 - math.pow(numbers.forgetting, float(count))
    if gone and (lost != 0.0 or terms.coupled):  # a triangle is wanted before samples come
        blocked_rotations.absorb(root, moments, features[:gone], sums[:gone])
        features, sums, gone = fresh, sums[gone:], 0
    if terms.coupled:
        pulled = product(fresh, True, len(fresh), order, terms.pulls)
        if terms.unit > 0.0:
            information.pull(root, moments, order, pulled, terms.unit)
        else:
            images = product(factor, False, order, order, pulled)
            blocked_information.shift(root, moments, order, product(factor, True, order, order, images))
    if lost != 0.0:
        information.forget(root, moments, order, 1.0 - lost)
    errors = sums[:count]
    if gone:
        errors = np.empty((count, outputs))
        for n in range(count):
            for c in range(outputs):
                errors[n, c] = (aims[n, c] - values[n, c]) * math.sqrt(bends[n])
    blocked_information.weigh(features, sums, gone, bends, aims)
    blocked_rotations.absorb(root, moments, features[: gone + count], sums[: gone + count])
    # With what points that leave have left in the sums, what remains of these is not the samples' own any more.
    # Their plain errors, in its place, say a little too much: 1 + v times the noise.
    learn_noise(noise, errors, bends, lost)
    if lost != 0.0:
        room, row = np.empty(RENEWED * (capacity + outputs)), np.empty(capacity)
        cursor = taking_in.renew(root, moments, order, factor, numbers.ridge, lost, cursor, room, row)
    if len(terms.taught):
        absorb_taught(root, moments, order, untaught, terms.taught)
    return cursor
