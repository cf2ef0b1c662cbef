"""The compiled arithmetic that the protocols share."""

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


# How far implicit steps let neighbours pull, and how far a node that listens follows its own samples.

OWN_STEP = 0.04
"""The least ``rate kappa(x, x) l''`` to which listening to neighbours shortens the step on a node's own samples: what
makes it an average of about 25 of them. A shorter one would only follow a change more slowly."""


@njit_no_refcount
def pair_row_sums_in(gram: Array, size: int, degree: int, eta: float, row_sums: Array) -> None:
    """Fill ``row_sums`` (N,) with eta times the row sums of the pairs' inner products, at each of a node's points.

    A pair is an edge and a point at which its ends are coupled. A node takes part in ``degree`` of them at each of its
    own samples, the first ``size`` of the points, and in one at each neighbour's. With K the points' inner products
    ``gram`` (N, N) the row sum of a pair at point m is

        E[m] = eta (degree sum_{n own} |K[m, n]| + sum_{n others'} |K[m, n]|)
    """
    last = len(row_sums) - 1
    for m in range(0, last + 1, 4):  # four sums beside each other; the last rows are repeated to fill up four
        a, b, c, d = m, min(m + 1, last), min(m + 2, last), min(m + 3, last)
        own = _row_sums(gram, a, b, c, d, 0, size)
        others = _row_sums(gram, a, b, c, d, size, last + 1)
        row_sums[a] = eta * (degree * own[0] + others[0])
        row_sums[b] = eta * (degree * own[1] + others[1])
        row_sums[c] = eta * (degree * own[2] + others[2])
        row_sums[d] = eta * (degree * own[3] + others[3])


@inline_always
def _row_sums(gram: Array, a: int, b: int, c: int, d: int, begin: int, end: int) -> tuple[float, float, float, float]:
    """Sum the sizes of the entries of four rows from one column on and before another."""
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for n in range(begin, end):
        w += abs(gram[a, n])
        x += abs(gram[b, n])
        y += abs(gram[c, n])
        z += abs(gram[d, n])
    return w, x, y, z


@njit_no_refcount
def own_products(gram: Array, size: int) -> tuple[float, float]:
    """Compute the mean of kappa(x, x) over the first ``size`` points, and that of their row sums; 0 for none."""
    gain, reach = 0.0, 0.0
    for k in range(size):
        gain += gram[k, k]
        for n in range(size):
            reach += abs(gram[k, n])
    return gain / max(size, 1), reach / max(size, 1)


@njit_no_refcount
def limit(curvature: float, row_sum: float, batch_size: int) -> float:
    """Compute the share of a pair's pull that implicit steps take, ``min(1, b / (r E))``.

    With r the pair's curvature and E the sum of its row sums at both ends, the weight eta/b r share of every pair times
    the row sum of all pairs' inner products is at most 1. By Gershgorin's theorem the network's coupling step is then
    ``F - Q F`` with ``0 <= Q <= I``: it moves no two networks further apart, whatever the penalties.
    """
    bound = curvature * row_sum
    return batch_size / (batch_size if bound <= batch_size else bound)  # 1 where it is enough, without a branch


@njit_no_refcount
def gather_in(
    gradients: Array, curvatures: Array, row_sums: Array, batch_size: int, pulling: Array, begin: int, end: int
) -> tuple[float, float]:
    """Add up the pulls of all neighbours at some of a node's points, each as far as its limit, in ``pulling`` (n, C).

    Parameters
    ----------
    gradients, curvatures : Array
        Those of each neighbour at each point, (deg, n, C) and (deg, n).
    row_sums : Array
        The sum of both ends' row sums, (deg, n); 0 where nothing is limited.
    batch_size : int
        b.
    pulling : Array
        (n, C), filled for the points asked for.
    begin, end : int
        Those from one on, and before another.

    Returns
    -------
    tuple of float
        The largest curvature of a point, summed over its neighbours, before and after the limit on pairs.
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
    """Shorten the pulls at a neighbour's samples, (b, C), to their limits; returns as :func:`gather_in`."""
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
    """Compute the part of its step that a node takes on its own samples while it listens to neighbours.

        share = 1 / (1 + rate rho r),    but    rate kappa l'' share >= min(rate kappa l'', max(OWN_STEP, 2 M / n))

    The first is what a step that is implicit in the coupling too would take: the more a node listens, the more of its
    own noise is averaged away before it is passed on. There is nothing to average over before n samples are more than
    the function's M terms, so until then the step stays long.

    Parameters
    ----------
    rate : float
        eta / b.
    gain : float
        kappa(x, x), the mean over the samples.
    reach : float
        rho, the mean over the samples of ``sum_n |kappa(x_k, x_n)|``: what a mini-batch moves together.
    curvature : float
        l'', a bound; 1 in the place of 0.
    coupling : float
        r, the coupling's curvature, summed over the neighbours.
    order : int
        M, the order of the function.
    samples : float
        n, the samples that the node has seen, these included.
    """
    whole = rate * gain * (curvature if curvature > 0.0 else 1.0)
    least = max(OWN_STEP, 2.0 * order / samples)
    return max(1.0 / (1.0 + rate * reach * coupling), least / whole if least < whole else 1.0)
