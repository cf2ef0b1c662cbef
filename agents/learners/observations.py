"""Updates of the information by pulls, samples and taught values, on a fixed dictionary."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.learners import information
from kernelswarm.agents.learners.information import keep
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, force_inline, inline_always
from kernelswarm.protocols.parameters.least_squares import MEAN, STEPS, learn_noise, take_over

# Values that surer neighbours taught, taken into the information as observations.

LONG_LOOPS = True


@cached_njit
def absorb_taught(root: Array, moments: Array, order: int, features: ReadOnly, taught: ReadOnly) -> None:
    """Rotate taught values into the triangle one after the other, with curvatures computed from their variances.

    At a point with the features z the node's variance is ``v = z' inv(R'R) z``. A taught value with the variance w is
    an observation of curvature ``1 / w - 1 / v``, so that the variance becomes w. If v <= w, the value is ignored.
    Several values at one point, or at nearby points, thus count only for the information that each adds.

    Parameters
    ----------
    root, moments : Array
        R (M, M) and Q (M, C); their rows may be longer.
    order : int
        M, the number of features.
    features : Array
        z of each point, (N, M or more).
    taught : Array
        (N, 2 C + 1), or no rows: the values come first, and w comes last; w = 0 if nothing was taught at the point.
    """
    outputs = moments.shape[1]
    known, row, aim = np.empty(order), np.empty((1, order)), np.empty((1, outputs))
    for n in range(len(taught)):
        variance = taught[n, 2 * outputs]
        if not variance > 0.0:
            continue
        for i in range(order):
            known[i] = features[n, i]
        information.forward(root, order, known)
        own = dot(known, 0, known, order)
        if not own > variance:
            continue
        scale = math.sqrt(1.0 / variance - 1.0 / own)
        for i in range(order):
            row[0, i] = scale * features[n, i]
        for c in range(outputs):
            aim[0, c] = scale * taught[n, c]
        information.absorb(root, moments, order, row, aim, known)


@cached_njit
def offer_taught(weights: Array, rates: ReadOnly, curvature: float, taught: ReadOnly) -> None:
    """Add to the weights (N, C) of a first-order step the terms of samples whose targets are the taught values."""
    outputs = weights.shape[1]
    for n in range(len(taught)):
        for c in range(outputs):
            weights[n, c] -= rates[n] * (curvature * taught[n, outputs + c])


RENEWED = 8
"""The number of coordinates whose ridge is renewed together."""


class Moved(NamedTuple):
    """The changes of the dictionary in a step, and the kernel between the step's points and the earlier dictionary."""

    work: Array  # begins with each dictionary point's index before the step
    factor: Array  # (capacity, capacity), after the step
    before: int  # the number of points before the step
    order: int  # the number of points after the step
    kept: int  # the number of earlier points that stay
    cross: Array  # (N, before or more)
    gram: Array  # (N, N)


class Terms(NamedTuple):
    """Neighbours' pulls, the targets of a step's own samples, and values taught by neighbours."""

    coupled: bool  # whether there are pulls
    pulls: Array  # (N, C), the weights of the coupling
    unit: float  # factor of the posterior covariance by which pulls move f; 0: they move f along the kernel
    curvatures: Array  # (n,)
    of_weight_one: float  # the curvature of a sample of weight 1 if samples are weighted, otherwise 0
    aims: Array  # (n, C), overwritten
    taught: ReadOnly  # (N, 2 C + 1), or no rows


@force_inline
def take_in(known: Information, moved: Moved, terms: Terms, aims: Array, share: float) -> None:
    """Add pulls and samples to the information; before samples are added, it is multiplied by ``share``.

    The aims (n, C) are overwritten with the residuals.
    """
    root, moments, _ = known
    work, pulls, order = moved.work, terms.pulls, moved.order
    size, outputs = pulls.shape
    capacity, count = len(root), len(aims)
    product = line(work, capacity, capacity)
    fresh = table(work, 2 * capacity + size, size, capacity)
    gather(moved, fresh)
    first = 2 * capacity + size * (1 + capacity)
    if terms.coupled:
        sums = table(work, first, capacity, outputs)
        change = table(work, first + capacity * outputs, capacity, outputs)
        weigh_sums(fresh, pulls, order, sums)
        if terms.unit > 0.0:
            information.pull(root, moments, order, sums, terms.unit)
        else:
            information.project(moved.factor, order, sums, change)
            information.shift(root, moments, order, change)
    if share < 1.0 and count:
        information.forget(root, moments, order, share)
    for n in range(count):
        scale_row(fresh, n, order, aims, math.sqrt(terms.curvatures[n]))
    information.absorb(root, moments, order, table(fresh, 0, count, capacity), aims, product)


@force_inline
def settle(
    known: Information,
    moved: Moved,
    ridge: float,
    lost: float,
    cursor: float,
    taught: ReadOnly,  # (N, 2 C + 1), or no rows
) -> float:
    """Renew the ridge after forgetting, and add taught values.

    Returns the coordinate whose ridge is renewed next.
    """
    root, moments, _ = known
    work, size, capacity, outputs = moved.work, len(moved.gram), len(root), moments.shape[1]
    if lost > 0.0:
        first = 2 * capacity + size * (1 + capacity) + 2 * capacity * outputs
        room, product = line(work, first, RENEWED * (capacity + outputs)), line(work, capacity, capacity)
        cursor = renew(root, moments, moved.order, moved.factor, ridge, lost, cursor, room, product)
    if len(taught):
        fresh = table(work, 2 * capacity + size, size, capacity)
        gather(moved, fresh)  # own samples were overwritten
        absorb_taught(root, moments, moved.order, fresh, taught)
    return cursor


@cached_njit
def gather(moved: Moved, fresh: Array) -> None:
    """Fill in the kernel between the step's points and the new dictionary, (N, M)."""
    cross, gram, before = moved.cross, moved.gram, moved.before
    for n in range(len(gram)):
        row = fresh[n]
        for place in range(moved.order):
            origin = int(moved.work[place])
            row[place] = cross[n, origin] if origin < before else gram[n, origin - before]


@cached_njit
def weigh_sums(fresh: Array, pulls: Array, order: int, sums: Array) -> None:
    """Fill in the values at the dictionary of ``sum_n pulls[n] kappa(x_n, .)``, (M, C)."""
    outputs = pulls.shape[1]
    for k in range(order):
        for c in range(outputs):
            sums[k, c] = 0.0
    for n in range(len(pulls)):
        row = fresh[n]
        for k in range(order):
            for c in range(outputs):
                sums[k, c] += row[k] * pulls[n, c]


@cached_njit
def scale_row(rows: Array, n: int, order: int, aims: Array, factor: float) -> None:
    """Multiply a sample's features and its aims by a factor."""
    row = rows[n]
    for k in range(order):
        row[k] *= factor
    for c in range(aims.shape[1]):
        aims[n, c] *= factor


@cached_njit
def renew(
    root: Array,
    moments: Array,
    order: int,
    factor: Array,
    ridge: float,
    lost: float,
    cursor: float,
    scratch: Array,  # (8 (capacity + C),)
    product: Array,
) -> float:
    """Restore the ridge after forgetting in a few coordinates per step, in turn.

    The number of coordinates is chosen so that none loses more than about a quarter of its ridge between its turns.
    """
    if order == 0:
        return cursor
    capacity, outputs = len(root), moments.shape[1]
    left = min(order, math.ceil(4.0 * order * lost))
    weight = math.sqrt(ridge * lost * order / left)
    while left > 0:
        size = min(left, RENEWED)
        rows = table(scratch, 0, size, capacity)
        aims = table(scratch, size * capacity, size, outputs)
        for n in range(size):
            place = int(cursor) if 0.0 <= cursor < order else 0
            information.coordinate(factor, order, place, rows[n])
            for c in range(outputs):
                aims[n, c] = 0.0
            scale_row(rows, n, order, aims, weight)
            cursor = place + 1.0
        information.absorb(root, moments, order, rows, aims, product)
        left -= size
    return cursor


# Exchanges of dictionary points, in the information on them.


@cached_njit
def exchange(
    known: Information,
    moved: Moved,
    leaving: Array,  # (r, before), the kernel between leaving and all earlier points
    ridge: float,
    memory: Array,  # (r + n, capacity + r + n + 1)
) -> None:
    """Replace leaving points by new points.

    The new points inherit the information on leaving points as far as their projections allow: they are first added
    with their projections on all earlier points, and then the leaving points are removed. Let V be the coordinates of
    new and leaving points in an orthonormal basis u of the remaining points' span, and ``C C' = K - V V'``. A new point
    i is

        V_i' u + C_i,going' e + C_i,coming' e'

    The orthonormal functions e span the leaving points' part outside the remaining points' span. The orthonormal
    functions e' span the new points' part outside both; on e' there is no information except the ridge.
    """
    root, moments, _ = known
    capacity, before, kept, order = len(root), moved.before, moved.kept, moved.order
    gone, coming = before - kept, order - kept
    total = gone + coming
    product = line(moved.work, capacity, capacity)
    images, lower = table(memory, 0, total, capacity), table(memory, total * capacity, total, total)
    places = line(memory, total * (capacity + total), total)
    _fill_images(moved, leaving, images, lower, places, product)
    for i in range(coming):
        _project(moved, i, images, lower, places, product)
        for j in range(before):
            root[j, before + i] = dot(root, j * capacity + j, line(product, j, before - j), before - j)
        for q in range(coming):
            root[before + q, before + i] = math.sqrt(ridge) * lower[gone + i, gone + q] if q <= i else 0.0
        for j in range(before):
            root[before + i, j] = 0.0
        for c in range(moments.shape[1]):
            moments[before + i, c] = 0.0
    for k in range(kept):
        images[0, k] = moved.work[k]
    for i in range(coming):
        images[0, kept + i] = before + i
    keep(root, moments, before + coming, images[0], order, product)


@inline_always
def _fill_images(moved: Moved, leaving: Array, images: Array, lower: Array, places: Array, product: Array) -> None:
    """Fill in V (r + n, kept), C (r + n, r + n), and the indices (r,) of the leaving points."""
    origins, cross, gram, factor, kept = moved.work, moved.cross, moved.gram, moved.factor, moved.kept
    before, gone, total = moved.before, moved.before - kept, len(images)
    place = 0
    for j in range(before):
        if j - place < kept and int(origins[j - place]) == j:
            continue
        places[place] = j
        place += 1
    for x in range(total):
        for k in range(kept):
            at = int(origins[k])
            product[k] = leaving[x, at] if x < gone else cross[int(origins[kept + x - gone]) - before, at]
        for k in range(kept):
            images[x, k] = dot(factor, k * factor.shape[1], product, k + 1)
        for y in range(x + 1):
            if x < gone:
                entry = leaving[x, int(places[y])]
            else:
                n = int(origins[kept + x - gone]) - before
                entry = cross[n, int(places[y])] if y < gone else gram[n, int(origins[kept + y - gone]) - before]
            whole = entry
            entry -= dot(images, x * images.shape[1], images[y], kept)
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            # Within rounding, a new point may lie in the span of the earlier points.
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * whole))


