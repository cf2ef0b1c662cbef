"""What :mod:`~kernelswarm.agents.learners.second_order.information` does, by matrix-matrix products for large steps.

The products sum in another order, so that the last digits differ; which form a step takes depends on its size alone.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.learners.second_order import information
from kernelswarm.protocols.compiling import jitted

Array = npt.NDArray[np.float64]

PANEL = 32
"""Columns that are reduced one after the other, before the others follow in one product."""

ROWS = 64
"""Weights that are solved for one after the other."""


def append(root: Array, moments: Array, kept: int, order: int, factor: Array, ridge: float) -> None:
    """Put the points from ``kept`` on behind the others, as :func:`information.append` does one by one.

    With the last rows ``[G, T]`` of the factor their features are ``-inv(T) G`` times those of the others, and
    ``inv(T)`` times directions of which only the ridge is known.
    """
    if kept == order:
        return  # LAPACK prints that it has nothing to invert
    inverse = lapack.dtrtri(factor[kept:order, kept:order], lower=1)[0]
    root[kept:order, :kept] = 0.0
    root[:kept, kept:order] = root[:kept, :kept] @ (inverse @ factor[kept:order, :kept]).T
    root[:kept, kept:order] *= -1.0
    root[kept:order, kept:order] = math.sqrt(ridge) * np.tril(inverse).T
    moments[kept:order] = 0.0


def absorb(root: Array, moments: Array, order: int, rows: Array, aims: Array) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle; both are used up."""
    for start in range(0, order, PANEL):
        end = min(start + PANEL, order)
        block, vectors = root[start:end, start:end].copy(), rows[:, start:end].copy()
        reflector = np.zeros((end - start, end - start))
        _reduce(block, vectors, reflector, np.empty(end - start))
        root[start:end, start:end] = block
        for above, below in ((root[start:end, end:order], rows[:, end:order]), (moments[start:end], aims)):
            change = reflector.T @ (above + vectors.T @ below)
            above -= change
            below -= vectors @ change


@jitted
def _reduce(block: Array, vectors: Array, reflector: Array, product: Array) -> None:
    """Reduce ``vectors`` (n, k) below the triangle ``block`` (k, k); fill in T of the reflections ``I - Y T' Y'``.

    Y is the identity over what takes the place of ``vectors`` (compact WY form, Schreiber and Van Loan, 1989).
    """
    size, count = vectors.shape
    for i in range(count):
        sigma = 0.0
        for n in range(size):
            sigma += vectors[n, i] * vectors[n, i]
        if sigma == 0.0:
            continue
        alpha = block[i, i]
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta)
        scale = 2.0 * head * head / (head * head + sigma)
        block[i, i] = beta
        for n in range(size):
            vectors[n, i] /= head
        for k in range(count):
            product[k] = block[i, k] if k > i else 0.0
        for n in range(size):
            share, row = vectors[n, i], vectors[n]
            for k in range(count):
                product[k] += share * row[k]
        for k in range(i + 1, count):
            block[i, k] -= scale * product[k]
        for n in range(size):
            share, row = scale * vectors[n, i], vectors[n]
            for k in range(i + 1, count):
                row[k] -= share * product[k]
        for q in range(i):
            total = 0.0
            for k in range(q, i):
                total += reflector[q, k] * product[k]
            reflector[q, i] = -scale * total
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
