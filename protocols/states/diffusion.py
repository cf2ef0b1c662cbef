"""Diffusion: every node steps on its own samples, and averages with its neighbours."""

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import ReadOnly, jitted
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.states.compiled import CompiledPhase, CompiledStateRule, from_weights, to_second
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.mixing import Combination, average, average_in, combination, squares
from kernelswarm.protocols.states.penalties import Stepping

Array = npt.NDArray[np.float64]

Order = Literal["adapt_then_combine", "combine_then_adapt"]

TINY = 1e-300
"""The smallest squared distance that counts: a neighbour that agrees to the last bit counts no more than all."""


class Diffused(NamedTuple):
    """What a node of a diffusion knows."""

    weights: Array  # (L, C) of its function
    adapted: Array  # (L, C) what it sends
    combination: Array  # (deg,) a_ij
    variances: Array  # (1 + deg,) adaptive combination only: how far its own and its neighbours' steps lead, squared


@dataclass(frozen=True)
class Diffusion(Stepping):
    """Every node steps on its own samples and averages with its neighbours (Bouboulis et al., IEEE TSP 2018).

    Adapt then combine: ``psi_i = theta_i - eta grad_i(theta_i)``, then ``theta_i = sum_j a_ij psi_j``, where a_ij and
    the node's own a_ii add up to one; combine then adapt takes the two the other way round.

    Parameters
    ----------
    combination : {"metropolis", "uniform", "relative_degree", "adaptive"}
        a_ij from the degrees, or, ``adaptive``, from how far each neighbour's weights are from the node's: as ``1 /
        gamma_ij^2`` with ``gamma_ij^2 <- (1 - nu) gamma_ij^2 + nu ||psi_j - theta_i||^2`` (Zhao and Sayed, 2012), which
        leaves out those that learn something else.
    order : {"adapt_then_combine", "combine_then_adapt"}
        Which of both comes first.
    rate : float
        nu of the adaptive combination, above 0, at most 1.
    step : {"implicit", "explicit"}
        Whether a quadratic loss is taken at the new function or, as published, at the old one.
    as_published : bool
        The paper's explicit step and Metropolis weights in one key.
    """

    combination: Literal[Combination, "adaptive"] = field(default="metropolis", metadata={"as_published": "metropolis"})
    order: Order = "adapt_then_combine"
    rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.rate <= 1.0:
            raise ValueError(f"rate = {self.rate!r} must be above 0 and at most 1: 0.1 is usual")
        if self.combination == "adaptive" and self.order == "combine_then_adapt":
            raise ValueError(
                'order = "combine_then_adapt" has nothing to tell neighbours apart by, and combination = "adaptive" '
                'compares what their last steps led to: leave order = "adapt_then_combine"'
            )
        if self.as_published:
            object.__setattr__(self, "combination", "metropolis")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Diffused:
        """Return the weights, and how much each neighbour counts."""
        name = "metropolis" if self.combination == "adaptive" else self.combination
        degree = len(neighborhood.neighbors)
        return Diffused(weights, weights, combination(name, neighborhood), np.full(1 + degree, np.nan))

    def adapt(self, state: Diffused, samples: Samples) -> Diffused:
        """Step on the samples, if that comes first."""
        if self.order == "combine_then_adapt":
            return state._replace(adapted=state.weights)
        return state._replace(adapted=samples.descend(state.weights))

    def say(self, state: Diffused) -> Array:
        """Return psi_i, or theta_i where the combination comes first."""
        return state.adapted.reshape(-1)

    def hear(self, state: Diffused, heard: Heard, samples: Samples) -> Diffused:
        """Average, and step if that comes last."""
        weights, variances = state.combination, state.variances
        if self.combination == "adaptive":
            weights, variances = self._reweighted(state, heard)
        own = state.adapted.reshape(-1)
        mean = average(own, heard.vectors, weights, heard.counts).reshape(state.weights.shape)
        if self.order == "combine_then_adapt":
            mean = samples.descend(mean)
        return Diffused(mean, mean, weights, variances)

    def _reweighted(self, state: Diffused, heard: Heard) -> tuple[Array, Array]:
        """Return a_ij from the running means of squared distances, and these; an edge not heard keeps its own."""
        weights, variances = state.combination.copy(), state.variances.copy()
        own, before = state.adapted.reshape(1, -1), state.weights.reshape(-1)
        _reweigh(self.rate, own, before, heard.vectors, heard.counts, variances, weights)
        return weights, variances

    def weights(self, state: Diffused) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledStateRule:
        """What the protocol hands over to compiled rounds."""
        if self.order == "combine_then_adapt":
            return CompiledStateRule(CompiledPhase(_arrive, _combine), "adapted", np.zeros(0), CompiledPhase(_stay))
        adapt = CompiledPhase(to_second, from_weights)
        if self.combination == "adaptive":
            return CompiledStateRule(CompiledPhase(_combine_anew), "adapted", np.array([self.rate]), adapt)
        return CompiledStateRule(CompiledPhase(_mix), "adapted", np.zeros(0), adapt)


@jitted
def _reweigh(
    rate: float, own: Array, before: ReadOnly, vectors: ReadOnly, counts: ReadOnly, variances: Array, weights: Array
) -> None:
    """Change the running means of squared distances (1 + deg,), the node's own (1, n) first, and a_ij (deg,)."""
    found = np.concatenate((squares(own, before), squares(vectors, before)))
    inverse = np.zeros(len(variances))
    for j in range(len(variances)):
        if j == 0 or counts[j - 1] != 0.0:
            known = not math.isnan(variances[j])
            variances[j] = (1.0 - rate) * variances[j] + rate * found[j] if known else found[j]
        if not math.isnan(variances[j]):
            inverse[j] = 1.0 / max(variances[j], TINY)
    whole = total(inverse)
    for j in range(len(weights)):
        weights[j] = inverse[1 + j] / whole


# The vector of a node's state: its weights (L C,), what it sends (L C,), a_ij (deg,) and its variances (1 + deg,).


@jitted
def _combine(
    numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Average what was sent."""
    size = len(weights)
    average_in(state[size : 2 * size], vectors, state[2 * size : 2 * size + len(vectors)], counts, weights)


@jitted
def _arrive(
    numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Keep the weights, as what is sent too."""
    size = len(weights)
    for k in range(size):
        state[k] = state[size + k] = weights[k]


@jitted
def _stay(numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array) -> None:
    """Send the weights."""
    size = len(weights)
    for k in range(size):
        state[size + k] = state[k]


@jitted
def _mix(numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array) -> None:
    """Average, and keep that."""
    _combine(numbers, state, said, vectors, counts, eta, weights)
    _arrive(numbers, state, said, vectors, counts, eta, weights)


@jitted
def _combine_anew(
    numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Find the weights of the average first."""
    size, degree = len(weights), len(vectors)
    own, combined = state[size : 2 * size].reshape(1, size), state[2 * size : 2 * size + degree]
    variances = state[2 * size + degree : 2 * size + 2 * degree + 1]
    _reweigh(numbers[0], own, state[:size], vectors, counts, variances, combined)
    _mix(numbers, state, said, vectors, counts, eta, weights)
