"""Large steps of :mod:`~kernelswarm.agents.learners.information`, by matrix-matrix products.

The products sum in a different order, so that the last digits differ. Whether a step uses them depends on its size
alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic import blocked_komp, komp
from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.inverse_factor import Added, Tables
from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.products import multiply
from kernelswarm.agents.arithmetic.routines import product
from kernelswarm.agents.arithmetic.simd import add_scaled, dot, whole
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.functions.expansion import Information
from kernelswarm.agents.learners import information, moves, observations
from kernelswarm.agents.learners.information import NOTHING
from kernelswarm.agents.learners.observations import RENEWED, Terms, absorb_taught
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always
from kernelswarm.protocols.parameters.least_squares import learn_noise

LONG_LOOPS = True

STRIP = 128
"""The number of columns or rows that are multiplied together, small enough for the fast caches."""

ROWS = 64
"""The number of weights that are solved for one after the other, between products."""


@cached_njit
def append(
    root: Array, moments: Array, order: int, projections: Array, rest: Array, diagonal: Array, ridge: float
) -> None:
    """Append points to ``order`` others; earlier samples count at a new point's projection on the others.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    order : int
        M, the number of earlier points.
    projections : Array
        The coefficients of the points' projections on the others, (n, M): the earlier samples' features at a new point
        are these combinations of their features at the others.
    rest : Array
        The points' Gram matrix minus that of their projections, (n, n). Its directions have only the ridge.
    diagonal : Array
        kappa(x, x) at the points, (n,).
    ridge : float
        lambda.
    """
    size, width = len(projections), root.shape[1]
    for start in range(0, order, STRIP):
        rows, left = min(STRIP, order - start), order - start
        target, triangle = start * width + order, start * width + start
        multiply(
            root,
            target,
            width,
            root,
            triangle,
            width,
            False,
            projections,
            start,
            order,
            True,
            rows,
            left,
            size,
            1.0,
            0.0,
        )
    lower = _triangle(rest, diagonal)
    for i in range(size):
        row = root[order + i]
        for k in range(order):
            row[k] = 0.0
        for k in range(size):
            row[order + k] = math.sqrt(ridge) * lower[k, i]
        for c in range(moments.shape[1]):
            moments[order + i, c] = 0.0


@cached_njit
def _triangle(gram: Array, diagonal: Array) -> Array:
    """Return the Cholesky factor of a Gram matrix's remainder, which may be singular within rounding."""
    lower = np.zeros(gram.shape)
    for x in range(len(gram)):
        for y in range(x + 1):
            entry = gram[x, y]
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * diagonal[x]))
    return lower


@cached_njit
def take_out(root: Array, moments: Array, places: Integers, total: int, rows: Array, aims: Array) -> None:
    """Keep only the points at ``places`` (M,) of ``total``.

    The remaining points' rows and columns form a triangle already. The leaving points' rows in the remaining columns,
    (r, M), and their right-hand sides (r, C) are copied to ``rows`` and ``aims``. Once these rows are rotated in like
    samples, R equals the result of :func:`information.keep`.
    """
    order = len(places)
    going = np.empty(total - order, np.int64)
    count = 0
    for j in range(total):
        if j - count < order and places[j - count] == j:
            continue
        going[count] = j
        source, target = root[j], rows[count]
        for k in range(order):
            target[k] = source[places[k]]
        copy_vector(moments[j], aims[count])
        count += 1
    _close_up(root, moments, going, total)


@cached_njit
def _close_up(root: Array, moments: Array, going: Integers, total: int) -> None:
    """Remove the rows and columns at the indices ``going``; the freed rows and columns at the end become 0."""
    passed = 0
    for i in range(total):
        if passed < len(going) and going[passed] == i:
            passed += 1
            continue
        source, target = root[i], root[i - passed]
        if passed > 0:
            copy_vector(moments[i], moments[i - passed])
        for shift in range(passed, len(going) + 1):
            first = i if shift == passed else going[shift - 1] + 1
            last = going[shift] if shift < len(going) else total
            for k in range(first, last):
                target[k - shift] = source[k]
        for k in range(total - len(going), total):
            target[k] = 0.0
    for i in range(total - len(going), total):
        for k in range(total):
            root[i, k] = 0.0
        for c in range(moments.shape[1]):
            moments[i, c] = 0.0


