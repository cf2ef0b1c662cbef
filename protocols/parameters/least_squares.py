"""Sums of samples from which least squares on features is solved, in compiled code.

The sums over samples with the features phi (L,) and the targets y (C,) are one vector: the upper triangle of
``sum phi phi'``, row by row, then ``sum phi y'`` (L, C), and the number of samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from kernelswarm.arrays import Array
from kernelswarm.inside_numba import COMPILES
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always

# Decompositions of symmetric matrices by LAPACK, in compiled code.
#
# With `np.linalg` numba also compiles checks and messages, which takes seconds. These are the functions that it calls.


_pointer: Any = types.CPointer
_eigenvectors: Any = types.ExternalFunction(
    "numba_ez_xxxevd",
    types.intc(
        types.char, types.char, types.char, types.intp, _pointer(types.float64), types.intp, _pointer(types.float64)
    ),
)
"""The function that numba's `np.linalg.eigh` calls. Its arguments are the kind of numbers, the job, the triangle to
read, the size, the matrix by columns, its pitch, and an array for the eigenvalues."""

_cholesky: Any = types.ExternalFunction(
    "numba_xxpotrf", types.intc(types.char, types.char, types.intp, _pointer(types.float64), types.intp)
)
"""The function that `np.linalg.cholesky` calls. Its arguments are the kind of numbers, the triangle to read and write,
the size, the matrix by columns, and its pitch."""

if not COMPILES:

    def decompose(matrix: Array, values: Array) -> None:
        """Replace the rows of a symmetric matrix by its eigenvectors, and fill in the eigenvalues."""
        found, vectors = np.linalg.eigh(matrix, UPLO="U")
        values[:], matrix[:] = found, vectors.T

    def factor(matrix: Array) -> bool:
        """Overwrite the upper triangle of A with R, A = R'R; returns False if A is not positive definite."""
        try:
            lower = np.linalg.cholesky(np.triu(matrix) + np.triu(matrix, 1).T)
        except np.linalg.LinAlgError:
            return False
        matrix[np.triu_indices_from(matrix)] = lower.T[np.triu_indices_from(matrix)]
        return True

else:

    @cached_njit
    def decompose(matrix: Array, values: Array) -> None:
        """Replace the rows of a symmetric matrix (m, m) by its eigenvectors, and fill in the eigenvalues.

        Its upper triangle is read, which is the lower one in LAPACK's column order.
        """
        size = len(matrix)
        if size == 1:
            values[0], matrix[0, 0] = matrix[0, 0], 1.0
            return
        if _eigenvectors(ord("d"), ord("V"), ord("L"), size, matrix.ctypes, size, values.ctypes):
            raise np.linalg.LinAlgError("the eigenvalues of a node's matrix did not converge")

    @cached_njit
    def factor(matrix: Array) -> bool:
        """Overwrite the upper triangle of A (m, m) with R, A = R'R; returns False if A is not positive definite.

        The lower triangle is neither read nor written.
        """
        size = len(matrix)
        return bool(_cholesky(ord("d"), ord("L"), size, matrix.ctypes, size) == 0)


LONG_LOOPS = True

FLOOR = 1e-12
"""The number added to the diagonal, as a multiple of its largest entry; collinear features then get small weights."""


