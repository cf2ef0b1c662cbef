"""ODKLA: the alternating direction method of multipliers on random features, linearised and online."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.neighbours import PenalizedStepping, Tolerant, differences, refuse_waiting
from kernelswarm.protocols.parameters.numpy_vectors import Page, Seen


class Linearized(NamedTuple):
    """The state of a node of the linearised method."""

    weights: Annotated[Array, "LC"]  # theta_i
    dual: Annotated[Array, "LC"]  # g_i, the sum of its edges' dual variables
    penalty: float  # rho


def multiply(keys: tuple[float, float], state: Linearized, received: Received, samples: Seen) -> Linearized:
    """Take the dual's step of the round before, by its weights, and then the weights'."""
    rho, sums = state.penalty, differences(received.last_sent, received.vectors, received.counts)
    apart = rho * sums.reshape(state.dual.shape)
    dual = state.dual + apart
    curvature = 2.0 * rho * total(received.counts) + 1.0 / samples.eta
    gradient = (state.weights - samples.stepped) / samples.eta
    return Linearized(state.weights - (gradient + dual + apart) / curvature, dual, rho)


@dataclass(frozen=True)
class Odkla(PenalizedStepping, Tolerant):
    """Linearised ADMM, one gradient a round (ODKLA: Xu, Wang, Chen and Tian, 2022; DLM: Ling et al., IEEE TSP 2015).

    ``theta_i <- theta_i - (grad_i + g_i + rho sum_j (theta_i - theta_j)) / (2 rho deg_i + 1 / eta)``, then
    ``g_i <- g_i + rho sum_j (theta_i - theta_j)`` with the new weights. QC-ODKLA, quantised and censored, is this
    protocol where ``[links]`` has ``quantization``, a ``trigger`` and ``on_missing = "repeat"``.

    Parameters
    ----------
    penalty : float or "auto"
        rho, not negative; "auto" is a twentieth of the loss's curvature, 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Whether the gradient of a quadratic loss is taken at the end of an implicit step or, as published, at the
        weights.
    tolerant : bool
        Whether duals come from sums of the weights sent where messages are lost or late, nodes sleep or edges switch;
        false adds up the messages that arrive, as published.
    as_published : bool
        The papers' explicit step, and duals of what arrives, in one key.
    every : int
        1: over rounds without messages duals would push on, and weights grow without bound.
    """

    page: ClassVar = Page(Linearized, "weights", multiply, receive_steps="weights")

    tolerant: bool = field(default=True, metadata={"as_published": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_waiting(self.every)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Linearized:
        """Return the weights, and no dual."""
        self.refuse_one_way(neighborhood)
        return Linearized(weights, np.zeros_like(weights), self.strength)