@cached_njit
def follow(
    root: Array,
    moments: Array,
    places: Integers,
    before: int,
    entering: Integers,
    projections: Array,
    rest: Array,
    gram: Array,
    cross: Array,
    ridge: float,
) -> tuple[Array, Array, int]:
    """Update the information after changes of the dictionary.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    places : Array
        The former index of each current point, (M,); for new points ``before`` plus the index in the step.
    before : int
        The number of points before the step.
    entering : Array
        The indices of the step's points that were offered to the dictionary, (n,).
    projections, rest : Array
        The offered points' projections on the earlier points, (n, before), and their Gram matrix minus that of the
        projections, (n, n).
    gram, cross : Array
        The kernel between the step's points, (N, N), and between the step's and the earlier points, (N, before).
    ridge : float
        lambda.

    Returns
    -------
    features, sums : Array
        First the rows left over from removed points, (r, M) and (r, C), to be rotated in like samples; then the kernel
        between the step's points and the new dictionary, (N, M), and room for their aims.
    gone : int
        r, the number of removed points.
    """
    order, size, outputs = len(places), len(cross), moments.shape[1]
    kept = 0
    while kept < order and places[kept] < before:
        kept += 1
    coming, gone = order - kept, before - kept
    features, sums = np.empty((gone + size, order)), np.empty((gone + size, outputs))
    if coming:
        chosen = np.searchsorted(entering, places[kept:] - before)
        own, left, diagonal = np.empty((coming, before)), np.empty((coming, coming)), np.empty(coming)
        for i in range(coming):
            copy_vector(projections[chosen[i]], own[i])
            for k in range(coming):
                left[i, k] = rest[chosen[i], chosen[k]]
            new = places[kept + i] - before
            diagonal[i] = gram[new, new]
        append(root, moments, before, own, left, diagonal, ridge)
    if gone:
        stays = np.empty(order, np.int64)
        for k in range(order):
            stays[k] = places[k] if k < kept else before + k - kept
        take_out(root, moments, stays, before + coming, features, sums)
    for n in range(size):
        row, source = features[gone + n], cross[n]
        for k in range(kept):
            row[k] = source[places[k]]
        for k in range(kept, order):
            row[k] = gram[n, places[k] - before]
    return features, sums, gone


@cached_njit
def weigh(features: Array, sums: Array, first: int, curvatures: Array, aims: Array) -> None:
    """Multiply the rows from ``first`` on by their samples' weights, and store the weighted aims in ``sums``."""
    for n in range(len(aims)):
        row, scale = features[first + n], math.sqrt(curvatures[n])
        for k in range(len(row)):
            row[k] *= scale
        for c in range(aims.shape[1]):
            sums[first + n, c] = scale * aims[n, c]


@cached_njit
def shift(root: Array, moments: Array, order: int, change: Array) -> None:
    """Move the solution by ``change`` (M, C)."""
    width, outputs = root.shape[1], moments.shape[1]
    for start in range(0, order, STRIP):
        rows, left = min(STRIP, order - start), order - start
        triangle, target, below = start * (width + 1), start * outputs, start * outputs
        multiply(
            moments,
            target,
            outputs,
            root,
            triangle,
            width,
            False,
            change,
            below,
            outputs,
            False,
            rows,
            left,
            outputs,
            1.0,
            1.0,
        )


@cached_njit
def solve(root: Array, moments: Array, order: int, weights: Array) -> None:
    """Fill in the weights (M, C) of ``R W = Q``."""
    width, outputs = root.shape[1], moments.shape[1]
    if outputs == 1:
        information.solve(root, moments, order, weights)
        return
    block, right = np.empty((ROWS, ROWS)), np.empty((ROWS, outputs))
    end = order
    while end > 0:
        start = max(end - ROWS, 0)
        rows = end - start
        for i in range(rows):
            copy_vector(moments[start + i], right[i])
            for k in range(i, rows):
                block[i, k] = root[start + i, start + k]
        beside, below = start * width + end, end * outputs
        multiply(
            right,
            0,
            outputs,
            root,
            beside,
            width,
            False,
            weights,
            below,
            outputs,
            False,
            rows,
            order - end,
            outputs,
            -1.0,
            1.0,
        )
        information.solve(block, right, rows, table(weights, start * outputs, rows, outputs))
        end = start


# Many samples rotated into a triangular factor at once, by matrix products.

PANEL = 24
"""The number of columns that are reduced together, before one product updates all other columns."""

