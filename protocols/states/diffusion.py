"""Diffusion: every node steps on its own samples, and averages with its neighbours."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.mixing import Combination, average, combination, squares
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
        before = state.weights.reshape(-1)
        found = np.concatenate([[np.sum((state.adapted.reshape(-1) - before) ** 2)], squares(heard.vectors, before)])
        known = np.isnan(state.variances)
        variances = np.where(known, found, (1.0 - self.rate) * state.variances + self.rate * found)
        silent = np.concatenate([[False], heard.counts == 0.0])
        variances = np.where(silent, state.variances, variances)
        inverse = 1.0 / np.maximum(np.where(np.isnan(variances), np.inf, variances), TINY)
        return inverse[1:] / np.sum(inverse), variances

    def weights(self, state: Diffused) -> Array:
        """Return theta_i."""
        return state.weights
