"""The triangular factor of a regularised least-squares problem on a dictionary that changes.

With k_n the kernel between sample n and the dictionary D, r_n the curvature of its loss and t_n the value that it asks
for, the weights solve

    H W = C,    H = sum_n r_n k_n k_n' + lambda K_DD,    C = sum_n r_n k_n t_n'

The state consists of R, upper triangular with a positive diagonal, and Q, with ``R'R = H`` and ``R'Q = C``, so that
``R W = Q``. A sample is a row below ``[R, Q]``, which orthogonal transformations rotate into the triangle (QR recursive
least squares). To remove a point, its column is deleted, and the remaining columns are rotated into a triangle again:
the other points' features k_n do not change. Only the information on the removed point is lost, and no step subtracts
matrices. The alternative, a recursion on the inverse of H, loses its digits for wide kernels.

Only the leading ``order`` rows and columns are in use, and R is zero below the diagonal there.
"""

import math

import numpy as np

from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit

LONG_LOOPS = True

NOTHING = 1e-290
"""Sums of squares up to this number are treated as 0; larger sums do not overflow in reflections."""


@cached_njit
def forget(root: Array, moments: Array, order: int, share: float) -> None:
    """Multiply the weight of all samples so far, and of the ridge, by ``share``."""
    factor = math.sqrt(share)
    for i in range(order):
        for k in range(i, order):
            root[i, k] *= factor
        for c in range(moments.shape[1]):
            moments[i, c] *= factor


@cached_njit
def keep(root: Array, moments: Array, order: int, kept: Array, left: int, product: Array) -> None:
    """Remove points; ``kept`` (M',) holds the indices of the ``left`` remaining points, in ascending order.

    A remaining column reaches below the diagonal by the number of removed points before it. Reflections of these few
    rows, column by column, make R triangular again.
    """
    outputs, first = moments.shape[1], 0
    while first < left and kept[first] == first:
        first += 1
    for i in range(order):
        line_of = root[i]
        for place in range(first, left):
            line_of[place] = line_of[int(kept[place])]
        for place in range(left, order):
            line_of[place] = 0.0
    for i in range(first, left):
        depth = int(kept[i]) - i
        sigma = 0.0
        for n in range(i + 1, i + 1 + depth):
            sigma += root[n, i] * root[n, i]
        upper = root[i]
        alpha = upper[i]
        if sigma == 0.0 and alpha > 0.0:
            continue
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta) if alpha > 0.0 else alpha - beta
        scale = 2.0 / (head * head + sigma)
        upper[i] = beta
        for k in range(i + 1, left):
            product[k] = head * upper[k]
        for n in range(i + 1, i + 1 + depth):
            share, lower = root[n, i], root[n]
            for k in range(i + 1, left):
                product[k] += share * lower[k]
        for k in range(i + 1, left):
            product[k] *= scale
            upper[k] -= head * product[k]
        for n in range(i + 1, i + 1 + depth):
            share, lower = root[n, i], root[n]
            for k in range(i + 1, left):
                lower[k] -= share * product[k]
        for c in range(outputs):
            moved = head * moments[i, c]
            for n in range(i + 1, i + 1 + depth):
                moved += root[n, i] * moments[n, c]
            moved *= scale
            moments[i, c] -= head * moved
            for n in range(i + 1, i + 1 + depth):
                moments[n, c] -= root[n, i] * moved
        for n in range(i + 1, i + 1 + depth):
            root[n, i] = 0.0
    for i in range(left, order):
        for k in range(left):
            root[i, k] = 0.0
        for c in range(outputs):
            moments[i, c] = 0.0


@cached_njit
def append(root: Array, moments: Array, order: int, factor: Array, ridge: float, projection: Array) -> None:
    """Append a point to ``order`` others; earlier samples count at the point's projection on the others.

    ``factor`` is the inverse Cholesky factor of the Gram matrix including the point. Its last row is
    ``[-a', 1] / sqrt(s)`` with the projection a and the Schur complement s. The earlier samples' features at the point
    are then ``a'k``, and the direction outside the span has only the ridge ``lambda s``.
    """
    width, bottom = root.shape[1], factor[order, order]
    for k in range(order):
        projection[k] = -factor[order, k] / bottom
    for i in range(order):
        root[i, order] = dot(root, i * width + i, line(projection, i, order - i), order - i)
    for k in range(order):
        root[order, k] = 0.0
    root[order, order] = math.sqrt(ridge) / bottom
    for c in range(moments.shape[1]):
        moments[order, c] = 0.0


