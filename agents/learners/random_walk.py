"""The step of a Kalman filter whose weights follow a random walk, in compiled code.

For ``w_t = w_(t-1) + N(0, Q)`` the state holds the mean W of the weights and their covariance P, in units of the noise
variance of a sample of curvature 1. A step with samples adds Q to P. Then each sample with the curvature r, the
features phi and the aim t updates both:

    g = P phi,   s = 1 / r + phi'g,   W <- W + g (t - W'phi)' / s,   P <- P - g g' / s

Q is diagonal, so that the random walk takes O(L) and a sample O(L^2). The triangular factor of inv(P), which other
steps of `rls` use, would take O(L^3), because adding Q to P is not a rotation of that factor. P stays positive
definite, because it is at least Q before the first sample of every step, and the subtracted matrix is symmetric to the
last bit.
"""

import math

import numpy as np

from kernelswarm.agents.arithmetic.simd import dot
from kernelswarm.agents.arithmetic.views import line, table
from kernelswarm.agents.learners.observations import Terms, weigh_sums
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.parameters.least_squares import learn_noise

LONG_LOOPS = True


@njit_no_refcount
def learn(
    work: Array,  # (L (1 + C) + C,)
    coefficients: Array,  # (L, C)
    covariance: Array,  # (L, L)
    noise: Array,  # (3, C)
    features: Array,  # (N, L or more)
    terms: Terms,
    walk: Array,  # (L,)
) -> None:
    """Move along the pulls, add Q to P, and add own samples and taught observations.

    Parameters
    ----------
    work : Array
        Working memory.
    coefficients, covariance, noise : Array
        W, P and the estimate of the noise, changed in place.
    features : Array
        The features of all points, own samples first.
    terms : Terms
        A pull moves W by ``unit P phi`` times its weight, or along phi if ``unit`` is 0.
    walk : Array
        The diagonal of Q.
    """
    order, outputs = coefficients.shape
    gain, sums = line(work, 0, order), table(work, order, order, outputs)
    width, value = features.shape[1], line(work, order * (1 + outputs), outputs)
    if terms.coupled:
        weigh_sums(features, terms.pulls, order, sums)
        for i in range(order):
            for c in range(outputs):
                moved = sums[i, c]
                if terms.unit > 0.0:
                    moved = 0.0
                    for k in range(order):
                        moved += covariance[i, k] * sums[k, c]
                    moved *= terms.unit
                coefficients[i, c] += moved
    count = len(terms.aims)
    if count:
        for i in range(order):
            covariance[i, i] += walk[i]
    for n in range(count):
        row, aim = line(features, n * width, order), line(terms.aims, n * outputs, outputs)
        _observe(coefficients, covariance, row, aim, terms.curvatures[n], gain)
    learn_noise(noise, terms.aims, terms.curvatures, terms.of_weight_one, 0.0)
    for n in range(len(terms.taught)):
        row, variance = line(features, n * width, order), terms.taught[n, 2 * outputs]
        own = _gain(covariance, row, gain) if variance > 0.0 else 0.0
        if own > variance:  # as `absorb_taught`
            for c in range(outputs):
                value[c] = terms.taught[n, c]
            _observe(coefficients, covariance, row, value, 1.0 / variance - 1.0 / own, gain)


@cached_njit
def _gain(covariance: Array, row: ReadOnly, gain: Array) -> float:
    """Fill in ``P phi``, and return ``phi'P phi``."""
    order = len(gain)
    for i in range(order):
        gain[i] = dot(covariance, i * order, row, order)
    return dot(gain, 0, row, order)


@cached_njit
def _observe(coefficients: Array, covariance: Array, row: ReadOnly, aim: Array, curvature: float, gain: Array) -> None:
    """Add one sample; its aim (C,) is overwritten with the error over its standard deviation for unit noise."""
    order, outputs = coefficients.shape
    own = max(_gain(covariance, row, gain), 0.0)
    share = curvature / (1.0 + curvature * own)
    for c in range(outputs):
        error = aim[c]
        for i in range(order):
            error -= row[i] * coefficients[i, c]
        for i in range(order):
            coefficients[i, c] += share * error * gain[i]
        aim[c] = math.sqrt(share) * error
    for i in range(order):
        gain[i] *= math.sqrt(share)
    for i in range(order):
        entry = gain[i]
        for k in range(order):
            covariance[i, k] -= entry * gain[k]


@cached_njit
def products(covariance: Array, features: ReadOnly, reach: float, gram: Array) -> None:
    """Fill ``gram`` (n, n) with ``reach phi'P phi``, the change of f at a point for a weight of 1 at another."""
    gain = np.empty(len(covariance))
    for n in range(len(gram)):
        _gain(covariance, line(features, n * features.shape[1], len(gain)), gain)
        for m in range(n + 1):
            gram[n, m] = gram[m, n] = reach * dot(gain, 0, line(features, m * features.shape[1], len(gain)), len(gain))


@cached_njit
def triangle(covariance: ReadOnly) -> Array:
    """Return R, upper triangular with a positive diagonal, with ``R'R = inv(P)``: the inverse of U in ``P = U U'``."""
    order = len(covariance)
    upper, root = np.zeros((order, order)), np.zeros((order, order))
    for k in range(order - 1, -1, -1):
        for i in range(k, -1, -1):
            left = covariance[i, k]
            for j in range(k + 1, order):
                left -= upper[i, j] * upper[k, j]
            upper[i, k] = math.sqrt(left) if i == k else left / upper[k, k]
    for k in range(order):
        root[k, k] = 1.0 / upper[k, k]
        for i in range(k - 1, -1, -1):
            total = 0.0
            for j in range(i + 1, k + 1):
                total += upper[i, j] * root[j, k]
            root[i, k] = -total / upper[i, i]
    return root
