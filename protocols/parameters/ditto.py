"""Ditto: a common function by diffusion, and a personal function of each node near it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import PenalizedStepping, averaged, combination
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen


class Personal(NamedTuple):
    """A node's two functions."""

    weights: Annotated[Array, "LC"]  # v_i of its own function
    shared: Annotated[Array, "LC"]  # w_i of the network's
    adapted: Annotated[Array, "LC"]  # psi_i, the vector sent
    combination: Annotated[Array, "d"]  # a_ij


def adapt(keys: tuple[float, float], state: Personal, samples: Seen) -> Personal:
    """psi_i = w_i - eta grad_i(w_i)"""
    return Personal(state.weights, state.shared, samples.stepped, state.combination)


def pull(keys: tuple[float, float], state: Personal, received: Received, samples: Seen) -> Personal:
    """w_i = sum_j a_ij psi_j, and v_i <- v_i - eta (grad_i(v_i) + penalty (v_i - w_i))"""
    penalty, implicit = keys
    shared, part = averaged(state.adapted, received, state.combination), samples.eta * penalty
    if implicit:
        own = (samples.stepped + part * shared) / (1.0 + part)
    else:
        own = samples.stepped - part * (state.weights - state.shared)
    return Personal(own, shared, state.adapted, state.combination)


@dataclass(frozen=True)
class Ditto(PenalizedStepping):
    """A common function by diffusion, and a personal function of each node near it (Ditto: Li et al., ICML 2021).

    The common weights w_i take an adapt-then-combine step with Metropolis weights, which replaces the paper's server.
    The personal weights v_i minimise ``E l_i(v) + penalty/2 ||v - w_i||^2`` by steps on the same samples, and define
    the node's function (Li, Hu, Beirami and Smith).

    Parameters
    ----------
    penalty : float or "auto"
        The strength of the pull to the common function, nonnegative; with 0 the nodes are isolated. "auto" is a
        twentieth of the loss's curvature: 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Whether the pull, and a quadratic loss, are evaluated at the new function ("implicit") or, as published, at the
        old function. The implicit pull is towards the common function after its step of the round; the published pull
        is towards the common function before that step.
    as_published : bool
        Whether to take the paper's explicit step; overrides ``step``.
    every : int
        The number of rounds from one message to the next, at least 1. Nodes learn alone in the rounds between.
    """

    page: ClassVar = Page(Personal, "adapted", pull, adapt, "shared", "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Personal:
        """Return the initial state: both functions have the same weights."""
        return Personal(weights, weights, weights, combination("metropolis", neighborhood))
