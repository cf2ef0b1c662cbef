"""The compiled formulas of online kernel feature extraction: the projection of a sample, and the updates by it.

The result for an evaluated point does not depend on the other points of the call. The rest follows the paper.
"""

import math
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

LONG_LOOPS = True

RANK_ZERO = 1e-13
"""A pivot of the inner Gram matrix counts as 0 if it is below this multiple of the largest diagonal entry."""

RIDGE = 1e-12
"""Added to the squared inner products of features before a refit; relevant if they are smaller than its root."""


class Basis(NamedTuple):
    """The stored points, A and its products, in arrays with room for more points."""

    points: Array  # S, (capacity, p)
    gram: Array  # K_SS, (capacity, capacity)
    factor: Array  # A, (capacity, r)
    image: Array  # K A, (capacity, r)
    recency: Array  # eta, (capacity,)


class Squares(NamedTuple):
    """The matrices that determine features, filled in by `prepare`; each (r, r)."""

    inner: Array  # M = A' K A
    triangle: Array  # the Cholesky factor of M + lambda I
    mixing: Array  # G


class Update(NamedTuple):
    """The parameters of the updates of the basis."""

    regularization: float  # lambda
    parametric: bool
    most: int  # the maximum number of stored points
    recency: float  # beta


@cached_njit
def coordinates(rows: Array, factor: ReadOnly, count: int, found: Array) -> None:
    """Fill the inner products ``b = A' k`` of points with the basis, (n, r), from the first ``count`` entries of their
    kernel rows (n, m) and rows of A (m, r)."""
    for n in range(len(rows)):
        row, b = rows[n], found[n]
        for c in range(len(b)):
            b[c] = 0.0
        for i in range(count):
            entry, weights = row[i], factor[i]
            for c in range(len(b)):
                b[c] += entry * weights[c]


@inline_always
def mix(products: Array, mixing: ReadOnly) -> Array:
    """Compute the features ``z = G' b`` of points, (n, w), from the inner products b with the basis, (n, r)."""
    features = np.empty((products.shape[0], mixing.shape[1]))
    coordinates(products, mixing, len(mixing), features)
    return features


@cached_njit
def root(matrix: Array) -> Array:
    """Return the lower triangular C with ``C C' = M``, M (r, r) positive semidefinite, with zero columns for zero
    pivots."""
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


@cached_njit
def solve(triangle: Array, right: Array) -> None:
    """Overwrite ``right`` (r, c) with ``inv(T T') right``, T lower triangular (r, r); 0 for zero pivots of T."""
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


@cached_njit
def prepare(basis: Basis, order: int, regularization: float, squares: Squares) -> None:
    """Fill in ``M = A' K A`` of the first ``order`` points, the Cholesky factor of ``M + lambda I``, and
    ``G = inv(M + lambda I) C`` with C C' = M."""
    inner = basis.factor[:order].T @ basis.image[:order]
    squares.inner[:] = 0.5 * (inner + inner.T)
    squares.mixing[:] = root(squares.inner)
    squares.triangle[:] = root(squares.inner + regularization * np.eye(len(inner)))
    solve(squares.triangle, squares.mixing)


@cached_njit
def project(
    row: Array, order: int, factor: Array, triangle: Array, diagonal: float, regularization: float
) -> tuple[Array, Array, float, float]:
    """Return ``b = A' k``, ``q = inv(M + lambda I) b``, the fit ``||phi(x) - L q||^2`` of a point, and ``||q||``.

    As M q = b - lambda q, the fit kappa - 2 b.q + q'M q is kappa - b.q - lambda ||q||^2.
    """
    found = np.empty((1, factor.shape[1]))
    coordinates(row, factor, order, found)
    solution = found.copy().reshape((-1, 1))
    solve(triangle, solution)
    product, q = found[0], solution.reshape(-1)
    fit = max(diagonal - product @ q - regularization * (q @ q), 0.0)
    return product, q, fit, math.sqrt(q @ q)


@inline_always
def update_nonparametric(factor: Array, image: Array, column: Array, q: Array, mu: float, decay: float) -> None:
    """Overwrite A (m, r), whose last row is zero, with ``A - mu (K A q q' - k q' + decay K A)`` (OKFEB eq. 19).

    k is the last column of K, and ``decay`` is lambda / n.
    """
    factor -= mu * (np.outer(image @ q - column, q) + decay * image)


@inline_always
def update_parametric(factor: Array, image: Array, column: Array, q: Array, mu: float, decay: float) -> None:
    """Overwrite A with ``[A - mu A (q q' + decay I); mu q']`` and K A with its image (OKFEB eq. 16)."""
    image -= mu * (np.outer(image @ q - column, q) + decay * image)
    factor -= mu * (np.outer(factor @ q, q) + decay * factor)
    factor[-1] = mu * q


