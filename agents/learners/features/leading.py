"""The leading eigenvectors of a dictionary's Gram matrix, from the inverse of its Cholesky factor.

Plane rotations of the rows of U leave ``U'U = inv(K)`` as it is. Once they have made the rows orthogonal, these are
``v' / sqrt(s)`` with the eigenvectors v and eigenvalues s of K (one-sided Jacobi method). A library's solver would
serve as well, but calls of it from compiled code take long to compile.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

ORTHOGONAL = 1e-14
"""The cosine of the angle between rows that count as orthogonal."""

SWEEPS = 60
"""Far more than are ever needed: each squares what is left."""


@cached_njit
def restrict(weights: Array, factor: Array, order: int, rank: int) -> None:
    """Project f on the ``rank`` leading eigenvectors of K, and have U project on them from now on.

    U then has as many rows, below rows of zeros, with ``U'U = V inv(S) V'``; it is lower triangular as before.
    """
    rows = np.empty((order, order))
    for i in range(order):
        for m in range(order):
            rows[i, m] = factor[i, m] if m <= i else 0.0
    _make_orthogonal(rows)
    lengths = np.empty(order)
    for i in range(order):
        lengths[i] = math.sqrt(dot(rows, i * order, rows[i], order))
    leading = np.empty((rank, order))
    for k in range(rank):  # the shortest rows belong to the largest eigenvalues
        place = 0
        for i in range(order):
            if lengths[i] < lengths[place]:
                place = i
        for m in range(order):
            leading[k, m] = rows[place, m] / lengths[place]
            factor[order - rank + k, m] = rows[place, m]
        lengths[place] = math.inf
    _project(weights, leading)
    for i in range(order - rank):
        for m in range(order):
            factor[i, m] = 0.0
    for m in range(order - 1, order - rank, -1):
        for i in range(order - rank, m):
            _rotate(factor, m, i, factor[m, m], factor[i, m], order)
            factor[i, m] = 0.0


@cached_njit
def _make_orthogonal(rows: Array) -> None:
    order = len(rows)
    for _ in range(SWEEPS):
        largest = 0.0
        for i in range(order):
            for j in range(i):
                a, b = dot(rows, i * order, rows[i], order), dot(rows, j * order, rows[j], order)
                c = dot(rows, i * order, rows[j], order)
                cosine = abs(c) / math.sqrt(a * b)
                if cosine <= ORTHOGONAL:
                    continue
                largest = max(largest, cosine)
                ratio = (b - a) / (2.0 * c)
                tangent = 1.0 / (abs(ratio) + math.sqrt(1.0 + ratio * ratio))
                tangent = tangent if ratio >= 0.0 else -tangent
                _rotate(rows, i, j, 1.0, -tangent, order)
        if largest == 0.0:
            return


@cached_njit
def _rotate(rows: Array, i: int, j: int, x: float, y: float, order: int) -> None:
    """Turn rows i and j in their plane, as that turns (x, y) to (r, 0)."""
    radius = math.sqrt(x * x + y * y)
    if radius == 0.0:
        return
    cosine, sine = x / radius, y / radius
    for m in range(order):
        upper, lower = rows[i, m], rows[j, m]
        rows[i, m] = cosine * upper + sine * lower
        rows[j, m] = cosine * lower - sine * upper


@cached_njit
def _project(weights: Array, leading: Array) -> None:
    """Project the weights on rows that are orthonormal."""
    rank, order = leading.shape
    for c in range(weights.shape[1]):
        inner = np.zeros(rank)
        for k in range(rank):
            for m in range(order):
                inner[k] += leading[k, m] * weights[m, c]
        for m in range(order):
            weights[m, c] = 0.0
            for k in range(rank):
                weights[m, c] += inner[k] * leading[k, m]
