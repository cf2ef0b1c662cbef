"""ODKLA: the alternating direction method of multipliers on random features, linearised and online."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.states.compiled import CompiledPhase, CompiledStateRule, from_weights
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.mixing import differences
from kernelswarm.protocols.states.penalties import PenalizedStepping

Array = npt.NDArray[np.float64]
LONG_LOOPS = True


class Linearized(NamedTuple):
    """What a node of the linearised method knows."""

    weights: Array  # (L, C)
    dual: Array  # (L, C) the sum of its edges' dual variables
    penalty: float  # rho


@dataclass(frozen=True)
class Odkla(PenalizedStepping):
    """Linearised ADMM, one gradient a round (ODKLA: Xu, Wang, Chen and Tian, 2022; DLM: Ling et al., IEEE TSP 2015).

    ``theta_i <- theta_i - (grad_i + g_i + rho sum_j (theta_i - theta_j)) / (2 rho deg_i + 1 / eta)``, then
    ``g_i <- g_i + rho sum_j (theta_i - theta_j)`` with the new weights. QC-ODKLA, quantised and censored, is this
    protocol where ``[links]`` has ``quantization``, a ``trigger`` and ``silence = "last"``.

    Parameters
    ----------
    penalty : float or "auto"
        rho, not negative; "auto" is a twentieth of the loss's curvature, 0.1 for the squared loss.
    step : {"implicit", "explicit"}
        Whether the gradient of a quadratic loss is that which an implicit step leads to, or, as published, that at the
        weights.
    as_published : bool
        The papers' explicit step in one key.
    """

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Linearized:
        """Return the weights, and no dual."""
        return Linearized(weights, np.zeros_like(weights), self.strength)

    def adapt(self, state: Linearized, samples: Samples) -> Linearized:
        """Change nothing: the step needs the neighbours' weights."""
        return state

    def say(self, state: Linearized) -> Array:
        """Return theta_i."""
        return state.weights.reshape(-1)

    def hear(self, state: Linearized, heard: Heard, samples: Samples) -> Linearized:
        """Take the dual's step of the round before, whose weights these are, and then the weights'."""
        rho, shape = state.penalty, state.weights.shape
        apart = rho * differences(heard.said, heard.vectors, heard.counts).reshape(shape)
        dual = state.dual + apart
        curvature = 2.0 * rho * total(heard.counts) + 1.0 / samples.eta
        gradient = samples.gradient(state.weights)
        return state._replace(weights=state.weights - (gradient + dual + apart) / curvature, dual=dual)

    def weights(self, state: Linearized) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledStateRule:
        """What the protocol hands over to compiled rounds."""
        return CompiledStateRule(CompiledPhase(_multiply, from_weights), "weights", np.zeros(0))


@jitted
def _multiply(
    numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Take both steps; the state is the weights (L C,), the dual (L C,) and rho."""
    size = len(weights)
    rho = state[2 * size]
    apart = differences(said, vectors, counts)
    curvature = 2.0 * rho * total(counts) + 1.0 / eta
    for k in range(size):
        apart[k] *= rho
        state[size + k] += apart[k]
        gradient = (state[k] - weights[k]) / eta
        state[k] -= (gradient + state[size + k] + apart[k]) / curvature
