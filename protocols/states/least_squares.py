"""Sums of samples from which least squares on features is solved."""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

Array = npt.NDArray[np.float64]

FLOOR = 1e-12
"""Added to the diagonal, as a part of its largest entry: features that no sample tells apart have small weights."""


class Moments(NamedTuple):
    """Sums over a node's samples."""

    gram: Array  # (L, L) sum phi phi'
    products: Array  # (L, C) sum phi y'
    samples: float


def empty(features: int, outputs: int) -> Moments:
    """Return the sums over no samples."""
    return Moments(np.zeros((features, features)), np.zeros((features, outputs)), 0.0)


def add(moments: Moments, features: Array, targets: Array, forgetting: float) -> Moments:
    """Return the sums with the features (n, L) and targets (n, C) of further samples; without any, as they were."""
    if not len(features):
        return moments
    return Moments(
        forgetting * moments.gram + features.T @ features,
        forgetting * moments.products + features.T @ targets,
        forgetting * moments.samples + len(features),
    )


@cache
def _triangles(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the places of the upper triangle and of its mirror image in a matrix (size, size), row by row."""
    rows, columns = np.triu_indices(size)
    return rows * size + columns, columns * size + rows


def packed(moments: Moments) -> Array:
    """Write the upper triangle of the gram matrix, the products and the number of samples one behind the other."""
    gram, products, samples = moments
    return np.concatenate([gram.reshape(-1)[_triangles(len(gram))[0]], products.reshape(-1), [samples]])


def unpacked(vector: Array, features: int, outputs: int) -> Moments:
    """Return the sums that :func:`packed` wrote."""
    upper, lower = _triangles(features)
    count = len(upper)
    gram = np.empty(features * features)
    gram[upper] = gram[lower] = vector[:count]
    return Moments(
        gram.reshape(features, features), vector[count:-1].reshape(features, outputs).copy(), float(vector[-1])
    )


def solve(gram: Array, ridge: Array, right: Array) -> Array:
    """Solve ``(gram + diag(ridge)) weights = right`` for a gram matrix (L, L), a ridge (L,) and (L, C).

    Sums that were heard with noise may be those of no samples: of such a gram matrix its nearest is taken that could be
    one, without negative eigenvalues.
    """
    try:
        return _solve(gram, ridge, right)
    except LinAlgError:
        values, vectors = eigh(gram, check_finite=False)
        return _solve((vectors * np.maximum(values, 0.0)) @ vectors.T, ridge, right)


def _solve(gram: Array, ridge: Array, right: Array) -> Array:
    matrix = gram + np.diag(ridge)
    largest = float(np.max(np.diag(matrix)))
    if not largest > 0.0:
        return np.zeros_like(right)
    matrix[np.diag_indices_from(matrix)] += FLOOR * largest
    return np.asarray(cho_solve(cho_factor(matrix, lower=True, check_finite=False), right, check_finite=False))
