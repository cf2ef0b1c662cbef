"""Gradient tracking: neighbours average their weights and their estimates of the network's gradient."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.states.compiled import CompiledPhase, CompiledStateRule, from_weights
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.mixing import average, average_in, combination
from kernelswarm.protocols.states.penalties import Stepping

Array = npt.NDArray[np.float64]


class Tracked(NamedTuple):
    """What a node that tracks the gradient knows."""

    weights: Array  # (L, C)
    tracker: Array  # (L, C) its estimate of the mean gradient of all nodes
    gradient: Array  # (L, C) its own gradient, of its last samples
    following: Array  # (2, L, C) what it sends: the weights after its step, and the tracker
    combination: Array  # (deg,) a_ij


@dataclass(frozen=True)
class GradientTracking(Stepping):
    """Neighbours average weights and gradient trackers (Di Lorenzo and Scutari, IEEE TSIPN 2016; Pu and Nedic, 2021).

    With Metropolis weights a_ij, ``theta_i <- sum_j a_ij (theta_j - eta d_j)`` and ``d_i <- sum_j a_ij d_j + grad_i -
    grad_i'``, where grad_i is the gradient at the new weights on the new samples, and grad_i' that of the round before.
    The mean of all d_i is that of all grad_i, so that nodes with data of their own are not pulled back to their own.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether the gradients of a quadratic loss are those that implicit steps lead to, or, as published, those at the
        weights.
    as_published : bool
        The papers' explicit step in one key.
    """

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Tracked:
        """Return the weights, and a tracker that knows nothing."""
        nothing = np.zeros_like(weights)
        return Tracked(weights, nothing, nothing, np.stack([weights, nothing]), combination("metropolis", neighborhood))

    def adapt(self, state: Tracked, samples: Samples) -> Tracked:
        """Take the gradient on the samples into the tracker, and step along it."""
        gradient = samples.gradient(state.weights)
        tracker = state.tracker + (gradient - state.gradient)
        following = np.stack([state.weights - samples.eta * tracker, tracker])
        return state._replace(tracker=tracker, gradient=gradient, following=following)

    def say(self, state: Tracked) -> Array:
        """Return the weights after the step, and the tracker behind them, (2 L C,)."""
        return state.following.reshape(-1)

    def hear(self, state: Tracked, heard: Heard, samples: Samples) -> Tracked:
        """Average both."""
        mean = average(state.following.reshape(-1), heard.vectors, state.combination, heard.counts)
        weights, tracker = mean.reshape(state.following.shape)
        return state._replace(weights=weights.copy(), tracker=tracker.copy())

    def weights(self, state: Tracked) -> Array:
        """Return theta_i."""
        return state.weights

    @property
    def compiled(self) -> CompiledStateRule:
        """What the protocol hands over to compiled rounds."""
        return CompiledStateRule(CompiledPhase(_mix), "following", np.zeros(0), CompiledPhase(_track, from_weights))


# The vector of a node's state: weights, tracker, gradient, and what it sends, 5 L C numbers; then a_ij.


@jitted
def _track(
    numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array
) -> None:
    """Take the gradient into the tracker, and step along it."""
    size = len(weights)
    for k in range(size):
        gradient = (state[k] - weights[k]) / eta
        state[size + k] += gradient - state[2 * size + k]
        state[2 * size + k] = gradient
        state[3 * size + k] = state[k] - eta * state[size + k]
        state[4 * size + k] = state[size + k]


@jitted
def _mix(numbers: Array, state: Array, said: Array, vectors: Array, counts: Array, eta: float, weights: Array) -> None:
    """Average both."""
    size = len(weights)
    own, combined = state[3 * size : 5 * size], state[5 * size : 5 * size + len(vectors)]
    average_in(own, vectors, combined, counts, state[: 2 * size])
