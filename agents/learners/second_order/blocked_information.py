"""What :mod:`~kernelswarm.agents.learners.second_order.information` does, by matrix-matrix products for large steps.

The products sum in another order, so that the last digits differ; which form a step takes depends on its size alone.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.arithmetic.komp import SPAN_THRESHOLD
from kernelswarm.agents.learners.second_order import information
from kernelswarm.protocols.compiling import jitted

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

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


def inherit(
    root: Array,
    moments: Array,
    before: int,
    origins: Indices,
    factor: Array,
    leaving: Array,
    cross: Array,
    gram: Array,
    ridge: float,
) -> Indices:
    """Put the points that come behind all before, as :func:`information.exchange` begins.

    ``origins`` (M,) are the places before of those that stay, then ``before`` plus the places among new points; the
    other arguments are those of `exchange`. Returns the places of all that stay or come: the others are to be taken
    out.
    """
    stays, new = origins[origins < before], origins[origins >= before] - before
    kept, gone = len(stays), before - len(stays)
    goes = np.setdiff1d(np.arange(before), stays)
    both = np.vstack([leaving, cross[new, :before]])
    images = both[:, stays] @ factor[:kept, :kept].T
    beyond = np.zeros((len(both), len(both)))  # above the diagonal it is not looked at
    beyond[:, :gone] = both[:, goes]
    beyond[gone:, gone:] = gram[np.ix_(new, new)]
    lower = np.zeros(beyond.shape)
    _triangle(beyond, images @ images.T, lower)
    weights = np.linalg.solve(lower[:gone, :gone].T, lower[gone:, :gone].T).T
    projections = np.empty((len(new), before))
    projections[:, goes] = weights
    projections[:, stays] = (images[gone:] - weights @ images[:gone]) @ factor[:kept, :kept]
    total = before + len(new)
    root[:before, before:total] = root[:before, :before] @ projections.T
    root[before:total, :before] = 0.0
    root[before:total, before:total] = math.sqrt(ridge) * lower[gone:, gone:].T
    moments[before:total] = 0.0
    return np.concatenate([stays, np.arange(before, total)])


@jitted
def _triangle(gram: Array, known: Array, lower: Array) -> None:
    """Fill in the Cholesky factor of ``gram - known``, of points that may lie in the span of others, to rounding."""
    for x in range(len(gram)):
        for y in range(x + 1):
            entry = gram[x, y] - known[x, y]
            for q in range(y):
                entry -= lower[x, q] * lower[y, q]
            lower[x, y] = entry / lower[y, y] if y < x else math.sqrt(max(entry, SPAN_THRESHOLD * gram[x, x]))


def absorb(root: Array, moments: Array, order: int, rows: Array, aims: Array, places: Indices | None = None) -> None:
    """Rotate rows (n, M) with their right-hand sides (n, C) into the triangle; both are used up.

    Parameters
    ----------
    root, moments : Array
        R and Q.
    order : int
        M.
    rows, aims : Array
        What is rotated in.
    places : Indices, optional
        Where the points are in R, (M,), where it has others too: these are taken out, as :func:`information.keep` does,
        by the same reflections.
    """
    depths = np.zeros(order, dtype=np.intp)
    if places is not None:
        depths = places - np.arange(order)
        _close_up(root, places, int(np.argmax(depths > 0)) if depths.any() else order)
    for start in range(0, order, PANEL):
        end = min(start + PANEL, order)
        depth = int(depths[end - 1])
        if not depth and not len(rows):
            continue
        bottom = end + depth
        block, vectors = root[start:bottom, start:end].copy(), rows[:, start:end].copy()
        reflector = np.zeros((end - start, end - start))
        _reduce(block, depths[start:end], vectors, reflector, np.empty(end - start))
        root[start:bottom, start:end] = np.triu(block)
        unit = np.tril(block, -1) + np.eye(*block.shape)
        for above, below in ((root[start:bottom, end:order], rows[:, end:order]), (moments[start:bottom], aims)):
            if not depth:
                change = reflector.T @ (above + vectors.T @ below)
                above -= change
            else:
                change = reflector.T @ (unit.T @ above + vectors.T @ below)
                above -= unit @ change
            below -= vectors @ change
    if places is not None:
        left = int(places[-1]) + 1
        root[order:left, :order] = 0.0
        moments[order:left] = 0.0


@jitted
def _close_up(root: Array, places: Indices, first: int) -> None:
    """Move the columns of R at ``places`` to the left, from the one at ``first`` on; no other is left."""
    order, total = len(places), places[-1] + 1
    for i in range(total):
        line_of = root[i]
        while first < order and places[first] < i:  # zero in both places
            first += 1
        for place in range(first, order):
            line_of[place] = line_of[places[place]]
        for place in range(order, len(root)):
            line_of[place] = 0.0


@jitted
def _reduce(block: Array, depths: Indices, vectors: Array, reflector: Array, product: Array) -> None:
    """Reduce ``vectors`` (n, k), and what reaches below the diagonal of ``block``; fill in T of ``I - Y T' Y'``.

    Y is the unit lower triangle that the block then has, ``depths[i]`` rows deep in column i, over what takes the place
    of ``vectors`` (compact WY form, Schreiber and Van Loan, 1989).
    """
    size, count = vectors.shape
    for i in range(count):
        bottom = i + 1 + depths[i]
        sigma = 0.0
        for n in range(i + 1, bottom):
            sigma += block[n, i] * block[n, i]
        for n in range(size):
            sigma += vectors[n, i] * vectors[n, i]
        alpha = block[i, i]
        if sigma == 0.0 and alpha >= 0.0:
            continue
        beta = math.sqrt(alpha * alpha + sigma)
        head = -sigma / (alpha + beta) if alpha > 0.0 else alpha - beta
        scale = 2.0 * head * head / (head * head + sigma)
        block[i, i] = beta
        for n in range(i + 1, bottom):
            block[n, i] /= head
        for n in range(size):
            vectors[n, i] /= head
        for k in range(count):
            product[k] = block[i, k] if k != i else 0.0
        for n in range(i + 1, bottom):
            share, row = block[n, i], block[n]
            for k in range(count):
                product[k] += share * row[k]
        for n in range(size):
            share, row = vectors[n, i], vectors[n]
            for k in range(count):
                product[k] += share * row[k]
        for k in range(i + 1, count):
            block[i, k] -= scale * product[k]
        for n in range(i + 1, bottom):
            share, row = scale * block[n, i], block[n]
            for k in range(i + 1, count):
                row[k] -= share * product[k]
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
