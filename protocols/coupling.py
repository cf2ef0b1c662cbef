"""Compiled arithmetic shared by the protocols."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.core.addresses import Compiled
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, inline_always, njit_no_refcount


def pull(own: Array, answers: Array, strengths: Array, scale: float) -> Pull:
    """Compute ``scale strengths[j] (own - answers[j])`` for each neighbour, from (b, C), (deg, b, C) and (deg,)."""
    found: Array = scale * strengths
    return Pull(found[:, np.newaxis, np.newaxis] * (own - answers), np.repeat(found[:, np.newaxis], len(own), axis=1))


def pull_back(strength: float, mine: Array, theirs: Array) -> Pull:
    """Compute ``strength (mine - theirs)``, the coupling at a neighbour's samples, from (b, C)."""
    return Pull(strength * (mine - theirs), np.full(len(mine), strength))


@njit_no_refcount
def difference(strength: float, mine: ReadOnly, theirs: ReadOnly, gradients: Array, curvatures: Array) -> None:
    """Fill in the pull of half the squared difference, (b, C) and (b,), the result of :func:`pull_back`."""
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
    """Fill ``constraint_values`` (deg,) with the result of :func:`mean_square_differences`."""
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
    """Sum ``values`` from left to right; the rounding of Python's own sum depends on the version."""
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
    """Fill in the pull (C,) of the length of the difference; returns the bound."""
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
    """Return the largest of values (C,); numba's own maximum allocates an array, which needs reference counting."""
    largest = values[0]
    for c in range(1, len(values)):
        largest = max(largest, values[c])
    return float(largest)


@njit_no_refcount
def _probabilities(values: Array, found: Array) -> None:
    """Fill in the softmax of values (C,); for a single value f, the probability 1 / (1 + exp(-f))."""
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
    """Compute ``log sum_c exp(f_c)`` of values (C,); for a single value f, ``log(1 + exp(f))``."""
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
            total += max(apart, 0.0)  # rounding may make it negative
        constraint_values[j] = total / size


squared, whole_square = coupling_gradients_of(difference, 1.0), coupling_gradients_of(difference, 2.0)
"""The functions for half the squared difference, and for the squared difference."""

absolute, kullback_leibler = coupling_gradients_of(length, 1.0), coupling_gradients_of(divergence, 1.0)


# The limit on neighbours' pulls in implicit steps, and the damping of a node's step on its own samples.

OWN_STEP = 0.04
"""The least ``rate kappa(x, x) l''`` of a damped step on a node's own samples; it corresponds to an average over about
25 samples. A shorter step would only follow changes more slowly."""


@njit_no_refcount
def pair_row_sums_in(gram: Array, size: int, degree: int, eta: float, row_sums: Array) -> None:
    """Fill ``row_sums`` (N,) with eta times the row sums of the pairs' inner products, at each of a node's points.

    A pair consists of an edge and a point at which its ends are coupled. A node takes part in ``degree`` pairs at each
    of its own samples, which are the first ``size`` points, and in one pair at each sample of a neighbour. With the
    points' inner products K, ``gram`` (N, N), the row sum of a pair at point m is

        E[m] = eta (degree sum_{n own} |K[m, n]| + sum_{n others'} |K[m, n]|)
    """
    last = len(row_sums) - 1
    for m in range(0, last + 1, 4):  # four independent sums; the last row is repeated if needed
        a, b, c, d = m, min(m + 1, last), min(m + 2, last), min(m + 3, last)
        own = _row_sums(gram, a, b, c, d, 0, size)
        others = _row_sums(gram, a, b, c, d, size, last + 1)
        row_sums[a] = eta * (degree * own[0] + others[0])
        row_sums[b] = eta * (degree * own[1] + others[1])
        row_sums[c] = eta * (degree * own[2] + others[2])
        row_sums[d] = eta * (degree * own[3] + others[3])


@inline_always
def _row_sums(gram: Array, a: int, b: int, c: int, d: int, begin: int, end: int) -> tuple[float, float, float, float]:
    """Sum the magnitudes of the entries of four rows in the columns from ``begin`` to ``end - 1``."""
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for n in range(begin, end):
        w += abs(gram[a, n])
        x += abs(gram[b, n])
        y += abs(gram[c, n])
        z += abs(gram[d, n])
    return w, x, y, z


