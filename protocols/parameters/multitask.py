"""Multitask diffusion: every node has its own weights, coupled to its neighbours' weights by a penalty."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import PenalizedStepping, averaged
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen


class Held(NamedTuple):
    """The state of a node of multitask diffusion."""

    weights: Annotated[Array, "LC"]  # theta_i
    adapted: Annotated[Array, "LC"]  # psi_i, the vector sent
    strengths: Annotated[Array, "d"]  # c rho_ij
    degrees: Annotated[Array, "d"]  # of the neighbours


def adapt(keys: tuple[float, float], state: Held, samples: Seen) -> Held:
    """psi_i = theta_i - eta grad_i"""
    return Held(state.weights, samples.stepped, state.strengths, state.degrees)


def hold(keys: tuple[float, float], state: Held, received: Received, samples: Seen) -> Held:
    """theta_i = psi_i - eta c sum_j rho_ij (psi_i - psi_j)"""
    _, implicit = keys
    part = samples.eta * state.strengths
    if implicit:
        part = part / (1.0 + part * (len(part) + state.degrees))
    return Held(averaged(state.adapted, received, part), state.adapted, state.strengths, state.degrees)


@dataclass(frozen=True)
class Multitask(PenalizedStepping):
    """Multitask diffusion with a penalty on weight differences (Chen, Richard and Sayed, IEEE TSP 2014).

    The network minimises ``sum_i E l_i + c/2 sum_ij rho_ij ||theta_i - theta_j||^2`` by the steps
    ``psi_i = theta_i - eta grad_i``, then ``theta_i = psi_i - eta c sum_j rho_ij (psi_i - psi_j)``. rho_ij is the
    attribute ``weight`` of the edge, 1 by default. The penalty acts on weights; that of `consensus` acts on function
    values at samples. Nodes keep different functions.

    Parameters
    ----------
    penalty : float or "auto"
        c, nonnegative; "auto" is a twentieth of the loss's curvature: 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        "implicit" moves each of two neighbours by ``eta c rho / (1 + eta c rho (deg_i + deg_j))`` of their difference,
        which is stable for every penalty, and evaluates a quadratic loss at the new function. "explicit" takes both as
        published.
    as_published : bool
        Whether to take the paper's explicit step; overrides ``step``.
    every : int
        The number of rounds from one message, and one pull, to the next, at least 1. Nodes learn alone in the rounds
        between.
    """

    page: ClassVar = Page(Held, "adapted", hold, adapt, "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Held:
        """Return the weights, and the strength of the pull on each edge."""
        strengths = self.strength * neighborhood.weights
        if not np.all((strengths >= 0.0) & (strengths < np.inf)):
            raise ValueError(
                "an edge has a weight that is negative or not finite: how much neighbours have in common is a number "
                "from 0"
            )
        return Held(weights, weights, strengths, np.array(neighborhood.degrees, dtype=np.float64))