@inline_always
def least(factor: Array, gram: Array, recency: Array) -> int:
    """Return the row with the smallest ``recency[i] ||a_i|| sqrt(kappa(x_i, x_i))``, the oldest if several are equal.

    Without the recency this is the change of Phi A by the removal: OKFEB eq. 24 and 26, and eq. 25 if kappa(x, x) = 1.
    """
    return int(np.argmin(recency * np.sqrt(np.sum(factor**2, axis=1) * np.diag(gram))))


@inline_always
def discard(basis: Basis, order: int, j: int, follow: bool) -> None:
    """Take point j out, the later ones moving up; with ``follow``, its share is taken from K A as well."""
    points, gram, factor, image, recency = basis
    if follow:
        image[:order] -= np.outer(gram[:order, j], factor[j])
    for i in range(j, order - 1):
        points[i], factor[i], image[i], recency[i] = points[i + 1], factor[i + 1], image[i + 1], recency[i + 1]
        gram[i, :order] = gram[i + 1, :order]
    for i in range(j, order - 1):
        gram[:order, i] = gram[:order, i + 1]


@cached_njit
def carried(weights: Array, before: Squares, cross: Array, squares: Squares, follow: bool) -> tuple[Array, float]:
    """Return the weights (r, C) for new features, and the Hilbert norm of the function's change.

    The function ``w'z`` is ``L G w``. With ``follow`` the new weights define the nearest function on the new features.
    ``cross`` holds the inner products ``L_new' L_old``.
    """
    old = before.mixing @ weights
    right, square = squares.mixing.T @ (cross @ old), squares.mixing.T @ (squares.inner @ squares.mixing)
    new = weights.copy()
    if follow:
        new = right.copy()
        solve(root(square + RIDGE * np.eye(len(square))), new)
    moved = np.sum(old * (before.inner @ old)) - 2.0 * np.sum(new * right) + np.sum(new * (square @ new))
    return new, math.sqrt(max(moved, 0.0))


@inline_always
def holds(points: Array, order: int, place: int) -> bool:
    """Return whether one of the first ``order`` points is the one at ``place``."""
    for i in range(order):
        same = True
        for k in range(points.shape[1]):
            same = same and points[i, k] == points[place, k]
        if same:
            return True
    return False


@cached_njit
def advance(
    basis: Basis,
    order: int,
    squares: Squares,
    row: Array,
    product: Array,
    projection: Array,
    update: Update,
    step: float,
    sample: int,
    weights: Array,
    follow: bool,
) -> tuple[int, Array, float, int]:
    """Store the point that follows the others, update A, and drop a point if there are too many.

    The step size is limited to ``mu = 1 / (decay tr K)``, beyond which the shrinkage ``I - mu decay K`` could
    overshoot; for the parametric update the limit does not contain K. Otherwise a point nearly orthogonal to the
    subspace would have an unbounded step.

    ``row`` (order + 1,) holds the point's kernel values; the last one is with itself. The squares and ``weights``
    (r, C), which may have no columns, are updated to the new basis. Returns the new number of points, the inner
    products ``L_new' L_old`` of the new with the old basis, (r, r), the norm of the function's change, and the index of
    the dropped point, or -1.
    """
    gram, decay, parametric = basis.gram, update.regularization / sample, update.parametric
    filling = order < basis.factor.shape[1]
    gram[order, :order] = row[:order]
    gram[:order, order] = row[:order]
    gram[order, order], basis.recency[order] = row[order], 1.0
    basis.factor[order], basis.image[order] = 0.0, product
    order += 1
    factor, image, recency = basis.factor[:order], basis.image[:order], basis.recency[:order]
    before, old = image.copy(), Squares(squares.inner.copy(), squares.triangle, squares.mixing.copy())
    spread = 1.0 if parametric else np.sum(np.diag(gram[:order, :order]))
    if step * decay * spread > 1.0:
        step = 1.0 / (decay * spread)
    if filling:
        factor[order - 1, order - 1] = 1.0
    elif parametric:
        update_parametric(factor, image, gram[order - 1, :order], projection, step, decay)
    else:
        update_nonparametric(factor, image, gram[order - 1, :order], projection, step, decay)
    j = -1
    if order > update.most:
        recency *= update.recency
        j = least(factor, gram[:order, :order], recency)
        discard(basis, order, j, parametric)
        order -= 1
        before = np.concatenate((before[:j], before[j + 1 :]))
    if filling or not parametric:
        basis.image[:order] = np.ascontiguousarray(gram[:order, :order]) @ basis.factor[:order]
    prepare(basis, order, update.regularization, squares)
    cross = basis.factor[:order].T @ before
    moved = 0.0
    if weights.shape[1]:
        weights[:], moved = carried(weights, old, cross, squares, follow)
    return order, cross, moved, j
