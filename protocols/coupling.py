"""The compiled arithmetic that the protocols share."""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, jitted
from kernelswarm.protocols.contract import Pull

Array = npt.NDArray[np.float64]


def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Pull:
    """Compute ``scale strengths[j] (own - answers[j])`` for each neighbour, from (b, C), (deg, b, C) and (deg,)."""
    found = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    pull_in(own, answers, strengths, scale, found.gradients, found.curvatures)
    return found


@jitted
def pull_in(
    own: ReadOnly, answers: ReadOnly, strengths: ReadOnly, scale: float, gradients: Array, curvatures: Array
) -> None:
    """Fill ``gradients`` (deg, b, C) and ``curvatures`` (deg, b) with what :func:`pull` computes."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        strength = scale * strengths[j]
        for k in range(size):
            curvatures[j, k] = strength
            for c in range(outputs):
                gradients[j, k, c] = strength * (own[k, c] - answers[j, k, c])


def pull_back(strength: float, mine: Array, theirs: Array) -> Pull:
    """Compute ``strength (mine - theirs)``, the coupling at a neighbour's samples, from (b, C)."""
    return Pull(strength * (mine - theirs), np.full(len(mine), strength))


@jitted
def pull_back_in(strength: float, mine: Array, theirs: Array, gradients: Array, curvatures: Array) -> None:
    """Fill ``gradients`` (b, C) and ``curvatures`` (b,) with what :func:`pull_back` computes."""
    for k in range(mine.shape[0]):
        curvatures[k] = strength
        for c in range(mine.shape[1]):
            gradients[k, c] = strength * (mine[k, c] - theirs[k, c])


@jitted
def mean_square_gaps(own: Array, answers: ReadOnly) -> Array:
    """Compute the constraint values ``mean_k ||own[k] - answers[j, k]||^2`` of each directed edge, (deg,)."""
    gaps = np.empty(len(answers))
    mean_square_gaps_in(own, answers, gaps)
    return gaps


@jitted
def mean_square_gaps_in(own: Array, answers: ReadOnly, gaps: Array) -> None:
    """Fill ``gaps`` (deg,) with what :func:`mean_square_gaps` computes."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        total = 0.0
        for k in range(size):
            for c in range(outputs):
                difference = own[k, c] - answers[j, k, c]
                total += difference * difference
        gaps[j] = total / size


@jitted
def total(values: ReadOnly) -> float:
    """Add ``values`` up from left to right; Python's own sum rounds differently from version to version."""
    added = 0.0
    for value in values:
        added += value
    return added
