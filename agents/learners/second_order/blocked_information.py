"""What :mod:`~kernelswarm.agents.learners.second_order.information` does, by matrix-matrix products for large steps.

The products sum in another order, so that the last digits differ; which form a step takes depends on its size alone.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.arithmetic.lanes import add_scaled, dot, whole
from kernelswarm.agents.learners.second_order import information
from kernelswarm.protocols.compiling import jitted

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

PANEL = 32
"""Columns that are reduced one after the other, before the others follow in one product."""

STRIP = 128
"""Rows of the triangle that are multiplied together."""

ROWS = 64
"""Weights that are solved for one after the other."""


def append(
    root: Array, moments: Array, order: int, projections: Array, rest: Array, diagonal: Array, ridge: float
) -> None:
    """Put points behind ``order`` others, of which the samples so far tell what their projections on these tell.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    order : int
        M.
    projections : Array
        The points' projections on the others, (n, M): their features are as much of the others'.
    rest : Array
        What these leave of the points' Gram matrix, (n, n). Of its directions only the ridge is known.
    diagonal : Array
        kappa(x, x) at the points, (n,).
    ridge : float
        lambda.
    """
    total = order + len(projections)
    for start in range(0, order, STRIP):
        end = min(start + STRIP, order)
        root[start:end, order:total] = root[start:end, start:order] @ projections[:, start:].T
    root[order:total, :order] = 0.0
    root[order:total, order:total] = math.sqrt(ridge) * _triangle(rest, diagonal).T
    moments[order:total] = 0.0


@jitted
def _triangle(gram: Array, diagonal: Array) -> Array:
    """Return the Cholesky factor of what is left of a Gram matrix of points in the span of others, to rounding."""
    lower = np.zeros(gram.shape)
    for x in range(len(gram)):
        for y in range(x + 1):
            entry = gram[x, y]
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * diagonal[x]))
    return lower


def take_out(root: Array, moments: Array, places: Indices, total: int) -> tuple[Array, Array]:
    """Leave only the points at ``places`` (M,) of ``total``.

    The rows and columns of those that stay are a triangle as they are. What is left in the rows of the others, (r, M),
    with their right-hand sides (r, C), is returned: rotated in as samples are, it makes R what
    :func:`information.keep` does.
    """
    going = np.setdiff1d(np.arange(total), places)
    rows, aims = root[np.ix_(going, places)], moments[going]
    _close_up(root, moments, going, total)
    return rows, aims


@jitted
def _close_up(root: Array, moments: Array, going: Indices, total: int) -> None:
    """Take the rows and columns at the places ``going`` out; nothing stays behind the others."""
    passed = 0
    for i in range(total):
        if passed < len(going) and going[passed] == i:
            passed += 1
            continue
        source, target = root[i], root[i - passed]
        if passed > 0:
            for k in range(going[0], i - passed):
                target[k] = 0.0
            for c in range(moments.shape[1]):
                moments[i - passed, c] = moments[i, c]
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


def absorb(root: Array, moments: Array, rows: Array, aims: Array) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle.

    Panels of columns are reduced one after the other, and the reflections ``I - Y T' Y'`` of each applied to all that
    lies to the right in two products (compact WY form, Schreiber and Van Loan, 1989).
    """
    (size, order), outputs = rows.shape, aims.shape[1]
    if size == 0:
        return
    total = order + outputs
    below = np.zeros((total, whole(size)))  # transposed, so that what lies to the right is one piece
    below[:order, :size] = rows.T
    below[order:, :size] = aims.T
    memory = np.empty(PANEL * total)
    for start in range(0, order, PANEL):
        end = min(start + PANEL, order)
        count, left = end - start, total - end
        vectors, reflector = below[start:end], np.zeros((count, count))
        block = root[start:end, start:end].copy()
        _reduce(block, vectors, reflector)
        root[start:end, start:end] = block
        rest, change = below[end:], memory[: count * left].reshape(count, left)
        upper, sums = root[start:end, end:order], moments[start:end]
        change[:, : order - end] = upper
        change[:, order - end :] = sums
        # By columns, as BLAS has them: change += vectors rest', change = T' change, rest -= change' vectors.
        blas.dgemm(1.0, rest.T, vectors.T, 1.0, change.T, trans_a=1, overwrite_c=1)
        blas.dtrmm(1.0, reflector.T, change.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        upper -= change[:, : order - end]
        sums -= change[:, order - end :]
        blas.dgemm(-1.0, vectors.T, change.T, 1.0, rest.T, trans_b=1, overwrite_c=1)


@jitted
def _reduce(block: Array, vectors: Array, reflector: Array) -> None:
    """Reduce ``vectors`` (k, n), a sample to a column, below the triangle ``block`` (k, k), and fill in T.

    What takes the place of the vectors is Y, below the identity.
    """
    count, size = vectors.shape
    product = np.empty(count)
    for i in range(count):
        vector = vectors[i]
        sigma = dot(vectors, i * size, vector, size)
        if sigma == 0.0:
            continue
        alpha = block[i, i]
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta)
        scale = 2.0 * head * head / (head * head + sigma)
        block[i, i] = beta
        for n in range(size):
            vector[n] /= head
        for k in range(i):
            product[k] = dot(vectors, k * size, vector, size)
        for k in range(i + 1, count):
            change = scale * (block[i, k] + dot(vectors, k * size, vector, size))
            block[i, k] -= change
            add_scaled(vectors, k * size, vectors, i * size, -change, size)
        for q in range(i):
            entry = 0.0
            for k in range(q, i):
                entry += reflector[q, k] * product[k]
            reflector[q, i] = -scale * entry
        reflector[i, i] = scale


def shift(root: Array, moments: Array, order: int, change: Array) -> None:
    """Move the solution by ``change`` (M, C)."""
    moments[:order] += root[:order, :order] @ change


def solve(root: Array, moments: Array, order: int, weights: Array) -> None:
    """Fill in the weights (M, C) of ``R W = Q``."""
    for end in range(order, 0, -ROWS):
        start = max(end - ROWS, 0)
        right = moments[start:end] - root[start:end, end:order] @ weights[end:order]
        found = np.empty(right.shape)
        information.solve(root[start:end, start:end].copy(), right, end - start, found)
        weights[start:end] = found