@cached_njit
def absorb(root: Array, moments: Array, order: int, rows: Array, aims: Array, product: Array) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle; both are overwritten.

    Each column takes one Householder reflection for all rows together. The sign keeps the diagonal positive, and
    ``alpha - beta`` is computed as ``-sigma / (alpha + beta)`` to avoid cancellation.
    """
    size, outputs = len(rows), moments.shape[1]
    if size == 1:
        _absorb_one(root, moments, order, rows[0], aims[0])
        return
    whole = size - size % 4
    for i in range(order):
        sigma = 0.0
        for n in range(size):
            sigma += rows[n, i] * rows[n, i]
        if sigma <= NOTHING:
            continue
        upper = root[i]
        alpha = upper[i]
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta)
        scale = 2.0 / (head * head + sigma)
        upper[i] = beta
        for k in range(i + 1, order):
            product[k] = head * upper[k]
        for n in range(0, whole, 4):
            v0, v1, v2, v3 = rows[n, i], rows[n + 1, i], rows[n + 2, i], rows[n + 3, i]
            r0, r1, r2, r3 = rows[n], rows[n + 1], rows[n + 2], rows[n + 3]
            for k in range(i + 1, order):
                product[k] += (v0 * r0[k] + v1 * r1[k]) + (v2 * r2[k] + v3 * r3[k])
        for n in range(whole, size):
            v0, r0 = rows[n, i], rows[n]
            for k in range(i + 1, order):
                product[k] += v0 * r0[k]
        for k in range(i + 1, order):
            product[k] *= scale
            upper[k] -= head * product[k]
        for n in range(size):
            v0, r0 = rows[n, i], rows[n]
            for k in range(i + 1, order):
                r0[k] -= v0 * product[k]
        for c in range(outputs):
            share = head * moments[i, c]
            for n in range(size):
                share += rows[n, i] * aims[n, c]
            share *= scale
            moments[i, c] -= head * share
            for n in range(size):
                aims[n, c] -= rows[n, i] * share


@cached_njit
def _absorb_one(root: Array, moments: Array, order: int, row: Array, aim: Array) -> None:
    """Rotate one row into the triangle, by plane rotations."""
    for i in range(order):
        entry = row[i]
        if entry == 0.0:
            continue
        upper = root[i]
        radius = math.sqrt(upper[i] * upper[i] + entry * entry)
        cosine, sine = upper[i] / radius, entry / radius
        upper[i] = radius
        for k in range(i + 1, order):
            x, y = upper[k], row[k]
            upper[k] = cosine * x + sine * y
            row[k] = cosine * y - sine * x
        for c in range(moments.shape[1]):
            x, y = moments[i, c], aim[c]
            moments[i, c] = cosine * x + sine * y
            aim[c] = cosine * y - sine * x


@cached_njit
def shift(root: Array, moments: Array, order: int, change: Array) -> None:
    """Move the solution by ``change`` (M, C): ``Q += R change``. The posterior variance does not change."""
    outputs = moments.shape[1]
    for i in range(order):
        upper = root[i]
        for c in range(outputs):
            total = 0.0
            for k in range(i, order):
                total += upper[k] * change[k, c]
            moments[i, c] += total


@cached_njit
def solve(root: Array, moments: Array, order: int, weights: Array) -> None:
    """Fill in the weights (M, C) of ``R W = Q`` by back substitution."""
    width, outputs = root.shape[1], moments.shape[1]
    for i in range(order - 1, -1, -1):
        upper, rest = root[i], order - i - 1
        if outputs == 1:
            known = dot(root, i * width + i + 1, line(weights, i + 1, rest), rest)
            weights[i, 0] = (moments[i, 0] - known) / upper[i]
            continue
        for c in range(outputs):
            weights[i, c] = moments[i, c]
        whole = order - rest % 4
        for k in range(i + 1, whole, 4):
            r0, r1, r2, r3 = upper[k], upper[k + 1], upper[k + 2], upper[k + 3]
            for c in range(outputs):
                weights[i, c] -= (r0 * weights[k, c] + r1 * weights[k + 1, c]) + (
                    r2 * weights[k + 2, c] + r3 * weights[k + 3, c]
                )
        for k in range(whole, order):
            for c in range(outputs):
                weights[i, c] -= upper[k] * weights[k, c]
        for c in range(outputs):
            weights[i, c] /= upper[i]


@cached_njit
def project(factor: Array, order: int, sums: Array, change: Array) -> None:
    """Fill in ``inv(K_DD) sums`` (M, C): the weights of the function whose values at the dictionary are given."""
    width, outputs = factor.shape[1], sums.shape[1]
    for k in range(order):
        for c in range(outputs):
            change[k, c] = 0.0
    for i in range(order):
        below = factor[i]
        if outputs == 1:
            image = dot(factor, i * width, sums, i + 1)
            for k in range(i + 1):
                change[k, 0] += image * below[k]
            continue
        for c in range(outputs):
            image = 0.0
            for k in range(i + 1):
                image += below[k] * sums[k, c]
            for k in range(i + 1):
                change[k, c] += image * below[k]


@cached_njit
def pull(root: Array, moments: Array, order: int, sums: Array, unit: float) -> None:
    """Move the solution by ``unit inv(H) sums`` (M, C), ``Q += unit inv(R') sums``; overwrites ``sums``."""
    outputs = moments.shape[1]
    for i in range(order):
        upper = root[i]
        for c in range(outputs):
            entry = sums[i, c] / upper[i]
            moments[i, c] += unit * entry
            for k in range(i + 1, order):
                sums[k, c] -= entry * upper[k]


@cached_njit
def forward(root: Array, order: int, vector: Array) -> None:
    """Overwrite a vector v (M,) with ``inv(R') v``."""
    for i in range(order):
        upper = root[i]
        entry = vector[i] / upper[i]
        vector[i] = entry
        for k in range(i + 1, order):
            vector[k] -= entry * upper[k]


@cached_njit
def uncertainty(root: Array, factor: Array, order: int, rows: ReadOnly, ridge: float, gram: Array) -> None:
    """Overwrite the kernel between points (n, n) with the posterior covariance in units of noise variance / curvature.

    With the kernel rows k (n, M or more) of the points, and their images z in the span of the dictionary, it is

        k' inv(H) k + (kappa(x, x) - z'z) / lambda

    and ``kappa / lambda`` far from all samples. An entry is the change of the function at one point for a sample of
    curvature 1 at the other. Multiplied by the noise variance it is the covariance of the values (Rasmussen and
    Williams 2006, eq. 2.26 and 8.14).
    """
    size = len(gram)
    known, images = np.empty((size, order)), np.empty((size, order))
    for n in range(size):
        row, own = line(rows, n * rows.shape[1], order), known[n]
        copy_vector(row, own)
        forward(root, order, own)
        for i in range(order):
            images[n, i] = dot(factor, i * factor.shape[1], row, i + 1)
    for n in range(size):
        for m in range(n + 1):
            beyond = gram[n, m] - dot(images, n * order, images[m], order)
            if n == m:
                beyond = max(beyond, 0.0)
            gram[n, m] = gram[m, n] = dot(known, n * order, known[m], order) + beyond / ridge


@cached_njit
def coordinate(factor: Array, order: int, j: int, row: Array) -> None:
    """Fill in the features (M,) of the j-th unit vector: ``U row = e_j``. The sum of ``row row'`` over j is K_DD."""
    width = factor.shape[1]
    for k in range(j):
        row[k] = 0.0
    row[j] = 1.0 / factor[j, j]
    for k in range(j + 1, order):
        row[k] = -dot(factor, k * width + j, line(row, j, k - j), k - j) / factor[k, k]
