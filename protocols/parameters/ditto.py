"""Ditto: a function of the network by diffusion, and one of each node beside it."""

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
)
from kernelswarm.protocols.parameters.neighbours import PenalizedStepping, average, average_in, combination

LONG_LOOPS = True


class Personal(NamedTuple):
    """A node's two functions."""

    weights: Array  # (L, C) of its own function
    shared: Array  # (L, C) of the network's
    adapted: Array  # (L, C) the vector sent
    combination: Array  # (deg,) a_ij
    penalty: float


@dataclass(frozen=True)
class Ditto(PenalizedStepping):
    """Nodes find a common function by diffusion, and each its own near that (Ditto: Li, Hu, Beirami, Smith, ICML 2021).

    The common weights w_i take an adapt-then-combine step with Metropolis weights, in place of the paper's server; the
    node's own minimise ``E l_i(v) + penalty/2 ||v - w_i||^2`` by steps on the same samples, and are its function.

    Parameters
    ----------
    penalty : float or "auto"
        The pull to the common function, not negative; 0 is the isolated learner. "auto" is a twentieth of the loss's
        curvature, 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Whether the pull, and a quadratic loss, are taken at the new function or, as published, at the old one. The
        implicit pull is to the common function after its step of the round, the published one to that before it.
    as_published : bool
        The paper's explicit step in one key.
    every : int
        The rounds from one message to the next, at least 1; in those between nodes learn alone.
    """

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Personal:
        """Return both functions as they begin."""
        rho = self.strength
        return Personal(weights, weights, weights, combination("metropolis", neighborhood), rho)

    def adapt(self, state: Personal, samples: Samples) -> Personal:
        """Step on the samples with the common function."""
        return state._replace(adapted=samples.descend(state.shared))

    def send(self, state: Personal) -> Array:
        """Return psi_i of the common function."""
        return state.adapted.reshape(-1)

    def receive(self, state: Personal, received: Received, samples: Samples) -> Personal:
        """Average the common function, and step with the node's own."""
        mean = average(state.adapted.reshape(-1), received.vectors, state.combination, received.counts)
        shared, pull = mean.reshape(state.shared.shape), samples.eta * state.penalty
        own = samples.descend(state.weights)
        if self.step == "implicit":
            return state._replace(shared=shared, weights=(own + pull * shared) / (1.0 + pull))
        return state._replace(shared=shared, weights=own - pull * (state.weights - state.shared))

    def weights(self, state: Personal) -> Array:
        """Return v_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        receive, adapt = CompiledPhase(_pull, from_weights), CompiledPhase(_to_third, _from_shared)
        return CompiledParameterRule(receive, "adapted", np.array([float(self.step == "implicit")]), adapt)


# The vector of a node's state: its weights, the common ones, what it sends, 3 L C numbers; a_ij (deg,); the penalty.


@cached_njit
def _from_shared(given: PhaseArguments) -> None:
    """Step from the common weights."""
    weights = given.weights
    for k in range(len(weights)):
        weights[k] = given.state[len(weights) + k]


@cached_njit
def _to_third(given: PhaseArguments) -> None:
    """Keep the vector to send."""
    weights = given.weights
    for k in range(len(weights)):
        given.state[2 * len(weights) + k] = weights[k]


@cached_njit
def _pull(given: PhaseArguments) -> None:
    """Average the common weights, and pull the node's own, which have stepped, to them."""
    state, weights = given.state, given.weights
    size, degree = len(weights), len(given.vectors)
    pull = given.eta * state[3 * size + degree]
    if given.numbers[0] == 0.0:  # the weights before the step
        for k in range(size):
            state[k] = weights[k] - pull * (state[k] - state[size + k])
    sent, combined = state[2 * size : 3 * size], state[3 * size : 3 * size + degree]
    average_in(sent, given.vectors, combined, given.counts, state[size : 2 * size])
    if given.numbers[0] != 0.0:
        for k in range(size):
            state[k] = (weights[k] + pull * state[size + k]) / (1.0 + pull)