@inline_always
def _project(moved: Moved, i: int, images: Array, lower: Array, places: Array, product: Array) -> None:
    """Fill in the projection of the i-th new point on all earlier points, (before,)."""
    gone = moved.before - moved.kept
    x = gone + i
    for k in range(moved.before):
        product[k] = 0.0
    for q in range(gone - 1, -1, -1):  # the weights on leaving points: C_going' b = C_i
        entry = lower[x, q]
        for y in range(q + 1, gone):
            entry -= lower[y, q] * product[int(places[y])]
        entry /= lower[q, q]
        product[int(places[q])] = entry
        for k in range(moved.kept):
            images[x, k] -= entry * images[q, k]
    for k in range(moved.kept):
        share = images[x, k]
        for m in range(k + 1):
            product[int(moved.work[m])] += share * moved.factor[k, m]


# A memory of samples that is cut when recent samples predict better than all samples.
#
# The learner holds the information of all samples in the memory, and a second information that forgets exponentially,
# at a rate that decreases as the memory grows. Both predict each sample before it is added. When the evidence for the
# second exceeds a bound, the second replaces the first: older samples are forgotten, and the memory grows again. While
# the target does not change, nothing is forgotten. The method follows adaptive windows (Bifet and Gavalda 2007), with a
# sequential test (Page 1954) on the likelihoods, and with exponential forgetting instead of stored samples.

