"""How much a node counts each neighbour when it averages: combination weights."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

Combination = Literal["metropolis", "uniform", "relative_degree"]


def combination(name: Combination, neighborhood: Neighborhood) -> Array:
    """Return the weights a_ij of a node's neighbours, (deg,); its own is one minus their sum.

    Parameters
    ----------
    name : {"metropolis", "uniform", "relative_degree"}
        ``1 / (1 + max(deg_i, deg_j))``, the same in both directions, so that averages over the network stay; ``1 / (1 +
        deg_i)``; or ``(1 + deg_j)`` over the sum of that of the node and all its neighbours (Sayed, Adaptation,
        Learning, and Optimization over Networks, 2014, table 14.1).
    neighborhood : Neighborhood
        The node and its neighbours.
    """
    degree, others = len(neighborhood.neighbors), np.array(neighborhood.degrees, dtype=np.float64)
    if name == "uniform":
        return np.full(degree, 1.0 / (1.0 + degree))
    if name == "relative_degree":
        return (1.0 + others) / (1.0 + degree + np.sum(1.0 + others))
    return 1.0 / (1.0 + np.maximum(float(degree), others))


@njit_no_refcount
def waits(every: float, counts: ReadOnly) -> bool:
    """Tell whether a node that sends in some rounds only has received nothing in this one, from (deg,)."""
    return bool(every > 1.0 and len(counts) > 0 and total(counts) == 0.0)


@cached_njit
def average(own: ReadOnly, vectors: ReadOnly, weights: Array, counts: ReadOnly) -> Array:
    """Compute ``own + sum_j counts[j] weights[j] (vectors[j] - own)`` from (n,), (deg, n), (deg,) and (deg,)."""
    mean = np.empty(len(own))
    average_in(own, vectors, weights, counts, mean)
    return mean


@cached_njit
def average_in(own: ReadOnly, vectors: ReadOnly, weights: Array, counts: ReadOnly, mean: Array) -> None:
    """Fill ``mean`` (n,) with :func:`average`."""
    for k in range(len(own)):
        mean[k] = own[k]
    for j in range(len(vectors)):
        weight = weights[j] * counts[j]
        if weight == 0.0:
            continue
        for k in range(len(own)):
            mean[k] += weight * (vectors[j, k] - own[k])


@njit_no_refcount
def squared_distance(left: ReadOnly, right: ReadOnly) -> float:
    """Compute the squared distance of two vectors (n,)."""
    total = 0.0
    for k in range(len(right)):
        difference = left[k] - right[k]
        total += difference * difference
    return total


@cached_njit
def squares(vectors: ReadOnly, center: ReadOnly) -> Array:
    """Compute the squared distances of ``vectors`` (deg, n) from ``center`` (n,): (deg,)."""
    found = np.empty(len(vectors))
    for j in range(len(vectors)):
        found[j] = squared_distance(vectors[j], center)
    return found


@cached_njit
def differences(own: ReadOnly, vectors: ReadOnly, weights: ReadOnly) -> Array:
    """Compute ``sum_j weights[j] (own - vectors[j])`` from (n,), (deg, n) and (deg,)."""
    found = np.zeros(len(own))
    for j in range(len(vectors)):
        if weights[j] == 0.0:
            continue
        for k in range(len(own)):
            found[k] += weights[j] * (own[k] - vectors[j, k])
    return found
