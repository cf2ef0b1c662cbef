"""The same step as :mod:`kernelswarm.agents.komp` takes, with matrix-matrix products for large mini-batches.

Nothing is decided otherwise. All points of the batch enter at once through the Cholesky factor of their Schur
complement; elements are then chosen for removal one after the other, as KOMP does, from columns of the inverse Gram
matrix that are corrected for the removals before (a Gram-Schmidt recursion over the batch); and the factor is reflected
once for all of them. Points of the batch that go straight out again, the most frequent case by far, touch only the
batch's own rows.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.linalg import lapack

from kernelswarm.agents import komp

Array = npt.NDArray[np.float64]

LARGEST_BLOCK = 64
"""Removals chosen before the factor is reflected."""

PREFETCHED = 16
"""Columns of the inverse that are computed together when one of an old element is needed."""

ROWS_AT_ONCE = 128
"""Rows of the factor that are reflected together: few enough to stay in the cache."""

CONDITIONED = 1e-4
"""Where a Schur complement, of a new point or an old one, is a smaller share of kappa(x, x), one point is taken at a
time: products of blocks lose digits with the condition of the dictionary, single reflections do not."""

CANCELLED = 1e-6
"""When corrections leave less than this share of an element's precision, the factor is reflected to sum it afresh."""


def project(
    points: Array,  # (capacity, p)
    weights: Array,  # (capacity, C)
    factor: Array,  # (capacity, capacity)
    precision: Array,  # (capacity,)
    order: int,
    new_points: Array,  # (n, p)
    new_weights: Array,  # (n, C)
    cross: Array,  # (n, order)
    gram: Array,  # (n, n)
    shrink: float,
    epsilon: float,
) -> tuple[int, float, int]:
    """Take one functional step and compress it; all as in :func:`kernelswarm.agents.komp.project`."""
    entering = [n for n, weight in enumerate(new_weights) if (weight != 0.0).any()]
    image = factor[:order, :order] @ cross[entering].T  # V = U B, (M, n)
    lower = _well_conditioned(gram[np.ix_(entering, entering)] - image.T @ image, gram.diagonal()[entering])
    if lower is None or precision[:order].max(initial=0.0) * gram.diagonal().max() > 1.0 / CONDITIONED:
        return komp.project(
            points, weights, factor, precision, order, new_points, new_weights, cross, gram, shrink, epsilon
        )
    weights[:order] *= shrink
    budget = epsilon * epsilon
    spent = 0.0
    changes = len(entering)
    if entering:
        new = slice(order, order + changes)
        points[new], weights[new] = new_points[entering], new_weights[entering]
        _append(factor, precision, order, image, lower)
    old, order = order, order + changes
    while order:
        removed, spent = _choose(weights, factor, precision, order, old, spent, budget)
        if not removed:
            break
        _drop(points, weights, factor, precision, order, old, removed)
        order -= len(removed)
        if min(removed) < old:
            old = order  # the reflection has spread the batch's elements over all rows
        changes += len(removed)
    return order, math.sqrt(spent), changes


def _well_conditioned(schur: Array, diagonal: Array) -> Array | None:
    """Return the Cholesky factor of the batch's Schur complement, or None where a point is near the others' span."""
    if not len(schur):
        return schur
    lower: Array
    lower, failed = lapack.dpotrf(schur, lower=1, clean=1)
    if failed or (lower.diagonal() ** 2 <= CONDITIONED * diagonal).any():
        return None
    return lower


def _append(factor: Array, precision: Array, order: int, image: Array, lower: Array) -> None:
    """Append the batch's rows of the factor, ``L^-1 [-A', I]`` with ``A = U'V`` and L from the Schur complement."""
    size = len(lower)
    projection = factor[:order, :order].T @ image  # (M, n)
    right = np.concatenate([-projection.T, np.eye(size)], axis=1)
    rows = linalg.solve_triangular(lower, right, lower=True)
    factor[:order, order : order + size] = 0.0
    factor[order : order + size, : order + size] = rows
    squares = np.einsum("ij,ij->j", rows, rows)
    precision[:order] += squares[:order]
    precision[order : order + size] = squares[order:]


