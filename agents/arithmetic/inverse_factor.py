"""The inverse Cholesky factor of a Gram matrix under insertions and removals.

Why a square root: recursions on the inverse itself lose their accuracy silently, and then remove the wrong elements.
Here an insertion appends one row and a removal is a chain of plane rotations, so no inverse is ever subtracted from
another. U stays lower triangular (zero above the diagonal in the whole buffer, positive on it), which makes it unique,
``U = inv(L)`` for the Cholesky factor ``K_DD = L L'``, and halves every product with it.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.copying import copy_vector
from kernelswarm.agents.arithmetic.lanes import dot
from kernelswarm.protocols.compiling import ReadOnly, uncounted

Array = npt.NDArray[np.float64]


@uncounted
def split(factor: Array, order: int, row: Array, diagonal: float, image: Array, projection: Array) -> float:
    """Project a point on the span: fill u = U k and a = U'u, return the Schur complement kappa(x,x) - u.u.

    Both products take one pass over the factor, four rows at a time, so that each entry is loaded once.
    """
    width = factor.shape[1]
    for j in range(order):
        projection[j] = 0.0
    whole = order - order % 4
    for i in range(0, whole, 4):
        u0 = dot(factor, i * width, row, i + 1)
        u1 = dot(factor, (i + 1) * width, row, i + 2)
        u2 = dot(factor, (i + 2) * width, row, i + 3)
        u3 = dot(factor, (i + 3) * width, row, i + 4)
        image[i] = u0
        image[i + 1] = u1
        image[i + 2] = u2
        image[i + 3] = u3
        for j in range(i + 4):  # zeros above the diagonal
            projection[j] += (u0 * factor[i, j] + u1 * factor[i + 1, j]) + (
                u2 * factor[i + 2, j] + u3 * factor[i + 3, j]
            )
    for i in range(whole, order):
        u = dot(factor, i * width, row, i + 1)
        image[i] = u
        for j in range(i + 1):
            projection[j] += u * factor[i, j]
    return diagonal - dot(image, 0, image, order)


@uncounted
def append(
    points: Array,
    weights: Array,
    factor: Array,
    precision: Array,
    order: int,
    point: ReadOnly,
    weight: ReadOnly,
    projection: Array,
    schur: float,
) -> None:
    """Append a point with its weight: the row ``[-a', 1] / sqrt(s)`` of U from its projection a and complement s."""
    copy_vector(point, points[order])
    copy_vector(weight, weights[order])
    root = 1.0 / math.sqrt(schur)
    line = factor[order]
    for j in range(order):
        entry = -projection[j] * root
        line[j] = entry
        precision[j] += entry * entry
    factor[order, order] = root
    precision[order] = root * root


@uncounted
def remove(points: Array, weights: Array, factor: Array, precision: Array, order: int, j: int, carried: Array) -> None:
    """Drop element j: rotate column j of U into one row, which leaves with it, and refit the weights.

    Each row below row j is rotated with the row carried down so that the upper of the two has a zero in column j; what
    is carried in the end is ``inv(K)[j] / sqrt(inv(K)_jj)``. Rows and columns close up on the way.
    """
    last = order - 1
    for k in range(j):
        precision[k] = 0.0
    for i in range(j):
        line = factor[i]
        for k in range(i + 1):
            precision[k] += line[k] * line[k]
    for k in range(j + 1):
        carried[k] = factor[j, k]
    for k in range(j + 1, order):
        carried[k] = 0.0
        precision[k] = 0.0
    for i in range(j, last):
        upper, lower = factor[i], factor[i + 1]
        radius = math.sqrt(carried[j] * carried[j] + lower[j] * lower[j])
        cosine = carried[j] / radius
        sine = lower[j] / radius
        for k in range(j):
            x, y = carried[k], lower[k]
            entry = cosine * y - sine * x
            carried[k] = cosine * x + sine * y
            upper[k] = entry
            precision[k] += entry * entry
        carried[j] = radius
        for k in range(j + 1, i + 2):
            x, y = carried[k], lower[k]
            entry = cosine * y - sine * x
            carried[k] = cosine * x + sine * y
            upper[k - 1] = entry
            precision[k] += entry * entry
    for k in range(j, last):
        precision[k] = precision[k + 1]
    for k in range(order):
        factor[last, k] = 0.0
    outputs = weights.shape[1]
    for k in range(order):
        if k != j:
            ratio = carried[k] / carried[j]
            for c in range(outputs):
                weights[k, c] -= ratio * weights[j, c]
    for k in range(j, last):
        copy_vector(points[k + 1], points[k])
        copy_vector(weights[k + 1], weights[k])
