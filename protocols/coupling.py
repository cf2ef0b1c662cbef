"""The compiled arithmetic that the protocols share."""

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@numba.njit(cache=True)
def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Array:
    """Compute ``scale sum_j strengths[j] (own - answers[j])`` at each sample, (b, C), from (deg, b, C) and (deg,)."""
    degree, size, outputs = answers.shape
    gradient = np.zeros((size, outputs))
    for j in range(degree):
        strength = scale * strengths[j]
        for k in range(size):
            for c in range(outputs):
                gradient[k, c] += strength * (own[k, c] - answers[j, k, c])
    return gradient


@numba.njit(cache=True)
def mean_square_gaps(own: Array, answers: Array) -> Array:
    """Compute the constraint values ``mean_k ||own[k] - answers[j, k]||^2`` of each directed edge, (deg,)."""
    degree, size, outputs = answers.shape
    gaps = np.zeros(degree)
    for j in range(degree):
        total = 0.0
        for k in range(size):
            for c in range(outputs):
                difference = own[k, c] - answers[j, k, c]
                total += difference * difference
        gaps[j] = total / size
    return gaps


@numba.njit(cache=True)
def total(values: Array) -> float:
    """Add ``values`` up from left to right; Python's own sum rounds differently from version to version."""
    added = 0.0
    for value in values:
        added += value
    return added