MEMORY, RECENT, EVIDENCE, ALL = range(4)
"""Indices in a window: the number of samples in the memory, the effective number of recent samples, the evidence, and
the number of all samples so far."""

WINDOW = 4
"""The length of a window."""

STEEPNESS = 3.0
"""p: with n samples in the memory, each new sample multiplies the weight of recent samples by ``1 - p / n``.

The weight of a sample in the recent information is then the p-th power of its relative position in the memory, counted
from the oldest sample. The mean age is n / 5 instead of n / 2, and the effective number of samples is n / 4. With p = 1
a drift is detected too late; with p = 7 too few samples remain.
"""

FEWEST = 12
"""The size of the memory from which on recent samples are weighted more, so that each discounts at most a quarter."""

LEAST, MOST = 3.0, 5.0
"""Bounds of the evidence (a log likelihood ratio) at which the memory is cut: ratios of 20 and 148.

The largest bound applies if nothing was forgotten yet. A memory much shorter than the past indicates a moving target,
and lowers the bound.
"""

DEGREES = 8.0
"""Degrees of freedom of the Student density of errors; outliers, as in heavy-tailed noise, have little weight."""


class Memory(NamedTuple):
    """The information of all samples in a memory, the information of recent samples, and the window.

    If the memory is not adaptive, the latter two have no rows.
    """

    known: Information
    recent: Information
    window: Array  # (4,)


