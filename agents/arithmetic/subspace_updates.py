"""The arithmetic of online kernel feature extraction, compiled: one sample's projection, and the updates it makes.

All sums run over the rank r in the innermost loop, which vector registers take in any number without a change of
order, and no entry depends on which other points are in a call.
"""

import math
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.arithmetic.copying import copy_matrix, copy_vector
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

LONG_LOOPS = True

RANK_ZERO = 1e-13
"""A pivot of the inner Gram matrix below this share of its largest diagonal entry counts as 0."""

RIDGE = 1e-12
"""Added to the squared inner products of features before a refit; it matters where they hold less than its root."""


class Basis(NamedTuple):
    """The stored points, and A with what goes with it, in arrays with room for more points."""

    points: Array  # S, (capacity, p)
    gram: Array  # K_SS, (capacity, capacity)
    factor: Array  # A, (capacity, r)
    image: Array  # K A, (capacity, r)
    recency: Array  # eta, (capacity,)


class Squares(NamedTuple):
    """The matrices that make features, as `prepare` fills them in; each (r, r)."""

    inner: Array  # M = A' K A
    triangle: Array  # the Cholesky factor of M + lambda I
    mixing: Array  # G


class Update(NamedTuple):
    """The numbers by which samples change the basis."""

    regularization: float  # lambda
    parametric: bool
    most: int  # the points stored at most
    recency: float  # beta


@cached_njit
def coordinates(rows: Array, factor: ReadOnly, count: int, found: Array) -> None:
    """Fill the inner products ``b = A' k`` of points with the basis, (n, r), from the first ``count`` entries of their
    kernel rows (n, m) and rows of A (m, r)."""
    even, size = len(rows) - len(rows) % 2, factor.shape[1]
    for n in range(0, even, 2):  # two at a time, so that A is loaded less often; an entry's sum is the same
        _two(rows[n], rows[n + 1], factor, count, found[n], found[n + 1], size)
    for n in range(even, len(rows)):
        _one(rows[n], factor, count, found[n], size)


@inline_always
def _two(row: Array, other: Array, factor: Array, count: int, found: Array, second: Array, size: int) -> None:
    for c in range(size):
        found[c] = second[c] = 0.0
    whole = count - count % 4
    for i in range(0, whole, 4):  # four rows at a time, so that the sums are loaded and stored less often
        k0, k1, k2, k3 = row[i], row[i + 1], row[i + 2], row[i + 3]
        l0, l1, l2, l3 = other[i], other[i + 1], other[i + 2], other[i + 3]
        a0, a1, a2, a3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        for c in range(size):
            b0, b1, b2, b3 = a0[c], a1[c], a2[c], a3[c]
            found[c] += (k0 * b0 + k1 * b1) + (k2 * b2 + k3 * b3)
            second[c] += (l0 * b0 + l1 * b1) + (l2 * b2 + l3 * b3)
    for i in range(whole, count):
        entry, more, weights = row[i], other[i], factor[i]
        for c in range(size):
            found[c] += entry * weights[c]
            second[c] += more * weights[c]


@inline_always
def _one(row: Array, factor: Array, count: int, found: Array, size: int) -> None:
    for c in range(size):
        found[c] = 0.0
    whole = count - count % 4
    for i in range(0, whole, 4):
        k0, k1, k2, k3 = row[i], row[i + 1], row[i + 2], row[i + 3]
        a0, a1, a2, a3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        for c in range(size):
            found[c] += (k0 * a0[c] + k1 * a1[c]) + (k2 * a2[c] + k3 * a3[c])
    for i in range(whole, count):
        entry, weights = row[i], factor[i]
        for c in range(size):
            found[c] += entry * weights[c]


@cached_njit
def transposed_product(left: Array, right: Array, count: int) -> Array:
    """Return ``L' R`` of the first ``count`` rows of (m, r) and (m, c): (r, c)."""
    product = np.zeros((left.shape[1], right.shape[1]))
    whole = count - count % 4
    for i in range(0, whole, 4):
        for a in range(left.shape[1]):
            k0, k1, k2, k3 = left[i, a], left[i + 1, a], left[i + 2, a], left[i + 3, a]
            line = product[a]
            for c in range(right.shape[1]):
                line[c] += (k0 * right[i, c] + k1 * right[i + 1, c]) + (k2 * right[i + 2, c] + k3 * right[i + 3, c])
    for i in range(whole, count):
        for a in range(left.shape[1]):
            entry, line = left[i, a], product[a]
            for c in range(right.shape[1]):
                line[c] += entry * right[i, c]
    return product


@inline_always
def mix(products: Array, mixing: ReadOnly) -> Array:
    """Compute the features ``z = G' b`` of points, (n, w), from the inner products b with the basis, (n, r)."""
    features = np.empty((products.shape[0], mixing.shape[1]))
    coordinates(products, mixing, len(mixing), features)
    return features


