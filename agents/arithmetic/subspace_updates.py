"""The arithmetic of online kernel feature extraction, compiled: one sample's projection, and the updates it makes.

All sums run over the rank r in the innermost loop, which vector registers take in any number without a change of
order, and no entry depends on which other points are in a call.
"""

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.float64]

RANK_ZERO = 1e-13
"""A pivot of the inner Gram matrix below this share of its largest diagonal entry counts as 0."""

RIDGE = 1e-12
"""What is added to the features' squared inner products before the weights are refitted to a new subspace; it only
matters in directions of which the features hold less than its root."""


@njit(cache=True)
def coordinates(rows: Array, factor: Array, found: Array) -> None:
    """Fill the inner products ``b = A' k`` of points with the basis, (n, r), from their kernel rows (n, m)."""
    for n in range(rows.shape[0]):
        line = found[n]
        line[:] = 0.0
        whole = rows.shape[1] - rows.shape[1] % 4
        for i in range(0, whole, 4):  # four rows at a time, so that the sums are loaded and stored less often
            k0, k1, k2, k3 = rows[n, i], rows[n, i + 1], rows[n, i + 2], rows[n, i + 3]
            a0, a1, a2, a3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
            for c in range(line.shape[0]):
                line[c] += (k0 * a0[c] + k1 * a1[c]) + (k2 * a2[c] + k3 * a3[c])
        for i in range(whole, rows.shape[1]):
            entry, weights = rows[n, i], factor[i]
            for c in range(line.shape[0]):
                line[c] += entry * weights[c]


@njit(cache=True)
def mix(products: Array, mixing: Array) -> Array:
    """Compute the features ``z = G' b`` of points, (n, r), from the inner products b with the basis, (n, r)."""
    features = np.empty(products.shape)
    coordinates(products, mixing, features)
    return features


@njit(cache=True)
def root(matrix: Array) -> Array:
    """Return the lower triangular C with ``C C' = M`` of a positive semidefinite matrix, (r, r).

    The column of a pivot at rounding level is zero, as the whole column of M - C C' then is.
    """
    rank = matrix.shape[0]
    triangle = np.zeros((rank, rank))
    largest = 0.0
    for j in range(rank):
        largest = max(largest, matrix[j, j])
    for j in range(rank):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= triangle[j, k] * triangle[j, k]
        if pivot > RANK_ZERO * largest:
            pivot = math.sqrt(pivot)
            triangle[j, j] = pivot
            for i in range(j + 1, rank):
                entry = matrix[i, j]
                for k in range(j):
                    entry -= triangle[i, k] * triangle[j, k]
                triangle[i, j] = entry / pivot
    return triangle


@njit(cache=True)
def solve(triangle: Array, right: Array) -> None:
    """Overwrite ``right`` (r, c) with ``inv(T T') right``, T lower triangular (r, r); 0 where T has no pivot."""
    rank, columns = right.shape
    for i in range(rank):
        scale = 1.0 / triangle[i, i] if triangle[i, i] > 0.0 else 0.0
        for k in range(i):
            for c in range(columns):
                right[i, c] -= triangle[i, k] * right[k, c]
        for c in range(columns):
            right[i, c] *= scale
    for i in range(rank - 1, -1, -1):
        scale = 1.0 / triangle[i, i] if triangle[i, i] > 0.0 else 0.0
        for k in range(i + 1, rank):
            for c in range(columns):
                right[i, c] -= triangle[k, i] * right[k, c]
        for c in range(columns):
            right[i, c] *= scale


@njit(cache=True)
def prepare(factor: Array, image: Array, regularization: float) -> tuple[Array, Array, Array]:
    """Return ``M = A' K A``, the Cholesky factor of ``M + lambda I``, and ``G = inv(M + lambda I) C`` with C C' = M.

    ``image`` is K A, (m, r).
    """
    rank = factor.shape[1]
    inner = np.dot(factor.T, image)
    for a in range(rank):
        for b in range(a):
            inner[a, b] = inner[b, a] = 0.5 * (inner[a, b] + inner[b, a])
    regular = inner.copy()
    for a in range(rank):
        regular[a, a] += regularization
    triangle = root(regular)
    mixing = root(inner)
    solve(triangle, mixing)
    return inner, triangle, mixing


