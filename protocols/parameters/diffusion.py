"""Diffusion: every node steps on its own samples, and averages with its neighbours."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import (
    CompiledParameterRule,
    CompiledPhase,
    PhaseArguments,
    Received,
    Samples,
    from_weights,
    to_second,
)
from kernelswarm.protocols.parameters.neighbours import Combination, Stepping, average, average_in, combination, squares
from kernelswarm.ranges import Range

LONG_LOOPS = True

Weights = Literal[Combination, "received", "adaptive"]

Order = Literal["adapt_then_combine", "combine_then_adapt"]

TINY = 1e-300
"""The least squared distance, so that a neighbour that agrees to the last bit keeps a finite weight."""


class Diffused(NamedTuple):
    """The state of a node of a diffusion."""

    weights: Array  # (L, C) of its function
    other: Array  # (L, C) psi_i if steps come first; else the begin of its last step
    combination: Array  # (deg,) a_ij
    variances: Array  # (1 + deg,) of the adaptive combination: squared lengths of its own and its neighbours' steps


@dataclass(frozen=True)
class Diffusion(Stepping):
    """Every node steps on its own samples and averages with its neighbours (Bouboulis et al., IEEE TSP 2018).

    Adapt then combine: ``psi_i = theta_i - eta grad_i(theta_i)``, then ``theta_i = sum_j a_ij psi_j``, where a_ij and
    the node's own a_ii add up to one. Combine then adapt: ``psi_i = sum_j a_ij theta_j``, then ``theta_i = psi_i - eta
    grad_i(psi_i)``.

    Parameters
    ----------
    combination : {"metropolis", "uniform", "relative_degree", "received", "adaptive"}
        a_ij from the degrees; ``received``, ``1 / (1 + h_i)`` with the h_i neighbours that are received in the round:
        where the topology's ``schedule`` is ``gossip``, pairs meet in the middle (Boyd, Ghosh, Prabhakar and Shah,
        2006); or, ``adaptive``, from the distance of each neighbour's step's end from the node's begin: as
        ``1 / gamma_ij^2`` with ``gamma_ij^2 <- (1 - nu) gamma_ij^2 + nu ||psi_j - theta_i||^2`` (Zhao and Sayed, 2012),
        where averages come first ``||theta_j - psi_i||^2``. It leaves out those that learn something else.
    order : {"adapt_then_combine", "combine_then_adapt"}
        The order of both.
    rate : float
        nu of the adaptive combination, above 0, at most 1.
    step : {"implicit", "explicit"}
        Whether a quadratic loss is taken at the new function or, as published, at the old one.
    as_published : bool
        The paper's explicit step and Metropolis weights in one key.
    every : int
        The rounds from one message to the next, at least 1; in those between nodes learn alone.
    """

    combination: Weights = field(default="metropolis", metadata={"as_published": "metropolis"})
    order: Order = "adapt_then_combine"
    rate: float = 0.1

    ranges: ClassVar = {"rate": Range("(0, 1]", "0.1 is usual")}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Diffused:
        """Return the weights, with the combination of the neighbours."""
        name = self.combination
        if name == "received":  # while all are received
            name = "uniform"
        elif name == "adaptive":
            name = "metropolis"
        degree = len(neighborhood.neighbors)
        return Diffused(weights, weights, combination(name, neighborhood), np.full(1 + degree, np.nan))

    def adapt(self, state: Diffused, samples: Samples) -> Diffused:
        """Step on the samples, if that comes first."""
        if self.order == "combine_then_adapt":
            return state
        return state._replace(other=samples.descend(state.weights))

    def send(self, state: Diffused) -> Array:
        """Return the end of the last step: psi_i, or theta_i if the combination comes first."""
        return self._stepped(state)[0].reshape(-1)

    def receive(self, state: Diffused, received: Received, samples: Samples) -> Diffused:
        """Average, and step if that comes last."""
        weights, variances = state.combination, state.variances
        stepped, before = (each.reshape(-1) for each in self._stepped(state))
        if self.combination == "adaptive":
            weights, variances = weights.copy(), variances.copy()
            vectors, counts = received.vectors, received.counts
            _reweigh(self.rate, stepped.reshape(1, -1), before, vectors, counts, variances, weights)
        elif self.combination == "received":
            weights = np.full(len(weights), 1.0 / (1.0 + total(received.counts)))
        mean = average(stepped, received.vectors, weights, received.counts).reshape(state.weights.shape)
        after = samples.descend(mean) if self.order == "combine_then_adapt" else mean
        return Diffused(after, mean, weights, variances)

    def _stepped(self, state: Diffused) -> tuple[Array, Array]:
        """Return the end of the node's last step, and its begin."""
        return state[:2] if self.order == "combine_then_adapt" else state[1::-1]

    def weights(self, state: Diffused) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        adaptive = self.combination == "adaptive"
        numbers = np.array([self.rate, float(self.combination == "received")])
        if self.order == "combine_then_adapt":
            return CompiledParameterRule(
                CompiledPhase(_arrive, _begin_anew if adaptive else _begin), "weights", numbers
            )
        adapt = CompiledPhase(to_second, from_weights)
        return CompiledParameterRule(CompiledPhase(_mix_anew if adaptive else _mix), "other", numbers, adapt)