@cached_njit
def root(matrix: Array) -> Array:
    """Return the lower triangular C with ``C C' = M``, M (r, r) positive semidefinite; columns of no pivot are zero."""
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


@cached_njit
def prepare(basis: Basis, order: int, regularization: float, squares: Squares) -> None:
    """Fill in ``M = A' K A`` of the first ``order`` points, the Cholesky factor of ``M + lambda I``, and
    ``G = inv(M + lambda I) C`` with C C' = M."""
    rank, triangle, mixing = basis.factor.shape[1], squares.triangle, squares.mixing
    found = transposed_product(basis.factor, basis.image, order)
    for a in range(rank):
        for b in range(a):
            found[a, b] = found[b, a] = 0.5 * (found[a, b] + found[b, a])
    copy_matrix(found, squares.inner)
    copy_matrix(root(found), mixing)
    for a in range(rank):
        found[a, a] += regularization
    copy_matrix(root(found), triangle)
    solve(triangle, mixing)


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
    length = lost = 0.0
    for c in range(found.shape[1]):
        lost += found[0, c] * solution[c, 0]
        length += solution[c, 0] * solution[c, 0]
    fit = max(diagonal - lost - regularization * length, 0.0)
    return found[0], solution.reshape(-1), fit, math.sqrt(length)


@inline_always
def update_nonparametric(basis: Basis, order: int, projection: Array, step: float, decay: float) -> None:
    """Overwrite A, whose row ``order - 1`` is zero, with ``A - mu (K A q q' - k q' + decay K A)`` (OKFEB eq. 19).

    k is the last column of K, and ``decay`` is lambda / n.
    """
    factor, image, gram, rank = basis.factor, basis.image, basis.gram, basis.factor.shape[1]
    for i in range(order):
        residual = dot(image, i * rank, projection, rank) - gram[order - 1, i]
        line, images = factor[i], image[i]
        for c in range(line.shape[0]):
            line[c] -= step * (residual * projection[c] + decay * images[c])


@inline_always
def update_parametric(basis: Basis, order: int, projection: Array, step: float, decay: float) -> None:
    """Overwrite A with ``[A - mu A (q q' + decay I); mu q']`` and K A with its image (OKFEB eq. 16)."""
    factor, image, gram, rank = basis.factor, basis.image, basis.gram, basis.factor.shape[1]
    for i in range(order):
        inner = dot(factor, i * rank, projection, rank)
        outer = dot(image, i * rank, projection, rank) - gram[order - 1, i]
        line, images = factor[i], image[i]
        for c in range(rank):
            line[c] -= step * (inner * projection[c] + decay * line[c])
            images[c] -= step * (outer * projection[c] + decay * images[c])
    for c in range(rank):
        factor[order - 1, c] = step * projection[c]


@inline_always
def least(factor: Array, gram: Array, recency: Array, order: int) -> int:
    """Return the row with the least ``recency[i] ||a_i|| sqrt(kappa(x_i, x_i))``, what Phi A loses with it, the oldest
    of equals: OKFEB eq. 24 and 26, and where kappa(x, x) = 1 its eq. 25."""
    chosen, smallest = 0, np.inf
    for i in range(order):
        size = 0.0
        for c in range(factor.shape[1]):
            size += factor[i, c] * factor[i, c]
        size = recency[i] * math.sqrt(size * gram[i, i])
        if size < smallest:
            chosen, smallest = i, size
    return chosen


@inline_always
def discard(basis: Basis, order: int, j: int, follow: bool) -> None:
    """Take point j out, the later ones moving up; with ``follow``, its share is taken from K A as well."""
    points, gram, factor, image, recency = basis
    last = order - 1
    if follow:
        for i in range(order):
            for c in range(factor.shape[1]):
                image[i, c] -= gram[i, j] * factor[j, c]
    for i in range(j, last):
        copy_vector(points[i + 1], points[i])
        copy_vector(factor[i + 1], factor[i])
        copy_vector(image[i + 1], image[i])
        recency[i] = recency[i + 1]
    # Row by row by way of a copy: the compiler takes vector registers only where what is read is not what is written.
    moving = np.empty(last)
    for i in range(last):
        target, source, head = gram[i], gram[i + (i >= j)], 0 if i >= j else j
        kept, shifted, tail = moving[:j], moving[j:], source[j + 1 : order]
        if head == 0:
            for k in range(len(kept)):
                kept[k] = source[k]
        for k in range(len(shifted)):
            shifted[k] = tail[k]
        part, values = target[head:last], moving[head:]
        for k in range(len(part)):
            part[k] = values[k]