def empty(features: int, outputs: int) -> Array:
    """Return the sums over no samples, (L (L + 1) / 2 + L C + 1,)."""
    return np.zeros(features * (features + 1) // 2 + features * outputs + 1)


@cached_njit
def add(sums: Array, features: ReadOnly, targets: ReadOnly, forgetting: float) -> None:
    """Add samples, features (n, L) and targets (n, C), to the discounted sums; without samples nothing changes."""
    count, size = features.shape
    if count == 0:
        return
    for k in range(len(sums)):
        sums[k] *= forgetting
    for n in range(count):
        place = 0
        for i in range(size):
            feature = features[n, i]
            for k in range(size - i):
                sums[place + k] += feature * features[n, i + k]
            place += size - i
        for i in range(size):
            for c in range(targets.shape[1]):
                sums[place] += features[n, i] * targets[n, c]
                place += 1
    sums[len(sums) - 1] += count


def curvature(sums: Array, ridge: float, lambdas: Array) -> Array:
    """Return ``sum phi phi' + (ridge + n lambda / 2) I`` of sums over n samples, the upper triangle of (L, L)."""
    matrix = np.zeros((len(lambdas), len(lambdas)))
    _lay_out(sums, 1.0, matrix)
    _raise(matrix, ridge + 0.5 * max(float(sums[-1]), 0.0) * lambdas)
    return matrix


@cached_njit
def solve(triangle: ReadOnly, scale: float, ridge: ReadOnly, right: Array) -> None:
    """Solve ``(scale G + diag(ridge)) weights = right``; the right-hand side is overwritten with the weights.

    With noise in messages, received sums may not correspond to any samples. Such a G is replaced by the nearest
    positive semidefinite matrix.

    Parameters
    ----------
    triangle : Array
        The upper triangle of G, row by row, (L (L + 1) / 2,), or a longer vector that begins with it.
    scale : float
        Nonnegative.
    ridge : Array
        (L,), nonnegative.
    right : Array
        (L C,), row by row.
    """
    size = len(ridge)
    outputs = len(right) // size
    matrix = np.empty((size, size))
    _lay_out(triangle, scale, matrix)
    regular = _raise(matrix, ridge)
    if regular and not factor(matrix):
        _lay_out(triangle, scale, matrix)
        matrix = _nearest(matrix)
        regular = _raise(matrix, ridge) and factor(matrix)
    if not regular:
        for k in range(len(right)):
            right[k] = 0.0
        return
    column = np.empty(size)
    for c in range(outputs):
        for i in range(size):
            column[i] = right[i * outputs + c]
        _substitute(matrix, column)
        for i in range(size):
            right[i * outputs + c] = column[i]


@cached_njit
def _lay_out(triangle: ReadOnly, scale: float, matrix: Array) -> None:
    """Fill the upper triangle of a matrix."""
    size, place = len(matrix), 0
    for i in range(size):
        for k in range(i, size):
            matrix[i, k] = scale * triangle[place + k - i]
        place += size - i


@cached_njit
def _raise(matrix: Array, ridge: ReadOnly) -> bool:
    """Add the ridge and the floor to the diagonal; returns False if the whole diagonal is 0."""
    largest = 0.0
    for i in range(len(matrix)):
        matrix[i, i] += ridge[i]
        largest = max(largest, matrix[i, i])
    for i in range(len(matrix)):
        matrix[i, i] += FLOOR * largest
    return largest > 0.0


@cached_njit
def _nearest(matrix: Array) -> Array:
    """Return the upper triangle of the nearest positive semidefinite matrix, from the upper triangle of a matrix."""
    size = len(matrix)
    values, found = np.empty(size), np.zeros((size, size))
    decompose(matrix, values)
    for n in range(size):
        if values[n] > 0.0:
            for i in range(size):
                share = values[n] * matrix[n, i]
                for k in range(i, size):
                    found[i, k] += share * matrix[n, k]
    return found


@cached_njit
def _substitute(factor: Array, column: Array) -> None:
    """Overwrite ``column`` with the solution x of ``R'R x = column``, for the upper triangle R (L, L)."""
    size = len(column)
    for i in range(size):
        column[i] /= factor[i, i]
        value = column[i]
        for k in range(i + 1, size):
            column[k] -= factor[i, k] * value
    for i in range(size - 1, -1, -1):
        # Four independent sums run in parallel.
        first = second = third = fourth = 0.0
        whole = i + 1 + (size - i - 1) // 4 * 4
        for k in range(i + 1, whole, 4):
            first += factor[i, k] * column[k]
            second += factor[i, k + 1] * column[k + 1]
            third += factor[i, k + 2] * column[k + 2]
            fourth += factor[i, k + 3] * column[k + 3]
        for k in range(whole, size):
            first += factor[i, k] * column[k]
        column[i] = (column[i] - ((first + second) + (third + fourth))) / factor[i, i]


# The variance of the targets' noise as a node learns it from its own samples, in compiled code.
#
# Each step gives the mean squared prediction error of its samples, in units in which a correct model has the noise
# variance as its mean. Early errors also contain the error of the function, so later errors count more: the mean of n
# steps has weights that grow as 1, 2, ..., n. Repeated rows have smaller errors than the noise, because the function
# has already learned from them: only the first pass over finite data counts.

MEAN, STEPS, MOST = 0, 1, 2
"""The rows of the estimate, (3, C): the mean so far; the number of steps in the mean, in the first entry; the largest
such number, in the first entry, 0 if no row is repeated."""

ROWS = 3


@inline_always
def all_learned(carried: ReadOnly) -> bool:
    """Return whether steps no longer count for the noise, because their rows are repeated."""
    return bool(0.0 < carried[MOST, 0] <= carried[STEPS, 0])


@cached_njit
def learn_noise(noise: Array, errors: ReadOnly, scales: ReadOnly, scale: float, forgotten: float) -> None:
    """Update the mean with the errors (n, C) of one step; without errors nothing changes.

    Parameters
    ----------
    noise : Array
        (3, C), changed.
    errors : Array
        (n, C), each multiplied by the root of its sample's curvature.
    scales : Array
        (n,), divisors of the squared errors: the curvatures.
    scale : float
        A common divisor instead of ``scales`` if samples are weighted: the curvature of a sample of weight 1, since a
        target of weight w has the noise variance divided by w. 0 without weights.
    forgotten : float
        The least weight of a step in the mean; 0 without forgetting.
    """
    count = len(scales)
    if count == 0 or all_learned(noise):
        return
    noise[STEPS, 0] += 1.0
    share = max(2.0 / (noise[STEPS, 0] + 1.0), forgotten)
    for c in range(noise.shape[1]):
        total = 0.0
        for n in range(count):
            total += errors[n, c] * errors[n, c] / (scale if scale > 0.0 else scales[n])
        noise[MEAN, c] += share * (total / count - noise[MEAN, c])


@cached_njit
def take_over(noise: Array, recent: ReadOnly) -> None:
    """Replace the mean by a mean over fewer steps, unless rows are repeated; the number of remaining steps is kept."""
    if all_learned(noise):
        return
    if noise[MOST, 0] > 0.0:
        noise[MOST, 0] += recent[STEPS, 0] - noise[STEPS, 0]
    noise[STEPS, 0] = recent[STEPS, 0]
    for c in range(noise.shape[1]):
        noise[MEAN, c] = recent[MEAN, c]


def learn_at_most(carried: Array, steps: float) -> None:
    """Set the number of steps, at least 1, that count for the noise; infinity means no bound."""
    carried[MOST, 0] = max(steps, 1.0) if steps < np.inf else 0.0


def noise_of(carried: ReadOnly) -> Array:
    """Return the noise variance of each output, (C,); NaN before the first step."""
    return carried[MEAN].copy() if carried[STEPS, 0] > 0.0 else np.full(carried.shape[1], np.nan)