@njit(cache=True)
def project(
    row: Array, factor: Array, triangle: Array, diagonal: float, regularization: float
) -> tuple[Array, Array, float, float]:
    """Return ``b = A' k``, ``q = inv(M + lambda I) b``, the fit ``||phi(x) - L q||^2`` of a point, and ``||q||``.

    As M q = b - lambda q, the fit kappa - 2 b.q + q'M q is kappa - b.q - lambda ||q||^2.
    """
    found = np.empty((1, factor.shape[1]))
    coordinates(row, factor, found)
    solution = found.copy().reshape((-1, 1))
    solve(triangle, solution)
    length = lost = 0.0
    for c in range(found.shape[1]):
        lost += found[0, c] * solution[c, 0]
        length += solution[c, 0] * solution[c, 0]
    fit = max(diagonal - lost - regularization * length, 0.0)
    return found[0], solution.reshape(-1), fit, math.sqrt(length)


@njit(cache=True)
def update_nonparametric(
    factor: Array, image: Array, order: int, gram: Array, projection: Array, step: float, decay: float
) -> None:
    """Overwrite A, whose row ``order - 1`` is zero, with ``A - mu (K A q q' - k q' + decay K A)`` (OKFEB eq. 19).

    k is the last column of K, ``image`` is K A, and ``decay`` is lambda / n.
    """
    residuals = np.dot(image[:order], projection)
    for i in range(order):
        residual = residuals[i] - gram[order - 1, i]
        line, images = factor[i], image[i]
        for c in range(line.shape[0]):
            line[c] -= step * (residual * projection[c] + decay * images[c])


@njit(cache=True)
def update_parametric(
    factor: Array, image: Array, order: int, gram: Array, projection: Array, step: float, decay: float
) -> None:
    """Overwrite A with ``[A - mu A (q q' + decay I); mu q']`` and K A with its image (OKFEB eq. 16)."""
    rank = factor.shape[1]
    fitted, products = np.dot(factor[:order], projection), np.dot(image[:order], projection)
    for i in range(order):
        inner, outer = fitted[i], products[i] - gram[order - 1, i]
        line, images = factor[i], image[i]
        for c in range(rank):
            line[c] -= step * (inner * projection[c] + decay * line[c])
            images[c] -= step * (outer * projection[c] + decay * images[c])
    for c in range(rank):
        factor[order - 1, c] = step * projection[c]


@njit(cache=True)
def least(factor: Array, recency: Array, order: int) -> int:
    """Return the row with the least ``recency[i] ||a_i||``, the oldest of equals (OKFEB eq. 25 and 26)."""
    chosen, smallest = 0, np.inf
    for i in range(order):
        size = 0.0
        for c in range(factor.shape[1]):
            size += factor[i, c] * factor[i, c]
        size = recency[i] * math.sqrt(size)
        if size < smallest:
            chosen, smallest = i, size
    return chosen


@njit(cache=True)
def discard(
    points: Array, gram: Array, factor: Array, image: Array, recency: Array, order: int, j: int, follow: bool
) -> None:
    """Take point j out, the later ones moving up; with ``follow``, its share is taken from K A as well."""
    last = order - 1
    if follow:
        for i in range(order):
            for c in range(factor.shape[1]):
                image[i, c] -= gram[i, j] * factor[j, c]
    for i in range(j, last):
        points[i] = points[i + 1]
        factor[i] = factor[i + 1]
        image[i] = image[i + 1]
        recency[i] = recency[i + 1]
    # Row by row by way of a copy: the compiler takes vector registers only where what is read is not what is written.
    moving = np.empty(last)
    for i in range(last):
        target, source = gram[i], gram[i + (i >= j)]
        head = 0 if i >= j else j
        kept, shifted, tail = moving[:j], moving[j:], source[j + 1 : order]
        if head == 0:
            for k in range(len(kept)):
                kept[k] = source[k]
        for k in range(len(shifted)):
            shifted[k] = tail[k]
        part, values = target[head:last], moving[head:]
        for k in range(len(part)):
            part[k] = values[k]
    gram[last, :order] = 0.0
    gram[:order, last] = 0.0
    factor[last] = 0.0
    image[last] = 0.0


