"""DRFGP: a Gaussian process on random features, of which neighbours average what each round's samples tell."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import (
    CompiledParameterRule,
    CompiledPhase,
    Information,
    PhaseArguments,
    Received,
    Samples,
    Vectors,
)
from kernelswarm.protocols.parameters.diffusion_rls import conclude, learn_from_predictions
from kernelswarm.protocols.parameters.least_squares import ROWS, add, empty
from kernelswarm.protocols.parameters.neighbours import average, combination, waits
from kernelswarm.ranges import FORGETTING, Range
from kernelswarm.refused_key import RefusedKey

LONG_LOOPS = True


class Informed(NamedTuple):
    """The state of a node of DRFGP."""

    weights: Array  # (L, C)
    moving: Array  # (K, M) the sums of the last K rounds, averaged 0 to K - 1 times so far
    settled: Array  # (M,) those of all rounds before
    noise: Array  # (3, C) the estimate of the noise's variance
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
    rounds: a message holds the sums of the last K of them, each averaged once more, and unfinished averages count
    too. It has K (L (L + 1) / 2 + L C + 1) numbers.

    Parameters
    ----------
    exchanges : int
        K, at least 1: a node learns from nodes at most K edges away.
    ridge : float
        The variance of the targets' noise in units of the prior's, over the number of nodes; above 0.
    forgetting : float
        The factor of earlier samples in each round, above 0, at most 1: below 1 where targets drift.
    every : int
        The rounds from one message to the next, at least 1; in those between functions stay, and samples add up.
    """

    exchanges: int = 1
    ridge: float = 0.1
    forgetting: float = 1.0

    step: ClassVar[Step] = "implicit"
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
        """Return the weights, and no samples."""
        nothing = empty(*weights.shape)
        moving = np.zeros((self.exchanges, len(nothing)))
        noise = np.zeros((ROWS, weights.shape[1]))
        return Informed(weights, moving, nothing, noise, combination("metropolis", neighborhood))

    def adapt(self, state: Informed, samples: Samples) -> Informed:
        """Add the sums of the samples to those since the last message."""
        moving, noise = state.moving.copy(), state.noise.copy()
        learn_from_predictions(state.weights.reshape(-1), samples.features, samples.targets, self.forgetting, noise)
        add(moving[0], samples.features, samples.targets, 1.0)
        return state._replace(moving=moving, noise=noise)

    def send(self, state: Informed) -> Array:
        """Return the sums of the last K rounds, (K M,)."""
        return state.moving.reshape(-1)

    def receive(self, state: Informed, received: Received, samples: Samples) -> Informed:
        """Average each message's sums once more, add up the finished ones, and solve."""
        if waits(self.every, received.counts):
            return state
        moving, settled, weights = state.moving.copy(), state.settled.copy(), np.empty(state.weights.shape)
        move(moving.reshape(-1), received.vectors, state.combination, received.counts, self.forgetting, settled)
        gather(moving.reshape(-1), self.forgetting, settled, self.ridge, samples.lambdas, weights.reshape(-1))
        return state._replace(weights=weights, moving=moving, settled=settled)

    def weights(self, state: Informed) -> Array:
        """Return theta_i."""
        return state.weights

    def information(self, state: Informed) -> Information:
        """Return all sums, unfinished ones included, and the estimate of the noise."""
        return Information(together(state.moving.reshape(-1), self.forgetting, state.settled), self.ridge, state.noise)

    @property
    def compiled(self) -> CompiledParameterRule:
        """The protocol's functions and numbers for compiled rounds."""
        receive, adapt = CompiledPhase(_receive), CompiledPhase(_see)
        numbers = np.array([self.exchanges, self.ridge, self.forgetting, self.every], dtype=np.float64)
        return CompiledParameterRule(receive, "moving", numbers, adapt)


@cached_njit
def _see(given: PhaseArguments) -> None:
    """Add the samples' sums; the state is weights (L C,), moving sums (K M,), settled ones, noise (3 C,), a_ij."""
    state, targets = given.state, given.targets
    count, outputs = len(given.lambdas), targets.shape[1]
    begin = count * outputs
    size = count * (count + 1) // 2 + count * outputs + 1
    end = begin + (int(given.numbers[0]) + 1) * size
    noise = state[end : end + ROWS * outputs].reshape(ROWS, outputs)
    learn_from_predictions(state[:begin], given.features, targets, given.numbers[2], noise)
    add(state[begin : begin + size], given.features, targets, 1.0)


@cached_njit
def _receive(given: PhaseArguments) -> None:
    """Average the sums, add up the finished ones, and solve."""
    numbers, state, vectors = given.numbers, given.state, given.vectors
    if waits(numbers[3], given.counts):
        return
    size, (degree, width) = len(given.weights), vectors.shape
    end = len(state) - degree - ROWS * given.targets.shape[1]
    moving, settled = state[size : size + width], state[size + width : end]
    move(moving, vectors, state[len(state) - degree :], given.counts, numbers[2], settled)
    gather(moving, numbers[2], settled, numbers[1], given.lambdas, state[:size])


@cached_njit
def move(
    moving: Array, vectors: ReadOnly, combination: Array, counts: ReadOnly, forgetting: float, settled: Array
) -> None:
    """Average the sums of the last K rounds (K M,) once more, and add the oldest to those that are settled (M,).

    The newest are 0 then: no samples of the round to come are known.
    """
    size = len(settled)
    mean = average(moving, vectors, combination, counts)
    oldest = len(mean) - size
    left = forgetting if mean[size - 1] > 0.0 else 1.0  # after the end of the data nothing is forgotten
    share = forgetting ** (oldest // size)
    for k in range(size):
        settled[k] = left * settled[k] + share * mean[oldest + k]
        moving[k] = 0.0
    for k in range(oldest):
        moving[size + k] = mean[k]


@cached_njit
def gather(
    moving: ReadOnly, forgetting: float, settled: ReadOnly, ridge: float, lambdas: ReadOnly, weights: Array
) -> None:
    """Solve for the weights (L C,) from the settled sums and the unfinished ones."""
    conclude(together(moving, forgetting, settled), ridge, lambdas, weights)


@cached_njit
def together(moving: ReadOnly, forgetting: float, settled: ReadOnly) -> Array:
    """Return the sum (M,) of the settled sums and the unfinished ones."""
    size, share = len(settled), 1.0
    sums = settled.copy()
    for begin in range(size, len(moving), size):
        for k in range(size):
            sums[k] += share * moving[begin + k]
        share *= forgetting
    return sums
