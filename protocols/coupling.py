"""The compiled arithmetic that the protocols share."""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.contract import Constrained, Exchange, Pull
from kernelswarm.protocols.core.fulfilling import fulfils

Array = npt.NDArray[np.float64]


def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Pull:
    """Compute ``scale strengths[j] (own - answers[j])`` for each neighbour, from (b, C), (deg, b, C) and (deg,)."""
    found = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    pull_in(own, answers, strengths, scale, found.gradients, found.curvatures)
    return found


@njit_no_refcount
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


@njit_no_refcount
def pull_back_in(strength: float, mine: Array, theirs: Array, gradients: Array, curvatures: Array) -> None:
    """Fill ``gradients`` (b, C) and ``curvatures`` (b,) with what :func:`pull_back` computes."""
    for k in range(mine.shape[0]):
        curvatures[k] = strength
        for c in range(mine.shape[1]):
            gradients[k, c] = strength * (mine[k, c] - theirs[k, c])


def mean_constraint_values(rule: Exchange, own: Array, answers: Array) -> Array:
    """Compute the mean constraint value of each directed edge, (deg,): squared differences, or what the rule has."""
    if fulfils(rule, Constrained):
        return rule.constraint_values(own, answers)
    found: Array = mean_square_differences(own, answers)
    return found


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


@njit_no_refcount
def squared(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of half the squared difference."""
    pull_in(own, answers, links[0], 1.0, gradients, curvatures)


@njit_no_refcount
def squared_back(
    numbers: ReadOnly,
    links: ReadOnly,
    neighbor: int,
    dual: float,
    mine: ReadOnly,
    theirs: ReadOnly,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same at a neighbour's points."""
    pull_back_in(numbers[0], mine, theirs, gradients, curvatures)


@njit_no_refcount
def whole_square(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of the whole squared difference."""
    pull_in(own, answers, links[0], 2.0, gradients, curvatures)


@njit_no_refcount
def whole_square_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same at a neighbour's points, by its dual variable."""
    pull_back_in(2.0 * dual, mine, theirs, gradients, curvatures)


@njit_no_refcount
def _toward(strength: float, mine: Array, theirs: Array, gradient: Array) -> float:
    """Fill the pull (C,) of the length of the difference; returns its bound."""
    square = 0.0
    for c in range(len(mine)):
        gradient[c] = mine[c] - theirs[c]
        square += gradient[c] * gradient[c]
    length = np.sqrt(square)
    if not length > 1e-150:  # a smaller one has no inverse that can be multiplied with
        gradient[:] = 0.0
        return 0.0
    for c in range(len(mine)):
        gradient[c] *= strength / length
    return float(strength / length)


@njit_no_refcount
def absolute(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of the length of the difference."""
    degree, size, _ = answers.shape
    for j in range(degree):
        for k in range(size):
            curvatures[j, k] = _toward(links[0, j], own[k], answers[j, k], gradients[j, k])


@njit_no_refcount
def absolute_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same at a neighbour's points."""
    for k in range(len(mine)):
        curvatures[k] = _toward(numbers[0], mine[k], theirs[k], gradients[k])


@njit_no_refcount
def absolute_dual(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same by the neighbour's dual variable."""
    for k in range(len(mine)):
        curvatures[k] = _toward(dual, mine[k], theirs[k], gradients[k])


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
def divergence(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of the Kullback-Leibler divergence between class probabilities."""
    degree, size, outputs = answers.shape
    for j in range(degree):
        for k in range(size):
            _between(links[0, j], own[k], answers[j, k], gradients[j, k])
            curvatures[j, k] = links[0, j] / (4.0 if outputs == 1 else 2.0)


@njit_no_refcount
def divergence_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same at a neighbour's points."""
    for k in range(len(mine)):
        _between(numbers[0], mine[k], theirs[k], gradients[k])
        curvatures[k] = numbers[0] / (4.0 if mine.shape[1] == 1 else 2.0)


@njit_no_refcount
def divergence_dual(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    """Fill in the same by the neighbour's dual variable."""
    for k in range(len(mine)):
        _between(dual, mine[k], theirs[k], gradients[k])
        curvatures[k] = dual / (4.0 if mine.shape[1] == 1 else 2.0)


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
