"""The compiled arithmetic that the protocols share."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.first_class import Compiled

Array = npt.NDArray[np.float64]


def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Pull:
    """Compute ``scale strengths[j] (own - answers[j])`` for each neighbour, from (b, C), (deg, b, C) and (deg,)."""
    found: Array = scale * strengths
    return Pull(found[:, np.newaxis, np.newaxis] * (own - answers), np.repeat(found[:, np.newaxis], len(own), axis=1))


def pull_back(strength: float, mine: Array, theirs: Array) -> Pull:
    """Compute ``strength (mine - theirs)``, the coupling at a neighbour's samples, from (b, C)."""
    return Pull(strength * (mine - theirs), np.full(len(mine), strength))


@njit_no_refcount
def difference(strength: float, mine: ReadOnly, theirs: ReadOnly, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of half the squared difference, (b, C) and (b,): what :func:`pull_back` computes."""
    for k in range(mine.shape[0]):
        curvatures[k] = strength
        for c in range(mine.shape[1]):
            gradients[k, c] = strength * (mine[k, c] - theirs[k, c])


@cached_njit
def mean_square_differences(own: Array, answers: ReadOnly) -> Array:
    """Compute the constraint values ``mean_k ||own[k] - answers[j, k]||^2`` of each directed edge, (deg,)."""
    constraint_values = np.empty(len(answers))
    mean_square_differences_in(own, answers, constraint_values)
    return constraint_values


@njit_no_refcount
def mean_square_differences_in(own: ReadOnly, answers: ReadOnly, constraint_values: Array) -> None:
    """Fill ``constraint_values`` (deg,) with what :func:`mean_square_differences` computes."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        total = 0.0
        for k in range(size):
            for c in range(outputs):
                difference = own[k, c] - answers[j, k, c]
                total += difference * difference
        constraint_values[j] = total / size


@njit_no_refcount
def total(values: ReadOnly) -> float:
    """Add ``values`` up from left to right; Python's own sum rounds differently from version to version."""
    added = 0.0
    for value in values:
        added += value
    return added


class CouplingGradients(NamedTuple):
    """The pull of a distance, in compiled rounds."""

    coupling_gradient: Compiled  # COUPLING_GRADIENT; the strengths are links[0]
    by_penalty: Compiled  # COUPLING_GRADIENT_AT_NEIGHBOR; the strength is numbers[0]
    by_dual: Compiled  # COUPLING_GRADIENT_AT_NEIGHBOR; the strength is the neighbour's dual variable


def coupling_gradients_of(pull: Compiled, multiple: float) -> CouplingGradients:
    """Return a protocol's functions for compiled rounds, from a pull.

    Parameters
    ----------
    pull : function
        ``pull(strength, mine (b, C), theirs (b, C), gradients (b, C), curvatures (b,))`` fills the last two.
    multiple : float
        A factor of the strengths.
    """

    @njit_no_refcount
    def coupling_gradient(
        numbers: ReadOnly, links: ReadOnly, own: ReadOnly, answers: ReadOnly, gradients: Array, curvatures: Array
    ) -> None:
        for j in range(answers.shape[0]):
            pull(multiple * links[0, j], own, answers[j], gradients[j], curvatures[j])

    @njit_no_refcount
    def by_penalty(
        numbers: ReadOnly,
        links: ReadOnly,
        neighbor: int,
        dual: float,
        mine: ReadOnly,
        theirs: ReadOnly,
        gradients: Array,
        curvatures: Array,
    ) -> None:
        pull(multiple * numbers[0], mine, theirs, gradients, curvatures)

    @njit_no_refcount
    def by_dual(
        numbers: ReadOnly,
        links: ReadOnly,
        neighbor: int,
        dual: float,
        mine: ReadOnly,
        theirs: ReadOnly,
        gradients: Array,
        curvatures: Array,
    ) -> None:
        pull(multiple * dual, mine, theirs, gradients, curvatures)

    return CouplingGradients(coupling_gradient, by_penalty, by_dual)


@njit_no_refcount
def _toward(strength: float, mine: Array, theirs: Array, gradient: Array) -> float:
    """Fill the pull (C,) of the length of the difference; returns its bound."""
    square = 0.0
    for c in range(len(mine)):
        gradient[c] = mine[c] - theirs[c]
        square += gradient[c] * gradient[c]
    length = np.sqrt(square)
    if not length > 1e-150:  # the inverse of a smaller one overflows
        gradient[:] = 0.0
        return 0.0
    for c in range(len(mine)):
        gradient[c] *= strength / length
    return float(strength / length)


@njit_no_refcount
def length(strength: float, mine: ReadOnly, theirs: ReadOnly, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of the length of the difference, (b, C), and its bound (b,)."""
    for k in range(len(mine)):
        curvatures[k] = _toward(strength, mine[k], theirs[k], gradients[k])


@njit_no_refcount
def mean_absolute_differences(own: Array, answers: Array, constraint_values: Array) -> None:
    """Fill ``constraint_values`` (deg,) with the mean length of each difference."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        total = 0.0
        for k in range(size):
            square = 0.0
            for c in range(outputs):
                difference = own[k, c] - answers[j, k, c]
                square += difference * difference
            total += np.sqrt(square)
        constraint_values[j] = total / size


@njit_no_refcount
def _largest(values: Array) -> float:
    """Return the largest of values (C,); numba's own maximum makes an array, for which references would be counted."""
    largest = values[0]
    for c in range(1, len(values)):
        largest = max(largest, values[c])
    return float(largest)


@njit_no_refcount
def _probabilities(values: Array, found: Array) -> None:
    """Fill the softmax of values (C,), or of one value f the probability 1 / (1 + exp(-f))."""
    if len(values) == 1:
        small = np.exp(-abs(values[0]))
        found[0] = (1.0 if values[0] >= 0.0 else small) / (1.0 + small)
        return
    largest, total = _largest(values), 0.0
    for c in range(len(values)):
        found[c] = np.exp(values[c] - largest)
        total += found[c]
    for c in range(len(values)):
        found[c] /= total


@cached_njit
def _between(strength: float, mine: Array, theirs: Array, gradient: Array) -> None:
    """Fill ``strength (p - q)`` with the probabilities p and q of two nodes' values (C,)."""
    other = np.empty(len(theirs))
    _probabilities(mine, gradient)
    _probabilities(theirs, other)
    for c in range(len(mine)):
        gradient[c] = strength * (gradient[c] - other[c])


@njit_no_refcount
def divergence(strength: float, mine: ReadOnly, theirs: ReadOnly, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of the Kullback-Leibler divergence between class probabilities, (b, C), and its bound (b,)."""
    for k in range(len(mine)):
        _between(strength, mine[k], theirs[k], gradients[k])
        curvatures[k] = strength / (4.0 if mine.shape[1] == 1 else 2.0)


@njit_no_refcount
def _log_partition(values: Array) -> float:
    """Compute ``log sum_c exp(f_c)`` of values (C,), of one value f ``log(1 + exp(f))``."""
    if len(values) == 1:
        return float(max(values[0], 0.0) + np.log1p(np.exp(-abs(values[0]))))
    largest, total = _largest(values), 0.0
    for value in values:
        total += np.exp(value - largest)
    return float(largest + np.log(total))


@cached_njit
def mean_divergences(own: Array, answers: Array, constraint_values: Array) -> None:
    """Fill ``constraint_values`` (deg,) with the mean divergence of each edge."""
    degree, size, outputs = answers.shape
    neighbors = np.empty(outputs)
    for j in range(degree):
        total = 0.0
        for k in range(size):
            _probabilities(answers[j, k], neighbors)
            apart = _log_partition(own[k]) - _log_partition(answers[j, k])
            for c in range(outputs):
                apart -= neighbors[c] * (own[k, c] - answers[j, k, c])
            total += max(apart, 0.0)  # rounding may leave less
        constraint_values[j] = total / size


squared, whole_square = coupling_gradients_of(difference, 1.0), coupling_gradients_of(difference, 2.0)
"""The functions for half the squared difference, and for the whole."""

absolute, kullback_leibler = coupling_gradients_of(length, 1.0), coupling_gradients_of(divergence, 1.0)
