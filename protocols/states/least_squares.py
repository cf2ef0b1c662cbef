"""Sums of samples from which least squares on features is solved."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

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


def solve(gram: Array, ridge: Array, right: Array) -> Array:
    """Solve ``(gram + diag(ridge)) weights = right`` for a gram matrix (L, L), a ridge (L,) and (L, C)."""
    matrix = gram + np.diag(ridge)
    largest = float(np.max(np.diag(matrix)))
    if not largest > 0.0:
        return np.zeros_like(right)
    matrix[np.diag_indices_from(matrix)] += FLOOR * largest
    return np.asarray(cho_solve(cho_factor(matrix, lower=True, check_finite=False), right, check_finite=False))
