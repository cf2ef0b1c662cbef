"""Multitask diffusion: every node has weights of its own, held to its neighbours' by a penalty."""

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
    """Nodes learn what suits each, held to their neighbours' by a penalty on weights (Chen, Richard, Sayed, TSP 2014).

    The network minimises ``sum_i E l_i + c/2 sum_ij rho_ij ||theta_i - theta_j||^2``:
    ``psi_i = theta_i - eta grad_i``, then ``theta_i = psi_i - eta c sum_j rho_ij (psi_i - psi_j)``, with rho_ij the
    attribute ``weight`` of the edge, 1 where it has none: weights are held together, where consensus holds together the
    values of functions at the samples. Nodes keep what makes them different.

    Parameters
    ----------
    penalty : float or "auto"
        c, not negative; "auto" is a twentieth of the loss's curvature, 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Implicit, a pair of nodes moves by ``eta c rho / (1 + eta c rho (deg_i + deg_j))`` of its difference, which no
        penalty makes diverge, and a quadratic loss is taken at the new function; or both as published.
    as_published : bool
        The paper's explicit step in one key.
    every : int
        The rounds from one message, and pull, to the next, at least 1; in those between nodes learn alone.
    """

    page: ClassVar = Page(Held, "adapted", hold, adapt, "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Held:
        """Return the weights, and the strength of each neighbour's pull."""
        strengths = self.strength * neighborhood.weights
        if not np.all((strengths >= 0.0) & (strengths < np.inf)):
            raise ValueError(
                "an edge has a weight that is negative or not finite: how much neighbours have in common is a number "
                "from 0"
            )
        return Held(weights, weights, strengths, np.array(neighborhood.degrees, dtype=np.float64))