LEAF = 8
"""The number of columns of a panel that are reduced one by one, before the panel's other columns are updated."""


@cached_njit
def absorb(root: Array, moments: Array, rows: Array, aims: Array) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle; both are overwritten.

    Panels of columns are reduced one after the other. Each panel's reflections ``I - Y T Y'`` are applied to all
    columns to its right by matrix products (compact WY form, Schreiber and Van Loan, 1989).
    """
    (size, order), outputs = rows.shape, aims.shape[1]
    vectors = np.zeros((PANEL, whole(size)))  # a panel's columns, each contiguous
    gram, reflector = np.empty((PANEL, PANEL)), np.zeros((PANEL, PANEL))
    work = np.empty((2, PANEL * STRIP))
    for start in range(0, order, PANEL):
        count = min(PANEL, order - start)
        end = start + count
        for n in range(size):
            for i in range(count):
                vectors[i, n] = rows[n, start + i]
        for first in range(0, count, LEAF):
            last = min(first + LEAF, count)
            _reduce(root, start, vectors, first, last)
            if last < count:
                _join(vectors, first, last, gram, reflector)
                upper = (start + first) * root.shape[1] + start + last
                _reflect(root, upper, vectors, last, True, vectors, first, last, count - last, size, reflector, work)
        _join(vectors, 0, count, gram, reflector)
        for left in range(end, order, STRIP):
            strip = min(STRIP, order - left)
            upper = start * root.shape[1] + left
            _reflect(root, upper, rows, left, False, vectors, 0, count, strip, size, reflector, work)
        _reflect(moments, start * outputs, aims, 0, False, vectors, 0, count, outputs, size, reflector, work)


@cached_njit
def _reduce(root: Array, start: int, vectors: Array, first: int, last: int) -> None:
    """Reduce some columns of the rows below the triangle, and overwrite them with the part of Y below the identity."""
    size = vectors.shape[1]
    for i in range(first, last):
        vector, upper = vectors[i], root[start + i]
        sigma = dot(vectors, i * size, vector, size)
        if sigma <= NOTHING:
            vector[:] = 0.0
            continue
        alpha = upper[start + i]
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta)
        scale = 2.0 / (head * head + sigma)
        upper[start + i] = beta
        for k in range(i + 1, last):
            change = scale * (head * upper[start + k] + dot(vectors, k * size, vector, size))
            upper[start + k] -= head * change
            add_scaled(vectors, k * size, vector, 0, -change, size)
        for n in range(size):
            vector[n] /= head


@cached_njit
def _join(vectors: Array, first: int, last: int, gram: Array, reflector: Array) -> None:
    """Fill in the lower triangular T of a product of reflections."""
    size, count = vectors.shape[1], last - first
    place = first * size
    multiply(gram, 0, PANEL, vectors, place, size, False, vectors, place, size, True, count, size, count, 1.0, 0.0)
    for i in range(count):
        row = reflector[i]
        row[:] = 0.0
        scale = 2.0 / (1.0 + gram[i, i]) if gram[i, i] > 0.0 else 0.0
        for k in range(i):
            add_scaled(row, 0, reflector, k * PANEL, -scale * gram[i, k], whole(k + 1))
        row[i] = scale


@cached_njit
def _reflect(
    upper: Array,
    place: int,
    rest: Array,
    begin: int,
    turned: bool,
    vectors: Array,
    first: int,
    last: int,
    columns: int,
    size: int,
    reflector: Array,
    work: Array,
) -> None:
    """Apply the reflections ``first`` to ``last`` of a panel to other columns.

    The other columns are in ``upper`` from the offset ``place`` on, and in ``rest`` from the column ``begin`` on, or
    from the row ``begin`` on if ``rest`` is transposed (``turned``).
    """
    pitch, step, count = vectors.shape[1], upper.shape[1], last - first
    y, below, wide = first * pitch, begin * rest.shape[1] if turned else begin, rest.shape[1]
    sums, change = work[0], work[1]
    # Subtract T (upper + Y' rest) from upper, and Y times that from rest.
    multiply(sums, 0, columns, vectors, y, pitch, False, rest, below, wide, turned, count, size, columns, 1.0, 0.0)
    for i in range(count):
        row, into = line(upper, place + i * step, columns), line(sums, i * columns, columns)
        for k in range(columns):
            into[k] += row[k]
    multiply(change, 0, columns, reflector, 0, PANEL, False, sums, 0, columns, False, count, count, columns, 1.0, 0.0)
    for i in range(count):
        row, out_of = line(upper, place + i * step, columns), line(change, i * columns, columns)
        for k in range(columns):
            row[k] -= out_of[k]
    if turned:
        multiply(rest, below, wide, change, 0, columns, True, vectors, y, pitch, False, columns, count, size, -1.0, 1.0)
    else:
        multiply(rest, below, wide, vectors, y, pitch, True, change, 0, columns, False, size, count, columns, -1.0, 1.0)


# Large steps of :mod:`~kernelswarm.agents.learners.moves`, by matrix products.


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
    """Choose the dictionary, update the information, add pulls, samples and taught values, and solve.

    Returns the new order, the compression error, the number of changes of the factor, and the coordinate whose ridge is
    renewed next.
    """
    root, moments, _ = known
    capacity, size, ridge = len(root), len(at.points), numbers.ridge
    origins, arrivals = np.empty((capacity, 1)), np.empty((size, 1))
    for j in range(before):
        origins[j, 0] = j
    for n in range(size):
        arrivals[n, 0] = before + n
    entering, projections, rest = blocked_komp.offered(tables.factor, before, at.cross, at.gram, at.weights)
    offered = np.empty((len(entering), at.weights.shape[1]))
    for i in range(len(entering)):
        copy_vector(at.weights[entering[i]], offered[i])
    shift = product(projections, True, len(entering), before, offered)
    for j in range(before):
        for c in range(shift.shape[1]):
            tables.weights[j, c] -= shift[j, c]
    # KOMP moves points and never looks at them: given their indices, it returns the former index of each staying point.
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
    features, sums, gone = follow(root, moments, stays, before, entering, projections, rest, at.gram, at.cross, ridge)
    if changes:
        moves.follow(origins, before, order, tables.points, at.points)
    cursor = take_in(tables, known, order, features, sums, gone, values, terms, numbers, cursor)
    solve(root, moments, order, tables.weights)
    return order, error, changes, cursor


@inline_always
def take_in(
    tables: Tables,
    known: Information,
    order: int,
    features: Array,  # (r + N, M), from `follow`
    sums: Array,  # (r + N, C)
    gone: int,  # r
    values: ReadOnly,
    terms: Terms,
    numbers: Numbers,
    cursor: float,
) -> float:
    """Add pulls, samples and taught values to the information on the new dictionary.

    Returns the coordinate whose ridge is renewed next.
    """
    root, moments, noise = known
    factor, aims, bends = tables.factor, terms.aims, terms.curvatures
    count, capacity, outputs = len(aims), len(root), moments.shape[1]
    fresh = features[gone:]
    untaught = fresh.copy() if len(terms.taught) else fresh
    lost = 1.0 - math.pow(numbers.forgetting, float(count))
    if gone and (lost != 0.0 or terms.coupled):  # R must be triangular before samples are added
        absorb(root, moments, features[:gone], sums[:gone])
        features, sums, gone = fresh, sums[gone:], 0
    if terms.coupled:
        pulled = product(fresh, True, len(fresh), order, terms.pulls)
        if terms.unit > 0.0:
            information.pull(root, moments, order, pulled, terms.unit)
        else:
            images = product(factor, False, order, order, pulled)
            shift(root, moments, order, product(factor, True, order, order, images))
    if lost != 0.0:
        information.forget(root, moments, order, 1.0 - lost)
    errors = sums[:count]
    if gone:
        errors = np.empty((count, outputs))
        for n in range(count):
            for c in range(outputs):
                errors[n, c] = (aims[n, c] - values[n, c]) * math.sqrt(bends[n])
    weigh(features, sums, gone, bends, aims)
    absorb(root, moments, features[: gone + count], sums[: gone + count])
    # The residuals also contain the rows left over from removed points, so the samples' plain errors are used instead.
    # These overestimate the noise slightly: their variance is 1 + v times the noise.
    learn_noise(noise, errors, bends, terms.of_weight_one, lost)
    if lost != 0.0:
        room, row = np.empty(RENEWED * (capacity + outputs)), np.empty(capacity)
        cursor = observations.renew(root, moments, order, factor, numbers.ridge, lost, cursor, room, row)
    if len(terms.taught):
        absorb_taught(root, moments, order, untaught, terms.taught)
    return cursor