@cached_njit
def _reweigh(
    rate: float, own: ReadOnly, before: ReadOnly, vectors: ReadOnly, counts: ReadOnly, variances: Array, weights: Array
) -> None:
    """Change the running means of squared distances (1 + deg,), the node's own (1, n) first, and a_ij (deg,).

    An edge without a message keeps its mean; a mean begins with the first distance above 0.
    """
    found = np.concatenate((squares(own, before), squares(vectors, before)))
    inverse = np.zeros(len(variances))
    for j in range(len(variances)):
        if j == 0 or counts[j - 1] != 0.0:
            known = variances[j] > 0.0
            variances[j] = (1.0 - rate) * variances[j] + rate * found[j] if known else found[j]
        if not math.isnan(variances[j]):
            inverse[j] = 1.0 / max(variances[j], TINY)
    whole = total(inverse)
    for j in range(len(weights)):
        weights[j] = inverse[1 + j] / whole


# The vector of a node's state: its weights (L C,), the other ones (L C,), a_ij (deg,) and its variances (1 + deg,).


@cached_njit
def _combine(adaptive: bool, sent: int, given: PhaseArguments, mean: Array) -> None:
    """Average the vectors sent, the node's own from a place in its state, by constant or updated weights."""
    numbers, state, vectors, counts = given.numbers, given.state, given.vectors, given.counts
    size, degree = len(mean), len(vectors)
    own, combined = state[sent : sent + size], state[2 * size : 2 * size + degree]
    if adaptive:
        before, variances = state[size - sent : 2 * size - sent], state[2 * size + degree : 2 * size + 2 * degree + 1]
        _reweigh(numbers[0], own.reshape(1, size), before, vectors, counts, variances, combined)
    elif numbers[1] == 1.0:
        share = 1.0 / (1.0 + total(counts))
        for j in range(degree):
            combined[j] = share
    average_in(own, vectors, combined, counts, mean)


@cached_njit
def _keep(place: int, state: Array, weights: Array) -> None:
    """Copy weights into the state."""
    for k in range(len(weights)):
        state[place + k] = weights[k]


@cached_njit
def _mix(given: PhaseArguments) -> None:
    """Average the ends of steps, and keep the result."""
    weights = given.weights
    _combine(False, len(weights), given, weights)
    _keep(0, given.state, weights)
    _keep(len(weights), given.state, weights)


@cached_njit
def _mix_anew(given: PhaseArguments) -> None:
    """Update the combination, then average."""
    weights = given.weights
    _combine(True, len(weights), given, weights)
    _keep(0, given.state, weights)
    _keep(len(weights), given.state, weights)


@cached_njit
def _begin(given: PhaseArguments) -> None:
    """Average, and keep the begin of the step."""
    weights = given.weights
    _combine(False, 0, given, weights)
    _keep(len(weights), given.state, weights)


@cached_njit
def _begin_anew(given: PhaseArguments) -> None:
    """Update the combination, then average."""
    weights = given.weights
    _combine(True, 0, given, weights)
    _keep(len(weights), given.state, weights)


@cached_njit
def _arrive(given: PhaseArguments) -> None:
    """Keep the end of the step."""
    _keep(0, given.state, given.weights)
