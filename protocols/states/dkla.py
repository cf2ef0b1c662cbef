"""DKLA: least squares on random features by the alternating direction method of multipliers, and COKE."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.least_squares import Moments, add, empty, solve
from kernelswarm.protocols.states.mixing import differences
from kernelswarm.protocols.states.penalties import Penalized
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]


class Split(NamedTuple):
    """What a node of DKLA knows."""

    weights: Array  # (L, C)
    dual: Array  # (L, C) gamma_i
    moments: Moments  # of all its samples
    penalty: float  # rho


@dataclass(frozen=True)
class Dkla(Penalized):
    """Each node solves least squares on all its samples, held to its neighbours by ADMM (Xu et al., JMLR 2021, alg. 1).

    With the means over the node's n samples so far, Z its features and y its targets, and the learner's lambda,

        theta_i <- inv(2/n Z'Z + lambda I + 2 rho deg_i I) (2/n Z'y + rho sum_j (theta_i + theta_j) - gamma_i)
        gamma_i <- gamma_i + rho sum_j (theta_i - theta_j)

    The paper has all samples from the start, as here once the data is used up: ``stream.epochs`` adds iterations. COKE
    is this protocol where ``[links]`` has ``trigger = { threshold = v, decay = mu }`` and ``silence = "last"``: both
    ends then take the weights that were sent last.

    Parameters
    ----------
    penalty : float or "auto"
        rho, not negative; "auto" is 0.1.
    forgetting : float
        What each round leaves of the samples before it, above 0, at most 1: below 1 where targets drift.
    """

    forgetting: float = 1.0

    step: ClassVar[Step] = "implicit"
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.forgetting <= 1.0:
            raise RefusedKey(
                "forgetting", f"= {self.forgetting!r} must be above 0 and at most 1, which forgets nothing"
            )

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Split:
        """Return the weights, no dual and no samples."""
        rho = self.strength
        return Split(weights, np.zeros_like(weights), empty(*weights.shape), rho)

    def adapt(self, state: Split, samples: Samples) -> Split:
        """Take the samples into the sums."""
        return state._replace(moments=add(state.moments, samples.features, samples.targets, self.forgetting))

    def say(self, state: Split) -> Array:
        """Return theta_i."""
        return state.weights.reshape(-1)

    def hear(self, state: Split, heard: Heard, samples: Samples) -> Split:
        """Take the dual's step of the round before, whose weights these are, and then solve for the new ones."""
        rho, shape, near = state.penalty, state.weights.shape, float(np.sum(heard.counts))
        said = heard.said.reshape(shape)
        apart = rho * differences(heard.said, heard.vectors, heard.counts).reshape(shape)
        dual = state.dual + apart
        count = max(float(state.moments.samples), 1.0)
        # rho sum_j (said_i + theta_j) = 2 rho deg said_i - rho sum_j (said_i - theta_j)
        right = 2.0 / count * state.moments.products + (2.0 * rho * near * said - apart) - dual
        ridge = np.full(len(right), 2.0 * rho * near)
        ridge[: samples.regularized] += samples.regularization
        return state._replace(weights=solve(2.0 / count * state.moments.gram, ridge, right), dual=dual)

    def weights(self, state: Split) -> Array:
        """Return theta_i."""
        return state.weights
