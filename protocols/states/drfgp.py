"""DRFGP: a Gaussian process on random features, of which neighbours average what each round's samples tell."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.states.contract import Heard, Samples, Vectors
from kernelswarm.protocols.states.least_squares import add, empty, packed, solve, unpacked
from kernelswarm.protocols.states.mixing import average, combination
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]


class Informed(NamedTuple):
    """What a node of DRFGP knows; sums as `least_squares.packed` writes them."""

    weights: Array  # (L, C)
    moving: Array  # (K, M) the sums of the last K rounds, averaged 0 to K - 1 times so far
    settled: Array  # (M,) those of all rounds before
    combination: Array  # (deg,) a_ij


@dataclass(frozen=True)
class Drfgp(Vectors):
    """A Gaussian process on random features: each round's information is averaged some times, and then added up.

    DRFGP in the information form (Llorente, Waxman and Djuric, Decentralized online ensembles of Gaussian processes,
    2025). With the features Z_i of the round's samples, noise of the variance s^2, V nodes, Metropolis weights a_ij and
    K ``exchanges``,

        P_i = Z_i' Z_i      s_i = Z_i' y_i      each averaged K times:  P_i <- sum_j a_ij P_j
        D_i <- D_i + V P_i / s^2      e_i <- e_i + V s_i / s^2      theta_i = inv(D_i) e_i

    from the prior D_i = I, to which the learner's lambda is added as in `diffusion_rls`: there D_i itself is averaged,
    so that samples go on spreading, and ``ridge`` is s^2 / V in both. The exchanges of a round are spread over K
    rounds: a message holds the sums of the last K of them, each averaged once more, and sums that are not yet through
    count as they are. It has K (L (L + 1) / 2 + L C + 1) numbers.

    Parameters
    ----------
    exchanges : int
        K, at least 1: a node learns from those that are at most so many edges away.
    ridge : float
        The variance of the targets' noise in units of the prior's, over the number of nodes; above 0.
    forgetting : float
        What each round leaves of the samples before it, above 0, at most 1: below 1 where targets drift.
    """

    exchanges: int = 1
    ridge: float = 0.1
    forgetting: float = 1.0

    step: ClassVar[Step] = "implicit"
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.exchanges < 1:
            raise RefusedKey("exchanges", f"= {self.exchanges!r} must be at least 1: more reach nodes farther away")
        if not 0.0 < self.ridge < float("inf"):
            raise RefusedKey("ridge", f"= {self.ridge!r} must be above 0")
        if not 0.0 < self.forgetting <= 1.0:
            raise RefusedKey(
                "forgetting", f"= {self.forgetting!r} must be above 0 and at most 1, which forgets nothing"
            )

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Informed:
        """Return the weights, and no samples."""
        nothing = packed(empty(*weights.shape))
        moving = np.zeros((self.exchanges, len(nothing)))
        return Informed(weights, moving, nothing, combination("metropolis", neighborhood))

    def adapt(self, state: Informed, samples: Samples) -> Informed:
        """Take the sums of the samples along with those that are on their way."""
        moving = state.moving.copy()
        moving[0] = packed(add(empty(*state.weights.shape), samples.features, samples.targets, 1.0))
        return state._replace(moving=moving)

    def say(self, state: Informed) -> Array:
        """Return the sums of the last K rounds, (K M,)."""
        return state.moving.reshape(-1)

    def hear(self, state: Informed, heard: Heard, samples: Samples) -> Informed:
        """Average each round's sums once more, settle those that are through, and solve."""
        mean = average(state.moving.reshape(-1), heard.vectors, state.combination, heard.counts)
        averaged = mean.reshape(state.moving.shape)
        ages = self.forgetting ** np.arange(float(self.exchanges))
        left = self.forgetting if averaged[0, -1] > 0.0 else 1.0  # where the data has ended nothing is forgotten
        settled = left * state.settled + ages[-1] * averaged[-1]
        moments = unpacked(settled + ages[:-1] @ averaged[:-1], *state.weights.shape)
        ridge = np.full(len(moments.gram), self.ridge)
        ridge[: samples.regularized] += 0.5 * max(moments.samples, 0.0) * samples.regularization
        moving = np.zeros_like(averaged)
        moving[1:] = averaged[:-1]
        weights = solve(moments.gram, ridge, moments.products)
        return state._replace(weights=weights, moving=moving, settled=settled)

    def weights(self, state: Informed) -> Array:
        """Return theta_i."""
        return state.weights