@inline_always
def learn(memory: Memory, moved: Moved, terms: Terms, ridge: float, cursor: float) -> float:
    """Add a step's pulls and samples to both informations, and cut the memory if the evidence exceeds the bound.

    Returns the coordinate whose ridge is renewed next.
    """
    known, recent, window = memory
    aims, order = terms.aims, moved.order
    share = kept(window[MEMORY]) ** len(aims)
    recent_aims = aims.copy()
    wide, recent_wide = log_diagonal(known.root, order), log_diagonal(recent.root, order)
    take_in(known, moved, terms, aims, 1.0)
    take_in(recent, moved, terms, recent_aims, share)
    wide, recent_wide = log_diagonal(known.root, order) - wide, log_diagonal(recent.root, order) - recent_wide
    weigh(memory, wide, recent_wide, order, share, terms.curvatures, aims, recent_aims)
    settle(known, moved, ridge, 0.0, cursor, terms.taught)
    cursor = settle(recent, moved, ridge, 1.0 - share, cursor, terms.taught)
    forget_old(memory, order)
    return cursor


@cached_njit
def weigh(
    memory: Memory,
    wide: float,
    recent_wide: float,
    order: int,
    share: float,
    curvatures: ReadOnly,  # (n,)
    aims: ReadOnly,  # (n, C)
    recent_aims: ReadOnly,  # (n, C)
) -> None:
    """Update the evidence by the step's log likelihood ratio of both informations, and the noise by the residuals.

    ``wide`` and ``recent_wide`` are the increases of ``log det(R'R) / 2``. ``share`` is the factor by which recent
    samples were discounted.
    """
    noise, recent_noise, window, count = memory.known.noise, memory.recent.noise, memory.window, len(aims)
    if count:
        recent_wide -= 0.5 * order * math.log(share)
        found = log_likelihood(recent_aims, curvatures, noise, recent_wide) - log_likelihood(
            aims, curvatures, noise, wide
        )
        window[EVIDENCE] = max(0.0, window[EVIDENCE] + found)
        window[MEMORY] += count
        window[RECENT] = share * window[RECENT] + count
        window[ALL] += count
    learn_noise(noise, aims, curvatures, 0.0, 0.0)
    learn_noise(recent_noise, recent_aims, curvatures, 0.0, 1.0 - share)


@cached_njit
def kept(memory: float) -> float:
    """Return the discount factor of recent samples per new sample, for ``memory`` samples in the memory."""
    return 1.0 - STEEPNESS / memory if memory >= FEWEST else 1.0


@cached_njit
def bound(memory: float, samples: float) -> float:
    """Return the evidence, above 0, at which a memory of ``memory`` of all ``samples`` samples is cut."""
    return max(LEAST, MOST + math.log(memory / samples))


@cached_njit
def log_diagonal(root: ReadOnly, order: int) -> float:
    """Return half the logarithm of ``det(R'R)``."""
    total = 0.0
    for i in range(order):
        total += math.log(root[i, i])
    return total


@cached_njit
def log_likelihood(left: ReadOnly, curvatures: ReadOnly, noise: ReadOnly, wide: float) -> float:
    """Return the logarithm of a step's predictive density, up to a constant that is the same for all memories.

    With the noise variance s and the covariance ``s (I + V)`` of the samples' n prediction errors e, the density is
    Student's with d degrees of freedom:

        -1/2 log det(I + V) - (d + n) / 2 log(1 + e' inv(I + V) e / (d s))

    summed over the outputs. The quadratic form is the sum of the squared residuals after the rotations, and
    ``det(I + V) = det(H after) / det(H before)``.

    Parameters
    ----------
    left : Array
        The residuals of the aims, (n, C).
    curvatures : Array
        (n,).
    noise : Array
        The estimate of the noise variance before the step, (3, C).
    wide : float
        ``log det(I + V) / 2``.
    """
    total: float = -wide * left.shape[1]
    for c in range(left.shape[1]):
        variance = noise[MEAN, c]
        if variance > 0.0:
            squares = 0.0
            for n in range(len(left)):
                squares += left[n, c] * left[n, c] / (curvatures[n] * variance)
            total -= 0.5 * (DEGREES + len(left)) * math.log1p(squares / DEGREES)
    return total


@cached_njit
def forget_old(memory: Memory, order: int) -> None:
    """Replace the information of the memory by that of recent samples if the evidence exceeds the bound."""
    (root, moments, noise), (recent_root, recent_moments, recent_noise), window = memory
    if window[EVIDENCE] <= 0.0 or window[EVIDENCE] <= bound(window[MEMORY], window[ALL]):
        return
    outputs = moments.shape[1]
    for i in range(order):
        for k in range(i, order):
            root[i, k] = recent_root[i, k]
        for c in range(outputs):
            moments[i, c] = recent_moments[i, c]
    recent_noise[STEPS, 0] = max(1.0, recent_noise[STEPS, 0] * window[RECENT] / window[MEMORY])
    take_over(noise, recent_noise)
    window[MEMORY], window[EVIDENCE] = window[RECENT], 0.0
