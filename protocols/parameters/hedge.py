"""Hedge: weights of several predictors from their losses on new samples."""

import math

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import cached_njit

LONG_LOOPS = True

LIKELIHOOD = 0.0
"""The value that stands for the rate of a Gaussian likelihood: 1 over twice the mean loss of the best predictor."""


@cached_njit
def log_weights(losses: Array, count: float, rate: float) -> Array:
    """Compute ``-rate (L_e - min L)``, (E,), from sums of losses L_e over ``count`` samples; the best one has 0."""
    best = np.min(losses)
    if rate == LIKELIHOOD and best > 0.0:
        rate = 0.5 * max(count, 1.0) / best
    found = np.empty(len(losses))
    for e in range(len(losses)):
        found[e] = -rate * (losses[e] - best)
    return found


@cached_njit
def shares_of(weights: Array) -> Array:
    """Compute ``exp(w_e) / sum exp(w)`` from log weights w: (E,)."""
    largest = np.max(weights)
    found, whole = np.empty(len(weights)), 0.0
    for e in range(len(weights)):
        found[e] = math.exp(weights[e] - largest)
        whole += found[e]
    for e in range(len(weights)):
        found[e] /= whole
    return found