@njit_no_refcount
def own_products(gram: Array, size: int) -> tuple[float, float]:
    """Compute the means of kappa(x, x) and of the row sums over the first ``size`` points; 0 if there are none."""
    gain, reach = 0.0, 0.0
    for k in range(size):
        gain += gram[k, k]
        for n in range(size):
            reach += abs(gram[k, n])
    return gain / max(size, 1), reach / max(size, 1)


@njit_no_refcount
def limit(curvature: float, row_sum: float, batch_size: int) -> float:
    """Compute the factor of a pair's pull in implicit steps, ``min(1, b / (r E))``.

    r is the pair's curvature and E the sum of its row sums at both ends. With this factor, eta/b r times the factor
    times the row sum of all pairs' inner products is at most 1 for every pair. By Gershgorin's theorem the network's
    coupling step is then ``F - Q F`` with ``0 <= Q <= I``: it is nonexpansive for all penalties.
    """
    bound = curvature * row_sum
    return batch_size / (batch_size if bound <= batch_size else bound)  # at most 1, without a branch


@njit_no_refcount
def gather_in(
    gradients: Array, curvatures: Array, row_sums: Array, batch_size: int, pulling: Array, begin: int, end: int
) -> tuple[float, float]:
    """Sum the limited pulls of all neighbours at the points from ``begin`` to ``end - 1``, in ``pulling`` (n, C).

    Parameters
    ----------
    gradients, curvatures : Array
        The pull of each neighbour at each point, (deg, n, C) and (deg, n).
    row_sums : Array
        The sum of both ends' row sums, (deg, n); 0 for pulls without a limit.
    batch_size : int
        b.
    pulling : Array
        (n, C), filled in for these points.
    begin, end : int
        The first point, and the point after the last.

    Returns
    -------
    tuple of float
        The largest curvature at a point, summed over its neighbours, before and after the limit.
    """
    degree, _, outputs = gradients.shape
    largest, taken = 0.0, 0.0
    for k in range(begin, end):
        whole, limited = 0.0, 0.0
        for c in range(outputs):
            pulling[k, c] = 0.0
        for j in range(degree):
            share = limit(curvatures[j, k], row_sums[j, k], batch_size)
            whole += curvatures[j, k]
            limited += share * curvatures[j, k]
            for c in range(outputs):
                pulling[k, c] += share * gradients[j, k, c]
        largest, taken = max(largest, whole), max(taken, limited)
    return largest, taken


@njit_no_refcount
def clip_pulls(gradients: Array, curvatures: Array, row_sums: Array, batch_size: int) -> tuple[float, float]:
    """Shorten the pulls at a neighbour's samples, (b, C), to their limits; returns the same as :func:`gather_in`."""
    size, outputs = gradients.shape
    largest, taken = 0.0, 0.0
    for k in range(size):
        share = limit(curvatures[k], row_sums[k], batch_size)
        largest, taken = max(largest, curvatures[k]), max(taken, share * curvatures[k])
        for c in range(outputs):
            gradients[k, c] *= share
    return largest, taken


@njit_no_refcount
def step_damping(
    rate: float, gain: float, reach: float, curvature: float, coupling: float, order: int, samples: float
) -> float:
    """Compute the damping factor of a node's step on its own samples under a coupling.

        share = 1 / (1 + rate rho r),    but    rate kappa l'' share >= min(rate kappa l'', max(OWN_STEP, 2 M / n))

    The first formula is the factor of a step that is also implicit in the coupling: with a stronger coupling, a node
    averages more of its own noise before it passes it on. While the number n of samples is not much larger than the
    number M of the function's terms, averaging has no benefit, and the lower bound keeps the step long.

    Parameters
    ----------
    rate : float
        eta / b.
    gain : float
        kappa(x, x), the mean over the samples.
    reach : float
        rho, the mean over the samples of ``sum_n |kappa(x_k, x_n)|``: the joint effect of a mini-batch.
    curvature : float
        l'', a bound on the loss's second derivative; 0 is treated as 1.
    coupling : float
        r, the coupling's curvature, summed over the neighbours.
    order : int
        M, the order of the function.
    samples : float
        n, the number of samples that the node has seen, including the current ones.
    """
    whole = rate * gain * (curvature if curvature > 0.0 else 1.0)
    least = max(OWN_STEP, 2.0 * order / samples)
    return max(1.0 / (1.0 + rate * reach * coupling), least / whole if least < whole else 1.0)