def _choose(
    weights: Array, factor: Array, precision: Array, order: int, old: int, spent: float, budget: float
) -> tuple[list[int], float]:
    """Choose elements as KOMP removes them and refit the weights; stops early where precision must be summed afresh."""
    values = weights[:order]
    square = factor[:order, :order]
    left = precision[:order].copy()
    floor = CANCELLED * left
    norms = np.einsum("ij,ij->i", values, values)
    corrections = np.empty((order, LARGEST_BLOCK))
    columns: dict[int, Array] = {}
    removed: list[int] = []
    while len(removed) < min(LARGEST_BLOCK, order):
        scores = norms / left
        j = int(np.argmin(scores))
        if not spent + scores[j] <= budget:
            break
        if j not in columns:
            wanted = [j]
            if j < old:
                lowest = np.argsort(scores[:old], kind="stable")[:PREFETCHED]
                wanted += [int(k) for k in lowest if k != j and int(k) not in columns and np.isfinite(scores[k])]
            # An element of the batch has entries in the batch's own rows only.
            top = 0 if j < old else old
            found = square[top:].T @ square[top:, wanted]
            columns.update(zip(wanted, found.T, strict=True))
        size = len(removed)
        column = columns[j] - corrections[:, :size] @ corrections[j, :size]
        pivot = column[j]
        spent += float(scores[j])
        values -= np.outer(column / pivot, values[j])
        values[j] = 0.0
        norms = np.einsum("ij,ij->i", values, values)
        corrections[:, size] = column / math.sqrt(pivot)
        left -= corrections[:, size] ** 2
        removed.append(j)
        left[removed] = 1.0
        norms[removed] = np.inf
        if (left < floor)[norms < np.inf].any():
            break
    return removed, spent


def _drop(
    points: Array, weights: Array, factor: Array, precision: Array, order: int, old: int, removed: list[int]
) -> None:
    """Reflect the factor so that the removed columns live in as many rows, and drop both."""
    kept = np.ones(order, dtype=bool)
    kept[removed] = False
    left = order - len(removed)
    young = [j for j in removed if j >= old]
    elder = [j for j in removed if j < old]
    rows = order
    if young:
        # Zero above the batch's rows, so only those are reflected; without elders the old columns stay where they are.
        _reflect(factor, old, rows, np.ones(order, dtype=bool) if elder else kept, young)
        rows -= len(young)
    if elder:
        _reflect(factor, 0, rows, kept, elder)
    points[:left] = points[:order][kept]
    weights[:left] = weights[:order][kept]
    precision[:left] = np.einsum("ij,ij->j", factor[:left, :left], factor[:left, :left])


def _reflect(factor: Array, top: int, bottom: int, kept: npt.NDArray[np.bool_], columns: list[int]) -> None:
    """Turn rows ``top`` to ``bottom`` so that the columns vanish below the first rows, close up over these and over
    the columns that are not kept.

    The product of the reflections is I - Y T Y' (compact WY form), so that the work is two products of matrices.
    """
    width = len(kept)
    count = len(columns)
    block = factor[top:bottom, :width]
    vectors, scales, _, _ = lapack.dgeqrf(block[:, columns])
    vectors = np.tril(vectors, -1)
    vectors[np.diag_indices(count)] = 1.0
    inner = vectors.T @ vectors
    triangle = np.zeros((count, count))
    for k in range(count):
        triangle[:k, k] = -scales[k] * (triangle[:k, :k] @ inner[:k, k])
        triangle[k, k] = scales[k]
    turn = (triangle.T @ (vectors.T @ block))[:, kept]
    for start in range(count, len(block), ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, len(block))
        turned = block[start:end, kept] - vectors[start:end] @ turn
        factor[top + start - count : top + end - count, : turn.shape[1]] = turned
