"""Multitask diffusion: every node has weights of its own, held to its neighbours' by a penalty."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.parameters.contract import (
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    Received,
    Samples,
    from_weights,
    to_second,
)
from kernelswarm.protocols.parameters.neighbours import PenalizedStepping, average, average_in

LONG_LOOPS = True


class Held(NamedTuple):
    """The state of a node of multitask diffusion."""

    weights: Array  # (L, C)
    adapted: Array  # (L, C) the vector sent
    strengths: Array  # (deg,) c rho_ij
    others: Array  # (deg,) the degree of each neighbour


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

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Held:
        """Return the weights, and the strength of each neighbour's pull."""
        strengths = self.strength * neighborhood.weights
        if not np.all((strengths >= 0.0) & (strengths < np.inf)):
            raise ValueError(
                "an edge has a weight that is negative or not finite: how much neighbours have in common is a number "
                "from 0"
            )
        return Held(weights, weights, strengths, np.array(neighborhood.degrees, dtype=np.float64))

    def adapt(self, state: Held, samples: Samples) -> Held:
        return state._replace(adapted=samples.descend(state.weights))

    def send(self, state: Held) -> Array:
        """Return psi_i."""
        return state.adapted.reshape(-1)

    def receive(self, state: Held, received: Received, samples: Samples) -> Held:
        """Move towards the neighbours."""
        part = samples.eta * state.strengths
        if self.step == "implicit":
            part = part / (1.0 + part * (len(state.others) + state.others))
        own = state.adapted
        return state._replace(
            weights=average(own.reshape(-1), received.vectors, part, received.counts).reshape(own.shape)
        )

    def weights(self, state: Held) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        receive, adapt = CompiledPhase(_hold), CompiledPhase(to_second, from_weights)
        return CompiledParameterRule(receive, "adapted", np.array([float(self.step == "implicit")]), adapt)


@cached_njit
def _hold(given: PhaseArguments) -> None:
    """Move towards the neighbours; the state is the weights, what is sent (L C,), and strengths and degrees (deg,)."""
    state = given.state
    size, degree = len(given.weights), len(given.vectors)
    part = np.empty(degree)
    for j in range(degree):
        part[j] = given.eta * state[2 * size + j]
        if given.numbers[0] != 0.0:
            part[j] = part[j] / (1.0 + part[j] * (degree + state[2 * size + degree + j]))
    average_in(state[size : 2 * size], given.vectors, part, given.counts, state[:size])
