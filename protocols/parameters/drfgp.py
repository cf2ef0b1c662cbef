"""DRFGP: a Gaussian process on random features; neighbours average the sums of each round's samples."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import Information, Received
from kernelswarm.protocols.parameters.diffusion_rls import conclude, learn_from_predictions
from kernelswarm.protocols.parameters.least_squares import ROWS, add, empty
from kernelswarm.protocols.parameters.neighbours import averaged, combination, waits
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors, Page, Seen
from kernelswarm.ranges import FORGETTING, Range
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True


class Informed(NamedTuple):
    """The state of a node of DRFGP."""

    weights: Annotated[Array, "LC"]  # theta_i
    moving: Annotated[Array, "n"]  # (K M,) the sums of the last K rounds, averaged 0 to K - 1 times so far
    settled: Annotated[Array, "M"]  # the sums of all earlier rounds
    noise: Annotated[Array, "3C"]  # the estimate of the noise's variance
    combination: Annotated[Array, "d"]  # a_ij


def see(keys: tuple[float, float, float], state: Informed, samples: Seen) -> Informed:
    """Add the samples to the sums since the last message."""
    _, forgetting, _ = keys
    learn_from_predictions(state.weights.reshape(-1), samples.features, samples.targets, forgetting, state.noise)
    add(state.moving[: len(state.settled)], samples.features, samples.targets, 1.0)
    return state


def average_once_more(keys: tuple[float, float, float], state: Informed, received: Received, samples: Seen) -> Informed:
    """Average the sums in the messages once more, add the finished sums to the settled ones, and solve.

    Afterwards the newest sums are 0, because the next round's samples are not known yet.
    """
    ridge, forgetting, every = keys
    if waits(every, received.counts):
        return state
    mean, size = averaged(state.moving, received, state.combination), len(state.settled)
    oldest = len(mean) - size
    left = forgetting if mean[size - 1] > 0.0 else 1.0  # nothing is forgotten after the end of the data
    settled = left * state.settled + forgetting ** (oldest // size) * mean[oldest:]
    moving = np.concatenate((np.zeros(size), mean[:oldest]))
    conclude(together(moving, forgetting, settled), ridge, samples.lambdas, state.weights.reshape(-1))
    return Informed(state.weights, moving, settled, state.noise, state.combination)


@dataclass(frozen=True)
class Drfgp(NumpyVectors):
    """A Gaussian process on random features; each round's information is averaged K times and then added up.

    DRFGP in the information form (Llorente, Waxman and Djuric, Decentralized online ensembles of Gaussian processes,
    2025). With the features Z_i of the round's samples, noise of the variance s^2, V nodes, Metropolis weights a_ij and
    K ``exchanges``,

        P_i = Z_i' Z_i      s_i = Z_i' y_i      each averaged K times:  P_i <- sum_j a_ij P_j
        D_i <- D_i + V P_i / s^2      e_i <- e_i + V s_i / s^2      theta_i = inv(D_i) e_i

    The prior is D_i = I, plus the learner's lambda as in `diffusion_rls`. There D_i itself is averaged, so that samples
    keep spreading through the network; ``ridge`` is s^2 / V in both. The K exchanges of a round's sums take K rounds: a
    message contains the sums of the last K rounds, each of which is averaged once more. Unfinished averages are used
    too. A message has K (L (L + 1) / 2 + L C + 1) numbers.

    Parameters
    ----------
    exchanges : int
        K, at least 1: a node learns from nodes at most K edges away.
    ridge : float
        The variance of the targets' noise in units of the prior's variance, divided by the number of nodes; above 0.
    forgetting : float
        The forgetting factor of earlier samples per round, in (0, 1]; take a value below 1 if targets drift.
    every : int
        The number of rounds from one message to the next, at least 1. In the rounds between, functions do not change,
        and samples accumulate.
    """

    page: ClassVar = Page(Informed, "moving", average_once_more, see)

    exchanges: int = 1
    ridge: float = 0.1
    forgetting: float = 1.0

    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False
    tuned_by: ClassVar[tuple[str, ...]] = ("ridge",)

    ranges: ClassVar = {
        "exchanges": Range("[1, inf)", "more reach nodes farther away"),
        "ridge": Range("(0, inf)"),
        "forgetting": FORGETTING,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every > 1 and self.forgetting < 1.0:
            raise RefusedKey(
                "every", f"= {self.every!r} leaves rounds in which nothing is forgotten: set forgetting = 1"
            )

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Informed:
        """Return the weights, and sums over no samples."""
        nothing = empty(*weights.shape)
        moving = np.zeros(self.exchanges * len(nothing))
        noise = np.zeros((ROWS, weights.shape[1]))
        return Informed(weights, moving, nothing, noise, combination("metropolis", neighborhood))

    @property
    def keys(self) -> tuple[float, float, float]:
        """The ridge, the forgetting factor, and the number of rounds between messages."""
        return self.ridge, self.forgetting, float(self.every)

    def information(self, state: Informed) -> Information:
        """Return all sums, including unfinished averages, and the estimate of the noise."""
        return Information(together(state.moving, self.forgetting, state.settled), self.ridge, state.noise)


@cached_njit
def together(moving: ReadOnly, forgetting: float, settled: ReadOnly) -> Array:
    """Return the total (M,) of the settled and the unfinished sums."""
    size, share = len(settled), 1.0
    sums = settled.copy()
    for begin in range(size, len(moving), size):
        for k in range(size):
            sums[k] += share * moving[begin + k]
        share *= forgetting
    return sums
