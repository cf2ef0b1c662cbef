"""Sums of samples from which least squares on features is solved, in compiled code.

The sums over samples with the features phi (L,) and the targets y (C,) are one vector: the upper triangle of
``sum phi phi'``, row by row, then ``sum phi y'`` (L, C), and the number of samples.
"""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.solving.lapack import decompose, factor

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

FLOOR = 1e-12
"""Added to the diagonal, as a part of its largest entry: collinear features get small weights."""


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
    """Solve ``(scale G + diag(ridge)) weights = right``, in the place of the right-hand side.

    Sums received with noise may belong to no samples: such a G is replaced by the nearest matrix without negative
    eigenvalues.

    Parameters
    ----------
    triangle : Array
        The upper triangle of G, row by row, (L (L + 1) / 2,), or a longer vector that begins with it.
    scale : float
        Not negative.
    ridge : Array
        (L,), not negative.
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
    """Add the ridge and the floor to the diagonal; False where it is 0."""
    largest = 0.0
    for i in range(len(matrix)):
        matrix[i, i] += ridge[i]
        largest = max(largest, matrix[i, i])
    for i in range(len(matrix)):
        matrix[i, i] += FLOOR * largest
    return largest > 0.0


@cached_njit
def _nearest(matrix: Array) -> Array:
    """Return the upper triangle of a matrix without its negative eigenvalues, from its upper triangle."""
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
    """Solve ``R'R x = column`` in its place, for the upper triangle R (L, L)."""
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
