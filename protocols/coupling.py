"""The compiled arithmetic that the protocols share."""

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@numba.njit(cache=True)
def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Array:
    """Compute ``scale sum_j strengths[j] (own - answers[j])`` at each sample, (b, C), from (deg, b, C) and (deg,)."""
    gradient = np.empty(own.shape)
    pull_in(own, answers, strengths, scale, gradient)
    return gradient


@numba.njit(cache=True)
def pull_in(own: Array, answers: Array, strengths: Array, scale: float, gradient: Array) -> None:
    """Fill ``gradient`` (b, C) with what :func:`pull` computes."""
    degree, size, outputs = answers.shape
    for k in range(size):
        for c in range(outputs):
            gradient[k, c] = 0.0
    for j in range(degree):
        strength = scale * strengths[j]
        for k in range(size):
            for c in range(outputs):
                gradient[k, c] += strength * (own[k, c] - answers[j, k, c])


@numba.njit(cache=True)
def mean_square_gaps(own: Array, answers: Array) -> Array:
    """Compute the constraint values ``mean_k ||own[k] - answers[j, k]||^2`` of each directed edge, (deg,)."""
    gaps = np.empty(len(answers))
    mean_square_gaps_in(own, answers, gaps)
    return gaps


@numba.njit(cache=True)
def mean_square_gaps_in(own: Array, answers: Array, gaps: Array) -> None:
    """Fill ``gaps`` (deg,) with what :func:`mean_square_gaps` computes."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        total = 0.0
        for k in range(size):
            for c in range(outputs):
                difference = own[k, c] - answers[j, k, c]
                total += difference * difference
        gaps[j] = total / size


@numba.njit(cache=True)
def push_back(strength: float, mine: Array, theirs: Array, gradient: Array) -> None:
    """Fill ``gradient`` (b, C) with ``strength (mine - theirs)``, the coupling at a neighbour's samples."""
    for k in range(mine.shape[0]):
        for c in range(mine.shape[1]):
            gradient[k, c] = strength * (mine[k, c] - theirs[k, c])


@numba.njit(cache=True)
def total(values: Array) -> float:
    """Add ``values`` up from left to right; Python's own sum rounds differently from version to version."""
    added = 0.0
    for value in values:
        added += value
    return added