@cached_njit
def carried(weights: Array, before: Squares, cross: Array, squares: Squares, follow: bool) -> tuple[Array, float]:
    """Return the weights (r, C) for new features, and how far the function moved in the Hilbert space.

    The function ``w'z`` is ``L G w``. With ``follow`` the new weights are those of the nearest function of the new
    features; ``cross`` is the inner products ``L_new' L_old``.
    """
    mixing, rank = squares.mixing, len(squares.mixing)
    old, moving, image = np.empty(weights.shape), np.empty(weights.shape), np.empty(mixing.shape)
    coordinates(before.mixing, weights, rank, old)
    coordinates(cross, old, rank, moving)
    right = transposed_product(mixing, moving, rank)
    coordinates(squares.inner, mixing, rank, image)
    square = transposed_product(mixing, image, rank)
    new = weights.copy()
    if follow:
        regular = square.copy()
        for c in range(len(regular)):
            regular[c, c] += RIDGE
        copy_matrix(right, new)
        solve(root(regular), new)
    moved = _quadratic(before.inner, old) - 2.0 * _sum_of_products(new, right) + _quadratic(square, new)
    return new, math.sqrt(max(moved, 0.0))


@cached_njit
def _quadratic(matrix: Array, vectors: Array) -> float:
    """Compute ``sum_c v_c' S v_c`` over the columns of (r, C)."""
    image = np.empty(vectors.shape)
    coordinates(matrix, vectors, len(vectors), image)
    return _sum_of_products(vectors, image)


@inline_always
def _sum_of_products(left: Array, right: Array) -> float:
    added = 0.0
    for i in range(left.shape[0]):
        for c in range(left.shape[1]):
            added += left[i, c] * right[i, c]
    return added


@inline_always
def holds(points: Array, order: int, place: int) -> bool:
    """Tell whether one of the first ``order`` points is the one at ``place``."""
    for i in range(order):
        same = True
        for k in range(points.shape[1]):
            same = same and points[i, k] == points[place, k]
        if same:
            return True
    return False


@cached_njit
def advance(
    stored: tuple[Array, Array, Array, Array, Array],
    order: int,
    made: tuple[Array, Array, Array],
    row: Array,
    product: Array,
    projection: Array,
    rule: tuple[float, bool, int, float],
    step: float,
    sample: int,
    weights: Array,
    follow: bool,
) -> tuple[int, Array, float, int]:
    """Store the point that lies behind the others, update A, and drop a point where there are too many.

    The step is cut to where the shrinkage ``I - mu decay K`` could overshoot, ``mu = 1 / (decay tr K)``, or without K
    where the update is parametric: a point nearly at right angles to the subspace would have a step without bound.

    ``stored`` is a `Basis`, ``made`` `Squares` and ``rule`` an `Update`; from Python they come as plain tuples, which
    numba takes in half the time. ``row`` (order + 1,) are the point's kernel values, that with itself last. The squares
    and ``weights`` (r, C), which may have no column, become those of the new basis. Returns the new number of points,
    the inner products ``L_new' L_old`` of the new basis with the old one, (r, r), how far the function moved, and the
    place of the point that was dropped, or -1.
    """
    basis, squares, update = Basis(*stored), Squares(*made), Update(*rule)
    gram, factor, image, recency = basis.gram, basis.factor, basis.image, basis.recency
    decay = update.regularization / sample
    filling, parametric = order < factor.shape[1], update.parametric
    for i in range(order):
        gram[order, i] = gram[i, order] = row[i]
    gram[order, order], recency[order] = row[order], 1.0
    for c in range(factor.shape[1]):
        factor[order, c] = 0.0
        image[order, c] = product[c]
    order += 1
    before, old = image[:order].copy(), Squares(squares.inner.copy(), squares.triangle, squares.mixing.copy())
    spread = 1.0 if parametric else 0.0
    for i in range(0 if parametric else order):
        spread += gram[i, i]
    if step * decay * spread > 1.0:
        step = 1.0 / (decay * spread)
    if filling:
        factor[order - 1, order - 1] = 1.0
    elif parametric:
        update_parametric(basis, order, projection, step, decay)
    else:
        update_nonparametric(basis, order, projection, step, decay)
    j = -1
    if order > update.most:
        for i in range(order):
            recency[i] *= update.recency
        j = least(factor, gram, recency, order)
        discard(basis, order, j, parametric)
        order -= 1
        for i in range(j, order):
            copy_vector(before[i + 1], before[i])
    if filling or not parametric:
        coordinates(gram[:order], factor, order, image)
    prepare(basis, order, update.regularization, squares)
    cross = transposed_product(factor, before, order)
    moved = 0.0
    if weights.shape[1]:
        new, moved = carried(weights, old, cross, squares, follow)
        copy_matrix(new, weights)
    return order, cross, moved, j