@njit(cache=True)
def carried(
    weights: Array, old_inner: Array, old_mixing: Array, cross: Array, inner: Array, mixing: Array, follow: bool
) -> tuple[Array, float]:
    """Return the weights (r, C) for new features, and how far the function moved in the Hilbert space.

    The function ``w'z`` is ``L G w``. With ``follow`` the new weights are those of the nearest function of the new
    features; ``cross`` is the inner products ``L_new' L_old``.
    """
    old = np.dot(old_mixing, weights)
    right = np.dot(mixing.T, np.dot(cross, old))
    square = np.dot(mixing.T, np.dot(inner, mixing))
    new = weights.copy()
    if follow:
        regular = square.copy()
        for c in range(len(regular)):
            regular[c, c] += RIDGE
        new[:] = right
        solve(root(regular), new)
    moved = np.sum(old * np.dot(old_inner, old)) - 2.0 * np.sum(new * right) + np.sum(new * np.dot(square, new))
    return new, math.sqrt(max(moved, 0.0))


@njit(cache=True)
def advance(
    points: Array,
    gram: Array,
    factor: Array,
    image: Array,
    recency: Array,
    order: int,
    point: Array,
    row: Array,
    product: Array,
    diagonal: float,
    projection: Array,
    step: float,
    regularization: float,
    sample: int,
    filling: bool,
    parametric: bool,
    capacity: int,
    beta: float,
    old_inner: Array,
    old_mixing: Array,
    weights: Array,
    follow: bool,
) -> tuple[int, Array, Array, Array, Array, Array, float]:
    """Store a point, update A, and drop a point where there are more than ``capacity``.

    The step is cut to where the shrinkage ``I - mu decay K`` could overshoot, ``mu = 1 / (decay tr K)``, or without K
    where the update is parametric: a point nearly at right angles to the subspace would have a step without bound.

    All buffers are zero beyond the ``order`` rows in use, so that products with whole buffers need no copies. Returns
    the new number of points, the inner products ``L_new' L_old`` of the new basis with the old one, (r, r), what
    `prepare` gives, and what `carried` makes of ``weights`` (r, C), which may have no column.
    """
    decay = regularization / sample
    for i in range(order):
        gram[order, i] = gram[i, order] = row[0, i]
    gram[order, order] = diagonal
    points[order] = point[0]
    image[order] = product
    recency[order] = 1.0
    order += 1
    before = image[:order].copy()
    spread = 1.0
    if not parametric:
        spread = 0.0
        for i in range(order):
            spread += gram[i, i]
    if step * decay * spread > 1.0:
        step = 1.0 / (decay * spread)
    if filling:
        factor[order - 1, order - 1] = 1.0
    elif parametric:
        update_parametric(factor, image, order, gram, projection, step, decay)
    else:
        update_nonparametric(factor, image, order, gram, projection, step, decay)
    if order > capacity:
        for i in range(order):
            recency[i] *= beta
        j = least(factor, recency, order)
        discard(points, gram, factor, image, recency, order, j, parametric)
        order -= 1
        for i in range(j, order):
            before[i] = before[i + 1]
    if filling or not parametric:
        np.dot(gram[:order], factor, image[:order])
    inner, triangle, mixing = prepare(factor[:order], image[:order], regularization)
    cross = np.dot(factor[:order].T, before[:order])
    moved = 0.0
    if weights.shape[1]:
        weights, moved = carried(weights, old_inner, old_mixing, cross, inner, mixing, follow)
    return order, cross, inner, triangle, mixing, weights, moved
