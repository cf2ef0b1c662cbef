"""Ditto: a function of the network by diffusion, and one of each node beside it."""

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

    page: ClassVar = Page(Personal, "adapted", pull, adapt, "shared", "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Personal:
        """Return both functions as they begin."""
        return Personal(weights, weights, weights, combination("metropolis", neighborhood))
