"""Diffusion: every node steps on its own samples, and averages with its neighbours."""

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import Combination, Stepping, average_in, combination, squared_distance
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen
from kernelswarm.ranges import Range

LONG_LOOPS = True

Weights = Literal[Combination, "received", "adaptive"]

Order = Literal["adapt_then_combine", "combine_then_adapt"]

TINY = 1e-300
"""The least squared distance, so that a neighbour that agrees to the last bit keeps a finite weight."""


class Diffused(NamedTuple):
    """The state of a node of a diffusion."""

    weights: Annotated[Array, "LC"]  # theta_i
    other: Annotated[Array, "LC"]  # psi_i
    combination: Annotated[Array, "d"]  # a_ij
    moved: Annotated[Array, "1"]  # for "adaptive": the mean squared length of the node's own step
    apart: Annotated[Array, "d"]  # for "adaptive": the mean squared distances of the neighbours


RECEIVED, ADAPTIVE = 1.0, 2.0
"""The values of the second key for a_ij that change during a run."""


def adapt(keys: tuple[float, ...], state: Diffused, samples: Seen) -> Diffused:
    """psi_i = theta_i - eta grad_i(theta_i)"""
    return Diffused(state.weights, samples.stepped, state.combination, state.moved, state.apart)


def average_steps(keys: tuple[float, ...], state: Diffused, received: Received, samples: Seen) -> Diffused:
    """theta_i = sum_j a_ij psi_j"""
    weigh(keys, state, state.other, state.weights, received)
    average_in(state.other, received, state.combination, state.weights)
    return state


def average_weights(keys: tuple[float, ...], state: Diffused, received: Received, samples: Seen) -> Diffused:
    """psi_i = sum_j a_ij theta_j"""
    weigh(keys, state, state.weights, state.other, received)
    average_in(state.weights, received, state.combination, state.other)
    return state


def step_last(keys: tuple[float, ...], state: Diffused, received: Received, samples: Seen) -> Diffused:
    """theta_i = psi_i - eta grad_i(psi_i)"""
    return Diffused(samples.stepped, state.other, state.combination, state.moved, state.apart)


def weigh(keys: tuple[float, ...], state: Diffused, end: Array, begin: Array, received: Received) -> None:
    """Update a_ij from the received weights, and from the node's weights before and after its step."""
    rate, kind = keys
    if kind == RECEIVED:
        state.combination.fill(1.0 / (1.0 + total(received.counts)))
    elif kind == ADAPTIVE:
        start = begin.reshape(-1)
        inverse = np.zeros(1 + len(received.counts))
        inverse[0] = inverse_mean(rate, state.moved, 0, squared_distance(end.reshape(-1), start), True)
        for j in range(len(received.counts)):
            square = squared_distance(received.vectors[j], start)
            inverse[1 + j] = inverse_mean(rate, state.apart, j, square, received.counts[j] != 0.0)
        whole = total(inverse)
        for j in range(len(received.counts)):
            state.combination[j] = inverse[1 + j] / whole


def inverse_mean(rate: float, means: Array, place: int, square: float, arrived: bool) -> float:
    """Update a running mean if a message has arrived, and return its inverse; it starts at the first square above 0."""
    if arrived:
        old = means[place]
        means[place] = (1.0 - rate) * old + rate * square if old > 0.0 else square
    return 0.0 if math.isnan(means[place]) else 1.0 / max(means[place], TINY)


@dataclass(frozen=True)
class Diffusion(Stepping):
    """Every node steps on its own samples and averages with its neighbours (Bouboulis et al., IEEE TSP 2018).

    Adapt then combine: ``psi_i = theta_i - eta grad_i(theta_i)``, then ``theta_i = sum_j a_ij psi_j``. Combine then
    adapt: ``psi_i = sum_j a_ij theta_j``, then ``theta_i = psi_i - eta grad_i(psi_i)``. The sums include the node
    itself, and all a_ij of a node add up to 1.

    Parameters
    ----------
    combination : {"metropolis", "uniform", "relative_degree", "received", "adaptive"}
        The first three compute a_ij from the degrees. ``received`` is ``1 / (1 + h_i)`` with the number h_i of
        neighbours that are received in the round; with the topology's ``schedule = "gossip"`` two nodes take their mean
        (Boyd, Ghosh, Prabhakar and Shah, 2006). ``adaptive`` is proportional to ``1 / gamma_ij^2``, with
        ``gamma_ij^2 <- (1 - nu) gamma_ij^2 + nu ||psi_j - theta_i||^2`` (Zhao and Sayed, 2012), or with
        ``||theta_j - psi_i||^2`` for combine then adapt; neighbours with a different target get small weights.
    order : {"adapt_then_combine", "combine_then_adapt"}
        The order of the two steps.
    rate : float
        nu of the adaptive combination, in (0, 1].
    step : {"implicit", "explicit"}
        Whether a quadratic loss is evaluated at the new function ("implicit") or, as published, at the old function.
    as_published : bool
        Whether to take the paper's explicit step and Metropolis weights.
    every : int
        The number of rounds from one message to the next, at least 1. Nodes learn alone in the rounds between.
    """

    combination: Weights = field(default="metropolis", metadata={"as_published": "metropolis"})
    order: Order = "adapt_then_combine"
    rate: float = 0.1

    ranges: ClassVar = {"rate": Range("(0, 1]", "0.1 is usual")}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Diffused:
        """Return the weights, and the initial combination weights of the neighbours."""
        name = self.combination
        if name == "received":  # correct if all are received
            name = "uniform"
        elif name == "adaptive":
            name = "metropolis"
        degree = len(neighborhood.neighbors)
        unknown = np.full(1 + degree, np.nan)
        return Diffused(weights, weights, combination(name, neighborhood), unknown[:1], unknown[1:])

    @property
    def keys(self) -> tuple[float, ...]:
        """nu, and the kind of combination."""
        return self.rate, {"received": RECEIVED, "adaptive": ADAPTIVE}.get(self.combination, 0.0)

    @property
    def page(self) -> Page:
        """The functions for the chosen order."""
        if self.order == "combine_then_adapt":
            return Page(Diffused, "weights", step_last, receive_steps="other", combine=average_weights)
        return Page(Diffused, "other", average_steps, adapt, "weights")
