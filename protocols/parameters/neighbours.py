"""Averages of neighbours' weights, and penalties on their differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import DataSize, Neighborhood, Step, significant, take_published
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.core.fields import flat
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors
from kernelswarm.ranges import PENALTY
from kernelswarm.refused_key import RefusedKey

# Combination weights: the weight of each neighbour in a node's average.

LONG_LOOPS = True

Combination = Literal["metropolis", "uniform", "relative_degree"]


def combination(name: Combination, neighborhood: Neighborhood) -> Array:
    """Return the weights a_ij of a node's neighbours, (deg,); the node's own weight is one minus their sum.

    Parameters
    ----------
    name : {"metropolis", "uniform", "relative_degree"}
        "metropolis" is ``1 / (1 + max(deg_i, deg_j))``; it is symmetric, so that the network's average is preserved.
        "uniform" is ``1 / (1 + deg_i)``. "relative_degree" is ``1 + deg_j``, divided by the sum of ``1 + deg`` over the
        node and its neighbours (Sayed, Adaptation, Learning, and Optimization over Networks, 2014, table 14.1).
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
    """Return whether a node that sends only in some rounds has received nothing in this round, from counts (deg,)."""
    return bool(every > 1.0 and len(counts) > 0 and total(counts) == 0.0)


@cached_njit
def average(own: ReadOnly, vectors: ReadOnly, weights: Array, counts: ReadOnly) -> Array:
    """Compute ``own + sum_j counts[j] weights[j] (vectors[j] - own)`` from (n,), (deg, n), (deg,) and (deg,)."""
    mean = np.empty(len(own))
    average_in(own, Received(own, vectors, counts), weights, mean)
    return mean


@cached_njit
def averaged(own: ReadOnly, received: Received, weights: Array) -> Array:
    """Compute ``own + sum_j counts_j weights_j (vectors_j - own)`` for an array that is sent."""
    mean = np.empty_like(own)
    average_in(own, received, weights, mean)
    return mean


@cached_njit
def average_in(own: ReadOnly, received: Received, weights: Array, mean: Array) -> None:
    """Fill ``mean`` with the result of :func:`averaged`."""
    mine, found = flat(own), flat(mean)
    for k in range(len(mine)):
        found[k] = mine[k]
    for j in range(len(received.counts)):
        weight = weights[j] * received.counts[j]
        if weight == 0.0:
            continue
        for k in range(len(mine)):
            found[k] += weight * (received.vectors[j, k] - mine[k])


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


# The common parts of protocols of vectors with a penalty on neighbours' differences, and of those that take steps.

USUAL = 0.1
"""The penalty for a loss with a second derivative of 2, such as the squared loss."""


@dataclass(frozen=True)
class Penalized(NumpyVectors):
    """A protocol with a penalty.

    Parameters
    ----------
    penalty : float or "auto"
        The strength of the pulls between neighbours' weights, nonnegative. "auto" is a twentieth of the curvature of a
        quadratic loss (0.1 for the squared loss), and 0.1 for classes and without data. For other losses of numbers it
        is a twentieth of the loss's slope divided by the targets' standard deviation.
    """

    penalty: float | Literal["auto"] = "auto"

    tuned_by: ClassVar[tuple[str, ...]] = ("penalty",)

    ranges: ClassVar = {"penalty": PENALTY}

    @property
    def strength(self) -> float:
        """The penalty as a number."""
        return USUAL if self.penalty == "auto" else self.penalty

    @property
    def strengths(self) -> Mapping[str, float]:
        """The key that scales the coupling, with its value."""
        return {"penalty": self.strength}

    @property
    def automatic(self) -> tuple[str, ...]:
        """The penalty if it is "auto"; other "auto" keys, such as the rate of DOMKL, are resolved during rounds."""
        return ("penalty",) if self.penalty == "auto" else ()

    def resolved(self, sample: DataSize) -> Self:
        """Return the protocol with the penalty computed from a sample of the data."""
        return replace(self, penalty=significant(USUAL / 2.0 * sample.typical_curvature))


@dataclass(frozen=True)
class Tolerant(Penalized):
    """A protocol of ADMM.

    Parameters
    ----------
    tolerant : bool
        Whether dual variables are computed from sums of all sent weights (`summed_duals`) if messages may be lost or
        late, nodes may sleep or edges may switch. False adds up the messages that arrive, as published: a lost message
        is then never compensated. On ideal links messages are always added up.
    """

    tolerant: bool = True

    def refuse_one_way(self, neighborhood: Neighborhood) -> None:
        """Raise ValueError if only one end of an edge asks."""
        if not neighborhood.mutual:
            raise ValueError(
                "the dual variables of ADMM cancel only where both ends of each edge ask, and in a directed network "
                'they do not: take protocol.name = "diffusion", "gradient_tracking" or "diffusion_rls", or make the '
                "network undirected"
            )

    @property
    def requires(self) -> str | None:
        """The key to set if messages may be lost."""
        if self.tolerant:
            return None
        return (
            "duals that add up what arrives never make up for a lost message: set protocol.tolerant = true, and leave "
            "out what changes or withholds messages: quantization, noise, clip and trigger of links, and faults"
        )


def refuse_waiting(every: int) -> None:
    """Refuse rounds without messages if every step adds dual variables: weights would grow without bound."""
    if every > 1:
        raise RefusedKey(
            "every",
            f"= {every!r} has duals push on in rounds that nobody answers, and weights grow without bound: set it to "
            '1, or take protocol.name = "dkla"',
        )


@dataclass(frozen=True)
class Stepping(NumpyVectors):
    """A protocol whose nodes step along gradients.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a quadratic loss is evaluated at the new function ("implicit") or, as published, at the old function.
    as_published : bool
        Whether to take the papers' explicit step; overrides ``step``.
    """

    step: Step = field(  # type: ignore[misc]  # a field here
        default="implicit", metadata={"as_published": "explicit"}
    )
    as_published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        take_published(self)


@dataclass(frozen=True)
class PenalizedStepping(Stepping, Penalized):
    """A protocol of ADMM whose nodes step along gradients."""

    @property
    def keys(self) -> tuple[float, float]:
        """The penalty, and 1 for implicit or 0 for explicit steps."""
        return self.strength, float(self.step == "implicit")
