"""The arithmetic of stacking's shares, compiled: the same code serves single nodes and whole rounds.

The vectors are those of a :class:`~kernelswarm.protocols.ensemble.stacking.StackingState`, field behind field.
"""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit

Array = npt.NDArray[np.float64]

LEAST = 1e-30
"""The least mixture weight, so that a copy that was wrong may recover."""

SMALL = 1e-9
"""A mixture weight below it has no visible effect on the mixture."""

LONGEST = 1.0
"""The largest change of the logarithm of a mixture weight in a round."""


@cached_njit
def newton_step(products: ReadOnly, slopes: ReadOnly, mixture_weights: ReadOnly) -> Array:
    """Return mixture weights nearer to the minimum over the simplex of ``q' P q / 2 - h' q + sum_k q_k log q_k``.

    Parameters
    ----------
    products, slopes : Array
        P, (K, K), positive semidefinite, and h, (K,).
    mixture_weights : Array
        Where to start, (K,), positive, with the sum 1.
    """
    count = len(mixture_weights)
    # P + diag(1/q) = S^-1 (I + S P S) S^-1 with S = diag(sqrt q): q may be tiny, the middle is well conditioned.
    # It is positive definite, so that elimination needs no pivots. The last columns are S^-1 H^-1 times the slope,
    # and times 1.
    roots, system = np.sqrt(mixture_weights), np.empty((count, count + 2))
    for j in range(count):
        slope = math.log(mixture_weights[j]) - slopes[j]
        for k in range(count):
            slope += products[j, k] * mixture_weights[k]
            system[j, k] = roots[j] * products[j, k] * roots[k]
        system[j, j] += 1.0
        system[j, count], system[j, count + 1] = roots[j] * slope, roots[j]
    for j in range(count):
        for i in range(j + 1, count):
            factor = system[i, j] / system[j, j]
            for k in range(j + 1, count + 2):
                system[i, k] -= factor * system[j, k]
    for j in range(count - 1, -1, -1):
        for column in range(count, count + 2):
            for k in range(j + 1, count):
                system[j, column] -= system[j, k] * system[k, column]
            system[j, column] /= system[j, j]
    against, ones = 0.0, 0.0
    for k in range(count):
        against += roots[k] * system[k, count]
        ones += roots[k] * system[k, count + 1]
    change, counting = np.empty(count), 0.0  # of log q
    for k in range(count):
        change[k] = (against / ones * system[k, count + 1] - system[k, count]) / roots[k]
        if mixture_weights[k] > SMALL:  # a vanishing weight does not shorten the step
            counting = max(counting, abs(change[k]))
    whole = 0.0
    for k in range(count):
        moved = max(-LONGEST, min(LONGEST, change[k] * (LONGEST / max(LONGEST, counting))))
        change[k] = max(mixture_weights[k] * math.exp(moved), LEAST)
        whole += change[k]
    for k in range(count):
        change[k] /= whole
    return change


@cached_njit
def learn(
    numbers: Array,
    state: Array,
    values: Array,
    losses: Array,
    mixture: Array,
    gradients: Array,
    curvature: float,
    regression: int,
) -> None:
    """Add the samples of a round to the sums, and take one step of the mixture weights."""
    count, samples, outputs = values.shape
    if not samples:
        return
    products = state[: count * count].reshape(count, count)
    at = count * count
    slopes, lost, counts = state[at : at + count], state[at + count : at + 2 * count], state[at + 2 * count :][:3]
    at += 2 * count + 3
    mixture_weights = state[at : at + count]
    weight = counts[2] + 1.0
    counts[0] += samples
    counts[1] += weight * samples
    counts[2] += 1.0
    for j in range(count):
        for k in range(count):
            product = 0.0
            for n in range(samples):
                for c in range(outputs):
                    product += values[j, n, c] * values[k, n, c]
            products[j, k] += weight * curvature * product
        slope = 0.0
        for n in range(samples):
            for c in range(outputs):
                slope += values[j, n, c] * (curvature * mixture[n, c] - gradients[n, c])
        slopes[j] += weight * slope
        lost[j] += weight * losses[j]
    evidence, best = counts[0] / counts[1], lost.min()
    if regression and best > 0.0:
        evidence = 0.5 * counts[0] / best
    if best > 0.0 or not regression:  # without errors of the best copy there is no variance to scale by
        moved = newton_step(evidence * products, evidence * slopes, mixture_weights.copy())
        for j in range(count):  # an assignment to [:] takes seconds to compile
            mixture_weights[j] = moved[j]


@cached_njit
def receive(numbers: Array, state: Array, sent: Array) -> None:
    """Keep the logarithms that neighbours have sent."""
    degree, count = sent.shape
    begin = len(state) - degree * count
    for e in range(degree):
        for k in range(count):
            state[begin + e * count + k] = sent[e, k]


@cached_njit
def send(numbers: Array, state: Array, sent: Array) -> None:
    """Fill in the logarithms of the node's own mixture weights."""
    begin = len(sent) * (len(sent) + 2) + 3
    for k in range(len(sent)):
        sent[k] = math.log(state[begin + k])


@cached_njit
def mixed(numbers: Array, state: Array, mixture_weights: Array) -> None:
    """Fill in the node's mixture weights: its own times the geometric mean of its neighbours'."""
    count = len(mixture_weights)
    received = count * (count + 3) + 3
    degree, largest, whole = (len(state) - received) // count, -np.inf, 0.0
    send(numbers, state, mixture_weights)
    for k in range(count):
        opinion = 0.0
        for e in range(degree):
            opinion += state[received + e * count + k]
        if degree:
            mixture_weights[k] += opinion / degree
        largest = max(largest, mixture_weights[k])
    for k in range(count):
        mixture_weights[k] = math.exp(mixture_weights[k] - largest)
        whole += mixture_weights[k]
    for k in range(count):
        mixture_weights[k] /= whole
