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
    """Take the dual step of the previous round, from the weights sent then, and then the step of the weights."""
    rho, sums = state.penalty, differences(received.last_sent, received.vectors, received.counts)
    apart = rho * sums.reshape(state.dual.shape)
    dual = state.dual + apart
    curvature = 2.0 * rho * total(received.counts) + 1.0 / samples.eta
    gradient = (state.weights - samples.stepped) / samples.eta
    return Linearized(state.weights - (gradient + dual + apart) / curvature, dual, rho)


@dataclass(frozen=True)
class Odkla(PenalizedStepping, Tolerant):
    """Linearised ADMM, one gradient per round (ODKLA: Xu, Wang, Chen, Tian, 2022; DLM: Ling et al., IEEE TSP 2015).

    Each round is ``theta_i <- theta_i - (grad_i + g_i + rho sum_j (theta_i - theta_j)) / (2 rho deg_i + 1 / eta)``,
    then ``g_i <- g_i + rho sum_j (theta_i - theta_j)`` with the new weights. For QC-ODKLA, the quantised and censored
    form, set ``quantization``, a ``trigger`` and ``on_missing = "repeat"`` in ``[links]``.

    Parameters
    ----------
    penalty : float or "auto"
        rho, nonnegative; "auto" is a twentieth of the loss's curvature: 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Whether the gradient of a quadratic loss is taken at the end of an implicit step or, as published, at the
        current weights.
    tolerant : bool
        Whether dual variables are computed from sums of all sent weights if messages may be lost or late, nodes may
        sleep or edges may switch. False adds up the messages that arrive, as published.
    as_published : bool
        Whether to take the papers' explicit step, and dual variables from arriving messages.
    every : int
        Must be 1: in rounds without messages the dual variables would keep changing the weights without bound.
    """

    page: ClassVar = Page(Linearized, "weights", multiply, receive_steps="weights")

    tolerant: bool = field(default=True, metadata={"as_published": False})

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_waiting(self.every)

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Linearized:
        """Return the weights, and dual variables of 0."""
        self.refuse_one_way(neighborhood)
        return Linearized(weights, np.zeros_like(weights), self.strength)
