"""Destructive kernel orthogonal matching pursuit on a square root of the inverse Gram matrix.

Everything here works in place on the buffers of one :class:`~kernelswarm.agents.expansion.Expansion`: the dictionary
points (capacity, p), the weights (capacity, C), the factor U (capacity, capacity) with ``U.T @ U = inv(K_DD)``, and the
precision (capacity,), the diagonal of ``inv(K_DD)``. Only the leading ``order`` rows and columns are in use. The
dictionary stays in the order in which its points arrived, so that ties fall to the oldest element.

Why a square root: recursions on the inverse itself lose their accuracy silently, and then remove the wrong elements.
Here an insertion appends one row and a removal is one Householder reflection, so no inverse is ever subtracted from
another.
"""

import math

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SPAN_THRESHOLD = 1e-10
"""A point whose Schur complement is below this fraction of kappa(x, x) lies, to rounding, in the dictionary's span.
At 1e-10 the factor holds where the inverse Gram matrix has diagonals of 2e10 (docs/decisions/0001)."""


@numba.njit(cache=True)
def _dot(left: Array, right: Array, size: int) -> float:
    # Eight partial sums in a fixed order: the compiler may use vector registers, yet the bits do not depend on it.
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = size - size % 8
    for i in range(0, whole, 8):
        s0 += left[i] * right[i]
        s1 += left[i + 1] * right[i + 1]
        s2 += left[i + 2] * right[i + 2]
        s3 += left[i + 3] * right[i + 3]
        s4 += left[i + 4] * right[i + 4]
        s5 += left[i + 5] * right[i + 5]
        s6 += left[i + 6] * right[i + 6]
        s7 += left[i + 7] * right[i + 7]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for i in range(whole, size):
        total += left[i] * right[i]
    return total


@numba.njit(cache=True)
def _norm_squared(row: Array) -> float:
    total = 0.0
    for c in range(row.shape[0]):
        total += row[c] * row[c]
    return total


@numba.njit(cache=True)
def _schur(factor: Array, order: int, row: Array, diagonal: float, image: Array, projection: Array) -> float:
    """Project a point on the span: fill u = U k and a = U'u, return the Schur complement kappa(x,x) - u.u."""
    for i in range(order):
        image[i] = _dot(factor[i], row, order)
        projection[i] = 0.0
    for i in range(order):
        u = image[i]
        line = factor[i]
        for j in range(order):
            projection[j] += u * line[j]
    return diagonal - _dot(image, image, order)


@numba.njit(cache=True)
def _cheapest(weights: Array, precision: Array, order: int) -> tuple[int, float]:
    """Find the element whose removal adds the least error after refitting: argmin ||W_j||^2 / inv(K)_jj."""
    best = -1
    least = np.inf
    for j in range(order):
        score = _norm_squared(weights[j]) / precision[j]
        if score < least:
            least = score
            best = j
    return best, least


@numba.njit(cache=True)
def _append(
    points: Array,
    weights: Array,
    factor: Array,
    precision: Array,
    order: int,
    point: Array,
    weight: Array,
    projection: Array,
    schur: float,
) -> None:
    points[order] = point
    weights[order] = weight
    root = 1.0 / math.sqrt(schur)
    for j in range(order):
        entry = -projection[j] * root
        factor[order, j] = entry
        factor[j, order] = 0.0
        precision[j] += entry * entry
    factor[order, order] = root
    precision[order] = root * root


