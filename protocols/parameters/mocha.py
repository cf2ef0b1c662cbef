"""MOCHA: every node has its own weights, coupled to its neighbours' by relations that are learned from the weights."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.least_squares import decompose
from kernelswarm.protocols.parameters.neighbours import Penalized
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen

LONG_LOOPS = True


class Related(NamedTuple):
    """The state of a node of multitask learning with learned relations."""

    weights: Annotated[Array, "LC"]  # theta_i
    adapted: Annotated[Array, "LC"]  # psi_i, the vector sent


def adapt(keys: tuple[float], state: Related, samples: Seen) -> Related:
    """psi_i = theta_i - eta grad_i"""
    return Related(state.weights, samples.stepped)


def hold(keys: tuple[float], state: Related, received: Received, samples: Seen) -> Related:
    """theta_i = m + [D Omega inv(Omega + eta c I)]_i"""
    (penalty,) = keys
    pull = samples.eta * penalty
    relate(state.adapted.reshape(-1), received.vectors, received.counts, pull, state.weights.reshape(-1))
    return state


@dataclass(frozen=True)
class Mocha(Penalized):
    """Multitask learning with learned relations between the nodes' tasks (MOCHA: Smith et al., NIPS 2017).

    After a step of each node, let m be the mean of the weights ``psi_i, psi_j, ...`` of a node and its neighbours, and
    D the matrix whose columns are their differences from m. Omega is MOCHA's relation of tasks (Zhang and Yeung, UAI
    2010). The node takes the proximal step of ``c/2 tr(D inv(Omega) D')``, which is stable for every penalty:

        Omega = sqrt(D'D) / tr sqrt(D'D)        theta_i = m + [D Omega inv(Omega + eta c I)]_i

    Directions with large differences in the neighbourhood are kept, and directions with small differences are removed.
    The paper's server relates all nodes; here every node relates its neighbourhood. The paper penalises the weights
    themselves, which shrinks all functions. Here only differences from the mean are penalised, so that the common part
    does not shrink.

    Parameters
    ----------
    penalty : float or "auto"
        c, nonnegative; with 0 the nodes are isolated. "auto" is a twentieth of the loss's curvature: 0.1 for
        the squared loss.
    every : int
        The number of rounds from one message, and one pull, to the next, at least 1. Nodes learn alone in the rounds
        between.
    """

    page: ClassVar = Page(Related, "adapted", hold, adapt, "weights")

    @property
    def keys(self) -> tuple[float]:
        """c."""
        return (self.strength,)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Related:
        return Related(weights, weights)


@cached_njit
def relate(own: ReadOnly, vectors: ReadOnly, counts: ReadOnly, pull: float, weights: Array) -> None:
    """Fill in ``m + [D Omega inv(Omega + pull I)]_0``, (n,), for a node's weights and its neighbours' weights.

    Parameters
    ----------
    own, vectors : Array
        psi of the node, (n,), and of the neighbours, (deg, n).
    counts : Array
        The weight of each neighbour, (deg,), which multiplies its difference from the node; 0 leaves it out.
    pull : float
        eta c.
    weights : Array
        (n,), filled in.
    """
    size, members = len(own), 1
    apart = np.empty((1 + len(vectors), size))  # finally D'
    for k in range(size):
        apart[0, k] = weights[k] = own[k]
    for j in range(len(vectors)):
        if counts[j] > 0.0:
            for k in range(size):
                apart[members, k] = own[k] + counts[j] * (vectors[j, k] - own[k])
                weights[k] += apart[members, k]
            members += 1
    gram = np.empty((members, members))
    for k in range(size):
        weights[k] /= members
    for i in range(members):
        for k in range(size):
            apart[i, k] -= weights[k]
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = _product(apart, i, j)
    kept = np.empty(members)
    keep(gram, pull, kept)
    for i in range(members):
        for k in range(size):
            weights[k] += kept[i] * apart[i, k]


@cached_njit
def keep(gram: Array, pull: float, kept: Array) -> None:
    """Fill in the first column of ``Omega inv(Omega + pull I)``, (m,), from the Gram matrix D'D; 1, 0, ... for D = 0.

    The Gram matrix, (m, m), is overwritten.
    """
    size = len(gram)
    squares, whole = np.empty(size), 0.0
    decompose(gram, squares)
    for i in range(size):
        squares[i] = math.sqrt(max(squares[i], 0.0))
        whole += squares[i]
        kept[i] = 0.0
    if whole == 0.0 or pull == 0.0:
        kept[0] = 1.0
        return
    for k in range(size):
        share = squares[k] / (squares[k] + pull * whole) * gram[k, 0]
        for i in range(size):
            kept[i] += share * gram[k, i]


@cached_njit
def _product(rows: Array, i: int, j: int) -> float:
    """Compute the inner product of two rows in four independent sums."""
    whole = rows.shape[1] - rows.shape[1] % 4
    first = second = third = fourth = 0.0
    for k in range(0, whole, 4):
        first += rows[i, k] * rows[j, k]
        second += rows[i, k + 1] * rows[j, k + 1]
        third += rows[i, k + 2] * rows[j, k + 2]
        fourth += rows[i, k + 3] * rows[j, k + 3]
    for k in range(whole, rows.shape[1]):
        first += rows[i, k] * rows[j, k]
    return (first + second) + (third + fourth)