@numba.njit(cache=True)
def _remove(points: Array, weights: Array, factor: Array, precision: Array, order: int, j: int, column: Array) -> None:
    """Drop element j: refit the weights, reflect column j of U onto the last unit vector, drop that row and column."""
    last = order - 1
    for k in range(order):
        column[k] = 0.0
    squared = 0.0
    for i in range(order):
        x = factor[i, j]
        squared += x * x
        line = factor[i]
        for k in range(order):
            column[k] += x * line[k]  # column j of the inverse Gram matrix, U' U[:, j]
    for k in range(order):
        if k != j:
            ratio = column[k] / squared
            for c in range(weights.shape[1]):
                weights[k, c] -= ratio * weights[j, c]
    norm = math.sqrt(squared)
    pivot = factor[last, j]
    shift = norm if pivot >= 0.0 else -norm
    scale = 1.0 / (norm * (norm + abs(pivot)))
    line = factor[last]
    for k in range(order):
        column[k] = scale * (column[k] + shift * line[k])  # scale * v'U with v = U[:, j] + shift e_last
    for k in range(last):
        precision[k] = 0.0
    for i in range(last):
        v = factor[i, j]
        line = factor[i]
        for k in range(j):
            entry = line[k] - v * column[k]
            line[k] = entry
            precision[k] += entry * entry
        for k in range(j, last):
            entry = line[k + 1] - v * column[k + 1]
            line[k] = entry
            precision[k] += entry * entry
    for k in range(j, last):
        points[k] = points[k + 1]
        weights[k] = weights[k + 1]


@numba.njit(cache=True)
def project(
    points: Array,  # (capacity, p)
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    precision: Array,  # (capacity,)
    order: int,
    new_points: Array,  # (n, p)
    new_weights: Array,  # (n, C)
    cross: Array,  # (n, order)
    gram: Array,  # (n, n)
    shrink: float,
    epsilon: float,
) -> tuple[int, float, int]:
    """Take one functional step and compress it: scale the old weights, add the new points, remove what the budget
    allows.

    Decides exactly as destructive KOMP with pre-fitting (POLK algorithm 1) does, ties aside: while the smallest
    ``gamma_j = min_w ||f~ - sum_{k != j} w_k kappa(d_k, .)||_H`` is at most ``epsilon``, element j is removed and
    the others are refitted to f~. The capacity must be at least ``order + n``.

    Returns
    -------
    order : int
        The new model order.
    error : float
        ``||f - f~||_H`` of the compression, at most ``epsilon`` up to rounding.
    changes : int
        Insertions and removals that the factor went through.
    """
    outputs = weights.shape[1]
    for j in range(order):
        for c in range(outputs):
            weights[j, c] *= shrink
    budget = epsilon * epsilon
    spent = 0.0
    changes = 0
    before = order
    size = new_points.shape[0]
    capacity = order + size
    row = np.empty(capacity)
    image = np.empty(capacity)
    projection = np.empty(capacity)
    inserted = np.empty(size, np.int64)
    for n in range(size):
        weight = new_weights[n]
        magnitude = _norm_squared(weight)
        if magnitude == 0.0:
            continue  # it would be the first to go, at no cost
        for j in range(before):
            row[j] = cross[n, j]
        for j in range(order - before):
            row[before + j] = gram[n, inserted[j]]
        schur = _schur(factor, order, row, gram[n, n], image, projection)
        in_span = schur <= SPAN_THRESHOLD * gram[n, n]
        lazily = False
        if not in_span and n == size - 1 and spent + magnitude * schur <= budget:
            # The last point goes in only if KOMP would not take it straight out again. Equal scores fall to the older.
            lazily = True
            for j in range(order):
                score = _norm_squared(weights[j]) / (precision[j] + projection[j] * projection[j] / schur)
                if score <= magnitude * schur:
                    lazily = False
                    break
        if in_span or lazily:
            for j in range(order):
                for c in range(outputs):
                    weights[j, c] += projection[j] * weight[c]
            spent += magnitude * max(schur, 0.0)
        else:
            _append(points, weights, factor, precision, order, new_points[n], weight, projection, schur)
            inserted[order - before] = n
            order += 1
            changes += 1
    while order > 0:
        j, score = _cheapest(weights, precision, order)
        if not spent + score <= budget:
            break
        _remove(points, weights, factor, precision, order, j, row)
        order -= 1
        changes += 1
        spent += score
    return order, math.sqrt(spent), changes


@numba.njit(cache=True)
def combine(rows: Array, weights: Array, order: int) -> Array:
    """Evaluate the expansion from its kernel rows: ``f(x_n) = sum_m W[m] kappa(D[m], x_n)``, (n, C)."""
    size = rows.shape[0]
    outputs = weights.shape[1]
    values = np.zeros((size, outputs))
    for n in range(size):
        for m in range(order):
            k = rows[n, m]
            for c in range(outputs):
                values[n, c] += k * weights[m, c]
    return values
